"""`sweep extend`: the runs of a store go on."""

import click

from sweep.cli.common import experiment_option, run_options, store_argument, trust_option


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
@run_options
@trust_option
def command(
    store, duration, samples, integrator, step_size, tolerance, initial_condition, members,
    experiment, trust_plugins, options,
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
    from sweep.campaign import coordinator
    from sweep.campaign.extend import Additions, amended_study
    from sweep.cli.run import Terminal, end_with
    from sweep.store.backends.places import place_of
    from sweep.store.studies import extend

    additions = Additions(integrator, step_size, tolerance, initial_condition, members)
    if duration is None and samples is not None:
        raise click.UsageError("--samples is of a longer --duration")
    if duration is None and not additions:
        raise click.UsageError(
            "say what to extend: --duration, --integrator, --step-size, --tolerance, "
            "--initial-condition or --members"
        )
    path = place_of(store).absolute()
    study = amended_study(path, additions, experiment, trust_plugins=trust_plugins)
    if duration is not None:
        study = extend(study, duration, samples, experiment)
    end_with(coordinator.run(study, path, watcher=Terminal(study.name), **options))
