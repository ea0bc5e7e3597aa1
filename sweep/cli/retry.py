"""`sweep retry`: runs that failed, once more."""

import sys

import click

from sweep.cli.common import store_argument
from sweep.cli.main import DOES_NOT_HOLD, INCOMPLETE


@click.command("retry")
@store_argument
@click.option("--where", default="", metavar="QUERY", help="Only runs for which this holds.")
@click.option(
    "--status", "among", multiple=True, metavar="STATUS", help="Only of this; repeatable."
)
@click.option("--workers", type=click.IntRange(min=1), help="Local processes; one a core.")
@click.option("--scheduler", metavar="ADDRESS", help="A running Dask scheduler, tcp://host:8786.")
def command(store, where, among, workers, scheduler):
    """Run those runs of STORE again that failed, by the study that the store keeps.

    Files of initial states that the study names are looked for in the current directory.

    \b
    Example:
      sweep retry quickstart.zarr
      sweep retry quickstart.zarr --status not_converged --where "step_size < 0.1"
    """
    if workers is not None and scheduler is not None:
        raise click.UsageError("--workers is for a local cluster: not together with --scheduler")
    from sweep.cli.run import Terminal, print_outcome
    from sweep.extending import stored_study
    from sweep.retrying import retry

    outcome = retry(
        store,
        where,
        among,
        chosen=_say,
        workers=workers,
        scheduler=scheduler,
        watcher=Terminal(stored_study(store).name),
    )
    if outcome is None:
        return
    print_outcome(outcome)
    if not outcome.complete:
        sys.exit(INCOMPLETE)
    if outcome.failed:
        sys.exit(DOES_NOT_HOLD)


def _say(rows):
    if not rows:
        click.echo("No run that failed is to be tried again.")
    for name, mine in rows.items():
        click.echo(f"{name}: {len(mine):,} runs that failed are tried again")
