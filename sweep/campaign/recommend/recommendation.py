"""The answer of a recommendation: what is recommended, what it rests on, and what else there is."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from integrators.html import html_text
from sweep.campaign.recommend.bounds import GLOBAL, Bound
from sweep.rows import Rows
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
    """An integrator with the size that keeps the bounds.

    Parameters
    ----------
    integrator : str
    order : int or str
    adaptive : bool
        Whether `size` is a tolerance, not a step size.
    size : float
    seconds, seconds_median : float
        CPU time of a run until the end: the least and the median of repeats in turn with those of
        the others; of an expected one equal.
    steps : float
        Of such a run.
    errors : dict of str to float
        The largest of each error, of all initial conditions that it was tried from.
    until : float
        Time until which it was followed.
    is_expected : bool
        Whether size and cost are expected by pilots until then, not measured until the end.
    is_apart : bool
        Whether its cost can be told from that of what is recommended.
    at_largest : bool
        Whether larger sizes may do as well: none was tried.
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
    """A trial, as pictures show it.

    Parameters
    ----------
    integrator : str
    size : float
    until : float
    seconds : float
        CPU time of a run to the end at this rate.
    ratio : float
        The largest error until then, as a part of its bound.
    """

    integrator: str
    size: float
    until: float
    seconds: float
    ratio: float


@dataclasses.dataclass(frozen=True)
class Recommendation:
    """What `recommend` found.

    Parameters
    ----------
    study, experiment, system : str
    bounds : tuple of Bound
    until : float
        In the system's unit of time, `time_units`.
    samples : int
        Sample intervals until then.
    every_step : bool
        Whether the energy error is that of every step, not of the samples.
    best : Choice
    others : tuple of Choice
        The runners-up, the cheapest first, up to ten times as dear.
    unable : tuple of str
        Integrators that fit and keep the bounds at no size that was tried.
    tried, fitting : int
        Integrators that were tried, of those that fit: others have too low an order to win.
    searched : int
        Initial conditions with which sizes were chosen.
    held_back : int
        Others, by which the answer was verified; 0 where there are none.
    above : int
        Of these, those in which a bound was exceeded.
    share : float
        The least share of new initial conditions that keep the bounds, with `confidence`.
    confidence : float
    together : int
        Runs that are computed side by side, of which CPU times are the share of one.
    in_time : bool
        Whether the search came to its end within the budget.
    search_seconds, compile_seconds : float
        CPU time of all that was integrated, and of the compilation of kernels.
    points : tuple of Point
    text : str
        A study, as TOML, of what is recommended and the runners-up.
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
        """What is recommended, and the runners-up, as a `pandas.DataFrame`."""
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
    """A study, as TOML, of some choices on an experiment's system from its initial conditions.

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
