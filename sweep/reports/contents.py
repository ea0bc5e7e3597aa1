"""What a report holds, gathered from a store."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from integrators.errors import InputError
from sweep.analysis.runs.selection import distinct_values_and_codes, scanned_axes, take_runs
from sweep.plots.captions import fixed_parameter_captions
from sweep.plots.embedding import EmbeddedPicture, draw_embedded_picture, max_svg_bytes_per_picture
from sweep.plots.families import panel_families_of_integrators
from sweep.plots.kinds import KINDS
from sweep.plots.style import axis_label_with_units, units_with_superscripts
from sweep.store.progress import Progress
from sweep.tables import Table
from sweep.tables.answers import ANSWERS, Answer
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
    headers: list[tuple[str, bool]]
    rows: list[list[str]]
    notes: list[str]

    @property
    def verdict_column(self) -> int | None:
        """The place of the verdict, which a narrow window shows below the name; None without."""
        names = [name for name, _ in self.headers]
        return names.index("verdict") if "verdict" in names[1:] else None


@dataclass(frozen=True)
class Picture:
    """A picture with what is said below it."""

    drawn: EmbeddedPicture
    text: str


@dataclass(frozen=True)
class Part:
    """A section about an answer: what it says of an experiment, or what is missing for it."""

    section: Answer
    tables: list[TablePart]
    pictures: list[Picture]
    missing: str


@dataclass(frozen=True)
class ExperimentPart:
    """All that a report says of one experiment.

    Attributes
    ----------
    name, title, anchor, system : str
    facts : list of (str, str)
    parts : list of Part
    not_drawn : list of (str, str)
        Kinds of pictures, and what is missing for them.
    sentences : list of str
        For the summary.
    answers : dict of str to list
        Rows by the answer's name.
    progress : sweep.store.progress.Progress or None
    """

    name: str
    title: str
    anchor: str
    system: str
    facts: list[tuple[str, str]]
    parts: list[Part]
    not_drawn: list[tuple[str, str]]
    sentences: list[str]
    answers: dict[str, list[Any]]
    progress: Progress | None


def report_part_of_experiment(
    dataset: xr.Dataset, name: str, place: int, count: int, progress: Progress | None
) -> ExperimentPart:
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
    kinds = sum(len(section.pictures) for section in ANSWERS.values())
    most = max_svg_bytes_per_picture(
        kinds * count * len(set(panel_families_of_integrators(dataset).values()))
    )
    parts: list[Part] = []
    not_drawn: list[tuple[str, str]] = []
    sentences: list[str] = []
    answers: dict[str, list[Any]] = {}
    raised = _unit_exponent_writer(dataset)
    for section in ANSWERS.values():
        if not section.suits(dataset):
            continue
        rows, missing = _rows_of_answer(section, dataset)
        pictures: list[Picture] = []
        for kind, text in section.pictures.items():
            if kind == section.name and section.unasked(dataset):
                continue
            found, why = _draw_section_pictures(kind, dataset, f"p{place}-{kind}", name, text, most)
            pictures += found
            not_drawn += [] if missing else why
        shown: list[TablePart] = []
        if rows:
            sentences += [raised(sentence) for sentence in section.summarize(rows)]
            answers[section.name] = rows
            shown = [table_on_report_page(t, raised) for t in section.tables(dataset, rows)]
        if shown or pictures or missing:
            parts.append(Part(section, shown, pictures, missing))
    return ExperimentPart(
        name=name,
        title=dataset.attrs.get("title", name).partition(": ")[2],
        anchor=f"experiment-{place}",
        system=json.loads(dataset.attrs.get("fixed", "{}")).get("system", "–"),
        facts=experiment_facts(dataset),
        parts=parts,
        not_drawn=not_drawn,
        sentences=sentences,
        answers=answers,
        progress=progress,
    )


def _rows_of_answer(answer: Answer, dataset: xr.Dataset) -> tuple[list[Any], str]:
    """The rows that answer it, and why there are none."""
    if answer.analyse is None:
        return [], ""
    if why := answer.unasked(dataset):
        return [], why
    try:
        return answer.analyse(dataset), ""
    except InputError as error:
        return [], str(error)


def _draw_section_pictures(
    kind: str, dataset: xr.Dataset, place: str, name: str, text: str, most: int
) -> tuple[list[Picture], list[tuple[str, str]]]:
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


def _runs_by_family(dataset: xr.Dataset) -> Iterator[tuple[str, xr.Dataset]]:
    """The runs of each family of integrators, where they are too many for one narrow picture."""
    families = panel_families_of_integrators(dataset)
    if len(set(families.values())) == 1:
        yield "", dataset
        return
    labels = dataset["integrator"].values
    for family in dict.fromkeys(families.values()):
        runs = np.flatnonzero([families[label] == family for label in labels])
        yield family[:1].upper() + family[1:], take_runs(dataset, runs)


def _unit_exponent_writer(dataset: xr.Dataset) -> Callable[[str], str]:
    """A function that writes the exponents of the dataset's units in a text as such."""
    every = {array.attrs.get("units", "1") for array in dataset.variables.values()}
    units = sorted((u for u in every if units_with_superscripts(u) != u != "1"), key=len)

    def with_unit_exponents(text: str) -> str:
        for each in reversed(units):
            text = text.replace(each, units_with_superscripts(each))
        return text

    return with_unit_exponents


def table_on_report_page(table: Table, words: Callable[[str], str] = str) -> TablePart:
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


def _is_number_cell(cell: str) -> bool:
    return cell[:1] in "–±≤" or cell.lstrip("+-−.")[:1].isdigit()


# --- facts -----------------------------------------------------------------------------------


def experiment_facts(dataset: xr.Dataset) -> list[tuple[str, str]]:
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


def _system_fact(dataset: xr.Dataset, fixed: dict[str, Any]) -> str:
    words = dataset.attrs.get("title", "").partition(": ")[2]
    name = fixed.get("system", "–")
    return f"{words} ({name})" if words else name


def _scanned_values_fact(coordinate: xr.DataArray, most: int = 8) -> str:
    """The distinct values of a coordinate, or their number and range."""
    values, _ = distinct_values_and_codes(coordinate.values)
    if values.dtype.kind == "f":
        values = values[np.isfinite(values)]
    words = [format_number(float(v), 6) if values.dtype.kind == "f" else str(v) for v in values]
    if len(words) > most:
        return f"{len(words)}, from {words[0]} to {words[-1]}{_units_suffix(coordinate)}"
    return ", ".join(words) + _units_suffix(coordinate)


def _units_suffix(coordinate: xr.DataArray) -> str:
    units = units_with_superscripts(coordinate.attrs.get("units", "1"))
    return f" {units}" if units else ""


def _starts_fact(dataset: xr.Dataset, most: int = 4) -> str:
    names, _ = distinct_values_and_codes(dataset["initial_condition"].values)
    said = ", ".join(names[:most])
    return said if len(names) <= most else f"{len(names):,}: {said}, …"


def _duration_fact(dataset: xr.Dataset, fixed: dict[str, Any]) -> str:
    duration = fixed.get("duration", float(dataset["time"].values[-1]))
    time = axis_label_with_units(dataset["time"], f"{duration:g}", "{} {}")
    return f"{time}, {dataset.sizes['time'] - 1:,} sample intervals"


def _reference_fact(reference: dict[str, Any] | None) -> str:
    if not reference:
        return "none"
    settings = ", ".join(
        f"{k} = {format_number(v)}" for k, v in reference.items() if k != "integrator"
    )
    return f"{reference.get('integrator', '')} ({settings})"
