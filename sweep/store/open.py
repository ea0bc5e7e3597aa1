"""Open a store with xarray."""

import math

import xarray as xr
import zarr

from integrators.errors import InputError
from sweep.limits import MOST_RUNS
from sweep.store.files import INTERNAL
from sweep.store.storage import configure_zarr
from sweep.store.store import Store
from sweep.study import schema

MOST_ROWS = 4 * MOST_RUNS  # of a store, with the runs that left its study
MOST_CHUNK_BYTES = 1_000_000_000
ITEM_BYTES = 8


def open_study(store):
    """Open a store as a DataTree, a Dataset for each experiment.

    Parameters
    ----------
    store : str, Path or Store
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
    store = Store.at(store).anew()
    _refuse_zarr_v2_arrays(store, store.metadata)
    configure_zarr()
    _refuse_oversized_metadata(store)
    try:
        tree = xr.open_datatree(store.zarr_store, engine="zarr", chunks=None, zarr_format=3)
    except (ValueError, KeyError) as error:
        raise InputError(
            f"{store} was left while it grew, and its arrays do not agree ({error}); the "
            "`sweep run` that grew it mends it"
        ) from error
    order = [*tree.attrs["experiments"], *tree.children]  # of the study, then what left it
    experiments = {
        name: _load_run_scalars(tree[name].to_dataset())
        for name in dict.fromkeys(order)
        if name != INTERNAL
    }
    result = xr.DataTree.from_dict(experiments)
    result.attrs = tree.attrs
    return result


def _refuse_zarr_v2_arrays(store, metadata):
    """Refuse arrays of Zarr v2 among the consolidated metadata: theirs may be pickles."""
    copies = metadata.get("consolidated_metadata") or {}
    for name, node in copies.get("metadata", {}).items():
        if node.get("zarr_format") != 3:
            raise InputError(f"{store}: {name!r} is not of Zarr v3, which `sweep run` writes")


def _refuse_oversized_metadata(store):
    """Refuse metadata by which a few bytes of the store would fill the memory."""
    root = zarr.open_group(store.zarr_store, mode="r", zarr_format=3)  # as xarray reads it
    for name, array in root.members(max_depth=None):
        if not isinstance(array, zarr.Array):
            continue
        loaded, chunk = math.prod(array.shape[:1]), math.prod(array.chunks) * ITEM_BYTES
        if loaded > MOST_ROWS or chunk > MOST_CHUNK_BYTES:
            raise InputError(
                f"{store} has an array {name!r} of shape {array.shape} in chunks of "
                f"{array.chunks}; at most {MOST_ROWS:,} rows in chunks of at most "
                f"{MOST_CHUNK_BYTES:,} bytes can be read"
            )


def _load_run_scalars(dataset):
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
