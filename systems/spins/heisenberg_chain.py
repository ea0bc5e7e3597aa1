"""The classical Heisenberg chain: n spins, each coupled to its two neighbours.

H = Σ_{i=1}^n w_{i−1}·w_i with w_0 = w_n, and ẇ_i = w_i × (w_{i−1} + w_{i+1}). With ``boundary =
"open"`` the bond of the last spin to the first is left out. On unit spheres, or in R³ with
``lengths = "any"``. Σ w_i does not change. Spins along a smooth curve approximate the
Landau–Lifshitz equation.

Dimensionless. Source: McLachlan, Modin, Verdier, *A minimal-variable symplectic integrator on
spheres*, section 3.5, (16).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from integrators.compiler.kernels import Inlined, inlined, kernel, split_flow, state_value
from integrators.compiler.vectors import (
    accumulate,
    add,
    axpy,
    cross,
    dot,
    get,
    put,
    scale,
    sub,
    summed,
)
from integrators.errors import InputError, check_array, check_known
from integrators.forms.flows import SplitFlow
from integrators.forms.hamiltonians import LENGTHS, SpinHamiltonian
from integrators.lie_groups.rotations import (
    MEDIUM,
    SMALL,
    medium_coefficients,
    rotation_coefficients,
    small_coefficients,
)
from integrators.precision import all_finite
from systems import ensembles
from systems.base import Convergence, Family, Quantity, Start
from systems.checking import check_count, set_checked
from systems.spins.base import SpinSystem, quantities_of_spins

BOUNDARIES = {"closed": 3, "open": 2}  # the fewest spins


@kernel(state_value)
def hamiltonian(t, w, p):
    """H = Σ w_{i−1}·w_i, (16); p = (1 or 0, σ): whether the chain is closed, |w_i + w_j| ≤ σ."""
    n = w.shape[0]
    total = p[0] * dot(get(w, n - 1), get(w, 0))
    for i in range(1, n):
        total = total + dot(get(w, i - 1), get(w, i))
    return total


@kernel()
def gradient(t, w, p, out, work):
    """∂H/∂w_i = w_{i−1} + w_{i+1}."""
    n = w.shape[0]
    for c in range(3):
        out[0, c] = p[0] * w[n - 1, c] + w[1, c]
        out[n - 1, c] = w[n - 2, c] + p[0] * w[0, c]
    for i in range(1, n - 1):
        for c in range(3):
            out[i, c] = w[i - 1, c] + w[i + 1, c]


def turning_bonds(coefficients: Inlined) -> Inlined:
    """The flow of every other bond, its sine and cosine by one of the `rotations`.

    Each bond w_i·w_j turns both spins about their sum s at the rate −|s|, as ẇ_i = w_i × s. Δw_j is
    −Δw_i to the last bit, so that the total spin keeps to round-off. The step enters each factor
    once: h², rounded, would be the same small excess of all cosines over their sines, by which all
    turns lengthen alike, and energies drift.
    """

    @inlined
    def turn_bonds(w, low, first, end, h):
        n = w.shape[0]
        for i in range(first, end, 2):
            j = i + 1 if i + 1 < n else 0
            here, there = summed(w, low, i), summed(w, low, j)
            s = add(here, there)
            a, b = coefficients(h * (h * dot(s, s)))
            turn = scale(h, cross(here, there))
            d = axpy(h * b, cross(turn, s), scale(a, turn))
            accumulate(low, i, d)
            put(low, j, sub(get(low, j), d))

    return turn_bonds


turn_bonds_little = turning_bonds(small_coefficients)
turn_bonds_more = turning_bonds(medium_coefficients)
turn_bonds = turning_bonds(rotation_coefficients)


@kernel(split_flow)
def flow(piece, t, h, w, low, p):
    """The flow of bonds of one colour, which commute: every other bond from bond `piece` on.

    The bond that closes an odd chain has a colour of its own, the third. How far the bonds turn at
    most is known of unit vectors; a test in each bond would take a third of the time.
    """
    n = w.shape[0]
    first = piece if piece < 2 else n - 1
    end = n if p[0] != 0.0 and (n % 2 == 0 or piece == 2) else n - 1
    widest = h * p[1]
    if widest * widest <= SMALL:
        turn_bonds_little(w, low, first, end, h)
    elif widest * widest <= MEDIUM:
        turn_bonds_more(w, low, first, end, h)
    else:
        turn_bonds(w, low, first, end, h)


def colours(count: int, boundary: str) -> int:
    """The number of pieces that `flow` has."""
    return 2 + count % 2 if boundary == "closed" else min(2, count - 1)


def _closed_curve_start(system: "HeisenbergChain") -> np.ndarray:
    number = system.arithmetic.number
    return _wavy_curve_state(system, height=number(0.3), wobble=number(0.5), lobes=2)


def _wavy_curve_state(
    system: "HeisenbergChain", height: float, wobble: float, lobes: float
) -> np.ndarray:
    if lobes != int(lobes):
        raise InputError(
            f"lobes = {lobes!r}; expected a whole number, or the curve does not close", key="lobes"
        )
    return system.curve(lambda s: (np.cos(s), np.sin(s), height + wobble * np.cos(lobes * s)))


def _latitude_circle_state(system: "HeisenbergChain", colatitude: float) -> np.ndarray:
    height, radius = np.cos(colatitude), np.sin(colatitude)
    return system.curve(lambda s: (radius * np.cos(s), radius * np.sin(s), height))


@dataclass(frozen=True)
class HeisenbergChain(SpinSystem):
    """A Heisenberg spin chain.

    Parameters
    ----------
    count : int
        Number of spins, at least 3, or 2 in an open chain.
    boundary : {"closed", "open"}
        Whether the last spin is coupled to the first.
    lengths : {"unit", "any"}
        Whether the spins are unit vectors or may have any lengths.

    Raises
    ------
    InputError
        If there are too few spins, or `boundary` or `lengths` is unknown.
    """

    count: int = 100
    boundary: str = "closed"
    lengths: str = "unit"

    name = "heisenberg_chain"
    sources = ("mclachlan2017", "lakshmanan2011")
    description = "Heisenberg spin chain, closed or open"
    convergence = Convergence(duration=4.0, longest_step=0.35, shortest_step=0.001)
    parameter_units = {"count": "1", "boundary": "1", "lengths": "1"}
    named_starts = (
        Start(
            "closed_curve",
            "along (cos s, sin s, 0.3 + 0.5 cos 2s), unit length",
            _closed_curve_start,
        ),
    )
    families = (
        Family(
            "latitude_circle",
            "equidistant on a circle at a colatitude, in radians",
            {"colatitude": 1.0},
            _latitude_circle_state,
        ),
        Family(
            "wavy_curve",
            "along (cos s, sin s, height + wobble cos(lobes s)), brought to unit length",
            {"height": 0.3, "wobble": 0.5, "lobes": 2.0},
            _wavy_curve_state,
        ),
    )

    def __post_init__(self) -> None:
        check_known("lengths", self.lengths, LENGTHS, key="lengths")
        check_known("boundary", self.boundary, BOUNDARIES, key="boundary")
        set_checked(self, count=check_count(self.count, least=BOUNDARIES[self.boundary]))

    def curve(self, function: Callable[[Any], Any]) -> np.ndarray:
        """Spins along a curve, at s = 2π i/n for spin i = 0 … n − 1, brought to unit length.

        Parameters
        ----------
        function : callable
            ``function(s)``, s in [0, 2π), gives a vector [x, y, z] that is not zero.

        Returns
        -------
        ndarray, shape (count, 3)

        Raises
        ------
        InputError
            If it gives anything else.
        """
        places = 2.0 * self.arithmetic.pi * np.arange(self.count) / self.count
        points = check_array(
            "the curve", [function(s) for s in places], "[x, y, z] at every s",
            self.arithmetic.array,
        )  # fmt: skip
        if points.shape != (self.count, 3) or not all_finite(points):
            raise InputError("the curve does not give three finite numbers at every s")
        at_zero = ~np.any(points != 0.0, axis=1)
        if np.any(at_zero):
            raise InputError(
                f"the curve passes through 0 at s = {places[np.argmax(at_zero)]:.6g}, "
                "where it has no direction"
            )
        return ensembles.project_to_spheres(points)

    @cached_property
    def form(self) -> SpinHamiltonian:
        """The `SpinHamiltonian` of the chain."""
        return SpinHamiltonian(
            strengths=np.ones(self.count),
            hamiltonian=hamiltonian,
            gradient=gradient,
            parameters=np.array(
                [float(self.boundary == "closed"), 2.0 if self.lengths == "unit" else np.inf]
            ),
            split=SplitFlow(flow, pieces=colours(self.count, self.boundary)),
            lengths=self.lengths,
        )

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """Energy, unit length, Casimir, total spin."""
        return quantities_of_spins(self.form, self.units, "xyz")
