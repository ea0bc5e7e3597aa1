"""What the controller of `quadrotor_payload` wants: a force on the load, directions of the links.

The load is to follow y_d(t) = c_1 t + c_2 t². The force that does so, b opposite to it and
n = (e1 − (e1·b) b)/|…| give the directions of two links at the formation's angle β (Lee, Sreenath
and Kumar 2013):

    F = m_y (ÿ_d − g e3 − k_y (y − y_d) − k_v (v − ẏ_d)),   b = −F/|F|,
    q_1d = cos β b + sin β n,   q_2d = cos β b − sin β n.

With F/m_y = r (ξ e1 + ρ m), ξ² + ρ² = 1 and m a unit vector orthogonal to e1, these are
q_id = −(C_i e1 + S_i m), where (C_i, S_i) is (ξ, ρ) turned by ±β. Their rotation ω_id = q_id × q̇_id
follows from that of (ξ, ρ), at the rate θ̇, and of m about e1, at φ̇: two square roots and one
division for all. F must be neither 0 nor along e1.
"""

from collections.abc import Sequence

import numpy as np

from integrators.compiler.kernels import inlined, kernel
from integrators.compiler.lanes import sqrt
from integrators.compiler.vectors import axpy, dot, get, put, scale, sub
from integrators.errors import InputError
from integrators.precision import to_doubles
from systems.checking import ON_MANIFOLD

Y, V, Q1, Q2 = 0, 1, 10, 12  # rows of a state
# The parameters, as they lie first in those of `quadrotor_payload`: g, the gains, cos β, sin β,
# 1/(2 cos β), c_1 and c_2.
GRAVITY, K_Y, K_V, K_Q, K_W, COSINE, SINE, HALF_SECANT, C_1, C_2 = 0, 1, 2, 3, 4, 5, 6, 7, 8, 11


@inlined
def path(t, p):
    """y_d and ẏ_d."""
    one, two = (p[C_1], p[C_1 + 1], p[C_1 + 2]), (p[C_2], p[C_2 + 1], p[C_2 + 2])
    return scale(t, axpy(t, two, one)), axpy(2.0 * t, two, one)


@inlined
def lag(t, y, p):
    """y − y_d and v − ẏ_d."""
    place, speed = path(t, p)
    return sub(get(y, Y), place), sub(get(y, V), speed)


@inlined
def wanted_force(e, rate, p):
    """F/m_y of y − y_d and v − ẏ_d."""
    return (
        2.0 * p[C_2] - p[K_Y] * e[0] - p[K_V] * rate[0],
        2.0 * p[C_2 + 1] - p[K_Y] * e[1] - p[K_V] * rate[1],
        2.0 * p[C_2 + 2] - p[GRAVITY] - p[K_Y] * e[2] - p[K_V] * rate[2],
    )


@inlined
def force_rate(rate, fall, p):
    """Ḟ/m_y of v − ẏ_d and v̇; the path has no third derivative."""
    return (
        -p[K_Y] * rate[0] - p[K_V] * (fall[0] - 2.0 * p[C_2]),
        -p[K_Y] * rate[1] - p[K_V] * (fall[1] - 2.0 * p[C_2 + 1]),
        -p[K_Y] * rate[2] - p[K_V] * (fall[2] - 2.0 * p[C_2 + 2]),
    )


@inlined
def polar(f):
    """(r, ξ, ρ, m_2, m_3) of f = r (ξ e1 + ρ m), and (1/r, 1/(ρ r))."""
    flat = f[1] * f[1] + f[2] * f[2]
    across, size = sqrt(flat), sqrt(flat + f[0] * f[0])
    inverse = 1.0 / (across * size)
    by_size, by_across = across * inverse, size * inverse
    parts = size, f[0] * by_size, across * by_size, f[1] * by_across, f[2] * by_across
    return parts, (by_size, by_across)


@inlined
def polar_rates(f, inverses, d):
    """θ̇ and φ̇ of (ξ, ρ) = (cos θ, sin θ) and m = (0, cos φ, sin φ), from `polar` and ḟ = d."""
    _, xi, rho, m_2, m_3 = f
    theta = (xi * (m_2 * d[1] + m_3 * d[2]) - rho * d[0]) * inverses[0]
    return theta, (m_2 * d[2] - m_3 * d[1]) * inverses[1]


@inlined
def wanted_angles(f, p):
    """(C_i, S_i) of both links."""
    _, xi, rho, _, _ = f
    cosine, sine = p[COSINE], p[SINE]
    return (
        (cosine * xi - sine * rho, cosine * rho + sine * xi),
        (cosine * xi + sine * rho, cosine * rho - sine * xi),
    )


@inlined
def wanted_direction(c, f):
    """q_id of (C_i, S_i)."""
    return -c[0], -c[1] * f[3], -c[1] * f[4]


@inlined
def wanted_rate(c, f, theta, phi):
    """ω_id = q_id × q̇_id of (C_i, S_i) = S_i² φ̇ e1 − C_i S_i φ̇ m + θ̇ e1 × m."""
    across = c[0] * c[1] * phi
    return c[1] * c[1] * phi, -across * f[3] - theta * f[4], -across * f[4] + theta * f[3]


# --- observables --------------------------------------------------------------------------------


@kernel()
def load_position(t, y, p, out, work):
    """y"""
    put(out, 0, get(y, Y))


@kernel()
def desired_position(t, y, p, out, work):
    """y_d"""
    place, _ = path(t, p)
    put(out, 0, axpy(0.0, get(y, Y), place))  # of the state's element type


@kernel()
def deviation(t, y, p, out, work):
    """y − y_d"""
    e, _ = lag(t, y, p)
    put(out, 0, e)


@kernel()
def tracking_distance(t, y, p, out, work):
    """|y − y_d|, into ``out[0, 0]``."""
    e, _ = lag(t, y, p)
    out[0, 0] = sqrt(dot(e, e))


@kernel()
def link_deviations(t, y, p, out, work):
    """|q_i − q_id|, into ``out[0, :2]``."""
    e, rate = lag(t, y, p)
    f, _ = polar(wanted_force(e, rate, p))
    c_1, c_2 = wanted_angles(f, p)
    off_1 = sub(get(y, Q1), wanted_direction(c_1, f))
    off_2 = sub(get(y, Q2), wanted_direction(c_2, f))
    out[0, 0], out[0, 1] = sqrt(dot(off_1, off_1)), sqrt(dot(off_2, off_2))


# --- before a run -------------------------------------------------------------------------------


def wanted_directions(
    t: float, y: np.ndarray | Sequence[float], v: np.ndarray | Sequence[float], p: np.ndarray
) -> np.ndarray:
    """The directions q_id, for starts and for what they are checked for.

    Parameters
    ----------
    t : float
    y, v : array_like, shape (3,)
        Position and velocity of the load.
    p : ndarray
        The parameters.

    Returns
    -------
    ndarray, shape (2, 3)

    Raises
    ------
    InputError
        Where F is zero or along e1.
    """
    one, two, weight = p[C_1 : C_1 + 3], p[C_2 : C_2 + 3], np.array([0.0, 0.0, p[GRAVITY]])
    e, rate = y - t * (one + t * two), v - (one + 2.0 * t * two)
    terms = np.array([2.0 * two, -weight, -p[K_Y] * e, -p[K_V] * rate])
    force = np.sum(terms, axis=0)
    size, across = np.linalg.norm(force), np.linalg.norm(force[1:])
    if not to_doubles(across) > ON_MANIFOLD * np.linalg.norm(to_doubles(terms)):
        raise InputError(
            f"the controller wants the force {force} per mass on the load at y = {np.array(y)}, "
            f"v = {np.array(v)}; expected one that is neither 0 nor along e1, since it gives the "
            "links their directions. Move the load, or change gravity or the gains"
        )
    b, n = -force / size, np.append(across, -force[0] * force[1:] / across) / size
    return np.array([p[COSINE] * b + p[SINE] * n, p[COSINE] * b - p[SINE] * n])
