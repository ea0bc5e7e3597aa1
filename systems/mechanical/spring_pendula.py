"""Spherical pendula on pivots of their own, any of them tied together by springs.

L = ½ Σ m_i l_i² |q̇_i|² − V with V = −Σ m_i g l_i e3·q_i + Σ ½ κ_e (|d_e| − |r_e|)². Edge
e = (i, j) is a spring between the middles of links i and j: r_e leads from pivot i to pivot j, and
d_e = r_e + ½ l_j q_j − ½ l_i q_i. At rest it is as long as the pivots are apart. Pendula are
counted from 0; gravity acts along +e3 if g > 0, so q = e3 hangs.

Units: kg, m, s, rad. Source: Lee, Leok, McClamroch, *Lagrangian mechanics and variational
integrators on two-spheres*, Example 3, with κ12, κ23, κ34, κ41 = 10, 20, 30, 40 N/m.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from integrators.compiler.kernels import inlined, kernel, state_value
from integrators.compiler.lanes import sqrt
from integrators.compiler.vectors import accumulate, axpy, dot, get, scale
from integrators.compiler.views import tail
from integrators.errors import InputError, check_number, check_whole, short_repr
from integrators.forms.forms import SpheresLagrangian
from systems.base import Convergence, Quantity, Start
from systems.checking import (
    ON_MANIFOLD,
    PerBody,
    check_count,
    is_list,
    positive_vector,
    set_checked,
    vector_list,
)
from systems.mechanical.base import DampedSystem, axes_along

SQUARE = ((0, 1), (1, 2), (2, 3), (3, 0))
CORNERS = ((0.0, 0.0, 0.0), (0.1, 0.0, 0.0), (0.1, -0.1, 0.0), (0.0, -0.1, 0.0))

# p: m_i g l_i (n), ½ l_i (n), the number of edges, then for every edge i, j, κ, |r|, r.
EDGE = 7


@inlined
def whole(number):
    """A whole number kept among the parameters; the mask shows that it is not negative."""
    return int(number) & 0x7FFFFFFF


@inlined
def spring(q, halves, edge):
    """d_e, for q of shape (n, 3), half lengths of the links and an edge's numbers."""
    i, j = whole(edge[0]), whole(edge[1])
    outer = axpy(halves[j], get(q, j), (edge[4], edge[5], edge[6]))
    return axpy(-halves[i], get(q, i), outer)


@kernel(state_value)
def potential(t, q, p):
    """V = −Σ p_i e3·q_i + Σ ½ κ (|d| − |r|)²."""
    n = q.shape[0]
    total = -p[0] * q[0, 2]
    for i in range(1, n):
        total = total - p[i] * q[i, 2]
    for k in range(whole(p[2 * n])):
        edge = tail(p, 2 * n + 1 + EDGE * k)
        d = spring(q, tail(p, n), edge)
        stretch = sqrt(dot(d, d)) - edge[3]
        total = total + 0.5 * edge[2] * (stretch * stretch)
    return total


@kernel()
def potential_gradient(t, q, p, out, work):
    """∂V/∂q_i = −p_i e3 ∓ ½ l_i κ (|d| − |r|) d/|d|, for the edges from and to i."""
    n = q.shape[0]
    for i in range(n):
        out[i, 0] = 0.0
        out[i, 1] = 0.0
        out[i, 2] = -p[i]
    for k in range(whole(p[2 * n])):
        edge = tail(p, 2 * n + 1 + EDGE * k)
        i, j = whole(edge[0]), whole(edge[1])
        d = spring(q, tail(p, n), edge)
        length = sqrt(dot(d, d))
        tension = scale(edge[2] * (length - edge[3]) / length, d)
        accumulate(out, i, scale(-p[n + i], tension))
        accumulate(out, j, scale(p[n + j], tension))


def _lee_start(system: "SpringPendula") -> np.ndarray:
    """Example 3: the third pendulum tilted, the first in motion."""
    if system.count != 4:
        raise InputError(f"start 'lee' has four pendula; this system has count = {system.count}")
    of = system.arithmetic
    turn = of.radians(20.0)
    q = of.array(np.tile([0.0, 0.0, 1.0], (4, 1)))
    q[2] = [0.5 * of.cos(turn), 0.5 * of.sin(turn), of.sqrt(3.0) / 2.0]
    omega = np.zeros((4, 3))
    omega[0] = [-10.0, 4.0, 0.0]
    return np.concatenate([q, omega])


@dataclass(frozen=True)
class SpringPendula(DampedSystem):
    """Spherical pendula tied together by springs.

    Parameters
    ----------
    count : int
        Number of pendula.
    mass, length : float or tuple of float
        Mass, kg, and length, m, of each pendulum.
    gravity : float
        Gravitational acceleration along +e3, m s⁻².
    stiffness : float or tuple of float
        Stiffness of each spring, N m⁻¹.
    edges : tuple of pairs of int
        The two pendula that each spring connects, counted from 0.
    pivots : tuple of 3-vectors
        Position of the pivot of each pendulum, m.
    damping : float or tuple of float or "none"
        Coefficient c_i of the torque −c_i ω_i on each pendulum, N m s; ≥ 0. "none": no such force.

    Raises
    ------
    InputError
        If a value has the wrong type or sign, a list the wrong length, or a spring ties a
        pendulum that is not there, or to itself, or two on the same pivot.
    """

    count: int = 4
    mass: PerBody = 0.1
    length: PerBody = 0.1
    gravity: float = 9.81
    stiffness: PerBody = (10.0, 20.0, 30.0, 40.0)
    edges: tuple[tuple[int, int], ...] = SQUARE
    pivots: tuple[tuple[float, ...], ...] = CORNERS

    name = "spring_pendula"
    sources = ("lee2009",)
    description = "spherical pendula tied together by springs"
    units = {"energy": "J", "momentum": "kg m2 s-1", "time": "s"}
    convergence = Convergence(duration=0.4, longest_step=0.03, shortest_step=0.0001)
    parameter_units = {
        "count": "1",
        "mass": "kg",
        "length": "m",
        "gravity": "m s-2",
        "stiffness": "N m-1",
        "edges": "1",
        "pivots": "m",
        "damping": "N m s",
    }
    named_starts = (Start("lee", "Example 3 of Lee et al.: four pendula in a square", _lee_start),)

    def __post_init__(self) -> None:
        count = check_count(self.count)
        edges = _checked_edges(self.edges, count)
        set_checked(
            self,
            count=count,
            mass=positive_vector("mass", self.mass, count),
            length=positive_vector("length", self.length, count),
            gravity=check_number("gravity", self.gravity),
            stiffness=positive_vector("stiffness", self.stiffness, len(edges)),
            edges=edges,
            pivots=vector_list("pivots", self.pivots, count),
        )
        super().__post_init__()
        for k, apart in enumerate(np.linalg.norm(self._edge_vectors, axis=1)):
            if not apart > 0:
                raise InputError(
                    f"edges[{k}] = {list(edges[k])} is a spring of zero length: its two pendula "
                    "hang on the same pivot",
                    key="edges",
                )

    @property
    def _edge_vectors(self) -> np.ndarray:
        """r_e of each edge, shape (edges, 3)."""
        pivots, (begin, end) = np.array(self.pivots), np.reshape(self.edges, (-1, 2)).T.astype(int)
        return pivots[end] - pivots[begin]

    def check_positions(self, q: np.ndarray) -> None:
        """Refuse springs without direction: their length is zero."""
        middles = np.array(self.pivots) + 0.5 * np.array(self.length)[:, None] * q
        begin, end = np.reshape(self.edges, (-1, 2)).T.astype(int)
        apart = np.linalg.norm(middles[end] - middles[begin], axis=1)
        for k in np.flatnonzero(apart <= ON_MANIFOLD * np.array(self.length)[begin]).tolist():
            raise InputError(
                f"the spring edges[{k}] = {list(self.edges[k])} has zero length in this state, "
                "where the potential is singular",
                key="q",
            )

    @cached_property
    def form(self) -> SpheresLagrangian:
        """The `SpheresLagrangian` of the pendula."""
        mass, length = np.array(self.mass), np.array(self.length)
        rest = np.linalg.norm(self._edge_vectors, axis=1)
        ends = np.reshape(self.edges, (-1, 2))
        springs = np.column_stack([ends, self.stiffness, rest, self._edge_vectors])
        weight = mass * self.gravity * length
        form = SpheresLagrangian(
            inertia=mass * length**2,
            potential=potential,
            potential_gradient=potential_gradient,
            parameters=np.concatenate([weight, 0.5 * length, [len(springs)], springs.ravel()]),
        )
        return self.damped(form)

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """Energy, angular momentum about axes of symmetry, unit length, tangency."""
        axes = axes_along(self._edge_vectors)
        if self.gravity != 0.0:
            axes = "z" if "z" in axes else ""
        return self.quantities_without(axes)


def _checked_edges(edges: Any, count: int) -> tuple[tuple[int, int], ...]:
    if not is_list(edges):
        raise InputError(
            f"edges = {short_repr(edges)}; expected a list of pairs of pendula", key="edges"
        )
    pairs = []
    for k, pair in enumerate(edges):
        if not is_list(pair, 2):
            raise InputError(
                f"edges[{k}] = {short_repr(pair)}; expected a pair of pendula", key="edges"
            )
        i, j = (check_whole("edges", pendulum, least=0) for pendulum in pair)
        if max(i, j) >= count:
            raise InputError(
                f"edges[{k}] = {[i, j]} names pendulum {max(i, j)}; there are 0 to {count - 1}",
                key="edges",
            )
        if i == j:
            raise InputError(f"edges[{k}] = {[i, j]} ties a pendulum to itself", key="edges")
        pairs.append((i, j))
    return tuple(pairs)
