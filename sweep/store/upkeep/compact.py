"""Per-run scalars in large chunks when a study is complete, in chunk rows while it is worked on.

A million runs in chunks of a few rows cost seconds to read; in one large chunk, milliseconds.
But tasks own chunk rows, so a store that grows is spread out again first. Arrays are written
anew beside the store's own and take their place by renames, in a bucket by copies, in an order
that `finish_interrupted_rewrite` can finish: a crash at any point loses nothing.
"""

from sweep.store import storage
from sweep.store.backends.places import place_is_directory
from sweep.store.backends.trees import (
    move_staged_tree_into_place,
    remove_tree,
    write_text_atomically,
)
from sweep.store.store import Store
from sweep.store.upkeep import rechunk
from sweep.study import schema

COMPACT_ROWS = 65_536
WORTHWHILE = 16  # chunks of a scalar from which compacting pays
STAGING = ".compacting"  # after the store's own name
READY = "ready"


def compact_run_scalars(store):
    """Rewrite the scalars of experiments with many chunks in large ones."""
    root = store.root()
    for name in storage.experiment_group_names(root):
        marker = storage.open_zarr_group(root, name)[schema.MARKER.name]
        if marker.shape[0] / marker.chunks[0] > WORTHWHILE and marker.chunks[0] < COMPACT_ROWS:
            _rewrite_run_scalars(store, name, COMPACT_ROWS)


def spread_run_scalars(store):
    """Rewrite the scalars of experiments that are compacted in chunk rows, for tasks to own."""
    root = store.root()
    for name in storage.experiment_group_names(root):
        rows = storage.chunk_rows_of_group(storage.open_zarr_group(root, name))
        if storage.open_zarr_group(root, name)[schema.MARKER.name].chunks[0] != rows:
            _rewrite_run_scalars(store, name, rows)


def finish_interrupted_rewrite(store):
    """Finish a rewrite that was cut short, also one of `sweep.store.upkeep.rechunk`.

    One that had not come to its renames is forgotten, and one whose store was removed since.
    """
    rechunk.finish_interrupted_rechunk(store)
    staging = store.sibling(STAGING)
    if not place_is_directory(staging):  # a name too long for a file has none either
        return
    if (staging / READY).exists() and place_is_directory(store.place):
        _swap_in_staged_arrays(store, (staging / READY).read_text())
    else:
        remove_tree(staging)


def _rewrite_run_scalars(store, name, rows):
    staging = store.sibling(STAGING)
    remove_tree(staging, ignore_errors=True)
    source = store.group(name)
    target = Store(staging).root("a")
    sizes = {"run": source[schema.MARKER.name].shape[0]}
    # A write of a worker that was suspended may come when all is done: it should hit no chunk.
    separator = "." if rows == COMPACT_ROWS else "/"
    for variable in schema.ALL_RUN_VARIABLES:
        if variable.name in source:
            array = storage.create_variable_array(target, variable, sizes, rows, separator)
            array.attrs.update(source[variable.name].attrs.asdict())
            array[:] = source[variable.name][:]
    write_text_atomically(staging / READY, name)
    _swap_in_staged_arrays(store, name)


def _swap_in_staged_arrays(store, name):
    """Put the staged arrays in the place of the store's; harmless when done again."""
    staging = store.sibling(STAGING)
    for variable in schema.ALL_RUN_VARIABLES:
        move_staged_tree_into_place(staging / variable.name, store.place / name / variable.name)
    storage.consolidate_zarr_metadata(store)
    remove_tree(staging)
