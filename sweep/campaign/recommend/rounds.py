"""Rounds of a recommendation: ordinary runs of one store on one cluster, and what they measured."""

from __future__ import annotations

import dataclasses
import math
import time
import tomllib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from integrators.errors import InputError
from integrators.precision import DOUBLE
from integrators.stepping.adaptive import SMALLEST_TOLERANCES
from sweep.campaign.recommend.bounds import GLOBAL
from sweep.campaign.recommend.confidence import rare_error
from sweep.campaign.run import run
from sweep.campaign.watch import Watcher
from sweep.clusters.stop import TIME_IS_UP
from sweep.errors import Interrupted
from sweep.store.open import open_study
from sweep.store.progress import Counter
from sweep.study import Study, schema
from sweep.study.experiment import IntegratorEntry, Reference
from sweep.study.initial_conditions.base import RandomStarts
from sweep.study.model import unite_studies
from sweep.study.time_axis import TimeAxis
from sweep.study.toml.writer import write_study_text

if TYPE_CHECKING:
    from distributed import Client

    from integrators.method import Integrator
    from sweep.campaign.recommend.bounds import Bound
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

    @property
    def _order(self) -> int:
        return self.integrator.order if isinstance(self.integrator.order, int) else 1

    def size(self, amount: float, part: Round) -> float:
        """The step size, in the study's unit of time, or the tolerance."""
        if self.adaptive:
            return float(LARGEST_TOLERANCE * amount**-self._order)
        return part.until / part.samples / amount

    def sizes_as_written(self, sizes: Sequence[float]) -> dict[str, list[float]]:
        """Sizes by the key that a study has them under."""
        return {"tolerance" if self.adaptive else "step_size": list(sizes)}

    def amount_in(self, part: Round, amount: float, before: Round) -> float:
        """The amount in a round that gives the size, or a little less, of that in another one."""
        if self.adaptive:
            return amount
        interval, other = part.until / part.samples, before.until / before.samples
        return max(1, math.ceil(amount * interval / other * (1 - 1e-9)))

    def finer(self, amount: float, factor: float, count: int) -> list[float]:
        """The next larger amounts, about a factor apart."""
        found: list[float] = []
        for _ in range(count):
            amount = amount * factor if self.adaptive else max(amount + 1, round(amount * factor))
            if self.adaptive and LARGEST_TOLERANCE * amount**-self._order < SMALLEST_TOLERANCE:
                break
            found.append(amount)
        return found

    def coarser(self, amount: float, factor: float, count: int) -> list[float]:
        """The next smaller amounts; fewer where there are no more."""
        found: list[float] = []
        for _ in range(count):
            amount = amount / factor if self.adaptive else min(amount - 1, round(amount / factor))
            if amount < 1:
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
    amount, size : float
        As of `Candidate`.
    ratios : ndarray, shape (starts,)
        Largest error divided by its bound, the maximum over errors; infinite where a run failed.
    ratio : float
        That which few new initial conditions would exceed; the largest, if none can be drawn.
    errors : dict of str to ndarray, shape (starts,)
        Largest value of each error.
    seconds, seconds_next : float
        CPU seconds of a run, the least of its repeats and the next to that; medians over starts.
    steps : float
        Number of steps of a run, the median.
    round_off : float
        Error of half a unit in the last place, divided by its bound; the maximum over errors.
    """

    candidate: Candidate
    part: Round
    amount: float
    size: float
    ratios: NDArray[np.float64]
    ratio: float
    errors: dict[str, NDArray[np.float64]]
    seconds: float
    seconds_next: float
    steps: float
    round_off: float

    @property
    def keeps(self) -> bool:
        """Whether the bounds are kept."""
        return self.ratio <= 1.0


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
    client : distributed.Client
    ends : float
        Of `time.monotonic`.
    """

    def __init__(
        self,
        study: Study,
        experiment: ResolvedExperiment,
        bounds: tuple[Bound, ...],
        store: Store,
        client: Client,
        ends: float,
    ) -> None:
        self.study, self.bounds, self.store = study, bounds, store
        self.experiment = experiment.grids[0]
        self._client, self._ends = client, ends
        self._top, self._table = _own_tables(study, experiment.name)
        self._asked: list[Study] = []
        self._quantities = tuple(name for bound in bounds for name in bound.quantities)
        self._is_referred = any(bound.error == GLOBAL for bound in bounds)
        conditions = self.experiment.initial_conditions
        random = sum(isinstance(own, RandomStarts) for own in conditions)
        self.drawn, self._ensembles = random > 0, max(1, random)

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of all runs of the store, and of their references."""
        return sum(one.cpu_seconds for one in Counter(self.store).count()) if self._asked else 0.0

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
        self._asked.append(self._study(part, asked, members, repeats))
        left = self._ends - time.monotonic()
        if left <= 0:
            raise OutOfBudget
        outcome = run(
            unite_studies(self._asked), self.store, self._client, max_time=left,
            watcher=Watcher(),
        )  # fmt: skip
        if not outcome.complete:
            if outcome.stopped == TIME_IS_UP:
                raise OutOfBudget
            raise Interrupted(outcome.stopped)
        return self._trials(part, asked, self._labels(members, before), repeats)

    def _study(
        self, part: Round, asked: Mapping[Candidate, Sequence[float]], members: int, repeats: int
    ) -> Study:
        """The study of some runs, and its text."""
        unit, library = self.experiment.time_unit, self.study.library
        entries, written = [], []
        for candidate, amounts in asked.items():
            sizes = [candidate.size(amount, part) for amount in amounts]
            written.append({"name": candidate.name} | candidate.sizes_as_written(sizes))
            entry = IntegratorEntry(
                candidate.name, candidate.name, candidate.integrator.options, library=library
            )
            entries.append(
                dataclasses.replace(entry, tolerances=tuple(sizes))
                if candidate.adaptive
                else dataclasses.replace(entry, step_sizes=tuple(size * unit for size in sizes))
            )
        conditions = self.experiment.initial_conditions
        axis = TimeAxis.uniform(part.until, part.samples).times_unit(unit)
        grid = dataclasses.replace(
            self.experiment,
            name=part.name,
            integrators=tuple(entries),
            step_sizes=(),
            tolerances=(),
            initial_conditions=tuple(
                dataclasses.replace(own, members=members) if isinstance(own, RandomStarts) else own
                for own in conditions
            ),
            time_axis=axis,
            record=self._quantities,
            reference=Reference(REFERENCE, SMALLEST_TOLERANCE, axis.duration)
            if self._is_referred
            else None,
            exclude=(),
            repeat=repeats,
            max_steps=MOST_STEPS,
        )
        table = self._experiment_table(part, written, self._quantities, repeats)
        table["max_steps"] = MOST_STEPS
        table["initial_condition"] = _with_members(table["initial_condition"], conditions, members)
        top = {"format": 1, "name": f"{self.study.name}-recommend"} | self._top
        text = write_study_text(top, [table])
        return Study(top["name"], (grid,), text=text, library=library)

    def answer_text(self, part: Round, sizes: Sequence[tuple[Candidate, float]]) -> str:
        """The text of a study of some integrators at their sizes, with the starts as asked for."""
        integrators = [
            {"name": candidate.name} | candidate.sizes_as_written([size])
            for candidate, size in sizes
        ]
        named = dataclasses.replace(part, name=self.experiment.name)
        record = self._table.get("record", [])
        record = [*record, *(own for own in self._quantities if own not in record)]
        table = self._experiment_table(named, integrators, record, REPEATS)
        top = {"format": 1, "name": f"{self.study.name}-recommended"} | self._top
        return write_study_text(top, [table])

    def _experiment_table(
        self,
        part: Round,
        integrators: Sequence[Mapping[str, Any]],
        record: Sequence[str],
        repeats: int,
    ) -> dict[str, Any]:
        """An ``[[experiment]]`` on the system and the initial conditions of the study's."""
        kept = ("system", "parameters", "time_unit", "initial_condition", "statistics", "max_steps")
        table = {"name": part.name} | {key: self._table[key] for key in kept if key in self._table}
        table |= {"integrators": list(integrators), "duration": part.until}
        table |= {"samples": part.samples, "record": list(record), "repeat": repeats}
        if self._is_referred:
            table["reference"] = {
                "integrator": REFERENCE, "tolerance": SMALLEST_TOLERANCE, "until": part.until
            }  # fmt: skip
        return table

    def _labels(self, members: int, first: int) -> list[str]:
        """Labels of the starts; from a member on, where `first` is one, of ensembles alone."""
        found: list[str] = []
        for own in self.experiment.initial_conditions:
            if isinstance(own, RandomStarts):
                found += own.labels_of_members(range(first, members))
            elif not first:
                found += own.labels
        return found

    def _trials(
        self,
        part: Round,
        asked: Mapping[Candidate, Sequence[float]],
        labels: Sequence[str],
        repeats: int,
    ) -> list[Trial]:
        """What the runs of some candidates and starts measured, by candidate and amount.

        Of no more runs than were asked for, so that a search that resumes decides as before.
        """
        dataset = open_study(self.store)[part.name].to_dataset()
        wanted = np.isin(dataset["initial_condition"].values, labels)
        wanted &= np.isin(dataset["integrator"].values, [own.name for own in asked])
        if "repeat" in dataset.coords:
            wanted &= dataset["repeat"].values < repeats
        dataset = dataset.isel(run=np.flatnonzero(wanted))
        every_step = self.experiment.statistics == "every_step"
        failed = dataset["status"].values > 0
        errors = {
            bound.error: np.where(failed, np.inf, bound.largest_errors(dataset, every_step))
            for bound in self.bounds
        }
        if schema.REFERENCE_ERROR in dataset:
            known = dataset[schema.REFERENCE_ERROR].values[~failed]
            self._check_references(dataset["time"].values, known)
        ratios = np.max([errors[bound.error] / bound.most for bound in self.bounds], axis=0)
        round_off = max(bound.round_off(dataset) / bound.most for bound in self.bounds)
        names, start = dataset["integrator"].values, dataset["initial_condition"].values
        step = dataset["step_size"].values / self.experiment.time_unit
        sizes = np.where(dataset["adaptive"].values, dataset["tolerance"].values, step)
        seconds, steps = dataset["cpu_time"].values, dataset["steps"].values
        found = []
        for candidate, amounts in asked.items():
            own = np.flatnonzero(names == candidate.name)
            for amount in amounts:
                size = candidate.size(amount, part)
                runs = own[np.isclose(sizes[own], size, rtol=1e-9, atol=0.0)]
                first, place = np.unique(start[runs], return_index=True)[1], np.argsort(start[runs])
                times = np.sort(seconds[runs][place].reshape(len(first), -1), axis=1)
                found.append(
                    Trial(
                        candidate=candidate,
                        part=part,
                        amount=amount,
                        size=size,
                        ratios=(own_ratios := ratios[runs[first]]),
                        ratio=rare_error(own_ratios) if self.drawn else float(own_ratios.max()),
                        errors={name: values[runs[first]] for name, values in errors.items()},
                        seconds=float(np.median(times[:, 0])),
                        seconds_next=float(np.median(times[:, :2][:, -1])),
                        steps=float(np.median(steps[runs])),
                        round_off=round_off,
                    )
                )
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


def _own_tables(study: Study, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plugins of a study, and the table of one of its experiments with the defaults."""
    read = tomllib.loads(study.text)
    table = next(table for table in read["experiment"] if table["name"] == name)
    top = {key: read[key] for key in ("plugins",) if key in read}
    return top, read.get("defaults", {}) | table


def _with_members(written: Any, conditions: Sequence[object], members: int) -> list[Any]:
    """Initial conditions as written, with so many members in each random ensemble."""
    listed = written if isinstance(written, list) else [written]
    return [
        own | {"random": members} if isinstance(start, RandomStarts) else own
        for own, start in zip(listed, conditions, strict=True)
    ]
