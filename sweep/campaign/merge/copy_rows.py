"""Compare rows of arrays of two stores, or copy them from one to the other, in blocks.

A block is a few megabytes of whole chunks: memory does not grow with the stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sweep.store.files import are_runs_computed_to_sample
from sweep.study import schema

if TYPE_CHECKING:
    from sweep.store.storage import StoredArray, StoredGroup

BLOCK_BYTES = 32_000_000
OWN = (
    "cpu_time",
    "wall_time",
    schema.ENVIRONMENT,
)  # that may differ between two computations of a run


class Rows:
    """Runs or references of a group, and how many samples each has.

    Parameters
    ----------
    group : zarr.Group
    samples : int
        Number of samples of a complete run.

    Attributes
    ----------
    ids : ndarray of bytes, shape (rows,)
    progress : ndarray of int, shape (rows,)
        Number of samples of each row; `samples` of a run that failed, too.
    """

    def __init__(self, group: StoredGroup, samples: int) -> None:
        self.group, self.samples = group, samples
        ids = np.array(group["run_id"][:].tolist(), dtype="S16")
        gap = ids == b""  # rows from there on were never brought up
        size = int(np.argmax(gap)) if gap.any() else len(ids)
        self.ids = ids[:size]
        counts = group[schema.SAMPLE_COUNT.name][:size]
        status = group["status"][:size] if "status" in group else np.zeros(size, dtype=np.int8)
        self.progress = np.where(
            are_runs_computed_to_sample(counts, status, samples), samples, counts
        )

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Whether each run is complete, or failed."""
        whole: NDArray[np.bool_] = self.progress == self.samples
        return whole

    def find(self, ids: NDArray[np.bytes_]) -> NDArray[np.intp]:
        """Row of each of `ids`, -1 where the group lacks it."""
        order = np.argsort(self.ids, kind="stable")
        if not len(order):
            return np.full(len(ids), -1)
        place = np.minimum(np.searchsorted(self.ids, ids, sorter=order), len(order) - 1)
        found = order[place]
        return np.where(self.ids[found] == ids, found, -1)


def runs_with_different_results(
    one: StoredGroup, own: NDArray[np.intp], other: StoredGroup, theirs: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Which runs have different results in two groups; time and host are not compared.

    Parameters
    ----------
    one, other : zarr.Group
    own, theirs : ndarray of int, shape (runs,)
        Rows of the same runs.

    Returns
    -------
    ndarray of bool, shape (runs,)
    """
    found = np.zeros(len(own), dtype=bool)
    for name, array in worker_written_arrays(one).items():
        if name not in other or name in OWN:
            continue
        twin = other[name]
        for part in _rows_by_block(array, own):
            for span in _slices_of_other_dimensions(array):
                a, b = (
                    _read_array_rows(array, own[part], span),
                    _read_array_rows(twin, theirs[part], span),
                )
                extent = tuple(slice(min(sizes)) for sizes in zip(a.shape, b.shape, strict=True))
                same = _comparable_bits(a[extent]) == _comparable_bits(b[extent])
                found[part] |= ~same.reshape(len(part), -1).all(axis=1)
    return found


def copy_rows(
    source: StoredGroup,
    theirs: NDArray[np.intp],
    target: StoredGroup,
    own: NDArray[np.intp],
    names: Sequence[str],
) -> None:
    """Copy rows of arrays; where target arrays are longer, their further samples are kept.

    Parameters
    ----------
    source, target : zarr.Group
    theirs, own : ndarray of int, shape (runs,)
        Rows in the source, and in the target.
    names : sequence of str
        Names of the arrays, the count of samples last.
    """
    order = np.argsort(own)
    theirs, own = theirs[order], own[order]
    for name in names:
        if name in source and len(own):
            _copy_array_rows(source[name], theirs, target[name], own)


def _copy_array_rows(
    source: StoredArray, theirs: NDArray[np.intp], target: StoredArray, own: NDArray[np.intp]
) -> None:
    rows = (target.shards or target.chunks)[0]
    for part in _rows_by_block(target, own):
        start = own[part[0]] // rows * rows
        stop = min((own[part[-1]] // rows + 1) * rows, target.shape[0])
        for span in _slices_of_other_dimensions(target):
            values = _read_array_rows(source, theirs[part], span)
            buffer = target[(slice(start, stop), *span)]
            within = tuple(
                slice(min(pair)) for pair in zip(values.shape, buffer.shape, strict=True)
            )[1:]
            chosen = buffer[own[part] - start]
            chosen[(slice(None), *within)] = values[(slice(None), *within)]
            buffer[own[part] - start] = chosen
            target[(slice(start, stop), *span)] = buffer


def worker_written_arrays(group: StoredGroup) -> dict[str, StoredArray]:
    """The arrays of a group that workers write, by name, the count of samples last."""
    found = {name: array for name, array in group.arrays() if array.shards}
    return dict(sorted(found.items(), key=lambda item: item[0] == schema.SAMPLE_COUNT.name))


def _rows_by_block(array: StoredArray, rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Indices into `rows`, which need not be sorted, split by the block that has them."""
    per_row = array.dtype.itemsize * int(
        np.prod([min(c, n) for c, n in zip(array.chunks[1:], array.shape[1:], strict=True)])
    )
    rows_of_file = (array.shards or array.chunks)[0]
    block = rows_of_file * max(1, BLOCK_BYTES // max(1, per_row * rows_of_file))
    order = np.argsort(rows, kind="stable")
    changes = np.flatnonzero(np.diff(rows[order] // block)) + 1
    return np.split(order, changes) if len(rows) else []


def _slices_of_other_dimensions(array: StoredArray) -> list[tuple[slice, ...]]:
    """Slices of the dimensions after the first: each chunk of the second, all of the others."""
    if array.ndim == 1:
        return [()]
    return [
        (
            slice(first, min(first + array.chunks[1], array.shape[1])),
            *[slice(None)] * (array.ndim - 2),
        )
        for first in range(0, array.shape[1], array.chunks[1])
    ]


def _read_array_rows(
    array: StoredArray, rows: NDArray[np.intp], span: tuple[slice, ...]
) -> np.ndarray:
    """Read some rows of an array, as one range where they lie close together."""
    low, high = int(rows.min()), int(rows.max()) + 1
    if high - low <= 2 * len(rows) + array.chunks[0]:
        return array[(slice(low, high), *span)][rows - low]
    order = np.argsort(rows)
    found = array.oindex[(rows[order], *span)]
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return found[back]


def _comparable_bits(values: np.ndarray) -> np.ndarray:
    """Values as unsigned integers of the same bits, so that NaN equals NaN."""
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
