"""Add runs to a store until its verdicts are decided, a budget is spent, or nothing would help.

Each round adds a text to the study that the store keeps, with the reason of each addition as a
comment. The rows that the store had stay as they are.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from integrators.errors import InputError, check_known, check_number
from integrators.html import html_text
from sweep.analysis.drift.verdicts import RARE
from sweep.analysis.rows import Rows
from sweep.campaign import coordinator
from sweep.campaign.decide.additions import (
    Adviser,
    looks_at_integrators,
    smallest_sizes_asked_for,
    study_texts_of_additions,
)
from sweep.campaign.decide.questions import (
    DEFAULT_KINDS,
    KINDS,
    MOST_LOOKS,
    kinds_asked_for,
    questions_of_experiments,
    wider_after,
)
from sweep.store import diff
from sweep.store.open import open_study
from sweep.store.progress import Counter
from sweep.store.store import Store
from sweep.store.studies import (
    stored_studies,
    stored_study,
    study_with_longer_duration,
    time_axes_in_texts,
)
from sweep.study.model import unite_studies

if TYPE_CHECKING:
    from pathlib import Path

    import pandas
    import xarray

    from sweep.campaign.decide.additions import Addition, CellKey
    from sweep.campaign.decide.questions import Question, QuestionKey
    from sweep.study import Study
    from sweep.study.experiment import ResolvedExperiment

BUDGET = 600.0  # seconds of CPU time


@dataclasses.dataclass(frozen=True)
class Decision:
    """A verdict before and after runs were added to decide it.

    Attributes
    ----------
    experiment, integrator : str
    parameters : dict
        Values of the scanned axes.
    subject : str
        ``order``, ``drift of energy``, ``chaos`` or ``CPU time``.
    before, after : str
        The verdict before, and after.
    opened, open : bool
        Whether it was undecided before, and is after. A drift that ``grows`` or ``wanders`` is
        decided, though a closer verdict may be possible.
    found : str
        Evidence after: the measured order, or the bound of the drift.
    added : tuple of str
        What was added, or is proposed, to decide it.
    seconds : float
        Expected CPU seconds of what is proposed; NaN where nothing is.
    why : str
        Why it is open, or not closer; else empty.
    """

    experiment: str
    integrator: str
    parameters: dict[str, Any]
    subject: str
    before: str
    after: str
    opened: bool
    open: bool
    found: str
    added: tuple[str, ...]
    seconds: float
    why: str


@dataclasses.dataclass(frozen=True)
class Decisions:
    """Verdicts of a store after runs were added to decide them.

    Attributes
    ----------
    rows : tuple of Decision
        Verdicts that were open before, or that a closer one was sought for.
    verdicts : int
        Number of all verdicts, open before or not.
    looks : int
        Number of rounds of additions that the store has had in all.
    runs : int
        Number of runs that were added.
    cpu_seconds : float
        CPU seconds of these and their references.
    budget : float
        CPU seconds that were allowed.
    wider : float
        Factor by which the intervals of orders are wider than 95 % ones, due to repeated looks.
    sure : float
        Least probability that the tests of a drift hold for all looks together.
    stopped : str
        Why it ended; empty if all is decided.
    outcome : Outcome or None
        Outcome of the last run; None if nothing was run.
    """

    rows: tuple[Decision, ...]
    verdicts: int
    looks: int
    runs: int
    cpu_seconds: float
    budget: float
    wider: float
    sure: float
    stopped: str
    outcome: coordinator.Outcome | None

    @property
    def decided(self) -> int:
        """Number of verdicts that were open before and are decided now."""
        return sum(row.opened and not row.open for row in self.rows)

    @property
    def opened(self) -> int:
        """Number of verdicts that were open before."""
        return sum(row.opened for row in self.rows)

    @property
    def left(self) -> int:
        """Number of verdicts that are open now."""
        return sum(row.open for row in self.rows)

    def to_dataframe(self) -> pandas.DataFrame:
        """The verdicts that were open at first as a `pandas.DataFrame`."""
        return Rows(self.rows).to_dataframe()

    def _repr_html_(self) -> str:
        said = f"{self.decided} of {self.opened} open verdicts decided by {self.runs:,} runs"
        return html_text(said) + Rows(self.rows)._repr_html_()


def decide(
    store: str | Path | Store,
    budget: float = BUDGET,
    *,
    only: str | Sequence[str] = (),
    experiments: str | Sequence[str] = (),
    longer: bool = True,
    closer: bool = False,
    dry_run: bool = False,
    max_time: float | None = None,
    trust_plugins: bool = False,
    **options: Any,
) -> Decisions:
    """Add runs to a store that decide its open verdicts: step sizes, starts, or longer runs.

    Each round makes the cheapest addition for each open verdict, as far as the budget allows; then
    the verdicts are tested again, at most `questions.MOST_LOOKS` times. Intervals of orders are
    widened with each round, so that 95 % hold for all looks together; see `questions.wider_after`.

    Parameters
    ----------
    store : str, Path or Store
        Runs of it that are pending are computed first.
    budget : float, optional
        CPU seconds for the runs that are added.
    only : str or sequence of str, optional
        ``"order"``, ``"drift"``, ``"chaos"``, ``"work"``. All but work unless given, but no drift
        of an experiment that has several step sizes and a reference to its end: that is a study of
        convergence. Of work it is decided whether CPU times can be compared.
    experiments : str or sequence of str, optional
        All unless given.
    longer : bool, optional
        Whether all runs of an experiment may be continued to a longer duration.
    closer : bool, optional
        Whether to seek closer verdicts on drifts that grow or wander by no known law, too, after
        those that are undecided.
    dry_run : bool, optional
        Whether only to propose what the first round would add.
    max_time : float, optional
        Seconds after which it ends, with what is committed; the same call resumes.
    trust_plugins : bool
        Whether to approve the plugins that the store brings; see `sweep.plugins.approvals`.
    **options
        Of `sweep.run`.

    Returns
    -------
    Decisions

    Raises
    ------
    InputError
        If the budget is not positive, there is no store or experiment, or nothing is recorded on
        which there are verdicts.
    """
    budget = check_number("budget", budget, above=0.0)
    only = (only,) if isinstance(only, str) else tuple(only)
    for kind in only:
        check_known("kind of verdict", kind, KINDS, key="only")
    campaign = _Deciding(
        store=Store.at(store).absolute(),
        budget=budget,
        kinds=only,
        names=(experiments,) if isinstance(experiments, str) else tuple(experiments),
        longer=longer,
        closer=closer,
        trust_plugins=trust_plugins,
        ends=np.inf if max_time is None else time.monotonic() + max_time,
        options=options,
    )
    return campaign.propose() if dry_run else campaign.carry_out()


@dataclasses.dataclass
class _Deciding:
    """A call of `decide`: its arguments, and what it has added so far."""

    store: Store
    budget: float
    kinds: tuple[str, ...]
    names: tuple[str, ...]
    longer: bool
    closer: bool
    trust_plugins: bool
    ends: float
    options: dict[str, Any]
    # Questions that were open at first, and the words for what was added for each.
    before: dict[QuestionKey, Question] = dataclasses.field(default_factory=dict)
    added: dict[QuestionKey, list[str]] = dataclasses.field(default_factory=dict)
    runs: int = 0
    spent: float = 0.0
    outcome: coordinator.Outcome | None = None

    def propose(self) -> Decisions:
        """Propose what the first round would add."""
        look = self._read_state()
        return self._decisions(look, self._proposals(look), "nothing was run")

    def carry_out(self) -> Decisions:
        """Add runs, round after round, until nothing is left to add."""
        study = stored_study(self.store, trust_plugins=self.trust_plugins)
        if any(entry.pending.any() for entry in diff.diff_store_against_study(self.store, study)):
            self._run(study)  # perhaps of a round that was interrupted
        look = self._read_state()
        while self.outcome is None or self.outcome.complete:
            proposals = self._proposals(look)
            if not proposals.chosen:
                break
            before = look
            self._run(self._study_with(proposals.chosen, look))
            for one in proposals.chosen:
                self.added.setdefault(one.question.key, []).append(one.words)
            look = self._read_state()
            self.runs += look.runs - before.runs
            self.spent += sum(look.seconds.values()) - sum(before.seconds.values())
        proposals = self._proposals(look)
        stopped = proposals.why_none if any(map(self._is_pursued, look.questions)) else ""
        if self.outcome is not None and not self.outcome.complete:
            stopped = self.outcome.stopped
        return self._decisions(look, proposals, stopped)

    def _run(self, study: Study) -> None:
        left = self.ends - time.monotonic()
        options = self.options if left == np.inf else self.options | {"max_time": max(left, 1e-3)}
        self.outcome = coordinator.run(
            study, self.store, trust_plugins=self.trust_plugins, **options
        )

    def _read_state(self) -> _StoreState:
        """Read the store and its verdicts; remember those that are open."""
        self.store = self.store.anew()  # which reads its attributes once
        look = _StoreState.read(self.store, self.names, self.kinds, self.trust_plugins)
        for question in look.questions:
            if self._is_pursued(question):
                self.before.setdefault(question.key, question)
        return look

    def _is_pursued(self, question: Question) -> bool:
        """Whether additions are sought for a question."""
        return question.open or (self.closer and question.loose)

    def _proposals(self, look: _StoreState) -> _Proposals:
        """Choose the cheapest addition for each open verdict, within the budget and the looks."""
        found: list[Addition] = []
        chosen: list[Addition] = []
        reasons: dict[QuestionKey, str] = {}
        taken: dict[str | CellKey, float] = {}
        left, beyond = self.budget - self.spent, 0
        waiting = [question for question in look.questions if self._is_pursued(question)]
        for question in waiting:
            additions, why = look.adviser(question, self.longer).additions_for(question)
            found += _preferred(additions, left / len(waiting))
            reasons[question.key] = why
        for one in sorted(found, key=lambda one: (not one.question.open, one.seconds)):
            seconds = one.seconds_beside(taken)
            if look.looks >= MOST_LOOKS - 1:
                reasons[one.question.key] = f"it was looked at {MOST_LOOKS} times"
            elif seconds > left:
                beyond += 1
                reasons[one.question.key] = (
                    f"{one.words} would take {seconds:.2g} s of CPU time, {max(left, 0):.2g} s of "
                    "the budget are left"
                )
            else:
                chosen.append(one)
                left -= seconds
                one.take(taken)
        if look.looks >= MOST_LOOKS - 1:
            why = f"the store was looked at {MOST_LOOKS} times, the most that its tests allow for"
        elif beyond:
            why = "the budget is spent"
        else:
            why = "nothing is known that would decide what is left"
        return _Proposals(chosen, reasons, why)

    def _study_with(self, chosen: Sequence[Addition], look: _StoreState) -> Study:
        """The study of the store, extended by additions."""
        kept = stored_studies(self.store, trust_plugins=self.trust_plugins)
        texts = study_texts_of_additions(self.store, chosen, look.experiments, look.looks + 1)
        more = stored_studies(self.store, texts=texts, trust_plugins=self.trust_plugins)
        study = unite_studies([*kept, *more])
        longest: dict[str, float] = {}
        for one in chosen:
            if one.duration is not None:
                name = one.question.experiment
                longest[name] = max(one.duration, longest.get(name, 0.0))
        for name, duration in longest.items():
            study = study_with_longer_duration(study, duration, names=[name])
        return study

    def _decisions(self, look: _StoreState, proposals: _Proposals, stopped: str) -> Decisions:
        now = {question.key: question for question in look.questions}
        proposed = {one.question.key: one for one in proposals.chosen}
        rows = tuple(
            _decision(
                before,
                now.get(key, before),
                self.added.get(key, ()),
                proposed.get(key),
                proposals.reasons.get(key, ""),
            )
            for key, before in self.before.items()
        )
        return Decisions(
            rows=rows,
            verdicts=len(look.questions),
            looks=look.looks,
            runs=self.runs,
            cpu_seconds=self.spent,
            budget=self.budget,
            wider=wider_after(look.looks),
            sure=1 - RARE * (look.looks + 1),
            stopped=stopped,
            outcome=self.outcome,
        )


def _preferred(additions: list[Addition], share: float) -> list[Addition]:
    """The cheapest addition, as a list of one; none of none.

    One that changes the duration is chosen only where the others take more than a share of the
    budget.
    """
    same = [one for one in additions if one.duration is None and one.seconds <= share]
    return (same or additions)[:1]


def _decision(
    before: Question, now: Question, added: Sequence[str], proposed: Addition | None, why_none: str
) -> Decision:
    row = now.estimate
    why = "; ".join(filter(None, (now.why, why_none)))
    return Decision(
        experiment=now.experiment,
        integrator=row.integrator,
        parameters=row.parameters,
        subject=now.subject,
        before=before.estimate.verdict,
        after=row.verdict,
        opened=before.open,
        open=now.open,
        found=now.found,
        added=tuple(added) or ((proposed.words,) if proposed is not None else ()),
        seconds=proposed.seconds if proposed is not None else np.nan,
        why=why,
    )


@dataclasses.dataclass(frozen=True)
class _Proposals:
    """Additions of a round, why none was chosen for a question, and why none at all."""

    chosen: list[Addition]
    reasons: dict[QuestionKey, str]
    why_none: str


@dataclasses.dataclass(frozen=True)
class _StoreState:
    """The state of a store: its study, runs, CPU seconds, asked durations and verdicts.

    CPU seconds are those of runs and references by experiment; durations those that the study asks
    for, beyond which the store may have been extended.
    """

    study: Study
    datasets: dict[str, xarray.Dataset]
    seconds: dict[str, float]
    durations: dict[str, float]
    questions: list[Question]
    looks: int

    @classmethod
    def read(
        cls, store: Store, names: Sequence[str], kinds: Sequence[str], trust_plugins: bool
    ) -> _StoreState:
        """Read the present state of a store."""
        kept = stored_studies(store, trust_plugins=trust_plugins)
        study, tree = unite_studies(kept), open_study(store)
        looks = looks_at_integrators(store.attributes["studies"], study.library)
        datasets: dict[str, xarray.Dataset] = {}
        for name, node in tree.children.items():
            table = node.to_dataset()
            asked = table["in_study"].values.astype(bool)
            if asked.any() and (not names or name in names):
                datasets[str(name)] = table.isel(run=asked)
        unknown = [name for name in names if name not in datasets]
        if unknown or not datasets:
            known = ", ".join(map(str, tree.children)) or "none"
            raise InputError(
                f"{store} has no experiment {unknown[0]!r} with runs; there are {known}"
                if unknown
                else f"{store} has no runs",
                key="experiments",
            )
        smallest = smallest_sizes_asked_for(kept)
        asked_for = {one.name: kinds or kinds_asked_for(one) for one in kept[0].experiments}
        asked_for = {name: asked_for.get(name, kinds or DEFAULT_KINDS) for name in datasets}
        questions = questions_of_experiments(datasets, smallest, asked_for, looks)
        seconds = {one.experiment: one.cpu_seconds for one in Counter(store).count()}
        # Of several texts the first says what was asked for.
        texts = reversed(store.attributes["studies"])
        durations = {name: axis.duration for name, _, axis in time_axes_in_texts(texts)}
        looked = max(looks.values(), default=0)
        return cls(study, datasets, seconds, durations, questions, looked)

    @property
    def runs(self) -> int:
        """Number of runs."""
        return sum(dataset.sizes["run"] for dataset in self.datasets.values())

    @property
    def experiments(self) -> dict[str, ResolvedExperiment]:
        """The experiments of the study, by name."""
        return {experiment.name: experiment for experiment in self.study.experiments}

    def adviser(self, question: Question, longer: bool) -> Adviser:
        """The `Adviser` on the experiment of a question."""
        experiment = self.experiments[question.experiment]
        return Adviser(
            self.study,
            experiment,
            self.datasets[experiment.name],
            self.seconds[experiment.name],
            self.durations.get(experiment.name, experiment.duration),
            longer,
        )
