"""The motion of a free rigid body in closed form, by Jacobi's elliptic functions.

With principal axes a, b, c, a right-handed triple, b that of the middle moment of inertia, let
α = 1/I_a − 1/I_b and γ = 1/I_b − 1/I_c. H less |m|²/(2 I_b) is ½ (α m_a² − γ m_c²), which moves the
momentum m in the body in the same way:

    ṁ_a = −γ m_b m_c,   ṁ_b = (α + γ) m_c m_a,   ṁ_c = −α m_a m_b.

α and γ have one sign or vanish; negative ones are positive ones back in time. Constants are

    M² = α ((α + γ) m_a² + γ m_b²),   N² = γ ((α + γ) m_c² + α m_b²),   M² − N² = 2 (α + γ) H.

If M ≥ N, m_a, m_b and m_c are multiples of dn, sn and cn of Mt, of the modulus N/M, else of cn, sn
and dn of Nt, of the modulus M/N. By their addition theorems the new momentum is rational in the old
one and in the functions of the time that passes, whatever the time at which the old one began. A
symmetric body is no special case, nor are a rotation about an axis and the separatrix, M = N.

Sources: R. van Zon, J. Schofield, *Numerical implementation of the exact dynamics of free rigid
bodies*, J. Comput. Phys. 225 (2007); E. Celledoni, F. Fassò, N. Säfström, A. Zanna, *The exact
computation of the free rigid body motion and its use in splitting methods*, SIAM J. Sci. Comput. 30
(2008). Theirs have one axis for the modulus; here is one formula for both.
"""

from integrators.compiler.kernels import inlined
from integrators.compiler.lanes import fma, select
from integrators.compiler.vectors import summed
from integrators.lie_groups.elliptic_functions import elliptic_functions

LITTLE = 0.1  # sn² of a time so short that the momentum changes by little


@inlined
def momentum_gained(x, y, z, alpha, gamma, h):
    """By how much (m_a, m_b, m_c) = (x, y, z) grows within h; see the module.

    Where that is little it has digits of its own, as the difference of two momenta would not.
    """
    sense = h if alpha + gamma >= 0.0 else -h
    alpha, gamma = abs(alpha), abs(gamma)
    both = alpha + gamma
    xx, yy, zz = alpha * (x * x), y * y, gamma * (z * z)
    m = fma(both, xx, alpha * gamma * yy)
    n = fma(both, zz, alpha * gamma * yy)
    along_a = xx >= zz  # as m >= n, where their difference is lost too
    greater, less = select(along_a, m, n), select(along_a, n, m)
    s, cn, dn = elliptic_functions(greater, both * abs(xx - zz), less, sense)
    square = s * s
    of_x, of_z = select(along_a, dn, cn), select(along_a, cn, dn)
    inverse = 1.0 / fma(cn, cn, square * (both * select(along_a, xx, zz)))
    little = (greater * square < LITTLE) & (cn > 0.0)
    versine, other = greater * square / (1.0 + cn), less * square / (1.0 + dn)
    less_x, less_z = select(along_a, other, versine), select(along_a, versine, other)
    common = alpha * gamma * yy * square
    keep_x = select(little, common - less_x, of_x)
    keep_y = select(little, common - (versine + other) + versine * other, of_x * of_z)
    keep_z = select(little, common - less_z, of_z)
    gained_x = fma(-gamma * s * y, z * of_z, x * keep_x) * inverse
    gained_y = fma(both * s * x, z, y * keep_y) * inverse
    gained_z = fma(-alpha * s * x, y * of_x, z * keep_z) * inverse
    return (
        select(little, gained_x, gained_x - x),
        select(little, gained_y, gained_y - y),
        select(little, gained_z, gained_z - z),
    )


@inlined
def free_momentum(w, low, p, middle, h):
    """The flow of a free body on the momentum in row 0 of w + low; `low` takes the change.

    p = (1/I_1, 1/I_2, 1/I_3, …) and the axis of the middle moment, or of one of two equal ones.
    """
    a, b, c = (middle + 2) % 3, middle, (middle + 1) % 3
    m = summed(w, low, 0)
    x, y, z = momentum_gained(m[a], m[b], m[c], p[a] - p[b], p[b] - p[c], h)
    low[0, a] = low[0, a] + x
    low[0, b] = low[0, b] + y
    low[0, c] = low[0, c] + z
