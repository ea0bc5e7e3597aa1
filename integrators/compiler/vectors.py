"""3-vectors as tuples, and small linear algebra, for use inside kernels.

A 3-vector of a stack ``y`` of shape ``(rows, 3)`` is read by `get` and written by `put`; in
between it is a tuple of three floats or lanes and lives in registers.
"""

from integrators.compiler.kernels import inlined
from integrators.compiler.lanes import fma, sqrt


@inlined
def get(y, i):
    """Read row `i` of the stack `y`.

    Parameters
    ----------
    y : ndarray, shape (rows, 3)
    i : int

    Returns
    -------
    tuple of 3 numbers or lanes
    """
    return y[i, 0], y[i, 1], y[i, 2]


@inlined
def put(y, i, a):
    """Write `a` to row `i` of the stack `y`.

    Parameters
    ----------
    y : ndarray, shape (rows, 3)
    i : int
    a : tuple of 3 numbers or lanes
    """
    y[i, 0] = a[0]
    y[i, 1] = a[1]
    y[i, 2] = a[2]


@inlined
def summed(w, low, i):
    """Read row `i` of the sum w + low of two stacks.

    Parameters
    ----------
    w, low : ndarray, shape (rows, 3)
    i : int

    Returns
    -------
    tuple of 3 numbers or lanes
    """
    return add(get(w, i), get(low, i))


@inlined
def add(a, b):
    """a + b

    Parameters
    ----------
    a, b : tuple of 3 numbers or lanes

    Returns
    -------
    tuple of 3 numbers or lanes
    """
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@inlined
def sub(a, b):
    """a − b

    Parameters
    ----------
    a, b : tuple of 3 numbers or lanes

    Returns
    -------
    tuple of 3 numbers or lanes
    """
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@inlined
def scale(s, a):
    """s a

    Parameters
    ----------
    s : number or lanes
    a : tuple of 3 numbers or lanes

    Returns
    -------
    tuple of 3 numbers or lanes
    """
    return s * a[0], s * a[1], s * a[2]


@inlined
def axpy(s, a, b):
    """s a + b, each component rounded once.

    Parameters
    ----------
    s : number or lanes
    a, b : tuple of 3 numbers or lanes

    Returns
    -------
    tuple of 3 numbers or lanes
    """
    return fma(s, a[0], b[0]), fma(s, a[1], b[1]), fma(s, a[2], b[2])


@inlined
def dot(a, b):
    """a · b

    Parameters
    ----------
    a, b : tuple of 3 numbers or lanes

    Returns
    -------
    number or lanes
    """
    return fma(a[2], b[2], fma(a[1], b[1], a[0] * b[0]))


@inlined
def dot_from(start, a, b):
    """start + a · b"""
    return fma(a[2], b[2], fma(a[1], b[1], fma(a[0], b[0], start)))


@inlined
def lacking(squared, a):
    """squared − a·a, exact to round-off of `squared` at most twice, where little is left."""
    return fma(-a[2], a[2], fma(-a[1], a[1], fma(-a[0], a[0], squared)))


@inlined
def cross(a, b):
    """a × b; that of a vector with itself is round-off, not 0.

    Parameters
    ----------
    a, b : tuple of 3 numbers or lanes

    Returns
    -------
    tuple of 3 numbers or lanes
    """
    return (
        fma(a[1], b[2], -(a[2] * b[1])),
        fma(a[2], b[0], -(a[0] * b[2])),
        fma(a[0], b[1], -(a[1] * b[0])),
    )


@inlined
def accumulate(y, i, a):
    """Add `a` to row `i` of the stack `y`, without compensation.

    Parameters
    ----------
    y : ndarray, shape (rows, 3)
    i : int
    a : tuple of 3 numbers or lanes
    """
    y[i, 0] = y[i, 0] + a[0]
    y[i, 1] = y[i, 1] + a[1]
    y[i, 2] = y[i, 2] + a[2]


@inlined
def increment_by(y, low, i, wanted):
    """As `increment` by what `wanted` adds to `low`, which it includes."""
    for c in range(3):
        old = y[i, c]
        new = old + wanted[c]
        low[i, c] = wanted[c] - (new - old)
        y[i, c] = new


@inlined
def increment(y, low, i, d):
    """Add `d` to row `i` of `y` by Kahan's compensated sum.

    Parameters
    ----------
    y : ndarray, shape (rows, 3)
    low : ndarray, shape (rows, 3)
        Keeps what the sums lost.
    i : int
    d : tuple of 3 numbers or lanes
    """
    increment_by(y, low, i, add(d, get(low, i)))


@inlined
def normalizing(q):
    """The increment that brings `q` to unit length: (1/|q| − 1) q, free of cancellation."""
    root = sqrt(dot(q, q))
    return scale(lacking(1.0, q) / (root * (1.0 + root)), q)


@inlined
def factor_ldl(a, n):
    """LDLᵀ of the symmetric matrix in the flat `a`, in place, without pivoting.

    The lower triangle of `a` (row-major, n×n) becomes L; its diagonal the *reciprocals* of D.
    """
    for j in range(n):
        d = a[j * n + j]
        for k in range(j):
            d = fma(-a[j * n + k], a[k * n + j], d)
        inverse = 1.0 / d
        a[j * n + j] = inverse
        for i in range(j + 1, n):
            s = a[i * n + j]
            for k in range(j):
                s = fma(-a[i * n + k], a[k * n + j], s)
            a[j * n + i] = s  # D Lᵀ, in the upper triangle: spares a multiplication above
            a[i * n + j] = s * inverse


@inlined
def solve_ldl(a, n, x):
    """Solve with the factors of `factor_ldl`; `x` (n) holds the right side, then the result."""
    for i in range(n):
        s = x[i]
        for k in range(i):
            s = fma(-a[i * n + k], x[k], s)
        x[i] = s
    for i in range(n):
        x[i] = x[i] * a[i * n + i]
    for i in range(n - 1, -1, -1):
        s = x[i]
        for k in range(i + 1, n):
            s = fma(-a[k * n + i], x[k], s)
        x[i] = s


@inlined
def factor_lu(a, n):
    """LU of the matrix in the flat `a` (row-major, n×n), in place, without pivoting.

    The diagonal of L is 1; on that of `a` stand the *reciprocals* of U's.
    """
    for k in range(n):
        inverse = 1.0 / a[k * n + k]
        a[k * n + k] = inverse
        for i in range(k + 1, n):
            s = a[i * n + k] * inverse
            a[i * n + k] = s
            for j in range(k + 1, n):
                a[i * n + j] = fma(-s, a[k * n + j], a[i * n + j])


@inlined
def solve_lu(a, n, x):
    """Solve with the factors of `factor_lu`; `x` (n) holds the right side, then the result."""
    for i in range(n):
        s = x[i]
        for k in range(i):
            s = fma(-a[i * n + k], x[k], s)
        x[i] = s
    for i in range(n - 1, -1, -1):
        s = x[i]
        for k in range(i + 1, n):
            s = fma(-a[i * n + k], x[k], s)
        x[i] = s * a[i * n + i]
