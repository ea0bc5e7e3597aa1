"""Energy, momentum and constraints of a Lagrangian on two-spheres, as kernels.

L = ½ Σ M_ij q̇_i·q̇_j − V(q), bodies i = 1…n on the unit sphere (Lee, Leok, McClamroch,
*Lagrangian mechanics and variational integrators on two-spheres*, eq. (2.2)). The functions
here make kernels from a system's potential, gradient and force. Those on the whole state read
the packed parameters ``[M, M⁻¹, the system's own]``, where M and M⁻¹ lie as one of the layouts of
`inertia` says, and a state of 2n rows: q, then ω (formulation ``q_omega``) or q̇ (``q_qdot``).
Where there is a force, one more row holds the work that it has done so far, as (W, 0, 0).
"""

from integrators.compiler.kernels import Kernel, inlined, kernel, state_value, whole_state
from integrators.compiler.lanes import fma, select
from integrators.compiler.vectors import (
    accumulate,
    axpy,
    cross,
    dot,
    get,
    increment,
    normalizing,
    put,
    scale,
)
from integrators.compiler.views import rows, rows_of, tail
from integrators.solvers import chains
from integrators.solvers.inertia import CHAIN, DIAGONAL


@inlined
def packed_size(n, layout):
    """Elements of the packed parameters before the system's own."""
    if layout == CHAIN:
        return 2 * chains.HALF * n
    return 2 * n if layout == DIAGONAL else 2 * n * n


@inlined
def conjugate_momentum(v, p, n, i, layout):
    """Row i of M q̇, Σ_j M_ij q̇_j, of a diagonal or full matrix."""
    if layout == DIAGONAL:
        return scale(p[i], get(v, i))
    total = scale(p[i * n], get(v, 0))
    for j in range(1, n):
        total = axpy(p[i * n + j], get(v, j), total)
    return total


@inlined
def conjugate_momenta(v, p, n, layout, out):
    """M q̇ into `out`, another stack."""
    if layout == CHAIN:
        chains.apply_inertia(p, n, v, out)
    else:
        for i in range(n):
            put(out, i, conjugate_momentum(v, p, n, i, layout))


@inlined
def velocities(y, n, v):
    """q̇_i = ω_i × q_i, (2.10), from the rows q, ω of `y` into `v`."""
    for i in range(n):
        put(v, i, cross(get(y, n + i), get(y, i)))


# --- energy, momentum, constraints ------------------------------------------------------------


def energy_kernel(potential: Kernel, layout: int) -> Kernel:
    """½ Σ M_ij q̇_i·q̇_j + V of a state (q, q̇), into ``out[0, 0]``."""
    value = energy_value(potential, layout).inline

    def energy(t, y, p, out, work):
        out[0, 0] = value(t, y, p)

    return Kernel(energy, whole_state, made_from=(potential, layout))


@inlined
def kinetic_energy(v, p, n, layout):
    """½ Σ M_ij q̇_i·q̇_j"""
    if layout == CHAIN:
        return chains.kinetic_energy(p, n, v)
    total = 0.0 * v[0, 0]  # of the state's element type
    for i in range(n):
        here = get(v, i)
        if layout == DIAGONAL:
            total = fma(0.5 * p[i], dot(here, here), total)
        else:
            half = scale(0.5 * p[i * n + i], here)
            for j in range(i):
                half = axpy(p[i * n + j], get(v, j), half)
            total = total + dot(here, half)
    return total


def energy_value(potential: Kernel, layout: int) -> Kernel:
    """½ Σ M_ij q̇_i·q̇_j + V of a state (q, q̇), as a number."""
    potential_of = potential.inline

    def energy(t, y, p):
        n = y.shape[0] // 2
        q, v = rows(y, 0, n), rows(y, n, n)
        kinetic = kinetic_energy(v, p, n, layout)
        return kinetic + potential_of(t, q, tail(p, packed_size(n, layout)))

    return Kernel(energy, state_value, made_from=(potential, layout))


def energy_balance_kernel(potential: Kernel, layout: int) -> Kernel:
    """E − W of a forced system's state (q, q̇) and work, into ``out[0, 0]``."""
    energy_of = energy_value(potential, layout).inline

    def energy_balance(t, y, p, out, work):
        out[0, 0] = energy_of(t, y, p) - y[y.shape[0] - 1, 0]

    return Kernel(energy_balance, whole_state, made_from=(potential, layout))


@kernel()
def work_done(t, y, p, out, work):
    """W of a forced system's state, into ``out[0, 0]``."""
    out[0, 0] = y[y.shape[0] - 1, 0]


def angular_momentum_kernel(layout: int) -> Kernel:
    """Σ_i q_i × Σ_j M_ij q̇_j of a state (q, q̇), into ``out[0, :]``."""

    def angular_momentum(t, y, p, out, work):
        n = y.shape[0] // 2
        q, v = rows(y, 0, n), rows(y, n, n)
        if layout == CHAIN:
            put(out, 0, chains.angular_momentum(p, n, q, v))
        else:
            put(out, 0, cross(get(q, 0), conjugate_momentum(v, p, n, 0, layout)))
            for i in range(1, n):
                accumulate(out, 0, cross(get(q, i), conjugate_momentum(v, p, n, i, layout)))

    return Kernel(angular_momentum, whole_state, made_from=(layout,))


@kernel()
def unit_length_error(t, y, p, out, work):
    """max_i |q_i·q_i − 1| of a state in either formulation, into ``out[0, 0]``."""
    largest = 0.0 * y[0, 0]  # of the state's element type
    for i in range(y.shape[0] // 2):
        error = abs(dot(get(y, i), get(y, i)) - 1.0)
        largest = select(error > largest, error, largest)
    out[0, 0] = largest


@kernel()
def tangency_error(t, y, p, out, work):
    """max_i |q_i·ω_i| or |q_i·q̇_i|, as the formulation has it, into ``out[0, 0]``."""
    n = y.shape[0] // 2
    largest = 0.0 * y[0, 0]  # of the state's element type
    for i in range(n):
        error = abs(dot(get(y, i), get(y, n + i)))
        largest = select(error > largest, error, largest)
    out[0, 0] = largest


def monitor_kernel(potential: Kernel, layout: int, formulation: str, forced: bool) -> Kernel:
    """Kernel of the quantities whose statistics are kept: energy, mean_i |q_i·q_i − 1|.

    It writes them to ``out[0]``; for a forced system the energy balance E − W instead of E.
    """
    energy = energy_value(potential, layout).inline
    turning = formulation == "q_omega"

    def monitor(t, y, p, out, work):
        n = y.shape[0] // 2
        if turning:
            state = rows_of(work, 0, 2 * n)
            for i in range(n):
                put(state, i, get(y, i))
            velocities(y, n, rows(state, n, n))
            out[0, 0] = energy(t, state, p)
        else:
            out[0, 0] = energy(t, y, p)
        if forced:
            out[0, 0] = out[0, 0] - y[2 * n, 0]
        total = abs(dot(get(y, 0), get(y, 0)) - 1.0)
        for i in range(1, n):
            total = total + abs(dot(get(y, i), get(y, i)) - 1.0)
        out[0, 1] = total / n

    made_from = (potential, layout, formulation, forced)
    return Kernel(monitor, whole_state, made_from, work=lambda rows: 3 * rows)


# --- projections -------------------------------------------------------------------------------


@kernel()
def project_position(t, y, p, low, work):
    """Bring every q_i to unit length, by increments that `low` compensates."""
    for i in range(y.shape[0] // 2):
        increment(y, low, i, normalizing(get(y, i)))


@kernel()
def project_tangent(t, y, p, low, work):
    """Bring q_i to unit length and make ω_i (or q̇_i) orthogonal to it."""
    n = y.shape[0] // 2
    for i in range(n):
        increment(y, low, i, normalizing(get(y, i)))
        q = get(y, i)
        increment(y, low, n + i, scale(-dot(q, get(y, n + i)), q))
