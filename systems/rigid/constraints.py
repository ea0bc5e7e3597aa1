"""How far rows of a state are off the manifold: kernels made for the rows that they read."""

import functools

from integrators.compiler.kernels import Kernel, whole_state
from integrators.compiler.lanes import select, sqrt
from integrators.compiler.vectors import dot, get


@functools.cache
def orthogonality_kernel(rows: tuple[int, ...]) -> Kernel:
    """max ‖RᵀR − 1‖ over the rotations that begin in some rows, into ``out[0, 0]``."""

    def orthogonality(t, y, p, out, work):
        largest = 0.0 * y[0, 0]
        for i in rows:
            a, b, c = get(y, i), get(y, i + 1), get(y, i + 2)
            one, two, three = dot(a, a) - 1.0, dot(b, b) - 1.0, dot(c, c) - 1.0
            ab, ac, bc = dot(a, b), dot(a, c), dot(b, c)
            square = one * one + two * two + three * three + 2.0 * (ab * ab + ac * ac + bc * bc)
            largest = select(square > largest, square, largest)  # ‖RᵀR − 1‖ = ‖RRᵀ − 1‖
        out[0, 0] = sqrt(largest)

    return Kernel(orthogonality, whole_state, (rows,))


@functools.cache
def unit_length_kernel(rows: tuple[int, ...]) -> Kernel:
    """max |q·q − 1| over the directions in some rows, into ``out[0, 0]``."""

    def unit_length(t, y, p, out, work):
        largest = 0.0 * y[0, 0]
        for i in rows:
            error = abs(dot(get(y, i), get(y, i)) - 1.0)
            largest = select(error > largest, error, largest)
        out[0, 0] = largest

    return Kernel(unit_length, whole_state, (rows,))


@functools.cache
def tangency_kernel(pairs: tuple[tuple[int, int], ...]) -> Kernel:
    """max |q·ω| over pairs of the rows of a direction and a tangent, into ``out[0, 0]``."""

    def tangency(t, y, p, out, work):
        largest = 0.0 * y[0, 0]
        for i, j in pairs:
            error = abs(dot(get(y, i), get(y, j)))
            largest = select(error > largest, error, largest)
        out[0, 0] = largest

    return Kernel(tangency, whole_state, (pairs,))
