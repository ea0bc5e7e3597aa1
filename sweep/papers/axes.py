"""Axes that several papers' figures use."""

import xarray as xr
from matplotlib.axes import Axes

from sweep.plots.style import axis_label_with_units


def label_time_axis(ax: Axes, dataset: xr.Dataset) -> None:
    """Label the horizontal axis as the time, from 0 to the end of the runs."""
    time = dataset["time"]
    ax.set(xlabel=axis_label_with_units(time, "time t"), xlim=(0.0, time.values[-1]))
