"""`sweep retry`: runs that failed, once more."""

import functools

import click

import sweep
from sweep.cli.common import echo_json, json_option, run_options, store_argument, trust_option
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
@json_option
def command(store, where, among, trust_plugins, as_json, options):
    """Run those runs of STORE again that failed, by the study that the store keeps.

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
    echo_chosen = functools.partial(_echo_retried_runs, err=as_json)
    outcome = sweep.retry(store, where, among, chosen=echo_chosen, **options)
    if outcome is not None:
        print_outcome_and_exit(outcome, as_json)
    elif as_json:
        echo_json({"store": str(store), "experiments": []})


def _echo_retried_runs(rows, err):
    if not rows:
        click.echo("No run that failed is to be tried again.", err=err)
    for name, mine in rows.items():
        click.echo(f"{name}: {len(mine):,} runs that failed are tried again", err=err)
