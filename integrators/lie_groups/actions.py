"""Actions of Lie groups on states, with dexp⁻¹ and brackets of their algebras.

An element of the algebra is a stack of 3-vectors like the state. An `Action` has five kernels of
the signature `kernels.whole_state`, which read no time and no parameters:

- ``act(t, y, p, out, sigma)``: what exp(σ) adds to the state y, exp(σ)·y − y, into `out`;
- ``velocity(t, y, p, out, sigma)``: the vector field that σ generates at y;
- ``dexpinv(t, sigma, p, out, work)``: dexp⁻¹_σ of `out`, in place, and the largest squared angle
  of a rotation in σ into ``work[0]``;
- ``bracket(t, a, p, out, b)``: [a, b];
- ``retraction(t, y, p, out, work)``: y, with derivatives along the orbit of y alone; `retractions`.

The second element of the algebra is flat, row by row. What an action keeps exactly, |q| = 1,
q·ω = 0 or R⊤R = 1, `act` restores: its increment leads back what the state is off.

| action | state | algebra | of Celledoni, Çokaj, Leone, Murari and Owren |
|---|---|---|---|
| `SPHERE` | q | u: q ↦ Rq | SO(3) on S² |
| `TANGENT_SPHERE` | q, ω | A, a: (q, ω) ↦ (Rq, Rω + r × Rq) | SE(3) on TS², 5.1 |
| `COADJOINT_SE3` | Π, Γ | ξ, u: Ad*_{g⁻¹} | SE(3) on se(3)*, 3.4.2 |
| `ROTATION`, `RIGHT_ROTATION` | R, three rows | u: R ↦ exp(u) R, or R exp(u) | SO(3), 6.1 |
| `SEMIDIRECT`, `SEMIDIRECT_R3` | Q, π; or Q, q, π, p | ω, ν: (Q, π) ↦ (RQ, Rπ + r) | G ⋉ g*, (11) |
| `TRANSLATION` | v | w: v ↦ v + w | R³ on itself, 6.1 |

These factors are in `factors`. `product` puts them together, ``product(ROTATION, TRANSLATION)`` on
(R, Ω) for example, R row by row; `flows.HomogeneousFlow` shows a whole system. `spheres` and
`tangent_spheres` are those of n bodies, whose rows of q come before those of ω. An action from the
right is one from the left of the opposite group: dexp⁻¹ is that of −σ, and brackets change their
sign.
"""

import functools
from dataclasses import dataclass

from integrators.compiler.kernels import Kernel, whole_state
from integrators.compiler.lanes import select
from integrators.compiler.vectors import get, put, scale
from integrators.compiler.views import rows_of
from integrators.errors import InputError, check_known, check_whole
from integrators.lie_groups.factors import (
    SPHERE,
    Factor,
    act_tangent,
    bracket_motion,
    dexpinv_motion,
    together,
    velocity_tangent,
)
from integrators.lie_groups.retractions import retract_pair
from integrators.lie_groups.rotations import turning

Kernels = tuple[Kernel, Kernel, Kernel, Kernel, Kernel]  # act, velocity, dexpinv, bracket, …


@dataclass(frozen=True)
class Action:
    """An action of a Lie group on states, as compiled kernels.

    Parameters
    ----------
    name : str
        The group and what it acts on, for messages.
    rows, algebra_rows : int
        Rows of a state, and of an element of the algebra.
    act, velocity, dexpinv, bracket, retraction : Kernel
    rotations, unit_rows : tuple of int
        Rows of the state where a rotation matrix begins, and rows that are unit vectors.
    """

    name: str
    rows: int
    algebra_rows: int
    act: Kernel
    velocity: Kernel
    dexpinv: Kernel
    bracket: Kernel
    retraction: Kernel
    rotations: tuple[int, ...] = ()
    unit_rows: tuple[int, ...] = ()


@functools.cache
def product(*factors: Factor) -> Action:
    """The action of the product of some groups, each on rows of its own.

    Parameters
    ----------
    *factors : Factor
        Factors in the order of the state's rows and of the algebra's.

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
                "COADJOINT_SE3, ROTATION, RIGHT_ROTATION, SEMIDIRECT, SEMIDIRECT_R3 or TRANSLATION"
            )
    if not factors:
        raise InputError("an action needs a factor, such as TANGENT_SPHERE")
    made = functools.reduce(together, factors)
    of_act, of_velocity, of_dexpinv, of_bracket, of_retract = (
        made.act, made.velocity, made.dexpinv, made.bracket, made.retract,
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

    def retraction(t, y, p, out, work):
        of_retract(y, 0, out)

    own = (made.name,)
    kernels = (
        Kernel(act, whole_state, own),
        Kernel(velocity, whole_state, own),
        Kernel(dexpinv, whole_state, own),
        Kernel(bracket, whole_state, own),
        Kernel(retraction, whole_state, own),
    )
    return Action(made.name, made.rows, m, *kernels, made.rotations, made.unit_rows)


# --- n bodies -----------------------------------------------------------------------------------


@functools.cache
def _spheres_kernels(unit: bool) -> Kernels:
    act_sphere, velocity_sphere, retract_sphere = SPHERE.act, SPHERE.velocity, SPHERE.retract
    dexpinv_rotation, bracket_rotation = SPHERE.dexpinv, SPHERE.bracket

    def act(t, y, p, out, sigma):
        n = y.shape[0]
        u = rows_of(sigma, 0, n)
        for i in range(n):
            if unit:
                act_sphere(u, i, y, i, out)
            else:
                put(out, i, turning(get(u, i), get(y, i)))

    def velocity(t, y, p, out, sigma):
        n = y.shape[0]
        for i in range(n):
            velocity_sphere(rows_of(sigma, 0, n), i, y, i, out)

    def dexpinv(t, sigma, p, out, work):
        widest = 0.0 * sigma[0, 0]
        for i in range(sigma.shape[0]):
            x = dexpinv_rotation(sigma, i, out)
            widest = select(x > widest, x, widest)
        work[0] = widest

    def bracket(t, a, p, out, b):
        n = a.shape[0]
        for i in range(n):
            bracket_rotation(a, rows_of(b, 0, n), i, out)

    def retraction(t, y, p, out, work):
        for i in range(y.shape[0]):
            retract_sphere(y, i, out)

    own = (unit,)
    return (
        Kernel(act, whole_state, own),
        Kernel(velocity, whole_state, own),
        Kernel(dexpinv, whole_state, own),
        Kernel(bracket, whole_state, own),
        Kernel(retraction, whole_state, own),
    )


def spheres(n: int, lengths: str = "unit") -> Action:
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
    unit = lengths == "unit"
    name, unit_rows = f"SO(3)^{n} on (S2)^{n}", tuple(range(n)) * unit
    return Action(name, n, n, *_spheres_kernels(unit), (), unit_rows)


@functools.cache
def _tangent_kernels(forced: bool) -> Kernels:
    extra = int(forced)

    def act(t, y, p, out, sigma):
        n = y.shape[0] // 2
        u = rows_of(sigma, 0, 2 * n + extra)
        for i in range(n):
            act_tangent(u, i, n + i, y, i, n + i, out)
        if forced:
            put(out, 2 * n, get(u, 2 * n))

    def velocity(t, y, p, out, sigma):
        n = y.shape[0] // 2
        u = rows_of(sigma, 0, 2 * n + extra)
        for i in range(n):
            velocity_tangent(u, i, n + i, y, i, n + i, out)
        if forced:
            put(out, 2 * n, get(u, 2 * n))

    def dexpinv(t, sigma, p, out, work):
        n = sigma.shape[0] // 2
        widest = 0.0 * sigma[0, 0]
        for i in range(n):
            x = dexpinv_motion(sigma, i, n + i, out)
            widest = select(x > widest, x, widest)
        work[0] = widest

    def bracket(t, a, p, out, b):
        n = a.shape[0] // 2
        for i in range(n):
            bracket_motion(a, rows_of(b, 0, 2 * n), i, n + i, out)
        if forced:
            put(out, 2 * n, scale(0.0, get(a, 2 * n)))

    def retraction(t, y, p, out, work):
        n = y.shape[0] // 2
        for i in range(n):
            retract_pair(y, i, n + i, out)
        if forced:
            put(out, 2 * n, get(y, 2 * n))

    own = (forced,)
    return (
        Kernel(act, whole_state, own),
        Kernel(velocity, whole_state, own),
        Kernel(dexpinv, whole_state, own),
        Kernel(bracket, whole_state, own),
        Kernel(retraction, whole_state, own),
    )


def tangent_spheres(n: int, forced: bool = False) -> Action:
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
