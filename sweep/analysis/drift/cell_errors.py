"""Errors of the runs of a cell, which have the same integrator, scanned values and step size."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from integrators.errors import InputError, check_known
from sweep.analysis.drift.estimators import FEWEST, window_weights
from sweep.analysis.runs import selection
from sweep.analysis.runs.blocks import Booleans, Floats, Integers, map_blocks
from sweep.analysis.runs.summaries import names_of_invariant_errors
from sweep.text import count_with_noun

STATISTICS = ("", "_mean", "_abs_mean", "_abs_max")  # suffixes of `energy_error`
LINEAR_STATISTICS = ("", "_mean")  # linear: those of a difference are the difference
PER_RUN = ("sample_count", "status", "steps", "in_study")
HUGE = 1e100  # a run with a larger error is blowing up, and squares of the error would overflow
BLOCK = 8192  # maximum number of runs in memory, with all their samples
BLOCK_VALUES = 2**25  # maximum number of samples in memory, of each statistic


def chosen_drift_quantities(
    dataset: xr.Dataset, quantities: Sequence[str] | str | None
) -> tuple[str, ...]:
    """The named quantities, or all recorded ones; `InputError` if one is not recorded."""
    known = quantities_with_recorded_error(dataset)
    if not known:
        raise InputError(
            "no invariant or constraint is recorded: name some in the experiment, as in "
            'record = ["energy", "momentum"], and run it into a store of its own.',
            key="record",
        )
    quantities = (quantities,) if isinstance(quantities, str) else quantities
    chosen = known if quantities is None else tuple(quantities)
    for quantity in chosen:
        check_known("quantity", quantity, known, key="quantity")
    return chosen


def quantities_with_recorded_error(dataset: xr.Dataset) -> tuple[str, ...]:
    """Names of the quantities whose error along the run is stored, e.g. ``("energy",)``."""
    errors = names_of_invariant_errors(dataset)
    return tuple(name.removesuffix("_error") for name in errors)


@dataclass(frozen=True)
class CellErrors:
    """Reduced errors of the `JudgedRuns` of a cell.

    Attributes
    ----------
    ends : ndarray, shape ``(time,)``
        Sample times, up to the last one that all of these runs have.
    times : ndarray, shape ``(windows,)``
    windows : ndarray, shape ``(starts, windows)``
        Means of time and signed error over equal windows; see `estimators.window_weights`.
    mean_abs, max_abs : ndarray, shape ``(starts,)``
        Mean and largest |error| of each run.
    steps : ndarray, shape ``(starts,)``
        Number of steps of each run.
    left_out : int
        Number of runs that are not used.
    stopped : int
        Number of used runs that fail after the last of these times.
    every_step, max_every_step : bool
        Whether the means, and the maxima, are over steps rather than over the samples.
    every : int
        Of how many steps one is in them; at most the number of the longest sample interval.
    round_off : float
        One rounding of the quantity, in the arithmetic of the runs.
    signed : bool
        Whether the errors have a sign. Errors of vectors are norms of the change, and errors of
        constraints are absolute values; neither has a sign.
    """

    ends: Floats
    times: Floats
    windows: Floats
    mean_abs: Floats
    max_abs: Floats
    steps: Floats
    left_out: int
    stopped: int
    every_step: bool
    max_every_step: bool
    every: int
    round_off: float
    signed: bool

    @property
    def starts(self) -> int:
        """Number of runs that are used."""
        return len(self.mean_abs)

    @property
    def lacks(self) -> str:
        """Why no drift can be measured; empty if one can."""
        if not self.starts:
            return "no run is complete"
        intervals = len(self.ends) - 1
        few = f"{count_with_noun(intervals, 'sample interval')}, {FEWEST} or more are needed"
        return few if intervals < FEWEST else ""


def read_cell_errors(cell: xr.Dataset, quantity: str, less: xr.Dataset | None = None) -> CellErrors:
    """Read the errors of one quantity in a cell, block by block, and reduce them.

    Statistics over steps are used if the store has them. Samples are used otherwise, and for
    adaptive runs with sample intervals in which no step ends.

    Parameters
    ----------
    cell : xarray.Dataset
        A cell from `cells_by_setting`.
    quantity : str
    less : xarray.Dataset, optional
        Runs whose errors are subtracted, one for each run of the cell. For differences, only
        samples and means over intervals are known.

    Returns
    -------
    CellErrors
    """
    judged = selection.judged_runs(cell, FEWEST)
    runs, until = judged.positions, slice(0, judged.samples)
    known = STATISTICS if less is None else LINEAR_STATISTICS
    names = [f"{quantity}_error{of}" for of in known]
    names = [name for name in names if all(name in one for one in (cell, less) if one is not None)]
    own = cell[names].isel(time=until).reset_coords(drop=True)
    others = None if less is None else less[names].isel(time=until).reset_coords(drop=True)
    ends = cell["time"].values[until]
    size = max(1, min(BLOCK, BLOCK_VALUES // len(ends)))
    blocks = (
        (_series_of_runs(own, others, names, runs[first : first + size]), (ends, quantity, names))
        for first in range(0, max(len(runs), 1), size)
    )
    reduced = []
    for block in map_blocks(_reduce_block_of_errors, blocks):
        if block is None:
            return read_cell_errors(cell.drop_vars(f"{quantity}_error_mean"), quantity, less)
        reduced.append(block)
    windows, mean_abs, max_abs, finite = map(np.concatenate, zip(*reduced, strict=True))
    steps = _steps_until(cell, ends[-1] - ends[0], judged.stopped)[runs][finite]
    longest = steps.max(initial=1.0) * np.diff(ends).max() / (ends[-1] - ends[0])
    every = max(int(cell[name].attrs.get("every", 1)) for name in names)
    return CellErrors(
        ends=ends,
        times=(ends[1:] + ends[:-1]) / 2 @ window_weights(ends),
        windows=windows,
        mean_abs=mean_abs,
        max_abs=max_abs,
        steps=steps,
        left_out=cell.sizes["run"] - int(finite.sum()),
        stopped=judged.stopped,
        every_step=f"{quantity}_error_mean" in names,
        every=min(every, max(1, round(longest))),
        max_every_step={f"{quantity}_error_mean", f"{quantity}_error_abs_max"} <= set(names),
        round_off=rounding_of_quantity(cell, quantity, runs),
        signed=quantity in cell,
    )


def rounding_of_quantity(cell: xr.Dataset, quantity: str, runs: Integers) -> float:
    """One rounding of a quantity with its initial root mean square over the starts.

    Parameters
    ----------
    cell : xarray.Dataset
    quantity : str
    runs : ndarray of int
        Positions of the runs that are used.

    Returns
    -------
    float
        The relative round-off itself if the initial values are not known.
    """
    if not len(runs):
        return np.nan
    scale = 1.0
    if quantity in cell:
        first = selection.take_runs(cell[[quantity]], runs)[quantity].isel(time=0).values
        scale = float(np.sqrt(np.mean(first**2))) or 1.0
    return float(selection.relative_round_off_of_runs(cell)[0]) * scale


def _steps_until(cell: xr.Dataset, duration: float, stopped: int) -> Floats:
    """Number of steps of each run; for fixed-step runs, within `duration` if some fail later."""
    steps = cell["steps"].values.astype(float)
    if not stopped or "step_size" not in cell:
        return steps
    sizes = cell["step_size"].values
    return np.where(np.isfinite(sizes), np.round(duration / sizes), steps)


def _series_of_runs(
    dataset: xr.Dataset, less: xr.Dataset | None, names: Sequence[str], runs: Integers
) -> list[xr.Variable]:
    read = selection.take_runs(dataset, runs)
    series = [read[name].variable.transpose("run", "time") for name in names]
    if less is None:
        return series
    others = selection.take_runs(less, runs)
    return [
        one - others[name].variable.transpose("run", "time")
        for one, name in zip(series, names, strict=True)
    ]


def _reduce_block_of_errors(
    ends: Floats, quantity: str, names: Sequence[str], *arrays: Floats
) -> tuple[Floats, Floats, Floats, Booleans] | None:
    """Find the runs of a block that stay finite; reduce them to window means, mean and max |error|.

    None if the statistics have gaps, because no step of an adaptive run ends in an interval. The
    start, where the error is 0, is excluded from mean and maximum.
    """
    values = {
        name.removeprefix(f"{quantity}_error"): array[:, 1:]
        for name, array in zip(names, arrays, strict=True)
    }
    samples = values[""]
    if "_mean" in values:
        means = values["_mean"]
        gaps = np.isnan(means)
        if samples.size and (gaps.all() or (gaps & np.isfinite(samples)).any()):
            return None
        # Errors that are norms or absolute values have no sign; their mean is the mean of |error|.
        size, largest = values.get("_abs_mean", np.abs(means)), values.get("_abs_max", samples)
    else:
        means = (samples + arrays[0][:, :-1]) / 2  # means over intervals
        size = largest = np.abs(samples)
    finite = np.all(np.abs(means) < HUGE, axis=1)
    means, widths = means[finite], np.diff(ends)
    level = means.mean(axis=1, keepdims=True)  # subtracted, so that sums are not rounded
    return (
        level + np.einsum("st,tw->sw", means - level, window_weights(ends)),
        np.einsum("st,t->s", size[finite], widths / widths.sum()),
        np.abs(largest[finite]).max(axis=1, initial=0.0),
        finite,
    )
