"""`sweep report`: a store as one HTML file, or several as a site of certificates."""

from typing import TYPE_CHECKING

import click

import sweep
from integrators.errors import InputError
from sweep.cli.common import echo_json, json_option, where_option
from sweep.cli.run import Terminal, exit_by_outcome, print_run_outcome

if TYPE_CHECKING:
    from sweep.store.store import Store
    from sweep.study.study import Study


@click.command("report")
@click.argument("stores", metavar="STORE...", nargs=-1, required=True, type=click.Path())
@where_option
@click.option(
    "--output", "-o", metavar="FILE", help="Where to; NAME-report.html beside the store if not."
)
@click.option("--site", metavar="DIR", help="Write certificates as static pages below DIR.")
@click.option(
    "--workers", type=click.IntRange(min=1), help="With --site, local processes; one a core."
)
@json_option
def command(
    stores: tuple[str, ...],
    where: str | None,
    output: str | None,
    site: str | None,
    workers: int | None,
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
        result = {"report": str(sweep.report(stores[0], output, where))}
    else:
        if output is not None:
            raise InputError("give either --output or --site", key="output")
        sweep.reports.check_site_directory(site)
        asked = [_study_and_store(store) for store in stores]
        for study, place in asked:
            if study is not None:
                _run_into(study, place, workers)
        complete = [place for _, place in asked]
        index = sweep.report_site(
            complete, site, where, lambda store: click.echo(f"Reading {store}", err=True)
        )
        result = {"site": str(index)}
    if as_json:
        echo_json(result)
    else:
        click.echo("\n".join(result.values()))


def _study_and_store(store: str) -> "tuple[Study | None, Store]":
    """A store, and the study that is run into it first where `store` names a study."""
    if sweep.store.names_existing_store(store):
        return None, sweep.Store.at(store)
    study, opened = sweep.store.resolve_study_and_store(store)
    return study, opened


def _run_into(study: "Study", store: "Store", workers: int | None) -> None:
    """Complete a store, or exit as `sweep run` does."""
    click.echo(f"Store: {store}", err=True)
    outcome = sweep.run(study, store, workers=workers, watcher=Terminal(study.name, err=True))
    if not outcome.complete:
        print_run_outcome(outcome)
        exit_by_outcome(outcome)
