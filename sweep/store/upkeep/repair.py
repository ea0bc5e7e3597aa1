"""Repair what `sweep.store.upkeep.verify` found.

Results are never guessed: runs whose results are damaged are marked as not computed, before what
is left of the damaged chunks is removed, and `sweep run` computes just them again. Coordinates
and initial states are written again from the study, for rows whose id proves that they are the
same: an id is a hash of all that determines a run.
"""

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import Damaged, InputError
from sweep.plugins import approvals
from sweep.store import create, diff, files, storage
from sweep.store.backends.places import Place, WriteCheck
from sweep.store.commit import fold
from sweep.store.commit.fold import write_shard
from sweep.store.commit.records import Record, put_durably
from sweep.store.commit.shards import Draft, blank_shard
from sweep.store.files import ArrayFiles, RowNumbers, group_with_records_of, references_group_name
from sweep.store.lease.lease import acquire_lease
from sweep.store.storage import StoredArray, StoredGroup
from sweep.store.store import Store
from sweep.store.studies import stored_study
from sweep.store.upkeep import COPY, GONE, NOTHING, REMOVE, RUN, STUDY
from sweep.store.upkeep.mark import mark_runs_not_computed
from sweep.store.upkeep.verify import Finding, experiment_of_group, find_defects
from sweep.study import schema
from sweep.study.model import Study
from sweep.study.run_table import RunTable, expand_experiment

ROUNDS = 5  # metadata that come back show what is wrong with their arrays, and so on
LOST = "lost"  # an id that says that a row's own cannot be found again


@dataclass(frozen=True)
class Mended:
    """What was done to a store.

    Parameters
    ----------
    findings : tuple of Finding
        All that was found on the way.
    marked : dict of str to int
        Runs, by group, that were marked as not computed.
    left : tuple of Finding
        What is still wrong.
    """

    findings: tuple[Finding, ...]
    marked: dict[str, int]
    left: tuple[Finding, ...]


def repair(
    store: str | Place | Store,
    trust_plugins: bool = False,
    progress: Callable[[int, int], object] = lambda done, of: None,
) -> Mended:
    """Mend a store as far as that is possible; runs that must be computed again are marked.

    Parameters
    ----------
    store : str, Path or Store
    trust_plugins : bool
        Whether to approve the plugins that the store brings; see `sweep.plugins.approvals`.
    progress : callable
        Called with the number of chunks that were read, and their total.

    Returns
    -------
    Mended

    Raises
    ------
    InputError
        If there is no store, it cannot be written, another process writes to it, or it brings a
        plugin that this user has not approved.
    """
    store = Store.at(store)
    attributes = store.attributes
    if store.is_unwritable():
        raise InputError(f"{store} cannot be written: no permission")
    approvals.approved_plugins_of_store(attributes, store, trust_plugins)
    with acquire_lease(store) as lease:
        if session := store.session_name:
            fold.note_session(store, session, lease.check, lease.holder)
        return mend_held_store(
            store.anew(),
            lambda: stored_study(store, trust_plugins=trust_plugins),
            progress,
            lease.check,
        )


def mend_held_store(
    store: Store,
    study: Callable[[], Study],
    progress: Callable[[int, int], object] = lambda done, of: None,
    check: WriteCheck = lambda: None,
) -> Mended:
    """Mend a store as far as that is possible. The caller holds it.

    Parameters
    ----------
    store : Store
    study : callable
        Gives the study that the store keeps; asked only if something is to be written from it.
    progress : callable
        As in `verify`.
    check : callable
        Raises unless this process still holds the lease.

    Returns
    -------
    Mended
    """
    every: dict[object, Finding] = {}
    marked: dict[str, set[int]] = {}
    lost: dict[object, Finding] = {}
    before: set[object] = set()
    fold.remove_unfinished(store)
    for _ in range(ROUNDS):
        findings = find_defects(store, progress)
        if set(_by_defect(findings)) == before:  # none, or none that can be mended
            break
        every |= _by_defect(findings)
        before = set(_by_defect(findings))
        _remove_what_cannot_be_written_to(store, findings, check)
        _put_back_metadata(store, findings, check)
        _remove_damaged_records(store, findings, check)
        store = _forget_experiments_that_are_gone(store, findings, check)
        unfolded = fold.fold_all_but_onto_damage(store, check)
        places = [record.place for records in unfolded.values() for record in records]
        if places:  # they hide which chunks it is
            findings = find_defects(store, progress, without=places)
            every |= _by_defect(findings)
        for place, rows in _mark_damaged_runs(store, findings, unfolded, check).items():
            marked.setdefault(place, set()).update(rows.tolist())
        if places:
            fold.discard(store, places, check)
        _remove_damaged_files(store, findings, check)
        for finding in _rewrite_damage_from_study(store, findings, study, check):
            lost[finding.place, finding.array, finding.chunk] = finding
    counts = {place: len(rows) for place, rows in marked.items()}
    if every:
        storage.consolidate_zarr_metadata(store, check)
    return Mended(tuple(every.values()), counts, (*findings, *lost.values()))


def _by_defect(findings: Sequence[Finding]) -> dict[object, Finding]:
    return {(f.place, f.array, f.chunk, f.text): f for f in findings}


def _remove_what_cannot_be_written_to(
    store: Store, findings: Sequence[Finding], check: WriteCheck
) -> None:
    """Remove directories instead of files that are to be written, and dead links above these."""
    found: set[Path] = set()
    for finding in findings:
        if finding.remedy in (RUN, STUDY, COPY) and isinstance(file := finding.path, Path):
            found |= {file} if file.is_dir() else set()
            above = [place for place in file.parents if store.place in place.parents]
            found |= {place for place in above if place.is_symlink() and not place.is_dir()}
    if found:
        fold.discard(store, sorted(found), check)


def _put_back_metadata(store: Store, findings: Sequence[Finding], check: WriteCheck) -> None:
    """Put back the copies of metadata that are gone or garbled."""
    known = store.consolidated
    for finding in findings:
        if finding.remedy == COPY:
            name = f"{finding.place}/{finding.array}".strip("/")
            # Without a copy of its own, which zarr would take for what is below it.
            own = {
                key: value for key, value in known[name].items() if key != "consolidated_metadata"
            }
            put_durably(finding.path, json.dumps(own, indent=2).encode(), check)


def _forget_experiments_that_are_gone(
    store: Store, findings: Sequence[Finding], check: WriteCheck
) -> Store:
    """Take experiments without a directory out of the store; the store as it is then."""
    gone = {finding.place for finding in findings if finding.text == GONE}
    for name in gone:
        fold.forget_group(store, name, check)
    if gone:
        left = [name for name in store.attributes["experiments"] if name not in gone]
        storage.consolidate_zarr_metadata(store, check)
        storage.set_root_attributes(store, {"experiments": left}, check)
    return store.anew()


def _mark_damaged_runs(
    store: Store,
    findings: Sequence[Finding],
    unfolded: Mapping[str, Sequence[Record]],
    check: WriteCheck,
) -> dict[str, RowNumbers]:
    """Mark the runs concerned, and those of records that cannot be folded; rows by group."""
    rows = {group: [record.rows for record in records] for group, records in unfolded.items()}
    for finding in findings:
        if finding.remedy == RUN:
            rows.setdefault(finding.place, []).append(finding.rows)
    marked = {place: np.unique(np.concatenate(parts)) for place, parts in rows.items()}
    for place, mine in marked.items():
        if len(mine):
            place = group_with_records_of(place)
            mark_runs_not_computed(store, place, mine, check)
    return marked


def _remove_damaged_records(store: Store, findings: Sequence[Finding], check: WriteCheck) -> None:
    """Remove records that cannot be read, before the others are folded; and stray files."""
    damaged = [f.path for f in findings if f.remedy == REMOVE and not f.path.is_dir()]
    if damaged:
        fold.discard(store, damaged, check)


def _remove_damaged_files(store: Store, findings: Sequence[Finding], check: WriteCheck) -> None:
    """Remove stray directories and chunks that cannot be read; what marking wrote anew can be."""
    for finding in findings:
        if finding.remedy == REMOVE and finding.path.is_dir():
            fold.discard(store, [finding.path], check)
        elif finding.remedy == RUN and finding.array:
            _remove_damaged_chunk(store, finding, check)


def _remove_damaged_chunk(store: Store, finding: Finding, check: WriteCheck) -> None:
    """Remove a chunk of a shard, unless it can be read; of one without an index, all chunks."""
    array = ArrayFiles.read(store.place / finding.place / finding.array)
    index = array.index_of_file(finding.path)
    try:
        parts = array.parts(index)
    except Damaged:
        parts = None
    if parts is None:
        put_durably(finding.path, blank_shard(array), check)
        return
    damaged = [part.index for part in parts if part.damage]
    if damaged:

        def dropped(old: bytes | None) -> bytes | None:
            draft = Draft(array, old)
            for at in damaged:
                draft.drop(tuple(k % n for k, n in zip(at, array.inner_grid, strict=True)))
            return draft.data()

        write_shard(array, index, dropped, check)


# --- from the study --------------------------------------------------------------------------


def _rewrite_damage_from_study(
    store: Store, findings: Sequence[Finding], study: Callable[[], Study], check: WriteCheck
) -> list[Finding]:
    """Write coordinates and initial states again; findings of what the study does not know."""
    damaged: dict[str, dict[str, list[Finding]]] = {}
    for finding in findings:
        if finding.remedy == STUDY:
            damaged.setdefault(finding.place, {}).setdefault(finding.array, []).append(finding)
    if not damaged:
        return []
    lost = []
    experiments = {experiment.name: experiment for experiment in study().experiments}
    root = store.root("r+", check)
    for place, arrays in damaged.items():
        experiment = experiments.get(experiment_of_group(place))
        if experiment is None:  # it left the study: nothing knows it
            continue
        table = expand_experiment(experiment)
        if place.startswith(references_group_name("")):
            _mend_reference_states(store, root, place, arrays, table, check)
        else:
            lost += _mend_experiment_group(store, root, place, arrays, table)
    return lost


def _mend_reference_states(
    store: Store,
    root: StoredGroup,
    place: str,
    arrays: Mapping[str, Sequence[Finding]],
    table: RunTable,
    check: WriteCheck,
) -> None:
    """Initial states of references; one without an id is computed again when it is needed."""
    group = storage.open_zarr_group(root, place)
    if set(arrays) - {schema.INITIAL_STATE.name}:
        fold.discard(store, [store.place / place, fold.ledger_file(store, place)], check)
        create.create_or_grow_reference_arrays(root, table)
        return
    references = diff.references_of_run_table(table)
    if references is None:  # it left the study
        return
    states = {
        str(run_id): table.initial_state(run)
        for run_id, run in zip(references.ids, references.first_run, strict=True)
    }
    _rewrite_damaged_initial_states(
        group, arrays[schema.INITIAL_STATE.name], group["run_id"][:], states
    )


def _mend_experiment_group(
    store: Store,
    root: StoredGroup,
    place: str,
    arrays: Mapping[str, Sequence[Finding]],
    table: RunTable,
) -> list[Finding]:
    """Write what is damaged of an experiment; findings of rows that left the study."""
    lost: list[Finding] = []
    group = storage.open_zarr_group(root, place)
    _rewrite_damaged_axes(group, arrays, table)
    columns = create.run_coordinate_columns(group, table)
    if "run_id" in arrays:
        _find_run_ids_again(store, root, place, arrays, columns, table)
    ids = group["run_id"][:]
    row_of, of_study = {run_id: row for row, run_id in enumerate(ids.tolist())}, table.run_id
    rows = np.array([row_of.get(run_id, -1) for run_id in of_study.tolist()])
    in_study = np.ones(table.size, dtype=bool)
    columns |= {"in_study": in_study, "run": rows}
    for name, findings in arrays.items():
        if name in columns:
            lost += _rewrite_damaged_run_coordinate(
                store.array(place, name), group[name], findings, rows, columns[name]
            )
    if schema.INITIAL_STATE.name in arrays:
        states = {
            str(run_id): state
            for runs, own, _ in table.with_states()
            for run_id, state in zip(of_study[runs], own, strict=True)
        }
        _rewrite_damaged_initial_states(group, arrays[schema.INITIAL_STATE.name], ids, states)
    return lost


def _rewrite_damaged_axes(
    group: StoredGroup, arrays: Mapping[str, Sequence[Finding]], table: RunTable
) -> None:
    """Write those of the coordinates ``time``, ``row`` and ``component`` that are damaged."""
    size = group["row"].shape[0]
    labels = create.state_row_labels(table.systems)
    values: dict[str, Any] = {
        "time": table.experiment.times,
        "row": labels if len(labels) == size else [str(row) for row in range(size)],
        "component": ["x", "y", "z"],
    }
    for name in set(values) & set(arrays):
        if group[name].shape == (len(values[name]),):
            storage.write_coordinate_array(group, name, values[name], name)


def _rewrite_damaged_run_coordinate(
    stored: ArrayFiles,
    array: StoredArray,
    findings: Sequence[Finding],
    rows: RowNumbers,
    values: np.ndarray,
) -> Iterator[Finding]:
    """Write the damaged chunks of a coordinate along ``run`` anew.

    Yields
    ------
    Finding
        Of a chunk with runs that left the study: nothing knows what they had there.
    """
    size = array.shape[0]
    column, known = np.full(size, stored.fill, stored.dtype), np.zeros(size, dtype=bool)
    known[:] = stored.name in ("run", "in_study")  # also of rows that left the study
    if stored.name == "run":
        column = np.arange(size)
    there = rows >= 0
    column[rows[there]], known[rows[there]] = np.asarray(values)[there], True
    for finding in findings:
        where = stored.rows(finding.chunk)
        array[where] = column[where]
        gone = where.start + np.flatnonzero(~known[where])
        if len(gone):
            text = f"{len(gone):,} runs that left the study have none any more"
            yield dataclasses.replace(finding, text=text, remedy=NOTHING, rows=gone, runs=len(gone))


def _rewrite_damaged_initial_states(
    group: StoredGroup,
    findings: Sequence[Finding],
    ids: np.ndarray,
    states: Mapping[str, NDArray[np.float64]],
) -> None:
    """Write the damaged chunks of initial states anew, NaN where the study has none."""
    array = group[schema.INITIAL_STATE.name]
    for chunk in {finding.chunk[0] for finding in findings}:
        rows = range(chunk * array.chunks[0], min((chunk + 1) * array.chunks[0], array.shape[0]))
        filled = np.full((len(rows), *array.shape[1:]), np.nan)
        for place, row in zip(filled, rows, strict=True):
            state = states.get(str(ids[row]))
            if state is not None:
                place[: len(state)] = state
        array[rows.start : rows.stop] = filled


def _find_run_ids_again(
    store: Store,
    root: StoredGroup,
    place: str,
    arrays: Mapping[str, Sequence[Finding]],
    columns: Mapping[str, np.ndarray],
    table: RunTable,
) -> None:
    """Find the ids of rows again by their other coordinates, which no two rows share.

    A row whose id is not found keeps its place, and is a run that no study asks for.
    """
    directory = store.place / place
    array = store.array(place, "run_id")
    ids = np.full(array.shape[0], "", dtype=object)
    for i in range(array.grid[0]):
        try:
            chunk = array.chunk((i,))
        except Damaged:
            chunk = None
        if chunk is not None:
            ids[array.rows((i,))] = chunk
    usable = [name for name in columns if name not in arrays]
    stored = files.read_1d_arrays(directory, usable)
    of_study = _rows_that_study_has(directory, arrays, len(ids))
    mine = {
        row: key
        for row, key in enumerate(_keys_that_tell_rows_apart(stored))
        if not ids[row] and of_study[row]
    }
    taken = set(ids.tolist())
    known: dict[tuple[Any, ...], list[str]] = {}
    for run_id, key in zip(
        table.run_id.tolist(), _keys_that_tell_rows_apart(columns, usable), strict=True
    ):
        if run_id not in taken:
            known.setdefault(key, []).append(run_id)
    rows_of: dict[tuple[Any, ...], list[int]] = {}
    for row, key in mine.items():
        rows_of.setdefault(key, []).append(row)
    for key, rows in rows_of.items():
        if len(rows) == len(known.get(key, ())) == 1:
            ids[rows[0]] = known[key][0]
    lost = np.flatnonzero(ids == "")
    if len(lost):
        mark_runs_not_computed(store, place, lost)
    last = len(ids) - int(np.argmax(np.append(ids[::-1] != "", True)))
    before = lost[lost < last]  # rows at the end the next `sweep run` takes for its new ones
    ids[before] = [f"{LOST} {row}" for row in before]
    group = storage.open_zarr_group(root, place)
    group["run_id"][:] = ids
    if len(before) and "in_study" not in arrays:
        group["in_study"][:] = _rows_that_study_has(directory, arrays, len(ids)) & ~np.isin(
            np.arange(len(ids)), before
        )


def _rows_that_study_has(directory: Place, arrays: Iterable[str], size: int) -> NDArray[np.bool_]:
    """Whether each row belongs to the study, as far as that can be read."""
    if "in_study" in arrays:
        return np.ones(size, dtype=bool)
    return files.read_1d_arrays(directory, ["in_study"])["in_study"].astype(bool)


def _keys_that_tell_rows_apart(
    columns: Mapping[str, np.ndarray], names: Iterable[str] | None = None
) -> list[tuple[Any, ...]]:
    """What tells rows apart, a tuple for each; NaN equals NaN."""
    chosen = [np.asarray(columns[name]) for name in names or columns]
    lists = [
        [value.hex() if isinstance(value, float) else value for value in column.tolist()]
        for column in chosen
    ]
    return list(zip(*lists, strict=True))
