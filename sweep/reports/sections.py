"""What a report says of an experiment: a section for each analysis, with tables and pictures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import xarray as xr

from integrators.errors import InputError
from sweep import tables
from sweep.analysis import (
    chaos_table,
    drift_table,
    has_structure,
    integrators_without_exponents,
    orders_and_tolerances,
    structure_table,
    summarize_chaos,
    summarize_drifts,
    summarize_orders,
    summarize_structure,
    summarize_work,
    variables_of_chaos,
    work_table,
)
from sweep.analysis.convergence.curves import run_table_has_error
from sweep.analysis.drift.cells import quantities_with_recorded_error
from sweep.analysis.runs.selection import scanned_axes
from sweep.tables import Table

# How the page colours a verdict; one that says how something is, and not how well, has no colour.
LOOKS = {"confirmed": "good", "refuted": "bad", "undecided": "open", "no drift seen": "good"}
LOOKS |= {"at round-off": "good", "linear": "bad", "worse than linear": "bad", "grows": "bad"}


@dataclass(frozen=True)
class Answer:
    """What an analysis finds in one experiment.

    Attributes
    ----------
    tables : list of sweep.tables.Table
    rows : tuple of list
        Estimates, as its section's `summarize` and `tabulate` take them.
    """

    tables: list[Table]
    rows: tuple[list[Any], ...]


@dataclass(frozen=True)
class Section:
    """A part of what a report says of each experiment.

    Attributes
    ----------
    name, title, text : str
        A word for it, its heading, and how to read it.
    answer : callable or None
        Takes an experiment's run table and returns an `Answer`; `InputError` says what is missing.
    tabulate : callable or None
        Makes tables of those rows of an answer that are about one integrator.
    summarize : callable or None
        Makes sentences of the rows of its answers, of one experiment or of several together.
    pictures : dict of str to str
        Kinds of `sweep.plots.KINDS`, and what each shows.
    suits : callable
        Whether a run table has what it is about; else a report does not mention it.
    together : bool
        Whether answers of several experiments are summed up together, as work is not.
    """

    name: str
    title: str
    text: str
    answer: Callable[[xr.Dataset], Answer] | None
    tabulate: Callable[..., list[Table]] | None
    summarize: Callable[..., list[str]] | None
    pictures: dict[str, str]
    suits: Callable[[xr.Dataset], bool] = lambda dataset: True
    together: bool = True

    def sentences(self, answers: Sequence[Answer]) -> list[str]:
        """What it finds in one experiment, or in several together, in sentences.

        Parameters
        ----------
        answers : sequence of Answer
        """
        if self.summarize is None or not answers:
            return []
        together = zip(*(answer.rows for answer in answers), strict=True)
        return self.summarize(*([row for rows in of for row in rows] for of in together))

    def answer_of_integrator(self, answer: Answer, integrator: str) -> Answer | None:
        """The part of an answer that is about one integrator; None where there is none.

        Parameters
        ----------
        answer : Answer
            That `answer` has returned.
        integrator : str
            Its label in the study.
        """
        rows = tuple([row for row in of if row.integrator == integrator] for of in answer.rows)
        if self.tabulate is None or not any(rows):
            return None
        return Answer(self.tabulate(*rows), rows)

    def sentences_of_integrator(self, answer: Answer) -> list[str]:
        """What it finds of one integrator alone; nothing where it compares integrators.

        Parameters
        ----------
        answer : Answer
            Of `answer_of_integrator`.
        """
        return self.sentences([answer]) if self.together else []


def order_section_answer(dataset: xr.Dataset) -> Answer:
    """The orders of the fixed-step integrators, and the errors of the adaptive ones."""
    if not run_table_has_error(dataset):
        raise InputError(
            "no error against a reference is stored, nor states at four step sizes. Add one to the "
            'experiment, as in reference = { integrator = "dop853" }, and run it into a store of '
            "its own.",
            key="reference",
        )
    found = orders_and_tolerances(dataset)
    return Answer(tables.errors_as_tables(*found), found)


def drift_section_answer(dataset: xr.Dataset) -> Answer:
    """Errors of the recorded invariants and constraints, at the smallest step sizes."""
    rows = drift_table(dataset, step_sizes="smallest")
    if not rows:
        raise InputError(
            "no invariant is recorded: name some in the experiment, as in "
            'record = ["energy", "momentum"], and run it into a store of its own.',
            key="record",
        )
    return Answer(tables.drifts_as_tables(rows), (rows,))


def chaos_section_answer(dataset: xr.Dataset) -> Answer:
    """Lyapunov exponents and MEGNO, and what they say of order and chaos."""
    rows = chaos_table(dataset)
    without = integrators_without_exponents(dataset)
    return Answer([tables.chaos_as_table(rows, without)], (rows,))


def structure_section_answer(dataset: xr.Dataset) -> Answer:
    """What is preserved and declared to be, at the smallest step sizes."""
    rows = structure_table(dataset, "smallest")
    return Answer(tables.structure_as_tables(rows), (rows,))


def tabulate_work_of_one(rows: list[Any]) -> list[Table]:
    """Steps, evaluations, CPU time and errors of one integrator, without marks that compare it."""
    first, *_ = tables.work_as_tables([replace(row, best=()) for row in rows])
    title = first.title.partition("\n")[0]
    return [replace(first, title=title, notes=[], summary="")]


def work_section_answer(dataset: xr.Dataset) -> Answer:
    """What errors cost, and which integrator of each family is best."""
    rows = work_table(dataset)
    return Answer(tables.work_as_tables(rows), (rows,))


SECTIONS = (
    Section(
        "order",
        "Order of convergence",
        "An order is the slope of log error over log step size, with a 95 % interval, over the "
        "step sizes that count: those too coarse and those at round-off do not.",
        order_section_answer,
        tables.errors_as_tables,
        summarize_orders,
        {
            "order": "Error against step size, with the orders that it shows. Filled marks count, "
            "open ones do not; grey lines fall with the declared orders."
        },
    ),
    Section(
        "drift",
        "Drift of invariants and constraints",
        "At the smallest step size of each integrator. |drift| ≤ is what the drift stays below "
        "with 95 % confidence: it says how much could hide, not that there is none.",
        drift_section_answer,
        tables.drifts_as_tables,
        summarize_drifts,
        {
            "drift": "Drift of each invariant, with its interval.",
            "energy": "Size of the energy error over time.",
            "unit-length": "Departure from unit length over time.",
        },
    ),
    Section(
        "chaos",
        "Order and chaos",
        "Lyapunov exponents and the mean exponential growth of nearby orbits, of the tangent map "
        "of the steps that were taken. Where no chaos is seen, smaller exponents could hide.",
        chaos_section_answer,
        lambda rows: [tables.chaos_as_table(rows)],
        summarize_chaos,
        {
            "megno": "Mean exponential growth of nearby orbits: near 2 where the motion is "
            "regular, like t where it is chaotic.",
            "lyapunov": "The largest Lyapunov exponent until each time.",
        },
        lambda dataset: bool(variables_of_chaos(dataset)),
    ),
    Section(
        "structure",
        "What is preserved",
        "Which invariants and constraints are kept to round-off, and if recorded whether a step "
        "preserves the symplectic form, as far as rounding lets it be seen, and how near to its "
        "start a run returns in as many steps back; beside what the integrator is declared to do.",
        structure_section_answer,
        tables.structure_as_tables,
        summarize_structure,
        {},
        lambda dataset: has_structure(dataset) or bool(quantities_with_recorded_error(dataset)),
    ),
    Section(
        "work",
        "Work and precision",
        "What errors cost. Best of a family is an integrator that no other of its family beats in "
        "both error and work.",
        work_section_answer,
        tabulate_work_of_one,
        summarize_work,
        {
            "work": "Errors against evaluations, and CPU time where it can be compared. Filled "
            "marks are best of their family, open ones are not."
        },
        together=False,
    ),
    Section(
        "scan",
        "Against the scanned parameter",
        "",
        None,
        None,
        None,
        {"scan": "The main error of the runs against the scanned parameter with most values."},
        lambda dataset: bool(scanned_axes(dataset)),
    ),
    Section(
        "sphere",
        "States on the sphere",
        "",
        None,
        None,
        None,
        {"sphere": "Stored states as directions on the unit sphere, seen from both sides."},
    ),
)
