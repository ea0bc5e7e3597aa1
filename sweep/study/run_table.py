"""The run table: an experiment as columns over its runs."""

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from sweep.errors import StudyError
from sweep.study.experiment import ResolvedExperiment, scan_index_combinations
from sweep.study.initial_conditions.base import FileStarts, GivenStart, RandomStarts
from sweep.study.run_id import (
    SystemDigest,
    initial_state_digest,
    method_as_json,
    repeat_digest,
    run_digests,
)


class InitialStates(Sequence):
    """For each system its initial states, shape ``(starts, rows, 3)``, made when asked for.

    Parameters
    ----------
    systems : tuple of systems.System
    conditions : tuple
        Of the classes in `sweep.study.initial_conditions.base`.
    paired : list of set of str, optional
        Contents of the conditions that each system has runs of, where not all are of all systems;
        the states of others are NaN.
    """

    def __init__(self, systems, conditions, paired=None):
        self._systems, self._conditions, self._paired = systems, conditions, paired
        self._made = {}

    def __len__(self):
        return len(self._systems)

    def __getitem__(self, system):
        if system not in self._made:
            made = self._systems[system]
            self._made[system] = np.concatenate(
                [
                    condition.states(made)
                    if self._paired is None or condition.content in self._paired[system]
                    else np.full((condition.size, made.rows, 3), np.nan)
                    for condition in self._conditions
                ]
            )
        return self._made[system]


@dataclasses.dataclass(frozen=True, eq=False)
class RunTable:
    """All runs of an experiment, as arrays of shape ``(size,)``.

    Rows are ordered repeat, integrator, step size, parameters, initial condition fastest:
    neighbours are trajectories of one system by one method. Repeats of a run are far apart, so
    that what disturbs the machine for a while does not disturb all of them.

    Parameters
    ----------
    experiment : ResolvedExperiment
    systems : tuple of systems.System
        One for each combination of scanned values, the last axis fastest.
    starts : InitialStates
    axis_index : ndarray of int, shape (systems, axes)
        The value of each scanned axis in each system.
    integrator_index, system_index, start_index : ndarray of int
        Into ``experiment.integrators``, `systems`, and the first axis of `starts`.
    step_size, tolerance : ndarray of float
        NaN where the run is adaptive, or is not.
    repeat : ndarray of int
        From 0.
    """

    experiment: ResolvedExperiment
    systems: tuple
    starts: Sequence
    axis_index: np.ndarray
    integrator_index: np.ndarray
    step_size: np.ndarray
    tolerance: np.ndarray
    system_index: np.ndarray
    start_index: np.ndarray
    repeat: np.ndarray

    @functools.cached_property
    def run_id(self):
        """Identifiers, ndarray of str of 16 hexadecimal digits; see `sweep.study.run_id`.

        They are made when they are used: they depend on all initial states.
        """
        return np.frombuffer(_digests_of_runs(self).hex().encode(), dtype="S16").astype("U16")

    @property
    def size(self):
        """Number of runs."""
        return len(self.step_size)

    @property
    def start_count(self):
        """Number of initial states of a system."""
        return sum(condition.size for condition in self.experiment.initial_conditions)

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
        return self.column("integrator")

    @property
    def initial_condition(self):
        """Labels of the initial conditions."""
        return self.column("initial_condition")

    @property
    def ensemble(self):
        """Labels of the ensembles; empty for a single start."""
        return self.column("ensemble")

    @property
    def scan(self):
        """Scanned values, or their labels: a dict of axis name to array."""
        return {axis.name: self.column(axis.name) for axis in self.experiment.scan}

    @property
    def start_axes(self):
        """Values of the axes of families of starts, NaN for other starts: name to array."""
        return {name: column[self.start_index] for name, column in self._axes_of_starts().items()}

    def _axes_of_starts(self):
        """The same over the starts of a system."""
        columns, first = {}, 0
        for condition in self.experiment.initial_conditions:
            for name, values in condition.coordinates.items():
                column = columns.setdefault(name, np.full(self.start_count, np.nan))
                column[first : first + condition.size] = values
            first += condition.size
        return columns

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
        values, index = self._factor(name)
        return values[index]

    def where(self, condition):
        """Where a `sweep.study.exclude.Condition` on a column holds, without making the column."""
        values, index = self._factor(condition.column)
        return condition.holds(values)[index]

    def _factor(self, name):
        """The values that occur in a column, and the index into them of each run."""
        experiment = self.experiment
        conditions = experiment.initial_conditions
        for number, axis in enumerate(experiment.scan):
            if axis.name == name:
                return axis.column, self.axis_index[:, number][self.system_index]
        match name:
            case "integrator":
                labels = np.array([entry.label for entry in experiment.integrators])
                return labels, self.integrator_index
            case "initial_condition":
                return np.array([label for c in conditions for label in c.labels]), self.start_index
            case "ensemble":
                return np.array([c.ensemble for c in conditions]), self._condition
        axes = self._axes_of_starts()
        return (axes[name], self.start_index) if name in axes else (getattr(self, name), ...)


def expand_experiment(experiment):
    """Expand an experiment to its runs; of a union, those of its parts, each run once.

    Parameters
    ----------
    experiment : ResolvedExperiment

    Returns
    -------
    RunTable

    Raises
    ------
    StudyError
        If two entries of the study give the same run, or every run is excluded.
    """
    if experiment.parts:
        return _unite_run_tables(experiment, list(map(expand_experiment, experiment.parts)))
    table = _without_excluded_runs(_table_of_all_runs(experiment))
    if not _has_distinct_methods_and_starts(table):
        _check_runs_distinct(table)
    return table


def _has_distinct_methods_and_starts(table):
    """Whether no two methods are the same and no two starts, and so no two runs.

    Random states are not drawn: no two are the same but by seed, number, centre and spread.
    """
    conditions = table.experiment.initial_conditions
    random = [c for c in conditions if isinstance(c, RandomStarts)]
    if random and any(isinstance(c, FileStarts | GivenStart) for c in conditions):
        return False  # these may have been drawn as well
    if len({(c.seed, c.around, c.spread) for c in random}) < len(random):
        return False
    for entry in table.experiment.integrators:
        if entry.adaptive or table.experiment.axis_of_steps is None:
            sizes = {own[entry.adaptive] for own in table.experiment.steps_of(entry)}
            if len(sizes) < len(table.experiment.steps_of(entry)):
                return False
    methods = _MethodDigests(table)
    for *method, _ in _blocks_of_equal_method_and_system(table)[1]:
        methods.digest(*method)
    if len(set(methods.digests.values())) < len(methods.digests):
        return False
    rest = [c for c in conditions if not isinstance(c, RandomStarts)]
    for system in table.systems:
        starts = [initial_state_digest(state) for c in rest for state in c.states(system)]
        if len(set(starts)) < len(starts):
            return False
    return True


def _table_of_all_runs(experiment):
    made = experiment.make_systems()
    starts = InitialStates(made, experiment.initial_conditions)
    steps = [experiment.steps_of(entry) for entry in experiment.integrators]
    axis_index = _axis_indices_of_systems(experiment)
    method, system = _pair_methods_and_systems(experiment, steps, axis_index)
    count = sum(condition.size for condition in experiment.initial_conditions)
    shape = experiment.repeat, len(method), count
    repeat, pair, start = np.unravel_index(np.arange(np.prod(shape)), shape)
    integrator = np.repeat(np.arange(len(steps)), [len(own) for own in steps])
    step_size, tolerance = np.array([size for own in steps for size in own]).T
    return RunTable(
        experiment=experiment,
        systems=made,
        starts=starts,
        axis_index=axis_index,
        integrator_index=integrator[method[pair]],
        step_size=step_size[method[pair]],
        tolerance=tolerance[method[pair]],
        system_index=system[pair],
        start_index=start,
        repeat=repeat,
    )


def _unite_run_tables(experiment, tables):
    """The runs of a union's parts, one after the other, without those that an earlier one has."""
    conditions, systems, paired = experiment.initial_conditions, {}, []
    ends = np.cumsum([condition.size for condition in conditions])
    first = {c.content: end - c.size for c, end in zip(conditions, ends, strict=True)}
    entries = {entry.label: index for index, entry in enumerate(experiment.integrators)}
    parts = []
    for table in tables:
        own = table.experiment
        contents = frozenset(condition.content for condition in own.initial_conditions)
        system = np.zeros(len(table.systems), dtype=np.intp)
        for index, place in enumerate(map(tuple, _axis_index_in_union(experiment, table).tolist())):
            if place not in systems:  # it is only in the values of the axes that systems differ
                systems[place] = len(systems), table.systems[index]
                paired.append(contents)
            system[index] = systems[place][0]
            paired[system[index]] |= contents
        starts = [first[c.content] + np.arange(c.size) for c in own.initial_conditions]
        integrator = np.array([entries[entry.label] for entry in own.integrators])
        parts.append(
            {
                "integrator_index": integrator[table.integrator_index],
                "step_size": table.step_size,
                "tolerance": table.tolerance,
                "system_index": system[table.system_index],
                "start_index": np.concatenate(starts)[table.start_index],
                "repeat": table.repeat,
            }
        )
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    ids = np.concatenate([table.run_id for table in tables]).astype("S16")
    kept = np.sort(np.unique(ids, return_index=True)[1])
    made = tuple(system for _, system in systems.values())
    return RunTable(
        experiment=experiment,
        systems=made,
        starts=InitialStates(made, conditions, paired),
        axis_index=np.array(list(systems), dtype=np.intp).reshape(len(made), len(experiment.scan)),
        **{name: column[kept] for name, column in columns.items()},
    )


def _axis_index_in_union(experiment, table):
    """The value of each axis of a union in each system of a part's table."""
    found = np.zeros((len(table.systems), len(experiment.scan)), dtype=np.intp)
    names = [axis.name for axis in table.experiment.scan]
    for number, axis in enumerate(experiment.scan):
        own, place = names.index(axis.name), {value: i for i, value in enumerate(axis.values)}
        values = [place[value] for value in table.experiment.scan[own].values]
        found[:, number] = np.array(values)[table.axis_index[:, own]]
    return found


def _pair_methods_and_systems(experiment, steps, axis_index):
    """Indices of every pair of a step size, counted on over the integrators, and a system."""
    systems = len(axis_index)
    method, system = np.divmod(np.arange(sum(map(len, steps)) * systems), systems)
    if experiment.axis_of_steps is None:
        return method, system
    nth = np.concatenate([np.arange(len(own)) for own in steps])[method]
    adaptive = np.repeat(
        [entry.adaptive for entry in experiment.integrators], list(map(len, steps))
    )
    together = nth == axis_index[system, experiment.axis_of_steps]
    together |= adaptive[method]  # a tolerance advances with nothing
    return method[together], system[together]


def _axis_indices_of_systems(experiment):
    """The index of the value of each axis in each system, shape ``(systems, axes)``."""
    found = list(scan_index_combinations(experiment.scan, experiment.zipped))
    return np.array(found, dtype=np.intp).reshape(len(found), len(experiment.scan))


def _without_excluded_runs(table):
    experiment = table.experiment
    if not experiment.exclude:
        return table
    out = np.logical_or.reduce([rule.holds(table.where) for rule in experiment.exclude])
    if out.all():
        raise StudyError(f"{experiment.where}: 'exclude' leaves no run")
    return _select_runs(table, ~out)


def _select_runs(table, kept):
    """The table of the runs where `kept` holds."""
    names = ("integrator_index", "step_size", "tolerance", "system_index", "start_index")
    names += ("repeat",)
    return dataclasses.replace(table, **{name: getattr(table, name)[kept] for name in names})


def _digests_of_runs(table):
    """The digests of all runs, eight bytes each."""
    starts = [[initial_state_digest(state) for state in states] for states in table.starts]
    methods = _MethodDigests(table)
    firsts, blocks = _blocks_of_equal_method_and_system(table)
    digests = []
    ends = zip(firsts, [*firsts[1:], table.size], strict=True)
    for (first, last), (system, *method, repeat) in zip(ends, blocks, strict=True):
        digest = repeat_digest(methods.digest(system, *method), repeat)
        chosen = table.start_index[first:last].tolist()
        digests += run_digests(digest, [starts[system][start] for start in chosen])
    return b"".join(digests)


class _MethodDigests:
    """The `run_id.method_digest` of the runs of a table, each made once."""

    def __init__(self, table):
        self._experiment, self._made = table.experiment, table.systems
        self._systems, self._texts, self.digests = {}, {}, {}

    def digest(self, system, integrator, size, adaptive):
        """Of the runs of a system with an integrator and a tolerance or step size."""
        key = system, integrator, size
        if key not in self.digests:
            if system not in self._systems:
                self._systems[system] = SystemDigest(self._made[system])
            text = self._text(integrator, size, adaptive)
            self.digests[key] = self._systems[system].method(text)
        return self.digests[key]

    def _text(self, integrator, size, adaptive):
        key = integrator, size
        if key not in self._texts:
            entry = self._experiment.integrators[integrator]
            sizes = (math.nan, size) if adaptive else (size, math.nan)
            plugins = self._experiment.plugin_hashes(entry)
            self._texts[key] = method_as_json(entry.name, entry.options, *sizes, plugins)
        return self._texts[key]


def _blocks_of_equal_method_and_system(table):
    """The first run of each block with one method and system, and these.

    Returns
    -------
    firsts : list of int
    blocks : list of tuple
        System, integrator, tolerance or step size, whether it is adaptive, and repeat.
    """
    adaptive = table.adaptive
    size = np.where(adaptive, table.tolerance, table.step_size)
    columns = table.system_index, table.integrator_index, size, adaptive, table.repeat
    begins = np.zeros(table.size, dtype=bool)
    begins[0] = True
    for column in columns:
        begins[1:] |= column[1:] != column[:-1]
    firsts = np.flatnonzero(begins)
    return firsts.tolist(), list(zip(*(c[firsts].tolist() for c in columns), strict=True))


def _check_runs_distinct(table):
    digests = np.frombuffer(_digests_of_runs(table), dtype=">u8")
    order = np.argsort(digests, kind="stable")
    same = np.flatnonzero(digests[order[1:]] == digests[order[:-1]])
    if same.size:
        first, second = order[same[0]], order[same[0] + 1]
        one, other = (
            _place_of_difference(table, first, second),
            _place_of_difference(table, second, first),
        )
        what = (
            f"tolerance {table.tolerance[first]}"
            if table.adaptive[first]
            else f"step size {table.experiment.in_time_units(table.step_size[first])}"
        )
        raise StudyError(
            f"{other}: gives a run of {what} that {one} gives too; give each run only once"
        )


def _place_of_difference(table, run, other):
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
