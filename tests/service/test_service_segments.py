"""Long runs advance in segments; what ends between two goes on from there, bit for bit."""

import signal

import pytest
from interrupting import Process
from study_text import one_experiment
from waiting import HANG, in_turns

import sweep

ALL = """[
    "variational", "variational+suzuki4", { name = "rk4", formulation = "q_qdot" },
    { name = "rk45", tolerance = 1e-4 }, { name = "rkmk54", tolerance = 1e-4 },
    { name = "rk4", steps_of = "rk45", tolerance = 1e-4, label = "counted" },
]"""
PREPARED = """[
    { name = "rk4", steps_of = "dop853", tolerance = 1e-3 }, { name = "rk45", tolerance = 1e-3 },
]"""
MEASURED = {
    "step_size": None,
    "initial_condition": '"lee"',
    "record": '["energy", "state", "step_size", "symplectic_defect"]',
}
KEYS = {
    "step_size": "0.1",
    "initial_condition": '{ around = "lee", random = 3, spread = 1e-2, seed = 1 }',
    "duration": "2.0",
    "samples": "10",
    "record": '["energy", "momentum", "unit_length", "state", "step_size", "rejected_steps"]',
    "reference": '{ integrator = "dop853", tolerance = 1e-6, until = 1.0 }',
}
ONE = {
    "integrators": '"rk4"',
    "step_size": "0.01",
    "initial_condition": '"lee"',
    "record": '["energy", "state"]',
}
LONG = one_experiment(**ONE | {"duration": "15000.0", "samples": "200"})
RUN = "sweep.run('study.toml', 'test.zarr', client(), checkpoint_every=1e-9)"


def reached(store):
    """How many runs are computed, with the parts of those on their way."""
    return sum(row.done + row.partly for row in sweep.status(store)) if store.exists() else 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("integrators", "every", "changes"),
    [(ALL, 180, {}), (PREPARED, 120, MEASURED)],
    ids=["all", "what-is-not-steps-of-runs"],
)
def test_killed_again_and_again_it_goes_on_from_its_checkpoints(
    integrators, every, changes, tmp_path, run_text, arrays, assert_same_runs
):
    """No part of a run is lost; and until it is whole, nobody sees it."""
    text = one_experiment(integrators=integrators, **KEYS | changes)
    (tmp_path / "study.toml").write_text(text)
    store, whole = tmp_path / "test.zarr", tmp_path / "whole.zarr"
    steps = [0.0]
    while True:
        at = every - 50 * (len(steps) == 1)  # first amid a run, however tasks are divided
        with Process(RUN, tmp_path, at, signal.SIGKILL, "test.zarr") as process:
            if not process.was_interrupted():
                break
        steps.append(reached(store))
        assert steps[-1] >= steps[-2]
        count = arrays(store, "only")["sample_count"]
        assert ((count == 0) | (count == 11)).all()
    assert len(steps) > 2 and any(step % 1.0 for step in steps)
    assert run_text(text, whole).complete
    assert_same_runs(whole, store, "only")
    ends = [arrays(path, "_geosweep/ends.only")["checkpoint"] for path in (store, whole)]
    assert ends[0].tobytes() == ends[1].tobytes() and sweep.verify(store) == []


TERMINATED = """
outcome = sweep.run("study.toml", "test.zarr", client(), checkpoint_every=1e-9)
print(outcome.complete, outcome.stopped)
"""


@pytest.mark.parametrize(
    ("duration", "samples"),
    [("8.0", "800"), pytest.param("20000.0", "1", marks=pytest.mark.slow)],
    ids=["many-samples", "one-sample"],
)
def test_sigterm_ends_a_long_run_at_its_next_checkpoint(
    duration, samples, tmp_path, run_text, arrays, assert_same_runs, called
):
    """After some of the eight hundred checkpoints that it has, or within its only interval."""
    changes = {"duration": duration, "samples": samples, "record": '["energy", "reversal_error"]'}
    text = one_experiment(**ONE | changes)
    (tmp_path / "study.toml").write_text(text)
    store, whole = tmp_path / "test.zarr", tmp_path / "whole.zarr"
    process = Process(TERMINATED, tmp_path, 20, signal.SIGTERM, "test.zarr")
    printed, errors = process.communicate(timeout=HANG)
    assert process.returncode == 0 and printed == "False SIGTERM\n", printed + errors
    assert "Traceback" not in errors
    assert 0.0 < reached(store) < 1.0 and arrays(store, "only")["sample_count"] == [0]
    (told,) = sweep.status(store)
    assert told.cpu_seconds > 0.0
    planned = called(tmp_path, "plan", "study.toml", store).stdout
    assert "of what is not done is in checkpoints, and counted here as if it were not" in planned
    for path in (store, whole):
        assert run_text(text, path).complete
    assert_same_runs(whole, store, "only")


@pytest.fixture(scope="module")
def whole(run_text, tmp_path_factory):
    """The store of one long run that nothing has ended."""
    path = tmp_path_factory.mktemp("long") / "whole.zarr"
    assert run_text(LONG, path).complete
    return path


@pytest.fixture
def under_way(tmp_path, start):
    """A process that computes one long run, suspended when a part is stored; and its store."""

    def begin():
        (tmp_path / "test.toml").write_text(LONG)
        every = ("--checkpoint-every", "0.1", "--workers", "1", "--no-summary")
        run, store = (
            start("sweep", "run", "test.toml", *every, cwd=tmp_path),
            tmp_path / "test.zarr",
        )
        in_turns([run], lambda: reached(store) or run.poll() is not None)
        assert run.poll() is None, run.communicate()
        assert 0.0 < reached(store) < 1.0
        return run, store

    return begin


@pytest.mark.slow
def test_sigterm_to_all_processes_ends_a_long_run(
    under_way, whole, command, arrays, assert_same_runs
):
    run, store = under_way()
    before = reached(store)
    run.signal_all(signal.SIGTERM)
    run.signal_all(signal.SIGCONT)
    printed, errors = run.finish()
    assert run.returncode == 4 and "Traceback" not in errors, printed + errors
    assert "0 of 1 runs committed" in printed and "To go on: sweep run test.toml" in printed
    assert before <= reached(store) < 1.0 and arrays(store, "only")["sample_count"] == [0]
    command(store.parent, "run", "test.toml", "--no-summary")
    assert_same_runs(whole, store, "only")


@pytest.mark.slow
def test_a_killed_worker_costs_one_segment(under_way, whole, until, assert_same_runs):
    run, store = under_way()
    before = reached(store)
    run.busiest_worker().kill()
    run.signal_all(signal.SIGCONT)
    assert until(lambda: reached(store) - before) > 0.0
    printed, errors = run.finish()
    assert run.returncode == 0, printed + errors
    assert_same_runs(whole, store, "only")
