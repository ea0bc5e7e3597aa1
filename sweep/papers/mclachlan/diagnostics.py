"""Measurements for the claims of McLachlan, Modin and Verdier about spins and vortices.

Each function computes a number for a dataset of runs, or one for each run, from recorded states.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from scipy.interpolate import BarycentricInterpolator
from scipy.linalg import block_diag
from scipy.optimize import brentq

import integrators
from integrators.errors import InputError
from integrators.status import COMPLETE
from sweep.analysis.runs.selection import integrator_descriptions
from sweep.papers.diagnostics import Array, states_of_runs, system_of_run, system_parameter_of_runs

POINTS = 13  # number of samples for the interpolation of a return

# --- rotations -----------------------------------------------------------------------------------


def first_spin_step_angles(dataset: xr.Dataset) -> Array:
    """The angle by which a step rotates the first spin about e3, shape ``(run, time)``.

    The rotation in a sample interval must be less than π.
    """
    x, y, _ = np.moveaxis(states_of_runs(dataset)[:, :, 0], -1, 0)
    sine = x[:, :-1] * y[:, 1:] - y[:, :-1] * x[:, 1:]
    cosine = x[:, :-1] * x[:, 1:] + y[:, :-1] * y[:, 1:]
    steps = np.diff(dataset["time"].values) / dataset["step_size"].values[:, None]
    return np.arctan2(sine, cosine) / steps


def mean_first_spin_step_angle(dataset: xr.Dataset) -> Array:
    """The absolute value of the mean of `first_spin_step_angles` over the steps."""
    return np.abs(first_spin_step_angles(dataset).mean(axis=1))


def rotation_by_step(dataset: xr.Dataset) -> Array:
    """λh of each run, with λ = |a| of the parameter ``axis`` a along e3."""
    rates = np.linalg.norm(system_parameter_of_runs(dataset, "axis"), axis=1)
    return rates * dataset["step_size"].values


def step_angle_residual(dataset: xr.Dataset) -> Array:
    """The largest residual of sin²(φ/2) sin²α + tan²(φ/2) cos²α = (λh/2)² over the steps.

    φ is from `first_spin_step_angles`, α is the coordinate ``angle`` of the starts, and λh is the
    `rotation_by_step`.
    """
    half = 0.5 * first_spin_step_angles(dataset)
    alpha = dataset["angle"].values[:, None]
    left = (np.sin(half) * np.sin(alpha)) ** 2 + (np.tan(half) * np.cos(alpha)) ** 2
    return np.abs(left - (0.5 * rotation_by_step(dataset)[:, None]) ** 2).max(axis=1)


def step_angle_distance_from_leapfrog(dataset: xr.Dataset) -> Array:
    """The distance of `mean_first_spin_step_angle` from the angle of a leapfrog step.

    The angle of a leapfrog step is the argument of the eigenvalues of the Störmer–Verlet step for
    q̈ = −λ² q.
    """
    squares = rotation_by_step(dataset) ** 2
    steps = [[[1.0 - 0.5 * s, 1.0], [0.25 * s * s - s, 1.0 - 0.5 * s]] for s in squares]
    angles = np.abs(np.angle(np.linalg.eigvals(steps))).max(axis=1)
    return np.abs(mean_first_spin_step_angle(dataset) - angles)


def rotations_that_fail(dataset: xr.Dataset) -> Array:
    """`rotation_by_step` of the runs that fail."""
    return rotation_by_step(dataset)[dataset["status"].values != COMPLETE]


def number_of_rotations_that_fail(dataset: xr.Dataset) -> int:
    """The number of the runs that fail."""
    return len(rotations_that_fail(dataset))


def spin_chain_turning_rates(dataset: xr.Dataset) -> Array:
    """The mean angular velocity of the ``count`` spins of a chain about e3."""
    counts, rates = system_parameter_of_runs(dataset, "count"), []
    span = float(dataset["time"].values[-1] - dataset["time"].values[0])
    for w, count in zip(states_of_runs(dataset), counts, strict=True):
        angles = np.unwrap(np.arctan2(w[:, : int(count), 1], w[:, : int(count), 0]), axis=0)
        rates.append(np.mean(angles[-1] - angles[0]) / span)
    return np.array(rates)


def turning_rate_residual(dataset: xr.Dataset) -> Array:
    """The distance of `spin_chain_turning_rates` from the exact rate −2(1 − cos(2π/n)) cos θ.

    This is the angular velocity of n equidistant spins on a circle of latitude, since the sum of
    the two neighbours of a spin is 2 (cos(2π/n) sin θ …, cos θ).
    """
    count, colatitude = system_parameter_of_runs(dataset, "count"), dataset["colatitude"].values
    exact = -2.0 * (1.0 - np.cos(2.0 * np.pi / count)) * np.cos(colatitude)
    return np.abs(spin_chain_turning_rates(dataset) - exact)


# --- symmetries ----------------------------------------------------------------------------------

TURN = np.array(  # rotation by 1 rad about (1, 2, 2)/3, as in the studies
    [
        [0.5913798274383464, -0.45882561339818423, 0.663135699679011],
        [0.663135699679011, 0.7446123921489666, -0.07618024198847204],
        [-0.45882561339818423, 0.48480041455012557, 0.7446123921489666],
    ]
)
TRANSFORMS: dict[str, Callable[[Array], Array]] = {  # of states, shape (…, rows, 3)
    "turn": lambda w: w @ TURN.T,  # all spins by the same rotation
    "shift": lambda w: np.roll(w, 1, axis=-2),  # every spin moves to the next place of a chain
    "invert": np.negative,
    "mirror": lambda w: w * np.array([1.0, 1.0, -1.0]),  # e3 ↦ −e3
}


def distance_from_transformed_run(
    dataset: xr.Dataset, transform: str, one: dict[str, object], other: dict[str, object]
) -> float:
    """The largest distance over time between the image of one run under ψ and another run.

    It vanishes for a method with the symmetry Φ ∘ ψ = ψ ∘ Φ', where Φ' is the map of the
    transformed system.

    Parameters
    ----------
    dataset : xarray.Dataset
    transform : str
        ψ, a key of `TRANSFORMS`.
    one, other : dict of str to object
        Coordinates along ``run`` that select the runs that start at w and at ψ(w).

    Returns
    -------
    float
    """
    first, second = (
        states_of_runs(dataset)[
            np.all([dataset[name].values == value for name, value in wanted.items()], axis=0)
        ]
        for wanted in (one, other)
    )
    return float(np.linalg.norm(second - TRANSFORMS[transform](first), axis=-1).max())


def distance_after_reversal(dataset: xr.Dataset, transform: str) -> Array:
    """The distance from R w(0) after integrating from R w(T) for the time T.

    It vanishes for a method with the reversing symmetry R: Φ ∘ R ∘ Φ = R.

    Parameters
    ----------
    dataset : xarray.Dataset
    transform : str
        R, a key of `TRANSFORMS`.

    Returns
    -------
    ndarray, shape (run,)
    """
    reverse, found = TRANSFORMS[transform], []
    span = float(np.ptp(dataset["time"].values))
    for run, path in enumerate(states_of_runs(dataset)):
        steps = round(span / float(dataset["step_size"].values[run]))
        (back,) = images_of_run(dataset, run, reverse(path[-1:]), steps)
        found.append(np.linalg.norm(back - reverse(path[0])))
    return np.array(found)


def images_of_run(dataset: xr.Dataset, run: int, states: Array, steps: int) -> Array:
    """Images of states under several steps with the integrator and step size of a run.

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
    known = integrator_descriptions(dataset)[str(dataset["integrator"].values[run])]
    h = float(dataset["step_size"].values[run])
    return integrators.integrate(
        system_of_run(dataset, run), integrators.get(known["name"], **known["options"]), states,
        step_size=h, duration=steps * h, samples=1,
    ).states[:, -1]  # fmt: skip


QUOTIENT = 2.0**-7  # spacing of difference quotients; their error is of order 6 in it
WEIGHTS = {1: 45.0 / 60.0, 2: -9.0 / 60.0, 3: 1.0 / 60.0}


def jacobian_by_quotients(function: Callable[[Array], Array], point: Array) -> Array:
    """The Jacobian of a function of n vectors in R³, by central differences of order 6.

    Parameters
    ----------
    function : callable
        Maps points, shape (members, n, 3), to values of the same shape.
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
    """Poisson defect max |J K(w) Jᵀ − K(W)|/max |K(w)| of a step from w to W, with Jacobian J.

    K(w) has the blocks K_i v = −w_i × v/κ_i of the Lie–Poisson bracket, (8) of McLachlan et al.
    with strengths κ. A map with J K(w) Jᵀ = K(W) is a Poisson map.
    """
    found = []
    for run, (start, *_) in enumerate(states_of_runs(dataset)):
        step = partial(images_of_run, dataset, run, steps=1)
        jacobian = jacobian_by_quotients(step, start)
        form: Any = system_of_run(dataset, run).form
        before, after = (_poisson_tensor(w, form.strengths) for w in (start, *step(start[None])))
        found.append(np.abs(jacobian @ before @ jacobian.T - after).max() / np.abs(before).max())
    return np.array(found)


def _poisson_tensor(w: Array, strengths: Array) -> Array:
    """The matrix K(w) of `poisson_defect`, shape (3n, 3n)."""
    blocks = -np.cross(w[:, None], np.eye(3)).swapaxes(1, 2) / strengths[:, None, None]
    return block_diag(*blocks)


def largest_change_of_lengths(dataset: xr.Dataset) -> Array:
    """The largest relative change of a length |w_i| over time."""
    lengths = np.linalg.norm(states_of_runs(dataset), axis=-1)
    return np.abs(lengths / lengths[:, :1] - 1.0).max(axis=(1, 2))


# --- vortices ------------------------------------------------------------------------------------

# Diagonals of the identity, and of the half turns about e3, e1 and e2.
HALF_TURNS = np.array([[1, 1, 1], [-1, -1, 1], [1, -1, -1], [-1, 1, -1]])


def vortex_distance_from_normal_form(dataset: xr.Dataset) -> Array:
    """The largest distance over time of four vortices from C(θ, φ), (15) of McLachlan et al.

    The rows of C(θ, φ) are a vector and its images under the half turns R_i about e3, e1 and e2,
    which form a group with the identity. The distance is the largest |w_i − R_i w_1|.
    """
    w = states_of_runs(dataset)
    return np.linalg.norm(w - HALF_TURNS * w[:, :, :1], axis=-1).max(axis=(1, 2))


def vortex_distance_from_invariant_manifold(dataset: xr.Dataset) -> Array:
    """The largest distance over time of four vortices from the set of A·C(θ, φ) with rotations A.

    Vortices are of this form if and only if half turns about three orthogonal axes permute them,
    that is, if they are the corners of a tetrahedron whose opposite edges are equally long. The
    distance is the largest difference between the lengths of opposite edges.
    """
    w = states_of_runs(dataset)

    def edge(i: int, j: int) -> Array:
        return np.linalg.norm(w[:, :, i] - w[:, :, j], axis=-1)

    pairs = (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2)))
    return np.max([np.abs(edge(*a) - edge(*b)).max(axis=1) for a, b in pairs], axis=0)


def tracer_distance_from_turns(dataset: xr.Dataset) -> Array:
    """The largest distance over time of the tracers of one vortex from their exact positions.

    A tracer at the angle θ from the vortex rotates about it at the rate −κ/(4π(1 − cos θ)).
    """
    strengths, found = system_parameter_of_runs(dataset, "strengths")[:, 0], []
    for path, strength in zip(states_of_runs(dataset), strengths, strict=True):
        vortex, start = path[0, 0], path[0, 1:]
        cosine = start @ vortex
        rate = strength / (4.0 * np.pi * (1.0 - cosine))
        angle = -np.multiply.outer(dataset["time"].values, rate)[..., None]
        across = start - cosine[:, None] * vortex
        turned = np.cos(angle) * across + np.sin(angle) * np.cross(vortex, across)
        expected = cosine[:, None] * vortex + turned
        found.append(np.linalg.norm(path[:, 1:] - expected, axis=-1).max())
    return np.array(found)


def vortex_distance_from_run_alone(dataset: xr.Dataset) -> Array:
    """The largest distance between vortices in runs with tracers and in the run without."""
    tracers = system_parameter_of_runs(dataset, "tracers")
    (alone,) = np.flatnonzero(tracers == 0)
    w = states_of_runs(dataset)[:, :, : system_of_run(dataset, int(alone)).bodies]
    off = np.linalg.norm(w[tracers > 0] - w[alone], axis=-1)
    return off.max(axis=(1, 2))


# --- periods -------------------------------------------------------------------------------------


def return_period(dataset: xr.Dataset) -> Array:
    """The time of the first return of a run to its start, interpolated between samples."""
    return _first_returns(dataset)[:, 0]


def return_period_error(dataset: xr.Dataset, expected: float) -> Array:
    """The absolute difference between the `return_period` and an expected value."""
    return np.abs(return_period(dataset) - expected)


def distance_at_first_return(dataset: xr.Dataset) -> Array:
    """The distance between a run and its start after the `return_period`."""
    return _first_returns(dataset)[:, 1]


def _first_returns(dataset: xr.Dataset) -> Array:
    """Time and distance of the closest approach to the start at the first return of each run.

    The time solves (p(t) − w_0)·p'(t) = 0, where the polynomial p interpolates nearby states.
    """
    times, found = dataset["time"].values, []
    for states in states_of_runs(dataset).reshape(dataset.sizes["run"], len(times), -1):
        away = np.linalg.norm(states - states[0], axis=1)
        near = away < np.linalg.norm(np.diff(states, axis=0), axis=1).max()
        back = np.flatnonzero(near & np.logical_or.accumulate(~near))
        if not back.size:
            raise InputError(f"the run does not return to its start within T = {times[-1]:g}")
        nearest = back[0] + int(np.argmin(away[back[0] : back[0] + 3]))
        around = slice(max(nearest - POINTS // 2, 0), nearest + POINTS // 2 + 1)
        path = BarycentricInterpolator(times[around], states[around], rng=0)
        period = brentq(
            lambda t, path=path, start=states[0]: (path(t) - start) @ path.derivative(t),
            times[nearest - 1], times[nearest + 1], xtol=1e-13,
        )  # fmt: skip
        found.append((period, np.linalg.norm(path(period) - states[0])))
    return np.array(found)
