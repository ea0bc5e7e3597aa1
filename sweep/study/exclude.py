"""Rules that leave runs out of an experiment."""

import dataclasses
import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from integrators.errors import InputError, suggest_nearest

EQUAL = 1e-9  # relative difference up to which two numbers of a column are equal
SHOWN = 20  # labels that are searched for a suggestion; an ensemble may have a million


@dataclasses.dataclass(frozen=True)
class Condition:
    """A comparison of a column of the run table with a number or a label.

    Parameters
    ----------
    column : str
        ``integrator``, ``step_size``, ``tolerance``, ``initial_condition``, ``ensemble``, a
        scanned parameter or an axis of a family of starts.
    operator : {"==", "!=", "<", "<=", ">", ">="}
        For labels only ``==`` and ``!=``.
    value : float or str
    """

    column: str
    operator: str
    value: float | str

    @classmethod
    def parse(cls, column: str, written: float | str, labels: Sequence[str] | None) -> "Condition":
        """Read a condition of a study: a value to be equal to, or a string such as ``">= 0.05"``.

        Parameters
        ----------
        column : str
        written : int, float or str
        labels : list of str or None
            All labels of the column; None for a column of numbers.

        Raises
        ------
        InputError
            If it is neither, the label is unknown, or labels are compared by another operator.
        """
        found = re.fullmatch(r"(==|!=|<=|>=|<|>)\s*(.+)", str(written))
        operator, operand = found.groups() if found else ("==", written)
        if labels is not None:
            if operand not in labels:
                close = suggest_nearest(operand, labels[:SHOWN])
                raise InputError(f"unknown {column} {operand!r}.{close}")
            if operator not in ("==", "!="):
                raise InputError(f"labels are compared by '==' or '!=', got {operator!r}")
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

        It does not hold for runs without a value: an adaptive run has no step size.
        """
        found: NDArray[np.bool_]
        if isinstance(self.value, str):
            same = values == self.value
        else:
            same = np.abs(values - self.value) <= EQUAL * abs(self.value)
        if self.operator in ("==", "!="):
            found = same if self.operator == "==" else ~same & (values == values)
            return found
        beyond = values < self.value if "<" in self.operator else values > self.value
        found = beyond | same if "=" in self.operator else beyond & ~same
        return found


@dataclasses.dataclass(frozen=True)
class Rule:
    """Leaves out the runs for which every `Condition` in the tuple `conditions` holds."""

    conditions: tuple[Condition, ...]

    def scaled(self, column: str, factor: float) -> "Rule":
        """A copy in which the numbers that `column` is compared with are multiplied by `factor`."""
        return Rule(
            tuple(
                dataclasses.replace(c, value=c.value * factor)
                if c.column == column and not isinstance(c.value, str)
                else c
                for c in self.conditions
            )
        )
