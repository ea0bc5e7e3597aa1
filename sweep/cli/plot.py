"""`sweep plot`: pictures of a store."""

import click

from sweep.cli.common import experiment_option, opened, save_plots, store_argument


@click.command("plot")
@store_argument
@experiment_option
@click.option("--output", "-o", metavar="DIR", help="Where to; beside the store, NAME-plots.")
@click.option(
    "--format", "suffix", type=click.Choice(["png", "pdf", "svg"]), default="png", help="File type."
)
def command(store, experiment, output, suffix):
    """Plot convergence, energy error and unit length error of STORE.

    \b
    Example:
      sweep plot quickstart.zarr -o figures --format pdf
    """
    from sweep.cli.summary import plot_directory

    directory = output or plot_directory(store)
    for name, dataset in opened(store, experiment).items():
        for path in save_plots(dataset, directory, name, ending=f".{suffix}"):
            click.echo(path)
