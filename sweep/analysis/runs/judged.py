"""Which runs an answer over time rests on, and until when, where some of them fail."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from sweep.analysis.runs.blocks import Integers
from sweep.analysis.runs.selection import complete_runs


@dataclass(frozen=True)
class JudgedRuns:
    """Which runs of a cell count, and until when.

    Attributes
    ----------
    positions : ndarray of int
        Of the runs along `run`.
    samples : int
        That all of them have, the one at the start included.
    stopped : int
        Of these runs the ones that fail after the last of the samples.
    """

    positions: Integers
    samples: int
    stopped: int


def judged_runs(cell: xr.Dataset, enough: int) -> JudgedRuns:
    """The complete runs of a cell; where most of its runs fail, those too until the first fails.

    A few that survive say little of the others. Of runs that fail at different times, fewer are
    taken for longer or more for shorter, whichever compares more samples, if possible with
    as many as an answer takes.

    Parameters
    ----------
    cell : xarray.Dataset
    enough : int
        Sample intervals that an answer takes.

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
