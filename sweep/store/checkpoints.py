"""Checkpoints: the state of an integrator, from which a run resumes.

The checkpoints at the ends of runs are stored in an array over runs, and serve to extend these
runs. Checkpoints of unfinished runs are stored in records. A checkpoint that another version of
the code has written is ignored.
"""

import functools
import hashlib
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from integrators.compiler.kernels import sources_hash
from integrators.methods import dormand_prince
from sweep.study.variables import Variable

if TYPE_CHECKING:
    from sweep.study.experiment import Reference
    from systems.base import System

# Numbers that precede the checkpoints of the two trajectories of a double-double reference: the
# number of steps that the coarser one takes in a sample interval and, while its step size is being
# halved because errors are too large, the last of these errors.
REFERENCE_NUMBERS = 4
CHECKPOINT = Variable("checkpoint", ("run", "number"), "1", "state of the integrator at the end")


@functools.cache
def checkpoint_code_hash() -> str:
    """A hash of the kernels' code and Numba's version, part of the identity of a checkpoint."""
    found: str = sources_hash(frozenset({"integrators", "systems"}))
    return found


def checkpoint_identity(*settings: object, times: NDArray[np.float64]) -> str:
    """A hash of what samples depend on besides the run: settings, sample times and code.

    Parameters
    ----------
    *settings
        Objects whose `repr` contains all their settings.
    times : ndarray, shape (samples,)

    Returns
    -------
    str
    """
    digest = hashlib.sha256(repr((checkpoint_code_hash(), *settings)).encode())
    digest.update(np.ascontiguousarray(times, dtype="<f8").tobytes())
    return digest.hexdigest()


def reference_checkpoint_length(reference: "Reference", system: "System") -> int:
    """Number of values in the checkpoint of a reference of a system.

    It consists of the checkpoints of two trajectories, in double-double arithmetic preceded by
    `REFERENCE_NUMBERS` values.
    """
    if reference.is_precise:
        own: int = reference.make_integrator().bind(system).checkpoint_size
        return REFERENCE_NUMBERS + 2 * own
    one: int = dormand_prince.checkpoint_size(system.rows)
    return 2 * one
