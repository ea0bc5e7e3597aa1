"""Decide open verdicts of a store: extend it by the step sizes, starts or times that they need.

Each round adds tables to the study that the store keeps, with the reasons as comments. Existing
rows of the store stay as they are.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import sweep.analysis
from integrators.errors import InputError, check_known, check_number
from integrators.html import html_text
from sweep.analysis.convergence.order_verdicts import UNDECIDED
from sweep.analysis.drift.estimators import FEWEST, UNSTEADY
from sweep.analysis.rows import Rows, grouped
from sweep.analysis.runs.selection import complete_runs
from sweep.campaign.extend import (
    OWN_STEP_SIZES,
    Additions,
    exact_multiple_of_unit,
    study_with_additions,
)
from sweep.campaign.run import Outcome
from sweep.campaign.run import run as run_study
from sweep.store import diff
from sweep.store.open import open_study
from sweep.store.progress import status
from sweep.store.store import Store
from sweep.store.stored_studies import (
    ADDED,
    stored_study,
    study_with_longer_duration,
    time_axes_in_text,
)
from sweep.study.starts import RandomStarts
from sweep.text import join_with_and

if TYPE_CHECKING:
    from pathlib import Path

    import pandas
    import xarray
    from numpy.typing import NDArray

    from sweep.study import Study
    from sweep.study.experiment import ResolvedExperiment

# Experiment, subject, integrator, and scanned values with their names; for chaos also the step.
QuestionKey = tuple[str, str, str, tuple[tuple[str, str], ...]]

KINDS = ORDER, DRIFT, CHAOS = "order", "drift", "chaos"
BUDGET = 600.0  # seconds of CPU time
MOST_ROUNDS = 8  # of additions in one call
LONGEST = 10  # largest duration, as a multiple of the study's
FAILS = "its runs fail, and neither longer nor further ones would tell"
ENOUGH_STARTS, MOST_STARTS = 8, 64  # ensemble sizes: for statistics, and at most
NOTHING_RUN = "nothing was run"


# --- verdicts, as questions ---------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Question:
    """A verdict on a store, which may be open.

    Attributes
    ----------
    experiment : str
    kind : str
        One of `KINDS`.
    row : OrderEstimate, DriftEstimate or ChaosEstimate
        The row of the verdict in its table.
    """

    experiment: str
    kind: str
    row: Any

    @property
    def key(self) -> QuestionKey:
        """Unique key of the question in a store, which does not change as the store grows."""
        values = self.row.parameters
        if self.kind == CHAOS:  # which has a row for each step size or tolerance
            values = values | {"step": self.row.step_size, "tolerance": self.row.tolerance}
        named = tuple(sorted((name, str(value)) for name, value in values.items()))
        return self.experiment, self.subject, self.row.integrator, named

    @property
    def subject(self) -> str:
        """``order``, ``drift of energy`` or ``chaos``."""
        return f"{DRIFT} of {self.row.quantity}" if self.kind == DRIFT else self.kind

    @property
    def open(self) -> bool:
        """Whether the verdict is undecided, or holds only for the present length of the runs."""
        if self.kind == CHAOS:
            return self.row.undecided > 0 or not self.row.starts
        return self.row.verdict in ("", UNDECIDED, UNSTEADY)  # empty if a drift has too few samples

    @property
    def finding(self) -> str:
        """The verdict with its value."""
        row = self.row
        if self.kind == ORDER and math.isfinite(row.order):
            return f"{row.order:.2f} ± {(row.high - row.low) / 2:.2f}, {row.verdict}"
        if self.kind == DRIFT and math.isfinite(row.low):
            return f"{row.low:.2g} to {row.high:.2g} {row.rate}, {row.verdict}"
        if self.kind == CHAOS and row.starts:
            return f"MEGNO {row.megno.median:.3g}, {row.verdict}"
        return str(row.verdict) or UNDECIDED

    @property
    def why(self) -> str:
        """The reason in words why the verdict is open."""
        if self.kind == DRIFT:
            return "; ".join(filter(None, (self.row.in_words, self.row.until_failure)))
        return str(self.row.reason if self.kind == ORDER else self.row.in_words)

    @property
    def lacks_samples(self) -> bool:
        """Whether the question is about a drift, and its runs have too few samples."""
        return self.kind == DRIFT and self.row.samples < FEWEST


def _questions_of_experiments(
    datasets: Mapping[str, xarray.Dataset], kinds: Mapping[str, Sequence[str]]
) -> list[Question]:
    """The verdicts of the given kinds on experiments; `InputError` if there are none at all."""
    tables: dict[str, Any] = {
        ORDER: sweep.analysis.order_table,
        DRIFT: lambda dataset: sweep.analysis.drift_table(dataset, step_sizes="smallest"),
        CHAOS: sweep.analysis.chaos_table,
    }
    found, refused = list[Question](), []
    for name, dataset in datasets.items():
        for kind in kinds[name]:
            try:
                found += [Question(name, kind, row) for row in tables[kind](dataset)]
            except InputError as error:  # it does not record what the verdict needs
                refused.append((name, error))
    if not found:
        raise InputError("\n".join(sweep.analysis.query_refusals_in_words(refused)))
    return found


# --- additions ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Addition:
    """An addition to one experiment that would decide some questions.

    Attributes
    ----------
    questions : list of Question
    words : str
        Description, such as ``step sizes 0.014 and 0.012``.
    seconds : float
        Expected CPU seconds, estimated from earlier runs.
    additions : dict
        Values to add to the axes of the experiment.
    duration : float or None
        Duration to which all its runs are continued, in the study's unit of time.
    """

    questions: Sequence[Question]
    words: str
    seconds: float
    additions: Additions = dataclasses.field(default_factory=dict)
    duration: float | None = None

    @property
    def experiment(self) -> str:
        """Name of the experiment."""
        return self.questions[0].experiment

    @property
    def keys(self) -> list[QuestionKey]:
        """Keys of the questions."""
        return [question.key for question in self.questions]


class _StoreWithVerdicts:
    """A store at one moment: its study, its runs, and the verdicts on them.

    Parameters
    ----------
    store : Store
    names : sequence of str
        Names of the experiments; empty for all.
    kinds : sequence of str
        Kinds of verdicts.
    trust_plugins : bool
    before : _StoreWithVerdicts, optional
        An earlier state, whose questions are asked again.

    Attributes
    ----------
    study : sweep.study.Study
    datasets : dict of str to xarray.Dataset
    questions : list of Question
    cpu_seconds : float
        CPU seconds of all runs and references.
    runs : int
        Number of runs.
    """

    def __init__(
        self,
        store: Store,
        names: Sequence[str],
        kinds: Sequence[str],
        trust_plugins: bool,
        before: _StoreWithVerdicts | None = None,
    ) -> None:
        self.study = stored_study(store, trust_plugins=trust_plugins)
        self._store, self._trust_plugins = store, trust_plugins
        tables = {name: node.to_dataset() for name, node in open_study(store).children.items()}
        asked = {
            name: of.isel(run=of["in_study"].values.astype(bool)) for name, of in tables.items()
        }
        self.datasets = {
            name: of for name, of in asked.items() if of.sizes["run"] and name in (names or asked)
        }
        for name in sorted(set(names) - self.datasets.keys()):
            raise InputError(
                f"{store} has no experiment {name!r} with runs; there are "
                f"{', '.join(tables) or 'none'}",
                key="experiments",
            )
        if not self.datasets:
            raise InputError(f"{store} has no runs", key="experiments")
        self._kinds: dict[str, Sequence[str]] = {
            name: kinds or ((ORDER, CHAOS) if sweep.analysis.is_order_study(table) else KINDS)
            for name, table in self.datasets.items()
        } | (before._kinds if before else {})
        self.questions = _questions_of_experiments(self.datasets, self._kinds)
        self._progress = {one.experiment: one for one in status(store)}
        self.cpu_seconds = sum(one.cpu_seconds for one in self._progress.values())
        self.runs = sum(dataset.sizes["run"] for dataset in self.datasets.values())

    def runs_continued_since(self, before: _StoreWithVerdicts) -> int:
        """Number of runs of an earlier state that are longer now, and complete."""
        found = 0
        for name, known in before.datasets.items():
            now = self.datasets[name]
            if now["time"].values[-1] > known["time"].values[-1] * (1 + 1e-12):
                old = np.isin(now["run_id"].values, known["run_id"].values)
                found += int(np.sum(complete_runs(now) & old))
        return found

    def additions(
        self, budget: float, tried: set[tuple[QuestionKey, str]]
    ) -> tuple[list[Addition], dict[QuestionKey, str], bool]:
        """The additions that would decide open questions, the cheapest first, within a budget.

        Parameters
        ----------
        budget : float
            CPU seconds.
        tried : set
            Keys of questions with the words of earlier additions, which are not tried again.

        Returns
        -------
        additions : list of Addition
        reasons : dict
            Why other open questions have no addition, by key.
        is_spent : bool
            Whether the budget is the reason for one of them.
        """
        found, reasons = list[Addition](), dict[QuestionKey, str]()
        groups: dict[Any, list[Question]] = {}  # questions that one addition may decide
        for one in filter(lambda own: own.open, self.questions):
            if one.kind == ORDER or one.row.starts > one.row.stopped:
                integrator = one.row.integrator if one.kind == ORDER else ""
                group = one.experiment, one.kind, integrator, one.lacks_samples
                groups.setdefault(group, []).append(one)
            else:
                unfinished = self._progress[one.experiment].left
                reasons[one.key] = "its runs are not finished" if unfinished else FAILS
        experiments = {one.name: one for one in self.study.experiments}
        for (name, kind, *_), questions in groups.items():
            make = self._further_step_sizes if kind == ORDER else self._further_data
            try:
                addition = make(experiments[name], questions)
                if (addition.keys[0], addition.words) in tried:
                    raise InputError(f"rules of the study exclude {addition.words}")
                found.append(addition)
            except InputError as error:
                reasons |= {own.key: str(error) for own in questions}
        chosen = list[Addition]()
        for addition in sorted(found, key=lambda own: own.seconds):
            if addition.seconds <= budget:
                chosen.append(addition)
                budget -= addition.seconds
            else:
                why = (
                    f"{addition.words} would take {addition.seconds:.2g} s of CPU time, "
                    f"{max(budget, 0):.2g} s of the budget are left"
                )
                reasons |= dict.fromkeys(addition.keys, why)
        return chosen, reasons, len(chosen) < len(found)

    def _further_step_sizes(
        self, experiment: ResolvedExperiment, questions: Sequence[Question]
    ) -> Addition:
        """The addition of the step sizes that an integrator's open orders need."""
        sizes = sorted({h for one in questions for h in one.row.further_sizes}, reverse=True)
        if not sizes:
            raise InputError("no step size is known that would decide it")
        if any(part.axis_of_steps is not None for part in experiment.grids):
            raise InputError("its step sizes advance with a scanned parameter")
        label, dataset = questions[0].row.integrator, self.datasets[experiment.name]
        own = dataset.isel(run=dataset["integrator"].values == label)
        runs = np.unique(own["step_size"].values, return_counts=True)[1].max()
        cost = _cost_by_steps(own["steps"].values, own["cpu_time"].values)
        each = [cost(experiment.duration / size) for size in sizes]
        in_units = [exact_multiple_of_unit(size, experiment.time_unit) for size in sizes]
        shown = join_with_and(f"{size:.4g}" for size in in_units)
        return Addition(
            questions,
            f"step size{'s' * (len(sizes) > 1)} {shown}",
            float(runs * sum(each)),
            {OWN_STEP_SIZES: {label: in_units}},
        )

    def _further_data(
        self, experiment: ResolvedExperiment, questions: Sequence[Question]
    ) -> Addition:
        """The addition of starts if there are few, else of time, to twice the duration.

        With too few samples, statistics over starts say nothing; then runs become longer as well.
        """
        seconds, duration = self._progress[experiment.name].cpu_seconds, experiment.duration
        axes = time_axes_in_text(self.study.text, self.study.library)
        asked = {name: axis.duration for name, _, axis in axes}
        most = math.floor(LONGEST * asked[experiment.name] / duration * (1 + 1e-9))
        first, going_on = questions[0], [one for one in questions if not one.row.stopped]
        drawn = [own.size for own in experiment.initial_conditions if isinstance(own, RandomStarts)]
        members = max(ENOUGH_STARTS, 2 * max(drawn, default=0))
        starts = sum(start.size for start in experiment.initial_conditions)
        of_rate = first.kind == DRIFT and not first.lacks_samples
        few = starts < ENOUGH_STARTS or most < 2 or not going_on
        if of_rate and drawn and members <= MOST_STARTS and few:
            grown = starts + sum(members - size for size in drawn)
            price = seconds * (grown / starts - 1)
            return Addition(questions, f"random starts up to {members}", price, {"random": members})
        if not going_on:
            raise InputError(FAILS)
        if most < 2:
            raise InputError(
                f"runs are {LONGEST} times as long as the study asks for, and longer ones are left "
                "to `sweep extend --duration`"
            )
        tell = [one.row.telling / duration for one in going_on if one.kind == CHAOS]
        factor = min(math.ceil(np.nanmax([2, *tell])), most)
        until = experiment.in_time_units(factor * duration)
        study_with_longer_duration(self.study, until, names=[experiment.name])  # or raise
        words = f"all runs until t = {until:g}"
        return Addition(going_on, words, seconds * (factor - 1), duration=until)

    def study_with(self, chosen: Sequence[Addition]) -> Study:
        """The study of the store, extended by chosen additions."""
        study = self.study
        to_axes = (one for one in chosen if one.additions)
        for name, several in grouped(to_axes, lambda one: one.experiment).items():
            reasons = [
                f"# {one.words} for the {question.subject} of {question.row.integrator!r}: "
                f"{question.why}"
                for one in several
                for question in one.questions
            ]
            lines = (" ".join(line.split()) for line in (f"{ADDED}{name}", *reasons))
            together: dict[str, Any] = {"random": None, OWN_STEP_SIZES: {}}
            for one in several:
                sizes = together[OWN_STEP_SIZES] | one.additions.get(OWN_STEP_SIZES, {})
                together |= {**one.additions, OWN_STEP_SIZES: sizes}
            study = study_with_additions(
                study, self._store, together, [name], "\n".join(lines), self._trust_plugins
            )
        for one in chosen:
            if one.duration is not None:
                study = study_with_longer_duration(study, one.duration, names=[one.experiment])
        return study


def _cost_by_steps(
    steps: NDArray[np.float64], seconds: NDArray[np.float64]
) -> Callable[[float], float]:
    """The CPU time of a run by its number of steps: a line through the medians of earlier runs.

    What a run costs besides its steps is most of the time of short ones: a price for each step
    alone would be many times too high.
    """
    steps, seconds = steps[seconds > 0], seconds[seconds > 0]
    known = np.unique(steps)
    medians = [float(np.median(seconds[steps == count])) for count in known]
    if len(known) < 2 or medians[-1] <= medians[0]:
        return lambda count: medians[-1] * max(1.0, count / known[-1]) if medians else 0.0
    slope, start = np.polyfit(known, medians, 1)
    return lambda count: max(start, 0.0) + max(slope, 0.0) * count


# --- rounds of additions ------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Decision:
    """A verdict that was open before runs were added, or is open afterwards.

    Attributes
    ----------
    experiment, integrator : str
    parameters : dict
        Values of the scanned axes.
    subject : str
        ``order``, ``drift of energy`` or ``chaos``.
    before, after : str
        The verdict with its value, before and after.
    opened, open : bool
        Whether it was open before, and is open after.
    added : tuple of str
        Additions that were made or are proposed to decide it.
    seconds : float
        Expected CPU seconds of these additions, which may serve other verdicts as well; NaN
        without any.
    why : str
        Reason why it is open; empty if it is decided.
    """

    experiment: str
    integrator: str
    parameters: dict[str, Any]
    subject: str
    before: str
    after: str
    opened: bool
    open: bool
    added: tuple[str, ...]
    seconds: float
    why: str


@dataclasses.dataclass(frozen=True)
class Decisions:
    """Open verdicts of a store, before and after additions.

    Attributes
    ----------
    rows : tuple of Decision
        Verdicts that were open before, or are now.
    verdicts : int
        Number of all verdicts before, open or not.
    runs, continued : int
        Number of runs that were added, and of earlier runs that were continued.
    cpu_seconds : float
        CPU seconds of these runs and their references; of a dry run, the expected ones.
    budget : float
        CPU seconds that were allowed.
    stopped : str
        Reason of the end; empty if all verdicts are decided.
    outcome : Outcome or None
        Outcome of the last run; None if nothing was run.
    """

    rows: tuple[Decision, ...]
    verdicts: int
    runs: int
    continued: int
    cpu_seconds: float
    budget: float
    stopped: str
    outcome: Outcome | None

    @property
    def opened(self) -> int:
        """Number of verdicts that were open before."""
        return sum(row.opened for row in self.rows)

    @property
    def left(self) -> int:
        """Number of verdicts that are open now."""
        return sum(row.open for row in self.rows)

    @property
    def decided(self) -> int:
        """Number of verdicts that were open before and are decided now."""
        return sum(row.opened and not row.open for row in self.rows)

    @property
    def proposed(self) -> bool:
        """Whether this is a dry run, with additions that are only proposed."""
        return self.stopped == NOTHING_RUN

    def to_dataframe(self) -> pandas.DataFrame:
        """The verdicts that were open before, or are now, as a `pandas.DataFrame`."""
        return Rows(self.rows).to_dataframe()

    def __str__(self) -> str:
        as_text = "decisions_as_table" if self.rows else "decisions_in_words"
        return str(getattr(sweep.tables, as_text)(self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        said = f"{self.decided} of {self.opened} open verdicts decided"
        return html_text(said) + Rows(self.rows)._repr_html_()


def _decision(was: Question, now: Question, added: Sequence[Addition], reason: str) -> Decision:
    """The `Decision` on a question before and after additions."""
    return Decision(
        experiment=now.experiment,
        integrator=now.row.integrator,
        parameters=now.row.parameters,
        subject=now.subject,
        before=was.finding,
        after=now.finding,
        opened=was.open,
        open=now.open,
        added=tuple(one.words for one in added),
        seconds=sum(one.seconds for one in added) if added else math.nan,
        why="; ".join(filter(None, (now.why, reason))) if now.open else "",
    )


def decide(
    store: str | Path | Store,
    budget: float = BUDGET,
    *,
    only: str | Sequence[str] = (),
    experiments: str | Sequence[str] = (),
    dry_run: bool = False,
    max_time: float | None = None,
    trust_plugins: bool = False,
    **options: Any,
) -> Decisions:
    """Decide open verdicts of a store by adding the step sizes, starts or times that they need.

    Each round makes the additions that open verdicts need, the cheapest first, within the budget.
    Then the verdicts are computed again. There are at most `MOST_ROUNDS` rounds.

    Parameters
    ----------
    store : str, Path or Store
        The store; its pending runs are computed first.
    budget : float, optional
        CPU seconds for the runs that are added.
    only : str or sequence of str, optional
        Kinds of verdicts: ``"order"``, ``"drift"``, ``"chaos"``. By default all, except drifts in
        experiments with several step sizes and a reference to the end, which study convergence.
    experiments : str or sequence of str, optional
        Names of experiments; by default all.
    dry_run : bool, optional
        Whether to only propose the additions of the first round.
    max_time : float, optional
        Seconds after which to stop, with all committed runs; the same call resumes.
    trust_plugins : bool
        Whether to approve the plugins that the store brings; see `sweep.plugins.approvals`.
    **options
        Options of `sweep.run`.

    Returns
    -------
    Decisions

    Raises
    ------
    InputError
        If the budget is not positive, there is no store or experiment, or no verdict is possible
        on what is recorded.
    """
    budget = check_number("budget", budget, above=0.0)
    kinds = (only,) if isinstance(only, str) else tuple(only)
    for kind in kinds:
        check_known("kind of verdict", kind, KINDS, key="only")
    names = (experiments,) if isinstance(experiments, str) else tuple(experiments)
    store, outcome = Store.at(store).absolute(), None
    ends = math.inf if max_time is None else time.monotonic() + max_time

    def read(before: _StoreWithVerdicts | None = None) -> _StoreWithVerdicts:
        return _StoreWithVerdicts(store.anew(), names, kinds, trust_plugins, before)

    def run_if_pending(study: Study) -> Outcome | None:
        if not any(own.pending.any() for own in diff.diff_store_against_study(store, study)):
            return None
        left = None if ends == math.inf else max(ends - time.monotonic(), 1e-3)
        return run_study(study, store, max_time=left, trust_plugins=trust_plugins, **options)

    state = first = read()
    if not dry_run and (outcome := run_if_pending(state.study)):
        state = read(first)  # the pending runs may be of an interrupted round
    added, tried = dict[QuestionKey, list[Addition]](), set[tuple[QuestionKey, str]]()
    for rounds in range(MOST_ROUNDS + 1):
        spent = state.cpu_seconds - first.cpu_seconds
        chosen, reasons, is_spent = state.additions(budget - spent, tried)
        stopped = "the budget is spent" if is_spent else "nothing more is added"
        if rounds == MOST_ROUNDS:
            stopped, chosen = f"{MOST_ROUNDS} rounds were made", []
        if outcome is not None and not outcome.complete:
            stopped, chosen = outcome.stopped, []
        if chosen and not dry_run:
            tried |= {(key, one.words) for one in chosen for key in one.keys}
            if not (made := run_if_pending(state.study_with(chosen))):
                continue
            outcome, state = made, read(first)
        for one in chosen:
            for key in one.keys:
                added.setdefault(key, []).append(one)
        if dry_run or not chosen:
            break
    before = {question.key: question for question in first.questions}
    pairs = [(before.get(now.key, now), now) for now in state.questions]
    rows = tuple(
        _decision(was, now, added.get(now.key, ()), reasons.get(now.key, ""))
        for was, now in pairs
        if was.open or now.open
    )
    if dry_run:
        stopped = NOTHING_RUN
    return Decisions(
        rows=rows,
        verdicts=len(first.questions),
        runs=state.runs - first.runs,
        continued=state.runs_continued_since(first),
        cpu_seconds=sum(one.seconds for one in chosen) if dry_run else spent,
        budget=budget,
        stopped=stopped if any(row.open for row in rows) else "",
        outcome=outcome,
    )
