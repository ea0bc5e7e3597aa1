"""`sweep extend`: the runs of a store go on."""

import sys

import click

from sweep.cli.common import experiment_option, store_argument
from sweep.cli.main import DOES_NOT_HOLD, INCOMPLETE


@click.command("extend")
@store_argument
@click.option("--duration", type=float, help="To which runs go on.")
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    metavar="N",
    help="Equal sample intervals from the present end on, as long as before or longer; unless "
    "given, as long as the last one, or thinning out as they did.",
)
@click.option("--integrator", multiple=True, metavar="NAME", help="Add it; repeatable.")
@click.option("--step-size", multiple=True, type=float, metavar="H", help="Add it; repeatable.")
@click.option("--tolerance", multiple=True, type=float, metavar="TOL", help="Add it; repeatable.")
@click.option(
    "--initial-condition", multiple=True, metavar="NAME", help="Add that start; repeatable."
)
@click.option(
    "--members", type=click.IntRange(min=1), metavar="N", help="Let random ensembles have N."
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
def command(
    store, duration, samples, integrator, step_size, tolerance, initial_condition, members,
    experiment, workers, scheduler, checkpoint_every,
):  # fmt: skip
    """Go on with every run of STORE as if it had never stopped, to a longer --duration.

    And, or instead, add integrators, steps and starts to the study that the store keeps; `sweep
    show study STORE` prints it. Only what is new is computed. A run that goes on is bit for bit
    that made at once, on one kind of machine. Runs that failed stay as they are. After an
    interruption the same command goes on.

    \b
    Example:
      sweep extend my-study.zarr --duration 1e6
      sweep extend my-study.zarr --duration 1e6 --samples 100
      sweep extend my-study.zarr --integrator rk4 --step-size 0.01 --members 128
    """
    if workers is not None and scheduler is not None:
        raise click.UsageError("--workers is for a local cluster: not together with --scheduler")
    from pathlib import Path

    from sweep import runner
    from sweep.amending import Additions, amended_study
    from sweep.cli.run import Terminal, print_outcome
    from sweep.extending import extend

    additions = Additions(integrator, step_size, tolerance, initial_condition, members)
    if duration is None and samples is not None:
        raise click.UsageError("--samples is of a longer --duration")
    if duration is None and not additions:
        raise click.UsageError(
            "say what to extend: --duration, --integrator, --step-size, --tolerance, "
            "--initial-condition or --members"
        )
    path = Path(store).absolute()
    study = amended_study(path, additions, experiment)
    if duration is not None:
        study = extend(study, duration, samples, experiment)
    outcome = runner.run(
        study, path, workers=workers, scheduler=scheduler, checkpoint_every=checkpoint_every,
        watcher=Terminal(study.name),
    )  # fmt: skip
    print_outcome(outcome)
    if not outcome.complete:
        sys.exit(INCOMPLETE)
    if outcome.failed:
        sys.exit(DOES_NOT_HOLD)
