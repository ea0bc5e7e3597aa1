"""What a report holds, gathered from a store."""

import json
from dataclasses import dataclass

import numpy as np

from integrators.errors import InputError
from sweep.analysis.runs.selection import distinct_values_and_codes, scanned_axes, take_runs
from sweep.plots.captions import parameters
from sweep.plots.embedding import drawn, most_bytes
from sweep.plots.families import families_of
from sweep.plots.kinds import KINDS
from sweep.plots.style import label_of, plain_units
from sweep.reports.sections import SECTIONS
from sweep.text import number

MOST_ROWS = 200  # of a table
MOST_NOTES = 12
WORDS = {"every_step": "over every step", "none": "of the samples alone"}


@dataclass(frozen=True)
class TablePart:
    """A table as the page shows it: cells of numbers stand to the right.

    Attributes
    ----------
    title : str
    headers : list of (str, bool)
        With whether a column is of numbers.
    rows : list of list of str
    notes : list of str
    """

    title: str
    headers: list
    rows: list
    notes: list


@dataclass(frozen=True)
class Picture:
    """A picture with what is said below it."""

    drawn: object
    text: str


@dataclass(frozen=True)
class Part:
    """A section of an experiment: what it says, or what is missing for it."""

    title: str
    text: str
    tables: list
    pictures: list
    missing: str


@dataclass(frozen=True)
class ExperimentPart:
    """All that a report says of one experiment.

    Attributes
    ----------
    name, title, anchor : str
    facts : list of (str, str)
    parts : list of Part
    not_drawn : list of (str, str)
        Kinds of pictures, and what is missing for them.
    sentences : list of str
        For the summary.
    counts : dict of str to dict
        Verdicts by the section's title.
    progress : sweep.store.progress.Progress or None
    """

    name: str
    title: str
    anchor: str
    facts: list
    parts: list
    not_drawn: list
    sentences: list
    counts: dict
    progress: object


def experiment_part(dataset, name, place, count, progress):
    """What a report says of an experiment.

    Parameters
    ----------
    dataset : xarray.Dataset
    name : str
    place, count : int
        Which of how many experiments it is.
    progress : sweep.store.progress.Progress or None

    Returns
    -------
    ExperimentPart
    """
    kinds = sum(len(section.pictures) for section in SECTIONS)
    most = most_bytes(kinds * count * len(set(families_of(dataset).values())))
    parts, not_drawn, sentences, counts = [], [], [], {}
    raised = _exponents_of(dataset)
    for section in SECTIONS:
        answer, missing = _answer(section, dataset)
        pictures = []
        for kind, text in section.pictures.items():
            found, why = _picture(kind, dataset, f"p{place}-{kind}", name, text, most)
            pictures += found
            not_drawn += [] if missing else why
        if answer is not None:
            sentences += [raised(sentence) for sentence in answer.sentences]
            counts[section.title] = answer.counts
        found = [] if answer is None else [table_part(t, raised) for t in answer.tables]
        if found or pictures or missing:
            parts.append(Part(section.title, section.text, found, pictures, missing))
    title = dataset.attrs.get("title", name).partition(": ")[2]
    anchor = f"experiment-{place}"
    facts = facts_of(dataset)
    return ExperimentPart(name, title, anchor, facts, parts, not_drawn, sentences, counts, progress)


def _answer(section, dataset):
    """What a section answers, and why it cannot."""
    if section.answer is None:
        return None, ""
    try:
        return section.answer(dataset), ""
    except InputError as error:
        return None, str(error)


def _picture(kind, dataset, place, name, text, most):
    """The pictures of a kind, one or none, and why there is none."""
    if kind not in KINDS:
        return [], []
    pictures, reasons = [], []
    for i, (family, members) in enumerate(_by_family(dataset)):
        said = f"{text} {family}." if family else text
        try:
            found = drawn(kind, members, f"{place}-{i}", f"{name}: {said}", most)
        except InputError as error:
            reasons.append((kind, str(error)))
        else:
            pictures.append(Picture(found, said))
    return pictures, [] if pictures else reasons[:1]


def _by_family(dataset):
    """The runs of each family of integrators, where they are too many for one narrow picture."""
    families = families_of(dataset)
    if len(set(families.values())) == 1:
        yield "", dataset
        return
    labels = dataset["integrator"].values
    for family in dict.fromkeys(families.values()):
        runs = np.flatnonzero([families[label] == family for label in labels])
        yield family[:1].upper() + family[1:], take_runs(dataset, runs)


def _exponents_of(dataset):
    """A function that writes the exponents of the dataset's units in a text as such."""
    units = {array.attrs.get("units", "1") for array in dataset.variables.values()}
    units = sorted((text for text in units if plain_units(text) != text != "1"), key=len)

    def raised(text):
        for each in reversed(units):
            text = text.replace(each, plain_units(each))
        return text

    return raised


def table_part(table, words=str):
    """A `sweep.tables.Table` as the page shows it, its first rows if there are very many.

    `words` is applied to its title and notes.
    """
    rows, notes = list(table.rows), list(table.notes)
    numeric = [all(_is_number(row[i]) for row in rows) for i in range(len(table.headers))]
    if len(rows) > MOST_ROWS:
        notes.insert(0, f"The first {MOST_ROWS} of {len(rows):,} rows.")
    if len(notes) > MOST_NOTES:
        notes[MOST_NOTES:] = [f"… and {len(notes) - MOST_NOTES} more notes."]
    headers = list(zip(table.headers, [False, *numeric[1:]], strict=True))
    return TablePart(words(table.title), headers, rows[:MOST_ROWS], [words(n) for n in notes])


def _is_number(cell):
    return cell[:1] in "–±≤" or cell.lstrip("+-−.")[:1].isdigit()


# --- facts -----------------------------------------------------------------------------------


def facts_of(dataset):
    """What an experiment is, in words, as pairs."""
    fixed = json.loads(dataset.attrs.get("fixed", "{}"))
    facts = [
        ("System", _system(dataset, fixed)),
        ("Parameters", ", ".join(f"{k} = {v}" for k, v in parameters(dataset).items())),
    ]
    for axis in scanned_axes(dataset):
        facts.append((f"Scanned: {axis}", _values(dataset[axis])))
    labels, _ = distinct_values_and_codes(dataset["integrator"].values)
    facts.append((f"Integrators ({len(labels)})", ", ".join(labels)))
    for name, title in (("step_size", "Step sizes"), ("tolerance", "Tolerances")):
        if np.isfinite(dataset[name].values).any():
            facts.append((title, _values(dataset[name])))
    facts += [
        ("Starts", _starts(dataset)),
        ("Duration", _duration(dataset, fixed)),
        ("Recorded", ", ".join(fixed.get("record", []))),
        ("Statistics", WORDS.get(fixed.get("statistics"), fixed.get("statistics", ""))),
        ("Reference", _reference(fixed.get("reference"))),
    ]
    return [(name, text) for name, text in facts if text]


def _system(dataset, fixed):
    words = dataset.attrs.get("title", "").partition(": ")[2]
    name = fixed.get("system", "–")
    return f"{words} ({name})" if words else name


def _values(coordinate, most=8):
    """The distinct values of a coordinate, or their number and range."""
    values, _ = distinct_values_and_codes(coordinate.values)
    if values.dtype.kind == "f":
        values = values[np.isfinite(values)]
    words = [number(float(v), 6) if values.dtype.kind == "f" else str(v) for v in values]
    if len(words) > most:
        return f"{len(words)}, from {words[0]} to {words[-1]}{_units(coordinate)}"
    return ", ".join(words) + _units(coordinate)


def _units(coordinate):
    units = plain_units(coordinate.attrs.get("units", "1"))
    return f" {units}" if units else ""


def _starts(dataset, most=4):
    names, _ = distinct_values_and_codes(dataset["initial_condition"].values)
    said = ", ".join(names[:most])
    return said if len(names) <= most else f"{len(names):,}: {said}, …"


def _duration(dataset, fixed):
    duration = fixed.get("duration", float(dataset["time"].values[-1]))
    time = label_of(dataset["time"], f"{duration:g}", "{} {}")
    return f"{time}, {dataset.sizes['time'] - 1:,} sample intervals"


def _reference(reference):
    if not reference:
        return "none"
    settings = ", ".join(f"{k} = {number(v)}" for k, v in reference.items() if k != "integrator")
    return f"{reference.get('integrator', '')} ({settings})"
