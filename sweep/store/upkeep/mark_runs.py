"""Mark runs of a store as not computed, so that the next `sweep run` computes them again.

Their results stay in the arrays. Their checkpoints are removed first; then the sample count is
reset, and last the status. Thus, after a crash at any instant, a run counts as computed only if all
its results are there. The caller must hold the lease, and must either have folded all records of
these runs, or remove them afterwards.
"""

import functools

import numpy as np

from sweep.store.backends.places import WriteCheck
from sweep.store.commit import fold
from sweep.store.commit.ledger import ledger_of_group, note_files
from sweep.store.commit.records import CHECKPOINT, Ledger, list_records, records_folder
from sweep.store.commit.shards import Draft
from sweep.store.files import RowNumbers
from sweep.store.store import Store
from sweep.study import variables


def mark_runs_not_computed(
    store: Store, group: str, rows: RowNumbers, check: WriteCheck = lambda: None
) -> None:
    """Reset the sample count and the status of runs.

    Parameters
    ----------
    store : Store
    group : str
        Name of a group of runs or references.
    rows : ndarray of int
        Rows of the group to reset.
    check : callable
        Raises unless this process still holds the lease.
    """
    arrays, rows = store.anew().arrays_of_group(group), np.unique(rows)
    ledger, written = ledger_of_group(store, group), Ledger()
    listed = list_records(records_folder(store.place, group), CHECKPOINT)
    check()
    for record in listed:
        if ((rows >= record.name.start) & (rows < record.name.stop)).any():
            record.remove()
    for name, value in ((variables.SAMPLE_COUNT.name, 0), ("status", variables.PENDING)):
        if name not in arrays:
            continue
        reset = functools.partial(Draft.put, rows=rows, values=np.full(len(rows), value))
        for i in np.unique(rows // arrays[name].chunks[0]).tolist():
            written |= fold.write_shard(arrays[name], (i,), reset, ledger, check, lenient=True)
    note_files(store, group, written, check)
