"""Compute runs: from initial states to the arrays of the run table. Knows no storage.

A `Recorder` belongs to one system and one integrator; up to eight runs that differ in their
initial state go through it together, in lanes.
"""

import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import systems
from integrators import dormand_prince, stepping
from integrators.adaptive import prepare, run_adaptive
from integrators.integration import canonical, counters_of, lagrangian, run_batch
from sweep import schema, structure
from sweep.library import BUILT_IN, Library
from sweep.time_axis import LogarithmicTimeAxis, TimeAxis

EVERY_STEP = "every_step"


@dataclass(frozen=True)
class Named:
    """A system or an integrator of a library by name.

    Parameters or options are sorted pairs. A worker has all of a plugin that it needs here.
    """

    name: str
    settings: tuple
    library: Library = BUILT_IN

    @classmethod
    def of(cls, name, settings, library=BUILT_IN):
        """From a dict of settings."""
        return cls(name, tuple(sorted(settings.items())), library)


def system_of(named):
    """The `systems.System` of a `Named`."""
    return named.library.system(named.name, dict(named.settings))


@dataclass(frozen=True)
class Recipe:
    """What is recorded of every run of an experiment.

    Parameters
    ----------
    time_axis : TimeAxis or LogarithmicTimeAxis
    record : tuple of str
    statistics : {"every_step", "none"}
    reference_samples : int
        Leading sample times for which there is a reference; 0 without one.
    """

    time_axis: TimeAxis | LogarithmicTimeAxis
    record: tuple
    statistics: str
    reference_samples: int

    @cached_property
    def times(self):
        """Times of the samples, shape (samples + 1,)."""
        return self.time_axis.times

    def brief(self, time_axis):
        """What a pilot records over another time axis: no structure, no errors."""
        record = tuple(name for name in self.record if name not in schema.STRUCTURE)
        return Recipe(time_axis, record, self.statistics, reference_samples=0)


@dataclass(frozen=True)
class Recorder:
    """Integrates and records the runs of one system and one integrator.

    Parameters
    ----------
    recipe : Recipe
    system, integrator : Named
    """

    recipe: Recipe
    system: Named
    integrator: Named

    @cached_property
    def _system(self):
        return system_of(self.system)

    @cached_property
    def _integrator(self):
        made = self.integrator
        return made.library.integrator(made.name, dict(made.settings))

    @property
    def order(self):
        """The order of the integrator that chooses the steps: itself, or the one it counts."""
        return (self._integrator.counted or self._integrator).order

    @cached_property
    def problem(self):
        """The integrator bound to the system."""
        return self._integrator.bind(self._system)

    def run(self, initial, step_size, steps_per_sample, reference=None, tolerance=np.nan):
        """Integrate up to eight initial states.

        Parameters
        ----------
        initial : ndarray, shape (runs, rows, 3)
        step_size : float
        steps_per_sample : int
            Steps in an interval of the time axis; without meaning for an adaptive integrator.
        reference : tuple of ndarray, optional
            Reference states (runs, samples, rows, 3) and their error (runs, samples).
        tolerance : float
            Of an adaptive integrator.

        Returns
        -------
        dict of str to ndarray
            By the names of `sweep.schema`; the first axis is the runs.
        """
        self.problem.kernels(lanes=len(initial) > 1)  # compiled before the clock starts
        stepping.trajectory(lanes=len(initial) > 1)
        adaptive, times = self._integrator.adaptive, self.recipe.times
        prepared = prepare(self.problem, initial, times, tolerance) if adaptive else None
        wall, cpu = time.perf_counter(), time.thread_time()
        if adaptive:
            batch, counters, steps = self._adaptive(initial, tolerance, prepared)
        else:
            batch, counters, steps = self._fixed(initial, step_size, steps_per_sample)
        cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
        states = canonical(self.problem, batch.states)
        valid = np.isfinite(batch.states).all(axis=(2, 3)).cumprod(axis=1).astype(bool)
        columns = counters | {
            "sample_count": valid.sum(axis=1),
            "status": batch.report[:, stepping.STATUS_ROW].astype(np.int8),
            "cpu_time": np.full(len(initial), cpu / len(initial)),
            "wall_time": np.full(len(initial), wall / len(initial)),
        }
        sampled = self._sampled(batch, states) | self._errors(states, reference)
        for key, (name, values) in steps.items():
            if key in self.recipe.record:
                sampled[name] = values
        for name, values in sampled.items():
            values[~valid] = np.nan
            columns[name] = values
        if "state" in self.recipe.record:
            columns["state"] = np.where(valid[:, :, None, None], states, np.nan)
        steps = self.recipe.time_axis.intervals * steps_per_sample
        measured = self.structure(initial, states[:, -1], step_size, steps, tolerance)
        failed = columns["status"] > stepping.COMPLETE
        return columns | {name: np.where(failed, np.nan, of) for name, of in measured.items()}

    def structure(self, initial, final, step_size, steps, tolerance=np.nan):
        """What the record asks for of `schema.STRUCTURE`.

        Parameters
        ----------
        initial, final : ndarray, shape (runs, rows, 3)
            Where runs begin and end.
        step_size : float
            NaN of an adaptive integrator.
        steps : int
            That they take.
        tolerance : float
            Of an adaptive integrator.

        Returns
        -------
        dict of str to ndarray, shape (runs,)
        """
        columns, form, record = {}, self._system.form, self.recipe.record
        if schema.SYMPLECTIC_DEFECT in record:
            columns |= structure.symplectic_defects(
                form, self.problem, initial, step_size, tolerance, self.recipe.times[1]
            )
        if schema.REVERSAL_ERROR in record:
            columns |= structure.reversal_errors(
                form, self.problem, initial, final, step_size, steps
            )
        return columns

    @property
    def _keeps_statistics(self):
        return self.recipe.statistics == EVERY_STEP

    def _fixed(self, initial, step_size, steps_per_sample):
        axis = self.recipe.time_axis
        batch = run_batch(
            self.problem, initial, step_size, steps_per_sample * np.diff(axis.marks), axis.samples,
            statistics=self._keeps_statistics,
        )  # fmt: skip
        steps = axis.intervals * steps_per_sample
        counters = counters_of(self._integrator, self.problem, batch.report, steps, step_size)
        counters["rejected_steps"] = np.zeros(len(initial), dtype=np.int64)
        shape = batch.states.shape[:2]
        return batch, counters, _along(np.full(shape, step_size), np.zeros(shape))

    def _adaptive(self, initial, tolerance, prepared):
        found = run_adaptive(
            self.problem, initial, self.recipe.times, tolerance, self._keeps_statistics,
            prepared=prepared,
        )  # fmt: skip
        return found, found.counters, _along(found.step_sizes, found.rejected_so_far)

    def _sampled(self, batch, states):
        """The recorded quantities and their statistics, shape (runs, samples + 1) each."""
        columns = {}
        for quantity in self.system.library.quantities(self._system):
            if quantity.name not in self.recipe.record:
                continue
            if quantity.kind == "constraint":
                columns[f"{quantity.name}_error"] = self._evaluate(quantity, batch.states)[0]
                continue
            components = self._evaluate(quantity, lagrangian(self.problem, batch.states))
            names = [f"{quantity.name}_{axis}" for axis in quantity.components] or [quantity.name]
            columns |= dict(zip(names, components, strict=True))
            if quantity.kind == "observable":
                continue
            changes = [values - values[:, :1] for values in components]
            size = np.sqrt(sum(c * c for c in changes)) if quantity.components else changes[0]
            columns[f"{quantity.name}_error"] = size
        return columns | self._statistics(batch)

    def _evaluate(self, quantity, states):
        """The components of a quantity of the states (runs, S, rows, 3)."""
        runs, samples, rows, _ = states.shape
        flat = np.ascontiguousarray(states.reshape(-1, rows, 3))
        out = np.zeros((len(flat), 1, 3))
        work = np.zeros(quantity.function.work(rows) + 1)
        stepping.evaluate.scalar(
            quantity.function.scalar,
            np.tile(self.recipe.times, runs),
            flat,
            self._parameters_of(quantity),
            out,
            work,
        )
        return [out[:, 0, column].reshape(runs, samples) for column in quantity.columns]

    def _parameters_of(self, quantity):
        """What a quantity reads: as the form packs them; an observable, as the form has them."""
        if isinstance(quantity, systems.Observable):
            return np.array(self._system.form.parameters, dtype=float)
        return self.problem.parameters

    def _statistics(self, batch):
        """Statistics over the steps of the interval that ends at a sample; NaN at time 0."""
        if self.recipe.statistics != EVERY_STEP:
            return {}
        values = {}
        for quantity in self._system.quantities:
            if quantity.kind == "energy" and quantity.name in self.recipe.record:
                names = (f"{quantity.name}_error_{of}" for of in schema.ENERGY_STATISTICS)
                values = {name: (0, i) for i, name in enumerate(names)}
        if "unit_length" in self.recipe.record:
            values["unit_length_error_mean"] = (1, stepping.MEAN)
        return {
            name: np.pad(batch.statistics[:, :, m, s], ((0, 0), (1, 0)), constant_values=np.nan)
            for name, (m, s) in values.items()
        }

    def _errors(self, states, reference):
        """Errors against the reference where there is one, NaN elsewhere."""
        if not self.recipe.reference_samples:
            return {}
        names = schema.reference_errors(self._system)
        columns = {name: np.full(states.shape[:2], np.nan) for name in names}
        if reference is not None:
            known, own_error = reference
            upto = slice(0, self.recipe.reference_samples)
            squares = _squares(self._system, states[:, upto] - known)
            for name, values in squares.items():
                columns[name][:, upto] = np.sqrt(values)
            columns[schema.GLOBAL_ERROR][:, upto] = np.sqrt(sum(squares.values()))
            columns[schema.REFERENCE_ERROR][:, upto] = own_error
        return columns


def _along(step_sizes, rejected):
    """What can be recorded of the steps along runs: variables and their values, by key."""
    return {
        "step_size": (schema.CURRENT_STEP_SIZE, step_sizes),
        "rejected_steps": (schema.REJECTED_SO_FAR, rejected),
    }


def reference_trajectory(system, initial, times, tolerance):
    """A reference trajectory and its own error.

    Parameters
    ----------
    system : systems.System
    initial : ndarray, shape (rows, 3)
    times : ndarray, shape (S,)
    tolerance : float

    Returns
    -------
    states : ndarray, shape (S, rows, 3)
    error : ndarray, shape (S,)
        Distance of the states at ten times the tolerance; the reference is better than this.
    """
    states, _ = dormand_prince.solve(system, initial, times, tolerance)
    coarse, _ = dormand_prince.solve(system, initial, times, min(10 * tolerance, 0.1))
    return states, np.sqrt(sum(_squares(system, states - coarse).values()))


def _squares(system, errors):
    """|error|² of the rows that each of a system's errors is about."""
    return {
        error.name: np.sum(errors[..., error.rows, :] ** 2, axis=(-2, -1))
        for error in system.state_errors
    }
