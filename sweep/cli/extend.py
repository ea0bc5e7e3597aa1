"""`sweep extend`: the runs of a store go on."""

import click

import sweep
from sweep.cli.common import (
    experiment_option,
    json_option,
    run_options,
    store_argument,
    trust_option,
)
from sweep.cli.run import Terminal, print_outcome_and_exit
from sweep.store.store import Store


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
@click.option(
    "--integrator",
    multiple=True,
    metavar="NAME",
    help="Add it; repeatable. With options as an inline table of TOML.",
)
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
@json_option
def command(
    store, duration, samples, integrator, step_size, tolerance, initial_condition, members,
    experiment, trust_plugins, as_json, options,
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
      sweep extend my-study.zarr --integrator '{ name = "rk4", arithmetic = "double-double" }'
    """
    additions = {
        "integrators": integrator, "step_sizes": step_size, "tolerances": tolerance,
        "initial_conditions": initial_condition, "members": members,
    }  # fmt: skip
    options |= {"experiments": experiment, "trust_plugins": trust_plugins}
    store = Store.at(store)
    terminal = Terminal(store.attributes.get("study_name"), as_json)
    outcome = sweep.extend(store, duration, samples, watcher=terminal, **additions, **options)
    print_outcome_and_exit(outcome, as_json)
