"""Certificates: what stores show about each integrator on each system.

A certificate gathers the answers of all experiments, in all stores, about one integrator on one
system. Its cells are short forms of the findings, for tables of all integrators and systems.
"""

import functools
import json
import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import xarray as xr

from sweep.analysis.convergence.order_verdicts import CONFIRMED, EXACT, REFUTED, UNDECIDED
from sweep.analysis.drift import estimators as drifts
from sweep.analysis.efficiency.pareto import LeastWork, rank_at_levels
from sweep.analysis.efficiency.work import GLOBAL
from sweep.analysis.rows import grouped
from sweep.analysis.runs.selection import axis_values_in_words, integrator_descriptions
from sweep.analysis.structure import NONE, NOT
from sweep.analysis.structure import UNDECIDED as DEFECT_UNDECIDED
from sweep.plots.families import family_in_words
from sweep.reports.gather import ExperimentReport, Fact, StoreReport, facts_of_runs, table_in_words
from sweep.tables import (
    Table,
    chosen_table_columns,
    fixed_and_adaptive,
    runs_as_table,
    scientific_cell,
)
from sweep.tables.answers import ANSWERS, LOOKS, Answer
from sweep.text import format_number

# If there are several verdicts, a cell shows the worst: the one that comes first here.
ORDERS_BY_NEWS = (REFUTED, CONFIRMED, UNDECIDED)
DRIFTS_BY_NEWS = (
    drifts.FAILS, drifts.LINEAR, drifts.UNSTEADY, drifts.EACH, drifts.WALK, drifts.AT_ROUND_OFF,
    drifts.NONE,
)  # fmt: skip
DEFECTS_BY_NEWS = (NOT, DEFECT_UNDECIDED, NONE)
SYMPLECTIC = {True: "; declared symplectic", False: "; not declared symplectic", None: ""}
SYMMETRIC = {True: "; declared symmetric", False: "; declared not symmetric", None: ""}


@dataclass(frozen=True)
class Cell:
    """The short form of a finding, for a table.

    Attributes
    ----------
    text : str
    meaning : str
        A sentence with the numbers and the experiment that shows them.
    verdict : str
        Empty if nothing is judged.
    look : str
        Colour class of the verdict, as in `sweep.tables.answers.LOOKS`; empty for none.
    """

    text: str
    meaning: str
    verdict: str = ""
    look: str = ""


# What one experiment shows: a sort key, smallest for the finding to show, and its cell.
Finding = tuple[tuple[float, ...], Cell]
# The work of all integrators for an error, the least first, by scanned values and error.
Ranking = dict[str, dict[float, list[LeastWork]]]


@dataclass(frozen=True)
class Evidence:
    """What one experiment shows about one integrator.

    Attributes
    ----------
    store, page : str
        File name of the store, and of its report on the site, without suffix.
    experiment : ExperimentReport
    label : str
        Label of the integrator in the study.
    work : dict of str to dict of float to list of LeastWork
        The work of all integrators on the same problem, by scanned values and error.
    """

    store: str
    page: str
    experiment: ExperimentReport
    label: str
    work: Ranking

    @property
    def name(self) -> str:
        """The names of store and experiment."""
        return f"{self.page}, {self.experiment.name}"

    @functools.cached_property
    def description(self) -> dict[str, Any]:
        """The stored description of the integrator: its name, options, order, …"""
        return integrator_descriptions(self.experiment.runs)[self.label]

    @property
    def problem(self) -> str:
        """The system with its parameters, the duration and the starts, by which runs compare."""
        return problem_of_runs(self.experiment.runs)

    @functools.cached_property
    def own_runs(self) -> xr.Dataset:
        """The runs of this integrator."""
        runs = self.experiment.runs
        return runs.isel(run=runs["integrator"].values == self.label)

    @property
    def facts(self) -> list[Fact]:
        """The settings of its runs, in words."""
        return facts_of_runs(self.own_runs)

    @property
    def command(self) -> str:
        """A command that lists all its runs."""
        chosen = f"integrator == {json.dumps(self.label, ensure_ascii=False)}"
        return shlex.join(["sweep", "query", self.store, chosen, "-e", self.experiment.name])

    def table_of_runs(self, most: int) -> Table:
        """A table of its runs, at most `most` of them."""
        columns = ["run_id", *chosen_table_columns(self.own_runs, None)]
        return runs_as_table(self.own_runs, columns, limit=most)

    def rows(self, answer: str) -> list[Any]:
        """The rows of an answer about this integrator."""
        return [row for row in self.experiment.rows(answer) if row.integrator == self.label]


@dataclass(frozen=True)
class Certificate:
    """What is known about one integrator on one system.

    Attributes
    ----------
    integrator, system : str
    family : str
        Family of the integrator, in words.
    evidence : list of Evidence
        One for each experiment, in the order of the stores.
    cells : dict of str to Cell
        Cells by the name of their measure, if there is a finding; see `MEASURES`.
    """

    integrator: str
    system: str
    family: str
    evidence: list[Evidence]
    cells: dict[str, Cell]

    @property
    def sections(self) -> list[tuple[Answer, list[tuple[Evidence, list[str], list[Table]]]]]:
        """Sentences and tables by answer and experiment, without answers that have no rows."""
        found = []
        for answer in ANSWERS.values():
            shown = []
            for one in self.evidence:
                if rows := one.rows(answer.name):
                    words = one.experiment.words
                    tables = (answer.tabulate_one or answer.tabulate)(rows)
                    said = [] if answer.tabulate_one else answer.summarize(rows)
                    shown.append(
                        (one, [*map(words, said)], [table_in_words(t, words) for t in tables])
                    )
            if shown:
                found.append((answer, shown))
        return found


@dataclass(frozen=True)
class Measure:
    """A table of the overview.

    Attributes
    ----------
    name, title, text : str
        Name of the measure, its heading, and how to read it.
    section : str
        The section of a certificate with the details.
    findings : callable
        Makes each `Finding` of `Evidence`.
    """

    name: str
    title: str
    text: str
    section: str
    findings: Callable[[Evidence], Iterable[Finding]]

    def worst_cell(self, evidence: Sequence[Evidence]) -> Cell | None:
        """The cell of the worst finding, which names the experiment that shows it."""
        found = [(one, made) for one in evidence for made in self.findings(one)]
        if not found:
            return None
        shown, (_, cell) = min(found, key=lambda pair: pair[1][0])
        meaning = f"{shown.experiment.words(cell.meaning)}; {shown.name}"
        if self.name == "order":
            count = sum(len(fixed_and_adaptive(one.rows("order"))[0]) for one in evidence)
            meaning += f", one of {count} measurements" if count > 1 else ""
        return replace(cell, meaning=meaning)


def gather_certificates(reports: dict[str, StoreReport]) -> list[Certificate]:
    """Make the certificates of stores, sorted by the integrator's family.

    Parameters
    ----------
    reports : dict of str to StoreReport
        Reports by their file name on the site.

    Returns
    -------
    list of Certificate
    """
    work = _work_by_problem(one for report in reports.values() for one in report.experiments)
    evidence = [
        one
        for page, report in reports.items()
        for experiment in report.experiments
        for one in _evidence_of_experiment(report.store, page, experiment, work)
    ]
    of_family = grouped(grouped(evidence, _integrator_and_system).items(), _family)
    return [
        Certificate(
            *key,
            family,
            found,
            {m.name: cell for m in MEASURES if (cell := m.worst_cell(found)) is not None},
        )
        for family, members in of_family.items()
        for key, found in members
    ]


def _evidence_of_experiment(
    store: str, page: str, experiment: ExperimentReport, work: dict[str, Ranking]
) -> Iterator[Evidence]:
    known = {row.integrator for section in experiment.sections for row in section.rows}
    ranking = work[problem_of_runs(experiment.runs)]
    for label in integrator_descriptions(experiment.runs):
        if label in known:
            yield Evidence(store, page, experiment, label, ranking)


def problem_of_runs(runs: xr.Dataset) -> str:
    """The system with its parameters, the duration and the kinds of starts, as a key."""
    pairs = zip(runs["ensemble"].values, runs["initial_condition"].values, strict=True)
    starts = sorted({str(ensemble or start) for ensemble, start in pairs})
    return json.dumps([runs.attrs["system"], runs.attrs["duration"], starts])


def _integrator_and_system(evidence: Evidence) -> tuple[str, str]:
    """The integrator's label without its arithmetic, so that both share a page; and the system."""
    arithmetic = evidence.description.get("options", {}).get("arithmetic", "")
    system = json.loads(evidence.experiment.runs.attrs["fixed"])["system"]
    return evidence.label.removesuffix(f" ({arithmetic})"), system


def _family(group: tuple[tuple[str, str], list[Evidence]]) -> str:
    first = group[1][0]
    return family_in_words(first.label, first.description)


# --- findings --------------------------------------------------------------------------------


def _judged(text: str, meaning: str, verdict: str) -> Cell:
    """A cell in the colour of its verdict."""
    return Cell(text, meaning, verdict, LOOKS.get(verdict, ""))


def _find_orders(evidence: Evidence) -> Iterator[Finding]:
    """The verdicts on the order; for adaptive methods, the error at each tolerance."""
    fixed, adaptive = fixed_and_adaptive(evidence.rows("order"))
    for row in fixed:
        width, declared = row.high - row.low, format_number(row.declared)
        text, measured = EXACT if row.verdict == CONFIRMED else row.verdict, "no slope"
        if math.isfinite(row.order):
            text = f"{row.order:.2f}"
            measured = f"order {row.order:.2f}, 95 %: {row.low:.3f} to {row.high:.3f}"
        why = f" ({row.reason})" if row.reason else ""
        declared = "none" if row.declared is None else declared
        meaning = f"{row.verdict}: {measured}, declared {declared}{why}"
        news = ORDERS_BY_NEWS.index(row.verdict), math.inf if math.isnan(width) else width
        yield news, _judged(text, meaning, row.verdict)
    for row in adaptive:
        if math.isfinite(row.value) and row.starts:
            meaning = f"{row.error.replace('_', ' ')} at tolerance {row.tolerance:g}"
            yield (len(ORDERS_BY_NEWS), row.tolerance), Cell(scientific_cell(row.value), meaning)


def _find_drifts(evidence: Evidence, of_energy: bool) -> Iterator[Finding]:
    """The worst verdict on the drift of the energy or its balance, or on all other quantities."""
    rows = [
        row
        for row in evidence.rows("drift")
        if row.starts
        and row.verdict in DRIFTS_BY_NEWS
        and row.quantity.startswith("energy") is of_energy
    ]
    row = min(rows, key=lambda row: DRIFTS_BY_NEWS.index(row.verdict), default=None)
    if row is None:
        return
    quantities, quantity = {each.quantity for each in rows}, row.quantity.replace("_", " ")
    is_plain = row.verdict == drifts.NONE or quantities == {"energy"}
    text = row.verdict if is_plain else f"{quantity}: {row.verdict}"
    of = f"; the worst of {len(quantities)} quantities" if len(quantities) > 1 else ""
    limit = f"|drift| at most {row.bound:.2g} {row.rate} (95 %)"
    meaning = f"{quantity}: {row.verdict}, {limit} over {row.span}{of}"
    news = (-max(each.duration for each in rows),)  # the longest experiment is shown
    yield news, _judged(text, meaning, row.verdict)


def _find_defects(evidence: Evidence) -> Iterator[Finding]:
    """The verdicts on the symplectic defect."""
    for row in evidence.rows("structure"):
        if row.verdict:
            meaning = (
                f"{row.verdict}: the largest of {row.starts} starts is {row.defect.high:.2g}"
                f"{_step_in_words(row)}, where rounding alone makes up to "
                f"{row.largest_resolved:.2g}{SYMPLECTIC[row.symplectic]}"
            )
            cell = _judged(scientific_cell(row.defect.high), meaning, row.verdict)
            news = DEFECTS_BY_NEWS.index(row.verdict), -row.defect.high
            yield news, replace(cell, look="good") if row.verdict == NONE else cell


def _find_reversals(evidence: Evidence) -> Iterator[Finding]:
    """The reversal errors."""
    for row in evidence.rows("structure"):
        error = row.reversal.high
        if math.isfinite(error):
            time = "" if row.time_units == "1" else f" {row.time_units}"
            said = SYMMETRIC[row.symmetric]
            said += (
                ", which the runs contradict unless their motion enlarges rounding" * row.disputed
            )
            meaning = (
                f"{error:.2g} from the start after t = {row.duration:g}{time} and back, the "
                f"largest of {row.starts} starts{_step_in_words(row)}{said}"
            )
            yield (-error,), Cell(scientific_cell(error), meaning)


def _step_in_words(row: Any) -> str:
    """The step size or tolerance of a row, in words."""
    if math.isnan(row.step_size):
        return f" at tolerance {row.tolerance:g}"
    return f" at the step size {row.step_size:g}"


def _find_work(evidence: Evidence) -> Iterator[Finding]:
    """The work relative to the cheapest integrator, where most integrators were measured.

    This is at the smallest error at which the greatest number of them was measured.
    """
    for where, levels in evidence.work.items():
        counts = {level: sum(one.interpolated for one in levels[level]) for level in levels}
        level = max(counts, key=lambda each: (counts[each], -each))
        mine = [one for one in levels[level] if one.integrator == evidence.label]
        if mine and counts[level]:
            yield (-counts[level],), _work_cell(mine[0], levels[level], level, where)


def _work_by_problem(experiments: Iterable[ExperimentReport]) -> dict[str, Ranking]:
    """Rank the integrators by their work for the same global error, for each problem."""
    found = {}
    for problem, alike in grouped(experiments, lambda one: problem_of_runs(one.runs)).items():
        rows = [row for one in alike for row in one.rows("work") if row.error == GLOBAL]
        by_values = grouped(rows, lambda row: axis_values_in_words(row.parameters))
        ranked = {where: dict(rank_at_levels(of, "evaluations")) for where, of in by_values.items()}
        found[problem] = {where: levels for where, levels in ranked.items() if levels}
    return found


def _work_cell(mine: LeastWork, ranked: Sequence[LeastWork], level: float, where: str) -> Cell:
    """The cell of one integrator; it is not ranked if its work is only bounded from above."""
    measured = [reached for reached in ranked if reached.interpolated]
    first, bounded = measured[0], len(ranked) - len(measured)
    meaning = (
        f"{'' if mine.interpolated else 'at most '}{mine.work:,.0f} evaluations a run for a global "
        f"error of {level:g}{f' at {where}' if where else ''}; fewest of the {len(measured)} "
        f"measured: {first.integrator}, {first.work:,.0f}"
    )
    if bounded:
        meaning += f"; {bounded} more may need fewer, whose error is smaller at their coarsest step"
    text = f"{'' if mine.interpolated else '≤ '}{mine.work / first.work:.2f}"
    is_least = mine.interpolated and mine.work == first.work and not bounded
    return Cell(text, meaning, look="good" if is_least else "")


MEASURES = (
    Measure(
        "order",
        "Order of convergence",
        "Measured orders, green if their 95 % interval confirms the declared order. Of several "
        "measurements a refuted one is shown, otherwise the most certain. Adaptive integrators "
        "have instead the error at their smallest tolerance.",
        "order",
        _find_orders,
    ),
    Measure(
        "energy drift",
        "Drift of the energy",
        "Drift of the energy, or of its balance with the work of forces, over the longest time "
        "that was run. Green: no drift is seen, or it is at round-off; red: it surely drifts.",
        "drift",
        functools.partial(_find_drifts, of_energy=True),
    ),
    Measure(
        "other drift",
        "Drift of momenta, Casimirs and constraints",
        "The worst verdict on any of them, over the longest time that was run.",
        "drift",
        functools.partial(_find_drifts, of_energy=False),
    ),
    Measure(
        "symplectic defect",
        "Symplectic defect",
        "max |JᵀΩJ − Ω| / max |Ω| of a step with the Jacobian J, the largest over starts and step "
        "sizes; green if rounding explains it.",
        "structure",
        _find_defects,
    ),
    Measure(
        "reversal error",
        "Reversal error",
        "Distance from the start after a run and as many steps back, the largest over starts and "
        "step sizes.",
        "structure",
        _find_reversals,
    ),
    Measure(
        "work",
        "Work, relative to the least",
        "Evaluations that are needed for a global error, relative to the integrator that needs the "
        "fewest for the same starts and duration. The error is the smallest power of ten at which "
        "most integrators were measured. ≤: at the coarsest step the error is already smaller.",
        "work",
        _find_work,
    ),
)
