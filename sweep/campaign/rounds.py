"""Rounds of a recommendation: ordinary runs in one store on one cluster, and their results."""

from __future__ import annotations

import dataclasses
import math
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from integrators.errors import InputError, check_number
from integrators.precision import DOUBLE
from integrators.stepping.adaptive import SMALLEST_TOLERANCES
from sweep.campaign.extend import with_members
from sweep.campaign.run import run
from sweep.campaign.watch import Watcher
from sweep.clusters.stop_request import TIME_IS_UP
from sweep.errors import Interrupted
from sweep.store import diff
from sweep.store.open import open_study
from sweep.store.progress import status
from sweep.study import Study, variables
from sweep.study.experiment import IntegratorEntry, Reference
from sweep.study.run_table import RunTable, expand_experiment
from sweep.study.starts import RandomStarts
from sweep.study.study import unite_studies
from sweep.study.text import write_study_text
from sweep.study.time_axis import TimeAxis

if TYPE_CHECKING:
    import xarray as xr
    from distributed import Client

    from integrators.method import Integrator
    from sweep.store.store import Store
    from sweep.study.experiment import ResolvedExperiment
    from systems.base import System

ENERGY, MOMENTUM, GLOBAL = "energy_error", "momentum_error", "global_error"
KINDS = {ENERGY: "energy", MOMENTUM: "momentum_map"}
SMALLEST_TOLERANCE, LARGEST_TOLERANCE = SMALLEST_TOLERANCES[DOUBLE][0], 0.01
REFERENCE = "dop853"
RESOLVED = 0.1  # fraction of a bound below which the error of a reference must be
CHAOTIC = 0.01  # error of a reference above which chaos dominates
MOST_STEPS = 2**20  # of an adaptive run, and of other runs over the first part of the time
REPEATS = 3  # in the study of a recommendation
STEPS_PER_SAMPLE = 20  # there, at least, so that samples take at most 5 % more steps
# Share of new initial conditions that may exceed the estimated error. With it, all errors of twenty
# new initial conditions are below the estimate in 19 of 20 cases.
RARE = 1 / 400
TAIL, LEAST_TAIL = 4, 3  # one error of so many belongs to the tail; least size of the tail
FARTHEST = 10.0  # times the largest error: the tail is not extrapolated farther


class OutOfBudget(Exception):
    """The time budget of a search is spent."""


# --- bounds on errors -----------------------------------------------------------------------------


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

    def largest_errors(self, dataset: xr.Dataset, every_step: bool) -> NDArray[np.float64]:
        """The largest error of each run; that of the energy is over steps, if recorded.

        Infinite if the run failed, or an error is not finite.
        """
        ending = "_abs_max" if every_step and self.error == ENERGY else ""
        names = [f"{name}_error{ending}" for name in self.quantities] or [self.error]
        found = np.abs([dataset[name].values[:, 1:] for name in names]).max(axis=(0, 2))
        ended = np.isfinite(found) & (dataset["status"].values <= 0)
        largest: NDArray[np.float64] = np.where(ended, found, np.inf)
        return largest

    def round_off(self, dataset: xr.Dataset) -> float:
        """Error from rounding the quantities by half a unit in the last place.

        For errors of states, whose rows have norms of about 1, it is that of the number 1.
        """
        sizes = [np.abs(dataset[name].values[:, 0]).max() for name in self.columns]
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

    def amount_in(self, part: Round, amount: float, before: Round) -> float:
        """The amount in a round with the same size as an amount in another, or a little less."""
        if self.adaptive:
            return amount
        interval, other = part.until / part.samples, before.until / before.samples
        return max(1, math.ceil(amount * interval / other * (1 - 1e-9)))

    def finer(self, part: Round, amount: float, factor: float, count: int = 1) -> list[float]:
        """The next larger amounts, about a factor apart; fewer if there are no more."""
        found: list[float] = []
        while len(found) < count:
            amount = amount * factor if self.adaptive else max(amount + 1, round(amount * factor))
            if self.adaptive and self.size(amount, part) < SMALLEST_TOLERANCE:
                break
            found.append(amount)
        return found

    def coarser(self, amount: float, factor: float, count: int = 1) -> list[float]:
        """The next smaller amounts, as in `finer`."""
        found: list[float] = []
        while len(found) < count:
            amount = amount / factor if self.adaptive else min(amount - 1, round(amount / factor))
            if amount < 1:
                break
            found.append(amount)
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
        """The amount in another round that gives the same size."""
        return self.candidate.amount_in(part, self.amount, self.part)


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
        return self._trials(part, asked, expand_experiment(study.experiments[0]), before)

    def keep_study(self) -> None:
        """Make all runs of this search the study of the store, which may have that of another."""
        study = unite_studies(self._asked)
        if self.store.anew().attributes["studies"] != [study.text]:
            run(study, self.store, watcher=Watcher())

    def _study(self, part: Round, asked: Asked, members: int, repeats: int) -> Study:
        """The study of some runs, and its text."""
        unit, library = self.experiment.time_unit, self.study.library
        sizes = {own: [own.size(amount, part) for amount in of] for own, of in asked.items()}
        entries = [
            IntegratorEntry(
                own.name,
                own.name,
                own.integrator.options,
                step_sizes=None if own.adaptive else tuple(size * unit for size in of),
                tolerances=tuple(of) if own.adaptive else None,
                library=library,
            )
            for own, of in sizes.items()
        ]
        axis = TimeAxis.uniform(part.until, part.samples).times_unit(unit)
        exact = Reference(REFERENCE, SMALLEST_TOLERANCE, axis.duration)
        grid = dataclasses.replace(
            self.experiment,
            name=part.name,
            integrators=tuple(entries),
            step_sizes=(),
            tolerances=(),
            initial_conditions=tuple(
                dataclasses.replace(own, members=members) if isinstance(own, RandomStarts) else own
                for own in self.experiment.initial_conditions
            ),
            time_axis=axis,
            record=self._quantities,
            reference=exact if self.is_referred else None,
            exclude=(),
            repeat=repeats,
            max_steps=MOST_STEPS,
        )
        starts = with_members(self._table["initial_condition"], self.experiment, members)
        changes = {"repeat": repeats, "max_steps": MOST_STEPS, "initial_condition": starts}
        name = f"{self.study.name}-recommend"
        text = self._text(name, part, sizes, self._quantities, changes)
        return Study.of(name=name, experiments=(grid,), description="", text=text, library=library)

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
        dataset = open_study(self.store)[part.name].to_dataset().set_index(run="run_id")
        dataset = dataset.sel(run=ids.ravel())
        if variables.REFERENCE_ERROR in dataset:
            known = dataset[variables.REFERENCE_ERROR].values[dataset["status"].values <= 0]
            self._check_references(dataset["time"].values, known)
        # Axes: repeats, sizes of candidates, starts.
        cpu_time, steps = (
            dataset[name].values.reshape(ids.shape) for name in ("cpu_time", "steps")
        )
        cpu_time = np.median(np.sort(cpu_time, axis=0), axis=2)
        errors = {
            own.error: own.largest_errors(dataset, self.every_step).reshape(ids.shape)[0]
            for own in self.bounds
        }
        ratios = np.max([errors[bound.error] / bound.most for bound in self.bounds], axis=0)
        round_off = max(bound.round_off(dataset) / bound.most for bound in self.bounds)
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
                at_largest=not candidate.coarser(amount, part.factor),
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
