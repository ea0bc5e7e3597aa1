"""Claims of papers, read from a file for each paper, and their evaluation from results of studies.

``sweep/papers/PAPER/claims.toml`` has groups of claims in tables ``[[group]]``. The keys are the
fields of `Claim`. Keys of a group apply to each of its ``claims``, which may add or override keys.
"""

import itertools
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, Any, Literal

import numpy as np
import xarray as xr
from pydantic import BaseModel, BeforeValidator, ConfigDict, ImportString

from integrators.errors import InputError
from sweep.analysis.runs.selection import axis_values_in_words, integrator_descriptions, take_runs
from sweep.papers.agreement import (
    Agreement,
    Behaviour,
    agreement_with_printed_figure,
    behaviour_of_runs,
)
from sweep.papers.diagnostics import mean_error_of_samples
from sweep.text import join_with_and, steps_in_words

CLOSE = 1e-3  # relative tolerance of a value without explicit bounds
SUMMARIES: dict[str, Callable[[np.ndarray], Any]] = {
    "median": np.median,
    "largest": np.max,
    "least": np.min,
}

Datasets = Mapping[str, Mapping[str, xr.Dataset]]  # by study and experiment
Labels = Annotated[
    tuple[str, ...], BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)
]
Measure = Annotated[
    ImportString[Callable[..., Any]],
    BeforeValidator(lambda given: f"sweep.papers.{given}" if isinstance(given, str) else given),
]
Arguments = Annotated[
    dict[str, Any],
    BeforeValidator(lambda given: {"name": given} if isinstance(given, str) else given),
]


@dataclass(frozen=True)
class Row:
    """A claim with its computed value.

    Parameters
    ----------
    part, claim : str
    paper : float or None
        The printed value; None if the paper prints no number.
    digits : int or None
        Number of significant digits of the printed value.
    here : float
        The computed value. For several runs, it is their median, maximum or minimum, which
        `setting` states.
    agreement : Agreement or None
        Agreement with the printed value: ``digits``, ``range``, ``magnitude``, ``behaviour`` or
        ``not reproduced``.
    least, most : float
        Range of the values over the runs.
    low, high : float
        Bounds within which the claim holds.
    setting : str
        Integrators, step sizes, parameters and duration of the runs, in words.
    holds : bool
        Whether the computed value lies within the bounds.
    """

    part: str
    claim: str
    paper: float | None
    digits: int | None
    here: float
    agreement: Agreement | None
    least: float
    most: float
    low: float
    high: float
    setting: str
    holds: bool


class _Data(BaseModel):
    """Base of the models of ``claims.toml``, which forbid unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Claim(_Data):
    """A number that a paper prints, or that quantifies a statement or picture of the paper.

    Parameters
    ----------
    part : str
        Part of the paper, such as ``Example 1``.
    text : str
        Name of the measured quantity.
    study, experiment : str
        The packaged study and the experiment of the runs.
    integrators : str or tuple of str
        Label of one or more integrators.
    measure : str or callable
        ``measure(dataset, …)`` returns a number, or an array with a value for each run or each of
        other items, such as step sizes. A str is the name of a function in `sweep.papers`.
    step_size : float, optional
        Step size in the packaged study; by default all.
    scan : dict, optional
        Values of scanned parameters and of axes of families of starts.
    start : str, optional
        Label of the initial condition; by default all.
    until : float, optional
        Time after which samples are ignored; by default the duration.
    of : str or dict, optional
        Further arguments of `measure`. A str is the argument ``name``.
    summary : {"median", "largest", "least"}
        Which of several values is reported.
    each : str
        The items that values belong to, in the plural, such as ``runs``.
    ensemble : bool, optional
        Whether the range of values is that of an ensemble of starts.
    paper : float, optional
        The printed value; None if the paper gives only a picture or words.
    digits : int, optional
        Number of significant digits that the paper prints: 1 for "about 400".
    exact : bool, optional
        Whether only agreement in all printed digits counts, as for an order or a formula.
    behaviour : {"energy gained", "energy lost", "round-off"}, optional
        Qualitative behaviour that the paper shows with the number.
    expected : float, optional
        The correct value for the setting; None if only bounds are known.
    margin : float, optional
        The claim holds if the computed value differs from `expected` by at most this; by default by
        the relative tolerance `CLOSE`.
    low, high : float, optional
        Bounds within which the claim holds if there is no expected value.
    note : str
        Note on the setting, such as its difference from the printed one.
    figure : str, optional
        The picture that shows these runs, if the part is not a figure.
    """

    part: str
    text: str
    study: str
    experiment: str
    integrators: Labels
    measure: Measure
    step_size: float | None = None
    scan: dict[str, Any] = {}
    start: str | None = None
    until: float | None = None
    of: Arguments = {}
    summary: Literal["median", "largest", "least"] = "largest"
    each: str = "runs"
    ensemble: bool = False
    paper: float | None = None
    digits: int = 5
    exact: bool = False
    behaviour: Behaviour | None = None
    expected: float | None = None
    margin: float | None = None
    low: float = 0.0
    high: float = np.inf
    note: str = ""
    figure: str = ""

    @property
    def bounds_that_hold(self) -> tuple[float, float]:
        """Smallest and largest value for which the claim holds."""
        if self.expected is None:
            return self.low, self.high
        margin = CLOSE * abs(self.expected) if self.margin is None else self.margin
        return self.expected - margin, self.expected + margin

    def selected_runs(self, datasets: Datasets, factor: float) -> xr.Dataset:
        """The runs of the claim, ordered by integrator as in the claim.

        Parameters
        ----------
        datasets : dict of str to dict of str to xarray.Dataset
            Run tables by study and experiment.
        factor : float
            Factor by which all step sizes of the studies were multiplied.

        Returns
        -------
        xarray.Dataset

        Raises
        ------
        InputError
            If no run is selected.
        """
        dataset = datasets[self.study][self.experiment]
        chosen = np.ones(dataset.sizes["run"], dtype=bool)
        if self.step_size is not None:
            chosen &= np.isclose(dataset["step_size"].values, factor * self.step_size)
        wanted = self.scan | ({"initial_condition": self.start} if self.start else {})
        for name, value in wanted.items():
            chosen &= dataset[name].values == value
        labels = dataset["integrator"].values
        runs = np.concatenate([np.flatnonzero(chosen & (labels == x)) for x in self.integrators])
        if not len(runs):
            raise InputError(f"{self.study} has no run of {self.integrators!r} like {self}")
        selected = take_runs(dataset, runs)
        if self.until is not None:
            selected = selected.isel(time=selected["time"].values <= self.until * (1.0 + 1e-12))
        return selected

    def computed_row(self, datasets: Datasets, factor: float) -> Row:
        """Compute the `Row` of the claim from run tables; see `selected_runs`."""
        runs = self.selected_runs(datasets, factor)
        values = np.atleast_1d(self.measure(runs, **self.of))
        value = float(SUMMARIES[self.summary](values))
        least, most = float(np.min(values)), float(np.max(values))
        low, high = self.bounds_that_hold
        behaves, seen = (
            behaviour_of_runs(self.behaviour, runs, most) if self.behaviour else (None, "")
        )
        notes = "; ".join(filter(None, (self.note, seen)))
        found = None
        if self.paper is not None:
            found = agreement_with_printed_figure(
                self.paper, value, least, most,
                digits=self.digits, exact=self.exact, ensemble=self.ensemble, behaves=behaves,
            )  # fmt: skip
        return Row(
            part=self.part,
            claim=self.text,
            paper=self.paper,
            digits=None if self.paper is None else self.digits,
            here=value,
            agreement=found,
            least=least,
            most=most,
            low=low,
            high=high,
            setting=self._setting_in_words(runs, len(values)) + (f" ({notes})" if notes else ""),
            holds=bool(low <= value <= high),
        )

    def _setting_in_words(self, runs: xr.Dataset, count: int) -> str:
        """Integrators, step sizes or tolerances, scanned values, start, duration and summary."""
        words = [join_with_and(self.integrators), _step_sizes_in_words(runs)]
        words += [axis_values_in_words(self.scan)] if self.scan else []
        words += [self.start] if self.start else []
        words += [f"T = {runs['time'].values[-1]:g}"]
        words += [_samples_in_words(runs)] if self.measure is mean_error_of_samples else []
        words += [f"{self.summary} of {count} {self.each}"] if count > 1 else []
        return ", ".join(words)


def _step_sizes_in_words(runs: xr.Dataset) -> str:
    """``h = 0.01``, ``h = 0.01 … 0.5``, ``RelTol = 0.001``, or ``tol = 1e-06`` if absolute."""
    name, values = "h", runs["step_size"].values
    if np.isnan(values).all():
        described, values = integrator_descriptions(runs), runs["tolerance"].values
        options = [described[label]["options"] for label in np.unique(runs["integrator"].values)]
        name = "RelTol" if all("absolute_tolerance" in one for one in options) else "tol"
    low, high = np.nanmin(values), np.nanmax(values)
    return f"{name} = {low:g}" if low == high else f"{name} = {low:g} … {high:g}"


def _samples_in_words(runs: xr.Dataset) -> str:
    """``mean over every 5th step``, from the number of steps between samples."""
    interval = float(runs["time"].values[1] - runs["time"].values[0])
    steps = round(interval / runs["step_size"].values[0])
    return f"mean over {steps_in_words(steps)}"


class Paper(_Data):
    """A paper: its claims, and the experiments that its figures are drawn from.

    Parameters
    ----------
    name : str
        Name of the paper in ``sweep reproduce NAME``.
    title : str
    claims : tuple of Claim
    pictures : dict of str to tuple of str
        For each counterpart of a figure, the experiments with its runs, as ``study/experiment``.
    """

    name: str
    title: str
    claims: tuple[Claim, ...]
    pictures: dict[str, tuple[str, ...]] = {}

    def only(self, names: Sequence[str]) -> "Paper":
        """The paper reduced to the claims and pictures of some parts and figures.

        Parameters
        ----------
        names : sequence of str
            Parts of the paper, such as ``Example 1`` or ``example-1``, and pictures; ``figure-3``
            includes ``figure-3.1``. Without names, everything is included.

        Returns
        -------
        Paper

        Raises
        ------
        InputError
            If the paper has no such part or picture.
        """
        known = dict.fromkeys([*self.pictures, *(_as_name(claim.part) for claim in self.claims)])
        if unknown := [name for name in names if not any(_is_within(own, name) for own in known)]:
            raise InputError(
                f"the paper {self.name} has no {' and no '.join(map(repr, unknown))}; it has "
                f"{join_with_and(known)}",
                key="only",
            )

        def chosen(*own: str) -> bool:
            return not names or any(_is_within(one, name) for one in own for name in names)

        claims = tuple(claim for claim in self.claims if chosen(claim.part, claim.figure))
        pictures = {name: sources for name, sources in self.pictures.items() if chosen(name)}
        return self.model_copy(update={"claims": claims, "pictures": pictures})

    def experiments(self, pictures: bool = True) -> dict[str, set[str]]:
        """Names of the needed experiments by study, in the order of the claims."""
        found: dict[str, set[str]] = {}
        for claim in self.claims:
            found.setdefault(claim.study, set()).add(claim.experiment)
        for source in itertools.chain(*self.pictures.values()) if pictures else ():
            study, _, experiment = source.partition("/")
            found.setdefault(study, set()).add(experiment)
        return found


def _as_name(text: str) -> str:
    """``example-1`` for ``Example 1``, ``2.4-vi`` for ``2.4 (vi)``."""
    return re.sub(r"[\s()]+", "-", text.casefold()).strip("-")


def _is_within(own: str, name: str) -> bool:
    """Whether a part is the named one or within it, as ``figure-3.1`` is in ``figure-3``."""
    own, name = _as_name(own), _as_name(name)
    return own == name or own.startswith((f"{name}.", f"{name}-"))


def load_paper(name: str) -> Paper:
    """Read a paper from ``claims.toml`` in its folder of `sweep.papers`."""
    data = tomllib.loads(files("sweep.papers").joinpath(name, "claims.toml").read_text("utf-8"))
    groups = data.pop("group")
    claims = [group | claim for group in groups for claim in group.pop("claims", [{}])]
    return Paper.model_validate({"name": name, "claims": claims} | data)
