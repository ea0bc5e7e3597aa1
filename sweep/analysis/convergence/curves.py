"""Error curves: errors by step size and start, against a reference or the next step size."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from integrators.errors import InputError
from integrators.precision import DOUBLE, DOUBLE_DOUBLE
from integrators.precision import ROUND_OFF as PRECISION
from sweep.analysis.convergence.slopes import FEWEST, MARGIN, USED, fit_convergence_order
from sweep.analysis.convergence.step_sizes import PossibleStepSizes, possible_step_sizes
from sweep.analysis.runs import selection
from sweep.analysis.runs.blocks import Booleans, Floats, Integers, map_blocks, slices_of_whole_runs
from sweep.analysis.runs.states import initial_state_norms, present_state_rows, state_norms

TRIED = (1.0, 2.0, 4.0, 8.0)  # first guesses of an order
REFERENCE, ROUNDING = "the reference", "round-off"  # what limits the accuracy of errors
SELF = "self"  # the error that is the difference between step sizes
ROUND_OFF = 2.0**-50  # least error of a reference in doubles, relative to the initial state

# `reference_error` is the distance to the same reference at ten times the tolerance. With error
# control of order 8 that distance is 10^(7/8) - 1 = 6.5 times the reference's own error. In
# double-double it is that to twice the step size, which is the error itself where rounding decides.
REFERENCE_SHARES = {DOUBLE: 1 / 5, DOUBLE_DOUBLE: 1.0}


@dataclass(frozen=True)
class Curve:
    """Errors at one time, by step size and start, of the step sizes that have any.

    Attributes
    ----------
    sizes : ndarray, shape ``(n,)``
        Step sizes, or tolerances.
    errors, floors : ndarray, shape ``(n, starts)``
        NaN where there is no run; an error counts when it is at least its floor, `MARGIN` times
        what it may be wrong by.
    steps : ndarray, shape ``(n,)``
        Number of steps until `time`.
    time, last_time : float
        The time of the errors, and the last one of the runs.
    complete : int
        Runs that count, whether they have an error or not.
    left_out : int
        Runs that failed, are not finished, have left the study or are without an error.
    absent : int
        Step sizes of which no run has an error.
    possible : PossibleStepSizes
        The step sizes that could be added.
    stopped : int
        Runs that count, and fail after `last_time`.
    limit : str
        What limits the accuracy of the errors, ``the reference`` or ``round-off``.
    round_off : float
        That of the runs, or of their reference where that is coarser, in units of that of doubles.
    reference_failed : bool
        Whether complete runs have no error, as `reference_failed_at_start` says.
    """

    sizes: Floats
    errors: Floats
    floors: Floats
    steps: Floats
    time: float
    last_time: float
    complete: int
    left_out: int
    absent: int
    possible: PossibleStepSizes
    stopped: int = 0
    limit: str = ROUNDING
    round_off: float = 1.0
    reference_failed: bool = False

    @property
    def error_uncertainty(self) -> Floats:
        """Uncertainty of the errors, shape ``(n, starts)``."""
        return self.floors / MARGIN


def _curve_of_measured(
    sizes: Floats, errors: Floats, floors: Floats, steps: Floats, **others: Any
) -> Curve:
    """A `Curve` of those step sizes that have an error."""
    there = np.isfinite(errors).any(axis=1)
    sizes, errors, floors, steps = (of[there] for of in (sizes, errors, floors, steps))
    return Curve(sizes, errors, floors, steps, absent=int((~there).sum()), **others)


def run_table_with_error(dataset: xr.Dataset | xr.DataTree, error: str, at: str) -> xr.Dataset:
    """The run table, or InputError unless it has `error` and `at` is ``end`` or ``sup``."""
    if at not in ("end", "sup"):
        raise InputError(f"at is {at!r}, and must be 'end' or 'sup'.", key="at")
    dataset = selection.run_table_without_repeats(dataset)
    if error == SELF:
        if "state" not in dataset:
            raise InputError(
                "differences between step sizes need the states: add \"state\" to 'record' in the "
                "experiment, or a 'reference'.",
                key="error",
            )
    elif (
        selection.run_table_variable(dataset, error).dims != ("run", "time")
        or "_error" not in error
    ):
        raise InputError(
            f"{error!r} is no error over (run, time), such as 'global_error'.", key="error"
        )
    return dataset


def default_error_for_orders(dataset: xr.Dataset) -> str:
    """``global_error``, or ``self`` without a reference and with states at enough step sizes."""
    if "global_error" in dataset or "state" not in dataset:
        return "global_error"
    sizes = dataset["step_size"].values
    return SELF if len(np.unique(sizes[np.isfinite(sizes)])) > FEWEST else "global_error"


def run_table_has_error(dataset: xr.Dataset, error: str | None = None) -> bool:
    """Whether a run table has an error, by default any that orders can be measured by."""
    error = default_error_for_orders(dataset) if error is None else error
    needed = "state" if error == SELF else error
    return needed in dataset and "run" in dataset[needed].dims


def curve_of_error(dataset: xr.Dataset, error: str, at: str) -> Curve:
    """The `Curve` of an error of one integrator, or of `SELF`, by step size and start."""
    if error == SELF:
        return self_convergence_curve(dataset, at)
    return error_curve(dataset, error, at)


# --- against a reference, or of an invariant -------------------------------------------------


def error_curve(dataset: xr.Dataset, error: str, at: str, axis: str = "step_size") -> Curve:
    """Errors of one integrator by step size (or tolerance) and start, at the last time that counts.

    Where most runs fail, until the first of them does; see `judged_runs`.

    Returns
    -------
    Curve
    """
    possible, judged = possible_step_sizes(dataset), selection.judged_runs(dataset, 1)
    counts = np.isin(np.arange(dataset.sizes["run"]), judged.positions)
    sizes, size = selection.distinct_values_and_codes(dataset[axis].values)
    starts, start = selection.distinct_values_and_codes(dataset["initial_condition"].values)
    least, round_off = least_known_errors(dataset, error), _round_off_of_errors(dataset, error)
    first = min(1, judged.samples - 1)  # at the start all errors are 0
    dataset = dataset.isel(time=slice(first, judged.samples))
    of_sizes = (np.arange(len(sizes))[:, None] == size) & counts
    ends, last = _errors_while_resolved(dataset, error, at, of_sizes, least)
    errors, floors = np.full((2, len(sizes), len(starts)), np.nan)
    errors[size[counts], start[counts]], floors[size[counts], start[counts]] = ends[:, counts]
    times, referred = dataset["time"].values, selection.is_error_against_reference(dataset, error)
    # Round-off limits runs that are coarser than the reference, unless that is off by more.
    coarser = round_off > PRECISION[selection.arithmetic_of_reference(dataset)]
    by_rounding = coarser & ~(ends[1] > MARGIN * least)
    unknown = referred and last == -1 and bool(counts.any())
    return _curve_of_measured(
        sizes,
        errors,
        floors,
        steps=np.rint(times[last] / sizes),
        time=float(times[last]),
        last_time=float(times[-1]),
        complete=int(counts.sum()),
        left_out=len(counts) - int(np.isfinite(ends[0, counts]).sum()),
        possible=possible,
        stopped=judged.stopped,
        limit=REFERENCE if referred and not by_rounding[counts].all() else ROUNDING,
        round_off=float(round_off.max() / PRECISION[DOUBLE]),
        reference_failed=unknown and reference_failed_at_start(dataset.isel(run=counts)),
    )


def _errors_while_resolved(
    dataset: xr.Dataset, error: str, at: str, of_sizes: Booleans, least: Floats
) -> tuple[Floats, int]:
    """Errors of the runs of a cell at the last sample that counts, read block by block.

    Parameters
    ----------
    of_sizes : ndarray of bool, shape ``(n, run)``
        The runs of each step size that count.
    least : ndarray, shape ``(run,)``
        Of `least_known_errors`.

    Returns
    -------
    ends : ndarray, shape ``(2, run)``
        Errors and their floors at that sample, or the largest until then.
    last : int
        Its place; -1 where there is no error.
    """
    names = [error]
    if "reference_error" in dataset and selection.is_error_against_reference(dataset, error):
        names.append("reference_error")
    series = [dataset[name].variable.transpose("run", "time") for name in names]
    share, samples = share_of_reference_error(dataset), dataset.sizes["time"]
    while True:  # to the end, and then to the sample that is found there
        blocks = (
            ([of[rows, :samples] for of in series], (at, share, of_sizes[:, rows], least[rows]))
            for rows in slices_of_whole_runs(len(least), samples)
        )
        there, ends = np.zeros((2, len(of_sizes), samples), dtype=int), list[Floats]()
        for of_block, own in map_blocks(_reduce_block_of_errors, blocks):
            there += of_block
            ends.append(own)
        last = _last_resolved_sample(*there)
        if last in (-1, samples - 1):
            return np.concatenate(ends, axis=1), last
        samples = last + 1


def _reduce_block_of_errors(
    at: str,
    share: float,
    of_sizes: Booleans,
    least: Floats,
    errors: Floats,
    reference: Floats | None = None,
) -> tuple[Integers, Floats]:
    """Of each step size and sample the errors, and those above their floor; errors and floors."""
    own = np.broadcast_to(least[:, None], errors.shape)
    floors = MARGIN * (own if reference is None else np.maximum(share * reference, own))
    # Where its reference failed, what an error is wrong by is not known.
    errors = np.where(np.isfinite(floors), np.abs(errors), np.nan)
    masks = np.isfinite(errors), errors >= floors
    there = np.array([[mask[runs].sum(axis=0) for runs in of_sizes] for mask in masks])
    if at == "sup":
        return there, np.fmax.reduce([errors, floors], axis=2)
    return there, np.array([errors[:, -1], floors[:, -1]])


def _last_resolved_sample(finite: Integers, resolved: Integers) -> int:
    """The last sample at which at most one of the step sizes that ever count does not.

    At least three step sizes count there, if so many ever do. That is the end of the run, unless
    the reference ends before or loses a chaotic motion. One may be missing, as the finest may rise
    above round-off at single times.
    """
    counting = ((finite > 0) & (2 * resolved >= finite)).sum(axis=0)
    if counting.max() == 0:
        return int(np.flatnonzero(finite.any(axis=0))[-1]) if finite.any() else -1
    enough = max(counting.max() - 1, min(counting.max(), FEWEST))
    return int(np.flatnonzero(counting >= enough)[-1])


# --- between step sizes ----------------------------------------------------------------------


def self_convergence_curve(dataset: xr.Dataset, at: str) -> Curve:
    """Differences of each step size from the next coarser one, as errors of an effective step size.

    Where the error is C h^p, states at h and H differ by C (H^p − h^p), the error of the step size
    (H^p − h^p)^(1/p). The p that this takes is the slope itself: both are found in turn.

    Returns
    -------
    Curve
        With one size less than there are step sizes.
    """
    counts, end = selection.complete_runs(dataset), float(dataset["time"].values[-1])
    sizes, size = selection.distinct_values_and_codes(dataset["step_size"].values)
    starts, start = selection.distinct_values_and_codes(dataset["initial_condition"].values)
    run_at = np.full((len(sizes), len(starts)), -1)
    run_at[size[counts], start[counts]] = np.flatnonzero(counts)
    pairs = (run_at[:-1] >= 0) & (run_at[1:] >= 0)
    states = dataset["state"].isel(time=slice(None) if at == "sup" else slice(-1, None)).variable
    states = states.transpose("run", "time", "row", "component")
    present = present_state_rows(dataset)
    norms = [np.empty((2, 0))]  # of differences, and of the finer one's last state
    for block in slices_of_whole_runs(pairs.sum(), 2 * math.prod(states.shape[1:])):
        runs = run_at[:-1][pairs][block], run_at[1:][pairs][block]
        (fine, coarse), rows = (states[own].values for own in runs), present[runs[0]]
        differences = state_norms(coarse - fine, rows[:, None]).max(axis=1)
        norms.append(np.array([differences, state_norms(fine[:, -1], rows)]))
    errors, scale = np.full((2, *pairs.shape), np.nan)
    errors[pairs], scale[pairs] = np.concatenate(norms, axis=1)
    floors = MARGIN * ROUND_OFF * scale
    return _curve_of_measured(
        _effective_step_sizes(sizes, errors, floors / MARGIN),
        errors,
        floors,
        steps=np.rint(end / sizes[1:]),
        time=end,
        last_time=end,
        complete=int(counts.sum()),
        left_out=int((~counts).sum()),
        possible=possible_step_sizes(dataset),
    )


def _effective_step_sizes(sizes: Floats, errors: Floats, uncertainty: Floats) -> Floats:
    """Effective step sizes (H^p − h^p)^(1/p) of neighbouring step sizes h < H.

    The wrong first guess of p puts neighbouring differences into a wrong order, where step sizes
    have several ratios: of several the one with most step sizes that count is taken, and then the
    one with the narrowest interval.
    """
    ratio, settled = sizes[:-1] / sizes[1:], []
    for order in TRIED:
        for _ in range(20):
            effective = sizes[1:] * (1 - ratio**order) ** (1 / order)
            fit = fit_convergence_order(effective, errors, uncertainty)
            if not 0.1 < fit.order < 20 or abs(fit.order - order) < 1e-6:
                break
            order = fit.order
        used = fit.use.count(USED) if np.isfinite(fit.order) else 0
        settled.append((used, fit.low - fit.high, effective))
    return max(settled, key=lambda one: one[:2])[2]


# --- what errors may be wrong by -------------------------------------------------------------


def share_of_reference_error(dataset: xr.Dataset) -> float:
    """Upper bound of the error of the reference, as a part of ``reference_error``."""
    return REFERENCE_SHARES[selection.arithmetic_of_reference(dataset)]


def least_known_errors(dataset: xr.Dataset, error: str) -> Floats:
    """Least uncertainty of an error, that of round-off; shape ``(run,)``.

    Round-off of the norm of the initial state, or of the size of the invariant, in the arithmetic
    of the run; for errors against a reference in that of the reference, if it is coarser.
    """
    size: Floats | float = 1.0
    if selection.is_error_against_reference(dataset, error):
        size = initial_state_norms(dataset)
    elif (quantity := error.removesuffix("_error")) in dataset:
        first = dataset[quantity].isel(time=0).transpose("run").values
        size = np.maximum(np.abs(first), np.finfo(float).tiny)
    return ROUND_OFF * _round_off_of_errors(dataset, error) / np.finfo(float).eps * size


def _round_off_of_errors(dataset: xr.Dataset, error: str) -> Floats:
    """Relative round-off of runs, or of their reference where that is coarser; ``(run,)``."""
    referred = selection.is_error_against_reference(dataset, error)
    least = PRECISION[selection.arithmetic_of_reference(dataset)] if referred else 0.0
    return np.maximum(selection.relative_round_off_of_runs(dataset), least)


def reference_failed_at_start(dataset: xr.Dataset) -> bool:
    """Whether the reference of complete runs failed before the first sample after the start.

    Then neither its own error nor, as a rule, any error against it is known.

    Parameters
    ----------
    dataset : xarray.Dataset
        Complete runs of one system.
    """
    later = dataset["time"].values > 0  # at the start every reference is exact
    if "reference_error" not in dataset or not later.any():
        return False
    first = dataset["reference_error"].isel(time=int(later.argmax()))
    return not np.isfinite(first.values).any()
