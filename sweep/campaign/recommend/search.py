"""Successive halving: short pilots of all candidates, the full duration for the last few."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from integrators.compiler.lanes import WIDTH
from sweep.campaign.recommend.trials import Candidate, OutOfBudget, Trial

if TYPE_CHECKING:
    from sweep.campaign.recommend.trials import Bench
    from sweep.study.run_table import States

PILOT_SAMPLES = 4  # of the first pilots
LONGER = 4  # times, the pilots of the next round
SHARE = 8  # pilots have at most this fraction of the duration: one in so many
AIM = 0.9  # fraction of a bound for which sizes are chosen
PILOT_TRIES, TRIES = 6, 6  # sizes of a candidate in a round
CLOSE, CLOSE_ENOUGH = 1.3, 1.06  # ratio of sizes within which another one is not tried
DOWN, UP = 16.0, 4.0  # that a size changes by at most, in cost
WORTH = 4.0, 2.0, 1.5  # times the least expected cost: who stays after a round, and at last
STAY = 12, 5, 3  # how many do at most
CHEAPER = 0.8  # times the least cost of those: what is expected to cost less stays as well
# Times the least expected cost, beyond which no more sizes of a candidate are tried: after the
# second trial, and after the first.
HOPELESS, FAR = 10.0, 40.0
BEYOND_FLOOR = 20.0  # times the least cost at which another candidate is at its error floor
FEW = 2  # initial conditions of the first trial of an adaptive candidate
AT_FLOOR = 0.25  # fraction of the declared power of the error, below which it is at its floor
NEAR_ROUND_OFF = 1e4  # times half a unit in the last place
FEWEST_KNOWN = 4  # candidates that were tried, for others to be judged by
TIMED_SECONDS, TIMINGS = 0.05, 7  # of an interleaved timing, and how many
MOST_REPEATS = 100  # of a short run in a timing


@dataclasses.dataclass(eq=False)
class Contender:
    """A candidate with its trials, and what they say of its error and cost.

    Attributes
    ----------
    trials : list of Trial
    samples : int
        Number of sample intervals of the whole duration.
    is_at_floor : bool
        Whether errors no longer fall with the size before they reach their bound; or would reach it
        at a cost far beyond that of others at their floor.
    verified : Trial or None
        Trial from initial conditions that were held back.
    """

    candidate: Candidate
    samples: int
    trials: list[Trial] = dataclasses.field(default_factory=list)
    is_at_floor: bool = False
    verified: Trial | None = None

    @property
    def longest(self) -> list[Trial]:
        """The trials of the longest duration so far, and among these from the most starts."""
        extents = [(trial.samples, len(trial.ratios)) for trial in self.trials]
        most = max(extents, default=None)
        return [trial for trial, own in zip(self.trials, extents, strict=True) if own == most]

    @property
    def least(self) -> Trial:
        """The trial of the longest duration whose error is least, of a contender with trials."""
        return min(self.longest, key=lambda trial: trial.rare)

    def goal(self, samples: int) -> float:
        """Ratio of error to bound that is allowed at a sample, given its growth until the end.

        At least that of round-off, below which no size leads.
        """
        own = [trial.growth for trial in self.longest if np.isfinite(trial.rare)]
        growth = statistics.median(own) if own and samples < self.samples else 0.0
        aim: float = AIM * (samples / self.samples) ** growth
        round_off = max((trial.round_off for trial in self.trials), default=0.0)
        return max(aim, round_off)

    @property
    def power(self) -> float:
        """Power of the size with which errors fall: measured where possible, else as declared."""
        declared = self.candidate.error_power
        known = sorted(
            (trial for trial in self.longest if 0 < trial.rare < np.inf), key=lambda t: t.size
        )
        if len(known) < 2:
            return declared
        one, other = min(
            zip(known, known[1:], strict=False),
            key=lambda pair: abs(math.log(pair[0].rare * pair[1].rare)),
        )
        if other.size < 1.02 * one.size:
            return declared
        found = math.log(other.rare / one.rare) / math.log(other.size / one.size)
        return min(max(found, declared / 2), 2 * declared)

    def next_size(self, goal: float) -> float:
        """The next size to try for an error of `goal`, not too far from earlier ones."""
        size, power = self.wanted_size(goal), self.candidate.cost_power
        least: float = min(trial.size for trial in self.longest) * DOWN ** (-1 / power)
        most: float = max(trial.size for trial in self.longest) * UP ** (1 / power)
        return min(max(size, least), most)

    def wanted_size(self, goal: float) -> float:
        """Size whose error is expected to be `goal`, between sizes known to be above and below."""
        known = [trial for trial in self.longest if 0 < trial.rare < np.inf]
        failed = [trial.size for trial in self.longest if trial.rare == np.inf]
        if not known:
            kept = [trial.size for trial in self.longest if trial.rare == 0]
            return max(kept) * 2 if kept else min(failed) / 2
        nearest = min(known, key=lambda trial: abs(math.log(trial.rare / goal)))
        size: float = nearest.size * (goal / nearest.rare) ** (1 / self.power)
        above = [t.size for t in self.longest if t.rare > goal and t.size > nearest.size]
        below = [t.size for t in known if t.rare <= goal]
        if above and size >= min(above):
            size = math.sqrt(nearest.size * min(above))
        if nearest.rare > goal and below and size <= max(below):
            size = math.sqrt(nearest.size * max(below))
        return size

    def check_floor(self) -> None:
        """Note whether the errors of the smallest sizes are at their floor.

        Two sizes show it where errors are about round-off, three elsewhere; one where the bound is
        below all round-off.
        """
        known = sorted(
            (trial for trial in self.longest if np.isfinite(trial.rare)), key=lambda t: t.size
        )
        if not known or known[0].rare <= self.goal(known[0].samples):
            return
        count = 3
        if known[0].rare < NEAR_ROUND_OFF * known[0].round_off:
            count = 1 if known[0].round_off > 1.0 else 2
        least = self.candidate.error_power * AT_FLOOR
        fall = [
            larger.rare > smaller.rare * (larger.size / smaller.size) ** least
            for smaller, larger in zip(known[:count], known[1:count], strict=False)
        ]
        self.is_at_floor = len(fall) == count - 1 and not any(fall)

    def note_limit(self, size: float) -> None:
        """Note that errors are at their floor if a tolerance is the smallest possible one."""
        (trial, *_) = [trial for trial in self.longest if trial.size == size]
        smallest = min(trial.size for trial in self.longest)
        if self.candidate.adaptive and size == smallest and trial.rare > self.goal(trial.samples):
            self.is_at_floor = True

    @property
    def expected_size(self) -> float:
        """Size that is expected to keep the bounds until the end, by the longest trials."""
        return self.wanted_size(self.goal(self.longest[0].samples))

    @property
    def expected_seconds(self) -> float:
        """Expected CPU seconds of a run of that size until the end; infinite without one."""
        known = [trial for trial in self.longest if np.isfinite(trial.rare)]
        if not known or self.is_at_floor:
            return math.inf
        size = min(self.expected_size, self.candidate.largest_size)
        nearest = min(known, key=lambda trial: abs(math.log(trial.size / size)))
        change: float = (nearest.size / size) ** self.candidate.cost_power
        return nearest.seconds * change * self.samples / nearest.samples

    @property
    def floor_seconds(self) -> float:
        """CPU seconds of a run until the end at the error floor; infinite if there is none."""
        if not self.is_at_floor:
            return math.inf
        return self.least.seconds * self.samples / self.least.samples

    @property
    def may_keep(self) -> bool:
        """Whether some size may keep the bounds until the end, by the trials so far."""
        return math.isfinite(self.expected_seconds) and self.goal(self.samples) <= 1.0

    @property
    def keeps_bounds(self) -> bool:
        """Whether one of the longest trials keeps the bounds."""
        return any(trial.rare <= 1.0 for trial in self.longest)

    @property
    def kept(self) -> Trial:
        """The cheapest of the longest trials that keep the bounds, where `keeps_bounds`."""
        kept = [trial for trial in self.longest if trial.rare <= 1.0]
        return max(kept, key=lambda trial: trial.size)


def pilot_lengths(samples: int) -> list[int]:
    """Number of samples of the pilots in each round."""
    found, length = [], PILOT_SAMPLES
    while length * SHARE <= samples:
        found.append(length)
        length *= LONGER
    return found or [samples]


def search(
    bench: Bench,
    candidates: Sequence[Candidate],
    pilot_starts: States,
    starts: States,
    say: Callable[[str], object],
) -> tuple[list[Contender], list[Contender]]:
    """Find the candidates that keep the bounds until the end at the least cost.

    Parameters
    ----------
    bench : Bench
    candidates : sequence of Candidate
    pilot_starts, starts : ndarray, shape (starts, rows, 3)
        Initial states of the pilots, and of the trials until the end.
    say : callable
        Called with a line on the progress.

    Returns
    -------
    contenders : list of Contender
        All candidates.
    finalists : list of Contender
        Those that were integrated until the end and keep the bounds.
    """
    total = bench.time_axis.samples
    likely = sorted(candidates, key=lambda own: (own.adaptive, -own.order))
    contenders = [Contender(candidate, total) for candidate in likely]
    stay, finalists = contenders, list[Contender]()
    try:
        for number, samples in enumerate(pilot_lengths(total)):
            until = bench.time_axis.times[samples]
            say(f"{len(stay)} integrators until t = {until:g}")
            tried: list[Contender] = []
            for contender in stay:
                if number == 0 and _cannot_win(contender, tried):
                    continue
                follow(bench, contender, samples, pilot_starts, PILOT_TRIES, CLOSE, tried)
                tried.append(contender)
            place = min(number, len(STAY) - 2)
            stay = _cheapest(stay, WORTH[place], STAY[place])
        if not any(own.may_keep for own in contenders):
            return contenders, finalists
        say(f"{len(stay)} integrators until t = {bench.time_axis.duration:g}")
        rest = sorted(contenders, key=lambda own: own.expected_seconds)
        for contender in [*stay, *(own for own in rest if own not in stay)]:
            if not _may_win(contender, finalists):
                continue
            others = [own for own in contenders if own is not contender]
            follow(bench, contender, total, starts, TRIES, CLOSE_ENOUGH, others)
            if contender.keeps_bounds:
                finalists.append(contender)
    except OutOfBudget:
        say("the budget ended")
    return contenders, finalists


def _cannot_win(contender: Contender, tried: Sequence[Contender]) -> bool:
    """Whether the order of a candidate is too low to win, so that its kernel need not be compiled.

    A step of it is assumed to cost what the cheapest step costs, and its error at the first size to
    be the median of the others.
    """
    candidate = contender.candidate
    known = [own for own in tried if own.trials and not own.candidate.adaptive]
    known = [own for own in known if np.isfinite(own.trials[0].rare)]
    if candidate.adaptive or candidate.keeps_invariants or len(known) < FEWEST_KNOWN:
        return False
    first = [own.trials[0] for own in known]
    goal = min(own.goal(first[0].samples) for own in known)
    error = statistics.median(trial.rare for trial in first)
    step_seconds = min(trial.seconds / trial.steps for trial in first)
    steps: float = first[0].steps * max(1.0, error / goal) ** (1.0 / candidate.order)
    seconds = step_seconds * steps * contender.samples / first[0].samples
    return seconds > HOPELESS * min(own.expected_seconds for own in known)


def _may_win(contender: Contender, finalists: Sequence[Contender]) -> bool:
    """Whether a contender may be as cheap as the cheapest of the finalists."""
    if not finalists:
        return math.isfinite(contender.expected_seconds)
    least = min(own.kept.seconds for own in finalists)
    if len(finalists) >= STAY[-1]:
        return len(finalists) < STAY[-2] and contender.expected_seconds < CHEAPER * least
    worth = WORTH[-1] if len(finalists) > 1 else WORTH[0]
    return contender.expected_seconds <= worth * least


def _cheapest(contenders: Sequence[Contender], worth: float, most: int) -> list[Contender]:
    """Contenders within `worth` times the least expected cost, the cheapest first."""
    order = sorted(contenders, key=lambda own: own.expected_seconds)
    least = order[0].expected_seconds
    return [own for own in order if own.expected_seconds <= worth * least][:most]


def follow(
    bench: Bench,
    contender: Contender,
    samples: int,
    starts: States,
    tries: int,
    close: float,
    others: Sequence[Contender] = (),
) -> None:
    """Try sizes of a contender up to a sample, until the error is close to its goal.

    Or until `others` are expected to cost far less.
    """
    candidate, interval = contender.candidate, bench.time_axis.interval
    size = contender.expected_size if contender.longest else candidate.first_size
    least = min((own.expected_seconds for own in others), default=math.inf)
    stuck = BEYOND_FLOOR * min((own.floor_seconds for own in others), default=math.inf)
    contender.is_at_floor, tried = False, set()
    for number in range(tries):
        size = candidate.snapped(size, interval)
        if size in tried:
            contender.note_limit(size)
            break
        tried.add(size)
        some = starts[:FEW] if candidate.adaptive and not contender.trials else starts
        if not bench.has_time_for(_expected_wall(contender, size, samples, len(some))):
            break
        trial = bench.try_size(candidate, size, samples, some)
        contender.trials.append(trial)
        contender.check_floor()
        if math.inf > contender.expected_seconds > (HOPELESS if number else FAR) * least:
            break
        if least == math.inf > contender.expected_seconds > stuck:
            contender.is_at_floor = True
        if contender.is_at_floor:
            break
        goal = contender.goal(samples)
        size = contender.next_size(goal)
        change = max(size / trial.size, trial.size / size) ** candidate.cost_power
        if change < close and trial.rare <= goal / AIM:
            break


def _expected_wall(contender: Contender, size: float, samples: int, starts: int) -> float:
    """Seconds that a trial is expected to take, from earlier ones."""
    known = [trial for trial in contender.longest if np.isfinite(trial.rare)]
    if not known:
        return 0.0
    nearest = min(known, key=lambda trial: abs(math.log(trial.size / size)))
    change: float = (nearest.size / size) ** contender.candidate.cost_power
    return nearest.seconds * change * samples / nearest.samples * starts


def time_interleaved(
    bench: Bench, contenders: Sequence[Contender], starts: States
) -> list[tuple[float, float]]:
    """Measure the CPU seconds of a run of each contender, by alternating repeats.

    Returns
    -------
    list of tuple of float
        Least and median of the repeats of each contender, for a run until the end.
    """
    lengths, repeats = [], []
    found: list[list[float]] = [[] for _ in contenders]
    for contender in contenders:
        kept = contender.kept
        together = 1 if contender.candidate.adaptive else min(len(starts), WIDTH)
        part = TIMED_SECONDS / (kept.seconds * together)
        lengths.append(max(1, round(min(1.0, part) * contender.samples)))
        repeats.append(min(max(1, round(part)), MOST_REPEATS))
    for _ in range(TIMINGS):
        for own, contender, samples, count in zip(found, contenders, lengths, repeats, strict=True):
            bench.check_time()
            size = contender.kept.size
            taken = [
                bench.time_run(contender.candidate, size, samples, starts) for _ in range(count)
            ]
            own.append(min(taken) * contender.samples / samples)
    return [(min(own), statistics.median(own)) for own in found]
