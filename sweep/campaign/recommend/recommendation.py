"""What `recommend` is asked and answers: bounds on errors, the best integrator, the evidence."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import sweep
from integrators.errors import InputError, check_number
from integrators.html import html_text
from sweep.analysis.rows import Rows

if TYPE_CHECKING:
    import pandas
    import xarray as xr

    from systems.base import System

SEARCHED, HELD_BACK = 40, 40  # initial conditions, where they can be drawn
ENERGY, MOMENTUM, GLOBAL = "energy_error", "momentum_error", "global_error"
KINDS = {ENERGY: "energy", MOMENTUM: "momentum_map"}


@dataclasses.dataclass(frozen=True)
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
        return self.error.replace("_", " ")

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
    given = [(error, most) for error, most in asked.items() if most is not None]
    if not given:
        raise InputError(
            "no error to keep below a bound: give `energy_error=1e-9`, for example, `global_error` "
            "or `momentum_error`"
        )
    return tuple(_make_bound(system, *own) for own in given)


def _make_bound(system: System, error: str, most: float) -> Bound:
    most = check_number(error, most, above=0.0)
    if error == GLOBAL:
        (units, *others) = dict.fromkeys(own.units for own in system.state_errors)
        return Bound(error, most, "1" if others else units)
    found = [own for own in system.quantities if own.kind == KINDS[error]]
    if not found:
        kinds = {own.kind for own in system.quantities}
        known = [GLOBAL, *(own for own, kind in KINDS.items() if kind in kinds)]
        raise InputError(
            f"{error} = {most:g}: {system.name} has no {KINDS[error].replace('_', ' ')} that is "
            f"conserved; it has {' and '.join(known).replace('_', ' ')}",
            key=error,
        )
    columns = (
        name
        for own in found
        for name in ([f"{own.name}_{axis}" for axis in own.components] or [own.name])
    )
    return Bound(error, most, found[0].units, tuple(own.name for own in found), tuple(columns))


@dataclasses.dataclass(frozen=True)
class Choice:
    """An integrator with a step size or tolerance that keeps the bounds.

    Parameters
    ----------
    integrator : str
    order : int or str
    adaptive : bool
        Whether `size` is a tolerance instead of a step size.
    size : float
    seconds, seconds_next : float
        CPU seconds of a run until the end: the least of its repeats, which alternate with those of
        other integrators, and the next to that; medians over the starts.
    steps : float
        Number of steps of such a run.
    errors : dict of str to float
        Largest value of each error, over all initial conditions that were tried.
    is_apart : bool
        Whether it costs more than the second least time of the best, and than its least by a
        tenth: by less CPU times are not told apart.
    at_largest : bool
        Whether a run can have no larger size.
    """

    integrator: str
    order: int | str
    adaptive: bool
    size: float
    seconds: float
    seconds_next: float
    steps: float
    errors: dict[str, float]
    is_apart: bool = True
    at_largest: bool = False


@dataclasses.dataclass(frozen=True)
class Stage:
    """How many integrators were run until a time, and how many of them kept the bounds.

    Parameters
    ----------
    until : float
    tried, kept : int
    """

    until: float
    tried: int
    kept: int


@dataclasses.dataclass(frozen=True)
class Recommendation:
    """The result of `recommend`. Times and step sizes are in the system's unit `time_units`.

    Parameters
    ----------
    study, experiment, system : str
    bounds : tuple of Bound
    until : float
        End time.
    time_units : str
    samples : int
        Number of sample intervals until then.
    every_step : bool
        Whether energy errors are maxima over all steps, not only over the samples.
    best : Choice
    others : tuple of Choice
        Other integrators that were run until the end and keep the bounds, the cheapest first.
    stages : tuple of Stage
        The rounds of the search.
    searched : int
        Number of initial conditions with which the size was chosen.
    held_back : int
        Number of further ones by which the result was verified; 0 without any.
    above : int
        Number of these at which a bound was exceeded.
    share : float
        Lower confidence limit of the share of new initial conditions that keep the bounds.
    confidence : float
        Of that limit.
    together : int
        Number of runs that are integrated together in lanes; CPU times are those of one of them.
    in_time : bool
        Whether the search ended within the budget.
    search_seconds : float
        CPU seconds of all runs of the store, also of earlier searches.
    points : tuple of Choice
        Whatever was run until the end, whether it keeps the bounds or not.
    text : str
        A study, as TOML, with the best integrator and the runners-up.
    """

    study: str
    experiment: str
    system: str
    bounds: tuple[Bound, ...]
    until: float
    time_units: str
    samples: int
    every_step: bool
    best: Choice
    others: tuple[Choice, ...]
    stages: tuple[Stage, ...]
    searched: int
    held_back: int
    above: int
    share: float
    confidence: float
    together: int
    in_time: bool
    search_seconds: float
    points: tuple[Choice, ...] = dataclasses.field(repr=False)
    text: str = dataclasses.field(repr=False)

    def parts_of_bounds(self, choice: Choice) -> float:
        """The largest of the errors of a choice, each divided by its bound."""
        return max(choice.errors[bound.error] / bound.most for bound in self.bounds)

    def to_dataframe(self) -> pandas.DataFrame:
        """The best integrator and the runners-up as a `pandas.DataFrame`."""
        return Rows([self.best, *self.others]).to_dataframe()

    def __str__(self) -> str:
        said: list[str] = sweep.tables.recommendation_in_sentences(self)
        return "\n".join([*said, "", str(sweep.tables.recommendation_as_table(self))])

    def _repr_html_(self) -> str:
        kept = " and ".join(bound.in_words for bound in self.bounds)
        said = f"{self.best.integrator} on {self.system}, {kept} until {self.until:g}"
        return html_text(said) + Rows([self.best, *self.others])._repr_html_()
