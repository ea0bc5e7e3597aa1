"""Rules that leave runs out of an experiment."""

import dataclasses
import math
import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from integrators.errors import InputError, check_known, suggest_nearest

EQUAL = 1e-9  # relative difference up to which two numbers of a column are the same
SHOWN = 20  # labels to look for the nearest in; an ensemble may have a million


@dataclasses.dataclass(frozen=True)
class Condition:
    """A comparison of a column of the run table with a number or a label.

    Parameters
    ----------
    column : str
        ``integrator``, ``step_size``, ``tolerance``, ``initial_condition``, ``ensemble``, a
        scanned parameter or an axis of a family of starts.
    operator : {"==", "!=", "<", "<=", ">", ">="}
        Labels are only equal or not.
    value : float or str

    Raises
    ------
    InputError
        If there is no such operator for the value.
    """

    column: str
    operator: str
    value: float | str

    def __post_init__(self) -> None:
        if isinstance(self.value, str) and self.operator not in ("==", "!="):
            raise InputError(f"labels are compared by '==' or '!=', got {self.operator!r}")
        check_known("operator", self.operator, ("==", "!=", "<", "<=", ">", ">="))

    @classmethod
    def parse(cls, column: str, written: float | str, labels: Sequence[str] | None) -> "Condition":
        """Condition as a study has it: a value to be equal to, or a string such as ``">= 0.05"``.

        Parameters
        ----------
        column : str
        written : int, float or str
        labels : list of str or None
            All labels of the column; None for a column of numbers.

        Raises
        ------
        InputError
            If it is neither, or there is no such label.
        """
        found = re.fullmatch(r"(==|!=|<=|>=|<|>)\s*(.+)", str(written))
        operator, operand = found.groups() if found else ("==", written)
        if labels is not None and operand not in labels:
            close = suggest_nearest(operand, labels[:SHOWN])
            raise InputError(f"unknown {column} {operand!r}.{close}")
        if labels is not None:
            return cls(column, operator, operand)
        try:
            number = float(operand)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise InputError(
                f"expected a number or a comparison such as '>= 0.05', got {written!r}"
            )
        return cls(column, operator, number)

    def holds(self, values: np.ndarray) -> NDArray[np.bool_]:
        """Where the condition holds for the column `values`: a boolean array of its shape.

        It holds for no run that has no such value: an adaptive one has no step size.
        """
        same: NDArray[np.bool_]
        if isinstance(self.value, str):
            same = values == self.value
        else:
            same = np.abs(values - self.value) <= EQUAL * abs(self.value)
        found: NDArray[np.bool_]
        match self.operator:
            case "==":
                found = same
            case "!=":
                found = ~same & (values == values)
            case "<":
                found = (values < self.value) & ~same
            case "<=":
                found = (values < self.value) | same
            case ">":
                found = (values > self.value) & ~same
            case _:  # ">="
                found = (values > self.value) | same
        return found


@dataclasses.dataclass(frozen=True)
class Rule:
    """Leaves out the runs for which all `conditions`, a tuple of `Condition`, hold."""

    conditions: tuple[Condition, ...]

    def holds(self, where: Callable[[Condition], NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """Where all conditions hold; `where` takes a `Condition` to a boolean array of the runs."""
        found: NDArray[np.bool_] = np.logical_and.reduce([where(own) for own in self.conditions])
        return found

    def scaled(self, column: str, factor: float) -> "Rule":
        """The same rule, a number that a column is compared with multiplied by `factor`."""
        return Rule(
            tuple(
                dataclasses.replace(c, value=c.value * factor)
                if c.column == column and not isinstance(c.value, str)
                else c
                for c in self.conditions
            )
        )
