"""Actions of Lie groups on states, with dexp⁻¹ and brackets of their algebras.

An element of the algebra is a stack of 3-vectors like the state. An `Action` has four kernels of
the signature `kernels.whole_state`, which read no time and no parameters:

- ``act(t, y, p, out, sigma)``: what exp(σ) adds to the state y, exp(σ)·y − y, into `out`;
- ``velocity(t, y, p, out, sigma)``: the vector field that σ generates at y;
- ``dexpinv(t, sigma, p, out, work)``: dexp⁻¹_σ of `out`, in place, and the largest squared angle
  of a rotation in σ into ``work[0]``;
- ``bracket(t, a, p, out, b)``: [a, b].

The second element of the algebra is flat, row by row. What an action keeps exactly, |q| = 1,
q·ω = 0 or R⊤R = 1, `act` restores: its increment leads back what the state is off.

| action | state | algebra | of Celledoni, Çokaj, Leone, Murari and Owren |
|---|---|---|---|
| `SPHERE` | q | u: q ↦ Rq | SO(3) on S² |
| `TANGENT_SPHERE` | q, ω | A, a: (q, ω) ↦ (Rq, Rω + r × Rq) | SE(3) on TS², 5.1 |
| `COADJOINT_SE3` | Π, Γ | ξ, u: Ad*_{g⁻¹} | SE(3) on se(3)*, 3.4.2 |
| `ROTATION` | R, three rows | u: R ↦ exp(u) R, or R exp(u) | SO(3) on itself, 6.1 |
| `TRANSLATION` | v | w: v ↦ v + w | R³ on itself, 6.1 |

`product` puts them together, SO(3) × R³ on (R, Ω) for example; `spheres` and `tangent_spheres` are
those of n bodies, whose rows of q come before those of ω. An action from the right is one from the
left of the opposite group: dexp⁻¹ is that of −σ, and brackets change their sign.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

from integrators.errors import InputError, check_known, check_whole
from integrators.exponentials import (
    bracket_se3,
    dexpinv_se3,
    dexpinv_so3,
    moved_se3,
    turned_rows,
)
from integrators.kernels import Kernel, inlined, whole_state
from integrators.lanes import select
from integrators.rotations import rotation_coefficients, turning
from integrators.vectors import add, axpy, cross, dot, get, put, scale
from integrators.views import rows_of

SIDES = {"left": 1.0, "right": -1.0}


@dataclass(frozen=True)
class Action:
    """An action of a Lie group on states, as compiled kernels; see the module.

    Parameters
    ----------
    name : str
        The group and what it acts on, for messages.
    rows, algebra_rows : int
        Of the state, and of an element of the algebra.
    act, velocity, dexpinv, bracket : Kernel
    """

    name: str
    rows: int
    algebra_rows: int
    act: Kernel
    velocity: Kernel
    dexpinv: Kernel
    bracket: Kernel


# --- factors ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Factor:
    """A group that acts on consecutive rows of a state: inlined functions of stacks and rows.

    Parameters
    ----------
    name : str
    rows, algebra_rows : int
    act, velocity : callable
        ``(sigma, i, y, j, out)`` write to the rows of `out` from j on, of σ from row i on.
    dexpinv : callable
        ``(sigma, i, out)`` in place; returns the squared angle of the rotation.
    bracket : callable
        ``(a, b, i, out)``.
    """

    name: str
    rows: int
    algebra_rows: int
    act: Callable
    velocity: Callable
    dexpinv: Callable
    bracket: Callable


@inlined
def _act_sphere(sigma, i, y, j, out):
    q = get(y, j)
    d = turning(get(sigma, i), q)
    put(out, j, axpy(0.5 * (1.0 - dot(q, q)), add(q, d), d))


@inlined
def _velocity_sphere(sigma, i, y, j, out):
    put(out, j, cross(get(sigma, i), get(y, j)))


@inlined
def _dexpinv_rotation(sigma, i, out):
    turned, x = dexpinv_so3(get(sigma, i), get(out, i), 1.0)
    put(out, i, turned)
    return x


@inlined
def _bracket_rotation(a, b, i, out):
    put(out, i, cross(get(a, i), get(b, i)))


@inlined
def _act_tangent(sigma, i, k, y, j, m, out):
    """Of q in row j and ω in row m; A and a in rows i and k."""
    q, w = get(y, j), get(y, m)
    dq, dw = moved_se3(get(sigma, i), get(sigma, k), q, w)
    end = add(q, dq)
    put(out, j, axpy(0.5 * (1.0 - dot(q, q)), end, dq))
    put(out, m, axpy(-dot(q, w), end, dw))


@inlined
def _velocity_tangent(sigma, i, k, y, j, m, out):
    u, q = get(sigma, i), get(y, j)
    put(out, j, cross(u, q))
    put(out, m, add(cross(u, get(y, m)), cross(get(sigma, k), q)))


@inlined
def _dexpinv_motion(sigma, i, k, out):
    v, w, x = dexpinv_se3(get(sigma, i), get(sigma, k), get(out, i), get(out, k))
    put(out, i, v)
    put(out, k, w)
    return x


@inlined
def _bracket_motion(a, b, i, k, out):
    v, w = bracket_se3(get(a, i), get(a, k), get(b, i), get(b, k))
    put(out, i, v)
    put(out, k, w)


@inlined
def _act_coadjoint(sigma, i, y, j, out):
    """(Π, Γ) ↦ (RΠ + r × RΓ, RΓ): that of (q, ω) with Γ for q and Π for ω."""
    d_gamma, d_pi = moved_se3(get(sigma, i), get(sigma, i + 1), get(y, j + 1), get(y, j))
    put(out, j, d_pi)
    put(out, j + 1, d_gamma)


@inlined
def _act_translation(sigma, i, y, j, out):
    put(out, j, get(sigma, i))


@inlined
def _dexpinv_translation(sigma, i, out):
    return 0.0 * sigma[i, 0]


@inlined
def _bracket_translation(a, b, i, out):
    put(out, i, scale(0.0, get(a, i)))


def _rotation_factor(side):
    sign = SIDES[side]

    @inlined
    def act(sigma, i, y, j, out):
        u = get(sigma, i)
        s, b = rotation_coefficients(dot(u, u))
        r0, r1, r2 = get(y, j), get(y, j + 1), get(y, j + 2)
        a0, a1, a2 = turned_rows(u, r0, r1, r2, sign)
        b0, b1, b2 = turned_rows(u, a0, a1, a2, sign)
        d0 = axpy(b, b0, scale(s, a0))
        d1 = axpy(b, b1, scale(s, a1))
        d2 = axpy(b, b2, scale(s, a2))
        e0, e1, e2 = add(r0, d0), add(r1, d1), add(r2, d2)
        c0, c1, c2 = _missing(r0, r1, r2, e0, e1, e2, sign)
        put(out, j, axpy(0.5, c0, d0))
        put(out, j + 1, axpy(0.5, c1, d1))
        put(out, j + 2, axpy(0.5, c2, d2))

    @inlined
    def velocity(sigma, i, y, j, out):
        u = get(sigma, i)
        a0, a1, a2 = turned_rows(u, get(y, j), get(y, j + 1), get(y, j + 2), sign)
        put(out, j, a0)
        put(out, j + 1, a1)
        put(out, j + 2, a2)

    @inlined
    def dexpinv(sigma, i, out):
        turned, x = dexpinv_so3(get(sigma, i), get(out, i), sign)
        put(out, i, turned)
        return x

    @inlined
    def bracket(a, b, i, out):
        put(out, i, scale(sign, cross(get(a, i), get(b, i))))

    return Factor(f"SO(3) from the {side}", 3, 1, act, velocity, dexpinv, bracket)


@inlined
def _missing(r0, r1, r2, e0, e1, e2, side):
    """What leads the turned rows e twice back: E (1 − R⊤R), from the right (1 − RR⊤) E.

    Turns of R from that side leave the bracket as it is.
    """
    if side > 0.0:
        m0 = axpy(-r2[0], r2, axpy(-r1[0], r1, axpy(-r0[0], r0, (1.0, 0.0, 0.0))))
        m1 = axpy(-r2[1], r2, axpy(-r1[1], r1, axpy(-r0[1], r0, (0.0, 1.0, 0.0))))
        m2 = axpy(-r2[2], r2, axpy(-r1[2], r1, axpy(-r0[2], r0, (0.0, 0.0, 1.0))))
        return _row(e0, m0, m1, m2), _row(e1, m0, m1, m2), _row(e2, m0, m1, m2)
    one, two, three = -dot(r0, r1), -dot(r0, r2), -dot(r1, r2)
    m0 = 1.0 - dot(r0, r0), one, two
    m1 = one, 1.0 - dot(r1, r1), three
    m2 = two, three, 1.0 - dot(r2, r2)
    return _row(m0, e0, e1, e2), _row(m1, e0, e1, e2), _row(m2, e0, e1, e2)


@inlined
def _row(e, m0, m1, m2):
    """e M, of the rows of M."""
    return axpy(e[2], m2, axpy(e[1], m1, scale(e[0], m0)))


@inlined
def _pair_act(sigma, i, y, j, out):
    _act_tangent(sigma, i, i + 1, y, j, j + 1, out)


@inlined
def _pair_velocity(sigma, i, y, j, out):
    _velocity_tangent(sigma, i, i + 1, y, j, j + 1, out)


@inlined
def _coadjoint_velocity(sigma, i, y, j, out):
    u, gamma = get(sigma, i), get(y, j + 1)
    put(out, j, add(cross(u, get(y, j)), cross(get(sigma, i + 1), gamma)))
    put(out, j + 1, cross(u, gamma))


@inlined
def _pair_dexpinv(sigma, i, out):
    return _dexpinv_motion(sigma, i, i + 1, out)


@inlined
def _pair_bracket(a, b, i, out):
    _bracket_motion(a, b, i, i + 1, out)


SPHERE = Factor(
    "SO(3) on S2", 1, 1, _act_sphere, _velocity_sphere, _dexpinv_rotation, _bracket_rotation
)
TANGENT_SPHERE = Factor(
    "SE(3) on TS2", 2, 2, _pair_act, _pair_velocity, _pair_dexpinv, _pair_bracket
)
COADJOINT_SE3 = Factor(
    "SE(3) on se(3)*", 2, 2, _act_coadjoint, _coadjoint_velocity, _pair_dexpinv, _pair_bracket
)
ROTATION = _rotation_factor("left")
RIGHT_ROTATION = _rotation_factor("right")
TRANSLATION = Factor(
    "R3", 1, 1, _act_translation, _act_translation, _dexpinv_translation, _bracket_translation
)


def _both(first, second):
    """The product of two factors, the rows of the second after those of the first."""
    rows, algebra_rows = first.rows, first.algebra_rows
    act_1, act_2, velocity_1, velocity_2 = first.act, second.act, first.velocity, second.velocity
    dexpinv_1, dexpinv_2 = first.dexpinv, second.dexpinv
    bracket_1, bracket_2 = first.bracket, second.bracket

    @inlined
    def act(sigma, i, y, j, out):
        act_1(sigma, i, y, j, out)
        act_2(sigma, i + algebra_rows, y, j + rows, out)

    @inlined
    def velocity(sigma, i, y, j, out):
        velocity_1(sigma, i, y, j, out)
        velocity_2(sigma, i + algebra_rows, y, j + rows, out)

    @inlined
    def dexpinv(sigma, i, out):
        one, two = dexpinv_1(sigma, i, out), dexpinv_2(sigma, i + algebra_rows, out)
        return select(two > one, two, one)

    @inlined
    def bracket(a, b, i, out):
        bracket_1(a, b, i, out)
        bracket_2(a, b, i + algebra_rows, out)

    name = f"{first.name} x {second.name}"
    count, algebra_count = rows + second.rows, algebra_rows + second.algebra_rows
    return Factor(name, count, algebra_count, act, velocity, dexpinv, bracket)


@functools.cache
def product(*factors):
    """The action of the product of some groups, each on rows of its own.

    Parameters
    ----------
    *factors : Factor
        In the order of the state's rows and of the algebra's.

    Returns
    -------
    Action

    Raises
    ------
    InputError
        If there is none, or one is no `Factor`.
    """
    for factor in factors:
        if not isinstance(factor, Factor):
            raise InputError(
                f"{factor!r} is no factor of an action; expected SPHERE, TANGENT_SPHERE, "
                "COADJOINT_SE3, ROTATION, RIGHT_ROTATION or TRANSLATION"
            )
    if not factors:
        raise InputError("an action needs a factor, such as TANGENT_SPHERE")
    made = functools.reduce(_both, factors)
    of_act, of_velocity, of_dexpinv, of_bracket = (
        made.act, made.velocity, made.dexpinv, made.bracket,
    )  # fmt: skip
    m = made.algebra_rows

    def act(t, y, p, out, sigma):
        of_act(rows_of(sigma, 0, m), 0, y, 0, out)

    def velocity(t, y, p, out, sigma):
        of_velocity(rows_of(sigma, 0, m), 0, y, 0, out)

    def dexpinv(t, sigma, p, out, work):
        work[0] = of_dexpinv(sigma, 0, out)

    def bracket(t, a, p, out, b):
        of_bracket(a, rows_of(b, 0, m), 0, out)

    return Action(
        made.name, made.rows, m,
        *(Kernel(of, whole_state, (made.name,)) for of in (act, velocity, dexpinv, bracket)),
    )  # fmt: skip


# --- n bodies -----------------------------------------------------------------------------------


@functools.cache
def _spheres_kernels(unit):
    def act(t, y, p, out, sigma):
        n = y.shape[0]
        u = rows_of(sigma, 0, n)
        for i in range(n):
            if unit:
                _act_sphere(u, i, y, i, out)
            else:
                put(out, i, turning(get(u, i), get(y, i)))

    def velocity(t, y, p, out, sigma):
        n = y.shape[0]
        for i in range(n):
            _velocity_sphere(rows_of(sigma, 0, n), i, y, i, out)

    def dexpinv(t, sigma, p, out, work):
        widest = 0.0 * sigma[0, 0]
        for i in range(sigma.shape[0]):
            x = _dexpinv_rotation(sigma, i, out)
            widest = select(x > widest, x, widest)
        work[0] = widest

    def bracket(t, a, p, out, b):
        n = a.shape[0]
        for i in range(n):
            _bracket_rotation(a, rows_of(b, 0, n), i, out)

    return [Kernel(of, whole_state, (unit,)) for of in (act, velocity, dexpinv, bracket)]


def spheres(n, lengths="unit"):
    """SO(3)ⁿ on n vectors: unit ones, or of ``lengths`` ``"any"``, which it keeps too.

    Returns
    -------
    Action

    Raises
    ------
    InputError
        If `n` is no whole number of at least 1, or `lengths` unknown.
    """
    n = check_whole("n", n)
    check_known("lengths", lengths, ("unit", "any"), key="lengths")
    return Action(f"SO(3)^{n} on (S2)^{n}", n, n, *_spheres_kernels(lengths == "unit"))


@functools.cache
def _tangent_kernels(forced):
    extra = int(forced)

    def act(t, y, p, out, sigma):
        n = y.shape[0] // 2
        u = rows_of(sigma, 0, 2 * n + extra)
        for i in range(n):
            _act_tangent(u, i, n + i, y, i, n + i, out)
        if forced:
            put(out, 2 * n, get(u, 2 * n))

    def velocity(t, y, p, out, sigma):
        n = y.shape[0] // 2
        u = rows_of(sigma, 0, 2 * n + extra)
        for i in range(n):
            _velocity_tangent(u, i, n + i, y, i, n + i, out)
        if forced:
            put(out, 2 * n, get(u, 2 * n))

    def dexpinv(t, sigma, p, out, work):
        n = sigma.shape[0] // 2
        widest = 0.0 * sigma[0, 0]
        for i in range(n):
            x = _dexpinv_motion(sigma, i, n + i, out)
            widest = select(x > widest, x, widest)
        work[0] = widest

    def bracket(t, a, p, out, b):
        n = a.shape[0] // 2
        for i in range(n):
            _bracket_motion(a, rows_of(b, 0, 2 * n), i, n + i, out)
        if forced:
            put(out, 2 * n, scale(0.0, get(a, 2 * n)))

    return [Kernel(of, whole_state, (forced,)) for of in (act, velocity, dexpinv, bracket)]


def tangent_spheres(n, forced=False):
    """SE(3)ⁿ on n pairs (q, ω), rows of q before those of ω; with a row for the work of a force.

    Returns
    -------
    Action

    Raises
    ------
    InputError
        If `n` is no whole number of at least 1.
    """
    n = check_whole("n", n)
    rows = 2 * n + int(forced)
    return Action(f"SE(3)^{n} on (TS2)^{n}", rows, rows, *_tangent_kernels(forced))
