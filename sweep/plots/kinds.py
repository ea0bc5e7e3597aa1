"""The kinds of pictures that `sweep plot` draws, by name."""

import inspect
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from integrators.errors import InputError, check_known, suggest_nearest
from sweep.analysis.runs.selection import run_table, run_table_without_repeats
from sweep.plots.captions import add_figure_heading
from sweep.plots.drift_plots import drift_over_time
from sweep.plots.order_plots import convergence
from sweep.plots.over_time import (
    energy_over_time,
    lyapunov_over_time,
    megno_over_time,
    unit_length_over_time,
)
from sweep.plots.scan_plots import values_against
from sweep.plots.sphere_plots import sphere
from sweep.plots.style import page, show_in_notebooks
from sweep.plots.work_plots import plot_work_panels
from sweep.plugins.plots import PlotKind
from sweep.store.open import Source, open_experiment

if TYPE_CHECKING:
    from sweep.plugins.registry import Library

COMMON = ("width", "font", "heading")  # options of `picture` for every kind
# Built-in kinds by name. Names are used in commands and file names.
KINDS = {
    kind.name: kind
    for kind in (
        PlotKind("order", convergence, error="global_error"),
        PlotKind("drift", drift_over_time),
        PlotKind("work", plot_work_panels, error="global_error"),
        PlotKind("scan", values_against),
        PlotKind("energy", energy_over_time),
        PlotKind("unit-length", unit_length_over_time),
        PlotKind("lyapunov", lyapunov_over_time),
        PlotKind("megno", megno_over_time),
        PlotKind("sphere", sphere),
    )
}


def kinds_of_plugins(library: "Library") -> dict[str, PlotKind]:
    """The kinds of plots in the plugins of a library, by name.

    Parameters
    ----------
    library : sweep.plugins.registry.Library

    Returns
    -------
    dict of str to PlotKind

    Raises
    ------
    InputError
        If a kind has the name of a built-in one.
    """
    for kind in library.plots:
        if kind.name in KINDS:
            source = library.origin("plot", kind.name)
            raise InputError(
                f"{source.in_words if source else 'a plugin'} adds the plot {kind.name!r}, which "
                "is built in; expected a name of its own"
            )
    return {kind.name: kind for kind in library.plots}


def picture(
    kind: str | PlotKind,
    dataset: Source,
    heading: bool = True,
    width: str | float | None = None,
    font: str | None = None,
    *,
    experiment: str | None = None,
    **options: Any,
) -> Figure:
    """Draw a picture of an experiment, under a heading with the experiment and its setting.

    Parameters
    ----------
    kind : str or PlotKind
        A key of `KINDS`, or a kind of a plugin.
    dataset : str, Path, Store, xarray.DataTree or xarray.Dataset
        A store, the tree of `sweep.open_study`, one experiment of it, or a selection of its runs.
    heading : bool, optional
        Whether to write the heading. ``figure.caption``, a list of str, has its lines in any case.
    width, font : str, optional
        See `page`: ``"3.4in"``, ``"serif"``.
    experiment : str, optional
        The experiment of a store or tree. It may be left out if there is only one.
    **options
        Options of the function that draws this kind, such as ``view`` for ``"sphere"``.

    Returns
    -------
    matplotlib.figure.Figure
        The figure does not belong to a window. A notebook displays it, and `save` writes it.

    Raises
    ------
    InputError
        If the kind or an option is unknown; or if the dataset lacks results, with those that are
        missing and what to add to the study.

    Examples
    --------
    >>> energy = picture("energy", tree["pendulum"])   # doctest: +SKIP
    >>> save(energy, "energy.pdf")                     # doctest: +SKIP
    >>> numbers(energy).to_csv("energy.csv")           # doctest: +SKIP
    """
    known = _known_plot_kind(kind)
    runs = run_table(open_experiment(dataset, experiment))
    of_kind = [*inspect.signature(known.draw).parameters][1:]
    offered = [*of_kind, "experiment", *COMMON]
    for name in options.keys() - {*of_kind}:
        of = f"option of the plot {known.name}"
        if name == "ax":
            raise InputError(
                f"unknown {of} 'ax': each plot is a figure of its own; `figure.axes` are its panels"
            )
        close = suggest_nearest(name, offered)
        valid = "" if "Valid" in close else f" Valid: {', '.join(offered)}."
        raise InputError(f"unknown {of} {name!r}.{close}{valid}")
    with page(width, font, heading):
        figure = show_in_notebooks(known.draw(runs, **options))
        return add_figure_heading(figure, run_table_without_repeats(runs), known.error)


def _known_plot_kind(kind: str | PlotKind) -> PlotKind:
    if isinstance(kind, PlotKind):
        return kind
    check_known("kind of plot", kind, KINDS, key="kind")
    return KINDS[kind]
