"""Which runs of an experiment a picture shows, where it shows one step size."""

import numpy as np

from integrators.errors import InputError
from sweep.analysis.runs.selection import (
    adaptive_runs,
    axis_values_in_words,
    complete_runs,
    groups_of_runs,
    scanned_axes,
    take_runs,
)
from sweep.plots.style import axis_label_with_units


def runs_to_draw(dataset, step_size=None):
    """The runs to show, and in words the step size of each integrator in each panel.

    Parameters
    ----------
    dataset : xarray.Dataset
        A run table.
    step_size : float, optional
        Each integrator is shown at its step size nearest to this one; by default the smallest
        of those that most integrators share.

    Returns
    -------
    runs : ndarray of int
        Positions along `run`, ascending.
    words : dict of (str, str) to str
        By the scanned values, as `axis_values_in_words` says them, and the integrator.

    Raises
    ------
    InputError
        When no run has results.
    """
    counts = complete_runs(dataset, also_stopped=True)
    adaptive = adaptive_runs(dataset)
    sizes = np.where(adaptive, dataset["tolerance"], dataset["step_size"])
    of = {}
    for key, runs in groups_of_runs(dataset, ["integrator", *scanned_axes(dataset)]):
        integrator = key.pop("integrator")
        of[axis_values_in_words(key), integrator] = runs[counts[runs]]
    of = {cell: runs for cell, runs in of.items() if len(runs)}
    if not of:
        raise InputError("none of the selected runs has any results yet.")
    chosen, words = [], {}
    for cell, runs in of.items():
        own = np.unique(sizes[runs])
        if adaptive[runs[0]]:
            size = own[0]
            words[cell] = f"tolerance = {size:g}"
        else:
            wanted = _most_shared_step_size(of, sizes, adaptive) if step_size is None else step_size
            size = own[np.argmin(np.abs(np.log(own / wanted)))]
            words[cell] = axis_label_with_units(dataset["step_size"], f"h = {size:g}", "{} {}")
        chosen.append(runs[sizes[runs] == size])
    return np.sort(np.concatenate(chosen)), words


def _most_shared_step_size(of, sizes, adaptive):
    """The smallest of the step sizes that most integrators, in most panels, have."""
    own = [np.unique(sizes[runs]) for runs in of.values() if not adaptive[runs[0]]]
    distinct, count = np.unique(np.concatenate(own), return_counts=True)
    return distinct[count == count.max()].min()


def first_run_to_draw(dataset, integrator, step_size=None, **wanted):
    """The first run of an integrator, at a step size, scanned values and a start.

    Parameters
    ----------
    dataset : xarray.Dataset
        A run table.
    integrator : str
        Its label.
    step_size : float, optional
    **wanted
        Values of other coordinates along `run`, such as ``initial_condition``.

    Returns
    -------
    xarray.Dataset
        With a single run.
    """
    chosen = dataset["integrator"].values == integrator
    if step_size is not None:
        chosen &= np.isclose(dataset["step_size"].values, step_size)
    for name, value in wanted.items():
        chosen &= dataset[name].values == value
    return take_runs(dataset, np.flatnonzero(chosen)[:1])
