"""Call a plugin's functions with guard values before and after each array argument."""

import traceback
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from integrators.compiler.kernels import Kernel
from integrators.errors import InputError
from integrators.stepping.loop import GUARD, UNTOUCHED

Array = NDArray[np.float64]
# Pairs of numbers: the initial content of output arrays, and the guard values. Results of a
# function must not depend on either.
POISONS = ((np.nan, UNTOUCHED), (1.5, 2.0 * UNTOUCHED))
PARAMETERS = "p"  # its guards are NaN, so that reading beyond the parameters shows in the result


class GuardedArrays:
    """Copies of arrays, each between guard values.

    Parameters
    ----------
    what : str
        Name in messages of the function that gets the arrays.
    guard : float
        Guard value; that of parameters is NaN.
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
        """An array by name, in its original shape."""
        return self._blocks[name][GUARD:-GUARD].reshape(self._shapes[name])

    def check(self, written: tuple[str, ...]) -> None:
        """Raise `InputError` if a guard has changed, or an array that is not in `written`."""
        for name, block in self._blocks.items():
            same = (block == self._before[name]) | (np.isnan(block) & np.isnan(self._before[name]))
            if not (same[:GUARD].all() and same[-GUARD:].all()):
                size = block.size - 2 * GUARD
                raise InputError(f"{self._what} writes beyond the {size} numbers of its {name!r}")
            if name not in written and not same.all():
                raise InputError(
                    f"{self._what} writes to its {name!r}, which is an input; expected that it "
                    "leaves it unchanged"
                )


def followed_by_nan(parameters: Array) -> Array:
    """A copy of parameters with NaN in the memory after it, since kernels check no bounds."""
    return np.append(parameters, np.full(GUARD, np.nan))[: len(parameters)]


def call_twice(
    what: str,
    given: Mapping[str, Array],
    blank: Mapping[str, Array],
    call: Callable[[GuardedArrays], object],
    written: tuple[str, ...],
    poisons: tuple[tuple[float, float], ...] = POISONS,
) -> list[GuardedArrays]:
    """Call a function twice with the same input, but other guards and other content of its output.

    Parameters
    ----------
    what : str
        Name of the function in messages.
    given, blank : dict of str to ndarray
        Input arrays, and output and work arrays, by name.
    call : callable
        ``call(arrays)`` calls the function with guarded arrays.
    written : tuple of str
        Names of the arrays that the function may write to.
    poisons : tuple of (float, float)
        For each call, the initial content of blank arrays and the guard value.

    Returns
    -------
    list of GuardedArrays
        The arrays after each call.

    Raises
    ------
    InputError
        If the function writes beyond its arrays, or to its input.
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
    """Return the result of two calls; raise `InputError` if their results differ.

    Parameters
    ----------
    what, result : str
        Names of the function and of its output array.
    found : list of GuardedArrays
        Result of `call_twice`.
    unwritten : bool
        Whether to ignore numbers that are not finite, such as those in rows that are not written.
    """
    first, second = (arrays[result] for arrays in found)
    differs = (first != second) & (np.isfinite(first) | (not unwritten))
    if differs.any():
        row = np.argwhere(differs)[0, 0]
        raise InputError(
            f"{what} gives {first[row]} in row {row} of its {result!r}, and {second[row]} from the "
            "same state with other numbers in its 'work' and beside its arrays: it reads there "
            "before it writes, or keeps a state between steps"
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
    """Return the rows that a kernel writes, after a check of its array accesses.

    A row is NaN if the kernel leaves it unwritten, reads work space that it has not written, or
    reads beyond its parameters.

    Parameters
    ----------
    function : integrators.compiler.kernels.Kernel
    time : float
    states : dict of str to ndarray
        Input arrays by name.
    parameters : ndarray
    rows : int
        Number of rows that the kernel writes.
    work : int
        Size of its work space.
    what : str
        Name of the kernel in messages.

    Returns
    -------
    ndarray, shape (rows, 3)

    Raises
    ------
    InputError
        If the kernel writes beyond its arrays or to its input, or if its result depends on the
        previous content of its arrays.
    """
    names = (*states, PARAMETERS, "out", "work")
    blank = {"out": np.empty((rows, 3)), "work": np.empty(work)}

    def call(arrays: GuardedArrays) -> None:
        function.scalar(time, *(arrays[name] for name in names))

    given = {**states, PARAMETERS: np.array(parameters, dtype=float)}
    found = call_twice(what, given, blank, call, ("out", "work"))
    return refuse_difference(what, "out", found, unwritten=True)


def plain_rows(function: Kernel, time: float, state: Array, parameters: Array, rows: int) -> Array:
    """The rows that a kernel writes, without checks; writes beyond its arrays do no harm."""
    out, work = np.zeros((rows + GUARD, 3)), np.zeros(function.work(len(state)) + GUARD)
    function.scalar(time, state, parameters, out[:rows], work)
    return out[:rows]


def line_of_error(function: Any, error: BaseException) -> int | str:
    """Line number of the last frame of an error's traceback in the file of a function."""
    file = function.__code__.co_filename
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return lines[-1] if lines and lines[-1] else "?"
