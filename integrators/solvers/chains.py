"""The inertia of chains of links, and what is solved with it, in O(n).

Links end to end have M = P N Pᵀ: P_ik = l_i for k ≥ i sums v up to the velocities of the joints,
s_k = Σ_{i≤k} l_i v_i, and N, which is tridiagonal, is the inertia of the joints. So is every M
with M_ij = u_i w_j for i < j. Its inverse has, beside its diagonal,

    (M⁻¹)_ij = y_i t_{i+1} … t_{j−1} x_j    for i < j,

and A_ij = (M⁻¹)_ij Q_i·q_j is of the same kind with 3-vectors. Sums over j are then recursions
along the chain, and elimination needs of all rows before only a 3×3 matrix (as celerite's of
Foreman-Mackey et al., *Fast and scalable Gaussian process modeling*, (2017), for scalars).

Packed, M takes 8n numbers: l_i, N_ii, N_i,i+1 and M_ii of every link, then (M⁻¹)_ii, x_i, y_i and
t_i of every link. The functions below take the first half as ``p``, the second as ``w``.
"""

from integrators.compiler.kernels import inlined
from integrators.compiler.lanes import fma
from integrators.compiler.vectors import add, axpy, cross, dot, get, put, scale

HALF = 4  # numbers of a link in each half of the packed matrix
FACTORS = 7  # and in the factors
SOLVER = HALF + FACTORS  # and in the scratch of both M⁻¹ and factors


@inlined
def invert(p, n, extra, w):
    """M⁻¹ of M with `extra` (n) l_i² added to its diagonal, from `p` into `w`."""
    for k in range(n - 1, -1, -1):  # N = R D Rᵀ from the free end; 1/D and t = −R_k−1,k
        pivot = p[HALF * k + 1] + extra[k]
        if k + 1 < n:
            beside = p[HALF * k + 2] - extra[k + 1]
            pivot = pivot + (extra[k + 1] + beside * w[HALF * (k + 1) + 3])
        inverse = 1.0 / pivot
        w[HALF * k] = inverse
        w[HALF * k + 3] = 0.0 * inverse
        if k > 0:
            w[HALF * k + 3] = (extra[k] - p[HALF * (k - 1) + 2]) * inverse
    before = 0.0 * extra[0]  # (N⁻¹)_k−1,k−1
    for k in range(n):
        inverse, t, reciprocal = w[HALF * k], w[HALF * k + 3], 1.0 / p[HALF * k]
        slip = 1.0 - t
        w[HALF * k] = (inverse + before * slip * slip) * (reciprocal * reciprocal)
        w[HALF * k + 1] = -slip * reciprocal
        w[HALF * k + 2] = (inverse - before * t * slip) * reciprocal
        before = inverse + t * t * before


@inlined
def invert_stretched(p, n, q, extra, w):
    """M̃⁻¹ into `w`, where M̃ is M with M_ii/(q_i·q_i) on its diagonal; `extra` (n) is scratch."""
    for i in range(n):
        squared = dot(get(q, i), get(q, i))
        length = p[HALF * i]
        extra[i] = p[HALF * i + 3] / (length * length) * ((1.0 - squared) / squared)
    invert(p, n, extra, w)


@inlined
def apply_inertia(p, n, v, out):
    """M v into `out`, another stack."""
    joint = scale(0.0, get(v, 0))
    for i in range(n):
        joint = axpy(p[HALF * i], get(v, i), joint)
        put(out, i, joint)
    total = beyond = scale(0.0, joint)
    for k in range(n - 1, -1, -1):
        joint = get(out, k)
        total = add(total, axpy(p[HALF * k + 2], beyond, scale(p[HALF * k + 1], joint)))
        if k > 0:
            total = axpy(p[HALF * (k - 1) + 2], get(out, k - 1), total)
        put(out, k, scale(p[HALF * k], total))
        beyond = joint


@inlined
def kinetic_energy(p, n, v):
    """½ v·M v = ½ s·N s"""
    total = 0.0 * v[0, 0]
    before = scale(0.0, get(v, 0))
    beside = 0.0
    for k in range(n):
        joint = axpy(p[HALF * k], get(v, k), before)
        half = axpy(beside, before, scale(0.5 * p[HALF * k + 1], joint))
        total = total + dot(joint, half)
        before, beside = joint, p[HALF * k + 2]
    return total


@inlined
def angular_momentum(p, n, q, v):
    """Σ q_i × (M v)_i = Σ r_k × (N s)_k, where r_k = Σ_{i≤k} l_i q_i is the place of joint k."""
    total = place = before = scale(0.0, get(v, 0))
    beside = 0.0
    for k in range(n):
        moved = axpy(p[HALF * k], get(q, k), place)
        joint = axpy(p[HALF * k], get(v, k), before)
        total = add(total, scale(p[HALF * k + 1], cross(moved, joint)))
        total = add(total, scale(beside, add(cross(place, joint), cross(moved, before))))
        place, before, beside = moved, joint, p[HALF * k + 2]
    return total


@inlined
def apply_inverse(w, n, x, start, out):
    """start + M⁻¹ x into `out`, which may be `start`."""
    before = scale(0.0, get(x, 0))
    for i in range(n):
        here = get(x, i)
        total = axpy(w[HALF * i], here, get(start, i))
        put(out, i, axpy(w[HALF * i + 1], before, total))
        before = axpy(w[HALF * i + 3], before, scale(w[HALF * i + 2], here))
    after = scale(0.0, get(x, 0))
    for i in range(n - 1, -1, -1):
        put(out, i, axpy(w[HALF * i + 2], after, get(out, i)))
        after = axpy(w[HALF * i + 3], after, scale(w[HALF * i + 1], get(x, i)))


@inlined
def factor_constraints(w, n, ends, q, a):
    """A = L D U, A_ij = (M⁻¹)_ij Q_i·q_j with the rows Q of `ends`, into the flat `a`.

    L_ik = x_i Q_i·(t_{i−1} … t_{k+1}) b_k and U_kj = c_k·(t_{k+1} … t_{j−1}) x_j q_j. For link k
    there is 1/D_k, then b_k, then c_k.
    """
    none = scale(0.0, get(q, 0))
    s0, s1, s2 = none, none, none  # what is eliminated: A_ij loses x_i Q_i·(… S …) x_j q_j
    for k in range(n):
        x, y, t = w[HALF * k + 1], w[HALF * k + 2], w[HALF * k + 3]
        end, here = get(ends, k), get(q, k)
        right = dot(s0, here), dot(s1, here), dot(s2, here)  # S q
        left = axpy(end[0], s0, axpy(end[1], s1, scale(end[2], s2)))  # Qᵀ S
        inverse = 1.0 / (w[HALF * k] * dot(end, here) - (x * x) * dot(end, right))
        b = axpy(-(t * x), right, scale(y, here))
        c = scale(inverse, axpy(-(t * x), left, scale(y, end)))
        s0 = axpy(t * t, s0, scale(b[0], c))
        s1 = axpy(t * t, s1, scale(b[1], c))
        s2 = axpy(t * t, s2, scale(b[2], c))
        a[FACTORS * k] = inverse
        for i in range(3):
            a[FACTORS * k + 1 + i] = b[i] * inverse
            a[FACTORS * k + 4 + i] = c[i]


@inlined
def solve_constraints(w, n, ends, q, a, x):
    """Solve with these factors; `x` (n) holds the right side, then the result."""
    before = scale(0.0, get(q, 0))
    for k in range(n):
        s = fma(-w[HALF * k + 1], dot(get(ends, k), before), x[k])
        b = a[FACTORS * k + 1], a[FACTORS * k + 2], a[FACTORS * k + 3]
        before = axpy(s, b, scale(w[HALF * k + 3], before))
        x[k] = s * a[FACTORS * k]
    after = scale(0.0, get(q, 0))
    for k in range(n - 1, -1, -1):
        c = a[FACTORS * k + 4], a[FACTORS * k + 5], a[FACTORS * k + 6]
        s = x[k] - dot(c, after)
        after = axpy(w[HALF * k + 1] * s, get(q, k), scale(w[HALF * k + 3], after))
        x[k] = s
