"""The flow itself, of a system that declares it: states exact to round-off, whatever the step.

All are taken from the initial state, by the flow of the whole time that has passed: round-off does
not add up from step to step, and steps between samples cost nothing unless statistics are kept of
them. The error is that of the time, some ε of the angles turned through so far.
"""

import functools
import math

from integrators.compiler.kernels import Kernel
from integrators.compiler.lanes import select
from integrators.compiler.vectors import add, axpy, dot, get, lacking, put
from integrators.compiler.views import rows_of, tail
from integrators.forms.flows import ExactFlow
from integrators.forms.hamiltonians import SpinHamiltonian
from integrators.method import ALL_DEGREES, EXACT, Integrator, Method
from integrators.solvers.failures import fail, is_finite, poison
from integrators.status import EVALUATIONS, NOT_FINITE
from integrators.stepping.loop import method_signature
from integrators.stepping.problem import Problem

LEAST = 1e-300  # squared length of a vector that is led back to it


@functools.cache
def advance(flow: Kernel) -> Kernel:
    """The method's kernel for one system.

    Parameters
    ----------
    flow : Kernel
        Flow of an `ExactFlow`.

    Returns
    -------
    Kernel
        Signature `loop.method_signature`; the memory is the initial state.
    """
    flow_of = flow.inline

    def advance_exactly(
        function, unused, none, t0, h, first, count, constants, options, y, memory, p, work, report
    ):
        n = y.shape[0]
        start, gained, own = rows_of(memory, 0, n), rows_of(work, 0, n), tail(p, 2 * n)
        if first == 0:
            for i in range(n):
                put(start, i, get(y, i))
        for i in range(n):
            for c in range(3):
                gained[i, c] = 0.0 * start[i, c]
        flow_of(0, t0, (first + count) * h, start, gained, own)
        report[EVALUATIONS] = report[EVALUATIONS] + 1.0
        for i in range(n):
            w = add(get(start, i), get(gained, i))
            squared = dot(get(start, i), get(start, i))
            missing = select(squared > LEAST, 0.5 * lacking(squared, w) / squared, 0.0 * squared)
            put(y, i, axpy(missing, w, w))
        ok = is_finite(y)
        fail(report, ok, NOT_FINITE, first, math.nan)
        poison(y, ok)

    return Kernel(advance_exactly, method_signature, (flow,))


def _bind(form: SpinHamiltonian, integrator: Integrator) -> Problem:
    assert form.exact is not None  # of all forms that it fits
    monitor = form.monitor()
    return Problem(
        advance=advance(form.exact.flow),
        function=monitor,  # not called
        monitor=monitor,
        constants=integrator.stages,
        options=integrator.stages,
        parameters=form.packed,
        rows=form.rows,
        memory=3 * form.rows,
        work=3 * form.rows,
        formulation="state",
        seen=1,
    )


METHOD = Method(
    name="exact",
    sources=("vanzonschofield2007", "celledoni2008"),
    description="the flow itself in closed form, exact to round-off whatever the step",
    order=EXACT,
    symmetric=True,
    forms=(ExactFlow,),
    preserves={
        "symplectic_form": (),
        "energy": ALL_DEGREES,
        "momentum_map": ALL_DEGREES,
        "casimir": ALL_DEGREES,
        "unit_length": ALL_DEGREES,
    },
    bind=_bind,
    evaluations=0,  # one at each sample, or at each step if statistics are kept of them: counted
)
