"""Submit the coordinator of a study to a cluster or a batch system, and return at once.

It is an ordinary coordinator: it holds the lease of the store while it works, and committed runs
stay. On a running cluster it is a task. If its worker dies, Dask repeats the task on another one,
which resumes from the store once the lease of the first is free, so that two coordinators never
work at once. In a batch system it is a job, which also runs the scheduler and submits the jobs of
the workers. If its time limit stops it, it submits itself again.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import math
import os
import platform
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from distributed import Client, Reschedule, fire_and_forget, get_client, secede
from distributed.protocol import pickle

from integrators.errors import InputError, check_number
from sweep.campaign.run import Outcome, run
from sweep.campaign.watch import Watcher
from sweep.campaign.worker.task import CHECKPOINT_EVERY
from sweep.clusters.connect import start_or_connect
from sweep.clusters.jobs import (
    check_coordinator_profile,
    seconds_of_coordinator_job,
    submit_coordinator_job,
)
from sweep.clusters.profiles import resolve_cluster_spec
from sweep.clusters.spec import ClusterSpec
from sweep.clusters.stop_request import TIME_IS_UP, StopRequest
from sweep.clusters.workers import inspect_workers
from sweep.errors import Interrupted, StoreError
from sweep.plugins import approvals
from sweep.store import diff
from sweep.store.lease import requests, sessions
from sweep.store.lease.lease import acquire_lease, lease_holder_of_store
from sweep.store.lease.requests import ENDED, QUEUED, RUNNING, Submission, submission_of_store
from sweep.store.stored_studies import resolve_study_and_store

if TYPE_CHECKING:
    from pathlib import Path

    from sweep.clusters.profiles import Profile
    from sweep.store.backends.places import Place
    from sweep.store.diff import ExperimentDiff
    from sweep.store.store import Store
    from sweep.study import Study

PRIORITY = 100  # of the coordinator: it runs before the tasks of other studies
ACCEPTED_SECONDS = 10.0
AGAIN_SECONDS = 3.0  # between two attempts to acquire the lease of the store
JOB_ROUNDS = 50  # successive jobs of a coordinator, at most
MOST_MARGIN, MARGIN = 180.0, 0.1  # of a job's time, for start and end: most seconds, fraction


class Submitted(NamedTuple):
    """A coordinator that was submitted to a cluster or a batch system.

    Parameters
    ----------
    name : str
        Name of its task or job.
    scheduler : str
        Address of the scheduler, or the batch system and the id of the job.
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

    The coordinator runs on a worker of the cluster, and resumes on another one if this worker dies.
    In a batch system it runs in a job of its own, which submits the jobs of the workers.

    Parameters
    ----------
    study, store, trust_plugins
        As in `sweep.run`; all workers must see the store.
    cluster : ClusterSpec or distributed.Client
        Client or address of a running scheduler, or the profile of a batch system.
    max_time, checkpoint_every : float, optional
        As in `sweep.run`; ``max_time`` counts from the start of the coordinator on each worker.
        Without it, a job that reaches its time limit is followed by another.

    Returns
    -------
    Submitted

    Raises
    ------
    StoreError
        If the store belongs to another study, cannot be written, or is leased by another process.
    InputError
        If neither a running scheduler nor a batch system is given; if a number is not positive; if
        a worker has another version of the code or does not see the store; or if a coordinator is
        queued already.
    """
    options = {"checkpoint_every": check_number("checkpoint_every", checkpoint_every, above=0.0)}
    if max_time is not None:
        options["max_time"] = check_number("max_time", max_time, above=0.0)
    if isinstance(cluster, Client):
        return _submit_task(*resolve_study_and_store(study, store, trust_plugins), cluster, options)
    if not isinstance(cluster, ClusterSpec):
        raise InputError(
            f"cluster = {cluster!r}; expected the client of a running scheduler, such as "
            "ClusterSpec(scheduler='tcp://host:8786'), or the profile of a batch system, such as "
            "ClusterSpec(profile='slurm', workers=64)",
            key="cluster",
        )
    spec, profile = resolve_cluster_spec(cluster)
    if profile is not None:
        check_coordinator_profile(profile)
    study, store = resolve_study_and_store(study, store, trust_plugins)
    if profile is not None:
        return _submit_job(study, store, profile, cluster, options)
    with start_or_connect(spec) as client:
        return _submit_task(study, store, client, options)


def _submit_job(
    study: Study, store: Store, profile: Profile, spec: ClusterSpec, options: dict[str, Any]
) -> Submitted:
    """Submit the coordinator of a study to a batch system."""
    submission = Submission.here(study.name, f"{profile.kind}, as profile {profile.name!r} says")
    with StopRequest() as stop, acquire_lease(store, stop.request, stop.check):
        # Before the job may look for it.
        _note_new(study, store, submission, lambda before: before.state == QUEUED)
        try:
            job = _SubmittedRun(study, store, submission.name, options, spec).submit_job(profile)
        except InputError:
            requests.remove_submission_note(store)
            raise
        submission = dataclasses.replace(submission, scheduler=f"{profile.kind} as job {job}")
        requests.note_submission(store, submission)  # the job waits for our lease
    return Submitted(submission.name, submission.scheduler, store.place)


def _submit_task(study: Study, store: Store, client: Client, options: dict[str, Any]) -> Submitted:
    """Submit the coordinator of a study to a running cluster."""
    scheduler: Any = client.scheduler  # which a connected client has

    def has_task(key: str) -> bool:
        status = client.sync(scheduler.get_task_status, keys=[key])
        return status.get(key) in ("queued", "no-worker", "waiting", "processing")

    submission = Submission.here(study.name, scheduler.address)
    with StopRequest() as stop, acquire_lease(store, stop.request, stop.check) as lease:
        inspect_workers(client, store, lease.token, stop)
        _note_new(study, store, submission, lambda before: has_task(before.name))
    made, key = _SubmittedRun(study, store, submission.name, options), submission.name
    future = client.submit(coordinate_on_cluster, made, key=key, priority=PRIORITY, pure=False)
    fire_and_forget(future)
    deadline = time.monotonic() + ACCEPTED_SECONDS
    # This process may end as soon as the scheduler has it.
    while not (has_task(key) or future.done()):
        if time.monotonic() > deadline:
            requests.remove_submission_note(store)
            raise InputError(
                f"the scheduler {submission.scheduler} did not accept the coordinator within "
                f"{ACCEPTED_SECONDS:.0f} s: check that it is running, and repeat the command"
            )
        time.sleep(0.05)
    return Submitted(key, submission.scheduler, store.place)


def _note_new(
    study: Study, store: Store, submission: Submission, is_there: Callable[[Submission], bool]
) -> None:
    """Note a submission after all checks; `is_there` tells if an earlier one waits or runs."""
    diff.diff_store_against_study(store, study)
    approvals.approve_plugins(study.library.plugins)
    before = submission_of_store(store)
    if before is not None and is_there(before):
        raise InputError(
            f"{store} has a coordinator already, {before}. `sweep cancel {store}` stops it"
        )
    requests.withdraw_cancellation(store)
    requests.note_submission(store, submission)


def coordinate_on_cluster(coordinator: _SubmittedRun) -> None:
    """Run a submitted study as a task on the cluster of this worker."""
    client = get_client()
    secede()  # frees the slot of this worker for tasks that compute
    with sessions.marking_thread_as_computing():
        coordinator.run(client)


def coordinate_in_batch_job() -> None:
    """Run a submitted study, which this batch job has as its standard input."""
    pickle.loads(zlib.decompress(base64.b64decode(sys.stdin.buffer.read()))).run()


@dataclass(frozen=True)
class _SubmittedRun(Watcher):
    """A submitted coordinator, which is sent to where it runs, and notes its state in the store.

    Parameters
    ----------
    study, store
    name : str
        Name of the submission.
    options : dict
        Arguments of `sweep.run`.
    spec : ClusterSpec, optional
        The cluster that its batch job starts.
    round : int
        Number of the job.
    """

    study: Study
    store: Store
    name: str
    options: dict[str, Any]
    spec: ClusterSpec | None = None
    round: int = 1

    def submit_job(self, profile: Profile) -> str:
        """Submit it as a batch job, and return the id of the job."""
        text = base64.b64encode(zlib.compress(pickle.dumps(self))).decode()
        function = f"{__name__}:coordinate_in_batch_job"
        return submit_coordinator_job(profile, f"geosweep-{self.study.name}", function, text)

    def run(self, client: Client | None = None) -> None:
        """Run the study until it is complete or cancelled or the time is up, and note the end."""
        try:
            if self.spec is not None:
                outcome = self._run_in_job(self.spec)
            else:
                outcome = self._run_when_store_is_free(client)
        except Exception as error:
            if sessions.is_process_leaving() and isinstance(error, Interrupted):
                raise Reschedule from None
            self._note_end(f"{type(error).__name__}: {error}")
            raise
        if outcome is None:
            return
        if sessions.is_process_leaving() and not outcome.complete:
            raise Reschedule  # on another worker
        if outcome.complete and not outcome.failed:
            requests.remove_submission_note(self.store)
        else:
            self._note_end(outcome.stopped or f"complete, {outcome.failed:,} runs failed")

    def _run_in_job(self, spec: ClusterSpec) -> Outcome | None:
        """Run the study in this job, and submit the next one if the time of this one is up."""
        _, profile = resolve_cluster_spec(spec)
        assert profile is not None  # it began this job
        limit, options = seconds_of_coordinator_job(profile), {}
        if limit < math.inf:
            limit -= min(MOST_MARGIN, MARGIN * limit)
            options["max_time"] = min(limit, self.options.get("max_time", limit))
        outcome = self._run_when_store_is_free(None, cluster=spec, **options)
        print(outcome or "It was cancelled, or submitted again, before it began")
        is_over = outcome is not None and outcome.stopped == TIME_IS_UP
        if not is_over or "max_time" in self.options or self.round >= JOB_ROUNDS:
            return outcome
        self._note(state=QUEUED)
        job = dataclasses.replace(self, round=self.round + 1).submit_job(profile)
        print(f"It continues in job {job}")
        return None

    def _run_when_store_is_free(self, client: Client | None, **options: Any) -> Outcome | None:
        """Run the study once the lease is free; None if it was cancelled or replaced before."""
        again = False
        while True:
            if reason := requests.cancellation_reason(self.store, self.name):
                self._note_end(reason)
                requests.withdraw_cancellation(self.store)
                return None
            if self._submission is None:
                return None
            try:
                return run(
                    self.study, self.store, client, watcher=self, name=self.name,
                    **(self.options | options),
                )  # fmt: skip
            except StoreError:
                # After a first failure, the holder may have ended in between.
                if lease_holder_of_store(self.store) is None and again:
                    raise
            again = True
            time.sleep(AGAIN_SECONDS)

    @property
    def _submission(self) -> Submission | None:
        """The store's note of this submission; None if another submission has replaced it."""
        found = submission_of_store(self.store)
        return found if found is not None and found.name == self.name else None

    def compared(self, entries: Sequence[ExperimentDiff]) -> None:
        """Note that this process holds the lease, and runs the study."""
        self._note(state=RUNNING, host=platform.node(), attempt=_attempt_of_this_process())

    def _note_end(self, why: str) -> None:
        # If another worker has taken it over, that worker notes the end.
        found = self._submission
        is_ours = found is not None and found.attempt in ("", _attempt_of_this_process())
        if is_ours or lease_holder_of_store(self.store) is None:
            self._note(state=ENDED, host=platform.node(), why=why)

    def _note(self, **changes: Any) -> None:
        if (found := self._submission) is not None:
            with contextlib.suppress(OSError):
                requests.note_submission(self.store, dataclasses.replace(found, **changes))


def _attempt_of_this_process() -> str:
    return f"{platform.node()} {os.getpid()}"
