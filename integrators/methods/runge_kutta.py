"""Explicit Runge–Kutta methods in the embedding space: one kernel over any Butcher tableau.

They know nothing of the manifold. ``+projected`` brings q back to unit length after each step
(the reprojection of Lee, Leok and McClamroch, Example 3); ``+projected_tangent`` makes ω (or q̇)
orthogonal to q as well.
"""

import math
from collections.abc import Callable

import numpy as np

from integrators.compiler.kernels import Kernel, inlined
from integrators.compiler.lanes import fma
from integrators.compiler.vectors import axpy, get, increment, scale
from integrators.compiler.views import flattened, rows_of, tail
from integrators.errors import InputError
from integrators.forms.flows import Form, VectorField
from integrators.method import FORMULATION, Integrator, Method
from integrators.solvers.failures import fail, is_finite, poison
from integrators.status import NOT_FINITE
from integrators.stepping.loop import method_signature
from integrators.stepping.problem import Problem
from integrators.tableaux.butcher import HEUN, KUTTA4, MIDPOINT, VERNER9, Tableau

STAGES = 4  # that have scratch at least: methods of fewer share the inlined loops of that many


def memory_size(rows: int) -> int:
    """Elements carried from step to step: what the compensated sum of the state lost."""
    return 3 * rows


def work_size(rows: int, stages: int) -> int:
    """Elements of scratch besides the field's: the slopes and the argument of the field."""
    return 3 * rows * (stages + 1)


@inlined
def _next_used(weights, r, count):
    """The first place from `r` on whose weight is not 0; `count` or more where there is none."""
    while r < count and weights[r] == 0.0:
        r += 1
    return r


@inlined
def _fill_argument(work, size, start, weights, s, h):
    """The state plus h times the weighted slopes before stage `s`, into the front of `work`.

    By four slopes at a time, since what is loaded and stored between takes longer than sums.
    """
    base, r = start, _next_used(weights, 0, s)
    if r >= s:
        for i in range(size):
            work[i] = start[i]
    while r < s:
        one, a, second = tail(work, size * (r + 1)), h * weights[r], _next_used(weights, r + 1, s)
        third = _next_used(weights, second + 1, s)
        fourth = _next_used(weights, third + 1, s)
        if fourth < s:
            two, b = tail(work, size * (second + 1)), h * weights[second]
            three, c = tail(work, size * (third + 1)), h * weights[third]
            four, d = tail(work, size * (fourth + 1)), h * weights[fourth]
            for i in range(size):
                total = fma(b, two[i], fma(a, one[i], base[i]))
                work[i] = fma(d, four[i], fma(c, three[i], total))
            r = _next_used(weights, fourth + 1, s)
        else:
            for i in range(size):
                work[i] = fma(a, one[i], base[i])
            r = second
        base = work


def _advance(
    field, projection, unused, t0, h, first, count, constants, options, y, memory, p, work, report
):
    size = y.shape[0]
    stages = int(options[0])
    low, argument, start = rows_of(memory, 0, size), rows_of(work, 0, size), flattened(y)
    scratch = tail(work, 3 * size * (stages + 1))
    for k in range(first, first + count):
        for s in range(stages):
            weights = tail(constants, 2 * stages + s * stages)
            _fill_argument(work, 3 * size, start, weights, s, h)
            slope = rows_of(work, 3 * size * (s + 1), size)
            field(t0 + k * h + constants[stages + s] * h, argument, p, slope, scratch)
        for i in range(size):
            total = scale(h * constants[0], get(rows_of(work, 3 * size, size), i))
            for r in range(1, stages):
                slope = rows_of(work, 3 * size * (r + 1), size)
                total = axpy(h * constants[r], get(slope, i), total)
            increment(y, low, i, total)
        if options[1] > 0.0:
            projection(t0 + (k + 1) * h, y, p, low, scratch)
        ok = is_finite(y)
        fail(report, ok, NOT_FINITE, k, math.nan)
        poison(y, ok)


advance = Kernel(_advance, method_signature)


def _bind(tableau: Tableau) -> Callable[[Form, Integrator], Problem]:
    def bind(form: Form, integrator: Integrator) -> Problem:
        form = form.vector_field(integrator.options["formulation"])
        projection = form.projections.get(integrator.modifier)
        stages = len(tableau.b)
        return Problem(
            advance=advance,
            function=form.field,
            move=projection,
            monitor=form.monitor,
            constants=integrator.constants_of(tableau),
            options=np.array([stages, float(projection is not None)]),
            parameters=form.parameters,
            rows=form.rows,
            memory=memory_size(form.rows),
            work=work_size(form.rows, max(stages, STAGES)) + form.field.work(form.rows),
            formulation=form.formulation,
        )

    return bind


def explicit_method(
    name: str, description: str, order: int, tableau: Tableau, sources: tuple[str, ...] = ()
) -> Method:
    """The method of an explicit `butcher.Tableau`, with a name and one line on it.

    `InputError` if the tableau has another order, whose conditions it was checked for.

    Parameters
    ----------
    name, description : str
    order : int
    tableau : Tableau
    sources : tuple of str, optional
        Sources of the method, as in `Method`.

    Returns
    -------
    Method
    """
    if order != tableau.order:
        raise InputError(
            f"{name} has order {order}, and its tableau order {tableau.order}: expected the same"
        )
    return Method(
        name=name,
        description=description,
        order=order,
        symmetric=False,
        forms=(VectorField,),
        preserves={"momentum_map": ("linear",), "casimir": ("linear",)},
        bind=_bind(tableau),
        evaluations=len(tableau.b),
        family="runge_kutta",
        sources=sources,
        options={"formulation": FORMULATION},
        projections={
            "projected": ("unit_length",),
            "projected_tangent": ("unit_length", "tangency"),
        },
    )


RK2_MIDPOINT = explicit_method(
    "rk2_midpoint", "explicit midpoint rule", 2, MIDPOINT, ("runge1895",)
)
RK2_HEUN = explicit_method(
    "rk2_heun", "Heun's method, the explicit trapezoidal rule", 2, HEUN, ("heun1900",)
)
RK4 = explicit_method("rk4", "the classical Runge–Kutta method", 4, KUTTA4, ("kutta1901",))
RK9 = explicit_method(
    "rk9", "Verner's Runge–Kutta method of order 9, in 15 stages", 9, VERNER9, ("verner2010",)
)
