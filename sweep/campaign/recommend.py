"""Recommend an integrator: the cheapest that keeps errors below bounds until a time.

The search is successive halving (Jamieson and Talwalkar, AISTATS 2016). All integrators that fit
are run over a sixteenth of the time, at decreasing sizes a factor of two apart; the cheaper ones
over a quarter; and the last few over the whole time. Each round is an experiment of one store, run
by `sweep.campaign.run` on one cluster.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import operator
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

import sweep
from integrators.compiler.lanes import WIDTH
from integrators.errors import InputError, check_known, check_number
from integrators.html import html_text
from integrators.precision import DOUBLE
from integrators.stepping.adaptive import SMALLEST_TOLERANCES
from sweep.analysis.efficiency.timing import APART
from sweep.analysis.rows import Rows
from sweep.campaign.extend import exact_multiple_of_unit, with_members
from sweep.campaign.run import run
from sweep.campaign.watch import Watcher
from sweep.clusters.connect import start_or_connect
from sweep.clusters.spec import cluster_spec_from_arguments
from sweep.clusters.stop_request import TIME_IS_UP
from sweep.errors import Interrupted
from sweep.store import diff
from sweep.store.commit.ledger import check_files_are_there
from sweep.store.progress import status
from sweep.store.store import Store
from sweep.store.stored_studies import resolve_study_and_store
from sweep.study import Study, variables
from sweep.study.resolve import fitting_integrators
from sweep.study.run_table import RunTable, expand_experiment
from sweep.study.starts import RandomStarts
from sweep.study.study import parse_study, unite_studies
from sweep.study.toml import write_study_text
from sweep.text import count_with_noun

if TYPE_CHECKING:
    import pandas
    from distributed import Client

    from integrators.method import Integrator
    from sweep.clusters.spec import ClusterSpec
    from sweep.study.experiment import ResolvedExperiment
    from systems.base import System

ENERGY, MOMENTUM, GLOBAL = "energy_error", "momentum_error", "global_error"
KINDS = {ENERGY: "energy", MOMENTUM: "momentum_map"}
SMALLEST_TOLERANCE, LARGEST_TOLERANCE = SMALLEST_TOLERANCES[DOUBLE][0], 0.01
REFERENCE = "dop853"
RESOLVED = 0.1  # fraction of a bound below which the error of a reference must be
CHAOTIC = 0.01  # error of a reference above which chaos dominates
MOST_STEPS = 2**20  # of an adaptive run, and of other runs over the first part of the time
# Over the whole time, where errors are not known at every step: those of the study, within these.
FEWEST_SAMPLES, MOST_SAMPLES = 4, 16
REPEATS = 3  # in the study of a recommendation
STEPS_PER_SAMPLE = 20  # there, at least, so that samples take at most 5 % more steps
# Share of new initial conditions that may exceed the estimated error. With it, all errors of twenty
# new initial conditions are below the estimate in 19 of 20 cases.
RARE = 1 / 400
TAIL, LEAST_TAIL = 4, 3  # one error of so many belongs to the tail; least size of the tail
FARTHEST = 10.0  # times the largest error: the tail is not extrapolated farther
SEARCHED, HELD_BACK = 40, 40  # initial conditions, if they can be drawn
BLOCK = 3  # sizes that are tried together
ATTEMPTS = 3  # at a size at which the held-back starts keep the bounds
CONFIDENCE = 0.95
TIMINGS = 5  # of each finalist
HOPELESS = 4.0  # times a round's initial cost, at which integrators are given up
NEAR_ROUND_OFF = 1e6  # times half a unit in the last place: errors below may not fall further
AT_FLOOR = 0.5  # least power of the inverse cost with which errors fall near round-off
AMOUNT, RATIO, COST = map(operator.attrgetter, ("amount", "ratio", "seconds"))  # of trials


class OutOfBudget(Exception):
    """The time budget of a search is spent."""


# --- bounds on errors -----------------------------------------------------------------------------

ValuesOf = Callable[[str], NDArray[Any]]  # of runs in the array with a name


@dataclasses.dataclass(frozen=True)
class Bound:
    """An upper bound on an error.

    Parameters
    ----------
    error : {"energy_error", "momentum_error", "global_error"}
    most : float
        The bound, in `units`.
    units : str
    quantities : tuple of str
        Conserved quantities of the system, whose largest error counts; empty for the error against
        a reference.
    columns : tuple of str
        Names in the store of the variables of these quantities.
    """

    error: str
    most: float
    units: str
    quantities: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    @classmethod
    def of_system(cls, system: System, error: str, most: float) -> Bound:
        """The bound on an error of a system; `InputError` if the system has no such error."""
        most = check_number(error, most, above=0.0)
        if error == GLOBAL:
            (units, *others) = dict.fromkeys(own.units for own in system.state_errors)
            return cls(error, most, "1" if others else units)
        found = [own for own in system.quantities if own.kind == KINDS[error]]
        if not found:
            kinds = {own.kind for own in system.quantities}
            known = [GLOBAL, *(own for own, kind in KINDS.items() if kind in kinds)]
            raise InputError(
                f"{error} = {most:g}: {system.name} has no {KINDS[error].replace('_', ' ')} that "
                f"is conserved; it has {' and '.join(known).replace('_', ' ')}",
                key=error,
            )
        columns = [
            name
            for own in found
            for name in ([f"{own.name}_{axis}" for axis in own.components] or [own.name])
        ]
        return cls(error, most, found[0].units, tuple(own.name for own in found), tuple(columns))

    @property
    def in_words(self) -> str:
        """The error in words, such as ``energy error``."""
        return self.error.replace("_", " ")

    def in_units(self, value: float, digits: str = "g") -> str:
        """A value of the error with its unit, for messages."""
        return f"{value:{digits}} {self.units}".removesuffix(" 1")

    def largest_errors(self, values: ValuesOf, every_step: bool) -> NDArray[np.float64]:
        """The largest error of each run; that of the energy is over steps, if recorded.

        Infinite if the run failed, or an error is not finite.
        """
        ending = "_abs_max" if every_step and self.error == ENERGY else ""
        names = [f"{name}_error{ending}" for name in self.quantities] or [self.error]
        found = np.abs([values(name)[:, 1:] for name in names]).max(axis=(0, 2))
        ended = np.isfinite(found) & (values("status") <= 0)
        largest: NDArray[np.float64] = np.where(ended, found, np.inf)
        return largest

    def round_off(self, values: ValuesOf) -> float:
        """Error from rounding the quantities by half a unit in the last place.

        For errors of states, whose rows have norms of about 1, it is that of the number 1.
        """
        sizes = [np.abs(values(name)[:, 0]).max() for name in self.columns]
        return float(np.finfo(float).eps / 2 * max(sizes, default=1.0))


def rare_error(errors: ArrayLike) -> float:
    """Estimate the error that a share of `RARE` of new initial conditions exceeds.

    This is Weissman's quantile (J. Amer. Statist. Assoc. 73, 1978), with Hill's estimator for the
    tail of the largest quarter of the errors. It is at least the largest error, and at most
    `FARTHEST` times it.
    """
    errors = np.sort(np.asarray(errors, dtype=float))
    count, largest = len(errors), float(errors[-1])
    tail = max(LEAST_TAIL, count // TAIL)
    if count <= tail or not np.isfinite(largest) or not errors[-tail - 1] > 0:
        return largest
    logs = np.log(errors[-tail - 1 :])
    beyond = np.mean(logs[1:] - logs[0]) * np.log(tail / (count * RARE)) - (logs[-1] - logs[0])
    return largest * float(np.exp(np.clip(beyond, 0.0, np.log(FARTHEST))))


# --- what is run ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Round:
    """A round, which is one experiment of the store: integrators until a time from some starts.

    Parameters
    ----------
    name : str
        Name of the experiment.
    until : float
        End time in the study's unit of time.
    samples : int
        Number of equal sample intervals.
    factor : float
        Approximate ratio of neighbouring sizes at the end of the round.
    ahead : int
        Number of sizes that are tried together as long as none keeps the bounds.
    starts : int
        Number of initial conditions, if they can be drawn.
    repeats : int
        Number of repeats of each run, by which costs are compared.
    worth : float
        Multiple of the least cost up to which integrators continue.
    """

    name: str
    until: float
    samples: int
    factor: float
    ahead: int
    starts: int
    repeats: int
    worth: float


ROUNDS = (  # fractions of the time, with at most a sample for each sixteenth
    Round("sixteenth", 1 / 16, 1, factor=2.0, ahead=BLOCK, starts=8, repeats=2, worth=4.0),
    Round("quarter", 1 / 4, 4, factor=1.3, ahead=1, starts=8, repeats=2, worth=1.5),
    Round("whole", 1.0, 16, factor=1.08, ahead=1, starts=SEARCHED, repeats=1, worth=1.5),
)


@dataclasses.dataclass(frozen=True, eq=False)
class Candidate:
    """An integrator that fits the system, and the sizes that it can have.

    A size is a step size or a tolerance. It is given by an *amount* that is proportional to its
    cost: the steps in a sample interval or, for a tolerance, the factor by which the cost exceeds
    that of the largest tolerance.
    """

    name: str
    integrator: Integrator

    @property
    def adaptive(self) -> bool:
        """Whether its size is a tolerance, not a step size."""
        return self.integrator.adaptive

    def size(self, amount: float, part: Round) -> float:
        """The step size, in the study's unit of time, or the tolerance."""
        if not self.adaptive:
            return part.until / part.samples / amount
        order = self.integrator.order if isinstance(self.integrator.order, int) else 1
        return float(LARGEST_TOLERANCE * amount**-order)

    def further(self, part: Round, amount: float, factor: float, count: int = 1) -> list[float]:
        """The next amounts, each about `factor` times the one before; fewer if there are no more.

        With a factor below 1, these are smaller amounts, and larger sizes.
        """
        found: list[float] = []
        while len(found) < count:
            near = amount * factor
            if not self.adaptive:  # a whole number of steps
                near = max(amount + 1, round(near)) if factor > 1 else min(amount - 1, round(near))
            if near < 1 or (self.adaptive and self.size(near, part) < SMALLEST_TOLERANCE):
                break
            found.append(amount := near)
        return found


Asked = Mapping[Candidate, Sequence[float]]  # amounts


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
        CPU seconds of a run until the end: the least and the second least of its repeats, which
        alternate with those of other integrators; medians over the starts.
    steps : float
        Number of steps of such a run.
    errors : dict of str to float
        Largest value of each error, over all initial conditions that were tried.
    is_apart : bool
        Whether it is distinctly more expensive than the best: its time exceeds the second least
        time of the best, and the least by a tenth.
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


@dataclasses.dataclass(frozen=True, eq=False)
class Trial:
    """The results of the runs of a candidate at one size.

    Parameters
    ----------
    candidate : Candidate
    part : Round
    amount : float
        Amount as in `Candidate`.
    ratios : ndarray, shape (starts,)
        Largest error divided by its bound, the maximum over errors; infinite if the run failed.
    ratio : float
        Estimate that few new initial conditions would exceed; the largest ratio, if none can be
        drawn.
    round_off : float
        Error of half a unit in the last place, divided by its bound; the maximum over errors.
    choice : Choice
        The size, its cost and its errors.
    """

    candidate: Candidate
    part: Round
    amount: float
    ratios: NDArray[np.float64]
    ratio: float
    round_off: float
    choice: Choice

    @property
    def keeps(self) -> bool:
        """Whether the bounds are kept."""
        return self.ratio <= 1.0

    @property
    def seconds(self) -> float:
        """CPU seconds of a run."""
        return self.choice.seconds

    def amount_in(self, part: Round) -> float:
        """The amount in another round with the same size, or a size that is a little less."""
        if self.candidate.adaptive:
            return self.amount
        interval, own = part.until / part.samples, self.part.until / self.part.samples
        return max(1, math.ceil(self.amount * interval / own * (1 - 1e-9)))


@dataclasses.dataclass(eq=False)
class Bench:
    """Runs candidates on the system of an experiment, within a time budget.

    Parameters
    ----------
    study : Study
    experiment : ResolvedExperiment
        The experiment of the study whose system, initial conditions and statistics count.
    bounds : tuple of Bound
    store : Store
        Store of the search; runs that it has already are not computed again.
    connect : callable
        Returns the `distributed.Client` to compute on; called only if a run is missing.
    ends : float
        End of the time budget, by `time.monotonic`.
    """

    study: Study
    experiment: ResolvedExperiment
    bounds: tuple[Bound, ...]
    store: Store
    connect: Callable[[], Client]
    ends: float

    def __post_init__(self) -> None:
        self.experiment = self.experiment.grids[0]
        self._written = tomllib.loads(self.study.text)
        tables, name = self._written["experiment"], self.experiment.name
        own = next(table for table in tables if table["name"] == name)
        self._table = self._written.get("defaults", {}) | own
        self._asked: list[Study] = []
        self._quantities = tuple(name for bound in self.bounds for name in bound.quantities)
        self.every_step = self.experiment.statistics != variables.NO_STATISTICS
        self.is_referred = any(bound.error == GLOBAL for bound in self.bounds)
        random = sum(isinstance(own, RandomStarts) for own in self.experiment.initial_conditions)
        self.drawn, self._ensembles = random > 0, max(1, random)

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of all runs of the store, and of their references."""
        return sum(one.cpu_seconds for one in status(self.store)) if self._asked else 0.0

    def run(
        self, part: Round, asked: Asked, starts: int, first: int = 0, repeats: int = 1
    ) -> list[Trial]:
        """Run candidates at some amounts, from `starts` initial conditions if they can be drawn.

        The `Trial`s do not count the `first` initial conditions that were drawn.

        Raises
        ------
        OutOfBudget
        Interrupted
            At Ctrl-C, or if the process is told to end.
        InputError
            If a reference is not exact enough.
        """
        members, before = (math.ceil(own / self._ensembles) for own in (starts, first))
        study, left = self._study(part, asked, members, repeats), self.ends - time.monotonic()
        if left <= 0:
            raise OutOfBudget
        self._asked.append(study)
        if any(own.pending.any() for own in diff.diff_store_against_study(self.store, study)):
            whole, client = unite_studies(self._asked), self.connect()
            outcome = run(whole, self.store, client, max_time=left, watcher=Watcher())
            if not outcome.complete:
                stopped = outcome.stopped
                raise OutOfBudget if stopped == TIME_IS_UP else Interrupted(stopped)
        with self.store.naming_damage():
            return self._trials(part, asked, expand_experiment(study.experiments[0]), before)

    def keep_study(self) -> None:
        """Make all runs of this search the study of the store, which may have that of another."""
        study = unite_studies(self._asked)
        if self.store.anew().attributes["studies"] != [study.text]:
            run(study, self.store, watcher=Watcher())

    def _study(self, part: Round, asked: Asked, members: int, repeats: int) -> Study:
        """The study of some runs."""
        sizes = {own: [own.size(amount, part) for amount in of] for own, of in asked.items()}
        written = with_members(self._table["initial_condition"], self.experiment, members)
        changes = {"repeat": repeats, "max_steps": MOST_STEPS, "initial_condition": written}
        name, record = f"{self.study.name}-recommend", self._quantities
        text = self._text(name, part, sizes, record, changes)
        # States in files, whose directory is not known, have been read already.
        drawn = changes | {"initial_condition": {"random": 1, "seed": 0}}
        plugins = {own.name: own for own in self.study.plugins}
        read = parse_study(self._text(name, part, sizes, record, drawn), plugins=plugins)
        starts = tuple(
            dataclasses.replace(own, members=members) if isinstance(own, RandomStarts) else own
            for own in self.experiment.initial_conditions
        )
        grid = dataclasses.replace(read.experiments[0], initial_conditions=starts)
        return read.replaced(experiments=(grid,), text=text)

    def answer_text(self, part: Round, found: Sequence[Trial]) -> str:
        """The text of a study with some integrators at their sizes, and the original starts.

        If only the end was sampled, it has as many samples as the original, or so few that the
        sizes, which must divide the intervals, become only a little less.
        """
        part = dataclasses.replace(part, name=self.experiment.name)
        if part.samples == 1:
            most = int(min(own.choice.steps for own in found)) // STEPS_PER_SAMPLE
            samples = max(1, min(self.experiment.time_axis.samples, most))
            part = dataclasses.replace(part, samples=samples)
        sizes = {own.candidate: [own.candidate.size(own.amount_in(part), part)] for own in found}
        record = dict.fromkeys([*self._table.get("record", []), *self._quantities])
        name = f"{self.study.name}-recommended"
        return self._text(name, part, sizes, record, {"repeat": REPEATS})

    def _text(
        self, name: str, part: Round, sizes: Asked, record: Iterable[str], changes: dict[str, Any]
    ) -> str:
        """The text of a study with some integrators on the system."""
        kept = ("system", "parameters", "time_unit", "initial_condition", "statistics", "max_steps")
        table = {"name": part.name} | {key: self._table[key] for key in kept if key in self._table}
        table["integrators"] = [
            {"name": own.name, "tolerance" if own.adaptive else "step_size": list(of)}
            for own, of in sizes.items()
        ]
        table |= {"duration": part.until, "samples": part.samples, "record": list(record)} | changes
        if self.is_referred:
            exact = {"integrator": REFERENCE, "tolerance": SMALLEST_TOLERANCE, "until": part.until}
            table["reference"] = exact
        plugins = {key: of for key, of in self._written.items() if key == "plugins"}
        return write_study_text({"format": 1, "name": name} | plugins, [table])

    def _trials(self, part: Round, asked: Asked, table: RunTable, before: int) -> list[Trial]:
        """The trials of the runs in a table, by candidate and amount.

        Other runs of the store do not count, so that a resumed search decides as before. Neither do
        the first `before` members of ensembles and, if there are any, single starts.
        """
        counts = [
            np.arange(own.size) >= (before if isinstance(own, RandomStarts) else before * own.size)
            for own in table.experiment.initial_conditions
        ]
        ids = table.run_id.reshape(table.experiment.repeat, -1, len(table.starts))
        ids = ids[:, :, np.concatenate(counts)]
        store = self.store.anew()
        check_files_are_there(store, part.name)
        arrays = store.arrays_of_group(part.name, store.unfolded(part.name))
        row_of = {run_id: row for row, run_id in enumerate(arrays["run_id"].values())}
        rows = np.array([row_of[run_id] for run_id in ids.ravel()])

        @functools.cache
        def values(name: str) -> NDArray[Any]:
            return arrays[name].read_rows(rows)

        if variables.REFERENCE_ERROR in arrays:
            known = values(variables.REFERENCE_ERROR)[values("status") <= 0]
            self._check_references(arrays["time"].values(), known)
        # Axes: repeats, sizes of candidates, starts.
        cpu_time, steps = (values(name).reshape(ids.shape) for name in ("cpu_time", "steps"))
        cpu_time = np.median(np.sort(cpu_time, axis=0), axis=2)
        errors = {
            own.error: own.largest_errors(values, self.every_step).reshape(ids.shape)[0]
            for own in self.bounds
        }
        ratios = np.max([errors[bound.error] / bound.most for bound in self.bounds], axis=0)
        round_off = max(bound.round_off(values) / bound.most for bound in self.bounds)
        pairs = [(candidate, amount) for candidate, of in asked.items() for amount in of]
        found = []
        for at, (candidate, amount) in enumerate(pairs):
            size, adaptive = candidate.size(amount, part), candidate.adaptive
            choice = Choice(
                integrator=candidate.name,
                order=candidate.integrator.order,
                adaptive=adaptive,
                size=size if adaptive else size * self.experiment.time_unit,
                seconds=float(cpu_time[0, at]),
                seconds_next=float(cpu_time[:2, at][-1]),
                steps=float(np.median(steps[:, at])),
                errors={name: float(values[at].max()) for name, values in errors.items()},
                at_largest=not candidate.further(part, amount, 1 / part.factor),
            )
            ratio = rare_error(ratios[at]) if self.drawn else float(ratios[at].max())
            found.append(Trial(candidate, part, amount, ratios[at], ratio, round_off, choice))
        return found

    def _check_references(self, times: NDArray[np.float64], errors: NDArray[np.float64]) -> None:
        """Raise `InputError` unless the errors of references are well below the bound."""
        (most,) = (bound.most for bound in self.bounds if bound.error == GLOBAL)
        unresolved = ~(errors[:, 1:] <= RESOLVED * most).all(axis=0)
        if not unresolved.any():
            return
        uncertain, last = np.nanmax(errors[:, 1:]), times[int(np.argmax(unresolved))]
        remedies = ["a shorter time" if last == 0 else f"a time until {last:.15g}"]
        if uncertain < CHAOTIC:
            least = 1.05 * uncertain / RESOLVED  # a margin for rounding to two digits
            remedies.append(f"a bound of at least {least:.1e}")
        raise InputError(
            f"{GLOBAL} = {most:g} cannot be told until t = {times[-1]:g}: the reference itself is "
            f"uncertain by {uncertain:.1e}; expected {' or '.join(remedies)}",
            key=GLOBAL,
        )


# --- the search -----------------------------------------------------------------------------------


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
        Whether energy errors are maxima over steps, not only over the samples.
    best : Choice
    others : tuple of Choice
        Other integrators that were run until the end and keep the bounds, the cheapest first.
    stages : tuple of Stage
        The rounds of the search.
    searched : int
        Number of initial conditions with which the size was chosen.
    held_back : int
        Number of further initial conditions that verified the result; may be 0.
    above : int
        Number of these at which a bound was exceeded.
    share : float
        Lower confidence limit of the share of new initial conditions that keep the bounds.
    confidence : float
        Confidence level of that limit.
    together : int
        Number of runs that are integrated together in lanes; CPU times are per run.
    in_time : bool
        Whether the search ended within the budget.
    search_seconds : float
        CPU seconds of all runs in the store, including earlier searches.
    text : str
        TOML text of a study with the best integrator and the runners-up.
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

    __repr__ = __str__

    def _repr_html_(self) -> str:
        kept = " and ".join(bound.in_words for bound in self.bounds)
        said = f"{self.best.integrator} on {self.system}, {kept} until {self.until:g}"
        return html_text(said) + Rows([self.best, *self.others])._repr_html_()


def recommend(
    study: str | Path | Store | Study,
    *,
    energy_error: float | None = None,
    global_error: float | None = None,
    momentum_error: float | None = None,
    until: float | None = None,
    experiment: str | None = None,
    budget: float = 600.0,
    keep: str | Path | Store | None = None,
    client: Client | None = None,
    cluster: ClusterSpec | str | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    trust_plugins: bool = False,
    say: Callable[[str], object] = lambda line: None,
) -> Recommendation:
    """Find the integrator and step size that keep errors below bounds at the least cost.

    All integrators that fit the system are candidates, with a fixed step or a tolerance. They are
    run over a part of the time, at decreasing sizes, until they keep the bounds or others keep them
    at far less cost. The cheaper ones are run longer, and the last few until the end. The cheapest
    of these is verified with initial conditions that were held back.

    Parameters
    ----------
    study : str, Path, Store or Study
        A file, the name of a packaged study, a store or a study. Its system, parameters, initial
        conditions, statistics and number of samples (from 4 to 16) are used; its integrators and
        step sizes are not.
    energy_error, global_error, momentum_error : float, optional
        Bounds in the system's units, at least one. The error of energy or a momentum is its largest
        change; the global error is that of the state against a reference.
    until : float, optional
        End time in the study's unit of time; by default its duration.
    experiment : str, optional
        Name of the experiment; required if the study has several.
    budget : float, optional
        Seconds that the search may take.
    keep : str, Path or Store, optional
        Store for the runs of the search, which all workers must see. A repeated search resumes from
        it. By default a temporary directory.
    client, cluster, workers, scheduler, trust_plugins : optional
        As in `sweep.run`.
    say : callable, optional
        Called with lines of text on the progress.

    Returns
    -------
    Recommendation

    Raises
    ------
    InputError
        If no bound is given, the system has no such error, no integrator keeps the bounds (then
        the message has the least error and its cost), the experiment scans parameters, or the
        budget ends before the search has an answer.
    StudyError
        If the study is not valid.
    Interrupted
        On Ctrl-C. With `keep`, the same search resumes.
    """
    ends = time.monotonic() + check_number("budget", budget, above=0.0)
    spec = cluster_spec_from_arguments(cluster, workers, scheduler)
    read, _ = resolve_study_and_store(study, trust_plugins=trust_plugins)
    chosen = _chosen_experiment(read, experiment)
    (system, *others) = chosen.make_systems()
    if others:
        scanned = ", ".join(axis.name for axis in chosen.scan)
        raise InputError(
            f"experiment {chosen.name!r} scans {scanned}, and the answer is for one system: give "
            "'parameters' a value instead",
            key="scan",
        )
    asked = {ENERGY: energy_error, GLOBAL: global_error, MOMENTUM: momentum_error}
    bounds = tuple(
        Bound.of_system(system, error, most) for error, most in asked.items() if most is not None
    )
    if not bounds:
        raise InputError(
            "no error to keep below a bound: give `energy_error=1e-9`, for example, `global_error` "
            "or `momentum_error`"
        )
    duration = exact_multiple_of_unit(chosen.duration, chosen.time_unit)
    duration = duration if until is None else check_number("until", until, above=0.0)
    fitting = fitting_integrators([system], chosen.library)
    candidates = [Candidate(name, integrator) for name, integrator in fitting.items()]
    with contextlib.ExitStack() as stack:
        how = f": the same search continues from the runs in {keep}"
        if keep is None:
            say(f"no store to keep runs in (keep): they are lost if {budget:g} s are not enough")
            keep = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "search.zarr"
            how = ", or a store to `keep` the runs in, from which the same search continues"
        connect = functools.cache(lambda: client or stack.enter_context(start_or_connect(spec)))
        bench = Bench(read, chosen, bounds, Store.at(keep).absolute(), connect, ends)
        search = _Search(bench, duration, say)
        try:
            search.find(candidates)
            search.verify()
        except OutOfBudget:
            search.in_time = False
            say("the budget ended")
            if not search.finalists:
                said = f"the budget of {budget:g} s ended before there was an answer; give more"
                raise InputError(f"{said}{how}", key="budget") from None
        bench.keep_study()
        return search.recommendation(system.time_units)


class _Search:
    """A search for the cheapest candidate, and its verification.

    Attributes
    ----------
    finalists : list of Trial
        Trials of candidates that were run until the end and keep the bounds, the cheapest first.
    in_time : bool
    """

    def __init__(self, bench: Bench, duration: float, say: Callable[[str], object]) -> None:
        self._bench, self._say = bench, say
        samples = min(MOST_SAMPLES, max(FEWEST_SAMPLES, bench.experiment.time_axis.samples))
        if bench.every_step and all(own.error == ENERGY for own in bench.bounds):
            samples = 1
        # Names of experiments contain these, so that a store can keep searches that differ in them.
        errors = [own.error.removesuffix("_error") for own in bench.bounds]
        time = f"{duration:.12g}".replace(".", "_").replace("+", "")
        fewer = [str(samples)] if 1 < samples < MOST_SAMPLES else []
        name = "-".join([bench.experiment.name, *errors, time, *fewer])
        self._rounds = [
            dataclasses.replace(
                own,
                name=f"{name}-{own.name}",
                until=duration * own.until,
                samples=max(1, own.samples * samples // MOST_SAMPLES),
            )
            for own in ROUNDS
        ]
        self._whole = self._rounds[-1]
        self._begun: Mapping[Candidate, list[Trial]] = {}  # trials of the first round
        self._stages: list[Stage] = []
        self._held: Trial | None = None  # the first finalist, with held-back starts
        self._attempt, self.in_time = 1, True
        self.finalists: list[Trial] = []

    def find(self, candidates: Sequence[Candidate]) -> None:
        """Find the `finalists` among candidates.

        Raises
        ------
        OutOfBudget
        InputError
            If none keeps the bounds.
        """
        bench, (first, *_) = self._bench, self._rounds
        if bench.is_referred:
            self._say(f"references until t = {self._time(self._whole):g}")
            sure = Candidate(REFERENCE, bench.study.library.integrator(REFERENCE, {}))
            bench.run(self._whole, {sure: [float(BLOCK)]}, SEARCHED + HELD_BACK)
        kept = self._cheapest_that_keep(first, [{own: [1.0] for own in candidates}])
        for before, part in itertools.pairwise(self._rounds):
            kept = self._cheapest_that_keep(part, _groups_that_go_on(before, part, kept))
        self._choose(kept, SEARCHED)

    def verify(self) -> None:
        """Verify the cheapest finalist with initial conditions that were held back.

        If it exceeds a bound, the sizes of all finalists are chosen again with these initial
        conditions as well, and the cheapest is verified with new ones. Cheaper candidates that were
        dropped before are tried as well.

        Raises
        ------
        OutOfBudget
        InputError
            If no finalist keeps the bounds.
        """
        whole, used = self._whole, SEARCHED
        while self._bench.drawn:
            best, starts = self.finalists[0], used + HELD_BACK
            self._say(f"{best.candidate.name} from initial conditions that were held back")
            asked = {best.candidate: [best.amount]}
            (self._held,) = self._bench.run(whole, asked, starts, first=used)
            if np.all(self._held.ratios <= 1.0) or self._attempt == ATTEMPTS:
                return
            tried = self._follow(whole, _amounts_of(self.finalists), starts)
            least = min(map(COST, _coarsest_of_each(tried)), default=math.inf)
            ends = {own: _coarsest_kept(of) or of[-1] for own, of in self._begun.items()}
            behind = {
                own: [last.amount_in(whole)]
                for own, last in ends.items()
                if own not in tried and last.seconds < least
            }
            tried |= self._follow(whole, behind, starts, least)
            if not (kept := _coarsest_of_each(tried)):
                raise self._no_integrator_does(tried)
            self._choose(kept, starts)
            self._attempt, used = self._attempt + 1, starts

    def _time(self, part: Round) -> float:
        """The end of a round in the system's unit of time."""
        return part.until * self._bench.experiment.time_unit

    def _cheapest_that_keep(self, part: Round, groups: Iterable[Asked]) -> list[Trial]:
        """The trials of the largest sizes that keep the bounds, one per candidate, cheapest first.

        Groups are tried in order until one has such trials; `InputError` if none has.
        """
        for asked in groups:
            integrators = count_with_noun(len(asked), "integrator")
            self._say(f"{integrators} until t = {self._time(part):g}")
            tried = self._follow(part, asked, part.starts)
            self._begun = self._begun or tried
            kept = _coarsest_of_each(tried)
            self._stages.append(Stage(self._time(part), len(tried), len(kept)))
            if kept:
                return sorted(kept, key=COST)
        raise self._no_integrator_does(tried)

    def _follow(
        self, part: Round, asked: Asked, starts: int, least: float = math.inf
    ) -> dict[Candidate, list[Trial]]:
        """Try sizes of candidates until each keeps the bounds, and the next larger size does not.

        A candidate is given up if others keep the bounds, or are at round-off, at far less cost, or
        if `least` is far below its cost; after the first round also if it costs far more than at
        its beginning. Candidates that have cost least continue first.
        """
        tried: dict[Candidate, list[Trial]] = {own: [] for own in asked}
        begun = math.inf if part is self._rounds[0] else 0.0
        while asked:
            for trial in self._bench.run(part, asked, starts, repeats=part.repeats):
                tried[trial.candidate].append(trial)
            done = _coarsest_of_each(tried) or [
                trials[-1] for trials in tried.values() if _is_at_floor(trials)
            ]
            begun = begun or max(own.seconds for trials in tried.values() for own in trials)
            limit = part.worth * min(least, min(map(COST, done), default=HOPELESS * begun))
            more = {own: _amounts_to_try(trials, limit) for own, trials in tried.items()}
            # The others wait; perhaps they are not needed.
            spent = {own: max(map(COST, tried[own])) for own, amounts in more.items() if amounts}
            turn = HOPELESS * min(spent.values(), default=0.0)
            asked = {own: more[own] for own in spent if spent[own] <= turn}
        return tried

    def _choose(self, kept: Sequence[Trial], starts: int) -> None:
        """Choose the finalists from trials, timed by alternating repeated runs, cheapest first."""
        timed = self._bench.run(self._whole, _amounts_of(kept), starts, repeats=TIMINGS)
        self.finalists, self._held = sorted(timed, key=COST), None

    def _no_integrator_does(self, tried: Mapping[Candidate, Sequence[Trial]]) -> InputError:
        """The `InputError` if no candidate keeps the bounds, with the least error and its cost.

        Raises
        ------
        OutOfBudget
        """
        whole, bounds = self._whole, self._bench.bounds
        least = sorted((min(trials, key=RATIO) for trials in tried.values()), key=RATIO)
        asked = {own.candidate: [own.amount_in(whole)] for own in least[:BLOCK]}
        best = min(self._bench.run(whole, asked, SEARCHED), key=lambda own: own.ratios.max())
        kept = " and ".join(f"{own.in_words} below {own.in_units(own.most)}" for own in bounds)
        problem = f"no integrator keeps the {kept} until t = {self._time(whole):g}"
        if not np.isfinite(best.ratios.max()):
            return InputError(f"{problem}: all runs failed")
        choice = best.choice
        values = " and ".join(own.in_units(choice.errors[own.error], ".1e") for own in bounds)
        return InputError(
            f"{problem}: of those run until then the least is {values}, by {choice.integrator} at "
            f"{'tolerance' if choice.adaptive else 'step size'} {choice.size:.3g}, in "
            f"{choice.seconds:.2g} s of CPU time a run"
        )

    def recommendation(self, time_units: str) -> Recommendation:
        """The `Recommendation`."""
        bench, whole, held = self._bench, self._whole, self._held
        best, *others = (own.choice for own in self.finalists)
        told = max(best.seconds_next, best.seconds * (1 + APART))
        searched, count, above = len(self.finalists[0].ratios), 0, 0
        if held:
            count, above = len(held.ratios), int(np.sum(~(held.ratios <= 1.0)))
            of_both = {name: max(of, held.choice.errors[name]) for name, of in best.errors.items()}
            best = dataclasses.replace(best, errors=of_both)
        return Recommendation(
            study=bench.study.name,
            experiment=bench.experiment.name,
            system=bench.experiment.system,
            bounds=bench.bounds,
            until=self._time(whole),
            time_units=time_units,
            samples=whole.samples,
            every_step=bench.every_step,
            best=best,
            others=tuple(dataclasses.replace(own, is_apart=own.seconds > told) for own in others),
            stages=tuple(self._stages),
            searched=searched,
            held_back=count,
            above=above,
            share=_share_that_keeps(count - above, count, self._attempt),
            confidence=CONFIDENCE,
            together=1 if best.adaptive else min(searched, WIDTH),
            in_time=self.in_time,
            search_seconds=bench.cpu_seconds,
            text=bench.answer_text(whole, self.finalists[:BLOCK]),
        )


def _share_that_keeps(kept: int, count: int, attempt: int) -> float:
    """Lower confidence limit of the share of initial conditions that keep the bounds.

    This is the one-sided lower limit of Clopper and Pearson (Biometrika 26, 1934). Each attempt,
    counted from 1, uses half of the remaining error probability, so that all limits together hold
    with `CONFIDENCE`.
    """
    confidence = 1.0 - (1.0 - CONFIDENCE) * 0.5**attempt
    return float(betaincinv(kept, count - kept + 1, 1.0 - confidence)) if kept else 0.0


def _groups_that_go_on(before: Round, part: Round, kept: Sequence[Trial]) -> Iterator[Asked]:
    """The sizes to try in a round, near those that kept the bounds in the round before.

    Yields those of the cheaper candidates first, and those of the others in case no cheaper one
    keeps the bounds.
    """
    most = sum(own.seconds <= before.worth * kept[0].seconds for own in kept)
    for group in filter(None, (kept[:most], kept[most:])):
        asked = {}
        for own in group:
            amount, factor = own.amount_in(part), part.factor**BLOCK
            coarser, finer = (own.candidate.further(part, amount, f) for f in (1 / factor, factor))
            asked[own.candidate] = [*coarser, amount, *finer]
        yield asked


def _amounts_of(trials: Iterable[Trial]) -> Asked:
    """The amounts of trials, one of each candidate."""
    return {own.candidate: [own.amount] for own in trials}


def _coarsest_of_each(tried: Mapping[Candidate, Sequence[Trial]]) -> list[Trial]:
    """The trial of the largest size for each candidate that keeps the bounds."""
    return [own for trials in tried.values() if (own := _coarsest_kept(trials))]


def _coarsest_kept(trials: Sequence[Trial]) -> Trial | None:
    """The trial of the largest size that keeps the bounds; None if none does."""
    return min((own for own in trials if own.keeps), key=AMOUNT, default=None)


def _is_at_floor(trials: Sequence[Trial]) -> bool:
    """Whether errors are near round-off and no longer fall with the size."""
    known = sorted((own for own in trials if np.isfinite(own.ratio)), key=AMOUNT)
    if len(known) < BLOCK or not known[-1].ratio < NEAR_ROUND_OFF * known[-1].round_off:
        return False
    before, last = known[-BLOCK], known[-1]
    return bool(last.ratio > before.ratio * (before.amount / last.amount) ** AT_FLOOR)


def _amounts_to_try(trials: Sequence[Trial], limit: float) -> list[float]:
    """The next amounts of a candidate to try, by exponential search (Bentley and Yao, 1976).

    Sizes change by factors of two until one keeps the bounds and another does not; then sizes
    between the two are tried. Empty if these are neighbours, or further search is hopeless.
    """
    finest = max(trials, key=AMOUNT)
    candidate, part = finest.candidate, finest.part
    if kept := _coarsest_kept(trials):
        larger = max((own.amount for own in trials if own.amount < kept.amount), default=None)
        if larger is None:
            return candidate.further(part, kept.amount, 0.5, part.ahead)
        factor = max(part.factor, (kept.amount / larger) ** (1 / (BLOCK + 1)))
        between = candidate.further(part, larger, factor, BLOCK)
        return [own for own in between if own < kept.amount / part.factor**0.5]
    steps = 0 if candidate.adaptive else finest.amount * part.samples
    if finest.seconds > limit or _is_at_floor(trials) or steps > MOST_STEPS:
        return []
    return candidate.further(part, finest.amount, 2.0, part.ahead)


def _chosen_experiment(study: Study, name: str | None) -> ResolvedExperiment:
    """The experiment with a name; without a name, the only one of the study."""
    known = {own.name: own for own in study.experiments}
    if name is not None:
        check_known("experiment", name, known, "experiment", f"of {study.name}")
    elif len(known) > 1:
        raise InputError(
            f"study {study.name!r} has {len(known)} experiments: give one of {', '.join(known)}",
            key="experiment",
        )
    chosen: ResolvedExperiment = known[name or study.experiments[0].name]
    expand_experiment(chosen)  # or refuse
    return chosen
