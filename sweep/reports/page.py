"""`sweep.report`: a store as one HTML file."""

import functools
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from integrators.errors import InputError
from sweep.reports.gather import StoreReport, gather_report
from sweep.store.backends.places import require_local_path
from sweep.store.store import Store
from sweep.tables import Table
from sweep.tables.answers import LOOKS
from sweep.text import escape_controls_in_lines

HERE = Path(__file__).parent
ENDINGS = (".html", ".htm")
MOST_ROWS, MOST_NOTES = 200, 12  # of a table
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


def report_as_html(found: StoreReport, certificates: str = "") -> str:
    """A report as HTML; `certificates` is the address of a page that it links back to."""
    return render_page("report.html", certificates=certificates, **vars(found))


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
    text = _templates().get_template(template).render(stylesheet=stylesheet, **values)
    return escape_controls_in_lines(text.replace("\r\n", "\n").expandtabs())  # HTML has no others


def read_stylesheet() -> str:
    """The style of the pages."""
    return (HERE / "style.css").read_text(encoding="utf-8")


def _breakable_html(text: str) -> Markup:
    """Text whose long names may be broken before a + and behind a _."""
    return Markup(str(escape(text)).replace("+", "<wbr>+").replace("_", "_<wbr>"))


def _numeric_columns(table: Table) -> list[bool]:
    """Which columns of a table are of numbers, which stand to the right; never the first."""
    return [
        i > 0 and all(c[:1] in "–±≤" or c.lstrip("+-−.")[:1].isdigit() for c in cells)
        for i, cells in enumerate(zip(*table.rows, strict=True))
    ] or [False] * len(table.headers)


@functools.cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"style": read_stylesheet(), "looks": LOOKS, "most_open": MOST_OPEN}
    environment.globals |= {"most_rows": MOST_ROWS, "most_notes": MOST_NOTES}
    environment.filters |= {"breakable": _breakable_html, "numeric_columns": _numeric_columns}
    return environment
