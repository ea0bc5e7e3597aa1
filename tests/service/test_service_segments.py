"""Long runs advance in segments; what is killed goes on from its last checkpoint, bit for bit."""

import dataclasses
import uuid

import numpy as np
import pytest
from study_text import one_experiment

import sweep
from sweep.campaign import planning
from sweep.campaign.worker import compute, recording, reference, run_work
from sweep.store import checkpoints, create, diff, studies
from sweep.store.commit import fold, records
from sweep.store.files import end_checkpoints_group_name, references_group_name
from sweep.store.lease import sessions
from sweep.store.store import Store

KEYS = {
    "integrators": """[
    "variational", "variational+suzuki4", { name = "rk4", formulation = "q_qdot" },
    { name = "rk45", tolerance = 1e-4 }, { name = "rkmk54", tolerance = 1e-4 },
    { name = "rk4", steps_of = "rk45", tolerance = 1e-4, label = "counted" },
]""",
    "step_size": "0.1",
    "initial_condition": '{ around = "lee", random = 3, spread = 1e-2, seed = 1 }',
    "duration": "2.0",
    "samples": "10",
    "record": '["energy", "momentum", "unit_length", "state", "step_size", "rejected_steps"]',
    "reference": '{ integrator = "dop853", tolerance = 1e-6, until = 1.0 }',
}


SESSION = sessions.Session("a_session", "", sessions.code_hash())


class Killed(BaseException):
    """What happens to a worker."""


def begun(parsed, store, every):
    """A store with its references, and the tasks of its runs."""
    entries = diff.diff_store_against_study(Store.at(store), parsed)
    plans = [planning.plan_experiment(entry) for entry in entries]
    create.create_or_grow_store(Store.at(store), parsed, entries)
    references, runs = planning.make_tasks(Store.at(store), plans, 1, every)
    session = dataclasses.replace(SESSION, name=uuid.uuid4().hex)  # with its own open arrays
    for own in (session, SESSION):
        fold.begin_session(Store.at(store), own.name)
        for task in references if own is session else ():
            compute.compute_task(task, session)
    return [dataclasses.replace(task.build(), cost=1e6) for task in runs]


def test_a_task_goes_on_from_any_checkpoint(
    cluster, tmp_path, monkeypatch, assert_same_runs, arrays
):
    """Killed after every third one, it loses nothing and computes no sample twice."""
    store, whole = tmp_path / "cut.zarr", tmp_path / "whole.zarr"
    parsed = studies.parse_study(one_experiment(**KEYS))
    made = begun(parsed, store, every=1e-9)
    put, samples = recording.Recording.checkpoint, []

    def dying(self, indices, count, state):
        put(self, indices, count, state)
        samples.append((self.rows[indices].tolist(), count))
        if len(samples) % 3 == 0:
            raise Killed

    monkeypatch.setattr(recording.Recording, "checkpoint", dying)
    deaths = 0
    for task in made:
        while True:
            try:
                compute.compute_task(task, SESSION)
                break
            except Killed:
                deaths += 1
                shown = arrays(store, "only")["sample_count"]
                assert np.all((shown == 0) | (shown == 11))
    assert deaths > 20 and len(samples) == len({str(item) for item in samples})
    assert not checkpoints_of(store)
    fold.fold_all(Store.at(store), SESSION.name)
    assert sweep.run(parsed, whole, cluster).complete
    assert_same_runs(whole, store, "only")
    ends = (
        arrays(path, end_checkpoints_group_name("only"))["checkpoint"] for path in (store, whole)
    )
    np.testing.assert_array_equal(*ends)


def checkpoints_of(store):
    """The checkpoints of a store, in the order of their names."""
    folder = records.records_folder(Store.at(store).place, "only", 0)
    return records.list_records(folder, records.CHECKPOINT)


def last_sample(store):
    """The last sample that a checkpoint of the store has; 0 without any."""
    return max((record.name.last - 1 for record in checkpoints_of(store)), default=0)


def test_checkpoints_are_few_and_have_all(tmp_path, monkeypatch):
    """As many as there are ones in their number, and together the samples from the first on."""
    store = tmp_path / "cut.zarr"
    keys = KEYS | {"integrators": '"rk4"', "duration": "4.0", "samples": "40", "reference": None}
    (task,) = begun(studies.parse_study(one_experiment(**keys)), store, 1e-9)
    put, numbers = recording.Recording.checkpoint, []

    def counted(self, indices, count, state):
        put(self, indices, count, state)
        numbers.append(count)
        spans = sorted((r.name.first, r.name.last) for r in checkpoints_of(store))
        assert len(spans) == len(numbers).bit_count()
        assert (spans[0][0], spans[-1][1]) == (0, count)
        assert all(one[1] == two[0] for one, two in zip(spans, spans[1:], strict=False))

    monkeypatch.setattr(recording.Recording, "checkpoint", counted)
    assert compute.compute_task(task, SESSION).whole
    assert len(numbers) > 7 and not checkpoints_of(store)


def test_checkpoints_of_another_study_or_code_are_ignored(tmp_path, monkeypatch):
    store = tmp_path / "cut.zarr"
    (task,) = begun(
        studies.parse_study(one_experiment(**KEYS | {"integrators": '"rk4"'})), store, 1e-9
    )
    put = recording.Recording.checkpoint

    def dying(self, *arguments):
        put(self, *arguments)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(recording.Recording, "checkpoint", dying)
        with pytest.raises(Killed):
            compute.compute_task(task, SESSION)
    assert last_sample(store) == 1

    def reached(made):
        arrays = Store.at(store).arrays_of_group("only")
        attempt = sessions.Attempt(Store.at(store), SESSION)
        work = run_work.RunWork(made, arrays, lambda batch, rows: None, attempt)
        return work.recording.checkpointed.tolist()

    assert reached(task) == [2, 2, 2]
    other = dataclasses.replace(task.recipe, statistics="none")
    assert reached(dataclasses.replace(task, recipe=other)) == [0, 0, 0]
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "checkpoint_code_hash", lambda: "another")
        assert reached(task) == [0, 0, 0]
    assert compute.compute_task(task, SESSION).runs == 3
    assert not checkpoints_of(store)


LONG = """\
format = 1
name = "far"

[[experiment]]
name = "only"
system = "spherical_pendulum_chain"
integrators = ["rk4"]
step_size = 0.01
initial_condition = "lee"
duration = 30_000.0
samples = 400
record = ["energy", "state"]
"""


def worker(group):
    """The process, other than the first one, that computed most so far."""
    others = [process for process in group.members() if process.pid != group.pid]
    return max(others, key=lambda process: sum(process.cpu_times()[:2]))


def test_a_killed_worker_costs_one_segment(tmp_path, start, until, arrays, cluster):
    (tmp_path / "far.toml").write_text(LONG)
    every = ("--checkpoint-every", "0.1", "--workers", "1", "--no-summary")
    process = start("sweep", "run", "far.toml", *every, cwd=tmp_path)
    store = tmp_path / "far.zarr"
    reached = until(lambda: last_sample(store))
    until(lambda: last_sample(store) > reached or process.poll() is not None)
    assert process.poll() is None, "it was done too soon"
    worker(process).kill()
    before = last_sample(store)
    assert 0 < before < 400 and arrays(store, "only")["sample_count"][0] == 0
    assert until(lambda: last_sample(store) - before or not checkpoints_of(store)) > 0
    out, errors = process.finish()
    assert process.returncode == 0, out + errors
    assert sweep.run(studies.parse_study(LONG), tmp_path / "whole.zarr", cluster).complete
    one, two = (arrays(tmp_path / name, "only") for name in ("far.zarr", "whole.zarr"))
    for name in ("energy", "energy_error_mean", "state", "steps", "sample_count", "status"):
        assert one[name].tobytes() == two[name].tobytes(), name


def test_references_go_on_in_segments_and_to_a_longer_duration(tmp_path, monkeypatch, arrays):
    """No sample twice; stopped between two, what is there is kept."""
    keys = KEYS | {"integrators": '"rk4"', "reference": '{ integrator = "dop853" }'}
    short, long = (
        studies.parse_study(one_experiment(**keys | {"duration": t, "samples": n}))
        for t, n in (("1.0", "5"), ("2.0", "10"))
    )
    store, at_once, starts = tmp_path / "test.zarr", tmp_path / "whole.zarr", []
    solve = reference.compute_reference_trajectory

    def counted(system, initial, times, *rest):
        if len(times) > 1:  # else it only loads what it needs
            starts.append((times[0], initial.tobytes()))
        return solve(system, initial, times, *rest)

    monkeypatch.setattr(reference, "compute_reference_trajectory", counted)
    begun(short, store, every=1e-9)
    assert len(starts) == len(set(starts)) > 3 and max(starts)[0] < 1.0
    starts.clear()
    begun(long, store, every=1e-9)
    assert min(starts)[0] == 1.0 and len(starts) == len(set(starts)) > 3
    begun(long, at_once, every=30.0)
    place = "_geosweep/references/only"
    one, two = (arrays(path, place) for path in (store, at_once))
    for name in ("states", "error", "checkpoint", "sample_count"):
        np.testing.assert_array_equal(one[name], two[name])
    assert (one["sample_count"] == 11).all()


class Stopping(sessions.Attempt):
    """An attempt that is stopped when it is asked for the second time."""

    def __init__(self, store):
        super().__init__(Store.at(store), SESSION)
        self._answers = iter([False, True])

    @property
    def is_stopped(self):
        return next(self._answers)


def test_a_task_that_is_told_to_stop_does_so_at_its_next_checkpoint(tmp_path, arrays):
    store = tmp_path / "cut.zarr"
    (task,) = begun(
        studies.parse_study(one_experiment(**KEYS | {"integrators": '"rk4"'})), store, 1e6
    )
    own = Store.at(store).arrays_of_group("only")
    known = Store.at(store).arrays_of_group(references_group_name("only"))
    work = task, own, run_work.make_reference_reader(task, known)
    status, whole = run_work.RunWork(*work, Stopping(store)).compute()
    assert len(status) == 0 and not whole and last_sample(store) == 1
    assert not (arrays(store, "only")["sample_count"] > 0).any()
    going_on = run_work.RunWork(*work, sessions.Attempt(Store.at(store), SESSION))
    status, whole = going_on.compute()
    assert len(status) == 3 and whole and not checkpoints_of(store)
    assert (arrays(store, "only")["sample_count"] == 11).all()
