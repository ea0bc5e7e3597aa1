"""Memory that threads do not share."""

import numpy as np

from integrators.compiler.lanes import ALIGNMENT


def aligned(shape):
    """Zeros on a cache line of their own: threads that share one slow each other down."""
    size = int(np.prod(shape))
    raw = np.zeros(size + 2 * ALIGNMENT // 8)
    offset = (-raw.ctypes.data % ALIGNMENT) // 8
    return raw[offset : offset + size].reshape(shape)
