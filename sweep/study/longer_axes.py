"""Time axes that go on where another one ends."""

import dataclasses
import functools
import math

import numpy as np

from integrators.errors import InputError
from sweep.study.time_axis import (
    DIVIDES,
    LogarithmicTimeAxis,
    Samples,
    TimeAxis,
    check_duration,
    parts,
)

LOG = "log"


@dataclasses.dataclass(frozen=True)
class ExtendedTimeAxis(Samples):
    """A time axis and what comes after it: equal intervals, or ones that go on to thin out.

    They are multiples of the first axis's. Its times are to the last bit those of the axis that it
    begins with, as far as that goes.

    Parameters
    ----------
    first : TimeAxis or LogarithmicTimeAxis
    pieces : tuple of (int, int) or (str, int)
        How many of the axis's intervals make one here, and how many of these come; or ``"log"``,
        and the mark until which samples go on as those of a `LogarithmicTimeAxis`.
    """

    first: TimeAxis | LogarithmicTimeAxis
    pieces: tuple

    @property
    def duration(self):
        """To the last sample."""
        return float(self.times[-1])

    @property
    def samples(self):
        """The number of intervals."""
        return len(self.marks) - 1

    @property
    def interval(self):
        """Of the axis that it begins with."""
        return self.first.interval

    @functools.cached_property
    def marks(self):
        """In intervals of the axis that it begins with."""
        marks = [self.first.marks]
        for stride, count in self.pieces:
            last = int(marks[-1][-1])
            if stride == LOG:
                marks.append(np.array(self.first.thinning(last, count)))
            else:
                marks.append(last + stride * np.arange(1, count + 1))
        return np.concatenate(marks)

    @functools.cached_property
    def times(self):
        """Times of the samples, shape ``(samples + 1,)``."""
        return parts(self.first.duration, self.marks, self.first.intervals)

    @property
    def settings(self):
        """What tells it from another axis of the same duration."""
        first = {"duration": self.first.duration, "samples": self.first.settings}
        return {"first": first, "pieces": [list(piece) for piece in self.pieces]}

    @property
    def _words(self):
        return self.first._words


def extended(axis, duration, samples=None):
    """`axis` and what comes after it, up to a longer duration.

    Parameters
    ----------
    axis : Samples
    duration : float
    samples : int, optional
        Equal intervals from its end on; unless given, as long as its last one, or samples go on
        to thin out as they did.

    Returns
    -------
    Samples
        A `TimeAxis` or a `LogarithmicTimeAxis`, where that has the same times.

    Raises
    ------
    InputError
        If the duration is not longer, no whole number of intervals fits, or they would be finer.
    """
    check_duration(duration)
    if duration <= axis.duration * (1 + DIVIDES):
        raise InputError(
            f"a duration of {duration:g} does not extend one of {axis.duration:g}: expected more",
            key="duration",
        )
    first, pieces = (axis.first, axis.pieces) if hasattr(axis, "pieces") else (axis, ())
    ratio = duration / axis.interval
    whole = round(ratio)
    if abs(ratio - whole) > DIVIDES * ratio:
        raise InputError(
            f"a duration of {duration:g} does not fit the sample interval: "
            f"{_nearest_ends(axis, ratio)}",
            key="duration",
        )
    if samples is None and _thins_out(axis):
        return _plain_if_same(ExtendedTimeAxis(first, (*pieces, (LOG, whole))), duration)
    more, last = whole - axis.intervals, int(axis.marks[-1] - axis.marks[-2])
    if samples is None and more % last:
        raise InputError(
            f"a duration of {duration:g} does not fit the last sample interval "
            f"{last * axis.interval:g}; give samples, or a duration that it divides",
            key="duration",
        )
    count = more // last if samples is None else samples
    if count < 1 or more % count or (last > 1 and more // count < last):
        raise InputError(
            f"{count} samples from {axis.duration:g} to {duration:g} do not fit: expected a number "
            f"that divides {more}, the sample intervals of {axis.interval:g} in between",
            key="samples",
        )
    return _plain_if_same(ExtendedTimeAxis(first, (*pieces, (more // count, count))), duration)


def _thins_out(axis):
    """Whether the last samples of an axis thin out with time."""
    if isinstance(axis, ExtendedTimeAxis):
        return axis.pieces[-1][0] == LOG
    return isinstance(axis, LogarithmicTimeAxis)


def _plain_if_same(made, duration):
    """An axis that a study can ask for, where it has the same times and takes the same steps."""
    if isinstance(made.first, TimeAxis):
        plain = TimeAxis(float(duration), made.samples)
        return plain if np.array_equal(plain.times, made.times) else made
    plain = dataclasses.replace(made.first, duration=float(duration))
    same = plain.interval == made.interval and np.array_equal(plain.times, made.times)
    return plain if same else made


def _nearest_ends(axis, ratio):
    ends = (parts(axis.duration, n, axis.intervals) for n in (math.floor(ratio), math.ceil(ratio)))
    return f"the nearest that do are {' and '.join(f'{end:.10g}' for end in ends)}"
