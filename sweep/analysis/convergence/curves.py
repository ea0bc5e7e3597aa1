"""Error curves: errors by step size and start, against a reference or the next step size."""

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from integrators.errors import InputError
from integrators.precision import DOUBLE, DOUBLE_DOUBLE
from integrators.precision import ROUND_OFF as PRECISION
from sweep.analysis.convergence.slopes import FEWEST, MARGIN, USED, OrderFit, fit_convergence_order
from sweep.analysis.convergence.step_sizes import PossibleStepSizes, possible_step_sizes
from sweep.analysis.runs.blocks import (
    VALUES,
    Booleans,
    Floats,
    Integers,
    map_blocks,
    slices_of_whole_runs,
)
from sweep.analysis.runs.judged import judged_runs
from sweep.analysis.runs.selection import (
    arithmetic_of_reference,
    complete_runs,
    distinct_values_and_codes,
    is_error_against_reference,
    relative_round_off_of_runs,
    run_table_variable,
    run_table_without_repeats,
)
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
    """Errors at one time, by ascending step size and start.

    Attributes
    ----------
    sizes : ndarray, shape ``(n,)``
        Step sizes, or tolerances.
    errors, floors : ndarray, shape ``(n, starts)``
        NaN where there is no run; an error counts when it is at least its floor, `MARGIN` times
        the error of the reference itself.
    time, last_time : float
        The time of the errors, and the last one of the runs.
    left_out : int
        Runs that failed, are not finished, have left the study or are without an error.
    steps : ndarray, shape ``(n,)``
        Number of steps of a run.
    referred : bool
        Whether the errors are against a reference.
    limit : str
        What limits the accuracy of the errors, ``the reference`` or ``round-off``.
    absent, unmeasured : int
        Step sizes without a complete run, and with complete runs of which none has an error.
    complete : int
        Runs that count, whether they have an error or not.
    reference_failed : bool
        Whether there are errors against a reference that failed, see `reference_failed_at_start`.
    round_off : float
        Relative round-off of the runs, or of their reference where that is coarser.
    possible : PossibleStepSizes
        The step sizes that could be added.
    stopped : int
        Runs that count, and fail after `last_time`.
    """

    sizes: Floats
    errors: Floats
    floors: Floats
    time: float
    last_time: float
    left_out: int
    steps: Floats
    referred: bool
    limit: str
    absent: int
    unmeasured: int
    complete: int
    reference_failed: bool
    round_off: float
    possible: PossibleStepSizes
    stopped: int = 0

    @property
    def error_uncertainty(self) -> Floats:
        """Uncertainty of the errors, shape ``(n, starts)``."""
        return self.floors / MARGIN


def run_table_with_error(dataset: xr.Dataset | xr.DataTree, error: str, at: str) -> xr.Dataset:
    """The run table, or InputError unless it has `error` and `at` is ``end`` or ``sup``."""
    if at not in ("end", "sup"):
        raise InputError(f"at is {at!r}, and must be 'end' or 'sup'.", key="at")
    dataset = run_table_without_repeats(dataset)
    if error == SELF:
        if "state" not in dataset:
            raise InputError(
                "differences between step sizes need the states: add \"state\" to 'record' in the "
                "experiment, or a 'reference'.",
                key="error",
            )
    elif run_table_variable(dataset, error).dims != ("run", "time") or "_error" not in error:
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


def error_curve(dataset: xr.Dataset, error: str, at: str, axis: str = "step_size") -> Curve:
    """Errors of one integrator by step size (or tolerance) and start, at the last time that counts.

    Where most runs fail, until the first of them does; see `runs.judged`.

    Returns
    -------
    Curve
    """
    possible = possible_step_sizes(dataset)
    judged = judged_runs(dataset, 1)
    counts = np.isin(np.arange(dataset.sizes["run"]), judged.positions)
    dataset = dataset.isel(time=slice(0, judged.samples))
    sizes, step = distinct_values_and_codes(dataset[axis].values)
    starts, start = distinct_values_and_codes(dataset["initial_condition"].values)
    times = dataset["time"].values
    least = least_known_errors(dataset, error)[:, None]
    reduce = functools.partial(_reduced_errors, dataset, error, at, counts, step, least)
    found = reduce(len(times))
    last = _last_resolved_sample(found.resolved, found.finite)
    if last not in (-1, len(times) - 1):
        at_last = reduce(last + 1)
        found = replace(at_last, reference_seen=found.reference_seen)
    table = np.full((2, len(sizes), len(starts)), np.nan)
    table[:, step[counts], start[counts]] = found.errors[counts], found.floors[counts]
    left_out = int((~np.isfinite(found.errors)).sum())
    steps = _step_counts_by_size(dataset, step, len(sizes))
    absent, unmeasured = _count_step_sizes_without_errors(
        table[0], np.bincount(step[counts], minlength=len(sizes)) > 0
    )
    referred = is_error_against_reference(dataset, error)
    failed = referred and counts.any() and "reference_error" in dataset and (times > 0).any()
    limit = _limit_of_errors(dataset, referred, counts, found.floors, least[:, 0])
    return Curve(
        sizes=sizes,
        errors=table[0],
        floors=table[1],
        time=float(times[last]),
        last_time=float(times[-1]),
        left_out=left_out,
        steps=steps,
        referred=referred,
        limit=limit,
        absent=absent,
        unmeasured=unmeasured,
        complete=int(counts.sum()),
        reference_failed=bool(failed and not found.reference_seen),
        round_off=float(_round_off_of_errors(dataset, error).max()),
        possible=possible,
        stopped=judged.stopped,
    )


def _limit_of_errors(
    dataset: xr.Dataset, referred: bool, counts: Booleans, floors: Floats, least: Floats
) -> str:
    """What limits the accuracy of errors, in words.

    Round-off of runs that are coarser than a reference in double-double, unless that is off by
    more; a reference in doubles is off by as much at least.
    """
    coarser = PRECISION[arithmetic_of_reference(dataset)] < relative_round_off_of_runs(dataset)
    by_rounding = coarser & ~(floors > MARGIN * least)
    return REFERENCE if referred and not by_rounding[counts].all() else ROUNDING


@dataclass(frozen=True)
class _ReducedErrors:
    """Errors of runs up to a sample, reduced.

    Attributes
    ----------
    finite, resolved : ndarray of int, shape ``(n, samples)``
        Runs of each step size that have an error, and one above its floor.
    errors, floors : ndarray, shape ``(run,)``
        At the last of the samples, or the largest until then.
    reference_seen : bool
        Whether a reference has an error of its own at any sample after the start.
    """

    finite: Integers
    resolved: Integers
    errors: Floats
    floors: Floats
    reference_seen: bool


def _reduced_errors(
    dataset: xr.Dataset,
    error: str,
    at: str,
    counts: Booleans,
    step: Integers,
    least: Floats,
    samples: int,
) -> _ReducedErrors:
    """Read the errors of the runs of a cell, block by block, and reduce them."""
    names = [error]
    if "reference_error" in dataset and is_error_against_reference(dataset, error):
        names.append("reference_error")
    series = [dataset[name].variable.transpose("run", "time")[:, :samples] for name in names]
    blocks = slices_of_whole_runs(dataset.sizes["run"], samples)
    times = dataset["time"].values[:samples]
    share = share_of_reference_error(dataset)
    reduced = map_blocks(
        _reduce_block_of_errors,
        (
            (
                [array[rows] for array in series],
                (at, times, share, counts[rows], step[rows], least[rows]),
            )
            for rows in blocks
        ),
    )
    shape = int(step.max()) + 1, samples
    finite, resolved = np.zeros(shape, dtype=int), np.zeros(shape, dtype=int)
    ends, seen = [], False
    for present, of_present, own_resolved, own_ends, own_seen in reduced:
        finite[present] += of_present
        resolved[present] += own_resolved
        ends.append(own_ends)
        seen = seen or own_seen
    errors, floors = np.concatenate(ends, axis=1)
    return _ReducedErrors(finite, resolved, errors, floors, seen)


def _reduce_block_of_errors(
    at: str,
    times: Floats,
    share: float,
    counts: Booleans,
    step: Integers,
    least: Floats,
    errors: Floats,
    reference: Floats | None = None,
) -> tuple[Integers, Integers, Integers, Floats, bool]:
    errors, later = np.abs(errors), times > 0
    own, seen = np.broadcast_to(least, errors.shape), False
    if reference is not None:
        own = np.maximum(share * reference, least)
        seen = bool(np.isfinite(reference[np.ix_(counts, later)]).any())
    floors = MARGIN * own
    # Where its reference failed, what an error is wrong by is not known; at the start all are 0.
    errors = np.where(counts[:, None] & np.isfinite(floors) & later, errors, np.nan)
    finite, resolved = np.isfinite(errors), errors >= floors
    present = np.unique(step)
    by_step = [np.array([of[step == i].sum(axis=0) for i in present]) for of in (finite, resolved)]
    if at == "sup":
        ends = np.fmax.reduce(errors, axis=1), np.fmax.reduce(floors, axis=1)
    else:
        ends = errors[:, -1], floors[:, -1]
    return present, by_step[0], by_step[1], np.array(ends), seen


def self_convergence_curve(dataset: xr.Dataset, at: str) -> Curve:
    """Differences of each step size from the next coarser one, as errors of an effective step size.

    Where the error is C h^p, states at h and H differ by C (H^p − h^p), the error of the step size
    (H^p − h^p)^(1/p). The p that this takes is the slope itself: both are found in turn.

    Returns
    -------
    Curve
        With one size less than there are step sizes.
    """
    counts = complete_runs(dataset)
    sizes, step = distinct_values_and_codes(dataset["step_size"].values)
    starts, start = distinct_values_and_codes(dataset["initial_condition"].values)
    times = dataset["time"].values
    kept = slice(None) if at == "sup" else slice(-1, None)
    states = dataset["state"].isel(time=kept).variable
    states = states.transpose("run", "time", "row", "component")
    rows = present_state_rows(dataset)
    present = np.zeros((len(sizes), len(starts), rows.shape[1]), dtype=bool)
    present[step[counts], start[counts]] = rows[counts]
    errors, scale = np.full((2, max(len(sizes) - 1, 0), len(starts)), np.nan)
    few = max(1, 2 * VALUES // max(1, len(sizes) * math.prod(states.shape[1:])))
    blocks = [slice(k, min(k + few, len(starts))) for k in range(0, len(starts), few)]
    runs = [np.flatnonzero(counts & (start >= some.start) & (start < some.stop)) for some in blocks]
    reduced = map_blocks(
        _differences_between_step_sizes,
        (
            ([states[own]], (step[own], start[own] - some.start, present[:, some]))
            for some, own in zip(blocks, runs, strict=True)
        ),
    )
    for some, found in zip(blocks, reduced, strict=True):
        errors[:, some], scale[:, some] = found
    floors = MARGIN * ROUND_OFF * scale
    left_out = int((~counts).sum())
    steps = _step_counts_by_size(dataset, step, len(sizes))[1:]
    end = float(times[-1])
    effective = max(
        (_fit_effective_step_sizes(sizes, errors, floors, order) for order in TRIED),
        key=_rank_of_settled_fit,
    )[1]
    begun = np.any(present, axis=2)
    absent, unmeasured = _count_step_sizes_without_errors(
        errors, np.any(begun[:-1] & begun[1:], axis=1)
    )
    return Curve(
        sizes=effective,
        errors=errors,
        floors=floors,
        time=end,
        last_time=end,
        left_out=left_out,
        steps=steps,
        referred=False,
        limit=ROUNDING,
        absent=absent,
        unmeasured=unmeasured,
        complete=int(counts.sum()),
        reference_failed=False,
        round_off=PRECISION[DOUBLE],
        possible=possible_step_sizes(dataset),
    )


def _differences_between_step_sizes(
    step: Integers, start: Integers, present: Booleans, states: Floats
) -> tuple[Floats, Floats]:
    """Norms of differences, the largest over time, and of the finer states at the end."""
    table = np.full((*present.shape[:2], *states.shape[1:]), np.nan)
    table[step, start] = states
    of_either = present[:-1] | present[1:]
    errors = state_norms(np.diff(table, axis=0), of_either[:, :, None]).max(axis=2)
    return errors, state_norms(table[:-1, :, -1], present[:-1])


def _count_step_sizes_without_errors(errors: Floats, complete: Booleans) -> tuple[int, int]:
    """Count the step sizes without a complete run, and those with some but no error."""
    lost = ~np.isfinite(errors).any(axis=1)
    return int((lost & ~complete).sum()), int((lost & complete).sum())


def _fit_effective_step_sizes(
    sizes: Floats, errors: Floats, floors: Floats, order: float
) -> tuple[OrderFit, Floats]:
    """Fit differences and their effective step sizes, from a first guess of the order.

    The wrong one puts neighbouring differences into a wrong order, where step sizes have several
    ratios: so other guesses are tried too.
    """
    for _ in range(20):
        effective = _effective_step_sizes(sizes, order)
        fit = fit_convergence_order(effective, errors, floors / MARGIN)
        if not np.isfinite(fit.order) or not 0.1 < fit.order < 20 or abs(fit.order - order) < 1e-6:
            break
        order = fit.order
    return fit, effective


def _rank_of_settled_fit(settled: tuple[OrderFit, Floats]) -> tuple[int, float]:
    """Sort key: more step sizes that count, then the narrower interval."""
    fit, _ = settled
    return fit.use.count(USED) if np.isfinite(fit.order) else 0, fit.low - fit.high


def _effective_step_sizes(sizes: Floats, order: float) -> Floats:
    """Effective step sizes (H^p − h^p)^(1/p) of neighbouring step sizes h < H."""
    ratio = sizes[:-1] / sizes[1:]
    return sizes[1:] * (1 - ratio**order) ** (1 / order)


def _step_counts_by_size(dataset: xr.Dataset, step: Integers, count: int) -> Floats:
    """Number of steps of a run by step size; NaN where it is not stored."""
    steps = np.full(count, np.nan)
    if "steps" in dataset:
        steps[step] = dataset["steps"].values
    return steps


def share_of_reference_error(dataset: xr.Dataset) -> float:
    """Upper bound of the error of the reference, as a part of ``reference_error``."""
    return REFERENCE_SHARES[arithmetic_of_reference(dataset)]


def least_known_errors(dataset: xr.Dataset, error: str) -> Floats:
    """Least uncertainty of an error, that of round-off; shape ``(run,)``.

    Round-off of the norm of the initial state, or of the size of the invariant, in the arithmetic
    of the run; for errors against a reference in that of the reference, if it is coarser.
    """
    epsilon = _round_off_of_errors(dataset, error)
    if is_error_against_reference(dataset, error):
        size: Floats | float = initial_state_norms(dataset)
    elif (quantity := error.removesuffix("_error")) in dataset:
        first = dataset[quantity].isel(time=0).transpose("run").values
        size = np.maximum(np.abs(first), np.finfo(float).tiny)
    else:
        size = 1.0
    return ROUND_OFF * epsilon / np.finfo(float).eps * size


def _round_off_of_errors(dataset: xr.Dataset, error: str) -> Floats:
    """Relative round-off of runs, or of their reference where that is coarser; ``(run,)``."""
    epsilon = relative_round_off_of_runs(dataset)
    if not is_error_against_reference(dataset, error):
        return epsilon
    return np.maximum(epsilon, PRECISION[arithmetic_of_reference(dataset)])


def reference_failed_at_start(dataset: xr.Dataset) -> bool:
    """Whether the reference of complete runs failed before the first sample after the start.

    Then neither its own error nor, as a rule, any error against it is known.

    Parameters
    ----------
    dataset : xarray.Dataset
        Complete runs of one system.
    """
    if "reference_error" not in dataset:
        return False
    later = dataset["time"].values > 0  # at the start every reference is exact
    own = dataset["reference_error"].variable.transpose("run", "time")
    blocks = slices_of_whole_runs(*own.shape)
    seen = map_blocks(_has_finite, (([own[rows]], (later,)) for rows in blocks))
    return bool(later.any()) and not any(seen)


def _has_finite(later: Booleans, values: Floats) -> bool:
    return bool(np.isfinite(values[:, later]).any())


def _last_resolved_sample(resolved: Integers, finite: Integers) -> int:
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


def geometric_mean_and_range_of_errors(errors: Floats) -> tuple[float, float, float]:
    """Geometric mean of the errors that are finite, and their range."""
    errors = errors[np.isfinite(errors)]
    with np.errstate(divide="ignore"):
        mean = np.exp(np.log(errors).mean())
    return float(mean), float(errors.min()), float(errors.max())
