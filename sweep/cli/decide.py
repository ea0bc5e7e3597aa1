"""`sweep decide`: add runs to a store until its verdicts are decided."""

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
    help="Only verdicts of this kind; repeatable.  [default: all but work, and no drifts of a "
    "study of convergence]",
)
@experiment_option
@click.option("--keep-duration", is_flag=True, help="Let no run go on to a longer duration.")
@click.option("--closer", is_flag=True, help="Ask for a law of drifts that grow or wander, too.")
@click.option("--dry-run", is_flag=True, help="Print what would be added, with its price.")
@json_option
@run_options
@trust_option
def command(
    store,
    budget,
    only,
    experiment,
    keep_duration,
    closer,
    dry_run,
    as_json,
    trust_plugins,
    options,
):
    """Add runs to STORE until its orders, drifts and chaos are decided.

    Each undecided verdict names what would decide it: step sizes, starts, or a longer duration.
    The cheapest of these is added for each, by the CPU time that its runs took so far, and the
    store is looked at again: until all is decided, the budget is spent, or it is known that
    nothing would help, at most 16 looks. What was added, and why, becomes part of the study that
    the store keeps (`sweep show study STORE`). After an interruption the same command goes on.

    Orders that were open are decided by intervals that are wider after each look, so that 95 %
    hold for all looks together. Verdicts are those of `sweep order` and, at the smallest step
    size, `sweep drift` and `sweep chaos`; but an experiment with several step sizes and a
    reference to its end asks for no drifts. With --only work it is decided if CPU times can be
    compared. A drift that grows or wanders is decided: --closer asks for its law.

    \b
    Example:
      sweep decide quickstart.zarr --dry-run
      sweep decide quickstart.zarr --budget 5m
      sweep decide my-study.zarr --only drift --keep-duration
    """
    asked = {
        "budget": budget, "experiments": experiment, "longer": not keep_duration,
        "closer": closer, "trust_plugins": trust_plugins,
    }  # fmt: skip
    if only:
        asked["only"] = only
    if not dry_run and not as_json:
        options["watcher"] = Terminal(Store.at(store).attributes.get("study_name"))
    found = sweep.decide(store, dry_run=dry_run, **asked, **options)
    if as_json:
        echo_json(decisions_for_json(found))
    else:
        print_decisions(found, dry_run)
    if found.outcome is not None and not found.outcome.complete:
        exit_by_outcome(found.outcome) if as_json else print_outcome_and_exit(found.outcome)
