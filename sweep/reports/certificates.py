"""Certificates: what stores show of each integrator on each system, and which experiment shows it.

A certificate gathers the answers of all experiments, of all stores, that are about one integrator
on one system. Its cells are their short forms, for a table of all integrators and systems.
"""

import json
import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
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
from sweep.reports.contents import (
    ExperimentPart,
    TablePart,
    experiment_facts,
    table_on_report_page,
)
from sweep.reports.page import StoreReport
from sweep.tables import (
    chosen_table_columns,
    fixed_and_adaptive,
    runs_as_table,
    scientific_cell,
)
from sweep.tables.answers import ANSWERS, LOOKS, Answer
from sweep.text import format_number

EVALUATIONS = "evaluations"
# Of several findings a cell shows the first of these, which is the worst news.
ORDERS_BY_NEWS = (REFUTED, CONFIRMED, UNDECIDED)
DRIFTS_BY_NEWS = (
    drifts.LINEAR, drifts.UNSTEADY, drifts.EACH, drifts.WALK, drifts.AT_ROUND_OFF, drifts.NONE,
)  # fmt: skip
DEFECTS_BY_NEWS = (NOT, DEFECT_UNDECIDED, NONE)


@dataclass(frozen=True)
class Cell:
    """A finding in short.

    Attributes
    ----------
    text : str
    look : str
        How its verdict is coloured, see `sweep.tables.answers.LOOKS`; empty for none.
    meaning : str
        A sentence with the numbers and the experiment that shows it.
    verdict : str
        Empty where nothing is judged.
    """

    text: str
    look: str
    meaning: str
    verdict: str = ""


@dataclass(frozen=True)
class Evidence:
    """What one experiment shows of one integrator.

    Attributes
    ----------
    report : StoreReport
        Of the store that it is in.
    page : str
        File name of that report on the site, without its ending.
    experiment : ExperimentPart
    label : str
        The integrator's in the study.
    description : dict
        What the store says of the integrator: its name, options, order, …
    answers : dict of str to list
        Rows about this integrator, by the answer's name.
    run_table : xarray.Dataset
        All runs of the experiment.
    ranking : dict of str to (float, list of LeastWork)
        By scanned values: an error that can be compared, and the work by which integrators reach
        it.
    """

    report: StoreReport
    page: str
    experiment: ExperimentPart
    label: str
    description: dict[str, Any]
    answers: dict[str, list[Any]]
    run_table: xr.Dataset
    ranking: dict[str, tuple[float, list[LeastWork]]]

    @property
    def name(self) -> str:
        """Store and experiment."""
        return f"{self.page}, {self.experiment.name}"

    @property
    def own_runs(self) -> xr.Dataset:
        """The runs of this integrator."""
        return self.run_table.isel(run=self.run_table["integrator"].values == self.label)

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What its runs are, in words, as pairs."""
        return experiment_facts(self.own_runs)

    @property
    def command(self) -> str:
        """A command that shows all of its runs."""
        chosen = f"integrator == {json.dumps(self.label, ensure_ascii=False)}"
        return shlex.join(["sweep", "query", self.report.store, chosen, "-e", self.experiment.name])

    def runs(self, most: int) -> TablePart:
        """Its runs, or the first of them."""
        runs = self.own_runs
        columns = ["run_id", *chosen_table_columns(runs, None)]
        return table_on_report_page(runs_as_table(runs, columns, limit=most))

    def rows(self, answer: str) -> list[Any]:
        """Rows of an answer; none where it has none."""
        return self.answers.get(answer, [])


@dataclass(frozen=True)
class Certificate:
    """What is known of one integrator on one system.

    Attributes
    ----------
    integrator, system : str
    family : str
        Of the integrator.
    evidence : list of Evidence
        Experiment by experiment, in the order of the stores.
    cells : dict of str to Cell
        By the name of a measure, for those that are known; see `MEASURES`.
    """

    integrator: str
    system: str
    family: str
    evidence: list[Evidence]
    cells: dict[str, Cell]

    @property
    def sections(self) -> list[tuple[Answer, list["Findings"]]]:
        """Each answer, experiment by experiment; without those that find nothing."""
        found = [(answer, [*_findings(answer, self.evidence)]) for answer in ANSWERS.values()]
        return [(answer, shown) for answer, shown in found if shown]


@dataclass(frozen=True)
class Findings:
    """What an answer says of an integrator in one experiment."""

    evidence: Evidence
    sentences: list[str]
    tables: list[TablePart]


def _findings(answer: Answer, evidence: Iterable[Evidence]) -> Iterator[Findings]:
    for one in evidence:
        if rows := one.rows(answer.name):
            tables = (answer.tabulate_one or answer.tabulate)(rows)
            sentences = [] if answer.tabulate_one else answer.summarize(rows)
            yield Findings(one, sentences, [table_on_report_page(table) for table in tables])


@dataclass(frozen=True)
class Measure:
    """A table of the overview.

    Attributes
    ----------
    name, title, text : str
        A word for it, its heading, and how to read it.
    section : str
        The section of a certificate that shows the details.
    cell : callable
        Makes a `Cell` of the evidence of a certificate; None where there is nothing to show.
    """

    name: str
    title: str
    text: str
    section: str
    cell: Callable[[Sequence[Evidence]], Cell | None]


def gather_certificates(reports: dict[str, StoreReport]) -> list[Certificate]:
    """The certificates that stores give, by the integrator's family, as the stores have them.

    Parameters
    ----------
    reports : dict of str to StoreReport
        By the file name that each has on the site.

    Returns
    -------
    list of Certificate
    """
    evidence: dict[tuple[str, str], list[Evidence]] = {}
    for page, report in reports.items():
        for experiment in report.experiments:
            for one in _evidence_of_experiment(report, page, experiment):
                key = _name_without_arithmetic(one), one.experiment.system
                evidence.setdefault(key, []).append(one)
    families = list(dict.fromkeys(_family_of_evidence(found) for found in evidence.values()))
    made = [
        Certificate(
            integrator,
            system,
            _family_of_evidence(found),
            found,
            {m.name: cell for m in MEASURES if (cell := m.cell(found)) is not None},
        )
        for (integrator, system), found in evidence.items()
    ]
    return sorted(made, key=lambda certificate: families.index(certificate.family))


def _evidence_of_experiment(
    report: StoreReport, page: str, experiment: ExperimentPart
) -> Iterable[Evidence]:
    run_table = report.run_tables[experiment.name]
    ranking = _compared_levels(experiment)
    for label, description in integrator_descriptions(run_table).items():
        answers = {
            name: own
            for name, rows in experiment.answers.items()
            if (own := [row for row in rows if row.integrator == label])
        }
        if answers:
            yield Evidence(
                report, page, experiment, label, description, answers, run_table, ranking
            )


def _family_of_evidence(evidence: Sequence[Evidence]) -> str:
    words: str = family_in_words(evidence[0].label, evidence[0].description)
    return words


def _name_without_arithmetic(evidence: Evidence) -> str:
    """The integrator's label, without the arithmetic, which is no other method."""
    arithmetic = evidence.description.get("options", {}).get("arithmetic", "")
    return evidence.label.removesuffix(f" ({arithmetic})")


# --- cells -----------------------------------------------------------------------------------


def _order_cell(evidence: Sequence[Evidence]) -> Cell | None:
    """The order, of several experiments the most certain; of adaptive integrators an error."""
    found = [(row, one) for one in evidence for row in fixed_and_adaptive(one.rows("order"))[0]]
    if not found:
        return _tolerance_cell(evidence)
    row, one = min(
        found,
        key=lambda pair: (ORDERS_BY_NEWS.index(pair[0].verdict), _interval_width(pair[0])),
    )
    declared = "none" if row.declared is None else format_number(row.declared)
    measured = "no slope"
    text = EXACT if row.verdict == CONFIRMED else row.verdict
    if math.isfinite(row.order):
        text = f"{row.order:.2f}"
        measured = f"order {row.order:.2f}, 95 %: {row.low:.3f} to {row.high:.3f}"
    why = f" ({row.reason})" if row.reason else ""
    others = f", one of {len(found)} measurements" if len(found) > 1 else ""
    meaning = f"{row.verdict}: {measured}, declared {declared}{why}; {one.name}{others}"
    return Cell(text, LOOKS.get(row.verdict, ""), meaning, row.verdict)


def _interval_width(row: Any) -> float:
    """Of the interval of an order; infinite where there is none."""
    width = row.high - row.low
    return math.inf if math.isnan(width) else width


def _tolerance_cell(evidence: Sequence[Evidence]) -> Cell | None:
    found = [
        (row, one)
        for one in evidence
        for row in fixed_and_adaptive(one.rows("order"))[1]
        if math.isfinite(row.value) and row.starts
    ]
    if not found:
        return None
    row, one = min(found, key=lambda pair: pair[0].tolerance)
    text = scientific_cell(row.value)
    meaning = f"{row.error.replace('_', ' ')} at tolerance {row.tolerance:g}; {one.name}"
    return Cell(text, "", meaning)


def _energy_drift_cell(evidence: Sequence[Evidence]) -> Cell | None:
    """The verdict on the drift of the energy, or of its balance, over the longest time."""
    return _drift_cell(evidence, lambda quantity: quantity.startswith("energy"))


def _other_drift_cell(evidence: Sequence[Evidence]) -> Cell | None:
    """The worst verdict on the drift of a momentum, Casimir or constraint, and of which."""
    return _drift_cell(evidence, lambda quantity: not quantity.startswith("energy"))


def _drift_cell(evidence: Sequence[Evidence], is_shown: Callable[[str], bool]) -> Cell | None:
    """The worst verdict on the drift of some quantities, in the experiment of the longest time."""
    found = [
        (row, one)
        for one in evidence
        for row in one.rows("drift")
        if row.starts and row.verdict in DRIFTS_BY_NEWS and is_shown(row.quantity)
    ]
    if not found:
        return None
    longest = max(found, key=lambda pair: pair[0].duration)[1]
    rows = [row for row, one in found if one is longest]
    row = min(rows, key=lambda row: DRIFTS_BY_NEWS.index(row.verdict))
    quantities = {row.quantity for row in rows}
    quantity = row.quantity.replace("_", " ")
    is_plain = row.verdict == drifts.NONE or quantities == {"energy"}
    text = row.verdict if is_plain else f"{quantity}: {row.verdict}"
    limit = f", |drift| at most {row.bound:.2g} {row.rate} (95 %)"
    of = f"; the worst of {len(quantities)} quantities" if len(quantities) > 1 else ""
    meaning = f"{quantity}: {row.verdict}{limit} over {row.span}{of}; {longest.name}"
    return Cell(text, LOOKS.get(row.verdict, ""), meaning, row.verdict)


def _defect_cell(evidence: Sequence[Evidence]) -> Cell | None:
    """The largest symplectic defect with the worst verdict."""
    found = [(row, one) for one in evidence for row in one.rows("structure") if row.verdict]
    if not found:
        return None
    row, one = min(
        found, key=lambda pair: (DEFECTS_BY_NEWS.index(pair[0].verdict), -pair[0].defect.high)
    )
    told = {True: "; declared symplectic", False: "; not declared symplectic", None: ""}
    meaning = (
        f"{row.verdict}: the largest of {row.starts} starts is {row.defect.high:.2g}"
        f"{_step_in_words(row)}, where rounding alone makes up to {row.largest_resolved:.2g}"
        f"{told[row.symplectic]}; {one.name}"
    )
    look = "good" if row.verdict == NONE else LOOKS.get(row.verdict, "")
    return Cell(scientific_cell(row.defect.high), look, meaning, row.verdict)


def _reversal_cell(evidence: Sequence[Evidence]) -> Cell | None:
    """The largest reversal error."""
    found = [
        (row, one)
        for one in evidence
        for row in one.rows("structure")
        if math.isfinite(row.reversal.high)
    ]
    if not found:
        return None
    row, one = max(found, key=lambda pair: pair[0].reversal.high)
    time = "" if row.time_units == "1" else f" {row.time_units}"
    told = {True: "; declared symmetric", False: "; declared not symmetric", None: ""}
    declared = (
        told[row.symmetric]
        + ", which the runs contradict unless their motion enlarges rounding" * row.disputed
    )
    meaning = (
        f"{row.reversal.high:.2g} from the start after t = {row.duration:g}{time} and back, the "
        f"largest of {row.starts} starts{_step_in_words(row)}{declared}; {one.name}"
    )
    return Cell(scientific_cell(row.reversal.high), "", meaning)


def _step_in_words(row: Any) -> str:
    """Its step size or tolerance."""
    if math.isnan(row.step_size):
        return f" at tolerance {row.tolerance:g}"
    return f" at the step size {row.step_size:g}"


def _work_cell(evidence: Sequence[Evidence]) -> Cell | None:
    """Evaluations over those of the cheapest integrator, where most were measured."""
    best: tuple[int, Cell] | None = None
    for one in evidence:
        for parameters, (level, ranked) in one.ranking.items():
            measured = [reached for reached in ranked if reached.interpolated]
            mine = [reached for reached in ranked if reached.integrator == one.label]
            if mine and (best is None or len(measured) > best[0]):
                cell = _work_cell_at_level(one, parameters, level, mine[0], ranked)
                best = len(measured), cell
    return None if best is None else best[1]


def _work_cell_at_level(
    one: Evidence,
    parameters: str,
    level: float,
    mine: LeastWork,
    ranked: Sequence[LeastWork],
) -> Cell:
    """The cell of one integrator; what is only bounded from above is not ranked."""
    measured = [reached for reached in ranked if reached.interpolated]
    first = measured[0]
    bounded = len(ranked) - len(measured)
    where = f" at {parameters}" if parameters else ""
    at_most = "" if mine.interpolated else "at most "
    meaning = (
        f"{at_most}{mine.work:,.0f} evaluations a run for a global error of {level:g}{where}; "
        f"fewest of the {len(measured)} measured: {first.integrator}, {first.work:,.0f}"
    )
    if bounded:
        meaning += f"; {bounded} more may need fewer, whose error is smaller at their coarsest step"
    text = f"{mine.work / first.work:.2f}"
    is_least = mine.interpolated and mine.work == first.work and not bounded
    return Cell(
        text if mine.interpolated else f"≤ {text}",
        "good" if is_least else "",
        f"{meaning}; {one.name}",
    )


def _compared_levels(experiment: ExperimentPart) -> dict[str, tuple[float, list[LeastWork]]]:
    """The error at which most integrators of an experiment were measured, and their work.

    The smallest of these; of the global error, for each combination of scanned values.
    """
    rows = [row for row in experiment.answers.get("work", []) if row.error == GLOBAL]
    settings = grouped(rows, lambda row: axis_values_in_words(row.parameters))
    found = {}
    for parameters, mine in settings.items():
        levels = rank_at_levels(mine, EVALUATIONS)
        counts = [sum(one.interpolated for one in ranked) for _, ranked in levels]
        if any(counts):
            most = max(range(len(levels)), key=lambda i: (counts[i], -levels[i][0]))
            found[parameters] = levels[most]
    return found


MEASURES = (
    Measure(
        "order",
        "Order of convergence",
        "Measured orders, green where their 95 % interval confirms the declared one; of several "
        "measurements a refuted one, else the most certain. Of adaptive integrators the error at "
        "their smallest tolerance.",
        "order",
        _order_cell,
    ),
    Measure(
        "energy drift",
        "Drift of the energy",
        "Or of its balance with the work of forces, over the longest time that was run. Green: no "
        "drift is seen, or it is at round-off; red: it surely drifts.",
        "drift",
        _energy_drift_cell,
    ),
    Measure(
        "other drift",
        "Drift of momenta, Casimirs and constraints",
        "The worst that is found of any of them, over the longest time that was run.",
        "drift",
        _other_drift_cell,
    ),
    Measure(
        "symplectic defect",
        "Symplectic defect",
        "max |JᵀΩJ − Ω| / max |Ω| of a step with the Jacobian J, the largest over starts and step "
        "sizes; green where rounding explains it.",
        "structure",
        _defect_cell,
    ),
    Measure(
        "reversal error",
        "Reversal error",
        "Distance from the start after a run and as many steps back, the largest over starts and "
        "step sizes.",
        "structure",
        _reversal_cell,
    ),
    Measure(
        "work",
        "Work",
        "Evaluations that are needed for a global error, over those of the integrator that was "
        "measured to need fewest in the same experiment: the smallest power of ten at which most "
        "were measured. ≤: its error is smaller already at its coarsest step.",
        "work",
        _work_cell,
    ),
)
