"""The motion of a free rigid body: its momentum in closed form, its attitude by a quadrature.

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

A vector that is fixed in space moves in the body as v̇ = v × I⁻¹m. Let n_0, e and n_h be the
directions of m now, after h/2 and after h, and B the least rotation from one direction to another.
Then v turns by B(e → n_h) ∘ exp(−ψ e) ∘ B(n_0 → e), where with Ω = I⁻¹m − m/I_b, which has no
component b,

    ψ = |m| h/I_b + ∫ (n + e)·Ω/(1 + n·e) dt over h.

Six Gauss nodes, in pairs about h/2, take the integral to round-off while |I⁻¹m| h ≤ 1 at the start,
to 2e-13 up to 2 and to 2e-9 up to 4, if no moment is greater than the other two together. Momentum
and energy do not depend on ψ. A symmetric body needs no integral: it turns about m, then its axis.

Sources: R. van Zon, J. Schofield, *Numerical implementation of the exact dynamics of free rigid
bodies*, J. Comput. Phys. 225 (2007); E. Celledoni, F. Fassò, N. Säfström, A. Zanna, *The exact
computation of the free rigid body motion and its use in splitting methods*, SIAM J. Sci. Comput. 30
(2008). Theirs have one axis for the modulus; here is one formula for both.
"""

from fractions import Fraction

from integrators.compiler.double_double import split_into_columns
from integrators.compiler.kernels import inlined, varying
from integrators.compiler.lanes import fma, number, select
from integrators.compiler.vectors import add, axpy, cross, dot, scale, summed
from integrators.lie_groups.elliptic_functions import elliptic_functions
from integrators.lie_groups.rotations import rotation_coefficients

LITTLE = 0.1  # sn² of a time so short that the momentum changes by little
LEAST = 1e-300  # squared length of a momentum that has a direction
# Of Gauss's quadrature on [−1, 1]: the positive nodes, and the weights of them and their opposites;
# 6 points, and for double-double 14.
NODES = (0.23861918608319690, 0.66120938646626451, 0.93246951420315203)
WEIGHTS = (0.46791393457269105, 0.36076157304813861, 0.17132449237917034)
PRECISE_NODES = split_into_columns(
    map(
        Fraction,
        (
            "0.108054948707343662066244650219834747611952",
            "0.319112368927889760435671824168475466834261",
            "0.515248636358154091965290718551188662308885",
            "0.687292904811685470148019803019334137538401",
            "0.827201315069764993189794742650394961039701",
            "0.928434883663573517336391139377874264477039",
            "0.986283808696812338841597266704052801676091",
        ),
    )
)
PRECISE_WEIGHTS = split_into_columns(
    map(
        Fraction,
        (
            "0.215263853463157790195876443316260035274998",
            "0.205198463721295603965924065661218055710339",
            "0.185538397477937813741716590125157036248923",
            "0.157203167158193534569601938623842156605668",
            "0.121518570687903184689414809072476625956669",
            "0.0801580871597602098056332770628543095836978",
            "0.0351194603317518630318328761381917806197056",
        ),
    )
)


@inlined
def _time_functions(x, y, z, alpha, gamma, h):
    """Jacobi's functions of the time h, of a body with (m_a, m_b, m_c) = (x, y, z).

    Returns
    -------
    along_a : bool or mask
        Whether M ≥ N.
    greater, less : float or lane
        The greater and the less of M² and N².
    s, cn, dn : float or lane
        sn/√greater, cn and dn.
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
    return along_a, greater, less, s, cn, dn


@inlined
def _gained(x, y, z, alpha, gamma, functions):
    """By how much (x, y, z) grows within the time of `functions`, from `_time_functions`.

    Where that is little it has digits of its own, as the difference of two momenta would not.

    Returns
    -------
    forth, back : tuple of float
        The same for that time and for its opposite, which share nearly all operations.
    """
    along_a, greater, less, s, cn, dn = functions
    alpha, gamma = abs(alpha), abs(gamma)
    both = alpha + gamma
    square = s * s
    of_x, of_z = select(along_a, dn, cn), select(along_a, cn, dn)
    own = select(along_a, alpha * (x * x), gamma * (z * z))
    inverse = 1.0 / fma(cn, cn, square * (both * own))
    little = (greater * square < LITTLE) & (cn > 0.0)
    versine, other = greater * square / (1.0 + cn), less * square / (1.0 + dn)
    less_x, less_z = select(along_a, other, versine), select(along_a, versine, other)
    common = alpha * gamma * (y * y) * square
    keep_x = select(little, common - less_x, of_x)
    keep_y = select(little, common - (versine + other) + versine * other, of_x * of_z)
    keep_z = select(little, common - less_z, of_z)
    odd_x, even_x = -gamma * s * y * z * of_z, x * keep_x
    odd_y, even_y = both * s * x * z, y * keep_y
    odd_z, even_z = -alpha * s * x * y * of_x, z * keep_z
    left_x, left_y, left_z = select(little, 0.0, x), select(little, 0.0, y), select(little, 0.0, z)
    forth = (
        fma(even_x + odd_x, inverse, -left_x),
        fma(even_y + odd_y, inverse, -left_y),
        fma(even_z + odd_z, inverse, -left_z),
    )
    back = (
        fma(even_x - odd_x, inverse, -left_x),
        fma(even_y - odd_y, inverse, -left_y),
        fma(even_z - odd_z, inverse, -left_z),
    )
    return forth, back


@inlined
def free_momentum(w, low, p, middle, h):
    """The flow of a free body on the momentum in row 0 of w + low; `low` takes the change.

    p = (1/I_1, 1/I_2, 1/I_3, …) and the axis of the middle moment, or of one of two equal ones.
    """
    a, b, c = (middle + 2) % 3, middle, (middle + 1) % 3
    m = summed(w, low, 0)
    alpha, gamma = p[a] - p[b], p[b] - p[c]
    functions = _time_functions(m[a], m[b], m[c], alpha, gamma, h)
    (x, y, z), _ = _gained(m[a], m[b], m[c], alpha, gamma, functions)
    low[0, a] = low[0, a] + x
    low[0, b] = low[0, b] + y
    low[0, c] = low[0, c] + z


# --- the attitude ----------------------------------------------------------------------------
# Rotations are quaternions (s, x, y, z) of a size near 1, in the components a, b and c.


@inlined
def _after(q, r):
    """The rotation r, then q."""
    u, v = (q[1], q[2], q[3]), (r[1], r[2], r[3])
    x, y, z = axpy(q[0], v, axpy(r[0], u, cross(u, v)))
    return fma(q[0], r[0], -dot(u, v)), x, y, z


@inlined
def _least(m, gained, over_squared):
    """The least rotation from the direction of m to that of m + gained, where |m| stays."""
    x, y, z = scale(0.5 * over_squared, cross(m, gained))
    return fma(-0.25 * over_squared, dot(gained, gained), 1.0), x, y, z


@inlined
def _about(m, angle):
    """The rotation about m by |m| times an angle."""
    x, y, z = scale(0.5 * angle, m)
    squared = fma(z, z, fma(y, y, x * x))
    a, b = rotation_coefficients(squared)
    return fma(-b, squared, 1.0), a * x, a * y, a * z


@inlined
def _speed(mid, gained, alpha, gamma, over_squared):
    """(n + e)·Ω/(1 + n·e)/|m| at m = mid + gained."""
    m = add(mid, gained)
    along = alpha * m[0] * (m[0] + mid[0]) - gamma * m[2] * (m[2] + mid[2])
    return along * over_squared / fma(-0.5 * over_squared, dot(gained, gained), 2.0)


@inlined
def _speed_beside(start, mid, alpha, gamma, over_squared, time):
    """The sum of the speeds at a time before and after the middle."""
    functions = _time_functions(start[0], start[1], start[2], alpha, gamma, time)
    forth, back = _gained(mid[0], mid[1], mid[2], alpha, gamma, functions)
    speed = _speed(mid, forth, alpha, gamma, over_squared)
    return speed + _speed(mid, back, alpha, gamma, over_squared)


@inlined
def _usual_mean_speed(start, mid, alpha, gamma, over_squared, h):
    total = 0.0 * over_squared
    for i in range(len(NODES)):
        speed = _speed_beside(start, mid, alpha, gamma, over_squared, 0.5 * h * NODES[i])
        total = fma(WEIGHTS[i], speed, total)
    return total


@inlined
def _precise_mean_speed(start, mid, alpha, gamma, over_squared, h):
    total = 0.0 * over_squared
    for i in range(len(PRECISE_NODES[0])):
        node = number(total, PRECISE_NODES[0][i], PRECISE_NODES[1][i])
        speed = _speed_beside(start, mid, alpha, gamma, over_squared, 0.5 * h * node)
        total = total + number(total, PRECISE_WEIGHTS[0][i], PRECISE_WEIGHTS[1][i]) * speed
    return total


_mean_speed = varying(_usual_mean_speed, double_double=_precise_mean_speed)
"""Twice the mean over h of the speeds, by Gauss's quadrature."""


@inlined
def free_rotation(m, p, middle, h):
    """How a free body's momentum, and vectors fixed in space, move in the body within h.

    Parameters
    ----------
    m : tuple of float
        The momentum in the body.
    p, middle
        As `free_momentum` has them.
    h : float

    Returns
    -------
    rotation : tuple of float
        A quaternion for `turn_rows`.
    gained : tuple of float
        The change of the momentum, by its components a, b and c.
    """
    a, b, c = (middle + 2) % 3, middle, (middle + 1) % 3
    alpha, gamma = p[a] - p[b], p[b] - p[c]
    start = m[a], m[b], m[c]
    squared = dot(start, start)
    over_squared = select(squared > LEAST, 1.0 / squared, 0.0 * squared)
    half = _time_functions(start[0], start[1], start[2], alpha, gamma, 0.5 * h)
    first, _ = _gained(start[0], start[1], start[2], alpha, gamma, half)
    mid = add(start, first)
    second, _ = _gained(mid[0], mid[1], mid[2], alpha, gamma, half)
    total = _mean_speed(start, mid, alpha, gamma, over_squared, h)
    spin = _about(mid, -h * fma(0.5, total, p[b]))
    rotation = _after(
        _least(mid, second, over_squared), _after(spin, _least(start, first, over_squared))
    )
    return rotation, add(first, second)


@inlined
def symmetric_rotation(m, p, middle, h):
    """As `free_rotation`, of a body whose moments I_b and I_c are equal.

    Returns
    -------
    rotation, of_momentum : tuple of float
        Quaternions for `turn_rows`: of vectors fixed in space, and of the momentum, about a.
    """
    a, b, c = (middle + 2) % 3, middle, (middle + 1) % 3
    x, y, z = m[a], m[b], m[c]
    zero = 0.0 * x
    about_axis = _about((x, zero, zero), -h * (p[a] - p[b]))
    return _after(about_axis, _about((x, y, z), -h * p[b])), about_axis


@inlined
def turn_rows(w, low, first, last, middle, rotation):
    """Turn the rows from `first` to before `last` of w + low; `low` takes the change.

    That is 2 (s a + v × a)/(s² + v·v), a = v × x, of a row x and the quaternion (s, v). What the
    denominator exceeds 1 by has digits of its own: its rounding would have one sign for long.
    """
    a, b, c = (middle + 2) % 3, middle, (middle + 1) % 3
    s, x, y, z = rotation
    axis = x, y, z
    excess = fma(s - 1.0, s + 1.0, dot(axis, axis))
    less = -excess / (1.0 + excess)
    for i in range(first, last):
        v = summed(w, low, i)
        across = scale(2.0, cross(axis, (v[a], v[b], v[c])))
        change = axpy(s, across, cross(axis, across))
        low[i, a] = low[i, a] + fma(less, change[0], change[0])
        low[i, b] = low[i, b] + fma(less, change[1], change[1])
        low[i, c] = low[i, c] + fma(less, change[2], change[2])
