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
    checkpoint_size,
    scan_combinations,
    scan_index_combinations,
)
from sweep.study.run_id import (
    RunId,
    SystemDigest,
    initial_state_digests,
    method_as_json,
    repeat_digest,
    run_digests,
)
from sweep.study.starts import FileStarts, GivenStart, RandomStarts, Start
from sweep.text import count_with_noun, data_frame
from systems import System

if TYPE_CHECKING:
    import pandas

COLUMNS = ("integrator", "step_size", "tolerance", "initial_condition", "ensemble")
INDICES = ("repeat", "method", "system_index", "start_index")
SLAB = 2**16  # runs that are processed together
PIECE_BYTES = 2**24  # bytes of states that are made together
MOST_DRAWN = 2**14  # random states drawn at once, which takes several times their memory
Numbers = NDArray[np.integer]  # indices of runs, systems, starts …
States = NDArray[np.float64]  # their last axes are rows and components


class StartTable:
    """The states of all initial conditions of an experiment, numbered one after the other.

    Parameters
    ----------
    systems : tuple of systems.System
    conditions : tuple of Start
        Initial conditions, of the classes in `sweep.study.starts`.
    """

    def __init__(self, systems: Sequence[System], conditions: Sequence[Start]) -> None:
        self._systems, self.conditions = systems, conditions
        self._ends = np.cumsum([condition.size for condition in conditions])
        self._made: dict[tuple[int, int], States] = {}

    def __len__(self) -> int:
        return int(self._ends[-1])

    def condition_index(self, starts: Numbers) -> Numbers:
        """The index into `conditions` of each start."""
        return np.searchsorted(self._ends, starts, side="right")

    def _by_condition(self, starts: Numbers) -> Iterator[tuple[int, NDArray[np.bool_], Numbers]]:
        """Yield the index of each condition, a mask of its starts, and their member numbers."""
        index = self.condition_index(starts)
        for number in np.unique(index).tolist():
            own = index == number
            yield number, own, starts[own] - (self._ends[number] - self.conditions[number].size)

    def states_of_starts(self, system: int, starts: Numbers, precise: bool = False) -> States:
        """States of some starts for a system.

        States of random ensembles and files are not cached, since they can be large.

        Parameters
        ----------
        system : int
            Index of the system.
        starts : ndarray of int
        precise : bool
            Whether to return states in double-double, which are never cached.

        Returns
        -------
        ndarray, shape (starts, rows, 3)
            Precise states have a last axis of high and low doubles. They are NaN for starts that
            are known only in doubles, such as random states.
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
        """The distinct labels of some starts, and the index of each start into them."""
        distinct, index = np.unique(starts, return_inverse=True)
        found: list[str] = []
        for number, _, members in self._by_condition(distinct):
            found += self.conditions[number].labels_of_members(members.tolist())
        return np.array(found), index

    @functools.cached_property
    def coordinates(self) -> dict[str, NDArray[np.float64]]:
        """Axes of families of starts by name, over all starts; NaN for starts of other kinds."""
        columns: dict[str, NDArray[np.float64]] = {}
        for condition, end in zip(self.conditions, self._ends.tolist(), strict=True):
            for name, values in condition.coordinates.items():
                column = columns.setdefault(name, np.full(len(self), np.nan))
                column[end - condition.size : end] = values
        return columns


def ranges_of(numbers: Numbers) -> list[range]:
    """The ranges of consecutive numbers in an array, in order."""
    begins = np.flatnonzero(np.diff(numbers, prepend=-2) != 1)
    firsts, lengths = numbers[begins].tolist(), np.diff(begins, append=len(numbers)).tolist()
    return [range(first, first + length) for first, length in zip(firsts, lengths, strict=True)]


class Methods:
    """The methods of a run table, as arrays: each an integrator with a step size or tolerance.

    Parameters
    ----------
    keys : iterable of (int, bool, float)
        For each method the index of the integrator, whether it is adaptive, and the tolerance or
        step size.

    Attributes
    ----------
    integrator : ndarray of int
        Index into ``experiment.integrators``.
    adaptive : ndarray of bool
    step_size, tolerance : ndarray of float
        The step size is NaN for adaptive methods, the tolerance for others.
    """

    def __init__(self, keys: Iterable[tuple[int, bool, float]]) -> None:
        self.keys = tuple(keys)
        self.integrator, self.adaptive, sizes = map(np.array, zip(*self.keys, strict=True))
        self.step_size = np.where(self.adaptive, np.nan, sizes)
        self.tolerance = np.where(self.adaptive, sizes, np.nan)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class RunTable:
    """The runs of an experiment, or some of them.

    Columns, of shape ``(size,)``, are computed on access from four indices.

    Rows are ordered by repeat, method, system and initial condition, which varies fastest, so that
    neighbours are trajectories of one system by one method. Repeats of a run are far apart, so that
    a temporary load of the machine does not affect all of them.

    Parameters
    ----------
    experiment : ResolvedExperiment
    systems : tuple of systems.System
        One for each combination of scanned values, the last axis fastest.
    starts : StartTable
    scanned : dict of str to ndarray, shape (systems,)
        For each scanned axis, its values or labels in the systems.
    methods : Methods
    repeat : ndarray of int32, shape (size,)
        Number of the repeat, counted from 0.
    method, system_index, start_index : ndarray of int32, shape (size,)
        Indices into `methods`, `systems` and `starts`.
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

    def __repr__(self) -> str:
        name, system = self.experiment.name, self.experiment.system
        return f"<RunTable {name}: {count_with_noun(self.size, 'run')} of {system}>"

    def take(self, runs: Numbers | NDArray[np.bool_] | slice) -> "RunTable":
        """A table of some of the runs."""
        indices = {name: getattr(self, name)[runs] for name in INDICES}
        return dataclasses.replace(self, **indices)

    def slabs(self) -> Iterator[tuple[Numbers, "RunTable"]]:
        """Yield all runs in slabs: their indices, and a table of them."""
        for first in range(0, self.size, SLAB):
            runs = np.arange(first, min(first + SLAB, self.size))
            yield runs, self.take(slice(first, first + SLAB))

    def occurring_methods(self) -> Numbers:
        """The indices into `methods` that occur, in ascending order."""
        there = np.zeros(len(self.methods.keys), dtype=bool)
        for _, runs in self.slabs():  # since NumPy would copy the whole column as 64-bit integers
            there[runs.method] = True
        return np.flatnonzero(there)

    @functools.cached_property
    def checkpoint_sizes(self) -> tuple[int, int]:
        """Number of values in the longest checkpoint of a finished run, and in those of all."""
        experiment, systems = self.experiment, self.systems
        counts = np.zeros(len(experiment.integrators) * len(systems), dtype=int)
        for _, runs in self.slabs():
            pairs = runs.integrator_index * len(systems) + runs.system_index
            counts += np.bincount(pairs, minlength=len(counts))
        sizes: dict[tuple[int, int], int] = {}
        longest = total = 0
        for pair in np.flatnonzero(counts).tolist():
            integrator, system = pair // len(systems), systems[pair % len(systems)]
            if (key := (integrator, system.rows)) not in sizes:
                own = experiment.integrators[integrator].integrator()
                sizes[key] = checkpoint_size(own, system, experiment.record)
            longest, total = max(longest, sizes[key]), total + sizes[key] * int(counts[pair])
        return longest, total

    # --- columns --------------------------------------------------------------------------------

    @property
    def integrator_index(self) -> Numbers:
        """Index of each run into ``experiment.integrators``."""
        return self.methods.integrator[self.method]

    @property
    def step_size(self) -> NDArray[np.float64]:
        """Step size of each run; NaN for adaptive runs."""
        return self.methods.step_size[self.method]

    @property
    def tolerance(self) -> NDArray[np.float64]:
        """Tolerance of each run; NaN for runs that are not adaptive."""
        return self.methods.tolerance[self.method]

    @property
    def adaptive(self) -> NDArray[np.bool_]:
        """Whether the integrator of each run chooses its steps."""
        return self.methods.adaptive[self.method]

    @property
    def steps_per_sample(self) -> NDArray[np.int64]:
        """Number of steps in an interval of the time axis; 0 for adaptive runs."""
        ratio = np.rint(self.experiment.time_axis.interval / self.methods.step_size)
        return np.nan_to_num(ratio).astype(np.int64)[self.method]

    @property
    def scan(self) -> dict[str, np.ndarray]:
        """Scanned values, or their labels, by the name of the axis."""
        return {name: self.column(name) for name in self.scanned}

    def column(self, name: str) -> np.ndarray:
        """The column of a name: an attribute, a scanned parameter, or an axis of starts."""
        values, index = self._factor(name)
        return values[index]

    def where(self, conditions: Iterable[Condition]) -> NDArray[np.bool_]:
        """Mask of the runs for which all conditions hold; does not compute the columns."""
        found = np.ones(self.size, dtype=bool)
        for condition in conditions:
            values, index = self._factor(condition.column)
            found &= condition.holds(values)[index]
        return found

    def _factor(self, name: str) -> tuple[np.ndarray, Numbers | slice]:
        """The distinct values of a column, and the index of each run into them."""
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
        """A data frame with a row for each run: integrator, sizes, scanned values and start."""
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
        """Initial states in double-double of the runs that are computed in it.

        Parameters
        ----------
        runs : ndarray of int
        is_precise : bool, optional
            Whether all runs are in double-double; by default their integrators decide.

        Returns
        -------
        ndarray, shape (runs, rows, 3, 2), or None
            States as in `StartTable.states_of_starts`; None if no run is in double-double.
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
        """Yield all runs with their initial states and digests; hardly any state is made twice.

        Yields
        ------
        runs : ndarray of int, shape (n,)
            Indices of some runs, ascending.
        states : ndarray, shape (n, rows, 3)
            Their initial states; NaN in rows that a system does not have.
        digests : ndarray of uint64, shape (n,)
        """
        pairs = self._pairs
        order = np.argsort(pairs, kind="stable")
        length = max(1, PIECE_BYTES // (24 * self._largest_rows))
        for first in range(0, self.size, length):
            runs = np.sort(order[first : first + length])
            own, of = np.unique(pairs[runs], return_inverse=True)
            states = self._states_of_pairs(own)
            rows = np.array([system.rows for system in self.systems])[own // len(self.starts)]
            starts = initial_state_digests(states, rows)
            yield runs, states[of], self._digests_of_runs(runs, starts, of)

    @property
    def _pairs(self) -> NDArray[np.int64]:
        """A number for the pair of system and start of each run."""
        return self.system_index.astype(np.int64) * len(self.starts) + self.start_index

    @property
    def _largest_rows(self) -> int:
        return max(system.rows for system in self.systems)

    def _states_of_pairs(self, pairs: Numbers, precise: bool = False) -> States:
        """States of ascending pairs of a system and a start."""
        system, start = np.divmod(pairs, len(self.starts))
        found = np.full((len(pairs), self._largest_rows, 3, *(2,) * precise), np.nan)
        for own in np.split(np.arange(len(pairs)), np.flatnonzero(np.diff(system)) + 1):
            made = self.starts.states_of_starts(int(system[own[0]]), start[own], precise)
            found[own, : made.shape[1]] = made
        return found

    # --- identity -------------------------------------------------------------------------------

    @property
    def run_id(self) -> np.ndarray:
        """Identifiers of 16 hexadecimal digits; see `sweep.study.run_id`."""
        return ids_of_digests(self.digests).astype("U16")

    @functools.cached_property
    def digests(self) -> NDArray[np.uint64]:
        """The identifiers as integers; computed on first access, since they need all states."""
        found = np.empty(self.size, dtype=">u8")
        for runs, _, digests in self.with_states():
            found[runs] = digests
        return found

    def _digests_of_runs(
        self, runs: Numbers, starts: Sequence[bytes], of: Numbers
    ) -> NDArray[np.uint64]:
        """Digests of runs, given digests of initial states and the index of each run into them."""
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
    """Convert digests to identifiers: bytes of 16 hexadecimal digits."""
    return np.frombuffer(digests.astype(">u8").tobytes().hex().encode(), dtype="S16")


def digests_of_ids(ids: Iterable[RunId]) -> NDArray[np.uint64]:
    """Convert identifiers, as str, to digests."""
    return np.frombuffer(bytes.fromhex("".join(ids)), dtype=">u8")


# --- expansion ----------------------------------------------------------------------------------


def expand_experiment(experiment: ResolvedExperiment) -> RunTable:
    """Expand an experiment to its runs; a union to those of its parts, without duplicates.

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
    if (axis := experiment.axis_of_steps) is not None:  # tolerances never advance with an axis
        nth = np.concatenate([np.arange(count) for count in np.bincount(methods.integrator)])
        together = (nth[:, None] == axis_index[:, axis]) | methods.adaptive[:, None]
    axes = (
        np.arange(experiment.repeat)[:, None, None],
        *(index[:, None] for index in np.nonzero(together)),
        np.arange(len(starts)),
    )
    indices = (
        every.reshape(-1)  # a view, without memory of its own if all are equal
        for every in np.broadcast_arrays(*(index.astype(np.int32) for index in axes))
    )
    return RunTable(experiment, systems, starts, scanned, methods, *indices)


def _unite_run_tables(experiment: ResolvedExperiment, tables: Sequence[RunTable]) -> RunTable:
    """The runs of a union's parts in order, without those that an earlier part has."""
    conditions, scan = experiment.initial_conditions, experiment.scan
    number = {entry.label: index for index, entry in enumerate(experiment.integrators)}
    begins = itertools.accumulate((condition.size for condition in conditions), initial=0)
    begin = dict(zip((condition.content for condition in conditions), begins, strict=False))
    methods: dict[tuple[int, bool, float], int] = {}
    places: dict[tuple[Any, ...], int] = {}  # index of each system by its values on the axes
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
    """The number of each key in `known`; adds new keys to it."""
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int32)


# --- duplicate runs -------------------------------------------------------------------------------


def _has_distinct_methods_and_starts(table: RunTable) -> bool:
    """Whether all methods and all starts, and therefore all runs, are distinct.

    Random states are not drawn for this: they are equal only if seed, number, centre and spread
    are.
    """
    conditions = table.experiment.initial_conditions
    random = [c.content for c in conditions if isinstance(c, RandomStarts)]
    if random and any(isinstance(c, FileStarts | GivenStart) for c in conditions):
        return False  # a file or store may contain drawn states as well
    rest = [c for c in conditions if not isinstance(c, RandomStarts)]
    methods = [table.method_texts[method] for method in table.occurring_methods()]
    systems = [digest.method(b"") for digest in table.system_digests]
    of_systems = (
        [digest for c in rest for digest in initial_state_digests(c.states(system))]
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
    """Place in the study of the entry in which one of two equal runs differs from the other."""
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
