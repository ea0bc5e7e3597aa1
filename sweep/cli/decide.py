"""`sweep decide`: add runs to a store until its verdicts are decided."""

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
from sweep.cli.summary import decisions_for_json, print_decisions
from sweep.store.store import Store


@click.command("decide")
@store_argument
@budget_option
@click.option(
    "--only",
    type=click.Choice(["order", "drift", "chaos", "work"]),
    multiple=True,
    help="Only verdicts of this kind; repeatable.  [default: order, chaos and, except in a "
    "study of convergence, drift]",
)
@experiment_option
@click.option("--keep-duration", is_flag=True, help="Never extend runs to a longer duration.")
@click.option("--closer", is_flag=True, help="Also decide the law of drifts that grow or wander.")
@click.option("--dry-run", is_flag=True, help="Print what would be added, and its CPU time.")
@json_option
@run_options
@trust_option
def command(
    store: str,
    budget: float,
    only: tuple[str, ...],
    experiment: tuple[str, ...],
    keep_duration: bool,
    closer: bool,
    dry_run: bool,
    as_json: bool,
    trust_plugins: bool,
    options: dict[str, Any],
) -> None:
    """Add runs to STORE until its orders, drifts and chaos are decided.

    Each undecided verdict names what would decide it: step sizes, starts, or a longer duration.
    For each verdict the cheapest of these is added, by the CPU time that its runs took so far,
    and the store is analysed again: until all is decided, the budget is spent, or nothing is known
    that would help; at most 16 times. What was added, and why, becomes part of the study that the
    store keeps (`sweep show study STORE`). After an interruption the same command goes on.

    Open orders are decided by intervals that widen with each analysis, so that their confidence of
    95 % holds for all analyses together. Verdicts are those of `sweep order` and, at the smallest
    step size, `sweep drift` and `sweep chaos`; drifts are left out where an experiment has several
    step sizes and a reference to its end. With --only work the verdict is whether CPU times can be
    compared. A drift that grows or wanders counts as decided, unless --closer asks for its law.

    \b
    Example:
      sweep decide quickstart.zarr --dry-run
      sweep decide quickstart.zarr --budget 5m
      sweep decide my-study.zarr --only drift --keep-duration
    """
    settings: dict[str, Any] = {
        "budget": budget, "experiments": experiment, "longer": not keep_duration,
        "closer": closer, "trust_plugins": trust_plugins,
    }  # fmt: skip
    if only:
        settings["only"] = only
    if not dry_run and not as_json:
        options["watcher"] = Terminal(Store.at(store).attributes.get("study_name"))
    decisions = sweep.decide(store, dry_run=dry_run, **settings, **options)
    if as_json:
        echo_json(decisions_for_json(decisions))
    else:
        print_decisions(decisions, dry_run)
    if decisions.outcome is not None and not decisions.outcome.complete:
        exit_by_outcome(decisions.outcome) if as_json else print_outcome_and_exit(decisions.outcome)
