"""How far a store is: read from counts of samples and names of records, without Numba or zarr.

A store of a million runs is counted in a fraction of a second.
"""

import collections
import contextlib
import json
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sweep.analysis.rows import Rows
from sweep.errors import Damaged
from sweep.store import files
from sweep.store.backends.places import Place, write_text_atomically
from sweep.store.commit.ledger import check_files_are_there
from sweep.store.commit.records import (
    CHECKPOINT,
    PARTS,
    RECORD,
    Record,
    RecordsByGroup,
    records_by_group,
)
from sweep.store.files import INTERNAL, ArrayFiles, RowNumbers, references_group_name
from sweep.store.lease.holder import parse_json_object, read_first_bytes_of_file
from sweep.store.lease.lease import lease_holder_of_store
from sweep.store.store import Store
from sweep.study import variables

STATUS, IN_STUDY, CPU_TIME = "status", "in_study", "cpu_time"
TIME = "time"


class RunningTask(Protocol):
    """What a task says of the runs that it computes."""

    @property
    def group(self) -> str:
        """Of its rows: of the experiment, or of its references."""

    @property
    def experiment(self) -> str:
        """Its name."""

    @property
    def runs(self) -> int:
        """Their number."""


@dataclass(frozen=True)
class Progress:
    """How far an experiment is.

    Parameters
    ----------
    experiment : str
    runs : int
        That the study asks for.
    done : int
        Of these, committed up to the last sample, failed ones too.
    running : int
        Of the others, those that are being computed.
    partly : float
        What their checkpoints hold of those that are not done, as a number of runs.
    failed : int
        Of these, committed with a status other than complete.
    left_study : int
        Rows that the study no longer asks for.
    cpu_seconds : float
        Of all that is committed, references included, and of runs in checkpoints.
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
        """What there is to count, by its name in `sweep status`."""
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
        """Runs that are not committed: those that are being computed, and those that wait."""
        return self.runs - self.done

    @property
    def pending(self) -> int:
        """Runs that are neither committed nor being computed."""
        return self.left - self.running


def status(store: str | Place | Store) -> Rows:
    """How far each experiment of a store is.

    Parameters
    ----------
    store : str, Path or Store

    Returns
    -------
    Rows of Progress

    Raises
    ------
    InputError
        If there is no store, or one of a newer version.
    """
    return Rows(Counter(Store.at(store)).count())


class Counter:
    """Counts a store's runs, again and again.

    Parameters
    ----------
    store : Store
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    def count(self) -> list[Progress]:
        """The `Progress` of each experiment, in the order of the study.

        Raises
        ------
        InputError
            If there is no store, or one of a newer version.
        Damaged
            If an array that is counted is.
        """
        with self.store.naming_damage():
            return self._count_all(self.store.anew())

    def _count_all(self, store: Store) -> list[Progress]:
        experiments, known = store.experiments, store.consolidated  # as they are before the files
        paths = store.list_files()  # before arrays, into which records may be folded just now
        records = records_by_group(store.place, paths)
        session = store.session_name if records else ""
        running = runs_in_flight(store) if f"{INTERNAL}/{IN_FLIGHT}" in paths else {}
        counted = []
        for name in experiments:
            if known and name not in known:  # it is about to be made
                continue
            if any(path.startswith(f"{name}/") for path in paths):
                check_files_are_there(store, name, paths)
                counted.append(self._count(store, name, records, session, running.get(name, 0)))
            elif known:
                raise Damaged(f"the experiment {name!r} is gone")
        return counted

    def _count(
        self, store: Store, name: str, records: RecordsByGroup, session: str, running: int
    ) -> Progress:
        arrays = store.arrays_of_group(name)
        counts, status, seconds = (
            self._values(name, arrays, array)
            for array in (variables.SAMPLE_COUNT.name, STATUS, CPU_TIME)
        )
        # a count, so that `in_study`, true of all runs in most stores, need not be read
        some_left = store.consolidated.get(name, {}).get("attributes", {}).get("rows_left_study", 1)
        in_study = self._values(name, arrays, IN_STUDY) if some_left else np.ones(len(counts))
        size = min(map(len, (counts, status, in_study)))  # a store that just grows has two lengths
        counts, status, wanted = counts[:size], status[:size], in_study[:size].astype(bool)
        samples = arrays[TIME].shape[0]
        done = files.are_runs_computed_to_sample(counts, status, samples)
        failed = int((wanted & done & (status > 0)).sum())
        of_runs, of_references = (
            [record for found in records.get(group, {}).values() for record in found]
            for group in (name, references_group_name(name))
        )
        milliseconds = sum(
            record.name.milliseconds for record in _records_of_session(of_references, session)
        )
        for record in _records_of_session(of_runs, session):
            rows = _rows_of_record(record)
            rows = rows[rows < size]
            if record.name.last >= samples and not done[rows].all():
                done[rows] = True
                failed += record.name.failed
                milliseconds += record.name.milliseconds
        standing = np.where(counts > 0, seconds[:size], 0.0)
        partly, used = _count_partly_computed_runs(of_runs, done, samples, np.nan_to_num(standing))
        done &= wanted
        return Progress(
            experiment=name,
            runs=int(wanted.sum()),
            done=int(done.sum()),
            running=min(running, int((wanted & ~done).sum())),
            partly=min(partly, float((wanted & ~done).sum())),
            failed=failed,
            left_study=int(size - wanted.sum()),
            cpu_seconds=_committed_cpu_seconds(counts, seconds)
            + self._cpu_seconds_of_references(store, name)
            + 1e-3 * milliseconds
            + used,
        )

    def _cpu_seconds_of_references(self, store: Store, name: str) -> float:
        """CPU seconds of an experiment's committed references."""
        group = references_group_name(name)
        arrays = store.arrays_of_group(group)
        if CPU_TIME not in arrays:  # there are none
            return 0.0
        names = variables.SAMPLE_COUNT.name, CPU_TIME
        return _committed_cpu_seconds(*(self._values(group, arrays, own) for own in names))

    def _values(self, group: str, arrays: Mapping[str, ArrayFiles], name: str) -> np.ndarray:
        """The values of an array over runs; `Damaged`, with its name, if they are."""
        if (array := arrays.get(name)) is None:
            raise Damaged(f"{group}/{name} has no metadata")
        return array.values()


def _records_of_session(records: Iterable[Record], session: str) -> list[Record]:
    """The records, not checkpoints, that are of a session."""
    return [r for r in records if r.name.kind == RECORD and r.name.session == session]


def _count_partly_computed_runs(
    records: Iterable[Record],
    done: NDArray[np.bool_],
    samples: int,
    standing: NDArray[np.float64],
) -> tuple[float, float]:
    """Runs on their way, each counted as far as its checkpoints are, and their CPU seconds.

    Without those that are `standing` in the arrays, of shorter runs that are extended.
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


def _committed_cpu_seconds(counts: NDArray[np.integer], seconds: NDArray[np.float64]) -> float:
    """Seconds of what is committed; a store that just grows has arrays of two lengths."""
    size = min(len(counts), len(seconds))
    return float(np.nansum(seconds[:size][counts[:size] > 0]))


def _rows_of_record(record: Record) -> RowNumbers:
    """The rows of a record, by its name alone where that says all; none if it was folded."""
    name = record.name
    if name.count == name.stop - name.start:
        return np.arange(name.start, name.stop)
    try:
        return record.rows
    except FileNotFoundError:
        return np.zeros(0, dtype=int)


class Rate:
    """Runs a second, parts of runs too, over the last while, and the time left.

    Parameters
    ----------
    span : float
        Seconds that are looked back.
    """

    def __init__(self, span: float = 120.0) -> None:
        self._span = span
        self._seen: list[tuple[float, float]] = []

    def add(self, seconds: float, done: float) -> None:
        """Note that `done` runs were committed at a time in `seconds`."""
        self._seen.append((seconds, done))
        while len(self._seen) > 2 and self._seen[1][0] <= seconds - self._span:
            self._seen.pop(0)

    @property
    def per_second(self) -> float:
        """Runs a second, 0 as long as none was seen to end."""
        (began, first), (now, last) = self._seen[0], self._seen[-1]
        return max(0.0, (last - first) / (now - began)) if now > began else 0.0

    def seconds_left(self, pending: float) -> float:
        """Until `pending` runs are done, NaN where that is not known."""
        if not pending:
            return 0.0
        return pending / self.per_second if self.per_second > 0 else float("nan")


IN_FLIGHT, PREDICTION = "in-flight.json", "prediction.json"
EVERY, EVERY_OBJECT = 0.2, 2.0  # seconds between two writings, at least


class InFlight:
    """Notes which tasks run, within ``with``.

    Parameters
    ----------
    store : Store
    """

    def __init__(self, store: Store) -> None:
        self._path = store.internal(IN_FLIGHT)
        self._every = EVERY_OBJECT if store.in_bucket else EVERY
        # What takes no longer than that is not worth two requests.
        self._since, self._is_noted = time.monotonic() if store.in_bucket else -math.inf, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if not self._is_noted:
            return
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def note(self, tasks: Iterable[RunningTask]) -> None:
        """Write down how many runs of each experiment `tasks` have, now and then."""
        if (now := time.monotonic()) < self._since + self._every:
            return
        self._since, self._is_noted = now, True
        runs: collections.Counter[str] = collections.Counter()
        for task in tasks:
            runs[task.experiment] += task.runs if task.group == task.experiment else 0
        with contextlib.suppress(OSError):  # nothing depends on it
            write_text_atomically(self._path, json.dumps(runs))


def runs_in_flight(store: Store) -> dict[str, int]:
    """Runs that are being computed, by experiment; none if nobody holds the store."""
    with contextlib.suppress(OSError, ValueError):
        found = parse_json_object(read_first_bytes_of_file(store.internal(IN_FLIGHT)))
        if lease_holder_of_store(store) is not None:
            return {name: n for name, n in found.items() if type(n) is int and n >= 0}
    return {}


# --- what the last plan expected ---------------------------------------------------------------


@dataclass(frozen=True)
class Prediction:
    """CPU time that a plan expects, of one experiment or of all.

    Parameters
    ----------
    runs, references : int
        Pending then.
    cpu_seconds : float
        Of their integration, expected.
    before : float
        Seconds that all that was committed then had used.
    """

    runs: int
    references: int
    cpu_seconds: float
    before: float


def write_plan_predictions(
    store: Store, total: Prediction, experiments: Mapping[str, Prediction]
) -> None:
    """Write what a plan expects, for `read_plan_predictions`.

    It is of what was pending when the plan was made, by a run, an extension or a retry; an
    earlier plan's runs that were done by then count in no later one.

    Parameters
    ----------
    store : sweep.store.store.Store
    total : Prediction
        Of all experiments.
    experiments : dict of str to Prediction
    """
    found = {name: asdict(own) for name, own in experiments.items()}
    said = {"total": asdict(total), "experiments": found}
    text = json.dumps(said | {"seal": files.seal(said)})
    write_text_atomically(store.internal(PREDICTION), text)


def is_prediction_whole(store: Store) -> bool:
    """Whether a store's prediction is what was written, or it has none."""
    try:
        found = json.loads(store.internal(PREDICTION).read_bytes())
        own: bool = found.pop("seal") == files.seal(found)
        return own
    except FileNotFoundError:
        return True
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def read_plan_predictions(store: Store) -> tuple[Prediction | None, dict[str, Prediction]]:
    """The last plan of a store: in all, and by experiment; None, and nothing, without one."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        found = json.loads(store.internal(PREDICTION).read_text())
        experiments = {name: Prediction(**own) for name, own in found["experiments"].items()}
        return Prediction(**found["total"]), experiments
    return None, {}
