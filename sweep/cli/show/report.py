"""`sweep report`: write a store as one HTML page."""

import sweep
from sweep.cli.options import command
from sweep.cli.output import echo


@command
def report(store: str, where: str | None, output: str | None, as_json: bool) -> None:
    """Write the results of STORE as one HTML file: tables, pictures, failures, provenance.

    The file needs no network and can be printed. If an analysis lacks results, the file says what
    to add to the study.

    \b
    Example:
      sweep report quickstart.zarr
      sweep report quickstart.zarr -o rk4.html --where "integrator == 'rk4'"

    Options:
      -o, --output FILE  HTML file to write; by default NAME-report.html beside the store.
    """
    written = sweep.report(store, output, where)
    echo({"report": str(written)}, written, as_json)
