"""The difference between a study and a store: which rows the study's runs have or will get.

`diff_store_against_study` finds what a study would add to a store, or refuses the study. Nothing
in this module writes.
"""

import functools
import hashlib
import itertools
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from integrators.status import STEP_TOO_SMALL
from integrators.stepping.adaptive import MOST_STEPS, PACE
from sweep.errors import StoreError
from sweep.plugins.registry import Library
from sweep.store import arrays
from sweep.store.arrays import Layout, StoredGroup
from sweep.store.backends.places import ObjectPlace
from sweep.store.files import (
    RowNumbers,
    are_runs_computed_to_sample,
    references_group_name,
)
from sweep.store.lease.sessions import code_hash
from sweep.store.store import Store
from sweep.study import variables
from sweep.study.experiment import ResolvedExperiment
from sweep.study.run_id import RunId, initial_state_digests, method_as_json, run_digests
from sweep.study.run_table import SLAB, RunTable, digests_of_ids, expand_experiment

if TYPE_CHECKING:
    from sweep.study.study import Study

ROWS_OF = "rows_of"  # attribute of a group


@dataclass(frozen=True, eq=False)
class ExperimentDiff:
    """An experiment of the study and its rows in the store.

    Parameters
    ----------
    table : sweep.study.run_table.RunTable
    rows : ndarray of int, shape (runs,)
        Row of each run of the table; new runs get the rows after the existing ones.
    pending : ndarray of bool, shape (runs,)
        Whether the run must still be computed.
    standing : ndarray of int, shape (runs,)
        Number of samples that the store has of each run, from which the run resumes.
    known : int
        Number of rows that the store already has; 0 if the experiment is new.
    gone : int
        Number of rows that are no longer in the study.
    layout : sweep.store.arrays.Layout or None
        The stored layout; None if the experiment is new.
    references : dict of str to int
        Number of stored samples of each reference trajectory, by its id, in the order of rows.
    anew : dict of str to ndarray of int
        Rows to compute again, by group: runs and references that a smaller ``max_steps`` ended,
        and the runs that are measured against such a reference.
    """

    table: RunTable
    rows: RowNumbers
    pending: NDArray[np.bool_]
    standing: RowNumbers
    known: int
    gone: int
    layout: Layout | None = None
    references: dict[RunId, int] = field(default_factory=dict)
    anew: dict[str, RowNumbers] = field(default_factory=dict)

    @functools.cached_property
    def experiment(self) -> ResolvedExperiment:
        """The experiment of the table."""
        return self.table.experiment

    @functools.cached_property
    def name(self) -> str:
        """Name of the experiment and of its group."""
        return self.experiment.name

    @functools.cached_property
    def new(self) -> int:
        """Number of runs that have no row in the store yet."""
        return int(np.sum(self.rows >= self.known))

    @functools.cached_property
    def size(self) -> int:
        """Number of rows of the group once it has grown to this study."""
        return self.known + self.new

    @functools.cached_property
    def in_order(self) -> bool:
        """Whether the rows ascend with the runs of the table."""
        return bool(np.all(self.rows[1:] > self.rows[:-1]))

    @functools.cached_property
    def _order(self) -> NDArray[np.intp] | None:
        return None if self.in_order else np.argsort(self.rows)

    def runs_of_rows(self, first: int, last: int) -> NDArray[np.intp]:
        """The runs whose rows are in the half-open range `first` to `last`, in row order."""
        bounds = np.array([first, last], dtype=self.rows.dtype)
        low, high = np.searchsorted(self.rows, bounds, sorter=self._order)
        return np.arange(low, high) if self._order is None else self._order[low:high]

    def pending_runs(self, first: int, last: int) -> NDArray[np.intp]:
        """The pending runs whose rows are in the range `first` to `last`, in row order."""
        runs = self.runs_of_rows(first, last)
        return runs[self.pending[runs]]

    def slabs(self, unit: int = 1) -> Iterator[tuple[int, int]]:
        """Yield half-open ranges of rows that cover the group, in multiples of `unit` rows."""
        length = max(SLAB // unit, 1) * unit
        for first in range(0, self.size, length):
            yield first, min(first + length, self.size)


def diff_store_against_study(store: Store, study: "Study") -> list[ExperimentDiff]:
    """Find what a study would add to a store, which need not exist.

    Parameters
    ----------
    store : Store
    study : sweep.study.Study

    Returns
    -------
    list of ExperimentDiff

    Raises
    ------
    StoreError
        If the path holds something other than a store, or the store of another study; if the study
        changes an experiment's system, time axis, record, statistics or reference; or if the
        source of a plugin has changed.
    """
    return diff_root_against_study(store, store.existing_root(), study)


def diff_root_against_study(
    store: Store, root: StoredGroup | None, study: "Study"
) -> list[ExperimentDiff]:
    """As `diff_store_against_study`, given the root group of the store, or None if it is new."""
    if root is not None and root.attrs["study_name"] != study.name:
        raise StoreError(
            f"{store} is the store of the study {root.attrs['study_name']!r}, not of "
            f"{study.name!r}; give another STORE, or rename the study"
        )
    if root is not None:
        _check_plugin_sources_unchanged(store, root, study.library)
    return [_diff_entry_of_experiment(store, root, experiment) for experiment in study.experiments]


def _check_plugin_sources_unchanged(store: Store, root: StoredGroup, library: Library) -> None:
    """Refuse a plugin whose source has changed since the store was written."""
    known = root.attrs.get("plugins", {})
    for plugin in library.plugins:
        before = known.get(plugin.name, {}).get("sha256", plugin.hash)
        if before != plugin.hash:
            place = store.place
            shown = place if isinstance(place, ObjectPlace) else os.path.relpath(place)
            raise StoreError(
                f"{store}: plugin {plugin.name!r} has changed since: its source had the hash "
                f"{before[:16]}… and has {plugin.hash[:16]}… now. Results of both would be mixed: "
                "give another STORE, or restore the file: `sweep show plugins "
                f"{shown} --output DIRECTORY` writes it"
            )


def _diff_entry_of_experiment(
    store: Store, root: StoredGroup | None, experiment: ResolvedExperiment
) -> ExperimentDiff:
    table = expand_experiment(experiment)
    if root is None or experiment.name not in root:
        every, none = np.arange(table.size, dtype=np.int32), np.broadcast_to(0, table.size)
        return ExperimentDiff(table, every, np.ones(table.size, dtype=bool), none, 0, 0)
    if store.is_unwritable():
        raise StoreError(f"{store} cannot be written: no permission")
    group = arrays.open_zarr_group(root, experiment.name)
    check_experiment_unchanged(store, group, experiment)
    rows, known = rows_in_store(group, table)
    old = rows < known
    pending, standing = np.ones(table.size, dtype=bool), np.zeros(table.size, dtype=np.int32)
    if known:
        counts, status = _values(store, experiment.name, variables.SAMPLE_COUNT.name, "status")
        done = are_runs_computed_to_sample(counts, status[: len(counts)], experiment.samples + 1)
        pending[old], standing[old] = ~done[rows[old]], counts[rows[old]]
    gone = known - int(np.sum(old))
    references = _count_stored_reference_samples(store, root, experiment)
    layout = arrays.layout_of_group(group)
    ended, ids = _ended_by_smaller_bound(store, root, group, table, rows)
    ended &= ~pending
    pending[ended], standing[ended] = True, 0
    of_id = {run_id: row for row, run_id in enumerate(references)}
    references |= dict.fromkeys(ids, 0)
    lost = {
        experiment.name: rows[ended],
        references_group_name(experiment.name): np.array([of_id[own] for own in ids], dtype=int),
    }
    anew = {name: np.sort(which) for name, which in lost.items() if len(which)}
    return ExperimentDiff(table, rows, pending, standing, known, gone, layout, references, anew)


def _values(store: Store, group: str, *names: str) -> list[np.ndarray]:
    """Values of arrays over runs, including records that are not folded yet."""
    with store.naming_damage():
        return [store.array(group, name).values() for name in names]


def _ended_by_smaller_bound(
    store: Store, root: StoredGroup, group: StoredGroup, table: RunTable, rows: RowNumbers
) -> tuple[NDArray[np.bool_], list[RunId]]:
    """The runs of the table, and the ids of references, that a smaller ``max_steps`` ended.

    Runs that are measured against such a reference are included. A run is recognized by the number
    of steps at which it stopped. With ``steps_of`` it took no steps if the run whose steps it
    copies was ended, for whatever reason, and is always included.
    """
    ended, bound = np.zeros(table.size, dtype=bool), MOST_STEPS
    bound = json.loads(group.attrs["experiment"]).get("max_steps", bound)
    if table.experiment.max_steps <= bound:
        return ended, []
    status, steps = _values(store, table.experiment.name, "status", "stop_step")
    by_bound = (status == STEP_TOO_SMALL) & ((steps >= bound) | (steps % PACE == 0))
    known = rows < len(by_bound)
    ended[known] = by_bound[rows[known]]
    name, ids = references_group_name(table.experiment.name), []
    if name in root:
        ends, steps = _values(store, name, variables.REFERENCE_END, "steps")
        early = (ends == variables.REFERENCE_ENDS.index("step_too_small")) & np.isfinite(steps)
        row_of = stored_rows_by_run_id(arrays.open_zarr_group(root, name))
        ids = [run_id for run_id, row in row_of.items() if early[row]]
    if ids and (references := references_of_run_table(table)):
        again = np.isin(references.ids, ids)
        for runs, places in table.slabs():
            ended[runs] |= again[references.of(places)]
    return ended, ids


def rows_in_store(group: StoredGroup, table: RunTable) -> tuple[RowNumbers, int]:
    """The row of each run of a table, new runs last, and the number of rows that exist already.

    The ids of the runs need not be compared where the group's attribute `ROWS_OF` says that its
    rows are exactly those of the table.
    """
    rows: RowNumbers
    in_order = group.attrs.get(ROWS_OF) == hash_of_run_table(table.experiment)
    if in_order and group["run_id"].shape == (table.size,):
        return np.arange(table.size, dtype=np.int32), table.size
    none = np.zeros(0, dtype=np.uint64)
    known = np.concatenate([none, *map(digests_of_ids, _stored_ids(group))])
    rows = np.full(table.size, -1, dtype=np.int32)
    if len(known):
        order = np.argsort(known)
        place = np.searchsorted(known, table.digests, sorter=order)
        place = order[np.minimum(place, len(known) - 1)]
        there = known[place] == table.digests
        rows[there] = place[there]
    is_new = rows < 0
    rows[is_new] = len(known) + np.arange(is_new.sum())
    return rows, len(known)


def _stored_ids(group: StoredGroup) -> Iterator[list[RunId]]:
    """Yield the ids of a group's rows in slabs, up to the first row without an id.

    An interrupted growth may have left rows without ids before rows with ids. The latter do not
    count either, since no run is computed before all ids are written.
    """
    size = group["run_id"].shape[0] if "run_id" in group else 0
    for first in range(0, size, SLAB):
        ids = list(itertools.takewhile(bool, group["run_id"][first : first + SLAB].tolist()))
        yield ids
        if len(ids) < min(SLAB, size - first):
            break


def stored_rows_by_run_id(group: StoredGroup) -> dict[RunId, int]:
    """The row of each run in a group, by the id of the run."""
    ids = itertools.chain.from_iterable(_stored_ids(group))
    return {run_id: row for row, run_id in enumerate(ids)}


def hash_of_run_table(experiment: ResolvedExperiment) -> str:
    """A hash of all that determines an experiment's run table: its settings, plugins and the code.

    A group whose rows are those of the table, in the same order, has it as attribute `ROWS_OF`.
    """
    parts = [experiment.expanded(), experiment.plugin_hashes(), code_hash()]
    return hashlib.sha256(arrays.to_attribute_json(parts).encode()).hexdigest()


def _count_stored_reference_samples(
    store: Store, root: StoredGroup, experiment: ResolvedExperiment
) -> dict[RunId, int]:
    """Number of stored samples of each reference, by its id."""
    name = references_group_name(experiment.name)
    rows = stored_rows_by_run_id(arrays.open_zarr_group(root, name)) if name in root else {}
    if not rows:
        return {}
    (counts,) = _values(store, name, variables.SAMPLE_COUNT.name)
    return {run_id: int(counts[row]) if row < len(counts) else 0 for run_id, row in rows.items()}


def check_experiment_unchanged(
    store: Store, group: StoredGroup, experiment: ResolvedExperiment
) -> None:
    """Raise `StoreError` if an experiment contradicts what its group in a store was begun with."""
    for grid in experiment.grids:
        _check_grid_unchanged(store, group, grid)


def _check_grid_unchanged(store: Store, group: StoredGroup, experiment: ResolvedExperiment) -> None:
    stored = {"plugins": {}} | json.loads(group.attrs["fixed"])
    now = json.loads(arrays.to_attribute_json(experiment.shared_settings))
    _check_time_axis_continues(store, group, experiment, stored, now)
    for name in {*group.attrs["scanned"], *(axis.name for axis in experiment.scan)}:
        for parts in (now, stored):  # scanned parameters are in coordinates, row by row
            parts["parameters"].pop(name, None)
    for name, value in now.items():
        if stored[name] != value:
            raise StoreError(
                f"{store}: experiment {experiment.name!r} was begun with {name} = "
                f"{stored[name]!r}; the study now says {value!r}. A store keeps its system, "
                "parameters, time axis, record, statistics and reference: scan the parameter, give "
                "another STORE, or give the experiment another name"
            )
    for axis in experiment.scan:
        if axis.name in group and (group[axis.name].dtype.kind in "biuf") != (
            axis.column.dtype.kind in "biuf"
        ):
            raise StoreError(
                f"{store}: experiment {experiment.name!r} was begun with the axis {axis.name!r} of "
                "numbers, or of labels, and the study now says the other: give another STORE"
            )


def _check_time_axis_continues(
    store: Store,
    group: StoredGroup,
    experiment: ResolvedExperiment,
    stored: dict[str, Any],
    now: dict[str, Any],
) -> None:
    """Accept a longer duration, if the sample times and the reference continue the stored ones.

    In that case `stored` is updated to agree with `now`.
    """
    if (now["duration"], now["samples"]) == (stored["duration"], stored["samples"]):
        return
    before, times = json.loads(group.attrs["fixed"])["duration"], experiment.times
    known = group["time"][:]
    known = known[known <= before * (1 + 1e-12)]  # an interrupted extension has added times
    if len(times) < len(known) and now["duration"] < before:
        raise StoreError(
            f"{store}: experiment {experiment.name!r} was computed for {before:g}, and "
            f"{now['duration']:g} is less: a store is not shortened. Set duration = {before:g} "
            f"or more, with the samples that `sweep show study {store}` prints, or give another "
            "STORE"
        )
    if len(times) <= len(known) or np.any(np.abs(times[: len(known)] - known) > 1e-12 * known):
        return  # a different time axis, which the caller refuses
    check_runs_allow_longer_duration(experiment)
    ends = [part["reference"] and part["reference"]["until"] for part in (stored, now)]
    if ends == [before, now["duration"]]:
        stored["reference"]["until"] = now["reference"]["until"]
    stored |= {name: now[name] for name in ("duration", "samples")}


def check_runs_allow_longer_duration(experiment: ResolvedExperiment) -> None:
    """Raise `StoreError` if runs of the experiment depend on its duration."""
    for entry in experiment.integrators:
        if "steps_of" in entry.options:
            raise StoreError(
                f"experiment {experiment.name!r} cannot be extended: the steps of {entry.label!r} "
                "are the duration over a number that was counted for it. Leave it out, or give "
                "another STORE"
            )


# --- references ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class References:
    """The distinct reference trajectories of an experiment.

    Parameters
    ----------
    ids : ndarray of str, shape (references,)
    of_start : ndarray of int, shape (systems, starts)
        Index of the reference for each system and initial state; -1 where there is no run.
    first_run : ndarray of int, shape (references,)
        A run of the table with the system and initial state of the reference.
    samples : int
        Number of leading sample times that the references cover.
    """

    ids: np.ndarray
    of_start: RowNumbers
    first_run: RowNumbers
    samples: int

    def rows(self, group: StoredGroup) -> RowNumbers:
        """Row of each reference in its group, once the store was created or grown."""
        row_of = stored_rows_by_run_id(group)
        return np.array([row_of[run_id] for run_id in self.ids])

    def of(self, runs: RunTable) -> RowNumbers:
        """Index of the reference that each run is measured against."""
        found: RowNumbers = self.of_start[runs.system_index, runs.start_index]
        return found


def count_reference_samples(experiment: ResolvedExperiment) -> int:
    """Number of leading sample times that the references of an experiment cover; 0 without one."""
    if experiment.reference is None:
        return 0
    return int(np.sum(experiment.times <= experiment.reference.until * (1 + 1e-12)))


def references_of_run_table(table: RunTable) -> References | None:
    """The `References` of a run table; None if its experiment has none."""
    experiment = table.experiment
    if experiment.reference is None:
        return None
    run_of = np.full((len(table.systems), len(table.starts)), table.size)
    for runs, places in table.slabs():
        np.minimum.at(run_of, (places.system_index, places.start_index), runs)
    reference = experiment.reference
    plugins = experiment.library.hashes(experiment.system)
    sizes = math.nan, reference.tolerance
    text = method_as_json(reference.integrator, reference.options, *sizes, plugins)
    of_start, first_run = np.full(run_of.shape, -1), []
    place: dict[RunId, int] = {}
    for system in range(len(table.systems)):
        starts = np.flatnonzero(run_of[system] < table.size)
        method = table.system_digests[system].method(text)
        states = initial_state_digests(table.starts.states_of_starts(system, starts))
        for start, digest in zip(starts.tolist(), run_digests(method, states), strict=True):
            if digest.hex() not in place:  # a union may contain a state twice
                place[digest.hex()] = len(place)
                first_run.append(run_of[system, start])
            of_start[system, start] = place[digest.hex()]
    samples = count_reference_samples(experiment)
    return References(np.array(list(place)), of_start, np.array(first_run), samples)
