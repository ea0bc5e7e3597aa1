"""Open a store with xarray."""

import math
import secrets
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import xarray as xr
import zarr
from xarray.backends import BackendArray, ZarrStore
from xarray.core import indexing

from integrators.errors import InputError, check_known, short_repr
from sweep.store.arrays import configure_zarr
from sweep.store.backends.places import ObjectPlace, Place
from sweep.store.commit.ledger import check_files_are_there
from sweep.store.commit.zarr_stores import PlaceStore
from sweep.store.files import ArrayFiles, are_runs_computed_to_sample
from sweep.store.store import Store
from sweep.study import variables

Source: TypeAlias = str | Place | Store | xr.DataTree | xr.Dataset  # of what is asked
ITEM_BYTES = 8
DASK_CHUNK_BYTES = 2**28  # in the widest series, at most


def open_study(
    store: str | Place | Store, chunks: Literal["auto"] | Mapping[str, int] | None = None
) -> xr.DataTree:
    """Open a store as a DataTree with a Dataset for each experiment.

    Parameters
    ----------
    store : str, Path or Store
        A directory, or ``s3://BUCKET/PATH``.
    chunks : {"auto"} or dict of str to int, optional
        If given, series become Dask arrays. With "auto", their chunks are whole files of the
        store, at most about 256 MB. A dict sets the number of runs or samples in a chunk along the
        dimensions ``run`` or ``time``, -1 for all.

    Returns
    -------
    xarray.DataTree
        Coordinates and variables over ``run`` alone are in memory; other variables are read when
        they are used. With `chunks` Dask reads them, through a `distributed.Client` if there is
        one.

    Raises
    ------
    InputError
        If there is no store, it has a newer format, its object store does not answer, or `chunks`
        is none of the above.
    Damaged
        If a file of the store is damaged. Reading values later may raise it too.

    Examples
    --------
    >>> order = sweep.open_study("quickstart.zarr")["pendulum"].to_dataset()  # doctest: +SKIP
    >>> order.query(run="integrator == 'variational' and step_size < 0.05")   # doctest: +SKIP
    >>> large = sweep.open_study("large.zarr", chunks="auto")["pendulum"]     # doctest: +SKIP
    >>> sweep.drift_table(large)                                              # doctest: +SKIP
    """
    if chunks not in (None, "auto") and not isinstance(chunks, dict):
        raise InputError(
            f"chunks is {chunks!r}, and must be 'auto' or a dict such as {{'run': 4096}}.",
            key="chunks",
        )
    store = Store.at(store).anew()
    _refuse_zarr_v2_arrays(store, store.metadata)
    configure_zarr()
    with store.naming_damage():  # zarr would read a missing file as blank
        for name in store.experiments:
            check_files_are_there(store, name)
    whole = store.absolute()
    unfolded = whole.unfolded_by_group()
    source, copied = PlaceStore(whole.place, store.place), bool(store.consolidated)
    root = zarr.open_group(source, mode="r", zarr_format=3, use_consolidated=copied)
    try:
        found = {
            name: xr.open_dataset(ZarrStore(root[name], mode="r"), cache=chunks is None)
            for name in store.experiments
        }
    except (ValueError, KeyError) as error:
        raise InputError(
            f"an extension of {store} was interrupted, and its arrays do not agree ({error}); "
            "repeat the `sweep run` that extended it"
        ) from error
    with store.naming_damage():
        experiments = {
            name: _with_records_and_labels(
                data,
                store,
                whole.arrays_of_group(name, unfolded.get(name)),
                is_cached=chunks is None,
            )
            for name, data in found.items()
        }
    if chunks is not None:
        sizes = {} if chunks == "auto" else chunks
        experiments = {name: _with_dask_series(data, sizes) for name, data in experiments.items()}
    result = xr.DataTree.from_dict(experiments)
    result.attrs = store.attributes
    return result


def open_tree(study: Source) -> xr.DataTree | xr.Dataset:
    """Open a store as a tree; a tree or dataset is returned as it is.

    Parameters and exceptions are those of `open_experiments`.
    """
    if isinstance(study, xr.DataTree | xr.Dataset):
        return study
    if isinstance(study, str | Path | ObjectPlace | Store):
        return open_study(study)
    raise InputError(
        f"{short_repr(study)} is no study; expected the path of a store, the result of "
        "`sweep.open_study`, or one experiment of it"
    )


def open_experiments(study: Source, experiment: str | None = None) -> dict[str, xr.Dataset]:
    """Open the experiments of a study.

    Parameters
    ----------
    study : str, Path, Store, xarray.DataTree or xarray.Dataset
        A store, its tree, or a single experiment.
    experiment : str, optional
        Name of the only experiment to open; by default all of the store or tree.

    Returns
    -------
    dict of str to xarray.Dataset
        Experiments by name; the name of a single experiment is empty.

    Raises
    ------
    InputError
        If there is no such store or experiment, or `study` is none of the above.
    """
    tree = open_tree(study)
    if isinstance(tree, xr.Dataset):
        found = {"": tree}
    else:
        found = {name: node.to_dataset() for name, node in tree.children.items()}
        found = found or {"": tree.to_dataset()}
    if experiment is None:
        return found
    if "" in found:
        raise InputError(f"experiment = {experiment!r} is given beside a single experiment")
    check_known("experiment", experiment, found, key="experiment")
    return {experiment: found[experiment]}


def open_experiment(study: Source, experiment: str | None = None) -> xr.Dataset:
    """Open one experiment of a study.

    Parameters
    ----------
    study, experiment
        As in `open_experiments`; `experiment` is required if there are several.

    Returns
    -------
    xarray.Dataset

    Raises
    ------
    InputError
        As in `open_experiments`, and if there are several experiments and none is named.
    """
    found = open_experiments(study, experiment)
    if len(found) > 1:
        raise InputError(
            f"there are the experiments {', '.join(found)}: choose one, experiment = "
            f"{next(iter(found))!r}",
            key="experiment",
        )
    return next(iter(found.values()))


def _refuse_zarr_v2_arrays(store: Store, metadata: Mapping[str, Any]) -> None:
    """Refuse arrays of Zarr v2 in the consolidated metadata, since they may contain pickles."""
    copies = metadata.get("consolidated_metadata") or {}
    for name, node in copies.get("metadata", {}).items():
        if node.get("zarr_format") != 3:
            raise InputError(f"{store}: {name!r} is not of Zarr v3, which `sweep run` writes")


def _with_dask_series(dataset: xr.Dataset, sizes: Mapping[str, int]) -> xr.Dataset:
    """A dataset whose series are Dask arrays, all of them with the same chunks.

    Parameters
    ----------
    dataset : xarray.Dataset
    sizes : dict of str to int
        Chunk lengths along some dimensions. Along the others, a chunk spans whole files.
    """
    series = {
        name: array
        for name, array in dataset.variables.items()
        if array.dims[:1] == ("run",) and array.ndim > 1
    }
    if unknown := set(sizes) - {"run", "time"}:
        raise InputError(f"chunks name {', '.join(map(repr, sorted(unknown)))}; 'run' and 'time' "
                         "are what series have in common", key="chunks")  # fmt: skip
    chunks: dict[Hashable, int] = dict(dataset.sizes)
    for array in series.values():
        if shards := array.encoding.get("shards"):  # cut at the same rows and samples in all arrays
            chunks |= zip(array.dims, shards, strict=True)
    widths = (
        math.prod(min(size, chunks[dim]) for dim, size in list(array.sizes.items())[1:])
        for array in series.values()
    )
    width = max(widths, default=1)
    while chunks["run"] > 1 and chunks["run"] * width * ITEM_BYTES > DASK_CHUNK_BYTES:
        chunks["run"] //= 2  # files and chunks have a power of two of rows
    chunks.update(sizes)
    opened = secrets.token_hex(8)  # names differ when a store is opened again, which may have grown
    return dataset.assign(
        {
            name: array.chunk({dim: chunks[dim] for dim in array.dims}, name=f"{name}-{opened}")
            for name, array in series.items()
        }
    )


def _with_records_and_labels(
    dataset: xr.Dataset, store: Store, arrays: Mapping[str, ArrayFiles], is_cached: bool
) -> xr.Dataset:
    """A dataset with the values of records that are not folded yet.

    Numbers over runs alone are read into memory, directly from the files, since zarr takes four
    times as long for many small chunks. Labels, and arrays with further dimensions, are read when
    they are used.

    Parameters
    ----------
    dataset : xarray.Dataset
    store : Store
    arrays : dict of str to sweep.store.files.ArrayFiles
    is_cached : bool
        Whether arrays stay in memory once they were read.
    """
    found = {}
    for name, variable in dataset.variables.items():
        own = arrays[str(name)]
        data: Any = None
        if variable.dims == ("run",) and name not in dataset.indexes:
            lazy = indexing.LazilyIndexedArray(_Stored(own, store))
            data = lazy if own.dtype == object else own.values()
        elif own.sharded and own.unfolded:
            lazy = indexing.LazilyIndexedArray(_Stored(own, store, variable))
            data = indexing.MemoryCachedArray(lazy) if is_cached else lazy
        if data is not None:
            # The fast path, since otherwise pandas would copy each label.
            given = variable.dims, data, variable.attrs, variable.encoding
            found[name] = xr.Variable(*given, fastpath=True)
    dataset = dataset.assign(found)
    status, counts = dataset["status"].values, dataset[variables.SAMPLE_COUNT.name].values
    computed = are_runs_computed_to_sample(counts, status, dataset.sizes["time"])
    status[~computed] = variables.PENDING  # including runs that are to be extended
    return dataset


class _Stored(BackendArray):
    """An array over runs that is read when it is used.

    Parameters
    ----------
    array : sweep.store.files.ArrayFiles
    store : Store
        The store of the array.
    folded : xarray.Variable, optional
        The array as zarr reads it, without records that are not folded yet. If it is not given, the
        array holds labels. These become Python strings, since selecting from NumPy strings takes
        ten times as long, and stay in memory once all of them were read.
    """

    def __init__(self, array: ArrayFiles, store: Store, folded: xr.Variable | None = None) -> None:
        self._array, self._store = array, store
        self._folded: Any = folded
        self.shape, self.dtype = array.shape, array.dtype
        self._labels: np.ndarray | None = None

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        read = self._read_labels if self._folded is None else self._read_with_records
        outer = indexing.IndexingSupport.OUTER
        values: np.ndarray = indexing.explicit_indexing_adapter(key, self.shape, outer, read)
        return values

    def _read_labels(self, key: Any) -> np.ndarray:
        rows = np.arange(self.shape[0])[key]
        with self._store.naming_damage():
            if self._labels is None and rows.shape != self.shape:
                return self._array.read_rows(np.atleast_1d(rows)).reshape(rows.shape)
            self._labels = self._array.values() if self._labels is None else self._labels
        return np.array(self._labels[key], dtype=object)

    def _read_with_records(self, key: tuple[Any, ...]) -> np.ndarray:
        numbers = [isinstance(k, int | np.integer) for k in key]
        spans = tuple(slice(k, k + 1) if one else k for k, one in zip(key, numbers, strict=True))
        rows, *rest = (np.arange(n)[k] for n, k in zip(self.shape, spans, strict=True))
        with self._store.naming_damage():
            records = self._array.read_records(rows)
            values = np.array(self._folded[spans].values)
            self._array.lay_over(values, records, rest)
        return values[tuple(0 if one else slice(None) for one in numbers)]
