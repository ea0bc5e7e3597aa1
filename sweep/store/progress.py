"""The progress of a store, from sample counts and names of records, without Numba or zarr.

A store of a million runs is counted in a fraction of a second. The coordinator writes its plans,
and what is running, to ``progress.json`` from time to time; no result depends on that file.
"""

import collections
import contextlib
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.analysis.rows import Rows
from sweep.errors import Damaged
from sweep.store.backends.places import Place, write_text_atomically
from sweep.store.commit.ledger import check_files_are_there
from sweep.store.commit.records import (
    CHECKPOINT,
    PARTS,
    RECORD,
    Record,
    list_records_among,
)
from sweep.store.files import (
    INTERNAL,
    ArrayFiles,
    are_runs_computed_to_sample,
    references_group_name,
)
from sweep.store.lease.holder import (
    parse_json_object,
    parse_sealed_json_object,
    read_first_bytes_of_file,
    seal_json_object,
)
from sweep.store.lease.lease import lease_holder_of_store
from sweep.store.store import Store
from sweep.study import variables

STATUS, IN_STUDY, CPU_TIME = "status", "in_study", "cpu_time"
TIME = "time"


@dataclass(frozen=True)
class Progress:
    """The progress of an experiment.

    Parameters
    ----------
    experiment : str
    runs : int
        Number of runs in the study.
    done : int
        Number of these runs that are committed up to the last sample, or failed.
    running : int
        Number of other runs that are being computed.
    partly : float
        The part of the unfinished runs that is in checkpoints, as a number of runs.
    failed : int
        Number of failed runs among those that are done.
    left_study : int
        Number of rows that are no longer in the study.
    cpu_seconds : float
        CPU time of all that is committed, including references, and of runs in checkpoints.
    """

    experiment: str
    runs: int
    done: int
    running: int
    partly: float
    failed: int
    left_study: int
    cpu_seconds: float

    @property
    def counts(self) -> dict[str, Any]:
        """All counts, by their names in `sweep status`."""
        return {
            "experiment": self.experiment,
            "runs": self.runs,
            "done": self.done,
            "running": self.running,
            "pending": self.pending,
            "failed": self.failed,
            "left study": self.left_study,
            "cpu_seconds": self.cpu_seconds,
        }

    @property
    def left(self) -> int:
        """Number of runs that are not done, whether they are being computed or not."""
        return self.runs - self.done

    @property
    def pending(self) -> int:
        """Number of runs that are neither done nor being computed."""
        return self.left - self.running


def status(store: str | Place | Store) -> Rows[Progress]:
    """Count the runs of each experiment of a store.

    Parameters
    ----------
    store : str, Path or Store

    Returns
    -------
    Rows of Progress

    Raises
    ------
    InputError
        If there is no store, or it has a newer format.
    Damaged
        If an array that must be read is damaged.
    """
    store = Store.at(store)
    with store.naming_damage():
        return Rows(_count_each(store.anew()))


def _count_each(store: Store) -> list[Progress]:
    experiments, known = store.experiments, store.consolidated  # read before the files
    paths = store.list_files()  # before the arrays, into which records may be folded meanwhile
    records = list_records_among(store.place, paths)
    session = store.session_name if records else ""
    found = []
    for name in experiments:
        if known and name not in known:  # about to be created
            continue
        if any(path.startswith(f"{name}/") for path in paths):
            check_files_are_there(store, name, paths)
            found.append(_count(store, name, records, session))
        elif known:
            raise Damaged(f"the experiment {name!r} is gone")
    some_left = f"{INTERNAL}/{PROGRESS}" in paths and any(one.left for one in found)
    running = runs_in_flight(store) if some_left else {}
    return [replace(one, running=min(running.get(one.experiment, 0), one.left)) for one in found]


def _count(
    store: Store,
    name: str,
    records: Sequence[Record],
    session: str,
) -> Progress:
    """The progress of an experiment, without the runs that are being computed."""
    arrays = store.arrays_of_group(name)
    counts, status, seconds = (
        _values(name, arrays, own) for own in (variables.SAMPLE_COUNT.name, STATUS, CPU_TIME)
    )
    # In most stores no run has left the study, and `in_study` need not be read.
    some_left = store.consolidated.get(name, {}).get("attributes", {}).get("rows_left_study", 1)
    wanted = np.ones(len(counts), dtype=bool)
    if some_left:
        wanted = _values(name, arrays, IN_STUDY).astype(bool)
    size = min(map(len, (counts, status, seconds, wanted)))  # they differ while the store grows
    counts, status, seconds, wanted = (own[:size] for own in (counts, status, seconds, wanted))
    seconds = np.where(counts > 0, np.nan_to_num(seconds), 0.0)
    samples = arrays[TIME].shape[0]
    done = are_runs_computed_to_sample(counts, status, samples)
    failed = int((wanted & done & (status > 0)).sum())
    of_runs, of_references = (
        [record for record in records if record.group == group]
        for group in (name, references_group_name(name))
    )
    milliseconds = sum(
        own.name.milliseconds for own in of_references if _is_committed(own, session)
    )
    for record in of_runs:
        with contextlib.suppress(FileNotFoundError):  # it was folded
            if not _is_committed(record, session) or record.name.last < samples:
                continue
            rows = record.rows[record.rows < size]
            if not done[rows].all():
                done[rows] = True
                failed += record.name.failed
                milliseconds += record.name.milliseconds
    partly, used = _count_partly_computed_runs(of_runs, done, samples, seconds)
    done &= wanted
    left = int((wanted & ~done).sum())
    return Progress(
        experiment=name,
        runs=int(wanted.sum()),
        done=int(done.sum()),
        running=0,
        partly=min(partly, float(left)),
        failed=failed,
        left_study=int(size - wanted.sum()),
        cpu_seconds=float(seconds.sum())
        + _cpu_seconds_of_references(store, references_group_name(name))
        + 1e-3 * milliseconds
        + used,
    )


def _cpu_seconds_of_references(store: Store, group: str) -> float:
    """CPU seconds of a group's committed references."""
    arrays = store.arrays_of_group(group)
    if CPU_TIME not in arrays:  # no references
        return 0.0
    names = variables.SAMPLE_COUNT.name, CPU_TIME
    counts, seconds = (_values(group, arrays, own) for own in names)
    size = min(len(counts), len(seconds))
    return float(np.nansum(seconds[:size][counts[:size] > 0]))


def _values(group: str, arrays: Mapping[str, ArrayFiles], name: str) -> np.ndarray:
    """The values of an array over runs."""
    if name not in arrays:
        raise Damaged(f"{group}/{name} has no metadata")
    return arrays[name].values()


def _is_committed(record: Record, session: str) -> bool:
    """Whether a record holds finished rows, and belongs to the session whose records count."""
    return record.name.kind == RECORD and record.name.session == session


def _count_partly_computed_runs(
    records: Iterable[Record],
    done: NDArray[np.bool_],
    samples: int,
    standing: NDArray[np.float64],
) -> tuple[float, float]:
    """Count unfinished runs by the part that is in their checkpoints, and sum up their CPU time.

    The CPU seconds `standing` in the arrays, of runs that are being extended, are not included.
    """
    furthest: dict[int, tuple[float, int, float]] = {}
    for name in (record.name for record in records if record.name.kind == CHECKPOINT):
        if name.start < len(done) and not done[name.start]:
            known = furthest.get(name.start, (0.0, 0, 0.0))
            reach = min(max(name.last - 1, 0) + name.part / PARTS, samples - 1.0)
            used = 1e-3 * name.milliseconds - float(standing[name.start : name.stop].sum())
            furthest[name.start] = max(known, (reach, name.count, max(used, 0.0)))
    return (
        sum(n * reach / max(1, samples - 1) for reach, n, _ in furthest.values()),
        sum(used for *_, used in furthest.values()),
    )


class RunRate:
    """The recent number of runs per second, including parts of runs, and the remaining time.

    Parameters
    ----------
    span : float
        Length in seconds of the period over which the rate is averaged.
    """

    def __init__(self, span: float = 120.0) -> None:
        self._span = span
        self._seen: list[tuple[float, float]] = []

    def add(self, seconds: float, done: float) -> None:
        """Note that `done` runs were committed at the time `seconds`."""
        self._seen.append((seconds, done))
        while len(self._seen) > 2 and self._seen[1][0] <= seconds - self._span:
            self._seen.pop(0)

    @property
    def per_second(self) -> float:
        """Runs per second; 0 until a run has ended."""
        (began, first), (now, last) = self._seen[0], self._seen[-1]
        return max(0.0, (last - first) / (now - began)) if now > began else 0.0

    def seconds_left(self, pending: float) -> float:
        """Expected seconds until `pending` runs are done; NaN if unknown."""
        if not pending:
            return 0.0
        return pending / self.per_second if self.per_second > 0 else float("nan")


# --- the coordinator's own file ----------------------------------------------------------------

PROGRESS = "progress.json"
EVERY, EVERY_OBJECT = 0.2, 2.0  # minimum seconds between two writes


@dataclass(frozen=True)
class Prediction:
    """The CPU time that a plan predicts, for one experiment or for all.

    Parameters
    ----------
    runs, references : int
        Number of runs, and of references, that were pending at the time of the plan.
    cpu_seconds : float
        Predicted CPU time of their integration.
    before : float
        CPU time of all that was committed at the time of the plan.
    """

    runs: int
    references: int
    cpu_seconds: float
    before: float


class ProgressFile:
    """Writes the plans and running tasks of a coordinator, for `sweep status` alone.

    Parameters
    ----------
    store : Store
    token : str
        Token of the coordinator's lease.
    """

    def __init__(self, store: Store, token: str) -> None:
        self._store, self._every = store, EVERY_OBJECT if store.in_bucket else EVERY
        self._content: dict[str, Any] = {"plans": {}, "token": token, "running": {}}
        # In a bucket the first write waits: short tasks are not worth two requests.
        self._since = time.monotonic() if store.in_bucket else -math.inf

    def note_plans(self, experiments: Mapping[str, Prediction]) -> None:
        """Write the predictions of a plan by experiment, for `read_plan_predictions`.

        They cover what was pending when the plan was made, for a run, an extension or a retry.
        """
        self._write(plans={name: asdict(own) for name, own in experiments.items()})

    def note_running(self, tasks: Iterable[tuple[str, int]]) -> None:
        """Write the number of running runs by experiment, unless the last write is too recent."""
        if (now := time.monotonic()) >= self._since + self._every:
            self._since = now
            runs: collections.Counter[str] = collections.Counter()
            for experiment, number in tasks:
                runs[experiment] += number
            self._write(running=runs)

    def _write(self, **content: object) -> None:
        self._content |= content
        with contextlib.suppress(OSError):
            file = self._store.internal(PROGRESS)
            write_text_atomically(file, seal_json_object(self._content).decode())


def read_plan_predictions(store: Store) -> tuple[Prediction | None, dict[str, Prediction]]:
    """The predictions of the last plan of a store, in total and by experiment.

    Without a plan the total is None and the dict is empty.
    """
    with contextlib.suppress(ValueError, TypeError, AttributeError):
        plans = _read_progress(store).get("plans", {}).items()
        if experiments := {name: Prediction(**own) for name, own in plans}:
            columns = zip(*map(astuple, experiments.values()), strict=True)
            return Prediction(*map(sum, columns)), experiments
    return None, {}


def runs_in_flight(store: Store) -> dict[str, int]:
    """Number of runs that are being computed, by experiment; empty unless a coordinator runs."""
    found = _read_progress(store)
    running = found.get("running")
    if running and isinstance(running, dict) and (holder := lease_holder_of_store(store)):
        known = {name: n for name, n in running.items() if type(n) is int and n >= 0}
        return known if found.get("token") == holder.token else {}
    return {}


def is_progress_whole(content: bytes) -> bool:
    """Whether the content of a file is complete as a `ProgressFile` wrote it."""
    return parse_sealed_json_object(content).keys() == {"plans", "token", "running"}


def _read_progress(store: Store) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        return parse_json_object(read_first_bytes_of_file(store.internal(PROGRESS)))
    return {}
