"""`sweep retry`: compute failed runs again."""

from collections.abc import Mapping, Sized
from typing import Any

import click

import sweep
from sweep.cli.options import command
from sweep.cli.output import echo_json
from sweep.cli.terminal import Terminal, finish_command
from sweep.store.store import Store


@command
def retry(
    store: str,
    where: str | None,
    among: tuple[str, ...],
    run_options: dict[str, Any],
    trust_plugins: bool,
    as_json: bool,
) -> None:
    """Compute the failed runs of STORE again, with the study that the store keeps.

    If the study names files of initial states, they must be in the current directory.

    \b
    Example:
      sweep retry quickstart.zarr
      sweep retry quickstart.zarr --status not_converged --where "step_size < 0.1"

    Options:
      --status STATUS  Retry only runs with this status; repeatable.
    """

    def echo_chosen(rows: Mapping[str, Sized]) -> None:
        if not rows:
            click.echo("There is no failed run to compute again.", err=as_json)
        for name, failed in rows.items():
            click.echo(f"{name}: computing {len(failed):,} failed runs again", err=as_json)

    outcome = sweep.retry(
        store, where or "", among, chosen=echo_chosen, trust_plugins=trust_plugins,
        watcher=Terminal(Store.at(store), as_json), **run_options,
    )  # fmt: skip
    if outcome is not None:
        finish_command(outcome, as_json)
    elif as_json:
        echo_json({"store": str(store), "experiments": []})
