"""Molecules on the unit sphere that attract at long range and repel at short range.

L = ½ m Σ |q̇_i|² − V with V = Σ_{i<j} 4ε ((σ/r)¹² − (σ/r)⁶), r = |q_i − q_j| the chord: singular
where two molecules meet. There are as many as the icosahedron has vertices after `level`
subdivisions; between neighbours the force is about zero.

Dimensionless. Source: Lee, Leok, McClamroch, *Lagrangian mechanics and variational integrators
on two-spheres*, Example 6. It leaves σ and the two vortices open;
`_lee_start` states those used here.

With n(n−1)/2 pairs the work is in the pairs of one trajectory: eight partners of a molecule go
side by side, and trajectories one after the other.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from integrators.compiler.blocks import cache_lines, gathered
from integrators.compiler.kernels import inlined, kernel, state_value
from integrators.compiler.lanes import WIDTH, eight, hsum, lane_of, ramp, select, with_lane
from integrators.compiler.vectors import add, dot, get, put, scale, sub
from integrators.compiler.views import as_lanes, flattened, members, rows_of
from integrators.errors import InputError, check_known, check_number, check_whole
from integrators.forms.forms import SpheresLagrangian
from systems.base import Convergence, Quantity, Start
from systems.checking import set_checked
from systems.ensembles import project_to_manifold
from systems.mechanical.base import DampedSystem, check_distinct
from systems.mechanical.icosphere import Icosphere, icosphere

FAR = 1e20  # where partners stand that fill up a block: their terms are far below round-off
EQUILIBRIUM = "equilibrium"
FINEST = 6  # 40,962 molecules, already 8e8 pairs


@inlined
def block(q, b, member):
    """x, y and z of the eight molecules of block b; q has shape (n, 3, width)."""
    numbers, first = flattened(q), 3 * WIDTH * b
    return (
        gathered(numbers, first, 3, member, FAR),
        gathered(numbers, first + 1, 3, member, FAR),
        gathered(numbers, first + 2, 3, member, FAR),
    )


def _number_of_block_pairs(n: int) -> int:
    """The number of pairs of blocks that n molecules fill."""
    return (n + 2 * WIDTH - 1) // (2 * WIDTH)


pairs_of_blocks = inlined(_number_of_block_pairs)


def _scratch_size(rows: int) -> int:
    return WIDTH * (12 * _number_of_block_pairs(rows // 2) + 1)


@inlined
def two_blocks(x, left, right):
    """d = x − q_j and |d|² for the j of two blocks."""
    d, e = sub(x, left), sub(x, right)
    return d, dot(d, d), e, dot(e, e)


@inlined
def later(squared, i, first):
    """|d|² of the eight molecules from the `first` on, but FAR for those not after i."""
    return select(ramp(squared) > i - first, squared, FAR)


@inlined
def ratios(r, u, p):
    """σ²/r and σ²/u by one division, which takes longer than all the rest of a pair."""
    inverse = p[0] / (r * u)
    return u * inverse, r * inverse


@inlined
def well(s):
    """s³(s³ − 1)"""
    s3 = s * s * s
    return s3 * (s3 - 1.0)


@inlined
def pull(d, s):
    """d s⁴(1 − 2s³); times 24ε/σ² it is a pair's part of the gradient."""
    s2 = s * s
    s3 = s2 * s
    return scale((s2 * s2) * (1.0 - (s3 + s3)), d)


@inlined
def potential_of(q, member, p):
    """V of one trajectory: Σ_{i<j} s³(s³ − 1) with s = σ²/|q_i − q_j|², times 4ε."""
    n = q.shape[0]
    total = eight(0.0)
    for b in range(0, 2 * pairs_of_blocks(n), 2):
        left, right, first = block(q, b, member), block(q, b + 1, member), WIDTH * b
        for i in range(min(first + 2 * WIDTH, n)):
            x = q[i, 0, member], q[i, 1, member], q[i, 2, member]
            d, r, e, u = two_blocks(x, left, right)
            if i >= first:
                r, u = later(r, i, first), later(u, i, first + WIDTH)
            s, w = ratios(r, u, p)
            total = total + (well(s) + well(w))
    return p[1] * hsum(total)


@kernel(state_value)
def potential(t, q, p):
    """V, trajectory by trajectory; p = (σ², 4ε, 24ε/σ²)."""
    positions, value = members(q), q[0, 0]
    for member in range(positions.shape[2]):
        value = with_lane(value, member, potential_of(positions, member, p))
    return value


@inlined
def pull_of_two(d, r, e, u, pulls, b, p):
    """What two blocks add to one molecule's gradient; what it adds to theirs goes to `pulls`."""
    s, w = ratios(r, u, p)
    f, g = pull(d, s), pull(e, w)
    put(pulls, b, sub(get(pulls, b), f))
    put(pulls, b + 1, sub(get(pulls, b + 1), g))
    return add(f, g)


@inlined
def gradient_of(q, member, p, out, positions, pulls):
    """∂V/∂q_i of one trajectory, (3.27).

    `positions` and `pulls` are scratch, a row of three lanes for every block: the molecules,
    and what those with smaller numbers add to their gradient.
    """
    blocks = positions.shape[0]
    for b in range(blocks):
        put(positions, b, block(q, b, member))
        put(pulls, b, (eight(0.0), eight(0.0), eight(0.0)))
    for i in range(q.shape[0]):
        x = q[i, 0, member], q[i, 1, member], q[i, 2, member]
        b = i // WIDTH // 2 * 2
        d, r, e, u = two_blocks(x, get(positions, b), get(positions, b + 1))
        r, u = later(r, i, WIDTH * b), later(u, i, WIDTH * b + WIDTH)
        total = pull_of_two(d, r, e, u, pulls, b, p)
        for k in range(b + 2, blocks, 2):
            d, r, e, u = two_blocks(x, get(positions, k), get(positions, k + 1))
            total = add(total, pull_of_two(d, r, e, u, pulls, k, p))
        taken = get(pulls, i // WIDTH)
        for c in range(3):
            out[i, c, member] = p[2] * (hsum(total[c]) + lane_of(taken[c], i % WIDTH))


@kernel(work=_scratch_size)
def potential_gradient(t, q, p, out, work):
    """∂V/∂q, trajectory by trajectory."""
    positions, gradient = members(q), members(out)
    blocks = 2 * pairs_of_blocks(q.shape[0])
    scratch = as_lanes(cache_lines(work, 6 * blocks))
    ours, theirs = rows_of(scratch, 0, blocks), rows_of(scratch, 3 * blocks, blocks)
    for member in range(positions.shape[2]):
        gradient_of(positions, member, p, gradient, ours, theirs)


def _lee_start(system: "LennardJonesSphere") -> np.ndarray:
    """Example 6: molecules at the vertices, turned by two vortices at (±sin 15°, 0, cos 15°).

    q̇ = Σ_k (c_k × q)(1 − exp(−d_k²/0.09))/(2π d_k²) with d_k = |q − c_k|.
    """
    of = system.arithmetic
    q, size = system.mesh.vertices, of.number(0.09)
    velocity = np.zeros_like(q)
    for side in (1.0, -1.0):
        centre = np.array([side * of.sin(of.pi / 12), 0.0, of.cos(of.pi / 12)])
        squared = np.sum((q - centre) ** 2, axis=1)
        # libm's expm1 one by one: NumPy's own differs between CPUs
        core = [-of.expm1(-s / size) / s if s > 0 else 1 / size for s in squared.tolist()]
        velocity += np.cross(centre, q) * np.array(core)[:, None] / (2.0 * of.pi)
    return project_to_manifold(np.concatenate([q, np.cross(q, velocity)]))


@dataclass(frozen=True)
class LennardJonesSphere(DampedSystem):
    """Molecules on a sphere.

    Parameters
    ----------
    level : int
        Subdivisions of the icosahedron; there are 10·4^level + 2 molecules.
    epsilon : float
        Depth ε of the potential, in units of energy.
    sigma : float or "equilibrium"
        Range σ of the potential, in radii of the sphere; the force of a pair vanishes at the
        distance r = 2^(1/6) σ. "equilibrium" makes r the mean chord of the triangulation's edges.
    mass : float
        Mass of each molecule.
    damping : float or tuple of float or "none"
        Coefficient c_i of the torque −c_i ω_i on each molecule; ≥ 0. "none": no such force.

    Raises
    ------
    InputError
        If a value has the wrong type or sign.
    """

    level: int = 3
    epsilon: float = 0.01
    sigma: float | str = EQUILIBRIUM
    mass: float = 1.0

    name = "lennard_jones_sphere"
    sources = ("lee2009", "lennardjones1931")
    description = "molecules on a sphere with a Lennard-Jones potential"
    units = {"energy": "1", "momentum": "1", "time": "1"}
    convergence = Convergence(duration=2.0, longest_step=0.1, shortest_step=0.001)
    parameter_units = {"level": "1", "epsilon": "1", "sigma": "1", "mass": "1", "damping": "1"}
    named_starts = (Start("lee", "Example 6 of Lee et al.: two vortices 30° apart", _lee_start),)

    def __post_init__(self) -> None:
        level = check_whole("level", self.level, least=0)
        if level > FINEST:
            raise InputError(f"level = {level}; expected at most {FINEST}", key="level")
        if isinstance(self.sigma, str):
            check_known("sigma", self.sigma, (EQUILIBRIUM,), key="sigma")
        else:
            set_checked(self, sigma=check_number("sigma", self.sigma, above=0.0))
        set_checked(
            self,
            level=level,
            epsilon=check_number("epsilon", self.epsilon, above=0.0),
            mass=check_number("mass", self.mass, above=0.0),
        )
        super().__post_init__()

    @property
    def body_count(self) -> int:
        """The number of molecules."""
        return len(self.mesh.vertices)

    @cached_property
    def mesh(self) -> Icosphere:
        """The triangulation at whose vertices the molecules start."""
        return icosphere(self.level, self.arithmetic)

    @cached_property
    def range(self) -> float:
        """σ as a number."""
        if self.sigma != EQUILIBRIUM:
            return cast(float, self.sigma)
        of = self.arithmetic
        ends = self.mesh.vertices[self.mesh.edges]
        x, y, z = (ends[:, 0] - ends[:, 1]).T
        chords = np.sqrt(x * x + y * y + z * z)
        return of.total(chords) / len(chords) / of.number(2.0) ** (of.number(1.0) / 6.0)

    def check_positions(self, q: np.ndarray) -> None:
        """Refuse molecules that meet."""
        check_distinct(q)

    @cached_property
    def form(self) -> SpheresLagrangian:
        """The `SpheresLagrangian` of the molecules."""
        squared = self.range**2
        form = SpheresLagrangian(
            inertia=np.full(len(self.mesh.vertices), self.mass),
            potential=potential,
            potential_gradient=potential_gradient,
            parameters=np.array([squared, 4 * self.epsilon, 24 * self.epsilon / squared]),
        )
        return self.damped(form)

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """Energy, total angular momentum, unit length, tangency."""
        return self.quantities_without("xyz")
