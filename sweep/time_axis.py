"""The time axis of an experiment, and the step sizes that fit it."""

import dataclasses
import math

import numpy as np

from integrators.errors import InputError

DIVIDES = 1e-9  # relative difference up to which a step size divides the sample interval
MOST_STEPS = 2**53  # beyond which the time k*h of a step is no longer told from the next
MOST_VALUES = 100_000  # of a range


@dataclasses.dataclass(frozen=True)
class TimeAxis:
    """Samples at equal intervals, from t = 0 to the duration, both included.

    Parameters
    ----------
    duration : float
        In the system's unit of time.
    samples : int
        The number of intervals.

    Raises
    ------
    InputError
        If the duration is not positive or there is no interval.
    """

    duration: float
    samples: int

    def __post_init__(self):
        if not 0 < self.duration < math.inf:
            raise InputError(f"expected a positive number, got {self.duration}", key="duration")
        if self.samples < 1:
            raise InputError(f"expected at least 1 interval, got {self.samples}", key="samples")

    @property
    def interval(self):
        """Time between two samples."""
        return self.duration / self.samples

    @property
    def times(self):
        """Times of the samples, shape ``(samples + 1,)``."""
        return self.duration * np.arange(self.samples + 1) / self.samples

    def steps(self, step_size):
        """Number of steps in a sample interval.

        Raises
        ------
        InputError
            If `step_size` is not positive, larger than the interval, too small, or does not
            divide the interval; with the nearest that do.
        """
        ratio = self._ratio(step_size)
        steps = round(ratio)
        if abs(ratio - steps) > DIVIDES * steps:
            fits = " and ".join(
                f"{self.interval / n:.10g} ({n} {'step' if n == 1 else 'steps'})"
                for n in (math.floor(ratio), math.ceil(ratio))
            )
            raise InputError(
                f"the step size {step_size} does not divide the sample interval {self._words}; "
                f"the nearest that do are {fits}"
            )
        return steps

    def snapped(self, step_size):
        """The step size nearest to a generated one that divides the sample interval.

        One that divides it already keeps its exact value.

        Raises
        ------
        InputError
            If `step_size` is not positive, larger than the interval, or too small.
        """
        ratio = self._ratio(step_size)
        steps = round(ratio)
        return step_size if abs(ratio - steps) <= DIVIDES * steps else self.interval / steps

    @property
    def _words(self):
        return f"{self.interval:.10g} (duration {self.duration} / samples {self.samples})"

    def _ratio(self, step_size):
        if not step_size > 0:
            raise InputError(f"expected a positive step size, got {step_size}")
        ratio = self.interval / step_size
        if ratio < 1 - DIVIDES:
            raise InputError(
                f"the step size {step_size} is larger than the sample interval {self._words}"
            )
        if not ratio * self.samples <= MOST_STEPS:
            raise InputError(f"the step size {step_size} needs more than 2**53 steps")
        return ratio


def spaced(start, stop, count, spacing):
    """Numbers from `start` to `stop`, which are kept as they are.

    Those between have six significant digits: logarithms differ between machines in the last
    bit, and a run must be the same run everywhere. They are integers if all of them can be.

    Parameters
    ----------
    start, stop : int or float
    count : int
        From 2 to 100,000.
    spacing : {"linear", "log"}

    Returns
    -------
    tuple of int or tuple of float

    Raises
    ------
    InputError
        If `count` is out of bounds, or an end is not positive where the spacing is logarithmic.
    """
    if not 2 <= count <= MOST_VALUES:
        raise InputError(f"expected 2 to {MOST_VALUES} values, got {count}", key="count")
    for key, end in (("start", start), ("stop", stop)):
        if spacing == "log" and end <= 0:
            raise InputError(f"a range with spacing 'log' needs positive ends, got {end}", key=key)
    values = [float(start)]
    for k in range(1, count - 1):
        part = k / (count - 1)
        if spacing == "log":
            value = start ** (1 - part) * stop**part
        else:
            value = start + (stop - start) * part
        values.append(float(f"{value:.6g}"))
    values.append(float(stop))
    whole = isinstance(start, int) and isinstance(stop, int) and all(v.is_integer() for v in values)
    return tuple(int(value) for value in values) if whole else tuple(values)
