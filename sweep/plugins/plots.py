"""Kinds of plots, as `sweep.plots` has them and plugins add them. Knows no Matplotlib."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PlotKind:
    """What `sweep plot` draws of an experiment.

    Parameters
    ----------
    name : str
        By which the command line and file names call it.
    draw : callable
        ``draw(dataset)`` gives a `matplotlib.figure.Figure` of the runs of an `xarray.Dataset`.
        It raises `InputError` when these lack the results for it: what is missing, and what to add
        to the study.
    error : str, optional
        The error of which the picture should say whose norm it is.
    """

    name: str
    draw: Callable[..., Any]
    error: str | None = None
