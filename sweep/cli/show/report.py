"""`sweep report`: write one store as an HTML page, or several as a site of certificates."""

from typing import Annotated

import click

import sweep
from integrators.errors import InputError
from sweep.cli.options import ClickSettings, Count, Files, command
from sweep.cli.output import echo
from sweep.cli.terminal import Terminal, finish_command
from sweep.store.store import Store


@command
def report(
    stores: Annotated[Files, ClickSettings(metavar="STORE...")],
    where: str | None,
    output: str | None,
    site: str | None,
    workers: Count | None,
    as_json: bool,
) -> None:
    """Write the results of STORE as one HTML file: tables, pictures, failures, provenance.

    The file needs no network and can be printed. If an analysis lacks results, the file says what
    to add to the study.

    With --site, write certificates of each integrator on each system, from one or more stores: its
    order, drift, structure defects and work, with an index page and links to the runs and the
    study. Here STORE may also be a study, a file or a packaged study's name; runs that its store
    lacks are computed first, as by sweep run.

    \b
    Example:
      sweep report quickstart.zarr
      sweep report quickstart.zarr -o rk4.html --where "integrator == 'rk4'"
      sweep report --site certificates all-orders all-properties round-off

    Options:
      -o, --output FILE  HTML file to write; by default NAME-report.html beside the store.
      --site DIR  Write certificates as static pages to DIR.
      --workers N  With --site: number of local processes; by default one per core.
    """
    if site is None:
        if len(stores) > 1:
            raise InputError(
                f"{len(stores)} stores are given, but a report is about one store; give --site "
                "DIR for certificates of several",
                key="STORE",
            )
        if workers is not None:
            raise InputError("--workers is for --site, which runs studies", key="workers")
        written = sweep.report(stores[0], output, where)
        echo({"report": str(written)}, written, as_json)
        return
    if output is not None:
        raise InputError("give either --output or --site", key="output")
    sweep.reports.check_site_directory(site)
    complete = [_completed(store, workers) for store in stores]
    index = sweep.report_site(
        complete, site, where, lambda store: click.echo(f"Reading {store}", err=True)
    )
    echo({"site": str(index)}, index, as_json)


def _completed(store: str, workers: int | None) -> Store:
    """A store, or the completed store of a study; exit as `sweep run` if it is not complete."""
    if sweep.store.names_existing_store(store):
        return Store.at(store)
    study, opened = sweep.store.resolve_study_and_store(store)
    click.echo(f"Store: {opened}", err=True)
    outcome = sweep.run(study, opened, workers=workers, watcher=Terminal(study.name, err=True))
    if not outcome.complete:
        finish_command(outcome)
    return Store.at(opened)
