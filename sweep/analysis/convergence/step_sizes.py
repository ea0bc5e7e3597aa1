"""Step sizes that could be added to an experiment, because they divide its sample interval."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from integrators.errors import DIVIDES
from integrators.status import COMPLETE
from sweep.analysis.runs.blocks import Floats
from sweep.analysis.runs.selection import sample_interval, time_unit_of_study

MOST = 1000  # number of candidates, of which the one with the fewest digits is chosen
APART = 1e-6  # relative difference above which two step sizes are different


@dataclass(frozen=True)
class PossibleStepSizes:
    """Step sizes that runs of an integrator may have, besides those that they have.

    Attributes
    ----------
    interval : float
        The sample interval, which every step size divides.
    known : ndarray
        Step sizes of the runs, ascending.
    largest : float
        The largest step size to try; no run with a larger one is complete.
    time_unit : float
        Unit of time of the study, in units of the system.
    """

    interval: float
    known: Floats
    largest: float
    time_unit: float

    def several_between(self, low: float, high: float, count: int) -> tuple[float, ...]:
        """Choose up to `count` new step sizes above `low`, up to `high`; the largest first.

        Each is chosen in the widest gap between the step sizes known or chosen so far.
        """
        high, new = min(high, self.largest), list[float]()
        while low < high and len(new) < count:
            inside = [size for size in (*self.known, *new) if low < size < high]
            points = np.unique([low, *inside, high]).tolist()
            gaps = sorted(itertools.pairwise(points), key=lambda gap: np.log(gap[0] / gap[1]))
            found = (self._one_in_gap(*gap, taken=(*self.known, *new)) for gap in gaps)
            size = next((one for one in found if one is not None), None)
            if size is None:
                break
            new.append(size)
        return tuple(sorted(new, reverse=True))

    def _one_in_gap(self, low: float, high: float, taken: Sequence[float]) -> float | None:
        """A new step size in a gap, near its middle if possible; it may be the upper end."""
        quarter = (high / low) ** 0.25
        if any(abs(size - high) <= APART * high for size in taken):
            high *= 1 - APART
        inner = self._one_between(low * quarter, high / quarter)
        return inner or self._one_between(low * (1 + APART), high)

    def _one_between(self, low: float, high: float) -> float | None:
        """The largest of the step sizes with the fewest digits between two; None without any."""
        fewest = math.ceil(self.interval / high * (1 - DIVIDES))
        most = math.floor(self.interval / low * (1 + DIVIDES))
        counts = range(fewest, most + 1, max(1, (most - fewest) // MOST))
        sizes = (f"{self.interval / count:.10g}" for count in counts)
        size = min(sizes, key=len, default=None)
        return None if size is None else float(size)


def possible_step_sizes(dataset: xr.Dataset) -> PossibleStepSizes:
    """The step sizes that could be added to the runs of one integrator.

    Parameters
    ----------
    dataset : xarray.Dataset
        Runs of one integrator on one system.

    Returns
    -------
    PossibleStepSizes
    """
    sizes, interval = dataset["step_size"].values, sample_interval(dataset)
    known, complete = np.unique(sizes), sizes[dataset["status"].values == COMPLETE]
    failing = known[known > complete.max(initial=0.0)]
    largest = min([interval, *(failing[:1] * (1 - APART))])
    return PossibleStepSizes(interval, known, float(largest), time_unit_of_study(dataset))
