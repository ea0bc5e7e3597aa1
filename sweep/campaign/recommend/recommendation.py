"""The result of `recommend`: the best integrator, the runners-up, and the evidence."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from integrators.html import html_text
from sweep.analysis.rows import Rows

if TYPE_CHECKING:
    import pandas

    from sweep.campaign.recommend.bounds import Bound

SEARCHED, HELD_BACK = 40, 40  # initial conditions, where they can be drawn


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

    def _repr_html_(self) -> str:
        kept = " and ".join(bound.in_words for bound in self.bounds)
        said = f"{self.best.integrator} on {self.system}, {kept} until {self.until:g}"
        return html_text(said) + Rows([self.best, *self.others])._repr_html_()
