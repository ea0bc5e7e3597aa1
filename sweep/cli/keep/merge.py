"""`sweep merge`: unite stores of one study that were computed apart."""

import dataclasses
from typing import Annotated

import click

import sweep
from sweep.cli.options import Click, Files, command
from sweep.cli.output import echo
from sweep.cli.progress import ProgressLine


@command
def merge(
    stores: Files,
    out: Annotated[str, Click(type=click.Path(), required=True)],
    prefer_first: bool,
    trust_plugins: bool,
    as_json: bool,
) -> None:
    """Unite STORES of one study, computed apart, in a new store; they are only read.

    Runs are the same if their ids are. A run that several stores have is taken from the first that
    has computed it; if results of a run differ between stores, that is an error and nothing is
    written. The new store keeps the studies of all, and exactly the runs that they ask for.

    \b
    Example:
      sweep merge laptop.zarr cluster.zarr -o both.zarr

    Options:
      -o, --out STORE  The new store.
      --prefer-first  Where a run's results differ, take those of the store named first.
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
            "Warning: the runs of this store are from different kinds of machines, whose sines may "
            f"differ in the last bit: {'; '.join(merged.kinds)}",
            err=True,
        )
