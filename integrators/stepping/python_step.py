"""Steps in Python: a function of NumPy arrays that takes a step, as compiled loops call it.

Compiled code cannot raise: a step that fails makes its trajectory NaN, and what it raised is kept
until the loop is over. Then it is raised as an `InputError` with file and line; or, within
`collecting_errors`, kept there, and the trajectory alone has failed.
"""

import contextlib
import math
import threading
import traceback
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np

from integrators.compiler.callbacks import Callback, is_jitted
from integrators.errors import GeosweepError, InputError, short_repr

Step = Callable[..., np.ndarray]
_collected: ContextVar[dict[str, str] | None] = ContextVar("collected", default=None)
MOST_TOLD = 300  # characters of what a step raised
READ_ONLY = "read-only"  # in what NumPy says of an array that cannot be written to


@contextlib.contextmanager
def collecting_errors() -> Iterator[dict[str, str]]:
    """Collect what steps in Python raise within this, in this thread, rather than raise it.

    Yields
    ------
    dict of str to str
        What was raised first by each line of each step, by step, file and line.
    """
    found: dict[str, str] = {}
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


class Calls(threading.local):
    """Counter of the calls of a system's functions, of each thread."""

    count = 0


class _Here(threading.local):
    """What a thread's loop has met so far."""

    error: BaseException | None = None  # which ends the loop
    collected: dict[str, str] | None = None


class PythonStep(Callback):
    """A step in Python of one system.

    Parameters
    ----------
    step : callable
        ``step(function, t, y, h)``.
    function : object
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
        super().__init__(rows, rows + 1)  # with a row for the number of evaluations
        self.most_seconds = most_seconds
        self._step, self._function, self._shape = step, function, (rows, 3)
        self._plain, self._is_jitted = getattr(step, "py_func", step), is_jitted(step)
        self._calls, self._counted, self._declared = calls, counted, evaluations
        self._in_a_step = 0  # evaluations of a jitted one
        self._is_checked, self._here = False, _Here()

    @property
    def place(self) -> str:
        """The step, with the file and the line where it is defined."""
        return self._at(self._plain.__code__.co_firstlineno)

    @property
    def _name(self) -> str:
        return f"step {self._plain.__name__!r} ({self._plain.__code__.co_filename}, "

    def _at(self, line: int | None) -> str:
        return f"{self._name}line {line})"

    @contextlib.contextmanager
    def stepping(self) -> Iterator[None]:
        """Take steps within this; at its end, what these raised is raised, or collected."""
        here = self._here
        here.error, here.collected = None, _collected.get()
        try:
            with np.errstate(all="ignore"):  # a run that blows up has inf and NaN
                yield
            if here.error is not None:
                raise here.error
        finally:
            here.error = here.collected = None

    def take(self, t: float, h: float, state: np.ndarray, out: np.ndarray) -> None:
        """Write the increment of a step and, in a last row, the number of evaluations; or NaN.

        A step of size 0 is none: it tells that the state is not finite any more.
        """
        here, increment = self._here, out[:-1]
        out[-1] = 0.0
        if h == 0.0:  # the loop tells of states that are not finite
            found = here.collected
            if found is not None and not any(where.startswith(self._name) for where in found):
                found[self.place] = "returns a state that is not finite"
            return
        if here.error is not None or state[0, 0] != state[0, 0]:  # it has failed
            increment[...] = math.nan
            return
        y = state.copy()
        if not self._is_jitted:
            y.setflags(write=False)  # so that a change is an error
        self._calls.count = 0
        try:
            new = self._step(self._function, t, y, h)
            if type(new) is not np.ndarray or new.shape != y.shape or new.dtype != y.dtype:
                self._refuse(new)
            count = self._calls.count
            if not self._is_checked:
                self._check_call(t, h, state, new, count)
            np.subtract(new, y, out=increment)
            if not self._declared:
                out[-1] = self._in_a_step or count
        except (Exception, SystemExit) as error:
            increment[...] = math.nan
            self._note(error)
        except BaseException as error:  # an interruption
            increment[...] = math.nan
            here.error = error

    def _refuse(self, new: object) -> None:
        found = (
            f"an array of {new.dtype}, shape {new.shape}"
            if isinstance(new, np.ndarray)
            else short_repr(new)
        )
        raise InputError(f"returns {found}; expected an array of float64, shape {self._shape}")

    def _check_call(
        self, t: float, h: float, state: np.ndarray, new: np.ndarray, count: int
    ) -> None:
        """Raise `InputError` if a call changes its argument, or returns another state again."""
        y, known = state.copy(), new.tobytes()
        again = self._step(self._function, t, y, h)
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

    def _note(self, error: BaseException) -> None:
        here = self._here
        if isinstance(error, GeosweepError) and not isinstance(error, InputError):
            here.error = error  # an interruption
            return
        lines = traceback.extract_tb(error.__traceback__)
        own = [line for line in lines if line.filename == self._plain.__code__.co_filename]
        said = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        said = " ".join(said.split())
        said = said if len(said) <= MOST_TOLD else f"{said[:MOST_TOLD]} …"
        if READ_ONLY in said:
            said = f"changes its argument y; expected a new array ({said})"
        where = self._at(own[-1].lineno) if own else self.place
        if own and own[-1].line:
            said += f": {own[-1].line.strip()}"
        if here.collected is not None:
            here.collected.setdefault(where, said)
        else:
            here.error = InputError(f"{where}: {said}")
