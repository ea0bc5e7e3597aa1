"""Counterparts of the figures of the papers."""

from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from sweep.papers.celledoni.figures import CELLEDONI
from sweep.papers.claims import Datasets, Paper
from sweep.papers.lee.figures import LEE
from sweep.papers.mclachlan.figures import MCLACHLAN
from sweep.plots.style import STYLE

PLAIN: dict[Any, Any] = STYLE | {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}

# By name of the paper in `sweep.papers.PAPERS`, functions that draw its figures. A function takes
# the run tables of `Paper.pictures`, and returns a figure that does not belong to a window.
FIGURES = {"lee": LEE, "mclachlan": MCLACHLAN, "celledoni": CELLEDONI}


def draw_figure(paper: Paper, name: str, datasets: Datasets) -> Figure:
    """Draw the counterpart of a figure.

    Parameters
    ----------
    paper : Paper
    name : str
        A key of `paper.pictures`.
    datasets : dict of str to dict of str to xarray.Dataset
        Run tables by study and experiment, from `reproduce`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    sources = (source.split("/") for source in paper.pictures[name])
    with rc_context(PLAIN):
        return FIGURES[paper.name][name](*(datasets[study][one] for study, one in sources))
