"""Shards that only grow: changed chunks are appended to the old ones, followed by a new index.

A reader that has fetched the index of the old shard finds every chunk at the same offset in the new
one. If offsets changed, a reader that fetches the index before a write, and a chunk after it, would
read wrong bytes. Replaced chunks and indices stay in the file as dead bytes; only a copy, such as
that of `sweep merge`, drops them.
"""

import itertools

import numpy as np

from sweep.errors import Damaged
from sweep.store.files import ABSENT, ArrayFiles, Index, RowNumbers, encode_chunk, with_checksum


class Draft:
    """A shard that is being changed.

    Parameters
    ----------
    array : sweep.store.files.ArrayFiles
    index : tuple of int
        Index of the shard.
    old : bytes or None
        The present content; None if the shard does not exist.
    lenient : bool
        Whether chunks that cannot be read are replaced by blank ones instead of raising `Damaged`;
        if the shard's index cannot be read, all of them.
    """

    def __init__(
        self, array: ArrayFiles, index: Index, old: bytes | None, lenient: bool = False
    ) -> None:
        self._array, self._index, self._old, self._lenient = array, index, old, lenient
        self._spans = np.full((*array.inner_grid, 2), ABSENT, "<u8")
        self._changed: dict[Index, np.ndarray] = {}  # by position in the shard
        if old is not None:
            try:
                self._spans = array.chunk_spans(old).copy()
            except Damaged:
                if not lenient:
                    raise
                self._old = None

    def put(self, rows: RowNumbers, values: np.ndarray, first: int = 0) -> None:
        """Put the values of rows; rows and samples outside the shard are ignored.

        Parameters
        ----------
        rows : ndarray of int
            Row numbers of the array, ascending.
        values : ndarray
            Values of these rows.
        first : int
            Sample number of the first value, if the array is over time.

        Raises
        ------
        Damaged
            If a chunk that must be changed cannot be read.
        """
        if not len(rows):
            return
        array = self._array
        begin = [first if dim == "time" else 0 for dim in array.dims[1:]]
        ends = [b + size for b, size in zip(begin, values.shape[1:], strict=True)]
        extent = [(int(rows[0]), int(rows[-1]) + 1), *zip(begin, ends, strict=True)]
        near = (
            range(max(a // n - i * g, 0), min(-(-b // n) - i * g, g))
            for (a, b), i, g, n in zip(
                extent, self._index, array.inner_grid, array.inner, strict=True
            )
        )
        for at in itertools.product(*near):
            grid = zip(self._index, at, array.inner_grid, array.inner, strict=True)
            row, *corner = ((i * g + k) * n for i, k, g, n in grid)
            low, high = np.searchsorted(rows, [row, row + array.inner[0]]).tolist()
            mine: RowNumbers | slice = rows[low:high] - row
            if high - low > 1 and rows[high - 1] - rows[low] == high - low - 1:  # without gaps
                mine = slice(int(rows[low]) - row, int(rows[high - 1]) - row + 1)
            sizes = zip(begin, values.shape[1:], corner, array.inner[1:], strict=True)
            spans = [(max(b, c), min(b + size, c + n), b, c) for b, size, c, n in sizes]
            if low < high and all(first < last for first, last, _, _ in spans):
                to = (slice(first - c, last - c) for first, last, _, c in spans)
                own = (slice(first - b, last - b) for first, last, b, _ in spans)
                self._chunk(at)[mine, *to] = values[low:high, *own]

    def blank_damage(self) -> None:
        """Replace chunks that cannot be read by blank ones; only if `lenient`."""
        for at in np.ndindex(self._array.inner_grid):
            offset, size = map(int, self._spans[at])
            if offset != ABSENT and at not in self._changed and self._old is not None:
                try:
                    self._array.decode_chunk(self._old[offset : offset + size])
                except Damaged:
                    self._chunk(at)

    def _chunk(self, at: Index) -> np.ndarray:
        """The values of a chunk, for changing them in place."""
        if at not in self._changed:
            self._changed[at] = self._read(at)
        return self._changed[at]

    def _read(self, at: Index) -> np.ndarray:
        array, (offset, size) = self._array, map(int, self._spans[at])
        if offset != ABSENT and self._old is not None:
            try:
                return array.decode_chunk(self._old[offset : offset + size]).copy()
            except Damaged:
                if not self._lenient:
                    raise
        return np.full(array.inner, array.fill, array.dtype)

    def data(self) -> bytes | None:
        """The new content of the shard: the old one if nothing changed, None if it is empty."""
        if not self._changed:
            return self._old
        parts, end = ([], 0) if self._old is None else ([self._old], len(self._old))
        for at in sorted(self._changed):
            parts.append(encode_chunk(self._changed.pop(at)))  # so that few are in memory twice
            self._spans[at] = end, len(parts[-1])
            end += len(parts[-1])
        return b"".join([*parts, with_checksum(self._spans.tobytes())])
