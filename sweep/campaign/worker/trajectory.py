"""Integrate runs, and compute the variables of the run table from their states, without storage.

An `Integration` integrates runs of one system by one integrator, which differ in their initial
state, together in lanes. It advances them by some steps, or to a sample, from the start
or from a checkpoint; what it returns, `sweep.campaign.worker.commit` commits.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import systems
from integrators import precision
from integrators import status as status_of
from integrators.compiler.elements import DOUBLE
from integrators.compiler.kernels import IS_COMPILED
from integrators.diagnostics.exponents import first_directions, steps_taken
from integrators.diagnostics.structure import (
    AdaptiveMap,
    Unfinished,
    defect_of_map,
    defect_of_steps,
    errors_of_return,
)
from integrators.errors import InputError
from integrators.forms.forms import form_in_precise_numbers
from integrators.forms.phase_spaces import phase_space
from integrators.stepping import adaptive, formulations
from integrators.stepping import batch as fixed
from sweep.campaign.worker.conservation import conserving_samples, quantity_rows
from sweep.plugins.registry import BUILT_IN, Library
from sweep.study import variables
from sweep.study.experiment import followed_problem

if TYPE_CHECKING:
    from integrators.compiler.elements import Element
    from integrators.diagnostics.exponents import Followed
    from integrators.method import Integrator
    from integrators.stepping.problem import Problem
    from sweep.study.run_table import States
    from sweep.study.time_axis import TimeAxis
    from systems.base import System

    Integrated = fixed.Batch | adaptive.Solutions

BYTES_TOGETHER = 2**22  # of states that are integrated and recorded at once; more leave the caches
Columns = dict[str, np.ndarray]  # by names of `sweep.study.variables`, the first axis is the runs
ReferenceStates = tuple[np.ndarray, np.ndarray]  # states, and their error


@dataclass(frozen=True)
class NamedComponent:
    """Name and settings from which a worker makes a system or an integrator.

    Parameters
    ----------
    name : str
    settings : tuple of (str, object)
        Parameters of the system, or options of the integrator, sorted.
    library : sweep.plugins.registry.Library
        Library that has it, with the code of plugins.
    """

    name: str
    settings: tuple[tuple[str, Any], ...]
    library: Library = BUILT_IN

    @classmethod
    def of(
        cls, name: str, settings: Mapping[str, Any], library: Library = BUILT_IN
    ) -> NamedComponent:
        """Make one from a dict of parameters or options."""
        return cls(name, tuple(sorted(settings.items())), library)


def make_system(named: NamedComponent) -> System:
    """Make the system that a `NamedComponent` names."""
    return named.library.system(named.name, dict(named.settings))


def make_integrator(named: NamedComponent) -> Integrator:
    """Make the integrator that a `NamedComponent` names."""
    return named.library.integrator(named.name, dict(named.settings))


@dataclass(frozen=True)
class Recipe:
    """Samples, quantities and statistics that are recorded of every run of an experiment.

    Parameters
    ----------
    time_axis : TimeAxis
    record : tuple of str
    statistics : str
        ``every_step``, ``every 10`` or ``none``.
    reference_samples : int
        Leading sample times for which there is a reference; 0 without one.
    max_steps : int
        Largest number of steps of an adaptive run, see `integrators.stepping.adaptive.StepBound`.
    """

    time_axis: TimeAxis
    record: tuple[str, ...]
    statistics: str
    reference_samples: int
    max_steps: int = adaptive.MOST_STEPS

    @property
    def bound(self) -> adaptive.StepBound:
        """The `StepBound` of an adaptive run."""
        return adaptive.StepBound(float(self.times[-1]), self.max_steps)

    @cached_property
    def times(self) -> NDArray[np.float64]:
        """Times of the samples, shape (samples + 1,)."""
        return self.time_axis.times


@dataclass(eq=False)
class Batch:
    """Runs of one integration that differ in their initial state, and their common progress.

    Parameters
    ----------
    initial : ndarray, shape (runs, rows, 3)
        As `Integration.starts` gives them.
    step_size : float
    steps_per_sample : int
        Steps in an interval of the time axis; without meaning for an adaptive integrator.
    tolerance : float
        Of an adaptive integrator, else NaN.
    sample : int
        Index of the last known sample; -1 at the start, where none is.
    checkpoints : ndarray, shape (runs, size), or None
        State of the integrator, at `sample` or on the way to the next one, see
        `integrators.stepping.checkpoint`; None at the start.
    valid_samples : ndarray of int, shape (runs,)
        Number of samples so far at which a run is finite.
    cpu, wall : ndarray, shape (runs,)
        Seconds of the integration so far.
    after : ndarray, shape (runs, size)
        State of the computation that follows the last sample: of the integrator on the way back to
        the start, if a reversal error is recorded, or of the `AdaptiveMap` for a symplectic defect.
        Empty before.

    Attributes
    ----------
    status : ndarray of int, shape (runs,)
        See `integrators.status`.
    counters : dict of str to ndarray, shape (runs,)
        Steps, evaluations and iterations so far, by the names of `sweep.study.variables`.
    part : float
        Part of the way from `sample` to the next one, below 1; after the last one, of what follows.
    tried : int
        Number of steps that the last call of `Integration.advance` took or attempted.
    """

    initial: np.ndarray
    step_size: float
    steps_per_sample: int
    tolerance: float
    sample: int
    checkpoints: np.ndarray | None
    valid_samples: np.ndarray
    cpu: np.ndarray
    wall: np.ndarray
    after: np.ndarray
    status: np.ndarray = field(init=False)
    counters: Columns = field(init=False, default_factory=dict)
    part: float = field(init=False, default=0.0)
    tried: int = field(init=False, default=0)

    @classmethod
    def begin(
        cls, initial: States, step_size: float, steps_per_sample: int, tolerance: float
    ) -> Batch:
        """Runs at their start; parameters as in the class."""
        no, after = np.zeros(len(initial), dtype=np.int64), np.zeros((len(initial), 0))
        cpu, wall = np.zeros((2, len(initial)))
        return cls(initial, step_size, steps_per_sample, tolerance, -1, None, no, cpu, wall, after)

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Whether each run is finite at `sample`."""
        found: NDArray[np.bool_] = self.valid_samples > self.sample
        return found


class Integration:
    """Integrates runs of one system by one integrator, and records their quantities.

    Parameters
    ----------
    recipe : Recipe
    system, integrator : NamedComponent

    Attributes
    ----------
    problem : Problem or AdaptiveProblem
        The integrator bound to the system.
    followed : Followed or None
        The problem with tangent vectors along its steps; None where the record needs none.
    extendable : bool
        Whether runs can continue from their end, since the end does not determine their steps.
    """

    def __init__(self, recipe: Recipe, system: NamedComponent, integrator: NamedComponent) -> None:
        self.recipe, record = recipe, recipe.record
        self._system, self._library = make_system(system), system.library
        self._integrator = made = make_integrator(integrator)
        self.problem: Any = made.bind(self._system)
        self._element: Element = self.problem.elements[0]  # double or double-double
        self.followed = followed_problem(self.problem, made, self._system.form, record)
        self.extendable = made.counted is None
        self._statistics = variables.steps_between(recipe.statistics)
        # Whether runs must keep, to their tolerance, what the system conserves.
        self._checks_invariants = made.method.adaptive and self._element is DOUBLE
        # What follows the last sample: the way back, or the map whose symplectic defect is measured
        # by runs; that of fixed steps is one of the first step.
        self._goes_back = variables.REVERSAL_ERROR in record and not made.adaptive
        self._measures_map = variables.SYMPLECTIC_DEFECT in record and made.adaptive

    @cached_property
    def _problem_in_doubles(self) -> Any:
        """The problem in double precision, with the same map except for round-off."""
        return self._integrator.bind(self._system, precision.DOUBLE)

    @property
    def checkpoint_size(self) -> int:
        """Numbers in the checkpoint of a run: of the problem, and of its tangent vectors."""
        own: int = self.problem.checkpoint_size
        return own + (self.followed.checkpoint_size if self.followed else 0)

    def starts(self, initial: States, known: States | None = None) -> States:
        """Initial states in the integrator's arithmetic.

        Parameters
        ----------
        initial : ndarray, shape (runs, rows, 3)
            In doubles.
        known : ndarray, shape (runs, rows, 3, 2), optional
            The same in double-double, NaN if only the doubles are known. Then the state is
            projected onto the manifold in double-double.

        Returns
        -------
        ndarray
            The doubles; with a last axis of high and low for an integrator in double-double.
        """
        if self._element is DOUBLE:
            return initial
        return starts_in_double_double(self._system, initial, known)

    def _doubles(self, values: np.ndarray) -> np.ndarray:
        """The doubles nearest to numbers in the integrator's arithmetic."""
        return values[..., 0] if self._element.parts else values

    @cached_property
    def _times(self) -> np.ndarray:
        """Times of the samples: floats, or precise numbers of an integrator in double-double."""
        axis = self.recipe.time_axis
        if self._element is DOUBLE:
            return self.recipe.times
        interval = precision.to_precise(float(axis.duration)) / axis.intervals
        times: np.ndarray = self._marks.astype(object) * interval
        return times

    @cached_property
    def _marks(self) -> NDArray[np.int64]:
        """Number of intervals until each sample, of which every segment reads a few."""
        return self.recipe.time_axis.marks

    def _exact_step(self, runs: Batch) -> precision.Number:
        """The step size of runs in the integrator's arithmetic.

        In double-double it is the precise quotient of duration and number of steps, which the
        double `step_size` approximates.
        """
        if self._element is DOUBLE or self._integrator.adaptive:
            return runs.step_size
        axis = self.recipe.time_axis
        steps = axis.intervals * int(runs.steps_per_sample)
        return precision.to_precise(float(axis.duration)) / steps

    # --- progress of runs --------------------------------------------------------------------

    def stage(self, runs: Batch) -> int:
        """The next steps: 0 for preparation, 1 up to the last sample, 2 after it."""
        if runs.sample == self.recipe.time_axis.samples:
            return 2
        return int(self._takes_steps(runs.checkpoints))

    def _takes_steps(self, checkpoints: np.ndarray | None) -> bool:
        """Whether the preparation that the integrator needs is done."""
        return self.extendable or self.problem.is_prepared(checkpoints)

    def is_over(self, runs: Batch) -> bool:
        """Whether runs are at the last sample, and all that follows it is done."""
        follows = self._goes_back or self._measures_map
        is_known = self.stage(runs) == 2 and bool(runs.counters)  # not so where it just resumed
        return is_known and not (follows and (runs.part or not runs.after.size))

    # --- steps -------------------------------------------------------------------------------

    def advance(
        self,
        runs: Batch,
        last: int,
        reference: ReferenceStates | None = None,
        most: int | None = None,
    ) -> Columns:
        """Integrate runs up to the sample `last`, or some steps or samples of the way.

        For runs at the last sample of all, it computes what follows: the way back for a recorded
        reversal error, or the map for a recorded symplectic defect.

        Parameters
        ----------
        runs : Batch
            Changed in place: afterwards it has the sample that is reached.
        last : int
        reference : tuple of ndarray, optional
            Reference states (runs, samples, rows, 3), with a last axis of high and low if they are
            in double-double, and their error (runs, samples).
        most : int, optional
            Number of steps after which to stop, between two samples too.

        Returns
        -------
        dict of str to ndarray, shape (runs, samples, …)
            Variables over time, at the samples after `runs.sample` that are reached; none while it
            prepares the first step.
        """
        is_at_end, first, stood = self.stage(runs) == 2, max(runs.sample, 0), runs.checkpoints
        last = min(last, first + max(1, BYTES_TOGETHER // runs.initial.nbytes))
        self.compile(len(runs.initial))  # before the clock starts
        found = self._integrate(runs, slice(first, last + 1), most)
        runs.checkpoints, runs.part = found.checkpoints, found.part
        if not self._takes_steps(found.checkpoints):
            return {}
        sampled = np.arange(first, first + found.states.shape[1])
        valid, columns = self._record(runs, found, sampled, reference)
        if self.followed is not None:
            marks = np.arange(first, last + 1)
            series, ends = self._exponents_and_megno(
                runs, self.followed, marks, len(sampled), stood, most
            )
            columns |= series
            runs.checkpoints = np.concatenate([found.checkpoints, ends], axis=1)
        for values in columns.values():
            values[~valid] = np.nan
        new = slice(runs.sample + 1 - first, None)  # without the first one if it was known
        runs.valid_samples = runs.valid_samples + valid[:, new].sum(axis=1)
        runs.sample, runs.status = int(sampled[-1]), found.report[:, status_of.STATUS_ROW]
        if is_at_end:
            self._advance_after_last_sample(runs, most)
        return {name: values[:, new] for name, values in columns.items()}

    def compile(self, count: int) -> None:
        """Compile or load the kernels for `count` runs: in lanes, or for one alone."""
        load = self.problem.kernels if self._integrator.adaptive else self.problem.trajectory
        load(self.problem.elements[count > 1])

    def _integrate(self, runs: Batch, span: slice, most: int | None) -> Integrated:
        """Take the steps between some samples, which count as the time of runs."""
        problem, bound, kept = self.problem, self.recipe.bound, runs.checkpoints
        known = None if kept is None else kept[:, : problem.checkpoint_size]
        runs.tried, began = 0, _cpu_and_wall_seconds()
        found: Integrated
        if self._integrator.adaptive:
            known, runs.tried = adaptive.prepare(
                problem, runs.initial, bound, runs.tolerance, known, most
            )
            most, began = 0 if most is not None and runs.tried else most, _cpu_and_wall_seconds()
            found = adaptive.run_adaptive(
                problem, runs.initial, self._times[span], runs.tolerance, self._statistics,
                checkpoints=known, bound=bound, most=most,
            )  # fmt: skip
            runs.counters = found.counters
        else:
            counts = runs.steps_per_sample * np.diff(self._marks[span])
            found = fixed.run_batch(
                problem, runs.initial, self._exact_step(runs), counts, len(counts),
                self._statistics, checkpoints=known, most=most,
            )  # fmt: skip
            runs.counters = fixed.counters_of(
                self._integrator, problem, found.report, found.steps, runs.step_size
            ) | {"rejected_steps": np.zeros(len(runs.initial), dtype=np.int64)}
        cpu, wall = (_cpu_and_wall_seconds() - began) / len(runs.initial)
        runs.cpu, runs.wall = runs.cpu + cpu, runs.wall + wall
        runs.tried += found.tried
        return found

    def _exponents_and_megno(
        self,
        runs: Batch,
        followed: Followed,
        samples: NDArray[np.intp],
        reached: int,
        stood: np.ndarray | None,
        most: int | None,
    ) -> tuple[Columns, np.ndarray]:
        """Lyapunov exponents and MEGNO over samples, as requested by the record.

        Parameters
        ----------
        runs : Batch
        followed : Followed
        samples : ndarray of int
            Up to which the runs were to advance, and the one from which they did.
        reached : int
            How many of these they have reached.
        stood : ndarray, shape (runs, size), or None
            The checkpoints from which they went on; None at the start.
        most : int, optional

        Returns
        -------
        columns : dict of str to ndarray, shape (runs, reached)
            NaN at the first sample.
        ends : ndarray, shape (runs, size)
            Checkpoints of the tangent vectors.
        """
        own, count = self.problem.checkpoint_size, followed.count
        found = np.full((len(runs.initial), reached, count + 1), np.nan)
        ends = np.full((len(runs.initial), followed.checkpoint_size), np.nan)
        for i, state in enumerate(runs.initial):
            try:
                directions = first_directions(self._system.form, state, count)
            except InputError:  # an equilibrium has no tangent plane
                continue
            known, tangents = (None, None) if stood is None else np.split(stood[i], [own])
            if self._integrator.adaptive:
                steps, until, _ = steps_taken(
                    self.problem, state, self._times[samples], runs.tolerance, known,
                    self.recipe.bound, most,
                )  # fmt: skip
                series = followed.run_along(state, directions, steps, until, tangents)
            else:
                counts = runs.steps_per_sample * np.diff(self._marks[samples])
                series = followed.run(
                    state, directions, runs.step_size, counts, tangents, most=most
                )
            found[i, 1:], ends[i], _ = series
        exponents = variables.exponents_of_record(self.recipe.record)
        columns = dict(zip(exponents, np.moveaxis(found, 2, 0), strict=False))
        if variables.MEGNO in self.recipe.record:
            columns[variables.MEGNO] = found[:, :, -1]
        return columns, ends

    # --- what follows the last sample --------------------------------------------------------

    def maps(
        self, initial: States, tolerance: float, after: np.ndarray, most: int | None = None
    ) -> list[AdaptiveMap]:
        """The maps, computed so far, whose symplectic defects are measured.

        Parameters
        ----------
        initial, tolerance, after
            As of `Batch`.
        most : int, optional
            As of `AdaptiveMap`.
        """
        if not self._measures_map:
            return []
        return [
            AdaptiveMap(
                self._problem_in_doubles, state, self.recipe.times[1], tolerance, stood, most
            )
            for state, stood in zip(self._doubles(initial), after, strict=True)
        ]

    def _advance_after_last_sample(self, runs: Batch, most: int | None) -> None:
        """Compute all or some steps of what follows the last sample."""
        if self._measures_map:
            (image,) = maps = self.maps(runs.initial, runs.tolerance, runs.after, most)
            with contextlib.suppress(Unfinished):
                self.measure_structure(runs.initial, None, np.nan, maps)
            runs.after, runs.part = image.standing[np.newaxis], image.part
            runs.tried += image.tried
        elif self._goes_back:
            steps = self.recipe.time_axis.intervals * runs.steps_per_sample
            assert runs.checkpoints is not None  # after the start
            h, ends = self._exact_step(runs), states_of_checkpoints(self.problem, runs.checkpoints)
            batch = fixed.run_batch(
                self.problem, ends, -h, steps, 1, start_time=steps * h,
                checkpoints=runs.after if runs.after.size else None, most=most,
            )  # fmt: skip
            runs.after, runs.part = batch.checkpoints, batch.part
            runs.tried += batch.tried

    def load_structure(self, initial: States, step_size: precision.Number) -> None:
        """Compile, or load, the kernels by which `measure_structure` follows a fixed step."""
        form: Any = self._system.form
        is_wanted = variables.SYMPLECTIC_DEFECT in self.recipe.record and not self._measures_map
        has_tangents = IS_COMPILED and self._integrator.method.tangents
        if is_wanted and has_tangents and form.bodies <= variables.MOST_BODIES:
            (state,), step = self._doubles(initial), float(precision.to_doubles(step_size))
            fixed.run_ends(self._problem_in_doubles, state[None], step, 1, lanes=False)
            fixed.run_tangents(self._problem_in_doubles, state, state[None], step, 1)

    def measure_structure(
        self,
        initial: States,
        back: States | None,
        step_size: precision.Number,
        maps: Sequence[AdaptiveMap],
    ) -> Columns:
        """Measure the recorded quantities of `variables.STRUCTURE`: defects and reversal errors.

        Parameters
        ----------
        initial, back : ndarray, shape (runs, rows, 3)
            States at the start, and at the end of the way back, in the integrator's arithmetic;
            None of an adaptive integrator.
        step_size : float
            NaN of an adaptive integrator.
        maps : sequence of AdaptiveMap
            Of each run of an adaptive integrator; of another one empty.

        Returns
        -------
        dict of str to ndarray, shape (runs,)
            NaN of a defect where there are too many bodies, or the state is no regular point; of a
            reversal error without a way back.

        Raises
        ------
        integrators.diagnostics.structure.Unfinished
            Of the maps.
        """
        form: Any = self._system.form
        record, columns = self.recipe.record, Columns()
        if variables.SYMPLECTIC_DEFECT in record:
            found = np.full((len(initial), 2), np.nan)
            step, interval = float(precision.to_doubles(step_size)), self.recipe.times[1]
            few = form.bodies <= variables.MOST_BODIES
            space: Any = phase_space(form) if few else None
            for i, state in enumerate(self._doubles(initial) if few else ()):
                with contextlib.suppress(InputError):  # an equilibrium may have no tangent plane
                    if maps:
                        own = defect_of_map(space, maps[i], state, interval)
                    else:
                        own = defect_of_steps(space, self._problem_in_doubles, state, step, 1)
                    found[i] = own.defect, own.resolution
            names = (own.name for own in variables.STRUCTURE[variables.SYMPLECTIC_DEFECT])
            columns |= dict(zip(names, found.T, strict=True))
        if variables.REVERSAL_ERROR in record:
            errors = np.full(len(initial), np.nan)
            if back is not None:
                errors = errors_of_return(form, self.problem, initial, back)
            columns[variables.REVERSAL_ERROR] = errors
        return columns

    def finish(self, runs: Batch) -> Columns:
        """Variables over runs, such as counters and status, of runs at their last sample."""
        lost = ~runs.alive & (runs.status <= status_of.COMPLETE)
        broken = lost & self._checks_invariants  # infinite states end adaptive runs by themselves
        cause = np.where(broken, status_of.NOT_CONSERVED, status_of.NOT_FINITE)
        status = np.where(lost, cause, runs.status).astype(np.int8)
        # At the first sample that is not valid.
        at = self.recipe.times[np.minimum(runs.valid_samples, len(self.recipe.times) - 1)]
        columns = runs.counters | {
            "stop_time": np.where(broken, at, runs.counters["stop_time"]),
            "sample_count": runs.valid_samples,
            "status": status,
            "cpu_time": runs.cpu,
            "wall_time": runs.wall,
        }
        back = states_of_checkpoints(self.problem, runs.after) if self._goes_back else None
        maps = self.maps(runs.initial, runs.tolerance, runs.after)
        measured = self.measure_structure(runs.initial, back, self._exact_step(runs), maps)
        failed = status > status_of.COMPLETE
        return columns | {name: np.where(failed, np.nan, of) for name, of in measured.items()}

    # --- what is recorded --------------------------------------------------------------------

    def _record(
        self,
        runs: Batch,
        found: Integrated,
        sampled: NDArray[np.intp],
        reference: ReferenceStates | None,
    ) -> tuple[NDArray[np.bool_], Columns]:
        """Return which samples of an integration are valid, and the variables at all of them.

        The first sample is replaced by the initial state, to which changes of quantities refer.
        """
        raw, record = found.states, self.recipe.record
        raw[:, 0] = formulations.to_stepped_states(self.problem, runs.initial)
        where = np.concatenate([[0], sampled[1:]])
        times, states = self._times[where], formulations.to_stored_states(self.problem, raw)
        valid = np.isfinite(self._doubles(raw)).all(axis=(2, 3)) & runs.alive[:, None]
        valid = np.logical_and.accumulate(valid, axis=1)
        if self._checks_invariants:
            for i, steps in enumerate(runs.counters["steps"].tolist()):
                kept = conserving_samples(
                    self._system, self.problem, raw[i, 0], raw[i, 1:], times[1:], runs.tolerance,
                    steps,
                )  # fmt: skip
                valid[i, 1 + kept :] = False
        columns = self._quantities(raw, times) | self._step_statistics(found.statistics)
        columns |= self._reference_errors(states, reference, where)
        sizes, rejected = np.full(valid.shape, runs.step_size), np.zeros(valid.shape)
        if isinstance(found, adaptive.Solutions):
            sizes, rejected = found.step_sizes, found.rejected_so_far
        if "step_size" in record:
            columns[variables.CURRENT_STEP_SIZE] = sizes
        if "rejected_steps" in record:
            columns[variables.REJECTED_SO_FAR] = rejected
        if "state" in record:
            columns["state"] = self._doubles(states)
        return valid, columns

    def _quantities(self, raw: States, times: np.ndarray) -> Columns:
        """Recorded quantities of states (runs, S, …), and their errors, of shape (runs, S) each.

        Quantities and their differences are evaluated in the integrator's arithmetic.
        """
        columns: Columns = {}
        shape, stepped = raw.shape[:2], raw.reshape(-1, *raw.shape[2:])
        stored = formulations.to_lagrangian_states(self.problem, stepped)
        at = precision.to_double_doubles(times) if self._element.numbers else times
        at = np.tile(at, (len(raw), *(1 for _ in self._element.numbers)))
        for quantity in self._library.quantities(self._system):
            name, is_constraint = quantity.name, quantity.kind == "constraint"
            if name not in self.recipe.record:
                continue
            parameters = self.problem.parameters
            if isinstance(quantity, systems.Observable):
                parameters = self._given_parameters
            states = stepped if is_constraint else stored
            rows = quantity_rows(self.problem, quantity, states, at, parameters)
            rows = rows.reshape(*shape, *rows.shape[1:])
            components = [rows[:, :, 0, column] for column in quantity.columns]
            if quantity.each_row:
                columns[name] = self._doubles(rows)
                continue
            if is_constraint:
                columns[f"{name}_error"] = self._doubles(components[0])
                continue
            names = [f"{name}_{axis}" for axis in quantity.components] or [name]
            columns |= dict(zip(names, map(self._doubles, components), strict=True))
            if quantity.kind != "observable":
                changes = [values - values[:, :1] for values in components]
                if self._element.parts:  # the doubles nearest to differences of close numbers
                    changes = [change.sum(axis=-1) for change in changes]
                size = np.sqrt(sum(c * c for c in changes)) if quantity.components else changes[0]
                columns[f"{name}_error"] = size
        return columns

    @cached_property
    def _given_parameters(self) -> np.ndarray:
        """The system's parameters as observables read them, not as packed by the form."""
        if self._element is DOUBLE:
            return np.array(self._system.form.parameters, dtype=float)
        form = self._system.in_arithmetic(precision.DOUBLE_DOUBLE).form
        precise = form_in_precise_numbers(form, precision.require_precise)
        return precision.to_double_doubles(precise.parameters)

    def _step_statistics(self, statistics: np.ndarray) -> Columns:
        """Statistics over the steps of the interval that ends at each sample; NaN at time 0."""
        if not self._statistics:
            return {}
        values = {}
        for quantity in self._system.quantities:
            if quantity.kind == "energy" and quantity.name in self.recipe.record:
                names = (f"{quantity.name}_error_{of}" for of in variables.ENERGY_STATISTICS)
                values = {name: (0, i) for i, name in enumerate(names)}
        if "unit_length" in self.recipe.record:
            values["unit_length_error_mean"] = (1, status_of.MEAN)
        padded = np.pad(statistics, ((0, 0), (1, 0), (0, 0), (0, 0)), constant_values=np.nan)
        return {name: padded[:, :, m, s] for name, (m, s) in values.items()}

    def _reference_errors(
        self, states: States, reference: ReferenceStates | None, where: np.ndarray
    ) -> Columns:
        """Errors against the reference where there is one, NaN elsewhere."""
        if not self.recipe.reference_samples:
            return {}
        names = variables.reference_error_names(self._system)
        columns = {name: np.full(states.shape[:2], np.nan) for name in names}
        if reference is not None:
            where = where[where < self.recipe.reference_samples]
            upto, (known, own_error) = slice(len(where)), reference
            differences = state_differences(states[:, upto], known[:, where])
            squares = squared_state_errors(self._system, differences)
            for name, values in squares.items():
                columns[name][:, upto] = np.sqrt(values)
            columns[variables.GLOBAL_ERROR][:, upto] = np.sqrt(sum(squares.values()))
            columns[variables.REFERENCE_ERROR][:, upto] = own_error[:, where]
        return columns


def _cpu_and_wall_seconds() -> NDArray[np.float64]:
    """Seconds of CPU of this thread, and of the clock."""
    return np.array([time.thread_time(), time.perf_counter()])


def starts_in_double_double(system: System, initial: States, known: States | None = None) -> States:
    """Initial states in double-double; parameters as of `Integration.starts`."""
    if known is None:
        return system.refined(initial)
    known = known.copy()
    lacking = np.isnan(known).any(axis=(1, 2, 3))
    if lacking.any():
        known[lacking] = system.refined(initial[lacking])
    return known


def states_of_checkpoints(problem: Problem, checkpoints: np.ndarray) -> States:
    """The states, shape (runs, rows, 3), in checkpoints that begin with those of a problem."""
    checkpoints = checkpoints[:, : problem.checkpoint_size]
    numbers = checkpoints.reshape(len(checkpoints), -1, *problem.elements[0].parts)
    y = problem.layout.parts(numbers)["y"]
    return formulations.to_stored_states(problem, y[:, None])[:, 0]


def state_differences(states: States, reference: States) -> States:
    """Differences of states (…, rows, 3) from those of a reference, in doubles.

    Either may have a last axis of high and low doubles; the low doubles of states are ignored where
    the reference has none.
    """
    high, low = np.moveaxis(states, -1, 0) if states.shape[-1] == 2 else (states, 0.0)
    if reference.shape[-1] != 2:
        return high - reference
    return (high - reference[..., 0]) + (low - reference[..., 1])


def norms_of_state_errors(system: System, errors: States) -> NDArray[np.float64]:
    """Norm of the error of states, over all rows that belong to an error of the system."""
    return np.sqrt(sum(squared_state_errors(system, errors).values()))


def squared_state_errors(system: System, errors: States) -> dict[str, NDArray[np.float64]]:
    """Squared norms of the errors of a system by name, each over the rows of this error."""
    return {
        error.name: np.sum(errors[..., error.rows, :] ** 2, axis=(-2, -1))
        for error in system.state_errors
    }
