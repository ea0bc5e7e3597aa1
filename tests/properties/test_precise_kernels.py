"""Kernels on precise numbers: what they are given, and their own constants, have all digits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import precise_kernels
import pytest
from waiting import HANG

import integrators

# Where partners are that fill up a block; far, and exact as it stands.
FAR = ["lennard_jones_sphere"]


@pytest.mark.parametrize(
    ("given", "lost", "count"), [(["1"], [], 1), pytest.param([], FAR, 3, marks=pytest.mark.slow)]
)
def test_steps_in_plain_python_come_to_the_reference_states(given, lost, count):
    command = [sys.executable, precise_kernels.__file__, *given]
    environment = os.environ | {
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONPATH": str(Path(integrators.__file__).parents[1]),
    }
    run = subprocess.run(command, env=environment, check=True, timeout=HANG, capture_output=True)
    found = json.loads(run.stdout)
    assert found.pop("lost") == lost
    assert len(found) == count
    assert max(found.values()) < 1e-24
