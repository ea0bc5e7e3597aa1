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
from sweep.study.experiment import (
    ResolvedExperiment,
    scan_combinations,
    scan_index_combinations,
)
from sweep.study.run_id import (
    RunId,
    SystemDigest,
    initial_state_digest,
    method_as_json,
    repeat_digest,
    run_digests,
)
from sweep.study.starts import FileStarts, GivenStart, RandomStarts, Start
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


class StartTable:
    """The initial conditions of an experiment as starts, counted over all of them.

    Parameters
    ----------
    systems : tuple of systems.System
    conditions : tuple of Start
        Of the classes in `sweep.study.starts`.
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

    def states_of_starts(self, system: int, starts: Numbers, precise: bool = False) -> States:
        """States of some starts of a system.

        Those of random ensembles and of files, of any size, are not kept.

        Parameters
        ----------
        system : int
        starts : ndarray of int
        precise : bool
            Whether in double-double; made anew each time.

        Returns
        -------
        ndarray, shape (starts, rows, 3)
            Of `precise` states with a last axis of high and low doubles: NaN where all that is
            known are the doubles, as of random states.
        """
        made = self._systems[system]
        found = np.empty((len(starts), made.rows, 3, *(2,) * precise))
        for number, own, members in self._by_condition(starts):
            condition = self.conditions[number]
            if precise:
                found[own] = condition.in_double_double(made, members)
            elif isinstance(condition, RandomStarts | FileStarts):
                parts = (
                    condition.states(made, part[first : first + MOST_DRAWN])
                    for part in ranges_of(members)
                    for first in range(0, len(part), MOST_DRAWN)
                )
                found[own] = np.concatenate(list(parts))
            else:
                if (system, number) not in self._made:
                    self._made[system, number] = condition.states(made)
                found[own] = self._made[system, number][members]
        return found

    def labels(self, starts: Numbers) -> tuple[np.ndarray, Numbers]:
        """Labels of those starts that occur among some, and the index into them of each."""
        distinct, index = np.unique(starts, return_inverse=True)
        found: list[str] = []
        for number, _, members in self._by_condition(distinct):
            found += self.conditions[number].labels_of_members(members.tolist())
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
    starts : StartTable
    scanned : dict of str to ndarray, shape (systems,)
        By the name of each scanned axis its values, or their labels, in the systems.
    methods : Methods
    repeat : ndarray of int32, shape (size,)
        Number of the repeat, from 0.
    method, system_index, start_index : ndarray of int32, shape (size,)
        Into `methods`, `systems` and `starts`.
    """

    experiment: ResolvedExperiment
    systems: tuple[System, ...]
    starts: StartTable
    scanned: dict[str, np.ndarray]
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
        indices = {name: getattr(self, name)[runs] for name in INDICES}
        return dataclasses.replace(self, **indices)

    def slabs(self) -> Iterator[tuple[Numbers, "RunTable"]]:
        """All runs in slabs, each an ndarray of int and the table of these."""
        for first in range(0, self.size, SLAB):
            runs = np.arange(first, min(first + SLAB, self.size))
            yield runs, self.take(slice(first, first + SLAB))

    def occurring_methods(self) -> Numbers:
        """The indices into `methods` that occur, ascending."""
        there = np.zeros(len(self.methods.keys), dtype=bool)
        for _, runs in self.slabs():  # or NumPy would copy all as longer integers
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
        return {name: self.column(name) for name in self.scanned}

    def column(self, name: str) -> np.ndarray:
        """Column `name`: an attribute, a scanned parameter, or an axis of starts."""
        values, index = self._factor(name)
        return values[index]

    def where(self, conditions: Iterable[Condition]) -> NDArray[np.bool_]:
        """Where all of some conditions on columns hold, without making the columns."""
        found = np.ones(self.size, dtype=bool)
        for condition in conditions:
            values, index = self._factor(condition.column)
            found &= condition.holds(values)[index]
        return found

    def _factor(self, name: str) -> tuple[np.ndarray, Numbers | slice]:
        """The values that occur in a column, and the index into them of each run."""
        if name in self.scanned:
            return self.scanned[name], self.system_index
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
        names = [*COLUMNS, *self.scanned, *self.starts.coordinates]
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
            As of `StartTable.states_of_starts`; None if none of them is.
        """
        some = self.take(runs)
        own = np.array([entry.is_precise for entry in self.experiment.integrators])
        precise = own[some.integrator_index]
        if is_precise is not None:
            precise[:] = is_precise
        if not precise.any():
            return None
        pairs, of = np.unique(some._pairs[precise], return_inverse=True)
        made = self._states_of_pairs(pairs, precise=True)
        found = np.full((len(runs), *made.shape[1:]), np.nan)
        found[precise] = made[of]
        return found

    def with_states(self) -> Iterator[tuple[Numbers, States, NDArray[np.uint64]]]:
        """All runs, with their initial states and digests; hardly any state is made twice.

        Yields
        ------
        runs : ndarray of int, shape (n,)
            Some runs, ascending.
        states : ndarray, shape (n, rows, 3)
            Filled up with NaN where a system has fewer rows.
        digests : ndarray of uint64, shape (n,)
        """
        pairs = self._pairs
        order = np.argsort(pairs, kind="stable")
        length = max(1, PIECE_BYTES // (24 * self._largest_rows))
        for first in range(0, self.size, length):
            runs = np.sort(order[first : first + length])
            own, of = np.unique(pairs[runs], return_inverse=True)
            states = self._states_of_pairs(own)
            rows = [self.systems[i].rows for i in (own // len(self.starts)).tolist()]
            starts = [
                initial_state_digest(state[:n]) for state, n in zip(states, rows, strict=True)
            ]
            yield runs, states[of], self._digests_of_runs(runs, starts, of)

    @property
    def _pairs(self) -> NDArray[np.int64]:
        """A number for the pair of system and start of each run."""
        return self.system_index.astype(np.int64) * len(self.starts) + self.start_index

    @property
    def _largest_rows(self) -> int:
        return max(system.rows for system in self.systems)

    def _states_of_pairs(self, pairs: Numbers, precise: bool = False) -> States:
        """States of pairs of a system and a start, which ascend."""
        system, start = np.divmod(pairs, len(self.starts))
        found = np.full((len(pairs), self._largest_rows, 3, *(2,) * precise), np.nan)
        for own in np.split(np.arange(len(pairs)), np.flatnonzero(np.diff(system)) + 1):
            made = self.starts.states_of_starts(int(system[own[0]]), start[own], precise)
            found[own, : made.shape[1]] = made
        return found

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
        self, runs: Numbers, starts: Sequence[bytes], of: Numbers
    ) -> NDArray[np.uint64]:
        """Digests of some runs from those of initial states, and the index into these of each."""
        some, found = self.take(runs), list[bytes]()
        blocks = np.array([some.repeat, some.method, some.system_index])
        begins = np.flatnonzero(np.any(np.diff(blocks, prepend=-1), axis=0)).tolist()
        for first, last in itertools.pairwise([*begins, some.size]):
            repeat, method, system = blocks[:, first].tolist()
            mine = [starts[i] for i in of[first:last].tolist()]
            made = self.system_digests[system].method(self.method_texts[method])
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
        hashes = {entry.label: experiment.plugin_hashes(entry) for entry in experiment.integrators}
        sizes = zip(made.step_size.tolist(), made.tolerance.tolist(), strict=True)
        return [
            method_as_json(
                entry.name, entry.integrator().identity, h, tolerance, hashes[entry.label]
            )
            for entry, (h, tolerance) in zip(entries, sizes, strict=True)
        ]


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
    if rules := experiment.exclude:
        left_out = [
            np.any([runs.where(rule.conditions) for rule in rules], axis=0)
            for _, runs in table.slabs()
        ]
        table = table.take(~np.concatenate(left_out))
        if not table.size:
            raise StudyError(f"{experiment.where()}: 'exclude' leaves no run")
    if not _has_distinct_methods_and_starts(table):
        _check_runs_distinct(table)
    return table


def _table_of_grid(experiment: ResolvedExperiment) -> RunTable:
    """All runs of a grid."""
    methods = Methods(
        (index, entry.adaptive, sizes[entry.adaptive])
        for index, entry in enumerate(experiment.integrators)
        for sizes in experiment.steps_of(entry)
    )
    systems = experiment.make_systems()
    starts = StartTable(systems, experiment.initial_conditions)
    axis_index = scan_index_combinations(experiment.scan, experiment.zipped)
    scanned = {
        axis.name: axis.column[index]
        for axis, index in zip(experiment.scan, axis_index.T, strict=True)
    }
    together = np.ones((len(methods.keys), len(systems)), dtype=bool)
    if (axis := experiment.axis_of_steps) is not None:  # a tolerance advances with nothing
        nth = np.concatenate([np.arange(count) for count in np.bincount(methods.integrator)])
        together = (nth[:, None] == axis_index[:, axis]) | methods.adaptive[:, None]
    axes = (
        np.arange(experiment.repeat)[:, None, None],
        *(index[:, None] for index in np.nonzero(together)),
        np.arange(len(starts)),
    )
    indices = (
        every.reshape(-1)  # without memory where all are the same
        for every in np.broadcast_arrays(*(index.astype(np.int32) for index in axes))
    )
    return RunTable(experiment, systems, starts, scanned, methods, *indices)


def _unite_run_tables(experiment: ResolvedExperiment, tables: Sequence[RunTable]) -> RunTable:
    """The runs of a union's parts, one after the other, without those that an earlier one has."""
    conditions, scan = experiment.initial_conditions, experiment.scan
    number = {entry.label: index for index, entry in enumerate(experiment.integrators)}
    begins = itertools.accumulate((condition.size for condition in conditions), initial=0)
    begin = dict(zip((condition.content for condition in conditions), begins, strict=False))
    methods: dict[tuple[int, bool, float], int] = {}
    places: dict[tuple[Any, ...], int] = {}  # of systems, by their values on the axes
    systems, columns = dict[int, System](), []
    for table in tables:
        own = table.experiment
        keys = ((number[own.integrators[i].label], *of) for i, *of in table.methods.keys)
        chosen = scan_combinations(own.scan, own.zipped)
        method = _numbers_of(keys, methods)
        system = _numbers_of((tuple(one[axis.name] for axis in scan) for one in chosen), places)
        starts = [begin[c.content] + np.arange(c.size) for c in own.initial_conditions]
        start = np.concatenate(starts).astype(np.int32)
        systems |= zip(system.tolist(), table.systems, strict=True)
        indices = method[table.method], system[table.system_index], start[table.start_index]
        columns.append((table.repeat, *indices))
    scanned = {}
    for axis, values in zip(scan, zip(*places, strict=True), strict=False):
        place = {value: index for index, value in enumerate(axis.values)}
        scanned[axis.name] = axis.column[[place[value] for value in values]]
    made = tuple(systems.values())
    rest = experiment, made, StartTable(made, conditions), scanned, Methods(methods)
    united = RunTable(*rest, *map(np.concatenate, zip(*columns, strict=True)))
    digests = np.concatenate([table.digests for table in tables])
    return united.take(np.sort(np.unique(digests, return_index=True)[1]))


def _numbers_of(keys: Iterable[Any], known: dict[Any, int]) -> Numbers:
    """The number of each key among all that are `known`, where a new one is put."""
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int32)


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
    same = np.flatnonzero(np.diff(table.digests[order]) == 0)
    if same.size:
        pair = table.take(order[same[0] : same[0] + 2])
        what = f"step size {table.experiment.in_time_units(pair.step_size[0])}"
        if pair.adaptive[0]:
            what = f"tolerance {pair.tolerance[0]}"
        raise StudyError(
            f"{_place_of_difference(pair, 1)}: gives a run of {what} that "
            f"{_place_of_difference(pair, 0)} gives too; give each run only once"
        )


def _place_of_difference(pair: RunTable, number: int) -> str:
    """Where the study has the entry in which one of two same runs differs from the other."""
    entries = [pair.experiment.integrators[i] for i in pair.integrator_index]
    if entries[0] is not entries[1]:
        return f"{entries[number].where()} ({entries[number].label!r})"
    for axis in pair.experiment.scan:
        values = pair.column(axis.name)
        if values[0] != values[1]:
            return f"{axis.where()} ({values[number]})"
    condition = pair.starts.condition_index(pair.start_index)[number]
    label = str(pair.column("initial_condition")[number])
    return f"{pair.starts.conditions[condition].where()} ({label!r})"
