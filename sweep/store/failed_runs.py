"""Failed runs, with the axis values that they share, and references that end early."""

import collections
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from integrators.errors import check_known
from sweep.analysis.rows import Rows
from sweep.store.backends.places import Place
from sweep.store.files import references_group_name
from sweep.store.reference_ends import ReferenceEnd
from sweep.store.store import Store
from sweep.study import variables
from sweep.text import format_number

if TYPE_CHECKING:
    import pandas
    import xarray as xr

COMPLETE = 0
STATUS_NAMES: dict[int, str] = dict(
    zip(
        variables.STATUS_FLAGS["flag_values"],
        variables.STATUS_FLAGS["flag_meanings"].split(),
        strict=True,
    )
)
FEW = 4  # values of an axis that a sentence lists; of more it says how many
STEPPING = ("integrator", "step_size", "tolerance")
WHERE = ("stop_step", "stop_time", "stop_residual")


@dataclass(frozen=True)
class SharedAxisValues:
    """The axis values at which runs of an experiment failed.

    Parameters
    ----------
    experiment, status : str
    failed : int
        Number of runs that ended with this status.
    values : list of dict
        Keys ``axis``, ``value``, ``failed`` (runs with this value that ended with this status) and
        ``runs`` (all complete or failed runs with this value). Axes on which runs failed at every
        value are left out.
    """

    experiment: str
    status: str
    failed: int
    values: list[dict[str, Any]]

    def __str__(self) -> str:
        runs = "the one run" if self.failed == 1 else f"all {self.failed:,} runs"
        what = f"{self.experiment}: {runs} with status {self.status}"
        if not self.values:
            return f"{what} share no axis value that others do not have"
        axes = itertools.groupby(self.values, lambda found: str(found["axis"]))
        said = " and ".join(_failing_values_in_words(axis, list(found)) for axis, found in axes)
        return f"{what} {'has' if self.failed == 1 else 'have'} {said}"


def _failing_values_in_words(axis: str, found: Sequence[dict[str, Any]]) -> str:
    """The values of an axis in words, each with its number of failed runs and of all runs."""
    values = [format_number(row["value"], 6) for row in found]
    counts = [(row["failed"], row["runs"]) for row in found]
    if len(found) > FEW:
        is_text = isinstance(found[0]["value"], str)
        values = [f"one of {len(found):,}" if is_text else f"{values[0]} to {values[-1]}"]
        failed, of_all = zip(*counts, strict=True)
        counts = [(sum(failed), sum(of_all))]
    texts = (f"{v} ({n:,} of {of:,})" for v, (n, of) in zip(values, counts, strict=True))
    return f"{axis} = {' or '.join(texts)}"


@dataclass(frozen=True)
class EarlyReference:
    """A reference that ends before its last sample: from there, errors of its runs are NaN.

    Parameters
    ----------
    experiment : str
    starts : tuple of str
        The labels of its initial state.
    runs : tuple of int
        Rows of the runs that are measured against it, as far as they are in the study.
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


def failed_runs(
    store: str | Place | Store, experiments: str | Sequence[str] = (), most: int | None = None
) -> Rows[dict[str, Any]]:
    """List the failed runs of a study.

    Parameters
    ----------
    store : str, Path or Store
    experiments : str or sequence of str
        Names of experiments; all experiments if empty.
    most : int, optional
        At most this number of runs of each experiment; all by default.

    Returns
    -------
    Rows of dict
        One for each run: ``experiment``, ``run`` (its row), the axes, ``status``, ``stop_step``,
        ``stop_time`` and ``stop_residual``.

    Raises
    ------
    InputError
        If there is no store, it has a newer format, or there is no such experiment.
    Damaged
        If a file of the store is damaged.
    """
    found: Rows[Any] = Rows()
    for name, dataset in _datasets(Store.at(store), experiments):
        table = _run_status_table(dataset)
        failed = table[table["status"] > COMPLETE][:most]
        status = failed["status"].map(STATUS_NAMES)
        found += [
            {"experiment": name} | row for row in failed.assign(status=status).to_dict("records")
        ]
    return found


def values_shared_by_failed_runs(
    store: str | Place | Store, experiments: str | Sequence[str] = ()
) -> list[SharedAxisValues]:
    """Find the axis values at which runs failed.

    Parameters
    ----------
    store, experiments
        As in `failed_runs`.

    Returns
    -------
    list of SharedAxisValues
        One for each experiment and status.

    Raises
    ------
    InputError, Damaged
        As in `failed_runs`.
    """
    found = []
    for name, dataset in _datasets(Store.at(store), experiments):
        table = _run_status_table(dataset)
        table = table[table["status"] >= COMPLETE]
        for status in sorted(set(table["status"]) - {COMPLETE}):
            failed = table["status"] == status
            axes = table.columns.drop(["run", "status", *WHERE])
            values = [row for axis in axes for row in _failures_by_value(table[axis], failed)]
            meaning = STATUS_NAMES[status]
            found.append(SharedAxisValues(name, meaning, int(failed.sum()), values))
    return found


def _failures_by_value(axis: "pandas.Series", failed: "pandas.Series") -> list[dict[str, Any]]:
    """Count the failed runs at each axis value; nothing if runs failed at every value."""
    counts = failed.groupby(axis, dropna=False).agg(["sum", "size"])
    mine = counts[counts["sum"] > 0]
    if len(mine) == len(counts) or mine.index.isna().any() or "" in mine.index:  # has no such axis
        return []
    return [
        {"axis": axis.name, "value": value, "failed": row["sum"], "runs": row["size"]}
        for value, row in mine.to_dict("index").items()
    ]


def references_that_end_early(
    store: str | Place | Store, experiments: str | Sequence[str] = ()
) -> Rows[EarlyReference]:
    """List the references that end before their last sample, with reason and remedy.

    Parameters
    ----------
    store, experiments
        As in `failed_runs`.

    Returns
    -------
    Rows of EarlyReference

    Raises
    ------
    InputError, Damaged
        As in `failed_runs`.
    """
    store = Store.at(store)
    store.check()
    return Rows(
        early
        for name in _known_experiments(store, experiments)
        for early in _early_references_of_experiment(store, name)
    )


def _early_references_of_experiment(store: Store, name: str) -> Iterator[EarlyReference]:
    group = references_group_name(name)
    if not (store.place / group / variables.REFERENCE_END).is_dir():  # it has no references
        return
    with store.naming_damage():
        references = store.group(group)
        ends = references[variables.REFERENCE_END][:]
        early = np.flatnonzero((ends > 0) & (references[variables.SAMPLE_COUNT.name][:] > 0))
        if not len(early):
            return
        stops = {variable.name: references[variable.name][:] for variable in variables.STOPS}
        held, errors = references[variables.HELD_SAMPLES][:], references["error"]
        states = [_state_as_bytes(s) for s in references[variables.INITIAL_STATE.name][:]]
        ((_, dataset),) = _datasets(store, name)
        reference = json.loads(dataset.attrs["experiment"])["reference"]
        runs_of = collections.defaultdict(list)
        wanted = np.flatnonzero(dataset["in_study"])
        initial = dataset[variables.INITIAL_STATE.name].values
        for run in wanted.tolist():
            runs_of[_state_as_bytes(initial[run])].append(run)
        times, labels = dataset["time"].values, dataset["initial_condition"].values
        for row in early.tolist():
            mine = runs_of[states[row]]
            if states.count(states[row]) > 1:  # systems differ in a scanned parameter
                own = dataset[variables.REFERENCE_ERROR][mine].values
                same = (_is_start_of(error, errors[row]) for error in own)
                mine = list(itertools.compress(mine, same))
            if mine:
                stop: dict[str, Any] = {key: float(values[row]) for key, values in stops.items()}
                why = variables.REFERENCE_ENDS[ends[row]]
                between = times[[held[row] - 1, held[row]]].tolist()
                starts = tuple(dict.fromkeys(labels[mine].tolist()))
                yield EarlyReference(
                    name, starts, tuple(mine), ReferenceEnd(reference, why, *between, **stop)
                )


def _is_start_of(one: np.ndarray, other: np.ndarray) -> bool:
    size = min(len(one), len(other))
    return np.array_equal(one[:size], other[:size], equal_nan=True)


def _state_as_bytes(state: np.ndarray) -> bytes:
    """The bytes of an initial state, without the rows that pad it to the longest one."""
    own: np.ndarray = state[~np.isnan(state).all(axis=1)]
    return own.tobytes()


# --- reading ---------------------------------------------------------------------------------


def _known_experiments(store: Store, experiments: str | Sequence[str]) -> Sequence[str]:
    """The names of experiments, checked; all experiments of the store if none are given."""
    experiments = (experiments,) if isinstance(experiments, str) else experiments
    for name in experiments:
        check_known("experiment", name, store.experiments, where=f"of {store}")
    return experiments or store.experiments


def _datasets(store: Store, experiments: str | Sequence[str]) -> "Iterator[tuple[str, xr.Dataset]]":
    from sweep.store.open import open_study  # loads xarray, which `sweep status` does not need

    tree = open_study(store)
    for name in _known_experiments(store, experiments):
        yield name, tree[name].to_dataset()


def _run_status_table(dataset: "xr.Dataset") -> "pandas.DataFrame":
    """The runs of the study, with their axes, their status and where they stopped."""
    axes = (*STEPPING, *dataset.attrs["scanned"], *dataset.attrs["start_axes"])
    names = dict.fromkeys(("run", *axes, "initial_condition", "ensemble", "status", *WHERE))
    runs = dataset[list(names)].isel(run=np.flatnonzero(dataset["in_study"]))
    return runs.reset_coords().to_pandas().reset_index()[list(names)]


def failure_status_names() -> dict[str, int]:
    """The status values of failed runs, by name."""
    return {name: value for value, name in STATUS_NAMES.items() if value > COMPLETE}
