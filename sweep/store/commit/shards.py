"""Shards that grow: changed chunks come behind the old ones, and a new index at the end.

A reader that holds the index of the old shard finds every chunk at the same offset in the new one.
With other offsets, a reader that fetched the index before the write, and a chunk after it, would
read wrong bytes. Old chunks and indices stay in the file as dead bytes; only a copy, such as that
of `sweep merge`, is without them.
"""

import numpy as np
from numpy.typing import ArrayLike

from sweep.errors import Damaged
from sweep.store.files import ABSENT, ArrayFiles, Index, RowNumbers, encode_chunk, with_checksum


class Draft:
    """A shard that is being changed.

    Parameters
    ----------
    array : sweep.store.files.ArrayFiles
    old : bytes or None
        As it is; None if it is not there.
    lenient : bool
        Whether chunks that cannot be read are taken as blank, and not refused: all of them where
        the index cannot.
    """

    def __init__(self, array: ArrayFiles, old: bytes | None, lenient: bool = False) -> None:
        self._array, self._old, self._lenient, self._spans = array, old, lenient, None
        # By the place in the shard: a chunk's values, or its bytes.
        self._changed: dict[Index, np.ndarray | bytes] = {}
        if old is not None:
            try:
                self._spans = array.chunk_spans(old).copy()
            except Damaged:
                if not lenient:
                    raise
                self._old = None

    def values(self, at: Index) -> np.ndarray:
        """The values of a chunk, to be changed in place.

        Raises
        ------
        Damaged
            If it cannot be read.
        """
        own = self._changed.get(at)
        if not isinstance(own, np.ndarray):
            own = self._changed[at] = self._read(at, own)
        return own

    def _read(self, at: Index, data: bytes | None) -> np.ndarray:
        array = self._array
        spans, old = self._spans, self._old
        if data is None and spans is not None and old is not None and spans[at][0] != ABSENT:
            offset, size = map(int, spans[at])
            data = old[offset : offset + size]
        if data is not None:
            try:
                return array.decode_chunk(data).copy()
            except Damaged:
                if not self._lenient:
                    raise
        return np.full(array.inner, array.fill, array.dtype)

    def put(self, at: Index, data: bytes) -> None:
        """Put the bytes of a chunk."""
        self._changed[at] = data

    def drop(self, at: Index) -> None:
        """Remove a chunk from the shard."""
        self._changed[at] = b""

    def data(self) -> bytes | None:
        """The shard's bytes; the old ones if nothing was changed, None if nothing is there."""
        if not self._changed:
            return self._old
        spans = self._spans
        if spans is None:
            spans = np.full((*self._array.inner_grid, 2), ABSENT, "<u8")
        parts, end = ([], 0) if self._old is None else ([self._old], len(self._old))
        for at in sorted(self._changed):
            own = self._changed[at]
            data = encode_chunk(own) if isinstance(own, np.ndarray) else own
            spans[at] = (end, len(data)) if data else ABSENT
            parts.append(data)
            end += len(data)
        return b"".join([*parts, with_checksum(spans.tobytes())])


def blank_shard(array: ArrayFiles) -> bytes:
    """A shard of an array in which no chunk is there."""
    return with_checksum(np.full((*array.inner_grid, 2), ABSENT, "<u8").tobytes())


def shard_with_rows(
    array: ArrayFiles,
    index: Index,
    old: bytes | None,
    rows: RowNumbers,
    values: ArrayLike,
    lenient: bool = False,
) -> bytes | None:
    """A shard of an array over runs alone with other values of some rows.

    Parameters
    ----------
    array : sweep.store.files.ArrayFiles
    index : tuple of int
    old : bytes or None
    rows : ndarray of int
        Of the array, in this shard.
    values : float, int or ndarray
    lenient : bool
        As in `Draft`.

    Returns
    -------
    bytes
    """
    draft = Draft(array, old, lenient)
    within = rows - index[0] * array.chunks[0]
    values = np.broadcast_to(values, rows.shape)
    for at in np.unique(within // array.inner[0]).tolist():
        mine = within // array.inner[0] == at
        draft.values((at,))[within[mine] - at * array.inner[0]] = values[mine]
    return draft.data()
