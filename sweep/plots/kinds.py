"""What `sweep plot` draws of an experiment, by name."""

from pathlib import Path

from integrators.errors import InputError, check_known
from sweep.analysis.runs.selection import run_table, run_table_without_repeats
from sweep.plots.captions import add_figure_heading
from sweep.plots.drifts import drift_over_time
from sweep.plots.orders import convergence
from sweep.plots.over_time import (
    energy_over_time,
    lyapunov_over_time,
    megno_over_time,
    unit_length_over_time,
)
from sweep.plots.page_setup import page
from sweep.plots.spheres import sphere
from sweep.plots.style import save, show_in_notebooks
from sweep.plots.work import plot_work_panels
from sweep.plugins import PlotKind
from sweep.store.open import open_experiment

# What can be drawn, by the name that the command line and file names give it.
KINDS = {
    kind.name: kind
    for kind in (
        PlotKind("order", convergence, error="global_error"),
        PlotKind("drift", drift_over_time),
        PlotKind("work", plot_work_panels, error="global_error"),
        PlotKind("energy", energy_over_time),
        PlotKind("unit-length", unit_length_over_time),
        PlotKind("lyapunov", lyapunov_over_time),
        PlotKind("megno", megno_over_time),
        PlotKind("sphere", sphere),
    )
}


def added_by(library):
    """The kinds of plots that plugins and installed distributions add, as a dict by name.

    Parameters
    ----------
    library : sweep.plugins.registry.Library

    Raises
    ------
    InputError
        If one has the name of a built-in kind.
    """
    for kind in library.plots:
        if kind.name in KINDS:
            raise InputError(
                f"{library.origin('plot', kind.name).in_words} adds the plot {kind.name!r}, which "
                "is built in; expected a name of its own"
            )
    return {kind.name: kind for kind in library.plots}


def picture(kind, dataset, heading=True, width=None, font=None, *, experiment=None, **options):
    """One picture of an experiment, with the experiment and its setting said above it.

    Parameters
    ----------
    kind : str or PlotKind
        A key of `KINDS`, or a kind that is none of these.
    dataset : str, Path, Store, xarray.DataTree or xarray.Dataset
        A store, the tree of `sweep.open_study`, one experiment of it, or a selection of its runs.
    heading : bool, optional
        Whether to say them, and what is drawn; else only ``figure.caption`` has it, a list of str.
    width, font : str, optional
        Of `page`: ``"3.4in"``, ``"serif"``.
    experiment : str, optional
        Of a store or tree, which one; may be left out where there is only one.
    **options
        Of the function that draws this kind, as ``view`` of ``"sphere"``.

    Returns
    -------
    matplotlib.figure.Figure
        That belongs to no window; a notebook shows it, and `save` writes it.

    Raises
    ------
    InputError
        When there is no such kind, or the dataset has not the results for it: what is missing,
        and what to add to the study.

    Examples
    --------
    >>> energy = picture("energy", tree["pendulum"])   # doctest: +SKIP
    >>> save(energy, "energy.pdf")                     # doctest: +SKIP
    >>> numbers(energy).to_csv("energy.csv")           # doctest: +SKIP
    """
    kind = _known_plot_kind(kind)
    dataset = run_table(open_experiment(dataset, experiment))
    with page(width, font, heading):
        figure = show_in_notebooks(kind.draw(dataset, **options))
        return add_figure_heading(figure, run_table_without_repeats(dataset), kind.error)


def _known_plot_kind(kind):
    if isinstance(kind, PlotKind):
        return kind
    check_known("kind of plot", kind, KINDS, key="kind")
    return KINDS[kind]


def save_all(dataset, directory, stem, ending=".png", kinds=None, skipped=None, drawn=None):
    """Write every picture that the dataset has the results for.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
    directory : path
        Made where it is missing.
    stem : str
        Files are named ``stem-order.png`` and so on.
    ending : str, optional
        Format, e.g. ``.pdf``.
    kinds : dict of str or PlotKind to dict, optional
        What to draw, with the options of each kind; all of `KINDS` unless given.
    skipped : callable, optional
        Called with the name of each kind that the dataset lacks the results for, and why.
    drawn : callable, optional
        Called with the name of each kind that is drawn, and its figure.

    Returns
    -------
    list of Path
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for given, options in (dict.fromkeys(KINDS, {}) if kinds is None else kinds).items():
        kind = _known_plot_kind(given)
        try:
            figure = picture(kind, dataset, **options)
        except InputError as error:
            if skipped is not None:
                skipped(kind.name, error)
            continue
        if drawn is not None:
            drawn(kind.name, figure)
        paths.append(save(figure, directory / f"{stem}-{kind.name}{ending}"))
    return paths
