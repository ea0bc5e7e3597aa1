"""`sweep extend`: continue the runs of a store, and add some to its study."""

from typing import Any

import click

import sweep
from sweep.cli.common import (
    experiment_option,
    json_option,
    run_options,
    store_argument,
    summary_option,
    trust_option,
)
from sweep.cli.run import Terminal, print_outcome_and_exit
from sweep.cli.summary import print_run_summary
from sweep.store.store import Store


@click.command("extend")
@store_argument
@click.option("--duration", type=float, help="Duration to which runs are continued.")
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of equal sample intervals to add, each at least as long as before. By default "
    "as long as the last one, or growing as they did.",
)
@click.option(
    "--integrator",
    multiple=True,
    metavar="NAME",
    help="Add an integrator; repeatable. With options as an inline table of TOML.",
)
@click.option(
    "--step-size", multiple=True, type=float, metavar="H", help="Add a step size; repeatable."
)
@click.option(
    "--tolerance", multiple=True, type=float, metavar="TOL", help="Add a tolerance; repeatable."
)
@click.option(
    "--initial-condition", multiple=True, metavar="NAME", help="Add a named start; repeatable."
)
@click.option(
    "--members", type=click.IntRange(min=1), metavar="N", help="Enlarge random ensembles to N."
)
@experiment_option
@run_options
@summary_option
@trust_option
@json_option
def command(
    store: str,
    experiment: tuple[str, ...],
    summary: bool,
    as_json: bool,
    options: dict[str, Any],
    **given: Any,
) -> None:
    """Continue every run of STORE, as if it had never stopped, to a longer --duration.

    And, or instead, add integrators, step sizes and starts to the study that the store keeps;
    `sweep show study STORE` prints it. Only what is new is computed. On one kind of machine a
    continued run is bit for bit the run computed in one go. Runs that failed stay as they are.
    After an interruption the same command goes on.

    \b
    Example:
      sweep extend my-study.zarr --duration 1e6
      sweep extend my-study.zarr --duration 1e6 --samples 100
      sweep extend my-study.zarr --integrator rk4 --step-size 0.01 --members 128
      sweep extend my-study.zarr --integrator '{ name = "rk4", arithmetic = "double-double" }'
    """
    for name in ("integrator", "step_size", "tolerance", "initial_condition"):
        given[f"{name}s"] = given.pop(name)
    opened = Store.at(store)
    options["watcher"] = Terminal(opened.attributes.get("study_name"), as_json)
    outcome = sweep.extend(opened, experiments=experiment, **given, **options)
    if summary and outcome.complete and not as_json:
        print_run_summary(opened)
    print_outcome_and_exit(outcome, as_json)
