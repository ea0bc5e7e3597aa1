"""Workers write for one coordinator, with its code, and it is seen from elsewhere what they do."""

import dataclasses
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import zarr
from dask_processes import DASK, await_scheduler
from distributed import Client
from study_text import one_experiment

import sweep
from sweep import errors
from sweep.campaign import coordinator, planning
from sweep.campaign.worker import compute, recording, run_work
from sweep.campaign.worker.recorder import Recorder
from sweep.store import create, diff, progress, studies
from sweep.store.commit import fold, records
from sweep.store.files import end_checkpoints_group_name
from sweep.store.lease import sessions
from sweep.store.lease.lease import acquire_lease, lease_holder_of_store
from sweep.store.store import Store
from sweep.store.upkeep import repair, verify

KEYS = {"record": '["energy", "state"]', "integrators": '"rk4"', "samples": "10"}
LONGER = {"duration": "2.0", "samples": "20"}
PACKAGES = ("integrators", "systems", "sweep")


@pytest.fixture
def store(tmp_path):
    return tmp_path / "test.zarr"


@pytest.fixture
def work(store):
    """The study's task, in a store that has nothing of it yet."""
    parsed = studies.parse_study(one_experiment(**KEYS))
    entries = diff.diff_store_against_study(Store.at(store), parsed)
    plans = [planning.plan_experiment(entry) for entry in entries]
    create.create_or_grow_store(Store.at(store), parsed, entries)
    _, made = planning.make_tasks(Store.at(store), plans, 1, 1e-9)
    return dataclasses.replace(made[0].build(), cost=1e6)


def session(token):
    return sessions.Session(f"of_{token}", token, sessions.code_hash())


def begun(store, token=""):
    """A session of a token, whose records count."""
    made = session(token)
    fold.begin_session(Store.at(store), made.name)
    return made


def checkpoints_of(store):
    return list((store / "_geosweep").rglob(f"*.{records.CHECKPOINT}"))


def leave_checkpoints(work, store, monkeypatch):
    """Begin a session whose first attempt dies on its way; returns the session."""

    class Killed(BaseException):
        """What happens to a worker."""

    put = recording.Recording.checkpoint

    def dying(self, indices, samples, state):
        put(self, indices, samples, state)
        if samples > 4:
            raise Killed

    mine = begun(store)
    with monkeypatch.context() as patch:
        patch.setattr(recording.Recording, "checkpoint", dying)
        with pytest.raises(Killed):
            compute.compute_task(work, mine)
    assert checkpoints_of(store)
    return mine


def test_a_task_of_a_coordinator_before_writes_nothing(work, store, fingerprint):
    """Not even what it has computed when another one takes over; the one that follows can."""
    with acquire_lease(Store.at(store)) as first:
        before = first.token
    with acquire_lease(Store.at(store)) as held:
        begun(store, held.token)
        mark = fingerprint(store)
        receipt = compute.compute_task(work, session(before))
        assert not receipt.whole and receipt.runs == 0
        assert fingerprint(store) == mark
        receipt = compute.compute_task(work, session(held.token))
        assert receipt.whole and receipt.runs == len(work.rows)


def test_a_worker_of_another_version_computes_nothing(work, store, fingerprint):
    mark = fingerprint(store)
    with pytest.raises(errors.VersionMismatch, match="the coordinator 0123: results may differ"):
        compute.compute_task(work, sessions.Session("theirs", "", "0123"))
    assert fingerprint(store) == mark


def test_a_worker_process_of_another_version_is_refused(
    long_study, start, until, program, tmp_path_factory
):
    """Its sources differ by a line of comment, which no kernel would show."""
    other = tmp_path_factory.mktemp("other")
    for package in PACKAGES:
        shutil.copytree(Path(sweep.__file__).parents[1] / package, other / package)
    with open(other / "systems" / "__init__.py", "a") as file:
        file.write("# another version\n")
    _, address = await_scheduler(start, until, tmp_path_factory.mktemp("scheduler"))
    start(
        "/usr/bin/env", f"PYTHONPATH={other}", DASK, "worker", address,
        "--nthreads", "1", "--no-nanny", "--no-dashboard", cwd=other.parent,
    )  # fmt: skip
    with Client(address) as client:
        until(lambda: client.scheduler_info()["workers"])
    done = program(long_study, "run", "long.toml", "--scheduler", address, code=2)
    (message,) = done.stderr.splitlines()
    assert "the worker tcp://127.0.0.1:" in message and "version" in message
    assert [file.name for file in long_study.iterdir()] == ["long.toml"]


def test_kinds_of_machines_are_recorded_and_mixing_them_warns(store, cluster):
    class Warned(coordinator.Watcher):
        kinds = ()

        def mixed(self, kinds):
            self.kinds = kinds

    parsed, longer = (studies.parse_study(one_experiment(**KEYS | more)) for more in ({}, LONGER))
    watcher = Warned()
    sweep.run(parsed, store, cluster, watcher=watcher)
    assert watcher.kinds == ()
    root = zarr.open_group(store, mode="r+", use_consolidated=False)
    (host,) = root.attrs["hosts"]
    root.attrs["hosts"] = [host | {"host": "elsewhere", "kind": "CPU another, libm another"}]
    sweep.run(longer, store, cluster, watcher=watcher)
    assert set(watcher.kinds) == {"CPU another, libm another", host["kind"]}
    root = zarr.open_group(store, mode="r", use_consolidated=False)
    assert [known["host"] for known in root.attrs["hosts"]] == ["elsewhere", host["host"]]


def test_what_is_in_flight_is_known_while_somebody_holds_the_store(work, store):
    with acquire_lease(Store.at(store)):
        with progress.InFlight(Store.at(store)) as noted:
            noted.note([work, work])
            assert progress.runs_in_flight(Store.at(store)) == {"only": 2 * len(work.rows)}
            noted.note([])  # a moment later: not written
            assert progress.runs_in_flight(Store.at(store))
            kept = (store / "_geosweep" / progress.IN_FLIGHT).read_text()
        assert progress.runs_in_flight(Store.at(store)) == {}
        (store / "_geosweep" / progress.IN_FLIGHT).write_text(kept)
        assert progress.runs_in_flight(Store.at(store))
    assert (
        lease_holder_of_store(Store.at(store)) is None
        and progress.runs_in_flight(Store.at(store)) == {}
    )


def test_runs_on_their_way_begin_again_where_their_checkpoint_is_damaged(
    work, store, monkeypatch, cluster, assert_same_runs, tmp_path
):
    leave_checkpoints(work, store, monkeypatch)
    assert verify.verify(store) == []
    for file in checkpoints_of(store):
        content = bytearray(file.read_bytes())
        content[-50] ^= 1
        file.write_bytes(content)
    findings = verify.verify(store)
    assert {finding.text for finding in findings} == {"fails its checksum"}
    assert not repair.mend_held_store(
        Store.at(store), lambda: pytest.fail("the study is not needed")
    ).left
    assert not checkpoints_of(store)
    parsed, whole = studies.parse_study(one_experiment(**KEYS)), tmp_path / "whole.zarr"
    for path in (store, whole):
        assert sweep.run(parsed, path, cluster).complete
    assert_same_runs(whole, store, "only")


def test_a_damaged_record_is_named_and_its_runs_are_computed_again(
    work, store, cluster, assert_same_runs, tmp_path
):
    """As of a run that was killed before it folded; what other records have is kept."""
    compute.compute_task(work, begun(store))
    folder = records.records_folder(Store.at(store).place, "only", 0)
    record, *_ = records.list_records(folder, records.RECORD)
    content = bytearray(record.place.read_bytes())
    content[-9] ^= 1
    record.place.write_bytes(content)
    parsed, whole = studies.parse_study(one_experiment(**KEYS)), tmp_path / "whole.zarr"
    for refused, error in (
        (lambda: sweep.run(parsed, store, cluster), errors.StoreError),
        (lambda: sweep.open_study(store)["only"].load(), errors.GeosweepError),
    ):
        with pytest.raises(error, match="fails its checksum"):
            refused()
    (finding,) = verify.verify(store)
    assert finding.path == record.place and finding.remedy == "remove"
    assert f"without it {record.name.count} runs are to be computed again" in finding.text
    assert not repair.mend_held_store(Store.at(store), lambda: parsed).left
    assert verify.verify(store) == []
    for path in (store, whole):
        assert sweep.run(parsed, path, cluster).complete
    assert_same_runs(whole, store, "only")


def test_a_damaged_checkpoint_of_an_end_costs_no_result(
    work, store, cluster, assert_same_runs, tmp_path
):
    """It is removed; when the run is extended, it is computed from its start."""
    parsed, longer = (studies.parse_study(one_experiment(**KEYS | more)) for more in ({}, LONGER))
    assert sweep.run(parsed, store, cluster).complete
    (file,) = (store / end_checkpoints_group_name("only")).rglob("c.0.*")
    file.write_bytes(file.read_bytes()[:-9])
    (finding,) = verify.verify(store)
    assert finding.place == end_checkpoints_group_name("only")
    assert (
        not repair.mend_held_store(Store.at(store), lambda: parsed).left
        and verify.verify(store) == []
    )
    group = zarr.open_group(store / "only", mode="r")
    assert np.all(group["sample_count"][:] == 11)
    whole = tmp_path / "whole.zarr"
    for path in (store, whole):
        assert sweep.run(longer, path, cluster).complete
    assert_same_runs(whole, store, "only")


# --- two processes with one task ----------------------------------------------------------------


def test_a_worker_that_leaves_stores_what_its_task_has(
    work, store, monkeypatch, arrays, cluster, tmp_path, assert_same_runs
):
    """The next one goes on from there: no sample is computed twice."""
    advance, spans = Recorder.advance, []

    def counted(recorder, runs, last, references=None):
        spans.append((runs.sample, last))
        found = advance(recorder, runs, last, references)
        sessions.end_tasks_of_process()
        return found

    task = dataclasses.replace(work, checkpoint_every=1000.0)  # no other reason to store it
    with monkeypatch.context() as patch:
        patch.setattr(sessions, "_leaving", threading.Event())
        patch.setattr(Recorder, "advance", counted)
        receipt = compute.compute_task(task, begun(store))
    assert not receipt.whole and not receipt.fenced_off and len(spans) == 1
    (_, reached) = spans[0]
    assert 0 < reached < 10 and checkpoints_of(store)
    assert not (arrays(store, "only")["sample_count"] > 0).any()
    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "advance", counted)
        patch.setattr(sessions, "end_tasks_of_process", lambda: None)
        assert compute.compute_task(task, session("")).whole
    assert spans[1][0] == reached and spans[-1][1] == 10
    whole = tmp_path / "whole.zarr"
    assert sweep.run(studies.parse_study(one_experiment(**KEYS)), whole, cluster).complete
    assert_same_runs(whole, store, "only")


def test_a_row_that_two_processes_compute_counts_once(work, store):
    """As of a host that was cut off, goes on, and puts its record when all is done."""
    mine, late = begun(store), sessions.Attempt(Store.at(store), session(""))
    arrays = Store.at(store).arrays_of_group("only")
    slow = run_work.RunWork(work, arrays, lambda batch, rows: None, late)
    assert compute.compute_task(work, mine).whole
    assert len(slow.compute()[0]) == len(work.rows)
    folder = records.records_folder(Store.at(store).place, "only", 0)
    assert len({record.name.token for record in records.list_records(folder, records.RECORD)}) == 2
    (counted,) = progress.Counter(Store.at(store)).count()
    assert counted.done == len(work.rows)
    fold.fold_all(Store.at(store), mine.name)
    assert (Store.at(store).group("only")["sample_count"][:] == 11).all()
    assert verify.verify(store) == []


def test_checkpoints_that_another_attempt_removes_while_they_are_read_are_done(
    work, store, monkeypatch
):
    """The files were listed; then a worker that was given up, and lives, commits the task."""
    mine, listed = leave_checkpoints(work, store, monkeypatch), recording.list_records

    def listed_before_the_other_commits(folder, *of):
        found = listed(folder, *of)
        with monkeypatch.context() as patch:
            patch.setattr(recording, "list_records", listed)
            assert compute.compute_task(work, mine).whole
        return found

    monkeypatch.setattr(recording, "list_records", listed_before_the_other_commits)
    receipt = compute.compute_task(work, mine)
    assert receipt.whole and receipt.runs == 0  # they are in the other one's records


def test_a_run_resumes_from_a_checkpoint_that_is_removed_meanwhile(work, store, monkeypatch):
    """Another attempt commits after this one has read where its runs are."""
    mine = leave_checkpoints(work, store, monkeypatch)
    arrays = Store.at(store).arrays_of_group("only")
    attempt = sessions.Attempt(Store.at(store), mine)
    slow = run_work.RunWork(work, arrays, lambda batch, rows: None, attempt)
    assert slow.recording.checkpointed.any()
    assert compute.compute_task(work, mine).whole and not checkpoints_of(store)
    assert slow.compute()[1]
    fold.fold_all(Store.at(store), mine.name)
    assert verify.verify(store) == []


def test_tasks_are_computed_in_the_store_that_their_session_was_begun_in(work, store, fingerprint):
    """Not in one that was put in its place."""
    with acquire_lease(Store.at(store)) as held:
        mine = begun(store, held.token)
        Store.at(store).session_file.unlink()
        mark = fingerprint(store)
        with pytest.raises(errors.StoreUnseen, match="session is not there"):
            compute.compute_task(work, mine)
        assert fingerprint(store) == mark


def test_a_worker_that_wakes_after_the_session_has_ended_writes_nothing(work, store, fingerprint):
    """All is done, and nobody holds the store: it is fenced off, and no store is missing."""
    with acquire_lease(Store.at(store)) as held:
        mine = begun(store, held.token)
        assert compute.compute_task(work, mine).whole
        fold.fold_all(Store.at(store), mine.name)
        fold.end_session(Store.at(store), checkpoints=True)
    mark = fingerprint(store)
    receipt = compute.compute_task(work, mine)
    assert receipt.fenced_off and not receipt.whole
    assert fingerprint(store) == mark


def test_what_another_session_computed_late_changes_nothing(work, store):
    """A worker that passed its last check before it was suspended puts what nobody takes."""
    before = begun(store)
    suspended = sessions.Attempt(Store.at(store), before)
    arrays = Store.at(store).arrays_of_group("only")
    late = run_work.RunWork(work, arrays, lambda batch, rows: None, suspended)
    suspended.check = lambda: None
    fold.begin_session(Store.at(store), "another")
    late.compute()
    assert progress.Counter(Store.at(store)).count()[0].done == 0
    assert (sweep.open_study(store)["only"].sample_count == 0).all()
    assert fold.fold_all(Store.at(store), "another") == 0
