"""The run table: an experiment as columns over its runs."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import StudyError
from sweep.study.exclude import Condition
from sweep.study.experiment import ResolvedExperiment, scan_index_combinations
from sweep.study.initial_conditions.base import FileStarts, GivenStart, RandomStarts, Start
from sweep.study.run_id import (
    RunId,
    StepSize,
    SystemDigest,
    Tolerance,
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
SLAB = 2**16  # runs that are looked at together
PIECE_BYTES = 2**24  # of states that are made together
MOST_DRAWN = 2**14  # states at a time, which take several times their memory meanwhile
MOST_LABELS = 2**16  # of starts, that are kept
Numbers = NDArray[np.integer]  # of rows, cells, systems, starts …
States = NDArray[np.float64]  # their last axes are rows and components


class InitialStates(Sequence[States]):
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

    def __init__(
        self,
        systems: Sequence[System],
        conditions: Sequence[Start],
        paired: list[frozenset[str]] | None = None,
    ) -> None:
        self._systems, self._conditions, self._paired = systems, conditions, paired
        self._ends = np.cumsum([condition.size for condition in conditions])
        self._made: dict[tuple[int, int], States] = {}

    def __len__(self) -> int:
        return len(self._systems)

    def __getitem__(self, system: Any) -> Any:
        return self.states_of_starts(system, np.arange(self._ends[-1]))

    def states_of_starts(self, system: int, starts: Numbers) -> States:
        """The states of some starts of a system, shape ``(len(starts), rows, 3)``.

        Those of ensembles of any size, random or from files, are not kept.
        """
        return self._states_by_condition(system, starts, self._states)

    def in_double_double(self, system: int, starts: Numbers) -> States:
        """The same with a last axis of high and low doubles, made anew each time.

        NaN where all that is known are the doubles, as of random states.
        """

        def made(system: int, number: int, members: Numbers) -> States:
            return self._conditions[number].in_double_double(self._systems[system], members)

        return self._states_by_condition(system, starts, made, (2,))

    def _states_by_condition(
        self,
        system: int,
        starts: Numbers,
        rows_of: Callable[[int, int, Numbers], States],
        parts: tuple[int, ...] = (),
    ) -> States:
        found = np.full((len(starts), self._systems[system].rows, 3, *parts), np.nan)
        of = np.searchsorted(self._ends, starts, side="right")
        for number in np.unique(of).tolist():
            condition, own = self._conditions[number], np.flatnonzero(of == number)
            if self._paired is None or condition.content in self._paired[system]:
                members = starts[own] - (self._ends[number] - condition.size)
                found[own] = rows_of(system, number, members)
        return found

    def _states(self, system: int, number: int, members: Numbers) -> States:
        condition, made = self._conditions[number], self._systems[system]
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


def ranges_of(numbers: Numbers) -> list[range]:
    """The `range` objects that an array of whole numbers is put together from."""
    firsts, lengths = _firsts_and_lengths(numbers)
    ends = zip(firsts.tolist(), (firsts + lengths).tolist(), strict=True)
    return [range(first, end) for first, end in ends]


def _firsts_and_lengths(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """The first number, and the length, of each range that an array is put together from."""
    begins = np.flatnonzero(np.diff(numbers, prepend=-2) != 1)
    return numbers[begins], np.diff(begins, append=len(numbers))


class Columns:
    """What the axes of a `RunTable` say of some of its runs, as arrays over these.

    A subclass has `table`, and `cells`: the place of each run in the grid of all axes.
    """

    if TYPE_CHECKING:

        @property
        def table(self) -> "RunTable":
            """Whose runs they are."""

        @property
        def cells(self) -> Numbers:
            """Their places in the grid of all axes."""

    @property
    def repeat(self) -> Numbers:
        """Number of the repeat, from 0."""
        return self._index(0)

    @property
    def method(self) -> Numbers:
        """Index into the table's `methods`."""
        return self._index(1)

    @property
    def system_index(self) -> Numbers:
        """Index into `systems`."""
        return self._index(2)

    @property
    def start_index(self) -> Numbers:
        """Index into the first axis of `starts`."""
        return self._index(3)

    def _index(self, axis: int) -> Numbers:
        shape = self.table.shape
        return self.cells // math.prod(shape[axis + 1 :]) % shape[axis]

    @property
    def integrator_index(self) -> Numbers:
        """Index into ``experiment.integrators``."""
        return self.table.methods.integrator[self.method]

    @property
    def step_size(self) -> NDArray[np.float64]:
        """NaN where the run is adaptive."""
        return self.table.methods.step_size[self.method]

    @property
    def tolerance(self) -> NDArray[np.float64]:
        """NaN where the run is not adaptive."""
        return self.table.methods.tolerance[self.method]

    @property
    def adaptive(self) -> NDArray[np.bool_]:
        """Whether the integrator chooses the steps, bool."""
        return self.table.methods.adaptive[self.method]

    @property
    def steps_per_sample(self) -> NDArray[np.int64]:
        """Steps in an interval of the time axis, int64; 0 where the run is adaptive."""
        methods, interval = self.table.methods, self.table.experiment.time_axis.interval
        steps = np.where(methods.adaptive, 0, np.rint(interval / methods.step_size))
        return steps.astype(np.int64)[self.method]

    @property
    def integrator(self) -> np.ndarray:
        """Labels of the integrators."""
        return self.column("integrator")

    @property
    def initial_condition(self) -> np.ndarray:
        """Labels of the initial conditions."""
        return self.column("initial_condition")

    @property
    def ensemble(self) -> np.ndarray:
        """Labels of the ensembles; empty for a single start."""
        return self.column("ensemble")

    @property
    def scan(self) -> dict[str, np.ndarray]:
        """Scanned values, or their labels: a dict of axis name to array."""
        return {axis.name: self.column(axis.name) for axis in self.table.experiment.scan}

    @property
    def start_axes(self) -> dict[str, np.ndarray]:
        """Values of the axes of families of starts, NaN for other starts: name to array."""
        return {name: self.column(name) for name in self.table.axes_of_starts}

    def column(self, name: str) -> np.ndarray:
        """Column `name`: an attribute, a scanned parameter, or an axis of starts."""
        values, index = self._factor(name)
        return values[index]

    def where(self, condition: Condition) -> NDArray[np.bool_]:
        """Where a `sweep.study.exclude.Condition` on a column holds, without making the column."""
        values, index = self._factor(condition.column)
        return condition.holds(values)[index]

    def _factor(self, name: str) -> tuple[np.ndarray, Numbers | EllipsisType]:
        """The values that occur in a column, and the index into them of each run."""
        experiment = self.table.experiment
        for number, axis in enumerate(experiment.scan):
            if axis.name == name:
                return axis.column, self.table.axis_index[:, number][self.system_index]
        match name:
            case "integrator":
                labels = np.array([entry.label for entry in experiment.integrators])
                return labels, self.integrator_index
            case "initial_condition":
                return self.table.labels_of_starts(self.start_index)
            case "ensemble":
                ensembles = np.array([c.ensemble for c in experiment.initial_conditions])
                return ensembles, self.table.condition_of_starts(self.start_index)
        axes = self.table.axes_of_starts
        return (axes[name], self.start_index) if name in axes else (getattr(self, name), ...)


@dataclasses.dataclass(frozen=True, eq=False)
class Runs(Columns):
    """Some runs of a `RunTable`."""

    table: "RunTable"
    cells: Numbers


@dataclasses.dataclass(frozen=True, eq=False)
class Methods:
    """The integrators of a run table with each of their step sizes or tolerances, as arrays.

    Parameters
    ----------
    integrator : ndarray of int
        Into ``experiment.integrators``.
    step_size, tolerance : ndarray of float
        NaN where the method is adaptive, or is not.
    """

    integrator: Numbers
    step_size: NDArray[np.float64]
    tolerance: NDArray[np.float64]

    @property
    def adaptive(self) -> NDArray[np.bool_]:
        """Whether the integrator chooses the steps, ndarray of bool."""
        return np.isfinite(self.tolerance)

    @property
    def keys(self) -> list[tuple[int, bool, float]]:
        """Integrator, whether it is adaptive, and step size or tolerance of each."""
        sizes = np.where(self.adaptive, self.tolerance, self.step_size)
        columns = (self.integrator, self.adaptive, sizes)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    @classmethod
    def of_keys(cls, keys: Iterable[tuple[int, bool, float]]) -> "Methods":
        """Those with some `keys`."""
        integrator, adaptive, sizes = map(np.array, zip(*keys, strict=True))
        step_size, tolerance = np.where(adaptive, np.nan, sizes), np.where(adaptive, sizes, np.nan)
        return cls(integrator, step_size, tolerance)


@dataclasses.dataclass(frozen=True, eq=False)
class RunTable(Columns):
    """All runs of an experiment.

    It has the axes alone; the columns, of shape ``(size,)``, are made from them when asked for:
    those of all runs as attributes, those of some by `take`.

    Rows are ordered repeat, method, system, initial condition fastest: neighbours are trajectories
    of one system by one method. Repeats of a run are far apart, so that what disturbs the machine
    for a while does not disturb all of them.

    Parameters
    ----------
    experiment : ResolvedExperiment
    systems : tuple of systems.System
        One for each combination of scanned values, the last axis fastest.
    starts : InitialStates
    axis_index : ndarray of int, shape (systems, axes)
        The value of each scanned axis in each system.
    methods : Methods
    repeats : int
    first_cell, first_row : ndarray of int
        The runs are ranges of cells of the grid of all axes: the cell and the row at which each
        begins. It is one range if nothing is left out.
    size : int
        Number of runs.
    """

    experiment: ResolvedExperiment
    systems: tuple[System, ...]
    starts: InitialStates
    axis_index: Numbers
    methods: Methods
    repeats: int
    first_cell: Numbers
    first_row: Numbers
    size: int

    @property
    def table(self) -> "RunTable":
        """The table itself."""
        return self

    def to_dataframe(self) -> "pandas.DataFrame":
        """A row for each run: integrator, sizes, scanned values, initial condition."""
        names = [*COLUMNS, *(axis.name for axis in self.experiment.scan), *self.axes_of_starts]
        return data_frame({name: self.column(name) for name in names})

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of the grid: repeats, methods, systems, starts."""
        return self.repeats, len(self.methods.integrator), len(self.systems), self.start_count

    @property
    def cells(self) -> Numbers:
        """Places of all runs in the grid."""
        return self.take(np.arange(self.size)).cells

    def take(self, runs: Numbers) -> Runs:
        """The columns of some runs, an ndarray of int."""
        part = np.searchsorted(self.first_row, runs, side="right") - 1
        return Runs(self, self.first_cell[part] - self.first_row[part] + runs)

    def slabs(self) -> Iterator[tuple[Numbers, Runs]]:
        """All runs in slabs, each an ndarray of int and its `Runs`.

        A slab has whole blocks of one method, unless these are too large.
        """
        block = math.prod(self.shape[2:])
        length = max(SLAB // block, 1) * block if block <= SLAB else SLAB
        for first in range(0, self.size, length):
            runs = np.arange(first, min(first + length, self.size))
            yield runs, self.take(runs)

    def occurring_indices(self, axis: int) -> Numbers:
        """The indices that occur on an axis of the grid: 0 repeats, 1 methods, 2 systems."""
        if len(self.first_row) == 1:
            return np.arange(self.shape[axis])
        there = np.zeros(self.shape[axis], dtype=bool)
        for _, runs in self.slabs():
            there[runs._index(axis)] = True
        return np.flatnonzero(there)

    @property
    def start_count(self) -> int:
        """Number of initial states of a system."""
        return sum(condition.size for condition in self.experiment.initial_conditions)

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
        methods, count = _MethodDigests(self), math.prod(self.shape[2:])
        for first, states, of_states in self._pieces_of_states():
            for runs, places in self.slabs():
                key = places.cells % count - first
                own = np.flatnonzero((key >= 0) & (key < len(states)))
                if len(own):
                    digests = methods.of_runs(places.cells[own], key[own], of_states)
                    yield runs[own], states[key[own]], digests

    def _pieces_of_states(self) -> Iterator[tuple[int, States, list[bytes]]]:
        """The states of all starts of all systems in pieces, with their digests."""
        count, rows = self.start_count, max(made.rows for made in self.systems)
        total, length = len(self.systems) * count, max(1, PIECE_BYTES // (24 * rows))
        for first in range(0, total, length):
            last = min(first + length, total)
            states = np.full((last - first, rows, 3), np.nan)
            digests: list[bytes] = []
            for system in range(first // count, (last - 1) // count + 1):
                begin, end = max(first, system * count), min(last, (system + 1) * count)
                made = self.starts.states_of_starts(system, np.arange(begin, end) - system * count)
                states[begin - first : end - first, : made.shape[1]] = made
                digests += map(initial_state_digest, made)
            yield first, states, digests

    @functools.cached_property
    def axes_of_starts(self) -> dict[str, NDArray[np.float64]]:
        """The axes of families of starts over the starts of a system: name to array."""
        columns: dict[str, NDArray[np.float64]] = {}
        first = 0
        for condition in self.experiment.initial_conditions:
            for name, values in condition.coordinates.items():
                column = columns.setdefault(name, np.full(self.start_count, np.nan))
                column[first : first + condition.size] = values
            first += condition.size
        return columns

    def condition_of_starts(self, starts: Numbers) -> Numbers:
        """Index into the experiment's initial conditions of some starts."""
        sizes = [condition.size for condition in self.experiment.initial_conditions]
        return np.searchsorted(np.cumsum(sizes), starts, side="right")

    def labels_of_starts(self, starts: Numbers) -> tuple[np.ndarray, Numbers]:
        """Labels of initial conditions, and the index into them of some starts."""
        conditions = self.experiment.initial_conditions
        if self.start_count <= MOST_LABELS:
            return self._labels, starts
        distinct, index = np.unique(starts, return_inverse=True)
        labels, of = [], self.condition_of_starts(distinct)
        ends = np.cumsum([condition.size for condition in conditions])
        for number in np.unique(of).tolist():
            condition = conditions[number]
            members = distinct[of == number] - (ends[number] - condition.size)
            labels += condition.labels_of_members(members.tolist())
        return np.array(labels), index

    @functools.cached_property
    def _labels(self) -> np.ndarray:
        return np.array([label for c in self.experiment.initial_conditions for label in c.labels])

    def initial_state(self, run: int) -> States:
        """Initial state of a run, shape ``(rows, 3)``."""
        state: States = self.initial_states(np.array([run]))[0]
        return state

    def initial_states(self, runs: Numbers) -> States:
        """Initial states of runs of one system, shape ``(runs, rows, 3)``."""
        places = self.take(runs)
        return self.starts.states_of_starts(int(places.system_index[0]), places.start_index)

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
            As `InitialStates.in_double_double`; None if none of them is.
        """
        places = self.take(runs)
        entries = self.experiment.integrators
        of_entries = np.array([e.is_precise for e in entries])[places.integrator_index]
        precise = np.broadcast_to(of_entries if is_precise is None else is_precise, len(runs))
        if not precise.any():
            return None
        found = np.full((len(runs), max(made.rows for made in self.systems), 3, 2), np.nan)
        for system in np.unique(places.system_index[precise]).tolist():
            own = np.flatnonzero(precise & (places.system_index == system))
            starts, of = np.unique(places.start_index[own], return_inverse=True)
            made = self.starts.in_double_double(system, starts)
            found[own, : self.systems[system].rows] = made[of]
        return found


def ids_of_digests(digests: NDArray[np.uint64]) -> np.ndarray:
    """Digests as identifiers of 16 hexadecimal digits, ndarray of bytes."""
    return np.frombuffer(digests.astype(">u8").tobytes().hex().encode(), dtype="S16")


def digests_of_ids(ids: Iterable[RunId]) -> NDArray[np.uint64]:
    """What `ids_of_digests` made identifiers of, from a list of str."""
    return np.frombuffer(bytes.fromhex("".join(ids)), dtype=">u8")


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
    table = _without_excluded_runs(_table_of_all_runs(experiment))
    if not _has_distinct_methods_and_starts(table):
        _check_runs_distinct(table)
    return table


def _has_distinct_methods_and_starts(table: RunTable) -> bool:
    """Whether no two methods are the same and no two starts, and so no two runs.

    Random states are not drawn: no two are the same but by seed, number, centre and spread.
    """
    conditions = table.experiment.initial_conditions
    random = [c for c in conditions if isinstance(c, RandomStarts)]
    if random and any(isinstance(c, FileStarts | GivenStart) for c in conditions):
        return False  # these may have been drawn as well
    if len({c.content for c in random}) < len(random):
        return False
    methods, made = _MethodDigests(table), table.occurring_indices(1)
    if len(set(map(methods.text, made.tolist()))) < len(made):
        return False
    if len({SystemDigest(system).method(b"") for system in table.systems}) < len(table.systems):
        return False
    rest = [c for c in conditions if not isinstance(c, RandomStarts)]
    for system in table.systems:
        starts = [initial_state_digest(state) for c in rest for state in c.states(system)]
        if len(set(starts)) < len(starts):
            return False
    return True


def _table_of_all_runs(experiment: ResolvedExperiment) -> RunTable:
    made = experiment.make_systems()
    steps = [experiment.steps_of(entry) for entry in experiment.integrators]
    axis_index = _axis_indices_of_systems(experiment)
    integrator = np.repeat(np.arange(len(steps)), [len(own) for own in steps])
    step_size, tolerance = np.array([size for own in steps for size in own]).T
    table = RunTable(
        experiment=experiment,
        systems=made,
        starts=InitialStates(made, experiment.initial_conditions),
        axis_index=axis_index,
        methods=Methods(integrator, step_size, tolerance),
        repeats=experiment.repeat,
        first_cell=np.zeros(1, dtype=int),
        first_row=np.zeros(1, dtype=int),
        size=0,
    )
    if experiment.axis_of_steps is None:
        return dataclasses.replace(table, size=math.prod(table.shape))
    blocks = _blocks_of_advancing_steps(table, steps)
    return _table_of_ranges(
        table, blocks * table.start_count, np.full(len(blocks), table.start_count)
    )


def _blocks_of_advancing_steps(
    table: RunTable, steps: Sequence[Sequence[tuple[StepSize, Tolerance]]]
) -> Numbers:
    """Blocks of the grid, each of all starts, in which a step size advances with an axis."""
    nth = np.concatenate([np.arange(len(own)) for own in steps])
    together = nth[:, None] == table.axis_index[:, table.experiment.axis_of_steps]
    together |= table.methods.adaptive[:, None]  # a tolerance advances with nothing
    blocks = np.flatnonzero(together)
    every: Numbers = (np.arange(table.repeats)[:, None] * together.size + blocks).ravel()
    return every


def _table_of_ranges(table: RunTable, cells: Numbers, lengths: Numbers) -> RunTable:
    """The table whose runs are ranges of cells that begin at `cells`, one after the other."""
    rows = np.cumsum(lengths) - lengths
    first = np.ones(len(cells), dtype=bool)
    first[1:] = np.diff(cells) != lengths[:-1]
    size = int(lengths.sum())
    return dataclasses.replace(table, first_cell=cells[first], first_row=rows[first], size=size)


def _table_of_cells(table: RunTable, slabs: Iterable[Numbers]) -> RunTable:
    """The table whose runs are the cells in some arrays, one after the other."""
    parts = zip(*map(_firsts_and_lengths, slabs), strict=True)
    return _table_of_ranges(table, *map(np.concatenate, parts))


def _unite_run_tables(experiment: ResolvedExperiment, tables: Sequence[RunTable]) -> RunTable:
    """The runs of a union's parts, one after the other, without those that an earlier one has."""
    conditions, paired = experiment.initial_conditions, []
    systems: dict[tuple[int, ...], tuple[int, System]] = {}
    ends = np.cumsum([condition.size for condition in conditions])
    first = {c.content: end - c.size for c, end in zip(conditions, ends, strict=True)}
    entries = {entry.label: index for index, entry in enumerate(experiment.integrators)}
    methods: dict[tuple[int, bool, float], int] = {}
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
        keys = [
            (entries[own.integrators[i].label], adaptive, size)
            for i, adaptive, size in table.methods.keys
        ]
        method = np.array([methods.setdefault(key, len(methods)) for key in keys])
        parts.append((table, method, system, np.concatenate(starts)))
    made = tuple(system for _, system in systems.values())
    united = RunTable(
        experiment=experiment,
        systems=made,
        starts=InitialStates(made, conditions, paired),
        axis_index=np.array(list(systems), dtype=np.intp).reshape(len(made), len(experiment.scan)),
        methods=Methods.of_keys(methods),
        repeats=max(table.repeats for table in tables),
        first_cell=np.zeros(0, dtype=int),
        first_row=np.zeros(0, dtype=int),
        size=0,
    )
    if math.prod(united.shape) > np.iinfo(np.int64).max:
        raise StudyError(f"{experiment.where}: its axes are too long to be united; use two stores")
    united = _table_of_cells(united, _cells_in_union(united, parts))
    digests = np.concatenate([table.digests for table in tables])
    kept = np.zeros(united.size, dtype=bool)
    kept[np.unique(digests, return_index=True)[1]] = True
    return _table_of_cells(united, (runs.cells[kept[rows]] for rows, runs in united.slabs()))


def _cells_in_union(
    united: RunTable, parts: Iterable[tuple[RunTable, Numbers, Numbers, Numbers]]
) -> Iterator[Numbers]:
    """The cells of a union that runs of its parts have, in slabs."""
    for table, method, system, starts in parts:
        for _, runs in table.slabs():
            axes = runs.repeat, method[runs.method], system[runs.system_index]
            yield np.ravel_multi_index((*axes, starts[runs.start_index]), united.shape)


def _axis_index_in_union(experiment: ResolvedExperiment, table: RunTable) -> Numbers:
    """The value of each axis of a union in each system of a part's table."""
    found = np.zeros((len(table.systems), len(experiment.scan)), dtype=np.intp)
    names = [axis.name for axis in table.experiment.scan]
    for number, axis in enumerate(experiment.scan):
        own, place = names.index(axis.name), {value: i for i, value in enumerate(axis.values)}
        values = [place[value] for value in table.experiment.scan[own].values]
        found[:, number] = np.array(values)[table.axis_index[:, own]]
    return found


def _axis_indices_of_systems(experiment: ResolvedExperiment) -> Numbers:
    """The index of the value of each axis in each system, shape ``(systems, axes)``."""
    found = list(scan_index_combinations(experiment.scan, experiment.zipped))
    return np.array(found, dtype=np.intp).reshape(len(found), len(experiment.scan))


def _without_excluded_runs(table: RunTable) -> RunTable:
    experiment = table.experiment
    if not experiment.exclude:
        return table
    left = _table_of_cells(table, (runs.cells[~_exclusion_mask(runs)] for _, runs in table.slabs()))
    if not left.size:
        raise StudyError(f"{experiment.where}: 'exclude' leaves no run")
    return left


def _exclusion_mask(runs: Runs) -> NDArray[np.bool_]:
    rules = runs.table.experiment.exclude
    found: NDArray[np.bool_] = np.logical_or.reduce([rule.holds(runs.where) for rule in rules])
    return found


class _MethodDigests:
    """The digests of the runs of a table, for which each method and system is looked at once."""

    def __init__(self, table: RunTable) -> None:
        self._table, self._keys = table, table.methods.keys
        self._systems: dict[int, SystemDigest] = {}
        self._texts: dict[int, bytes] = {}

    def of_runs(self, cells: Numbers, key: Numbers, starts: Sequence[bytes]) -> NDArray[np.uint64]:
        """Digests of the runs in some cells, ascending, as ndarray of uint64.

        Parameters
        ----------
        cells : ndarray of int
        key : ndarray of int
            Of each of them, into `starts`.
        starts : list of bytes
            The `run_id.initial_state_digest` of states.
        """
        blocks, keys = cells // self._table.start_count, key.tolist()
        digests: list[bytes] = []
        firsts = np.flatnonzero(np.diff(blocks, prepend=-1))
        places = np.unravel_index(blocks[firsts], self._table.shape[:3])
        ends = zip(firsts.tolist(), [*firsts[1:].tolist(), len(keys)], strict=True)
        for (first, last), *place in zip(ends, *(own.tolist() for own in places), strict=True):
            digests += run_digests(self._digest(*place), [starts[i] for i in keys[first:last]])
        return np.frombuffer(b"".join(digests), dtype=">u8")

    def _digest(self, repeat: int, method: int, system: int) -> bytes:
        if system not in self._systems:
            self._systems[system] = SystemDigest(self._table.systems[system])
        return repeat_digest(self._systems[system].method(self.text(method)), repeat)

    def text(self, method: int) -> bytes:
        """The `run_id.method_as_json` of a method of the table."""
        if method not in self._texts:
            experiment, (integrator, adaptive, size) = self._table.experiment, self._keys[method]
            entry = experiment.integrators[integrator]
            sizes = (math.nan, size) if adaptive else (size, math.nan)
            plugins = experiment.plugin_hashes(entry)
            self._texts[method] = method_as_json(entry.name, entry.identity, *sizes, plugins)
        return self._texts[method]


def _check_runs_distinct(table: RunTable) -> None:
    digests = np.sort(table.digests)
    same = np.flatnonzero(digests[1:] == digests[:-1])
    if same.size:
        pair = np.flatnonzero(table.digests == digests[same[0]])[:2]
        one, other = _place_of_difference(table, pair), _place_of_difference(table, pair[::-1])
        run = table.take(pair)
        what = (
            f"tolerance {run.tolerance[0]}"
            if run.adaptive[0]
            else f"step size {table.experiment.in_time_units(run.step_size[0])}"
        )
        raise StudyError(
            f"{other}: gives a run of {what} that {one} gives too; give each run only once"
        )


def _place_of_difference(table: RunTable, pair: Numbers) -> str:
    """Where the study has the entry in which the first of two same runs differs from the other."""
    experiment, runs = table.experiment, table.take(pair)
    entry, twin = runs.integrator_index
    if entry != twin:
        return f"{experiment.integrators[entry].where} ({experiment.integrators[entry].label!r})"
    if runs.system_index[0] != runs.system_index[1]:
        for axis in experiment.scan:
            value, same = runs.scan[axis.name]
            if value != same:
                return f"{axis.where} ({value})"
    start = experiment.initial_conditions[table.condition_of_starts(runs.start_index)[0]]
    return f"{start.where} ({str(runs.initial_condition[0])!r})"
