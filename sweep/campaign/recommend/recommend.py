"""Recommend an integrator: the cheapest that keeps errors below bounds until a time."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from integrators.compiler.lanes import WIDTH
from integrators.errors import InputError, check_known, check_number
from sweep.campaign.recommend.bounds import ENERGY, GLOBAL, MOMENTUM, make_bounds
from sweep.campaign.recommend.confidence import (
    CONFIDENCE,
    confidence_of_attempt,
    share_that_keeps,
)
from sweep.campaign.recommend.recommendation import Choice, Point, Recommendation, study_text
from sweep.campaign.recommend.search import (
    CLOSE_ENOUGH,
    HOPELESS,
    TRIES,
    follow,
    search,
    time_interleaved,
)
from sweep.campaign.recommend.starts import StartSampler
from sweep.campaign.recommend.trials import Bench, Candidate, OutOfBudget
from sweep.store.studies import resolve_study_and_store
from sweep.study.run_table import expand_experiment
from sweep.study.system_defaults import fitting_integrators
from sweep.study.time_axis import TimeAxis

if TYPE_CHECKING:
    from pathlib import Path

    from sweep.campaign.recommend.search import Contender
    from sweep.store.store import Store
    from sweep.study import Study
    from sweep.study.experiment import ResolvedExperiment
    from sweep.study.run_table import States

SEARCHED, HELD_BACK = 40, 40  # initial conditions
ATTEMPTS = 3  # at most, to find a size at which the held-back starts keep the bounds
STEPS_OF_SAMPLE = 16  # suitable steps in a sample interval, at least, of a long run
FEWEST_SAMPLES, MOST_SAMPLES = 8, 2048
DOUBT = 1.25  # factor by which expected costs, and errors at a neighbouring size, may be wrong
APART = 1.06  # least ratio of costs that differ significantly: own least to the best one's median
STEPS_UNDECLARED = 1000  # of a run, of a system that declares no step that suits it


def recommend(
    study: str | Path | Store | Study,
    *,
    energy_error: float | None = None,
    global_error: float | None = None,
    momentum_error: float | None = None,
    until: float | None = None,
    experiment: str | None = None,
    budget: float = 600.0,
    trust_plugins: bool = False,
    say: Callable[[str], object] = lambda line: None,
) -> Recommendation:
    """Find the integrator and step size that keep errors below bounds at the least cost.

    All integrators that fit the system are candidates, with a fixed step or a tolerance. Short
    pilots of all of them measure how errors fall with the step and grow with time, and what a step
    costs; the cheaper ones are integrated longer, and the last few until the end. The cheapest of
    these is verified from initial conditions that were held back.

    Parameters
    ----------
    study : str, Path, Store or Study
        A file, the name of a packaged study, a store or a study. Its system, parameters, initial
        conditions and statistics count; its integrators and step sizes do not.
    energy_error, global_error, momentum_error : float, optional
        Bounds in the system's units, at least one. Errors of energy and momenta are their largest
        changes; the global error is that of the state against a reference.
    until : float, optional
        In the study's unit of time; its duration unless given.
    experiment : str, optional
        Needed where the study has several.
    budget : float, optional
        Seconds that the search may take.
    trust_plugins : bool, optional
        As in `sweep.run`.
    say : callable, optional
        Called with lines on the progress.

    Returns
    -------
    Recommendation

    Raises
    ------
    InputError
        If there is no bound, the system has no such error, no integrator keeps the bounds (then
        the message has the least error, and its cost), the experiment scans parameters, or the
        budget ends before any integrator was tried.
    StudyError
        If the study has a problem.
    """
    budget = check_number("budget", budget, above=0.0)
    read, _ = resolve_study_and_store(study, trust_plugins=trust_plugins)
    chosen = _chosen_experiment(read, experiment)
    (system, *others) = chosen.make_systems()
    if others:
        scanned = ", ".join(axis.name for axis in chosen.scan)
        raise InputError(
            f"experiment {chosen.name!r} scans {scanned}, and the answer is for one system: give "
            "'parameters' a value instead",
            key="scan",
        )
    bounds = make_bounds(
        system, {ENERGY: energy_error, GLOBAL: global_error, MOMENTUM: momentum_error}
    )
    if until is None:
        duration = chosen.duration
    else:
        duration = check_number("until", until, above=0.0) * chosen.time_unit
    step = system.convergence.longest_step if system.convergence else duration / STEPS_UNDECLARED
    step = min(step, duration / FEWEST_SAMPLES)
    axis = TimeAxis(duration, _sample_count(duration, step))
    sampler = StartSampler(chosen, system)
    starts = np.concatenate([sampler.single, sampler.take(_count_searched(sampler))])
    bench = Bench(chosen, system, bounds, axis, budget, drawn=len(starts) > len(sampler.single))
    candidates = [
        Candidate(name, integrator, step)
        for name, integrator in fitting_integrators([system], chosen.library).items()
    ]
    contenders, finalists = search(bench, candidates, starts[:WIDTH], starts, say)
    result = _SearchResult(bench, contenders, finalists, searched=len(starts))
    with contextlib.suppress(OutOfBudget):
        _verify(result, sampler, starts, say)
    return _recommendation(read, chosen, result)


@dataclasses.dataclass(eq=False)
class _SearchResult:
    """Contenders and finalists of a search, and the verification of the best of them."""

    bench: Bench
    contenders: list[Contender]
    finalists: list[Contender]
    searched: int
    # The least and the median CPU seconds of each contender.
    costs: dict[Contender, tuple[float, float]] = dataclasses.field(default_factory=dict)
    held_back: int = 0
    above: int = 0
    attempt: int = 1


def _verify(
    result: _SearchResult, sampler: StartSampler, starts: States, say: Callable[[str], object]
) -> None:
    """Rank the finalists by cost, and verify the cheapest from starts that were held back.

    Where it exceeds a bound, its size is chosen again with these starts, and verified from new
    ones.

    Raises
    ------
    OutOfBudget
    """
    bench, total = result.bench, result.bench.time_axis.samples
    while result.finalists:
        costs = time_interleaved(bench, result.finalists, starts)
        result.costs = dict(zip(result.finalists, costs, strict=True))
        result.finalists.sort(key=lambda own: result.costs[own])
        best = result.finalists[0]
        held = sampler.take(HELD_BACK)
        if not len(held):
            return
        say(f"{best.candidate.name} from {len(held)} initial conditions that were held back")
        trial = bench.try_size(best.candidate, best.kept.size, total, held)
        best.verified = trial
        result.held_back = len(held)
        result.above = int(np.sum(~(trial.ratios[:, -1] <= 1.0)))
        if not result.above or result.attempt == ATTEMPTS or not sampler.is_endless:
            return
        result.attempt += 1
        starts = np.concatenate([starts, held])
        result.searched, result.held_back = len(starts), 0
        follow(bench, best, total, starts, TRIES, CLOSE_ENOUGH)
        if not best.keeps_bounds:
            result.finalists.remove(best)


def _no_integrator_does(bench: Bench, contenders: Sequence[Contender]) -> InputError:
    """The `InputError` if none keeps the bounds: with the least error, and its cost."""
    tried = [own for own in contenders if own.trials]
    if not tried:
        return InputError(
            "the budget ended before any integrator was tried; expected more: kernels alone take "
            "some seconds to compile",
            key="budget",
        )
    longest = max(own.least.samples for own in tried)
    best = min((own for own in tried if own.least.samples == longest), key=lambda c: c.least.rare)
    bounds = " and ".join(f"{b.in_words} below {b.most:g} {b.units}" for b in bench.bounds)
    none = "no integrator" if bench.in_time else f"none of {len(tried)} integrators in the budget"
    problem = f"{none} keeps the {bounds} until t = {bench.time_axis.duration:g}"
    trial = best.least
    if not math.isfinite(trial.rare):
        return InputError(f"{problem}: all runs failed")
    seconds = trial.seconds * best.samples / trial.samples
    values = " and ".join(f"{trial.errors[b.error].max():.1e} {b.units}" for b in bench.bounds)
    size = f"{'tolerance' if best.candidate.adaptive else 'step size'} {trial.size:.3g}"
    until = bench.time_axis.times[trial.samples]
    already = f" until t = {until:g} already" if trial.samples < best.samples else ""
    return InputError(
        f"{problem}: the least is {values}{already}, by {best.candidate.name} at {size}, in "
        f"{seconds:.2g} s of CPU time a run"
    )


def _recommendation(
    study: Study, experiment: ResolvedExperiment, result: _SearchResult
) -> Recommendation:
    """Make the `Recommendation` from the result of a search."""
    bench = result.bench
    measured = [_measured_choice(result, own) for own in result.finalists]
    expected = [
        _expected_choice(bench, own)
        for own in result.contenders
        if own not in result.finalists and math.isfinite(own.expected_seconds)
    ]
    expected.sort(key=lambda own: own.seconds)
    if not measured and (bench.in_time or not expected):
        raise _no_integrator_does(bench, result.contenders)
    best, *dearer = [*measured, *expected]
    others = tuple(
        dataclasses.replace(own, is_apart=_is_apart(own, best))
        for own in dearer
        if own.seconds <= HOPELESS * best.seconds
    )
    axis = bench.time_axis
    alpha = confidence_of_attempt(result.attempt)
    kept = result.held_back - result.above
    able = {own.integrator for own in [*measured, *expected]}
    tried = [own for own in result.contenders if own.trials]
    return Recommendation(
        study=study.name,
        experiment=experiment.name,
        system=experiment.system,
        bounds=bench.bounds,
        until=axis.duration,
        time_units=bench.system.time_units,
        samples=axis.samples,
        every_step=bench.every_step,
        best=best,
        others=others,
        unable=tuple(own.candidate.name for own in tried if own.candidate.name not in able),
        tried=len(tried),
        fitting=len(result.contenders),
        searched=result.searched,
        held_back=result.held_back,
        above=result.above,
        share=share_that_keeps(kept, result.held_back, alpha),
        confidence=CONFIDENCE,
        together=1 if best.adaptive else min(result.searched, WIDTH),
        in_time=bench.in_time,
        search_seconds=bench.seconds + bench.reference_seconds,
        compile_seconds=bench.compile_seconds,
        points=tuple(_points(bench, result.contenders)),
        text=study_text(study, experiment, bench.bounds, axis, [best, *others[:2]]),
    )


def _is_apart(choice: Choice, best: Choice) -> bool:
    """Whether a choice costs significantly more than the best."""
    return choice.seconds > (DOUBT if choice.is_expected else APART) * best.seconds_median


def _measured_choice(result: _SearchResult, contender: Contender) -> Choice:
    """The `Choice` of a finalist, as it was measured."""
    kept, candidate = contender.kept, contender.candidate
    seconds, median = result.costs.get(contender, (kept.seconds, kept.seconds))
    trials = [kept, contender.verified] if contender.verified else [kept]
    return Choice(
        integrator=candidate.name,
        order=candidate.integrator.order,
        adaptive=candidate.adaptive,
        size=kept.size,
        seconds=seconds,
        seconds_median=median,
        steps=kept.steps,
        errors={name: float(max(own.errors[name].max() for own in trials)) for name in kept.errors},
        until=result.bench.time_axis.duration,
        at_largest=kept.size >= candidate.snapped(math.inf, result.bench.time_axis.interval),
    )


def _expected_choice(bench: Bench, contender: Contender) -> Choice:
    """The `Choice` of a contender that was not integrated until the end, by its pilots."""
    candidate, axis = contender.candidate, bench.time_axis
    size = candidate.snapped(contender.expected_size, axis.interval)
    nearest = min(contender.longest, key=lambda trial: abs(math.log(trial.size / size)))
    change = (nearest.size / size) ** candidate.cost_power
    seconds = contender.expected_seconds
    return Choice(
        integrator=candidate.name,
        order=candidate.integrator.order,
        adaptive=candidate.adaptive,
        size=size,
        seconds=seconds,
        seconds_median=seconds,
        steps=nearest.steps * change * axis.samples / nearest.samples,
        errors={
            name: float(values.max()) if change < DOUBT else math.nan
            for name, values in nearest.errors.items()
        },
        until=float(axis.times[nearest.samples]),
        is_expected=True,
    )


def _points(bench: Bench, contenders: Sequence[Contender]) -> Iterator[Point]:
    """All trials of the longest durations, as `Point`s."""
    axis = bench.time_axis
    for contender in contenders:
        for trial in contender.longest:
            yield Point(
                integrator=contender.candidate.name,
                size=trial.size,
                until=float(axis.times[trial.samples]),
                seconds=trial.seconds * axis.samples / trial.samples,
                ratio=float(trial.ratios[:, -1].max()),
            )


def _chosen_experiment(study: Study, name: str | None) -> ResolvedExperiment:
    names = [own.name for own in study.experiments]
    if name is None and len(names) > 1:
        raise InputError(
            f"study {study.name!r} has {len(names)} experiments: give one of {', '.join(names)}",
            key="experiment",
        )
    if name is not None:
        check_known(f"experiment of {study.name}", name, names, key="experiment")
    chosen: ResolvedExperiment = study.experiments[names.index(name) if name is not None else 0]
    expand_experiment(chosen)
    return chosen


def _sample_count(duration: float, step: float) -> int:
    """A power of two of sample intervals, each of several steps."""
    count = 2.0 ** math.floor(math.log2(max(duration / (STEPS_OF_SAMPLE * step), 1.0)))
    return int(min(max(count, FEWEST_SAMPLES), MOST_SAMPLES))


def _count_searched(sampler: StartSampler) -> int:
    """Number of starts to draw for the search, so that others are left to verify it."""
    wanted = max(SEARCHED - len(sampler.single), WIDTH)
    return wanted if sampler.is_endless else min(wanted, (sampler.left + 1) // 2)
