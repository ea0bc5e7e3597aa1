"""Methods from one function: a step along a field, along the action of a group, of a Lagrangian.

What every method has besides is the same for all of them: compensated sums, compositions,
projections, lanes, double-double, checkpoints, and what measures the map with tangent vectors.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from integrators.compiler.kernels import Kernel, types, whole_state
from integrators.compiler.lanes import flat, number_of, vectors
from integrators.compiler.vectors import get, increment, put, scale
from integrators.compiler.views import rows_of, tail
from integrators.errors import InputError, check_whole
from integrators.forms.flows import HomogeneousFlow, VectorField
from integrators.forms.forms import SpheresLagrangian
from integrators.method import FORMULATION, Integrator, Method
from integrators.methods.munthe_kaas import ALONG, ON_ORBITS, flow_of
from integrators.solvers.failures import fail, is_finite, poison
from integrators.status import NOT_FINITE
from integrators.stepping.loop import method_signature
from integrators.stepping.problem import Problem

FORMS = (VectorField, SpheresLagrangian, HomogeneousFlow)
SCRATCH, ALGEBRA_ROWS, PROJECTS = range(3)  # in the options of the kernels


def simple_method(
    name: str,
    description: str,
    step: Callable[..., None],
    *,
    form: type = VectorField,
    order: int,
    symmetric: bool = False,
    preserves: Mapping[str, tuple[str, ...]] | None = None,
    evaluations: int = 1,
    work: Callable[[int], int] = lambda rows: 0,
    suits: Callable[[Any], bool] = lambda form: True,
    condition: str = "",
    sources: tuple[str, ...] = (),
) -> Method:
    """A method with a fixed step, from the function that takes one step.

    The function is compiled: it uses plain arithmetic and what `integrators.plugin` has for
    kernels. Of a symmetric one of order 2 there are all compositions, ``NAME+suzuki4`` and others.

    Parameters
    ----------
    name, description : str
    step : callable
        By the `form`, with ``y`` the state at time `t`, of shape ``(rows, 3)``, and `h` the step
        size, negative within compositions:

        - `VectorField`: ``step(field, t, h, y, p, d, work, scratch)`` writes to `d`, of the shape
          of `y` and 0 at first, what the state changes by. ``field(t, y, p, out, scratch)``
          writes ẏ.
        - `SpheresLagrangian`: the same with a ``gradient(t, y, p, out, scratch)``, which writes
          ∂V/∂q to the first n rows of `out`. The state is q, then ω, n rows each; `p` begins with
          the inertia, as `SpheresLagrangian.packed` has it: of a diagonal one M_ii (n), then
          1/M_ii (n).
        - `HomogeneousFlow`: ``step(generator, act, t, h, y, p, sigma, work, scratch)`` writes to
          `sigma`, of shape ``(m, 3)``, the element of the algebra whose exponential moves the
          state. ``generator(t, y, p, out, scratch)`` writes one, ``act(t, y, p, d, flat)`` to `d`
          what exp(σ) changes y by, of a flat σ.

        `work` is flat scratch of its own, `scratch` that of the functions it is given.
    form : type
        `VectorField`, which every system offers, `SpheresLagrangian` or `HomogeneousFlow`.
    order : int
    symmetric : bool
        Whether a step of −h undoes one of h.
    preserves : mapping of str to tuple of str, optional
        As in `Method`. A method along an action also preserves what all such methods do.
    evaluations : int
        Number of evaluations of the function in a step.
    work : callable, optional
        The size of `work` from the number of rows of the state.
    suits, condition, sources
        As in `Method`. No such method suits a Lagrangian with a force.

    Returns
    -------
    Method

    Raises
    ------
    InputError
        If the form is another one, or the order none.
    """
    if form not in FORMS:
        named = ", ".join(one.__name__ for one in FORMS)
        raise InputError(f"form is {form!r}; expected one of {named}", key="form")
    order = check_whole("order", order)
    along_action = form is HomogeneousFlow
    made = Kernel(step, action_step if along_action else field_step, work=work)
    declared: dict[str, Any] = {"options": {}}
    if along_action:
        declared = {"options": ALONG}
    elif form is VectorField:
        declared = {
            "options": {"formulation": FORMULATION},
            "projections": {
                "projected": ("unit_length",),
                "projected_tangent": ("unit_length", "tangency"),
            },
        }
    elif not condition:
        condition = "no force"
    return Method(
        name=name,
        description=description,
        order=order,
        symmetric=symmetric,
        forms=(form,),
        preserves={**(ON_ORBITS if along_action else {}), **(preserves or {})},
        bind=_bind_action(made) if along_action else _bind_field(made, form),
        evaluations=evaluations,
        suits=lambda one: suits(one) and not (form is SpheresLagrangian and one.forced),
        condition=condition,
        sources=sources,
        **declared,
    )


def field_step(element: Any) -> Any:
    """Signature ``(function, t, h, y, p, d, work, scratch)`` of a step; see `simple_method`."""
    whole, number, stack = types.FunctionType(whole_state(element)), number_of(element), vectors
    return types.void(
        whole, number, number, stack(element), flat(number), stack(element), flat(element),
        flat(element),
    )  # fmt: skip


def action_step(element: Any) -> Any:
    """Signature ``(generator, act, t, h, y, p, sigma, work, scratch)`` of one along an action."""
    whole, number, stack = types.FunctionType(whole_state(element)), number_of(element), vectors
    return types.void(
        whole, whole, number, number, stack(element), flat(number), stack(element), flat(element),
        flat(element),
    )  # fmt: skip


def _field_method_kernel(step: Kernel) -> Kernel:
    take = step.inline

    def along_field(
        function, projection, unused, t0, h, first, count, stages, options, y, memory, p, work,
        report,
    ):  # fmt: skip
        size = y.shape[0]
        low, d = rows_of(memory, 0, size), rows_of(work, 0, size)
        scratch, own = tail(work, 3 * size), tail(work, 3 * size + int(options[SCRATCH]))
        for k in range(first, first + count):
            passed = 0.0
            for s in range(stages.shape[0]):
                for i in range(size):
                    put(d, i, scale(0.0, get(y, i)))
                time = t0 + k * h + passed * h
                take(function, time, stages[s] * h, y, p, d, own, scratch)
                for i in range(size):
                    increment(y, low, i, get(d, i))
                passed += stages[s]
                if options[PROJECTS] > 0.0:
                    projection(t0 + k * h + passed * h, y, p, low, scratch)
            ok = is_finite(y)
            fail(report, ok, NOT_FINITE, k, math.nan)
            poison(y, ok)

    return Kernel(along_field, method_signature, (step,))


def _action_method_kernel(step: Kernel) -> Kernel:
    take = step.inline

    def along_action(
        generator, act, unused, t0, h, first, count, stages, options, y, memory, p, work, report
    ):
        size, m = y.shape[0], int(options[ALGEBRA_ROWS])
        low, d = rows_of(memory, 0, size), rows_of(work, 0, size)
        sigma, sigma_flat = rows_of(work, 3 * size, m), tail(work, 3 * size)
        scratch = tail(work, 3 * (size + m))
        own = tail(work, 3 * (size + m) + int(options[SCRATCH]))
        for k in range(first, first + count):
            passed = 0.0
            for s in range(stages.shape[0]):
                time = t0 + k * h + passed * h
                take(generator, act, time, stages[s] * h, y, p, sigma, own, scratch)
                act(time, y, p, d, sigma_flat)
                for i in range(size):
                    increment(y, low, i, get(d, i))
                passed += stages[s]
            ok = is_finite(y)
            fail(report, ok, NOT_FINITE, k, math.nan)
            poison(y, ok)

    return Kernel(along_action, method_signature, (step,))


def _bind_field(step: Kernel, form_of_step: type) -> Callable[[Any, Integrator], Problem]:
    advance = _field_method_kernel(step)

    def bind(form: Any, integrator: Integrator) -> Problem:
        if form_of_step is SpheresLagrangian:
            function, projection, formulation = form.net_gradient, None, "q_omega"
            monitor, parameters = form.monitor(), form.packed
        else:
            field = form.vector_field(integrator.options["formulation"])
            function, projection = field.field, field.projections.get(integrator.modifier)
            monitor, parameters = field.monitor, field.parameters
            formulation = field.formulation
        own, scratch = step.work(form.rows), function.work(form.rows)
        return Problem(
            advance=advance,
            function=function,
            move=projection,
            monitor=monitor,
            constants=integrator.stages,
            options=np.array([scratch, 0.0, projection is not None], dtype=float),
            parameters=parameters,
            rows=form.rows,
            memory=3 * form.rows,
            work=3 * form.rows + scratch + own,  # the step's own last, before the guard
            formulation=formulation,
        )

    return bind


def _bind_action(step: Kernel) -> Callable[[Any, Integrator], Problem]:
    advance = _action_method_kernel(step)

    def bind(form: Any, integrator: Integrator) -> Problem:
        flow = flow_of(form, integrator.options)
        m, own = flow.action.algebra_rows, step.work(flow.rows)
        scratch = flow.generator.work(flow.rows)
        return Problem(
            advance=advance,
            function=flow.generator,
            move=flow.action.act,
            monitor=flow.monitor,
            constants=integrator.stages,
            options=np.array([scratch, m, 0.0], dtype=float),
            parameters=flow.packed,
            rows=flow.rows,
            memory=3 * flow.rows,
            work=3 * (flow.rows + m) + scratch + own,
            formulation=flow.formulation,
            conversions=flow.conversions,
        )

    return bind
