"""Rows and norms of states in a run table, whose systems may differ in size.

The dimension ``row`` is as long as the state of the largest system. Rows that a smaller system does
not have are NaN in the store, and are ignored. NaN in a row that the system has means that the run
failed or was not computed; then the norm is NaN.
"""

import numpy as np
import xarray as xr

from sweep.analysis.runs.blocks import Booleans, Floats, slices_of_runs

INITIAL = "initial_state"


def present_state_rows(dataset: xr.Dataset) -> Booleans:
    """Mask of the rows of the state that the system of each run has.

    Parameters
    ----------
    dataset : xarray.Dataset
        A run table with ``initial_state``, which is complete for every run; or with ``state``,
        whose first sample is complete for every run that has begun.

    Returns
    -------
    ndarray of bool, shape ``(run, row)``
    """
    first = dataset[INITIAL] if INITIAL in dataset else dataset["state"].isel(time=0)
    return np.isfinite(first.transpose("run", "row", "component").values).all(axis=2)


def state_norms(states: Floats, present: Booleans) -> Floats:
    """Euclidean norms of states over the rows that are present.

    Parameters
    ----------
    states : ndarray, shape ``(…, row, component)``
    present : ndarray of bool, broadcast to ``(…, row)``
        Result of `present_state_rows`.

    Returns
    -------
    ndarray, shape ``(…,)``
        NaN if a present row has NaN, or no row is present.
    """
    squares = np.sum(states**2, axis=-1, where=present[..., None], initial=0.0).sum(axis=-1)
    return np.where(present.any(axis=-1), np.sqrt(squares), np.nan)


def initial_state_norms(dataset: xr.Dataset) -> Floats:
    """Norm of the initial state of each run, shape ``(run,)``; 1 if the table has no states."""
    if INITIAL not in dataset:
        return np.ones(dataset.sizes["run"])
    state = dataset[INITIAL].transpose("run", "row", "component")
    slices = slices_of_runs(state.shape[0], state.shape[1] * state.shape[2])
    blocks = (state.isel(run=runs).values for runs in slices)
    norms = (state_norms(block, np.isfinite(block).all(axis=2)) for block in blocks)
    return np.concatenate([np.ones(0), *norms])
