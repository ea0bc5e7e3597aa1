"""The run table: an experiment as columns over its runs."""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import StudyError
from sweep.study.exclude import Condition
from sweep.study.experiment import ResolvedExperiment, scan_index_combinations
from sweep.study.initial_conditions.base import FileStarts, GivenStart, RandomStarts, Start
from sweep.study.run_id import (
    RunId,
    SystemDigest,
    initial_state_digest,
    method_as_json,
    repeat_digest,
    run_digests,
)
from sweep.text import data_frame
from systems import System

if TYPE_CHECKING:
    import pandas

COLUMNS = ("integrator", "step_size", "tolerance", "initial_condition", "ensemble")
INDICES = ("repeat", "method", "system_index", "start_index")
SLAB = 2**16  # runs that are looked at together
PIECE_BYTES = 2**24  # of states that are made together
MOST_DRAWN = 2**14  # states at a time, which take several times their memory meanwhile
Numbers = NDArray[np.integer]  # of runs, systems, starts …
States = NDArray[np.float64]  # their last axes are rows and components


class Starts:
    """The initial conditions of an experiment as starts, counted over all of them.

    Parameters
    ----------
    systems : tuple of systems.System
    conditions : tuple of Start
        Of the classes in `sweep.study.initial_conditions`.
    """

    def __init__(self, systems: Sequence[System], conditions: Sequence[Start]) -> None:
        self._systems, self.conditions = systems, conditions
        self._ends = np.cumsum([condition.size for condition in conditions])
        self._made: dict[tuple[int, int], States] = {}

    def __len__(self) -> int:
        return int(self._ends[-1])

    def condition_index(self, starts: Numbers) -> Numbers:
        """Index into `conditions` of each of some starts."""
        return np.searchsorted(self._ends, starts, side="right")

    def _by_condition(self, starts: Numbers) -> Iterator[tuple[int, NDArray[np.bool_], Numbers]]:
        """The index of each condition of some starts, which are its own, and their members."""
        index = self.condition_index(starts)
        for number in np.unique(index).tolist():
            own = index == number
            yield number, own, starts[own] - (self._ends[number] - self.conditions[number].size)

    def states_of_starts(self, system: int, starts: Numbers) -> States:
        """States of some starts of a system, shape ``(len(starts), rows, 3)``.

        Those of random ensembles and of files, of any size, are not kept.
        """
        found = np.empty((len(starts), self._systems[system].rows, 3))
        for number, own, members in self._by_condition(starts):
            found[own] = self._states(system, number, members)
        return found

    def _states(self, system: int, number: int, members: Numbers) -> States:
        made, condition = self._systems[system], self.conditions[number]
        if isinstance(condition, RandomStarts | FileStarts):
            parts = (
                condition.states(made, part[first : first + MOST_DRAWN])
                for part in ranges_of(members)
                for first in range(0, len(part), MOST_DRAWN)
            )
            return np.concatenate(list(parts))
        if (system, number) not in self._made:
            self._made[system, number] = condition.states(made)
        return self._made[system, number][members]

    def in_double_double(self, system: int, starts: Numbers) -> States:
        """The same with a last axis of high and low doubles, made anew each time.

        NaN where all that is known are the doubles, as of random states.
        """
        found = np.empty((len(starts), self._systems[system].rows, 3, 2))
        for number, own, members in self._by_condition(starts):
            made = self.conditions[number].in_double_double(self._systems[system], members)
            found[own] = made
        return found

    def labels(self, starts: Numbers) -> tuple[np.ndarray, Numbers]:
        """Labels of those starts that occur among some, and the index into them of each."""
        distinct, index = np.unique(starts, return_inverse=True)
        found: list[str] = []
        for number, _, members in self._by_condition(distinct):
            condition = self.conditions[number]
            if isinstance(condition, RandomStarts):  # there may be very many
                found += condition.labels_of_members(members.tolist())
            else:
                labels = condition.labels
                found += [labels[member] for member in members.tolist()]
        return np.array(found), index

    @functools.cached_property
    def coordinates(self) -> dict[str, NDArray[np.float64]]:
        """Axes of families of starts by name, each over all starts; NaN for other starts."""
        columns: dict[str, NDArray[np.float64]] = {}
        for condition, end in zip(self.conditions, self._ends.tolist(), strict=True):
            for name, values in condition.coordinates.items():
                column = columns.setdefault(name, np.full(len(self), np.nan))
                column[end - condition.size : end] = values
        return columns


def ranges_of(numbers: Numbers) -> list[range]:
    """The `range` objects that an array of whole numbers is put together from."""
    begins = np.flatnonzero(np.diff(numbers, prepend=-2) != 1)
    firsts, lengths = numbers[begins].tolist(), np.diff(begins, append=len(numbers)).tolist()
    return [range(first, first + length) for first, length in zip(firsts, lengths, strict=True)]


class Methods:
    """Integrators of a run table with each of their step sizes or tolerances, as arrays.

    Parameters
    ----------
    keys : iterable of (int, bool, float)
        Of each the index of the integrator, whether that is adaptive, and the tolerance if it is,
        else the step size.

    Attributes
    ----------
    integrator : ndarray of int
        Into ``experiment.integrators``.
    adaptive : ndarray of bool
    step_size, tolerance : ndarray of float
        NaN where the method is adaptive, or is not.
    """

    def __init__(self, keys: Iterable[tuple[int, bool, float]]) -> None:
        self.keys = tuple(keys)
        self.integrator, self.adaptive, sizes = map(np.array, zip(*self.keys, strict=True))
        self.step_size = np.where(self.adaptive, np.nan, sizes)
        self.tolerance = np.where(self.adaptive, sizes, np.nan)


@dataclasses.dataclass(frozen=True, eq=False)
class RunTable:
    """The runs of an experiment, or some of them.

    The columns, of shape ``(size,)``, are made of four indices when asked for.

    Rows are ordered repeat, method, system, initial condition fastest: neighbours are trajectories
    of one system by one method. Repeats of a run are far apart, so that what disturbs the machine
    for a while does not disturb all of them.

    Parameters
    ----------
    experiment : ResolvedExperiment
    systems : tuple of systems.System
        One for each combination of scanned values, the last axis fastest.
    starts : Starts
    axis_index : ndarray of int, shape (systems, axes)
        The value of each scanned axis in each system.
    methods : Methods
    repeat : ndarray of int32, shape (size,)
        Number of the repeat, from 0.
    method, system_index, start_index : ndarray of int32, shape (size,)
        Into `methods`, `systems` and `starts`.
    """

    experiment: ResolvedExperiment
    systems: tuple[System, ...]
    starts: Starts
    axis_index: Numbers
    methods: Methods
    repeat: Numbers
    method: Numbers
    system_index: Numbers
    start_index: Numbers

    @property
    def size(self) -> int:
        """Number of runs."""
        return len(self.method)

    def take(self, runs: Numbers | NDArray[np.bool_] | slice) -> "RunTable":
        """The table of some of the runs."""
        indices = (getattr(self, name)[runs] for name in INDICES)
        rest = self.experiment, self.systems, self.starts, self.axis_index, self.methods
        return RunTable(*rest, *indices)

    def slabs(self) -> Iterator[tuple[Numbers, "RunTable"]]:
        """All runs in slabs, each an ndarray of int and the table of these."""
        for first in range(0, self.size, SLAB):
            runs = np.arange(first, min(first + SLAB, self.size))
            yield runs, self.take(slice(first, first + SLAB))

    def occurring_methods(self) -> Numbers:
        """The indices into `methods` that occur, ascending."""
        there = np.zeros(len(self.methods.keys), dtype=bool)
        for _, runs in self.slabs():
            there[runs.method] = True
        return np.flatnonzero(there)

    # --- columns --------------------------------------------------------------------------------

    @property
    def integrator_index(self) -> Numbers:
        """Index into ``experiment.integrators``."""
        return self.methods.integrator[self.method]

    @property
    def step_size(self) -> NDArray[np.float64]:
        """NaN where the run is adaptive."""
        return self.methods.step_size[self.method]

    @property
    def tolerance(self) -> NDArray[np.float64]:
        """NaN where the run is not adaptive."""
        return self.methods.tolerance[self.method]

    @property
    def adaptive(self) -> NDArray[np.bool_]:
        """Whether the integrator chooses the steps, bool."""
        return self.methods.adaptive[self.method]

    @property
    def steps_per_sample(self) -> NDArray[np.int64]:
        """Steps in an interval of the time axis, int64; 0 where the run is adaptive."""
        ratio = np.rint(self.experiment.time_axis.interval / self.methods.step_size)
        return np.nan_to_num(ratio).astype(np.int64)[self.method]

    @property
    def scan(self) -> dict[str, np.ndarray]:
        """Scanned values, or their labels: a dict of axis name to array."""
        return {axis.name: self.column(axis.name) for axis in self.experiment.scan}

    def column(self, name: str) -> np.ndarray:
        """Column `name`: an attribute, a scanned parameter, or an axis of starts."""
        values, index = self._factor(name)
        return values[index]

    def where(self, condition: Condition) -> NDArray[np.bool_]:
        """Where a `sweep.study.exclude.Condition` on a column holds, without making the column."""
        values, index = self._factor(condition.column)
        return condition.holds(values)[index]

    def _factor(self, name: str) -> tuple[np.ndarray, Numbers | slice]:
        """The values that occur in a column, and the index into them of each run."""
        for number, axis in enumerate(self.experiment.scan):
            if axis.name == name:
                return axis.column, self.axis_index[:, number][self.system_index]
        match name:
            case "integrator":
                labels = np.array([entry.label for entry in self.experiment.integrators])
                return labels[self.methods.integrator], self.method
            case "initial_condition":
                return self.starts.labels(self.start_index)
            case "ensemble":
                ensembles = np.array([condition.ensemble for condition in self.starts.conditions])
                return ensembles, self.starts.condition_index(self.start_index)
        if name in self.starts.coordinates:
            return self.starts.coordinates[name], self.start_index
        return getattr(self, name), slice(None)

    def to_dataframe(self) -> "pandas.DataFrame":
        """A row for each run: integrator, sizes, scanned values, initial condition."""
        axes = [axis.name for axis in self.experiment.scan]
        names = [*COLUMNS, *axes, *self.starts.coordinates]
        return data_frame({name: self.column(name) for name in names})

    # --- initial states -------------------------------------------------------------------------

    def initial_state(self, run: int) -> States:
        """Initial state of a run, shape ``(rows, 3)``."""
        state: States = self.initial_states(np.array([run]))[0]
        return state

    def initial_states(self, runs: Numbers) -> States:
        """Initial states of runs of one system, shape ``(runs, rows, 3)``."""
        some = self.take(runs)
        return self.starts.states_of_starts(int(some.system_index[0]), some.start_index)

    def precise_starts(self, runs: Numbers, is_precise: bool | None = None) -> States | None:
        """Initial states of those of some runs that are in double-double.

        Parameters
        ----------
        runs : ndarray of int
        is_precise : bool, optional
            Whether all of them are; as their integrators say unless given.

        Returns
        -------
        ndarray, shape (runs, rows, 3, 2), or None
            As `Starts.in_double_double`; None if none of them is.
        """
        some, entries = self.take(runs), self.experiment.integrators
        precise = np.array([e.is_precise for e in entries])[some.integrator_index]
        if is_precise is not None:
            precise[:] = is_precise
        if not precise.any():
            return None
        found = np.full((len(runs), _largest_rows(self.systems), 3, 2), np.nan)
        for system in np.unique(some.system_index[precise]).tolist():
            own = np.flatnonzero(precise & (some.system_index == system))
            starts, of = np.unique(some.start_index[own], return_inverse=True)
            made = self.starts.in_double_double(system, starts)
            found[own, : self.systems[system].rows] = made[of]
        return found

    def with_states(self) -> Iterator[tuple[Numbers, States, NDArray[np.uint64]]]:
        """All runs, with their initial states and digests; each state is made once.

        Yields
        ------
        runs : ndarray of int, shape (n,)
            Some runs, ascending.
        states : ndarray, shape (n, rows, 3)
            Filled up with NaN where a system has fewer rows.
        digests : ndarray of uint64, shape (n,)
        """
        # Distinct pairs of a system and a start, and by place among them the runs.
        keys = self.system_index.astype(np.int64) * len(self.starts) + self.start_index
        pairs, place = np.unique(keys, return_inverse=True)
        order, ends = np.argsort(place, kind="stable"), np.cumsum(np.bincount(place))
        length = max(1, PIECE_BYTES // (24 * _largest_rows(self.systems)))
        begin = 0
        for first in range(0, len(pairs), length):
            states, digests = self._states_of_pairs(pairs[first : first + length])
            end = ends[first + len(states) - 1]
            own, begin = np.sort(order[begin:end]), end
            for runs in np.split(own, range(length, len(own), length)):
                of = place[runs] - first
                yield runs, states[of], self._digests_of_runs(runs, of, digests)

    def _states_of_pairs(self, pairs: Numbers) -> tuple[States, list[bytes]]:
        """States, and their digests, of pairs of a system and a start, which ascend."""
        system, start = np.divmod(pairs, len(self.starts))
        states = np.full((len(pairs), _largest_rows(self.systems), 3), np.nan)
        digests: list[bytes] = []
        for own in np.split(np.arange(len(pairs)), np.flatnonzero(np.diff(system)) + 1):
            made = self.starts.states_of_starts(int(system[own[0]]), start[own])
            states[own, : made.shape[1]] = made
            digests += map(initial_state_digest, made)
        return states, digests

    # --- identity -------------------------------------------------------------------------------

    @property
    def run_id(self) -> np.ndarray:
        """Identifiers, ndarray of str of 16 hexadecimal digits; see `sweep.study.run_id`."""
        return ids_of_digests(self.digests).astype("U16")

    @functools.cached_property
    def digests(self) -> NDArray[np.uint64]:
        """The identifiers as unsigned whole numbers, made when used: they depend on all states."""
        found = np.empty(self.size, dtype=">u8")
        for runs, _, digests in self.with_states():
            found[runs] = digests
        return found

    def _digests_of_runs(
        self, runs: Numbers, of: Numbers, starts: Sequence[bytes]
    ) -> NDArray[np.uint64]:
        """Digests of some runs, of which the index into digests of initial states is known."""
        some, found = self.take(runs), list[bytes]()
        blocks = some.repeat, some.method, some.system_index
        changes = np.any([np.diff(index, prepend=-1) for index in blocks], axis=0)
        for first, last in itertools.pairwise([*np.flatnonzero(changes).tolist(), len(runs)]):
            repeat, method, system = (int(index[first]) for index in blocks)
            made = self.system_digests[system].method(self.method_texts[method])
            mine = (starts[i] for i in of[first:last].tolist())
            found += run_digests(repeat_digest(made, repeat), mine)
        return np.frombuffer(b"".join(found), dtype=">u8")

    @functools.cached_property
    def system_digests(self) -> list[SystemDigest]:
        """The `SystemDigest` of each system."""
        return list(map(SystemDigest, self.systems))

    @functools.cached_property
    def method_texts(self) -> list[bytes]:
        """The `method_as_json` of each method."""
        experiment, made = self.experiment, self.methods
        entries = [experiment.integrators[index] for index in made.integrator]
        sizes = made.step_size.tolist(), made.tolerance.tolist()
        return [
            method_as_json(
                entry.name, entry.identity, step_size, tolerance, experiment.plugin_hashes(entry)
            )
            for entry, step_size, tolerance in zip(entries, *sizes, strict=True)
        ]


def _largest_rows(systems: Sequence[System]) -> int:
    return max(system.rows for system in systems)


def ids_of_digests(digests: NDArray[np.uint64]) -> np.ndarray:
    """Digests as identifiers of 16 hexadecimal digits, ndarray of bytes."""
    return np.frombuffer(digests.astype(">u8").tobytes().hex().encode(), dtype="S16")


def digests_of_ids(ids: Iterable[RunId]) -> NDArray[np.uint64]:
    """What `ids_of_digests` made identifiers of, from a list of str."""
    return np.frombuffer(bytes.fromhex("".join(ids)), dtype=">u8")


# --- expansion ----------------------------------------------------------------------------------


def expand_experiment(experiment: ResolvedExperiment) -> RunTable:
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
    table = _table_of_grid(experiment)
    if experiment.exclude:
        kept = [~_is_excluded(runs) for _, runs in table.slabs()]
        table = table.take(np.concatenate(kept))
        if not table.size:
            raise StudyError(f"{experiment.where}: 'exclude' leaves no run")
    if not _has_distinct_methods_and_starts(table):
        _check_runs_distinct(table)
    return table


def _table_of_grid(experiment: ResolvedExperiment) -> RunTable:
    """All runs of a grid."""
    methods, axis = _methods_of_grid(experiment), experiment.axis_of_steps
    systems = experiment.make_systems()
    axis_index = scan_index_combinations(experiment.scan, experiment.zipped)
    starts = Starts(systems, experiment.initial_conditions)
    together = np.ones((len(methods.keys), len(systems)), dtype=bool)
    if axis is not None:  # a step size advances with it, and a tolerance with nothing
        nth = np.concatenate([np.arange(count) for count in np.bincount(methods.integrator)])
        together = nth[:, None] == axis_index[:, axis]
        together |= methods.adaptive[:, None]
    method, system = np.nonzero(together)
    shape = experiment.repeat, len(method), len(starts)

    def spread(index: Numbers, *own: int) -> Numbers:
        """An index along one axis of the grid, for each of its cells."""
        every = np.broadcast_to(index.astype(np.int32).reshape(own), shape)
        return every.reshape(-1)  # without memory where all are the same

    rest = experiment, systems, starts, axis_index, methods
    return RunTable(
        *rest,
        repeat=spread(np.arange(experiment.repeat), -1, 1, 1),
        method=spread(method, 1, -1, 1),
        system_index=spread(system, 1, -1, 1),
        start_index=spread(np.arange(len(starts)), 1, 1, -1),
    )


def _methods_of_grid(experiment: ResolvedExperiment) -> Methods:
    keys = []
    for index, entry in enumerate(experiment.integrators):
        adaptive = entry.adaptive
        keys += [(index, adaptive, sizes[adaptive]) for sizes in experiment.steps_of(entry)]
    return Methods(keys)


def _is_excluded(runs: RunTable) -> NDArray[np.bool_]:
    rules = [rule.holds(runs.where) for rule in runs.experiment.exclude]
    found: NDArray[np.bool_] = np.any(rules, axis=0)
    return found


def _unite_run_tables(experiment: ResolvedExperiment, tables: Sequence[RunTable]) -> RunTable:
    """The runs of a union's parts, one after the other, without those that an earlier one has."""
    conditions, integrators = experiment.initial_conditions, experiment.integrators
    number = {entry.label: index for index, entry in enumerate(integrators)}
    begins = itertools.accumulate((condition.size for condition in conditions), initial=0)
    begin = dict(zip((condition.content for condition in conditions), begins, strict=False))
    made: dict[tuple[int, ...], System] = {}  # by the indices of their values on the axes
    methods: dict[tuple[int, bool, float], int] = {}
    systems: dict[tuple[int, ...], int] = {}
    columns = []
    for table in tables:
        own = table.experiment
        keys = ((number[own.integrators[i].label], *of) for i, *of in table.methods.keys)
        places = list(map(tuple, _axis_index_in_union(experiment, table).tolist()))
        made |= zip(places, table.systems, strict=True)
        starts = [begin[c.content] + np.arange(c.size) for c in own.initial_conditions]
        method, system = _numbers_of(keys, methods), _numbers_of(places, systems)
        start = np.concatenate(starts).astype(np.int32)
        indices = method[table.method], system[table.system_index], start[table.start_index]
        columns.append((table.repeat, *indices))
    axis_index = np.array(list(made), dtype=np.intp).reshape(len(made), len(experiment.scan))
    of_all = tuple(made.values())
    rest = experiment, of_all, Starts(of_all, conditions), axis_index, Methods(methods)
    united = RunTable(*rest, *map(np.concatenate, zip(*columns, strict=True)))
    digests = np.concatenate([table.digests for table in tables])
    return united.take(np.sort(np.unique(digests, return_index=True)[1]))


def _numbers_of(keys: Iterable[Any], known: dict[Any, int]) -> Numbers:
    """The number of each key among all that are `known`, where a new one is put."""
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int32)


def _axis_index_in_union(experiment: ResolvedExperiment, table: RunTable) -> Numbers:
    """The value of each axis of a union in each system of a part's table."""
    found = np.zeros((len(table.systems), len(experiment.scan)), dtype=np.intp)
    parts = {axis.name: (axis, number) for number, axis in enumerate(table.experiment.scan)}
    for number, axis in enumerate(experiment.scan):
        own, column = parts[axis.name]
        place = {value: index for index, value in enumerate(axis.values)}
        index = np.array([place[value] for value in own.values])
        found[:, number] = index[table.axis_index[:, column]]
    return found


# --- that no run is given twice -------------------------------------------------------------------


def _has_distinct_methods_and_starts(table: RunTable) -> bool:
    """Whether no two methods are the same and no two starts, and so no two runs.

    Random states are not drawn: no two are the same but by seed, number, centre and spread.
    """
    conditions = table.experiment.initial_conditions
    random = [c.content for c in conditions if isinstance(c, RandomStarts)]
    if random and any(isinstance(c, FileStarts | GivenStart) for c in conditions):
        return False  # these may have been drawn as well
    rest = [c for c in conditions if not isinstance(c, RandomStarts)]
    methods = [table.method_texts[method] for method in table.occurring_methods()]
    systems = [digest.method(b"") for digest in table.system_digests]
    of_systems = (
        [initial_state_digest(state) for c in rest for state in c.states(system)]
        for system in table.systems
    )
    parts = itertools.chain((random, methods, systems), of_systems)
    return all(len(set(part)) == len(part) for part in parts)


def _check_runs_distinct(table: RunTable) -> None:
    order = np.argsort(table.digests, kind="stable")
    digests = table.digests[order]
    same = np.flatnonzero(digests[1:] == digests[:-1])
    if same.size:
        pair = order[same[0] : same[0] + 2]
        one, other = _place_of_difference(table, pair), _place_of_difference(table, pair[::-1])
        run = table.take(pair[:1])
        what = f"step size {table.experiment.in_time_units(run.step_size[0])}"
        if run.adaptive[0]:
            what = f"tolerance {run.tolerance[0]}"
        raise StudyError(
            f"{other}: gives a run of {what} that {one} gives too; give each run only once"
        )


def _place_of_difference(table: RunTable, pair: Numbers) -> str:
    """Where the study has the entry in which the first of two same runs differs from the other."""
    experiment, runs = table.experiment, table.take(pair)
    entry, twin = runs.integrator_index
    if entry != twin:
        return f"{experiment.integrators[entry].where} ({experiment.integrators[entry].label!r})"
    for axis in experiment.scan:
        value, same = runs.column(axis.name)
        if value != same:
            return f"{axis.where} ({value})"
    start = experiment.initial_conditions[table.starts.condition_index(runs.start_index)[0]]
    return f"{start.where} ({str(runs.column('initial_condition')[0])!r})"
