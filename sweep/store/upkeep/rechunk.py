"""Growth past the budget of files: an experiment is written anew in larger chunks.

The new group is put together beside the store, compared with the old one value by value, and
takes its place by renames, in a bucket by copies, in an order that `finish_interrupted_rechunk`
can finish: a crash at any point loses nothing. Checkpoints of runs on their way are kept where a
new chunk begins.
"""

import numpy as np

from sweep.errors import StoreError
from sweep.store import checkpoints, storage
from sweep.store.backends.places import place_is_directory
from sweep.store.backends.trees import (
    copy_tree,
    move_staged_tree_into_place,
    remove_tree,
    write_text_atomically,
)
from sweep.store.store import Store
from sweep.study import schema

STAGING = ".rechunking"  # after the store's own name
READY, NEW, OLD = "ready", "new", "old"
_RESULTS = {variable.name for variable in schema.ALL_RUN_VARIABLES}
_RESULTS.add(checkpoints.CHECKPOINT.name)


def rechunk_experiment(store, name, layout):
    """Rewrite an experiment of a store in other chunks. The caller holds the store.

    Parameters
    ----------
    store : Store
    name : str
        Of the experiment.
    layout : sweep.store.chunk_layout.Layout
        Of the experiment when it has grown.

    Raises
    ------
    StoreError
        If a chunk cannot be read, or what was written is not what was read; nothing is changed.
    """
    staging = store.sibling(STAGING)
    remove_tree(staging, ignore_errors=True)
    ends = checkpoints.end_checkpoints_group_name(name)  # tasks own chunk rows of both groups
    try:
        for place in [name, ends] if (store.place / ends).is_dir() else [name]:
            _copy_group_in_chunks(Store(store.place / place), Store(staging / NEW / place), layout)
    except (ValueError, RuntimeError) as error:  # of a checksum, of a codec
        remove_tree(staging, ignore_errors=True)
        raise StoreError(
            f"{store}: experiment {name!r} cannot be rewritten in larger chunks: {error}. "
            f"`sweep verify {store}` says what is damaged, and --repair mends it"
        ) from error
    except OSError:  # such as a full disk, of which this has a part
        remove_tree(staging, ignore_errors=True)
        raise
    write_text_atomically(staging / READY, f"{name}\n{layout.chunk_rows}")
    _swap_in_rechunked_groups(store, name, layout.chunk_rows)


def finish_interrupted_rechunk(store):
    """Finish one that had come to its renames, forget any other."""
    staging = store.sibling(STAGING)
    if not place_is_directory(staging):  # a name too long for a file has none either
        return
    if (staging / READY).exists() and place_is_directory(store.place):
        name, rows = (staging / READY).read_text().split("\n")
        _swap_in_rechunked_groups(store, name, int(rows))
    else:
        remove_tree(staging)


def _copy_group_in_chunks(old, new, layout):
    """Copy a group into the chunks of a layout, but for the initial states, which stay."""
    source, target = old.root("a"), new.root("a")
    target.attrs.update(source.attrs.asdict())
    if "chunk_rows" in source.attrs:
        target.attrs["chunk_rows"] = layout.chunk_rows
    for name, array in source.arrays():
        if name == schema.INITIAL_STATE.name:
            copy_tree(old.place / name, new.place / name)
        elif _is_written_by_tasks(name, array):
            _check_copy_equals_original(_copy_array_in_chunks(target, name, array, layout), array)
        else:
            _copy_coordinate_in_chunks(target, name, array, layout)
            _check_copy_equals_original(target[name], array)


def _is_written_by_tasks(name, array):
    """Whether tasks write it: no coordinate."""
    return array.ndim > 1 or name in _RESULTS


def _copy_array_in_chunks(group, name, array, layout):
    dims = array.metadata.dimension_names
    extents = {"run": layout.chunk_rows, "time": layout.time_chunk}
    made = group.create_array(
        name,
        shape=array.shape,
        chunks=tuple(extents.get(dim, own) for dim, own in zip(dims, array.chunks, strict=True)),
        dtype=array.dtype,
        fill_value=array.fill_value,
        dimension_names=dims,
        attributes=array.attrs.asdict(),
        **storage.CODECS,
    )
    for region in _chunk_regions_of_array(made):
        made[region] = array[region]
    return made


def _copy_coordinate_in_chunks(group, name, array, layout):
    (dim,) = array.metadata.dimension_names
    room = {"run": layout.runs, "time": layout.times}.get(dim, 0)
    storage.write_coordinate_array(group, name, array[:], dim, room, **array.attrs.asdict())


def _check_copy_equals_original(made, array):
    """Raise ValueError unless an array reads as the one that it is a copy of."""
    for region in _chunk_regions_of_array(made):
        one, two = made[region], array[region]
        same = (one == two).all() if one.dtype.kind in "OTU" else one.tobytes() == two.tobytes()
        if not same:
            raise ValueError(f"the copy of {array.name} does not read as it was written")


def _chunk_regions_of_array(array):
    """The chunks of an array, as slices."""
    for index in np.ndindex(array.cdata_shape):
        yield tuple(
            slice(i * chunk, min((i + 1) * chunk, size))
            for i, chunk, size in zip(index, array.chunks, array.shape, strict=True)
        )


def _swap_in_rechunked_groups(store, name, rows):
    """Put the new groups in the place of the old ones; harmless when done again."""
    staging = store.sibling(STAGING)
    for place in (name, checkpoints.end_checkpoints_group_name(name)):
        new, mine, old = staging / NEW / place, store.place / place, staging / OLD / place
        if store.in_bucket:
            move_staged_tree_into_place(new, mine)
        elif new.exists():
            old.parent.mkdir(parents=True, exist_ok=True)
            if mine.exists():
                mine.rename(old)
            new.rename(mine)
    checkpoints.remove_checkpoints_off_chunk_starts(store, name, rows)
    storage.consolidate_zarr_metadata(store)
    remove_tree(staging)
