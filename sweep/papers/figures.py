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

# By the names of papers in `sweep.papers.PAPERS`. A function takes the run tables that `Paper`
# names as sources of the picture, and returns a figure that belongs to no window.
FIGURES = {"lee": LEE, "mclachlan": MCLACHLAN, "celledoni": CELLEDONI}


def draw_figure(paper: Paper, name: str, datasets: Datasets) -> Figure:
    """The counterpart of a figure.

    Parameters
    ----------
    paper : Paper
    name : str
        One of its `pictures`.
    datasets : dict of str to dict of str to xarray.Dataset
        By study and experiment, as `reproduce` gives them.
    """
    sources = (source.split("/") for source in paper.pictures[name])
    with rc_context(PLAIN):
        return FIGURES[paper.name][name](*(datasets[study][one] for study, one in sources))
