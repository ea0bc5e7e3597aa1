"""Memory that threads do not share."""

import math

import numpy as np

from integrators.compiler.lanes import ALIGNMENT


def aligned(shape):
    """Zeros on a cache line of their own: threads that share one slow each other down.

    Parameters
    ----------
    shape : int or tuple of int
    """
    size = math.prod(shape) if isinstance(shape, tuple) else shape
    raw = np.zeros(size + 2 * ALIGNMENT // 8)
    offset = (-raw.ctypes.data % ALIGNMENT) // 8
    return raw[offset : offset + size].reshape(shape)
