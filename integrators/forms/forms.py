"""Forms: what a system offers and a method requires.

A form holds a system's compiled functions and numbers. A `SpheresLagrangian` derives the rest
from potential, gradient and inertia: its `VectorField` in two formulations, its
`HomogeneousFlow`, energy, momentum.
"""

import functools
import typing
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from integrators.compiler.kernels import Kernel
from integrators.errors import InputError, check_array
from integrators.forms import momenta, sphere_fields, spheres
from integrators.forms.flows import HomogeneousFlow, SystemOrForm, VectorField, append_work_row
from integrators.lie_groups.actions import tangent_spheres
from integrators.precision import (
    DOUBLE_DOUBLE,
    finite_parameters,
    inverse_of,
    to_doubles,
    to_numbers,
)
from integrators.solvers.inertia import (
    CHAIN,
    CHAIN_FROM,
    DIAGONAL,
    FULL,
    NOT_INVERTIBLE,
    ChainInertia,
)

FORMULATIONS = ("q_omega", "q_qdot")  # of the vector field
ALONG_ACTION = ("q_omega", "q_pi")  # of the flow along an action


@dataclass(frozen=True)
class SpheresLagrangian:
    """L = ½ Σ M_ij q̇_i·q̇_j − V(t, q) on a product of two-spheres; state (q, ω), 2n rows.

    With a `force` the state has one more row, (W, 0, 0): the work that it has done so far,
    Ẇ = Σ F_i·q̇_i. Then E − W is constant, unless V depends on the time itself.

    Parameters
    ----------
    inertia : ndarray, shape (n, n) or (n,)
        Symmetric, positive definite; or, where only the potential couples the bodies, the
        diagonal of one.
    potential : Kernel
        ``potential(t, q, p)`` returns V; `q` has n rows. Signature `kernels.state_value`.
    potential_gradient : Kernel
        ``potential_gradient(t, q, p, out, work)`` writes ∂V/∂q_i to row i of `out`.
    parameters : ndarray, shape (k,)
        The system's own parameters, `p` above.
    force : Kernel, optional
        ``force(t, q, omega, p, out, work)`` writes the non-conservative force on each body to
        its row of `out`; signature `kernels.generalized_force`.
    time_dependent : bool
        Whether V depends on the time itself.

    Raises
    ------
    InputError
        If the inertia is not finite, symmetric and positive definite, see `checked_inertia`; or if
        a parameter is not finite.

    Notes
    -----
    The equations are those of Lee, Leok and McClamroch, *Lagrangian mechanics and variational
    integrators on two-spheres*, (2.2) and (2.7)–(2.11).
    """

    inertia: np.ndarray | ChainInertia
    potential: Kernel
    potential_gradient: Kernel
    parameters: np.ndarray = field(default_factory=lambda: np.zeros(0))
    force: Kernel | None = None
    time_dependent: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.inertia, ChainInertia):
            object.__setattr__(self, "inertia", checked_inertia(self.inertia))
        elif self.layout != CHAIN:
            checked_inertia(self.inertia_matrix)
        object.__setattr__(self, "parameters", finite_parameters(self.parameters))

    yields = (VectorField, HomogeneousFlow)

    @property
    def bodies(self) -> int:
        """n, the number of spheres."""
        return len(self.inertia)

    @property
    def inertia_matrix(self) -> np.ndarray:
        """The inertia as a full matrix, shape (n, n)."""
        if isinstance(self.inertia, ChainInertia):
            return self.inertia.matrix
        return np.diag(self.inertia) if self.inertia.ndim == 1 else self.inertia

    @property
    def rows(self) -> int:
        """Rows of the state: q, then ω, then the work where there is a force."""
        return 2 * self.bodies + int(self.forced)

    @property
    def forced(self) -> bool:
        """Whether there is a non-conservative force."""
        return self.force is not None

    def completed(self, state: ArrayLike) -> np.ndarray:
        """A state with its row for the work, which is 0 where only q and ω are given.

        Parameters
        ----------
        state : array_like, shape (…, 2n, 3) or (…, rows, 3)

        Returns
        -------
        ndarray
            The completed state; the given one where there is no force.
        """
        return append_work_row(state, self.rows) if self.forced else to_numbers(state)

    @functools.cached_property
    def layout(self) -> int:
        """Layout of M in `packed`, on which the cost depends: `DIAGONAL`, `FULL` or `CHAIN`."""
        if isinstance(self.inertia, ChainInertia) and self.bodies >= CHAIN_FROM:
            return CHAIN
        if not isinstance(self.inertia, ChainInertia) and self.inertia.ndim == 1:
            return DIAGONAL
        matrix = self.inertia_matrix
        return FULL if np.any(matrix - np.diag(np.diag(matrix))) else DIAGONAL

    @property
    def diagonal(self) -> bool:
        """Whether the bodies are coupled through the potential only."""
        return self.layout == DIAGONAL

    @property
    def unrolled(self) -> int:
        """The number of bodies for which loops over them are unrolled, of a full matrix; or 0."""
        return 2 if (self.layout, self.bodies) == (FULL, 2) else 0

    @functools.cached_property
    def packed(self) -> np.ndarray:
        """M and M⁻¹ as `layout` says, then the system's own parameters.

        ``[M_ii, 1/M_ii]`` (2n), ``[M, M⁻¹]`` (2n²), or as in `chains` (8n).
        """
        if self.layout == CHAIN and isinstance(self.inertia, ChainInertia):
            matrices = [self.inertia.packed]
        elif self.layout == DIAGONAL:
            inertia = self.inertia
            one_axis = not isinstance(inertia, ChainInertia) and inertia.ndim == 1
            mass = np.asarray(inertia) if one_axis else np.diag(self.inertia_matrix)
            matrices = [mass, 1.0 / mass]
        else:
            matrix = self.inertia_matrix
            inverse = inverse_of(matrix)
            matrices = [matrix.ravel(), (0.5 * (inverse + inverse.T)).ravel()]
        return np.concatenate([*matrices, to_numbers(self.parameters)])

    @functools.cached_property
    def net_gradient(self) -> Kernel:
        """∂V/∂q − F of a state (q, ω), with the packed parameters."""
        return _net_gradient(self.potential_gradient, self.force, self.layout)

    def vector_field(self, formulation: str = "q_omega") -> VectorField:
        """The equations of motion, (2.9)–(2.10) in ``q_omega`` and (2.7) in ``q_qdot``."""
        return VectorField(
            field=_field(
                self.potential_gradient, self.force, self.layout, formulation, self.unrolled
            ),
            monitor=self.monitor(formulation),
            projections={
                "projected": spheres.project_position,
                "projected_tangent": spheres.project_tangent,
            },
            parameters=self.packed,
            rows=self.rows,
            formulation=formulation,
        )

    def homogeneous_flow(self, formulation: str = "q_omega") -> HomogeneousFlow:
        """The same motion along the action of SE(3)ⁿ on (TS²)ⁿ, of (q, ω) or, ``q_pi``, (q, π).

        Celledoni, Çokaj, Leone, Murari and Owren, *Lie group integrators for mechanical systems*,
        section 5.2.
        """
        hamiltonian = formulation == "q_pi"
        made = _hamiltonian_generator if hamiltonian else _generator
        return HomogeneousFlow(
            generator=made(self.potential_gradient, self.force, self.layout, self.unrolled),
            action=tangent_spheres(self.bodies, self.forced),
            energy=self.monitor(formulation),
            parameters=self.packed,
            forced=self.forced,
            monitor=self.monitor(formulation),
            formulation=formulation,
            conversions=_conversion_kernels(self.layout) if hamiltonian else (),
        )

    def monitor(self, formulation: str = "q_omega") -> Kernel:
        """Energy (balance, with a force) and mean unit length error of a state."""
        if formulation == "q_pi":
            return _hamiltonian_monitor(self.potential, self.layout, self.forced)
        return _monitor(self.potential, self.layout, formulation, self.forced)

    @functools.cached_property
    def energy(self) -> Kernel:
        """Kernel: the energy of a state (q, q̇)."""
        return _energy(self.potential, self.layout)

    @functools.cached_property
    def energy_balance(self) -> Kernel:
        """Kernel: the energy less the work of the force, of a forced system's state (q, q̇)."""
        return _energy_balance(self.potential, self.layout)

    @functools.cached_property
    def angular_momentum(self) -> Kernel:
        """Kernel: the total angular momentum of a state (q, q̇)."""
        return _angular_momentum(self.layout)

    @functools.cached_property
    def conjugate_momentum(self) -> Kernel:
        """Kernel: the momentum conjugate to each q_i, of a state (q, q̇), a row each; (2.12)."""
        return _conjugate_momentum(self.layout)


# One kernel for all instances of a system: its compiled code does not depend on parameters.
_net_gradient = functools.lru_cache(maxsize=None)(sphere_fields.net_gradient_kernel)
_field = functools.lru_cache(maxsize=None)(sphere_fields.field_kernel)
_generator = functools.lru_cache(maxsize=None)(sphere_fields.generator_kernel)
_monitor = functools.lru_cache(maxsize=None)(spheres.monitor_kernel)
_energy = functools.lru_cache(maxsize=None)(spheres.energy_kernel)
_energy_balance = functools.lru_cache(maxsize=None)(spheres.energy_balance_kernel)
_angular_momentum = functools.lru_cache(maxsize=None)(spheres.angular_momentum_kernel)
_hamiltonian_generator = functools.lru_cache(maxsize=None)(momenta.generator_kernel)
_hamiltonian_monitor = functools.lru_cache(maxsize=None)(momenta.monitor_kernel)
_conjugate_momentum = functools.lru_cache(maxsize=None)(momenta.conjugate_momentum_kernel)


@functools.cache
def _conversion_kernels(layout: int) -> tuple[Kernel, Kernel]:
    return momenta.to_momenta_kernel(layout), momenta.to_angular_velocities_kernel(layout)


def checked_inertia(inertia: ArrayLike) -> np.ndarray:
    """An inertia matrix, or the diagonal of one, as a new float array.

    Parameters
    ----------
    inertia : array_like, shape (n, n) or (n,)

    Returns
    -------
    ndarray

    Raises
    ------
    InputError
        If it is not finite, square, symmetric and positive definite, or its inverse not finite.
    """
    inertia = to_numbers(inertia, copy=True)
    if inertia.ndim not in (1, 2) or inertia.size == 0 or len(set(inertia.shape)) > 1:
        raise InputError(
            f"inertia has shape {inertia.shape}; expected a square matrix, or its diagonal"
        )
    if not _is_positive_definite(to_doubles(inertia)):
        raise InputError(NOT_INVERTIBLE)
    return inertia


def count_moving_rows(form: typing.Any) -> int:
    """Number of rows of a form's states without the last one, the work, where a force acts."""
    return form.rows - bool(getattr(form, "forced", False))


def form_in_precise_numbers(form: Any, made: Callable[[Any], np.ndarray]) -> Any:
    """A form with all its numbers precise.

    Parameters
    ----------
    form : SpheresLagrangian, SpinHamiltonian, HomogeneousFlow, …
    made : callable
        ``made(values)`` gives an array of precise numbers: `precision.precise_from_doubles` takes
        doubles for exact, `precision.require_precise` raises where they have digits of their own.

    Returns
    -------
    form of the same kind
    """
    found: dict[str, Any] = {}
    for part in fields(form):
        value = getattr(form, part.name)
        if isinstance(value, ChainInertia):
            chain = (getattr(value, own.name) for own in fields(value))
            found[part.name] = ChainInertia(*map(made, chain))
        elif part.name == "parameters" or isinstance(value, np.ndarray):
            found[part.name] = made(value)
    if getattr(form, "tracers", 0):  # their strengths are appended
        found["strengths"] = found["strengths"][: -form.tracers]
    return replace(form, **found)


def _is_positive_definite(inertia: np.ndarray) -> bool:
    if not np.all(np.isfinite(inertia)):
        return False
    if inertia.ndim == 1:
        with np.errstate(all="ignore"):
            return bool(np.all(inertia > 0) and np.all(np.isfinite(1.0 / inertia)))
    if not np.array_equal(inertia, inertia.T):
        return False
    try:
        np.linalg.cholesky(inertia)
        return bool(np.all(np.isfinite(np.linalg.inv(inertia))))
    except np.linalg.LinAlgError:
        return False


def split_state(state: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows of q, of ω (or q̇) and, where the system has one, of the work.

    Parameters
    ----------
    state : array_like, shape (…, 2n, 3) or (…, 2n + 1, 3)

    Returns
    -------
    q, omega : ndarray, shape (…, n, 3)
    work : ndarray, shape (…, 0, 3) or (…, 1, 3)
    """
    state = to_numbers(state)
    n = state.shape[-2] // 2
    return state[..., :n, :], state[..., n : 2 * n, :], state[..., 2 * n :, :]


def velocities(state: ArrayLike) -> np.ndarray:
    """(q, ω) to (q, q̇): q̇_i = ω_i × q_i. Shape ``(…, rows, 3)`` to the same."""
    q, omega, work = split_state(state)
    with np.errstate(all="ignore"):  # a run that blew up has inf and NaN
        return np.concatenate([q, np.cross(omega, q), work], axis=-2)


def angular_velocities(state: ArrayLike) -> np.ndarray:
    """(q, q̇) to (q, ω): ω_i = q_i × q̇_i / (q_i·q_i), the inverse of `velocities`."""
    q, velocity, work = split_state(state)
    with np.errstate(all="ignore"):
        squared = np.sum(q * q, axis=-1, keepdims=True)
        return np.concatenate([q, np.cross(q, velocity) / squared, work], axis=-2)


def form_of(system: SystemOrForm) -> Any:
    """The form of a system; a form is returned as it is."""
    return getattr(system, "form", system)


def system_name(system: SystemOrForm) -> str:
    """The name of a system in messages."""
    return getattr(system, "in_words", repr(type(system).__name__))


def checked_members(system: SystemOrForm, state: ArrayLike) -> np.ndarray:
    """A state or states as an array of shape (members, rows, 3), or `InputError`."""
    form = form_of(system)
    rows = form.rows
    shape = f"({rows}, 3) or (members, {rows}, 3)"
    members = check_array("state", state, shape)
    if hasattr(form, "completed"):
        members = form.completed(members)
    members = members[np.newaxis] if members.ndim == 2 else members
    if members.ndim != 3 or members.shape[1:] != (rows, 3) or not len(members):
        moved = f", which {form.action.name} moves" if hasattr(form, "action") else ""
        raise InputError(f"state of shape {np.shape(state)}; expected {shape}{moved}", key="state")
    if hasattr(system, "check_state"):
        for member in members[np.isfinite(members).all(axis=(1, 2))]:  # NaN gives its status
            system.check_state(member)
    return members


def high_and_low(
    state: ArrayLike, low: ArrayLike | None, arithmetic: str
) -> tuple[ArrayLike, ArrayLike | None]:
    """Split a state into high and low part, where its last axis holds both; else `state`, `low`."""
    shape = np.shape(state)
    if arithmetic != DOUBLE_DOUBLE:
        if low is not None:
            raise InputError(
                f"state_low is for arithmetic = {DOUBLE_DOUBLE!r}; in {arithmetic} leave it out",
                key="state_low",
            )
        return state, None
    if low is None and len(shape) > 2 and shape[-1] == 2:  # as `System.start` gives them
        high, low = np.ascontiguousarray(np.moveaxis(np.asarray(state, dtype=float), -1, 0))
        return high, low
    return state, low


def checked_low(system: SystemOrForm, low: ArrayLike | None, members: np.ndarray) -> np.ndarray:
    """Low parts of `members`, of their shape (members, rows, 3), or `InputError`."""
    if low is None:
        return np.zeros_like(members)
    form = form_of(system)
    found = check_array("state_low", low, f"that of state, {members.shape[1:]}")
    if hasattr(form, "completed"):
        found = form.completed(found)
    if found.shape not in (members.shape, members.shape[1:]) or found.size != members.size:
        raise InputError(
            f"state_low of shape {np.shape(low)}; expected that of state", key="state_low"
        )
    found = found.reshape(members.shape)
    there = np.isfinite(members)
    off = there & (members + found != members)
    if off.any():
        raise InputError(
            f"state_low has {found[off][0]!r} beside {members[off][0]!r}; expected what the "
            "nearest double lacks, at most half a unit in its last place",
            key="state_low",
        )
    return found
