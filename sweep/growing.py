"""Create a store, or grow it to what an edited study asks for. Only the coordinator does.

Rows are never moved or removed: what a study no longer asks for stays, with ``in_study`` false.
"""

import shutil
from pathlib import Path

import numpy as np

import sweep
from sweep import schema, storage
from sweep.ledger import REFERENCES, fixed_parts, known_rows, open_existing, references_of

REFERENCE_CHUNK = 16
INITIAL_CHUNK = 1024
REFERENCE_VARIABLES = (
    schema.Variable(
        "states", ("run", "time", "row", "component"), "1", "reference states: q, then omega"
    ),
    schema.Variable("error", ("run", "time"), "1", schema.REFERENCE_ERRORS["reference_error"]),
)


def bring_up(path, study, entries, chunk_rows):
    """Create the store, or grow it to what the study asks for.

    A new store appears at once, complete; a growing one takes its new rows in, then their ids.

    Parameters
    ----------
    path : Path
    study : sweep.study.Study
    entries : list of Entry
        From `compare`.
    chunk_rows : dict of str to int
        Rows of a chunk for each new experiment.
    """
    path = Path(path)
    existing = open_existing(path) is not None
    place = path if existing else path.with_name(path.name + ".creating")
    if not existing:
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(place, ignore_errors=True)
    root = storage.open_root(place, mode="a")
    root.attrs.update(
        {
            "format_version": storage.FORMAT_VERSION,
            "study_name": study.name,
            "description": study.description,
            "study": study.text,
            "experiments": [entry.name for entry in entries],
            "versions": sweep.versions(),
        }
    )
    root.require_group(storage.INTERNAL)
    for entry in entries:
        _bring_up_experiment(root, entry, entry.chunk_rows or chunk_rows[entry.name])
    for name in storage.experiments(root):
        if name not in {entry.name for entry in entries}:
            root[name]["in_study"][:] = False
    storage.consolidate(place)
    if not existing:
        if path.exists():
            path.rmdir()
        place.rename(path)


def _bring_up_experiment(root, entry, chunk_rows):
    table, system = entry.table, entry.table.systems[0]
    group = root.require_group(entry.name)
    group.attrs["chunk_rows"] = chunk_rows
    rows = max(made.rows for made in table.systems)
    sizes = {"run": entry.size, "time": len(entry.experiment.times), "row": rows, "component": 3}
    sampled = schema.sampled_variables(entry.experiment, system)
    for variable in (*sampled, *schema.RUN_VARIABLES, schema.MARKER):
        _grown(group, variable, sizes, chunk_rows)
    initial = _grown(group, schema.INITIAL_STATE, sizes, INITIAL_CHUNK)
    new = np.flatnonzero(entry.rows >= entry.known)
    _append_states(initial, [table.initial_state(run) for run in new], entry.known)
    if entry.experiment.reference is not None:
        _bring_up_references(root, entry, rows)
    _write_axes(group, entry, system, rows)
    _write_attributes(group, entry, system)
    _write_run_coordinates(group, entry)


def _grown(group, variable, sizes, chunk_rows):
    """The variable's array, made if it is not there and resized if it is too short."""
    if variable.name not in group:
        return storage.create_variable(group, variable, sizes, chunk_rows)
    array = group[variable.name]
    shape = tuple(sizes[dim] for dim in variable.dims)
    if array.shape != shape:
        array.resize(shape)
    return array


def _append_states(array, states, first):
    """Write initial states from row `first` on; shorter ones are filled up with NaN."""
    if states:
        filled = np.full((len(states), *array.shape[1:]), np.nan)
        for row, state in zip(filled, states, strict=True):
            row[: len(state)] = state
        array[first : first + len(states)] = filled


def _bring_up_references(root, entry, rows):
    references = references_of(entry.table)
    group = root.require_group(f"{storage.INTERNAL}/{REFERENCES}/{entry.name}")
    known = known_rows(group)
    fresh = [i for i, run_id in enumerate(references.ids) if run_id not in known]
    size = len(known) + len(fresh)
    sizes = {"run": size, "time": references.samples, "row": rows, "component": 3}
    for variable in (*REFERENCE_VARIABLES, schema.MARKER):
        _grown(group, variable, sizes, REFERENCE_CHUNK)
    initial = _grown(group, schema.INITIAL_STATE, sizes, INITIAL_CHUNK)
    states = [entry.table.initial_state(run) for run in references.first_run[fresh]]
    _append_states(initial, states, len(known))
    storage.set_coordinate(group, "run_id", [*known, *references.ids[fresh]], "run")


def _write_axes(group, entry, system, rows):
    if "time" in group:
        return
    same_rows = all(made.rows == rows for made in entry.table.systems)
    bodies = rows // 2
    labels = [f"q{i}" for i in range(bodies)] + [f"omega{i}" for i in range(bodies)]
    storage.set_coordinate(
        group, "time", entry.experiment.times, "time", units=system.time_units, long_name="time"
    )
    storage.set_coordinate(group, "row", labels if same_rows else np.arange(rows), "row")
    storage.set_coordinate(group, "component", ["x", "y", "z"], "component")


def _write_attributes(group, entry, system):
    experiment = entry.experiment
    methods = {}
    for method in experiment.integrators:
        made = method.integrator()
        methods[method.label] = {
            "name": made.name,
            "options": made.options,
            "order": made.order,
            "symmetric": made.symmetric,
            "adaptive": made.adaptive,
        }
    scanned = {axis.name for axis in experiment.scan}
    group.attrs.update(
        {
            "title": f"{entry.name}: {system.description}",
            "experiment": storage.to_json(experiment.expanded()),
            "fixed": storage.to_json(fixed_parts(experiment)),
            "integrators": storage.to_json(methods),
            "system": storage.to_json({"name": system.name, "parameters": system.parameters}),
            "scanned": sorted(scanned),
            "duration": experiment.duration,
            "samples": experiment.samples,
        }
    )


def _write_run_coordinates(group, entry):
    """Every row's labels; those of rows that the study no longer has stay as they were."""
    table = entry.table
    columns = {
        "integrator": table.integrator,
        "step_size": table.step_size,
        "tolerance": np.full(table.size, np.nan),
        "adaptive": np.zeros(table.size, dtype=bool),
        "initial_condition": table.initial_condition,
        "ensemble": table.ensemble,
        "in_study": np.ones(table.size, dtype=bool),
        **table.scan,
    }
    units = {"step_size": table.systems[0].time_units}
    units |= getattr(table.systems[0], "parameter_units", {})
    for name, values in columns.items():
        values = np.asarray(values)
        merged = np.full(entry.size, _blank(values), dtype=values.dtype)
        if name in group:
            old = group[name][: entry.known]
            if values.dtype.kind == "U":
                merged = merged.astype(object)
            merged[: len(old)] = old if name != "in_study" else False
        merged[entry.rows] = values
        storage.set_coordinate(group, name, merged, "run", units=units.get(name, "1"))
    storage.set_coordinate(group, "run", np.arange(entry.size), "run", long_name="row of the table")
    names = ["run_id", *columns]
    group.attrs["coordinates"] = " ".join(names)
    ids = np.full(entry.size, "", dtype=object)
    if entry.known:
        ids[: entry.known] = group["run_id"][: entry.known]
    ids[entry.rows] = table.run_id
    storage.set_coordinate(group, "run_id", ids, "run", long_name="identity of the run")


def _blank(values):
    """What a column reads where a row has no value."""
    return {"f": np.nan, "U": "", "b": False}.get(values.dtype.kind, 0)
