"""Symplectic forms, and how to move on the manifolds that they live on.

A phase space is the symplectic manifold of a form's states, seen from R^{3·rows}: tangent vectors
at a state are stacks of shape ``(rows, 3)``, and arrays of k of them have shape
``(k, rows, 3)``. `phase_space` gives the one of a form, `state_space` also a manifold without a
symplectic form. `structure` and `exponents` use them.

The `retraction` of each is a kernel, of signature `whole_state`, that leaves a state on the
manifold where it is; its derivative takes from a vector what is normal to it. It reads the
`parameters` of the space.

| form | states | symplectic form |
|---|---|---|
| `SpinHamiltonian`, unit lengths | Π S² | Σ κ_i w_i·(u_i × v_i) |
| `SpinHamiltonian`, any lengths | Π {|w_i| = ℓ_i} | Σ κ_i w_i·(u_i × v_i) / |w_i|² |
| `NambuHamiltonian` | {C(w) = c} | ∇C·(u × v) / |∇C|² |
| `SpheresLagrangian` | Π TS² | Σ dq_i ∧ dp_i with p = M q̇, pulled back to (q, ω) |
| `CotangentHamiltonian` | T*G | δ'μ·η − δμ·η' − μ·[η, η'], with Q̇ = η̂ Q |
| `LiePoissonHamiltonian` | a coadjoint orbit, {|Γ| = c, Π·Γ = d} | −μ·[ξ, ξ'], with δμ = −ad*_ξ μ |
| `HomogeneousFlow` | the orbit of a state | not known |

The first is (1) of McLachlan, Modin and Verdier, *A minimal-variable symplectic integrator on
spheres*, and that of T*G (13) of Celledoni, Çokaj, Leone, Murari and Owren, *Lie group integrators
for mechanical systems*; the others make w' = w × ∇H/κ on any spheres, w' = ∇C × ∇H (appendix A),
the Euler–Lagrange equations and the Lie–Poisson ones Hamiltonian. A map of se(3)* that leads each
coadjoint orbit to itself and is symplectic on all of them is a Poisson map.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from integrators.compiler.kernels import Kernel, kernel
from integrators.compiler.lanes import value_of
from integrators.compiler.vectors import axpy, dot, get, put
from integrators.errors import InputError
from integrators.forms.cotangent import CotangentHamiltonian
from integrators.forms.flows import AlongAction, Form, HomogeneousFlow
from integrators.forms.forms import SpheresLagrangian, count_moving_rows, split_state
from integrators.forms.hamiltonians import NambuHamiltonian, SpinHamiltonian
from integrators.forms.lie_poisson import LiePoissonHamiltonian


class StateSpace(Protocol):
    """The tangent spaces of the manifold that a form's states lie on."""

    @property
    def parameters(self) -> np.ndarray:
        """Parameters that `retraction` reads."""

    @property
    def retraction(self) -> Kernel:
        """Kernel that projects a state to the manifold."""

    def scales(self, state: np.ndarray, image: np.ndarray, duration: float) -> np.ndarray:
        """Size of each row's vectors, shape (rows, 1)."""

    def tangents(self, state: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """A basis of the tangent space at a state, shape (dimension, rows, 3)."""


class PhaseSpace(StateSpace, Protocol):
    """A manifold with a symplectic form."""

    def moved(self, state: np.ndarray, tangents: np.ndarray, angle: float) -> np.ndarray:
        """The states that lie `angle` along each tangent, shape (k, rows, 3)."""

    def projected(self, state: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Vectors without what is normal to the manifold, shape (k, rows, 3)."""

    def products(self, state: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """The symplectic form of every pair of vectors, shape (k, k)."""


def phase_space(form: Form) -> PhaseSpace:
    """The phase space of a form.

    Parameters
    ----------
    form : SpinHamiltonian, NambuHamiltonian, SpheresLagrangian, CotangentHamiltonian or \
            LiePoissonHamiltonian

    Returns
    -------
    SpinSpace, NambuSpace, CotangentSpace, GroupSpace or OrbitSpace

    Raises
    ------
    InputError
        If there is no symplectic form: a non-conservative force acts, or the form is another.
    """
    if getattr(form, "forced", False):
        raise InputError(
            "a system with a non-conservative force preserves no symplectic form: there is no "
            "defect to measure"
        )
    return _space_of_form(form, SYMPLECTIC, "symplectic form")


def state_space(form: Form) -> StateSpace:
    """The manifold of a form's states, on which forces leave a system: its tangent spaces.

    Parameters
    ----------
    form : HomogeneousFlow, or one with a phase space

    Returns
    -------
    ActionSpace or another, as `phase_space`

    Raises
    ------
    InputError
        If the form is another.
    """
    return _space_of_form(form, {**SYMPLECTIC, HomogeneousFlow: ActionSpace}, "tangent space")


def _space_of_form(form: Form, known: Mapping[type, Callable[[Any], Any]], what: str) -> Any:
    for of, made in known.items():
        if isinstance(form, of):
            return made(form)
    *names, last = (of.__name__ for of in known)
    raise InputError(
        f"no {what} is known for {type(form).__name__}; expected a {', '.join(names)} or {last}"
    )


NO_PARAMETERS = np.zeros(1)


@kernel()
def _to_level_set(t, y, p, out, work):
    """Project w along ∇C to its level set of C."""
    w = get(y, 0)
    normal = dot(p[0:3], w), dot(p[3:6], w), dot(p[6:9], w)
    level = 0.5 * dot(w, normal)
    share = (value_of(level) - level) / value_of(dot(normal, normal))
    put(out, 0, axpy(share, normal, w))


@dataclass(frozen=True)
class ActionSpace:
    """The orbit of a state under the action of a Lie group; the work of a force is no part of it.

    Parameters
    ----------
    form : HomogeneousFlow
        The form, or one that yields a `HomogeneousFlow`.
    """

    form: AlongAction

    parameters = NO_PARAMETERS

    @property
    def retraction(self) -> Kernel:
        """Kernel that projects a state to the orbit, which the action provides."""
        return self.form.homogeneous_flow().action.retraction

    def scales(self, state: np.ndarray, image: np.ndarray, duration: float) -> np.ndarray:
        """Size of each row's vectors, shape (rows, 1): 1."""
        return np.ones((len(state), 1))

    def tangents(self, state: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """An orthonormal basis of what the elements of the algebra generate at the state."""
        action, found = self.form.homogeneous_flow().action, []
        for element in np.eye(3 * action.algebra_rows):
            out = np.zeros((action.rows, 3))
            action.velocity.scalar(0.0, np.ascontiguousarray(state), NO_PARAMETERS, out, element)
            found.append(out)
        moved = np.array(found)[:, : count_moving_rows(self.form)]
        _, sizes, basis = np.linalg.svd(moved.reshape(len(moved), -1), full_matrices=False)
        told = sizes > sizes[0] * len(moved) * np.finfo(float).eps
        tangents = np.zeros((np.sum(told), *state.shape))
        tangents[:, : moved.shape[1]] = basis[told].reshape(-1, *moved.shape[1:])
        return tangents


@dataclass(frozen=True)
class SpinSpace(ActionSpace):
    """Spins on their spheres, of unit or of any radius; one of length 0 does not move.

    Parameters
    ----------
    form : SpinHamiltonian
    """

    form: SpinHamiltonian

    def scales(self, state: np.ndarray, image: np.ndarray, duration: float) -> np.ndarray:
        """Size of each row's vectors, shape (rows, 1)."""
        return np.maximum(_lengths(state), np.finfo(float).tiny)

    def tangents(self, state: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """A basis of the tangent space, two vectors as long as its spin for each."""
        pairs = _perpendicular_pairs(state) * scales[:, None]
        moving = np.flatnonzero(np.any(state, axis=1))
        if not moving.size:
            raise InputError("every spin is 0; expected one that moves", key="state")
        basis = np.zeros((2 * moving.size, *state.shape))
        for a in range(2):
            basis[np.arange(moving.size) * 2 + a, moving] = pairs[moving, a]
        return basis

    def moved(self, state: np.ndarray, tangents: np.ndarray, angle: float) -> np.ndarray:
        """The states that lie `angle` along each tangent, on great circles."""
        return _move_along_great_circles(state, tangents, angle)

    def projected(self, state: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Vectors of R^{3n} without what is normal to the spheres."""
        return _remove_normal_parts(vectors, state)

    def products(self, state: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """The symplectic form of every pair of vectors, shape (k, k); (1)."""
        weights = np.array(self.form.strengths)
        if self.form.lengths == "any":
            squared = np.sum(state * state, axis=1)
            weights = np.divide(weights, squared, out=np.zeros_like(squared), where=squared > 0)
        turned = weights[:, None] * np.cross(state, vectors)  # w·(u × v) = (w × u)·v
        return _pairing_matrix(turned, vectors)


@dataclass(frozen=True)
class NambuSpace:
    """A level set of the Casimir C of a Nambu system.

    Parameters
    ----------
    form : NambuHamiltonian
    """

    form: NambuHamiltonian

    retraction = _to_level_set

    @property
    def parameters(self) -> np.ndarray:
        """The matrix of C."""
        return np.ravel(self.form.matrix)

    def scales(self, state: np.ndarray, image: np.ndarray, duration: float) -> np.ndarray:
        """Size of the vectors, shape (1, 1)."""
        return _lengths(state)

    def tangents(self, state: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """A basis of the tangent space, two vectors as long as w."""
        if not np.any(self._normal(state)):
            raise InputError(
                "∇C = 0 at the state, which is an equilibrium and no point of a surface; expected "
                "another",
                key="state",
            )
        return scales * _perpendicular_pairs(self._normal(state))[0][:, None]

    def moved(self, state: np.ndarray, tangents: np.ndarray, angle: float) -> np.ndarray:
        """The states that lie `angle` along each tangent, brought back to the surface along ∇C.

        With n the direction of ∇C, x = w + angle·u + s n and C(x) = C(w): a s² + b s + d = 0. NaN
        where ∇C does not lead back.
        """
        matrix, gradient = self.form.matrix, self._normal(state)
        n = gradient[0] / np.linalg.norm(gradient)
        u = tangents[:, 0]
        x = state[0] + angle * u
        a, b = 0.5 * n @ matrix @ n, x @ matrix @ n
        d = angle * (u @ gradient[0]) + 0.5 * angle**2 * np.einsum("ki,ij,kj->k", u, matrix, u)
        with np.errstate(invalid="ignore"):
            s = -2.0 * d / (b + np.copysign(np.sqrt(b * b - 4.0 * a * d), b))
        return (x + s[:, None] * n)[:, None]

    def projected(self, state: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Vectors of R³ without what is normal to the surface."""
        return _remove_normal_parts(vectors, self._normal(state))

    def products(self, state: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """The symplectic form of every pair of vectors, shape (k, k)."""
        gradient = self._normal(state)
        return _pairing_matrix(np.cross(gradient / np.sum(gradient**2), vectors), vectors)

    def _normal(self, state: np.ndarray) -> np.ndarray:
        """∇C = C w, shape (1, 3)."""
        return state @ self.form.matrix


@dataclass(frozen=True)
class CotangentSpace(ActionSpace):
    """Directions and angular velocities, (q, ω) with q_i·ω_i = 0.

    Parameters
    ----------
    form : SpheresLagrangian
    """

    form: SpheresLagrangian

    def scales(self, state: np.ndarray, image: np.ndarray, duration: float) -> np.ndarray:
        """Size of each row's vectors, shape (rows, 1): 1 for q, a frequency of the motion for ω.

        That is the largest of |ω|, there and at the image that `duration` leads to, and √|ω̇|
        between the two.
        """
        (_, omega, _), (_, later, _) = split_state(state), split_state(image)
        change = np.max(_lengths(later - omega)) / abs(duration)
        found = max(np.max(_lengths(omega)), np.max(_lengths(later)), np.sqrt(change))
        frequency = found if found > 0 else 1.0 / abs(duration)
        return np.repeat([1.0, frequency], len(omega))[:, None]

    def tangents(self, state: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """A basis of the tangent space: for each body two turns of (q, ω), two changes of ω."""
        q, omega, _ = split_state(state)
        n = len(q)
        pairs = _perpendicular_pairs(q)
        basis = np.zeros((4 * n, *state.shape))
        body = np.arange(n)
        for a in range(2):
            e = pairs[:, a]
            basis[2 * body + a, body] = e
            carried = -np.sum(omega * e, axis=1, keepdims=True) * q  # ω along the great circle
            basis[2 * body + a, n + body] = carried
            basis[2 * (n + body) + a, n + body] = scales[n:] * e
        return basis

    def moved(self, state: np.ndarray, tangents: np.ndarray, angle: float) -> np.ndarray:
        """The states that lie `angle` along each tangent: ω is carried along q's great circle."""
        q, omega, _ = split_state(state)
        dq, domega, _ = split_state(tangents)
        theta = angle * np.linalg.norm(dq, axis=2, keepdims=True)
        along = np.sum(omega * dq, axis=2, keepdims=True)
        # R ω − ω with R the rotation in the plane of q and δq: ω has no part along q
        carried = -0.5 * angle**2 * _sinc(0.5 * theta) ** 2 * dq - angle * _sinc(theta) * q
        own = domega - np.sum(domega * q, axis=2, keepdims=True) * q  # of ω itself; 0 beside δq
        turned = omega + along * carried + angle * own
        return np.concatenate([_move_along_great_circles(q, dq, angle), turned], axis=1)

    def projected(self, state: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Vectors of R^{6n} without what is normal to Π TS²: q·δq = 0, q·δω + ω·δq = 0."""
        (q, omega, _), (dq, domega, _) = split_state(state), split_state(vectors)
        dq = _remove_normal_parts(dq, q)
        off = np.sum(q * domega + omega * dq, axis=2, keepdims=True)
        return np.concatenate([dq, domega - off / _squared_lengths(q) * q], axis=1)

    def products(self, state: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """The symplectic form of every pair of vectors, shape (k, k): δq·δ'p − δ'q·δp."""
        (q, omega, _), (dq, domega, _) = split_state(state), split_state(vectors)
        velocity = np.cross(domega, q) + np.cross(omega, dq)
        momentum = self.form.inertia_matrix @ velocity
        one_way = _pairing_matrix(dq, momentum)
        return one_way - one_way.T


@dataclass(frozen=True)
class GroupSpace(ActionSpace):
    """Attitudes and momenta, (Q, π) or (Q, q, π, p).

    Parameters
    ----------
    form : CotangentHamiltonian
    """

    form: CotangentHamiltonian

    def scales(self, state: np.ndarray, image: np.ndarray, duration: float) -> np.ndarray:
        """Size of each row's vectors, shape (rows, 1): 1 for Q, |π| or |p|, and |π|/|p| for q.

        The larger of the two ends counts, and 1 where both are 0.
        """
        ends = np.maximum(_lengths(state), _lengths(image))[self.form.momentum_row :]
        sizes = np.where(ends > 0.0, ends, 1.0)
        moved = sizes[0] / sizes[1:]
        return np.concatenate([np.ones((3, 1)), moved, sizes])

    def tangents(self, state: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """A basis of the tangent space: three turns of Q, and changes of the other rows."""
        others = 3 * (len(state) - 3)
        basis = np.zeros((3 + others, *state.shape))
        basis[:3, :3] = np.cross(np.eye(3)[:, None], state[:3].T).swapaxes(1, 2)
        changes = (scales[3:] * np.ones(3)).ravel()
        basis[3:, 3:] = np.diag(changes).reshape(others, -1, 3)
        return basis

    def moved(self, state: np.ndarray, tangents: np.ndarray, angle: float) -> np.ndarray:
        """The states that lie `angle` along each tangent: Q turned, the others shifted."""
        turns = angle * self._turns(state, tangents)
        size = np.linalg.norm(turns, axis=1)[:, None, None]
        once = np.cross(turns[:, None], state[:3].T[None])  # of the columns of Q
        twice = np.cross(turns[:, None], once)
        change = _sinc(size) * once + 0.5 * _sinc(0.5 * size) ** 2 * twice
        return np.concatenate(
            [state[:3] + change.swapaxes(1, 2), state[3:] + angle * tangents[:, 3:]], axis=1
        )

    def projected(self, state: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Vectors whose part in Q is η̂ Q."""
        turns = self._turns(state, vectors)
        along = np.cross(turns[:, None], state[:3].T[None]).swapaxes(1, 2)
        return np.concatenate([along, vectors[:, 3:]], axis=1)

    def products(self, state: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """The symplectic form of every pair of vectors, shape (k, k); (13)."""
        row = self.form.momentum_row
        turns = self._turns(state, vectors)
        places = np.concatenate([turns[:, None], vectors[:, 3:row]], axis=1)
        one_way = _pairing_matrix(places, vectors[:, row:])
        carried = _pairing_matrix(np.cross(state[row], turns)[:, None], turns[:, None])
        return one_way - one_way.T - carried

    def _turns(self, state: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """The η of δQ = η̂ Q, shape (k, 3), from the antisymmetric part of δQ Qᵀ."""
        matrix = vectors[:, :3] @ state[:3].T
        rows, columns = [2, 0, 1], [1, 2, 0]
        return 0.5 * (matrix[:, rows, columns] - matrix[:, columns, rows])


@dataclass(frozen=True)
class OrbitSpace(ActionSpace):
    """The coadjoint orbit of a state (Π, Γ) of se(3)*, of dimension 4 unless Γ is 0.

    Parameters
    ----------
    form : LiePoissonHamiltonian
    """

    form: LiePoissonHamiltonian

    def scales(self, state: np.ndarray, image: np.ndarray, duration: float) -> np.ndarray:
        """Size of each row's vectors, shape (2, 1): at the larger of the ends; 1 where it is 0."""
        ends = np.maximum(_lengths(state), _lengths(image))
        return np.where(ends > 0.0, ends, 1.0)

    def tangents(self, state: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """A basis of the tangent space: two turns of (Π, Γ), two changes of Π, orthogonal to Γ."""
        if not np.any(state[1]):
            raise InputError(
                "Γ = 0 at the state, whose orbit is the sphere of Π, or a point; expected a state "
                "with Γ",
                key="state",
            )
        pair = _perpendicular_pairs(state[1:])[0]
        basis = np.zeros((4, 2, 3))
        basis[:2] = np.cross(pair[:, None], state)
        basis[2:, 0] = scales[0] * pair
        return basis

    def moved(self, state: np.ndarray, tangents: np.ndarray, angle: float) -> np.ndarray:
        """The states that lie `angle` along each tangent: (Π, Γ) turned, then Π shifted."""
        turn, shift = angle * self._generators(state, tangents).swapaxes(0, 1)
        size = np.linalg.norm(turn, axis=1)[:, None, None]
        once = np.cross(turn[:, None], state)
        twice = np.cross(turn[:, None], once)
        moved = state + _sinc(size) * once + 0.5 * _sinc(0.5 * size) ** 2 * twice
        moved[:, 0] += np.cross(shift, moved[:, 1])
        return moved

    def projected(self, state: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Vectors of R⁶ without what is normal to the orbit: Γ·δΓ = 0, Γ·δΠ + Π·δΓ = 0."""
        (pi, gamma), (d_pi, d_gamma) = state, vectors.swapaxes(0, 1)
        d_gamma = d_gamma - np.outer(d_gamma @ gamma, gamma) / (gamma @ gamma)
        off = (d_pi @ gamma + d_gamma @ pi) / (gamma @ gamma)
        return np.stack([d_pi - np.outer(off, gamma), d_gamma], axis=1)

    def products(self, state: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """The symplectic form of every pair of vectors, shape (k, k): −μ·[ξ, ξ'] = −ξ·δ'μ."""
        return -_pairing_matrix(self._generators(state, vectors), vectors)

    def _generators(self, state: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """The (ξ, u) with δΓ = ξ × Γ, δΠ = ξ × Π + u × Γ, orthogonal to Γ; shape (k, 2, 3)."""
        (pi, gamma), (d_pi, d_gamma) = state, vectors.swapaxes(0, 1)
        over = gamma / (gamma @ gamma)
        turn = np.cross(over, d_gamma)
        return np.stack([turn, np.cross(over, d_pi - np.cross(turn, pi))], axis=1)


SYMPLECTIC = {
    SpinHamiltonian: SpinSpace,
    NambuHamiltonian: NambuSpace,
    SpheresLagrangian: CotangentSpace,
    CotangentHamiltonian: GroupSpace,
    LiePoissonHamiltonian: OrbitSpace,
}


def _perpendicular_pairs(vectors: np.ndarray) -> np.ndarray:
    """Two unit vectors for each row, orthogonal to it and to each other, shape (n, 2, 3)."""
    axis = np.eye(3)[np.argmin(np.abs(vectors), axis=1)]
    first = np.cross(vectors, axis)
    second = np.cross(vectors, first)
    pair = np.stack([first, second], axis=1)
    length = np.linalg.norm(pair, axis=2, keepdims=True)
    return np.divide(pair, length, out=np.zeros_like(pair), where=length > 0)


def _move_along_great_circles(rows: np.ndarray, tangents: np.ndarray, angle: float) -> np.ndarray:
    """Rows moved along great circles, by `angle` times |tangent| / |row|; shape (k, n, 3)."""
    radius = _lengths(rows)
    size = np.linalg.norm(tangents, axis=2, keepdims=True)
    theta = angle * size / np.where(radius > 0, radius, 1.0)
    return np.cos(theta) * rows + angle * _sinc(theta) * tangents


def _remove_normal_parts(vectors: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Vectors (k, n, 3) less their components along `normals` (n, 3), except where these are 0."""
    squared = _squared_lengths(normals)
    along = np.sum(vectors * normals, axis=2, keepdims=True)
    return vectors - along / np.where(squared > 0, squared, 1.0) * normals


def _pairing_matrix(covectors: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Pairing of every covector with every vector, a sum over rows and components, shape (k, k)."""
    return covectors.reshape(len(covectors), -1) @ vectors.reshape(len(vectors), -1).T


def _squared_lengths(rows: np.ndarray) -> np.ndarray:
    return np.sum(rows * rows, axis=-1, keepdims=True)


def _lengths(rows: np.ndarray) -> np.ndarray:
    return np.sqrt(_squared_lengths(rows))


def _sinc(angle: np.ndarray) -> np.ndarray:
    """sin(x)/x"""
    return np.sinc(angle / np.pi)
