"""Options of methods."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from integrators.errors import InputError, check_known, check_number, check_whole


@dataclass(frozen=True)
class Option:
    """An option of a method: its default, what it must be, and what it does.

    Parameters
    ----------
    default : object
    description : str
    choices : tuple of str
        The values that it may have; without any it is a number.
    most, least : float
        Bounds of the number, which are allowed.
    whole : bool
        Whether the number is whole.
    positive : bool
        Whether the number is above 0; then `least` does not count.
    read : callable, optional
        ``read(name, value)`` makes the option of what is given, hashable, or raises `InputError`.
        Then it is neither a choice nor a number, and must be given.
    later : bool
        Whether the method had stored runs before it had this option: at its default it is no part
        of their identity.
    """

    default: object
    description: str
    choices: tuple[str, ...] = ()
    most: float = np.inf
    whole: bool = False
    least: float = 0.0
    positive: bool = False
    read: Callable[[str, Any], Any] | None = None
    later: bool = False

    def check(self, name: str, value: Any) -> Any:
        """The value, or `InputError`."""
        if self.read is not None:
            return self.read(name, value)
        if self.choices:
            check_known(name, value, self.choices, key=name)
            return value
        if self.whole:
            value = check_whole(name, value, least=0)
        else:
            above = 0.0 if self.positive else -np.inf
            value = check_number(name, value, above, -np.inf if self.positive else self.least)
        if value > self.most:
            raise InputError(f"{name} = {value!r}; expected at most {self.most:g}", key=name)
        return value
