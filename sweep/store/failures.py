"""Which runs failed, why and where, and which axis values they share; which references end early.

Without zarr and without Numba.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from integrators.errors import check_known
from sweep.analysis.rows import Rows
from sweep.store import files
from sweep.store.backends.places import METADATA, Place
from sweep.store.commit.ledger import check_files_are_there
from sweep.store.files import ArrayFiles, references_group_name
from sweep.store.progress import IN_STUDY, STATUS
from sweep.store.store import Store
from sweep.study import variables
from sweep.text import format_number

Condition = tuple[str, NDArray[np.bool_]]  # as text, and of which runs it holds
COMPLETE = 0
FEW = 4  # labels that a condition may list
UNTRUSTED = 1e4  # tolerances by which a reference breaks an invariant that it is not trusted for
SETTLED = 1e-6  # difference of states at which a larger tolerance may be met
STEPPING = ("integrator", "step_size", "tolerance")
WHERE = ("stop_step", "stop_time", "stop_residual")


@dataclass(frozen=True)
class Shared:
    """What failed runs of an experiment have in common.

    Parameters
    ----------
    experiment, status : str
    failed : int
        Runs that ended with this status.
    complete : int
        Runs of the experiment that are complete.
    conditions : tuple of str
        What holds for all that failed and leaves out as many complete runs as axes can.
    also : int
        Complete runs for which all conditions hold, too.
    """

    experiment: str
    status: str
    failed: int
    complete: int
    conditions: tuple[str, ...]
    also: int

    def __str__(self) -> str:
        runs = "the one run" if self.failed == 1 else f"all {self.failed:,} runs"
        what = f"{self.experiment}: {runs} with status {self.status}"
        if not self.conditions:
            among = "; of the complete runs, no axis tells them apart" if self.complete else ""
            return f"{what} share no axis value that others do not have{among}"
        verb = "has" if self.failed == 1 else "have"
        text = f"{what} {verb} {' and '.join(self.conditions)}"
        if not self.complete:
            return f"{text}; no run of the experiment is complete"
        if not self.also:
            return f"{text}; none of the {self.complete:,} complete runs has"
        return f"{text}; so have {self.also:,} of the {self.complete:,} complete runs"


@dataclass(frozen=True)
class ReferenceEnd:
    """Why a reference ends before its last sample, and where.

    Parameters
    ----------
    reference : dict
        Its settings, as `sweep.study.experiment.Reference` has them.
    reason : str
        One of `variables.REFERENCE_ENDS`, not the first.
    held : float
        Time of the last sample at which it holds; NaN where that is not known.
    lost : float
        Time of the next one.
    step_size : float
        Of one in double-double, the step size that was tried last; NaN otherwise.
    difference : float
        By which the states of that and of half of it differ there, of the size of the initial one.
    steps : float
        About how many would have been needed until there, if these are too many; of one in double
        precision those after which ``max_steps`` ended it.
    stop_time : float
        Of one in double precision, when it ended; NaN where that is not known.
    """

    reference: dict[str, Any]
    reason: str
    held: float
    lost: float
    step_size: float = math.nan
    difference: float = math.nan
    steps: float = math.nan
    stop_time: float = math.nan

    @property
    def bounded(self) -> bool:
        """Whether ``max_steps`` ended one that ends as ``step_too_small``, and not round-off."""
        return not math.isnan(self.steps)

    @property
    def columns(self) -> dict[str, float]:
        """Of `variables.OF_REFERENCE_ENDS` all but the number of samples, by name."""
        return {
            variables.REFERENCE_END: variables.REFERENCE_ENDS.index(self.reason),
            **{variable.name: getattr(self, variable.name) for variable in variables.STOPS},
        }

    def __str__(self) -> str:
        arithmetic = self.reference.get("arithmetic")
        where = f" in {arithmetic}" if arithmetic else ""
        return (
            f"the reference by {self.reference['integrator']!r}{where} does not meet its tolerance "
            f"{self.reference['tolerance']:g}: at t = {self._when:.6g} {self._why}. Give "
            f"{', or '.join(self._remedies)}"
        )

    @property
    def _when(self) -> float:
        return self.lost if math.isnan(self.stop_time) else self.stop_time

    @property
    def _why(self) -> str:
        apart = (
            f"the step sizes {self.step_size:.3g} and {self.step_size / 2:.3g} differ by "
            f"{self.difference:.2g} of the state's size, and "
        )
        vanished = "its steps fall below round-off, as near a singularity"
        beyond = (
            "max_steps ended it: it took that many steps, or its last 10,000 hardly led on, as "
            "near a singularity"
        )
        return {
            "not_finite": "its states are finite no more, as at a collision",
            "step_too_small": f"it ends as step_too_small: {beyond if self.bounded else vanished}",
            "not_conserved": "it breaks what the system conserves by more than "
            f"{UNTRUSTED:,.0f} tolerances and one for each step, as where a step leads past a "
            "singularity, and is trusted no more",
            "no_step_size": f"no step size leads on, the last tried was {self.step_size / 2:.3g}: "
            "states are finite no more or a solver does not converge, as at a collision",
            "rounding": f"{apart}shorter steps do not come nearer: rounding decides, that grows "
            "as neighbouring trajectories part",
            "too_many_steps": f"{apart}to meet it some {self.steps:.1g} steps are needed, which "
            "are too many",
        }[self.reason]

    @property
    def _remedies(self) -> list[str]:
        cures = ["an integrator of higher order"] if self.reason == "too_many_steps" else []
        cures += ["a larger tolerance"] if self.difference < SETTLED else []
        if self.reason == "step_too_small" and self.bounded:
            cures += ["a larger max_steps"]
        known = self.held > 0
        return [
            *cures,
            f"until = {self.held:.15g}, to which it is met" if known else "a shorter time",
        ]


@dataclass(frozen=True)
class EarlyReference:
    """A reference that ends before its last sample: errors of its runs are NaN from there.

    Parameters
    ----------
    experiment : str
    starts : tuple of str
        The labels of its initial state.
    runs : tuple of int
        Rows of the study's runs that are measured against it.
    end : ReferenceEnd
    """

    experiment: str
    starts: tuple[str, ...]
    runs: tuple[int, ...]
    end: ReferenceEnd

    def __str__(self) -> str:
        runs = f"{len(self.runs):,} run{'s' * (len(self.runs) != 1)}"
        return (
            f"{self.experiment}: the reference of {' or '.join(self.starts)} holds until "
            f"t = {self.end.held:g}, and errors of its {runs} are NaN from there: {self.end}"
        )


@dataclass(frozen=True, eq=False)
class _Table:
    """Columns of an experiment's runs of the study, and its axes."""

    name: str
    columns: dict[str, np.ndarray]
    axes: tuple[str, ...]
    meanings: dict[int, str]

    @property
    def failed(self) -> NDArray[np.bool_]:
        failed: NDArray[np.bool_] = (self.columns[variables.SAMPLE_COUNT.name] > 0) & (
            self.columns[STATUS] > COMPLETE
        )
        return failed

    @property
    def complete(self) -> NDArray[np.bool_]:
        complete: NDArray[np.bool_] = (self.columns[variables.SAMPLE_COUNT.name] > 0) & (
            self.columns[STATUS] == COMPLETE
        )
        return complete


def failed_runs(
    store: str | Place | Store, experiments: str | Sequence[str] = (), most: int | None = None
) -> Rows:
    """A row for each run of the study that failed.

    Parameters
    ----------
    store : str, Path or Store
    experiments : str or sequence of str
        Only these; all if there is none.
    most : int, optional
        Only the first of each experiment, so many.

    Returns
    -------
    Rows of dict
        ``experiment``, ``run`` (its row), the axes, ``status``, ``stop_step``, ``stop_time``,
        ``stop_residual``.

    Raises
    ------
    InputError
        If there is no store, one of a newer version or a damaged one, or no such experiment.
    """
    rows = Rows()
    for table in _run_status_tables_of_store(Store.at(store), experiments):
        for row in np.flatnonzero(table.failed)[:most]:
            found = {name: table.columns[name][row] for name in ("run", *table.axes)}
            found["status"] = table.meanings[int(table.columns[STATUS][row])]
            found |= {name: table.columns[name][row] for name in WHERE}
            rows.append(
                {"experiment": table.name} | {k: _to_python_scalar(v) for k, v in found.items()}
            )
    return rows


def values_shared_by_failed_runs(
    store: str | Place | Store, experiments: str | Sequence[str] = ()
) -> list[Shared]:
    """What the failed runs have in common, a `Shared` for each experiment and status.

    Parameters as in `failed_runs`.
    """
    found = []
    for table in _run_status_tables_of_store(Store.at(store), experiments):
        status = table.columns[STATUS]
        for value in np.unique(status[table.failed]):
            among = table.failed & (status == value)
            conditions, also = _conditions_shared_by_failures(table, among)
            found.append(
                Shared(
                    experiment=table.name,
                    status=table.meanings[int(value)],
                    failed=int(among.sum()),
                    complete=int(table.complete.sum()),
                    conditions=conditions,
                    also=also,
                )
            )
    return found


def references_that_end_early(
    store: str | Place | Store, experiments: str | Sequence[str] = ()
) -> Rows:
    """The references that end before their last sample: since when, why, and what would do.

    Parameters
    ----------
    store, experiments
        As in `failed_runs`.

    Returns
    -------
    Rows of EarlyReference

    Raises
    ------
    InputError
        As `failed_runs`.
    """
    store = Store.at(store)
    return Rows(
        early
        for name in _known_experiments(store, experiments)
        for early in _early_references_of_experiment(store, name)
    )


def _early_references_of_experiment(store: Store, name: str) -> Iterator[EarlyReference]:
    group = references_group_name(name)
    if not (store.place / group / variables.REFERENCE_END).is_dir():  # there is none
        return
    with store.naming_damage():
        arrays = store.arrays_of_group(group, store.unfolded(group))
        ends, counts = (
            arrays[variables.REFERENCE_END].values(),
            arrays[variables.SAMPLE_COUNT.name].values(),
        )
        early = np.flatnonzero((ends > 0) & (counts > 0))
        if not len(early):
            return
        own = {variable.name: arrays[variable.name].values() for variable in variables.STOPS}
        held = arrays[variables.HELD_SAMPLES].values()
        attributes = files.read_zarr_metadata(store.place / name)["attributes"]
        reference = json.loads(attributes["experiment"])["reference"]
        times, labels, wanted = (
            store.array(name, key).values() for key in ("time", "initial_condition", IN_STUDY)
        )
        of_runs = store.arrays_of_group(name, store.unfolded(name))
        runs = _reference_of_each_run(of_runs, arrays)
    for row in early.tolist():
        mine = np.array([run for run, known in runs.items() if row == known], dtype=int)
        mine = mine[wanted[mine]]
        if len(mine):
            stop: dict[str, Any] = {key: float(values[row]) for key, values in own.items()}
            end = ReferenceEnd(
                reference,
                variables.REFERENCE_ENDS[ends[row]],
                *times[[held[row] - 1, held[row]]].tolist(),
                **stop,
            )
            starts = tuple(dict.fromkeys(labels[mine].tolist()))
            yield EarlyReference(name, starts, tuple(mine.tolist()), end)


def _reference_of_each_run(
    arrays: Mapping[str, ArrayFiles], references: Mapping[str, ArrayFiles]
) -> dict[int, int]:
    """The row of the reference of each run that one of those that end early may be of.

    Where several are of one initial state, that whose own error the run has stored.
    """
    found: dict[int, int] = {}
    for run, known in rows_measured_against(arrays, references).items():
        if len(known) > 1:
            (own,) = arrays[variables.REFERENCE_ERROR].read_rows(np.array([run]))
            errors = references["error"].read_rows(np.array(known))
            own_errors = zip(known, errors, strict=True)
            known = tuple(row for row, error in own_errors if _is_start_of(own, error))
        found |= {run: known[0]} if known else {}
    return found


def _is_start_of(one: np.ndarray, other: np.ndarray) -> bool:
    size = min(len(one), len(other))
    return np.array_equal(one[:size], other[:size], equal_nan=True)


def rows_measured_against(
    arrays: Mapping[str, ArrayFiles], references: Mapping[str, ArrayFiles]
) -> dict[int, tuple[int, ...]]:
    """Rows of the references of each run that may be measured against one that ends early.

    Those of its initial state: several, where a study scans a parameter that starts do not depend
    on.

    Parameters
    ----------
    arrays, references : dict of str to ArrayFiles
        Of an experiment, and of its references.

    Returns
    -------
    dict of int to tuple of int
        By the runs' rows.

    Raises
    ------
    Damaged
        If one of them is.
    """
    ends = references[variables.REFERENCE_END].values()
    if not (ends > 0).any():
        return {}
    rows_of: dict[bytes, list[int]] = {}
    for row, state in _states_as_bytes(references[variables.INITIAL_STATE.name]):
        rows_of.setdefault(state, []).append(row)
    known = {state: tuple(rows) for state, rows in rows_of.items() if (ends[rows] > 0).any()}
    return {
        row: known[state]
        for row, state in _states_as_bytes(arrays[variables.INITIAL_STATE.name])
        if state in known
    }


def _states_as_bytes(array: ArrayFiles) -> Iterator[tuple[int, bytes]]:
    """Row and initial state, without the rows that others have beyond it, of an array of these."""
    for i in range(array.grid[0]):
        rows = array.rows((i,))
        states = array.read_rows(np.arange(rows.start, rows.stop))
        for row, state in enumerate(states, rows.start):
            yield row, state[~np.isnan(state).all(axis=1)].tobytes()


def _conditions_shared_by_failures(
    table: _Table, failed: NDArray[np.bool_]
) -> tuple[tuple[str, ...], int]:
    """The conditions as text, the fewest that leave out the most complete runs; who is left."""
    known = failed | table.complete
    found = []
    for axis in table.axes:
        condition = _axis_condition_of_failures(axis, table.columns[axis], failed, known)
        if condition is not None:
            found.append(condition)
    complete = table.complete

    def left(conditions: Sequence[Condition]) -> int:
        mask = complete.copy()
        for _, holds in conditions:
            mask &= holds
        return int(mask.sum())

    least = left(found)
    for condition in reversed(list(found)):
        fewer = [other for other in found if other is not condition]
        # where there is no complete run to compare with, what failed runs share is all there is
        if fewer and complete.any() and left(fewer) == least:
            found = fewer
    if complete.any() and least == int(complete.sum()):
        return (), least
    return tuple(text for text, _ in found), least


def _axis_condition_of_failures(
    axis: str, values: np.ndarray, failed: NDArray[np.bool_], known: NDArray[np.bool_]
) -> Condition | None:
    """What `values` satisfy where `failed`, and where that holds; None if it leaves out none."""
    mine = values[failed]
    if values.dtype.kind == "f":
        if np.isnan(mine).any():  # an adaptive run has no step size
            return None
        return _axis_range_of_failures(axis, values, mine, known)
    chosen = sorted({str(value) for value in mine})
    holds = np.array([str(value) in chosen for value in values])
    if len(chosen) > FEW or holds[known].all() or "" in chosen:
        return None
    return f"{axis} {' or '.join(chosen)}", holds


def _axis_range_of_failures(
    axis: str, values: np.ndarray, mine: np.ndarray, known: NDArray[np.bool_]
) -> Condition | None:
    low, high = mine.min(), mine.max()
    others = values[known & np.isfinite(values)]
    above, below = low > others.min(), high < others.max()
    if low == high:
        text, holds = f"{axis} = {format_number(float(low), 6)}", values == low
    elif above and below:
        text = f"{axis} from {format_number(float(low), 6)} to {format_number(float(high), 6)}"
        holds = (values >= low) & (values <= high)
    elif above:
        text, holds = f"{axis} ≥ {format_number(float(low), 6)}", values >= low
    else:
        text, holds = f"{axis} ≤ {format_number(float(high), 6)}", values <= high
    return None if holds[known].all() else (text, holds)


# --- reading ---------------------------------------------------------------------------------


def _known_experiments(store: Store, experiments: str | Sequence[str]) -> Sequence[str]:
    """Names of experiments as `failed_runs` takes them, all if there are none."""
    experiments = (experiments,) if isinstance(experiments, str) else experiments
    for name in experiments:
        check_known(f"experiment of {store}", name, store.experiments)
    return experiments or store.experiments


def _run_status_tables_of_store(store: Store, experiments: str | Sequence[str]) -> Iterator[_Table]:
    for name in _known_experiments(store, experiments):
        with store.naming_damage():
            check_files_are_there(store, name)
            table = _read_run_status_table(store, name)
        yield table


def _read_run_status_table(store: Store, name: str) -> _Table:
    directory = store.place / name
    attributes = files.read_zarr_metadata(directory).get("attributes", {})
    axes = (*STEPPING, *attributes["scanned"], *attributes["start_axes"])
    axes = tuple(dict.fromkeys((*axes, "initial_condition", "ensemble")))
    names = (variables.SAMPLE_COUNT.name, STATUS, IN_STUDY, "run", *axes, *WHERE)
    columns = files.read_1d_arrays(directory, names, store.unfolded(name))
    size = min(map(len, columns.values()))  # a store that just grows has two lengths
    wanted = columns[IN_STUDY][:size].astype(bool)
    columns = {name: values[:size][wanted] for name, values in columns.items()}
    flags = files.ArrayFiles.read(directory / STATUS).attributes
    meanings = dict(zip(flags["flag_values"], flags["flag_meanings"].split(), strict=True))
    return _Table(name, columns, axes, meanings)


def _to_python_scalar(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value


def failure_status_names(store: Store) -> dict[str, int]:
    """Names of the statuses of a store's runs that failed, as its arrays name them."""
    for name in store.experiments:
        file = store.place / name / STATUS / METADATA
        if file.exists():
            flags = json.loads(file.read_text())["attributes"]
            named = zip(flags["flag_values"], flags["flag_meanings"].split(), strict=True)
            return {text: value for value, text in named if value > COMPLETE}
    return {}
