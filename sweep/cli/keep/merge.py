"""`sweep merge`: merge stores of one study that were computed separately."""

import dataclasses
from typing import Annotated

import click

import sweep
from sweep.cli.options import ClickSettings, Files, command
from sweep.cli.output import echo
from sweep.cli.progress_line import ProgressLine


@command
def merge(
    stores: Files,
    out: Annotated[str, ClickSettings(type=click.Path(), required=True)],
    prefer_first: bool,
    trust_plugins: bool,
    as_json: bool,
) -> None:
    """Merge STORES of one study into a new store; they are not changed.

    Runs are the same if their ids are equal. A run in several stores is copied from the first store
    that has computed it. If the results of a run differ between stores, that is an error, and
    nothing is written. The new store keeps the studies of all stores, and only the runs that these
    ask for.

    \b
    Example:
      sweep merge laptop.zarr cluster.zarr -o both.zarr

    Options:
      -o, --out STORE  Path of the new store.
      --prefer-first  If a run's results differ, copy those of the store that is named first.
    """
    with ProgressLine(only_on_terminal=True) as line:
        merged = sweep.merge(
            stores, out, prefer_first=prefer_first, trust_plugins=trust_plugins,
            progress=lambda stage, done, total: line.show(stage, done / max(1, total)),
        )  # fmt: skip
    shares = [dataclasses.asdict(share) for share in merged.shares]
    facts = {"store": str(merged.store), "kinds": merged.kinds, "experiments": shares}
    echo(facts, merged, as_json)
    if len(merged.kinds) > 1 and not as_json:
        click.echo(
            "Warning: the runs of this store were computed on different kinds of machines, whose "
            f"sines may differ in the last bit: {'; '.join(merged.kinds)}",
            err=True,
        )
