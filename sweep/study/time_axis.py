"""The time axis of an experiment, and the step sizes that fit it."""

import dataclasses
import fractions
import functools
import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from integrators.errors import DIVIDES, InputError
from sweep.study.limits import MOST_PER_DECADE, MOST_SAMPLES, MOST_VALUES
from sweep.study.run_id import StepSize

MOST_STEPS = 2**53  # beyond which the time k*h of a step is no longer told from the next
SHORTEST, LONGEST = 1e-100, 1e100  # durations: squares of the steps in them have all digits
FEW = 10**9  # what the numbers of a duration's fraction may be


class Samples:
    """Sample times, all of them multiples of an `interval` that every step size divides.

    A subclass has `duration`, `samples`, how many come after the one at t = 0, `interval`, and
    `marks`, an ndarray of int64 from 0 on: how many intervals there are until each sample.
    """

    if TYPE_CHECKING:

        @property
        def duration(self) -> float:
            """To the last sample."""

        @property
        def samples(self) -> int:
            """How many come after the one at t = 0."""

        @property
        def interval(self) -> float:
            """Time that every step size divides."""

        @property
        def marks(self) -> NDArray[np.int64]:
            """How many intervals there are until each sample."""

        @property
        def interval_in_words(self) -> str:
            """The interval, for messages."""

    @property
    def intervals(self) -> int:
        """Number of intervals in the duration."""
        return int(self.marks[-1])

    @property
    def times(self) -> NDArray[np.float64]:
        """Times of the samples, shape ``(samples + 1,)``."""
        return times_of_marks(self.duration, self.marks, self.marks[-1])

    def steps(self, step_size: StepSize) -> int:
        """Number of steps in an interval.

        Raises
        ------
        InputError
            If `step_size` is not positive, larger than the interval, too small, or does not
            divide the interval; with the nearest that do.
        """
        ratio = self._ratio(step_size)
        steps = round(ratio)
        if abs(ratio - steps) > DIVIDES * steps:
            raise InputError(
                f"the step size {step_size} does not divide {self.interval_in_words}; "
                f"{_describe_nearest_divisors(self.interval, ratio)}"
            )
        return steps

    def snapped(self, step_size: StepSize) -> StepSize:
        """The step size nearest to a generated one that divides the interval.

        One that divides it already keeps its exact value.

        Raises
        ------
        InputError
            If `step_size` is not positive, larger than the interval, or too small.
        """
        ratio = self._ratio(step_size)
        steps = round(ratio)
        return step_size if abs(ratio - steps) <= DIVIDES * steps else self.interval / steps

    def _ratio(self, step_size: StepSize) -> float:
        if not step_size > 0:
            raise InputError(f"expected a positive step size, got {step_size}")
        ratio = self.interval / step_size
        if ratio < 1 - DIVIDES:
            raise InputError(f"the step size {step_size} is larger than {self.interval_in_words}")
        if not ratio * self.intervals <= MOST_STEPS:
            raise InputError(f"the step size {step_size} needs more than 2**53 steps")
        return ratio


@dataclasses.dataclass(frozen=True)
class TimeAxis(Samples):
    """Samples at equal intervals, from t = 0 to the duration, both included.

    Parameters
    ----------
    duration : float
        In the system's unit of time, or in multiples of the study's ``time_unit``.
    samples : int
        The number of intervals.

    Raises
    ------
    InputError
        If the duration is not positive or there is no interval.
    """

    duration: float
    samples: int

    def __post_init__(self) -> None:
        _check_usable_duration(self.duration)
        if self.samples < 1:
            raise InputError(f"expected at least 1 interval, got {self.samples}", key="samples")
        _check_sample_count(self.samples)

    @property
    def interval(self) -> float:
        """Time between two samples."""
        return float(times_of_marks(self.duration, 1, self.samples))

    @property
    def intervals(self) -> int:
        """Number of intervals in the duration."""
        return self.samples

    @property
    def marks(self) -> NDArray[np.int64]:
        """Every interval ends with a sample."""
        return np.arange(self.samples + 1)

    @property
    def settings(self) -> int:
        """Settings that distinguish the axis from others of the same duration."""
        return self.samples

    def times_unit(self, unit: float) -> "TimeAxis":
        """The axis in the system's own unit of time, of one given in multiples of `unit`."""
        return dataclasses.replace(self, duration=self.duration * unit)

    @property
    def interval_in_words(self) -> str:
        """The interval, for messages."""
        return (
            f"the sample interval {self.interval:.10g} "
            f"(duration {self.duration} / samples {self.samples})"
        )


@dataclasses.dataclass(frozen=True)
class LogarithmicTimeAxis(Samples):
    """Samples that thin out with time, from t = 0 and `first` on, so many in every decade.

    They are the multiples of `grid` nearest to ``first * 10**(j / per_decade)``, each once, and
    the duration; the one before that is half a spacing away from it, at least.

    Parameters
    ----------
    duration : float
        As in `TimeAxis`; a multiple of `grid`.
    per_decade : int
    first : float
        Time of the first sample after t = 0, from `grid` to the duration.
    grid : float
        The largest step size.

    Raises
    ------
    InputError
        If a value is out of bounds, or `grid` does not divide the duration.
    """

    duration: float
    per_decade: int
    first: float
    grid: float

    def __post_init__(self) -> None:
        _check_usable_duration(self.duration)
        if not 1 <= self.per_decade <= MOST_PER_DECADE:
            raise InputError(
                f"expected 1 to {MOST_PER_DECADE:,} samples a decade, got {self.per_decade:,}",
                key="per_decade",
            )
        if not self.grid > 0:
            raise InputError(f"expected a positive step size, got {self.grid}", key="step_size")
        ratio = self.duration / self.grid
        if not ratio <= MOST_STEPS:
            raise InputError(f"the step size {self.grid} needs more than 2**53 steps")
        if abs(ratio - round(ratio)) > DIVIDES * ratio:
            raise InputError(
                f"the largest step size {self.grid}, of which all sample times are multiples, does "
                f"not divide the duration {self.duration}; "
                f"{_describe_nearest_divisors(self.duration, ratio)}",
                key="step_size",
            )
        low, high = (1 - DIVIDES) * self.grid, (1 + DIVIDES) * self.duration
        if not low <= self.first <= high:
            raise InputError(
                f"expected a time from the largest step size {self.grid} to the duration "
                f"{self.duration}, got {self.first}",
                key="first",
            )

    @property
    def interval(self) -> float:
        """The largest step size, up to rounding."""
        return self.duration / round(self.duration / self.grid)

    @property
    def samples(self) -> int:
        """Number of samples after the one at t = 0."""
        return len(self.marks) - 1

    @functools.cached_property
    def marks(self) -> NDArray[np.int64]:
        """Multiples of the interval."""
        return np.array([0, *self.thinning(0, round(self.duration / self.grid))])

    def thinning(self, start: int, last: int) -> list[int]:
        """Marks after `start`, up to `last`; six digits count, since powers differ by machine.

        None but the last is less than half a spacing from the ends.
        """
        first, numbers = self.first / self.interval, itertools.count()
        marks: list[int] = []
        half = 10.0 ** (0.5 / self.per_decade)
        while True:
            decade, part = divmod(next(numbers), self.per_decade)
            wanted = float(f"{first * 10**decade * 10.0 ** (part / self.per_decade):.6g}")
            if wanted * half >= last:
                return [*dict.fromkeys([*marks, last])]
            if wanted > start * half:
                marks.append(round(wanted))

    def snapped(self, step_size: StepSize) -> StepSize:
        """As for any axis; the largest step size is the one that the interval was made from."""
        return super().snapped(min(step_size, self.interval))

    @property
    def settings(self) -> dict[str, float]:
        """Settings that distinguish the axis from others of the same duration."""
        return {"per_decade": self.per_decade, "first": self.first, "grid": self.grid}

    def times_unit(self, unit: float) -> "LogarithmicTimeAxis":
        """The axis in the system's own unit of time, of one given in multiples of `unit`."""
        times = {name: getattr(self, name) * unit for name in ("duration", "first", "grid")}
        return dataclasses.replace(self, **times)

    @property
    def interval_in_words(self) -> str:
        """The interval, for messages."""
        return (
            f"{self.interval:.10g}, the largest step size, of which all sample times are multiples"
        )


@dataclasses.dataclass(frozen=True)
class PerDecade:
    """What a study says of samples that thin out; `first` None: the largest step size."""

    per_decade: int
    first: float | None

    def axis(self, duration: float, largest: float, generated: bool) -> LogarithmicTimeAxis:
        """The `LogarithmicTimeAxis` of a largest step size, snapped if it was `generated`."""
        ratio = duration / largest if largest > 0 else 1.0
        if not ratio <= MOST_STEPS:
            raise InputError(f"the step size {largest} needs more than 2**53 steps")
        ratio = max(1, round(ratio))
        exact = abs(duration / ratio - largest) <= DIVIDES * largest
        grid = duration / ratio if generated and not exact else largest
        first = grid if self.first is None else self.first
        return LogarithmicTimeAxis(duration, self.per_decade, first, grid)


def times_of_marks(duration: float, marks: ArrayLike, last: int) -> NDArray[np.float64]:
    """`marks` of `last` parts of a duration, rounded once where the duration has few digits.

    Then an axis of thrice the duration and thrice the samples has the same times.
    """
    above, below = fractions.Fraction(repr(float(duration))).as_integer_ratio()
    if max(above, below) > FEW:
        return duration * np.asarray(marks) / last
    below *= int(last)
    if max(above * int(np.max(marks)), below) < MOST_STEPS:
        return (above * np.asarray(marks)) / below
    exact = [above * mark / below for mark in np.ravel(marks).tolist()]
    return np.reshape(exact, np.shape(marks))


def check_duration(duration: float) -> None:
    """Raise InputError unless it is a positive number."""
    if not 0 < duration < math.inf:
        raise InputError(f"expected a positive number, got {duration}", key="duration")


def _check_usable_duration(duration: float) -> None:
    """Raise InputError unless squares of a positive time and of steps in it have all digits."""
    check_duration(duration)
    if not SHORTEST <= duration <= LONGEST:
        raise InputError(
            f"expected a time from {SHORTEST:g} to {LONGEST:g}, got {duration:g}", key="duration"
        )


def _describe_nearest_divisors(whole: float, ratio: float) -> str:
    """The two that lie on either side of ``whole / ratio``, in words."""
    fits = " and ".join(
        f"{whole / n:.10g} ({n} {'step' if n == 1 else 'steps'})"
        for n in (math.floor(ratio), math.ceil(ratio))
        if n
    )
    return f"the nearest that do are {fits}"


def check_range_count(count: int) -> int:
    """A number of values that a range can have, or `InputError`."""
    if not 2 <= count <= MOST_VALUES:
        raise InputError(f"expected 2 to {MOST_VALUES:,} values, got {count:,}", key="count")
    return count


def spaced_values(start: float, stop: float, count: int, spacing: str) -> tuple[float, ...]:
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
    check_range_count(count)
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
    pieces: tuple[tuple[int | str, int], ...]

    @property
    def duration(self) -> float:
        """To the last sample."""
        return float(self.times[-1])

    @property
    def samples(self) -> int:
        """The number of intervals."""
        return len(self.marks) - 1

    @property
    def interval(self) -> float:
        """Of the axis that it begins with."""
        return self.first.interval

    @functools.cached_property
    def marks(self) -> NDArray[np.int64]:
        """In intervals of the axis that it begins with."""
        marks: list[NDArray[np.int64]] = [self.first.marks]
        for stride, count in self.pieces:
            last = int(marks[-1][-1])
            if not isinstance(stride, str):
                marks.append(last + stride * np.arange(1, count + 1))
            elif isinstance(self.first, LogarithmicTimeAxis):  # as it is where it is LOG
                marks.append(np.array(self.first.thinning(last, count)))
        return np.concatenate(marks)

    @functools.cached_property
    def times(self) -> NDArray[np.float64]:
        """Times of the samples, shape ``(samples + 1,)``."""
        return times_of_marks(self.first.duration, self.marks, self.first.intervals)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that distinguish the axis from others of the same duration."""
        first = {"duration": self.first.duration, "samples": self.first.settings}
        return {"first": first, "pieces": [list(piece) for piece in self.pieces]}

    @property
    def interval_in_words(self) -> str:
        """The interval, for messages."""
        return self.first.interval_in_words


AnyTimeAxis = TimeAxis | LogarithmicTimeAxis | ExtendedTimeAxis


def _check_sample_count(samples: int) -> None:
    if samples > MOST_SAMPLES:
        shown = f"{samples:,}" if samples < 1e15 else f"{samples:.3g}"
        raise InputError(
            f"comes to {shown} samples of each run; at most {MOST_SAMPLES:,} are possible: "
            "statistics cover every step between fewer samples",
            key="samples",
        )


def extend_time_axis(axis: AnyTimeAxis, duration: float, samples: int | None = None) -> AnyTimeAxis:
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
    first: TimeAxis | LogarithmicTimeAxis
    pieces: tuple[tuple[int | str, int], ...]
    if isinstance(axis, ExtendedTimeAxis):
        first, pieces = axis.first, axis.pieces
    else:
        first, pieces = axis, ()
    ratio = duration / axis.interval
    whole = round(ratio)
    if abs(ratio - whole) > DIVIDES * ratio:
        raise InputError(
            f"a duration of {duration:g} does not fit the sample interval: "
            f"{_describe_nearest_ends(axis, ratio)}",
            key="duration",
        )
    if samples is None and _axis_thins_out(axis):
        return _plain_axis_if_same(ExtendedTimeAxis(first, (*pieces, (LOG, whole))), duration)
    more, last = whole - axis.intervals, int(axis.marks[-1] - axis.marks[-2])
    if samples is None and more % last:
        raise InputError(
            f"a duration of {duration:g} does not fit the last sample interval "
            f"{last * axis.interval:g}; give samples, or a duration that it divides",
            key="duration",
        )
    count = more // last if samples is None else samples
    _check_sample_count(len(axis.times) - 1 + count)
    if count < 1 or more % count or (last > 1 and more // count < last):
        raise InputError(
            f"{count} samples from {axis.duration:g} to {duration:g} do not fit: expected a number "
            f"that divides {more}, the sample intervals of {axis.interval:g} in between",
            key="samples",
        )
    return _plain_axis_if_same(ExtendedTimeAxis(first, (*pieces, (more // count, count))), duration)


def _axis_thins_out(axis: AnyTimeAxis) -> bool:
    """Whether the last samples of an axis thin out with time."""
    if isinstance(axis, ExtendedTimeAxis):
        return axis.pieces[-1][0] == LOG
    return isinstance(axis, LogarithmicTimeAxis)


def _plain_axis_if_same(made: ExtendedTimeAxis, duration: float) -> AnyTimeAxis:
    """An axis that a study can ask for, where it has the same times and takes the same steps."""
    if isinstance(made.first, TimeAxis):
        plain = TimeAxis(float(duration), made.samples)
        return plain if np.array_equal(plain.times, made.times) else made
    longer = dataclasses.replace(made.first, duration=float(duration))
    same = longer.interval == made.interval and np.array_equal(longer.times, made.times)
    return longer if same else made


def _describe_nearest_ends(axis: AnyTimeAxis, ratio: float) -> str:
    ends = (
        times_of_marks(axis.duration, n, axis.intervals)
        for n in (math.floor(ratio), math.ceil(ratio))
    )
    return f"the nearest that do are {' and '.join(f'{end:.10g}' for end in ends)}"
