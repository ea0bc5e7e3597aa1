"""`sweep certificates`: a test authority, and what it signs for a Dask cluster."""

import shlex

import click

from sweep.clusters.certificates import make_test_certificates


@click.command("certificates")
@click.argument("directory", type=click.Path(file_okay=False))
@click.option(
    "--host",
    multiple=True,
    metavar="NAME",
    help="Name or IP address of a scheduler or worker; repeatable. Unless given, this host.",
)
@click.option(
    "--days", type=click.IntRange(min=1), default=365, show_default=True, help="Valid so long."
)
def command(directory, host, days):
    """Make an authority in DIRECTORY, and certificates for scheduler, workers and client.

    For tests and networks of one's own: whoever can read ca-key.pem can make others. Nothing is
    overwritten. Prints how to use them.

    \b
    Example:
      sweep certificates tls --host login1 --days 30
    """
    folder = make_test_certificates(directory, host, days)
    click.echo(f"Wrote to {folder}, valid for {days} days; for tests and networks of one's own.")
    click.echo("Copy ca.pem and the pair of its role to each host; ca-key.pem stays here.\n")
    click.echo(_tls_command_lines(folder))


def _tls_command_lines(folder):
    def tls_options(role):
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
