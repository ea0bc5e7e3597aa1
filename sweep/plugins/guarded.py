"""Calls of a plugin's functions with guards before and behind each array that they are given."""

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from integrators.compiler.kernels import Kernel
from integrators.errors import InputError
from integrators.stepping.loop import GUARD, UNTOUCHED

Array = NDArray[np.float64]
# What is in arrays before a function writes there, and beside them: results are the same.
POISONS = ((np.nan, UNTOUCHED), (1.5, 2.0 * UNTOUCHED))


class GuardedArrays:
    """Copies of arrays, each between guards.

    Parameters
    ----------
    what : str
        What is given them, for messages.
    guard : float
        The number beside them.
    **arrays : ndarray
    """

    def __init__(self, what: str, guard: float = UNTOUCHED, **arrays: Array) -> None:
        self._what, self._guard = what, guard
        self._blocks = {name: np.full(of.size + 2 * GUARD, guard) for name, of in arrays.items()}
        for name, of in arrays.items():
            self[name][...] = of.ravel()
        self._shapes = {name: of.shape for name, of in arrays.items()}
        self._before = {name: block.copy() for name, block in self._blocks.items()}

    def __getitem__(self, name: str) -> Array:
        """An array, flat."""
        return self._blocks[name][GUARD:-GUARD]

    def shaped(self, name: str) -> Array:
        """An array in its shape."""
        return self[name].reshape(self._shapes[name])

    def check(self, *unchanged: str) -> None:
        """Raise `InputError` if a guard, or an array that must not change, is another one now."""
        for name, block in self._blocks.items():
            if np.any(np.append(block[:GUARD], block[-GUARD:]) != self._guard):
                size = block.size - 2 * GUARD
                raise InputError(f"{self._what} writes beyond the {size} numbers of its {name!r}")
        for name in unchanged:
            if not np.array_equal(self._blocks[name], self._before[name], equal_nan=True):
                raise InputError(
                    f"{self._what} writes to its {name!r}, which it is given to read; expected "
                    "that it leaves it as it is"
                )


def followed_by_nan(parameters: Array) -> Array:
    """A copy of parameters, behind which compiled code, which checks no bounds, reads NaN."""
    return np.append(parameters, np.full(GUARD, np.nan))[: len(parameters)]


def written_rows(
    function: Kernel,
    time: float,
    states: dict[str, Array],
    parameters: Array,
    rows: int,
    work: int,
    what: str,
) -> Array:
    """The `rows` rows that a kernel writes, with scratch of `work` numbers.

    They are NaN where it leaves a row, or what it takes from its scratch, unwritten, or reads
    beyond its parameters.

    Raises
    ------
    InputError
        If it writes beyond its arrays or to what it reads, or writes something else for the same
        state where something else was in its arrays.
    """
    found = []
    for poison, guard in POISONS:
        unwritten = {"out": np.full((rows, 3), poison), "work": np.full(work, poison)}
        arrays = GuardedArrays(what, guard, **states, **unwritten)
        own = followed_by_nan(parameters)
        given = (arrays.shaped(name) for name in states)
        function.scalar(time, *given, own, arrays.shaped("out"), arrays["work"])
        arrays.check(*states)
        if not np.array_equal(own, parameters):
            raise InputError(f"{what} writes to its 'p', which it is given to read")
        found.append(arrays.shaped("out"))
    first, second = found
    differs = np.isfinite(first) & (first != second)
    if differs.any():
        raise InputError(
            f"{what} gives {first[differs][0]:.9g}, and for the same state "
            f"{second[differs][0]:.9g} with other numbers in its 'work' and beside its arrays: it "
            "reads there"
        )
    return first


def plain_rows(function: Kernel, time: float, state: Array, parameters: Array, rows: int) -> Array:
    """The same without checks; what it writes beyond its arrays does no harm."""
    out, work = np.zeros((rows + GUARD, 3)), np.zeros(function.work(len(state)) + GUARD)
    function.scalar(time, state, parameters, out[:rows], work)
    return out[:rows]


def check_plain_step(
    step: Callable[..., None],
    name: str,
    arrays: dict[str, Array],
    call: Callable[[Any, GuardedArrays], None],
    result: str,
) -> None:
    """Run a step's Python function as it is, uncompiled, twice from the same state.

    Parameters
    ----------
    step : callable
    name : str
        Of its integrator.
    arrays : dict of str to ndarray
        With ``work``, which is poisoned, and the result, which is zero at first.
    call : callable
        ``call(step, guarded)`` calls it.
    result : str
        The array to which it writes.

    Raises
    ------
    InputError
        As `written_rows`, or if it reaches beyond its arrays.
    """
    what, found = f"the step of {name!r}", []
    for poison, guard in POISONS:
        filled = arrays | {"work": np.full_like(arrays["work"], poison)}
        guarded = GuardedArrays(what, guard, **filled)
        try:
            call(step, guarded)
        except (IndexError, ValueError) as error:
            raise InputError(
                f"{what} reaches beyond its arrays in line {_line_of(step, error)}: {error}; its "
                f"'work' has {arrays['work'].size} numbers for {len(arrays['y'])} rows, by work = "
                "lambda rows: …"
            ) from error
        guarded.check(*(key for key in arrays if key not in ("work", "scratch", result)))
        found.append(guarded.shaped(result))
    first, second = found
    if not np.array_equal(first, second):
        row = np.argwhere(~((first == second).all(axis=1)))[0, 0]
        raise InputError(
            f"{what} gives {first[row]} in row {row} of its {result!r}, and {second[row]} from the "
            "same state with other numbers in its 'work': it reads there before it writes, or "
            "keeps something from step to step"
        )


def _line_of(function: Any, error: BaseException) -> int | str:
    """The last line of a function's file that led to an error."""
    file = function.__code__.co_filename
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return lines[-1] if lines and lines[-1] else "?"
