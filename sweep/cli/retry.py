"""`sweep retry`: compute failed runs again."""

from collections.abc import Mapping, Sized
from typing import Any

import click

import sweep
from sweep.cli.common import echo_json, json_option, run_options, store_argument, trust_option
from sweep.cli.run import Terminal, print_outcome_and_exit
from sweep.store.store import Store


@click.command("retry")
@store_argument
@click.option(
    "--where",
    default="",
    metavar="EXPR",
    help="Only runs for which this holds; an EXPRESSION of sweep query.",
)
@click.option(
    "--status",
    "among",
    multiple=True,
    metavar="STATUS",
    help="Only runs with this status; repeatable.",
)
@run_options
@trust_option
@json_option
def command(
    store: str,
    where: str,
    among: tuple[str, ...],
    trust_plugins: bool,
    as_json: bool,
    options: dict[str, Any],
) -> None:
    """Compute the failed runs of STORE again, by the study that the store keeps.

    Files of initial states that the study names are looked for in the current directory.

    \b
    Example:
      sweep retry quickstart.zarr
      sweep retry quickstart.zarr --status not_converged --where "step_size < 0.1"
    """
    options |= {
        "trust_plugins": trust_plugins,
        "watcher": Terminal(Store.at(store).attributes.get("study_name"), as_json),
    }

    def echo_chosen(rows: Mapping[str, Sized]) -> None:
        if not rows:
            click.echo("No run that failed is to be tried again.", err=as_json)
        for name, failed in rows.items():
            click.echo(f"{name}: {len(failed):,} runs that failed are tried again", err=as_json)

    outcome = sweep.retry(store, where, among, chosen=echo_chosen, **options)
    if outcome is not None:
        print_outcome_and_exit(outcome, as_json)
    elif as_json:
        echo_json({"store": str(store), "experiments": []})
