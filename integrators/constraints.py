"""The linear algebra of |q_i| = 1 in the implicit variational integrator, by layout of M.

A change dλ of the multipliers moves v = M⁻¹(… + λ q) by M⁻¹(dλ q), and so changes ½|Q_i|², where
Q_i = q_i + c v_i, by c Σ_j A_ij dλ_j with A_ij = (M⁻¹)_ij Q_i·q_j. For chains everything is O(n).
The functions take M⁻¹ as `w`, the second half of what `spheres.packed_size` counts.
"""

from integrators import chains
from integrators.inertia import CHAIN
from integrators.kernels import inlined
from integrators.vectors import axpy, dot, factor_lu, get, put, solve_lu


@inlined
def factors_size(n, layout):
    """Elements that the factors of A take."""
    return chains.FACTORS * n if layout == CHAIN else n * n


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
