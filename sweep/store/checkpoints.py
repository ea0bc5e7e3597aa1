"""Checkpoints: the state of an integrator, from which a run goes on.

Those at the ends of runs are an array over runs, with which runs are extended; those of runs on
their way are records. Both belong to one version of the code: those of another one are ignored.
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

# Before the checkpoints of two trajectories in double-double: the steps of the coarser one in an
# interval, and the last errors while these are too many.
REFERENCE_NUMBERS = 4
CHECKPOINT = Variable("checkpoint", ("run", "number"), "1", "state of the integrator at the end")


@functools.cache
def checkpoint_code_hash() -> str:
    """Hash of the code of kernels and of Numba's version; part of the identity of a checkpoint."""
    found: str = sources_hash(frozenset({"integrators", "systems"}))
    return found


def checkpoint_identity(*settings: object, times: NDArray[np.float64]) -> str:
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


def reference_checkpoint_length(reference: "Reference", system: "System") -> int:
    """Numbers in the checkpoints with which a `sweep.study.Reference` of a system goes on.

    Those of two trajectories; in double-double some numbers about both come first.
    """
    if reference.is_precise:
        own: int = reference.make_integrator().bind(system).checkpoint_size
        return REFERENCE_NUMBERS + 2 * own
    one: int = dormand_prince.checkpoint_size(system.rows)
    return 2 * one
