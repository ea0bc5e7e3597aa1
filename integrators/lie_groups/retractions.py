"""Rows of a state led to the manifold that they are on: what tangent spaces are known by.

The manifold is the one on which the rows lie, be it off by rounding: lengths and products stay the
values that they have. So the values of the rows do not change, but their derivatives do: they lose
what is normal to the manifold. Inlined functions of elements that carry derivatives.
"""

from integrators.compiler.kernels import inlined
from integrators.compiler.lanes import sqrt, value_of
from integrators.compiler.vectors import axpy, dot, get, put, scale


@inlined
def of_its_length(w):
    """A vector led to the sphere of its length; 0 stays."""
    squared = dot(w, w)
    if value_of(squared) > 0.0:
        length = sqrt(squared)
        w = scale(value_of(length) / length, w)
    return w


@inlined
def retract_pair(y, j, m, out):
    """q in row j led to its length, and ω in row m along q to its product with it.

    Where q is 0, ω to its length.
    """
    q, omega = get(y, j), get(y, m)
    squared = dot(q, q)
    if value_of(squared) > 0.0:
        q = of_its_length(q)
        along = dot(q, omega)
        put(out, m, axpy((value_of(along) - along) / value_of(squared), q, omega))
    else:
        put(out, m, of_its_length(omega))
    put(out, j, q)


@inlined
def retract_rotation(y, j, out):
    """The rows of R, from row j on, as orthonormal as they are: by (3 I − R Rᵀ) R / 2."""
    for i in range(3):
        row = get(y, j + i)
        for k in range(3):
            product = dot(get(y, j + i), get(y, j + k))
            row = axpy(0.5 * (value_of(product) - product), get(y, j + k), row)
        put(out, j + i, row)
