"""Where runs stand, on disk: a file for each chunk that is worked on, and the ends of all runs.

A file appears whole, by a rename, after the samples that it counts are in the store's arrays.
The ends, a checkpoint of each run that is complete, are an array over runs; with them runs are
extended. Both belong to one version of the code: of another one's a run knows nothing.
"""

import functools
import hashlib
import io
import os
import zipfile
from dataclasses import dataclass

import numpy as np

from integrators.compiler.kernels import sources_hash
from integrators.methods import dormand_prince
from sweep.store.backends.places import ObjectPlace
from sweep.store.backends.trees import remove_tree
from sweep.store.files import CHECKPOINTS, INTERNAL
from sweep.study.schema import Variable

ENDS = "ends"
CHECKPOINT = Variable("checkpoint", ("run", "number"), "1", "state of the integrator at the end")


@functools.cache
def checkpoint_code_hash():
    """What checkpoints of this version of the kernels, and of Numba, have in common."""
    return sources_hash(frozenset({"integrators", "systems"}))


def checkpoint_identity(recipe):
    """A hash of what a file's samples depend on besides the runs: the record, the times, the code.

    Parameters
    ----------
    recipe : sweep.campaign.recorder.Recipe
    """
    settings = (checkpoint_code_hash(), recipe.record, recipe.statistics, recipe.reference_samples)
    digest = hashlib.sha256(repr(settings).encode())
    digest.update(np.ascontiguousarray(recipe.times, dtype="<f8").tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Saved:
    """Runs of a chunk that are on their way.

    Parameters
    ----------
    runs : ndarray of str, shape (runs,)
        Their ids.
    sample : int
        Last one that is in the store.
    checkpoints : ndarray, shape (runs, size)
    valid_samples, alive, cpu, wall : ndarray, shape (runs,)
        As in `recorder.BatchUnderway`.
    """

    runs: np.ndarray
    sample: int
    checkpoints: np.ndarray
    valid_samples: np.ndarray
    alive: np.ndarray
    cpu: np.ndarray
    wall: np.ndarray


PARTS = tuple(Saved.__dataclass_fields__)


def checkpoint_file_of_chunk(store, experiment, start):
    """Path of the file of the chunk that begins at a row."""
    return store.internal(CHECKPOINTS, experiment, f"{start}.npz")


def save_checkpoint(path, own, saved):
    """Write a file of the `checkpoint_identity` `own`; it is there whole, or the one before is."""
    buffer = io.BytesIO()
    np.savez(buffer, identity=own, **{part: getattr(saved, part) for part in PARTS})
    if isinstance(path, ObjectPlace):
        path.write_bytes(buffer.getvalue())
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    with open(partial, "wb") as file:
        file.write(buffer.getvalue())
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load_checkpoint(path, own):
    """The `Saved` of a file of the identity `own`; None if there is none that can be used."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            if str(file["identity"]) != own:
                return None
            parts = {part: file[part] for part in PARTS}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return Saved(**parts | {"sample": int(parts["sample"])})


def remove_checkpoint_file(path):
    """Remove a file that is of no use any more."""
    path.unlink(missing_ok=True)


def remove_checkpoints_of_runs(store, experiment, rows, chunk_rows):
    """Remove the files of the chunks that have some of these rows.

    Parameters
    ----------
    store : sweep.store.store.Store
    experiment : str
    rows : ndarray of int
    chunk_rows : int
    """
    for start in np.unique(rows // chunk_rows) * chunk_rows:
        remove_checkpoint_file(checkpoint_file_of_chunk(store, experiment, start))


def remove_checkpoints_off_chunk_starts(store, experiment, chunk_rows):
    """Remove the files that begin at no row where a chunk does."""
    for file in checkpoint_file_of_chunk(store, experiment, 0).parent.glob("*.npz"):
        if int(file.stem) % chunk_rows:
            remove_checkpoint_file(file)


def remove_checkpoints_of_experiment(store, experiment=""):
    """Remove the files of an experiment, or of all."""
    remove_tree(store.internal(CHECKPOINTS, *filter(None, [experiment])), ignore_errors=True)


def end_checkpoints_group_name(experiment):
    """Name of the group with the ends of an experiment's runs."""
    return f"{INTERNAL}/{ENDS}/{experiment}"


def reference_checkpoint_length(rows):
    """Numbers in the checkpoints of a `reference_trajectory` of so many rows."""
    return 2 * dormand_prince.checkpoint_size(rows)
