"""Hamiltonian systems on the cotangent bundle of SO(3) or SO(3) × R³, trivialised from the right.

A state is (g, μ): Q by its rows and π, or Q, q, π and p. With f = (∂H/∂μ, −R_g^* ∂H/∂g) the
equations are

    ġ = R_g* f₁,   μ̇ = f₂ − ad*_{f₁} μ,                                          (12), (14)

that is Q̇ = ω̂ Q and π̇ = f₂ + ω × π with ω = ∂H/∂π; on the R³ q̇ = ∂H/∂p and ṗ = −∂H/∂q, since it
is abelian. Where H = ½ π·Q I⁻¹ Qᵀπ + V(Q), of a body with a fixed point, f₂ = τ − ω × π with the
torque τ of V, and π̇ = τ.

E. Celledoni, E. Çokaj, A. Leone, D. Murari, B. Owren, *Lie group integrators for mechanical
systems*, section 3.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from integrators.compiler.kernels import Kernel, state_value, whole_state
from integrators.compiler.vectors import add, cross, get, put
from integrators.errors import InputError, check_known
from integrators.forms.flows import HomogeneousFlow, SplitFlow, VectorField
from integrators.lie_groups.actions import product
from integrators.lie_groups.factors import ROTATION, SEMIDIRECT, SEMIDIRECT_R3, TRANSLATION
from integrators.precision import finite_parameters, to_numbers

GROUPS = ("SO(3)", "SO(3) x R3")
ACTIONS = ("product", "semidirect")


class GroupHamiltonian:
    """Base of Hamiltonians on T*G and on g*: checks, and the forms that derive from their flow.

    A subclass is a dataclass with fields `hamiltonian`, that which `slope_name` names, `parameters`
    and `split`, and has `homogeneous_flow`.
    """

    hamiltonian: Kernel
    parameters: np.ndarray
    split: SplitFlow | None
    homogeneous_flow: Callable[..., HomogeneousFlow]

    forced = False
    bodies = 1
    slope_name = "gradient"

    def __post_init__(self) -> None:
        for name, signature in (("hamiltonian", state_value), (self.slope_name, whole_state)):
            given = getattr(self, name)
            if not isinstance(given, Kernel) or given.signature is not signature:
                decorated = "@kernel(state_value)" if signature is state_value else "@kernel()"
                raise InputError(
                    f"{name} is {given!r}; expected a function decorated by {decorated}", key=name
                )
        object.__setattr__(self, "parameters", finite_parameters(self.parameters))

    @property
    def yields(self) -> tuple[type, ...]:
        """The other forms that derive from this one."""
        return (VectorField, HomogeneousFlow, *([SplitFlow] if self.split else []))

    @property
    def packed(self) -> np.ndarray:
        """The parameters as kernels read them."""
        return self.parameters

    def completed(self, state: ArrayLike) -> np.ndarray:
        """The state as an array; there is no row for the work of a force."""
        return to_numbers(state)

    @functools.cached_property
    def energy(self) -> Kernel:
        """Kernel: H of a state."""
        return _energy_kernel(self.hamiltonian)

    def monitor(self) -> Kernel:
        """H of a state, and 0: there are no unit vectors."""
        return self.homogeneous_flow().monitor

    def vector_field(self, formulation: str = "q_omega") -> VectorField:
        """The equations in the embedding space; there is one formulation."""
        return self.homogeneous_flow().vector_field()


@dataclass(frozen=True)
class CotangentHamiltonian(GroupHamiltonian):
    """A Hamiltonian on T*G, G = SO(3) or SO(3) × R³.

    Parameters
    ----------
    group : {"SO(3)", "SO(3) x R3"}
        The state has the rows Q (3), π, or Q (3), q, π, p.
    hamiltonian : Kernel
        ``hamiltonian(t, y, p)`` returns H. Signature `kernels.state_value`.
    derivatives : Kernel
        ``derivatives(t, y, p, out, work)`` writes f: ∂H/∂π and f₂ = −R_g^* ∂H/∂g, a row each, or
        ∂H/∂π, ∂H/∂p, and then f₂ of π and of p. R_g^* ∂H/∂g is the vector whose product with η is
        the derivative of H along Q̇ = η̂ Q.
    parameters : ndarray, shape (k,)
        The system's own parameters, `p` above.
    split : SplitFlow, optional
        The flow of the same Hamiltonian as a sum.

    Raises
    ------
    InputError
        For an unknown group, a function that is no `Kernel` of its signature, or parameters that
        are no finite numbers.
    """

    group: str
    hamiltonian: Kernel
    derivatives: Kernel
    parameters: np.ndarray = field(default_factory=lambda: np.zeros(0))
    split: SplitFlow | None = None

    slope_name = "derivatives"

    def __post_init__(self) -> None:
        check_known("group", self.group, GROUPS, key="group")
        super().__post_init__()

    @property
    def translations(self) -> bool:
        """Whether the group has an R³."""
        return self.group != GROUPS[0]

    @property
    def algebra_rows(self) -> int:
        """Rows of g and of its dual together, those of f."""
        return 4 if self.translations else 2

    @property
    def rows(self) -> int:
        """Rows of the state."""
        return 2 + self.algebra_rows

    @property
    def momentum_row(self) -> int:
        """The row of π."""
        return 4 if self.translations else 3

    def homogeneous_flow(self, action: str = "product") -> HomogeneousFlow:
        """The same motion along an action.

        Parameters
        ----------
        action : {"product", "semidirect"}
            The group: G × g*, where Q turns and the other rows are translated; or G ⋉ g*, (11),
            whose left multiplication turns π too, so that f is (14) itself.
        """
        if action == "semidirect":
            generator = self.derivatives
            along = product(SEMIDIRECT_R3 if self.translations else SEMIDIRECT)
        else:
            generator = _generator_kernel(self.derivatives, self.translations)
            along = product(ROTATION, *(TRANSLATION,) * (self.algebra_rows - 1))
        return HomogeneousFlow(generator, along, self.energy, self.packed)


@functools.cache
def _energy_kernel(hamiltonian: Kernel) -> Kernel:
    value = hamiltonian.inline

    def energy(t, y, p, out, work):
        out[0, 0] = value(t, y, p)

    return Kernel(energy, whole_state, (hamiltonian,))


@functools.cache
def _generator_kernel(derivatives: Kernel, translations: bool) -> Kernel:
    """(∂H/∂μ, μ̇), which moves g and μ."""
    derivatives_of = derivatives.inline
    dual, momentum = (2, 4) if translations else (1, 3)

    def generator(t, y, p, out, work):
        derivatives_of(t, y, p, out, work)
        put(out, dual, add(get(out, dual), cross(get(out, 0), get(y, momentum))))  # −ad*_ω π

    return Kernel(generator, whole_state, (derivatives, translations), derivatives.work)
