"""Arguments and lookups that several subcommands share."""

import json

import click

study_argument = click.argument("study")
store_argument = click.argument("store", type=click.Path())
optional_store = click.argument("store", required=False, type=click.Path())
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
experiment_option = click.option(
    "--experiment", "-e", multiple=True, metavar="NAME", help="Only this experiment; repeatable."
)


def store_path(study, store):
    """The store's path: the one given, or ./NAME.zarr."""
    from pathlib import Path

    return Path(store if store is not None else f"{study.name}.zarr").absolute()


def opened(store, experiments=(), everything=False):
    """The datasets of a store by experiment; only `experiments` if some are named.

    Runs that left the study are left out, and experiments that did, unless `everything` is
    asked for.
    """
    from integrators.errors import check_known
    from sweep.opening import open_study

    tree = open_study(store)
    for name in experiments:
        check_known(f"experiment of {store}", name, tree.children)
    datasets = {
        name: node.to_dataset()
        for name, node in tree.children.items()
        if not experiments or name in experiments
    }
    if everything:
        return datasets
    current = {name: data.isel(run=data["in_study"].values) for name, data in datasets.items()}
    return {name: data for name, data in current.items() if data.sizes["run"]}


def echo_json(value):
    """Print a value as JSON; NaN as null, which JSON has not."""
    from sweep.text import jsonable

    click.echo(json.dumps(jsonable(value), indent=2, ensure_ascii=False))


def save_plots(dataset, directory, name, ending=".png", kinds=None, skipped=None):
    """Write an experiment's plots, as `sweep.plots.save_all`. `InputError` if that cannot be."""
    from integrators import InputError
    from sweep.plots import save_all

    try:
        return save_all(dataset, directory, name, ending, kinds, skipped)
    except OSError as error:
        raise InputError(f"{directory} cannot be written: {error.strerror}") from None


def warn_of_stability(table, among=None):
    """Print a line on stderr for each integrator and step size beyond a stability limit."""
    from sweep.stability import beyond_limit

    for found in beyond_limit(table, among):
        click.echo(str(found), err=True)
