"""Factors by which one integrator drifts less than another, at equal step size and cost."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sweep.analysis.drift.verdicts import FEWEST_STARTS, LINEAR, LOOSE, UNDECIDED, WALK, WORSE
from sweep.analysis.efficiency.timing import APART

# Of each of two drifts: that one lies within its interval (1 - 0.975) and another not nearer to 0
# than its own (half of that) is wrong of 3.75 % of pairs at most.
OF_EACH = 0.975
LEAST = 1.1  # times less: closer to 1 a comparison says nothing
LARGE = 1e4  # from here on a ratio is printed as a power of ten


@dataclass(frozen=True)
class DriftComparison:
    """The factor by which an integrator drifts less than another one that is seen to drift.

    Both have the same starts, duration and scanned values.

    Attributes
    ----------
    than : str
        The other integrator.
    step_size, tolerance : float
        Of the other; one is NaN.
    times : float
        Lower bound of the ratio of its mean |drift| to this one, with 95 % certainty.
    equal_step : bool
        Whether the step sizes are equal.
    cpu_time : float
        CPU time of a run, in units of the other's; NaN where the two cannot be compared.
    """

    than: str
    step_size: float
    tolerance: float
    times: float
    equal_step: bool
    cpu_time: float

    @property
    def equal_cost(self) -> bool:
        """Whether a run takes no more CPU time than one of the other, up to what times scatter."""
        return bool(self.cpu_time <= 1 + APART)

    def __str__(self) -> str:
        return f"≥ {_round_down_to_two_digits(self.times)}× less than {self.than}"


class ComparableDrift(Protocol):
    """A row with a drift, such as `drifts.DriftEstimate`, whose attributes it has."""

    @property
    def quantity(self) -> str:
        """Name of the quantity."""

    @property
    def integrator(self) -> str:
        """Label of the integrator."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Values of the scanned axes."""

    @property
    def step_size(self) -> float:
        """NaN of adaptive integrators."""

    @property
    def tolerance(self) -> float:
        """NaN of the others."""

    @property
    def duration(self) -> float:
        """Over which the drift was measured."""

    @property
    def wide_low(self) -> float:
        """Lower end of the 97.5 % interval of the drift."""

    @property
    def wide_high(self) -> float:
        """Upper end of the 97.5 % interval of the drift."""

    @property
    def grown_high(self) -> float:
        """Upper end of the interval of what has grown; NaN where nothing has."""

    @property
    def verdict(self) -> str:
        """One of `verdicts.VERDICTS`."""

    @property
    def shared(self) -> bool:
        """Whether the mean over the starts drifts."""

    @property
    def effective(self) -> float:
        """Number of independent starts."""

    @property
    def cpu_time(self) -> float:
        """Seconds of a run."""


def _round_down_to_two_digits(times: float) -> str:
    """Round a bound down to two digits, or to a power of ten where it is large."""
    power = int(np.floor(np.log10(times) + 1e-12))
    if times >= LARGE:
        return f"1e{power}"
    unit = 10.0 ** (power - 1)
    return f"{np.floor(times / unit + 1e-9) * unit:.4g}"


def compare_drifts(
    rows: Sequence[ComparableDrift], starts: Sequence[Iterable[str]]
) -> list[tuple[DriftComparison, ...]]:
    """Compare each drift with those of other integrators that are surely larger.

    Of each other integrator at most two step sizes are compared: the same one, and of those at
    which a run takes as much CPU time or more the cheapest.

    Parameters
    ----------
    rows : sequence of DriftEstimate
    starts : sequence of tuple of str
        The initial conditions that count in each.

    Returns
    -------
    list of tuple of DriftComparison
        Of each row, those with the fewest times first.
    """
    together: dict[tuple[Any, ...], list[ComparableDrift]] = {}
    for row, own in zip(rows, starts, strict=True):
        together.setdefault(_comparable_setting(row, own), []).append(row)
    drifting = {
        setting: [row for row in of if _drift_is_sure(row)] for setting, of in together.items()
    }
    return [
        _comparisons_of_row(row, drifting[_comparable_setting(row, own)])
        for row, own in zip(rows, starts, strict=True)
    ]


def _comparable_setting(row: ComparableDrift, starts: Iterable[str]) -> tuple[Any, ...]:
    """Key that rows share if they can be compared."""
    return row.quantity, tuple(row.parameters.items()), row.duration, frozenset(starts)


def _drift_is_sure(row: ComparableDrift) -> bool:
    """Whether a drift is surely not 0, by its verdict or by the scatter of many independent starts.

    In few starts, or alike ones, it may be a common random walk or oscillation.
    """
    if row.wide_low <= 0 <= row.wide_high or np.isnan(row.wide_low):
        return False
    many = row.effective > FEWEST_STARTS - 0.5
    return row.verdict in (LINEAR, WORSE) or (row.verdict in (UNDECIDED, WALK, *LOOSE) and many)


def _largest_possible_drift(row: ComparableDrift) -> float:
    """The largest |drift| of the mean, or of single starts where these drift by either sign."""
    most = max(abs(row.wide_low), abs(row.wide_high))
    if np.isfinite(row.grown_high) and not row.shared:
        return max(most, row.grown_high / row.duration)
    return most


def _comparisons_of_row(
    row: ComparableDrift, drifting: Iterable[ComparableDrift]
) -> tuple[DriftComparison, ...]:
    most = _largest_possible_drift(row)
    if not most > 0:  # not measured; or exactly constant, and so nothing is in proportion to it
        return ()
    by_integrator: dict[str, list[DriftComparison]] = {}
    for other in drifting:
        if other.integrator != row.integrator:
            times = min(abs(other.wide_low), abs(other.wide_high)) / most
            one = DriftComparison(
                than=other.integrator,
                step_size=other.step_size,
                tolerance=other.tolerance,
                times=float(times),
                equal_step=row.step_size == other.step_size,
                cpu_time=row.cpu_time / other.cpu_time,
            )
            by_integrator.setdefault(other.integrator, []).append(one)
    chosen: list[DriftComparison] = []
    for of in by_integrator.values():
        costly = max((one for one in of if one.equal_cost), key=lambda o: o.cpu_time, default=None)
        chosen += [one for one in of if one.equal_step or one is costly]
    return tuple(sorted((one for one in chosen if one.times >= LEAST), key=lambda one: one.times))
