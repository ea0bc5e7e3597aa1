"""Recommend an integrator: the cheapest that keeps errors below bounds until a time.

The search is successive halving (Jamieson and Talwalkar, AISTATS 2016): all integrators that fit
are run over a sixteenth of the time, at sizes a factor of two apart from the largest on, the
cheaper ones over a quarter, the last few over the whole. Each round is an experiment of one store.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import operator
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from integrators.compiler.lanes import WIDTH
from integrators.errors import InputError, check_known, check_number
from sweep.analysis.efficiency.timing import APART
from sweep.campaign.extend import exact_multiple_of_unit
from sweep.campaign.recommend.confidence import (
    CONFIDENCE,
    confidence_of_attempt,
    share_that_keeps,
)
from sweep.campaign.recommend.recommendation import (
    ENERGY,
    GLOBAL,
    HELD_BACK,
    MOMENTUM,
    SEARCHED,
    Recommendation,
    Stage,
    make_bounds,
)
from sweep.campaign.recommend.rounds import (
    MOST_STEPS,
    REFERENCE,
    Bench,
    Candidate,
    OutOfBudget,
    Round,
    Trial,
)
from sweep.clusters.connect import start_or_connect
from sweep.clusters.spec import cluster_spec_from_arguments
from sweep.store.store import Store
from sweep.store.studies import resolve_study_and_store
from sweep.study.resolve import fitting_integrators
from sweep.study.run_table import expand_experiment

if TYPE_CHECKING:
    from distributed import Client

    Asked = Mapping[Candidate, Sequence[float]]  # amounts

    from sweep.clusters.spec import ClusterSpec
    from sweep.study import Study
    from sweep.study.experiment import ResolvedExperiment

BLOCK = 3  # sizes that are tried together
ROUNDS = (  # of a time of 1, with a sample for each sixteenth
    Round("sixteenth", 1 / 16, 1, factor=2.0, ahead=BLOCK, starts=8, repeats=2, worth=4.0),
    Round("quarter", 1 / 4, 4, factor=1.3, ahead=1, starts=8, repeats=2, worth=1.5),
    Round("whole", 1.0, 16, factor=1.08, ahead=1, starts=SEARCHED, repeats=1, worth=1.5),
)
ATTEMPTS = 3  # at most, to find a size at which the held-back starts keep the bounds
TIMINGS = 5  # of the last few
HOPELESS = 4.0  # times the cost that a round begins with, at which none is expected to keep them
NEAR_ROUND_OFF = 1e6  # times half a unit in the last place, below which errors may fall no further
AT_FLOOR = 0.5  # power of the inverse cost with which errors fall at least, there
AMOUNT, RATIO, COST = map(operator.attrgetter, ("amount", "ratio", "seconds"))  # of trials


def recommend(
    study: str | Path | Store | Study,
    *,
    energy_error: float | None = None,
    global_error: float | None = None,
    momentum_error: float | None = None,
    until: float | None = None,
    experiment: str | None = None,
    budget: float = 600.0,
    keep: str | Path | Store | None = None,
    client: Client | None = None,
    cluster: ClusterSpec | str | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    trust_plugins: bool = False,
    say: Callable[[str], object] = lambda line: None,
) -> Recommendation:
    """Find the integrator and step size that keep errors below bounds at the least cost.

    All integrators that fit the system are candidates, with a fixed step or a tolerance. They are
    run over a part of the time at sizes from the largest on, until the bounds are kept or others
    keep them at far less cost; the cheaper ones longer, and the last few until the end. The
    cheapest of these is verified from initial conditions that were held back.

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
    keep : str, Path or Store, optional
        Store for the runs of the search, which all workers must see; the same search goes on from
        what it has. A temporary directory unless given.
    client, cluster, workers, scheduler, trust_plugins : optional
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
        budget ends before any integrator was run until the end.
    StudyError
        If the study has a problem.
    Interrupted
        At Ctrl-C; with `keep` the same search goes on.
    """
    ends = time.monotonic() + check_number("budget", budget, above=0.0)
    spec = cluster_spec_from_arguments(cluster, workers, scheduler)
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
    duration = exact_multiple_of_unit(chosen.duration, chosen.time_unit)
    duration = duration if until is None else check_number("until", until, above=0.0)
    fitting = fitting_integrators([system], chosen.library)
    candidates = [Candidate(name, integrator) for name, integrator in fitting.items()]
    with contextlib.ExitStack() as stack:
        how = f"more: the same search goes on from what {keep} has"
        if keep is None:
            keep = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "search.zarr"
            how = "more, or a store to `keep` the runs in, with which the same search goes on"
        connect = functools.cache(lambda: client or stack.enter_context(start_or_connect(spec)))
        bench = Bench(read, chosen, bounds, Store.at(keep).absolute(), connect, ends)
        search = _Search(bench, duration, say)
        try:
            search.find(candidates)
            search.verify()
        except OutOfBudget:
            search.in_time = False
            say("the budget ended")
            if not search.finalists:
                said = "the budget ended before any integrator was timed until the end; expected"
                raise InputError(f"{said} {how}", key="budget") from None
        bench.keep_study()
        return search.recommendation(system.time_units)


class _Search:
    """A search for the cheapest candidate, and its verification.

    Attributes
    ----------
    finalists : list of Trial
        Of candidates that were run until the end and keep the bounds, the cheapest first.
    held : Trial or None
        The first of these, from initial conditions that were held back.
    """

    def __init__(self, bench: Bench, duration: float, say: Callable[[str], object]) -> None:
        self._bench, self._say = bench, say
        every_step = bench.experiment.statistics == "every_step"
        at_end_alone = every_step and all(own.error == ENERGY for own in bench.bounds)
        # What an experiment of a store keeps: a store takes searches that differ in it.
        errors = [own.error.removesuffix("_error") for own in bench.bounds]
        time = f"{duration:.12g}".replace(".", "_").replace("+", "")
        name = "-".join([bench.experiment.name, *errors, time])
        self._rounds = [
            dataclasses.replace(
                own,
                name=f"{name}-{own.name}",
                until=duration * own.until,
                samples=1 if at_end_alone else own.samples,
            )
            for own in ROUNDS
        ]
        self._whole = self._rounds[-1]
        self._begun: Mapping[Candidate, list[Trial]] = {}  # what the first round tried
        self.finalists: list[Trial] = []
        self.held: Trial | None = None
        self._until_end: dict[tuple[Candidate, float], Trial] = {}  # by the amount
        self._stages: list[Stage] = []
        self._attempt, self.in_time = 1, True

    def find(self, candidates: Sequence[Candidate]) -> None:
        """Find the `finalists` among candidates.

        Raises
        ------
        OutOfBudget
        InputError
            If none keeps the bounds.
        """
        if any(own.error == GLOBAL for own in self._bench.bounds):
            self._say(f"references until t = {self._time(self._whole):g}")
            sure = Candidate(REFERENCE, self._bench.study.library.integrator(REFERENCE, {}))
            self._bench.run(self._whole, {sure: [float(BLOCK)]}, SEARCHED + HELD_BACK)
        first = self._rounds[0]
        kept = self._cheapest_that_keep(first, [{own: [1.0] for own in candidates}])
        for before, part in itertools.pairwise(self._rounds):
            kept = self._cheapest_that_keep(part, _groups_that_go_on(before, part, kept))
        self.finalists = self._timed(kept, SEARCHED)

    def verify(self) -> None:
        """Run the cheapest of the finalists from initial conditions that were held back.

        Where it exceeds a bound, the sizes of all are chosen again with these too, and the cheapest
        is verified from new ones. Those that were left behind, at less cost than that, are tried as
        well.

        Raises
        ------
        OutOfBudget
        InputError
            If none of the finalists keeps the bounds then.
        """
        used = SEARCHED
        while self._bench.drawn:
            best, starts = self.finalists[0], used + HELD_BACK
            self._say(f"{best.candidate.name} from initial conditions that were held back")
            asked = {best.candidate: [best.amount]}
            (self.held,) = self._bench.run(self._whole, asked, starts, first=used)
            if np.all(self.held.ratios <= 1.0) or self._attempt == ATTEMPTS:
                return
            asked = {own.candidate: [own.amount] for own in self.finalists}
            tried = self._follow(self._whole, asked, starts)
            least = min(map(COST, _coarsest_of_each(tried)), default=math.inf)
            behind = {
                own: [own.amount_in(self._whole, last.amount, last.part)]
                for own, trials in self._begun.items()
                if own not in tried
                and (last := _coarsest_kept(trials) or trials[-1]).seconds < least
            }
            tried |= self._follow(self._whole, behind, starts, least)
            kept = _coarsest_of_each(tried)
            if not kept:
                raise self._no_integrator_does(tried)
            self.finalists, self.held = self._timed(kept, starts), None
            self._attempt, used = self._attempt + 1, starts

    def _time(self, part: Round) -> float:
        """The end of a round in the system's unit of time."""
        return part.until * self._bench.experiment.time_unit

    def _cheapest_that_keep(self, part: Round, groups: Iterable[Asked]) -> list[Trial]:
        """Of each candidate that keeps the bounds the trial of the largest size; cheapest first.

        Of the first group in which one does.

        Raises
        ------
        InputError
            If none does.
        """
        for asked in groups:
            self._say(f"{len(asked)} integrators until t = {self._time(part):g}")
            tried = self._follow(part, asked, part.starts)
            self._begun = self._begun or tried
            kept = _coarsest_of_each(tried)
            self._stages.append(Stage(self._time(part), len(tried), len(kept)))
            if kept:
                return sorted(kept, key=COST)
        raise self._no_integrator_does(tried)

    def _follow(
        self, part: Round, asked: Asked, starts: int, least: float = math.inf
    ) -> dict[Candidate, list[Trial]]:
        """Try sizes of candidates until each keeps the bounds, and the next larger size does not.

        Or until others keep them, or are at round-off, at far less cost, or at the least known; or,
        after the first round, at far more than they began with. Those go on first that have cost
        least.
        """
        tried: dict[Candidate, list[Trial]] = {own: [] for own in asked}
        begun = math.inf if part is self._rounds[0] else 0.0
        while asked:
            for trial in self._bench.run(part, asked, starts, repeats=part.repeats):
                tried[trial.candidate].append(trial)
                if part is self._whole:
                    self._until_end[trial.candidate, trial.amount] = trial
            done = _coarsest_of_each(tried) or [
                trials[-1] for trials in tried.values() if _is_at_floor(trials)
            ]
            begun = begun or max(own.seconds for trials in tried.values() for own in trials)
            limit = part.worth * min(least, min(map(COST, done), default=HOPELESS * begun))
            going = {
                own: more
                for own, trials in tried.items()
                if (more := _amounts_to_try(own, trials, part, limit))
            }
            # The others wait: perhaps their turn never comes.
            spent = {own: max(map(COST, tried[own])) for own in going}
            turn = HOPELESS * min(spent.values(), default=0.0)
            asked = {own: more for own, more in going.items() if spent[own] <= turn}
        return tried

    def _timed(self, kept: Sequence[Trial], starts: int) -> list[Trial]:
        """The trials with repeated runs, which alternate; the cheapest first."""
        asked = {own.candidate: [own.amount] for own in kept}
        timed = self._bench.run(self._whole, asked, starts, repeats=TIMINGS)
        self._until_end |= {(own.candidate, own.amount): own for own in timed}
        return sorted(timed, key=COST)

    def _no_integrator_does(self, tried: Mapping[Candidate, Sequence[Trial]]) -> InputError:
        """The `InputError` if none keeps the bounds: with the least error until the end, its cost.

        Raises
        ------
        OutOfBudget
        """
        whole, bounds = self._whole, self._bench.bounds
        least = sorted((min(trials, key=RATIO) for trials in tried.values()), key=RATIO)
        asked = {
            own.candidate: [own.candidate.amount_in(whole, own.amount, own.part)]
            for own in least[:BLOCK]
        }
        best = min(self._bench.run(whole, asked, SEARCHED), key=lambda own: own.ratios.max())
        kept = " and ".join(f"{own.in_words} below {own.in_units(own.most)}" for own in bounds)
        problem = f"no integrator keeps the {kept} until t = {self._time(whole):g}"
        if not np.isfinite(best.ratios.max()):
            return InputError(f"{problem}: all runs failed")
        choice = best.choice
        values = " and ".join(own.in_units(choice.errors[own.error], ".1e") for own in bounds)
        return InputError(
            f"{problem}: of those run until then the least is {values}, by {choice.integrator} at "
            f"{'tolerance' if choice.adaptive else 'step size'} {choice.size:.3g}, in "
            f"{choice.seconds:.2g} s of CPU time a run"
        )

    def recommendation(self, time_units: str) -> Recommendation:
        """The `Recommendation`."""
        bench, whole = self._bench, self._whole
        best, *others = (own.choice for own in self.finalists)
        told = max(best.seconds_next, best.seconds * (1 + APART))
        searched, count, above = len(self.finalists[0].ratios), 0, 0
        if self.held:
            count, above = len(self.held.ratios), int(np.sum(~(self.held.ratios <= 1.0)))
            held = self.held.choice.errors
            errors = {name: max(value, held[name]) for name, value in best.errors.items()}
            best = dataclasses.replace(best, errors=errors)
        return Recommendation(
            study=bench.study.name,
            experiment=bench.experiment.name,
            system=bench.experiment.system,
            bounds=bench.bounds,
            until=self._time(whole),
            time_units=time_units,
            samples=whole.samples,
            every_step=bench.experiment.statistics == "every_step",
            best=best,
            others=tuple(dataclasses.replace(own, is_apart=own.seconds > told) for own in others),
            stages=tuple(self._stages),
            searched=searched,
            held_back=count,
            above=above,
            share=share_that_keeps(count - above, count, confidence_of_attempt(self._attempt)),
            confidence=CONFIDENCE,
            together=1 if best.adaptive else min(searched, WIDTH),
            in_time=self.in_time,
            search_seconds=bench.cpu_seconds,
            points=tuple(own.choice for own in self._until_end.values()),
            text=bench.answer_text(whole, self.finalists[:BLOCK]),
        )


def _groups_that_go_on(before: Round, part: Round, kept: Sequence[Trial]) -> Iterator[Asked]:
    """What is asked of a round: sizes about those that kept the bounds in the one before.

    Of the cheaper ones; then of the others, where none of these keeps the bounds any longer.
    """
    most = sum(own.seconds <= before.worth * kept[0].seconds for own in kept)
    for group in (kept[:most], kept[most:]):
        asked = {}
        for own in group:
            candidate, amount = own.candidate, own.candidate.amount_in(part, own.amount, before)
            coarser = candidate.coarser(amount, part.factor**BLOCK, 1)
            asked[candidate] = [*coarser, amount, *candidate.finer(amount, part.factor**BLOCK, 1)]
        if asked:
            yield asked


def _coarsest_of_each(tried: Mapping[Candidate, Sequence[Trial]]) -> list[Trial]:
    """Of each candidate that keeps the bounds the trial of the largest size."""
    return [own for trials in tried.values() if (own := _coarsest_kept(trials))]


def _coarsest_kept(trials: Sequence[Trial]) -> Trial | None:
    """The trial of the largest size that keeps the bounds; None if none does."""
    return min((own for own in trials if own.keeps), key=AMOUNT, default=None)


def _is_at_floor(trials: Sequence[Trial]) -> bool:
    """Whether errors no longer fall with the size, near round-off."""
    known = sorted((own for own in trials if np.isfinite(own.ratio)), key=AMOUNT)
    if len(known) < BLOCK or not known[-1].ratio < NEAR_ROUND_OFF * known[-1].round_off:
        return False
    before, last = known[-BLOCK], known[-1]
    return bool(last.ratio > before.ratio * (before.amount / last.amount) ** AT_FLOOR)


def _amounts_to_try(
    candidate: Candidate, trials: Sequence[Trial], part: Round, limit: float
) -> list[float]:
    """The next amounts to try, by exponential search (Bentley and Yao, 1976).

    By factors of two until there are sizes that do and do not keep the bounds, then between these.
    None where these are neighbours, or in vain.
    """
    finest = max(trials, key=AMOUNT)
    if kept := _coarsest_kept(trials):
        larger = max((own.amount for own in trials if own.amount < kept.amount), default=None)
        if larger is None:
            return candidate.coarser(kept.amount, 2.0, part.ahead)
        factor = max(part.factor, (kept.amount / larger) ** (1 / (BLOCK + 1)))
        between = candidate.finer(larger, factor, BLOCK)
        return [own for own in between if own < kept.amount / part.factor**0.5]
    steps = 0 if candidate.adaptive else finest.amount * part.samples
    if finest.seconds > limit or _is_at_floor(trials) or steps > MOST_STEPS:
        return []
    return candidate.finer(finest.amount, 2.0, part.ahead)


def _chosen_experiment(study: Study, name: str | None) -> ResolvedExperiment:
    known = {own.name: own for own in study.experiments}
    if name is None and len(known) > 1:
        raise InputError(
            f"study {study.name!r} has {len(known)} experiments: give one of {', '.join(known)}",
            key="experiment",
        )
    if name is not None:
        check_known(f"experiment of {study.name}", name, known, key="experiment")
    chosen: ResolvedExperiment = study.experiments[0] if name is None else known[name]
    expand_experiment(chosen)  # or refuse
    return chosen
