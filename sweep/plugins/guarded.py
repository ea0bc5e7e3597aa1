"""Calls of a plugin's functions with guards before and behind each array that they are given."""

import traceback
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from integrators.compiler.kernels import Kernel
from integrators.errors import InputError
from integrators.stepping.loop import GUARD, UNTOUCHED

Array = NDArray[np.float64]
# What is in arrays before a function writes there, and beside them: results are the same.
POISONS = ((np.nan, UNTOUCHED), (1.5, 2.0 * UNTOUCHED))
PARAMETERS = "p"  # compiled code, which checks no bounds, reads NaN behind them


class GuardedArrays:
    """Copies of arrays, each between guards.

    Parameters
    ----------
    what : str
        What is given them, for messages.
    guard : float
        The number beside them, but for parameters.
    arrays : dict of str to ndarray
    """

    def __init__(self, what: str, guard: float, arrays: Mapping[str, Array]) -> None:
        self._what, self._shapes = what, {name: of.shape for name, of in arrays.items()}
        self._blocks = {
            name: np.pad(of.ravel(), GUARD, constant_values=np.nan if name == PARAMETERS else guard)
            for name, of in arrays.items()
        }
        self._before = {name: block.copy() for name, block in self._blocks.items()}

    def __getitem__(self, name: str) -> Array:
        """An array in its shape."""
        return self._blocks[name][GUARD:-GUARD].reshape(self._shapes[name])

    def check(self, written: tuple[str, ...]) -> None:
        """Raise `InputError` if a guard, or an array that is not written, is another one now."""
        for name, block in self._blocks.items():
            same = (block == self._before[name]) | (np.isnan(block) & np.isnan(self._before[name]))
            if not (same[:GUARD].all() and same[-GUARD:].all()):
                size = block.size - 2 * GUARD
                raise InputError(f"{self._what} writes beyond the {size} numbers of its {name!r}")
            if name not in written and not same.all():
                raise InputError(
                    f"{self._what} writes to its {name!r}, which it is given to read; expected "
                    "that it leaves it as it is"
                )


def followed_by_nan(parameters: Array) -> Array:
    """A copy of parameters, behind which compiled code, which checks no bounds, reads NaN."""
    return np.append(parameters, np.full(GUARD, np.nan))[: len(parameters)]


def call_twice(
    what: str,
    given: Mapping[str, Array],
    blank: Mapping[str, Array],
    call: Callable[[GuardedArrays], object],
    written: tuple[str, ...],
    poisons: tuple[tuple[float, float], ...] = POISONS,
) -> list[GuardedArrays]:
    """Call a function twice with the same arrays, but for other numbers in blank ones and beside.

    Parameters
    ----------
    what : str
        The function, for messages.
    given, blank : dict of str to ndarray
        Arrays by their names; blank ones are filled.
    call : callable
        ``call(arrays)`` calls it.
    written : tuple of str
        Names of arrays that it may write to.
    poisons : tuple of (float, float)
        Of each call the number in blank arrays, and that beside all.

    Returns
    -------
    list of GuardedArrays
        After each call.

    Raises
    ------
    InputError
        If it writes beyond its arrays, or to what it reads.
    """
    found = []
    for poison, guard in poisons:
        filled = {name: np.full_like(of, poison) for name, of in blank.items()}
        found.append(GuardedArrays(what, guard, {**given, **filled}))
        call(found[-1])
        found[-1].check(written)
    return found


def refuse_difference(
    what: str, result: str, found: list[GuardedArrays], unwritten: bool = False
) -> Array:
    """The result of the first of two calls; `InputError` if the second one has another.

    Parameters
    ----------
    what, result : str
        The function, and the array that it writes to.
    found : list of GuardedArrays
        Of `call_twice`.
    unwritten : bool
        Whether numbers that are not finite, as where nothing is written, are left to the caller.
    """
    first, second = (arrays[result] for arrays in found)
    differs = (first != second) & (np.isfinite(first) | (not unwritten))
    if differs.any():
        row = np.argwhere(differs)[0, 0]
        raise InputError(
            f"{what} gives {first[row]} in row {row} of its {result!r}, and {second[row]} from the "
            "same state with other numbers in its 'work' and beside its arrays: it reads there "
            "before it writes, or keeps something from step to step"
        )
    return first


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
    names = (*states, PARAMETERS, "out", "work")
    blank = {"out": np.empty((rows, 3)), "work": np.empty(work)}

    def call(arrays: GuardedArrays) -> None:
        function.scalar(time, *(arrays[name] for name in names))

    given = {**states, PARAMETERS: np.array(parameters, dtype=float)}
    found = call_twice(what, given, blank, call, ("out", "work"))
    return refuse_difference(what, "out", found, unwritten=True)


def plain_rows(function: Kernel, time: float, state: Array, parameters: Array, rows: int) -> Array:
    """The same without checks; what it writes beyond its arrays does no harm."""
    out, work = np.zeros((rows + GUARD, 3)), np.zeros(function.work(len(state)) + GUARD)
    function.scalar(time, state, parameters, out[:rows], work)
    return out[:rows]


def line_of_error(function: Any, error: BaseException) -> int | str:
    """The last line of a function's file that led to an error."""
    file = function.__code__.co_filename
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return lines[-1] if lines and lines[-1] else "?"
