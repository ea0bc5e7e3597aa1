"""Experiments are planned in a thread: runs begin meanwhile, and nothing waits for it."""

import threading
import time

import pytest
from waiting import HANG

import sweep
from integrators.errors import InputError
from sweep.campaign import coordinator, planner, planning

STUDY = """\
format = 1
name = "two"

[defaults]
integrators = ["rk4"]
step_size = 0.1
initial_condition = "lee"
duration = 1.0
samples = 2

[[experiment]]
name = "first"
system = "spherical_pendulum_chain"

[[experiment]]
name = "second"
system = "nbody_sphere"
"""


class Notes(coordinator.Watcher):
    """Notes what was told, in which order; `committed` is set by the first task that is done."""

    def __init__(self):
        self.told, self.committed = [], threading.Event()

    def preparing(self, now):
        self.told.append(f"preparing {now.what}")

    def planned(self, plans, tasks, workers):
        self.told.append(f"planned {[plan.entry.name for plan in plans]}, {tasks} tasks")

    def began(self, runs, seconds):
        self.told.append(f"began {runs}")

    def progressed(self, task, receipt):
        self.told.append(f"committed {task.experiment}")
        self.committed.set()


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "two.toml"
    path.write_text(STUDY)
    return path


@pytest.fixture
def second_plan(monkeypatch):
    """Set a function that is called before the second experiment is planned."""
    plan, called = planning.plan_experiment, {}

    def planned(entry, *arguments, **options):
        if entry.name == "second":
            called["before"]()
        return plan(entry, *arguments, **options)

    monkeypatch.setattr(planning, "plan_experiment", planned)
    monkeypatch.setattr(planner, "PATIENCE", 0.0)
    return called


def test_runs_begin_while_others_are_planned(study, tmp_path, cluster, second_plan):
    watcher, found = Notes(), []
    second_plan["before"] = lambda: found.append(watcher.committed.wait(HANG))
    outcome = sweep.run(study, tmp_path / "two.zarr", cluster, watcher=watcher)
    assert found == [True] and outcome.complete
    assert watcher.told == [
        "preparing rk4 on spherical_pendulum_chain",
        "began 2",
        "committed first",
        "preparing rk4 on nbody_sphere",
        "planned ['first', 'second'], 2 tasks",
        "committed second",
    ]


def test_all_is_planned_first_where_that_is_not_long(study, tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(planner, "PATIENCE", HANG)
    watcher = Notes()
    assert sweep.run(study, tmp_path / "two.zarr", cluster, watcher=watcher).complete
    assert watcher.told[2] == "planned ['first', 'second'], 2 tasks"


def test_what_compiles_is_not_waited_for_at_the_end(study, tmp_path, cluster, second_plan):
    """A kernel takes seconds, in which its thread hears of nothing."""
    over = threading.Event()
    second_plan["before"] = lambda: over.wait(HANG)
    began = time.monotonic()
    outcome = sweep.run(study, tmp_path / "two.zarr", cluster, max_time=3.0)
    assert time.monotonic() - began < HANG / 3
    assert not outcome.complete and [tally.done for tally in outcome.tallies] == [1, 0]
    assert planner.is_planning()
    over.set()
    planner.wait_for_planners()
    assert not planner.is_planning()
    assert sweep.run(study, tmp_path / "two.zarr", cluster).complete


def test_what_cannot_be_planned_ends_the_run(study, tmp_path, cluster, second_plan):
    def refuse():
        raise InputError("no step meets the tolerance")

    second_plan["before"] = refuse
    with pytest.raises(InputError, match="no step meets the tolerance"):
        sweep.run(study, tmp_path / "two.zarr", cluster)
    assert not planner.is_planning()
