"""Groups that act on a few rows of a state: the factors that `actions` are put together from.

A `Factor` is inlined functions of stacks and the rows where it begins in them; the table in
`actions` says what each of them is.
"""

from dataclasses import dataclass

from integrators.compiler.kernels import Inlined, inlined
from integrators.compiler.lanes import select
from integrators.compiler.vectors import add, axpy, cross, dot, get, put, scale
from integrators.lie_groups.exponentials import (
    bracket_se3,
    dexpinv_se3,
    dexpinv_so3,
    motion_coefficients,
    moved_se3,
    turned_rows,
)
from integrators.lie_groups.retractions import of_its_length, retract_pair, retract_rotation
from integrators.lie_groups.rotations import rotation_coefficients, turning, turning_unit

SIDES = {"left": 1.0, "right": -1.0}


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
    retract : callable
        ``(y, j, out)`` leads the rows from j on to the orbit that they are on; see `retractions`.
    rotations, unit_rows : tuple of int
        Rows of the factor where a rotation matrix begins, and rows that are unit vectors.
    """

    name: str
    rows: int
    algebra_rows: int
    act: Inlined
    velocity: Inlined
    dexpinv: Inlined
    bracket: Inlined
    retract: Inlined
    rotations: tuple[int, ...] = ()
    unit_rows: tuple[int, ...] = ()


@inlined
def _act_sphere(sigma, i, y, j, out):
    put(out, j, turning_unit(get(sigma, i), get(y, j)))


@inlined
def _velocity_sphere(sigma, i, y, j, out):
    put(out, j, cross(get(sigma, i), get(y, j)))


@inlined
def _retract_sphere(y, j, out):
    put(out, j, of_its_length(get(y, j)))


@inlined
def _dexpinv_rotation(sigma, i, out):
    turned, x = dexpinv_so3(get(sigma, i), get(out, i), 1.0)
    put(out, i, turned)
    return x


@inlined
def _bracket_rotation(a, b, i, out):
    put(out, i, cross(get(a, i), get(b, i)))


@inlined
def act_tangent(sigma, i, k, y, j, m, out):
    """Of q in row j and ω in row m; A and a in rows i and k."""
    q, w = get(y, j), get(y, m)
    dq, dw = moved_se3(get(sigma, i), get(sigma, k), q, w)
    end = add(q, dq)
    put(out, j, axpy(0.5 * (1.0 - dot(q, q)), end, dq))
    put(out, m, axpy(-dot(q, w), end, dw))


@inlined
def velocity_tangent(sigma, i, k, y, j, m, out):
    """The vector that (A, a) generates at (q, ω), in the same rows."""
    u, q = get(sigma, i), get(y, j)
    put(out, j, cross(u, q))
    put(out, m, add(cross(u, get(y, m)), cross(get(sigma, k), q)))


@inlined
def dexpinv_motion(sigma, i, k, out):
    """dexp⁻¹ on se(3), of A and a in rows i and k; the squared angle of A."""
    v, w, x = dexpinv_se3(get(sigma, i), get(sigma, k), get(out, i), get(out, k))
    put(out, i, v)
    put(out, k, w)
    return x


@inlined
def bracket_motion(a, b, i, k, out):
    """The bracket of se(3), of rows i and k."""
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
def _retract_translation(y, j, out):
    put(out, j, get(y, j))


@inlined
def _dexpinv_translation(sigma, i, out):
    return 0.0 * sigma[i, 0]


@inlined
def _bracket_translation(a, b, i, out):
    put(out, i, scale(0.0, get(a, i)))


def _rotation_factor(side: str) -> Factor:
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

    name = f"SO(3) from the {side}"
    return Factor(name, 3, 1, act, velocity, dexpinv, bracket, retract_rotation, rotations=(0,))


def _semidirect_factor(translations: int) -> Factor:
    """SO(3) ⋉ so(3)* on (Q, π), (11); with R³ × R³ on (q, p), on (Q, q, π, p).

    (g₁, μ₁)·(g₂, μ₂) = (g₁g₂, μ₁ + g₁μ₂) is the product of SE(3), exponential and dexp⁻¹ its own.
    """
    turn, dual, momentum = ROTATION.act, 1 + translations, 3 + translations
    velocity_of_turn = ROTATION.velocity
    rows, algebra_rows = (6, 4) if translations else (4, 2)

    @inlined
    def act(sigma, i, y, j, out):
        turn(sigma, i, y, j, out)
        pi, rotation, translation = get(y, j + momentum), get(sigma, i), get(sigma, i + dual)
        _, b, c = motion_coefficients(dot(rotation, rotation))
        shift = cross(rotation, translation)
        moved = axpy(c, cross(rotation, shift), axpy(b, shift, translation))
        put(out, j + momentum, add(turning(rotation, pi), moved))
        if translations > 0:
            put(out, j + 3, get(sigma, i + 1))
            put(out, j + 5, get(sigma, i + 3))

    @inlined
    def velocity(sigma, i, y, j, out):
        velocity_of_turn(sigma, i, y, j, out)
        turned = cross(get(sigma, i), get(y, j + momentum))
        put(out, j + momentum, add(turned, get(sigma, i + dual)))
        if translations > 0:
            put(out, j + 3, get(sigma, i + 1))
            put(out, j + 5, get(sigma, i + 3))

    @inlined
    def dexpinv(sigma, i, out):
        return dexpinv_motion(sigma, i, i + dual, out)

    @inlined
    def bracket(a, b, i, out):
        bracket_motion(a, b, i, i + dual, out)
        if translations > 0:
            put(out, i + 1, scale(0.0, get(a, i + 1)))
            put(out, i + 3, scale(0.0, get(a, i + 3)))

    @inlined
    def retract(y, j, out):
        retract_rotation(y, j, out)
        for i in range(3, rows):
            put(out, j + i, get(y, j + i))

    name = "(SO(3) x R3) x| (so(3) x R3)*" if translations else "SO(3) x| so(3)*"
    return Factor(
        name, rows, algebra_rows, act, velocity, dexpinv, bracket, retract, rotations=(0,)
    )


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
    act_tangent(sigma, i, i + 1, y, j, j + 1, out)


@inlined
def _pair_velocity(sigma, i, y, j, out):
    velocity_tangent(sigma, i, i + 1, y, j, j + 1, out)


@inlined
def _coadjoint_velocity(sigma, i, y, j, out):
    u, gamma = get(sigma, i), get(y, j + 1)
    put(out, j, add(cross(u, get(y, j)), cross(get(sigma, i + 1), gamma)))
    put(out, j + 1, cross(u, gamma))


@inlined
def _pair_retract(y, j, out):
    retract_pair(y, j, j + 1, out)


@inlined
def _coadjoint_retract(y, j, out):
    """Γ for q, and Π for ω."""
    retract_pair(y, j + 1, j, out)


@inlined
def _pair_dexpinv(sigma, i, out):
    return dexpinv_motion(sigma, i, i + 1, out)


@inlined
def _pair_bracket(a, b, i, out):
    bracket_motion(a, b, i, i + 1, out)


SPHERE = Factor(
    "SO(3) on S2", 1, 1, _act_sphere, _velocity_sphere, _dexpinv_rotation, _bracket_rotation,
    _retract_sphere, unit_rows=(0,),
)  # fmt: skip
TANGENT_SPHERE = Factor(
    "SE(3) on TS2", 2, 2, _pair_act, _pair_velocity, _pair_dexpinv, _pair_bracket, _pair_retract,
    unit_rows=(0,),
)  # fmt: skip
COADJOINT_SE3 = Factor(
    "SE(3) on se(3)*", 2, 2, _act_coadjoint, _coadjoint_velocity, _pair_dexpinv, _pair_bracket,
    _coadjoint_retract,
)  # fmt: skip
ROTATION = _rotation_factor("left")
RIGHT_ROTATION = _rotation_factor("right")
TRANSLATION = Factor(
    "R3", 1, 1, _act_translation, _act_translation, _dexpinv_translation, _bracket_translation,
    _retract_translation,
)  # fmt: skip

SEMIDIRECT = _semidirect_factor(0)
SEMIDIRECT_R3 = _semidirect_factor(1)


def together(first: Factor, second: Factor) -> Factor:
    """The product of two factors, the rows of the second after those of the first."""
    rows, algebra_rows = first.rows, first.algebra_rows
    act_1, act_2, velocity_1, velocity_2 = first.act, second.act, first.velocity, second.velocity
    dexpinv_1, dexpinv_2 = first.dexpinv, second.dexpinv
    bracket_1, bracket_2 = first.bracket, second.bracket
    retract_1, retract_2 = first.retract, second.retract

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

    @inlined
    def retract(y, j, out):
        retract_1(y, j, out)
        retract_2(y, j + rows, out)

    name = f"{first.name} x {second.name}"
    count, algebra_count = rows + second.rows, algebra_rows + second.algebra_rows
    rotations, unit_rows = (
        (*one, *(rows + row for row in two))
        for one, two in (
            (first.rotations, second.rotations), (first.unit_rows, second.unit_rows),
        )
    )  # fmt: skip
    return Factor(
        name, count, algebra_count, act, velocity, dexpinv, bracket, retract, rotations, unit_rows
    )
