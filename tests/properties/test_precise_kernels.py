"""Kernels on precise numbers: what they are given, and their own constants, have all digits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import precise_kernels
from waiting import HANG

import integrators

# Where partners are that fill up a block; far, and exact as it stands.
FAR = ["lennard_jones_sphere"]


def test_steps_in_plain_python_come_to_the_reference_states():
    environment = os.environ | {
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONPATH": str(Path(integrators.__file__).parents[1]),
    }
    run = subprocess.run(
        [sys.executable, precise_kernels.__file__],
        env=environment, check=True, timeout=HANG, capture_output=True,
    )  # fmt: skip
    found = json.loads(run.stdout)
    assert found.pop("lost") == FAR
    assert len(found) == 2
    assert max(found.values()) < 1e-24
