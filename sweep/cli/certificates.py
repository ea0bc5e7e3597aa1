"""`sweep certificates`: a test authority and the certificates that it signs for a Dask cluster."""

import shlex
from pathlib import Path

import click

from sweep.clusters.certificates import make_test_certificates


@click.command("certificates")
@click.argument("directory", type=click.Path(file_okay=False))
@click.option(
    "--host",
    multiple=True,
    metavar="NAME",
    help="Name or IP address of a scheduler or worker; repeatable. By default this host.",
)
@click.option(
    "--days", type=click.IntRange(min=1), default=365, show_default=True, help="Days of validity."
)
def command(directory: str, host: tuple[str, ...], days: int) -> None:
    """Make an authority in DIRECTORY, and certificates for scheduler, workers and client.

    For tests and private networks: whoever can read ca-key.pem can make further certificates.
    Nothing is overwritten. Prints how to use them.

    \b
    Example:
      sweep certificates tls --host login1 --days 30
    """
    folder = make_test_certificates(directory, host, days)
    click.echo(f"Wrote to {folder}, valid for {days} days; for tests and private networks.")
    click.echo("Copy ca.pem and the pair of its role to each host; ca-key.pem stays here.\n")
    click.echo(_tls_command_lines(folder))


def _tls_command_lines(folder: Path) -> str:
    """The commands of a cluster with these certificates, and the same as Dask's configuration."""

    def tls_options(role: str) -> str:
        files = ("ca-file", "ca"), ("cert", role), ("key", f"{role}-key")
        return " ".join(f"--tls-{o} {shlex.quote(f'{folder}/{name}.pem')}" for o, name in files)

    lines = [
        f"dask scheduler --protocol tls {tls_options('scheduler')}",
        f"dask worker tls://HOST:8786 --nthreads 1 {tls_options('worker')}",
        f"sweep run STUDY --scheduler tls://HOST:8786 {tls_options('client')}",
        "",
        "Or, in place of the options, in Dask's configuration (~/.config/dask/tls.yaml):",
        "",
        "distributed:",
        "  comm:",
        "    require-encryption: true",
        "    tls:",
        f"      ca-file: {folder}/ca.pem",
    ]
    for role in ("scheduler", "worker", "client"):
        lines.append(f"      {role}:")
        lines.append(f"        cert: {folder}/{role}.pem")
        lines.append(f"        key: {folder}/{role}-key.pem")
    return "\n".join(lines)
