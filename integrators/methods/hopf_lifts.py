"""Symplectic methods on spins by a lift to quaternions, the Hopf map: collective ones and RATTLE.

With u = −(1/κ) ∂H/∂w, about which a spin turns, ẇ = u × w, and the product of quaternions, whose
imaginary parts are vectors, ẇ = ½ (u w − w u). So w = q w₀ q̄ where q̇ = ½ u q: motion on SU(2).

- ``collective_gauss2``, ``4``, ``6``: the methods of Gauss with one, two and three stages for this
  q in R⁴ = T*R², where H is that of the Hopf map w(q) = q e₃ q̄, the momentum map of SU(2)
  (McLachlan, Modin and Verdier, *Collective Lie–Poisson integrators on R³*, 2015). They keep |q|²
  and so |w|, and the canonical form of R⁴ and so that of the spheres. Stages have another |w(q)|.
- ``rattle_su2``: on T*S³ in R⁴ × R⁴ with w = Im(p q̄), q̇ = ½ u q, ṗ = ½ u p: RATTLE with the
  constraint |q|² = 1 (Jay, *Symplectic partitioned Runge–Kutta methods for constrained Hamiltonian
  systems*, 1996; Hairer, Lubich and Wanner, *Geometric Numerical Integration*, § VII.1). H alone
  does not depend on the part of p along q, so that multipliers would be undetermined: ½ (p·q)² is
  added to it, which moves nothing on T*S³. It is a fourth moment of inertia, of 1.

Both are equivariant under q ↦ q g: the turn r = Q q̄ of a step, and those of its stages r_j = q_j q̄,
are what they are for q = 1, and W = r w r̄. So no q is carried: r begins at 1 in every step, and
what is solved for is r − 1, small as the step is.

Gauss:  r_j = 1 + (h/2) Σ_k a_jk u_k r_k,  r = 1 + (h/2) Σ_k b_k u_k r_k,  u_k at w_k = r_k w r̄_k.

RATTLE, with p = π + x at the middle, a_0 = (h/4) u at x, a_1 = (h/4) u at y = Im(p r̄),
β_0 = −(h/4) π and β_1 = −(h/4) Re(p r̄):  x = w + π a_0 + a_0 × x − β_0 x,
r = (1 − β_1 − a_1)⁻¹ (1 + β_0 + a_0), |r| = 1. The multiplier is in π.
"""

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from integrators.compiler.double_double import rounding_remainders
from integrators.compiler.kernels import Inlined, Kernel, inlined
from integrators.compiler.lanes import fma, number, select
from integrators.compiler.vectors import add, axpy, cross, dot, get, increment, put, scale
from integrators.compiler.views import rows, rows_of, tail
from integrators.forms.hamiltonians import SpinHamiltonian
from integrators.method import ALL_DEGREES, Integrator, Method
from integrators.options import Option
from integrators.solvers.failures import poison
from integrators.solvers.fixed_point import (
    WORK,
    depth_of,
    depth_of_arithmetic,
    fixed_point_solver,
    predict,
    remember,
)
from integrators.status import EVALUATIONS
from integrators.stepping.loop import method_signature
from integrators.stepping.problem import Problem


def _gauss_coefficients(root_3: Any, root_15: Any, one: Any) -> dict[int, Any]:
    """Gauss methods by order: nodes, and the rows a_j with b below; floats or fractions."""
    return {
        2: ((one / 2,), ((one / 2,), (one,))),
        4: (
            (one / 2 - root_3 / 6, one / 2 + root_3 / 6),
            (
                (one / 4, one / 4 - root_3 / 6),
                (one / 4 + root_3 / 6, one / 4),
                (one / 2, one / 2),
            ),
        ),
        6: (
            (one / 2 - root_15 / 10, one / 2, one / 2 + root_15 / 10),
            (
                (5 * one / 36, 2 * one / 9 - root_15 / 15, 5 * one / 36 - root_15 / 30),
                (5 * one / 36 + root_15 / 24, 2 * one / 9, 5 * one / 36 - root_15 / 24),
                (5 * one / 36 + root_15 / 30, 2 * one / 9 + root_15 / 15, 5 * one / 36),
                (5 * one / 18, 4 * one / 9, 5 * one / 18),
            ),
        ),
    }


GAUSS = _gauss_coefficients(math.sqrt(3.0), math.sqrt(15.0), 1.0)
_ROOT_3, _ROOT_15 = (Fraction(math.isqrt(x * 10**80), 10**40) for x in (3, 15))
_EXACT = _gauss_coefficients(_ROOT_3, _ROOT_15, Fraction(1))

# The unknowns of a solve are rows, for each of n spins so many: see `_gauss_evaluation`, `_rattle`.
# A quaternion is two rows, its vector and (its real part − 1, 0, 0). The last quaternion is r.
# memory: what the sums lost (3n); 1/|w_i|² at first (n); for each stage of a composition the last
# solutions. work: unknowns, twice; n numbers that the solver carries; its own; what follows.


@inlined
def _turned(c, v, w):
    """r w r̄ of r = c + v."""
    along = axpy(2.0 * dot(v, w), v, scale(c * c - dot(v, v), w))
    return axpy(2.0 * c, cross(v, w), along)


@inlined
def _image(h, w, g, u, inverse, keep, p, n, i):
    new = get(g, i)
    return scale(2.0, new), new, inverse[i]


@inlined
def _settle(u, keep, p, n, i):
    return u


def _gauss_evaluation(order: int) -> Inlined:
    """The right-hand sides r_1 … r_s and r of a Gauss method, which the solver evaluates."""
    (nodes, rows_a), (exact_nodes, exact_rows) = GAUSS[order], _EXACT[order]
    s, shares = len(nodes), sum(rows_a, ())
    nodes_low, shares_low = (
        rounding_remainders(exact_nodes, nodes),
        rounding_remainders(sum(exact_rows, ()), shares),
    )

    @inlined
    def evaluate(function, time, h, w, u, p, own, g, scratch):
        n = w.shape[0]
        place, slope = rows_of(scratch, 0, n), rows_of(scratch, 3 * n, n)
        products, beyond = rows_of(scratch, 6 * n, 2 * s * n), tail(scratch, 6 * (1 + s) * n)
        for j in range(s):
            first = 2 * j * n
            for i in range(n):
                c, v = 1.0 + u[first + n + i, 0], get(u, first + i)
                put(place, i, _turned(c, v, get(w, i)))
            function(time + number(w[0, 0], nodes[j], nodes_low[j]) * h, place, own, slope, beyond)
            for i in range(n):
                c, v = 1.0 + u[first + n + i, 0], get(u, first + i)
                about = scale(-p[n + i], get(slope, i))
                put(products, first + i, axpy(c, about, cross(about, v)))
                products[first + n + i, 0] = -dot(about, v)
        for j in range(s + 1):
            for i in range(n):
                vector, real = (0.0 * w[0, 0], 0.0 * w[0, 0], 0.0 * w[0, 0]), 0.0 * w[0, 0]
                for k in range(s):
                    part = number(w[0, 0], shares[j * s + k], shares_low[j * s + k])
                    share = 0.5 * h * part
                    vector = axpy(share, get(products, 2 * k * n + i), vector)
                    real = fma(share, products[(2 * k + 1) * n + i, 0], real)
                put(g, 2 * j * n + i, vector)
                put(g, (2 * j + 1) * n + i, (real, 0.0 * real, 0.0 * real))

    return evaluate


@inlined
def _rattle(function, time, h, w, u, p, own, g, scratch):
    """Rows: x, y, the vector of r, and (its real part − 1, π, 0)."""
    n = w.shape[0]
    before, after = rows_of(scratch, 0, n), rows_of(scratch, 3 * n, n)
    beyond = tail(scratch, 6 * n)
    function(time, rows(u, 0, n), own, before, beyond)
    function(time + h, rows(u, n, n), own, after, beyond)
    for i in range(n):
        x, v, real, normal = get(u, i), get(u, 2 * n + i), u[3 * n + i, 0], u[3 * n + i, 1]
        a = scale(-0.25 * h * p[n + i], get(before, i))
        b = scale(-0.25 * h * p[n + i], get(after, i))
        other = normal + fma(real, normal, dot(x, v))  # Re(p r̄)
        first, second = -0.25 * h * normal, -0.25 * h * other
        over = 1.0 / fma(1.0 - second, 1.0 - second, dot(b, b))
        v = axpy(1.0 - second, a, axpy(1.0 + first, b, cross(b, a)))
        v = scale(over, v)
        real = over * (fma(1.0 - second, first + second, -dot(b, a)) - dot(b, b))
        x = axpy(normal, a, axpy(-first, x, add(get(w, i), cross(a, x))))
        y = axpy(real, x, axpy(-normal, v, add(x, cross(v, x))))
        # |r|² − 1 over its derivative along π, nearly −h
        shorter = (dot(b, b) - dot(a, a)) / h
        missing = fma(0.25 * (normal + other), 2.0 + (first - second), shorter)
        put(g, i, x)
        put(g, n + i, y)
        put(g, 2 * n + i, v)
        put(g, 3 * n + i, (real, normal - missing, 0.0 * real))


class _Equations(NamedTuple):
    """The implicit equations of a step, which a fixed-point iteration solves.

    Parameters
    ----------
    evaluate : callable
        The right-hand sides, as `fixed_point_solver` takes them; the last two rows of each spin
        are r.
    blocks : int
        Rows of unknowns for each spin.
    places : int
        How many of these rows, the first ones, are approximations of the spin itself.
    evaluations : int
        Evaluations of the gradient for all spins in a call of `evaluate`.
    scratch : int
        Elements of scratch for each spin that `evaluate` needs, besides the gradient's.
    """

    evaluate: Inlined
    blocks: int
    places: int
    evaluations: int
    scratch: int


def _lifted_kernel(equations: _Equations, label: str) -> Kernel:
    """The kernel of a method that solves these equations in every step."""
    blocks, places = equations.blocks, equations.places
    solve = fixed_point_solver(_image, _settle, equations.evaluate)

    def lifted(
        gradient, unused, none, t0, h, first, count, stages, options, y, memory, p, work, report
    ):
        n = y.shape[0]
        m = blocks * n
        low, keep, history = rows_of(memory, 0, n), tail(memory, 3 * n), tail(memory, 4 * n)
        u, change = rows_of(work, 0, m), rows_of(work, 3 * m, m)
        carried, scratch, own = tail(work, 6 * m), tail(work, 7 * m), tail(p, 2 * n)
        if first == 0:
            for i in range(n):
                square = dot(get(y, i), get(y, i))
                keep[i] = select(square > 0.0, 1.0 / square, 0.0 * square)
        for k in range(first, first + count):
            passed = 0.0
            for s in range(stages.shape[0]):
                recent = tail(history, 3 * depth_of(y) * s * m)
                part = stages[s] * h
                if k == 0:
                    for j in range(blocks):
                        for i in range(n):
                            place = 1.0 if j < places else 0.0
                            put(u, j * n + i, scale(place, get(y, i)))
                predict(recent, k, u, u)
                before = report[EVALUATIONS]
                ok = solve(
                    gradient, t0 + k * h + passed * h, part, y, p, own, u, carried, keep, change,
                    scratch, options[0], report, k, 0,
                )  # fmt: skip
                report[EVALUATIONS] = before + options[1] * (report[EVALUATIONS] - before)
                remember(recent, k, u)
                for i in range(n):
                    w, v, c = get(y, i), get(u, m - 2 * n + i), 1.0 + u[m - n + i, 0]
                    across = cross(v, w)
                    d = scale(2.0, axpy(c, across, cross(v, across)))
                    missing = fma(-dot(w, w), keep[i], 1.0)
                    increment(y, low, i, axpy(0.5 * missing, add(w, d), d))
                poison(y, ok)
                passed += stages[s]

    return Kernel(lifted, method_signature, (label,))


def _method(
    name: str,
    description: str,
    order: int,
    equations: _Equations,
    sources: tuple[str, ...],
) -> Method:
    advance = _lifted_kernel(equations, name)

    def bind(form: SpinHamiltonian, integrator: Integrator) -> Problem:
        n, stages = form.bodies, len(integrator.stages)
        m = equations.blocks * n
        return Problem(
            advance=advance,
            function=form.gradient,
            monitor=form.monitor(),
            constants=integrator.stages,
            options=np.array([integrator.options["solver_tolerance"], equations.evaluations]),
            parameters=form.packed,
            rows=form.rows,
            memory=4 * n + stages * 3 * depth_of_arithmetic(integrator.arithmetic) * m,
            work=(7 + WORK) * m + equations.scratch * n + form.gradient.work(form.rows),
            solves=stages,
            formulation="state",
        )

    return Method(
        name=name,
        sources=sources,
        description=description,
        order=order,
        symmetric=True,
        forms=(SpinHamiltonian,),
        preserves={
            "symplectic_form": (),
            "casimir": ALL_DEGREES,
            "unit_length": ALL_DEGREES,
            "energy": ("linear",),
            "momentum_map": ("linear",),
        },
        bind=bind,
        evaluations=0,  # as many as the solver takes: it counts them
        options={
            "solver_tolerance": Option(
                0.0, "root mean square residual at which the solver may stop; 0: round-off"
            )
        },
        suits=lambda form: not form.tracers,
        condition="a system without tracers",
        family="hopf_lift",
    )


def _collective_method(order: int) -> Method:
    s = order // 2
    return _method(
        f"collective_gauss{order}",
        f"collective symplectic method by the Hopf map: Gauss of order {order} on R⁴",
        order,
        _Equations(
            _gauss_evaluation(order),
            blocks=2 * (s + 1),
            places=0,
            evaluations=s,
            scratch=6 * (1 + s),
        ),
        sources=("mclachlan2015", "butcher1964"),
    )


COLLECTIVE_METHODS = tuple(_collective_method(order) for order in GAUSS)
RATTLE_SU2 = _method(
    "rattle_su2",
    "RATTLE on the unit quaternions, T*SU(2) in R⁸, by the Hopf map",
    2,
    _Equations(_rattle, blocks=4, places=2, evaluations=2, scratch=6),
    sources=("jay1996", "hairer2006"),
)
