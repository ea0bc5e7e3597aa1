"""Checkpoints: the state of an integrator, from which a run goes on.

Those at the ends of runs are an array over runs, with which runs are extended; those of runs on
their way are records. Both belong to one version of the code: of another one's a run knows nothing.
"""

import functools
import hashlib

import numpy as np

from integrators.compiler.kernels import sources_hash
from integrators.methods import dormand_prince
from sweep.study.schema import Variable

CHECKPOINT = Variable("checkpoint", ("run", "number"), "1", "state of the integrator at the end")


@functools.cache
def checkpoint_code_hash():
    """What checkpoints of this version of the kernels, and of Numba, have in common."""
    return sources_hash(frozenset({"integrators", "systems"}))


def checkpoint_identity(*settings, times):
    """A hash of what samples depend on besides the runs: settings, the times, the code.

    Parameters
    ----------
    *settings
        With a `repr` that says all of them.
    times : ndarray, shape (samples,)
    """
    digest = hashlib.sha256(repr((checkpoint_code_hash(), *settings)).encode())
    digest.update(np.ascontiguousarray(times, dtype="<f8").tobytes())
    return digest.hexdigest()


def reference_checkpoint_length(reference, system):
    """Numbers in the checkpoints with which a `sweep.study.Reference` of a system goes on.

    Those of two trajectories; in double-double the number of steps in an interval comes first.
    """
    if reference.is_precise:
        return 1 + 2 * reference.made().bind(system).checkpoint_size
    return 2 * dormand_prince.checkpoint_size(system.rows)
