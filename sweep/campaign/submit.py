"""Submit the coordinator of a study to a cluster or a batch system, and return at once.

It is an ordinary coordinator: it holds the lease of the store while it works, and what is committed
stays. On a running cluster it is a task. If its worker dies, Dask runs the task again on another
one, which resumes from the store, once the lease of the first is free: two never work at once. In a
batch system it is a job, which also runs the scheduler and submits the jobs of the workers; where
its time limit ends it, it submits itself again.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import math
import platform
import secrets
import sys
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from distributed import Client, Reschedule, fire_and_forget, get_client, secede
from distributed.protocol import pickle

from integrators.errors import InputError, check_number
from sweep.campaign.run import Outcome, run
from sweep.campaign.watch import Watcher
from sweep.campaign.worker.tasks import CHECKPOINT_EVERY
from sweep.clusters.connect import start_or_connect
from sweep.clusters.jobs import (
    check_coordinator_profile,
    seconds_of_coordinator_job,
    submit_coordinator_job,
)
from sweep.clusters.profiles import resolve_cluster_spec
from sweep.clusters.spec import ClusterSpec
from sweep.clusters.stop import TIME_IS_UP, Drain
from sweep.clusters.workers import inspect_workers
from sweep.errors import Interrupted, StoreError
from sweep.plugins import approvals
from sweep.store import diff
from sweep.store.lease import requests, sessions
from sweep.store.lease.lease import acquire_lease, lease_holder_of_store
from sweep.store.lease.requests import ENDED, QUEUED, RUNNING, Submission, submission_of_store
from sweep.store.studies import resolve_study_and_store

if TYPE_CHECKING:
    from pathlib import Path

    from sweep.clusters.profiles import Profile
    from sweep.store.backends.places import Place
    from sweep.store.diff import Entry
    from sweep.store.store import Store
    from sweep.study import Study

PRIORITY = 100  # of the coordinator: it runs before the tasks of other studies
ACCEPTED_SECONDS = 10.0
AGAIN_SECONDS = 3.0  # between two attempts to acquire the lease of the store
JOB_ROUNDS = 50  # at most, jobs in a row of one coordinator, each ended by its time limit
MOST_MARGIN, MARGIN = 180.0, 0.1  # of a job's time, to start and end: seconds at most, fraction


class Submitted(NamedTuple):
    """A coordinator that was submitted to a cluster or a batch system.

    Parameters
    ----------
    name : str
        Name of its task or job.
    scheduler : str
        Address of the scheduler; or the batch system and the id of the job.
    store : Path or ObjectPlace
        The store that it writes to.
    """

    name: str
    scheduler: str
    store: Place


def submit(
    study: str | Path | Store | Study,
    store: str | Place | Store | None = None,
    cluster: ClusterSpec | Client | None = None,
    *,
    trust_plugins: bool = False,
    max_time: float | None = None,
    checkpoint_every: float = CHECKPOINT_EVERY,
) -> Submitted:
    """Run a study on a running cluster or in a batch system, without waiting for it.

    The coordinator runs on a worker of the cluster, and resumes on another one if that dies; or in
    a job of its own, which submits those of the workers.

    Parameters
    ----------
    study, store, trust_plugins
        As in `sweep.run`; all workers must see the store.
    cluster : ClusterSpec or distributed.Client
        Client, or address, of a running scheduler; or the profile of a batch system.
    max_time, checkpoint_every : float, optional
        As in `sweep.run`; ``max_time`` counts from the start of the coordinator on each worker.
        A job without it is followed by another one at its time limit.

    Returns
    -------
    Submitted

    Raises
    ------
    StoreError
        If the store is another study's, or cannot be written, or another process holds its lease.
    InputError
        If no running scheduler and no batch system is given, or a number is not positive; if a
        worker has another version of the code, or does not see the store; if a coordinator is
        queued already.
    """
    job: tuple[ClusterSpec, Profile] | None = None
    connecting: contextlib.AbstractContextManager[Client]
    if isinstance(cluster, Client):
        connecting = contextlib.nullcontext(cluster)
    elif isinstance(cluster, ClusterSpec):
        spec, profile = resolve_cluster_spec(cluster)
        connecting = start_or_connect(spec)
        if profile is not None:
            check_coordinator_profile(profile)
            job = cluster, profile
    else:
        raise InputError(
            f"cluster = {cluster!r}; expected the client of a running scheduler, such as "
            "ClusterSpec(scheduler='tcp://host:8786'), or the profile of a batch system, such as "
            "ClusterSpec(profile='slurm', workers=64)",
            key="cluster",
        )
    options = {"checkpoint_every": check_number("checkpoint_every", checkpoint_every, above=0.0)}
    if max_time is not None:
        options["max_time"] = check_number("max_time", max_time, above=0.0)
    study, store = resolve_study_and_store(study, store, trust_plugins)
    if job is not None:
        submission = _submit_coordinator_job(study, store, *job, options)
    else:
        with connecting as client:
            submission = _submit_coordinator(study, store, client, options)
    return Submitted(submission.name, submission.scheduler, store.place)


def _submit_coordinator_job(
    study: Study, store: Store, spec: ClusterSpec, profile: Profile, options: dict[str, Any]
) -> Submission:
    """Submit the coordinator of a study to a batch system; returns its `Submission`."""
    submission = Submission.here(study.name, f"{profile.kind}, as profile {profile.name!r} says")
    with Drain() as drain, acquire_lease(store, drain.request, drain.check):
        diff.diff_store_against_study(store, study)
        approvals.approve_plugins(study.library.plugins)
        before = submission_of_store(store)
        if before is not None and before.state == QUEUED:
            raise InputError(
                f"{store}: a coordinator is there already, {before}. `sweep cancel {store}` ends it"
            )
        requests.withdraw_cancellation(store)
        requests.note_submission(store, submission)  # before the job may look for it
        try:
            job = _CoordinatorJob(study, store, submission.name, spec, options).submit(profile)
        except InputError:
            requests.remove_submission_note(store)
            raise
        submission = dataclasses.replace(submission, scheduler=f"{profile.kind} as job {job}")
        requests.note_submission(store, submission)  # the job cannot have begun: the lease is ours
    return submission


@dataclass(frozen=True)
class _CoordinatorJob:
    """A coordinator in a batch job; parameters as in `submit`, `round` is the number of its job."""

    study: Study
    store: Store
    name: str
    spec: ClusterSpec
    options: dict[str, Any]
    round: int = 1

    def submit(self, profile: Profile) -> str:
        """Submit the job; returns its id."""
        text = base64.b64encode(zlib.compress(pickle.dumps(self))).decode()
        function = f"{__name__}:coordinate_in_batch_job"
        return submit_coordinator_job(profile, f"geosweep-{self.study.name}", function, text)

    def coordinate(self) -> None:
        """Run the study until it is complete, or the time of the job is up."""
        attempt = secrets.token_hex(8)
        try:
            _, profile = resolve_cluster_spec(self.spec)
            if profile is None:
                raise InputError("a scheduler that runs has no job for a coordinator")
            seconds = seconds_of_coordinator_job(profile)
            limit = seconds - min(MOST_MARGIN, MARGIN * seconds) if seconds < math.inf else seconds
            limit = min(limit, self.options.get("max_time", math.inf))
            options = self.options | ({"max_time": limit} if limit < math.inf else {})
            outcome = _run_when_store_is_free(
                self.study, self.store, self.name, attempt, None, {"cluster": self.spec, **options}
            )
            if outcome is None:
                return
            print(outcome.stopped or f"complete, {outcome.failed:,} runs failed")
            again = not outcome.complete and outcome.stopped.startswith(TIME_IS_UP)
            if again and "max_time" not in self.options and self.round < JOB_ROUNDS:
                _mark_submission(self.store, self.name, state=QUEUED)
                job = dataclasses.replace(self, round=self.round + 1).submit(profile)
                print(f"It goes on in job {job}")
                return
        except Exception as error:
            _mark_submission_ended(
                self.store, self.name, attempt, f"{type(error).__name__}: {error}"
            )
            raise
        _note_end(self.store, self.name, attempt, outcome)


def coordinate_in_batch_job() -> None:
    """Run the coordinator that a batch job has as its standard input; see `submit`."""
    pickle.loads(zlib.decompress(base64.b64decode(sys.stdin.buffer.read()))).coordinate()


def _submit_coordinator(
    study: Study, store: Store, client: Client, options: dict[str, Any]
) -> Submission:
    """Submit the coordinator of a study to a running cluster; returns its `Submission`."""
    scheduler: Any = client.scheduler  # which a connected client has
    submission = Submission.here(study.name, scheduler.address)
    with Drain() as drain, acquire_lease(store, drain.request, drain.check) as lease:
        diff.diff_store_against_study(store, study)
        approvals.approve_plugins(study.library.plugins)
        inspect_workers(client, store, lease.token, drain)
        before = submission_of_store(store)
        if before is not None and _scheduler_has_task(client, before.name):
            raise InputError(
                f"{store}: a coordinator is there already, {before}. `sweep cancel {store}` ends it"
            )
        requests.withdraw_cancellation(store)
        requests.note_submission(store, submission)
    future = client.submit(
        coordinate_on_cluster, study, store, submission.name, options,
        key=submission.name, priority=PRIORITY, pure=False,
    )  # fmt: skip
    fire_and_forget(future)
    deadline = time.monotonic() + ACCEPTED_SECONDS
    while not _scheduler_has_task(client, submission.name):  # this process may end as soon as it is
        if future.done():
            break
        if time.monotonic() > deadline:
            requests.remove_submission_note(store)
            raise InputError(
                f"the scheduler {submission.scheduler} did not take the coordinator within "
                f"{ACCEPTED_SECONDS:.0f} s: see whether it works, and repeat the command"
            )
        time.sleep(0.05)
    return submission


def _scheduler_has_task(client: Client, key: str) -> bool:
    """Whether the scheduler has a task of this key that is not done."""
    scheduler: Any = client.scheduler  # which a connected client has
    status = client.sync(scheduler.get_task_status, keys=[key])
    return status.get(key) in ("queued", "no-worker", "waiting", "processing")


def coordinate_on_cluster(study: Study, store: Store, name: str, options: dict[str, Any]) -> None:
    """Run a study on the cluster of this worker: the task that `submit` submits.

    Parameters
    ----------
    study, store, options
        As in `submit`.
    name : str
        Name of the submission.
    """
    client = get_client()
    secede()  # frees the slot of this worker for tasks that compute
    attempt = secrets.token_hex(8)
    try:
        with sessions.marking_thread_as_computing():
            outcome = _run_when_store_is_free(study, store, name, attempt, client, options)
    except Exception as error:
        if sessions.is_process_leaving() and isinstance(error, Interrupted):
            raise Reschedule from None
        _mark_submission_ended(store, name, attempt, f"{type(error).__name__}: {error}")
        raise
    if outcome is None:
        return
    if sessions.is_process_leaving() and not outcome.complete:
        raise Reschedule  # on another worker
    _note_end(store, name, attempt, outcome)


def _note_end(store: Store, name: str, attempt: str, outcome: Outcome) -> None:
    """Note how a coordinator has ended; remove its note if the study is complete."""
    if outcome.complete and not outcome.failed:
        requests.remove_submission_note(store)
    else:
        why = outcome.stopped or f"complete, {outcome.failed:,} runs failed"
        _mark_submission_ended(store, name, attempt, why)


def _run_when_store_is_free(
    study: Study,
    store: Store,
    name: str,
    attempt: str,
    client: Client | None,
    options: dict[str, Any],
) -> Outcome | None:
    """Run the study once the lease is free; None if it was cancelled or replaced before."""
    again = False
    while True:
        if reason := requests.cancellation_reason(store, name):
            _mark_submission_ended(store, name, attempt, reason)
            requests.withdraw_cancellation(store)
            return None
        found = submission_of_store(store)
        if found is None or found.name != name:
            return None
        try:
            watcher = _SubmissionWatcher(store, name, attempt)
            return run(study, store, client, watcher=watcher, name=name, **options)
        except StoreError:
            # Where it failed for the first time, the holder may have ended just now.
            if lease_holder_of_store(store) is None and again:
                raise
        again = True
        time.sleep(AGAIN_SECONDS)


class _SubmissionWatcher(Watcher):
    """Notes in the submission that the coordinator runs, once it holds the lease."""

    def __init__(self, store: Store, name: str, attempt: str) -> None:
        self._store, self._name, self._attempt = store, name, attempt

    def compared(self, entries: Sequence[Entry]) -> None:
        """Note that this process holds the lease, and runs the study."""
        now = {"state": RUNNING, "host": platform.node(), "attempt": self._attempt}
        _mark_submission(self._store, self._name, **now)


def _mark_submission(store: Store, name: str, **changes: Any) -> None:
    if (found := submission_of_store(store)) is not None and found.name == name:
        _update_submission(store, found, **changes)


def _mark_submission_ended(store: Store, name: str, attempt: str, why: str) -> None:
    found = submission_of_store(store)
    if found is None or found.name != name:
        return
    # Another worker that took it over notes its own end.
    if found.attempt in ("", attempt) or lease_holder_of_store(store) is None:
        _update_submission(store, found, state=ENDED, host=platform.node(), why=why)


def _update_submission(store: Store, found: Submission, **changes: Any) -> None:
    with contextlib.suppress(OSError):
        requests.note_submission(store, dataclasses.replace(found, **changes))
