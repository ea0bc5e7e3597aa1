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
MOST_ROWS, MOST_NOTES = 200, 12  # in a table
MOST_OPEN = 60  # rows; longer tables are folded, and show only their number of rows


def report(
    store: str | Path | Store, output: str | Path | None = None, where: str | None = None
) -> Path:
    """Write a report on a store as one HTML file, which opens offline and prints well.

    The report holds the study, a summary, and for each experiment the tables and pictures of
    orders, drifts and all other answers for which there are results. If something is missing for an
    answer, it says what to add to the study. It also lists failures, unfinished runs and
    provenance. The file refers to nothing outside itself, and has no script.

    Parameters
    ----------
    store : str, Path or Store
    output : str or Path, optional
        The file to write; by default ``NAME-report.html`` beside the store.
    where : str, optional
        Use only the runs for which this expression holds, see `sweep.query`.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        If there is no store, it has a newer format, the expression holds for no run, or the file
        cannot be written.
    Damaged
        If a file of the store is damaged.

    Examples
    --------
    >>> sweep.report("quickstart.zarr")   # doctest: +SKIP
    PosixPath('quickstart-report.html')
    """
    store = Store.at(store)
    output = store.output_path("-report.html") if output is None else require_local_path(output)
    if output.is_dir():
        raise InputError(f"{output} is a directory; give a file, as report.html", key="output")
    if output.suffix.lower() not in ENDINGS:
        raise InputError(f"{output} is for HTML: give a name that ends in .html", key="output")
    text = report_as_html(gather_report(store, where))
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{output} cannot be written: {error.strerror}", key="output") from None
    return output


def report_as_html(found: StoreReport, atlas: str = "") -> str:
    """Render a report as HTML; `atlas` is the address of a page to link back to."""
    return render_page("report.html", atlas=atlas, **vars(found))


# --- templates -------------------------------------------------------------------------------


def render_page(template: str, stylesheet: str = "", **values: object) -> str:
    """Render a template as an HTML page.

    Parameters
    ----------
    template : str
        File name of the template.
    stylesheet : str, optional
        Address of the stylesheet, which is embedded in the page by default.
    **values
        Variables of the template.

    Returns
    -------
    str
    """
    text = _template_environment().get_template(template).render(stylesheet=stylesheet, **values)
    return escape_controls_in_lines(text.replace("\r\n", "\n").expandtabs())  # not allowed in HTML


def read_stylesheet() -> str:
    """The stylesheet of the pages."""
    return (HERE / "style.css").read_text(encoding="utf-8")


def _breakable_html(text: str) -> Markup:
    """Text as HTML, in which long names may be broken before a + and after a _."""
    return Markup(str(escape(text)).replace("+", "<wbr>+").replace("_", "_<wbr>"))


def _numeric_columns(table: Table) -> list[bool]:
    """Whether each column of a table holds numbers, to be aligned right; never the first one."""
    return [
        i > 0 and all(c[:1] in "–±≤" or c.lstrip("+-−.")[:1].isdigit() for c in cells)
        for i, cells in enumerate(zip(*table.rows, strict=True))
    ] or [False] * len(table.headers)


@functools.cache
def _template_environment() -> jinja2.Environment:
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
