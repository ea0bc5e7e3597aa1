"""`sweep serve`: show stores in a browser."""

import contextlib
from typing import Annotated

import click

from sweep.cli.options import ClickSettings, Files, command

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@command
def serve(
    stores: Annotated[Files, ClickSettings(metavar="STORE [STORE …]")],
    port: Annotated[int | None, ClickSettings(type=click.IntRange(0, 65535))],
    host: str = LOOPBACK[0],
) -> None:
    """Show stores in a browser: their progress while they run, and their results.

    Open the printed address on this machine. The page does not change stores, and its address
    contains all choices made on it. This needs `pip install 'geosweep[live]'`. Ctrl-C stops the
    server.

    \b
    Example:
      sweep serve quickstart.zarr
      sweep serve laptop.zarr s3://studies/large.zarr --port 8080

    Options:
      --port N  Port to listen on; by default the first free one from 8787 on; 0 for any.
      --host ADDRESS  Address to listen on.  [default: 127.0.0.1]
    """
    from sweep.reports.live import server  # needs optional packages

    if host not in LOOPBACK:
        click.echo(
            f"Warning: --host {host} lets everyone who can reach this machine and has the address "
            "read the stores; the connection is not encrypted",
            err=True,
        )
    with contextlib.suppress(KeyboardInterrupt):
        server.serve(
            stores, host, port, lambda address: click.echo(f"Open {address}  (Ctrl-C ends it)")
        )
