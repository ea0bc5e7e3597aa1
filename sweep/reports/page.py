"""`sweep.report`: a store as one HTML file."""

import datetime
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from integrators.errors import InputError
from sweep.analysis import query
from sweep.reports.contents import report_part_of_experiment, table_on_report_page
from sweep.reports.sections import LOOKS, SECTIONS
from sweep.store import files, provenance
from sweep.store.backends.places import require_local_path
from sweep.store.failures import failed_runs, values_shared_by_failed_runs
from sweep.store.open import open_study
from sweep.store.progress import Counter
from sweep.store.store import Store
from sweep.study.model import join_study_texts
from sweep.tables import Table
from sweep.text import escape_controls_in_lines, format_number

ENDINGS = (".html", ".htm")
NO_PACKAGE = ("cpu", "libm", "system", "commit")  # of what an environment says
MOST_FAILURES = 20  # of an experiment that are listed
MOST_OPEN = 60  # rows; of longer tables the page shows how many there are, and all when asked


def report(store, output=None, where=None):
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
    text = report_as_html(store, where)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{output} cannot be written: {error.strerror}", key="output") from None
    return output


def report_as_html(store, where=None):
    """The report of a store as HTML, see `report`."""
    tree = open_study(store)
    tree = tree if where is None else query(tree, where)
    progress = {each.experiment: each for each in _report_progress(store)}
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
    text = _report_template().render(
        name=tree.attrs.get("study_name", store.place.stem),
        description=tree.attrs.get("description", ""),
        study=join_study_texts(tree.attrs.get("studies", [])),
        where=where,
        summary=_report_summary(experiments, progress.values()),
        experiments=experiments,
        failures=_report_failures(store),
        unfinished=[each for each in progress.values() if each.left],
        provenance=_report_provenance(store, tree.attrs, progress.values()),
        store=store.name,
        style=_read_report_asset("style.css"),
        looks=LOOKS,
        most_open=MOST_OPEN,
        made=_report_date(datetime.datetime.now(datetime.UTC)),
    )
    return escape_controls_in_lines(text.replace("\r\n", "\n").expandtabs())  # HTML has no others


def _report_progress(store):
    with store.naming_damage():
        return Counter(store).count()


# --- what all experiments say together -------------------------------------------------------


def _report_summary(experiments, progresses):
    """The answers in short, of all experiments together, and how many runs there are."""
    lines = []
    for section in SECTIONS:
        answers = [of for one in experiments if (of := one.answers.get(section.title))]
        if section.together or len(answers) == 1:
            lines += section.sentences(answers)[:1]
    runs, done = (sum(getattr(p, of) for p in progresses) for of in ("runs", "done"))
    failed = sum(p.failed for p in progresses)
    computed = f"{done:,} of {runs:,} runs are computed; "
    return [*lines, computed + (f"{failed:,} of them failed." if failed else "none failed.")]


def _report_failures(store):
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


def _report_provenance(store, attributes, progresses):
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
            for file in (place, place / files.METADATA)
            if (file.is_file() if store.in_bucket else file.exists())
        ),
        default=0.0,
    )
    seconds = sum(p.cpu_seconds for p in progresses)
    facts += [
        ("CPU time of the runs", f"{seconds:,.3g} s"),
        ("Store", store.name),
        ("Last written", _report_date(datetime.datetime.fromtimestamp(written, datetime.UTC))),
        ("Report made by", f"geosweep {provenance.versions()['geosweep']}"),
    ]
    return [(name, text) for name, text in facts if text]


def _report_date(moment):
    return f"{moment:%Y-%m-%d %H:%M} UTC"


# --- template --------------------------------------------------------------------------------


def _read_report_asset(name):
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _breakable_html(text):
    """Text whose long names may be broken before a + and behind a _."""
    return Markup(str(escape(text)).replace("+", "<wbr>+").replace("_", "_<wbr>"))


def _report_template():
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["breakable"] = _breakable_html
    return environment.from_string(_read_report_asset("template.html"))
