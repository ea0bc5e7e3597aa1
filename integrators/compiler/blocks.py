"""Blocks of eight within one trajectory, for a system with many pairs.

Such a system goes through the trajectories that it is given one by one: `views.members` shows
the elements of a state as numbers of one trajectory each, with that, the *member*, on the last
axis, of length 8 for elements side by side and 1 for others. Eight numbers of one member are then
one lane (of float64 a `lanes.lane`; see `lanes.wide_of`), in both kinds of kernel, and so come out
bitwise equal.
"""

import numpy as np
from llvmlite import ir
from numba.extending import overload

from integrators.compiler.lanes import (
    ALIGNMENT,
    WIDTH,
    array,
    eight,
    lane_of,
    scalar_of,
    with_lane,
)
from integrators.compiler.views import view


def gathered(numbers, first, step, member, beyond):
    """Every `step`-th of ``numbers[first:, member]``, eight as a lane; `beyond` after the last.

    `numbers` has the shape ``(size, width)``, as `views.members` of a flat array.
    """
    there = numbers[first::step, member][:WIDTH]
    return np.concatenate([there, np.full(WIDTH - len(there), beyond)])


@overload(gathered)
def _gathered(numbers, first, step, member, beyond):
    def gather(numbers, first, step, member, beyond):
        result = eight(beyond)
        for k in range(WIDTH):
            i = first + step * k
            if i < numbers.shape[0]:
                result = with_lane(result, k, numbers[i, member])
        return result

    return gather


def scatter(x, numbers, first, step, member):
    """Write the lane `x` where `gathered` reads it; what is beyond the last is dropped."""
    there = numbers[first::step, member][:WIDTH]
    there[:] = x[: len(there)]


@overload(scatter)
def _scatter(x, numbers, first, step, member):
    def write(x, numbers, first, step, member):
        if first + (WIDTH - 1) * step < numbers.shape[0]:  # unrolled
            for k in range(WIDTH):
                numbers[first + step * k, member] = lane_of(x, k)
        else:
            for k in range((numbers.shape[0] - first + step - 1) // step):
                numbers[first + step * k, member] = lane_of(x, k)

    return write


def eights(flat, start, count):
    """`count` rows of eight numbers laid over the array `flat` from element `start` on.

    `flat` has any element type; of a scratch array they take 8 `count` elements. They become
    lanes by `views.as_lanes`.
    """
    return flat[start : start + WIDTH * count].reshape(count, WIDTH)


@view(eights, lambda flat: array(scalar_of(flat.dtype), 2))
def _eights(builder, source, start, count):
    return builder.gep(source.data, [start]), [count, ir.IntType(64)(WIDTH)]


def cache_lines(work, count):
    """`count` rows of eight numbers laid over the flat scratch `work`, in whole cache lines.

    As `eights`, but from the first boundary of a cache line on, so that they take 8 `count` + 8
    elements. Rows of float64 that straddle two lines cost a loop over them up to a tenth.
    """
    return eights(work, 0, count)


@view(cache_lines, lambda work: array(scalar_of(work.dtype), 2))
def _cache_lines(builder, source, count):
    word = ir.IntType(64)
    address = builder.add(builder.ptrtoint(source.data, word), word(ALIGNMENT - 1))
    boundary = builder.and_(address, word(-ALIGNMENT))
    return builder.inttoptr(boundary, source.data.type), [count, word(WIDTH)]
