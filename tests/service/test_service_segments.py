"""Long runs advance in segments; what is killed goes on from its last checkpoint, bit for bit."""

import dataclasses
import uuid

import numpy as np
import pytest
import zarr
from study_text import one_experiment

import sweep
from sweep.campaign import chunks, pilot, planning, reference, tasks
from sweep.store import checkpoints, create, diff, storage, studies
from sweep.store.lease import sessions
from sweep.store.lease.fencing import Attempt
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


SESSION = sessions.Session("a session", "", sessions.kernel_code_hash())


class Killed(BaseException):
    """What happens to a worker."""


def begun(parsed, store, every):
    """A store with its references, and the tasks of its runs."""
    entries = diff.diff_store_against_study(Store.at(store), parsed)
    plans = [planning.plan_experiment(entry) for entry in entries]
    create.create_or_grow_store(Store.at(store), parsed, entries, {"only": 8})
    root = storage.open_root_group(store, mode="a")
    references, runs = planning.make_tasks(Store.at(store), root, plans, 1, every)
    session = dataclasses.replace(SESSION, name=uuid.uuid4().hex)  # with its own open arrays
    for task in references:
        tasks.compute_task(task, session)
    return [dataclasses.replace(task, cost=1e6) for task in runs]


def test_a_task_goes_on_from_any_checkpoint(
    cluster, tmp_path, monkeypatch, assert_same_runs, arrays
):
    """Killed after every third one, it loses nothing and computes no sample twice."""
    store, whole = tmp_path / "cut.zarr", tmp_path / "whole.zarr"
    parsed = studies.parse_study(one_experiment(**KEYS))
    made = begun(parsed, store, every=1e-9)
    save, samples = checkpoints.save_checkpoint, []

    def dying(path, own, saved):
        save(path, own, saved)
        samples.append((saved.runs.tolist(), saved.sample))
        if len(samples) % 3 == 0:
            raise Killed

    monkeypatch.setattr(checkpoints, "save_checkpoint", dying)
    deaths = 0
    for task in made:
        while True:
            try:
                tasks.compute_task(task, SESSION)
                break
            except Killed:
                deaths += 1
                shown = zarr.open_array(store, path="only/sample_count", mode="r")[:]
                assert np.all((shown == 0) | (shown == 11))
    assert deaths > 20 and len(samples) == len({str(item) for item in samples})
    assert not list((store / "_geosweep" / "checkpoints").rglob("*.npz"))
    assert sweep.run(parsed, whole, cluster).complete
    assert_same_runs(whole, store, "only")
    ends = (
        arrays(path, checkpoints.end_checkpoints_group_name("only"))["checkpoint"]
        for path in (store, whole)
    )
    np.testing.assert_array_equal(*ends)


def test_checkpoints_of_another_study_or_code_are_ignored(tmp_path, monkeypatch):
    store = tmp_path / "cut.zarr"
    (task,) = begun(
        studies.parse_study(one_experiment(**KEYS | {"integrators": '"rk4"'})), store, 1e-9
    )
    save = checkpoints.save_checkpoint

    def dying(path, own, saved):
        save(path, own, saved)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "save_checkpoint", dying)
        with pytest.raises(Killed):
            tasks.compute_task(task, SESSION)
    path = checkpoints.checkpoint_file_of_chunk(Store.at(store), "only", 0)
    own = checkpoints.checkpoint_identity(task.recipe)
    assert checkpoints.load_checkpoint(path, own).sample == 1
    other = dataclasses.replace(task.recipe, statistics="none")
    assert checkpoints.load_checkpoint(path, checkpoints.checkpoint_identity(other)) is None
    monkeypatch.setattr(checkpoints, "checkpoint_code_hash", lambda: "another")
    assert checkpoints.load_checkpoint(path, checkpoints.checkpoint_identity(task.recipe)) is None
    path.write_bytes(path.read_bytes()[:200])
    assert checkpoints.load_checkpoint(path, own) is None
    assert tasks.compute_task(task, SESSION).runs == 3
    assert not path.exists()


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
    path = checkpoints.checkpoint_file_of_chunk(Store.at(store), "only", 0)
    own = checkpoints.checkpoint_identity(
        pilot.recipe_of_run_table(
            diff.diff_store_against_study(Store.at(store), studies.parse_study(LONG))[0].table
        )
    )

    def sample():
        saved = checkpoints.load_checkpoint(path, own)
        return saved.sample if saved else 0

    reached = until(sample)
    until(lambda: sample() > reached or not path.exists())
    assert path.exists(), "it was done too soon"
    worker(process).kill()
    before = sample()
    assert 0 < before < 400 and arrays(store, "only")["sample_count"][0] == 0
    assert until(lambda: sample() - before or not path.exists()) > 0
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


class Stopping:
    """An attempt that is stopped when it is asked for the second time."""

    def __init__(self):
        self._answers = iter([False, True])

    @property
    def is_stopped(self):
        return next(self._answers)

    def check(self):
        """The task is its own."""


def test_a_task_that_is_told_to_stop_does_so_at_its_next_checkpoint(tmp_path, arrays):
    store = tmp_path / "cut.zarr"
    (task,) = begun(
        studies.parse_study(one_experiment(**KEYS | {"integrators": '"rk4"'})), store, 1e6
    )
    (chunk,) = task.chunks
    opened = dict(
        storage.open_zarr_group(storage.open_root_group(store, mode="r+"), "only").arrays()
    )
    ends = storage.open_zarr_group(
        storage.open_root_group(store, mode="r+"), checkpoints.end_checkpoints_group_name("only")
    )
    references = chunks.make_reference_reader(task, chunk, SESSION)
    work = (task, chunk, opened, ends["checkpoint"], references)
    stopping = chunks.ChunkWork(*work, Stopping())
    assert len(stopping.compute()) == 0 and not stopping.whole
    path, own = (
        checkpoints.checkpoint_file_of_chunk(Store.at(store), "only", 0),
        checkpoints.checkpoint_identity(task.recipe),
    )
    assert checkpoints.load_checkpoint(path, own).sample == 1
    assert not (arrays(store, "only")["sample_count"] > 0).any()
    with Attempt(task, SESSION) as attempt:
        going_on = chunks.ChunkWork(*work, attempt)
        assert len(going_on.compute()) == 3 and going_on.whole and not path.exists()
    assert (arrays(store, "only")["sample_count"] == 11).all()
