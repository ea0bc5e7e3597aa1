"""Functions that measure the numbers of claims from a dataset of runs.

Each returns a number or an array, with one value per run unless its docstring says otherwise. The
variable `state`, recorded by ``record = ["state"]``, has the shape ``(run, time, row, component)``.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.interpolate import BarycentricInterpolator, CubicSpline
from scipy.linalg import block_diag
from scipy.optimize import brentq

import integrators
import systems
from integrators.errors import InputError
from integrators.status import COMPLETE
from sweep.analysis import drift_table, grid, order_table
from sweep.analysis.runs.selection import integrator_descriptions

Array = NDArray[np.float64]
Measure = Callable[[xr.Dataset], float | np.ndarray]  # a number, or one for each run
Transform = Callable[[Array], Array]  # of states

POINTS = 13  # samples used to interpolate a return


def largest_size_over_time(name: str) -> Measure:
    """The largest |value| over time of a variable over ``(run, time)``."""
    return lambda dataset: abs(dataset[name]).max("time").values


def least_value_over_time(name: str) -> Measure:
    """The least value over time of a variable over ``(run, time)``."""
    return lambda dataset: dataset[name].min("time").values


def largest_value_over_time(name: str) -> Measure:
    """The largest value over time of a variable over ``(run, time)``."""
    return lambda dataset: dataset[name].max("time").values


def value_per_run(name: str) -> Measure:
    """A variable over ``(run,)``."""
    return lambda dataset: dataset[name].values


def value_at_start(name: str) -> Measure:
    """The value at the start of a variable over ``(run, time)``."""
    return lambda dataset: dataset[name].isel(time=0).values


def size_at_end(name: str) -> Measure:
    """|value| at the end of a variable over ``(run, time)``."""
    return lambda dataset: abs(dataset[name].isel(time=-1)).values


def states_at_start(dataset: xr.Dataset) -> Array:
    """The states at the start, shape (runs, rows, 3)."""
    return dataset["state"].isel(time=0).transpose("run", "row", "component").values


def slope_over_time(name: str) -> Measure:
    """The least-squares slope over time of a variable over ``(run, time)``."""

    def measure(dataset: xr.Dataset) -> Array:
        time = dataset["time"].values - dataset["time"].values.mean()
        return dataset[name].transpose("run", "time").values @ time / (time @ time)

    return measure


def trend_over_run(name: str) -> Measure:
    """The `slope_over_time` of a variable times the time that the run takes."""
    return lambda dataset: slope_over_time(name)(dataset) * np.ptp(dataset["time"].values)


def largest_relative_change(quantity: str) -> Measure:
    """The largest |change| over time of a number or vector, relative to its size at the start."""

    def measure(dataset: xr.Dataset) -> Array:
        names = [
            name for name in (quantity, *(f"{quantity}_{x}" for x in "xyz")) if name in dataset
        ]
        start = np.sqrt(sum(dataset[name].isel(time=0).values ** 2 for name in names))
        return largest_size_over_time(f"{quantity}_error")(dataset) / start

    return measure


def ratio_of_largest_errors(name: str, above: str, below: str) -> Measure:
    """The `largest_size_over_time` of one integrator over that of another, for each step size.

    Parameters
    ----------
    name : str
        A variable over ``(run, time)``.
    above, below : str
        Labels of the integrators.
    """

    def measure(dataset: xr.Dataset) -> Array:
        errors = abs(grid(dataset[[name]])[name]).max("time")
        return (errors.sel(integrator=above) / errors.sel(integrator=below)).values.ravel()

    return measure


def ratio_of_mean_errors(name: str, above: str, below: str) -> Measure:
    """The mean error of one integrator over that of another, for each step size of both.

    Parameters
    ----------
    name : str
        A variable over ``(run, time)``: the mean over the steps of a sample interval.
    above, below : str
        Labels of the integrators.
    """

    def measure(dataset: xr.Dataset) -> Array:
        errors = grid(dataset[[name]])[name].mean("time")
        ratios = errors.sel(integrator=above) / errors.sel(integrator=below)
        return ratios.values[np.isfinite(ratios.values)]

    return measure


def ratio_of_medians(name: str, above: str, below: str) -> Measure:
    """The median over the runs of one integrator over that of another, of a variable over runs."""

    def measure(dataset: xr.Dataset) -> float:
        values, labels = dataset[name].values, dataset["integrator"].values
        return float(np.median(values[labels == above]) / np.median(values[labels == below]))

    return measure


def ratio_of_errors_at_end(name: str, above: str, below: str) -> Measure:
    """The `size_at_end` of one integrator over that of another, one run of each."""

    def measure(dataset: xr.Dataset) -> Array:
        labels, errors = dataset["integrator"].values, np.asarray(size_at_end(name)(dataset))
        return errors[labels == above] / errors[labels == below]

    return measure


def ratios_over_a_decade_of_step_sizes(name: str) -> Measure:
    """The mean over time of a variable at each step size over that at a tenth of it, if any."""

    def measure(dataset: xr.Dataset) -> Array:
        means, steps = dataset[name].mean("time").values, dataset["step_size"].values
        tenths = np.argwhere(np.isclose(steps[:, None], 10.0 * steps))
        return np.array([means[long] / means[short] for long, short in tenths])

    return measure


def largest_drift_possible(dataset: xr.Dataset) -> float:
    """The upper bound (95 %) of the drift of the energy over the run, relative to max |E − E₀|.

    For one integrator and step size.
    """
    (row,) = drift_table(dataset, ("energy",))
    return row.bound * row.duration / row.max_abs


def estimate_order_from_steps(dataset: xr.Dataset) -> float:
    """The order p̃ of the error estimate of an embedded pair, whose steps scale as tol^(1/(p̃ + 1)).

    From the least-squares slope of the logarithm of the number of steps over that of the tolerance.
    """
    logarithms = np.log(dataset["tolerance"].values), np.log(dataset["steps"].values)
    return -1.0 / np.polyfit(*logarithms, 1)[0] - 1.0


def measured_convergence_order(dataset: xr.Dataset) -> float:
    """The measured order of one integrator, from the error at the end; NaN if undecided."""
    (estimate,) = order_table(dataset)
    return estimate.order


def system_parameter_of_runs(dataset: xr.Dataset, name: str) -> np.ndarray:
    """A parameter of the system, as an array with its value (number or vector) for each run."""
    attributes = dataset.attrs
    for axis in json.loads(attributes["experiment"])["scan"]:
        if axis["name"] == name:
            names = axis["values"] if axis["labels"] is None else axis["labels"]
            place = [names.index(value) for value in dataset[name].values.tolist()]
            return np.array([axis["values"][i] for i in place])
    value = json.loads(attributes["system"])["parameters"][name]
    return np.array([value] * dataset.sizes["run"])


def system_of_run(dataset: xr.Dataset, run: int) -> systems.System:
    """The system of a run, with its scanned parameters."""
    known = json.loads(dataset.attrs["system"])
    scanned = [axis["name"] for axis in json.loads(dataset.attrs["experiment"])["scan"]]
    own = {name: system_parameter_of_runs(dataset, name)[run] for name in scanned}
    return systems.get(known["name"], **known["parameters"] | own)


def images_of_run(dataset: xr.Dataset, run: int, states: Array, steps: int) -> Array:
    """The images of states under a number of steps of a run's integrator and step size.

    Parameters
    ----------
    dataset : xarray.Dataset
    run : int
    states : ndarray, shape (members, rows, 3)
    steps : int

    Returns
    -------
    ndarray, shape (members, rows, 3)
    """
    label = str(dataset["integrator"].values[run])
    known = integrator_descriptions(dataset)[label]
    h = float(dataset["step_size"].values[run])
    return integrators.integrate(
        system_of_run(dataset, run), integrators.get(known["name"], **known["options"]), states,
        step_size=h, duration=steps * h, samples=1,
    ).states[:, -1]  # fmt: skip


# --- rotations -----------------------------------------------------------------------------------


def first_spin_step_angles(dataset: xr.Dataset) -> Array:
    """The angle by which a step rotates the first spin about e3, shape ``(run, time)``.

    The rotation in a sample interval must be less than π.
    """
    w = dataset["state"].transpose("run", "time", "row", "component").values[:, :, 0]
    x, y = w[..., 0], w[..., 1]
    sine = x[:, :-1] * y[:, 1:] - y[:, :-1] * x[:, 1:]
    cosine = x[:, :-1] * x[:, 1:] + y[:, :-1] * y[:, 1:]
    steps = np.diff(dataset["time"].values) / dataset["step_size"].values[:, None]
    return np.arctan2(sine, cosine) / steps


def mean_first_spin_step_angle(dataset: xr.Dataset) -> Array:
    """The absolute value of the mean of `first_spin_step_angles` over the steps."""
    return np.abs(first_spin_step_angles(dataset).mean(axis=1))


def step_angle_residual(dataset: xr.Dataset) -> Array:
    """The largest residual of sin²(φ/2) sin²α + tan²(φ/2) cos²α = (λh/2)² over the steps.

    φ is from `first_spin_step_angles`, α is the coordinate ``angle`` of the starts, and λ = |a|
    with the parameter ``axis`` a along e3.
    """
    half = 0.5 * first_spin_step_angles(dataset)
    alpha = dataset["angle"].values[:, None]
    rate = np.linalg.norm(system_parameter_of_runs(dataset, "axis"), axis=1)
    product = (rate * dataset["step_size"].values)[:, None]
    left = (np.sin(half) * np.sin(alpha)) ** 2 + (np.tan(half) * np.cos(alpha)) ** 2
    return np.abs(left - (0.5 * product) ** 2).max(axis=1)


def step_angle_distance_from_leapfrog(dataset: xr.Dataset) -> Array:
    """The distance of `mean_first_spin_step_angle` from the angle of a leapfrog step.

    The latter is the argument of the eigenvalues of the Störmer–Verlet step for q̈ = −λ² q, with λ
    as in `step_angle_residual`.
    """
    rate = np.linalg.norm(system_parameter_of_runs(dataset, "axis"), axis=1)
    squares = (rate * dataset["step_size"].values) ** 2
    steps = [[[1.0 - 0.5 * s, 1.0], [0.25 * s * s - s, 1.0 - 0.5 * s]] for s in squares]
    angles = np.abs(np.angle(np.linalg.eigvals(steps))).max(axis=1)
    return np.abs(mean_first_spin_step_angle(dataset) - angles)


def rates_of_runs_that_fail(dataset: xr.Dataset) -> Array:
    """λh in the runs that fail, with λ as in `step_angle_residual`."""
    rate = np.linalg.norm(system_parameter_of_runs(dataset, "axis"), axis=1)
    return (rate * dataset["step_size"].values)[dataset["status"].values != COMPLETE]


def spin_chain_turning_rates(dataset: xr.Dataset) -> Array:
    """The mean angular velocity of the ``count`` spins of a chain about e3."""
    counts, rates = system_parameter_of_runs(dataset, "count"), []
    span = float(dataset["time"].values[-1] - dataset["time"].values[0])
    for run, count in enumerate(counts):
        w = _states_of_run(dataset, run)[:, : int(count)]
        angles = np.unwrap(np.arctan2(w[..., 1], w[..., 0]), axis=0)
        rates.append(np.mean(angles[-1] - angles[0]) / span)
    return np.array(rates)


def exact_latitude_circle_rate(count: Any, colatitude: Any) -> Any:
    """The angular velocity −2(1 − cos(2π/n)) cos θ of n equidistant spins on a circle of latitude.

    The two neighbours of a spin add up to 2 (cos(2π/n) sin θ …, cos θ), which gives this rate.
    """
    return -2.0 * (1.0 - np.cos(2.0 * np.pi / count)) * np.cos(colatitude)


def turning_rate_residual(dataset: xr.Dataset) -> Array:
    """The distance of `spin_chain_turning_rates` from `exact_latitude_circle_rate`."""
    expected = exact_latitude_circle_rate(
        system_parameter_of_runs(dataset, "count"), dataset["colatitude"].values
    )
    return np.abs(spin_chain_turning_rates(dataset) - expected)


# --- symmetries ----------------------------------------------------------------------------------


def distance_from_transformed_run(
    transform: Transform, one: Mapping[str, object], other: Mapping[str, object]
) -> Measure:
    """The largest distance over time between the image of one run under ψ and another run.

    It vanishes for a method with the symmetry, Φ ∘ ψ = ψ ∘ Φ', with the map Φ' of the transformed
    system.

    Parameters
    ----------
    transform : callable
        ψ, of states of shape (…, rows, 3).
    one, other : dict of str to str
        Coordinates along ``run`` that select the run from w, and the run from ψ(w).
    """

    def measure(dataset: xr.Dataset) -> float:
        paths = []
        for wanted in (one, other):
            chosen = [dataset[name].values == value for name, value in wanted.items()]
            (run,) = np.flatnonzero(np.all(chosen, axis=0))
            paths.append(_states_of_run(dataset, int(run)))
        return float(np.linalg.norm(paths[1] - transform(paths[0]), axis=-1).max())

    return measure


def distance_after_reversal(reverse: Transform) -> Measure:
    """The distance from R w(0) after integrating from R w(T) for the time T.

    It vanishes for a method with the reversing symmetry R: Φ ∘ R ∘ Φ = R.

    Parameters
    ----------
    reverse : callable
        R, of states of shape (…, rows, 3).
    """

    def measure(dataset: xr.Dataset) -> Array:
        times, found = dataset["time"].values, []
        for run in range(dataset.sizes["run"]):
            path = _states_of_run(dataset, run)
            steps = round((times[-1] - times[0]) / float(dataset["step_size"].values[run]))
            (back,) = images_of_run(dataset, run, reverse(path[-1:]), steps)
            found.append(np.linalg.norm(back - reverse(path[0])))
        return np.array(found)

    return measure


QUOTIENT = 2.0**-7  # spacing of the difference quotients, whose error is its 6th power
WEIGHTS = {1: 45.0 / 60.0, 2: -9.0 / 60.0, 3: 1.0 / 60.0}


def jacobian_by_quotients(function: Transform, point: Array) -> Array:
    """The Jacobian of a function of n vectors in R³, by central differences of order 6.

    Parameters
    ----------
    function : callable
        From points, shape (members, n, 3), to values of the same shape.
    point : ndarray, shape (n, 3)

    Returns
    -------
    ndarray, shape (3n, 3n)
    """
    kicks = QUOTIENT * np.eye(point.size).reshape(-1, *point.shape)
    slopes: Any = 0.0
    for count, weight in WEIGHTS.items():
        ahead, behind = (function(point + side * count * kicks) for side in (1.0, -1.0))
        slopes = slopes + weight / QUOTIENT * (ahead - behind)
    return slopes.reshape(point.size, point.size).T


def poisson_defect(dataset: xr.Dataset) -> Array:
    """max |J K(w) Jᵀ − K(W)|/max |K(w)| of a step from w to W, with its Jacobian J on R³ⁿ.

    K(w) has the blocks K_i v = −w_i × v/κ_i of the Lie–Poisson bracket, (8) of McLachlan et al.
    with strengths. A map with J K(w) Jᵀ = K(W) is Poisson.
    """
    found = []
    for run in range(dataset.sizes["run"]):
        start = _states_of_run(dataset, run)[0]
        step = partial(images_of_run, dataset, run, steps=1)
        jacobian = jacobian_by_quotients(step, start)
        (end,) = step(start[None])
        form: Any = system_of_run(dataset, run).form
        before, after = (_poisson_tensor(w, form.strengths) for w in (start, end))
        found.append(np.abs(jacobian @ before @ jacobian.T - after).max() / np.abs(before).max())
    return np.array(found)


def _poisson_tensor(w: Array, strengths: Array) -> Array:
    """K(w), shape (3n, 3n)."""
    blocks = -np.cross(w[:, None], np.eye(3)).swapaxes(1, 2) / strengths[:, None, None]
    return block_diag(*blocks)


def largest_change_of_lengths(dataset: xr.Dataset) -> Array:
    """The largest relative change of a length |w_i| over time."""
    w = dataset["state"].transpose("run", "time", "row", "component").values
    lengths = np.linalg.norm(w, axis=-1)
    return np.abs(lengths / lengths[:, :1] - 1.0).max(axis=(1, 2))


# --- distances -----------------------------------------------------------------------------------


def distance_from_state_at_end(state: Sequence[Sequence[float]]) -> Measure:
    """The Euclidean distance of the last state from a given one.

    Parameters
    ----------
    state : array_like, shape (rows, 3)
        The state; further rows of the last state, such as the work of forces, are ignored.
    """

    def measure(dataset: xr.Dataset) -> Array:
        last = dataset["state"].isel(time=-1).transpose("run", "row", "component").values
        return np.sqrt(np.sum((last[:, : len(state)] - np.asarray(state)) ** 2, axis=(1, 2)))

    return measure


def distance_between_top_formulations(dataset: xr.Dataset) -> float:
    """The distance between Q and π of a heavy top on T*SO(3) and on T*(SO(3) × R³).

    The largest Euclidean distance over time; for π it is relative to its size.
    """
    rows = {"cotangent": [0, 1, 2, 3], "quadratic": [0, 1, 2, 4]}
    one, other = (
        _states_of_run(dataset, int(np.flatnonzero(dataset["formulation"].values == name)[0]))[
            :, own
        ]
        for name, own in rows.items()
    )
    off = np.sum((one - other) ** 2, axis=2)
    off[:, 3] /= np.sum(one[:, 3] ** 2, axis=1)
    return float(np.sqrt(off.sum(axis=1).max()))


HALF_TURNS = np.array([[1, 1, 1], [-1, -1, 1], [1, -1, -1], [-1, 1, -1]])  # none, e3, e1, e2


def vortex_distance_from_normal_form(dataset: xr.Dataset) -> Array:
    """The largest distance over time of four vortices from C(θ, φ), (15) of McLachlan et al.

    The rows of C(θ, φ) are a vector and its images under the half turns about e3, e1 and e2,
    which with the identity are a group. The distance is the largest |w_i − R_i w_1|.
    """
    w = dataset["state"].transpose("run", "time", "row", "component").values
    off = np.linalg.norm(w - HALF_TURNS * w[:, :, :1], axis=-1)
    return off.max(axis=(1, 2))


def vortex_distance_from_invariant_manifold(dataset: xr.Dataset) -> Array:
    """The largest distance over time of four vortices from all A·C(θ, φ) with rotations A.

    Vortices are of this form if and only if half turns about three orthogonal axes permute them,
    that is, if they are the corners of a tetrahedron whose opposite edges are equally long. The
    distance is the largest difference between the lengths of opposite edges.
    """
    w = dataset["state"].transpose("run", "time", "row", "component").values

    def edge(i: int, j: int) -> Array:
        return np.linalg.norm(w[:, :, i] - w[:, :, j], axis=-1)

    pairs = (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2)))
    return np.max([np.abs(edge(*a) - edge(*b)).max(axis=1) for a, b in pairs], axis=0)


def tracer_distance_from_turns(dataset: xr.Dataset) -> Array:
    """The largest distance over time of the tracers of one vortex from their exact positions.

    A tracer at the angle θ from the vortex rotates about it at the rate −κ/(4π(1 − cos θ)).
    """
    times, found = dataset["time"].values, []
    strengths = system_parameter_of_runs(dataset, "strengths")[:, 0]
    for run in range(dataset.sizes["run"]):
        path = _states_of_run(dataset, run)
        vortex, start = path[0, 0], path[0, 1:]
        cosine = start @ vortex
        angle = -np.multiply.outer(times, strengths[run] / (4.0 * np.pi * (1.0 - cosine)))
        across = start - cosine[:, None] * vortex
        turned = np.cos(angle)[..., None] * across
        turned = turned + np.sin(angle)[..., None] * np.cross(vortex, across)
        expected = cosine[:, None] * vortex + turned
        found.append(np.linalg.norm(path[:, 1:] - expected, axis=-1).max())
    return np.array(found)


def vortex_distance_from_run_alone(dataset: xr.Dataset) -> Array:
    """The largest distance of vortices in runs with tracers from those in the run without."""
    tracers = system_parameter_of_runs(dataset, "tracers")
    (alone,) = np.flatnonzero(tracers == 0)
    bodies = system_of_run(dataset, int(alone)).bodies
    expected = _states_of_run(dataset, int(alone))[:, :bodies]
    return np.array(
        [
            np.linalg.norm(_states_of_run(dataset, int(run))[:, :bodies] - expected, axis=-1).max()
            for run in np.flatnonzero(tracers)
        ]
    )


# --- peaks ---------------------------------------------------------------------------------------


def component_peak_size(row: int, component: int) -> Measure:
    """The largest absolute value over time of a component of the state, interpolated."""
    return lambda dataset: np.array(
        [found for _, found in _component_peak_of_each_run(dataset, row, component)]
    )


def component_peak_time(row: int, component: int) -> Measure:
    """The time of the `component_peak_size`."""
    return lambda dataset: np.array(
        [time for time, _ in _component_peak_of_each_run(dataset, row, component)]
    )


def _component_peak_of_each_run(
    dataset: xr.Dataset, row: int, component: int
) -> Iterator[tuple[float, float]]:
    """Time and size of the largest |value| of each run, at stationary points of a cubic spline."""
    times = dataset["time"].values
    for run in range(dataset.sizes["run"]):
        path = CubicSpline(times, _states_of_run(dataset, run)[:, row, component])
        where = np.append(path.derivative().roots(extrapolate=False), times[[0, -1]])
        sizes = np.abs(path(where))
        yield float(where[np.argmax(sizes)]), float(sizes.max())


# --- periods -------------------------------------------------------------------------------------


def return_period(dataset: xr.Dataset) -> Array:
    """The time of the first return of a run to its start, interpolated between samples."""
    return np.array(
        [_time_and_distance_of_first_return(dataset, run)[0] for run in range(dataset.sizes["run"])]
    )


def return_period_error(expected: float) -> Measure:
    """The distance of the `return_period` from an expected value."""
    return lambda dataset: np.abs(return_period(dataset) - expected)


def distance_at_first_return(dataset: xr.Dataset) -> Array:
    """The distance of a run from its start after its `return_period`."""
    return np.array(
        [_time_and_distance_of_first_return(dataset, run)[1] for run in range(dataset.sizes["run"])]
    )


def _time_and_distance_of_first_return(dataset: xr.Dataset, run: int) -> tuple[float, float]:
    """Time and distance of the closest approach to the start at the first return.

    It solves (p(t) − w_0)·p'(t) = 0 for a polynomial p that interpolates the states around it.
    """
    times = dataset["time"].values
    states = _states_of_run(dataset, run).reshape(len(times), -1)
    away = np.linalg.norm(states - states[0], axis=1)
    near = away < np.linalg.norm(np.diff(states, axis=0), axis=1).max()
    left = np.flatnonzero(~near)
    back = np.flatnonzero(near[left[0] :]) if left.size else left
    if not back.size:
        raise InputError(f"the run is not back at its start within T = {times[-1]:g}")
    first = left[0] + back[0]
    nearest = first + int(np.argmin(away[first : first + 3]))
    around = slice(max(nearest - POINTS // 2, 0), nearest + POINTS // 2 + 1)
    path = BarycentricInterpolator(times[around], states[around])

    def slope_of_distance(t: float) -> float:
        return (path(t) - states[0]) @ path.derivative(t)

    found = brentq(slope_of_distance, times[nearest - 1], times[nearest + 1], xtol=1e-13)
    return found, float(np.linalg.norm(path(found) - states[0]))


def _states_of_run(dataset: xr.Dataset, run: int) -> Array:
    """Of one run, shape ``(time, row, component)``."""
    return dataset["state"].isel(run=run).transpose("time", "row", "component").values
