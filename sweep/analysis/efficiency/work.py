"""What accuracy costs: errors against steps, evaluations and CPU time, and who needs least."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

import integrators
from integrators.errors import InputError
from sweep.analysis.convergence.curves import (
    error_curve,
    least_known_errors,
    reference_failed_at_start,
    run_table_with_error,
    share_of_reference_error,
)
from sweep.analysis.convergence.slopes import MARGIN
from sweep.analysis.efficiency.pareto import WorkEstimate, with_pareto_flags
from sweep.analysis.efficiency.timing import RunTimes, cpu_times_of_runs
from sweep.analysis.runs.blocks import Floats, Integers
from sweep.analysis.runs.selection import (
    adaptive_runs,
    complete_runs,
    distinct_values_and_codes,
    groups_of_runs,
    integrator_descriptions,
    is_error_against_reference,
    name_of_energy_quantity,
    relative_round_off_of_runs,
    run_table,
    run_table_variable,
    run_table_without_repeats,
    scanned_axes,
    take_runs,
)
from sweep.analysis.runs.states import INITIAL
from sweep.analysis.runs.summaries import (
    Column,
    names_of_invariant_errors,
    names_of_time_series,
    parse_result_column,
    reduce_result_columns,
)

GLOBAL = "global_error"
SAMPLED = 2**21  # values of a series by which it is found until when the reference holds
ROUNDINGS = 16  # of a quantity's size: invariants that are kept to so many are kept to round-off


def work_table(
    dataset: xr.Dataset | xr.DataTree, error: str | None = None, at: str = "end"
) -> list[WorkEstimate]:
    """Errors of every integrator beside the work that they took, the best of each family marked.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    error : str, optional
        One error over ``(run, time)``; by default ``global_error`` where there is a reference, and
        those of all invariants and constraints.
    at : {"end", "sup"}, optional
        An error against the reference at the last time at which it resolves the errors of all
        integrators, or the largest until then. Of other errors always the largest over the run.

    Returns
    -------
    list of WorkEstimate
        By scanned values, integrator and step size or tolerance, the errors of each together.

    Raises
    ------
    InputError
        When there is no such error, no run is complete, or `at` is neither.

    Notes
    -----
    *Best of its family* are the points of its Pareto front: those for which no other point of the
    family, of any of its members at any step size, reaches as small an error for as little work.
    A family are the methods of one construction, such as ``rkmk``, with all compositions,
    projections and step controls. Errors at the floor count as equal, so of those only the
    cheapest is best; a point at which runs failed never is. CPU times are compared where they are
    measured, see `timing`: long enough, and by repeats that agree.
    """
    full = run_table(dataset)
    dataset = run_table_without_repeats(full)
    errors = chosen_errors_for_work(dataset, error, at)
    timed = cpu_times_of_runs(full, dataset)
    work, counts = _work_measures_of_runs(dataset, timed), complete_runs(dataset)
    if not counts.any():
        raise InputError("no run is complete: `sweep status` says which failed or are pending.")
    stopped = dataset["status"].values > 0 if "status" in dataset else ~counts
    sizes = {name: _error_sizes_of_runs(dataset, name, at) for name in errors}
    families, axes = integrator_families(dataset), scanned_axes(dataset)
    rows = []
    for key, runs in groups_of_runs(dataset, [*axes, "integrator", "step_size", "tolerance"]):
        there = runs[counts[runs]]
        of_cell = {
            "integrator": key["integrator"],
            "family": families[key["integrator"]],
            "parameters": {axis: key[axis] for axis in axes},
            "step_size": key["step_size"],
            "tolerance": key["tolerance"],
            **{name: _median_or_nan(values[there]) for name, values in work.items()},
            "cpu_time_elsewhere": bool(timed.elsewhere[there].any()),
            "repeats": int(timed.repeats[there].min()) if len(there) else 0,
            "failed": int(stopped[runs].sum()),
        }
        for name, found in sizes.items():
            rows.append(_work_estimate_of_cell(dataset, name, found, there, len(runs), of_cell))
    return with_pareto_flags(rows)


def chosen_errors_for_work(
    dataset: xr.Dataset, error: str | None = None, at: str = "end"
) -> list[str]:
    """Names of the errors to measure, the most informative one first.

    Parameters
    ----------
    dataset : xarray.Dataset
    error, at : str
        As of `work_table`, checked.
    """
    if error is not None:
        run_table_variable(dataset, error)
        run_table_with_error(dataset, error, at)
        return [error]
    energy = f"{name_of_energy_quantity(dataset)}_error"
    kept = sorted(names_of_invariant_errors(dataset), key=lambda name: name != energy)
    errors = [*([GLOBAL] if GLOBAL in dataset else []), *kept]
    if not errors:
        raise InputError(
            "the dataset has no errors: add `reference = {…}` to the experiment, or record energy "
            "and momentum.",
            key="error",
        )
    run_table_with_error(dataset, errors[0], at)
    return errors


def integrator_families(dataset: xr.Dataset) -> dict[str, str]:
    """The family of each integrator, by label.

    Stores name it; for older stores, which do not, it follows from the name of the method.
    """
    found = {}
    described = integrator_descriptions(dataset)
    for label in dict.fromkeys(dataset["integrator"].values.tolist()):
        said = described.get(label, {})
        name = said.get("name", label)
        try:
            method, _ = integrators.named(name.partition(" ")[0])
            known = method.family or method.name
        except InputError:
            known = name.partition("+")[0]
        found[label] = said.get("family", known)
    return found


@dataclass(frozen=True)
class _Sizes:
    """Size of an error of each run, its floor, and the time until which it is taken."""

    values: Floats
    floors: Floats
    times: Floats
    at: str


def _error_sizes_of_runs(dataset: xr.Dataset, name: str, at: str) -> _Sizes:
    if not is_error_against_reference(dataset, name):
        (values,) = reduce_result_columns(
            dataset, [parse_result_column(dataset, f"{name}@max")]
        ).values()
        ends = np.full(len(values), float(dataset["time"].values[-1]))
        return _Sizes(values, _round_off_floor_of_invariant(dataset, name), ends, "sup")
    values, floors, times = np.full((3, dataset.sizes["run"]), np.nan)
    for _, runs in groups_of_runs(dataset, scanned_axes(dataset)):
        cell = take_runs(dataset, runs)
        place = _last_sample_resolved_by_reference(cell, name, at)
        own = _reference_error_at_sample(cell, place, at)
        values[runs] = np.where(
            np.isfinite(own), _error_size_at_sample(cell, name, place, at), np.nan
        )
        floors[runs] = MARGIN * np.maximum(own, least_known_errors(cell, name))
        times[runs] = cell["time"].values[place]
    return _Sizes(values, floors, times, at)


def _error_size_at_sample(dataset: xr.Dataset, name: str, place: int, at: str) -> Floats:
    """Size of an error at a sample, or its largest until then; shape ``(run,)``."""
    dataset = dataset.isel(time=slice(0, place + 1))
    of = Column(name, "time" if at == "end" else "abs_max", place, name)
    return np.abs(reduce_result_columns(dataset, [of])[name])


def _reference_error_at_sample(dataset: xr.Dataset, place: int, at: str) -> Floats:
    """Error of the reference itself; NaN where it failed."""
    if "reference_error" not in dataset:
        return np.zeros(dataset.sizes["run"])
    share = share_of_reference_error(dataset)
    return share * _error_size_at_sample(dataset, "reference_error", place, at)


def _last_sample_resolved_by_reference(dataset: xr.Dataset, name: str, at: str) -> int:
    """The last sample at which the reference resolves the errors of every integrator."""
    wanted = (name, "reference_error", INITIAL, "status", "sample_count")
    needed = [key for key in wanted if key in dataset]
    times = []
    for _, runs in groups_of_runs(dataset, ["integrator"]):
        some = take_runs(dataset, _runs_of_starts_that_fit_memory(dataset, runs))[needed].load()
        axis = "tolerance" if adaptive_runs(some)[0] else "step_size"
        curve = error_curve(some, name, at, axis)
        if np.isfinite(curve.errors).any():
            times.append(curve.time)
    there = dataset["time"].values
    return int(np.argmin(np.abs(there - min(times)))) if times else len(there) - 1


def _runs_of_starts_that_fit_memory(dataset: xr.Dataset, runs: Integers) -> Integers:
    """Runs of an integrator with as many of its starts as fit into memory."""
    if len(runs) * dataset.sizes["time"] <= SAMPLED:
        return runs
    starts, start = distinct_values_and_codes(dataset["initial_condition"].values[runs])
    few = max(1, SAMPLED * len(starts) // (len(runs) * dataset.sizes["time"]))
    return runs[start < few]


def _round_off_floor_of_invariant(dataset: xr.Dataset, name: str) -> Floats:
    """Round-off floor of an invariant or constraint: some ε of its size at the start."""
    quantity, epsilon = name.removesuffix("_error"), relative_round_off_of_runs(dataset)
    if dataset[name].attrs.get("kind") == "constraint":
        return ROUNDINGS * epsilon
    parts = [quantity] if quantity in dataset else [f"{quantity}_{axis}" for axis in "xyz"]
    parts = [part for part in parts if part in names_of_time_series(dataset)]
    starts = reduce_result_columns(
        dataset, [parse_result_column(dataset, f"{part}@start") for part in parts]
    ).values()
    return ROUNDINGS * epsilon * np.sqrt(sum((start**2 for start in starts), 0.0))


def _work_measures_of_runs(dataset: xr.Dataset, timed: RunTimes) -> dict[str, Floats]:
    """Steps, evaluations and CPU time of each run of `dataset`; NaN where none are counted."""
    counted = {
        "steps": [name for name in ("steps", "rejected_steps") if name in dataset],
        "evaluations": [name for name in ("evaluations",) if name in dataset],
    }
    work = {
        name: sum((dataset[part].values for part in parts), np.zeros(dataset.sizes["run"]))
        for name, parts in counted.items()
    }
    work |= {"cpu_time": timed.least, "cpu_time_largest": timed.largest}
    work = {name: np.where(values > 0, values, np.nan) for name, values in work.items()}
    return work | {"cpu_time_apart": timed.apart, "cpu_time_batch": timed.batch}


def _work_estimate_of_cell(
    dataset: xr.Dataset,
    name: str,
    found: _Sizes,
    there: Integers,
    runs: int,
    of_cell: dict[str, Any],
) -> WorkEstimate:
    """The row of a cell of `runs` runs, of which those at `there` count."""
    whole = there
    there = there[np.isfinite(found.values[there])]
    values = found.values[there]
    referred = is_error_against_reference(dataset, name)
    lost = referred and len(whole) > 0 and not len(there)
    return WorkEstimate(
        error=name,
        units=dataset[name].attrs.get("units", "1"),
        reference=referred,
        at=found.at,
        time=_median_or_nan(found.times[there]),
        value=_median_or_nan(values),
        low=float(values.min()) if len(values) else np.nan,
        high=float(values.max()) if len(values) else np.nan,
        floor=_median_or_nan(found.floors[there]),
        starts=len(there),
        left_out=runs - len(there),
        reference_failed=lost and reference_failed_at_start(take_runs(dataset, whole)),
        **of_cell,
    )


def _median_or_nan(values: Floats) -> float:
    return float(np.median(values)) if len(values) else np.nan
