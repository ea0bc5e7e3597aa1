"""Steps in Python: a function of NumPy arrays that takes a step, as compiled loops call it.

Compiled code cannot raise: a step that fails makes its trajectory NaN, and what it raised is kept
until the loop is over. Then it is raised as an `InputError` with file and line; or, within
`collecting_errors`, kept there, and the trajectory alone has failed.
"""

import contextlib
import functools
import inspect
import math
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from integrators.compiler.callbacks import Callback, JittedField, is_jitted, with_field
from integrators.errors import GeosweepError, InputError, short_repr

Step = Callable[..., np.ndarray]
_collected: ContextVar[dict[str, str] | None] = ContextVar("collected", default=None)
MOST_TOLD = 300  # characters of what a step raised
READ_ONLY = "read-only"  # in what NumPy says of an array that cannot be written to


@contextlib.contextmanager
def collecting_errors() -> Iterator[dict[str, str]]:
    """Collect what functions in Python raise within this, in this thread, rather than raise it.

    Yields
    ------
    dict of str to str
        What was raised first by each line of each function, by function, file and line.
    """
    found: dict[str, str] = {}
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


@dataclass(frozen=True)
class Declaration:
    """How a function in Python was declared: what a study needs to declare it again on workers.

    Parameters
    ----------
    kind : {"system", "integrator"}
        What it is the function of.
    name : str
    function : callable
    settings : mapping of str to object
        The keyword arguments that differ from their defaults.
    """

    kind: str
    name: str
    function: Callable[..., Any]
    settings: Mapping[str, Any]


def settings_given(declare: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of a call, as its ``locals()``, that differ from their defaults."""
    keywords = inspect.signature(declare).parameters.values()
    return {
        key.name: arguments[key.name]
        for key in keywords
        if key.kind is key.KEYWORD_ONLY and arguments[key.name] != key.default
    }


class Calls(threading.local):
    """Counter of the calls of a system's functions, of each thread."""

    count = 0


class _Here(threading.local):
    """What the loops of a thread have met so far."""

    error: BaseException | None = None  # which ends them
    collected: dict[str, str] | None = None


_here = _Here()


@contextlib.contextmanager
def calling_python() -> Iterator[None]:
    """Run compiled code that may call Python; raise at the end what the Python function raised."""
    before = _here.error, _here.collected
    _here.error, _here.collected = None, _collected.get()
    try:
        try:
            yield
        except InputError:
            if _here.error is None:
                raise
        if _here.error is not None:  # which is the cause
            raise _here.error
    finally:
        _here.error, _here.collected = before


def collect_error(where: str, said: str) -> None:
    """Keep what is said of a run that fails, where errors are collected."""
    if _here.collected is not None:
        _here.collected.setdefault(where, said)


class PythonFunction(Callback):
    """Base of a function in Python that compiled code calls: what it raises is kept.

    Parameters
    ----------
    kind : str
        Such as ``step``, for messages.
    function : callable
    rows, out_rows : int
        As of `Callback`.
    """

    def __init__(self, kind: str, function: Any, rows: int, out_rows: int) -> None:
        super().__init__(rows, out_rows)
        self._kind, self._called = kind, function
        self._plain, self._is_jitted = getattr(function, "py_func", function), is_jitted(function)

    @property
    def place(self) -> str:
        """The function, with the file and the line where it is defined."""
        return self._at(self._plain.__code__.co_firstlineno)

    @property
    def _name(self) -> str:
        code = self._plain.__code__
        return f"{self._kind} {self._plain.__name__!r} ({code.co_filename}, "

    def _at(self, line: int | None) -> str:
        return f"{self._name}line {line})"

    def _fails(self, error: BaseException) -> None:
        """Keep what a call raised."""
        is_own = isinstance(error, (Exception, SystemExit)) and (
            isinstance(error, InputError) or not isinstance(error, GeosweepError)
        )
        if not is_own:  # an interruption
            _here.error = error
            return
        lines = traceback.extract_tb(error.__traceback__)
        own = [line for line in lines if line.filename == self._plain.__code__.co_filename]
        said = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        said = " ".join(said.split())
        said = said if len(said) <= MOST_TOLD else f"{said[:MOST_TOLD]} …"
        if READ_ONLY in said:
            said = f"changes its argument y; expected a new array ({said})"
        if said.endswith("object is not callable") and self._kind == "step":
            said += "; the signature is step(f, t, y, h)"
        where = self._at(own[-1].lineno) if own else self.place
        if own and own[-1].line:
            said += f": {own[-1].line.strip()}"
        if _here.collected is not None:
            _here.collected.setdefault(where, said)
        elif _here.error is None:
            _here.error = InputError(f"{where}: {said}")

    def _tell_not_finite(self) -> None:
        found = _here.collected
        if found is not None and not any(where.startswith(self._name) for where in found):
            found[self.place] = "returns a state that is not finite"

    def _refuse(self, new: object, expected: str) -> None:
        found = (
            f"an array of {new.dtype}, shape {new.shape}"
            if isinstance(new, np.ndarray)
            else short_repr(new)
        )
        raise InputError(f"returns {found}; expected {expected}")


class PythonStep(PythonFunction):
    """A step in Python of one system.

    Parameters
    ----------
    step : callable
        ``step(function, t, y, h)``.
    function : callable, SystemFunctions or JittedField
        The vector field, or the system's functions.
    rows : int
        Rows of a state.
    calls : Calls
        That the functions count in.
    evaluations : int
        Evaluations in a step, as declared; 0 if they are to be counted.
    most_seconds : float
        That a step may take.
    """

    def __init__(
        self,
        step: Step,
        function: Any,
        rows: int,
        calls: Calls,
        counted: Any,
        evaluations: int = 0,
        most_seconds: float = math.inf,
    ) -> None:
        super().__init__("step", step, rows, rows + 1)  # a row for the number of evaluations
        self.most_seconds = most_seconds
        self._field = function if isinstance(function, JittedField) else None
        self._called = (
            functools.partial(step, function)
            if self._field is None
            else with_field(step, self._field.function)
        )
        self._shape = (rows, 3)
        self._calls, self._counted, self._declared = calls, counted, evaluations
        self._in_a_step = 0  # evaluations of a jitted one
        self._is_checked = False

    def take(
        self, t: float, h: float, state: np.ndarray, out: np.ndarray, parameters: np.ndarray
    ) -> None:
        """Write the increment of a step and, in a last row, the number of evaluations; or NaN.

        A call with h = 0 takes no step: it reports that the state is no longer finite.
        """
        if self._field is None:
            self._take(t, h, state, out)
        else:
            with self._field.lock:
                self._field.parameters[:] = parameters
                self._take(t, h, state, out)

    def _take(self, t: float, h: float, state: np.ndarray, out: np.ndarray) -> None:
        increment = out[:-1]
        out[-1] = 0.0
        if h == 0.0:  # a report of the loop, see above
            if not np.isfinite(state).all():
                self._tell_not_finite()
            return
        if _here.error is not None or state[0, 0] != state[0, 0]:  # it has failed
            increment[...] = math.nan
            return
        y = state.copy()
        if not self._is_jitted:
            y.setflags(write=False)  # so that a change is an error
        self._calls.count = 0
        try:
            with np.errstate(all="ignore"):  # a run that blows up has inf and NaN
                new = self._called(t, y, h)
            if type(new) is not np.ndarray or new.shape != y.shape or new.dtype != y.dtype:
                self._refuse(new, f"an array of float64, shape {self._shape}")
            count = self._calls.count
            if not self._is_checked:
                self._check_call(t, h, state, new, count)
            np.subtract(new, y, out=increment)
            if not self._declared:
                out[-1] = self._in_a_step or count
        except BaseException as error:  # which compiled code would lose
            increment[...] = math.nan
            self._fails(error)

    def _check_call(
        self, t: float, h: float, state: np.ndarray, new: np.ndarray, count: int
    ) -> None:
        """Raise `InputError` if a call changes its argument, or returns another state again."""
        y, known = state.copy(), new.tobytes()
        again = self._called(t, y, h)
        if y.tobytes() != state.tobytes():
            raise InputError("changes its argument y; expected a new array")
        if again.tobytes() != known:
            raise InputError(
                "returns another state when it is called again with the same arguments: it keeps "
                "something between calls, or draws random numbers. Expected a result that depends "
                "on the arguments alone"
            )
        if self._is_jitted:
            self._calls.count = 0
            with contextlib.suppress(Exception):  # what compiles need not run as plain Python
                self._plain(self._counted, t, y, h)
                self._in_a_step = count = self._calls.count
        if self._declared and count and count != self._declared:
            raise InputError(
                f"evaluates the system's functions {count} times; evaluations = {self._declared} "
                "is declared"
            )
        self._is_checked = True
