"""`sweep plot`: draw pictures of a store."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack

import click

import sweep
from integrators.errors import InputError, check_known
from sweep.cli.options import ClickSettings, command
from sweep.cli.output import echo_json, path_of_new_file, writing
from sweep.cli.selected_runs import open_experiments
from sweep.cli.show.pictures import PICTURES, draw_pictures, picture_file, save_picture
from sweep.store.backends.places import require_local_path
from sweep.store.store import Store

if TYPE_CHECKING:
    from sweep.plugins.loader import Plugin
    from sweep.plugins.plots import PlotKind

# If options are given but no kind, the first of these kinds that has the options is drawn.
DEFAULTS = ("scan", "sphere")


class OfKind(TypedDict):
    """Options that only some kinds of pictures have; arguments of the functions that draw these."""

    bodies: tuple[int, ...]
    view: tuple[float, float, float] | None
    x: str | None
    y: str | None
    hue: str | None
    col: str | None


@command
def plot(
    what: Annotated[tuple[str, ...], ClickSettings(metavar="[KIND] STORE")],
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
    """Plot everything that STORE has results for, or only one KIND.

    \b
      order                errors against step size
      drift                errors of an invariant, and their drift
      work                 errors against their cost (work–precision diagram)
      energy, unit-length  errors over time
      megno, lyapunov      divergence of nearby trajectories
      sphere               stored states as phase portraits and Poincaré sections
      scan                 any result against any axis (--x, --y, --hue, --col)

    `sweep ls plots` also lists the kinds of installed plugins. Kinds of the study's own plugins are
    drawn if these are approved.

    With a KIND, -o name.pdf (or .svg, .png, …) writes one picture to this file. For a paper, choose
    --width and --font as in the paper. --data writes a row for each point, with its quantity, unit
    and series.

    \b
    Example:
      sweep plot quickstart.zarr -o figures --format pdf
      sweep plot order quickstart.zarr -e pendulum -o order.pdf
      sweep plot energy quickstart.zarr --where "step_size < 0.02" -o energy.svg
      sweep plot order quickstart.zarr -e pendulum -o order.pdf --width 3.4in \\
        --font serif --no-heading --data order.csv
      sweep plot order forms.zarr --across formulation
      sweep plot order masses.zarr --x mass
      sweep plot scan masses.zarr --x mass --y energy_error@max --col step_size
      sweep plot sphere mclachlan-portraits.zarr -e vortices --view 1 1 1

    Options:
      -o, --output PATH  A file for one picture, such as name.pdf; or a directory, by default
          NAME-plots beside the store.
      --format [png|pdf|svg]  Format of the files in a directory.  [default: png]
      --width LENGTH  Width of each figure, for a paper: 3.4in, 86mm, 8.6cm, 246pt.
      --font FAMILY  Font: serif, sans-serif, monospace, or an installed font.
      --heading/--no-heading  Draw a heading above the figure, or print its text instead, for the
          caption in a paper.
      --across NAME  For the kind order: draw a panel for each value of NAME, as in sweep order
          --across.
      --data FILE.csv  Write the numbers of the figures to this file.
      --body N  For the kind sphere: draw only this body; repeatable.
      --view X Y Z  For the kind sphere: direction to the observer.
      --x AXIS  For the kinds order, drift, work and scan: the horizontal axis; by default the
          scanned parameter with most values.
      --y QUANTITY  For the kind scan: the result to draw, such as energy_error@max,
          global_error@end, evaluations, or another column of sweep query.
      --hue AXIS  For the kind scan: draw a curve for each value of this axis.  [default:
          integrator]
      --col AXIS  For the kind scan: draw a panel for each value of this axis.
    """
    kind, store = _kind_and_store(what)
    options = {name: value for name, value in of_kind.items() if value}
    kinds = _kinds_to_draw(kind, store, options)
    datasets = open_experiments(store, experiment, where if across else None)
    if across is not None and kind != "order":
        raise InputError("--across needs the kind order: `sweep plot order STORE --across NAME`")
    path = require_local_path(output or Store.at(store).output_path("-plots"))
    table = None if data is None else path_of_new_file(data, "data", "table", [".csv"])
    one = _is_one_picture(path, kind, layout)
    if not one and (path / "zarr.json").exists():
        raise InputError(f"{path} is a store; give another directory for pictures")
    with sweep.plots.page(width, font, heading):
        if across is not None:
            figure = sweep.plots.convergence_across(datasets, across)
            found = [(f"across {across}", "order", figure)]
        else:
            found = list(draw_pictures(datasets, kinds, where))
        drawn = {own[:2]: own[2] for own in found if not isinstance(own[2], InputError)}
        reasons = [  # an experiment may have the name of the kind
            ": ".join(dict.fromkeys(filter(None, map(str, own))))
            for own in found
            if own[:2] not in drawn
        ]
        if not drawn:
            raise InputError("\n".join(reasons))
        if one and len(drawn) > 1:
            raise InputError(
                f"{path} is one file, but there are pictures of {len(drawn)} experiments: "
                f"{', '.join(name for name, _ in drawn)}. Choose one with -e NAME, or give "
                "a directory",
                key="experiment",
            )
        written: list[str | Path] = [
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
        raise InputError(f"`sweep plot {what[0]}` of which store? Write its path after the kind")
    if len(what) > 2:
        raise click.UsageError(f"expected a KIND and a STORE, found {' '.join(what)}")
    if len(what) == 2 and what[0].endswith(".zarr"):
        raise InputError(f"the kind comes first: `sweep plot {what[1]} {what[0]}`")
    return (what[0] if len(what) == 2 else None), what[-1]


def _kinds_to_draw(
    kind: str | None, store: str, options: dict[str, Any]
) -> "Mapping[PlotKind, dict[str, Any]]":
    """Choose the kinds to draw: the named one, the first that has the options, or all.

    Parameters
    ----------
    kind : str or None
    store : str
    options : dict
        Arguments of the function that draws the kind.

    Returns
    -------
    dict of PlotKind to dict
        The kinds to draw with their options.
    """
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
            f"the kind {kind} takes no {given}; kinds that do: {having or 'none'}",
            key="kind",
        )
    return {offered[kind]: options}


def _kinds_of_plugins(store: str, name: str | None) -> "dict[str, PlotKind]":
    """Kinds of plots of plugins, by name.

    They come from installed plugins, and from approved plugins of the study that a store keeps. If
    a plugin cannot be used, that is an error if a kind is asked for by name, and otherwise printed
    to standard error.
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
    """Approved plugins with kinds of plots that a store keeps."""
    try:
        kept = Store.at(store).attributes.get("plugins", {})
        # Drawing needs no other plugins, since results are read from the store.
        drawing = {name: source for name, source in kept.items() if "PLOTS" in str(source)}
        return tuple(sweep.plugins.approved_plugins_of_store({"plugins": drawing}, store).values())
    except (InputError, TypeError, ValueError):
        return ()


def _is_one_picture(path: Path, kind: str | None, suffix: str | None) -> bool:
    """Whether the output is one picture rather than a directory; `InputError` if it is neither."""
    if path.is_dir() or not path.suffix[1:].isalpha():
        return False
    if path.suffix.lower() not in PICTURES:
        raise InputError(
            f"{path} is neither a directory nor a picture; expected a directory, or a file that "
            f"ends in one of {', '.join(PICTURES)}",
            key="output",
        )
    if suffix is not None:
        raise InputError(
            f"the ending of {path} sets its format; --format needs a directory",
            key="format",
        )
    if kind is None:
        raise InputError(
            f"{path} is one picture: give its KIND, as in `sweep plot energy STORE -o {path}`",
            key="output",
        )
    return True
