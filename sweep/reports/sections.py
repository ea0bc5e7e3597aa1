"""What a report says of an experiment: a section for each analysis, with tables and pictures."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from integrators.errors import InputError
from sweep import tables
from sweep.analysis import (
    adaptive_runs,
    chaos_table,
    drift_table,
    has_structure,
    integrators_without_exponents,
    order_table,
    structure_table,
    tolerance_table,
    variables_of_chaos,
    work_table,
)
from sweep.analysis.convergence.curves import run_table_has_error
from sweep.tables.base import scientific_cell
from sweep.text import format_number

VERDICTS = ("confirmed", "refuted", "undecided")
# How the page colours a verdict; one that says how something is, and not how well, has no colour.
LOOKS = {"confirmed": "good", "refuted": "bad", "undecided": "open", "no drift seen": "good"}
LOOKS |= {"at round-off": "good", "linear": "bad", "worse than linear": "bad", "grows": "bad"}


@dataclass(frozen=True)
class Answer:
    """What an analysis finds in one experiment.

    Attributes
    ----------
    tables : list of sweep.tables.Table
    sentences : list of str
        For the summary.
    counts : dict of str to int
        How many rows have each verdict, where there are verdicts.
    """

    tables: list
    sentences: list
    counts: dict


@dataclass(frozen=True)
class Section:
    """A part of what a report says of each experiment.

    Attributes
    ----------
    title, text : str
        Its heading, and how to read it.
    answer : callable or None
        Takes an experiment's run table and returns an `Answer`; `InputError` says what is missing.
    pictures : dict of str to str
        Kinds of `sweep.plots.KINDS`, and what each shows.
    suits : callable
        Whether a run table has what it is about; else a report does not mention it.
    """

    title: str
    text: str
    answer: object
    pictures: dict
    suits: object = lambda dataset: True


def order_section_answer(dataset):
    """The orders of the fixed-step integrators, and the errors of the adaptive ones."""
    if not run_table_has_error(dataset):
        raise InputError(
            "no error against a reference is stored, nor states at four step sizes. Add one to the "
            'experiment, as in reference = { integrator = "dop853" }, and run it into a store of '
            "its own.",
            key="reference",
        )
    referred = "global_error" in dataset
    adaptive = adaptive_runs(dataset)
    found, sentences, counts = [], [], {}
    if not adaptive.all():
        rows = order_table(dataset)
        found.append(tables.orders_as_table(rows))
        verdicts = Counter(row.verdict for row in rows)
        counts = {verdict: verdicts[verdict] for verdict in VERDICTS}
        sentences.append(_verdicts_sentence(rows, counts))
    if referred and adaptive.any():
        found.append(tables.tolerances_as_table(tolerance_table(dataset)))
        labels = dict.fromkeys(dataset["integrator"].values[adaptive])
        sentences.append(f"Errors by tolerance, of {', '.join(labels)}: a table below.")
    return Answer(found, sentences, counts)


def _verdicts_sentence(rows, counts):
    """``Orders: 9 confirmed, 1 undecided (rk4)``; the names of those that are not confirmed."""
    parts = []
    for verdict in VERDICTS:
        names = dict.fromkeys(row.integrator for row in rows if row.verdict == verdict)
        named = f" ({_names_in_words(names)})" if names and verdict != VERDICTS[0] else ""
        parts.append(f"{counts[verdict]} {verdict}{named}")
    return f"Orders: {', '.join(parts)}."


def _names_in_words(names, most=6):
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def drift_section_answer(dataset):
    """Errors of the recorded invariants and constraints, at the smallest step sizes."""
    rows = drift_table(dataset, step_sizes="smallest")
    if not rows:
        raise InputError(
            "no invariant is recorded: name some in the experiment, as in "
            'record = ["energy", "momentum"], and run it into a store of its own.',
            key="record",
        )
    by_quantity = {}
    for row in rows:
        by_quantity.setdefault(row.quantity, []).append(row)
    counts = dict(Counter(row.verdict for row in rows if getattr(row, "verdict", "")))
    sentences = []
    for name, of in by_quantity.items():
        sentences += [_drift_bounds_sentence(name, of), *_drift_comparison_sentences(name, of)]
    return Answer(tables.drifts_as_tables(rows), sentences, counts)


def _drift_bounds_sentence(quantity, rows):
    """The largest and the smallest bound of a quantity's drift, or why there is none."""
    name = quantity.replace("_", " ").capitalize()
    bounded = sorted((row for row in rows if np.isfinite(row.bound)), key=lambda row: row.bound)
    if not bounded:
        return f"{name}: {rows[0].sentence}."
    least, most = bounded[0], bounded[-1]
    text = f"{name}: {most.sentence}"
    if least is not most:
        text += f", the largest, {_row_origin_in_words(most)}; the smallest "
        text += f"{scientific_cell(least.bound)}, {_row_origin_in_words(least)}"
    missing = len(rows) - len(bounded)
    return text + (f"; not measured of {missing} of {len(rows)}." if missing else ".")


def _drift_comparison_sentences(quantity, rows):
    """Who drifts less than whom at equal step size, by most; nothing where no one surely does."""
    found = [
        (one.times, row, one)
        for row in rows
        for one in [next((each for each in row.compared if each.equal_step), None)]
        if one is not None
    ]
    if not found:
        return []
    _, row, one = max(found, key=lambda each: each[0])
    name = quantity.replace("_", " ")
    less = f"{row.integrator} drifts {one} at equal step size (95 %)"
    values = _row_origin_in_words(row).partition(", ")[2]
    return [f"Of the {name} {less}{f', at {values}' if values else ''}."]


def _row_origin_in_words(row):
    values = [f"{axis} = {format_number(value)}" for axis, value in row.parameters.items()]
    return ", ".join([f"of {row.integrator}", *values])


def chaos_section_answer(dataset):
    """Lyapunov exponents and MEGNO, and what they say of order and chaos; counts are of starts."""
    rows = chaos_table(dataset)
    counts = sum((Counter(row.counts) for row in rows), Counter())
    without = integrators_without_exponents(dataset)
    return Answer([tables.chaos_as_table(rows, without)], [], dict(counts))


def structure_section_answer(dataset):
    """Symplectic defects and reversal errors, at every step size."""
    rows = structure_table(dataset)
    counts = Counter(row.verdict for row in rows if row.verdict)
    return Answer([tables.structure_as_table(rows)], [], dict(counts))


def work_section_answer(dataset):
    """What errors cost, and which integrator of each family is best."""
    return Answer(tables.work_as_tables(work_table(dataset)), [], {})


SECTIONS = (
    Section(
        "Order of convergence",
        "An order is the slope of log error over log step size, with a 95 % interval, over the "
        "step sizes that count: those too coarse and those at round-off do not.",
        order_section_answer,
        {
            "order": "Error against step size, with the orders that it shows. Filled marks count, "
            "open ones do not; grey lines fall with the declared orders."
        },
    ),
    Section(
        "Drift of invariants and constraints",
        "At the smallest step size of each integrator. |drift| ≤ is what the drift stays below "
        "with 95 % confidence: it says how much could hide, not that there is none.",
        drift_section_answer,
        {
            "drift": "Drift of each invariant, with its interval.",
            "energy": "Size of the energy error over time.",
            "unit-length": "Departure from unit length over time.",
        },
    ),
    Section(
        "Order and chaos",
        "Lyapunov exponents and the mean exponential growth of nearby orbits, of the tangent map "
        "of the steps that were taken. Where no chaos is seen, smaller exponents could hide.",
        chaos_section_answer,
        {
            "megno": "Mean exponential growth of nearby orbits: near 2 where the motion is "
            "regular, like t where it is chaotic.",
            "lyapunov": "The largest Lyapunov exponent until each time.",
        },
        lambda dataset: bool(variables_of_chaos(dataset)),
    ),
    Section(
        "Symplecticity and reversibility",
        "Whether a step preserves the symplectic form, as far as rounding lets it be seen, and how "
        "near to its start a run returns in as many steps back.",
        structure_section_answer,
        {},
        has_structure,
    ),
    Section(
        "Work and precision",
        "What errors cost. Best of a family is an integrator that no other of its family beats in "
        "both error and work.",
        work_section_answer,
        {
            "work": "Errors against evaluations, and CPU time where it can be compared. Filled "
            "marks are best of their family, open ones are not."
        },
    ),
    Section(
        "States on the sphere",
        "",
        None,
        {"sphere": "Stored states as directions on the unit sphere, seen from both sides."},
    ),
)
