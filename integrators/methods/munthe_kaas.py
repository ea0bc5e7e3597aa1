"""Runge–Kutta–Munthe-Kaas methods: one kernel over any explicit Butcher tableau and any action.

With y(t) = exp(σ(t))·y_n the equation ẏ = f(y)·y becomes one in the Lie algebra,

    σ̇ = dexp⁻¹_σ f(exp(σ)·y_n),   σ(0) = 0,                                       (6)

which a Runge–Kutta method steps; then y_{n+1} = exp(σ_1)·y_n. dexp⁻¹ is exact, or its series

    dexp⁻¹_u(v) = v − ½[u, v] + (1/12)[u, [u, v]] − (1/720)[u, [u, [u, [u, v]]]] + …  (8)

cut after some commutators: after none the order is at most 2, after one at most 3, after two or
three at most 5. The exact dexp⁻¹ has a pole at 2π: beyond an angle of 2π − 10⁻³ of any rotation in
σ the step fails as having left its domain. A series that is cut has no pole, and no meaning there.
``rkmk4_two_commutators`` is the method of Casas and Owren that section 2.2 prints.

E. Celledoni, E. Çokaj, A. Leone, D. Murari, B. Owren, *Lie group integrators for mechanical
systems*, section 2.2.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from integrators.compiler.double_double import split_into_columns
from integrators.compiler.kernels import Inlined, Kernel, inlined
from integrators.compiler.lanes import number, select, sqrt
from integrators.compiler.vectors import add, axpy, get, increment, put, scale
from integrators.compiler.views import rows_of, tail
from integrators.forms.cotangent import CotangentHamiltonian
from integrators.forms.flows import AlongAction, HomogeneousFlow
from integrators.forms.forms import ALONG_ACTION, SpheresLagrangian
from integrators.lie_groups.exponentials import BERNOULLI, WIDEST
from integrators.method import ACTION, ALL_DEGREES, Integrator, Method
from integrators.options import Option
from integrators.solvers.failures import fail, is_finite, poison
from integrators.status import LEFT_DOMAIN, NOT_FINITE
from integrators.stepping.loop import method_signature
from integrators.stepping.problem import Problem
from integrators.tableaux.butcher import DORMAND_PRINCE5, EULER, HEUN, KUTTA3, KUTTA4, Tableau

# of z/(eᶻ − 1)
SERIES, SERIES_LOW = split_into_columns(BERNOULLI[k] / math.factorial(k) for k in range(16))
STAGES, ALGEBRA_ROWS, COMMUTATORS, OPTIONS = range(4)  # in the options of the kernels


@inlined
def linear_combination(weights, count, scaling, slopes, m, out):
    """scaling Σ_r weights_r slopes_r of `count` elements of the algebra, m rows each."""
    for i in range(m):
        put(out, i, scale(scaling * weights[0], get(slopes, i)))
    for r in range(1, count):
        if weights[r] != 0.0:
            for i in range(m):
                put(out, i, axpy(scaling * weights[r], get(slopes, r * m + i), get(out, i)))


@inlined
def moved(act, t, sigma, y, p, d, out):
    """Write exp(σ)·y, the action of a Lie algebra element on a state.

    Parameters
    ----------
    act : kernel
        Of the action: see `Action.bind`.
    t : number
    sigma : ndarray, flat
    y : ndarray, shape (rows, 3)
    p : ndarray, flat
        Parameters.
    d : ndarray, shape (rows, 3)
        Scratch.
    out : ndarray, shape (rows, 3)
    """
    act(t, y, p, d, sigma)
    for i in range(y.shape[0]):
        put(out, i, add(get(y, i), get(d, i)))


@inlined
def finished(y, low, d, widest, report, k):
    """Take the step's increment, or note what failed: a rotation too wide, or no finite number."""
    for i in range(y.shape[0]):
        increment(y, low, i, get(d, i))
    inside = ~(widest > WIDEST)
    fail(report, inside, LEFT_DOMAIN, k, sqrt(widest))
    ok = is_finite(y)
    fail(report, ok, NOT_FINITE, k, math.nan)
    poison(y, ok & inside)


@inlined
def exact(dexpinv, t, sigma, p, slope, commutators, work):
    """dexp⁻¹_σ of `slope`, in place; the largest squared angle in σ."""
    dexpinv(t, sigma, p, slope, work)
    return work[0]


@inlined
def truncated(bracket, t, sigma, p, slope, commutators, work):
    """The same by the series (8), cut after some commutators; 0 for the angle."""
    m = sigma.shape[0]
    term, power = rows_of(work, 0, m), rows_of(work, 3 * m, m)
    for i in range(m):
        put(term, i, get(slope, i))
    for k in range(1, commutators + 1):
        bracket(t, sigma, p, power, work)
        share = number(sigma[0, 0], SERIES[k], SERIES_LOW[k])
        for i in range(m):
            put(term, i, get(power, i))
            put(slope, i, axpy(share, get(power, i), get(slope, i)))
    return 0.0 * sigma[0, 0]


def _rkmk_kernel(pulled_back: Inlined) -> Kernel:
    """The kernel that takes dexp⁻¹ by `exact` or `truncated`."""

    def rkmk(
        generator, act, pull, t0, h, first, count, constants, options, y, memory, p, work, report
    ):
        size, stages, m = y.shape[0], int(options[STAGES]), int(options[ALGEBRA_ROWS])
        commutators = int(options[COMMUTATORS])
        low, d, argument = (
            rows_of(memory, 0, size),
            rows_of(work, 0, size),
            rows_of(work, 3 * size, size),
        )
        sigma, flat = rows_of(work, 6 * size, m), tail(work, 6 * size)
        slopes = rows_of(work, 6 * size + 3 * m, stages * m)
        scratch = tail(work, 6 * size + 3 * m * (stages + 1))
        for k in range(first, first + count):
            t = t0 + k * h
            widest = 0.0 * report[0]
            generator(t, y, p, rows_of(work, 6 * size + 3 * m, m), scratch)
            for s in range(1, stages):
                time = t + constants[stages + s] * h
                slope = rows_of(work, 6 * size + 3 * m * (s + 1), m)
                linear_combination(tail(constants, (2 + s) * stages), s, h, slopes, m, sigma)
                moved(act, time, flat, y, p, d, argument)
                generator(time, argument, p, slope, scratch)
                angle = pulled_back(pull, time, sigma, p, slope, commutators, scratch)  # (6)
                # The first angle that is too wide stands: what follows from it means nothing.
                widest = select((angle > widest) & (widest <= WIDEST), angle, widest)
            linear_combination(constants, stages, h, slopes, m, sigma)
            act(t, y, p, d, flat)
            finished(y, low, d, widest, report, k)

    return Kernel(rkmk, method_signature, (pulled_back.__name__,))


def _two_commutators(
    generator, act, bracket, t0, h, first, count, constants, options, y, memory, p, work, report
):
    size, m = y.shape[0], int(options[ALGEBRA_ROWS])
    low, d, argument = (
        rows_of(memory, 0, size),
        rows_of(work, 0, size),
        rows_of(work, 3 * size, size),
    )
    sigma, flat, at = rows_of(work, 6 * size, m), tail(work, 6 * size), 6 * size + 3 * m
    commutator, slopes, scratch = (
        rows_of(work, at, m),
        rows_of(work, at + 3 * m, 4 * m),
        tail(work, at + 15 * m),
    )
    one, two = rows_of(work, at + 3 * m, m), tail(work, at + 6 * m)
    for k in range(first, first + count):
        t = t0 + k * h
        generator(t, y, p, one, scratch)
        for s in range(1, 4):
            time = t + constants[4 + s] * h
            linear_combination(tail(constants, 8 + 4 * s), s, h, slopes, m, sigma)
            if s == 2:
                bracket(time, one, p, commutator, two)
                for i in range(m):  # ½ f₂ − ⅛ [f₁, f₂]
                    put(sigma, i, axpy(-0.125 * h * h, get(commutator, i), get(sigma, i)))
            moved(act, time, flat, y, p, d, argument)
            generator(time, argument, p, rows_of(work, at + 3 * m * (s + 1), m), scratch)
        linear_combination(constants, 4, h, slopes, m, sigma)
        bracket(t, one, p, commutator, tail(work, at + 12 * m))
        for i in range(m):  # … − (1/12) [f₁, f₄]
            put(sigma, i, axpy(-h * h / 12.0, get(commutator, i), get(sigma, i)))
        act(t, y, p, d, flat)
        finished(y, low, d, 0.0 * report[0], report, k)


def work_size(rows: int, m: int, stages: int) -> int:
    """Elements of scratch besides the generator's: increment, argument, σ, slopes, a series."""
    return 6 * rows + 3 * m * (stages + 3)


def order_of(tableau_order: int, options: Mapping[str, Any]) -> int:
    """The order with the options: a series that is cut too early lowers it."""
    if options["dexpinv"] == "exact":
        return tableau_order
    kept = options["commutators"]
    return min(tableau_order, {0: 2, 1: 3}.get(kept, 2 * (kept // 2) + 3))


BY_EXACT, BY_SERIES = _rkmk_kernel(exact), _rkmk_kernel(truncated)
BY_TWO_COMMUTATORS = Kernel(_two_commutators, method_signature)


def flow_of(form: AlongAction, options: Mapping[str, Any]) -> HomogeneousFlow:
    """The `HomogeneousFlow` of a form, as the options of `ALONG` have it."""
    if isinstance(form, SpheresLagrangian):
        return form.homogeneous_flow(options["formulation"])
    if isinstance(form, CotangentHamiltonian):
        return form.homogeneous_flow(options["action"])
    return form.homogeneous_flow()


def problem_of(
    flow: HomogeneousFlow,
    advance: Kernel,
    pull: Kernel | None,
    constants: np.ndarray,
    options: list[int],
    work: int,
) -> Problem:
    """The `Problem` of a fixed-step kernel on a `HomogeneousFlow`."""
    return Problem(
        advance=advance,
        function=flow.generator,
        move=flow.action.act,
        pull=pull,
        monitor=flow.monitor,
        constants=constants,
        options=np.array(options, dtype=float),
        parameters=flow.packed,
        rows=flow.rows,
        memory=3 * flow.rows,
        work=work + flow.generator.work(flow.rows),
        formulation=flow.formulation,
        conversions=flow.conversions,
    )


def _bind(tableau: Tableau) -> Callable[[Any, Integrator], Problem]:
    def bind(form: AlongAction, integrator: Integrator) -> Problem:
        options = integrator.options
        flow = flow_of(form, options)
        exactly = options["dexpinv"] == "exact"
        m, stages = flow.action.algebra_rows, tableau.stages
        return problem_of(
            flow,
            BY_EXACT if exactly else BY_SERIES,
            flow.action.dexpinv if exactly else flow.action.bracket,
            integrator.constants_of(tableau),
            [stages, m, options["commutators"]],
            work_size(flow.rows, m, stages),
        )

    return bind


def _bind_two_commutators(form: AlongAction, integrator: Integrator) -> Problem:
    flow = flow_of(form, integrator.options)
    m = flow.action.algebra_rows
    return problem_of(
        flow, BY_TWO_COMMUTATORS, flow.action.bracket, integrator.constants_of(KUTTA4), [4, m, 2],
        work_size(flow.rows, m, 4),
    )  # fmt: skip


ON_ORBITS = {
    "unit_length": ALL_DEGREES,
    "tangency": ALL_DEGREES,
    "orthogonality": ALL_DEGREES,
    "casimir": ALL_DEGREES,
}
ALONG = {
    "formulation": Option(
        "q_omega",
        "variables of a mechanical system: (q, ω), or (q, π) with conjugate momenta, by "
        "Hamilton's equations",
        choices=ALONG_ACTION,
        later=True,
    ),
    "action": ACTION,
}
SOURCES = ("munthekaas1998", "munthekaas1999", "celledoni2022")
DEXPINV = {
    "dexpinv": Option(
        "exact", "dexp⁻¹ in closed form, or as a truncated series", choices=("exact", "truncated")
    ),
    "commutators": Option(
        4, "number of nested commutators in a truncated dexp⁻¹", most=len(SERIES) - 1, whole=True
    ),
}


def rkmk(
    name: str, tableau: Tableau, description: str = "", sources: tuple[str, ...] = SOURCES
) -> Method:
    """The Runge–Kutta–Munthe-Kaas method of a tableau, with a fixed step.

    Parameters
    ----------
    name : str
    tableau : Tableau
    description : str, optional
    sources : tuple of str, optional
        Sources of the method, as in `Method`.

    Returns
    -------
    Method
        For ``Integrator(method)``; the registered ones are made by it too.
    """
    return Method(
        name=name,
        description=description or f"Runge–Kutta–Munthe-Kaas, order {tableau.order}",
        order=tableau.order,
        symmetric=False,
        forms=(HomogeneousFlow,),
        preserves=ON_ORBITS,
        bind=_bind(tableau),
        evaluations=tableau.stages,
        family="rkmk",
        options=DEXPINV | ALONG,
        order_of=order_of,
        sources=sources,
    )


RKMK_METHODS = (
    rkmk("lie_euler", EULER, "Lie–Euler: the flow of the frozen generator"),
    rkmk("lie_euler_heun", HEUN, "Lie–Euler–Heun, of order 2", ("heun1900", *SOURCES)),
    rkmk(
        "rkmk3", KUTTA3, "Runge–Kutta–Munthe-Kaas of order 3, after Kutta", ("kutta1901", *SOURCES)
    ),
    rkmk(
        "rkmk4",
        KUTTA4,
        "Runge–Kutta–Munthe-Kaas of order 4, after the classical method",
        ("kutta1901", *SOURCES),
    ),
    Method(
        name="rkmk4_two_commutators",
        sources=("casasowren2003", *SOURCES),
        description="Runge–Kutta–Munthe-Kaas of order 4 with two commutators (Casas and Owren)",
        order=4,
        symmetric=False,
        forms=(HomogeneousFlow,),
        preserves=ON_ORBITS,
        bind=_bind_two_commutators,
        evaluations=4,
        family="rkmk",
        options=ALONG,
    ),
    rkmk(
        "rkmk5",
        DORMAND_PRINCE5,
        "Runge–Kutta–Munthe-Kaas of order 5, after Dormand and Prince",
        ("dormandprince1980", *SOURCES),
    ),
)
