"""`sweep serve`: stores as a page in a browser."""

import contextlib
from typing import Annotated

import click

from sweep.cli.options import Click, Files, command

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@command
def serve(
    stores: Annotated[Files, Click(metavar="STORE [STORE …]")],
    port: Annotated[int | None, Click(type=click.IntRange(0, 65535))],
    host: str = LOOPBACK[0],
) -> None:
    """Show stores in a browser: their progress while they run, and their results.

    Open the printed address on this machine. The page only reads, and its address holds every
    choice made on it. It needs `pip install 'geosweep[live]'`; Ctrl-C ends it.

    \b
    Example:
      sweep serve quickstart.zarr
      sweep serve laptop.zarr s3://studies/large.zarr --port 8080

    Options:
      --port N  By default the first free one from 8787 on; 0: any.
      --host ADDRESS  Address to listen at.  [default: 127.0.0.1]
    """
    from sweep.reports.live import server  # which needs packages that are not always installed

    if host not in LOOPBACK:
        click.echo(
            f"Warning: --host {host} lets whoever reaches this machine and has the address read "
            "the stores, unencrypted",
            err=True,
        )
    with contextlib.suppress(KeyboardInterrupt):
        server.serve(
            stores, host, port, lambda address: click.echo(f"Open {address}  (Ctrl-C ends it)")
        )
