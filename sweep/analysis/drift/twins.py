"""Runs in double precision beside their twins: the runs that differ in the arithmetic alone."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

import integrators
from integrators.errors import InputError
from integrators.precision import ARITHMETIC, DOUBLE, DOUBLE_DOUBLE
from sweep.analysis.runs.blocks import Floats, Integers
from sweep.analysis.runs.selection import integrator_descriptions, scanned_axes, take_runs

SAME_TIME = 1e-9  # relative difference of sample times that are the same
FEWEST_SAMPLES = 2  # that two runs share, the one at the start included


@dataclass(frozen=True)
class TwinnedRuns:
    """The runs of one integrator in double precision that have a twin, and the twins.

    Attributes
    ----------
    label, twin_label : str
        Of the integrator in either arithmetic.
    runs, twins : xarray.Dataset
        Run tables whose runs belong together one by one; their first `shared` times are equal.
    own : xarray.Dataset
        All runs of the integrator, those without a twin too.
    shared : int
        Samples, the one at the start included.
    elsewhere : str
        The experiment of the twins; empty where it is that of the runs.
    """

    label: str
    twin_label: str
    runs: xr.Dataset
    twins: xr.Dataset
    own: xr.Dataset
    shared: int
    elsewhere: str


def pair_runs_with_twins(
    dataset: xr.Dataset, others: Sequence[xr.Dataset] = (), quantities: Sequence[str] = ()
) -> tuple[list[TwinnedRuns], list[str]]:
    """Find the twins in double-double of the runs in double precision.

    A twin has the same system with the same parameters, the same integrator with the same options
    but for the arithmetic, and the same step size and start. Twins in the
    same table are preferred, else those of the table that has the most.

    Parameters
    ----------
    dataset : xarray.Dataset
        A run table.
    others : sequence of xarray.Dataset
        Run tables of other experiments.
    quantities : sequence of str
        Quantities whose errors twins in other tables must have.

    Returns
    -------
    list of TwinnedRuns
        By integrator.
    list of str
        Labels of the integrators in double precision, without those that are adaptive, none of
        whose runs has a twin.
    """
    found: list[TwinnedRuns] = []
    alone: list[str] = []
    names = [f"{quantity}_error" for quantity in quantities]
    tables = [dataset, *(one for one in others if all(name in one for name in names))]
    precise = [_labels_by_signature(table, DOUBLE_DOUBLE) for table in tables]
    for signature, labels in _labels_by_signature(dataset, DOUBLE).items():
        for label in labels:
            pairs = [
                pair
                for table, known in zip(tables, precise, strict=True)
                for twin_label in known.get(signature, ())
                if (pair := _pair_integrators(dataset, label, table, twin_label)) is not None
            ]
            own = [pair for pair in pairs if not pair.elsewhere]
            if pairs:
                found.append(max(own or pairs, key=lambda pair: pair.runs.sizes["run"]))
            else:
                alone.append(label)
    return found, alone


def has_only_twins(table: xr.Dataset) -> bool:
    """Whether a run table has runs in double-double, and none in double precision."""
    double, precise = (_labels_by_signature(table, one) for one in (DOUBLE, DOUBLE_DOUBLE))
    return bool(precise) and not double


def _labels_by_signature(table: xr.Dataset, arithmetic: str) -> dict[str, list[str]]:
    """Labels of the fixed-step integrators in one arithmetic, by name and other options."""
    known: dict[str, list[str]] = {}
    described = integrator_descriptions(table)
    step_sizes = table["step_size"].values
    with_steps = table["integrator"].values[np.isfinite(step_sizes)]
    for label in dict.fromkeys(with_steps.tolist()):
        name, options = _name_and_options(described, label)
        if options.pop(ARITHMETIC, DOUBLE) == arithmetic:
            signature = json.dumps([name, options], sort_keys=True)
            known.setdefault(signature, []).append(label)
    return known


def _name_and_options(
    described: dict[str, dict[str, Any]], label: str
) -> tuple[str, dict[str, Any]]:
    one = described.get(label, {})
    return one.get("name", label), dict(one.get("options", {}))


def _pair_integrators(
    dataset: xr.Dataset, label: str, table: xr.Dataset, twin_label: str
) -> TwinnedRuns | None:
    """The `TwinnedRuns` of two integrators; None where no run has a twin."""
    same = table is dataset
    if not same and _system_name(table) != _system_name(dataset):
        return None
    near = shared_sample_times(dataset["time"].values, table["time"].values)
    if near < FEWEST_SAMPLES:
        return None
    runs, keys = _run_keys(dataset, label, by_state=not same)
    twins, twin_keys = _run_keys(table, twin_label, by_state=not same)
    place = dict(zip(twin_keys, twins, strict=True))
    pairs = [(run, place[key]) for run, key in zip(runs, keys, strict=True) if key in place]
    if not pairs:
        return None
    positions, twin_positions = map(np.array, zip(*pairs, strict=True))
    return TwinnedRuns(
        label=label,
        twin_label=twin_label,
        runs=take_runs(dataset, positions),
        twins=table.isel(run=twin_positions),
        own=take_runs(dataset, runs),
        shared=near,
        elsewhere="" if same else experiment_name(table),
    )


def shared_sample_times(times: Floats, others: Floats) -> int:
    """Number of sample times that two time axes share before they differ."""
    count = min(len(times), len(others))
    same = np.isclose(times[:count], others[:count], rtol=SAME_TIME, atol=0.0)
    return count if same.all() else int(np.argmin(same))


def _run_keys(
    table: xr.Dataset, label: str, by_state: bool
) -> tuple[Integers, list[tuple[Any, ...]]]:
    """Positions of the runs of an integrator, and the keys that twins must share with them.

    Within a table a start is identified by its name, between tables by its state.
    """
    runs = np.flatnonzero(table["integrator"].values == label)
    axes = scanned_axes(table)
    names = [*axes, "step_size"]
    columns = [table[name].values[runs].tolist() for name in names]
    if not by_state:
        starts = table["initial_condition"].values[runs].tolist()
        return runs, list(zip(*columns, starts, strict=True))
    if "initial_state" not in table:
        return runs[:0], []
    fixed = json.loads(table.attrs.get("system", "{}")).get("parameters", {})
    states = table["initial_state"].isel(run=runs).transpose("run", "row", "component").values
    keys = []
    for *values, step_size, state in zip(*columns, states, strict=True):
        parameters = fixed | dict(zip(axes, values, strict=True))
        keys.append((json.dumps(parameters, sort_keys=True), step_size, state.tobytes()))
    return runs, keys


def _system_name(table: xr.Dataset) -> str | None:
    return json.loads(table.attrs.get("system", "{}")).get("name")


def experiment_name(table: xr.Dataset) -> str:
    """The name of a run table's experiment; empty where the table does not say it."""
    return json.loads(table.attrs.get("experiment", "{}")).get("name", "")


def entry_of_twin(dataset: xr.Dataset, label: str) -> str:
    """The entry of a study's `integrators` that gives the runs of an integrator their twins.

    Parameters
    ----------
    dataset : xarray.Dataset
    label : str
        Of the integrator in double precision.

    Returns
    -------
    str
        An inline table of TOML, with the options that are not defaults of the integrator, step
        sizes that are not those of the experiment, and a label where the integrator has one.
    """
    name, options = _name_and_options(integrator_descriptions(dataset), label)
    options.pop(ARITHMETIC, None)
    try:
        usual = integrators.get(name).options
    except InputError:  # an integrator of a plugin, which is not loaded to answer this
        usual = {}
    told = {
        key: value
        for key, value in options.items()
        if key not in usual or json.dumps(usual[key], default=str) != json.dumps(value)
    }
    experiment = json.loads(dataset.attrs.get("experiment", "{}"))
    own = [one for one in experiment.get("integrators", ()) if one["label"] == label]
    if own and own[0]["step_sizes"]:
        unit = experiment.get("time_unit", 1.0)
        sizes = [float(f"{size / unit:.12g}") for size in own[0]["step_sizes"]]
        told["step_size"] = sizes[0] if len(sizes) == 1 else sizes
    if label != name:
        told["label"] = f"{label} ({DOUBLE_DOUBLE})"
    return _as_toml({"name": name, **told, ARITHMETIC: DOUBLE_DOUBLE})


def _as_toml(value: Any) -> str:
    """A number, a string, a list or a table of them as TOML in one line."""
    if isinstance(value, dict):
        inside = ", ".join(f"{key} = {_as_toml(item)}" for key, item in value.items())
        return f"{{ {inside} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_as_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
