"""Studies that Python runs: in a script without a main guard, by `python -c`, within a test.

Each is a process of its own, with workers of its own, as a user starts it.
"""

import subprocess
import sys
import textwrap

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
RUN = STUDY + "outcome = sweep.run(study, 'small.zarr', workers=1)\nprint(outcome.complete)\n"
# Whoever imports it where it is not the main module, says so.
SCRIPT = RUN + "print('began', file=open('began', 'a'))\n"
TESTED = f"def test_it():\n{textwrap.indent(RUN, '    ')}    assert outcome.complete\n"


def python(cwd, *arguments):
    """Run Python in a folder; what it prints. Whatever is wrong is on standard error."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, timeout=HANG
    )
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("how", ["script", "module", "-c", "pytest"])
def test_a_study_runs_wherever_python_runs(tmp_path, how):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "test_script.py").write_text(TESTED)
    arguments = {
        "script": ["script.py"],
        "module": ["-m", "script"],
        "-c": ["-c", RUN],
        "pytest": ["-m", "pytest", "-q", "-p", "no:cacheprovider"],
    }[how]
    printed = python(tmp_path, *arguments)
    assert printed.startswith("True\n" if how != "pytest" else ".")
    assert sweep.status(tmp_path / "small.zarr")[0].done == 2
    if how in ("script", "module"):  # the worker did not import it
        assert (tmp_path / "began").read_text() == "began\n"
