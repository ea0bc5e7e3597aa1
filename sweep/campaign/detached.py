"""Hand a study's coordinator to a cluster, as a task of it, so that nobody need wait for it.

It is an ordinary coordinator: it holds the store while it works, and what it has committed stays.
Where its worker dies, Dask runs the task again on another one, which goes on from the store; that
waits until the lease of the one before is free, so that two never work at once.
"""

import contextlib
import dataclasses
import itertools
import platform
import secrets
import time
from typing import NamedTuple

from distributed import Client, Reschedule, fire_and_forget, get_client, secede

from integrators.errors import InputError, check_number
from sweep.campaign import coordinator
from sweep.clusters.launch import connect_to_cluster
from sweep.clusters.spec import ClusterSpec
from sweep.clusters.workers import inspect_workers
from sweep.errors import Interrupted, StoreError
from sweep.plugins import approvals
from sweep.shutdown import Drain
from sweep.store import diff
from sweep.store.lease import requests, sessions
from sweep.store.lease.lease import acquire_lease, lease_holder_of_store
from sweep.store.lease.requests import ENDED, RUNNING, Submission, submission_of_store
from sweep.store.studies import resolve_study_and_store

PRIORITY = 100  # before the tasks of other studies
ACCEPTED_SECONDS = 10.0
AGAIN_SECONDS = 3.0  # between two looks whether the store is free


class Submitted(NamedTuple):
    """A coordinator that a cluster has taken.

    Parameters
    ----------
    name : str
        Of its task.
    scheduler : str
        Address.
    store : Path or ObjectPlace
        That it works on.
    """

    name: str
    scheduler: str
    store: object


def submit(
    study, store=None, cluster=None, *, trust_plugins=False, max_time=None,
    checkpoint_every=coordinator.CHECKPOINT_EVERY,
):  # fmt: skip
    """Run a study on a running cluster, without waiting for it.

    What plans and watches the tasks runs on a worker; if that dies, it goes on elsewhere.

    Parameters
    ----------
    study, store, trust_plugins
        As in `sweep.run`; all workers must see the store.
    cluster : ClusterSpec or distributed.Client
        Of a running scheduler.
    max_time, checkpoint_every : float, optional
        As in `sweep.run`; each time that a worker takes the coordinator up, ``max_time`` begins.

    Returns
    -------
    Submitted

    Raises
    ------
    StoreError
        If the store is another study's, or cannot be written, or somebody writes to it.
    InputError
        If no running scheduler is given, or a number is not positive; if a worker has another
        version of the code, or does not see the store; if a coordinator was submitted already
        that waits for a worker of this scheduler.
    """
    is_client = isinstance(cluster, Client)
    if not (is_client or (isinstance(cluster, ClusterSpec) and cluster.is_running)):
        raise InputError(
            f"cluster = {cluster!r}; expected the client of a running scheduler, or such as "
            "ClusterSpec(scheduler='tcp://host:8786')",
            key="cluster",
        )
    options = {"checkpoint_every": check_number("checkpoint_every", checkpoint_every, above=0.0)}
    if max_time is not None:
        options["max_time"] = check_number("max_time", max_time, above=0.0)
    study, store = resolve_study_and_store(study, store, trust_plugins)
    with contextlib.nullcontext(cluster) if is_client else connect_to_cluster(cluster) as client:
        submission = _submit_coordinator(study, store, client, options)
    return Submitted(submission.name, submission.scheduler, store.place)


def _submit_coordinator(study, store, client, options):
    """Hand the coordinator of a study to the cluster of a client; its `Submission`."""
    submission = Submission.here(study.name, client.scheduler.address)
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


def _scheduler_has_task(client, key):
    """Whether the scheduler has a task that is not done."""
    status = client.sync(client.scheduler.get_task_status, keys=[key])
    return status.get(key) in ("queued", "no-worker", "waiting", "processing")


def coordinate_on_cluster(study, store, name, options):
    """Run a study on the cluster that this process is a worker of: the task that is submitted.

    Parameters
    ----------
    study, store, options
        As in `submit`.
    name : str
        Of the submission.
    """
    client = get_client()
    secede()  # this takes no worker's time: it can compute meanwhile
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
    if outcome.complete and not outcome.failed:
        requests.remove_submission_note(store)
    else:
        why = outcome.stopped or f"complete, {outcome.failed:,} runs failed"
        _mark_submission_ended(store, name, attempt, why)


def _run_when_store_is_free(study, store, name, attempt, client, options):
    """The outcome of the run; None if it was cancelled, or replaced, before it began."""
    for again in itertools.count():
        if reason := requests.cancellation_reason(store, name):
            _mark_submission_ended(store, name, attempt, reason)
            requests.withdraw_cancellation(store)
            return None
        found = submission_of_store(store)
        if found is None or found.name != name:
            return None
        try:
            watcher = _SubmissionWatcher(store, name, attempt)
            return coordinator.run(study, store, client, watcher=watcher, name=name, **options)
        except StoreError:
            # Where it failed for the first time, the holder may have ended just now.
            if lease_holder_of_store(store) is None and again:
                raise
        time.sleep(AGAIN_SECONDS)


class _SubmissionWatcher(coordinator.Watcher):
    """Notes that the coordinator is at work, once it holds the store."""

    def __init__(self, store, name, attempt):
        self._noted = store, name, attempt

    def compared(self, entries):
        """The store is held."""
        _mark_submission_running(*self._noted)


def _mark_submission_running(store, name, attempt):
    if (found := submission_of_store(store)) is not None and found.name == name:
        _update_submission(store, found, state=RUNNING, host=platform.node(), attempt=attempt)


def _mark_submission_ended(store, name, attempt, why):
    found = submission_of_store(store)
    if found is None or found.name != name:
        return
    # Another worker that took it over notes its own end.
    if found.attempt in ("", attempt) or lease_holder_of_store(store) is None:
        _update_submission(store, found, state=ENDED, host=platform.node(), why=why)


def _update_submission(store, found, **changes):
    with contextlib.suppress(OSError):
        requests.note_submission(store, dataclasses.replace(found, **changes))
