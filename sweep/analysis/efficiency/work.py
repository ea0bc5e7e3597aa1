"""Errors against steps, evaluations and CPU time (work–precision)."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from integrators.errors import InputError
from sweep.analysis.convergence import curves
from sweep.analysis.convergence.slopes import MARGIN
from sweep.analysis.efficiency import timing
from sweep.analysis.efficiency.pareto import WorkEstimate, with_pareto_flags
from sweep.analysis.runs import selection, summaries
from sweep.analysis.runs.blocks import Floats, Integers, median_or_nan
from sweep.analysis.runs.states import INITIAL

GLOBAL = "global_error"
SAMPLED = 2**21  # maximum number of values for finding the last time that the reference resolves
ROUNDINGS = 16  # an invariant with a relative error of at most so many roundings is at round-off


def work_table(
    dataset: xr.Dataset | xr.DataTree, error: str | None = None, at: str = "end"
) -> list[WorkEstimate]:
    """Errors and work of every integrator, with the best of each family marked.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    error : str, optional
        One error over ``(run, time)``. By default all errors of invariants and constraints, and
        ``global_error`` if there is a reference.
    at : {"end", "sup"}, optional
        Take an error against the reference at the last time at which the reference resolves the
        errors of all integrators, or its maximum until then. Other errors are always the maximum
        over the run.

    Returns
    -------
    list of WorkEstimate
        By scanned values, integrator, step size or tolerance, and error.

    Raises
    ------
    InputError
        If there is no such error, no run is complete, or `at` is invalid.

    Notes
    -----
    A family consists of the methods of one construction, such as ``rkmk``, with all compositions,
    projections and step size controls. The best of a family are the points on its Pareto front: no
    other point of the family, of any member at any step size, reaches as small an error with as
    little work. Errors at the floor are regarded as equal, so that only the cheapest of them is
    best; a point with failed runs is never best. CPU times are compared only if they are long
    enough and repeats agree; see `timing`.
    """
    dataset = timing.with_cpu_times_of_runs(selection.run_table(dataset))
    errors = chosen_errors_for_work(dataset, error, at)
    counts = selection.complete_runs(dataset)
    if not counts.any():
        raise InputError("no run is complete: `sweep status` shows how many failed or are pending.")
    stopped = dataset["status"].values > 0 if "status" in dataset else ~counts
    steps = _counted_work_of_runs(dataset, ["steps", "rejected_steps"])
    evaluations = _counted_work_of_runs(dataset, ["evaluations"])
    timed = {name: dataset[name].values for name in timing.TIMED}
    timed |= {name: np.where(timed[name] > 0, timed[name], np.nan) for name in timing.TIMES[:2]}
    sizes = {name: _error_sizes_of_runs(dataset, name, at) for name in errors}
    families, axes = integrator_families(dataset), selection.scanned_axes(dataset)
    rows = []
    keys = [*axes, "integrator", "step_size", "tolerance"]
    for key, runs in selection.groups_of_runs(dataset, keys):
        complete = runs[counts[runs]]
        for name, (sizes_of_runs, floors, times) in sizes.items():
            there = complete[np.isfinite(sizes_of_runs[complete])]
            values = sizes_of_runs[there]
            referred = selection.is_error_against_reference(dataset, name)
            lost = referred and len(complete) > 0 and not len(there)
            lost = lost and curves.reference_failed_at_start(selection.take_runs(dataset, complete))
            rows.append(
                WorkEstimate(
                    integrator=key["integrator"],
                    family=families[key["integrator"]],
                    parameters={axis: key[axis] for axis in axes},
                    step_size=key["step_size"],
                    tolerance=key["tolerance"],
                    error=name,
                    units=dataset[name].attrs.get("units", "1"),
                    reference=referred,
                    at=at if referred else "sup",
                    time=median_or_nan(times[there]),
                    value=median_or_nan(values),
                    low=float(values.min()) if len(values) else np.nan,
                    high=float(values.max()) if len(values) else np.nan,
                    floor=median_or_nan(floors[there]),
                    steps=median_or_nan(steps[complete]),
                    evaluations=median_or_nan(evaluations[complete]),
                    **timing.cpu_time_of_cell(timed, complete),
                    starts=len(there),
                    failed=int(stopped[runs].sum()),
                    left_out=len(runs) - len(there),
                    reference_failed=lost,
                )
            )
    return with_pareto_flags(rows)


def chosen_errors_for_work(
    dataset: xr.Dataset, error: str | None = None, at: str = "end"
) -> list[str]:
    """Names of the errors to measure, the most informative one first.

    Parameters
    ----------
    dataset : xarray.Dataset
    error, at : str
        See `work_table`.

    Returns
    -------
    list of str

    Raises
    ------
    InputError
        If there is no error, or if `error` or `at` is invalid.
    """
    if error is not None:
        selection.run_table_variable(dataset, error)
        curves.run_table_with_error(dataset, error, at)
        return [error]
    errors = [GLOBAL] if GLOBAL in dataset else []
    errors += summaries.invariant_errors_by_energy(dataset)
    if not errors:
        raise InputError(
            "the dataset has no errors: add `reference = {…}` to the experiment, or record energy "
            "and momentum.",
            key="error",
        )
    curves.run_table_with_error(dataset, errors[0], at)
    return errors


def integrator_families(dataset: xr.Dataset) -> dict[str, str]:
    """Family of each integrator by label; the base method if an integrator declares no family."""
    described, found = selection.integrator_descriptions(dataset), {}
    for label in dict.fromkeys(dataset["integrator"].values.tolist()):
        said = described.get(label, {})
        found[label] = said.get("family") or said.get("name", label).partition("+")[0]
    return found


def _error_sizes_of_runs(dataset: xr.Dataset, name: str, at: str) -> tuple[Floats, Floats, Floats]:
    """Absolute error of each run, its floor, and the time at which or until which it is taken."""
    if not selection.is_error_against_reference(dataset, name):
        values = summaries.results(dataset, [f"{name}@max"])[f"{name}@max"].values
        ends = np.full(len(values), float(dataset["time"].values[-1]))
        return values, _round_off_floor_of_invariant(dataset, name), ends
    values, floors, times = np.full((3, dataset.sizes["run"]), np.nan)
    for _, runs in selection.groups_of_runs(dataset, selection.scanned_axes(dataset)):
        cell = selection.take_runs(dataset, runs)
        place = _last_sample_resolved_by_reference(cell, name, at)
        own = np.zeros(len(runs))
        if "reference_error" in cell:  # NaN where the reference failed
            share = curves.share_of_reference_error(cell)
            own = share * _error_size_at_sample(cell, "reference_error", place, at)
        size = _error_size_at_sample(cell, name, place, at)
        values[runs] = np.where(np.isfinite(own), size, np.nan)
        floors[runs] = MARGIN * np.maximum(own, curves.round_off_of_errors(cell, name))
        times[runs] = cell["time"].values[place]
    return values, floors, times


def _error_size_at_sample(dataset: xr.Dataset, name: str, place: int, at: str) -> Floats:
    """Absolute error at a sample, or its maximum until then; shape ``(run,)``."""
    dataset = dataset.isel(time=slice(0, place + 1))
    of = summaries.Column(name, "time" if at == "end" else "abs_max", place, name)
    return np.abs(summaries.reduce_result_columns(dataset, [of])[name])


def _last_sample_resolved_by_reference(dataset: xr.Dataset, name: str, at: str) -> int:
    """The last sample at which the reference resolves the errors of every integrator."""
    wanted = (name, "reference_error", INITIAL, "status", "sample_count")
    needed = [key for key in wanted if key in dataset]
    times = []
    for _, runs in selection.groups_of_runs(dataset, ["integrator"]):
        some = selection.take_runs(dataset, _runs_of_starts_that_fit_memory(dataset, runs))[
            needed
        ].load()
        axis = "tolerance" if selection.adaptive_runs(some)[0] else "step_size"
        curve = curves.error_curve(some, name, at, axis)
        if np.isfinite(curve.errors).any():
            times.append(curve.time)
    there = dataset["time"].values
    return int(np.argmin(np.abs(there - min(times)))) if times else len(there) - 1


def _runs_of_starts_that_fit_memory(dataset: xr.Dataset, runs: Integers) -> Integers:
    """Runs of an integrator for as many of its starts as fit into memory."""
    if len(runs) * dataset.sizes["time"] <= SAMPLED:
        return runs
    starts, start = selection.distinct_values_and_codes(dataset["initial_condition"].values[runs])
    few = max(1, SAMPLED * len(starts) // (len(runs) * dataset.sizes["time"]))
    return runs[start < few]


def _round_off_floor_of_invariant(dataset: xr.Dataset, name: str) -> Floats:
    """Round-off floor of an invariant or constraint: `ROUNDINGS` roundings of its initial value."""
    quantity, epsilon = name.removesuffix("_error"), selection.relative_round_off_of_runs(dataset)
    if dataset[name].attrs.get("kind") == "constraint":
        return ROUNDINGS * epsilon
    parts = [quantity] if quantity in dataset else [f"{quantity}_{axis}" for axis in "xyz"]
    starts = [f"{part}@start" for part in parts if part in summaries.names_of_time_series(dataset)]
    known = summaries.results(dataset, starts)
    return ROUNDINGS * epsilon * np.sqrt(sum((known[one].values ** 2 for one in starts), 0.0))


def _counted_work_of_runs(dataset: xr.Dataset, names: Sequence[str]) -> Floats:
    """Sum of some counters of each run; NaN if nothing was counted."""
    counters = (dataset[name].values for name in names if name in dataset)
    counted = sum(counters, np.zeros(dataset.sizes["run"]))
    return np.where(counted > 0, counted, np.nan)
