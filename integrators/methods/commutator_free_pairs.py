"""Commutator-free Lie group methods with step control.

The error of a step is the distance of the two results in the embedding space (`embedded_pairs`),
which are not of one element of the algebra. They have no interpolant: within a step the state is
that after a step of the main method over a part of h from the same beginning, on the manifold
like any other; it costs the generators of such a step but the first, which are counted.

E. Celledoni, E. Çokaj, A. Leone, D. Murari, B. Owren, *Lie group integrators for mechanical
systems*, section 4.2.
"""

from collections.abc import Callable
from typing import Any

from integrators.compiler.kernels import spliced
from integrators.compiler.vectors import add, get, put
from integrators.compiler.views import rows_of, tail
from integrators.errors import InputError
from integrators.forms.flows import AlongAction, HomogeneousFlow
from integrators.method import FIXED, Integrator, Method
from integrators.methods.commutator_free import (
    CF32A_SCHEME,
    CF32B_SCHEME,
    CF43_SCHEME,
    Scheme,
    commutator_free,
    take_exponentials,
    work_size,
)
from integrators.methods.munthe_kaas import ALONG, ON_ORBITS, flow_of
from integrators.stepping.adaptive import AdaptiveProblem
from integrators.stepping.adaptive_loop import EVALUATIONS, KNOWN, OLD_TIME, loop
from integrators.stepping.embedded_pairs import (
    ALGEBRA_ROWS,
    HELD,
    OF_METHOD,
    PAIR_OPTIONS,
    STAGES,
    UNKNOWN,
    EmbeddedPair,
    before_at,
    begin,
    controlled,
    distance,
    increment_at,
    pair_problem,
    sigma_at,
)

LINES, ALL_LINES, MAIN_STAGES = range(OF_METHOD, OF_METHOD + 3)  # in the settings


@spliced
def _attempt(generator, act, unused, settings, constants, control, t, h, y, memory, p, work):
    size, stages, m = y.shape[0], int(settings[STAGES]), int(settings[ALGEBRA_ROWS])
    main, lines = int(settings[LINES]), int(settings[ALL_LINES])
    flat, scratch = tail(memory, sigma_at(size)), tail(work, 3 * size * lines)
    slopes = rows_of(flat, 3 * m, stages * m)
    if control[KNOWN] == UNKNOWN:
        generator(t, y, p, slopes, scratch)
        control[EVALUATIONS] += 1.0
        control[KNOWN] = HELD
    take_exponentials(
        generator, act, t, h, constants, 0, lines, stages, m, y, p, work, slopes, flat, scratch
    )
    control[EVALUATIONS] += stages - 1.0
    kept, d = rows_of(memory, increment_at(size), size), rows_of(work, 3 * size * (main - 1), size)
    for i in range(size):
        put(kept, i, get(d, i))
    return distance(d, rows_of(work, 3 * size * (lines - 1), size))


@spliced
def _interpolate(generator, act, unused, settings, constants, control, t, y, memory, p, work, out):
    size, stages, m = y.shape[0], int(settings[STAGES]), int(settings[ALGEBRA_ROWS])
    lines, old = int(settings[LINES]), rows_of(memory, before_at(size), size)
    flat, scratch = tail(memory, sigma_at(size)), tail(work, 3 * size * lines)
    slopes, start = rows_of(flat, 3 * m, stages * m), control[OLD_TIME]
    take_exponentials(
        generator, act, start, t - start, constants, 0, lines, stages, m, old, p, work, slopes,
        flat, scratch,
    )  # fmt: skip
    control[EVALUATIONS] += settings[MAIN_STAGES] - 1.0
    d = rows_of(work, 3 * size * (lines - 1), size)
    for i in range(size):
        put(out, i, add(get(old, i), get(d, i)))


integrate = loop(begin, controlled(_attempt), _interpolate, "commutator_free")


def _bind(scheme: Scheme) -> Callable[[Any, Integrator], AdaptiveProblem]:
    main = len(scheme.exponentials)
    lines, stages = main + len(scheme.estimate), scheme.all_stages
    orders = (scheme.order, scheme.estimate_order)
    pair = EmbeddedPair(orders, stages, reused=False, settings=[main, lines, scheme.stages])

    def bind(form: AlongAction, integrator: Integrator) -> AdaptiveProblem:
        flow = flow_of(form, integrator.options)
        m, scratch = flow.action.algebra_rows, flow.generator.work(flow.rows)
        return pair_problem(
            flow,
            integrator,
            pair,
            integrate=integrate,
            pull=None,
            constants=integrator.constants_of(scheme),
            memory=0,
            work=work_size(flow.rows, m, lines, stages) + scratch,
        )

    return bind


SOURCES = ("curryowren2019", "celledoni2022")


def commutator_free_pair(
    name: str, scheme: Scheme, description: str = "", sources: tuple[str, ...] = SOURCES
) -> Method:
    """The commutator-free method of a scheme with an estimate, with step control.

    Parameters
    ----------
    name : str
    scheme : Scheme
        A scheme with an estimate.
    description : str, optional
    sources : tuple of str, optional
        Sources of the method, as in `Method`.

    Returns
    -------
    Method
        Its ``+fixed`` is the main method with a constant step.

    Raises
    ------
    InputError
        If the scheme has no estimate.
    """
    if not scheme.estimate:
        raise InputError(
            f"the scheme of {name!r} has no estimate of its errors: give one, or make a method "
            "with a fixed step by commutator_free.commutator_free"
        )
    orders = f"{scheme.order}({scheme.estimate_order})"
    return Method(
        name=name,
        description=description or f"commutator-free Lie group pair of order {orders}, adaptive",
        order=scheme.order,
        symmetric=False,
        forms=(HomogeneousFlow,),
        preserves=ON_ORBITS,
        bind=_bind(scheme),
        evaluations=scheme.all_stages,
        family="commutator_free",
        options=PAIR_OPTIONS | ALONG,
        adaptive=True,
        sources=sources,
        fixed=commutator_free(f"{name}+{FIXED}", scheme),
    )


COMMUTATOR_FREE_PAIRS = (
    commutator_free_pair(
        "cf32a", CF32A_SCHEME, "commutator-free 3(2) that goes on from its second stage, adaptive"
    ),
    commutator_free_pair(
        "cf32b", CF32B_SCHEME, "commutator-free 3(2) that goes on from its third stage, adaptive"
    ),
    commutator_free_pair("cf43", CF43_SCHEME, "commutator-free 4(3), adaptive"),
)
