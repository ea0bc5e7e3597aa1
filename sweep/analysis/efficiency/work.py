"""What accuracy costs: errors against steps, evaluations and CPU time, and who needs least."""

import math
from dataclasses import dataclass

import numpy as np

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
from sweep.analysis.efficiency.pareto import with_pareto_flags
from sweep.analysis.efficiency.timing import APART, cpu_times_of_runs, is_cpu_time_comparable
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


@dataclass(frozen=True)
class WorkEstimate:
    """One error of one integrator at one step size or tolerance, and the work that it took.

    Attributes
    ----------
    integrator, family : str
        The label in the study, and the family that it is compared within.
    parameters : dict
        Values of the scanned axes.
    step_size, tolerance : float
        One is NaN: adaptive integrators have a tolerance, the others a step size.
    error : str
        ``global_error``, ``energy_error``, …
    units : str
    reference : bool
        Whether it is measured against a reference solution.
    at : str
        ``end`` or ``sup``: the error at `time`, or its largest size until then.
    time : float
        Of an error against a reference the last time at which it resolves the errors of all
        integrators; of others the end of the run.
    value, low, high : float
        Size of the error: median over the starts, and range; NaN where no run is complete.
    floor : float
        Errors below it cannot be told apart: round-off, or what the reference is wrong by.
    steps, evaluations, cpu_time : float
        Of a whole run, medians over the starts: steps with the rejected ones, evaluations of the
        system's function, and seconds, of repeated runs the least. Of runs that are computed side
        by side in lanes each has its share of the time. NaN where none are counted.
    cpu_time_largest, cpu_time_apart, cpu_time_batch : float
        Of repeated runs the longest time; by what the next to the least is longer, as a part of
        it, NaN where they are timed once; and the time of all runs that were computed side by
        side, which is what was measured. Medians over the starts.
    cpu_time_elsewhere : bool
        Whether some of its runs were computed by another kind of machine, or another version, than
        most runs of the table.
    repeats : int
        How often each run was timed, at least.
    starts, failed, left_out : int
        Initial conditions that count; runs that stopped early; runs that do not count: these,
        unfinished ones, and those that left the study.
    reference_failed : bool
        Whether complete runs have no error because the reference failed.
    best : tuple of str
        Which of `pareto.WORK` it is best of its family by, see `work_table`.
    """

    integrator: str
    family: str
    parameters: dict
    step_size: float
    tolerance: float
    error: str
    units: str
    reference: bool
    at: str
    time: float
    value: float
    low: float
    high: float
    floor: float
    steps: float
    evaluations: float
    cpu_time: float
    cpu_time_largest: float
    cpu_time_apart: float
    cpu_time_batch: float
    cpu_time_elsewhere: bool
    repeats: int
    starts: int
    failed: int
    left_out: int
    reference_failed: bool = False
    best: tuple = ()

    @property
    def resolved(self):
        """Whether the error stands above round-off and the reference's own error."""
        return self.value > self.floor

    @property
    def cpu_time_measured(self):
        """Whether the CPU time is long, timed often enough, and of the same machine as others."""
        return not self.cpu_time_elsewhere and is_cpu_time_comparable(
            self.cpu_time_apart, self.cpu_time_batch, self.repeats
        )

    def work_range(self, against):
        """A measure of work, and up to what it cannot be told from more.

        Steps and evaluations are counted. Of CPU times it is what the two least of the repeats
        differ by; of one that was timed once, `timing.APART`.
        """
        work = getattr(self, against)
        if against != "cpu_time":
            return work, work
        once = math.isnan(self.cpu_time_apart)
        return work, work * (1 + (APART if once else self.cpu_time_apart))

    def work_is_comparable(self, against):
        """Whether a measure of work can be compared with that of others."""
        if against == "cpu_time" and not self.cpu_time_measured:
            return False
        return getattr(self, against) > 0


def work_table(dataset, error=None, at="end"):
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


def chosen_errors_for_work(dataset, error=None, at="end"):
    """Names of the errors to measure, the first of them the one that tells most.

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


def integrator_families(dataset):
    """The family of each integrator, by label.

    The store says it; of one that was written before it did, it is that of the method's name.
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
    """Of each run the size of an error, below what it means nothing, and until when it is taken."""

    values: np.ndarray
    floors: np.ndarray
    times: np.ndarray
    at: str


def _error_sizes_of_runs(dataset, name, at):
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


def _error_size_at_sample(dataset, name, place, at):
    """Size of an error at a sample, or its largest until then; shape ``(run,)``."""
    dataset = dataset.isel(time=slice(0, place + 1))
    of = Column(name, "time" if at == "end" else "abs_max", place, name)
    return np.abs(reduce_result_columns(dataset, [of])[name])


def _reference_error_at_sample(dataset, place, at):
    """What the reference is wrong by itself; NaN where it failed."""
    if "reference_error" not in dataset:
        return np.zeros(dataset.sizes["run"])
    share = share_of_reference_error(dataset)
    return share * _error_size_at_sample(dataset, "reference_error", place, at)


def _last_sample_resolved_by_reference(dataset, name, at):
    """The last sample at which the reference resolves the errors of every integrator."""
    needed = (name, "reference_error", INITIAL, "status", "sample_count")
    needed = [key for key in needed if key in dataset]
    times = []
    for _, runs in groups_of_runs(dataset, ["integrator"]):
        some = take_runs(dataset, _runs_of_starts_that_fit_memory(dataset, runs))[needed].load()
        axis = "tolerance" if adaptive_runs(some)[0] else "step_size"
        curve = error_curve(some, name, at, axis)
        if np.isfinite(curve.errors).any():
            times.append(curve.time)
    there = dataset["time"].values
    return int(np.argmin(np.abs(there - min(times)))) if times else len(there) - 1


def _runs_of_starts_that_fit_memory(dataset, runs):
    """The runs of an integrator, of only so many starts that their series fit into memory."""
    if len(runs) * dataset.sizes["time"] <= SAMPLED:
        return runs
    starts, start = distinct_values_and_codes(dataset["initial_condition"].values[runs])
    few = max(1, SAMPLED * len(starts) // (len(runs) * dataset.sizes["time"]))
    return runs[start < few]


def _round_off_floor_of_invariant(dataset, name):
    """What round-off does to an invariant or constraint: some ε of its size at the start."""
    quantity, epsilon = name.removesuffix("_error"), relative_round_off_of_runs(dataset)
    if dataset[name].attrs.get("kind") == "constraint":
        return ROUNDINGS * epsilon
    parts = [quantity] if quantity in dataset else [f"{quantity}_{axis}" for axis in "xyz"]
    parts = [part for part in parts if part in names_of_time_series(dataset)]
    starts = reduce_result_columns(
        dataset, [parse_result_column(dataset, f"{part}@start") for part in parts]
    ).values()
    return ROUNDINGS * epsilon * np.sqrt(sum((start**2 for start in starts), 0.0))


def _work_measures_of_runs(dataset, timed):
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


def _work_estimate_of_cell(dataset, name, found, there, runs, of_cell):
    """The row of a cell: `there` are its runs that count, of so many."""
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


def _median_or_nan(values):
    return float(np.median(values)) if len(values) else np.nan
