"""Experiments are planned in a thread: runs begin meanwhile, and nothing waits for it."""

import threading

import pytest
from own_signals import sigterm_when
from study_runs import write
from waiting import HANG

import sweep
from integrators.compiler.kernels import Kernel

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


@pytest.fixture
def stuck(monkeypatch):
    """An event that the kernels of the second experiment wait for, where a thread plans it."""
    released, compiled = threading.Event(), Kernel.compiled

    def slowly(kernel, element):
        if "nbody" in kernel.label and threading.current_thread() is not threading.main_thread():
            released.wait(HANG)
        return compiled(kernel, element)

    monkeypatch.setattr(Kernel, "compiled", slowly)
    yield released
    released.set()


@pytest.mark.slow
def test_runs_begin_while_others_are_planned_and_a_signal_waits_for_none(
    stuck, tmp_path, cluster, committed
):
    """A kernel takes seconds to compile, in which its thread hears of nothing."""
    study, store = write(STUDY, tmp_path), tmp_path / "two.zarr"
    with sigterm_when(lambda: committed(store, "first")):
        outcome = sweep.run(study, store, cluster)
    assert outcome.stopped == "SIGTERM" and not stuck.is_set()
    assert [row.done for row in sweep.status(store)] == [1, 0]
    stuck.set()
    assert sweep.run(study, store, cluster).complete
