"""The linear algebra of |q_i| = 1 for a coupled inertia, by its layout.

In the implicit variational integrator a change dλ of the multipliers moves v = M⁻¹(… + λ q) by
M⁻¹(dλ q), and so changes ½|Q_i|², where Q_i = q_i + c v_i, by c Σ_j A_ij dλ_j with
A_ij = (M⁻¹)_ij Q_i·q_j. The accelerations of the vector fields follow from Q = q. For chains of
links everything is O(n).

The functions take M⁻¹ as `w`, the second half of what `spheres.packed_size` counts.
"""

from integrators.compiler.kernels import inlined
from integrators.compiler.vectors import (
    axpy,
    dot,
    factor_ldl,
    factor_lu,
    get,
    put,
    scale,
    solve_ldl,
    solve_lu,
)
from integrators.compiler.views import tail
from integrators.solvers import chains
from integrators.solvers.inertia import CHAIN


def count_factors(n: int, layout: int) -> int:
    """Elements that the factors of A take."""
    return chains.FACTORS * n if layout == CHAIN else n * n


factors_size = inlined(count_factors)


@inlined
def apply_inverse(w, n, layout, x, start, out):
    """start + M⁻¹ x into `out`, which may be `start` but not `x`."""
    if layout == CHAIN:
        chains.apply_inverse(w, n, x, start, out)
    else:
        for i in range(n):
            total = get(start, i)
            for j in range(n):
                total = axpy(w[i * n + j], get(x, j), total)
            put(out, i, total)


@inlined
def factor_constraints(w, n, layout, ends, q, a):
    """Factor A_ij = (M⁻¹)_ij Q_i·q_j, with the rows Q of `ends`, into the flat `a`."""
    if layout == CHAIN:
        chains.factor_constraints(w, n, ends, q, a)
    else:
        for i in range(n):
            for j in range(n):
                a[i * n + j] = w[i * n + j] * dot(get(ends, i), get(q, j))
        factor_lu(a, n)


@inlined
def solve_constraints(w, n, layout, ends, q, a, x):
    """Solve with these factors; `x` (n) holds the right side, then the result."""
    if layout == CHAIN:
        chains.solve_constraints(w, n, ends, q, a, x)
    else:
        solve_lu(a, n, x)


def count_solver(n: int, layout: int) -> int:
    """Elements of scratch that `solve_constrained` needs."""
    return chains.SOLVER * n if layout == CHAIN else 2 * n * n


solver_size = inlined(count_solver)


@inlined
def solve_constrained(p, n, layout, q, r, multipliers, x, work):
    """Solve Σ_j M̃_ij x_j = r_i + λ_i q_i, q_i·x_i = b_i for x; b is in `multipliers`.

    M̃ is M with M_ii/(q_i·q_i) on its diagonal. Overwrites r.
    """
    if layout == CHAIN:
        w, a = work, tail(work, chains.HALF * n)
        chains.invert_stretched(p, n, q, a, w)
    else:
        w, a = work, tail(work, n * n)
        _invert_stretched(p, n, q, a, w)
    _solve_by_inverse(w, n, layout, q, r, multipliers, x, a)


@inlined
def solve_on_spheres(p, n, layout, q, r, multipliers, x, work):
    """The same where |q_i| = 1 but for round-off: M̃ is M, whose inverse is known."""
    w = tail(p, chains.HALF * n if layout == CHAIN else n * n)
    _solve_by_inverse(w, n, layout, q, r, multipliers, x, work)


@inlined
def _solve_by_inverse(w, n, layout, q, r, multipliers, x, a):
    """`solve_constrained` with W = M̃⁻¹: Σ_j W_ij (q_i·q_j) λ_j = b_i − q_i·(W r)_i."""
    for i in range(n):
        put(x, i, scale(0.0, get(r, i)))
    apply_inverse(w, n, layout, r, x, x)
    for i in range(n):
        multipliers[i] = multipliers[i] - dot(get(q, i), get(x, i))
    factor_constraints(w, n, layout, q, q, a)
    solve_constraints(w, n, layout, q, q, a, multipliers)
    for i in range(n):
        put(r, i, scale(multipliers[i], get(q, i)))
    apply_inverse(w, n, layout, r, x, x)


@inlined
def _invert_stretched(p, n, q, a, w):
    """M̃⁻¹ into the flat `w`, column by column, where M̃ is M with M_ii/(q_i·q_i); `a` is scratch."""
    for i in range(n):
        for j in range(n):
            a[i * n + j] = p[i * n + j]
        a[i * n + i] = p[i * n + i] / dot(get(q, i), get(q, i))
    factor_ldl(a, n)
    for j in range(n):
        column = tail(w, j * n)
        for i in range(n):
            column[i] = 0.0
        column[j] = 1.0
        solve_ldl(a, n, column)
