"""`sweep plot`: pictures of a store."""

import functools

import click

from sweep.cli.common import experiment_option, opened, save_plots, store_argument


@click.command("plot")
@store_argument
@experiment_option
@click.option("--where", metavar="EXPR", help="Only runs for which it holds, as in query(run=…).")
@click.option("--kind", "-k", multiple=True, metavar="KIND", help="Only this one; repeatable.")
@click.option("--output", "-o", metavar="DIR", help="Where to; beside the store, NAME-plots.")
@click.option(
    "--format", "suffix", type=click.Choice(["png", "pdf", "svg"]), default="png", help="File type."
)
@click.option(
    "--body", type=int, multiple=True, metavar="N", help="On the sphere only this; repeatable."
)
@click.option(
    "--view", type=float, nargs=3, metavar="X Y Z", help="Direction to look at the sphere from."
)
def command(store, experiment, where, kind, output, suffix, body, view):
    """Plot what STORE has the results for.

    Kinds: convergence; energy and unit-length, errors over time; drift, with its verdict; sphere,
    stored states as phase portraits and Poincaré sections.

    \b
    Example:
      sweep plot quickstart.zarr -o figures --format pdf --where "step_size < 0.02"
      sweep plot mclachlan-portraits.zarr --kind sphere -e vortices --body 0 --view 1 1 1
    """
    from integrators import InputError
    from sweep.cli.summary import plot_directory

    kinds = _chosen(kind, body, view)
    directory = output or plot_directory(store)
    drawn, reasons = 0, []
    for name, dataset in opened(store, experiment).items():
        dataset = dataset if where is None else _selected(dataset, where)
        if not dataset.sizes["run"]:
            reasons.append(f"{name}: no run for which {where} holds")
            continue

        def skipped(of_kind, error, name=name):
            reasons.append(f"{name}: {of_kind}: {error}")

        for path in save_plots(dataset, directory, name, f".{suffix}", kinds, skipped):
            click.echo(path)
            drawn += 1
    if kind or body or view or where:
        if not drawn:
            raise InputError("nothing to draw. " + "\n".join(reasons))
        for reason in reasons:
            click.echo(f"Not drawn: {reason}", err=True)


def _selected(dataset, where):
    """The runs for which an expression in the names of their coordinates holds."""
    from integrators import InputError

    try:
        return dataset.query(run=where)
    except Exception as error:  # whatever evaluating a wrong expression raises
        raise InputError(
            f"{where!r} cannot be evaluated: {error}; write it as in xarray's query, "
            "e.g. \"integrator == 'rk4' and step_size < 0.05\"",
            key="where",
        ) from None


def _chosen(names, bodies, view):
    """The kinds to draw: those named, or all; options of the sphere stand for it."""
    from integrators import InputError
    from integrators.errors import check_known
    from sweep.plots import KINDS, sphere

    for name in names:
        check_known("kind of plot", name, KINDS, key="kind")
    options = {"bodies": bodies} if bodies else {}
    options |= {"view": view} if view else {}
    if not options:
        return {name: KINDS[name] for name in names or KINDS}
    if names and "sphere" not in names:
        raise InputError("--body and --view are about --kind sphere", key="kind")
    of_sphere = {"sphere": functools.partial(sphere, **options)}
    return {name: KINDS[name] for name in names} | of_sphere
