"""Which runs failed, why and where, and which axis values they share. Without Numba or zarr."""

import json
import math
from dataclasses import dataclass

import numpy as np

from integrators.errors import check_known
from sweep.store import files
from sweep.store.commit.fold import check_files_are_there
from sweep.store.progress import IN_STUDY, MARKER, STATUS
from sweep.store.store import Store
from sweep.text import format_number

COMPLETE = 0
FEW = 4  # labels that a condition may list
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
    conditions: tuple
    also: int

    def __str__(self):
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


@dataclass(frozen=True, eq=False)
class _Table:
    """Columns of an experiment's runs of the study, and its axes."""

    name: str
    columns: dict
    axes: tuple
    meanings: dict

    @property
    def failed(self):
        return (self.columns[MARKER] > 0) & (self.columns[STATUS] > COMPLETE)

    @property
    def complete(self):
        return (self.columns[MARKER] > 0) & (self.columns[STATUS] == COMPLETE)


def failed_runs(store, experiments=(), most=None):
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
    list of dict
        ``experiment``, ``run`` (its row), the axes, ``status``, ``stop_step``, ``stop_time``,
        ``stop_residual``.

    Raises
    ------
    InputError
        If there is no store, one of a newer version or a damaged one, or no such experiment.
    """
    rows = []
    for table in _run_status_tables_of_store(Store.at(store), experiments):
        for row in np.flatnonzero(table.failed)[:most]:
            found = {name: table.columns[name][row] for name in ("run", *table.axes)}
            found["status"] = table.meanings[int(table.columns[STATUS][row])]
            found |= {name: _where_run_stopped(table.columns, name, row) for name in WHERE}
            rows.append(
                {"experiment": table.name} | {k: _to_python_scalar(v) for k, v in found.items()}
            )
    return rows


def values_shared_by_failed_runs(store, experiments=()):
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


def _conditions_shared_by_failures(table, failed):
    """The conditions as text, the fewest that leave out the most complete runs; who is left."""
    known = failed | table.complete
    found = []
    for axis in table.axes:
        condition = _axis_condition_of_failures(axis, table.columns[axis], failed, known)
        if condition is not None:
            found.append(condition)
    complete = table.complete

    def left(conditions):
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


def _axis_condition_of_failures(axis, values, failed, known):
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


def _axis_range_of_failures(axis, values, mine, known):
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


def _run_status_tables_of_store(store, experiments):
    names = store.experiments
    experiments = (experiments,) if isinstance(experiments, str) else experiments
    for name in experiments:
        check_known(f"experiment of {store}", name, names)
    for name in experiments or names:
        with store.naming_damage():
            check_files_are_there(store, name)
            table = _read_run_status_table(store, name)
        yield table


def _read_run_status_table(store, name):
    directory = store.place / name
    attributes = files.read_zarr_metadata(directory).get("attributes", {})
    axes = (*STEPPING, *attributes["scanned"], *attributes["start_axes"])
    axes = tuple(dict.fromkeys((*axes, "initial_condition", "ensemble")))
    there = [name for name in WHERE if (directory / name).is_dir()]
    names = (MARKER, STATUS, IN_STUDY, "run", *axes, *there)
    columns = files.read_1d_arrays(directory, names, store.unfolded(name))
    size = min(map(len, columns.values()))  # a store that just grows has two lengths
    wanted = columns[IN_STUDY][:size].astype(bool)
    columns = {name: values[:size][wanted] for name, values in columns.items()}
    flags = files.ArrayFiles.read(directory / STATUS).attributes
    meanings = dict(zip(flags["flag_values"], flags["flag_meanings"].split(), strict=True))
    return _Table(name, columns, axes, meanings)


def _where_run_stopped(columns, name, row):
    """Where a run stopped; a store of an earlier version has no times."""
    if name in columns:
        return columns[name][row]
    if name == "stop_time":
        return float(columns["stop_step"][row] * columns["step_size"][row])
    return math.nan


def _to_python_scalar(value):
    return value.item() if isinstance(value, np.generic) else value


def failure_status_names(store):
    """Names of the statuses of a store's runs that failed, as its arrays name them."""
    for name in store.experiments:
        file = store.place / name / STATUS / files.METADATA
        if file.exists():
            flags = json.loads(file.read_text())["attributes"]
            named = zip(flags["flag_values"], flags["flag_meanings"].split(), strict=True)
            return {text: value for value, text in named if value > COMPLETE}
    return {}
