"""Methods whose step is a Python function of NumPy arrays.

The loop over steps is compiled, as that of every method, and calls the function back for each
step: compensated sums, statistics, checkpoints and compositions are those of all methods.
"""

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from integrators.compiler.callbacks import call, is_jitted, jitted_field
from integrators.compiler.kernels import Kernel
from integrators.compiler.lanes import all_lanes
from integrators.compiler.vectors import get, increment
from integrators.compiler.views import members, rows_of, tail
from integrators.errors import InputError, check_number, check_whole, short_repr
from integrators.forms.flows import VectorField
from integrators.forms.forms import SpheresLagrangian
from integrators.method import FORMULATION, Integrator, Method
from integrators.solvers.failures import fail, is_finite, poison
from integrators.status import COMPLETE, EVALUATIONS, NOT_FINITE, STATUS_ROW
from integrators.stepping.loop import method_signature
from integrators.stepping.problem import Problem
from integrators.stepping.python_step import (
    Calls,
    Declaration,
    PythonStep,
    Step,
    settings_given,
)

ADDRESS, PROJECTS = range(2)  # in the options of the kernel
PARAMETERS = ("f", "t", "y", "h"), ("system", "t", "y", "h")  # of a step
OfState = Callable[[float, np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class PythonMethod(Method):
    """A `Method` from a Python function.

    Parameters
    ----------
    declaration : Declaration
        Of the function, from which `sweep.Experiment` writes a plugin.
    """

    declaration: Declaration = dataclasses.field(kw_only=True)


def python_method(
    name: str | Step,
    step: Step | None = None,
    *,
    order: int,
    symmetric: bool = False,
    preserves: Mapping[str, tuple[str, ...]] | None = None,
    evaluations: int = 0,
    most_seconds: float = math.inf,
    description: str = "",
    sources: tuple[str, ...] = (),
) -> PythonMethod:
    """A method with a fixed step, from a Python function that takes one step.

    It is an integrator like any other, but slower, by some microseconds a step beside those of the
    function; without Lyapunov exponents, and in double precision alone. Of a symmetric one of order
    2 there are all compositions, ``NAME+suzuki4`` and others.

    It stands in ``INTEGRATORS`` of a plugin. In a script or a notebook a `sweep.Study` takes it
    among its integrators, or among its plugins, to be asked for by name: then the source of the
    step, and of the functions, numbers and arrays that it uses, is part of the study. Workers
    compute with it and the store keeps it; an edited function is another integrator.

    Parameters
    ----------
    name : str, optional
        By default the name of the function.
    step : callable
        ``step(f, t, y, h)`` returns the state at t + h as a new array, from `y`, the state at `t`,
        of shape ``(rows, 3)``, and nothing else: it keeps nothing between calls. ``f(t, y)`` is ẏ;
        `h` is negative within some compositions. A function whose first parameter is called
        ``system`` gets a `SystemFunctions` in the place of `f`. One that `numba.njit` has decorated
        runs compiled. Where a step has no solution it returns NaN: then the run has failed.
    order : int
    symmetric : bool
        Whether a step of −h undoes one of h.
    preserves : mapping of str to tuple of str, optional
        As in `Method`.
    evaluations : int
        Calls of the system's functions in a step; 0 if they are to be counted.
    most_seconds : float
        That a step may take when a study is planned; one that takes longer is refused.
    description : str
        By default the first line of the function's docstring.
    sources : tuple of str
        As in `Method`.

    Returns
    -------
    PythonMethod

    Raises
    ------
    InputError
        If the step is no function of these parameters, or the order is none.

    Examples
    --------
    >>> def midpoint(f, t, y, h):
    ...     return y + h * f(t + h / 2, y + h / 2 * f(t, y))
    >>> python_method(midpoint, order=2).name
    'midpoint'
    """
    settings = settings_given(python_method, locals())
    if step is None and not isinstance(name, str) and callable(name):
        step = name
        name = str(getattr(step, "__name__", ""))
    if not isinstance(name, str) or not name:
        raise InputError(f"name = {short_repr(name)}; expected a text, then the step", key="name")
    plain = getattr(step, "py_func", step)  # of what is compiled
    if step is None or not inspect.isfunction(plain):
        raise InputError(
            f"step = {short_repr(step)}; expected a function step(f, t, y, h)", key="step"
        )
    taken = tuple(inspect.signature(plain).parameters)
    if len(taken) != len(PARAMETERS[0]):
        code = plain.__code__
        raise InputError(
            f"step {plain.__name__!r} ({code.co_filename}, line {code.co_firstlineno}) takes "
            f"({', '.join(taken)}); expected {' or '.join(map(_in_words, PARAMETERS))}",
            key="step",
        )
    if most_seconds != math.inf:
        most_seconds = check_number("most_seconds", most_seconds, above=0.0)
    evaluations = check_whole("evaluations", evaluations, least=0)
    takes_system = taken[0] == PARAMETERS[1][0]
    if takes_system and is_jitted(step):
        raise InputError(
            f"step {plain.__name__!r} is compiled and takes a system, whose functions are in "
            "Python; expected (f, t, y, h), or a function without numba.njit",
            key="step",
        )
    summary = (inspect.getdoc(plain) or "").partition("\n")[0].rstrip(".")
    bind = functools.partial(_bind, step, takes_system, evaluations, most_seconds)
    return PythonMethod(
        name=name,
        description=description or summary or f"the function {plain.__name__!r}, in Python",
        order=check_whole("order", order),
        symmetric=symmetric,
        forms=(VectorField,),
        preserves=dict(preserves or {}),
        bind=bind,
        evaluations=evaluations,
        options={"formulation": FORMULATION},
        projections={
            "projected": ("unit_length",),
            "projected_tangent": ("unit_length", "tangency"),
        },
        precise=False,
        tangents=False,
        sources=sources,
        declaration=Declaration("integrator", name, step, settings),
    )


def _in_words(parameters: tuple[str, ...]) -> str:
    return f"({', '.join(parameters)})"


class SystemFunctions:
    """The functions of a system, of NumPy arrays, as a step in Python gets them.

    Attributes
    ----------
    form : SpheresLagrangian, SpinHamiltonian or another form
        With the numbers of the system, such as ``form.inertia_matrix`` or ``form.strengths``.
    rows : int
        Rows of a state.
    """

    def __init__(self, form: Any, field: VectorField, calls: Calls) -> None:
        self.form, self.rows = form, field.rows
        self._vector_field, self._calls = field, calls

    def field(self, t: float, y: np.ndarray) -> np.ndarray:
        """ẏ, shape (rows, 3)."""
        return self._functions["field"](t, y)

    def gradient(self, t: float, y: np.ndarray) -> np.ndarray:
        """∂V/∂q of a mechanical system, shape (n, 3); ∂H/∂y of one that has it, (rows, 3)."""
        return self._functions["gradient"](t, y)

    def energy(self, t: float, y: np.ndarray) -> float:
        """Total energy; less the work of a force, where one acts."""
        return float(self._functions["energy"](t, y)[0, 0])

    def generator(self, t: float, y: np.ndarray) -> np.ndarray:
        """The element of the Lie algebra that moves the state, shape (m, 3)."""
        return self._functions["generator"](t, y)

    def moved(self, sigma: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The state that the exponential of an element of the Lie algebra moves `y` to."""
        action, packed = self._flow.action, self._flow.packed
        y, d = _checked("y", y, self.rows), np.zeros((self.rows, 3))
        sigma = _checked("sigma", sigma, action.algebra_rows)
        action.act.scalar(0.0, y, packed, d, sigma.ravel())
        return y + d

    @functools.cached_property
    def _flow(self) -> Any:
        form, variables = type(self.form).__name__, self._vector_field.formulation
        if not hasattr(self.form, "homogeneous_flow") or variables == "q_qdot":
            raise InputError(f"a {form} in its variables {variables} does not move along an action")
        return self.form.homogeneous_flow()

    @functools.cached_property
    def _functions(self) -> "_Functions":
        return _Functions(self)


class _Functions(dict[str, OfState]):
    """Functions of a time and a state by name, made when they are first asked for."""

    def __init__(self, system: SystemFunctions) -> None:
        super().__init__()
        self._system = system

    def __missing__(self, name: str) -> OfState:
        made = self[name] = getattr(self, f"_{name}")(self._system)
        return made

    def _field(self, system: SystemFunctions) -> OfState:
        return field_function(system._vector_field, system._calls)

    def _energy(self, system: SystemFunctions) -> OfState:
        field = system._vector_field
        return _function(field.monitor, field.parameters, field.rows, 1)

    def _gradient(self, system: SystemFunctions) -> OfState:
        form = system.form
        if isinstance(form, SpheresLagrangian):
            of_places = _function(
                form.potential_gradient, form.parameters, form.bodies, form.bodies, system._calls
            )
            return lambda t, y: of_places(t, y[: form.bodies])
        if not isinstance(getattr(form, "gradient", None), Kernel):
            raise InputError(f"a {type(form).__name__} has no gradient; use field or generator")
        return _function(form.gradient, form.parameters, form.rows, form.rows, system._calls)

    def _generator(self, system: SystemFunctions) -> OfState:
        flow = system._flow
        m = flow.action.algebra_rows
        return _function(flow.generator, flow.packed, flow.rows, m, system._calls)


def _checked(name: str, y: np.ndarray, rows: int) -> np.ndarray:
    """A copy, since compiled functions take no array that is read-only; `InputError` if wrong."""
    made = np.array(y, dtype=float, order="C")
    if made.shape != (rows, 3):
        raise InputError(
            f"calls a function of the system with {name} of shape {made.shape}; expected "
            f"({rows}, 3)"
        )
    return made


def _function(
    kernel: Kernel,
    parameters: np.ndarray,
    rows: int,
    out_rows: int,
    calls: Calls | None = None,
) -> OfState:
    """A kernel as a function of a time and an array, which returns an array."""
    compiled, size = kernel.scalar, max(1, kernel.work(rows))
    own = np.array(parameters, dtype=float)

    def evaluate(t: float, y: np.ndarray) -> np.ndarray:
        if calls is not None:
            calls.count += 1
        out = np.zeros((out_rows, 3))
        compiled(t, _checked("y", y, rows), own, out, np.empty(size))
        return out

    return evaluate


def field_function(field: VectorField, calls: Calls | None = None) -> OfState:
    """ẏ as a function of a time and a state, which counts its calls."""
    return _function(field.field, field.parameters, field.rows, field.rows, calls)


def _along_python(
    function, projection, unused, t0, h, first, count, stages, options, y, memory, p, work, report
):
    size = y.shape[0]
    low, d = rows_of(memory, 0, size), rows_of(work, 0, size + 1)
    scratch = tail(work, 3 * size + 3)
    for k in range(first, first + count):
        if not all_lanes(report[STATUS_ROW] > COMPLETE):
            passed = 0.0
            for s in range(stages.shape[0]):
                time = t0 + k * h + passed * h
                call(options[ADDRESS], time, stages[s] * h, members(y), members(d), p)
                report[EVALUATIONS] = report[EVALUATIONS] + d[size, 0]
                for i in range(size):
                    increment(y, low, i, get(d, i))
                passed += stages[s]
                if options[PROJECTS] > 0.0:
                    projection(t0 + k * h + passed * h, y, p, low, scratch)
            ok = is_finite(y)
            if not all_lanes(ok):  # a call with h = 0 reports that the state is not finite
                call(options[ADDRESS], t0 + k * h, 0.0, members(y), members(d), p)
            fail(report, ok, NOT_FINITE, k, math.nan)
            poison(y, ok)


ADVANCE = Kernel(_along_python, method_signature)


def _bind(
    step: Step,
    takes_system: bool,
    evaluations: int,
    most_seconds: float,
    form: Any,
    integrator: Integrator,
) -> Problem:
    field = form.vector_field(integrator.options["formulation"])
    projection = field.projections.get(integrator.modifier)
    calls = Calls()
    counted = field_function(field, calls)
    function: Any = counted
    if takes_system:
        function = SystemFunctions(form, field, calls)
    elif is_jitted(step):
        function = jitted_field(field.field, len(field.parameters), field.rows)
    taken = PythonStep(step, function, field.rows, calls, counted, evaluations, most_seconds)
    return Problem(
        advance=ADVANCE,
        function=field.field,
        move=projection,
        monitor=field.monitor,
        constants=integrator.stages,
        options=np.array([taken.address, projection is not None], dtype=float),
        parameters=field.parameters,
        rows=field.rows,
        memory=3 * field.rows,
        work=3 * field.rows + 3 + field.field.work(field.rows),
        formulation=field.formulation,
        inlined=False,
        python=taken,
    )
