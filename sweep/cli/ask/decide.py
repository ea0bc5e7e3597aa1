"""`sweep decide`: extend a store until its undecided verdicts are decided."""

import dataclasses
import sys
from typing import TYPE_CHECKING, Any, Literal

import sweep
from sweep.cli.main import INCOMPLETE
from sweep.cli.options import command
from sweep.cli.output import echo
from sweep.cli.terminal import Terminal, finish_command
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
    run_options: dict[str, Any],
    trust_plugins: bool,
    as_json: bool,
) -> None:
    """Extend STORE by the step sizes, starts or time that its undecided verdicts need.

    For an undecided order, the step sizes that `sweep order` names are added; for an unsteady
    drift, more starts or runs twice as long; for undecided chaos, the duration that `sweep chaos`
    names. The cheapest additions are made first, as estimated from the CPU time of earlier runs,
    as long as the budget lasts. Then the verdicts are evaluated again, in at most 8 rounds. The
    table has each undecided verdict before and after, what was added, and its CPU time. The
    additions, with their reasons, become part of the study in the store (`sweep show study STORE`).
    After an interruption, the same command resumes.

    Verdicts are those of `sweep order`, of `sweep drift` at the smallest step size, and of
    `sweep chaos`. Drifts of an experiment with several step sizes and a reference up to its end
    are left out, unless --only drift is given.

    \b
    Example:
      sweep decide quickstart.zarr --dry-run
      sweep decide quickstart.zarr --budget 5m
      sweep decide my-study.zarr --only drift

    Options:
      --only [order|drift|chaos]  Decide only verdicts of this kind; repeatable.  [default: order,
          chaos and, except in studies of convergence, drift]
      --dry-run  Print what would be added, and its CPU time.
    """
    if not dry_run and not as_json:
        run_options["watcher"] = Terminal(Store.at(store))
    decisions = sweep.decide(
        store, budget, only=only, experiments=experiment, dry_run=dry_run,
        trust_plugins=trust_plugins, **run_options,
    )  # fmt: skip
    echo(decisions_for_json(decisions), f"\n{decisions}", as_json)
    if decisions.outcome is not None and not decisions.outcome.complete:
        sys.exit(INCOMPLETE) if as_json else finish_command(decisions.outcome)


def decisions_for_json(decisions: "Decisions") -> dict[str, Any]:
    """The result of `sweep.decide` as a dict for JSON."""
    row: dict[str, Any]
    (row,) = sweep.tables.table_rows_for_json([dataclasses.replace(decisions, outcome=None)])
    return row
