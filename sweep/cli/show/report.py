"""`sweep report`: a store as one HTML file, or several as a site of certificates."""

from typing import Annotated

import click

import sweep
from integrators.errors import InputError
from sweep.cli.options import Click, Count, Files, command
from sweep.cli.output import echo
from sweep.cli.terminal import Terminal, end
from sweep.store.store import Store


@command
def report(
    stores: Annotated[Files, Click(metavar="STORE...")],
    where: str | None,
    output: str | None,
    site: str | None,
    workers: Count | None,
    as_json: bool,
) -> None:
    """Write what STORE answers as one HTML file: tables, pictures, failures, provenance.

    It opens offline, on a telephone too, and prints well. What is missing for an answer is said,
    with what to add to the study.

    With --site, write certificates of what one or more stores show of each integrator on each
    system: its order, drift, defects and work, with a page that leads to the runs and the study.
    There STORE may be a study, a file or a packaged study's name: what its store lacks is run
    first, as by sweep run.

    \b
    Example:
      sweep report quickstart.zarr
      sweep report quickstart.zarr -o rk4.html --where "integrator == 'rk4'"
      sweep report --site certificates all-orders all-properties round-off

    Options:
      -o, --output FILE  Where to; NAME-report.html beside the store if not.
      --site DIR  Write certificates as static pages below DIR.
      --workers N  With --site, local processes; one a core.
    """
    if site is None:
        if len(stores) > 1:
            raise InputError(
                f"{len(stores)} stores are given, and a report is of one: give --site DIR for "
                "certificates of several",
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
    """A store; of a study, one that it has been run into, or an exit as of `sweep run`."""
    if sweep.store.names_existing_store(store):
        return Store.at(store)
    study, opened = sweep.store.resolve_study_and_store(store)
    click.echo(f"Store: {opened}", err=True)
    outcome = sweep.run(study, opened, workers=workers, watcher=Terminal(study.name, err=True))
    if not outcome.complete:
        end(outcome)
    return Store.at(opened)
