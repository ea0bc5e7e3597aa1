"""`sweep extend`: the runs of a store go on."""

import sys

import click

from sweep.cli.common import experiment_option, store_argument
from sweep.cli.main import DOES_NOT_HOLD, INCOMPLETE


@click.command("extend")
@store_argument
@click.option("--duration", type=float, required=True, help="To which runs go on.")
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    metavar="N",
    help="Sample intervals from the present end on, as long as before or longer; unless given, as "
    "long as the last one.",
)
@experiment_option
@click.option("--workers", type=click.IntRange(min=1), help="Local processes; one a core.")
@click.option("--scheduler", metavar="ADDRESS", help="A running Dask scheduler, tcp://host:8786.")
@click.option(
    "--checkpoint-every",
    type=click.FloatRange(min=0.0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="A killed worker's task is done again from its last checkpoint, at most so much.",
)
def command(store, duration, samples, experiment, workers, scheduler, checkpoint_every):
    """Go on with every run of STORE as if it had never stopped, to a longer --duration.

    Nothing is computed again: the result is bit for bit that of a run made at once, on one kind of
    machine. Runs that failed stay as they are. After an interruption the same command goes on.

    \b
    Example:
      sweep extend my-study.zarr --duration 1e6
      sweep extend my-study.zarr --duration 1e6 --samples 100
    """
    if workers is not None and scheduler is not None:
        raise click.UsageError("--workers is for a local cluster: not together with --scheduler")
    from pathlib import Path

    from sweep import runner
    from sweep.cli.run import Terminal, print_outcome
    from sweep.extending import extend, stored_study

    path = Path(store).absolute()
    study = extend(stored_study(path), duration, samples, experiment)
    outcome = runner.run(
        study, path, workers=workers, scheduler=scheduler, checkpoint_every=checkpoint_every,
        watcher=Terminal(study.name),
    )  # fmt: skip
    print_outcome(outcome)
    if not outcome.complete:
        sys.exit(INCOMPLETE)
    if outcome.failed:
        sys.exit(DOES_NOT_HOLD)
