"""The errors of all packages begin here; and checks of names and numbers."""

import difflib
import math
import numbers
import reprlib
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np

DIVIDES = 1e-9  # relative difference up to which a step size divides the sample interval
MOST_COMPARED = 100  # characters of a name that is looked for among those that are known


class GeosweepError(Exception):
    """Base of the errors that Geosweep raises on purpose."""


class InputError(GeosweepError, ValueError):
    """Input that cannot be used: says which value, what was expected and how to mend it.

    Parameters
    ----------
    message : str
        A sentence that names the value and what was expected.
    key : str, optional
        The parameter or option that the message is about, where there is one. A caller that
        knows the file it came from adds key path and line.
    """

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


def suggest_nearest(name: object, valid: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` for the closest of `valid`, in any case, or a list of all of them."""
    valid = list(valid)
    by_lower = {own.lower(): own for own in reversed(valid)}
    close = difflib.get_close_matches(str(name).lower(), by_lower, n=1, cutoff=0.5)
    if close:
        return f" Did you mean {by_lower[close[0]]!r}?"
    return f" Valid: {', '.join(valid)}." if valid else ""


def short_repr(value: object) -> str:
    """A value for a message: as `repr`, in one line, but of long ones the beginning and the end."""
    return " ".join(_SHORT.repr(value).split("\n"))


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother, _SHORT.maxlong = 4, 200, 200, 100
_SHORT.maxtuple = _SHORT.maxlist = _SHORT.maxdict = 12


def check_known(
    kind: str, name: object, valid: Collection[str], key: str | None = None, where: str = ""
) -> None:
    """Check that a name is known.

    Parameters
    ----------
    kind : str
        What it names, for the message.
    name : object
    valid : collection of str
    key : str, optional
        Of the setting whose value it is.
    where : str, optional
        What it belongs to, such as "of rk4", after the name in the message.

    Raises
    ------
    InputError
        Unless `name` is one of `valid`; with the nearest of them.
    """
    if not isinstance(name, str) or name not in valid:
        close = suggest_nearest(str(name)[:MOST_COMPARED], valid)
        found = f"{kind} {short_repr(name)}"
        raise InputError(f"unknown {found}{where and f' {where}'}.{close}", key=key)


def check_number(
    name: str, value: Any, above: float = -math.inf, least: float = -math.inf
) -> float:
    """Check that a value is a finite real number within bounds.

    Parameters
    ----------
    name : str
        Of the setting whose value it is.
    value : object
    above, least : float
        It must be > `above` and ≥ `least`.

    Returns
    -------
    float

    Raises
    ------
    InputError
        If it is none.
    """
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not _is_finite(value) or not value > above or not value >= least:
        expected = "a number"
        expected += f" > {above:g}" if above > -math.inf else ""
        expected += f" ≥ {least:g}" if least > -math.inf else ""
        raise InputError(f"{name} = {short_repr(value)}; expected {expected}", key=name)
    return float(value)


def _is_finite(value: numbers.Real) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False


def check_whole(name: str, value: Any, least: int = 1) -> int:
    """Check that a value is a whole number of at least `least`.

    Parameters
    ----------
    name : str
        Of the setting whose value it is.
    value : object
    least : int

    Returns
    -------
    int

    Raises
    ------
    InputError
        If it is none.
    """
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least:
        raise InputError(
            f"{name} = {short_repr(value)}; expected a whole number ≥ {least}", key=name
        )
    return int(value)


def _float_array(value: Any) -> np.ndarray:
    return np.array(value, dtype=float)


def check_array(
    name: str, value: Any, shape: str, array: Callable[[Any], np.ndarray] = _float_array
) -> np.ndarray:
    """Check that a value is an array of numbers.

    Parameters
    ----------
    name : str
        Of the setting whose value it is.
    value : array_like
    shape : str
        The shape to give, for the message.
    array : callable, optional
        Makes the array of the value; by default one of floats.

    Returns
    -------
    ndarray

    Raises
    ------
    InputError
        If it is none.
    """
    try:
        return array(value)
    except (TypeError, ValueError):
        message = f"{name} is not an array of numbers; expected {shape}"
        raise InputError(message, key=name) from None
