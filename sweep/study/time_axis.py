"""The time axis of an experiment, and the step sizes that fit it."""

import dataclasses
import fractions
import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from integrators.errors import DIVIDES, InputError
from sweep.study.run_id import StepSize
from sweep.study.study_limits import MOST_SAMPLES

MOST_STEPS = 2**53  # with more, the times k*h of neighbouring steps are equal in doubles
SHORTEST, LONGEST = 1e-100, 1e100  # durations whose squared steps have all digits
FEW = 10**9  # largest numerator and denominator of a duration's fraction
LOG = "log"
Settings = int | dict[str, Any]  # how a study or a store describes samples


@dataclasses.dataclass(frozen=True)
class TimeAxis:
    """Sample times that are all multiples of an interval, which every step size divides.

    They are given by marks: the number of intervals until each sample, beginning with 0.

    Parameters
    ----------
    interval : float
    pieces : tuple of (int, int) or (str, int)
        Parts of the axis in order, each with the number of intervals between samples, and the
        number of samples; or ``"log"``, and the mark until which samples thin out.
    begun : float
        End of the first piece, as given by the study. All times, including those of later pieces,
        are computed from it with one rounding.
    thinning : PerDecade or None
        How samples thin out, if they do.
    """

    interval: float
    pieces: tuple[tuple[int | str, int], ...]
    begun: float
    thinning: "PerDecade | None" = None

    @classmethod
    def uniform(cls, duration: float, samples: int) -> "TimeAxis":
        """An axis with equal intervals from t = 0 to the duration, both included.

        Parameters
        ----------
        duration : float
            In the system's unit of time, or in multiples of the study's ``time_unit``.
        samples : int
            Number of intervals.

        Raises
        ------
        InputError
            If the duration is out of bounds, or there are too many intervals.
        """
        checked_duration(duration)
        _check_sample_count(samples)
        return cls(float(_times_of_marks(duration, 1, samples)), ((1, samples),), duration)

    @classmethod
    def of_settings(cls, duration: float, settings: Settings) -> "TimeAxis":
        """The axis for a duration and `settings`, which a store keeps."""
        if not isinstance(settings, dict):
            return cls.uniform(duration, settings)
        if "pieces" not in settings:
            return PerDecade(**settings).axis(duration, settings["grid"])
        first = cls.of_settings(settings["first"]["duration"], settings["first"]["samples"])
        return dataclasses.replace(first, pieces=(*first.pieces, *map(tuple, settings["pieces"])))

    @property
    def settings(self) -> Settings:
        """Settings that distinguish the axis from others of the same duration."""
        first = self.pieces[0][1] if self.thinning is None else self.thinning._asdict()
        if len(self.pieces) == 1:
            return first
        begun = {"duration": self.begun, "samples": first}
        return {"first": begun, "pieces": [list(piece) for piece in self.pieces[1:]]}

    @property
    def samples_in_words(self) -> str:
        """Description of the samples for messages: as in a study, with what else they depend on."""
        if self.thinning is None or len(self.pieces) > 1:
            return str(self.settings)
        first = "" if self.thinning.first is None else f", first = {self.thinning.first:g}"
        table = f"{{ per_decade = {self.thinning.per_decade}{first} }}"
        return f"{table} of a largest step size {self.thinning.grid:.10g}"

    def times_unit(self, unit: float) -> "TimeAxis":
        """The axis in the system's own unit of time, if this one is in multiples of `unit`."""
        if self.thinning is None:
            return TimeAxis.uniform(self.begun * unit, self.pieces[0][1])
        per_decade, first, grid = self.thinning
        thinning = PerDecade(per_decade, (first or grid) * unit)
        return thinning.axis(self.begun * unit, grid * unit)

    def _spans(self) -> Iterator[range | NDArray[np.int64]]:
        """The marks of each piece."""
        last = 0
        for stride, count in self.pieces:
            if isinstance(stride, int):
                yield range(last + stride, last + stride * count + 1, stride)
                last += stride * count
            elif self.thinning is not None:
                per_decade, first, grid = self.thinning
                begin = (first or grid) / self.interval
                yield _thinning_marks(begin, per_decade, last, count)
                last = count

    @property
    def marks(self) -> NDArray[np.int64]:
        """Number of intervals until each sample, beginning with 0."""
        parts = (
            np.arange(span.start, span.stop, span.step) if isinstance(span, range) else span
            for span in self._spans()
        )
        return np.concatenate([[0], *parts])

    @property
    def intervals(self) -> int:
        """Number of intervals until the last sample."""
        return [int(span[-1]) for span in self._spans()][-1]

    @property
    def samples(self) -> int:
        """Number of samples after the one at t = 0."""
        return sum(map(len, self._spans()))

    @property
    def times(self) -> NDArray[np.float64]:
        """Times of the samples, shape ``(samples + 1,)``."""
        return self._times_at(self.marks)

    def _times_at(self, marks: ArrayLike) -> NDArray[np.float64]:
        return _times_of_marks(self.begun, marks, self.pieces[0][1])

    @property
    def duration(self) -> float:
        """Time of the last sample."""
        return self.begun if len(self.pieces) == 1 else float(self._times_at(self.intervals))

    @property
    def interval_in_words(self) -> str:
        """Description of the interval for messages."""
        shown = f"{self.interval:.10g}"
        if self.thinning is not None:
            return f"{shown}, the largest step size, of which all sample times are multiples"
        samples = self.pieces[0][1]
        return f"the sample interval {shown} (duration {self.begun} / samples {samples})"

    def steps(self, step_size: StepSize) -> int:
        """Number of steps in an interval.

        Raises
        ------
        InputError
            If `step_size` is not positive, larger than the interval, too small, or does not
            divide the interval. The message has the nearest step sizes that do.
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
        """The step size that divides the interval and is nearest to a generated one.

        A step size that divides the interval already keeps its exact value.

        Raises
        ------
        InputError
            If `step_size` is not positive, larger than the interval, or too small.
        """
        if self.thinning is not None:
            step_size = min(step_size, self.interval)
        ratio = self._ratio(step_size)
        steps = round(ratio)
        return step_size if abs(ratio - steps) <= DIVIDES * steps else self.interval / steps

    def _ratio(self, step_size: StepSize) -> float:
        if not step_size > 0:
            raise InputError(f"expected a positive step size, got {step_size}")
        ratio = self.interval / step_size
        if ratio < 1 - DIVIDES:
            most = math.floor(self.begun / step_size * (1 + DIVIDES))
            fits = f"; it needs samples = {most} or fewer" if self.thinning is None and most else ""
            raise InputError(
                f"the step size {step_size} is larger than {self.interval_in_words}{fits}"
            )
        if not ratio * self.intervals <= MOST_STEPS:
            raise InputError(f"the step size {step_size} needs more than 2**53 steps")
        return ratio

    # --- extension ------------------------------------------------------------------------------

    def extended(self, duration: float, samples: int | None = None) -> "TimeAxis":
        """This axis continued to a longer duration.

        The times of this axis are kept to the last bit. If an axis that a study can ask for has the
        same times, the result is that axis.

        Parameters
        ----------
        duration : float
        samples : int, optional
            Number of equal intervals after the present end. By default they are as long as the last
            one, or samples continue to thin out.

        Raises
        ------
        InputError
            If the duration is not longer, no whole number of intervals fits, or they would be finer
            than the interval of this axis.
        """
        if duration <= self.duration * (1 + DIVIDES):
            raise InputError(
                f"a duration of {duration:g} does not extend one of {self.duration:g}: expected "
                "more",
                key="duration",
            )
        ratio = duration / self.interval
        whole = round(ratio)
        if abs(ratio - whole) > DIVIDES * ratio:
            ends = self._times_at([math.floor(ratio), math.ceil(ratio)])
            raise InputError(
                f"a duration of {duration:g} does not fit the sample interval: the nearest that do "
                f"are {' and '.join(f'{end:.10g}' for end in ends)}",
                key="duration",
            )
        if samples is None and self.pieces[-1][0] == LOG:
            piece: tuple[int | str, int] = LOG, whole
        else:
            piece = self._equal_intervals_until(whole, duration, samples)
        made = dataclasses.replace(self, pieces=(*self.pieces, piece))
        if self.thinning is None:
            plain = TimeAxis.uniform(float(duration), made.samples)
        else:
            plain = self.thinning.axis(float(duration), self.thinning.grid)
        same = plain.interval == made.interval and np.array_equal(plain.times, made.times)
        return plain if same else made

    def _equal_intervals_until(
        self, whole: int, duration: float, samples: int | None
    ) -> tuple[int, int]:
        """The piece with equal intervals from the last mark to the mark `whole`."""
        more, last = whole - self.intervals, int(self.marks[-1] - self.marks[-2])
        if samples is None and more % last:
            raise InputError(
                f"a duration of {duration:g} does not fit the last sample interval "
                f"{last * self.interval:g}; give samples, or a duration that it divides",
                key="duration",
            )
        count = more // last if samples is None else samples
        _check_sample_count(self.samples + count)
        if count < 1 or more % count or more // count < last:
            raise InputError(
                f"{count} samples from {self.duration:g} to {duration:g} do not fit: expected a "
                f"number that divides {more}, the sample intervals of {self.interval:g} in between",
                key="samples",
            )
        return more // count, count


class PerDecade(NamedTuple):
    """Samples that thin out with time, equally many in every decade.

    Parameters
    ----------
    per_decade : int
    first : float or None
        Time of the first sample after t = 0; None for `grid`.
    grid : float
        The largest step size, of which all times are multiples; NaN if it is not known yet.
    """

    per_decade: int
    first: float | None
    grid: float = math.nan

    def axis(self, duration: float, grid: float, generated: bool = False) -> TimeAxis:
        """The axis of the multiples of `grid` nearest to ``first * 10**(j / per_decade)``.

        It has no duplicates, and ends with the duration. The sample before the end is at least half
        a spacing away from it.

        Parameters
        ----------
        duration : float
            As in `TimeAxis.uniform`.
        grid : float
            The largest step size, which divides the duration.
        generated : bool
            Whether to replace a `grid` that does not divide the duration by the nearest that does.

        Raises
        ------
        InputError
            If a value is out of bounds, or `grid` does not divide the duration.
        """
        checked_duration(duration)
        if not grid > 0:
            raise InputError(f"expected a positive step size, got {grid}", key="step_size")
        ratio = duration / grid
        if not ratio <= MOST_STEPS:
            raise InputError(f"the step size {grid} needs more than 2**53 steps")
        count = max(1, round(ratio))
        if abs(ratio - count) > DIVIDES * ratio:
            if not generated:
                raise InputError(
                    f"the largest step size {grid}, of which all sample times are multiples, does "
                    f"not divide the duration {duration}; "
                    f"{_describe_nearest_divisors(duration, ratio)}",
                    key="step_size",
                )
            grid = duration / count
        first = grid if self.first is None else self.first
        if not (1 - DIVIDES) * grid <= first <= (1 + DIVIDES) * duration:
            raise InputError(
                f"expected a time from the largest step size {grid} to the duration "
                f"{duration}, got {first}",
                key="first",
            )
        known = PerDecade(self.per_decade, first, grid)
        return TimeAxis(duration / count, ((LOG, count),), duration, known)


@functools.lru_cache(maxsize=64)
def _thinning_marks(first: float, per_decade: int, start: int, last: int) -> NDArray[np.int64]:
    """Marks of thinning samples after `start`, up to and including `last`.

    `first` is the mark of the first sample. Apart from `last`, no mark is less than half a spacing
    from the ends. Powers are rounded to six digits, since they differ between machines.
    """
    marks: list[int] = []
    half = 10.0 ** (0.5 / per_decade)
    for number in itertools.count():
        decade, part = divmod(number, per_decade)
        wanted = float(f"{first * 10**decade * 10.0 ** (part / per_decade):.6g}")
        if wanted * half >= last:
            break
        if wanted > start * half:
            marks.append(round(wanted))
    return np.array([*dict.fromkeys([*marks, last])], dtype=np.int64)


def _times_of_marks(duration: float, marks: ArrayLike, last: int) -> NDArray[np.float64]:
    """The times ``marks * duration / last``, rounded once if the duration has few digits.

    Then an axis of three times the duration with three times the samples has the same times.
    """
    above, below = fractions.Fraction(repr(float(duration))).as_integer_ratio()
    if max(above, below) > FEW:
        return duration * np.asarray(marks) / last
    below *= int(last)
    if max(above * int(np.max(marks)), below) < MOST_STEPS:
        return (above * np.asarray(marks)) / below
    exact = [above * mark / below for mark in np.ravel(marks).tolist()]
    return np.reshape(exact, np.shape(marks))


def checked_duration(duration: float) -> float:
    """A duration; `InputError` unless it is within `SHORTEST` and `LONGEST`."""
    if not SHORTEST <= duration <= LONGEST:
        raise InputError(
            f"expected a time from {SHORTEST:g} to {LONGEST:g}, got {duration:g}", key="duration"
        )
    return duration


def _describe_nearest_divisors(whole: float, ratio: float) -> str:
    """Describe the two nearest divisors of `whole`, on either side of ``whole / ratio``."""
    fits = " and ".join(
        f"{whole / n:.10g} ({n} {'step' if n == 1 else 'steps'})"
        for n in (math.floor(ratio), math.ceil(ratio))
        if n
    )
    return f"the nearest that do are {fits}"


def spaced_values(start: float, stop: float, count: int, spacing: str) -> tuple[float, ...]:
    """Numbers from `start` to `stop`, both included exactly.

    Those between are rounded to six significant digits, since logarithms differ between machines in
    the last bit, and a run must be the same everywhere. They are integers if all of them can be.

    Parameters
    ----------
    start, stop : int or float
    count : int
        At least 2.
    spacing : {"linear", "log"}

    Returns
    -------
    tuple of int or tuple of float

    Raises
    ------
    InputError
        If an end is not positive and the spacing is logarithmic.
    """
    for key, end in (("start", start), ("stop", stop)):
        if spacing == "log" and end <= 0:
            raise InputError(f"a range with spacing 'log' needs positive ends, got {end}", key=key)
    parts = (k / (count - 1) for k in range(1, count - 1))
    between = (
        start ** (1 - part) * stop**part if spacing == "log" else start + (stop - start) * part
        for part in parts
    )
    values = [float(start), *(float(f"{value:.6g}") for value in between), float(stop)]
    whole = isinstance(start, int) and isinstance(stop, int) and all(v.is_integer() for v in values)
    return tuple(map(int, values)) if whole else tuple(values)


def _check_sample_count(samples: int) -> None:
    if samples > MOST_SAMPLES:
        shown = f"{samples:,}" if samples < 1e15 else f"{samples:.3g}"
        raise InputError(
            f"comes to {shown} samples of each run; at most {MOST_SAMPLES:,} are possible: "
            "statistics cover every step between fewer samples",
            key="samples",
        )
