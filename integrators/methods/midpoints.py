"""Midpoint rules on spins: W − w = h X at a midpoint of w and W, each rule at its own.

McLachlan, Modin and Verdier, *A minimal-variable symplectic integrator on spheres*. With
m = (w + W)/2, X_i(u) = u_i × (1/κ_i) ∂H/∂w_i(u) at time t + h/2:

- ``spherical_midpoint``, (4): u = m/|m|. Symplectic on unit spheres.
- ``extended_spherical_midpoint``, (9): u = √(|w||W|) m/|m|, where |W| = |w|. Symplectic on R³.
- ``implicit_midpoint``, (5), the paper's classical midpoint: u = m. Not symplectic on spheres.
- ``geodesic_midpoint``, remark 2.2: u = m/|m|, and |h X| is the angle between w and W, not the
  chord. Not symplectic.
- ``moser_veselov``: W − w = (h/s) m × I⁻¹m, s = ½ (1 + √(1 − h² |I⁻¹m|²)), for a free rigid body.
- ``nambu_midpoint``, appendix A: h ∇C(m) × ∇H(u)/r with r = √(C(m)/C(w)), u = m/r.

Spins that others carry (`SpinHamiltonian.tracers`) are solved for after those, which so move to the
last bit as they do without them.

All are of second order and symmetric, and keep |w| (or C): the exact map does, so the change
includes what restores it. Else the change is h X from one gradient, whose sum over the spins
keeps linear invariants to round-off.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from integrators.compiler.kernels import Inlined, Kernel, inlined
from integrators.compiler.lanes import any_lane, fma, select, sqrt
from integrators.compiler.vectors import add, axpy, cross, dot, get, increment, lacking, scale
from integrators.compiler.views import rows, rows_of, tail
from integrators.forms.hamiltonians import NambuHamiltonian, SpinHamiltonian
from integrators.forms.spins import QUADRATIC_SIZE, quadratic_form, quadratic_gradient
from integrators.lie_groups.rotations import rotation_coefficients
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
from integrators.stepping.loop import method_signature
from integrators.stepping.problem import Problem

# --- what the rules are made of --------------------------------------------------------------
# memory: what the state's sums lost (3n); `keep` (n), the reciprocal of |w_i|², or of 2 C(w) of a
# Nambu system, as it was at first; for each stage its last solutions u and 1/|m|.


@inlined
def _turning(u, p, n, i, nambu):
    """The vector whose cross product with the gradient is X: u_i/κ_i, or ∇C(u) = C u."""
    return quadratic_gradient(p, u) if nambu else scale(p[n + i], u)


@inlined
def _measure(m, p, nambu):
    """|m|², or 2 C(m)."""
    return quadratic_form(p, m) if nambu else dot(m, m)


@inlined
def _along(d, h, g):
    """The change h X as it is, (4), (5), (9)."""
    return d


@inlined
def _along_geodesic(d, h, g):
    """The chord, 2 sin(θ/2), of an angle θ = |h X| (remark 2.2)."""
    return scale(rotation_coefficients(0.25 * dot(d, d))[0], d)


@inlined
def _moser_veselov(d, h, g):
    """(h/s) m × I⁻¹m with s = ½ (1 + √(1 − h² |I⁻¹m|²))."""
    return scale(2.0 / (1.0 + sqrt(1.0 - h * h * dot(g, g))), d)


def _rule(
    *, normalized: bool, unit: bool, nambu: bool, changed: Inlined
) -> tuple[Inlined, Inlined, Inlined]:
    """The parts of a rule: `image` and `settle` of `fixed_point_solver`, and `restored`.

    `normalized` says whether u = m/|m| |w| or m itself; `unit`, whether |w| = 1; `changed` makes
    the change from h X.
    """

    @inlined
    def image(h, w, g, u, inverse, keep, p, n, i):
        d = scale(h, cross(_turning(u, p, n, i, nambu), get(g, i)))
        d = changed(d, h, get(g, i))
        m = axpy(0.5, d, get(w, i))
        if not normalized:
            return d, m, inverse[i]
        # 1/|m| by a step of third order from the last iteration's: no root, no division.
        square = _measure(m, p, nambu) if unit else _measure(m, p, nambu) * keep[i]
        near = inverse[i]
        ratio = square * near * near
        root = near * fma(-ratio, fma(-0.375, ratio, 1.25), 1.875)
        if any_lane(ratio > 1.5):  # too far for that
            root = select(ratio > 1.5, 1.0 / sqrt(square), root)
        if not unit:  # a vector of length 0 stays what it is
            root = select(ratio > 0.0, root, near)
        return d, scale(root, m), root

    @inlined
    def settle(u, keep, p, n, i):
        if not normalized:
            return u
        square = _measure(u, p, nambu) if unit else _measure(u, p, nambu) * keep[i]
        return scale(select(square > 0.0, 1.0 / sqrt(square), 1.0 + 0.0 * square), u)

    @inlined
    def restored(w, d, keep, p, i):
        """The change and, at the end of it, what brings |w|, or C, back to what it was."""
        end = add(w, d)
        if nambu:
            normal = quadratic_gradient(p, end)
            missing = 1.0 / keep[i] - quadratic_form(p, w)
            return axpy(0.5 * missing / dot(normal, normal), normal, d)
        missing = lacking(1.0, w) if unit else fma(-dot(w, w), keep[i], 1.0)
        return axpy(0.5 * missing, end, d)

    return image, settle, restored


@inlined
def kept_of(depth):
    """Elements that a stage keeps for each spin: so many solutions, and what `image` replaces."""
    return 3 * depth + 1


@functools.cache
def _midpoint_kernel(
    *,
    normalized: bool = False,
    unit: bool = False,
    nambu: bool = False,
    changed: Inlined = _along,
    carries: bool = False,
) -> Kernel:
    """The kernel of a rule; arguments as in `_rule`. `carries` says whether there are tracers."""
    image, settle, restored = _rule(normalized=normalized, unit=unit, nambu=nambu, changed=changed)
    solve = fixed_point_solver(image, settle)

    def midpoint(
        gradient, unused, none, t0, h, first, count, stages, options, y, memory, p, work, report
    ):
        n = y.shape[0]
        low, keep, history = rows_of(memory, 0, n), tail(memory, 3 * n), tail(memory, 4 * n)
        u, change, scratch = rows_of(work, 0, n), rows_of(work, 3 * n, n), tail(work, 6 * n)
        own = tail(p, QUADRATIC_SIZE if nambu else 2 * n)
        kept = kept_of(depth_of(y))
        if first == 0:
            for i in range(n):
                square = _measure(get(y, i), p, nambu)
                keep[i] = 1.0 / square if nambu else select(square > 0.0, 1.0 / square, 0.0)
        for k in range(first, first + count):
            passed = 0.0
            for s in range(stages.shape[0]):
                recent = tail(history, s * kept * n)
                inverse = tail(recent, (kept - 1) * n)
                if k == 0:
                    for i in range(n):
                        inverse[i] = 1.0
                predict(recent, k, y, u)
                time = t0 + k * h + (passed + 0.5 * stages[s]) * h
                begin, end = 0, int(options[1]) if carries else n
                while begin < n:
                    ok = solve(
                        gradient, time, stages[s] * h, rows(y, 0, end), tail(p, n - end), own,
                        rows(u, 0, end), inverse, keep, change, scratch, options[0], report, k,
                        begin,
                    )  # fmt: skip
                    poison(y, ok)
                    begin, end = end, n
                remember(recent, k, u)
                for i in range(n):
                    increment(y, low, i, restored(get(y, i), get(change, i), keep, p, i))
                passed += stages[s]

    return Kernel(midpoint, method_signature, (normalized, unit, nambu, changed.__name__, carries))


# --- the methods -------------------------------------------------------------------------------


def _bind(**rule: Any) -> Callable[[Any, Integrator], Problem]:
    """`Method.bind` of a rule; arguments as in `_rule`."""

    def bind(form: SpinHamiltonian | NambuHamiltonian, integrator: Integrator) -> Problem:
        n, stages = form.bodies, len(integrator.stages)
        nambu = isinstance(form, NambuHamiltonian)
        tracers = form.tracers if isinstance(form, SpinHamiltonian) else 0
        return Problem(
            advance=_midpoint_kernel(**rule, nambu=nambu, carries=tracers > 0),
            function=form.gradient,
            monitor=form.monitor(),
            constants=integrator.stages,
            options=np.array([integrator.options["solver_tolerance"], n - tracers]),
            parameters=form.packed,
            rows=form.rows,
            memory=(4 + stages * kept_of(depth_of_arithmetic(integrator.arithmetic))) * n,
            work=(6 + WORK) * n + form.gradient.work(form.rows),
            solves=stages * (2 if tracers else 1),
            formulation="state",
        )

    return bind


def _method(
    name: str,
    description: str,
    bind: Callable[[Any, Integrator], Problem],
    forms: tuple[type, ...] = (SpinHamiltonian,),
    sources: tuple[str, ...] = (),
    **declared: Any,
) -> Method:
    return Method(
        name=name,
        description=description,
        order=2,
        symmetric=True,
        forms=forms,
        bind=bind,
        evaluations=0,  # as many as the solver takes: it counts them
        family="midpoint",
        sources=(*sources, "mclachlan2017"),
        options={
            "solver_tolerance": Option(
                0.0, "root mean square residual at which the solver may stop; 0: round-off"
            )
        },
        **declared,
    )


LENGTHS = {"casimir": ALL_DEGREES, "unit_length": ALL_DEGREES}
SINGLE_SPIN = {"energy": ("linear", "quadratic")}  # of one spin each, see theorem 2.4 (iv)
LINEAR = {"momentum_map": ("linear",)}
SYMPLECTIC = {"symplectic_form": ()}
ON_UNIT_SPHERES: dict[str, Any] = {
    "suits": lambda form: form.lengths == "unit",
    "condition": "unit vectors, lengths = 'unit' ('extended_spherical_midpoint' takes any)",
}

SPHERICAL_MIDPOINT = _method(
    "spherical_midpoint",
    "spherical midpoint method on unit spheres; keeps quadratic energies of single spins",
    _bind(normalized=True, unit=True),
    preserves=SYMPLECTIC | LENGTHS | SINGLE_SPIN | LINEAR,
    **ON_UNIT_SPHERES,
    stability_limit=2.0,
)
EXTENDED_SPHERICAL_MIDPOINT = _method(
    "extended_spherical_midpoint",
    "spherical midpoint method on spins of any length",
    _bind(normalized=True),
    preserves=SYMPLECTIC | LENGTHS | SINGLE_SPIN | LINEAR,
    stability_limit=2.0,
)
IMPLICIT_MIDPOINT = _method(
    "implicit_midpoint",
    "implicit midpoint rule, the classical one: not symplectic on spheres",
    _bind(),
    forms=(SpinHamiltonian, NambuHamiltonian),
    preserves=LENGTHS
    | {"energy": ("linear", "quadratic"), "momentum_map": ("linear", "quadratic")},
)
GEODESIC_MIDPOINT = _method(
    "geodesic_midpoint",
    "geodesic midpoint method on unit spheres: not symplectic",
    _bind(normalized=True, unit=True, changed=_along_geodesic),
    preserves=LENGTHS | SINGLE_SPIN,
    **ON_UNIT_SPHERES,
)
MOSER_VESELOV = _method(
    "moser_veselov",
    "discrete Moser–Veselov algorithm of the free rigid body",
    _bind(changed=_moser_veselov),
    preserves=SYMPLECTIC | LENGTHS | SINGLE_SPIN | LINEAR,
    suits=lambda form: form.rigid_body,
    sources=("moserveselov1991",),
    condition="a free rigid body, H = ½ w·I⁻¹w",
)
NAMBU_MIDPOINT = _method(
    "nambu_midpoint",
    "midpoint method that is symplectic on the level sets of a quadratic Casimir",
    _bind(normalized=True),
    forms=(NambuHamiltonian,),
    preserves=SYMPLECTIC | {"casimir": ALL_DEGREES, "energy": ("linear", "quadratic")},
)

ALL_MIDPOINTS = (
    SPHERICAL_MIDPOINT,
    EXTENDED_SPHERICAL_MIDPOINT,
    IMPLICIT_MIDPOINT,
    GEODESIC_MIDPOINT,
    MOSER_VESELOV,
    NAMBU_MIDPOINT,
)
