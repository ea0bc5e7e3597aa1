"""What a report holds, gathered from a store."""

import json
from dataclasses import dataclass

import numpy as np

from integrators.errors import InputError
from sweep.analysis.runs.selection import distinct_values_and_codes, scanned_axes, take_runs
from sweep.plots.captions import fixed_parameter_captions
from sweep.plots.embedding import draw_embedded_picture, max_svg_bytes_per_picture
from sweep.plots.families import panel_families_of_integrators
from sweep.plots.kinds import KINDS
from sweep.plots.style import axis_label_with_units, units_with_superscripts
from sweep.reports.sections import SECTIONS
from sweep.text import format_number

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

    @property
    def verdict_column(self):
        """The place of the verdict, which a narrow window shows below the name; None without."""
        names = [name for name, _ in self.headers]
        return names.index("verdict") if "verdict" in names[1:] else None


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
    answers : dict of str to sweep.reports.sections.Answer
        By the section's title.
    progress : sweep.store.progress.Progress or None
    """

    name: str
    title: str
    anchor: str
    facts: list
    parts: list
    not_drawn: list
    sentences: list
    answers: dict
    progress: object


def report_part_of_experiment(dataset, name, place, count, progress):
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
    most = max_svg_bytes_per_picture(
        kinds * count * len(set(panel_families_of_integrators(dataset).values()))
    )
    parts, not_drawn, sentences, answers = [], [], [], {}
    raised = _unit_exponent_writer(dataset)
    for section in SECTIONS:
        if not section.suits(dataset):
            continue
        answer, missing = _section_answer(section, dataset)
        pictures = []
        for kind, text in section.pictures.items():
            found, why = _section_pictures(kind, dataset, f"p{place}-{kind}", name, text, most)
            pictures += found
            not_drawn += [] if missing else why
        if answer is not None:
            sentences += [raised(sentence) for sentence in section.sentences([answer])]
            answers[section.title] = answer
        found = [] if answer is None else [table_on_report_page(t, raised) for t in answer.tables]
        if found or pictures or missing:
            parts.append(Part(section.title, section.text, found, pictures, missing))
    title = dataset.attrs.get("title", name).partition(": ")[2]
    anchor = f"experiment-{place}"
    facts = experiment_facts(dataset)
    return ExperimentPart(
        name, title, anchor, facts, parts, not_drawn, sentences, answers, progress
    )


def _section_answer(section, dataset):
    """What a section answers, and why it cannot."""
    if section.answer is None:
        return None, ""
    try:
        return section.answer(dataset), ""
    except InputError as error:
        return None, str(error)


def _section_pictures(kind, dataset, place, name, text, most):
    """The pictures of a kind, one or none, and why there is none."""
    if kind not in KINDS:
        return [], []
    pictures, reasons = [], []
    for i, (family, members) in enumerate(_runs_by_family(dataset)):
        said = f"{text} {family}." if family else text
        try:
            found = draw_embedded_picture(kind, members, f"{place}-{i}", f"{name}: {said}", most)
        except InputError as error:
            reasons.append((kind, str(error)))
        else:
            pictures.append(Picture(found, said))
    return pictures, [] if pictures else reasons[:1]


def _runs_by_family(dataset):
    """The runs of each family of integrators, where they are too many for one narrow picture."""
    families = panel_families_of_integrators(dataset)
    if len(set(families.values())) == 1:
        yield "", dataset
        return
    labels = dataset["integrator"].values
    for family in dict.fromkeys(families.values()):
        runs = np.flatnonzero([families[label] == family for label in labels])
        yield family[:1].upper() + family[1:], take_runs(dataset, runs)


def _unit_exponent_writer(dataset):
    """A function that writes the exponents of the dataset's units in a text as such."""
    units = {array.attrs.get("units", "1") for array in dataset.variables.values()}
    units = sorted(
        (text for text in units if units_with_superscripts(text) != text != "1"), key=len
    )

    def with_unit_exponents(text):
        for each in reversed(units):
            text = text.replace(each, units_with_superscripts(each))
        return text

    return with_unit_exponents


def table_on_report_page(table, words=str):
    """A `sweep.tables.Table` as the page shows it, its first rows if there are very many.

    `words` is applied to its title and notes.
    """
    rows, notes = list(table.rows), list(table.notes)
    numeric = [all(_is_number_cell(row[i]) for row in rows) for i in range(len(table.headers))]
    if len(rows) > MOST_ROWS:
        notes.insert(0, f"The first {MOST_ROWS} of {len(rows):,} rows.")
    if len(notes) > MOST_NOTES:
        notes[MOST_NOTES:] = [f"… and {len(notes) - MOST_NOTES} more notes."]
    headers = list(zip(table.headers, [False, *numeric[1:]], strict=True))
    return TablePart(words(table.title), headers, rows[:MOST_ROWS], [words(n) for n in notes])


def _is_number_cell(cell):
    return cell[:1] in "–±≤" or cell.lstrip("+-−.")[:1].isdigit()


# --- facts -----------------------------------------------------------------------------------


def experiment_facts(dataset):
    """What an experiment is, in words, as pairs."""
    fixed = json.loads(dataset.attrs.get("fixed", "{}"))
    facts = [
        ("System", _system_fact(dataset, fixed)),
        (
            "Parameters",
            ", ".join(f"{k} = {v}" for k, v in fixed_parameter_captions(dataset).items()),
        ),
    ]
    for axis in scanned_axes(dataset):
        facts.append((f"Scanned: {axis}", _scanned_values_fact(dataset[axis])))
    labels, _ = distinct_values_and_codes(dataset["integrator"].values)
    facts.append((f"Integrators ({len(labels)})", ", ".join(labels)))
    for name, title in (("step_size", "Step sizes"), ("tolerance", "Tolerances")):
        if np.isfinite(dataset[name].values).any():
            facts.append((title, _scanned_values_fact(dataset[name])))
    facts += [
        ("Starts", _starts_fact(dataset)),
        ("Duration", _duration_fact(dataset, fixed)),
        ("Recorded", ", ".join(fixed.get("record", []))),
        ("Statistics", WORDS.get(fixed.get("statistics"), fixed.get("statistics", ""))),
        ("Reference", _reference_fact(fixed.get("reference"))),
    ]
    return [(name, text) for name, text in facts if text]


def _system_fact(dataset, fixed):
    words = dataset.attrs.get("title", "").partition(": ")[2]
    name = fixed.get("system", "–")
    return f"{words} ({name})" if words else name


def _scanned_values_fact(coordinate, most=8):
    """The distinct values of a coordinate, or their number and range."""
    values, _ = distinct_values_and_codes(coordinate.values)
    if values.dtype.kind == "f":
        values = values[np.isfinite(values)]
    words = [format_number(float(v), 6) if values.dtype.kind == "f" else str(v) for v in values]
    if len(words) > most:
        return f"{len(words)}, from {words[0]} to {words[-1]}{_units_suffix(coordinate)}"
    return ", ".join(words) + _units_suffix(coordinate)


def _units_suffix(coordinate):
    units = units_with_superscripts(coordinate.attrs.get("units", "1"))
    return f" {units}" if units else ""


def _starts_fact(dataset, most=4):
    names, _ = distinct_values_and_codes(dataset["initial_condition"].values)
    said = ", ".join(names[:most])
    return said if len(names) <= most else f"{len(names):,}: {said}, …"


def _duration_fact(dataset, fixed):
    duration = fixed.get("duration", float(dataset["time"].values[-1]))
    time = axis_label_with_units(dataset["time"], f"{duration:g}", "{} {}")
    return f"{time}, {dataset.sizes['time'] - 1:,} sample intervals"


def _reference_fact(reference):
    if not reference:
        return "none"
    settings = ", ".join(
        f"{k} = {format_number(v)}" for k, v in reference.items() if k != "integrator"
    )
    return f"{reference.get('integrator', '')} ({settings})"
