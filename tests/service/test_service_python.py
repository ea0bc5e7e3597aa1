"""Studies that Python runs: in a script without a main guard, and in a module by `python -m`.

Each is a process of its own, with workers of its own, as a user starts it. That studies run within
a test, and in a process of `python -c`, as those of xdist are, is seen by tests of local clusters.
"""

import subprocess
import sys

import pytest
from waiting import HANG

import sweep

STUDY = """
import sweep

study = sweep.Study(
    "small",
    [
        sweep.Experiment(
            name="pendulum",
            system="spherical_pendulum_chain",
            integrators=["rk4"],
            initial_condition="lee",
            step_size=[0.02, 0.01],
            duration=0.2,
            samples=2,
        )
    ],
)
"""
# Whoever imports it where it is not the main module, says so.
SCRIPT = f"""{STUDY}
outcome = sweep.run(study, 'small.zarr', workers=1)
print(outcome.complete)
print('began', file=open('began', 'a'))
"""


def python(cwd, *arguments):
    """Run Python in a folder; what it prints. Whatever is wrong is on standard error."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, timeout=HANG
    )
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["script.py"], ["-m", "script"]], ids=["script", "module"])
def test_a_study_runs_wherever_python_runs(tmp_path, arguments):
    (tmp_path / "script.py").write_text(SCRIPT)
    assert python(tmp_path, *arguments) == "True\n"
    assert sweep.status(tmp_path / "small.zarr")[0].done == 2
    assert (tmp_path / "began").read_text() == "began\n"  # the worker did not import it
