"""Kinds of plots, built in or added by plugins. This module does not import Matplotlib."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PlotKind:
    """A kind of picture that `sweep plot` draws of an experiment.

    Parameters
    ----------
    name : str
        Name of the kind on the command line and in file names.
    draw : callable
        ``draw(dataset)`` returns a `matplotlib.figure.Figure` of the runs of an `xarray.Dataset`.
        It raises `InputError` if results are missing, and says what to add to the study.
    error : str, optional
        An error whose norm is defined in the heading of the picture.
    """

    name: str
    draw: Callable[..., Any]
    error: str | None = None
