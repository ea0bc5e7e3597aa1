"""Butcher tableaux of explicit Runge–Kutta methods, and of embedded pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from integrators.errors import InputError, check_known, check_number, check_whole, short_repr
from integrators.precision import simplest_fractions
from integrators.tableaux.order_conditions import CHECKED, classical_order

MOST_STAGES = 64  # kernels of more take minutes to compile
CONSISTENT = 1e-12  # how far a sum may be from what it must be
SEQUENCES = (tuple, list, np.ndarray)
EXAMPLE = "{ a = [[], [0.5]], b = [0.0, 1.0], order = 2 }"


@dataclass(frozen=True)
class Tableau:
    """An explicit Butcher tableau, with the weights of an embedded method where it is a pair.

    Parameters
    ----------
    a : tuple of tuple of float
        Row i has the i coefficients of stage i on the stages before it; trailing zeros may be
        left out.
    b : tuple of float
        The weights.
    embedded : tuple of float
        Weights of the embedded method, which estimates errors; empty without one.
    order, embedded_order : int
        Orders of the method and of the embedded one; order conditions up to 8 are checked.

    Raises
    ------
    InputError
        If it is not explicit (a stage depends on itself or a later one), not consistent (weights
        that do not sum to 1), of unequal lengths, not of the orders, or has what is no finite
        number.
    """

    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    embedded: tuple[float, ...] = ()
    order: int = 1
    embedded_order: int = 0

    def __post_init__(self) -> None:
        b = checked_numbers("b", self.b)
        stages = len(b)
        if stages > MOST_STAGES:
            raise InputError(
                f"b has {stages:,} weights; at most {MOST_STAGES} stages are possible", key="b"
            )
        if not stages:
            raise InputError("b is empty; expected a weight for each stage", key="b")
        if not isinstance(self.a, SEQUENCES) or len(self.a) != stages:
            raise InputError(
                f"a = {short_repr(self.a)}; expected {stages} rows, as many as b has", key="a"
            )
        rows = tuple(self._check_explicit_row(i, row) for i, row in enumerate(self.a))
        _check_sum("b", b)
        embedded = checked_numbers("embedded", self.embedded)
        if embedded:
            if len(embedded) != stages:
                raise InputError(
                    f"embedded has {len(embedded)} weights and b {stages}; expected as many",
                    key="embedded",
                )
            _check_sum("embedded", embedded)
            if embedded == b:
                raise InputError(
                    "embedded has the weights of b; expected others, to estimate errors by",
                    key="embedded",
                )
        for name, value in (("a", rows), ("b", b), ("embedded", embedded)):
            object.__setattr__(self, name, value)
        self._check_order("order", b)
        if embedded:
            self._check_order("embedded_order", embedded)
        else:
            object.__setattr__(self, "embedded_order", 0)

    def _check_order(self, name: str, weights: Sequence[float]) -> None:
        order = check_whole(name, getattr(self, name))
        found = classical_order(self.matrix, weights, min(order, CHECKED))
        if found < min(order, CHECKED):
            which = "b" if name == "order" else "embedded"
            raise InputError(
                f"{name} = {order}: the method with the weights {which} has order {found}", key=name
            )
        object.__setattr__(self, name, order)

    @staticmethod
    def _check_explicit_row(i: int, row: Any) -> tuple[float, ...]:
        row = checked_numbers(f"a[{i}]", row)
        for j in range(i, len(row)):
            if row[j]:
                raise InputError(
                    f"a[{i}][{j}] = {row[j]!r}: stage {i} depends on "
                    f"{'itself' if j == i else f'the later stage {j}'}; expected an explicit "
                    "tableau, zero from the diagonal on",
                    key=f"a[{i}][{j}]",
                )
        return row[:i] + (0.0,) * (i - len(row))

    @property
    def stages(self) -> int:
        """The number of stages."""
        return len(self.b)

    @property
    def matrix(self) -> np.ndarray:
        """a as a square matrix, shape (stages, stages)."""
        matrix = np.zeros((self.stages, self.stages))
        for i, row in enumerate(self.a):
            matrix[i, : len(row)] = row
        return matrix

    @property
    def nodes(self) -> np.ndarray:
        """c, the row sums of a, shape (stages,)."""
        return self.matrix.sum(axis=1)

    @property
    def constants(self) -> np.ndarray:
        """``[b, c, a row by row]`` as kernels read it; of a pair then b less the embedded one."""
        return _flat_coefficients(self.b, self.matrix, self.embedded)

    @property
    def exact_constants(self) -> np.ndarray:
        """The constants as `Fraction`: of each number its `precision.simplest_fraction`."""
        b, embedded = map(simplest_fractions, (self.b, self.embedded))
        return _flat_coefficients(b, simplest_fractions(self.matrix), embedded)


def _flat_coefficients(
    b: Sequence[float] | np.ndarray, matrix: np.ndarray, embedded: Sequence[float] | np.ndarray
) -> np.ndarray:
    errors = np.subtract(b, embedded) if len(embedded) else []
    return np.concatenate([b, matrix.sum(axis=1), matrix.ravel(), errors])


def checked_numbers(name: str, values: Any) -> tuple[float, ...]:
    """A list of finite numbers as a tuple of float, or `InputError`."""
    if not isinstance(values, SEQUENCES) or isinstance(values, np.ndarray) and not values.ndim:
        raise InputError(f"{name} = {short_repr(values)}; expected a list of numbers", key=name)
    return tuple(check_number(f"{name}[{i}]", value) for i, value in enumerate(values))


def _check_sum(name: str, weights: Sequence[float]) -> None:
    total = sum(weights)
    if abs(total - 1.0) > CONSISTENT:
        raise InputError(
            f"the weights {name} sum to {total!r}; a consistent method needs 1", key=name
        )


def as_tableau(name: str, value: Any) -> Tableau:
    """A tableau, or a mapping of its parameters, as a `Tableau`.

    Parameters
    ----------
    name : str
        Name of the value in messages.
    value : Tableau or mapping of str to object

    Returns
    -------
    Tableau

    Raises
    ------
    InputError
        If it is none; its `key` is a key path in the mapping, ``tableau.a[1]``.
    """
    if isinstance(value, Tableau):
        return value
    if not isinstance(value, Mapping):
        raise InputError(
            f"{name} = {short_repr(value)}; expected a table, such as {EXAMPLE}", key=name
        )
    known = [field.name for field in fields(Tableau)]
    for key in value:
        check_known(f"key of {name}", key, known, key=f"{name}.{key}")
    for key in ("a", "b", "order"):
        if key not in value:
            raise InputError(f"{name} has no {key}; expected one such as {EXAMPLE}", key=name)
    try:
        tableau = Tableau(**value)
    except InputError as error:
        raise InputError(str(error), key=f"{name}.{error.key}") from None
    if value.get("embedded_order", 0) != tableau.embedded_order:
        raise InputError(
            f"embedded_order = {value['embedded_order']!r} of no method: give its weights, "
            "embedded, or leave it out",
            key=f"{name}.embedded_order",
        )
    return tableau


EULER = Tableau(a=((),), b=(1.0,), order=1)
MIDPOINT = Tableau(a=((), (0.5,)), b=(0.0, 1.0), order=2)
HEUN = Tableau(a=((), (1.0,)), b=(0.5, 0.5), order=2)
KUTTA3 = Tableau(a=((), (0.5,), (-1.0, 2.0)), b=(1 / 6, 2 / 3, 1 / 6), order=3)
KUTTA4 = Tableau(
    a=((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), b=(1 / 6, 1 / 3, 1 / 3, 1 / 6), order=4
)
_WEIGHTS = (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84)
_ROWS = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
)
DORMAND_PRINCE5 = Tableau(a=_ROWS, b=_WEIGHTS, order=5)
DORMAND_PRINCE54 = Tableau(
    a=(*_ROWS, _WEIGHTS),  # the last slope is the first of the next step
    b=(*_WEIGHTS, 0.0),
    embedded=(
        5179 / 57600, 0.0, 7571 / 16695, 393 / 640, -92097 / 339200, 187 / 2100, 1 / 40,
    ),
    order=5,
    embedded_order=4,
)  # fmt: skip
"""J. R. Dormand and P. J. Prince, *A family of embedded Runge–Kutta formulae* (1980)."""
