"""Step sizes that could be added to an experiment: they divide its sample interval."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from integrators.errors import DIVIDES
from integrators.status import COMPLETE
from sweep.analysis.runs.blocks import Floats
from sweep.analysis.runs.selection import sample_interval

SHORTEST_DECIMALS = range(1, 5)  # digits of the decimals that are tried first
APART = 1e-6  # relative difference from which on two step sizes are different


@dataclass(frozen=True)
class PossibleStepSizes:
    """Step sizes that runs of an integrator can have beside those that they have.

    Attributes
    ----------
    interval : float
        The sample interval, which every step size divides.
    known : ndarray
        Step sizes of its runs, ascending.
    failing : float
        The smallest step size from which on no run is complete; infinite if there is none.
    """

    interval: float
    known: Floats
    failing: float

    @property
    def largest(self) -> float:
        """The largest step size that can be tried."""
        return min(self.interval, self.failing * (1 - APART))

    def one_between(self, low: float, high: float) -> float | None:
        """A step size between two, the largest of those with the fewest digits, or None."""
        high = min(high, self.largest)
        if not 0 < low <= high:
            return None
        for digits in SHORTEST_DECIMALS:
            unit = np.floor(np.log10(high)) + 1 - digits
            first, last = (of(h / 10**unit) for of, h in ((np.ceil, low), (np.floor, high)))
            sizes = np.arange(first, last + 1) * 10**unit
            ratios = self.interval / sizes
            fitting = sizes[np.abs(ratios - np.rint(ratios)) <= DIVIDES * ratios]
            if len(fitting):
                return float(f"{fitting[-1]:.{digits}g}")
        size = self.interval / np.ceil(self.interval / high * (1 - DIVIDES))
        return float(size) if size >= low else None

    def several_between(self, low: float, high: float, count: int) -> tuple[float, ...]:
        """Up to so many new step sizes between two, each in a widest gap, the largest first.

        `low` is excluded, and so are the step sizes that are known.
        """
        high = min(high, self.largest)
        points = [low, *self.known[(self.known > low) & (self.known < high)].tolist(), high]
        new = list[float]()
        while low < high and len(new) < count:
            points.sort()
            widest = np.argsort(-np.diff(np.log(points)), kind="stable")
            tried = (self._one_in_gap(points[i], points[i + 1]) for i in widest)
            size = next((one for one in tried if one is not None and one not in new), None)
            if size is None:
                break
            new.append(size)
            points.append(size)
        return tuple(sorted(new, reverse=True))

    def _one_in_gap(self, low: float, high: float) -> float | None:
        """A new step size in a gap, near its middle if possible."""
        quarter = (high / low) ** 0.25
        inner = self.one_between(low * quarter, high / quarter)
        outer = inner or self.one_between(low * (1 + APART), high * (1 - APART))
        top = outer or self.one_between(high, high)
        known = top is None or np.any(np.abs(self.known - top) <= APART * top)
        return None if known else top


def possible_step_sizes(dataset: xr.Dataset) -> PossibleStepSizes:
    """The step sizes that could be added to the runs of one integrator.

    Parameters
    ----------
    dataset : xarray.Dataset
        Runs of one integrator on one system.
    """
    sizes = dataset["step_size"].values
    known, complete = np.unique(sizes), sizes[dataset["status"].values == COMPLETE]
    failing = known[known > complete.max(initial=0.0)]
    return PossibleStepSizes(
        interval=sample_interval(dataset),
        known=known,
        failing=float(failing[0]) if len(failing) else np.inf,
    )
