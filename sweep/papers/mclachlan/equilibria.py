"""Relative equilibria of point vortices by Newton's method, and their stability.

A relative equilibrium rotates rigidly with an angular velocity ω: X(w) = ω × w, where X is the
Hamiltonian vector field. Newton's method solves for w on the spheres and for ω, at the momentum
J = Σ κ_i w_i of its start. Of the solutions that differ by a rotation, it finds the nearest.
Stability is decided by the eigenvalues of the linearised motion on the symplectic normal space,
which excludes rotations and changes of the momentum (Laurent-Polz, Montaldi and Roberts, *Point
vortices on the sphere: stability of symmetric relative equilibria*).
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.linalg import block_diag, null_space, orth

from sweep.papers.diagnostics import Array, states_of_runs, system_of_run
from sweep.papers.mclachlan.diagnostics import jacobian_by_quotients

ITERATIONS = 20
LARGEST_STEP = 0.3  # radians, norm over all vortices; longer Newton steps are shortened
ROUND_OFF = 1e-13  # largest accepted residual of X(w) − ω × w
SINGULAR = 1e-2  # relative singular values of Newton's equations below this are regarded as 0
APART = 1e-6  # smallest distance between distinct equilibria
UNSTABLE = 1e-6  # smallest growth rate of an unstable equilibrium


@dataclass(frozen=True)
class RelativeEquilibrium:
    """A relative equilibrium and its linearised motion.

    Parameters
    ----------
    vortices : ndarray, shape (n, 3)
    turning : ndarray, shape (3,)
        The angular velocity ω.
    eigenvalues : ndarray of complex
        Eigenvalues of the linearised motion on the symplectic normal space.
    """

    vortices: Array
    turning: Array
    eigenvalues: np.ndarray

    @property
    def growth_rate(self) -> float:
        """The largest real part of an eigenvalue."""
        return float(self.eigenvalues.real.max())

    @property
    def stable(self) -> bool:
        """Whether no eigenvalue has a positive real part."""
        return self.growth_rate < UNSTABLE


def relative_equilibria(system: Any, starts: Iterable[Array]) -> list[RelativeEquilibrium]:
    """Find the distinct relative equilibria to which Newton's method converges.

    Parameters
    ----------
    system : System
        A system of spins.
    starts : ndarray, shape (k, n, 3)

    Returns
    -------
    list of RelativeEquilibrium
    """
    found: list[RelativeEquilibrium] = []
    for start in starts:
        solution = _newton(system, start)
        if solution is None:
            continue
        w, turning = solution
        if all(np.linalg.norm(w - known.vortices) > APART for known in found):
            values = _normal_eigenvalues(system, w, turning)
            found.append(RelativeEquilibrium(w, turning, values))
    return found


def _newton(system: Any, start: Array) -> tuple[Array, Array] | None:
    """w and ω, or None if the iteration does not converge to a relative equilibrium."""
    strengths = system.form.strengths
    w, turning = start, np.zeros(3)
    momentum = strengths @ start
    for _ in range(ITERATIONS):
        off = (_field(system, w) - np.cross(turning, w)).ravel()
        missing = momentum - strengths @ w
        if not np.all(np.isfinite(off)):
            return None
        if max(np.abs(off).max(), np.abs(missing).max()) < ROUND_OFF:
            return w, turning
        basis = _tangents(w)
        change = _linearisation(system, w, turning) @ basis
        turned = -np.concatenate([np.cross(np.eye(3), one).T for one in w])  # −δω × w
        moved = np.kron(strengths, np.eye(3)) @ basis
        matrix = np.block([[change, turned], [moved, np.zeros((3, 3))]])
        step, *_ = np.linalg.lstsq(matrix, np.append(-off, missing), rcond=SINGULAR)
        step *= min(1.0, LARGEST_STEP / np.linalg.norm(step))
        w = w + (basis @ step[:-3]).reshape(w.shape)
        w = w / np.linalg.norm(w, axis=1, keepdims=True)
        turning = turning + step[-3:]
    return None


def _field(system: Any, w: Array) -> Array:
    """The vector field X(w) = ẇ, from the compiled gradient of the system."""
    form = system.form
    out, work = np.empty_like(w), np.zeros(1 + form.gradient.work(form.rows))
    own = np.asarray(form.parameters, dtype=float)
    form.gradient.scalar(0.0, np.ascontiguousarray(w), own, out, work)
    return np.cross(w, out) / form.strengths[:, None]


def _linearisation(system: Any, w: Array, turning: Array) -> Array:
    """The derivative of X − ω × w on R³ⁿ, shape (3n, 3n)."""
    return jacobian_by_quotients(
        lambda states: np.array([_field(system, one) - np.cross(turning, one) for one in states]), w
    )


def _tangents(w: Array) -> Array:
    """An orthonormal basis of the tangent space of the spheres at w, shape (3n, 2n)."""
    return block_diag(*(null_space(one[None]) for one in w))


def _normal_eigenvalues(system: Any, w: Array, turning: Array) -> NDArray[Any]:
    """Eigenvalues of the linearised motion at fixed momentum.

    Rotations that do not change the momentum are factored out.
    """
    strengths = system.form.strengths
    basis = _tangents(w)
    kept = basis @ null_space(np.kron(strengths, np.eye(3)) @ basis)
    momentum = strengths @ w
    small = np.linalg.norm(momentum) < APART
    axes = np.eye(3) if small else momentum[None] / np.linalg.norm(momentum)
    turns = orth(np.stack([np.cross(axis, w).ravel() for axis in axes], axis=1))
    normal = kept @ null_space(turns.T @ kept)
    eigenvalues: NDArray[Any] = np.linalg.eigvals(
        normal.T @ _linearisation(system, w, turning) @ normal
    )
    return eigenvalues


# --- measurements for claims ---------------------------------------------------------------------

CORNERS = np.array(
    [
        sign * (np.eye(3)[i] + other * np.eye(3)[j]) / np.sqrt(2.0)
        for i, j in itertools.combinations(range(3), 2)
        for sign, other in itertools.product((1.0, -1.0), repeat=2)
    ]
)
CENTRES = np.array(list(itertools.product((1.0, -1.0), repeat=3))) / np.sqrt(3.0)


def equilibria_of_runs(dataset: xr.Dataset) -> list[RelativeEquilibrium]:
    """The `relative_equilibria` found from the starts of the runs."""
    starts = states_of_runs(dataset.isel(time=[0]))[:, 0]
    return relative_equilibria(system_of_run(dataset, 0), starts)


def places_of_vortices(dataset: xr.Dataset, stable: bool) -> Array:
    """The distinct positions of a vortex in stable, or in unstable, equilibria.

    Vortices of equal strength may be exchanged.
    """
    places: list[Array] = []
    for one in equilibria_of_runs(dataset):
        if one.stable == stable:
            for w in one.vortices:
                if all(np.linalg.norm(w - known) > APART for known in places):
                    places.append(w)
    return np.array(places)


def number_of_places(dataset: xr.Dataset, stable: bool) -> int:
    """The number of `places_of_vortices`."""
    return len(places_of_vortices(dataset, stable))


def distance_from_triangles(dataset: xr.Dataset, stable: bool) -> Array:
    """The distance of each of `places_of_vortices` from the nearest centre, or corner, of Figure 7.

    The coordinate planes and the bisecting planes of pairs of axes divide the sphere into
    triangles. Stable equilibria are at the centres of these, unstable ones at the corners.
    """
    apart = places_of_vortices(dataset, stable)[:, None] - (CENTRES if stable else CORNERS)
    return np.linalg.norm(apart, axis=-1).min(axis=1)


def growth_rates_of_unstable(dataset: xr.Dataset) -> Array:
    """The growth rate of each unstable one of the `equilibria_of_runs`."""
    return np.array([one.growth_rate for one in equilibria_of_runs(dataset) if not one.stable])


def frequencies_of_stable(dataset: xr.Dataset) -> Array:
    """The frequency on the symplectic normal space of each stable equilibrium."""
    found = [one.eigenvalues for one in equilibria_of_runs(dataset) if one.stable]
    return np.abs(np.imag(found)).max(axis=1)
