"""Nambu systems ẇ = ∇C(w) × ∇H(w) in R³ with a quadratic C = ½ w·Cw and H = ½ w·Aw + b·w.

Both are conserved. They are the Lie–Poisson systems of those Lie algebras of dimension three that
have a homogeneous quadratic Casimir, five of the nine that are irreducible. By the name of one in
`ALGEBRAS`, as the paper numbers them, C is that Casimir; of another basis of the algebra it is
another symmetric matrix. H is the user's choice; one that is not quadratic is a `NambuHamiltonian`
of a plugin.

The defaults are those of the Lagrange system, ẇ_1 = w_2 w_3, ẇ_2 = w_3 w_1, ẇ_3 = w_1 w_2. Where
all three components grow its motion ends at infinity in a finite time, as others do that no level
set of C and H bounds.

Dimensionless. Source: McLachlan, Modin, Verdier, *A minimal-variable symplectic integrator on
spheres*, appendix A, after Patera, Sharp, Winternitz and Zassenhaus (1976).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from integrators.compiler.kernels import kernel, state_value
from integrators.compiler.vectors import dot, get, put
from integrators.errors import InputError, check_known
from integrators.forms.hamiltonians import NambuHamiltonian
from integrators.forms.spins import quadratic_form, quadratic_gradient
from systems.base import Convergence, Quantity, Start
from systems.checking import Vectors, number_vector, set_checked, vector_list
from systems.spins.base import SpinSystem, quantities_of_nambu

ALGEBRAS = {  # the matrix of C
    "A3,1": ((2.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),  # w_1², Heisenberg
    "A3,4": ((0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 0.0)),  # w_1 w_2, e(1, 1)
    "A3,6": ((2.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.0, 0.0, 0.0)),  # w_1² + w_2², e(2)
    "A3,8": ((0.0, 0.0, 1.0), (0.0, 2.0, 0.0), (1.0, 0.0, 0.0)),  # w_2² + w_1 w_3, sl(2)
    "A3,9": ((2.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.0, 0.0, 2.0)),  # |w|², so(3)
}


@kernel(state_value)
def hamiltonian(t, w, p):
    """H = ½ w·Aw + b·w; p = A row by row, then b."""
    return 0.5 * quadratic_form(p, get(w, 0)) + dot((p[9], p[10], p[11]), get(w, 0))


@kernel()
def gradient(t, w, p, out, work):
    """∇H = A w + b."""
    slope = quadratic_gradient(p, get(w, 0))
    put(out, 0, (slope[0] + p[9], slope[1] + p[10], slope[2] + p[11]))


def symmetric_matrix(name: str, value: Any) -> Vectors:
    """A parameter that is a symmetric matrix 3 × 3, as tuples, or `InputError`."""
    rows = vector_list(name, value, 3)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        if rows[i][j] != rows[j][i]:
            raise InputError(
                f"{name}[{i}][{j}] = {rows[i][j]!r} and {name}[{j}][{i}] = {rows[j][i]!r}; "
                "expected a symmetric matrix",
                key=name,
            )
    return rows


def _mclachlan_start(system: "NambuQuadratic") -> np.ndarray:
    return system.arithmetic.array([[-1.5, 0.8, 1.1]])


@dataclass(frozen=True)
class NambuQuadratic(SpinSystem):
    """A Nambu system with a quadratic C and H.

    Parameters
    ----------
    algebra : str or tuple of tuple of float
        Name of one of `ALGEBRAS`, or the symmetric matrix C of the Casimir ½ w·Cw, not 0.
    quadratic : tuple of tuple of float
        Symmetric matrix A of H = ½ w·Aw + b·w.
    linear : tuple of float
        Vector b of H.

    Raises
    ------
    InputError
        If a matrix is not symmetric or C is 0, the name is unknown, or `linear` is no vector.
    """

    algebra: str | tuple[tuple[float, ...], ...] = (
        (1.0, 0.0, 0.0),
        (0.0, -1.0, 0.0),
        (0.0, 0.0, 0.0),
    )
    quadratic: tuple[tuple[float, ...], ...] = ((1.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, -1.0))
    linear: tuple[float, ...] = (0.0, 0.0, 0.0)

    name = "nambu_quadratic"
    sources = ("mclachlan2017", "nambu1973", "patera1976")
    former_names = ("nambu_lagrange",)  # of the Lagrange system alone
    later = ("algebra", "quadratic", "linear")
    description = "Nambu system with quadratic C and H, by default the Lagrange system"
    convergence = Convergence(duration=0.4, longest_step=0.2, shortest_step=0.0002)
    parameter_units = {"algebra": "1", "quadratic": "1", "linear": "1"}
    named_starts = (Start("mclachlan", "(−1.5, 0.8, 1.1)", _mclachlan_start),)

    def __post_init__(self) -> None:
        algebra = self.algebra
        if isinstance(algebra, str):
            check_known("algebra", algebra, ALGEBRAS, key="algebra")
        else:
            algebra = symmetric_matrix("algebra", algebra)
            if not np.any(algebra):
                raise InputError(
                    "the matrix of algebra is 0; expected one that is not, or nothing moves",
                    key="algebra",
                )
        set_checked(
            self,
            algebra=algebra,
            quadratic=symmetric_matrix("quadratic", self.quadratic),
            linear=number_vector("linear", self.linear, 3),
        )

    @cached_property
    def form(self) -> NambuHamiltonian:
        """The `NambuHamiltonian`."""
        algebra = ALGEBRAS[self.algebra] if isinstance(self.algebra, str) else self.algebra
        return NambuHamiltonian(
            matrix=np.array(algebra),
            hamiltonian=hamiltonian,
            gradient=gradient,
            parameters=np.append(np.ravel(self.quadratic), self.linear),
        )

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """Energy and Casimir."""
        degree = "other" if any(self.linear) else "quadratic"
        return quantities_of_nambu(self.form, self.units, energy_degree=degree)
