"""The run table: an experiment as columns over its runs."""

import dataclasses

import numpy as np

from sweep.experiment import Experiment, places
from sweep.identity import method_digest, repeat_digest, run_digests, start_digest
from sweep.sources import StudyError


@dataclasses.dataclass(frozen=True, eq=False)
class RunTable:
    """All runs of an experiment, as arrays of shape ``(size,)``.

    Rows are ordered repeat, integrator, step size, parameters, initial condition fastest:
    neighbours are trajectories of one system by one method. Repeats of a run are far apart, so
    that what disturbs the machine for a while does not disturb all of them.

    Parameters
    ----------
    experiment : Experiment
    systems : tuple of systems.System
        One for each combination of scanned values, the last axis fastest.
    starts : tuple of ndarray
        For each system its initial states, shape ``(starts, rows, 3)``.
    integrator_index, system_index, start_index : ndarray of int
        Into ``experiment.integrators``, `systems`, and the first axis of `starts`.
    step_size, tolerance : ndarray of float
        NaN where the run is adaptive, or is not.
    repeat : ndarray of int
        From 0.
    run_id : ndarray of str
        16 hexadecimal digits, see `sweep.identity`.
    """

    experiment: Experiment
    systems: tuple
    starts: tuple
    integrator_index: np.ndarray
    step_size: np.ndarray
    tolerance: np.ndarray
    system_index: np.ndarray
    start_index: np.ndarray
    repeat: np.ndarray
    run_id: np.ndarray

    @property
    def size(self):
        """Number of runs."""
        return len(self.step_size)

    @property
    def adaptive(self):
        """Whether the integrator chooses the steps, bool."""
        return np.isfinite(self.tolerance)

    @property
    def steps_per_sample(self):
        """Steps in an interval of the time axis, int64; 0 where the run is adaptive."""
        steps = np.rint(self.experiment.time_axis.interval / self.step_size)
        return np.where(self.adaptive, 0, steps).astype(np.int64)

    @property
    def integrator(self):
        """Labels of the integrators."""
        labels = [entry.label for entry in self.experiment.integrators]
        return np.array(labels)[self.integrator_index]

    @property
    def initial_condition(self):
        """Labels of the initial conditions."""
        conditions = self.experiment.initial_conditions
        return np.array([label for c in conditions for label in c.labels])[self.start_index]

    @property
    def ensemble(self):
        """Labels of the ensembles; empty for a single start."""
        return np.array([c.ensemble for c in self.experiment.initial_conditions])[self._condition]

    @property
    def scan(self):
        """Scanned values, or their labels: a dict of axis name to array."""
        axes = self.experiment.scan
        indices = _places(self.experiment)[self.system_index].T
        return {axis.name: axis.column[i] for axis, i in zip(axes, indices, strict=True)}

    @property
    def start_axes(self):
        """Values of the axes of families of starts, NaN for other starts: name to array."""
        columns = {}
        first = 0
        for condition in self.experiment.initial_conditions:
            for name, values in condition.coordinates.items():
                column = columns.setdefault(name, np.full(len(self.starts[0]), np.nan))
                column[first : first + condition.size] = values
            first += condition.size
        return {name: column[self.start_index] for name, column in columns.items()}

    @property
    def _condition(self):
        """Index into the experiment's initial conditions."""
        sizes = [condition.size for condition in self.experiment.initial_conditions]
        return np.repeat(np.arange(len(sizes)), sizes)[self.start_index]

    def initial_state(self, run):
        """Initial state of a run, shape ``(rows, 3)``."""
        return self.starts[self.system_index[run]][self.start_index[run]]

    def column(self, name):
        """Column `name`: an attribute, a scanned parameter, or an axis of starts."""
        axes = self.scan | self.start_axes
        return axes[name] if name in axes else getattr(self, name)


def expand(experiment):
    """Expand an experiment to its runs.

    Parameters
    ----------
    experiment : Experiment

    Returns
    -------
    RunTable

    Raises
    ------
    StudyError
        If two entries of the study give the same run, or every run is excluded.
    """
    table = _without_excluded(_all_runs(experiment))
    digests = _digests(table)
    _check_distinct(table, np.frombuffer(digests, dtype=">u8"))
    run_id = np.frombuffer(digests.hex().encode(), dtype="S16").astype("U16")
    return dataclasses.replace(table, run_id=run_id)


def _all_runs(experiment):
    made = experiment.make_systems()
    starts = tuple(
        np.concatenate([start.states(system) for start in experiment.initial_conditions])
        for system in made
    )
    steps = [experiment.steps_of(entry) for entry in experiment.integrators]
    method, system = _methods_and_systems(experiment, steps, len(made))
    shape = experiment.repeat, len(method), len(starts[0])
    repeat, pair, start = np.unravel_index(np.arange(np.prod(shape)), shape)
    integrator = np.repeat(np.arange(len(steps)), [len(own) for own in steps])
    step_size, tolerance = np.array([size for own in steps for size in own]).T
    return RunTable(
        experiment=experiment,
        systems=made,
        starts=starts,
        integrator_index=integrator[method[pair]],
        step_size=step_size[method[pair]],
        tolerance=tolerance[method[pair]],
        system_index=system[pair],
        start_index=start,
        repeat=repeat,
        run_id=np.full(len(pair), ""),
    )


def _methods_and_systems(experiment, steps, systems):
    """Indices of every pair of a step size, counted on over the integrators, and a system."""
    method, system = np.divmod(np.arange(sum(map(len, steps)) * systems), systems)
    if experiment.axis_of_steps is None:
        return method, system
    nth = np.concatenate([np.arange(len(own)) for own in steps])[method]
    adaptive = np.repeat(
        [entry.adaptive for entry in experiment.integrators], list(map(len, steps))
    )
    together = nth == _places(experiment)[system, experiment.axis_of_steps]
    together |= adaptive[method]  # a tolerance advances with nothing
    return method[together], system[together]


def _places(experiment):
    """The index of the value of each axis in each system, shape ``(systems, axes)``."""
    found = list(places(experiment.scan, experiment.zipped))
    return np.array(found, dtype=np.intp).reshape(len(found), len(experiment.scan))


def _without_excluded(table):
    experiment = table.experiment
    if not experiment.exclude:
        return table
    out = np.logical_or.reduce([rule.holds(table.column) for rule in experiment.exclude])
    if out.all():
        raise StudyError(f"{experiment.where}: 'exclude' leaves no run")
    return _only(table, ~out)


def _only(table, kept):
    """The table of the runs where `kept` holds."""
    names = ("integrator_index", "step_size", "tolerance", "system_index", "start_index")
    names += ("repeat", "run_id")
    return dataclasses.replace(table, **{name: getattr(table, name)[kept] for name in names})


def _digests(table):
    """The digests of all runs, eight bytes each."""
    starts = [[start_digest(state) for state in states] for states in table.starts]
    size = np.where(table.adaptive, table.tolerance, table.step_size)
    rows = np.stack([table.integrator_index, size, table.system_index, table.repeat])
    firsts = [0, *(np.flatnonzero(np.any(np.diff(rows), axis=0)) + 1), table.size]
    digests = []
    for first, last in zip(firsts, firsts[1:], strict=False):
        entry = table.experiment.integrators[table.integrator_index[first]]
        system = table.system_index[first]
        step_size, tolerance = table.step_size[first], table.tolerance[first]
        method = method_digest(
            table.systems[system], entry.name, entry.options, step_size, tolerance,
            table.experiment.plugin_hashes(entry),
        )  # fmt: skip
        method = repeat_digest(method, int(table.repeat[first]))
        chosen = table.start_index[first:last].tolist()
        digests += run_digests(method, [starts[system][start] for start in chosen])
    return b"".join(digests)


def _check_distinct(table, digests):
    order = np.argsort(digests, kind="stable")
    same = np.flatnonzero(digests[order[1:]] == digests[order[:-1]])
    if same.size:
        first, second = order[same[0]], order[same[0] + 1]
        one, other = _origin(table, first, second), _origin(table, second, first)
        what = (
            f"tolerance {table.tolerance[first]}"
            if table.adaptive[first]
            else f"step size {table.experiment.in_time_units(table.step_size[first])}"
        )
        raise StudyError(
            f"{other}: gives a run of {what} that {one} gives too; give each run only once"
        )


def _origin(table, run, other):
    """Where the study has the entry in which `run` differs from `other`, which is the same."""
    experiment = table.experiment
    entry, twin = table.integrator_index[[run, other]]
    if entry != twin:
        return f"{experiment.integrators[entry].where} ({experiment.integrators[entry].label!r})"
    if table.system_index[run] != table.system_index[other]:
        for axis in experiment.scan:
            value, same = table.scan[axis.name][[run, other]]
            if value != same:
                return f"{axis.where} ({value})"
    start = experiment.initial_conditions[table._condition[run]]
    return f"{start.where} ({str(table.initial_condition[run])!r})"
