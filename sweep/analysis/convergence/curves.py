"""Error curves: errors by step size and start, against a reference or between step sizes."""

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

TRIED = (1.0, 2.0, 4.0, 8.0)  # initial guesses of an order
REFERENCE, ROUNDING = "the reference", "round-off"  # what limits the accuracy of errors
SELF = "self"  # the error that is the difference between step sizes
ROUND_OFF = 2.0**-50  # least error of a double-precision reference, relative to the initial state

# `reference_error` is the distance to the same reference at ten times the tolerance. With error
# control of order 8, it is 10^(7/8) - 1 = 6.5 times the error of the reference. For a reference in
# double-double, it is the distance to the reference at twice the step size, which is at least the
# error of the reference.
REFERENCE_SHARES = {DOUBLE: 1 / 5, DOUBLE_DOUBLE: 1.0}


@dataclass(frozen=True)
class Curve:
    """Errors at one time, by step size and start. Step sizes without errors are left out.

    Attributes
    ----------
    sizes : ndarray, shape ``(n,)``
        Step sizes, or tolerances.
    errors, floors : ndarray, shape ``(n, starts)``
        Errors, NaN where there is no run; and their floors, `MARGIN` times the uncertainty of the
        error. Errors below their floor are not used.
    steps : ndarray, shape ``(n,)``
        Number of steps until `time`.
    time, last_time : float
        The time of the errors, and the last sample time of the runs.
    complete : int
        Number of complete runs, with or without an error.
    left_out : int
        Number of runs that failed, are not finished, left the study, or have no error.
    absent : int
        Number of step sizes for which no run has an error.
    possible : PossibleStepSizes
        The step sizes that could be added.
    stopped : int
        Number of used runs that fail after `last_time`.
    limit : str
        What limits the accuracy of the errors, ``the reference`` or ``round-off``.
    round_off : float
        Round-off of the runs, or of their reference if that is coarser, relative to that of
        doubles.
    reference_failed : bool
        Whether complete runs have no error because of `reference_failed_at_start`.
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
    """A `Curve` of the step sizes that have an error."""
    there = np.isfinite(errors).any(axis=1)
    sizes, errors, floors, steps = (of[there] for of in (sizes, errors, floors, steps))
    return Curve(sizes, errors, floors, steps, absent=int((~there).sum()), **others)


def run_table_with_error(dataset: xr.Dataset | xr.DataTree, error: str, at: str) -> xr.Dataset:
    """The run table; `InputError` unless it has `error`, and `at` is ``end`` or ``sup``."""
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
    """``self`` if there is no reference, and states at enough step sizes; else ``global_error``."""
    if "global_error" in dataset or "state" not in dataset:
        return "global_error"
    sizes = dataset["step_size"].values
    return SELF if len(np.unique(sizes[np.isfinite(sizes)])) > FEWEST else "global_error"


def run_table_has_error(dataset: xr.Dataset, error: str | None = None) -> bool:
    """Whether a run table has an error; by default, any error that orders can be measured with."""
    error = default_error_for_orders(dataset) if error is None else error
    needed = "state" if error == SELF else error
    return needed in dataset and "run" in dataset[needed].dims


def curve_of_error(dataset: xr.Dataset, error: str, at: str) -> Curve:
    """The error curve of one integrator by step size.

    Parameters
    ----------
    dataset : xarray.Dataset
        Runs of one integrator on one system.
    error : str
        A variable over ``(run, time)``, or `SELF` for differences between step sizes.
    at : {"end", "sup"}
        See `error_curve`.

    Returns
    -------
    Curve
    """
    if error == SELF:
        return self_convergence_curve(dataset, at)
    return error_curve(dataset, error, at)


# --- against a reference, or of an invariant -------------------------------------------------


def error_curve(dataset: xr.Dataset, error: str, at: str, axis: str = "step_size") -> Curve:
    """Errors of one integrator by step size (or tolerance) and start, at the last resolved time.

    If most runs fail, only times before the first failure are used; see `judged_runs`.

    Parameters
    ----------
    dataset : xarray.Dataset
        Runs of one integrator on one system.
    error : str
        A variable over ``(run, time)``.
    at : {"end", "sup"}
        The error at that time, or its maximum until then.
    axis : {"step_size", "tolerance"}, optional

    Returns
    -------
    Curve
    """
    possible, judged = possible_step_sizes(dataset), selection.judged_runs(dataset, 1)
    counts = np.isin(np.arange(dataset.sizes["run"]), judged.positions)
    sizes, size = selection.distinct_values_and_codes(dataset[axis].values)
    starts, start = selection.distinct_values_and_codes(dataset["initial_condition"].values)
    least, round_off = (
        round_off_of_errors(dataset, error),
        _relative_round_off_of_errors(dataset, error),
    )
    first = min(1, judged.samples - 1)  # at the start all errors are 0
    dataset = dataset.isel(time=slice(first, judged.samples))
    of_sizes = (np.arange(len(sizes))[:, None] == size) & counts
    ends, last = _errors_while_resolved(dataset, error, at, of_sizes, least)
    errors, floors = np.full((2, len(sizes), len(starts)), np.nan)
    errors[size[counts], start[counts]], floors[size[counts], start[counts]] = ends[:, counts]
    times, referred = dataset["time"].values, selection.is_error_against_reference(dataset, error)
    # Runs in coarser arithmetic than the reference are limited by round-off, unless the error of
    # the reference is larger.
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
    """Errors of the runs of a cell at the last resolved sample, read block by block.

    Parameters
    ----------
    of_sizes : ndarray of bool, shape ``(n, run)``
        Which runs of each step size are used.
    least : ndarray, shape ``(run,)``
        Result of `round_off_of_errors`.

    Returns
    -------
    ends : ndarray, shape ``(2, run)``
        Errors and floors at that sample, or their maxima until then.
    last : int
        Index of that sample; -1 if there is no error.
    """
    names = [error]
    if "reference_error" in dataset and selection.is_error_against_reference(dataset, error):
        names.append("reference_error")
    series = [dataset[name].variable.transpose("run", "time") for name in names]
    share, samples = share_of_reference_error(dataset), dataset.sizes["time"]
    while True:  # once for all samples, and again up to the last resolved one
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
    """Reduce a block: counts of finite and of resolved errors, then the errors and floors."""
    own = np.broadcast_to(least[:, None], errors.shape)
    floors = MARGIN * (own if reference is None else np.maximum(share * reference, own))
    # Where the reference failed, the uncertainty of an error is not known.
    errors = np.where(np.isfinite(floors), np.abs(errors), np.nan)
    masks = np.isfinite(errors), errors >= floors
    there = np.array([[mask[runs].sum(axis=0) for runs in of_sizes] for mask in masks])
    if at == "sup":
        return there, np.fmax.reduce([errors, floors], axis=2)
    return there, np.array([errors[:, -1], floors[:, -1]])


def _last_resolved_sample(finite: Integers, resolved: Integers) -> int:
    """The last sample at which all step sizes, except at most one, are resolved.

    Only step sizes that are resolved at some sample are considered; at least three of them must be
    resolved, if there are as many. This is the end of the run, unless the reference ends earlier or
    can no longer follow a chaotic motion. One may be missing because the errors of the finest step
    size may exceed round-off at single samples only.
    """
    counting = ((finite > 0) & (2 * resolved >= finite)).sum(axis=0)
    if counting.max() == 0:
        return int(np.flatnonzero(finite.any(axis=0))[-1]) if finite.any() else -1
    enough = max(counting.max() - 1, min(counting.max(), FEWEST))
    return int(np.flatnonzero(counting >= enough)[-1])


# --- between step sizes ----------------------------------------------------------------------


def self_convergence_curve(dataset: xr.Dataset, at: str) -> Curve:
    """Differences of each step size from the next coarser one, as errors of effective step sizes.

    If the error is C h^p, the states at h and H differ by C (H^p − h^p), which is the error at the
    effective step size (H^p − h^p)^(1/p). Since p is the slope of the curve, p and the effective
    step sizes are found by iteration.

    Parameters
    ----------
    dataset : xarray.Dataset
        Runs of one integrator on one system, with ``state``.
    at : {"end", "sup"}
        The difference at the last resolved time, or its maximum until then.

    Returns
    -------
    Curve
        It has one size less than there are step sizes.
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
    norms = [np.empty((2, 0))]  # of the differences, and of the last state at the finer step size
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

    If step sizes have several ratios, a wrong initial guess of p puts neighbouring differences in
    the wrong order. Of the results of several guesses, the one with the most step sizes in the fit
    is returned; among equals, the one with the narrowest interval.
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


# --- uncertainty of errors -------------------------------------------------------------------


def share_of_reference_error(dataset: xr.Dataset) -> float:
    """Upper bound of the error of the reference, as a share of ``reference_error``."""
    return REFERENCE_SHARES[selection.arithmetic_of_reference(dataset)]


def round_off_of_errors(dataset: xr.Dataset, error: str) -> Floats:
    """Least uncertainty of an error, which is that of round-off; shape ``(run,)``.

    It is the round-off of the norm of the initial state, or of the size of the invariant, in the
    arithmetic of the run; for errors against a reference, in that of the reference if it is
    coarser.
    """
    size: Floats | float = 1.0
    if selection.is_error_against_reference(dataset, error):
        size = initial_state_norms(dataset)
    elif (quantity := error.removesuffix("_error")) in dataset:
        first = dataset[quantity].isel(time=0).transpose("run").values
        size = np.maximum(np.abs(first), np.finfo(float).tiny)
    return ROUND_OFF * _relative_round_off_of_errors(dataset, error) / np.finfo(float).eps * size


def _relative_round_off_of_errors(dataset: xr.Dataset, error: str) -> Floats:
    """Relative round-off of runs, or of their reference if that is coarser; shape ``(run,)``."""
    referred = selection.is_error_against_reference(dataset, error)
    least = PRECISION[selection.arithmetic_of_reference(dataset)] if referred else 0.0
    return np.maximum(selection.relative_round_off_of_runs(dataset), least)


def reference_failed_at_start(dataset: xr.Dataset) -> bool:
    """Whether the reference of complete runs failed before the first sample after the start.

    In this case the error of the reference, and usually all errors against it, are unknown.

    Parameters
    ----------
    dataset : xarray.Dataset
        Complete runs of one system.

    Returns
    -------
    bool
    """
    later = dataset["time"].values > 0  # at the start every reference is exact
    if "reference_error" not in dataset or not later.any():
        return False
    first = dataset["reference_error"].isel(time=int(later.argmax()))
    return not np.isfinite(first.values).any()
