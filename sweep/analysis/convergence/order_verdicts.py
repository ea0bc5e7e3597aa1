"""Verdicts on declared orders of convergence, and the step sizes that would decide open ones."""

from dataclasses import dataclass

import numpy as np

from integrators.precision import DOUBLE, ROUND_OFF
from sweep.analysis.convergence.curves import SELF, Curve
from sweep.analysis.convergence.slopes import (
    FEWEST,
    FLOOR,
    LEVEL,
    MARGIN,
    MISSING,
    PRE_ASYMPTOTIC,
    UNRESOLVED,
    USED,
    OrderFit,
)
from sweep.analysis.runs.blocks import Floats
from sweep.text import count_with_noun, join_with_and

Declared = int | str | None  # an order, `EXACT`, or none that the store names
CONFIRMED, REFUTED, UNDECIDED = "confirmed", "refuted", "undecided"
EXACT = "exact"  # the declared order of a method whose steps are the flow itself

HALF = 0.5  # an order is a whole number: what lies so near to one is none of the others
# What N steps of order p leave of an error, about N^-p: where that is more, round-off means exact;
# and an error that shows that the motion is not trivial. In double; in proportion to round-off.
LOST, MOVING = 1e-10, 1e-6
FALLING = 4.0  # times the finest steps' error is that of the coarsest: it is no round-off
KNOWN = 0.2  # of an error, up to which its uncertainty leaves the slope meaningful
FURTHER = 2  # step sizes that are added to those of an interval that is too wide
FINER = 8.0  # times smaller than the finest are the smallest of them
BEYOND = 2.0  # factor by which step sizes are tried beyond the largest and the smallest


@dataclass(frozen=True)
class OrderVerdict:
    """A verdict on a declared order.

    Attributes
    ----------
    verdict : str
        ``confirmed``, ``refuted`` or ``undecided``.
    cause : str
        Why it is undecided, in a few words; else empty.
    evidence : str
        The numbers behind the verdict; empty where it is plainly confirmed.
    further_sizes : tuple of float
        Step sizes that may decide it, all of which runs can have.
    """

    verdict: str
    cause: str = ""
    evidence: str = ""
    further_sizes: tuple[float, ...] = ()

    @property
    def reason(self) -> str:
        """Cause, evidence and what would decide, in words; empty where it is plainly confirmed."""
        evidence = f" ({self.evidence})" if self.cause and self.evidence else self.evidence
        return f"{self.cause}{evidence}{step_sizes_to_try(self.further_sizes)}"


def step_sizes_to_try(sizes: tuple[float, ...]) -> str:
    """``: try step sizes 0.2 and 0.1``; empty without any."""
    if not sizes:
        return ""
    return f": try step size{'s' * (len(sizes) > 1)} " + join_with_and(f"{h:.10g}" for h in sizes)


def verdict_on_declared_order(
    fit: OrderFit, declared: Declared, curve: Curve, error: str, moving: bool
) -> OrderVerdict:
    """Judge the declared order of a method by the interval of its measured order.

    It is confirmed where the whole interval lies within 1/2 of it, and refuted where none does.

    Parameters
    ----------
    fit : OrderFit
    declared : int, "exact" or None
    curve : Curve
        The fitted error curve.
    error : str
        Name of the error.
    moving : bool
        Whether the errors of some integrator are large enough to show that the state moves.
    """
    if curve.reference_failed:
        return OrderVerdict(UNDECIDED, "the reference failed", _shorter_reference_in_words(curve))
    slopes = f"local slopes {', '.join(f'{slope:.2f}' for slope in fit.local[::-1])}"
    if not np.isfinite(fit.order):
        return _verdict_without_slope(fit, declared, curve, error, moving)
    if declared is None:
        return OrderVerdict(UNDECIDED, "the store names no declared order")
    if isinstance(declared, str):  # `EXACT`
        return OrderVerdict(REFUTED, evidence=f"the error falls as h^{fit.order:.2f} ({slopes})")
    if declared - HALF <= fit.low and fit.high <= declared + HALF:
        early = curve.time < curve.last_time and curve.referred
        return OrderVerdict(
            CONFIRMED, evidence=f"the reference holds until t = {curve.time:g}" if early else ""
        )
    found = f"{fit.order:.2f} ± {(fit.high - fit.low) / 2:.2g}"
    if fit.high < declared - HALF or declared + HALF < fit.low:
        finer = _slopes_near_floor(fit, curve)
        if np.any(np.abs(finer - declared) <= HALF):  # the range of the fit is not asymptotic yet
            shown = ", ".join(f"{slope:.2f}" for slope in finer[::-1])
            evidence = f"{found}, but slopes {shown} near the floor"
            return OrderVerdict(UNDECIDED, "the order still changes near the floor", evidence)
        return OrderVerdict(
            REFUTED, evidence=f"the error falls as h^({found}), not h^{declared} ({slopes})"
        )
    end = declared + (HALF if fit.high > declared + HALF else -HALF)
    sizes = _further_step_sizes(fit, declared, curve, FURTHER)
    cause = "the interval of the order is too wide"
    return OrderVerdict(UNDECIDED, cause, f"{found} reaches beyond {end:g}; {slopes}", sizes)


def _slopes_near_floor(fit: OrderFit, curve: Curve) -> Floats:
    """Slopes between step sizes at the floor whose errors are known to `KNOWN`, finest first."""
    there = np.isfinite(curve.errors).any(axis=1)
    typical, finest = fit.typical, fit.use.index(USED)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nanmedian(curve.error_uncertainty[there] / curve.errors[there], axis=1)
        slopes = np.diff(np.log(typical)) / np.diff(np.log(curve.sizes[there]))
    return np.asarray(slopes[:finest][share[:finest] <= KNOWN])


def scaled_to_round_off(limit: float, curve: Curve) -> float:
    """Scale a limit for double precision to the round-off of a curve."""
    return limit * curve.round_off / ROUND_OFF[DOUBLE]


def _verdict_without_slope(
    fit: OrderFit, declared: Declared, curve: Curve, error: str, moving: bool
) -> OrderVerdict:
    """The verdict where too few step sizes count: exact, or undecided."""
    order = 0 if isinstance(declared, str) else declared  # N steps leave all of a round-off
    exact = None if order is None else _steps_exact_to_round_off(fit, order, curve)
    if exact is not None and not moving:
        return OrderVerdict(
            UNDECIDED, "no error shows that the state moves", "an order cannot be measured"
        )
    if exact is not None:
        words = f"exact to round-off, even in {exact} steps over t = {curve.time:g}"
        return OrderVerdict(CONFIRMED, evidence=words)
    if not fit.use and curve.complete:
        runs = f"{count_with_noun(curve.complete, 'complete run')}"
        if error == SELF:
            finest = float(curve.possible.known[0])
            sizes = curve.possible.several_between(finest / BEYOND**2, finest, 1)
            cause = f"no start of {runs} has two neighbouring step sizes"
            return OrderVerdict(UNDECIDED, cause, further_sizes=sizes)
        return OrderVerdict(UNDECIDED, f"none of {runs} has {error}")
    if not fit.use:
        return OrderVerdict(UNDECIDED, "no run is complete", f"{curve.left_out} are not")
    counted = fit.use.count(USED)
    missing = FEWEST - counted
    sizes = _further_step_sizes(fit, order, curve, missing)
    if error != SELF and len(sizes) < missing and fit.causes.count(LEVEL) == 0:
        sizes = ()  # which would be too few as well
    cause = f"too few {'differences' if error == SELF else 'step sizes'} count"
    evidence = [f"{counted}, {FEWEST} are needed", *_why_step_sizes_do_not_count(fit, curve)]
    return OrderVerdict(UNDECIDED, cause, "; ".join(evidence), sizes)


def _why_step_sizes_do_not_count(fit: OrderFit, curve: Curve) -> list[str]:
    """How many step sizes do not count, and why."""
    causes = {
        f"within {MARGIN:.0f} times what {curve.limit} can be wrong by": UNRESOLVED,
        f"within {MARGIN:.0f} times where the error stops falling": LEVEL,
        "with an error in few of their runs": MISSING,
    }
    words = [f"{n} {said}" for said, cause in causes.items() if (n := fit.causes.count(cause))]
    if curve.left_out:
        words.append(f"{curve.left_out} runs failed, unfinished or without an error")
    return words


def _steps_exact_to_round_off(fit: OrderFit, declared: int, curve: Curve) -> int | None:
    """The fewest steps of a run with an error at round-off, if no order can be measured; else None.

    An error that falls with the step size is not round-off, even where the reference hides it.
    """
    there = np.isfinite(curve.errors).any(axis=1)
    at_floor = curve.errors[there] < curve.floors[there]
    if not there.any() or fit.use.count(FLOOR) < len(fit.use) or not at_floor[-1].all():
        return None
    finest, coarsest = np.nanmedian(curve.errors[there], axis=1)[[0, -1]]
    if coarsest > FALLING * finest:
        return None
    steps = curve.steps[there][-1]
    return int(steps) if steps**-declared >= scaled_to_round_off(LOST, curve) else None


def _shorter_reference_in_words(curve: Curve) -> str:
    """What would decide where the reference failed: one that ends near half the time."""
    interval = curve.possible.interval
    half = interval * np.floor(curve.last_time / interval / 2)
    return f"a new store needs one with until = {half:.15g}" if half > 0 else ""


def _further_step_sizes(
    fit: OrderFit, declared: int | None, curve: Curve, count: int
) -> tuple[float, ...]:
    """Up to `count` step sizes whose errors should count, in the widest gaps between those known.

    They lie above those at the floor and below those that are too coarse. Where there are none at
    the floor, errors are taken to fall as before, down to `MARGIN` times their uncertainty; where
    there are none that count, they are taken to rise from the largest as the declared order says.
    """
    there = np.isfinite(curve.errors).any(axis=1)
    sizes, use = curve.sizes[there], np.array(fit.use, dtype=object)
    own = np.nanmedian(curve.error_uncertainty[there], axis=1)
    errors = np.maximum(fit.typical, np.finfo(float).tiny)
    order = fit.order if fit.order > HALF else declared or 1
    reach = sizes * (MARGIN * own / errors) ** (1 / order)  # where an error would just count
    missing = FEWEST - int(np.sum(use == USED))
    if missing > 0 and (use == FLOOR).all():
        largest = max(float(sizes[-1]), float(reach[-1]))
        larger = curve.possible.several_between(largest, largest * BEYOND ** (missing + 1), missing)
        if np.isnan(fit.floor):
            return larger
        # The error has stopped falling, at a floor, or does not fall yet: either side may tell.
        low = max(float(reach[0]), float(sizes[0]) / FINER)
        return curve.possible.several_between(low, float(sizes[0]), count) + larger[:1]
    finest = float(sizes[use != FLOOR][0])
    low = float(np.max(sizes[use == FLOOR], initial=0.0))
    if not low:
        low = max(float(reach[use != FLOOR][0]), finest / FINER)
    high = float(sizes[use == USED][-1])
    if missing > 0:
        beyond = float(sizes[-1]) * BEYOND ** (missing + 1)
        high = float(np.min(sizes[use == PRE_ASYMPTOTIC], initial=beyond))
    return curve.possible.several_between(low, high, count)
