"""Magnetic dipoles, each a thin rod that turns about a pivot at its centre.

L = ½ Σ M_i |q̇_i|² − V with M_i = m_i l_i²/12, q_i the direction of the north pole, and

    V = Σ_{i<j} μ0 ν_i ν_j/(4π r³) (q_i·q_j − 3 (q_i·r_ij)(q_j·r_ij)/r²) = ½ Σ q_i·K_ij q_j,

r_ij from pivot i to pivot j, r its length. V is a quadratic form with constant K.

Units: kg, m, s, rad, A m². Source: Lee, Leok, McClamroch, *Lagrangian mechanics and variational
integrators on two-spheres*, Example 5. The paper prints the factor 1/12, but ran M_i = m_i l_i²:
`inertia_factor` 1.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from integrators.compiler.blocks import eights, gathered, scatter
from integrators.compiler.kernels import inlined, kernel, state_value
from integrators.compiler.lanes import WIDTH, hsum, with_lane
from integrators.compiler.views import as_lanes, flattened, frame, members, rows_of
from integrators.errors import InputError, check_number
from integrators.forms.forms import SpheresLagrangian
from systems.base import Convergence, Quantity, Start
from systems.checking import MOST_COUPLED, PerBody, positive_vector, set_checked, vector_list
from systems.mechanical.base import DampedSystem, axes_along

PERMEABILITY = 1e-7  # μ0/4π, N A⁻²
TICKS = (0.0, 0.024, 0.048, 0.072)
own_sums, own_totals = frame(3 * WIDTH), frame(WIDTH)  # of eight rows, by component or not
GRID = tuple((x, y, 0.0) for y in TICKS for x in TICKS)


@inlined
def field(q, member, p, first):
    """Eight elements of K q from element `first` on; q has shape (n, 3, width).

    p holds for eight rows of K at a time their columns, filled up with zeros.
    """
    n = q.shape[0]
    columns = rows_of(as_lanes(eights(p, 3 * n * first, 3 * n)), 0, n)
    x = columns[0, 0] * q[0, 0, member]
    y = columns[0, 1] * q[0, 1, member]
    z = columns[0, 2] * q[0, 2, member]
    for j in range(1, n):
        x = x + columns[j, 0] * q[j, 0, member]
        y = y + columns[j, 1] * q[j, 1, member]
        z = z + columns[j, 2] * q[j, 2, member]
    return x + y + z


@inlined
def field_side_by_side(q, p, first, sums):
    """The same of eight trajectories at once, into every third of `sums`.

    In lanes this is faster than one trajectory after another, and equal to the last bit.
    """
    n = q.shape[0]
    columns = eights(p, 3 * n * first, 3 * n)
    for k in range(WIDTH):
        for c in range(3):
            sums[3 * k + c] = columns[c, k] * q[0, c]
    for j in range(1, n):
        for k in range(WIDTH):
            for c in range(3):
                sums[3 * k + c] = sums[3 * k + c] + columns[3 * j + c, k] * q[j, c]
    for k in range(WIDTH):
        sums[3 * k] = sums[3 * k] + sums[3 * k + 1] + sums[3 * k + 2]


@inlined
def potential_side_by_side(q, p):
    """½ q·K q of eight trajectories at once."""
    x, sums, totals = flattened(q), own_sums(q), own_totals(q)
    for first in range(0, x.shape[0], WIDTH):
        field_side_by_side(q, p, first, sums)
        for k in range(WIDTH):
            if first == 0:
                totals[k] = 0.0 * x[0]
            if first + k < x.shape[0]:
                product = x[first + k] * sums[3 * k]
                totals[k] = product if first == 0 else totals[k] + product
    a = (totals[0] + totals[4]) + (totals[2] + totals[6])  # as `hsum`
    b = (totals[1] + totals[5]) + (totals[3] + totals[7])
    return 0.5 * (a + b)


@kernel(state_value)
def potential(t, q, p):
    """V = ½ q·K q."""
    positions, value = members(q), q[0, 0]
    x = flattened(positions)
    if x.shape[1] == WIDTH:
        return potential_side_by_side(q, p)
    for member in range(x.shape[1]):
        total = gathered(x, 0, 1, member, 0.0) * field(positions, member, p, 0)
        for first in range(WIDTH, x.shape[0], WIDTH):
            eight = gathered(x, first, 1, member, 0.0)
            total = total + eight * field(positions, member, p, first)
        value = with_lane(value, member, 0.5 * hsum(total))
    return value


@kernel()
def potential_gradient(t, q, p, out, work):
    """∂V/∂q = K q, (3.25)."""
    positions, g = members(q), members(flattened(out))
    if g.shape[1] == WIDTH:
        flat, sums = flattened(out), own_sums(out)
        for first in range(0, g.shape[0], WIDTH):
            field_side_by_side(q, p, first, sums)
            for k in range(WIDTH):
                if first + k < g.shape[0]:
                    flat[first + k] = sums[3 * k]
        return
    for member in range(g.shape[1]):
        for first in range(0, g.shape[0], WIDTH):
            scatter(field(positions, member, p, first), g, first, 1, member)


def coupling(positions: np.ndarray, moment: np.ndarray, permeability: float) -> np.ndarray:
    """K_ij = μ0 ν_i ν_j/(4π r³) (1 − 3 r_ij r_ijᵀ/r²), zero for i = j, as a matrix (3n, 3n)."""
    n = len(positions)
    apart = positions[:, None] - positions
    squared = np.sum(apart**2, axis=2) + np.eye(n)
    strength = permeability * np.outer(moment, moment) / (squared * np.sqrt(squared))
    np.fill_diagonal(strength, 0.0)
    outer = apart[..., :, None] * apart[..., None, :] / squared[..., None, None]
    blocks = strength[..., None, None] * (np.eye(3) - 3.0 * outer)
    return blocks.transpose(0, 2, 1, 3).reshape(3 * n, 3 * n)


def _columns_of_eight_rows(matrix: np.ndarray) -> np.ndarray:
    """As `field` reads them: for eight rows at a time all columns; flat."""
    size = len(matrix)
    filled = np.concatenate([matrix, np.zeros((-size % WIDTH, size))])
    return filled.reshape(-1, WIDTH, size).transpose(0, 2, 1).ravel()


def _lee_start(system: "MagneticDipoles") -> np.ndarray:
    """Example 5: all along e1 but the last, the first in motion."""
    if system.count < 2:
        raise InputError("start 'lee' has at least two dipoles; this system has one")
    root_2, root_3 = map(system.arithmetic.sqrt, (2.0, 3.0))
    last = [root_2 / 4.0, root_2 / 4.0, -root_3 / 2.0]
    q = np.array([[1.0, 0.0, 0.0]] * (system.count - 1) + [last])
    omega = np.zeros_like(q)
    omega[0] = [0.0, 0.5, 0.0]
    return np.concatenate([q, omega])


@dataclass(frozen=True)
class MagneticDipoles(DampedSystem):
    """Magnetic dipoles on pivots.

    Parameters
    ----------
    moment : float or tuple of float
        Magnetic moment ν of each dipole, A m².
    mass, length : float or tuple of float
        Mass, kg, and length, m, of each dipole.
    positions : tuple of 3-vectors
        Positions of the pivots, m, one for each dipole.
    inertia_factor : float
        Moment of inertia M_i of a dipole, in units of m_i l_i².
    damping : float or tuple of float or "none"
        Coefficient c_i of the torque −c_i ω_i on each dipole, N m s; ≥ 0. "none": no such force.

    Raises
    ------
    InputError
        If a value has the wrong type or sign, a list the wrong length, or positions coincide.
    """

    moment: PerBody = 0.1
    mass: PerBody = 0.05
    length: PerBody = 0.02
    positions: tuple[tuple[float, ...], ...] = GRID
    inertia_factor: float = 1.0 / 12.0

    name = "magnetic_dipoles"
    sources = ("lee2009",)
    description = "array of magnetic dipoles that turn about fixed pivots"
    units = {"energy": "J", "momentum": "kg m2 s-1", "time": "s"}
    convergence = Convergence(duration=0.5, longest_step=0.03, shortest_step=0.0001)
    parameter_units = {
        "moment": "A m2",
        "mass": "kg",
        "length": "m",
        "positions": "m",
        "inertia_factor": "1",
        "damping": "N m s",
    }
    named_starts = (Start("lee", "Example 5 of Lee et al.: the last of 4×4 tilted", _lee_start),)

    def __post_init__(self) -> None:
        positions = vector_list("positions", self.positions)
        count = len(positions)
        if count > MOST_COUPLED:
            raise InputError(
                f"{count:,} dipoles; at most {MOST_COUPLED:,} are possible", key="positions"
            )
        set_checked(
            self,
            moment=positive_vector("moment", self.moment, count),
            mass=positive_vector("mass", self.mass, count),
            length=positive_vector("length", self.length, count),
            positions=positions,
            inertia_factor=check_number("inertia_factor", self.inertia_factor, above=0.0),
        )
        super().__post_init__()
        first: dict[tuple[float, ...], int] = {}
        for i, position in enumerate(positions):
            if first.setdefault(position, i) != i:
                raise InputError(
                    f"positions[{i}] = {list(position)} is that of dipole {first[position]} too; "
                    "expected distinct pivots",
                    key="positions",
                )

    @property
    def count(self) -> int:
        """The number of dipoles."""
        return len(self.positions)

    @cached_property
    def form(self) -> SpheresLagrangian:
        """The `SpheresLagrangian` of the dipoles."""
        permeability = self.arithmetic.number(PERMEABILITY)
        matrix = coupling(np.array(self.positions), np.array(self.moment), permeability)
        form = SpheresLagrangian(
            inertia=self.inertia_factor * np.array(self.mass) * np.array(self.length) ** 2,
            potential=potential,
            potential_gradient=potential_gradient,
            parameters=_columns_of_eight_rows(matrix),
        )
        return self.damped(form)

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """Energy, angular momentum about the axis of dipoles in a row, constraints."""
        positions = np.array(self.positions)
        axes = axes_along(positions - positions[0])
        return self.quantities_without(axes)
