"""The element types that kernels are compiled for, and memory for them.

| arithmetic | element | in memory |
|---|---|---|
| double | a float64 | itself |
| lanes | eight float64, one of each of eight trajectories | one more axis of 8 |
| wide lanes | sixteen float64, of states so small that eight wait for one another | one of 16 |
| tangents | a float64 and its derivatives in eight directions | one more axis of 9 |
| double-double | the sum of two float64, 31 digits | one more axis of 2 |

In lanes of double-doubles there are two more axes, of 8 and 2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba.core import types

from integrators.compiler.double_double import double_double, double_double_lanes
from integrators.compiler.lanes import ALIGNMENT, WIDTH, LaneType, lane, number_of
from integrators.compiler.tangents import COUNT, tangents
from integrators.compiler.views import array_view


@dataclass(frozen=True)
class Element:
    """An element type.

    Parameters
    ----------
    name : str
    type : numba type
    shape : tuple of int
        Axes that an array of float64 has in addition to those of an array of elements.
    numbers : tuple of int
        Additional axes of times, step sizes, constants and parameters.
    trajectories : int
        Number of trajectories that one call of a kernel computes side by side.
    """

    name: str
    type: types.Type
    shape: tuple[int, ...]
    numbers: tuple[int, ...] = ()
    trajectories: int = 1

    @property
    def parts(self) -> tuple[int, ...]:
        """The axes of `shape` except the one of the trajectories."""
        return self.shape[1:] if self.trajectories > 1 else self.shape


DOUBLE = Element("double", types.float64, ())
LANES = Element("lanes", lane, (WIDTH,), trajectories=WIDTH)
WIDE_LANES = Element("wide lanes", LaneType(2 * WIDTH), (2 * WIDTH,), trajectories=2 * WIDTH)
TANGENTS = Element("tangents", tangents, (1 + COUNT,))
DOUBLE_DOUBLE = Element("double-double", double_double, (2,), (2,))
DOUBLE_DOUBLE_LANES = Element(
    "double-double lanes", double_double_lanes, (WIDTH, 2), (2,), trajectories=WIDTH
)


def as_elements(element: Element) -> Callable[[Any], Any]:
    """A function for kernels: views float64, with the axes of an `Element`, as its elements."""
    return array_view(element.type, len(element.shape))


def as_numbers(element: Element) -> Callable[[Any], Any]:
    """The same for times, step sizes, constants and parameters beside its elements."""
    return array_view(number_of(element.type), len(element.numbers))


def aligned(shape: int | tuple[int, ...]) -> np.ndarray:
    """Zeros on a cache line of their own: threads that share one slow each other down.

    Parameters
    ----------
    shape : int or tuple of int
    """
    size = math.prod(shape) if isinstance(shape, tuple) else shape
    raw = np.zeros(size + 2 * ALIGNMENT // 8)
    offset = (-raw.ctypes.data % ALIGNMENT) // 8
    return raw[offset : offset + size].reshape(shape)
