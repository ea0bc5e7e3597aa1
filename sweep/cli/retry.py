"""`sweep retry`: runs that failed, once more."""

import click

import sweep
from sweep.cli.common import run_options, store_argument, trust_option
from sweep.cli.run import Terminal, print_outcome_and_exit
from sweep.store.store import Store


@click.command("retry")
@store_argument
@click.option("--where", default="", metavar="QUERY", help="Only runs for which this holds.")
@click.option(
    "--status", "among", multiple=True, metavar="STATUS", help="Only of this; repeatable."
)
@run_options
@trust_option
def command(store, where, among, trust_plugins, options):
    """Run those runs of STORE again that failed, by the study that the store keeps.

    Files of initial states that the study names are looked for in the current directory.

    \b
    Example:
      sweep retry quickstart.zarr
      sweep retry quickstart.zarr --status not_converged --where "step_size < 0.1"
    """
    options |= {
        "trust_plugins": trust_plugins,
        "watcher": Terminal(Store.at(store).attributes.get("study_name")),
    }
    outcome = sweep.retry(store, where, among, chosen=_echo_retried_runs, **options)
    if outcome is not None:
        print_outcome_and_exit(outcome)


def _echo_retried_runs(rows):
    if not rows:
        click.echo("No run that failed is to be tried again.")
    for name, mine in rows.items():
        click.echo(f"{name}: {len(mine):,} runs that failed are tried again")
