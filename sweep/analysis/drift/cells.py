"""The errors of the runs of one integrator, scanned values and step size, read in blocks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from integrators.errors import InputError, check_known
from sweep.analysis.drift.slow_modes import (
    FEWEST,
    GROUPS,
    SlowModes,
    add_group_sums,
    changes_in_last_decade,
    drift_window_count,
    join_slow_modes,
    likeness_by_late_changes,
    row_sums,
    slow_modes_of_series,
    sums_of_squares_by_group,
    walk_rate_error_by_late_changes,
    window_means_of_intervals,
)
from sweep.analysis.drift.spectra import Likeness
from sweep.analysis.runs.blocks import Floats, Integers, map_blocks
from sweep.analysis.runs.judged import JudgedRuns, judged_runs
from sweep.analysis.runs.selection import (
    groups_of_runs,
    is_error_against_reference,
    relative_round_off_of_runs,
    scanned_axes,
    take_runs,
)

STATISTICS = ("", "_mean", "_abs_mean", "_abs_max")  # behind `energy_error`
LINEAR_STATISTICS = ("", "_mean")  # of a difference they are the difference of those of both
PER_RUN = ("sample_count", "status", "steps", "in_study")
HUGE = 1e100  # an error beyond it is that of a run that blows up, and its squares overflow
BLOCK = 8192  # runs that are in memory with all their samples
BLOCK_VALUES = 2**25  # and samples of them, of each statistic

Cell = tuple[dict[str, Any], Integers]  # its values, and positions of its runs


def chosen_drift_quantities(
    dataset: xr.Dataset, quantities: Sequence[str] | str | None
) -> tuple[str, ...]:
    """The named quantities, or all recorded ones; `InputError` if one is not recorded."""
    known = quantities_with_recorded_error(dataset)
    if not known:
        raise InputError(
            "no invariant or constraint is recorded: name some in the experiment, as in "
            'record = ["energy", "momentum"].',
            key="record",
        )
    quantities = (quantities,) if isinstance(quantities, str) else quantities
    chosen = known if quantities is None else tuple(quantities)
    for quantity in chosen:
        check_known("quantity", quantity, known, key="quantity")
    return chosen


def quantities_with_recorded_error(dataset: xr.Dataset) -> tuple[str, ...]:
    """Names of the quantities whose error along the run is stored, e.g. ``("energy",)``."""
    return tuple(
        str(name).removesuffix("_error")
        for name, array in dataset.data_vars.items()
        if str(name).endswith("_error")
        and set(array.dims) == {"run", "time"}
        and name != "reference_error"
        and not is_error_against_reference(dataset, str(name))
    )


def cells_chosen_for_drift(
    dataset: xr.Dataset, step_sizes: str
) -> Iterator[tuple[dict[str, Any], xr.Dataset]]:
    """The runs of each integrator, scanned values and step size, not yet read.

    Parameters
    ----------
    dataset : xarray.Dataset
    step_sizes : {"all", "smallest"}

    Yields
    ------
    key : dict
    cell : xarray.Dataset

    Raises
    ------
    InputError
        When `step_sizes` is neither.
    """
    if step_sizes not in ("all", "smallest"):
        raise InputError(
            f"step_sizes is {step_sizes!r}, and must be 'all' or 'smallest'.", key="step_sizes"
        )
    step_axes = [name for name in ("step_size", "tolerance") if name in dataset.coords]
    cells = list(groups_of_runs(dataset, ["integrator", *scanned_axes(dataset), *step_axes]))
    for key, runs in _cells_of_smallest_step_size(cells) if step_sizes == "smallest" else cells:
        yield key, take_runs(dataset, runs)


def _cells_of_smallest_step_size(cells: Sequence[Cell]) -> Iterable[Cell]:
    """Keep the smallest step size of each integrator and combination of scanned values."""
    smallest: dict[Any, Cell] = {}
    for key, runs in cells:
        scanned = tuple((k, v) for k, v in key.items() if k not in ("step_size", "tolerance"))
        # Groups ascend with the step size, so the first is the smallest.
        smallest.setdefault(scanned, (key, runs))
    return smallest.values()


@dataclass(frozen=True)
class CellErrors:
    """Errors of the `JudgedRuns` of a cell, reduced.

    Attributes
    ----------
    ends : ndarray, shape ``(time,)``
        Sample times, until the last that all of these runs have.
    left_out : int
        Runs that do not count.
    stopped : int
        Runs that count, and fail after the last of these times.
    intervals_of_run : int
        Sample intervals of a complete run.
    mean_abs, max_abs : ndarray, shape ``(starts,)``
        Mean and largest |error| of each run.
    rates : ndarray, shape ``(starts,)``
        Change from the first interval's mean to the last's, over the time between their middles.
    last : ndarray, shape ``(starts,)``
        Mean of the last interval.
    steps : ndarray, shape ``(starts,)``
    squares, members : ndarray
        Sums of the intervals' squared means over groups of starts; see
        `slow_modes.sums_of_squares_by_group`.
    parts : SlowModes or None
        None where the windows are too few.
    changes : ndarray, shape ``(starts, n)``
        `slow_modes.changes_in_last_decade`, where the windows are too few; else nothing.
    windows : int
    every_step, signed : bool
    """

    ends: Floats
    left_out: int
    stopped: int
    intervals_of_run: int
    mean_abs: Floats
    max_abs: Floats
    rates: Floats
    last: Floats
    steps: Floats
    squares: Floats
    members: Integers
    parts: SlowModes | None
    changes: Floats
    windows: int
    every_step: bool
    signed: bool

    @property
    def starts(self) -> int:
        """Runs that count."""
        return len(self.mean_abs)

    @property
    def rms_at_end(self) -> float:
        """Root mean square over the runs of the last interval's means; NaN without a run."""
        return float(np.sqrt(np.mean(self.last**2))) if self.starts else np.nan

    @cached_property
    def likeness(self) -> Likeness:
        """How alike the runs are."""
        return likeness_by_late_changes(self.changes) if self.parts is None else self.parts.likeness

    @property
    def rate_error_if_walking(self) -> float:
        """Standard error of the rate of the mean over the runs, if that walks."""
        if self.parts is not None:
            return self.parts.rate_error_if_walking
        return walk_rate_error_by_late_changes(self.interval_middles, self.changes)

    @property
    def interval_middles(self) -> Floats:
        """Times of the interval means, since the start of the run."""
        return (self.ends[1:] + self.ends[:-1]) / 2 - self.ends[0]


def read_cell_errors(cell: xr.Dataset, quantity: str, less: xr.Dataset | None = None) -> CellErrors:
    """Read the errors of one quantity in a cell, block by block, and reduce them.

    Statistics of every step are taken where the store holds them; samples without them, or where
    an adaptive run has intervals without the end of a step.

    Parameters
    ----------
    cell : xarray.Dataset
        Of `cells_chosen_for_drift`.
    quantity : str
    less : xarray.Dataset, optional
        Runs, each beside one of the cell, whose errors are subtracted. Of differences only the
        samples and the means of intervals are known.

    Returns
    -------
    CellErrors
    """
    judged = judged_runs(cell, FEWEST)
    runs, until = judged.positions, slice(0, judged.samples)
    names = {of: f"{quantity}_error{of}" for of in STATISTICS if f"{quantity}_error{of}" in cell}
    if less is not None:
        names = {of: name for of, name in names.items() if of in LINEAR_STATISTICS and name in less}
    kept = list(names.values())
    own = cell[kept].isel(time=until).reset_coords(drop=True)
    others = None if less is None else less[kept].isel(time=until).reset_coords(drop=True)
    every_step = "_mean" in names
    ends, blocks = cell["time"].values[until], []
    steps = _steps_until(cell, ends[-1] - ends[0], judged.stopped)
    size = min(BLOCK, max(GROUPS, BLOCK_VALUES // max(1, len(ends)) // GROUPS * GROUPS))
    parts = [runs[first : first + size] for first in range(0, max(len(runs), 1), size)]
    reduced = map_blocks(
        _reduce_block_of_errors,
        (
            (
                _series_of_runs(own, others, names, some),
                (ends, tuple(names), steps[some], every_step),
            )
            for some in parts
        ),
    )
    for block in reduced:
        if block is None:
            return read_cell_errors(cell.drop_vars(f"{quantity}_error_mean"), quantity, less)
        blocks.append(block)
    signed = quantity in cell or any(block["negative"] for block in blocks)
    return _cell_errors_from_blocks(cell, ends, judged, blocks, every_step, signed)


def _steps_until(cell: xr.Dataset, duration: float, stopped: int) -> Floats:
    """Steps of each run; of fixed-step runs within `duration`, where some fail afterwards."""
    steps = cell["steps"].values.astype(float)
    if not stopped or "step_size" not in cell:
        return steps
    sizes = cell["step_size"].values
    return np.where(np.isfinite(sizes), np.round(duration / sizes), steps)


def read_cell_window_means(cell: xr.Dataset, quantity: str, most: int) -> tuple[Floats, Floats]:
    """Read the window means of the runs that count, or interval means where windows are few.

    Parameters
    ----------
    cell : xarray.Dataset
        Of one integrator, its scanned values and step size.
    quantity : str
    most : int
        Most runs to read, spread evenly over all.

    Returns
    -------
    times : ndarray, shape ``(n,)``
    means : ndarray, shape ``(starts, n)``
    """
    judged = judged_runs(cell, FEWEST)
    runs, cell = judged.positions, cell.isel(time=slice(0, judged.samples))
    runs = runs[np.unique(np.linspace(0, len(runs) - 1, min(most, len(runs))).astype(int))]
    names = {of: f"{quantity}_error{of}" for of in STATISTICS if f"{quantity}_error{of}" in cell}
    read = take_runs(cell[list(names.values())].reset_coords(drop=True), runs).load()
    values = {of: read[name].transpose("run", "time").values for of, name in names.items()}
    ends = cell["time"].values
    means = values[""] if "_mean" not in values else values["_mean"]
    if "_mean" not in values or _statistics_have_gaps(means[:, 1:], values[""][:, 1:]):
        means, _, _ = _interval_statistics_of_samples(ends, values)
    else:
        means = means[:, 1:]
    means = means[np.isfinite(means).all(axis=1)]
    if drift_window_count(ends) >= FEWEST:
        return window_means_of_intervals(ends, means)
    return (ends[1:] + ends[:-1]) / 2, means


def initial_rms_of_quantity(cell: xr.Dataset, quantity: str) -> float:
    """Root mean square of a quantity over the starts at first; 1 if it is not stored."""
    if quantity not in cell:
        return 1.0
    whole = take_runs(cell[[quantity]], judged_runs(cell, FEWEST).positions)
    first = whole[quantity].isel(time=0).values
    return (float(np.sqrt(np.mean(first**2))) or 1.0) if len(first) else 1.0


def rounding_of_quantity(cell: xr.Dataset, quantity: str) -> float:
    """One rounding of a quantity at its initial size, in the arithmetic of the runs."""
    return float(relative_round_off_of_runs(cell)[0]) * initial_rms_of_quantity(cell, quantity)


def _series_of_runs(
    dataset: xr.Dataset, less: xr.Dataset | None, names: dict[str, str], runs: Integers
) -> list[xr.Variable]:
    read = take_runs(dataset, runs)
    series = [read[name].variable.transpose("run", "time") for name in names.values()]
    if less is None:
        return series
    others = take_runs(less, runs)
    return [
        one - others[name].variable.transpose("run", "time")
        for one, name in zip(series, names.values(), strict=True)
    ]


def _reduce_block_of_errors(
    ends: Floats, names: tuple[str, ...], steps: Floats, every_step: bool, *arrays: Floats
) -> dict[str, Any] | None:
    """Reduce a block of runs; None where its statistics have gaps."""
    values = dict(zip(names, arrays, strict=True))
    if every_step:
        if values[""].size and _statistics_have_gaps(values["_mean"][:, 1:], values[""][:, 1:]):
            return None
        means, mean_abs, max_abs = _interval_statistics_of_every_step(ends, values, steps)
        finite = (np.abs(means) < HUGE).all(axis=1)
    else:
        means, mean_abs, max_abs = _interval_statistics_of_samples(ends, values)
        finite = (np.abs(values[""]) < HUGE).all(axis=1)
    means = means[finite]
    middles = (ends[1:] + ends[:-1]) / 2
    enough = len(means) and len(middles) and drift_window_count(ends) >= FEWEST
    span = middles[-1] - middles[0] if len(middles) > 1 else np.nan
    return {
        "mean_abs": mean_abs[finite],
        "max_abs": max_abs[finite],
        "steps": steps[finite],
        "rates": (means[:, -1] - means[:, 0]) / span,
        "last": means[:, -1],
        "sums": sums_of_squares_by_group(means, own_scale=False),
        "parts": slow_modes_of_series(*window_means_of_intervals(ends, means)) if enough else None,
        "changes": np.zeros((len(means), 0))
        if enough or not len(middles)
        else changes_in_last_decade(middles - ends[0], means),
        "negative": bool((means < 0).any()),
        "lost": int((~finite).sum()),
    }


def _cell_errors_from_blocks(
    cell: xr.Dataset,
    ends: Floats,
    judged: JudgedRuns,
    blocks: Sequence[dict[str, Any]],
    every_step: bool,
    signed: bool,
) -> CellErrors:
    parts = [block["parts"] for block in blocks if block["parts"] is not None]
    squares, members = add_group_sums([block["sums"] for block in blocks])
    lost = sum(block["lost"] for block in blocks)
    names = ("mean_abs", "max_abs", "rates", "last", "steps", "changes")
    return CellErrors(
        ends=ends,
        left_out=cell.sizes["run"] - len(judged.positions) + lost,
        stopped=judged.stopped,
        intervals_of_run=cell.sizes["time"] - 1,
        squares=squares,
        members=members,
        parts=join_slow_modes(parts) if parts else None,
        windows=drift_window_count(ends) if len(ends) > 1 else 0,
        every_step=every_step,
        signed=signed,
        **{name: np.concatenate([block[name] for block in blocks]) for name in names},
    )


def _statistics_have_gaps(means: Floats, sampled: Floats) -> bool:
    """Whether there are no statistics, or intervals in which no step of an adaptive run ends."""
    gaps = np.isnan(means)
    return bool(gaps.all() or (gaps & np.isfinite(sampled)).any())


def _interval_statistics_of_every_step(
    ends: Floats, values: dict[str, Floats], steps: Floats
) -> tuple[Floats, Floats, Floats]:
    """Means of the intervals; mean over k = 0 … N, where k = 0 contributes no error; maximum.

    Intervals count by their length, as they do where all steps are equal.
    """
    mean = values["_mean"][:, 1:]
    # Errors that are norms or sizes have no sign: their mean is the mean of |error|.
    size = values["_abs_mean"][:, 1:] if "_abs_mean" in values else np.abs(mean)
    largest = values["_abs_max"][:, 1:] if "_abs_max" in values else np.abs(values[""])
    widths = np.diff(ends)
    mean_abs = row_sums(size, widths / widths.sum()) * steps / (steps + 1)
    return mean, mean_abs, largest.max(axis=1)


def _interval_statistics_of_samples(
    ends: Floats, values: dict[str, Floats]
) -> tuple[Floats, Floats, Floats]:
    """The same from samples, each for the interval that ends with it; the first like the second."""
    sampled = values[""]
    size = np.abs(sampled)
    largest = np.fmax(size, values.get("_abs_max", size)).max(axis=1)
    means = (sampled[:, 1:] + sampled[:, :-1]) / 2  # of an interval, which need not be short
    widths = np.diff(ends)
    weights = np.concatenate([widths[:1], widths])
    return means, row_sums(size, weights / weights.sum()), largest
