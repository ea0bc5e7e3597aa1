"""Gather the contents of a report on a store and its experiments."""

import datetime
import functools
import json
import uuid
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from integrators.errors import InputError
from sweep.analysis import query
from sweep.analysis.runs.blocks import load_if_small
from sweep.analysis.runs.selection import distinct_values_and_codes, scanned_axes, take_runs
from sweep.plots.captions import fixed_parameter_captions
from sweep.plots.embedding import EmbeddedPicture, draw_embedded_picture, max_svg_bytes_per_picture
from sweep.plots.families import panel_families_of_integrators
from sweep.plots.style import axis_label_with_units, units_with_superscripts
from sweep.result_cache import digest_of_pictures, find_in_cache, put_into_cache
from sweep.store import provenance
from sweep.store.backends.places import METADATA
from sweep.store.failed_runs import failed_runs, values_shared_by_failed_runs
from sweep.store.open import open_study
from sweep.store.progress import Progress, status
from sweep.store.store import Store
from sweep.study.variables import steps_between
from sweep.tables import Table, failures_as_table
from sweep.tables.answers import ANSWERS, Answer
from sweep.text import count_with_noun, format_number, steps_in_words

Fact = tuple[str, str]  # a name and its value in words
# Pictures with their captions, and what is missing for each kind without one.
Drawn = tuple[list[tuple[EmbeddedPicture, str]], dict[str, str]]
MOST_FAILURES = 20  # failed runs of an experiment that are listed
MOST_VALUES = 8  # values of an axis that are listed
NO_PACKAGE = ("cpu", "libm", "system", "commit")  # entries of an environment besides packages


@dataclass(frozen=True)
class Section:
    """An answer for an experiment, or what is missing for it.

    Attributes
    ----------
    answer : Answer
    rows : list
        Rows of the answer; empty if something is missing, or the answer consists of pictures.
    sentences : list of str
    tables : list of Table
    pictures : list of (EmbeddedPicture, str)
        Pictures with their captions.
    missing : str
        What is missing for the answer; empty if nothing is.
    """

    answer: Answer
    rows: list[Any]
    sentences: list[str]
    tables: list[Table]
    pictures: list[tuple[EmbeddedPicture, str]]
    missing: str


@dataclass(frozen=True)
class ExperimentReport:
    """The contents of a report about one experiment.

    Attributes
    ----------
    name, title, anchor : str
    runs : xarray.Dataset
        The run table.
    sections : list of Section
    not_drawn : list of (str, str)
        Kinds of pictures that cannot be drawn, and what is missing for them.
    progress : sweep.store.progress.Progress
    """

    name: str
    title: str
    anchor: str
    runs: xr.Dataset
    sections: list[Section]
    not_drawn: list[Fact]
    progress: Progress

    @property
    def facts(self) -> list[Fact]:
        """The settings of the experiment, in words."""
        return facts_of_runs(self.runs)

    @functools.cached_property
    def words(self) -> Callable[[str], str]:
        """A function that raises the exponents of the experiment's units in a text."""
        return _unit_exponent_writer(self.runs)

    def rows(self, answer: str) -> list[Any]:
        """The rows of an answer; empty if there are none."""
        return next((s.rows for s in self.sections if s.answer.name == answer), [])


@dataclass(frozen=True)
class StoreReport:
    """The contents of a report on a store.

    Attributes
    ----------
    name, description : str
        Name and description of the study.
    study : str
        Text of the study.
    where : str or None
        The expression that selected the runs.
    summary : list of str
        The answers of all experiments, in short.
    experiments : list of ExperimentReport
    failures : list of (list of str, Table)
        For each experiment, sentences on what failed runs share, and a table of the first of them.
    unfinished : list of Progress
        Experiments with runs that are not computed yet.
    provenance : list of (str, str)
    store : str
        File name of the store.
    made : str
        When the report was made.
    """

    name: str
    description: str
    study: str
    where: str | None
    summary: list[str]
    experiments: list[ExperimentReport]
    failures: list[tuple[list[str], Table]]
    unfinished: list[Progress]
    provenance: list[Fact]
    store: str
    made: str


def gather_report(
    store: Store,
    where: str | None = None,
    executor: Executor | None = None,
    watch: Callable[[str, float], object] = lambda text, share: None,
) -> StoreReport:
    """Gather the contents of a report on a store, see `sweep.report`.

    Parameters
    ----------
    store : Store
    where : str, optional
    executor : concurrent.futures.Executor, optional
        Processes in which experiments are analysed and drawn; by default this one.
    watch : callable, optional
        Called with a text and the share that is done, before the first experiment and after each.
    """
    tree, tables = _open(store, where)
    progress = {each.experiment: each for each in status(store)}
    places = {name: (place, len(tables)) for place, name in enumerate(tables, 1)}
    made: Iterator[ExperimentReport]
    if executor is None:
        made = (
            _report_of_experiment(tables[name], *places[name], progress[name]) for name in tables
        )
    else:
        asked = store.absolute(), where, uuid.uuid4().hex
        futures = [
            executor.submit(_report_elsewhere, asked, places[name], progress[name])
            for name in tables
        ]
        made = (future.result() for future in futures)
    experiments = list[ExperimentReport]()
    watch(f"Drawing {store.name}", 0.0)
    for one in made:
        experiments.append(replace(one, runs=tables[one.name]))
        watch(f"Drawing {store.name}: {one.name}", len(experiments) / len(tables))
    return StoreReport(
        name=tree.attrs["study_name"],
        description=tree.attrs["description"],
        study="".join(tree.attrs["studies"]),
        where=where,
        summary=_report_summary(experiments, progress.values()),
        experiments=experiments,
        failures=_report_failures(store),
        unfinished=[each for each in progress.values() if each.left],
        provenance=_report_provenance(store, tree.attrs, progress.values()),
        store=store.name,
        made=date_in_utc(datetime.datetime.now(datetime.UTC)),
    )


def _open(store: Store, where: str | None) -> tuple[xr.DataTree, dict[str, xr.Dataset]]:
    """The tree of a store, and its run tables without runs that left the study."""
    tree = open_study(store)
    tree = tree if where is None else query(tree, where)
    tables = {str(name): node.to_dataset() for name, node in tree.children.items()}
    return tree, {
        name: table.isel(run=np.flatnonzero(table["in_study"]))
        for name, table in tables.items()
        if table["in_study"].any()
    }


@functools.lru_cache(1)
def _open_once(store: Store, where: str | None, asked: str) -> dict[str, xr.Dataset]:
    """The run tables of a store as they were when a report was asked for."""
    return _open(store, where)[1]


def _report_elsewhere(
    asked: tuple[Store, str | None, str], place: tuple[int, int], progress: Progress
) -> ExperimentReport:
    """The contents of a report about an experiment, for another process, which has the runs."""
    runs = _open_once(*asked)[progress.experiment]
    return replace(_report_of_experiment(runs, *place, progress), runs=xr.Dataset())


def _report_of_experiment(
    runs: xr.Dataset, place: int, count: int, progress: Progress
) -> ExperimentReport:
    """Gather the contents of a report about an experiment, number `place` of `count`."""
    runs = load_if_small(runs)  # once for all answers and pictures
    words, sections = _unit_exponent_writer(runs), []
    drawn = _pictures_by_answer(runs, progress.experiment, place, count)
    not_drawn: list[Fact] = []
    for answer in ANSWERS.values():
        if not answer.suits(runs):
            continue
        rows, missing = _rows_of_answer(answer, runs)
        pictures, refused = drawn[answer.name]
        not_drawn += [] if missing else refused.items()
        if rows or pictures or missing:
            sentences = [words(sentence) for sentence in answer.summarize(rows)] if rows else []
            tables = [
                table_in_words(one, words) for one in (answer.tables(runs, rows) if rows else [])
            ]
            sections.append(Section(answer, rows, sentences, tables, pictures, missing))
    return ExperimentReport(
        name=progress.experiment,
        title=runs.attrs["title"].partition(": ")[2],
        anchor=f"experiment-{place}",
        runs=runs,
        sections=sections,
        not_drawn=not_drawn,
        progress=progress,
    )


def _pictures_by_answer(runs: xr.Dataset, name: str, place: int, count: int) -> dict[str, Drawn]:
    """The pictures of each answer that suits, as `_draw_pictures` draws them, or kept ones."""
    digest = digest_of_pictures(runs, ["report", name, str(place), str(count)])
    kept = find_in_cache(digest, digest)
    if kept is None:
        kept = {
            answer.name: _draw_pictures(answer, runs, name, place, count)
            for answer in ANSWERS.values()
            if answer.suits(runs)
        }
        put_into_cache(digest, digest, kept)
    return {
        of: ([(EmbeddedPicture(*picture), said) for picture, said in pictures], refused)
        for of, (pictures, refused) in kept.items()
    }


def _rows_of_answer(answer: Answer, runs: xr.Dataset) -> tuple[list[Any], str]:
    """The rows of an answer, or none and the reason."""
    if answer.analyse is None:
        return [], ""
    if why := answer.unasked(runs):
        return [], why
    try:
        return answer.analyse(runs), ""
    except InputError as error:
        return [], str(error)


def _draw_pictures(answer: Answer, runs: xr.Dataset, name: str, place: int, count: int) -> Drawn:
    """The pictures of an answer with captions, and what is missing for each kind without one."""
    families, pictures = _runs_by_family(runs), []
    kinds = sum(len(each.pictures) for each in ANSWERS.values())
    most = max_svg_bytes_per_picture(kinds * count * len(families))
    refused: dict[str, str] = {}
    for kind, text in answer.pictures.items():
        if kind == answer.name and answer.unasked(runs):
            continue
        drawn = []
        for i, (family, members) in enumerate(families.items()):
            said = f"{text} {family}." if family else text
            key = f"p{place}-{kind}-{i}"
            try:
                picture = draw_embedded_picture(kind, members, key, f"{name}: {said}", most)
            except InputError as error:
                refused.setdefault(kind, str(error))
            else:
                drawn.append((picture, said))
        pictures += drawn
        if drawn:
            refused.pop(kind, None)
    return pictures, refused


def _runs_by_family(runs: xr.Dataset) -> dict[str, xr.Dataset]:
    """Divide runs by family of integrators, if there are too many for one narrow picture."""
    families = panel_families_of_integrators(runs)
    names = list(dict.fromkeys(families.values()))
    if len(names) == 1:
        return {"": runs}
    family_of_run = np.array([families[label] for label in runs["integrator"].values])
    return {
        name[:1].upper() + name[1:]: take_runs(runs, np.flatnonzero(family_of_run == name))
        for name in names
    }


def _unit_exponent_writer(runs: xr.Dataset) -> Callable[[str], str]:
    """A function that raises the exponents of the dataset's units in a text."""
    every = {array.attrs.get("units", "1") for array in runs.variables.values()}
    units = sorted(every - {"1"}, key=len, reverse=True)

    def with_unit_exponents(text: str) -> str:
        for each in units:
            text = text.replace(each, units_with_superscripts(each))
        return text

    return with_unit_exponents


def table_in_words(table: Table, words: Callable[[str], str]) -> Table:
    """A table with its title and notes in other words."""
    return replace(table, title=words(table.title), notes=[words(note) for note in table.notes])


# --- what all experiments say together -------------------------------------------------------


def _report_summary(
    experiments: Sequence[ExperimentReport], progresses: Collection[Progress]
) -> list[str]:
    """Summarize the answers of all experiments, and say how many runs there are."""
    lines = []
    for answer in ANSWERS.values():
        found = [rows for one in experiments if (rows := one.rows(answer.name))]
        if len(found) == 1 or (found and answer.tabulate_one is None):
            lines += answer.summarize([row for rows in found for row in rows])[:1]
    runs, done = (sum(getattr(p, of) for p in progresses) for of in ("runs", "done"))
    failed = sum(p.failed for p in progresses)
    computed = f"{done:,} of {runs:,} runs are computed; "
    return [*lines, computed + (f"{failed:,} of them failed." if failed else "none failed.")]


def _report_failures(store: Store) -> list[tuple[list[str], Table]]:
    """For each experiment, what failed runs share, and a table of the first of them."""
    rows, shared = failed_runs(store, most=MOST_FAILURES), values_shared_by_failed_runs(store)
    found = []
    for name in dict.fromkeys(one.experiment for one in shared):
        mine = [row for row in rows if row["experiment"] == name]
        said = [one for one in shared if one.experiment == name]
        more = sum(one.failed for one in said) - len(mine)
        notes = (
            [f"… and {more:,} more: sweep status STORE --failures --all lists them."]
            if more
            else []
        )
        found.append(([str(one) for one in said], failures_as_table(mine, name, notes)))
    return found


def _report_provenance(
    store: Store, attributes: Mapping[Hashable, Any], progresses: Collection[Progress]
) -> list[Fact]:
    """The programs and machines that computed the store, and when."""
    used = dict(attributes["versions"])
    facts = [("Commit", used.pop("commit", "")), ("Versions", _names_and_values(used))]
    for host in attributes.get("hosts", []):
        words = [host["system"], host["kind"], count_with_noun(host["workers"], "worker")]
        facts.append((f"Host {host['host']}", ", ".join(filter(None, words))))
    for environment, one in attributes.get(provenance.ATTRIBUTE, {}).items():
        packages = _names_and_values({k: v for k, v in one.items() if k not in NO_PACKAGE})
        text = f"CPU {one['cpu']}, libm {one['libm']}, {one['system']}, {packages}"
        facts.append((f"Environment {environment}", text))
    places = (store.place, store.place / METADATA)
    there = (p for p in places if (p.is_file() if store.in_bucket else p.exists()))
    written = max((place.stat().st_mtime for place in there), default=0.0)
    facts += [
        ("CPU time of the runs", f"{sum(p.cpu_seconds for p in progresses):,.3g} s"),
        ("Store", store.name),
        ("Last written", date_in_utc(datetime.datetime.fromtimestamp(written, datetime.UTC))),
        ("Report made by", f"geosweep {provenance.versions()['geosweep']}"),
    ]
    return [(name, text) for name, text in facts if text]


def _names_and_values(values: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def date_in_utc(moment: datetime.datetime) -> str:
    """A date and time in UTC, as pages show it."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


# --- facts -----------------------------------------------------------------------------------


def facts_of_runs(runs: xr.Dataset) -> list[Fact]:
    """The settings of the runs of an experiment, in words."""
    return [(name, text) for name, text in _facts(runs) if text]


def _facts(runs: xr.Dataset) -> Iterator[Fact]:
    fixed = json.loads(runs.attrs["fixed"])
    words, system = runs.attrs["title"].partition(": ")[2], fixed["system"]
    yield "System", f"{words} ({system})" if words else system
    yield "Parameters", ", ".join(f"{k} = {v}" for k, v in fixed_parameter_captions(runs).items())
    for axis in scanned_axes(runs):
        yield f"Scanned: {axis}", _distinct_values_in_words(runs[axis])
    labels, _ = distinct_values_and_codes(runs["integrator"].values)
    yield f"Integrators ({len(labels)})", ", ".join(labels)
    yield "Step sizes", _distinct_values_in_words(runs["step_size"])
    yield "Tolerances", _distinct_values_in_words(runs["tolerance"])
    starts, _ = distinct_values_and_codes(runs["initial_condition"].values)
    first = ", ".join(starts[:4])
    yield "Starts", first if len(starts) <= 4 else f"{len(starts):,}: {first}, …"
    time = axis_label_with_units(runs["time"], f"{fixed['duration']:g}", "{} {}")
    yield "Duration", f"{time}, {count_with_noun(runs.sizes['time'] - 1, 'sample interval')}"
    yield "Recorded", ", ".join(fixed["record"])
    every = steps_between(fixed["statistics"])
    yield "Statistics", f"over {steps_in_words(every)}" if every else "of the samples alone"
    given = dict(fixed["reference"] or {})
    method = given.pop("integrator", "")
    settings = ", ".join(f"{k} = {format_number(v)}" for k, v in given.items())
    yield "Reference", f"{method} ({settings})" if method else "none"


def _distinct_values_in_words(coordinate: xr.DataArray) -> str:
    """The distinct values of a coordinate without NaN, or their number and range."""
    values, _ = distinct_values_and_codes(coordinate.values)
    if values.dtype.kind == "f":
        values = values[np.isfinite(values)]
    words = [format_number(float(v), 6) if values.dtype.kind == "f" else str(v) for v in values]
    if not words:
        return ""
    units = units_with_superscripts(coordinate.attrs.get("units", "1"))
    many = len(words) > MOST_VALUES
    text = f"{len(words)}, from {words[0]} to {words[-1]}" if many else ", ".join(words)
    return f"{text} {units}".rstrip()
