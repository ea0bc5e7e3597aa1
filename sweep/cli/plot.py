"""`sweep plot`: pictures of a store."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import sweep
from integrators.errors import InputError, check_known
from sweep.cli.common import (
    Picture,
    draw_pictures,
    echo_json,
    experiment_option,
    json_option,
    open_experiments_for_command,
    where_option,
    writing,
)
from sweep.cli.summary import default_plot_directory
from sweep.store.backends.places import require_local_path
from sweep.store.store import Store
from sweep.study.text import parse_toml

if TYPE_CHECKING:
    from sweep.plugins.loader import Plugin
    from sweep.plugins.plots import PlotKind

PICTURES = (".pdf", ".svg", ".png", ".eps", ".jpg", ".tif", ".webp")
AXES = ("x", "y", "hue", "col")


@click.command("plot")
@click.argument("what", nargs=-1, required=True, metavar="[KIND] STORE")
@experiment_option
@where_option
@click.option(
    "--output",
    "-o",
    metavar="PATH",
    help="A file for one picture, such as name.pdf; or a directory, by default NAME-plots beside "
    "the store.",
)
@click.option(
    "--format",
    "suffix",
    type=click.Choice(["png", "pdf", "svg"]),
    help="Format of the files in a directory.  [default: png]",
)
@click.option(
    "--width",
    metavar="LENGTH",
    help="Width of each figure, for a paper: 3.4in, 86mm, 8.6cm, 246pt.",
)
@click.option(
    "--font",
    metavar="FAMILY",
    help="Font: serif, sans-serif, monospace, or one that is installed.",
)
@click.option(
    "--heading/--no-heading",
    default=True,
    help="Heading above the figure; without it the text is printed, for the paper's caption.",
)
@click.option(
    "--across",
    metavar="NAME",
    help="For the kind order, a panel for each value of NAME, as in sweep order --across.",
)
@click.option("--data", metavar="FILE.csv", help="Write the numbers of the figures to this file.")
@click.option(
    "--body",
    "bodies",
    type=int,
    multiple=True,
    metavar="N",
    help="For the kind sphere, draw only this body; repeatable.",
)
@click.option(
    "--view",
    type=float,
    nargs=3,
    metavar="X Y Z",
    help="For the kind sphere, direction from which it is seen.",
)
@click.option(
    "--x",
    metavar="AXIS",
    help="For the kinds order, drift, work and scan, the axis that values are drawn against; by "
    "default the scanned parameter with most values.",
)
@click.option(
    "--y",
    metavar="QUANTITY",
    help="For the kind scan, the result to draw: energy_error@max, global_error@end, evaluations, "
    "or another column of sweep query.",
)
@click.option(
    "--hue",
    metavar="AXIS",
    help="For the kind scan, the axis that has a curve for each value.  [default: integrator]",
)
@click.option(
    "--col", metavar="AXIS", help="For the kind scan, the axis that has a panel for each value."
)
@json_option
def command(
    what: tuple[str, ...],
    experiment: tuple[str, ...],
    where: str | None,
    output: str | None,
    suffix: str | None,
    width: str | None,
    font: str | None,
    heading: bool,
    across: str | None,
    data: str | None,
    as_json: bool,
    **of_kind: Any,
) -> None:
    """Plot everything that STORE has results for, or one KIND.

    Kinds: order, error against step size; drift, errors of an invariant with their drift; work,
    errors against their cost; energy and unit-length, errors over time; megno and lyapunov, how
    nearby trajectories diverge; sphere, stored states as phase portraits and Poincaré sections;
    scan, any result against any axis, as --x, --y, --hue and --col say.
    `sweep ls plots` also lists those of installed plugins; those of the study's own plugins are
    drawn once these are approved.

    With a KIND, -o name.pdf (or .svg, .png, …) writes that one picture. For a paper, set --width
    and --font to the paper's; --data writes a row for each point, with its quantity, unit and
    series.

    \b
    Example:
      sweep plot quickstart.zarr -o figures --format pdf
      sweep plot order quickstart.zarr -e pendulum -o order.pdf
      sweep plot energy quickstart.zarr -e pendulum --where "step_size < 0.02" -o energy.svg
      sweep plot order quickstart.zarr -e pendulum -o order.pdf --width 3.4in --font serif \\
        --no-heading --data order.csv
      sweep plot order forms.zarr --across formulation
      sweep plot order masses.zarr --x mass
      sweep plot scan masses.zarr --x mass --y energy_error@max --col step_size
      sweep plot sphere mclachlan-portraits.zarr -e vortices --body 0 --view 1 1 1
    """
    kind, store = _split_kind_and_store_arguments(what)
    options = {name: value for name, value in of_kind.items() if value}
    kinds = _plot_kinds_with_options(kind, store, options)
    datasets = open_experiments_for_command(store, experiment, where if across else None)
    if across is not None and kind != "order":
        raise InputError("--across is of the kind order: `sweep plot order STORE --across NAME`")
    path = require_local_path(output or default_plot_directory(store))
    table = None if data is None else _checked_data_file(data)
    one = _is_output_one_picture(path, kind, suffix)
    if not one and (path / "zarr.json").exists():
        raise InputError(f"{path} is a store, and no place for pictures: give another directory")
    with sweep.plots.page(width, font, heading):
        if across is not None:
            figure = sweep.plots.convergence_across(datasets, across)
            found = [Picture(f"across {across}", "order", figure)]
        else:
            found = list(draw_pictures(datasets, kinds, where))
        drawn = [picture for picture in found if picture.figure is not None]
        reasons = [picture.why_not for picture in found if picture.figure is None]
        if not drawn:
            raise InputError("nothing to draw. " + "\n".join(reasons))
        if one and len(drawn) > 1:
            raise InputError(
                f"{path} is one picture, and {len(drawn)} experiments have results for it: "
                f"{', '.join(picture.name for picture in drawn)}. Choose one with -e NAME, or give "
                "a directory",
                key="experiment",
            )
        ending = f".{suffix or 'png'}"
        written = [p.save(path if one else path / f"{p.file_stem}{ending}") for p in drawn]
    if table is not None:
        figures = {(picture.name, picture.kind): picture.figure for picture in drawn}
        with writing(table, "data"):
            written.append(sweep.plots.save_numbers(figures, table))
    if as_json:
        echo_json({"files": list(map(str, written)), "not_drawn": reasons})
        return
    for file in written:
        click.echo(file)
    if not heading:
        for picture in drawn:
            caption = "; ".join(getattr(picture.figure, "caption", []))
            click.echo(f"Caption of {picture.name}, {picture.kind}: {caption}", err=True)
    if not one and (kind or options or where):
        for reason in reasons:
            click.echo(f"Not drawn: {reason}", err=True)


def _checked_data_file(name: str) -> Path:
    """The path of a file of numbers; `InputError`, before any work, if it cannot be written."""
    path = require_local_path(name)
    if path.suffix.lower() != ".csv":
        raise InputError(f"--data {path} is no table: expected a file NAME.csv", key="data")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no such directory", key="data")
    return path


def _split_kind_and_store_arguments(what: tuple[str, ...]) -> tuple[str | None, str]:
    """Split ``[KIND] STORE`` into the name of the kind, or None, and the store."""
    if len(what) == 1 and what[0] in sweep.plots.KINDS and not Path(what[0]).exists():
        raise InputError(f"`sweep plot {what[0]}` of which store? Write its path behind the kind")
    if len(what) > 2:
        raise click.UsageError(f"expected a KIND and a STORE, found {' '.join(what)}")
    return (what[0] if len(what) == 2 else None), what[-1]


def _plot_kinds_with_options(
    kind: str | None, store: str, options: dict[str, Any]
) -> "Mapping[PlotKind, dict[str, Any]]":
    """The kinds to draw with their options: the named one, the one that has options, or all."""
    if axes := [name for name in AXES if name in options]:
        kind, against = kind or "scan", sweep.plots.AGAINST_AN_AXIS
        if kind != "scan" and (kind not in against or axes != ["x"]):
            raise InputError(
                f"--{', --'.join(axes)} with the kind {kind}: --x is of the kinds "
                f"{', '.join(against)}; --y, --hue and --col of scan alone",
                key="kind",
            )
    if len(options) > len(axes):
        kind = kind or "sphere"
        if kind != "sphere":
            raise InputError("--body and --view are about the kind sphere", key="kind")
    offered: dict[str, PlotKind] = sweep.plots.KINDS
    if kind not in offered:
        offered = offered | _plot_kinds_of_plugins(store, kind)
    if kind is None:
        return dict.fromkeys(offered.values(), {})
    check_known("kind of plot", kind, offered, key="kind")
    return {offered[kind]: options}


def _plot_kinds_of_plugins(store: str, name: str | None) -> "dict[str, PlotKind]":
    """Kinds of plots that are not built in, by name.

    They come from plugins of the study that a store keeps, where this user has approved these, and
    from installed plugins. A plugin that cannot be used is an error where a kind is asked for by
    name, and else a line on standard error.
    """
    library = sweep.plugins.Library(_approved_plot_plugins(store))
    kinds: dict[str, PlotKind] = {}
    try:
        kinds = sweep.plots.kinds_of_plugins(library)
        library = sweep.plugins.with_installed_plugins(
            library, "plot", None if name is None else [name], sweep.plots.KINDS
        )
        kinds = sweep.plots.kinds_of_plugins(library)
    except InputError as error:
        if name is not None:
            raise
        click.echo(f"Not drawn: {error}", err=True)
    return kinds


def _approved_plot_plugins(store: str) -> "tuple[Plugin, ...]":
    """The approved plugins with plots that the studies of a store name."""
    try:
        attributes = Store.at(store).attributes
        texts = (parse_toml(text, str(store)).data for text in attributes.get("studies", []))
        named = [name for text in texts for name in text.get("plugins", [])]
        kept = attributes.get("plugins", {})
        # Drawing runs no other plugin: results are taken from the store.
        drawing = {key: kept[key] for key in named if key in kept and "PLOTS" in str(kept[key])}
        return tuple(sweep.plugins.approved_plugins_of_store({"plugins": drawing}, store).values())
    except (InputError, TypeError, ValueError):
        return ()


def _is_output_one_picture(path: Path, kind: str | None, suffix: str | None) -> bool:
    """Whether the output is one picture; `InputError` if it is neither that nor a directory."""
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
