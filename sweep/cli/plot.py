"""`sweep plot`: pictures of a store."""

from pathlib import Path

import click

import sweep
from integrators.errors import InputError, check_known
from sweep.cli.common import (
    echo_json,
    experiment_option,
    json_option,
    open_experiments_for_command,
    save_experiment_plots,
    where_option,
)
from sweep.cli.summary import default_plot_directory
from sweep.store.backends.places import require_local_path
from sweep.store.store import Store
from sweep.study.toml.nodes import parse_toml

PICTURES = (".pdf", ".svg", ".png", ".eps", ".jpg", ".tif", ".webp")


@click.command("plot")
@click.argument("what", nargs=-1, required=True, metavar="[KIND] STORE")
@experiment_option
@where_option
@click.option(
    "--output",
    "-o",
    metavar="PATH",
    help="A file, as name.pdf, for one picture; or a directory, unless given NAME-plots beside "
    "the store.",
)
@click.option(
    "--format", "suffix", type=click.Choice(["png", "pdf", "svg"]), help="Of files in a directory."
)
@click.option(
    "--width", metavar="LENGTH", help="Of every figure, for a paper: 3.4in, 86mm, 8.6cm, 246pt."
)
@click.option(
    "--font", metavar="FAMILY", help="serif, sans-serif, monospace, or one that is installed."
)
@click.option(
    "--heading/--no-heading",
    default=True,
    help="Say above it what it shows; else that is printed, for the paper's caption.",
)
@click.option(
    "--across",
    metavar="NAME",
    help="Of the kind order: a panel for each value, as of sweep order --across.",
)
@click.option("--data", metavar="FILE.csv", help="Write the numbers behind what is drawn there.")
@click.option(
    "--body", type=int, multiple=True, metavar="N", help="On the sphere only this; repeatable."
)
@click.option(
    "--view", type=float, nargs=3, metavar="X Y Z", help="Direction to look at the sphere from."
)
@json_option
def command(
    what, experiment, where, output, suffix, width, font, heading, across, data, body, view, as_json
):
    """Plot what STORE has the results for, or of that one KIND.

    Kinds: order, error against step size; drift, errors of an invariant with what drifts; work,
    errors against what they cost; energy and unit-length, errors over time; megno and lyapunov,
    how nearby trajectories part; sphere, stored states as phase portraits and Poincaré sections.
    `sweep ls plots` lists those of installed distributions as well; those of the study's plugins
    take that they were approved.

    With a KIND, -o name.pdf (.svg: vectors too, .png) writes that one picture. Figures for a paper
    have its --width and --font, and their numbers in --data: a row for each point, with what it is,
    its unit and its series.

    \b
    Example:
      sweep plot quickstart.zarr -o figures --format pdf
      sweep plot order quickstart.zarr -e pendulum -o order.pdf
      sweep plot energy quickstart.zarr -e pendulum --where "step_size < 0.02" -o energy.svg
      sweep plot order quickstart.zarr -e pendulum -o order.pdf --width 3.4in --font serif \\
        --no-heading --data order.csv
      sweep plot order forms.zarr --across formulation
      sweep plot sphere mclachlan-portraits.zarr -e vortices --body 0 --view 1 1 1
    """
    kind, store = _split_kind_and_store_arguments(what)
    kinds = _plot_kinds_with_options(kind, store, body, view)
    datasets = open_experiments_for_command(store, experiment, where if across else None)
    if across is not None and kind != "order":
        raise InputError("--across is of the kind order: `sweep plot order STORE --across NAME`")
    path = require_local_path(output or default_plot_directory(store))
    table = _data_file(data)
    one = _is_output_one_picture(path, kind, suffix)
    if not one and (path / "zarr.json").exists():
        raise InputError(f"{path} is a store, and no place for pictures: give another directory")
    drawn = []  # of each picture: the experiment, the kind, the figure
    with sweep.plots.page(width, font, heading):
        if across is not None:
            figure = sweep.plots.convergence_across(datasets, across)
            drawn.append((f"across {across}", "order", figure))
            path = path if one else path / f"across-{across}-order.{suffix or 'png'}"
            written, reasons = [_save_picture(figure, path)], []
        elif one:
            drawn.append(_write_only_picture(datasets, where, *kinds.items(), path))
            written, reasons = [path], []
        else:
            written, reasons = _write_all_pictures(
                datasets, where, kinds, path, f".{suffix or 'png'}", drawn
            )
    if table is not None and drawn:
        figures = {(name, of_kind): figure for name, of_kind, figure in drawn}
        try:
            written.append(sweep.plots.save_numbers(figures, table))
        except OSError as error:
            raise InputError(f"{table} cannot be written: {error.strerror}", key="data") from None
    if as_json:
        if not written:
            _echo_pictures_not_drawn(written, reasons)
        echo_json({"files": list(map(str, written)), "not_drawn": reasons})
        return
    for file in written:
        click.echo(file)
    if not heading:
        for name, of_kind, figure in drawn:
            said = "; ".join(getattr(figure, "caption", []))
            click.echo(f"Caption of {name}, {of_kind}: {said}", err=True)
    if not one and across is None and (kind or body or view or where or not written):
        _echo_pictures_not_drawn(written, reasons)


def _data_file(name):
    """Where numbers are to be written, or None; `InputError` before any work if they cannot be."""
    if name is None:
        return None
    path = require_local_path(name)
    if path.suffix.lower() != ".csv":
        raise InputError(f"--data {path} is no table: expected a file NAME.csv", key="data")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no such directory", key="data")
    return path


def _split_kind_and_store_arguments(what):
    """The name of a kind, or none, and the store, of one or two arguments."""
    if len(what) == 1 and what[0] in sweep.plots.KINDS and not Path(what[0]).exists():
        raise InputError(f"`sweep plot {what[0]}` of which store? Write its path behind the kind")
    if len(what) > 2:
        raise click.UsageError(f"expected a KIND and a STORE, found {' '.join(what)}")
    return (None, *what) if len(what) == 1 else what


def _plot_kinds_with_options(kind, store, bodies, view):
    """The kinds to draw with their options: that one, or all, or the sphere that options are of."""
    options = {"bodies": bodies} if bodies else {}
    options |= {"view": view} if view else {}
    if options and kind not in (None, "sphere"):
        raise InputError("--body and --view are about the kind sphere", key="kind")
    if options:
        return {sweep.plots.KINDS["sphere"]: options}
    if kind in sweep.plots.KINDS:
        return {sweep.plots.KINDS[kind]: {}}
    offered = sweep.plots.KINDS | _plot_kinds_of_plugins(store, kind)
    if kind is None:
        return dict.fromkeys(offered.values(), {})
    check_known("kind of plot", kind, offered, key="kind")
    return {offered[kind]: {}}


def _plot_kinds_of_plugins(store, name):
    """Kinds of plots that are not built in, by name: with a name, what cannot be used is an error.

    They come from plugins of the study that a store keeps, where this user has approved these, and
    from installed distributions.
    """
    library, found = sweep.plugins.Library(_approved_plot_plugins(store)), {}
    try:
        found = sweep.plots.kinds_of_plugins(library)
        library = sweep.plugins.with_installed_plugins(
            library, "plot", None if name is None else [name], sweep.plots.KINDS
        )
        return sweep.plots.kinds_of_plugins(library)
    except InputError as error:
        if name is not None:
            raise
        click.echo(f"Not drawn: {error}", err=True)
        return found


def _approved_plot_plugins(store):
    """The plugins with plots that the studies of a store name, if they may run."""
    try:
        attributes = Store.at(store).attributes
        texts = (parse_toml(text, str(store)).value for text in attributes.get("studies", []))
        named = [name for text in texts for name in text.get("plugins", [])]
        kept = attributes.get("plugins", {})
        # Looking at a store runs nothing but what it takes for pictures.
        drawing = {key: kept[key] for key in named if key in kept and "PLOTS" in str(kept[key])}
        return tuple(sweep.plugins.approved_plugins_of_store({"plugins": drawing}, store).values())
    except (InputError, TypeError, ValueError):
        return ()


def _is_output_one_picture(path, kind, suffix):
    """Whether the output is one picture; `InputError` if it can be neither that nor a directory."""
    ending = path.suffix.lower()
    if path.is_dir() or not ending[1:].isalpha():
        return False
    if ending not in PICTURES:
        raise InputError(
            f"{path} is no directory, and no picture ends in {path.suffix}: expected one of "
            f"{', '.join(PICTURES)}, or a directory",
            key="output",
        )
    if suffix is not None:
        raise InputError(
            f"{path} is one picture, whose ending says its format: --format is of a directory",
            key="format",
        )
    if kind is None:
        raise InputError(
            f"{path} is one picture: say of which KIND, as in `sweep plot energy STORE -o {path}`",
            key="output",
        )
    return True


def _write_only_picture(datasets, where, drawing, path):
    """Write the only picture of a kind that a store has the results for; see `command`."""
    (kind, options), figures, reasons = drawing, {}, []
    for name, dataset in datasets.items():
        try:
            figures[name] = sweep.plots.picture(
                kind, _filter_runs_by_expression(dataset, where), **options
            )
        except InputError as error:
            reasons.append(f"{name}: {error}")
    if not figures:
        raise InputError(f"nothing to draw of the kind {kind.name}. " + "\n".join(reasons))
    if len(figures) > 1:
        raise InputError(
            f"{path} is one picture, and {len(figures)} experiments have results for it: "
            f"{', '.join(figures)}. Choose one with -e NAME, or give a directory",
            key="experiment",
        )
    ((name, figure),) = figures.items()
    _save_picture(figure, path)
    return name, kind.name, figure


def _save_picture(figure, path):
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return sweep.plots.save(figure, path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None


def _write_all_pictures(datasets, where, kinds, directory, ending, drawn):
    """The files of all pictures of some kinds, and why others are not drawn."""
    written, reasons = [], []
    for name, dataset in datasets.items():
        try:
            dataset = _filter_runs_by_expression(dataset, where)
        except InputError as error:
            reasons.append(f"{name}: {error}")
            continue

        def note_why_not_drawn(of_kind, error, name=name):
            reasons.append(f"{name}: {of_kind}: {error}")

        def keep_figure(of_kind, figure, name=name):
            drawn.append((name, of_kind, figure))

        written += save_experiment_plots(
            dataset, directory, name, ending, kinds, note_why_not_drawn, keep_figure
        )
    return written, reasons


def _echo_pictures_not_drawn(written, reasons):
    if not written:
        raise InputError("nothing to draw. " + "\n".join(reasons))
    for reason in reasons:
        click.echo(f"Not drawn: {reason}", err=True)


def _filter_runs_by_expression(dataset, where):
    """The runs for which an expression holds; all without one."""
    return dataset if where is None else sweep.query(dataset, where)
