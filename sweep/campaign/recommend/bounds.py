"""Bounds on errors of a system, and the values of these errors in runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from integrators.errors import InputError, check_number

if TYPE_CHECKING:
    import xarray as xr

    from systems.base import System

ENERGY, MOMENTUM, GLOBAL = "energy_error", "momentum_error", "global_error"
KINDS = {ENERGY: "energy", MOMENTUM: "momentum_map"}
WORDS = {ENERGY: "energy error", MOMENTUM: "momentum error", GLOBAL: "global error"}


@dataclass(frozen=True)
class Bound:
    """An upper bound on an error.

    Parameters
    ----------
    error : {"energy_error", "momentum_error", "global_error"}
    most : float
        In `units`.
    units : str
    quantities : tuple of str
        Conserved quantities of the system, of which the largest error counts; empty for the error
        against a reference.
    columns : tuple of str
        Variables of these quantities, as a store names them.
    """

    error: str
    most: float
    units: str
    quantities: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """The error in words, such as ``energy error``."""
        return WORDS[self.error]

    def in_units(self, value: float, digits: str = "g") -> str:
        """A value of the error with its unit, for messages."""
        return f"{value:{digits}} {self.units}".removesuffix(" 1")

    def largest_errors(self, dataset: xr.Dataset, every_step: bool) -> NDArray[np.float64]:
        """The largest error of each run; infinite where one is not finite.

        Of the energy over all steps where statistics of these are recorded, else at the samples.

        Parameters
        ----------
        dataset : xarray.Dataset
            Runs of a store.
        every_step : bool

        Returns
        -------
        ndarray, shape (runs,)
        """
        ending = "_abs_max" if every_step and self.error == ENERGY else ""
        names = [f"{name}_error{ending}" for name in self.quantities] or [self.error]
        found = np.abs([dataset[name].values[:, 1:] for name in names]).max(axis=(0, 2))
        largest: NDArray[np.float64] = np.where(np.isfinite(found), found, np.inf)
        return largest

    def round_off(self, dataset: xr.Dataset) -> float:
        """Error from rounding the quantities by half a unit in the last place.

        For errors of states, whose rows are of norm 1 or so, that of the number 1.
        """
        sizes = [np.abs(dataset[name].values[:, 0]).max() for name in self.columns]
        return float(np.finfo(float).eps / 2 * max(sizes, default=1.0))


def make_bounds(system: System, asked: Mapping[str, float | None]) -> tuple[Bound, ...]:
    """Make the `Bound`s on errors of a system.

    Parameters
    ----------
    system : systems.System
    asked : dict of str to float
        Bound by error; None where there is none.

    Returns
    -------
    tuple of Bound

    Raises
    ------
    InputError
        If there is no bound, one is not positive, or the system has no such error.
    """
    given = {error: most for error, most in asked.items() if most is not None}
    if not given:
        raise InputError(
            "no error to keep below a bound: give `energy_error=1e-9`, for example, `global_error` "
            "or `momentum_error`"
        )
    return tuple(_make_bound(system, error, most) for error, most in given.items())


def _make_bound(system: System, error: str, most: float) -> Bound:
    most = check_number(error, most, above=0.0)
    if error == GLOBAL:
        (units, *others) = dict.fromkeys(own.units for own in system.state_errors)
        return Bound(error, most, "1" if others else units)
    found = [own for own in system.quantities if own.kind == KINDS[error]]
    if not found:
        known = [WORDS[GLOBAL]]
        known += [WORDS[e] for e, k in KINDS.items() if any(q.kind == k for q in system.quantities)]
        raise InputError(
            f"{error} = {most:g}: {system.name} has no {KINDS[error].replace('_', ' ')} that is "
            f"conserved; it has {' and '.join(known)}",
            key=error,
        )
    columns = [
        name
        for own in found
        for name in ([f"{own.name}_{axis}" for axis in own.components] or [own.name])
    ]
    return Bound(error, most, found[0].units, tuple(own.name for own in found), tuple(columns))
