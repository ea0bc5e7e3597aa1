"""`sweep.report`: a store as one HTML file."""

import datetime
import functools
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import xarray as xr
from markupsafe import Markup, escape

from integrators.errors import InputError
from sweep.analysis import query
from sweep.reports.contents import (
    ExperimentPart,
    TablePart,
    report_part_of_experiment,
    table_on_report_page,
)
from sweep.store import provenance
from sweep.store.backends.places import METADATA, require_local_path
from sweep.store.failures import failed_runs, values_shared_by_failed_runs
from sweep.store.open import open_study
from sweep.store.progress import Counter, Progress
from sweep.store.store import Store
from sweep.tables import Table
from sweep.tables.answers import ANSWERS, LOOKS
from sweep.text import escape_controls_in_lines, format_number

HERE = Path(__file__).parent
ENDINGS = (".html", ".htm")
NO_PACKAGE = ("cpu", "libm", "system", "commit")  # of what an environment says
MOST_FAILURES = 20  # of an experiment that are listed
MOST_OPEN = 60  # rows; of longer tables the page shows how many there are, and all when asked


def report(
    store: str | Path | Store, output: str | Path | None = None, where: str | None = None
) -> Path:
    """Write what a store answers as one HTML file, which opens offline and prints well.

    It holds the study, the answers in short, and of each experiment the tables and pictures of
    orders, drifts and what else it has the results for; failures, unfinished runs and provenance.
    What is missing for an answer is said, with what to add to the study. The file refers to
    nothing outside of it, and has no script.

    Parameters
    ----------
    store : str, Path or Store
    output : str or Path, optional
        Where to; beside the store, ``NAME-report.html``, unless given.
    where : str, optional
        Tables and pictures are of the runs for which this expression holds, see `sweep.query`.

    Returns
    -------
    Path
        Of the file.

    Raises
    ------
    InputError
        If there is no store, or one of a newer version or a damaged one, if the expression holds
        for no run, or if the file cannot be written.

    Examples
    --------
    >>> sweep.report("quickstart.zarr")   # doctest: +SKIP
    PosixPath('quickstart-report.html')
    """
    store = Store.at(store)
    output = store.product("-report.html") if output is None else require_local_path(output)
    if output.is_dir():
        raise InputError(f"{output} is a directory; give a file, as report.html", key="output")
    if output.suffix.lower() not in ENDINGS:
        raise InputError(f"{output} is to be HTML: give a name that ends in .html", key="output")
    text = report_as_html(gather_report(store, where))
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{output} cannot be written: {error.strerror}", key="output") from None
    return output


@dataclass(frozen=True)
class StoreReport:
    """What a report says of a store.

    Attributes
    ----------
    name, description : str
        Of the study.
    study : str
        The study as written.
    where : str or None
        The expression that chose the runs.
    summary : list of str
        The answers of all experiments together.
    experiments : list of ExperimentPart
    failures : list of (list of str, TablePart)
        What failed runs share, and the first of them, by experiment.
    unfinished : list of Progress
        Experiments with runs that are not computed.
    provenance : list of (str, str)
    store : str
        Its file name.
    made : str
        When the report was made.
    run_tables : dict of str to xarray.Dataset
        The runs of each experiment.
    """

    name: str
    description: str
    study: str
    where: str | None
    summary: list[str]
    experiments: list[ExperimentPart]
    failures: list[tuple[list[str], TablePart]]
    unfinished: list[Progress]
    provenance: list[tuple[str, str]]
    store: str
    made: str
    run_tables: dict[str, xr.Dataset]


def gather_report(store: Store, where: str | None = None) -> StoreReport:
    """What a report says of a store, see `report`."""
    tree = open_study(store)
    tree = tree if where is None else query(tree, where)
    progress = {each.experiment: each for each in Counter(store).count()}
    tables = {str(name): node.to_dataset() for name, node in tree.children.items()}
    tables = {
        name: table.isel(run=table["in_study"].values.astype(bool))
        for name, table in tables.items()
    }
    tables = {name: table for name, table in tables.items() if table.sizes["run"]}
    experiments = [
        report_part_of_experiment(table, name, place, len(tables), progress.get(name))
        for place, (name, table) in enumerate(tables.items(), 1)
    ]
    return StoreReport(
        name=tree.attrs.get("study_name", store.place.stem),
        description=tree.attrs.get("description", ""),
        study="".join(tree.attrs.get("studies", [])),
        where=where,
        summary=_report_summary(experiments, progress.values()),
        experiments=experiments,
        failures=_report_failures(store),
        unfinished=[each for each in progress.values() if each.left],
        provenance=_report_provenance(store, tree.attrs, progress.values()),
        store=store.name,
        made=date_in_utc(datetime.datetime.now(datetime.UTC)),
        run_tables=tables,
    )


def report_as_html(found: StoreReport, certificates: str = "") -> str:
    """A report as HTML; `certificates` is the address of a page that it links back to."""
    return render_page("report.html", certificates=certificates, **vars(found))


# --- what all experiments say together -------------------------------------------------------


def _report_summary(
    experiments: Sequence[ExperimentPart], progresses: Collection[Progress]
) -> list[str]:
    """The answers in short, of all experiments together, and how many runs there are."""
    lines = []
    for answer in ANSWERS.values():
        found = [rows for one in experiments if (rows := one.answers.get(answer.name))]
        if len(found) == 1 or (found and answer.tabulate_one is None):
            lines += answer.summarize([row for rows in found for row in rows])[:1]
    runs, done = (sum(getattr(p, of) for p in progresses) for of in ("runs", "done"))
    failed = sum(p.failed for p in progresses)
    computed = f"{done:,} of {runs:,} runs are computed; "
    return [*lines, computed + (f"{failed:,} of them failed." if failed else "none failed.")]


def _report_failures(store: Store) -> list[tuple[list[str], TablePart]]:
    """What failed runs share, and the first of them, by experiment."""
    rows, shared = failed_runs(store, most=MOST_FAILURES), values_shared_by_failed_runs(store)
    found = []
    for name in dict.fromkeys(one.experiment for one in shared):
        mine = [row for row in rows if row["experiment"] == name]
        wanted = [
            key
            for key in mine[0]
            if key != "experiment" and any(format_number(row[key]) not in ("–", "") for row in mine)
        ]
        cells = [[format_number(row[key], 5) for key in wanted] for row in mine]
        said = [one for one in shared if one.experiment == name]
        more = sum(one.failed for one in said) - len(mine)
        notes = [f"… and {more:,} more: sweep failures STORE --all lists them."] if more else []
        table = Table([key.replace("_", " ") for key in wanted], cells, name, notes)
        found.append(([str(one) for one in said], table_on_report_page(table)))
    return found


def _report_provenance(
    store: Store, attributes: Mapping[Hashable, Any], progresses: Collection[Progress]
) -> list[tuple[str, str]]:
    """Which program made the store, where and when, as pairs."""
    used = dict(attributes.get("versions", {}))
    facts = [("Commit", used.pop("commit", ""))]
    facts.append(("Versions", ", ".join(f"{name} {v}" for name, v in used.items())))
    for host in attributes.get("hosts", []):
        workers = host.get("workers", 0)
        words = [host.get("system", ""), host.get("kind", "")]
        words.append(f"{workers} worker{'s' * (workers != 1)}")
        facts.append((f"Host {host.get('host', '')}", ", ".join(filter(None, words))))
    for environment, one in attributes.get("environments", {}).items():
        packages = ", ".join(f"{name} {one[name]}" for name in one if name not in NO_PACKAGE)
        text = f"CPU {one['cpu']}, libm {one['libm']}, {one['system']}, {packages}"
        facts.append((f"Environment {environment}", text))
    place = store.place
    written = max(
        (
            file.stat().st_mtime
            for file in (place, place / METADATA)
            if (file.is_file() if store.in_bucket else file.exists())
        ),
        default=0.0,
    )
    seconds = sum(p.cpu_seconds for p in progresses)
    facts += [
        ("CPU time of the runs", f"{seconds:,.3g} s"),
        ("Store", store.name),
        ("Last written", date_in_utc(datetime.datetime.fromtimestamp(written, datetime.UTC))),
        ("Report made by", f"geosweep {provenance.versions()['geosweep']}"),
    ]
    return [(name, text) for name, text in facts if text]


def date_in_utc(moment: datetime.datetime) -> str:
    """A moment as pages show it."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


# --- templates -------------------------------------------------------------------------------


def render_page(template: str, stylesheet: str = "", **values: object) -> str:
    """One of the templates as a page of HTML.

    Parameters
    ----------
    template : str
        Its file name.
    stylesheet : str, optional
        The address of its style, which is part of the page unless given.
    **values
        What it shows.
    """
    text = (
        _templates()
        .get_template(template)
        .render(
            stylesheet=stylesheet,
            style=read_stylesheet(),
            looks=LOOKS,
            most_open=MOST_OPEN,
            **values,
        )
    )
    return escape_controls_in_lines(text.replace("\r\n", "\n").expandtabs())  # HTML has no others


def read_stylesheet() -> str:
    """The style of the pages."""
    return (HERE / "style.css").read_text(encoding="utf-8")


def _breakable_html(text: str) -> Markup:
    """Text whose long names may be broken before a + and behind a _."""
    return Markup(str(escape(text)).replace("+", "<wbr>+").replace("_", "_<wbr>"))


@functools.cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = _breakable_html
    return environment
