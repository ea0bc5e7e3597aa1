"""Runge–Kutta–Munthe-Kaas methods with step control: embedded pairs for σ.

The two weights b and b̃ of a pair give two results of (6) in the Lie algebra, σ_1 and σ̃_1, and the
error of a step is ‖σ_1 − σ̃_1‖, or the distance of exp(σ_1)·y_n and exp(σ̃_1)·y_n
(`embedded_pairs`). Where the last stage is at σ_1, as Dormand and Prince have it, its generator is
the first of the next step.

``rkmk`` is the method of whatever tableau is given as its option: with embedded weights adaptive,
and ``rkmk+fixed`` its main method with a constant step.

Within a step of Dormand and Prince's pair σ(τ) is their interpolant of order 4, and the state is
exp(σ(τ))·y_n, on the manifold like any other. Another pair takes a step of that part of h instead.

E. Celledoni, E. Çokaj, A. Leone, D. Murari, B. Owren, *Lie group integrators for mechanical
systems*, section 4.1.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from integrators.compiler.elements import Element
from integrators.compiler.kernels import Inlined, Kernel, inlined, spliced
from integrators.compiler.lanes import double_of
from integrators.compiler.vectors import add, get, put
from integrators.compiler.views import rows_of, tail
from integrators.errors import InputError
from integrators.forms.flows import AlongAction, HomogeneousFlow
from integrators.lie_groups.exponentials import WIDEST
from integrators.method import FIXED, Integrator, Method
from integrators.methods.munthe_kaas import (
    ALONG,
    DEXPINV,
    ON_ORBITS,
    SOURCES,
    exact,
    flow_of,
    linear_combination,
    moved,
    order_of,
    rkmk,
    truncated,
)
from integrators.methods.ode45 import DENSE, interpolant
from integrators.options import Option
from integrators.stepping.adaptive import AdaptiveProblem
from integrators.stepping.adaptive_loop import EVALUATIONS, KNOWN, OLD_TIME, TIME, copy, loop
from integrators.stepping.embedded_pairs import (
    ALGEBRA_ROWS,
    HELD,
    OF_METHOD,
    PAIR_OPTIONS,
    REUSABLE,
    REUSED,
    STAGES,
    UNKNOWN,
    EmbeddedPair,
    before_at,
    begin,
    controlled,
    distance,
    increment_at,
    norm,
    pair_problem,
    sigma_at,
)
from integrators.tableaux.butcher import DORMAND_PRINCE54, EXAMPLE, Tableau, as_tableau

COMMUTATORS, METRIC, INTERPOLATES = range(OF_METHOD, OF_METHOD + 3)  # in the settings


def work_size(rows: int, m: int) -> int:
    """Elements of scratch besides the generator's: an increment, a state, a series."""
    return 6 * rows + 6 * m


@inlined
def _first_slope(generator, settings, control, t, y, memory, p, scratch):
    """The generator at y: the last one of the step before, where there is one."""
    m, size = int(settings[ALGEBRA_ROWS]), y.shape[0]
    flat, stages = tail(memory, sigma_at(size)), int(settings[STAGES])
    first = rows_of(flat, 3 * m, m)
    if control[KNOWN] == UNKNOWN:
        generator(t, y, p, first, scratch)
        control[EVALUATIONS] += 1.0
    elif control[KNOWN] == REUSABLE:
        copy(rows_of(flat, 3 * m * (stages + 1), m), first)
    control[KNOWN] = HELD


def _pair_loop(pulled_back: Inlined) -> Callable[[Element], Kernel]:
    """The loop that takes dexp⁻¹ by `exact` or `truncated`."""

    @spliced
    def stages_of(
        generator, act, pull, settings, constants, control, t, h, y, memory, p, work, keeps
    ):
        """The slopes of a step of `h` from the second on; the largest squared angle of any σ.

        `work` begins with what the whole step adds to y. The generator at its end is kept before
        dexp⁻¹, if there is a stage and `keeps` says so.
        """
        size, stages, m = y.shape[0], int(settings[STAGES]), int(settings[ALGEBRA_ROWS])
        flat = tail(memory, sigma_at(size))
        sigma, slopes = rows_of(flat, 0, m), rows_of(flat, 3 * m, stages * m)
        d, argument = rows_of(work, 0, size), rows_of(work, 3 * size, size)
        scratch, widest = tail(work, 6 * size), 0.0
        for s in range(1, stages if settings[REUSED] > 0.0 else stages + 1):
            ends = s == stages
            row, time = 0 if ends else (2 + s) * stages, t + h
            time = time if ends else t + constants[stages + s] * h
            linear_combination(tail(constants, row), s, h, slopes, m, sigma)
            moved(act, time, flat, y, p, d, argument)
            if not ends:
                slope = rows_of(flat, 3 * m * (s + 1), m)
                generator(time, argument, p, slope, scratch)
                if keeps and s == stages - 1:
                    copy(slope, rows_of(flat, 3 * m * (stages + 1), m))
                cut = int(settings[COMMUTATORS])
                angle = double_of(pulled_back(pull, time, sigma, p, slope, cut, scratch))  # (6)
                widest = angle if angle > widest else widest
        control[EVALUATIONS] += stages - 1.0
        return widest

    @spliced
    def attempt(generator, act, pull, settings, constants, control, t, h, y, memory, p, work):
        size, stages, m = y.shape[0], int(settings[STAGES]), int(settings[ALGEBRA_ROWS])
        flat, metric = tail(memory, sigma_at(size)), settings[METRIC] > 0.0
        sigma, slopes = rows_of(flat, 0, m), rows_of(flat, 3 * m, stages * m)
        d, other = rows_of(memory, increment_at(size), size), rows_of(work, 0, size)
        _first_slope(generator, settings, control, t, y, memory, p, tail(work, 6 * size))
        widest = stages_of(
            generator, act, pull, settings, constants, control, t, h, y, memory, p, work, True
        )
        copy(other, d)
        row = (2 + stages) * stages  # σ_1 − σ̃_1, then σ̃_1
        row = row + stages if metric else row
        linear_combination(tail(constants, row), stages, h, slopes, m, sigma)
        if metric:  # d(exp(σ_1)·y, exp(σ̃_1)·y)
            act(t, y, p, other, flat)
            error = distance(d, other)
        else:
            error = norm(sigma)
        for i in range(size):  # NaN where the new state is not finite
            error += 0.0 * double_of(d[i, 0] + d[i, 1] + d[i, 2])
        return math.inf if widest > WIDEST else error

    @spliced
    def interpolate(generator, act, pull, settings, constants, control, t, y, memory, p, work, out):
        size, stages, m = y.shape[0], int(settings[STAGES]), int(settings[ALGEBRA_ROWS])
        flat, old = tail(memory, sigma_at(size)), rows_of(memory, before_at(size), size)
        start, d = control[OLD_TIME], rows_of(work, 0, size)
        if settings[INTERPOLATES] > 0.0:
            h = control[TIME] - start
            weights = tail(flat, 3 * m * (stages + 2))
            interpolant((t - start) / h, tail(constants, (4 + stages) * stages), weights)
            slopes = rows_of(flat, 3 * m, stages * m)
            linear_combination(weights, stages, h, slopes, m, rows_of(flat, 0, m))
            act(start, old, p, d, flat)
        else:
            stages_of(
                generator, act, pull, settings, constants, control, start, t - start, old, memory,
                p, work, False,
            )  # fmt: skip
        for i in range(size):
            put(out, i, add(get(old, i), get(d, i)))

    return loop(begin, controlled(attempt), interpolate, f"rkmk_{pulled_back.__name__}")


BY_EXACT, BY_SERIES = _pair_loop(exact), _pair_loop(truncated)


def _bind(tableau: Tableau) -> Callable[[Any, Integrator], AdaptiveProblem]:
    reused = _reuses_last_stage(tableau)
    dense = np.ravel(DENSE).tolist() if tableau == DORMAND_PRINCE54 else []

    def bind(form: AlongAction, integrator: Integrator) -> AdaptiveProblem:
        options = integrator.options
        flow = flow_of(form, options)
        m, stages = flow.action.algebra_rows, tableau.stages
        exactly = options["dexpinv"] == "exact"
        beside = map(integrator.constant, (*tableau.embedded, *dense))
        pair = EmbeddedPair(
            orders=[order_of(p, options) for p in (tableau.order, tableau.embedded_order)],
            stages=stages,
            reused=reused,
            settings=[options["commutators"], options["error"] == "metric", len(dense) > 0],
        )
        return pair_problem(
            flow,
            integrator,
            pair,
            integrate=BY_EXACT if exactly else BY_SERIES,
            pull=flow.action.dexpinv if exactly else flow.action.bracket,
            constants=[*integrator.constants_of(tableau), *beside],
            memory=3 * m + stages,  # the last generator, the interpolant's weights
            work=work_size(flow.rows, m) + flow.generator.work(flow.rows),
        )

    return bind


def rkmk_pair(
    name: str, tableau: Tableau, description: str = "", sources: tuple[str, ...] = SOURCES
) -> Method:
    """The Runge–Kutta–Munthe-Kaas method of an embedded pair, with step control.

    Parameters
    ----------
    name : str
    tableau : Tableau
        A tableau with an embedded method.
    description : str, optional
    sources : tuple of str, optional
        Sources of the method, as in `Method`.

    Returns
    -------
    Method
        For ``Integrator(method)``. Its ``+fixed`` is the main method with a constant step.

    Raises
    ------
    InputError
        If the tableau has no embedded method.
    """
    if not tableau.embedded:
        raise InputError(
            f"the tableau of {name!r} has no embedded weights to estimate errors by: give them, or "
            "make a method with a fixed step by munthe_kaas.rkmk"
        )
    return Method(
        name=name,
        description=description
        or f"Runge–Kutta–Munthe-Kaas {tableau.order}({tableau.embedded_order}), adaptive",
        order=tableau.order,
        symmetric=False,
        forms=(HomogeneousFlow,),
        preserves=ON_ORBITS,
        bind=_bind(tableau),
        evaluations=tableau.stages - int(_reuses_last_stage(tableau)),
        family="rkmk",
        options={
            "error": Option(
                "algebra",
                "space in which the results are compared: algebra, or the embedding space (metric)",
                choices=("algebra", "metric"),
            ),
            **PAIR_OPTIONS,
            **DEXPINV,
            **ALONG,
        },
        adaptive=True,
        order_of=order_of,
        sources=sources,
        fixed=rkmk(f"{name}+{FIXED}", _main_tableau(tableau)),
    )


def _reuses_last_stage(tableau: Tableau) -> bool:
    """Whether the last stage of a step is the first of the next."""
    return tuple(tableau.matrix[-1]) == tableau.b


def _main_tableau(tableau: Tableau) -> Tableau:
    """The tableau of the main method alone, without a stage that it does not use."""
    unused = tableau.b[-1] == 0.0 and not np.any(tableau.matrix[:, -1])
    kept = tableau.stages - int(unused)
    return replace(tableau, a=tableau.a[:kept], b=tableau.b[:kept], embedded=())


RKMK54 = rkmk_pair(
    "rkmk54",
    DORMAND_PRINCE54,
    "Runge–Kutta–Munthe-Kaas 5(4) after Dormand and Prince, adaptive",
)

# --- of any tableau --------------------------------------------------------------------------

NAME, TABLEAU = "rkmk", "tableau"
OPTION = Option(
    None,
    "Butcher tableau: a by rows, b, order; for a pair also embedded and embedded_order",
    read=as_tableau,
)


def _method_of_tableau_option(given: Mapping[str, Any]) -> Method:
    """The method of the tableau among the options that are given."""
    if TABLEAU not in given:
        raise InputError(
            f"{NAME!r} is made of a Butcher tableau: give {TABLEAU} = {EXAMPLE}, and for an "
            "adaptive one embedded = […] and embedded_order in it"
        )
    tableau = as_tableau(TABLEAU, given[TABLEAU])
    if not tableau.embedded:
        return _with_tableau_option(rkmk(NAME, tableau))
    pair = rkmk_pair(NAME, tableau)
    assert pair.fixed is not None
    return replace(_with_tableau_option(pair), fixed=_with_tableau_option(pair.fixed))


def _with_tableau_option(method: Method) -> Method:
    return replace(method, options={TABLEAU: OPTION, **method.options})


HEUN_EULER = {
    "a": [[], [1.0]],
    "b": [0.5, 0.5],
    "embedded": [1.0, 0.0],
    "order": 2,
    "embedded_order": 1,
}
RKMK = replace(
    _method_of_tableau_option({TABLEAU: HEUN_EULER}),
    description="Runge–Kutta–Munthe-Kaas of any tableau; adaptive with embedded weights",
    order=None,
    adaptive=False,
    bind=None,
    made_of=_method_of_tableau_option,
    example={TABLEAU: HEUN_EULER},
)
