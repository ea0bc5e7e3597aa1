"""`sweep serve`: stores as a page in a browser."""

import contextlib

import click

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@click.command("serve")
@click.argument("stores", nargs=-1, required=True, type=click.Path(), metavar="STORE [STORE …]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="By default the first free one from 8787 on; 0: any.",
)
@click.option("--host", default=LOOPBACK[0], help="Address to listen at.", show_default=True)
def command(stores: tuple[str, ...], port: int | None, host: str) -> None:
    """Show stores in a browser: their progress while they run, and their results.

    Open the printed address on this machine. The page only reads, and its address holds every
    choice made on it. It needs `pip install 'geosweep[live]'`; Ctrl-C ends it.

    \b
    Example:
      sweep serve quickstart.zarr
      sweep serve laptop.zarr s3://studies/large.zarr --port 8080
    """
    from sweep.reports.live.server import serve

    if host not in LOOPBACK:
        click.echo(
            f"Warning: --host {host} lets whoever reaches this machine and has the address read "
            "the stores, unencrypted",
            err=True,
        )
    with contextlib.suppress(KeyboardInterrupt):
        serve(stores, host, port, lambda address: click.echo(f"Open {address}  (Ctrl-C ends it)"))
