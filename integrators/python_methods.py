"""Methods whose step is a Python function of NumPy arrays.

The loop over steps is compiled, as that of every method, and calls the function back for each
step: compensated sums, statistics, checkpoints and compositions are those of all methods.
"""

import ctypes
import inspect
import math
import traceback
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from integrators.compiler.kernels import IS_COMPILED, Kernel
from integrators.compiler.vectors import get, increment
from integrators.compiler.views import members, rows_of, tail
from integrators.errors import InputError, check_whole, short_repr
from integrators.forms.flows import Form, VectorField
from integrators.forms.forms import SpheresLagrangian
from integrators.method import FORMULATION, Integrator, Method
from integrators.solvers.failures import fail, is_finite, poison
from integrators.status import NOT_FINITE
from integrators.stepping.loop import method_signature
from integrators.stepping.problem import Problem

ADDRESS, PROJECTS = range(2)  # in the options of the kernel
MOST_VIEWS = 64  # of states and increments that are kept: one pair for each thread and element
Step = Callable[..., np.ndarray]


def python_method(
    name: str | Step,
    step: Step | None = None,
    *,
    order: int,
    symmetric: bool = False,
    preserves: Mapping[str, tuple[str, ...]] | None = None,
    evaluations: int = 0,
    description: str = "",
    sources: tuple[str, ...] = (),
) -> Method:
    """A method with a fixed step, from a Python function that takes one step.

    It is an integrator like any other, but slower: some microseconds a step beside those of the
    function. Of a symmetric one of order 2 there are all compositions, ``NAME+suzuki4`` and others.

    Parameters
    ----------
    name : str, optional
        By default the name of the function.
    step : callable
        ``step(f, t, y, h)`` returns the state at t + h as a new array, from `y`, the state at `t`,
        of shape ``(rows, 3)``. ``f(t, y)`` is ẏ; `h` is negative within some compositions. A
        function whose first parameter is called ``system`` gets the system's functions in the
        place of `f`: see `SystemFunctions`. One that `numba.njit` has decorated runs compiled.
    order : int
    symmetric : bool
        Whether a step of −h undoes one of h.
    preserves : mapping of str to tuple of str, optional
        As in `Method`.
    evaluations : int
        Number of evaluations of `f` in a step; 0 if it varies.
    description : str
        By default the first line of the function's docstring.
    sources : tuple of str
        As in `Method`.

    Returns
    -------
    Method

    Raises
    ------
    InputError
        If the step takes other parameters, or the order is none.

    Examples
    --------
    >>> def midpoint(f, t, y, h):
    ...     return y + h * f(t + h / 2, y + h / 2 * f(t, y))
    >>> python_method(midpoint, order=2).name
    'midpoint'
    """
    if callable(name):
        if step is not None:
            raise InputError("expected a name and then the step", key="name")
        name, step = name.__name__, name
    if not callable(step):
        raise InputError(f"step = {short_repr(step)}; expected a function", key="step")
    plain = getattr(step, "py_func", step)  # of what is compiled
    taken = list(inspect.signature(plain).parameters)
    if len(taken) != 4:
        raise InputError(
            f"step {_place(plain)} takes ({', '.join(taken)}); expected (f, t, y, h) or "
            "(system, t, y, h)",
            key="step",
        )
    summary = (inspect.getdoc(plain) or "").partition("\n")[0].rstrip(".")
    return Method(
        name=name,
        description=description or summary or f"{plain.__name__}, a function in Python",
        order=check_whole("order", order),
        symmetric=symmetric,
        forms=(VectorField,),
        preserves=dict(preserves or {}),
        bind=_binding(step, taken[0] == "system"),
        evaluations=evaluations,
        options={"formulation": FORMULATION},
        projections={
            "projected": ("unit_length",),
            "projected_tangent": ("unit_length", "tangency"),
        },
        precise=False,
        sources=sources,
    )


class SystemFunctions:
    """The functions of a system, of NumPy arrays, as a step in Python gets them.

    Attributes
    ----------
    form : form
        With the numbers of the system: ``inertia`` of a mechanical one, and so on.
    rows : int
        Rows of a state.
    """

    def __init__(self, form: Form, field: VectorField) -> None:
        self.form, self.rows = form, field.rows
        self._field = _called(field.field, field.parameters, field.rows)

    def field(self, t: float, y: np.ndarray) -> np.ndarray:
        """ẏ, shape (rows, 3)."""
        return self._field(t, y)

    def gradient(self, t: float, y: np.ndarray) -> np.ndarray:
        """∂V/∂q of a mechanical system, shape (n, 3); ∂H/∂w of a spin system, shape (rows, 3)."""
        return self._of("gradient")(t, y)

    def energy(self, t: float, y: np.ndarray) -> float:
        """Total energy, of states as the step has them."""
        return float(self._of("energy")(t, y)[0, 0])

    def _of(self, name: str) -> Callable[[float, np.ndarray], np.ndarray]:
        made = self.__dict__.get(f"_{name}")
        if made is None:
            kernel = getattr(self.form, name, None)
            if not isinstance(kernel, Kernel):
                raise AttributeError(f"a {type(self.form).__name__} has no {name!r}")
            made = self.__dict__[f"_{name}"] = _called(kernel, self.form.parameters, self.rows)
        return made


def _called(
    kernel: Kernel, parameters: np.ndarray, rows: int
) -> Callable[[float, np.ndarray], np.ndarray]:
    """A kernel of the whole state as a function of a time and an array, which returns an array."""
    compiled, size = kernel.scalar, max(1, kernel.work(rows))

    def evaluate(t: float, y: np.ndarray) -> np.ndarray:
        out = np.zeros((rows, 3))
        # A copy, since compiled functions take no array that is read-only.
        compiled(t, np.array(y, dtype=float, order="C"), parameters, out, np.empty(size))
        return out

    return evaluate


CALLBACK = ctypes.CFUNCTYPE(
    None, ctypes.c_double, ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
)
_steps: "weakref.WeakValueDictionary[int, PythonStep]" = weakref.WeakValueDictionary()


class PythonStep:
    """A step in Python of one system, as compiled code calls it.

    Attributes
    ----------
    address : int
        Of its machine code.
    error : str
        What the first step that failed raised, with file and line; empty if none has.
    """

    def __init__(self, step: Step, function: Any, rows: int) -> None:
        self._step, self._function, self._shape = step, function, (rows, 3)
        self._plain, self._is_compiled = getattr(step, "py_func", step), hasattr(step, "py_func")
        self._views: dict[tuple[int, int, int], tuple[np.ndarray, np.ndarray]] = {}
        self._is_checked = False
        self.error = ""
        this = weakref.ref(self)
        self._callback = CALLBACK(lambda *given: this()._take(*given))
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value
        _steps[self.address] = self

    def _take(self, t: float, h: float, state: int, increment: int, width: int) -> None:
        """Write the increments of trajectories side by side, by addresses of arrays."""
        place = state, increment, width
        views = self._views.get(place)
        if views is None:
            if len(self._views) >= MOST_VIEWS:
                self._views.clear()
            shape = *self._shape, width
            views = self._views[place] = (_array_at(state, shape), _array_at(increment, shape))
        for i in range(width):
            self.write(t, h, views[0][:, :, i], views[1][:, :, i])

    def write(self, t: float, h: float, state: np.ndarray, increment: np.ndarray) -> None:
        """Write the increment of one trajectory; NaN where the step fails."""
        y = state.copy()
        if not self._is_compiled:
            y.setflags(write=False)  # so that a change is an error
        try:
            new = self._step(self._function, t, y, h)
            if type(new) is not np.ndarray or new.shape != y.shape or new.dtype != y.dtype:
                self._refuse(new)
            if not self._is_checked:
                self._check_call(t, h, state, new)
            np.subtract(new, y, out=increment)
        except Exception as error:
            increment[...] = math.nan
            self.error = self.error or self._explain(error)

    def _refuse(self, new: object) -> None:
        found = (
            f"an array of {new.dtype}, shape {new.shape}"
            if isinstance(new, np.ndarray)
            else short_repr(new)
        )
        raise InputError(f"returns {found}; expected an array of float64, shape {self._shape}")

    def _check_call(self, t: float, h: float, state: np.ndarray, new: np.ndarray) -> None:
        """Raise `InputError` if another call changes its argument, or returns another state."""
        y = state.copy()
        again = self._step(self._function, t, y, h)
        if y.tobytes() != state.tobytes():
            raise InputError("changes its argument y; return a new array")
        if again.tobytes() != new.tobytes():
            raise InputError(
                "returns another state when it is called again with the same arguments: it keeps "
                "something between calls, or draws random numbers. Its result may only depend on "
                "its arguments"
            )
        self._is_checked = True

    def _explain(self, error: Exception) -> str:
        lines = traceback.extract_tb(error.__traceback__)
        own = [line for line in lines if line.filename == self._plain.__code__.co_filename]
        where = f"line {own[-1].lineno}" if own else f"line {self._plain.__code__.co_firstlineno}"
        said = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        if "read-only" in said:
            said = f"changes its argument y ({said}); return a new array"
        file = self._plain.__code__.co_filename
        return f"step {self._plain.__name__!r} ({file}, {where}): {said}"


def _place(function: Callable[..., Any]) -> str:
    """The name of a function, with its file and line."""
    code = function.__code__
    return f"{function.__name__!r} ({code.co_filename}, line {code.co_firstlineno})"


def _array_at(address: int, shape: tuple[int, ...]) -> np.ndarray:
    """An array of float64 over memory that others own."""
    size = math.prod(shape)
    return np.ctypeslib.as_array((ctypes.c_double * size).from_address(address)).reshape(shape)


def _call(address, t, h, y, d):
    """Call a `PythonStep` by its address; `y` and `d` have the shape (rows, 3, trajectories)."""
    for i in range(y.shape[2]):
        _steps[int(address)].write(t, h, y[:, :, i], d[:, :, i])


@intrinsic
def _call_compiled(typingctx, address, t, h, y, d):
    def emit(context, builder, sig, args):
        code, number, integer = args[0], ir.DoubleType(), ir.IntType(64)
        states, increments = (
            context.make_array(kind)(context, builder, value=value)
            for kind, value in zip(sig.args[3:], args[3:], strict=True)
        )
        pointer = integer.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [number, number, pointer, pointer, integer])
        function = builder.inttoptr(builder.fptosi(code, integer), kind.as_pointer())
        width = builder.extract_value(states.shape, 2)
        data = [builder.bitcast(one.data, pointer) for one in (states, increments)]
        builder.call(function, [args[1], args[2], *data, width])
        return context.get_dummy_value()

    return types.void(address, t, h, y, d), emit


call = _call_compiled if IS_COMPILED else _call


def _along_python(
    function, projection, unused, t0, h, first, count, stages, options, y, memory, p, work, report
):
    size = y.shape[0]
    low, d, scratch = rows_of(memory, 0, size), rows_of(work, 0, size), tail(work, 3 * size)
    for k in range(first, first + count):
        passed = 0.0
        for s in range(stages.shape[0]):
            time = t0 + k * h + passed * h
            call(options[ADDRESS], time, stages[s] * h, members(y), members(d))
            for i in range(size):
                increment(y, low, i, get(d, i))
            passed += stages[s]
            if options[PROJECTS] > 0.0:
                projection(t0 + k * h + passed * h, y, p, low, scratch)
        ok = is_finite(y)
        fail(report, ok, NOT_FINITE, k, math.nan)
        poison(y, ok)


ADVANCE = Kernel(_along_python, method_signature)


def _binding(step: Step, takes_system: bool) -> Callable[[Any, Integrator], Problem]:
    def bind(form: Any, integrator: Integrator) -> Problem:
        field = form.vector_field(integrator.options["formulation"])
        projection = field.projections.get(integrator.modifier)
        if takes_system:
            function: Any = SystemFunctions(form, field)
        elif hasattr(step, "py_func"):
            function = _compiled_field(field)
        else:
            function = _called(field.field, field.parameters, field.rows)
        taken = PythonStep(step, function, field.rows)
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
            work=3 * field.rows + field.field.work(field.rows),
            formulation=field.formulation,
            inlined=False,
            python=taken,
        )

    return bind


def _compiled_field(field: VectorField) -> Callable[..., Any]:
    """ẏ as a compiled function of a time and an array, for steps that are compiled."""
    compiled, parameters, rows = field.field.scalar, field.parameters, field.rows
    size = max(1, field.field.work(rows))

    @numba.njit
    def evaluate(t, y):
        out = np.zeros((rows, 3))
        compiled(t, y, parameters, out, np.zeros(size))
        return out

    return evaluate
