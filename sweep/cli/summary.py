"""The tables and plots that end a run."""

import click

from sweep.cli.common import opened, save_plots

KINDS = ("order", "energy", "unit-length", "sphere")  # that end a run; `sweep plot` has them all


def print_summary(path):
    """Print order and drift tables of each experiment, and where the plots are."""
    from sweep.analysis import drift_table
    from sweep.analysis.convergence.curves import has_error
    from sweep.analysis.convergence.tolerances import convergence
    from sweep.analysis.runs.selection import energy_of
    from sweep.tables import drifts, errors, text_of

    datasets = opened(path)
    for name, dataset in datasets.items():
        title = f"{name}: {dataset.attrs['title'].partition(': ')[2]}"
        click.echo(f"\n{title}\n{'=' * len(title)}")
        if has_error(dataset):
            click.echo(text_of(errors(*convergence(dataset))) + "\n")
        quantities = [q for q in (energy_of(dataset),) if f"{q}_error" in dataset]
        if quantities:
            click.echo(text_of(drifts(drift_table(dataset, quantities, step_sizes="smallest"))))
    _plot(path, datasets)


def _plot(path, datasets):
    """Write the plots; where that cannot be, the run is complete all the same."""
    from integrators.errors import InputError

    directory, left_out = plot_directory(path), []
    try:
        for name, dataset in datasets.items():

            def skipped(kind, error, name=name, stored="state" in dataset):
                if kind == "sphere" and stored:
                    left_out.append(f"No picture of {name} on the sphere: {error}")

            save_plots(dataset, directory, name, kinds=dict.fromkeys(KINDS, {}), skipped=skipped)
    except InputError as error:
        click.echo(f"\nNo plots: {error}", err=True)
        return
    page = f"All on one page: sweep report {path}"
    click.echo("\n" + "\n".join([f"Plots: {directory}", *left_out, page]))


def plot_directory(path):
    """Where the plots of a store go unless told: NAME-plots, beside it or here."""
    from sweep.store.backends.places import beside

    path = beside(path)
    return path.with_name(f"{path.name.removesuffix('.zarr')}-plots")
