"""Mark runs of a store as not computed, so that the next `sweep run` computes only them.

Their results stay. Their checkpoints are removed first; then the count of samples is reset, before
the status, so that after a crash at any instant a run counts as computed only with all of its
results. The caller holds the lease, and all records of such runs are folded, or removed afterwards.
"""

import functools

import numpy as np

from sweep.store.backends.places import WriteCheck
from sweep.store.commit import fold
from sweep.store.commit.shards import shard_with_rows
from sweep.store.files import ArrayFiles, Index, RowNumbers
from sweep.store.store import Store
from sweep.study import schema


def mark_runs_not_computed(
    store: Store, group: str, rows: RowNumbers, check: WriteCheck = lambda: None
) -> None:
    """Reset the count of samples and the status of runs.

    Parameters
    ----------
    store : Store
    group : str
        Name of the group of the runs, or of references.
    rows : ndarray of int
        Which of its rows.
    check : callable
        Raises unless this process still holds the lease.
    """
    arrays = store.anew().arrays_of_group(group)
    fold.remove_checkpoints(store, group, np.asarray(rows), check)
    for name, value in ((schema.SAMPLE_COUNT.name, 0), ("status", schema.PENDING)):
        if name in arrays:
            _set_rows(arrays[name], np.asarray(rows), value, check)


def _set_rows(array: ArrayFiles, rows: RowNumbers, value: int, check: WriteCheck) -> None:
    """Set rows to a value; what cannot be read of a chunk reads as blank afterwards."""
    of = rows // array.chunks[0]
    for i in np.unique(of).tolist():
        mine = rows[of == i]
        fold.write_shard(
            array,
            (i,),
            functools.partial(_shard_with_rows_set, array, (i,), mine, value),
            check,
        )


def _shard_with_rows_set(
    array: ArrayFiles, index: Index, rows: RowNumbers, value: int, old: bytes | None
) -> bytes | None:
    return shard_with_rows(array, index, old, rows, value, True)
