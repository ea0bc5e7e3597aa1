"""Open a store with xarray."""

import numpy as np
import xarray as xr
from zarr.errors import BaseZarrError

from integrators.errors import InputError
from sweep import schema
from sweep.files import check_version
from sweep.places import place_of, reading
from sweep.storage import INTERNAL, open_root, zarr_store


def open_study(store):
    """Open a store as a DataTree, a Dataset for each experiment.

    Parameters
    ----------
    store : str or Path
        A directory, or ``s3://BUCKET/PATH``.

    Returns
    -------
    xarray.DataTree
        Coordinates and variables over ``run`` alone are in memory, the others are read when
        they are used.

    Raises
    ------
    InputError
        If there is no store, or one of a newer version, or its object store does not answer.

    Examples
    --------
    >>> order = sweep.open_study("quickstart.zarr")["pendulum"].to_dataset()  # doctest: +SKIP
    >>> order.query(run="integrator == 'variational' and step_size < 0.05")   # doctest: +SKIP
    """
    path = place_of(store)
    try:
        with reading(path):
            attributes = open_root(path).attrs
    except InputError:
        raise
    except (OSError, ValueError, BaseZarrError):
        raise InputError(
            f"{store} is not a store; expected a directory that `sweep run` wrote"
        ) from None
    if "format_version" not in attributes:
        raise InputError(f"{store} is a Zarr store, but not one that `sweep run` wrote")
    check_version(path, attributes["format_version"])
    try:
        tree = xr.open_datatree(zarr_store(path), engine="zarr", chunks=None)
    except (ValueError, KeyError) as error:
        raise InputError(
            f"{store} was left while it grew, and its arrays do not agree ({error}); the "
            "`sweep run` that grew it mends it"
        ) from error
    order = [*tree.attrs["experiments"], *tree.children]  # of the study, then what left it
    experiments = {
        name: _scalars_in_memory(tree[name].to_dataset())
        for name in dict.fromkeys(order)
        if name != INTERNAL
    }
    result = xr.DataTree.from_dict(experiments)
    result.attrs = tree.attrs
    return result


def _scalars_in_memory(dataset):
    for name in (*dataset.coords, *dataset.data_vars):
        if dataset[name].dims == ("run",):
            dataset[name].load()
    pending = dataset[schema.MARKER.name].values == 0  # also where only the marker is not written
    dataset["status"].values[pending] = schema.PENDING
    return dataset.assign_coords(
        {
            name: coordinate.variable.copy(data=coordinate.values.astype(object))
            for name, coordinate in dataset.coords.items()
            if coordinate.dtype.kind == "T" and coordinate.dims == ("run",)
        }
    )  # numpy's own strings are ten times as slow to choose from


def holding_where(table, where):
    """Where a query of coordinates and variables over runs holds; everywhere if it is empty.

    Parameters
    ----------
    table : xarray.Dataset
        Of an experiment.
    where : str
        As ``step_size > 0.1``; whatever evaluating it raises is raised.

    Returns
    -------
    ndarray of bool, shape (runs,)
    """
    holds = np.ones(table.sizes["run"], dtype=bool)
    if where:
        scalars = table[[name for name in table.variables if table[name].dims == ("run",)]]
        kept = scalars.assign_coords(run=np.arange(len(holds))).query(run=where)["run"].values
        holds = np.isin(np.arange(len(holds)), kept)
    return holds
