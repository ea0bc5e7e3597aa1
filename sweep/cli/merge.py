"""`sweep merge`: unite stores of one study that were computed apart."""

import dataclasses

import click

import sweep
from sweep.cli.common import echo_json, json_option, trust_option
from sweep.cli.progress import ProgressLine


@click.command("merge")
@click.argument("stores", nargs=-1, required=True, type=click.Path())
@click.option("-o", "--out", required=True, type=click.Path(), help="The new store.")
@click.option(
    "--prefer-first",
    is_flag=True,
    help="Where a run's results differ, take those of the store named first.",
)
@trust_option
@json_option
def command(
    stores: tuple[str, ...], out: str, prefer_first: bool, trust_plugins: bool, as_json: bool
) -> None:
    """Unite STORES of one study, computed apart, in a new store; they are only read.

    Runs are the same if their ids are. A run that several stores have is taken from the first that
    has computed it; if results of a run differ between stores, that is an error and nothing is
    written. The new store keeps the studies of all, and exactly the runs that they ask for.

    \b
    Example:
      sweep merge laptop.zarr cluster.zarr -o both.zarr
    """
    with ProgressLine(only_on_terminal=True) as line:
        merged = sweep.merge(
            stores, out, prefer_first=prefer_first, trust_plugins=trust_plugins,
            progress=lambda stage, done, total: line.show(stage, done / max(1, total)),
        )  # fmt: skip
    if as_json:
        shares = [dataclasses.asdict(share) for share in merged.shares]
        echo_json({"store": str(merged.store), "kinds": merged.kinds, "experiments": shares})
        return
    click.echo(merged)
    if len(merged.kinds) > 1:
        click.echo(
            "Warning: the runs of this store are from different kinds of machines, whose sines may "
            f"differ in the last bit: {'; '.join(merged.kinds)}",
            err=True,
        )
