"""`sweep reproduce`: compare numbers printed in a paper with recomputed ones."""

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
from sweep.cli.main import DOES_NOT_HOLD
from sweep.cli.options import Count, command, remaining_max_time
from sweep.cli.output import echo
from sweep.store.backends.places import require_local_path

if TYPE_CHECKING:
    import xarray as xr


@command
def reproduce(
    paper: str,
    only: tuple[str, ...],
    plots: bool,
    output: str | None,
    keep: str | None,
    workers: Count | None,
    max_time: float | None,
    as_json: bool,
    step_factor: float = 1.0,
) -> None:
    """Recompute every number that PAPER prints of its results, and compare it with the paper's.

    Papers: lee (Lee, Leok and McClamroch on two-spheres), mclachlan (McLachlan, Modin and Verdier
    on spins) and celledoni (Celledoni, Çokaj, Leone, Murari and Owren on Lie group methods). For
    each number, the table says how well it agrees: in all digits, within the range of an ensemble,
    in order of magnitude, in behaviour, or not. Exit code 3: a number is outside its bounds; 4:
    interrupted. With --keep, the same command resumes after an interruption.

    \b
    Example:
      sweep reproduce lee --plots
      sweep reproduce lee --only figure-3.2 --plots

    Options:
      --only PART  Compute only this part or figure, such as figure-3.2 or 'Example 1'; repeatable.
      --plots  Also draw the counterparts of the paper's figures.
      -o, --output DIR  Directory of the plots; by default ./PAPER-plots.
      --keep DIR  Keep the stores in DIR, and resume from the stores in it.
      --step-factor X  Multiply every step size by X.
      --workers N  Number of local processes; by default one per core.
    """
    check_known("paper", paper, sweep.papers.PAPERS, key="PAPER")
    chosen = sweep.papers.PAPERS[paper].only(only)
    plots = plots or not chosen.claims  # a figure without numbers
    directory = require_local_path(output or f"{paper}-plots")
    if plots:
        _check_directory(directory, "output")
    if keep is not None:
        _check_directory(require_local_path(keep), "keep")
    with contextlib.ExitStack() as stack:
        stores = keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="geosweep-"))
        rows, datasets = sweep.reproduce(
            chosen,
            require_local_path(stores).absolute(),
            step_factor=step_factor,
            workers=workers,
            pictures=plots,
            max_time=remaining_max_time(max_time),
            told=lambda name: click.echo(f"Running {name}", err=True),
        )
        if rows or as_json:
            text = sweep.papers.claims_as_table(rows) if rows else ""
            echo(sweep.tables.table_rows_for_json(rows), text, as_json)
        if plots:
            for path in _save_paper_plots(chosen, datasets, directory):
                click.echo(path, err=as_json)
    if step_factor != 1.0:
        text = f"Step sizes are multiplied by {step_factor:g}; bounds are for the original ones"
        click.echo(text, err=True)
    if not all(row.holds for row in rows):
        sys.exit(DOES_NOT_HOLD)


def _check_directory(path: Path, key: str) -> None:
    """Raise `InputError`, before anything is computed, if a directory cannot be created."""
    above = path.absolute()
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        raise InputError(f"`{key}` {path}: {above} is a file; expected a directory", key=key)
    if not os.access(above, os.W_OK | os.X_OK):
        raise InputError(f"{path} cannot be written: {above} is not writable", key=key)


def _save_paper_plots(
    paper: "sweep.papers.Paper", datasets: "Mapping[str, Mapping[str, xr.Dataset]]", directory: Path
) -> Iterator[Path]:
    directory.mkdir(parents=True, exist_ok=True)
    for name in paper.pictures:
        figure = sweep.papers.draw_figure(paper, name, datasets)
        yield sweep.plots.save(figure, directory / f"{paper.name}-{name}.png")
