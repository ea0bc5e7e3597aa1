"""`sweep decide`: extend a store by what its open verdicts ask for."""

from typing import Any

import click

import sweep
from sweep.cli.common import (
    budget_option,
    echo_json,
    experiment_option,
    json_option,
    run_options,
    store_argument,
    trust_option,
)
from sweep.cli.run import Terminal, exit_by_outcome, print_outcome_and_exit
from sweep.cli.summary import decisions_for_json
from sweep.store.store import Store


@click.command("decide")
@store_argument
@budget_option
@click.option(
    "--only",
    type=click.Choice(["order", "drift", "chaos"]),
    multiple=True,
    help="Only verdicts of this kind; repeatable.  [default: order, chaos and, except in a "
    "study of convergence, drift]",
)
@experiment_option
@click.option("--dry-run", is_flag=True, help="Print what would be added, and its CPU time.")
@json_option
@run_options
@trust_option
def command(
    store: str,
    experiment: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    options: dict[str, Any],
    **given: Any,
) -> None:
    """Extend STORE by what its open verdicts ask for: step sizes, starts, or longer runs.

    An undecided order gets the step sizes that `sweep order` names, an unsteady drift more starts
    or runs twice as long, undecided chaos the duration that `sweep chaos` names; the cheapest
    first, by the CPU time that runs took so far, as far as the budget allows. Then the verdicts are
    read again, for at most 8 rounds. The table has each verdict that was open before and after,
    with what was added and its price. What was added, and why, becomes part of the study that the
    store keeps (`sweep show study STORE`). After an interruption the same command goes on.

    Verdicts are those of `sweep order`, of `sweep drift` at the smallest step size and of
    `sweep chaos`; drifts are left out where an experiment has several step sizes and a reference to
    its end, unless --only drift asks for them.

    \b
    Example:
      sweep decide quickstart.zarr --dry-run
      sweep decide quickstart.zarr --budget 5m
      sweep decide my-study.zarr --only drift
    """
    if not dry_run and not as_json:
        options["watcher"] = Terminal(Store.at(store).attributes.get("study_name"))
    decisions = sweep.decide(store, experiments=experiment, dry_run=dry_run, **given, **options)
    if as_json:
        echo_json(decisions_for_json(decisions))
    else:
        click.echo(f"\n{decisions}")
    if decisions.outcome is not None and not decisions.outcome.complete:
        exit_by_outcome(decisions.outcome) if as_json else print_outcome_and_exit(decisions.outcome)
