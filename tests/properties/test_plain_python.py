"""The scalar kernels are plain Python that Numba compiles, and give the same bits either way."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import THREADS, THREADS_AT_START, adaptive_pairings, kernel_pairings
from waiting import HANG

import integrators

SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numba, numpy as np
assert numba.config.DISABLE_JIT
from cases import Pairing, adaptive_pairings, pairings
chosen, result = json.load(sys.stdin), {}
for pairing in (*pairings(), *adaptive_pairings()):
    if str(pairing) not in chosen: continue
    if isinstance(pairing, Pairing):
        assert pairing.problem.advance.scalar is pairing.problem.advance.function
        run = pairing.batch([pairing.case.state], steps=1, samples=2)
    else:
        run = pairing.run(1e-3, samples=3, scales=0.1)
    for part in ("states", "statistics", "report", "step_sizes"):
        if hasattr(run, part):
            result[f"{pairing} {part}"] = getattr(run, part)
np.savez(sys.argv[1], **result)
"""


@pytest.mark.parametrize("stage", ["first", pytest.param("second", marks=pytest.mark.slow)])
def test_compiled_kernels_equal_plain_python(tmp_path, stage):
    fixed, adaptive = (
        [pairing for pairing in found if pairing.cheap == (stage == "first")]
        for found in (kernel_pairings(), adaptive_pairings())
    )
    paths = [Path(integrators.__file__).parents[1], Path(sys.modules["cases"].__file__).parent]
    given = {key: of for key, of in os.environ.items() if not key.endswith(THREADS)}
    environment = (
        given
        | THREADS_AT_START
        | {
            "NUMBA_DISABLE_JIT": "1",
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
        }
    )
    file = tmp_path / "plain.npz"
    command = [sys.executable, "-P", "-c", SCRIPT, file]
    names = json.dumps([str(pairing) for pairing in (*fixed, *adaptive)])
    subprocess.run(command, env=environment, check=True, timeout=HANG, input=names, text=True)
    plain = np.load(file)
    assert len(plain.files) == 3 * len(fixed) + 4 * len(adaptive) > 100
    runs = {str(p): p.batch([p.case.state], steps=1, samples=2) for p in fixed}
    runs |= {str(p): p.run(1e-3, samples=3, scales=0.1) for p in adaptive}
    for name in plain.files:
        pairing, _, part = name.rpartition(" ")
        found = getattr(runs[pairing], part)
        np.testing.assert_array_equal(found, plain[name], err_msg=name)
