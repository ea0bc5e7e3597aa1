"""Runs of a store are marked as not computed: the next `sweep run` computes just them.

Nothing else of them is touched, but a checkpoint from which they could go on is removed. Whole
chunks are written anew, the commit marker first: whatever is killed, a run counts as computed
only with all that belongs to it. The caller holds the store.
"""

import numpy as np

from sweep.errors import Damaged
from sweep.store import checkpoints, storage
from sweep.store.files import INTERNAL
from sweep.study import schema


def mark_runs_not_computed(store, place, rows):
    """Take runs' commit marker away.

    Parameters
    ----------
    store : Store
    place : str
        Group of the runs, or of references.
    rows : ndarray of bool or int
        Which of its rows.
    """
    group = store.group(place, "r+")
    if not place.startswith(INTERNAL):
        every = np.arange(group[schema.MARKER.name].shape[0])
        checkpoints.remove_checkpoints_of_runs(
            store, place, every[rows], storage.chunk_rows_of_group(group)
        )
    for name, value in ((schema.MARKER.name, 0), ("status", schema.PENDING)):
        if name in group:
            _set_rows_by_chunk(group[name], store.array(place, name), rows, value)


def _set_rows_by_chunk(array, stored, rows, value):
    """Set `rows` to `value`, chunk by chunk; what cannot be read of a chunk is set as well."""
    chosen = np.zeros(array.shape[0], dtype=bool)
    chosen[rows] = True
    for i in range(stored.grid[0]):
        where = stored.rows((i,))
        if not chosen[where].any():
            continue
        try:
            values = stored.chunk((i,))
        except Damaged:
            values = None
        if values is None:
            values = np.full(where.stop - where.start, value, stored.dtype)
        array[where] = np.where(chosen[where], value, values).astype(stored.dtype)
