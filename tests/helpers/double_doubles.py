"""Functions of kernels on double-doubles, and what they come to in precise numbers."""

import numpy as np

from integrators.compiler.elements import DOUBLE_DOUBLE, DOUBLE_DOUBLE_LANES, as_elements
from integrators.compiler.kernels import Kernel, types
from integrators.compiler.lanes import WIDTH, array
from integrators.precision import precise_from_doubles


def values_of(function, arguments, count, element=DOUBLE_DOUBLE):
    """What an inlined function gives, of arguments (many, k, 2): shape (many, count, 2).

    ``function(x, i)`` takes row i of the arguments and gives a tuple of so many numbers.
    """
    view = as_elements(element)

    def fill(given, out):
        x, made = view(given), view(out)
        for i in range(x.shape[0]):
            found = function(x, i)
            for j in range(count):
                made[i, j] = found[j]

    wide = element is DOUBLE_DOUBLE_LANES
    axes = 2 + len(element.shape)
    signature = types.void(array(types.float64, axes), array(types.float64, axes))
    given = np.ascontiguousarray(arguments, dtype=float)
    if wide:  # eight rows side by side
        given = np.ascontiguousarray(np.moveaxis(given.reshape(-1, WIDTH, *given.shape[1:]), 1, 2))
    out = np.empty((len(given), count, *element.shape))
    name = f"{function.__module__}.{function.__qualname__}"  # which is that of a cached kernel
    Kernel(fill, lambda _: signature, (name, element.name)).compiled(element)(given, out)
    return np.moveaxis(out, 2, 1).reshape(-1, count, 2) if wide else out


def numbers(pairs):
    """Double-doubles, with a last axis of high and low, as precise numbers."""
    return precise_from_doubles(pairs[..., 0]) + precise_from_doubles(pairs[..., 1])


def spread(count, largest, seed, least=None):
    """Double-doubles of all their digits, of either sign unless there is a least one."""
    rng = np.random.default_rng(seed)
    high = rng.uniform(-largest if least is None else least, largest, count)
    low = rng.uniform(-0.5, 0.5, count) * np.spacing(np.abs(high))
    return np.stack([high, low], axis=-1)


def farthest(found, expected, size=None):
    """The largest error of double-doubles, relative to the expected numbers, or to a size."""
    off = np.abs(numbers(found) - expected) / (np.abs(expected) if size is None else size)
    return max(float(str(x)) for x in np.ravel(off))
