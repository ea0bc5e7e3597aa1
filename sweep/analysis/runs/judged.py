"""The runs that an answer over time rests on, and until which sample, where some of them fail."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from sweep.analysis.runs.blocks import Integers
from sweep.analysis.runs.selection import complete_runs


@dataclass(frozen=True)
class JudgedRuns:
    """The runs of a cell that count, and until which sample.

    Attributes
    ----------
    positions : ndarray of int
        Of the runs along `run`.
    samples : int
        Number that all of them have, the one at the start included.
    stopped : int
        Number of these runs that fail after the last of the samples.
    """

    positions: Integers
    samples: int
    stopped: int


def judged_runs(cell: xr.Dataset, enough: int) -> JudgedRuns:
    """The complete runs of a cell; where most of its runs fail, those too until the first fails.

    A few survivors say little of the other runs. Where runs fail at different times, the cut is the
    one that keeps the most samples in total, runs times samples, among those that leave enough
    samples for an answer, if there are any.

    Parameters
    ----------
    cell : xarray.Dataset
    enough : int
        Sample intervals that an answer needs.

    Returns
    -------
    JudgedRuns
    """
    whole = cell.sizes["time"]
    complete, ended = complete_runs(cell), complete_runs(cell, also_stopped=True)
    if "sample_count" not in cell or 2 * complete.sum() >= ended.sum():
        return JudgedRuns(np.flatnonzero(complete), whole, 0)
    samples = np.where(ended, np.minimum(cell["sample_count"].values, whole), 0)
    counts = np.unique(samples[samples > 1])  # of the start alone nothing can be said
    if not len(counts):
        return JudgedRuns(np.flatnonzero(complete), whole, 0)
    sufficient = counts[counts > enough]
    counts = sufficient if len(sufficient) else counts
    most = counts[np.argmax([count * np.sum(samples >= count) for count in counts])]
    positions = np.flatnonzero(samples >= most)
    return JudgedRuns(positions, int(most), int((~complete[positions]).sum()))
