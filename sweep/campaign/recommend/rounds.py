"""Rounds of a recommendation: ordinary runs of one store on one cluster, and what they measured."""

from __future__ import annotations

import dataclasses
import math
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from integrators.errors import InputError
from integrators.precision import DOUBLE
from integrators.stepping.adaptive import SMALLEST_TOLERANCES
from sweep.campaign.extend import with_members
from sweep.campaign.recommend.confidence import rare_error
from sweep.campaign.recommend.recommendation import GLOBAL, Bound, Choice
from sweep.campaign.run import run
from sweep.campaign.watch import Watcher
from sweep.clusters.stop_request import TIME_IS_UP
from sweep.errors import Interrupted
from sweep.store import diff
from sweep.store.open import open_study
from sweep.store.progress import ProgressCounter
from sweep.study import Study, variables
from sweep.study.experiment import IntegratorEntry, Reference
from sweep.study.run_table import RunTable, expand_experiment
from sweep.study.starts import RandomStarts
from sweep.study.study import unite_studies
from sweep.study.text import write_study_text
from sweep.study.time_axis import TimeAxis

if TYPE_CHECKING:
    from distributed import Client

    from integrators.method import Integrator
    from sweep.store.store import Store
    from sweep.study.experiment import ResolvedExperiment

SMALLEST_TOLERANCE, LARGEST_TOLERANCE = SMALLEST_TOLERANCES[DOUBLE][0], 0.01
REFERENCE = "dop853"
RESOLVED = 0.1  # fraction of a bound below which the error of a reference must be
MOST_STEPS = 2**20  # of an adaptive run, and over the first part of the time of others
REPEATS = 3  # in the study of an answer
CHAOTIC = 0.01  # error of a reference, beyond which chaos dominates


class OutOfBudget(Exception):
    """The time that a search may take is over."""


@dataclasses.dataclass(frozen=True)
class Round:
    """An experiment of the store: integrators until a time, from some initial conditions.

    Parameters
    ----------
    name : str
        Of the experiment.
    until : float
        In the study's unit of time.
    samples : int
        Number of equal sample intervals.
    factor : float
        About that of neighbouring sizes, in the end.
    ahead : int
        Number of sizes that are tried together where none keeps the bounds yet.
    starts : int
        Number of initial conditions, where they can be drawn.
    repeats : int
        Of each run, by which costs are compared.
    worth : float
        Times the least cost, up to which integrators go on.
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

    A size is a step size or a tolerance. It is given by an *amount*, to which its cost is
    proportional: the steps in a sample interval, or what a tolerance makes of the largest one.
    """

    name: str
    integrator: Integrator

    @property
    def adaptive(self) -> bool:
        """Whether its size is a tolerance, not a step size."""
        return self.integrator.adaptive

    def _tolerance(self, amount: float) -> float:
        order = self.integrator.order if isinstance(self.integrator.order, int) else 1
        return float(LARGEST_TOLERANCE * amount**-order)

    def size(self, amount: float, part: Round) -> float:
        """The step size, in the study's unit of time, or the tolerance."""
        if self.adaptive:
            return self._tolerance(amount)
        return part.until / part.samples / amount

    def entry(self, sizes: Sequence[float]) -> dict[str, Any]:
        """Its entry in a study, with these sizes."""
        return {"name": self.name, "tolerance" if self.adaptive else "step_size": list(sizes)}

    def amount_in(self, part: Round, amount: float, before: Round) -> float:
        """The amount in a round that gives the size, or a little less, of that in another one."""
        if self.adaptive:
            return amount
        interval, other = part.until / part.samples, before.until / before.samples
        return max(1, math.ceil(amount * interval / other * (1 - 1e-9)))

    def finer(self, amount: float, factor: float, count: int) -> list[float]:
        """The next larger amounts, about a factor apart; fewer where there are no more."""
        if self.adaptive:
            return self._next_amounts(amount, count, lambda own: own * factor)
        return self._next_amounts(amount, count, lambda own: max(own + 1, round(own * factor)))

    def coarser(self, amount: float, factor: float, count: int) -> list[float]:
        """The next smaller amounts, as of `finer`."""
        if self.adaptive:
            return self._next_amounts(amount, count, lambda own: own / factor)
        return self._next_amounts(amount, count, lambda own: min(own - 1, round(own / factor)))

    def _next_amounts(
        self, amount: float, count: int, following: Callable[[float], float]
    ) -> list[float]:
        found: list[float] = []
        for _ in range(count):
            amount = following(amount)
            if amount < 1 or (self.adaptive and self._tolerance(amount) < SMALLEST_TOLERANCE):
                break
            found.append(amount)
        return found


@dataclasses.dataclass(frozen=True, eq=False)
class Trial:
    """What the runs of a candidate at one size measured.

    Parameters
    ----------
    candidate : Candidate
    part : Round
    amount : float
        As of `Candidate`.
    ratios : ndarray, shape (starts,)
        Largest error divided by its bound, the maximum over errors; infinite where a run failed.
    ratio : float
        That which few new initial conditions would exceed; the largest, if none can be drawn.
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
        Of its own; runs that it has already are not computed again.
    connect : callable
        The `distributed.Client` to compute on; called where a run is not there yet.
    ends : float
        Of `time.monotonic`.
    """

    study: Study
    experiment: ResolvedExperiment
    bounds: tuple[Bound, ...]
    store: Store
    connect: Callable[[], Client]
    ends: float

    def __post_init__(self) -> None:
        self.experiment = self.experiment.grids[0]
        read, name = tomllib.loads(self.study.text), self.experiment.name
        own = next(table for table in read["experiment"] if table["name"] == name)
        self._table = read.get("defaults", {}) | own
        self._plugins = {key: of for key, of in read.items() if key == "plugins"}
        self._asked: list[Study] = []
        self._quantities = tuple(name for bound in self.bounds for name in bound.quantities)
        self._is_referred = any(bound.error == GLOBAL for bound in self.bounds)
        random = sum(isinstance(own, RandomStarts) for own in self.experiment.initial_conditions)
        self.drawn, self._ensembles = random > 0, max(1, random)

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of all runs of the store, and of their references."""
        return (
            sum(one.cpu_seconds for one in ProgressCounter(self.store).count())
            if self._asked
            else 0.0
        )

    def run(
        self,
        part: Round,
        asked: Mapping[Candidate, Sequence[float]],
        starts: int,
        first: int = 0,
        repeats: int = 1,
    ) -> list[Trial]:
        """Run candidates at some amounts, from so many starts where they can be drawn.

        With `first` the `Trial`s are of those that were drawn after so many alone.

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
            outcome = run(
                unite_studies(self._asked), self.store, self.connect(), max_time=left,
                watcher=Watcher(),
            )  # fmt: skip
            if not outcome.complete:
                stopped = outcome.stopped
                raise OutOfBudget if stopped == TIME_IS_UP else Interrupted(stopped)
        return self._trials(part, asked, expand_experiment(study.experiments[0]), before)

    def keep_study(self) -> None:
        """Make the study of all these runs that of the store, which another search may have had."""
        study = unite_studies(self._asked)
        if self.store.anew().attributes["studies"] != [study.text]:
            run(study, self.store, watcher=Watcher())

    def _study(
        self, part: Round, asked: Mapping[Candidate, Sequence[float]], members: int, repeats: int
    ) -> Study:
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
            reference=exact if self._is_referred else None,
            exclude=(),
            repeat=repeats,
            max_steps=MOST_STEPS,
        )
        starts = with_members(self._table["initial_condition"], self.experiment, members)
        changes = {"max_steps": MOST_STEPS, "initial_condition": starts}
        name = f"{self.study.name}-recommend"
        text = self._text(name, part, sizes, self._quantities, repeats, **changes)
        return Study(name, (grid,), text=text, library=library)

    def answer_text(self, part: Round, found: Sequence[Trial]) -> str:
        """The text of a study of some integrators at their sizes, with the starts as asked for."""
        sizes = {own.candidate: [own.candidate.size(own.amount, part)] for own in found}
        part = dataclasses.replace(part, name=self.experiment.name)
        record = dict.fromkeys([*self._table.get("record", []), *self._quantities])
        return self._text(f"{self.study.name}-recommended", part, sizes, record, REPEATS)

    def _text(
        self,
        name: str,
        part: Round,
        sizes: Mapping[Candidate, Sequence[float]],
        record: Iterable[str],
        repeats: int,
        **changes: Any,
    ) -> str:
        """The text of a study of some integrators, on the system and from its starts."""
        kept = ("system", "parameters", "time_unit", "initial_condition", "statistics", "max_steps")
        table = {"name": part.name} | {key: self._table[key] for key in kept if key in self._table}
        table |= {"integrators": [own.entry(of) for own, of in sizes.items()]}
        table |= {"duration": part.until, "samples": part.samples, "record": list(record)}
        table |= {"repeat": repeats} | changes
        if self._is_referred:
            table["reference"] = {
                "integrator": REFERENCE, "tolerance": SMALLEST_TOLERANCE, "until": part.until
            }  # fmt: skip
        return write_study_text({"format": 1, "name": name} | self._plugins, [table])

    def _trials(
        self,
        part: Round,
        asked: Mapping[Candidate, Sequence[float]],
        table: RunTable,
        before: int,
    ) -> list[Trial]:
        """What the runs of a table measured, by candidate and amount.

        Those that the store has beside them do not count, so that a search that resumes decides as
        before; nor do the first members of ensembles, `before` others, and then starts of others.
        """
        counts = [
            np.arange(own.size) >= (before if isinstance(own, RandomStarts) else before * own.size)
            for own in table.experiment.initial_conditions
        ]
        ids = table.run_id.reshape(table.experiment.repeat, -1, len(table.starts))
        ids = ids[:, :, np.concatenate(counts)]
        dataset = open_study(self.store)[part.name].to_dataset().set_index(run="run_id")
        dataset = dataset.sel(run=ids.ravel())
        every_step = self.experiment.statistics == "every_step"
        failed = dataset["status"].values > 0
        errors = {
            bound.error: np.where(failed, np.inf, bound.largest_errors(dataset, every_step))
            for bound in self.bounds
        }
        if variables.REFERENCE_ERROR in dataset:
            known = dataset[variables.REFERENCE_ERROR].values[~failed]
            self._check_references(dataset["time"].values, known)
        ratios = np.max([errors[bound.error] / bound.most for bound in self.bounds], axis=0)
        round_off = max(bound.round_off(dataset) / bound.most for bound in self.bounds)
        unit, found = self.experiment.time_unit, []
        pairs = [(candidate, amount) for candidate, of in asked.items() for amount in of]
        methods = np.arange(ids.size).reshape(ids.shape).swapaxes(0, 1)  # their repeats and starts
        for (candidate, amount), runs in zip(pairs, methods, strict=True):
            size, own = candidate.size(amount, part), ratios[runs[0]]
            times = np.sort(dataset["cpu_time"].values[runs], axis=0)
            choice = Choice(
                integrator=candidate.name,
                order=candidate.integrator.order,
                adaptive=candidate.adaptive,
                size=size if candidate.adaptive else size * unit,
                seconds=float(np.median(times[0])),
                seconds_next=float(np.median(times[:2][-1])),
                steps=float(np.median(dataset["steps"].values[runs])),
                errors={name: float(values[runs[0]].max()) for name, values in errors.items()},
                at_largest=not candidate.coarser(amount, part.factor, 1),
            )
            ratio = rare_error(own) if self.drawn else float(own.max())
            found.append(Trial(candidate, part, amount, own, ratio, round_off, choice))
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
            least = 1.05 * uncertain / RESOLVED  # which two digits do not round below
            remedies.append(f"a bound of at least {least:.1e}")
        raise InputError(
            f"{GLOBAL} = {most:g} cannot be told until t = {times[-1]:g}: the reference itself is "
            f"uncertain by {uncertain:.1e}; expected {' or '.join(remedies)}",
            key=GLOBAL,
        )
