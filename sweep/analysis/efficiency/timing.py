"""CPU times of runs: how often and over how long they were measured, and which can be compared.

A clock is read before and after a batch of up to eight runs that are computed side by side, and
each run has its share. Every batch costs a call besides its steps, just under a millisecond, and
what else a machine does makes times longer, never shorter. So of repeated measurements the least
counts; it is a measurement where it is long against a call, and where another one agrees with it.
Another kind of machine, or another version, takes other times: what the fewer runs were computed by
is not compared with the rest.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sweep.analysis.runs.blocks import Booleans, Floats, Integers
from sweep.analysis.runs.selection import complete_runs, distinct_values_and_codes, scanned_axes

SHORTEST = 0.01  # seconds of a batch: a call is a tenth of that at most
FEWEST = 3  # repeats whose two least tell what the machine adds
APART = 0.1  # of the least: what these may differ by
ALONE = 1.0  # seconds over which a single measurement is an average over what the machine does
ELSEWHERE = "taken by another machine or version than the others"
OF_CELL = ("integrator", "step_size", "tolerance")
# In a run table: what `RunTimes` has as least, apart, batch, repeats and elsewhere.
TIMED = ("cpu_time", "cpu_time_apart", "cpu_time_batch", "cpu_time_repeats", "cpu_time_elsewhere")


@dataclass(frozen=True)
class RunTimes:
    """CPU times of runs over their repeats, in seconds, each of shape ``(run,)``.

    Attributes
    ----------
    least, largest : ndarray
        The shortest one and the longest; NaN where there is none.
    apart : ndarray
        Relative difference of the two shortest times; NaN where a run was timed once.
    batch : ndarray
        Measured time of the batch with the shortest time: that of all its runs together.
    repeats : ndarray of int
        Number of times that a run was timed.
    elsewhere : ndarray of bool
        Whether all times of a run are of another kind of machine or another version than those of
        most runs. Of a run that has others these alone are not counted.
    """

    least: Floats
    largest: Floats
    apart: Floats
    batch: Floats
    repeats: Integers
    elsewhere: Booleans


class TimedRow(Protocol):
    """A row with a CPU time, such as `pareto.WorkEstimate`, whose attributes it has."""

    @property
    def cpu_time(self) -> float:
        """Seconds of a run."""

    @property
    def cpu_time_measured(self) -> bool:
        """Whether it can be compared."""

    @property
    def cpu_time_elsewhere(self) -> bool:
        """Whether it is of another machine or version than most."""

    @property
    def cpu_time_apart(self) -> float:
        """Relative difference of the two least of its repeats."""

    @property
    def cpu_time_batch(self) -> float:
        """Seconds of the batch that was timed."""

    @property
    def repeats(self) -> int:
        """How often it was timed."""


def cpu_times_of_runs(full: xr.Dataset, dataset: xr.Dataset) -> RunTimes:
    """The CPU times of each run.

    Parameters
    ----------
    full : xarray.Dataset
        A run table with its repeats.
    dataset : xarray.Dataset
        The same with each run once.

    Returns
    -------
    RunTimes
        Of the runs of `dataset`.
    """
    count = dataset.sizes["run"]
    if "cpu_time" not in full:
        none = np.zeros(count, dtype=int)
        least, largest, apart, batch = np.full((4, count), np.nan)
        return RunTimes(least, largest, apart, batch, none, none.astype(bool))
    times, away = full["cpu_time"].values, _computed_elsewhere(full)
    repeat = full["repeat"].values if "repeat" in full.coords else np.zeros(len(times), dtype=int)
    cell = _numbers_of_combinations(
        *(full[name].values for name in (*OF_CELL, *scanned_axes(full)))
    )
    run = _numbers_of_combinations(cell, full["initial_condition"].values)
    counts = complete_runs(full)
    here = np.bincount(run, weights=counts & ~away) > 0
    times = np.where(counts & ~(away & here[run]), times, np.nan)
    # The runs of a batch have its time in equal shares: just the same number.
    batch = times * np.bincount(same := _numbers_of_combinations(cell, repeat, times))[same]
    order = np.lexsort((times, run))  # NaN last
    first = np.flatnonzero(np.diff(run[order], prepend=-1))
    repeats = np.bincount(run, weights=np.isfinite(times), minlength=len(first)).astype(int)
    ranked = times[order]
    second = np.where(repeats > 1, ranked[np.minimum(first + 1, len(ranked) - 1)], np.nan)
    largest = ranked[first + np.maximum(repeats, 1) - 1]
    of = run[repeat == repeat.min()]
    least = ranked[first]
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = second / least - 1.0
    elsewhere = ~here & (repeats > 0)
    columns = (least, largest, apart, batch[order][first], repeats, elsewhere)
    return RunTimes(*(column[of] for column in columns))


def _computed_elsewhere(full: xr.Dataset) -> Booleans:
    """Which complete runs were computed by another machine or version than most of them."""
    if "environment" not in full:
        return np.zeros(full.sizes["run"], dtype=bool)
    number, counts = full["environment"].values, complete_runs(full)
    known, times = np.unique(number[counts], return_counts=True)
    return counts & (number != known[np.argmax(times)]) if len(known) else ~counts & False


def _numbers_of_combinations(*columns: NDArray[Any]) -> Integers:
    """Number the combinations of values of the columns, from 0."""
    place = np.zeros(len(columns[0]), dtype=np.int64)
    for values in columns:
        distinct, code = distinct_values_and_codes(values)
        _, place = np.unique(place * len(distinct) + code, return_inverse=True)
    return place


def with_cpu_times_of_runs(full: xr.Dataset, dataset: xr.Dataset) -> xr.Dataset:
    """A run table with the `RunTimes` of its runs, as the variables `TIMED`.

    Parameters
    ----------
    full, dataset : xarray.Dataset
        As of `cpu_times_of_runs`.
    """
    timed = cpu_times_of_runs(full, dataset)
    columns = (timed.least, timed.apart, timed.batch, timed.repeats, timed.elsewhere)
    names = dict(zip(TIMED, columns, strict=True))
    return dataset.assign({name: ("run", values) for name, values in names.items()})


def comparable_cpu_time_of_cell(cell: xr.Dataset) -> float:
    """The CPU time of a complete run, the median; NaN where it cannot be compared with others.

    Parameters
    ----------
    cell : xarray.Dataset
        Runs of one integrator at one step size, `with_cpu_times_of_runs`.
    """
    counts = complete_runs(cell)
    if not counts.any():
        return np.nan
    times, apart, batch, repeats, elsewhere = (cell[name].values[counts] for name in TIMED)
    if elsewhere.any():
        return np.nan
    measured = is_cpu_time_comparable(np.median(apart), np.median(batch), repeats.min())
    time = float(np.median(times))
    return time if measured and time > 0 else np.nan


def is_cpu_time_comparable(apart: float, batch: float, repeats: float) -> bool:
    """Whether a CPU time can be compared with others.

    Parameters
    ----------
    apart, batch, repeats : float
        As of `RunTimes`.
    """
    if not batch >= SHORTEST:
        return False
    return batch >= ALONE or (repeats >= FEWEST and apart <= APART)


def why_cpu_times_not_comparable(rows: Iterable[TimedRow]) -> str:
    """Why CPU times cannot be compared, and what to add to the study; empty where all can be.

    Parameters
    ----------
    rows : sequence of WorkEstimate
    """
    timed = [row for row in rows if row.cpu_time > 0]
    lost = [row for row in timed if not row.cpu_time_measured]
    if not lost:
        return ""
    of = "CPU times" if len(lost) == len(timed) else f"{len(lost)} of {len(timed)} CPU times"
    away = [row for row in lost if row.cpu_time_elsewhere]
    if away and len(away) == len(lost):
        return f"{of} cannot be compared, {ELSEWHERE}: the experiment needs a store of one machine"
    if away:
        lost = [row for row in lost if not row.cpu_time_elsewhere]
    repeats, batches = [row.repeats for row in lost], [row.cpu_time_batch for row in lost]
    often = "once" if max(repeats) == 1 else f"{_range_in_words(repeats)} times"
    text = f"timed {often}, in batches of {_time_range_in_words(batches)}"
    apart = max((row.cpu_time_apart for row in lost if row.repeats > 1), default=0.0)
    if apart > APART:
        text += f", whose two least are up to {100 * apart:.0f} % apart"
    cures = []
    if min(repeats) < FEWEST:
        cures.append("`repeat = 5`")
    elif apart > APART:
        cures.append("more repeats on an idle machine")
    if min(batches) < SHORTEST:
        cures.append(f"so long a duration that a batch takes {_time_range_in_words([SHORTEST])}")
    text += f", or {ELSEWHERE}" if away else ""
    return f"{of} cannot be compared, {text}: the experiment needs {' and '.join(cures)}"


def _range_in_words(values: Sequence[float]) -> str:
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return low if low == high else f"{low} – {high}"


def _time_range_in_words(seconds: Sequence[float]) -> str:
    """Times with their unit: ``0.8 – 20 ms``."""
    low, high = ((1e3, "ms") if one < 1 else (1, "s") for one in (min(seconds), max(seconds)))
    if low == high:
        return f"{_range_in_words([low[0] * one for one in seconds])} {low[1]}"
    return f"{low[0] * min(seconds):.3g} {low[1]} – {high[0] * max(seconds):.3g} {high[1]}"
