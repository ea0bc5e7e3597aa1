"""Point vortices on the unit sphere: the motion of an ideal fluid around isolated vortices.

H = −(1/4π) Σ_{i<j} κ_i κ_j ln(2 − 2 w_i·w_j) with the strengths κ_i of either sign, and
ẇ_i = Σ_{j≠i} κ_j w_i × w_j/(4π(1 − w_i·w_j)); singular where two vortices meet. Σ κ_i w_i does
not change.

2 − 2 w_i·w_j is evaluated as |w_i − w_j|², which is the same on the sphere and keeps its digits
where two vortices are close. Off the sphere, where some methods evaluate the equations between
steps, H is therefore −(1/4π) Σ κ_i κ_j ln |w_i − w_j|², and the gradient is the derivative of that.

With ``tracers`` the flow carries particles, vortices of strength 0, which come after the others in
the state: they move as those make them, and have no effect. Under methods with a fixed step the
vortices are, to the last bit, where they are without tracers.

Dimensionless. Source: McLachlan, Modin, Verdier, *A minimal-variable symplectic integrator on
spheres*, section 3.4, after Bogomolov (1977); tracers, the "test particles" of its section 1.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from integrators.compiler.kernels import inlined, kernel, split_flow, state_value
from integrators.compiler.lanes import log
from integrators.compiler.vectors import accumulate, axpy, cross, dot, get, scale, sub, summed
from integrators.compiler.views import tail
from integrators.errors import InputError, check_whole, short_repr
from integrators.forms.flows import SplitFlow
from integrators.forms.hamiltonians import SpinHamiltonian
from integrators.lie_groups.rotations import rotation_coefficients
from systems import ensembles
from systems.base import Convergence, Family, Quantity, Start
from systems.checking import (
    MOST_BODIES,
    MOST_INTERACTING,
    ON_MANIFOLD,
    is_list,
    number_vector,
    set_checked,
)
from systems.mechanical.base import check_distinct
from systems.spins.base import SpinSystem, quantities_of_spins

# p = (m, κ, 2π) of m vortices. Without tracers m is the number of rows, which compiled code knows.


@inlined
def energy_of(w, p, vortices):
    """H = −(1/4π) Σ_{i<j} κ_i κ_j ln |w_i − w_j|²."""
    total, four_pi = 0.0 * w[0, 0], 2.0 * p[1 + vortices]
    for i in range(1, vortices):
        for j in range(i):
            apart = sub(get(w, i), get(w, j))
            total = total - p[1 + i] * p[1 + j] / four_pi * log(dot(apart, apart))
    return total


@inlined
def push_vortices(w, p, out, vortices):
    """∂H/∂w_i = −(1/2π) Σ_{j≠i} κ_i κ_j (w_i − w_j)/|w_i − w_j|², and 0 into the other rows.

    Its part along w_i, which no spin feels, is κ_i κ_j/4π on the sphere; the rest is that of
    κ_i κ_j w_j/(4π(1 − w_i·w_j)).
    """
    two_pi = p[1 + vortices]
    for i in range(w.shape[0]):
        for c in range(3):
            out[i, c] = 0.0
    for i in range(1, vortices):
        for j in range(i):
            apart = sub(get(w, i), get(w, j))
            push = -(p[1 + i] * p[1 + j] / two_pi) / dot(apart, apart)
            accumulate(out, i, scale(push, apart))
            accumulate(out, j, scale(-push, apart))


@kernel(state_value)
def hamiltonian(t, w, p):
    """H of vortices alone."""
    return energy_of(w, p, w.shape[0])


@kernel(state_value)
def hamiltonian_with_tracers(t, w, p):
    """H, in which tracers have no part."""
    return energy_of(w, p, int(p[0]))


@kernel()
def gradient(t, w, p, out, work):
    """∂H/∂w_i of vortices alone."""
    push_vortices(w, p, out, w.shape[0])


@kernel()
def gradient_with_tracers(t, w, p, out, work):
    """∂H/∂w_i of vortices; of a tracer the same without κ_i."""
    vortices = int(p[0])
    two_pi = p[1 + vortices]
    push_vortices(w, p, out, vortices)
    for i in range(vortices, w.shape[0]):
        for j in range(vortices):
            apart = sub(get(w, i), get(w, j))
            accumulate(out, i, scale(-(p[1 + j] / two_pi) / dot(apart, apart), apart))


@inlined
def turn_pair(w, low, i, j, h, p, two_pi):
    """The flow of one pair, p = κ: both turn about J = κ_i w_i + κ_j w_j, which stays as it is.

    ẇ_i = r w_i × J and ẇ_j = r w_j × J with r = 1/(4π(1 − w_i·w_j)) = 1/(2π|w_i − w_j|²), which
    the turn does not change. κ_j Δw_j is −κ_i Δw_i, so that Σ κ w keeps to round-off.
    """
    here, there = summed(w, low, i), summed(w, low, j)
    apart = sub(there, here)
    turn = -h / (two_pi * dot(apart, apart))
    axis = scale(turn, axpy(p[i], here, scale(p[j], there)))
    slope = scale(turn * p[j], cross(apart, here))  # axis × w_i, as w_i × w_i = 0
    a, b = rotation_coefficients(dot(axis, axis))
    d = axpy(b, cross(axis, slope), scale(a, slope))
    accumulate(low, i, d)
    accumulate(low, j, (-(p[i] * d[0]) / p[j], -(p[i] * d[1]) / p[j], -(p[i] * d[2]) / p[j]))


@kernel(split_flow)
def flow(piece, t, h, w, low, p):
    """The flow of a round: of pairs without a common vortex, whose flows commute.

    In round k those meet whose numbers add to 2k, modulo the number of rounds; of an even number
    of vortices the last meets the one that is left.
    """
    n, strengths = w.shape[0], tail(p, 1)
    two_pi = strengths[n]
    m = n - 1 + n % 2  # rounds
    if n > m:
        turn_pair(w, low, piece, n - 1, h, strengths, two_pi)
    for k in range(1, (m + 1) // 2):
        turn_pair(w, low, (piece + k) % m, (piece + m - k) % m, h, strengths, two_pi)


def rounds(n: int) -> int:
    """The rounds in which n vortices meet each other once: n, or n − 1 of an even number."""
    return n - 1 + n % 2


def _invariant_manifold_state(system: "PointVortices", theta: float, phi: float) -> np.ndarray:
    """C(θ, φ): c(θ, φ) and its images under half turns about e3, e1 and e2."""
    if len(system.strengths) != 4:
        raise InputError(
            f"'invariant_manifold' has four vortices; this system has {len(system.strengths)}"
        )
    x, y, z = np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)
    vortices = np.array([[x, y, z], [-x, -y, z], [x, -y, -z], [-x, y, -z]])
    return np.concatenate([vortices, ensembles.lattice(system.tracers, system.arithmetic)])


def _latitude_ring_state(system: "PointVortices", colatitude: float) -> np.ndarray:
    count = len(system.strengths)
    longitude = 2.0 * system.arithmetic.pi * np.arange(count) / count
    height, radius = np.full(count, np.cos(colatitude)), np.sin(colatitude)
    ring = np.stack([radius * np.cos(longitude), radius * np.sin(longitude), height], axis=1)
    return np.concatenate([ring, ensembles.lattice(system.tracers, system.arithmetic)])


def _mclachlan_start(system: "PointVortices") -> np.ndarray:
    if len(system.strengths) != 4:
        raise InputError(
            f"the start 'mclachlan' has four vortices; this system has {len(system.strengths)}"
        )
    theta, phi = map(system.arithmetic.number, (0.7, 0.4))
    return _invariant_manifold_state(system, theta, phi)


@dataclass(frozen=True)
class PointVortices(SpinSystem):
    """Point vortices on the sphere.

    Parameters
    ----------
    strengths : tuple of float
        Strength κ of each vortex, of either sign and not zero: at least two vortices, or one with
        tracers.
    tracers : int
        Number of passive particles.

    Raises
    ------
    InputError
        If there are too few strengths, one is zero or no number, or `tracers` is no whole number.
    """

    strengths: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    tracers: int = 0

    name = "point_vortices"
    sources = ("mclachlan2017", "bogomolov1977")
    later = ("tracers",)
    description = "point vortices on the sphere"
    convergence = Convergence(duration=50.0, longest_step=2.5, shortest_step=0.02)
    parameter_units = {"strengths": "1", "tracers": "1"}
    named_starts = (
        Start(
            "mclachlan", "four vortices, theta = 0.7 and phi = 0.4 of the family", _mclachlan_start
        ),
    )
    families = (
        Family(
            "invariant_manifold",
            "four vortices, C(θ, φ) of section 3.4 of McLachlan et al.",
            {"theta": 0.7, "phi": 0.4},
            _invariant_manifold_state,
        ),
        Family(
            "latitude_ring",
            "vortices equidistant on a circle at a colatitude, in radians",
            {"colatitude": 1.0},
            _latitude_ring_state,
        ),
    )

    def __post_init__(self) -> None:
        tracers = check_whole("tracers", self.tracers, least=0)
        least, words = (1, "one number") if tracers else (2, "two numbers")
        if not is_list(self.strengths) or len(self.strengths) < least:
            raise InputError(
                f"strengths = {short_repr(self.strengths)}; expected a list of {words} or more, "
                "one for each vortex",
                key="strengths",
            )
        if len(self.strengths) > MOST_INTERACTING:
            raise InputError(
                f"{len(self.strengths):,} vortices; at most {MOST_INTERACTING:,} are possible",
                key="strengths",
            )
        strengths = number_vector("strengths", self.strengths, len(self.strengths))
        if 0.0 in strengths:
            raise InputError(
                f"the strength of vortex {strengths.index(0.0)} is 0; expected a number of either "
                "sign: leave that vortex out, or give tracers = 1 for a particle that is carried",
                key="strengths",
            )
        if len(strengths) + tracers > MOST_BODIES:
            raise InputError(
                f"tracers = {tracers:,}; at most {MOST_BODIES:,} bodies are possible", key="tracers"
            )
        set_checked(self, strengths=strengths, tracers=tracers)

    def check_positions(self, w: np.ndarray) -> None:
        """Refuse vortices that meet, and tracers at a vortex; tracers may meet."""
        count = len(self.strengths)
        check_distinct(w[:count], bodies="vortices", singular="the Hamiltonian", key="w")
        for j, vortex in enumerate(w[:count]):
            near = np.linalg.norm(w[count:] - vortex, axis=1) <= ON_MANIFOLD
            if near.any():
                raise InputError(
                    f"tracer {near.argmax()}, row {count + near.argmax()} of w, is at vortex {j}, "
                    "where its velocity is singular",
                    key="w",
                )

    @cached_property
    def form(self) -> SpinHamiltonian:
        """The `SpinHamiltonian` of the vortices."""
        return SpinHamiltonian(
            strengths=np.array(self.strengths),
            hamiltonian=hamiltonian_with_tracers if self.tracers else hamiltonian,
            gradient=gradient_with_tracers if self.tracers else gradient,
            parameters=np.array([len(self.strengths), *self.strengths, 2.0 * self.arithmetic.pi]),
            split=None if self.tracers else SplitFlow(flow, pieces=rounds(len(self.strengths))),
            tracers=self.tracers,
        )

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """Energy, unit length, Casimir, Σ κ w."""
        return quantities_of_spins(self.form, self.units, "xyz")
