"""Run a study: compare it with its store, plan, compute missing runs, and fold the results.

How results get into a store, and stay correct whichever process dies:

- One process at a time, the coordinator, holds the *lease* of the store. The lease has a unique
  *fencing token*. Before each write on which results depend, the coordinator checks that the lease
  still has this token.
- The coordinator begins a *session*, whose name the store keeps, and sends session and token with
  every task to the workers of a Dask cluster.
- A worker *commits* finished runs as *records*: immutable files, written atomically, whose names
  contain the session. It stores unfinished runs in *checkpoints*, which are records that also
  contain the state of the integrator.
- Once all tasks of a row of shards have committed, the coordinator *folds* their records into the
  arrays of the store. Readers use records that are not folded yet as if they were.
- A task whose worker died is handed out again, and *resumes*: rows in a record are done, and the
  others continue from their last checkpoint, bit for bit as if nothing had happened. If the first
  worker is still alive, both write the same results, and one record counts.
- After the death of a coordinator, the next one acquires the lease. Then the earlier one and its
  workers are *fenced off*, since the lease no longer has the token that they check. The next
  coordinator folds all that the earlier session has committed, including what a worker has written
  after its last check, and begins its own session. From then on, records of the earlier session are
  ignored.

So `sweep run` repeated is all that is ever needed to complete a study. The parts are in
`sweep.store.lease`, `sweep.store.commit`, which has the steps of a commit one by one,
`sweep.campaign.worker.commit` and `sweep.campaign.hand_out`; `sweep.store.store` lists the
files.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from integrators.compiler.kernels import checking
from integrators.errors import check_number
from integrators.html import html_text
from integrators.status import COMPLETE, STATUS
from sweep import campaign, clusters  # whose modules import Dask only when something is computed
from sweep.analysis.rows import Rows
from sweep.campaign.plan import Planner, make_tasks
from sweep.campaign.watch import NotebookWatcher, Progress, Watcher, is_notebook
from sweep.campaign.worker.compute import compile_kernels
from sweep.campaign.worker.task import CHECKPOINT_EVERY
from sweep.clusters.spec import LOCAL, cluster_spec_from_arguments
from sweep.clusters.stop_request import StopRequest
from sweep.errors import Interrupted
from sweep.plugins import approvals
from sweep.store import create, diff, provenance
from sweep.store.backends.storage_failures import (
    explain_storage_failure,
    is_storage_full_or_failing,
)
from sweep.store.commit import fold
from sweep.store.files import are_runs_computed_to_sample
from sweep.store.lease import requests, sessions
from sweep.store.lease.lease import Lease, acquire_lease
from sweep.store.lease.sessions import Session, StorePresence, code_hash
from sweep.store.progress import Prediction, ProgressFile, status
from sweep.store.store import Store
from sweep.store.stored_studies import resolve_study_and_store
from sweep.store.upkeep.mark_runs import mark_runs_not_computed
from sweep.study import Study, variables
from sweep.text import count_with_noun

if TYPE_CHECKING:
    from pathlib import Path

    import pandas
    from distributed import Client

    from sweep.campaign.plan import ExperimentPlan
    from sweep.campaign.worker.task import Receipt, Task
    from sweep.clusters.connect import Connect
    from sweep.clusters.spec import ClusterSpec
    from sweep.clusters.workers import Worker
    from sweep.store.backends.places import Place
    from sweep.store.diff import ExperimentDiff
    from sweep.store.files import Unfolded
    from sweep.store.lease.holder import LeaseHolder


FAILURES_IN_WORDS = {
    "left_domain": "left the domain of the method (step too large)",
    "not_converged": "did not converge",
    "not_finite": "blew up",
    "step_too_small": "needed steps below round-off or more than max_steps",
    "not_conserved": "broke what their system conserves by far more than their tolerance",
}


@dataclass(frozen=True)
class Tally:
    """Numbers of runs of an experiment: all, committed and failed.

    Parameters
    ----------
    experiment : str
    runs : int
        Runs of the study.
    done : int
        Number of these runs that are committed.
    failed : tuple of (str, int)
        Number of runs by status, other than ``complete``.
    """

    experiment: str
    runs: int
    done: int
    failed: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Outcome:
    """Result of `run`: the state of the store, and why the run ended early.

    Parameters
    ----------
    store : Path or ObjectPlace
    tallies : tuple of Tally
    stopped : str
        Reason of an early end; otherwise empty. A run whose store was taken over ended early, even
        if the other process has computed all the rest.
    """

    store: Place
    tallies: tuple[Tally, ...]
    stopped: str = ""

    @property
    def complete(self) -> bool:
        """Whether every run is committed, whatever its status, and there was no early end."""
        return not self.stopped and all(tally.done == tally.runs for tally in self.tallies)

    @property
    def failed(self) -> int:
        """Number of committed runs that failed."""
        return sum(count for tally in self.tallies for _, count in tally.failed)

    @property
    def rows(self) -> Rows:
        """Numbers of all, committed and failed runs of each experiment: `Rows` of dicts."""
        return Rows(
            {"experiment": tally.experiment, "runs": tally.runs, "done": tally.done}
            | {"failed": sum(count for _, count in tally.failed)}
            | dict(tally.failed)
            for tally in self.tallies
        )

    def to_dataframe(self) -> pandas.DataFrame:
        """Numbers of all, committed and failed runs of each experiment: a `pandas.DataFrame`."""
        return self.rows.to_dataframe()

    @property
    def failures_in_words(self) -> list[str]:
        """A line for each experiment and status of its failed runs."""
        return [
            f"{tally.experiment}: {count:,} of {tally.runs:,} runs {FAILURES_IN_WORDS[status]}"
            for tally in self.tallies
            for status, count in tally.failed
        ]

    @property
    def in_words(self) -> str:
        """One line that says how the run ended."""
        runs, done = (sum(getattr(own, name) for own in self.tallies) for name in ("runs", "done"))
        if self.complete:
            failed = f", {self.failed:,} of them failed" if self.failed else ""
            return f"Complete: {runs:,} runs in {self.store}{failed}"
        why = f" ({self.stopped})" if self.stopped else ""
        return f"Stopped{why} with {done:,} of {runs:,} runs committed"

    def __str__(self) -> str:
        return "\n".join([*self.failures_in_words, self.in_words])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_text(self.in_words) + self.rows._repr_html_()


def run(
    study: str | Path | Store | Study,
    store: str | Place | Store | None = None,
    client: Client | None = None,
    *,
    cluster: ClusterSpec | str | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    max_time: float | None = None,
    checkpoint_every: float = CHECKPOINT_EVERY,
    watcher: Watcher | None = None,
    name: str = "",
    trust_plugins: bool = False,
) -> Outcome:
    """Run a study on a Dask cluster into its store; existing results are kept.

    Parameters
    ----------
    study : str, Path, Store or Study
        A file, the name of a packaged study, or a store, whose study is continued.
    store : str, Path or Store, optional
        A path that all workers can see, or ``s3://BUCKET/PATH``; by default ``./NAME.zarr``.
    client : distributed.Client, optional
        Client of a running cluster, which is left running.
    cluster : ClusterSpec or str, optional
        Workers to compute on, instead of `client`; or the name of a profile in Dask's
        configuration.
    workers : int, optional
        Number of processes of a cluster to start. By default a local cluster has one per core, but
        no more than there are tasks.
    scheduler : str, optional
        Address of a running scheduler, instead of starting a cluster.
    max_time : float, optional
        Seconds after which the run ends, with all committed runs; running it again resumes.
    checkpoint_every : float, optional
        Approximate seconds between two commits of a task; unfinished runs are stored in checkpoints
        twice as often. A task whose worker is killed loses at most about this much work.
    watcher : Watcher, optional
        Callbacks for the progress; by default it is shown in notebooks.
    name : str, optional
        Name by which `sweep cancel` can end the run even before it has the lease.
    trust_plugins : bool
        Whether to approve, and run, the plugins that the store brings. See
        `sweep.plugins.approvals`.

    Returns
    -------
    Outcome

    Raises
    ------
    StudyError
        If the study is not valid.
    StoreError
        If the store belongs to another study, cannot be written, or is leased by another process.
    InputError
        If a number is not positive, a cluster cannot be reached or started, or a store brings a
        plugin that this user has not approved.
    TaskFailed
        If a task raised an exception; committed runs stay.
    StoreLost
        If the store was moved, deleted or replaced meanwhile.
    Interrupted
        If this process cannot write, since the disk is full or the bucket fails; or if a stop is
        requested before it has the lease. Any other early end is an `Outcome` with the reason.
    """
    watcher = watcher or (NotebookWatcher() if is_notebook() else Watcher())
    study, store = resolve_study_and_store(study, store, trust_plugins)
    spec = cluster_spec_from_arguments(cluster, workers, scheduler)
    if spec.profile not in (None, LOCAL):  # refused even if there is nothing to compute
        clusters.profiles.find_cluster_profile(spec.profile)
    if max_time is not None:
        max_time = check_number("max_time", max_time, above=0.0)
    checkpoint_every = check_number("checkpoint_every", checkpoint_every, above=0.0)

    def say_stop(reason: str) -> None:
        text = f"\nStopping when running tasks have committed ({reason}); Ctrl-C gives up"
        watcher.said(text)

    def say_wait(holder: LeaseHolder, seconds: float) -> None:
        text = f"Held by {holder} since {holder.since}; watching for up to {seconds:.0f} s whether"
        watcher.said(f"{text} it is alive")

    with (
        StopRequest(say_stop, max_time) as stop,
        checking(stop.check),
        sessions.calling_when_process_leaves(stop.request),
        acquire_lease(store, stop.request, stop.check, say_wait) as lease,
        requests.watching_for_cancellation(store, (lease.token, name), stop.request),
    ):
        presence = StorePresence(store)
        coordinator = _Coordinator(store, study, lease, stop, watcher, checkpoint_every, presence)
        with _stopping_if_not_storable(store), presence.noticed(), store.naming_damage():
            return coordinator.run(client, spec)


@contextlib.contextmanager
def _stopping_if_not_storable(store: Store) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if not is_storage_full_or_failing(error):
            raise
        raise Interrupted(explain_storage_failure(store.place, error)) from error


@dataclass(eq=False)
class _Coordinator:
    """A run of a study, in the process that holds the lease; parameters as in `run`."""

    store: Store
    study: Study
    lease: Lease
    stop: StopRequest
    watcher: Watcher
    checkpoint_every: float
    presence: StorePresence
    # Known once there is a cluster.
    client: Client = field(init=False)
    session: Session = field(init=False)
    noted: ProgressFile = field(init=False)
    workers: dict[str, Worker] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)  # steps, with file and line, whose error was said

    def run(self, client: Client | None, spec: ClusterSpec) -> Outcome:
        """Create or extend the store, compute what it lacks, and return the `Outcome`."""
        if (root := self.store.existing_root()) is not None:
            self.presence.note_store()
            fold.fold_leftovers(self.store, self.lease)
            root = self.store.root()
        entries = diff.diff_root_against_study(self.store, root, self.study)
        if not sessions.is_process_computing_tasks():  # else approved at submission
            approvals.approve_plugins(self.study.library.plugins)
        self.watcher.compared(entries)
        try:
            if any(entry.pending.any() for entry in entries):
                with self._connecting(client, spec) as connected:
                    stopped = self._compute_pending(entries, connected)
                    return _fold_and_tally(self.store, entries, stopped, self.lease)
            with self._creating_or_growing_store(entries):
                pass
            return _fold_and_tally(self.store, entries, "", self.lease)
        # For an end before anything is computed, or a loss of the lease after everything is.
        except Interrupted as reason:
            tallies = tuple(
                Tally(entry.name, entry.table.size, int((~entry.pending).sum()), ())
                for entry in entries
            )
            return Outcome(self.store.place, tallies, str(reason))

    def _connecting(
        self, client: Client | None, spec: ClusterSpec
    ) -> contextlib.AbstractContextManager[Connect]:
        """Context manager for the client: the given one, or that of a cluster."""
        if client is not None:
            return contextlib.nullcontext(lambda tasks: client)
        if spec.profile in (None, LOCAL) and spec.scheduler is None and spec.scheduler_file is None:
            clusters.processes.ensure_server()  # which imports beside this process
        found: contextlib.AbstractContextManager[Connect] = clusters.connect.starting_or_connecting(
            spec, self.stop.check, self.watcher.said
        )
        return found

    def _compute_pending(self, entries: Sequence[ExperimentDiff], connected: Connect) -> str:
        """Create or grow the store, compute pending runs, and return the reason of an early end."""
        check, cores = self.lease.check, os.cpu_count() or 1
        self.session = Session(uuid.uuid4().hex, self.lease.token, code_hash())
        with Planner(
            entries,
            self.stop.check,
            lambda now: self.watcher.progressed(str(now), now.done / now.of),
        ) as planner:
            plans = planner.next_plans()
            tasks = sum(plan.count_tasks(cores) for plan in plans) if planner.ended else cores
            with contextlib.ExitStack() as stack, ThreadPoolExecutor(1) as pool:
                making = pool.submit(stack.enter_context, self._creating_or_growing_store(entries))
                self.client = connected(tasks)
                with campaign.hand_out.noticing_scheduler_loss(self.client):
                    self.workers = clusters.workers.inspect_workers(
                        self.client, self.store, self.lease.token, self.stop
                    )
                    self.stop.check()
                    self._compile(plans)
                anew = {group: rows for entry in entries for group, rows in entry.anew.items()}
                if anew:  # a worker that was suspended may still have records of it
                    fold.end_session(self.store, self.lease)
                for group, rows in anew.items():
                    mark_runs_not_computed(self.store, group, rows, check)
                is_new = making.result()
            name = self.session.name
            self.presence.begun(fold.begin_session(self.store, name, self.lease, is_new))
            return self._compute(planner)

    @contextlib.contextmanager
    def _creating_or_growing_store(self, entries: Sequence[ExperimentDiff]) -> Iterator[bool]:
        """As the function of `create`, but open the store again; give whether it is new."""
        check = self.lease.check
        with create.creating_or_growing_store(self.store, self.study, entries, check) as is_new:
            yield is_new
        self.store = self.store.anew()

    def _record_workers(self) -> None:
        """Record the hosts and environments of the workers in the store."""
        known, check = self.store.attributes, self.lease.check
        before, environments = known.get("hosts", []), known.get(provenance.ATTRIBUTE, {})
        hosts = before + [
            host
            for host in clusters.workers.hosts_of_workers(self.workers.values())
            if host not in before
        ]
        environments = environments | {
            str(provenance.provenance_number(own.environment)): own.environment
            for own in self.workers.values()
        }
        noted = {"hosts": hosts, provenance.ATTRIBUTE: environments}
        if known | noted != known or not self.store.consolidated:
            create.set_root_attributes(self.store, noted, check)
        # Results may depend on the kind of machine, through sines and logarithms of its library.
        kinds = sorted({host["kind"] for host in hosts if "kind" in host})
        if len(kinds) > 1:
            self.watcher.said(
                "Warning: the runs of this store are from different kinds of machines, whose sines "
                f"may differ in the last bit: {'; '.join(kinds)}"
            )

    def _compile(self, plans: Sequence[ExperimentPlan]) -> None:
        """Compile the kernels once per host and kind of CPU, unless the planner has done so."""
        if addresses := clusters.workers.first_worker_of_each_kind(self.workers):
            self.watcher.said(f"Compiling kernels on {count_with_noun(len(addresses), 'worker')}")
            probes = [probe for plan in plans for probe in plan.all_probes]
            compiling = functools.partial(compile_kernels, probes, self.session)
            try:
                clusters.workers.call_on_workers(self.client, addresses, compiling, self.stop)
            except (Interrupted, KeyboardInterrupt):
                clusters.workers.stop_session_on_workers(self.client, self.session)
                raise

    def _compute(self, planner: Planner) -> str:
        """Compute all pending runs; return the reason of an early end, if any."""
        self._record_workers()
        self.noted = ProgressFile(self.store, self.lease.token)
        progress = Progress(sum(int(entry.pending.sum()) for entry in planner.entries))
        try:
            with (
                campaign.hand_out.noticing_scheduler_loss(self.client),
                clusters.workers.ending_workers_in_order(
                    self.client, self.session, self.stop.check
                ),
            ):
                for tasks in filter(None, self._tasks_of_plans(planner, progress)):
                    self._hand_out(tasks, progress)
        except Interrupted as reason:
            self.presence.check()
            return str(reason)
        finally:
            self.watcher.ended(progress.in_the_end, progress.done / progress.runs)
        self.presence.ended()
        return ""

    def _tasks_of_plans(self, planner: Planner, progress: Progress) -> Iterator[list[Task]]:
        """Yield lists of tasks that can be computed now, as their experiments are planned.

        First come references and runs that need none, then the other runs.
        """
        known = any(entry.known for entry in planner.entries)
        counted = status(self.store) if known else ()
        before = collections.Counter({own.experiment: own.cpu_seconds for own in counted})
        slots = campaign.hand_out.count_tasks_at_once(self.client, self.stop.check)
        plans, count = planner.plans, 0
        while plans:
            references, runs = make_tasks(self.store, plans, slots, self.checkpoint_every)
            count += len(references) + len(runs)
            progress.planned = planner.ended
            progress.expected += sum(task.cost for task in (*references, *runs))
            if planner.ended:
                self.watcher.planned(planner.plans, count, slots)
                self.watcher.resumed(counted)
            expected = {
                plan.entry.name: Prediction(
                    int(plan.entry.pending.sum()),
                    plan.lacking_references,
                    plan.cpu_seconds,
                    before[plan.entry.name],
                )
                for plan in planner.plans
            }
            self.noted.note_plans(expected)
            waiting = {task.experiment for task in references}
            yield [*references, *(task for task in runs if task.experiment not in waiting)]
            yield [task for task in runs if task.experiment in waiting]
            try:
                if plans := planner.next_plans():
                    self._compile(plans)
            except KeyboardInterrupt:  # as for a stop while tasks run, since there are results
                raise Interrupted(self.stop.reason) from None

    def _hand_out(self, tasks: Sequence[Task], progress: Progress) -> None:
        """Compute tasks, and fold their records."""

        def show() -> None:
            if not self.stop.reason:  # after a stop the rest is not computed
                self.watcher.progressed(str(progress), progress.share)

        def on_running(running: Sequence[Task], left: Sequence[Task]) -> None:
            self.presence.check()
            mine = (task for task in running if task.group == task.experiment)
            self.noted.note_running((task.experiment, task.runs) for task in mine)
            seconds = progress.slowness * sum(task.cost for task in left)
            clusters.connect.tell_work_left(self.client, seconds, len(left))
            progress.running = running
            show()

        def on_receipt(task: Task, receipt: Receipt) -> None:
            progress.note_receipt(task, receipt)
            for where, what in receipt.errors:
                if where not in self.told:
                    self.told.add(where)
                    self.watcher.said(f"Warning: {where}: {what}")
            if receipt.whole:
                folding.committed(*task.key)

        places, check = (task.key for task in tasks), self.lease.check
        folding = fold.BackgroundFolding(self.store, self.session.name, check, places)
        with folding:
            campaign.hand_out.hand_out(
                self.client, tasks, self.session, self.stop, on_receipt, on_running
            )
        clusters.connect.tell_work_left(self.client, 0.0, 0)
        show()


def _fold_and_tally(
    store: Store, entries: Sequence[ExperimentDiff], stopped: str, lease: Lease
) -> Outcome:
    """Fold all records, end the session if it is complete, and count committed runs.

    Nothing is written if the lease is lost, which the `Outcome` says. A request to stop is ignored
    if all runs are done.
    """
    writes = lease.is_held()
    try:
        if writes and (session := store.session_name):
            fold.fold_all(store, session, lease.check)
    except OSError as error:  # the next run does it
        if not stopped or not is_storage_full_or_failing(error):
            raise
        writes = False
    tallies = tuple(
        _tally_experiment(store, entry, None if writes else store.unfolded(entry.name))
        for entry in entries
    )
    if all(tally.done == tally.runs for tally in tallies):
        stopped = ""
    outcome = Outcome(store.place, tallies, lease.lost or stopped)
    try:
        if writes and outcome.complete:
            fold.end_session(store, lease, checkpoints=True)
        noted = provenance.provenance_noted_by_workers(store) if writes else {}
        if noted or (writes and not store.consolidated):
            create.set_root_attributes(store, noted, lease.check)
    except OSError as error:  # the next run does it
        if outcome.complete or not is_storage_full_or_failing(error):
            raise
    return outcome


def _tally_experiment(store: Store, entry: ExperimentDiff, unfolded: Unfolded | None) -> Tally:
    arrays = store.arrays_of_group(entry.name, unfolded)
    counts, status = (arrays[name].values() for name in (variables.SAMPLE_COUNT.name, "status"))
    done = are_runs_computed_to_sample(counts, status, entry.experiment.samples + 1)[entry.rows]
    codes, numbers = np.unique(status[entry.rows][done], return_counts=True)
    failed = tuple(
        (STATUS[code], number)
        for code, number in zip(codes.tolist(), numbers.tolist(), strict=True)
        if code > COMPLETE
    )
    return Tally(entry.name, entry.table.size, int(done.sum()), failed)
