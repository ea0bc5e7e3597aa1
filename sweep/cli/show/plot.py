"""`sweep plot`: pictures of a store."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack

import click

import sweep
from integrators.errors import InputError, check_known
from sweep.cli.options import Click, command
from sweep.cli.output import echo_json, path_of_new_file, writing
from sweep.cli.selection import open_experiments
from sweep.cli.show.pictures import PICTURES, draw_pictures, picture_file, save_picture
from sweep.store.backends.places import require_local_path
from sweep.store.store import Store

if TYPE_CHECKING:
    from sweep.plugins.loader import Plugin
    from sweep.plugins.plots import PlotKind

# Options by the name of the argument of the functions that draw. The kinds `DEFAULTS` are drawn
# where options are given and no kind; the first that has them.
DEFAULTS = ("scan", "sphere")


class OfKind(TypedDict):
    """Arguments of the functions that draw some kinds."""

    bodies: tuple[int, ...]
    view: tuple[float, float, float] | None
    x: str | None
    y: str | None
    hue: str | None
    col: str | None


@command
def plot(
    what: Annotated[tuple[str, ...], Click(metavar="[KIND] STORE")],
    experiment: tuple[str, ...],
    where: str | None,
    output: str | None,
    layout: Literal["png", "pdf", "svg"] | None,
    width: str | None,
    font: str | None,
    across: str | None,
    data: str | None,
    as_json: bool,
    heading: bool = True,
    **of_kind: Unpack[OfKind],
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

    Options:
      -o, --output PATH  A file for one picture, such as name.pdf; or a directory, by default
          NAME-plots beside the store.
      --format [png|pdf|svg]  Format of the files in a directory.  [default: png]
      --width LENGTH  Width of each figure, for a paper: 3.4in, 86mm, 8.6cm, 246pt.
      --font FAMILY  Font: serif, sans-serif, monospace, or one that is installed.
      --heading/--no-heading  Heading above the figure; without it the text is printed, for the
          paper's caption.
      --across NAME  For the kind order, a panel for each value of NAME, as in sweep order --across.
      --data FILE.csv  Write the numbers of the figures to this file.
      --body N  For the kind sphere, draw only this body; repeatable.
      --view X Y Z  For the kind sphere, direction from which it is seen.
      --x AXIS  For the kinds order, drift, work and scan, the axis that values are drawn against;
          by default the scanned parameter with most values.
      --y QUANTITY  For the kind scan, the result to draw: energy_error@max, global_error@end,
          evaluations, or another column of sweep query.
      --hue AXIS  For the kind scan, the axis that has a curve for each value.  [default:
          integrator]
      --col AXIS  For the kind scan, the axis that has a panel for each value.
    """
    kind, store = _kind_and_store(what)
    options = {name: value for name, value in of_kind.items() if value}
    kinds = _kinds_to_draw(kind, store, options)
    datasets = open_experiments(store, experiment, where if across else None)
    if across is not None and kind != "order":
        raise InputError("--across is of the kind order: `sweep plot order STORE --across NAME`")
    path = require_local_path(output or Store.at(store).output_path("-plots"))
    table = None if data is None else path_of_new_file(data, "data", "table", [".csv"])
    one = _is_one_picture(path, kind, layout)
    if not one and (path / "zarr.json").exists():
        raise InputError(f"{path} is a store, and no place for pictures: give another directory")
    with sweep.plots.page(width, font, heading):
        if across is not None:
            figure = sweep.plots.convergence_across(datasets, across)
            found = [(f"across {across}", "order", figure)]
        else:
            found = list(draw_pictures(datasets, kinds, where))
        drawn = {own[:2]: own[2] for own in found if not isinstance(own[2], InputError)}
        reasons = [": ".join(filter(None, map(str, own))) for own in found if own[:2] not in drawn]
        if not drawn:
            raise InputError("nothing to draw. " + "\n".join(reasons))
        if one and len(drawn) > 1:
            raise InputError(
                f"{path} is one picture, and {len(drawn)} experiments have results for it: "
                f"{', '.join(name for name, _ in drawn)}. Choose one with -e NAME, or give "
                "a directory",
                key="experiment",
            )
        written = [
            save_picture(figure, path if one else picture_file(path, *names, layout or "png"))
            for names, figure in drawn.items()
        ]
    if table is not None:
        with writing(table, "data"):
            written.append(sweep.plots.save_numbers(drawn, table))
    if as_json:
        echo_json({"files": list(map(str, written)), "not_drawn": reasons})
        return
    for file in written:
        click.echo(file)
    for (name, of), figure in () if heading else drawn.items():
        caption = "; ".join(getattr(figure, "caption", []))
        click.echo(f"Caption of {name}, {of}: {caption}", err=True)
    for reason in reasons if not one and (kind or options or where) else ():
        click.echo(f"Not drawn: {reason}", err=True)


def _kind_and_store(what: tuple[str, ...]) -> tuple[str | None, str]:
    """Split ``[KIND] STORE`` into the name of the kind, or None, and the store."""
    if len(what) == 1 and what[0] in sweep.plots.KINDS and not Path(what[0]).exists():
        raise InputError(f"`sweep plot {what[0]}` of which store? Write its path behind the kind")
    if len(what) > 2:
        raise click.UsageError(f"expected a KIND and a STORE, found {' '.join(what)}")
    return (what[0] if len(what) == 2 else None), what[-1]


def _kinds_to_draw(
    kind: str | None, store: str, options: dict[str, Any]
) -> "Mapping[PlotKind, dict[str, Any]]":
    """The kinds to draw with their options: the named one, the one that has options, or all."""
    offered: dict[str, PlotKind] = sweep.plots.KINDS
    if kind not in offered and not (kind is None and options):
        offered = offered | _kinds_of_plugins(store, kind)
    if kind is None and not options:
        return dict.fromkeys(offered.values(), {})
    taken = {
        name: options.keys() <= inspect.signature(own.draw).parameters.keys()
        for name, own in offered.items()
    }
    kind = kind or next((name for name in DEFAULTS if taken[name]), DEFAULTS[0])
    check_known("kind of plot", kind, offered, key="kind")
    if not taken[kind]:
        given = " or ".join("--body" if name == "bodies" else f"--{name}" for name in options)
        having = ", ".join(name for name, takes in taken.items() if takes)
        raise InputError(
            f"the kind {kind} takes no {given}; kinds that do: {having or 'none'}", key="kind"
        )
    return {offered[kind]: options}


def _kinds_of_plugins(store: str, name: str | None) -> "dict[str, PlotKind]":
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
    """The approved plugins with plots that a store keeps."""
    try:
        kept = Store.at(store).attributes.get("plugins", {})
        # Drawing runs no other plugin: results are taken from the store.
        drawing = {name: source for name, source in kept.items() if "PLOTS" in str(source)}
        return tuple(sweep.plugins.approved_plugins_of_store({"plugins": drawing}, store).values())
    except (InputError, TypeError, ValueError):
        return ()


def _is_one_picture(path: Path, kind: str | None, suffix: str | None) -> bool:
    """Whether the output is one picture; `InputError` if it is neither that nor a directory."""
    if path.is_dir() or not path.suffix[1:].isalpha():
        return False
    if path.suffix.lower() not in PICTURES:
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
