"""The result of `recommend`: the best integrator, the runners-up, and the evidence."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from integrators.html import html_text
from sweep.analysis.rows import Rows
from sweep.campaign.recommend.bounds import GLOBAL, Bound
from sweep.study.toml.writer import write_study_text

if TYPE_CHECKING:
    import pandas

    from sweep.study import Study
    from sweep.study.experiment import ResolvedExperiment
    from sweep.study.time_axis import TimeAxis

OWN_KEYS = ("system", "parameters", "initial_condition", "statistics", "record", "time_unit")
REPEATS = 3  # of a run, by which CPU times are compared


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
    seconds, seconds_median : float
        CPU seconds of a run until the end: the least and the median of repeats, which alternate
        with those of other integrators; equal if `is_expected`.
    steps : float
        Number of steps of such a run.
    errors : dict of str to float
        Largest value of each error, over all initial conditions that were tried.
    until : float
        Time until which it was integrated.
    is_expected : bool
        Whether size and cost are extrapolated from pilots until then, instead of measured.
    is_apart : bool
        Whether its cost differs significantly from that of the best.
    at_largest : bool
        Whether no larger size was tried, so that one might also keep the bounds.
    """

    integrator: str
    order: int | str
    adaptive: bool
    size: float
    seconds: float
    seconds_median: float
    steps: float
    errors: dict[str, float]
    until: float
    is_expected: bool = False
    is_apart: bool = True
    at_largest: bool = False


@dataclasses.dataclass(frozen=True)
class Point:
    """A trial, as a point of the figure of a recommendation.

    Parameters
    ----------
    integrator : str
    size : float
    until : float
    seconds : float
        CPU seconds of a run until the end, extrapolated.
    ratio : float
        Largest error until then, divided by its bound.
    """

    integrator: str
    size: float
    until: float
    seconds: float
    ratio: float


@dataclasses.dataclass(frozen=True)
class Recommendation:
    """The result of `recommend`.

    Parameters
    ----------
    study, experiment, system : str
    bounds : tuple of Bound
    until : float
        End time, in the system's unit `time_units`.
    samples : int
        Number of sample intervals until then.
    every_step : bool
        Whether energy errors are maxima over all steps, not only over the samples.
    best : Choice
    others : tuple of Choice
        Runners-up, the cheapest first, up to ten times as expensive as the best.
    unable : tuple of str
        Integrators that keep the bounds at no size that was tried.
    tried, fitting : int
        Number of integrators that were tried, and of those that fit the system; the order of the
        others is too low to win.
    searched : int
        Number of initial conditions with which sizes were chosen.
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
    search_seconds, compile_seconds : float
        CPU seconds of all integrations, and of the compilation of kernels.
    points : tuple of Point
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
    unable: tuple[str, ...]
    tried: int
    fitting: int
    searched: int
    held_back: int
    above: int
    share: float
    confidence: float
    together: int
    in_time: bool
    search_seconds: float
    compile_seconds: float
    points: tuple[Point, ...] = dataclasses.field(repr=False)
    text: str = dataclasses.field(repr=False)

    def to_dataframe(self) -> pandas.DataFrame:
        """The best integrator and the runners-up as a `pandas.DataFrame`."""
        return Rows([self.best, *self.others]).to_dataframe()

    def _repr_html_(self) -> str:
        kept = " and ".join(bound.in_words for bound in self.bounds)
        said = f"{self.best.integrator} on {self.system}, {kept} until {self.until:g}"
        return html_text(said) + Rows([self.best, *self.others])._repr_html_()


def study_text(
    study: Study,
    experiment: ResolvedExperiment,
    bounds: Sequence[Bound],
    time_axis: TimeAxis,
    choices: Sequence[Choice],
) -> str:
    """Write a study, as TOML, of some choices on the system of an experiment.

    Parameters
    ----------
    study : sweep.study.model.Study
    experiment : sweep.study.experiment.ResolvedExperiment
    bounds : tuple of Bound
    time_axis : TimeAxis
    choices : sequence of Choice

    Returns
    -------
    str
    """
    top, table = _own_tables(study, experiment.name)
    kept = {key: table[key] for key in OWN_KEYS if key in table}
    unit = experiment.time_unit
    quantities = [name for bound in bounds for name in bound.quantities]
    recorded = list(dict.fromkeys([*kept.get("record", ()), *quantities]))
    entries = [
        {"name": own.integrator, "tolerance": [own.size]}
        if own.adaptive
        else {"name": own.integrator, "step_size": [own.size / unit]}
        for own in choices
    ]
    duration = time_axis.duration / unit
    settings = kept | {
        "name": experiment.name,
        "integrators": entries,
        "duration": duration,
        "samples": time_axis.samples,
        "repeat": REPEATS,
    }
    if recorded:
        settings["record"] = recorded
    if any(bound.error == GLOBAL for bound in bounds):
        settings["reference"] = {"integrator": "dop853", "tolerance": 2.3e-14, "until": duration}
    order = ("name", "system", "parameters", "time_unit", "integrators")
    ordered = {key: settings[key] for key in order if key in settings}
    top = {"format": 1, "name": f"{study.name}-recommended"} | top
    return write_study_text(top, [ordered | settings])


def _own_tables(study: Study, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plugins of a study, and the table of one of its experiments with the defaults."""
    for text in study.texts:
        read = tomllib.loads(text)
        for table in read["experiment"]:
            if table["name"] == name:
                top = {key: read[key] for key in ("plugins",) if key in read}
                return top, read.get("defaults", {}) | table
    raise AssertionError(f"no text of the study has {name!r}")
