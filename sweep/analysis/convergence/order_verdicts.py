"""Verdicts on declared orders of convergence, and step sizes that would decide undecided ones."""

from dataclasses import dataclass

import numpy as np

from sweep.analysis.convergence import slopes
from sweep.analysis.convergence.curves import REFERENCE, SELF, Curve
from sweep.analysis.convergence.slopes import FEWEST, FLOOR, MARGIN, USED, OrderFit
from sweep.analysis.runs.blocks import Floats
from sweep.text import count_with_noun, join_with_and

Declared = int | str | None  # an order, `EXACT`, or None if the store has no declared order
CONFIRMED, REFUTED, UNDECIDED = "confirmed", "refuted", "undecided"
EXACT = "exact"  # the declared order of a method whose steps are the flow itself

HALF = 0.5  # largest distance from an order, which is a whole number, for it to be confirmed
# N steps of order p reduce an error by a factor of about N^-p. Where this is larger than LOST, an
# error at round-off means that the method is exact. An error larger than MOVING shows that the
# state moves. Both are for double precision, and in proportion to round-off.
LOST, MOVING = 1e-10, 1e-6
FALLING = 4.0  # ratio of coarsest to finest error above which the errors are not round-off
KNOWN = 0.2  # largest relative uncertainty of errors for which a slope is meaningful
FURTHER = 2  # number of step sizes that are suggested if the interval is too wide
FINER = 8.0  # suggested step sizes are at most so many times smaller than the finest one
BEYOND = 2.0  # factor by which suggested step sizes may exceed the largest and smallest one


@dataclass(frozen=True)
class OrderVerdict:
    """A verdict on a declared order.

    Attributes
    ----------
    verdict : str
        ``confirmed``, ``refuted`` or ``undecided``.
    cause : str
        Why the verdict is undecided, in a few words; else empty.
    evidence : str
        The numbers behind the verdict; empty if it is confirmed without qualification.
    further_sizes : tuple of float
        Possible step sizes that may decide the verdict.
    """

    verdict: str
    cause: str = ""
    evidence: str = ""
    further_sizes: tuple[float, ...] = ()

    def reason(self, time_unit: float) -> str:
        """Cause, evidence and remedy in words; empty if confirmed without qualification.

        Parameters
        ----------
        time_unit : float
            Unit of time of the study, in units of the system.
        """
        text = f"{self.cause} ({self.evidence})" if self.cause and self.evidence else ""
        text = text or self.cause or self.evidence
        if sizes := [f"{size / time_unit:.10g}" for size in self.further_sizes]:
            text += f": try step size{'s' * (len(sizes) > 1)} {join_with_and(sizes)}"
            text += "" if time_unit == 1.0 else " in the study's unit of time"
        return text


def verdict_on_declared_order(
    fit: OrderFit, declared: Declared, curve: Curve, error: str, moving: bool
) -> OrderVerdict:
    """Judge the declared order of a method by the interval of its measured order.

    The declared order is confirmed if the whole interval lies within 1/2 of it, and refuted if no
    part of the interval does.

    Parameters
    ----------
    fit : OrderFit
    declared : int, "exact" or None
    curve : Curve
        The fitted error curve.
    error : str
        Name of the error.
    moving : bool
        Whether the errors of any integrator are large enough to show that the state moves.

    Returns
    -------
    OrderVerdict
    """
    if curve.reference_failed:
        remedy = "`sweep status STORE --failures` says why, and what would help"
        return OrderVerdict(UNDECIDED, "the reference failed", remedy)
    if not np.isfinite(fit.order):
        return _verdict_without_slope(fit, declared, curve, error, moving)
    if declared is None:
        return OrderVerdict(UNDECIDED, "the store names no declared order")
    local = f"local slopes {_slopes_in_words(fit.local)}"
    if isinstance(declared, str):  # `EXACT`
        return OrderVerdict(REFUTED, "", f"the error falls as h^{fit.order:.2f} ({local})")
    low, high = declared - HALF, declared + HALF
    if low <= fit.low and fit.high <= high:
        early = curve.time < curve.last_time and curve.limit == REFERENCE
        return OrderVerdict(
            CONFIRMED, "", f"the reference holds until t = {curve.time:g}" if early else ""
        )
    found = f"{fit.order:.2f} ± {(fit.high - fit.low) / 2:.2g}"
    if low <= fit.high and fit.low <= high:
        end = high if fit.high > high else low
        evidence = f"{found} reaches beyond {end:g}; {local}"
        sizes = _further_step_sizes(fit, declared, curve, FURTHER)
        return OrderVerdict(UNDECIDED, "the interval of the order is too wide", evidence, sizes)
    finer = _slopes_near_floor(fit, curve)
    if np.any(np.abs(finer - declared) <= HALF):  # the fit is not yet in the asymptotic range
        evidence = f"{found}, but slopes {_slopes_in_words(finer)} near the floor"
        return OrderVerdict(UNDECIDED, "the order still changes near the floor", evidence)
    return OrderVerdict(REFUTED, "", f"the error falls as h^({found}), not h^{declared} ({local})")


def _slopes_in_words(slopes: Floats) -> str:
    """Slopes as text, from the coarsest to the finest; they are given from the finest on."""
    return ", ".join(f"{slope:.2f}" for slope in slopes[::-1])


def _slopes_near_floor(fit: OrderFit, curve: Curve) -> Floats:
    """Slopes between step sizes at the floor with an uncertainty below `KNOWN`, finest first."""
    finest = fit.use.index(USED)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nanmedian(curve.error_uncertainty / curve.errors, axis=1)
        local = np.diff(np.log(fit.typical)) / np.diff(np.log(curve.sizes))
    return np.asarray(local[:finest][share[:finest] <= KNOWN])


def shows_motion(curve: Curve) -> bool:
    """Whether errors are large enough to show that the state moves."""
    return bool(np.nanmax(curve.errors, initial=0.0) > MOVING * curve.round_off)


def _verdict_without_slope(
    fit: OrderFit, declared: Declared, curve: Curve, error: str, moving: bool
) -> OrderVerdict:
    """The verdict if too few step sizes are usable: exact to round-off, or undecided."""
    order = 0 if isinstance(declared, str) else declared  # an exact method: 0
    exact = None if order is None else _steps_exact_to_round_off(fit, order, curve)
    if exact is not None and not moving:
        return OrderVerdict(
            UNDECIDED, "no error shows that the state moves", "an order cannot be measured"
        )
    if exact is not None:
        return OrderVerdict(
            CONFIRMED, "", f"exact to round-off, even in {exact} steps over t = {curve.time:g}"
        )
    if not fit.use and not curve.complete:
        return OrderVerdict(UNDECIDED, "no run is complete", f"{curve.left_out} are not")
    runs = count_with_noun(curve.complete, "complete run")
    if not fit.use and error != SELF:
        return OrderVerdict(UNDECIDED, f"none of {runs} has {error}")
    if not fit.use:
        finest = float(curve.possible.known[0])
        sizes = curve.possible.several_between(finest / BEYOND**2, finest, 1)
        cause = f"no start of {runs} has two neighbouring step sizes"
        return OrderVerdict(UNDECIDED, cause, further_sizes=sizes)
    counted = fit.use.count(USED)
    missing = FEWEST - counted
    sizes = _further_step_sizes(fit, order, curve, missing)
    if error != SELF and len(sizes) < missing and slopes.LEVEL not in fit.causes:
        sizes = ()  # these would be too few as well
    causes = {
        f"within {MARGIN:.0f} times the uncertainty from {curve.limit}": slopes.UNRESOLVED,
        f"within {MARGIN:.0f} times where the error stops falling": slopes.LEVEL,
        "with an error in few of their runs": slopes.MISSING,
    }
    evidence = [f"{counted}, {FEWEST} are needed"]
    evidence += [f"{n} {said}" for said, why in causes.items() if (n := fit.causes.count(why))]
    if curve.left_out:
        evidence.append(f"{curve.left_out} runs failed, unfinished or without an error")
    cause = f"too few {'differences' if error == SELF else 'step sizes'} count"
    return OrderVerdict(UNDECIDED, cause, "; ".join(evidence), sizes)


def _steps_exact_to_round_off(fit: OrderFit, declared: int, curve: Curve) -> int | None:
    """Smallest number of steps of runs whose errors are all at round-off; None if they are not.

    An error that falls with the step size is not round-off, even if the reference is less accurate.
    """
    if set(fit.use) != {FLOOR} or not (curve.errors[-1] < curve.floors[-1]).all():
        return None
    finest, coarsest = np.nanmedian(curve.errors, axis=1)[[0, -1]]
    steps = int(curve.steps[-1])
    is_lost = steps**-declared < LOST * curve.round_off
    return None if coarsest > FALLING * finest or is_lost else steps


def _further_step_sizes(
    fit: OrderFit, declared: int | None, curve: Curve, count: int
) -> tuple[float, ...]:
    """Suggest up to `count` step sizes, in the widest gaps, whose errors should be usable.

    They lie above step sizes at the floor and below those that are too coarse. If no step size is
    at the floor, errors are extrapolated down to `MARGIN` times their uncertainty. If no step size
    is usable, errors are extrapolated upwards from the largest one with the declared order.
    """
    sizes, use = curve.sizes, np.array(fit.use, dtype=object)
    own = np.nanmedian(curve.error_uncertainty, axis=1)
    errors = np.maximum(fit.typical, np.finfo(float).tiny)
    order = fit.order if fit.order > HALF else declared or 1
    reach = sizes * (MARGIN * own / errors) ** (1 / order)  # where an error would just be usable
    missing = FEWEST - fit.use.count(USED)
    at_floor = use == FLOOR
    if at_floor.all():
        largest = max(sizes[-1], reach[-1])
        larger = curve.possible.several_between(largest, largest * BEYOND ** (missing + 1), missing)
        if slopes.LEVEL not in fit.causes:
            return larger
        # The error no longer falls, or does not fall yet, so that step sizes on either side may
        # help.
        low = max(reach[0], sizes[0] / FINER)
        return curve.possible.several_between(low, sizes[0], count) + larger[:1]
    low = sizes[at_floor].max() if at_floor.any() else max(reach[0], sizes[0] / FINER)
    high = sizes[use == USED].max(initial=0.0)
    if missing > 0:
        beyond = sizes[-1] * BEYOND ** (missing + 1)
        high = sizes[use == slopes.PRE_ASYMPTOTIC].min(initial=beyond)
    return curve.possible.several_between(float(low), float(high), count)
