"""Create a store, or grow it to what an edited study asks for. Only the coordinator does.

Rows are never moved or removed: what a study no longer asks for stays, with ``in_study`` false.
"""

import contextlib
import dataclasses
import json
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweep.store import checkpoints, provenance, storage
from sweep.store.backends.places import METADATA, ObjectPlace, WriteCheck
from sweep.store.backends.trees import remove_tree, upload_tree
from sweep.store.chunk_layout import Layout
from sweep.store.commit.fold import forget_group
from sweep.store.commit.ledger import ledger_of_group, note_coordinates, note_files
from sweep.store.commit.records import sync_directories, sync_tree
from sweep.store.diff import (
    ROWS_OF,
    Entry,
    hash_of_run_table,
    references_of_run_table,
    stored_rows_by_run_id,
)
from sweep.store.files import (
    FORMAT_VERSION,
    INTERNAL,
    RowNumbers,
    end_checkpoints_group_name,
    read_zarr_metadata,
    references_group_name,
)
from sweep.store.storage import StoredArray, StoredGroup
from sweep.store.store import CREATING, Store
from sweep.study import variables
from sweep.study.experiment import Reference, ResolvedExperiment, checkpoint_size
from sweep.study.run_table import SLAB, RunTable, ids_of_digests, ranges_of

if TYPE_CHECKING:
    from sweep.study.study import Study
    from systems.base import System


def create_or_grow_store(
    store: Store,
    study: "Study",
    entries: Sequence[Entry],
    check: WriteCheck = lambda: None,
) -> bool:
    """Create the store, or grow it to what the study asks for.

    A new store appears at once, complete; a growing one takes its new rows in, then their ids.

    Parameters
    ----------
    store : Store
    study : sweep.study.Study
    entries : list of Entry
        From `diff_store_against_study`.
    check : callable
        Raises unless this process still holds the lease; called before anything of it changes.

    Returns
    -------
    bool
        Whether it is a new one.
    """
    existing = store.existing_root()
    if existing is None:
        with creating_store_atomically(store, check) as made:
            grow_store_to_study(made, study, entries)
        return True
    if store.in_bucket:
        check()
        store.half_made_sign.unlink()  # it was made, but for this
    if not _is_store_up_to_date(store, existing, study, entries):
        grow_store_to_study(store, study, entries, check)
    return False


@contextlib.contextmanager
def creating_store_atomically(store: Store, check: WriteCheck) -> Iterator[Store]:
    """Within ``with``, a store in a directory; if all goes well, it becomes the new one then.

    Durably: all of it is on the disk before it has its name. In a bucket by copying: ``zarr.json``
    comes last, and without it there is no store.

    Parameters
    ----------
    store : Store
    check : callable
        Raises unless this process still holds the lease.
    """
    if isinstance(store.place, ObjectPlace):
        with tempfile.TemporaryDirectory(prefix="geosweep-") as directory:
            made = Path(directory) / store.name
            yield Store(made)
            sign = store.half_made_sign
            check()
            sign.write_text("The store is here when zarr.json is.\n")
            remove_tree(store.place, but=sign)  # what is left of an earlier attempt
            upload_tree(made, store.place, check)
            check()
            sign.unlink()
        return
    for left in store.half_made_directories:
        remove_tree(left, ignore_errors=True)
    place = store.place.with_name(f"{store.name}.{secrets.token_hex(4)}{CREATING}")
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield Store(place)
        sync_tree(place)
        check()
        if store.place.exists():
            store.place.rmdir()
        place.rename(store.place)
    except BaseException:
        storage.await_writes()  # or they would make its directories again
        remove_tree(place, ignore_errors=True)
        check()  # the next lease holder removes it, and what is made in it fails in any way
        raise
    sync_directories([store.place.parent])


def grow_store_to_study(
    store: Store,
    study: "Study",
    entries: Sequence[Entry],
    check: WriteCheck | None = None,
    attributes: Mapping[str, object] | None = None,
) -> None:
    """Make what a store lacks of a study in place; parameters as of `create_or_grow_store`.

    Further `attributes` are those of the root besides the ones that the study gives it.
    """
    root = store.root("a", check)
    root.require_group(INTERNAL)
    for entry in entries:
        if not any((store.place / entry.name).glob(f"*/{METADATA}")):
            forget_group(store, entry.name, check or (lambda: None))
        _forget_ends_of_other_kernels(store, root, entry.name, check)
        _create_or_grow_experiment_group(root, entry)
    for name in storage.experiment_group_names(root):
        if name not in {entry.name for entry in entries}:
            left = storage.open_zarr_group(root, name)
            left.attrs["rows_left_study"] = left["in_study"].size
            left["in_study"][:] = False
    root.attrs.update(
        {
            "format_version": FORMAT_VERSION,
            "study_name": study.name,
            "description": study.description,
            "experiments": [entry.name for entry in entries],
            "versions": provenance.versions(),
            "studies": [study.text],
            **_plugins_attribute_of_store(root, study),
            **(attributes or {}),
        }
    )
    groups = storage.experiment_group_names(root)
    note_coordinates(store, groups, check)
    note_coordinates(store, map(references_group_name, groups), check)
    storage.consolidate_zarr_metadata(store, check)


def _forget_ends_of_other_kernels(
    store: Store, root: StoredGroup, experiment: str, check: WriteCheck | None
) -> None:
    """Take checkpoints that growing will remove out of the ledgers; such runs begin anew."""
    for group in (experiment, references_group_name(experiment)):
        ends = end_checkpoints_group_name(group)
        if ends in root and (root[ends].attrs.get("code") != checkpoints.checkpoint_code_hash()):
            known = ledger_of_group(store, group)
            note_files(store, group, {}, check, [p for p in known if p.startswith(f"{ends}/")])


def _plugins_attribute_of_store(root: StoredGroup, study: "Study") -> dict[str, Any]:
    """The attribute of plugins, also those that the study no longer names; none without any."""
    known = root.attrs.get("plugins", {})
    known |= {
        plugin.name: {"sha256": plugin.hash, "source": plugin.text}
        for plugin in study.library.plugins
    }
    return {"plugins": known} if known else {}


def _is_store_up_to_date(
    store: Store, root: StoredGroup, study: "Study", entries: Sequence[Entry]
) -> bool:
    """Whether the store was brought up to just this study, whose text is written last."""
    if root.attrs["studies"] != [study.text] or any(entry.new for entry in entries):
        return False
    if any(_was_growing_cut_short(store, entry) for entry in entries):
        return False
    return not any(
        end_checkpoints_group_name(entry.name) not in root
        or _needs_longer_time_axis(storage.open_zarr_group(root, entry.name), entry)
        for entry in entries
    )


def _was_growing_cut_short(store: Store, entry: Entry) -> bool:
    """Whether an experiment's arrays may have grown, and the root's copies of their metadata not.

    A growing experiment is without copies of its own, from its first change to when all are made.
    """
    return not read_zarr_metadata(store.place / entry.name).get("consolidated_metadata")


def _needs_longer_time_axis(group: StoredGroup, entry: Entry) -> bool:
    """Whether an experiment's time axis is to be extended, or was half extended."""
    axis = storage.to_attribute_json(time_axis_of_experiment(entry.experiment))
    if group.attrs.get("time_axis") != axis:
        return True
    return bool(group["time"].shape != entry.experiment.times.shape)


def time_axis_of_experiment(experiment: ResolvedExperiment) -> dict[str, Any]:
    """An experiment's duration and samples, as they are stored."""
    return {"duration": experiment.duration, "samples": experiment.time_axis.settings}


def _create_or_grow_experiment_group(root: StoredGroup, entry: Entry) -> None:
    table, system = entry.table, entry.table.systems[0]
    group = _require_zarr_group(root, entry.name)
    present = group["row"].shape[0] if "row" in group else 0
    rows = max(present, _largest_state_rows(table))
    sizes = {"run": entry.size, "time": len(entry.experiment.times), "row": rows, "component": 3}
    layout = layout_of_entry(entry)
    # The first change: by it the group loses its copies of what grows.
    group.attrs["layout"] = storage.to_attribute_json(asdict(layout))
    for variable in _array_variables_of_experiment(entry):
        _create_or_grow_array(group, variable, sizes, layout)
    initial = _create_or_grow_array(group, variables.INITIAL_STATE, sizes)
    _create_or_grow_end_checkpoints(root, entry, layout)
    digests = write_initial_states(initial, entry, entry.known)
    if entry.experiment.reference is not None:
        create_or_grow_reference_arrays(root, table)
    write_axis_coordinates(group, entry, system)
    _write_group_attributes(group, entry, system)
    write_run_coordinates(group, entry)
    _write_run_ids(group, entry, digests)


def _array_variables_of_experiment(entry: Entry) -> tuple[variables.Variable, ...]:
    """The variables that tasks write."""
    sampled = variables.sampled_variables(entry.experiment, entry.table.systems)
    return (*sampled, *variables.run_variables(entry.experiment.record, entry.table.systems[0]))


def layout_of_entry(entry: Entry) -> Layout:
    """The `Layout` of an experiment's arrays: as it is stored, or chosen."""
    if entry.layout is not None:
        return entry.layout
    states = any(len(variable.dims) > 2 for variable in _array_variables_of_experiment(entry))
    width = 3 * _largest_state_rows(entry.table) if states else 1
    return Layout.choose(entry.size, len(entry.experiment.times), width)


def _largest_state_rows(table: RunTable) -> int:
    rows: int = max(made.rows for made in table.systems)
    return rows


def _create_or_grow_end_checkpoints(root: StoredGroup, entry: Entry, layout: Layout) -> None:
    """Room for the checkpoint of each run at its end."""
    name = end_checkpoints_group_name(entry.name)
    table, methods = entry.table, [e.integrator() for e in entry.experiment.integrators]
    rows = np.array([system.rows for system in table.systems])
    pairs: dict[tuple[int, int], tuple[int, int]] = {}
    for _, runs in table.slabs():
        systems, integrators = runs.system_index, runs.integrator_index
        _, first = np.unique(integrators * (rows.max() + 1) + rows[systems], return_index=True)
        for i, s in zip(integrators[first].tolist(), systems[first].tolist(), strict=True):
            pairs.setdefault((i, int(rows[s])), (i, s))
    record = entry.experiment.record
    longest = max(checkpoint_size(methods[i], table.systems[s], record) for i, s in pairs.values())
    _grow_checkpoint_array(root, name, entry.size, longest, layout)


def _grow_checkpoint_array(
    root: StoredGroup, name: str, runs: int, longest: int, layout: Layout
) -> None:
    """An array of checkpoints, of as many numbers as the longest one has."""
    group = _require_zarr_group(root, name)
    if group.attrs.get("code") != checkpoints.checkpoint_code_hash():
        if checkpoints.CHECKPOINT.name in group:  # of other kernels: such runs begin anew
            del group[checkpoints.CHECKPOINT.name]
        group.attrs["code"] = checkpoints.checkpoint_code_hash()
    known = checkpoints.CHECKPOINT.name in group
    present = group[checkpoints.CHECKPOINT.name].shape[1] if known else 1
    sizes = {"run": runs, "number": max(longest, present, 1)}
    _create_or_grow_array(group, checkpoints.CHECKPOINT, sizes, layout)


def _require_zarr_group(root: StoredGroup, name: str) -> StoredGroup:
    parts = name.split("/")
    for depth in range(1, len(parts) + 1):  # zarr makes those above only with one that is new
        root.require_group("/".join(parts[:depth]))
    return storage.open_zarr_group(root, name)


def _create_or_grow_array(
    group: StoredGroup,
    variable: variables.Variable,
    sizes: Mapping[str, int],
    layout: Layout | None = None,
) -> StoredArray:
    """The variable's array, made if it is not there and resized if it is too short."""
    array = group.get(variable.name)
    if array is None:
        return storage.create_variable_array(group, variable, sizes, layout)
    shape = tuple(sizes[dim] for dim in variable.dims)
    if array.shape != shape:
        array.resize(shape)
    return array


def write_initial_states(array: StoredArray, entry: Entry, since: int) -> NDArray[np.uint64]:
    """Write the initial states of the rows from `since` on; their `RunTable.digests`."""
    digests = np.zeros(entry.size - since, dtype=np.uint64)
    for runs, states, own in entry.table.with_states() if len(digests) else ():
        rows = entry.rows[runs].astype(int)
        new = np.flatnonzero(rows >= since)
        digests[rows[new] - since] = own[new]
        _write_states(array, states[new], rows[new])
    return digests


def _write_states(array: StoredArray, states: NDArray[np.float64], rows: RowNumbers) -> None:
    """Write states into some rows, ascending by parts; shorter ones are filled up with NaN."""
    first = 0
    for part in ranges_of(rows):
        filled = np.full((len(part), *array.shape[1:]), np.nan)
        filled[:, : states.shape[1]] = states[first : first + len(part)]
        array[part.start : part.stop] = filled
        first += len(part)


def _reference_variables(reference: Reference) -> tuple[variables.Variable, ...]:
    """The variables of references that tasks write, the count of samples last."""
    low = variables.Variable(
        "states_low", variables.STATE_DIMS, "1", "what the reference states have beyond doubles"
    )
    return (
        variables.Variable("states", variables.STATE_DIMS, "1", "reference states"),
        *([low] if reference.is_precise else []),
        variables.Variable(
            "error", ("run", "time"), "1", variables.reference_error_text(reference)
        ),
        variables.Variable(
            variables.CPU_TIME, ("run",), "s", "CPU time of the reference and its own error"
        ),
        *variables.OF_REFERENCE_ENDS,
        variables.SAMPLE_COUNT,
    )


def create_or_grow_reference_arrays(
    root: StoredGroup, table: RunTable, states_anew: bool = False
) -> None:
    """Make the arrays of a table's references, or grow them to those that it needs.

    Initial states are written of new ones, or of all.
    """
    references, name = references_of_run_table(table), table.experiment.name
    reference = table.experiment.reference
    if references is None or reference is None:
        return
    runs = storage.open_zarr_group(root, name)
    rows = max(runs["row"].shape[0] if "row" in runs else 0, _largest_state_rows(table))
    group = _require_zarr_group(root, references_group_name(name))
    known = stored_rows_by_run_id(group)
    fresh = [i for i, run_id in enumerate(references.ids) if run_id not in known]
    size = len(known) + len(fresh)
    sizes = {"run": size, "time": references.samples, "row": rows, "component": 3}
    if "layout" not in group.attrs:
        layout = Layout.choose(size, references.samples, 3 * rows)
        group.attrs["layout"] = storage.to_attribute_json(asdict(layout))
    layout = storage.layout_of_group(group)
    for variable in _reference_variables(reference):
        _create_or_grow_array(group, variable, sizes, layout)
    by_rows = {made.rows: made for made in table.systems}.values()
    longest = max(checkpoints.reference_checkpoint_length(reference, made) for made in by_rows)
    _grow_checkpoint_array(root, references_group_name(name), size, longest, layout)
    initial = _create_or_grow_array(group, variables.INITIAL_STATE, sizes)
    ids = [*known, *references.ids[fresh]]
    row_of = {run_id: row for row, run_id in enumerate(ids)}
    for i in range(len(references.ids)) if states_anew else fresh:
        states = table.initial_states(references.first_run[i : i + 1])
        _write_states(initial, states, np.array([row_of[references.ids[i]]]))
    storage.write_coordinate_array(group, "run_id", ids, "run")


def write_axis_coordinates(group: StoredGroup, entry: Entry, system: "System") -> None:
    """Write the coordinates ``time``, ``row`` and ``component``."""
    before = group["row"][:].tolist() if "row" in group else []
    labels = state_row_labels(entry.table.systems, before if all(before) else ())
    if len(labels) < len(before):  # which are lost, of systems with more rows
        labels = [str(row) for row in range(len(before))]
    storage.write_coordinate_array(
        group, "time", entry.experiment.times, "time", units=system.time_units, long_name="time"
    )
    storage.write_coordinate_array(group, "row", labels, "row")
    storage.write_coordinate_array(group, "component", ["x", "y", "z"], "component")


def state_row_labels(systems: "Sequence[System]", before: Sequence[str] = ()) -> list[str]:
    """What the rows of the systems' states are, where it is the same in all; else numbers.

    `before` are the labels of a store that grows.
    """
    every = [made.row_labels for made in systems] + ([list(before)] if len(before) else [])
    longest = max(every, key=len)
    if all(longest[: len(own)] == own for own in every):
        return longest
    return [str(row) for row in range(len(longest))]


def _write_group_attributes(group: StoredGroup, entry: Entry, system: "System") -> None:
    experiment = entry.experiment
    methods = json.loads(group.attrs.get("integrators", "{}"))
    # Of which the degree may depend on a scanned parameter.
    quantities = {
        (of.name, of.kind, of.degree) for made in entry.table.systems for of in made.quantities
    }
    for method in experiment.integrators:
        made = method.integrator()
        methods[method.label] = {
            "name": made.name,
            "options": made.options,
            "order": made.order,
            "symmetric": made.symmetric,
            "symplectic": "symplectic_form" in made.preserves,
            "preserves": sorted(
                {of[0] for of in quantities if made.keeps(*of)}
                - {of[0] for of in quantities if not made.keeps(*of)}
            ),
            "adaptive": made.adaptive,
            "family": made.family,
        }
    group.attrs.update(
        {
            "title": f"{entry.name}: {system.description}",
            "experiment": storage.to_attribute_json(experiment.expanded()),
            "fixed": storage.to_attribute_json(experiment.shared_settings),
            "time_axis": storage.to_attribute_json(time_axis_of_experiment(experiment)),
            "integrators": storage.to_attribute_json(methods),
            "system": storage.to_attribute_json(
                {"name": system.name, "parameters": system.parameters}
            ),
            "duration": experiment.duration,
            "samples": experiment.samples,
        }
    )


def run_coordinate_columns(group: StoredGroup, runs: RunTable) -> dict[str, np.ndarray]:
    """What the coordinates along ``run`` say of each of some runs, by name.

    Those of an experiment's `group`, which may have axes that only an earlier version of the
    study had; without ``run``, ``run_id`` and ``in_study``, which depend on the rows.

    Parameters
    ----------
    group : zarr.Group
    runs : sweep.study.run_table.RunTable
    """
    columns = {
        "integrator": runs.column("integrator"),
        "step_size": runs.step_size,
        "tolerance": runs.tolerance,
        "adaptive": runs.adaptive,
        "initial_condition": runs.column("initial_condition"),
        "ensemble": runs.column("ensemble"),
        **_scanned_axis_columns(group, runs),
        **_start_family_columns(group, runs),
    }
    if runs.experiment.repeat > 1 or "repeat" in group:
        columns["repeat"] = runs.repeat.astype(np.int64)
    return columns


def write_run_coordinates(group: StoredGroup, entry: Entry) -> None:
    """Every row's labels; those of rows that the study no longer has stay as they were."""
    table, system = entry.table, entry.table.systems[0]
    some = table.take(np.arange(1))
    scan, starts = _scanned_axis_columns(group, some), _start_family_columns(group, some)
    columns = run_coordinate_columns(group, some)
    units = {"step_size": system.time_units, **system.parameter_units}
    arrays = {}
    for name, values in columns.items():
        attributes = {"units": units.get(name, "1")}
        if name in starts:
            attributes[variables.AXIS_OF] = "initial_condition"
        arrays[name] = storage.require_coordinate_array(
            group, name, entry.size, values.dtype, "run", **attributes
        )
    for name, dtype, said in (
        ("in_study", bool, {}),
        ("run", int, {"long_name": "row of the table"}),
    ):
        arrays[name] = storage.require_coordinate_array(
            group, name, entry.size, np.dtype(dtype), "run", **said
        )
    for first, last in entry.slabs():
        runs = entry.runs_of_rows(first, last)
        places = entry.rows[runs] - first
        in_study = np.zeros(last - first, dtype=bool)
        in_study[places] = True
        arrays["in_study"][first:last] = in_study
        arrays["run"][first:last] = np.arange(first, last)
        for name, values in run_coordinate_columns(group, table.take(runs)).items():
            values = values.astype(object) if values.dtype.kind == "U" else values
            if len(runs) < last - first:
                known = arrays[name][first:last]
                known[places] = values
                values = known
            arrays[name][first:last] = values
    group.attrs.update(
        {
            "coordinates": " ".join(["run_id", "in_study", *columns]),
            "scanned": list(scan),
            "start_axes": list(starts),
            "rows_left_study": entry.size - len(entry.rows),
        }
    )


def _write_run_ids(group: StoredGroup, entry: Entry, digests: NDArray[np.uint64]) -> None:
    """The ids of new rows, of their digests: nothing of these is computed before."""
    array = storage.require_coordinate_array(
        group, "run_id", entry.size, np.dtype(str), "run", long_name="identity of the run"
    )
    for first in range(0, len(digests), SLAB):
        ids = ids_of_digests(digests[first : first + SLAB]).astype(str).astype(object)
        array[entry.known + first : entry.known + first + len(ids)] = ids
    in_order = entry.in_order and len(entry.rows) == entry.size
    group.attrs[ROWS_OF] = hash_of_run_table(entry.experiment) if in_order else ""


def _scanned_axis_columns(group: StoredGroup, runs: RunTable) -> dict[str, np.ndarray]:
    """The scanned columns, also of axes that only an earlier version of the study scanned.

    Numbers are floats, since an axis of whole numbers may get others later; those of parameters
    that are whole numbers, as how many bodies there are, are integers.
    """
    system = runs.systems[0]
    whole = {own.name for own in dataclasses.fields(system) if own.type in (int, "int")}
    scan = {
        name: values
        if values.dtype.kind == "U"
        else values.astype(int if name in whole and values.dtype.kind == "i" else float)
        for name, values in runs.scan.items()
    }
    for name in group.attrs.get("scanned", []):
        if name not in scan:
            value = runs.systems[0].parameters[name]
            text = group[name].dtype.kind not in "biuf"
            scan[name] = np.full(runs.size, str(value) if text else value)
    return scan


def _start_family_columns(group: StoredGroup, runs: RunTable) -> dict[str, np.ndarray]:
    """Axes of families of starts, also those that only an earlier version of the study had."""
    earlier = {name: np.full(runs.size, np.nan) for name in group.attrs.get("start_axes", [])}
    return {**earlier, **{name: runs.column(name) for name in runs.starts.coordinates}}
