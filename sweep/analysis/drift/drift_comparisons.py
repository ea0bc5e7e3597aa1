"""Factors by which one integrator drifts less than another, at equal step size and cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweep.analysis.drift.estimators import EACH, LINEAR, UNSTEADY
from sweep.analysis.efficiency.timing import APART

LEAST = 1.1  # smallest ratio that is reported
LARGE = 1e4  # ratios from here on are printed as powers of ten


@dataclass(frozen=True)
class DriftComparison:
    """The factor by which an integrator drifts less than another one, which has a drift.

    Both have the same starts, duration and scanned values.

    Attributes
    ----------
    than : str
        The other integrator.
    step_size, tolerance : float
        Step size or tolerance of the other integrator; one is NaN.
    times : float
        Lower bound of the ratio of the other's mean |drift| to this one's, with 95 % confidence.
    equal_step : bool
        Whether the step sizes are equal.
    cpu_time : float
        CPU time of a run, relative to that of the other; NaN if the two cannot be compared.
    """

    than: str
    step_size: float
    tolerance: float
    times: float
    equal_step: bool
    cpu_time: float

    @property
    def equal_cost(self) -> bool:
        """Whether a run takes no more CPU time than one of the other, within timing errors."""
        return bool(self.cpu_time <= 1 + APART)

    def __str__(self) -> str:
        return f"≥ {_round_down_to_two_digits(self.times)}× less than {self.than}"


def _round_down_to_two_digits(times: float) -> str:
    """Round a bound down to two digits, or to a power of ten if it is large."""
    power = int(np.floor(np.log10(times) + 1e-12))
    if times >= LARGE:
        return f"1e{power}"
    unit = 10.0 ** (power - 1)
    return f"{np.floor(times / unit + 1e-9) * unit:.4g}"


def compare_drifts(
    rows: Sequence[Any], starts: Sequence[Iterable[str]]
) -> list[tuple[DriftComparison, ...]]:
    """Compare each drift with the drifts of other integrators that are certainly larger.

    For each other integrator, at most two step sizes are compared: the same one, and the cheapest
    of those at which a run takes at least as much CPU time.

    Parameters
    ----------
    rows : sequence of drifts.DriftEstimate
    starts : sequence of tuple of str
        For each row, the initial conditions that are used.

    Returns
    -------
    list of tuple of DriftComparison
        For each row, its comparisons by ascending `times`.
    """
    settings: list[tuple[Any, ...]] = [
        (row.quantity, *sorted(row.parameters.items()), row.duration, frozenset(own))
        for row, own in zip(rows, starts, strict=True)
    ]
    drifting: dict[tuple[Any, ...], list[Any]] = {}
    for row, setting in zip(rows, settings, strict=True):
        if row.verdict in (LINEAR, UNSTEADY) and not row.wide_low <= 0 <= row.wide_high:
            drifting.setdefault(setting, []).append(row)
    return [
        _comparisons_of_row(row, drifting.get(setting, ()))
        for row, setting in zip(rows, settings, strict=True)
    ]


def _comparisons_of_row(row: Any, drifting: Iterable[Any]) -> tuple[DriftComparison, ...]:
    most = max(abs(row.wide_low), abs(row.wide_high))
    # No comparison if the drift was not measured; if it is exactly 0, which has no ratio; or if
    # every start drifts with its own sign, so that the mean is smaller than each of the drifts.
    if not most > 0 or row.verdict == EACH:
        return ()
    by_integrator: dict[str, list[DriftComparison]] = {}
    for other in drifting:
        # Errors without a sign are compared only if they drift, since a random walk has a slope
        # too.
        alike = row.signed or row.verdict == other.verdict == LINEAR
        if other.integrator != row.integrator and alike:
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
