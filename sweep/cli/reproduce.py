"""`sweep reproduce`: numbers printed in a paper beside those computed here."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

import sweep
from integrators.errors import InputError, check_known
from sweep.cli.common import echo_json, json_option, max_time_option, remaining_max_time
from sweep.cli.main import DOES_NOT_HOLD
from sweep.store.backends.places import require_local_path

if TYPE_CHECKING:
    import xarray as xr


@click.command("reproduce")
@click.argument("paper")
@click.option("--plots", is_flag=True, help="Also draw the counterparts of the paper's figures.")
@click.option(
    "--output", "-o", metavar="DIR", help="Directory of the plots; by default ./PAPER-plots."
)
@click.option("--keep", metavar="DIR", help="Keep the stores in DIR, and resume from stores there.")
@click.option(
    "--step-factor", type=float, default=1.0, metavar="X", help="Multiply every step size by X."
)
@click.option(
    "--workers", type=click.IntRange(min=1), help="Local processes; by default one per core."
)
@max_time_option
@json_option
def command(
    paper: str,
    plots: bool,
    output: str | None,
    keep: str | None,
    step_factor: float,
    workers: int | None,
    max_time: float | None,
    as_json: bool,
) -> None:
    """Compute every number that PAPER prints of its results, and set it beside the printed one.

    Papers: lee (Lee, Leok and McClamroch on two-spheres), mclachlan (McLachlan, Modin and Verdier
    on spins) and celledoni (Celledoni, Çokaj, Leone, Murari and Owren on Lie group methods). Every
    number is computed anew, with how far it agrees: in all digits, within the range of an
    ensemble, in the order of magnitude, in behaviour, or not. Exit code 3: a number is outside its
    bounds, 4: interrupted, and with --keep the same command goes on.

    \b
    Example:
      sweep reproduce lee --plots
    """
    check_known("paper", paper, sweep.papers.PAPERS, key="PAPER")
    directory = require_local_path(output or f"{paper}-plots")
    if plots:
        _check_output_directory(directory)
    with contextlib.ExitStack() as stack:
        stores = keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="geosweep-"))
        rows, datasets = sweep.reproduce(
            sweep.papers.PAPERS[paper],
            require_local_path(stores).absolute(),
            step_factor=step_factor,
            workers=workers,
            pictures=plots,
            max_time=remaining_max_time(max_time),
            told=lambda name: click.echo(f"Running {name}", err=True),
        )
        if as_json:
            echo_json(sweep.tables.table_rows_for_json(rows))
        else:
            click.echo(sweep.papers.claims_as_table(rows))
        if plots:
            for path in _save_paper_plots(paper, datasets, directory):
                click.echo(path, err=as_json)
    if step_factor != 1.0:
        text = f"Step sizes are multiplied by {step_factor:g}; the bounds are those of the original"
        click.echo(text, err=True)
    if not all(row.holds for row in rows):
        sys.exit(DOES_NOT_HOLD)


def _check_output_directory(path: Path) -> None:
    """Raise `InputError` for a directory that cannot be made, before anything is computed."""
    above = path.absolute()
    while not above.exists():
        above = above.parent
    if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
        raise InputError(f"{path} cannot be written: {above} is not writable", key="output")


def _save_paper_plots(
    paper: str, datasets: "Mapping[str, xr.Dataset]", directory: Path
) -> Iterator[Path]:
    directory.mkdir(parents=True, exist_ok=True)
    for name, draw in sweep.papers.FIGURES[paper].items():
        yield sweep.plots.save(draw(datasets), directory / f"{paper}-{name}.png")
