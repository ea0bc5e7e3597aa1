"""`sweep decide`: extend a store by what its open verdicts ask for."""

import dataclasses
import sys
from typing import TYPE_CHECKING, Any, Literal

import sweep
from sweep.cli.main import INCOMPLETE
from sweep.cli.options import command
from sweep.cli.output import echo
from sweep.cli.terminal import Terminal, end
from sweep.store.store import Store

if TYPE_CHECKING:
    from sweep.campaign.decide import Decisions


@command
def decide(
    store: str,
    budget: float,
    only: tuple[Literal["order", "drift", "chaos"], ...],
    experiment: tuple[str, ...],
    dry_run: bool,
    options: dict[str, Any],
    trust_plugins: bool,
    as_json: bool,
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

    Options:
      --only [order|drift|chaos]  Only verdicts of this kind; repeatable.  [default: order, chaos
          and, except in a study of convergence, drift]
      --dry-run  Print what would be added, and its CPU time.
    """
    if not dry_run and not as_json:
        options["watcher"] = Terminal(Store.at(store))
    decisions = sweep.decide(
        store, budget, only=only, experiments=experiment, dry_run=dry_run,
        trust_plugins=trust_plugins, **options,
    )  # fmt: skip
    echo(decisions_for_json(decisions), f"\n{decisions}", as_json)
    if decisions.outcome is not None and not decisions.outcome.complete:
        sys.exit(INCOMPLETE) if as_json else end(decisions.outcome)


def decisions_for_json(decisions: "Decisions") -> dict[str, Any]:
    """The answer of `sweep.decide` as a dict for JSON."""
    row: dict[str, Any]
    (row,) = sweep.tables.table_rows_for_json([dataclasses.replace(decisions, outcome=None)])
    return row
