"""`sweep serve`: stores as a page in a browser."""

import contextlib

import click

HERE = ("127.0.0.1", "localhost", "::1")


@click.command("serve")
@click.argument("stores", nargs=-1, required=True, type=click.Path(), metavar="STORE [STORE …]")
@click.option("--port", type=click.IntRange(0, 65535), help="0: any; the first free from 8787 on.")
@click.option("--host", default=HERE[0], help="Where to listen.", show_default=True)
def command(stores, port, host):
    """Show stores in a browser: how far they are, while they run, and their answers.

    Open the address that is printed, on this machine. The page only reads. Everything that is
    chosen on it stands in its address. It needs `pip install 'geosweep[live]'`; Ctrl-C ends it.

    \b
    Example:
      sweep serve quickstart.zarr
      sweep serve laptop.zarr s3://studies/large.zarr --port 8080
    """
    from sweep.live.server import serve

    if host not in HERE:
        click.echo(
            f"Warning: --host {host} lets whoever reaches this machine and has the address read "
            "the stores, unencrypted",
            err=True,
        )
    with contextlib.suppress(KeyboardInterrupt):
        serve(stores, host, port, lambda address: click.echo(f"Open {address}  (Ctrl-C ends it)"))
