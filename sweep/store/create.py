"""Create a store, or grow it to hold the runs of an edited study; only the coordinator does so.

Rows are never moved or removed: a run that is no longer in the study stays, with ``in_study``
false.
"""

import contextlib
import dataclasses
import json
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweep.store import arrays, checkpoints, files, provenance
from sweep.store.arrays import (
    Layout,
    StoredArray,
    StoredGroup,
    create_or_grow_arrays,
    open_zarr_group,
    to_attribute_json,
)
from sweep.store.backends.places import METADATA, ObjectPlace, WriteCheck, remove_tree, upload_tree
from sweep.store.commit.fold import forget_group
from sweep.store.commit.ledger import (
    is_growing,
    ledger_of_group,
    note_coordinates,
    note_files,
)
from sweep.store.commit.records import put_durably, sync_directories, sync_tree
from sweep.store.diff import (
    ROWS_OF,
    ExperimentDiff,
    hash_of_run_table,
    references_of_run_table,
    stored_rows_by_run_id,
)
from sweep.store.files import (
    FORMAT_VERSION,
    INTERNAL,
    end_checkpoints_group_name,
    references_group_name,
)
from sweep.store.store import CREATING, Store
from sweep.study import variables
from sweep.study.experiment import Reference, ResolvedExperiment
from sweep.study.run_table import SLAB, RunTable, ids_of_digests, ranges_of
from sweep.study.variables import INITIAL_STATE, Variable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sweep.study.study import Study
    from systems.base import System


@contextlib.contextmanager
def creating_or_growing_store(
    store: Store,
    study: "Study",
    entries: "Sequence[ExperimentDiff]",
    check: WriteCheck = lambda: None,
) -> Iterator[bool]:
    """Create the store, or grow it to hold the runs of the study: a context manager.

    A new store is made on entry, and appears at the end of ``with``, atomically and complete. An
    existing one grows there: it gets its new rows first, and their ids last. An exception within
    ``with`` leaves all as it was.

    Parameters
    ----------
    store : Store
    study : sweep.study.Study
    entries : list of ExperimentDiff
        From `diff_store_against_study`.
    check : callable
        Raises unless this process still holds the lease; called before each change.

    Yields
    ------
    bool
        Whether the store is new.
    """
    existing = store.existing_root()
    if existing is None:
        with creating_store_atomically(store, check) as made:
            grow_store_to_study(made, study, entries)
            yield True
        return
    yield False
    if store.in_bucket:
        check()
        store.half_made_sign.unlink()  # the store is complete, but its creation was interrupted
    if not _is_store_up_to_date(store, existing, study, entries):
        grow_store_to_study(store, study, entries, check)


@contextlib.contextmanager
def creating_store_atomically(store: Store, check: WriteCheck) -> Iterator[Store]:
    """Create a store atomically: a context manager that gives a directory to build it in.

    If ``with`` ends without an exception, the directory is synced to the disk and then renamed to
    the new store. For a bucket it is uploaded, the root's ``zarr.json`` last: without that file
    there is no store.

    Parameters
    ----------
    store : Store
        The store to create.
    check : callable
        Raises unless this process still holds the lease.

    Yields
    ------
    Store
        An empty directory.
    """
    if isinstance(store.place, ObjectPlace):
        with tempfile.TemporaryDirectory(prefix="geosweep-") as directory:
            made = Path(directory) / store.name
            yield Store(made)
            sign = store.half_made_sign
            check()
            sign.write_text("The store is here when zarr.json is.\n")
            remove_tree(store.place, but=sign)  # the remains of an earlier attempt
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
        arrays.await_writes()  # pending writes would create the directories again
        remove_tree(place, ignore_errors=True)
        # If the next lease holder has removed the directory, a write into it failed for that
        # reason, whatever the error says: then the check raises that the lease is lost.
        check()
        raise
    sync_directories([store.place.parent])


def grow_store_to_study(
    store: Store,
    study: "Study",
    entries: "Sequence[ExperimentDiff]",
    check: WriteCheck | None = None,
    attributes: Mapping[str, object] | None = None,
    anew: bool = False,
) -> None:
    """Create, in place, the groups, arrays and rows of a study that a store lacks.

    Parameters
    ----------
    store : Store
    study : sweep.study.Study
    entries : list of ExperimentDiff
        From `diff_store_against_study`.
    check : callable, optional
        Raises unless this process still holds the lease; called before each change.
    attributes : dict, optional
        Further attributes of the root, besides those of the study.
    anew : bool
        Whether to write the initial states of all rows again, not only of new ones.
    """
    root = store.root("w-" if check is None else "a", check)
    root.require_group(INTERNAL)
    cut_short = any(is_growing(store, name) for name in arrays.experiment_group_names(root))
    for entry in entries:
        if check and not any((store.place / entry.name).glob(f"*/{METADATA}")):
            forget_group(store, entry.name, check)
        _forget_ends_of_other_kernels(store, root, entry.name, check)
        _create_or_grow_experiment_group(root, entry, anew)
    groups = arrays.experiment_group_names(root)
    for name in sorted({*groups} - {entry.name for entry in entries}):
        left = open_zarr_group(root, name)
        left.attrs["rows_left_study"] = left["in_study"].size
        left["in_study"][:] = False
    plugins = root.attrs.get("plugins", {}) | {  # including those that the study no longer names
        plugin.name: {"sha256": plugin.hash, "source": plugin.text}
        for plugin in study.library.plugins
    }
    root.update_attributes(
        {
            "format_version": FORMAT_VERSION,
            "study_name": study.name,
            "description": study.description,
            "experiments": [entry.name for entry in entries],
            "versions": provenance.versions(),
            "studies": [study.text],
            **({"plugins": plugins} if plugins else {}),
            **(attributes or {}),
        }
    )
    root.store.write_metadata()
    written = None if cut_short else root.store.written
    note_coordinates(store, [*groups, *map(references_group_name, groups)], check, written)
    consolidate_zarr_metadata(store, check)


def _forget_ends_of_other_kernels(
    store: Store, root: StoredGroup, experiment: str, check: WriteCheck | None
) -> None:
    """Remove checkpoints of other kernels from the ledgers, since growing deletes them.

    Runs that are extended then start from their beginning.
    """
    ends, references = end_checkpoints_group_name(experiment), references_group_name(experiment)
    for group, holder in ((experiment, ends), (references, references)):
        if holder in root and not _has_own_checkpoints(root[holder]):
            of_ends = f"{holder}/{checkpoints.CHECKPOINT.name}/"
            gone = [path for path in ledger_of_group(store, group) if path.startswith(of_ends)]
            note_files(store, group, {}, check, gone)


def _has_own_checkpoints(group: StoredGroup) -> bool:
    """Whether the checkpoints in a group were written by this version of the kernels."""
    return bool(group.attrs.get("code") == checkpoints.checkpoint_code_hash())


def _is_store_up_to_date(
    store: Store, root: StoredGroup, study: "Study", entries: "Sequence[ExperimentDiff]"
) -> bool:
    """Whether the store already holds exactly this study, whose text is written last."""
    return root.attrs["studies"] == [study.text] and not any(
        entry.new or is_growing(store, entry.name) or _needs_longer_time_axis(store, entry)
        for entry in entries
    )


def _needs_longer_time_axis(store: Store, entry: ExperimentDiff) -> bool:
    """Whether an experiment's time axis must be extended, or was extended only in part."""
    place, experiment = store.place / entry.name, entry.experiment
    stored: str | None = files.read_zarr_metadata(place)["attributes"].get("time_axis")
    shape: list[int] = files.read_zarr_metadata(place / "time")["shape"]
    return stored != _time_axis_as_json(experiment) or shape != [experiment.samples + 1]


def _time_axis_as_json(experiment: ResolvedExperiment) -> str:
    """The duration and samples of an experiment, as JSON for the store."""
    settings = experiment.time_axis.settings
    return to_attribute_json({"duration": experiment.duration, "samples": settings})


# --- arrays ----------------------------------------------------------------------------------


def _create_or_grow_experiment_group(root: StoredGroup, entry: ExperimentDiff, anew: bool) -> None:
    experiment, table = entry.experiment, entry.table
    group = arrays.require_zarr_group(root, entry.name)
    layout = layout_of_entry(entry)
    # This change comes first: zarr thereby drops the group's consolidated metadata, whose absence
    # marks the group as growing.
    group.attrs["layout"] = to_attribute_json(layout)
    rows = max(_state_rows(group), _largest_state_rows(table))
    sizes = {"run": entry.size, "time": experiment.samples + 1, "row": rows, "component": 3}
    create_or_grow_arrays(group, _array_variables_of_experiment(entry), sizes, layout)
    initial = create_or_grow_arrays(group, [INITIAL_STATE], sizes)[INITIAL_STATE.name]
    ends, longest = end_checkpoints_group_name(entry.name), table.checkpoint_sizes[0]
    _create_or_grow_checkpoints(root, ends, entry.size, longest, layout)
    digests = _write_initial_states(initial, entry, 0 if anew else entry.known)
    _create_or_grow_reference_arrays(root, table, anew)
    _write_axis_coordinates(group, entry, table.systems[0])
    _write_group_attributes(group, entry, table.systems[0])
    _write_run_coordinates(group, entry)
    _write_run_ids(group, entry, digests[len(digests) - entry.new :])


def _array_variables_of_experiment(entry: ExperimentDiff) -> list[Variable]:
    """The variables of an experiment that tasks write."""
    experiment, systems = entry.experiment, entry.table.systems
    return [
        *variables.sampled_variables(experiment, systems),
        *variables.run_variables(experiment.record, systems[0]),
    ]


def layout_of_entry(entry: ExperimentDiff) -> Layout:
    """The `Layout` of an experiment's arrays: the stored one, or a new choice."""
    if entry.layout is not None:
        return entry.layout
    states = any(len(variable.dims) > 2 for variable in _array_variables_of_experiment(entry))
    width = 3 * _largest_state_rows(entry.table) if states else 1
    return Layout.choose(entry.size, entry.experiment.samples + 1, width)


def _largest_state_rows(table: RunTable) -> int:
    return max(system.rows for system in table.systems)


def _state_rows(group: StoredGroup) -> int:
    """Number of rows of a state in an experiment's group; 0 if the group is new."""
    return group["row"].size if "row" in group else 0


def _create_or_grow_checkpoints(
    root: StoredGroup, name: str, runs: int, longest: int, layout: Layout
) -> None:
    """Create or grow the array of checkpoints at the ends of runs, `longest` numbers each."""
    group, variable = arrays.require_zarr_group(root, name), checkpoints.CHECKPOINT
    if not _has_own_checkpoints(group):
        if variable.name in group:
            del group[variable.name]
        group.attrs["code"] = checkpoints.checkpoint_code_hash()
    present = group[variable.name].shape[1] if variable.name in group else 1
    sizes = {"run": runs, "number": max(longest, present)}
    create_or_grow_arrays(group, [variable], sizes, layout)


def _write_initial_states(
    array: StoredArray, entry: ExperimentDiff, since: int
) -> NDArray[np.uint64]:
    """Write the initial states of the rows from `since` on; return their `RunTable.digests`."""
    digests = np.zeros(entry.size - since, dtype=np.uint64)
    for runs, states, own in entry.table.with_states() if len(digests) else ():
        rows = entry.rows[runs].astype(int)
        new = np.flatnonzero(rows >= since)
        digests[rows[new] - since] = own[new]
        _write_states(array, rows[new], states[new])
    return digests


def _write_states(array: StoredArray, rows: NDArray[np.int_], states: NDArray[np.float64]) -> None:
    """Write states into rows; shorter states are padded with NaN."""
    filled = np.full((len(rows), *array.shape[1:]), np.nan)
    filled[:, : states.shape[1]] = states
    if len(ranges := ranges_of(rows)) == 1:  # Zarr takes longer for row numbers
        array[ranges[0].start : ranges[0].stop] = filled
    elif ranges:
        array.oindex[rows] = filled


def _reference_variables(reference: Reference) -> list[Variable]:
    """The variables of references that tasks write, the sample count last."""
    text, used = variables.reference_error_text(reference), variables.CPU_TIME
    low = "what the reference states have beyond doubles"
    precise = [Variable("states_low", variables.STATE_DIMS, "1", low)]
    return [
        Variable("states", variables.STATE_DIMS, "1", "reference states"),
        *(precise if reference.is_precise else []),
        Variable("error", ("run", "time"), "1", text),
        Variable(used, ("run",), "s", "CPU time of the reference and its own error"),
        *variables.OF_REFERENCE_ENDS,
        variables.SAMPLE_COUNT,
    ]


def _create_or_grow_reference_arrays(root: StoredGroup, table: RunTable, anew: bool) -> None:
    """Create the arrays for the references of a run table, or grow them; `anew` as in growing."""
    references, experiment = references_of_run_table(table), table.experiment
    if references is None or (reference := experiment.reference) is None:
        return
    name = references_group_name(experiment.name)
    rows = max(_state_rows(open_zarr_group(root, experiment.name)), _largest_state_rows(table))
    group = arrays.require_zarr_group(root, name)
    known = stored_rows_by_run_id(group)
    fresh = [i for i, run_id in enumerate(references.ids) if run_id not in known]
    row_of = known | {run_id: len(known) + k for k, run_id in enumerate(references.ids[fresh])}
    sizes = {"run": len(row_of), "time": references.samples, "row": rows, "component": 3}
    if "layout" not in group.attrs:
        layout = Layout.choose(len(row_of), references.samples, 3 * rows)
        group.attrs["layout"] = to_attribute_json(layout)
    layout = arrays.layout_of_group(group)
    create_or_grow_arrays(group, _reference_variables(reference), sizes, layout)
    longest = max(
        checkpoints.reference_checkpoint_length(reference, system)
        for system in {made.rows: made for made in table.systems}.values()
    )
    _create_or_grow_checkpoints(root, name, len(row_of), longest, layout)
    run_id = _coordinate("run_id", str, "run")
    made = create_or_grow_arrays(group, [INITIAL_STATE, run_id], sizes)
    which = np.arange(len(references.ids)) if anew else np.array(fresh, dtype=int)
    begins = np.diff(table.take(references.first_run[which]).system_index, prepend=-1) != 0
    begins[:: made[INITIAL_STATE.name].chunks[0]] = True
    for mine in np.split(which, np.flatnonzero(begins))[1:]:  # some references of one system
        places = np.array([row_of[run_id] for run_id in references.ids[mine]])
        states = table.initial_states(references.first_run[mine])
        _write_states(made[INITIAL_STATE.name], places, states)
    made["run_id"][:] = np.array([*row_of], dtype=object)


# --- coordinates and attributes --------------------------------------------------------------


def _coordinate(
    name: str,
    dtype: Any,
    dim: str,
    units: str | None = None,
    long_name: str | None = None,
    attributes: dict[str, Any] | None = None,
) -> Variable:
    """The variable of a coordinate; it reads as NaN, "" or 0 where nothing was written."""
    known, long_name = np.dtype(dtype), long_name or name.replace("_", " ")
    kind, fill = known.name, np.nan if known.kind == "f" else np.zeros((), known).item()
    if known.kind in "UO":
        kind, fill = "string", ""
    return Variable(name, (dim,), units or "1", long_name, kind, fill, attributes or {})


def _write_axis_coordinates(group: StoredGroup, entry: ExperimentDiff, system: "System") -> None:
    """Write the coordinates ``time``, ``row`` and ``component``."""
    before = group["row"][:].tolist() if "row" in group else []
    labels = {"row": _row_labels(entry.table.systems, before), "component": ["x", "y", "z"]}
    values = {name: np.array(own, dtype=object) for name, own in labels.items()}
    values["time"] = entry.experiment.times
    made = [
        _coordinate(name, own.dtype, name, system.time_units if name == "time" else None)
        for name, own in values.items()
    ]
    sizes = {name: len(own) for name, own in values.items()}
    for name, array in create_or_grow_arrays(group, made, sizes).items():
        array[:] = values[name]


def _row_labels(systems: "Sequence[System]", before: list[str]) -> list[str]:
    """The labels of the rows of a state, if all systems agree on them; otherwise numbers.

    `before` are the labels that the store already has, empty where an earlier growth was
    interrupted.
    """
    every = [system.row_labels for system in systems] + [before] * all(before)
    longest = max(every, key=len)
    if len(longest) >= len(before) and all(longest[: len(own)] == own for own in every):
        return longest
    return [str(row) for row in range(max(len(longest), len(before)))]


def _write_group_attributes(group: StoredGroup, entry: ExperimentDiff, system: "System") -> None:
    experiment = entry.experiment
    methods = json.loads(group.attrs.get("integrators", "{}"))
    # Of all systems, since the degree of a quantity may depend on a scanned parameter.
    quantities = {
        (of.name, of.kind, of.degree) for made in entry.table.systems for of in made.quantities
    }
    for method in experiment.integrators:
        made = method.integrator()
        lost = {of[0] for of in quantities if not made.keeps(*of)}
        methods[method.label] = {
            "name": made.name,
            "options": made.options,
            "order": made.order,
            "symmetric": made.symmetric,
            "symplectic": "symplectic_form" in made.preserves,
            "preserves": sorted({name for name, *_ in quantities} - lost),
            "adaptive": made.adaptive,
            "family": made.family,
        }
    parameters = {"name": system.name, "parameters": system.parameters}
    group.update_attributes(
        {
            "title": f"{entry.name}: {system.description}",
            "experiment": to_attribute_json(experiment.expanded()),
            "fixed": to_attribute_json(experiment.shared_settings),
            "time_axis": _time_axis_as_json(experiment),
            "integrators": to_attribute_json(methods),
            "system": to_attribute_json(parameters),
            "duration": experiment.duration,
            "samples": experiment.samples,
        }
    )


def _write_run_coordinates(group: StoredGroup, entry: ExperimentDiff) -> None:
    """Write the coordinates of all rows of the study; rows that left the study keep theirs."""
    table, system = entry.table, entry.table.systems[0]
    names = _run_columns(group, entry, np.arange(1))
    scanned = {*table.scanned, *group.attrs.get("scanned", [])}
    families = {*table.starts.coordinates, *group.attrs.get("start_axes", [])}
    of_starts = dict.fromkeys(families, {variables.AXIS_OF: "initial_condition"})
    units = {"step_size": system.time_units} | dict.fromkeys(system.parameters, "1")
    units |= system.parameter_units
    texts = {"run": "row of the table"}
    made = [
        _coordinate(name, own.dtype, "run", units.get(name), texts.get(name), of_starts.get(name))
        for name, own in names.items()
    ]
    stored = create_or_grow_arrays(group, made, {"run": entry.size})
    for first, last in entry.slabs():
        runs = entry.runs_of_rows(first, last)
        for name, values in _run_columns(group, entry, runs).items():
            if len(runs) < last - first:
                known = stored[name][first:last]
                if name == "in_study":
                    known[:] = False
                known[entry.rows[runs] - first] = values
                values = known
            stored[name][first:last] = values.astype(object) if values.dtype.kind == "U" else values
    group.update_attributes(
        {
            "coordinates": " ".join(["run_id", *(name for name in names if name != "run")]),
            "scanned": [name for name in names if name in scanned],
            "start_axes": [name for name in names if name in families],
            "rows_left_study": entry.size - len(entry.rows),
        }
    )


def _run_columns(
    group: StoredGroup, entry: ExperimentDiff, of: NDArray[np.integer]
) -> dict[str, np.ndarray]:
    """The coordinates along ``run`` of the runs `of`, by name, without the ids.

    They include the axes that only an earlier version of the study had, which the experiment's
    `group` lists. Scanned numbers are floats, since an axis of integers may get other values later;
    only parameters that are integers by nature, such as a number of bodies, are stored as integers.
    """
    runs = entry.table.take(of)
    system, earlier = runs.systems[0], group.attrs
    whole = {own.name for own in dataclasses.fields(system) if own.type in (int, "int")}
    named = ("integrator", "step_size", "tolerance", "adaptive", "initial_condition", "ensemble")
    columns = {"in_study": np.ones(runs.size, dtype=bool), "run": entry.rows[of].astype(np.int64)}
    columns |= {name: runs.column(name) for name in named}
    for name, values in runs.scan.items():
        kind = int if name in whole and values.dtype.kind == "i" else float
        columns[name] = values if values.dtype.kind == "U" else values.astype(kind)
    for name in earlier.get("scanned", []):
        if name not in columns:
            text, value = group[name].dtype.kind not in "biuf", system.parameters[name]
            columns[name] = np.full(runs.size, str(value) if text else value)
    columns |= {name: np.full(runs.size, np.nan) for name in earlier.get("start_axes", [])}
    columns |= {name: runs.column(name) for name in runs.starts.coordinates}
    if runs.experiment.repeat > 1 or "repeat" in group:
        columns["repeat"] = runs.repeat.astype(np.int64)
    return columns


def _write_run_ids(group: StoredGroup, entry: ExperimentDiff, digests: NDArray[np.uint64]) -> None:
    """Write the ids of new rows, from their digests; runs without an id are not computed."""
    run_id = _coordinate("run_id", str, "run", long_name="identity of the run")
    array = create_or_grow_arrays(group, [run_id], {"run": entry.size})["run_id"]
    for first in range(0, len(digests), SLAB):
        ids = ids_of_digests(digests[first : first + SLAB]).astype(str).astype(object)
        array[entry.known + first : entry.known + first + len(ids)] = ids
    in_order = entry.in_order and len(entry.rows) == entry.size
    group.attrs[ROWS_OF] = hash_of_run_table(entry.experiment) if in_order else ""


# --- copies of metadata ----------------------------------------------------------------------


def consolidate_zarr_metadata(store: Store, check: WriteCheck | None = None) -> None:
    """Consolidate the metadata of each experiment and of the root, for fast opening.

    The result is that of `zarr.consolidate_metadata`, but each file is read only once.
    """
    found = files.read_metadata_below(store.place)
    for metadata in found.values():
        if metadata.get("node_type") == "group":
            metadata["consolidated_metadata"] = files.consolidation({})
    for name in [name for name in found if files.is_experiment(name)]:
        _write_metadata(store, name, files.metadata_of_node(found, name), check)
    root = files.read_zarr_metadata(store.place) | {
        "consolidated_metadata": files.consolidation(found)
    }
    _write_metadata(store, "", root, check)


def _write_metadata(
    store: Store, name: str, metadata: dict[str, Any], check: WriteCheck | None
) -> None:
    if not name:
        metadata["consolidated_metadata"]["seals"] = files.checksums_of_root(metadata)
    put_durably(store.place / name / METADATA, json.dumps(metadata).encode(), check)


def set_root_attributes(
    store: Store, attributes: Mapping[str, object], check: WriteCheck | None = None
) -> None:
    """Set attributes of the root without removing its consolidated metadata."""
    store = store.anew()
    if not store.consolidated:  # an earlier growth was interrupted
        consolidate_zarr_metadata(store, check)
        store = store.anew()
    metadata = store.metadata | {"attributes": {**store.attributes, **attributes}}
    _write_metadata(store, "", metadata, check)
