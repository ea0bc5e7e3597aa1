"""`sweep merge`: stores that were made apart become one."""

import dataclasses
import shlex
import sys

import click

import sweep
from sweep.cli.common import echo_json, json_option, progress_bar, trust_option


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
def command(stores, out, prefer_first, trust_plugins, as_json):
    """Unite STORES of one study, computed apart, in a new store; they are only read.

    Runs are the same if their ids are. A run that several have is taken from the first that has
    computed it; if two have other results of it, that is said and nothing is written. The new
    store keeps the studies of all, and has just their runs.

    \b
    Example:
      sweep merge laptop.zarr cluster.zarr -o both.zarr
    """
    with _Bar() as bar:
        merged = sweep.merge(
            stores, out, prefer_first=prefer_first, trust_plugins=trust_plugins,
            progress=bar.progress,
        )  # fmt: skip
    if as_json:
        shares = [dataclasses.asdict(share) for share in merged.shares]
        echo_json({"store": str(merged.store), "kinds": merged.kinds, "experiments": shares})
        return
    for share in merged.shares:
        click.echo(_merged_share_in_words(share, stores))
    if len(merged.kinds) > 1:
        click.echo(
            "Warning: the runs of this store are from different kinds of machines, whose sines may "
            f"differ in the last bit: {'; '.join(merged.kinds)}",
            err=True,
        )
    runs = sum(share.runs for share in merged.shares)
    click.echo(f"Merged: {runs:,} runs in {merged.store}")
    if merged.pending:
        how = shlex.join(["sweep", "run", str(merged.store)])
        click.echo(f"{merged.pending:,} runs are not computed yet. To compute them: {how}")


def _merged_share_in_words(share, stores):
    parts = [
        f"{count:,} from {store}" for count, store in zip(share.taken, stores, strict=True) if count
    ]
    text = f"{share.experiment}: {', '.join(parts) or 'no computed runs'}"
    if share.both:
        text += f"; {share.both:,} of a later store were there already"
    if share.differing:
        text += f", {share.differing:,} of them with other results"
    if share.left_out:
        text += f"; {share.left_out:,} that no study asks for any more are left out"
    return text


class _Bar:
    """A progress bar on a terminal for what takes a while."""

    def __init__(self):
        self._bar, self._what = None, ""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self._bar is not None:
            self._bar.__exit__(None, None, None)

    def progress(self, what, done, of):
        """So much of it is done."""
        if not sys.stderr.isatty() or not of:
            return
        if what != self._what:
            self.__exit__()
            self._what, self._done = what, 0
            self._bar = progress_bar(of, what)
            self._bar.__enter__()
        self._bar.update(done - self._done)
        self._done = done
