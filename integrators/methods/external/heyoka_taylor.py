"""Taylor series by heyoka, as people use them: by one tolerance, relative where |y| > 1.

A system's vector field, run once as plain Python on numbers that write down what is computed of
them, gives expressions, of which heyoka compiles the series: once for all parameters, and for each
tolerance, which sets the order. That is no part of a run's time. Samples within a step are those of
its series. A step depends on its time and state alone.

Evaluations are the Taylor coefficients of the field, as many in a step as the order. They cost less
than so many calls: compare by CPU time.

F. Biscani and D. Izzo, *Revisiting high-order Taylor methods for astrodynamics and celestial
mechanics* (2021).
"""

import copy
import functools
import importlib
import math
import operator
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from integrators.compiler.elements import DOUBLE
from integrators.compiler.kernels import Kernel
from integrators.forms.flows import Form, VectorField
from integrators.method import Integrator, Method
from integrators.methods.dormand_prince import (
    CARRIED,
    EVALUATIONS,
    OLD,
    OLD_TIME,
    STATE,
    STATUS,
    STEPS,
    Path,
)
from integrators.status import NOT_FINITE
from integrators.stepping import loop
from integrators.stepping.adaptive import AdaptiveProblem, StepBound, vector_field_problem
from integrators.stepping.formulations import to_stepped_states

LONGEST = 1e3  # step: nothing else bounds it at an equilibrium
MOST_ROWS = 128  # of a state, whose series take seconds to compile
FEW_ROWS = 8  # compiled without loops: twice as fast, but more would take long to compile


def _heyoka() -> Any:
    return importlib.import_module("heyoka")  # which a user may not have


def _written(number: Any) -> Any:
    return getattr(number, "written", number)


def _writing(function: Callable[..., Any]) -> Callable[..., "_Number"]:
    return lambda *numbers: _Number(function(*map(_written, numbers)))


def _operator(apply: Callable[..., Any]) -> tuple[Callable[..., "_Number"], ...]:
    return _writing(apply), _writing(lambda a, b: apply(b, a))


def _function(name: str) -> Callable[..., "_Number"]:
    return _writing(lambda x: getattr(_heyoka(), name)(x))


class _Number:
    """A number that writes down what is computed of it, as an expression of heyoka."""

    __add__, __radd__ = _operator(operator.add)
    __sub__, __rsub__ = _operator(operator.sub)
    __mul__, __rmul__ = _operator(operator.mul)
    __truediv__, __rtruediv__ = _operator(operator.truediv)
    __neg__ = _writing(operator.neg)
    sqrt, sin, cos, log, exp = map(_function, ("sqrt", "sin", "cos", "log", "exp"))

    def __init__(self, written: Any) -> None:
        self.written = written

    def __bool__(self) -> bool:
        raise TypeError("a branch depends on a number that is not known yet")

    def __eq__(self, other: object) -> bool:
        return bool(self)


class _Equations:
    """ẏ as expressions of t, y and parameters, or of t and y with the parameters' values."""

    def __init__(self, field: Kernel, rows: int, parameters: np.ndarray) -> None:
        hk, self._compiled = _heyoka(), dict[float, Any]()
        names = hk.make_vars(*(f"y{i}" for i in range(3 * rows)))
        y = np.array([_Number(name) for name in names]).reshape(rows, 3)
        out, work = np.zeros((rows, 3), object), np.zeros(field.work(rows) + 1, object)
        field.function(_Number(hk.time), y, parameters, out, work)
        slopes = (hk.expression(0.0) + _written(number) for number in out.ravel())
        self._pairs, self._compact = list(zip(names, slopes, strict=True)), rows > FEW_ROWS

    def series(self, tolerance: float) -> Any:
        """The integrator of heyoka, compiled when a tolerance is first asked for."""
        if tolerance not in self._compiled:
            start = np.zeros(len(self._pairs))
            self._compiled[tolerance] = _heyoka().taylor_adaptive(
                self._pairs, start, tol=tolerance, compact_mode=self._compact
            )
        return copy.deepcopy(self._compiled[tolerance])


@functools.lru_cache(maxsize=256)
def _traced(field: Kernel, rows: int, count: int, values: tuple[float, ...]) -> _Equations | None:
    """The equations of any parameters, or of these values; None where they cannot be written."""
    symbols = [_Number(_heyoka().par[i]) for i in range(count)]
    try:
        return _Equations(field, rows, np.array(values or symbols))
    except Exception:  # whatever Python says of numbers that are not known, or calls of Python
        return None


def _equations(form: VectorField | AdaptiveProblem, field: Kernel) -> _Equations | None:
    """The equations of a field, those of its parameters' values if need be; None without."""
    if form.rows > MOST_ROWS:
        return None
    values = form.parameters.tolist()
    found = _traced(field, form.rows, len(values), ())
    return found or _traced(field, form.rows, len(values), tuple(values))


class _Path(Path):
    """By Taylor series, of which a checkpoint has the beginning of the last one."""

    def make_solver(self, history: bool) -> None:
        """Make the solver, with the series of the last step."""
        equations, self.history = _equations(self.problem, self.problem.function), history
        assert equations is not None  # of a system that suits
        self.series = equations.series(self.tolerance)
        self.series.pars[:] = self.problem.parameters[: len(self.series.pars)]
        if self.carried[STEPS]:
            self._expand(float(self.carried[OLD_TIME]), self.last[OLD])

    def _expand(self, t: float, y: np.ndarray) -> float:
        """Take the step from a time and a state; its size, NaN if it is none."""
        self.series.time, self.series.state[:] = t, y
        return self.series.step(LONGEST, True)[1]

    def attempt(self) -> tuple[int, bool]:
        """Take a step; the number of attempts, and whether it is taken."""
        carried, began, series = self.carried, self.time, self.series
        self.last[OLD] = self.last[STATE]
        size = self._expand(began, self.last[OLD])
        carried[EVALUATIONS] = (carried[STEPS] + 1) * series.order
        carried[STATUS] = self.status if math.isfinite(size) else NOT_FINITE
        taken = series.time > began
        if self.history:
            self.attempts.append((began, size, math.nan, taken))
        self.solver = SimpleNamespace(t_old=began, t=series.time, y=series.state.copy())
        return 1, taken

    def interpolate(self, t: float) -> np.ndarray:
        """The state at a time within the last step."""
        return self.series.update_d_output(t).copy()


def _prepare(
    problem: AdaptiveProblem,
    state: np.ndarray,
    bound: StepBound,
    tolerance: float,
    checkpoint: np.ndarray | None = None,
    most: int | None = None,
) -> tuple[np.ndarray, int]:
    """Compile the series; see `adaptive.AdaptiveProblem`."""
    own = to_stepped_states(problem, state)
    path = _Path(problem, own, np.zeros(1), tolerance, bound, False, checkpoint)
    path.begin(False)
    return (path.solution().checkpoint if checkpoint is None else checkpoint), 0


def _bind(form: Form, integrator: Integrator) -> AdaptiveProblem:
    made_of = (loop.evaluation_kernel(DOUBLE),), integrator.options, CARRIED + 3 * form.rows
    problem = vector_field_problem(form, _Path.solve, *made_of)
    return replace(problem, prepare=functools.partial(_prepare, problem))


def _suits(form: Form) -> bool:
    own = form.vector_field()
    return _equations(own, own.field) is not None


METHOD = Method(
    name="heyoka_taylor",
    sources=("biscaniizzo2021",),
    description="Taylor series by heyoka, adaptive; the tolerance sets the order, up to 17",
    order=17,
    symmetric=False,
    forms=(VectorField,),
    preserves={},
    bind=_bind,
    evaluations=0,
    family="taylor",
    adaptive=True,
    suits=_suits,
    condition=f"at most {MOST_ROWS} rows, and a compiled field without branches on the state",
    precise=False,
    tangents=False,
    extra="heyoka",
)
