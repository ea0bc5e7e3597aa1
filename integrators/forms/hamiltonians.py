"""Forms of Hamiltonian systems on spins and of Nambu systems, with what derives from them."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from integrators.compiler.kernels import Kernel
from integrators.errors import InputError, check_known
from integrators.forms import spins
from integrators.forms.flows import ExactFlow, HomogeneousFlow, SplitFlow, VectorField
from integrators.lie_groups import actions
from integrators.precision import all_finite, to_doubles, to_numbers

LENGTHS = ("unit", "any")


@dataclass(frozen=True)
class SpinHamiltonian:
    """ẇ_i = w_i × (1/κ_i) ∂H/∂w_i on a product of two-spheres, or of R³; state w, n rows.

    Parameters
    ----------
    strengths : ndarray, shape (n − tracers,)
        κ, of either sign, none zero. Those of tracers, 0, are appended.
    hamiltonian : Kernel
        ``hamiltonian(t, w, p)`` returns H. Signature `kernels.state_value`.
    gradient : Kernel
        ``gradient(t, w, p, out, work)`` writes ∂H/∂w_i to row i of `out`.
    parameters : ndarray, shape (k,)
        The system's own parameters, `p` above.
    split : SplitFlow, optional
        The flow of the same Hamiltonian as a sum.
    exact : ExactFlow, optional
        The exact flow of the Hamiltonian, where it is known in closed form.
    lengths : {"unit", "any"}
        Whether the spins are unit vectors, or have any lengths, which are preserved.
    time_dependent : bool
        Whether H depends on the time itself.
    rigid_body : bool
        Whether it is a free rigid body: one spin and H = ½ w·I⁻¹w.
    tracers : int
        Number of passive spins, the last ones, which the others advect. Their rows
        of the gradient are the limits of (1/κ) ∂H/∂w. Of a state with fewer rows `gradient`
        writes that of these rows alone.

    Raises
    ------
    InputError
        If a strength is zero, or it or its inverse not finite, or `lengths` unknown.

    Notes
    -----
    McLachlan, Modin and Verdier, *A minimal-variable symplectic integrator on spheres*, (1)–(2).
    """

    strengths: np.ndarray
    hamiltonian: Kernel
    gradient: Kernel
    parameters: np.ndarray = field(default_factory=lambda: np.zeros(0))
    split: SplitFlow | None = None
    exact: ExactFlow | None = None
    lengths: str = "unit"
    time_dependent: bool = False
    rigid_body: bool = False
    tracers: int = 0

    forced = False

    def __post_init__(self) -> None:
        strengths = to_numbers(self.strengths, copy=True)
        if strengths.ndim != 1 or not strengths.size or not all_finite(strengths):
            raise InputError(
                f"strengths = {self.strengths!r}; expected one number for each spin",
                key="strengths",
            )
        with np.errstate(all="ignore"):
            unusable = np.flatnonzero(~np.isfinite(1.0 / to_doubles(strengths)))
        if unusable.size:
            i = unusable[0]
            raise InputError(
                f"strength {i} is {to_doubles(strengths)[i]:g}; the equations divide by strengths: "
                "leave that spin out, or give it one",
                key="strengths",
            )
        check_known("lengths", self.lengths, LENGTHS, key="lengths")
        object.__setattr__(self, "strengths", np.append(strengths, np.zeros(self.tracers)))

    @property
    def yields(self) -> tuple[type, ...]:
        """The other forms that derive from this one."""
        flows = [type(own) for own in (self.split, self.exact) if own is not None]
        return (VectorField, HomogeneousFlow, *flows)

    @property
    def bodies(self) -> int:
        """n, the number of spins."""
        return len(self.strengths)

    @property
    def divisors(self) -> np.ndarray:
        """Divisors of the rows of the gradient, shape (n,): κ, and 1 for a tracer."""
        return np.where(self.strengths == 0.0, 1.0, self.strengths)

    @property
    def rows(self) -> int:
        """Rows of the state."""
        return self.bodies

    def completed(self, state: ArrayLike) -> np.ndarray:
        """The state as an array; there is no row for the work of a force."""
        return to_numbers(state)

    @functools.cached_property
    def packed(self) -> np.ndarray:
        """``[κ, 1/κ]``, then the system's own parameters; 1 instead of 1/κ of a tracer."""
        own = to_numbers(self.parameters)
        return np.concatenate([self.strengths, 1.0 / self.divisors, own])

    def vector_field(self, formulation: str = "q_omega") -> VectorField:
        """The equations of motion, (2); there is one formulation."""
        unit = self.lengths == "unit"
        return _vector_field(self, self.packed, {"projected": spins.project_spins} if unit else {})

    def homogeneous_flow(self) -> HomogeneousFlow:
        """The same motion along the action of SO(3)ⁿ: w_i turns about −(1/κ_i) ∂H/∂w_i."""
        return HomogeneousFlow(
            generator=_generator(self.gradient),
            action=actions.spheres(self.bodies, self.lengths),
            energy=self.energy,
            parameters=self.packed,
            monitor=self.monitor(),
        )

    def monitor(self) -> Kernel:
        """Energy and mean unit length error of a state."""
        return _monitor(self.hamiltonian, False)

    @functools.cached_property
    def energy(self) -> Kernel:
        """Kernel: H of a state."""
        return _energy(self.hamiltonian, False)


@dataclass(frozen=True)
class NambuHamiltonian:
    """ẇ = ∇C(w) × ∇H(w) in R³ with C = ½ w·Cw; the state is one row.

    Parameters
    ----------
    matrix : ndarray, shape (3, 3)
        The symmetric matrix C.
    hamiltonian, gradient : Kernel
        H and ∂H/∂w, as in `SpinHamiltonian`.
    parameters : ndarray, shape (k,)
        The system's own parameters, `p` of these kernels.

    Raises
    ------
    InputError
        If the matrix is not 3×3, symmetric, finite and different from 0.

    Notes
    -----
    McLachlan, Modin and Verdier, *A minimal-variable symplectic integrator on spheres*,
    appendix A.
    """

    matrix: np.ndarray
    hamiltonian: Kernel
    gradient: Kernel
    parameters: np.ndarray = field(default_factory=lambda: np.zeros(0))

    forced = False
    bodies = rows = 1
    yields = (VectorField,)

    def __post_init__(self) -> None:
        matrix = to_numbers(self.matrix, copy=True)
        fits = matrix.shape == (3, 3) and all_finite(matrix)
        if not fits or not np.array_equal(matrix, matrix.T) or not np.any(matrix):
            raise InputError("the matrix of C must be 3×3, symmetric, finite and not 0")
        object.__setattr__(self, "matrix", matrix)

    def completed(self, state: ArrayLike) -> np.ndarray:
        """The state as an array."""
        return to_numbers(state)

    @functools.cached_property
    def packed(self) -> np.ndarray:
        """C row by row, then the system's own parameters."""
        return np.concatenate([self.matrix.ravel(), to_numbers(self.parameters)])

    def vector_field(self, formulation: str = "q_omega") -> VectorField:
        """The equations of motion; there is one formulation."""
        return _vector_field(self, self.packed, {}, nambu=True)

    def monitor(self) -> Kernel:
        """Energy of a state."""
        return _monitor(self.hamiltonian, True)

    @functools.cached_property
    def energy(self) -> Kernel:
        """Kernel: H of a state."""
        return _energy(self.hamiltonian, True)


def _vector_field(
    form: SpinHamiltonian | NambuHamiltonian,
    packed: np.ndarray,
    projections: Mapping[str, Kernel],
    nambu: bool = False,
) -> VectorField:
    return VectorField(
        field=_field(form.gradient, nambu),
        monitor=form.monitor(),
        projections=projections,
        parameters=packed,
        rows=form.rows,
    )


# One kernel for all instances of a system: its compiled code does not depend on parameters.
_field = functools.lru_cache(maxsize=None)(spins.field_kernel)
_generator = functools.lru_cache(maxsize=None)(spins.generator_kernel)
_monitor = functools.lru_cache(maxsize=None)(spins.monitor_kernel)
_energy = functools.lru_cache(maxsize=None)(spins.energy_kernel)
