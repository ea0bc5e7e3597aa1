"""Starts of a family: the product of the values of its axes."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from integrators.errors import InputError
from integrators.precision import DOUBLE, DOUBLE_DOUBLE
from sweep.study.initial_conditions.base import Ensemble, States
from sweep.study.limits import MOST_STATES
from systems import System


@dataclasses.dataclass(frozen=True)
class FamilyStarts(Ensemble):
    """The states of a system's family at every combination of the values of its axes.

    Parameters
    ----------
    name : str
        Of the family.
    axes : dict of str to tuple of (int or float)
        Values of all axes; the last axis is fastest.
    given : tuple of str
        Those axes that the study gives, which are in the labels; the others have one value, their
        default.
    columns : dict of str to str
        The coordinate that each axis is in the store.
    label : str
        Of the ensemble; members are ``label[theta=0.7, phi=0.4]``.
    where : str
        Where the study says so, for messages.

    Raises
    ------
    InputError
        If there are more than 50,000 combinations.
    """

    name: str
    axes: dict[str, tuple[float, ...]]
    given: tuple[str, ...]
    columns: dict[str, str]
    label: str
    where: str = dataclasses.field(default="", compare=False)

    def __post_init__(self) -> None:
        if self.size > MOST_STATES:
            raise InputError(f"gives {self.size:,} states; at most {MOST_STATES:,} are possible")

    @property
    def size(self) -> int:
        """Number of states."""
        return math.prod(len(values) for values in self.axes.values())

    @property
    def labels(self) -> tuple[str, ...]:
        """One label for each state."""
        if not self.given:
            return (self.label,)
        return tuple(
            f"{self.label}[{self._values_in_words(values)}]" for values in self._combinations()
        )

    @property
    def coordinates(self) -> dict[str, NDArray[np.float64]]:
        """The values of each axis over the states, by the name of its coordinate."""
        values = np.array([list(values.values()) for values in self._combinations()], dtype=float)
        names = [self.columns[axis] for axis in self.axes]
        return dict(zip(names, values.T, strict=True))

    def states(self, system: System) -> States:
        """States of `system`, shape ``(size, rows, 3)``; InputError where there is none."""
        return np.array([self._state(system, values) for values in self._combinations()])

    def in_double_double(self, system: System, members: NDArray[np.integer]) -> States:
        """As of any `Start`; here known."""
        every = list(self._combinations())
        return np.array([self._state(system, every[i], DOUBLE_DOUBLE) for i in members])

    def values_of_axes(self) -> list[dict[str, float]]:
        """Of each state the values of those axes that the study gives, as dicts."""
        return [{axis: values[axis] for axis in self.given} for values in self._combinations()]

    def _combinations(self) -> Iterator[dict[str, float]]:
        """Every combination, as a dict of axis to value."""
        for values in itertools.product(*self.axes.values()):
            yield dict(zip(self.axes, values, strict=True))

    def _state(
        self, system: System, values: Mapping[str, float], arithmetic: str = DOUBLE
    ) -> States:
        try:
            return system.member(self.name, arithmetic=arithmetic, **values)
        except InputError as error:
            case = f" (where {self._values_in_words(values)})" if self.given else ""
            raise InputError(f"{error}{case}", key=error.key) from None

    def _values_in_words(self, values: Mapping[str, float]) -> str:
        """``theta=0.7, phi=0.4``: all digits, so that every state has a label of its own."""
        shown = (f"{axis}={str(values[axis]).removesuffix('.0')}" for axis in self.given)
        return ", ".join(shown)
