"""A study that uses all of format 1, its smaller kin, and what is made of the text of a study."""

import contextlib
import tempfile
from pathlib import Path

import pytest

import sweep
from sweep import errors

FULL = """\
format = 1
name = "double-pendulum"
description = "Order and drift on Example 1 of Lee, Leok and McClamroch"
plugins = []

[defaults]                              # for every experiment that does not say otherwise
record = ["energy", "momentum", "unit_length", "tangency"]
statistics = "every_step"

[[experiment]]
name = "order"                          # the group in the store
system = "spherical_pendulum_chain"
parameters = { count = 2, mass = [1.0, 1.0] }
scan = { gravity = [1.0, 9.81] }
integrators = [
    "variational", "variational+suzuki4",
    { name = "variational", solver_tolerance = 1e-8, label = "loose solver" },
    { name = "rk4", formulation = "q_qdot", step_size = [0.02, 0.01] },   # overrides the axis
]
step_size = { start = 0.1, stop = 1e-3, count = 9, spacing = "log" }
initial_condition = [
    "lee",
    { around = "lee", random = 64, spread = 1e-3, seed = 7 },
    { q = [[0.8660, 0.0, 0.5], [0.0, 0.0, 1.0]], omega = [
        [0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0],
    ], normalize = true },
]
duration = 10.0
samples = 100
reference = { integrator = "dop853", tolerance = 2.3e-14, until = 10.0 }
exclude = [{ integrator = "rk4", step_size = ">= 0.02" }]

[[experiment]]
name = "nbody"
system = "nbody_sphere"
integrators = "rk4"
step_size = 0.1
initial_condition = { random = 3, seed = 1 }
duration = 1
samples = 5
record = ["energy", "state"]
statistics = "none"
"""

# 136 runs in 17 chunks of about 0.2 s, a few of which make a task.
LONG = """\
format = 1
name = "long"

[[experiment]]
name = "pendulum"
system = "spherical_pendulum_chain"
integrators = ["variational", "rk4"]
step_size = 0.01
initial_condition = { around = "lee", random = 68, spread = 1e-2, seed = 1 }
duration = 2000.0
samples = 10
record = ["energy", "state"]
"""


def one_experiment(**changes):
    """Text of a study with one experiment; `changes` are keys and TOML values, None for none."""
    keys = {
        "name": '"only"',
        "system": '"spherical_pendulum_chain"',
        "integrators": '["variational", "rk4"]',
        "step_size": "[0.1, 0.05]",
        "initial_condition": '["lee", { random = 2, seed = 1 }]',
        "duration": "1.0",
        "samples": "10",
    }
    lines = [f"{key} = {value}" for key, value in (keys | changes).items() if value is not None]
    return 'format = 1\nname = "test"\n[[experiment]]\n' + "\n".join(lines) + "\n"


def problems(text, directory=None):
    """The problems that `sweep.check` finds in a study's file ``s.toml``, written to a directory.

    That is a new one unless given.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(directory or folder):
        Path("s.toml").write_text(text)
        with pytest.raises(errors.StudyError) as caught:
            sweep.check("s.toml")
    return str(caught.value).splitlines()


def study_of(text):
    """The study that a file of a text is; the file is gone."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "s.toml"
        file.write_text(text)
        return sweep.load_study(file)


def run_tables(text):
    """The runs of each experiment of a study, by the name of the experiment."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "s.toml"
        file.write_text(text)
        _, tables = sweep.check(file)
    return {table.experiment.name: table for table in tables}
