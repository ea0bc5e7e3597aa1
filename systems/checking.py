"""Checks of parameters and states that systems share."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from integrators.errors import InputError, check_number, check_whole, short_repr

Each = tuple[float, ...]  # a number for each body
PerBody = float | Each  # as a parameter is given: a number stands for all
Vectors = tuple[tuple[float, ...], ...]


class ChecksStates(Protocol):
    """A system, as checks of many states know it."""

    def check_state(self, state: np.ndarray) -> None:
        """Raise `InputError` unless `state` is one."""


ON_MANIFOLD = 1e-9  # how far a given state may be off the manifold
IN_STUDIES = "Give more digits, or normalize = true"  # for a state that a study gives
MOST_BODIES = 200_000  # whose work and memory grow with their number
MOST_INTERACTING = 50_000  # whose work grows with its square: 1e9 pairs a step
MOST_COUPLED = 2_000  # whose memory does, too: a matrix of 300 MB


def check_directions(vectors: np.ndarray, what: str, key: str) -> None:
    """Raise `InputError` for the first of `vectors`, shape (n, 3), that is zero.

    ``what.format(i)`` names it.
    """
    for i in np.flatnonzero(~np.any(vectors != 0.0, axis=1)):
        raise InputError(f"{what.format(i)} is the zero vector, which has no direction", key=key)


def check_unit(vectors: np.ndarray, what: str) -> None:
    """Raise `InputError` for the first of `vectors`, shape (n, 3), that has no unit length."""
    error = np.abs(np.sum(vectors * vectors, axis=1) - 1.0)
    check_small(error, f"|{what}·{what} − 1|")


def check_small(error: np.ndarray, what: str) -> None:
    """Raise `InputError` for the largest of the bodies' distances from the manifold."""
    if error.max() > ON_MANIFOLD:
        raise InputError(
            f"body {error.argmax()} is off the manifold: {what} = {error.max():.3g}; "
            f"expected at most {ON_MANIFOLD:g}. {IN_STUDIES}"
        )


def check_members(system: ChecksStates, states: Iterable[np.ndarray]) -> None:
    """Raise `InputError` with the number of the first of many `states` that is none of `system`."""
    for member, state in enumerate(states):
        try:
            system.check_state(state)
        except InputError as error:
            raise InputError(f"member {member}: {error}") from None


def positive_vector(name: str, value: Any, count: int) -> tuple[float, ...]:
    """A positive parameter for each of `count` bodies: a number repeated, or a list.

    Parameters
    ----------
    name : str
        Of the parameter.
    value : float or sequence of float
    count : int

    Returns
    -------
    tuple of float

    Raises
    ------
    InputError
        If it is none.
    """
    return number_vector(name, value, count, above=0.0)


def number_vector(name: str, value: Any, count: int, **bounds: float) -> tuple[float, ...]:
    """A parameter for each of `count` bodies: a number repeated, or a list of that length.

    Parameters
    ----------
    name : str
        Of the parameter.
    value : float or sequence of float
    count : int
    **bounds : float
        ``above`` and ``least`` of `integrators.plugin.check_number`.

    Returns
    -------
    tuple of float

    Raises
    ------
    InputError
        If it is none.
    """
    if not is_list(value):
        return (check_number(name, value, **bounds),) * count
    if len(value) != count:
        raise InputError(f"{name} has {len(value)} values; expected {count}", key=name)
    return tuple(check_number(name, item, **bounds) for item in value)


ROUND_OFF = 1e-12  # relative, of moments that are given by their digits


def body_moments(name: str, value: Any) -> tuple[float, ...]:
    """The principal moments of inertia of a body, three positive numbers.

    None is greater than the other two together: I_1 + I_2 − I_3 is twice the integral of x_3² over
    the mass. A moment may be, by `ROUND_OFF`.

    Raises
    ------
    InputError
        As `positive_vector`, or where no body has the moments.
    """
    moments = positive_vector(name, value, 3)
    if excess := excess_moment(moments):
        raise InputError(
            f"{name} = {short_repr(moments)}: {excess}, and no body has such principal moments; "
            "expected each at most the sum of the other two",
            key=name,
        )
    return moments


def excess_moment(moments: Sequence[float]) -> str:
    """In words, which of three moments is greater than the others' sum; empty where none is."""
    one, two, most = sorted(moments)
    return f"{most:g} > {one:g} + {two:g}" if most > (one + two) * (1.0 + ROUND_OFF) else ""


def check_count(value: Any, least: int = 1, most: int = MOST_BODIES) -> int:
    """Check that the parameter ``count`` is a whole number of bodies.

    Parameters
    ----------
    value : object
    least, most : int

    Returns
    -------
    int

    Raises
    ------
    InputError
        If it is none.
    """
    count = check_whole("count", value, least=least)
    if count > most:
        raise InputError(f"count = {count:,}; at most {most:,} bodies are possible", key="count")
    return count


def is_list(value: Any, length: int | None = None) -> bool:
    """Whether `value` is a list, tuple or array, of `length` items if that is given."""
    listed = isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)
    return listed and length in (None, len(value))


def vector_list(name: str, value: Any, count: int | None = None) -> Vectors:
    """A parameter that is a list of 3-vectors.

    Parameters
    ----------
    name : str
        Of the parameter.
    value : sequence of 3-vectors
    count : int, optional
        How many there are to be.

    Returns
    -------
    tuple of tuple of float

    Raises
    ------
    InputError
        If it is none.
    """
    if not is_list(value) or not len(value) or not all(is_list(row, 3) for row in value):
        raise InputError(f"{name} = {short_repr(value)}; expected a list of [x, y, z]", key=name)
    if count is not None and len(value) != count:
        raise InputError(f"{name} has {len(value)} vectors; expected {count}", key=name)
    return tuple(tuple(check_number(name, part) for part in row) for row in value)


def set_checked(instance: object, **values: object) -> None:
    """Set validated fields of a frozen dataclass while it is made.

    Parameters
    ----------
    instance : dataclass
    **values : object
        By field.
    """
    for name, value in values.items():
        object.__setattr__(instance, name, value)
