"""The scalar kernels are plain Python that Numba compiles, and give the same bits either way."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from cases import adaptive_pairings, kernel_pairings
from waiting import HANG

import integrators

SCRIPT = """
import sys, warnings
warnings.simplefilter("ignore")
import numba, numpy as np
assert numba.config.DISABLE_JIT
from cases import adaptive_pairings, kernel_pairings
result = {}
for pairing in kernel_pairings():
    assert pairing.problem.advance.scalar is pairing.problem.advance.function
    batch = pairing.batch([pairing.case.state], steps=2, samples=3)
    for part in ("states", "statistics", "report"):
        result[f"{pairing} {part}"] = getattr(batch, part)
for pairing in adaptive_pairings():
    run = pairing.run(1e-3, samples=3, scales=0.1)
    for part in ("states", "statistics", "report", "step_sizes"):
        result[f"{pairing} {part}"] = getattr(run, part)
np.savez(sys.argv[1], **result)
"""


def test_compiled_kernels_equal_plain_python(tmp_path):
    paths = [Path(integrators.__file__).parents[1], Path(sys.modules["cases"].__file__).parent]
    environment = os.environ | {
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
    }
    file = tmp_path / "plain.npz"
    command = [sys.executable, "-P", "-c", SCRIPT, file]
    subprocess.run(command, env=environment, check=True, timeout=HANG)
    plain = np.load(file)
    assert len(plain.files) == 3 * len(kernel_pairings()) + 4 * len(adaptive_pairings())
    for pairing in kernel_pairings():
        compiled = pairing.batch([pairing.case.state], steps=2, samples=3)
        for part in ("states", "statistics", "report"):
            name = f"{pairing} {part}"
            np.testing.assert_array_equal(getattr(compiled, part), plain[name], err_msg=name)
    for pairing in adaptive_pairings():
        run = pairing.run(1e-3, samples=3, scales=0.1)
        for part in ("states", "statistics", "report", "step_sizes"):
            name = f"{pairing} {part}"
            np.testing.assert_array_equal(getattr(run, part), plain[name], err_msg=name)
