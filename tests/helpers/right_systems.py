"""Right systems, one of each form, of which `wrong_plugins` makes wrong ones."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from integrators.plugin import (
    RIGHT_ROTATION,
    TRANSLATION,
    CotangentHamiltonian,
    ExactFlow,
    HomogeneousFlow,
    LiePoissonHamiltonian,
    NambuHamiltonian,
    SpheresLagrangian,
    SpinHamiltonian,
    SplitFlow,
    accumulate,
    axpy,
    check_number,
    cos,
    cross,
    dot,
    generalized_force,
    get,
    kernel,
    product,
    put,
    scale,
    sin,
    split_flow,
    state_value,
    sub,
    summed,
    turning,
)
from systems.plugin import (
    MechanicalSystem,
    Observable,
    Part,
    Quantity,
    RigidSystem,
    SpinSystem,
    Start,
    checked_parts,
    quantities_of_nambu,
    quantities_of_spheres,
    quantities_of_spins,
    set_checked,
)

UNITS = {"energy": "1", "momentum": "1", "time": "1"}


# --- a spin: H = a w_z + b sin(νt) w_x, p = (a, b, ν) --------------------------------------------


@kernel(state_value)
def driven_energy(t, w, p):
    return p[0] * w[0, 2] + p[1] * sin(p[2] * t) * w[0, 0]


@kernel()
def driven_gradient(t, w, p, out, work):
    out[0, 0] = p[1] * sin(p[2] * t)
    out[0, 1] = 0.0
    out[0, 2] = p[0]


@kernel(split_flow)
def driven_flow(piece, t, h, w, low, p):
    if piece == 0:
        accumulate(low, 0, turning((0.0, 0.0, -h * p[0]), summed(w, low, 0)))
    else:
        angle = p[1] * (cos(p[2] * (t + h)) - cos(p[2] * t)) / p[2]
        accumulate(low, 0, turning((angle, 0.0, 0.0), summed(w, low, 0)))


@kernel()
def squared_length(t, w, p, out, work):
    out[0, 0] = dot(get(w, 0), get(w, 0))


@dataclass(frozen=True)
class DrivenSpin(SpinSystem):
    larmor: float = 1.0
    drive: float = 0.2
    frequency: float = 1.1

    name = "driven_spin"
    description = "a spin in a static field and an oscillating one"
    parameter_units = {"larmor": "1", "drive": "1", "frequency": "1"}
    named_starts = (Start("aside", "along e1", lambda one: np.array([[1.0, 0.0, 0.0]])),)

    def __post_init__(self):
        set_checked(self, larmor=check_number("larmor", self.larmor))

    @cached_property
    def form(self):
        numbers = np.array([self.larmor, self.drive, self.frequency])
        return SpinHamiltonian(
            np.ones(1), driven_energy, driven_gradient, numbers,
            split=SplitFlow(driven_flow, pieces=2), time_dependent=True,
        )  # fmt: skip

    @cached_property
    def quantities(self):
        return quantities_of_spins(self.form, self.units)


# --- a free body: H = ½ Σ p_k w_k² ---------------------------------------------------------------


@kernel(state_value)
def body_energy(t, w, p):
    x, y, z = w[0, 0], w[0, 1], w[0, 2]
    return 0.5 * (p[0] * x * x + p[1] * y * y + p[2] * z * z)


@kernel()
def body_gradient(t, w, p, out, work):
    for k in range(3):
        out[0, k] = p[k] * w[0, k]


@dataclass(frozen=True)
class FreeBody(SpinSystem):
    length: float = 1.0

    name = "own_body"
    description = "a free rigid body"
    parameter_units = {"length": "1"}
    named_starts = (Start("tilted", "(0.6, 0, 0.8)", lambda one: np.array([[0.6, 0.0, 0.8]])),)

    @cached_property
    def form(self):
        numbers = np.array([1.0, 0.5, 0.4])
        return SpinHamiltonian(np.ones(1), body_energy, body_gradient, numbers, rigid_body=True)

    @cached_property
    def quantities(self):
        return quantities_of_spins(self.form, self.units)


# --- two spins, coupled: H = J w_0·w_1 -----------------------------------------------------------


@kernel(state_value)
def pair_energy(t, w, p):
    return p[0] * dot(get(w, 0), get(w, 1))


@kernel()
def pair_gradient(t, w, p, out, work):
    put(out, 0, scale(p[0], get(w, 1)))
    put(out, 1, scale(p[0], get(w, 0)))


@dataclass(frozen=True)
class Pair(SpinSystem):
    coupling: float = 1.0

    name = "own_pair"
    description = "two spins that are coupled"
    parameter_units = {"coupling": "1"}
    named_starts = (
        Start("across", "at a right angle", lambda one: np.array([[1.0, 0, 0], [0, 1.0, 0]])),
    )

    @cached_property
    def form(self):
        return SpinHamiltonian(np.ones(2), pair_energy, pair_gradient, np.array([self.coupling]))

    @cached_property
    def quantities(self):
        return quantities_of_spins(self.form, self.units, total="xyz")


# --- a spin that precesses: H = a·w --------------------------------------------------------------


@kernel(state_value)
def axis_energy(t, w, p):
    return dot((p[0], p[1], p[2]), get(w, 0))


@kernel()
def axis_gradient(t, w, p, out, work):
    put(out, 0, (p[0], p[1], p[2]))


@kernel(split_flow)
def axis_flow(piece, t, h, w, low, p):
    accumulate(low, 0, turning(scale(-h, (p[0], p[1], p[2])), summed(w, low, 0)))


@dataclass(frozen=True)
class Precessing(SpinSystem):
    size: float = 1.0

    name = "own_precession"
    description = "a spin that precesses about an axis"
    parameter_units = {"size": "1"}
    named_starts = (Start("aside", "along e1", lambda one: np.array([[1.0, 0.0, 0.0]])),)

    @cached_property
    def form(self):
        numbers = self.size * np.array([0.3, -0.5, 0.7])
        return SpinHamiltonian(
            np.ones(1), axis_energy, axis_gradient, numbers, exact=ExactFlow(axis_flow)
        )

    @cached_property
    def quantities(self):
        return quantities_of_spins(self.form, self.units, energy_degree="linear")


# --- a particle in a double well: V = k (1 − z²) + b x, with scratch -----------------------------


@kernel(state_value)
def well(t, q, p):
    return p[0] * (1.0 - q[0, 2] * q[0, 2]) + p[1] * q[0, 0]


@kernel(work=lambda rows: 2)
def well_gradient(t, q, p, out, work):
    work[0] = -2.0 * p[0] * q[0, 2]
    work[1] = 0.0 * q[0, 0]
    out[0, 0] = p[1] + work[1]
    out[0, 1] = work[1]
    out[0, 2] = work[0]


@kernel(generalized_force)
def dragging(t, q, omega, p, out, work):
    put(out, 0, scale(-p[2], cross(get(omega, 0), get(q, 0))))


def saddle(one):
    return np.array([[0.6, 0.0, 0.8], [0.1, 1.2, -0.075]])


@dataclass(frozen=True)
class DoubleWell(MechanicalSystem):
    depth: float = 1.0
    tilt: float = 0.3

    name = "double_well"
    description = "a particle on a sphere with wells at both poles, tilted"
    units = UNITS
    parameter_units = {"depth": "1", "tilt": "1"}
    named_starts = (Start("saddle", "near the saddle", saddle),)

    @cached_property
    def form(self):
        return SpheresLagrangian(np.ones(1), well, well_gradient, np.array([self.depth, self.tilt]))

    @cached_property
    def quantities(self):
        return quantities_of_spheres(self.form, self.units, momentum="")


@dataclass(frozen=True)
class DraggedWell(MechanicalSystem):
    depth: float = 1.0
    drag: float = 0.2

    name = "dragged_well"
    description = "the same without tilt, and with friction"
    units = UNITS
    parameter_units = {"depth": "1", "drag": "1"}
    named_starts = (Start("saddle", "near the saddle", saddle),)

    @cached_property
    def form(self):
        numbers = np.array([self.depth, 0.0, self.drag])
        return SpheresLagrangian(np.ones(1), well, well_gradient, numbers, dragging)

    @cached_property
    def quantities(self):
        return quantities_of_spheres(self.form, self.units, momentum="")


# --- a Nambu system: C = ½ w·Cw, H = ½ (x² − z²) -------------------------------------------------


@kernel(state_value)
def nambu_energy(t, w, p):
    return 0.5 * p[0] * (w[0, 0] * w[0, 0] - w[0, 2] * w[0, 2])


@kernel()
def nambu_gradient(t, w, p, out, work):
    put(out, 0, (p[0] * w[0, 0], 0.0, -p[0] * w[0, 2]))


@dataclass(frozen=True)
class OwnNambu(SpinSystem):
    size: float = 1.0

    name = "own_nambu"
    description = "a Nambu system"
    parameter_units = {"size": "1"}
    named_starts = (Start("aside", "off the axes", lambda one: np.array([[-1.5, 0.8, 1.1]])),)

    @cached_property
    def form(self):
        matrix = np.diag([1.0, -1.0, 0.5])
        return NambuHamiltonian(matrix, nambu_energy, nambu_gradient, np.array([self.size]))

    @cached_property
    def quantities(self):
        return quantities_of_nambu(self.form, self.units, energy_degree="quadratic")


# --- a heavy top on se(3)*, (Π, Γ), and on T*SO(3), (Q, π): p = (1/I (3), Mℓ), Γ₀ = −e3 ----------


@kernel(state_value)
def top_energy(t, y, p):
    total = 0.5 * (p[0] * y[0, 0] * y[0, 0] + p[1] * y[0, 1] * y[0, 1] + p[2] * y[0, 2] * y[0, 2])
    return total + p[3] * y[1, 1]


@kernel()
def top_gradient(t, y, p, out, work):
    put(out, 0, (p[0] * y[0, 0], p[1] * y[0, 1], p[2] * y[0, 2]))
    put(out, 1, (0.0, p[3], 0.0))


@kernel()
def along_gravity(t, y, p, out, work):
    out[0, 0] = dot(get(y, 0), get(y, 1))


@dataclass(frozen=True)
class BodyTop(RigidSystem):
    weight: float = 0.5

    name = "own_top"
    description = "a heavy top in the body's frame"
    units = UNITS
    parameter_units = {"weight": "1"}
    parts = checked_parts(Part("Pi", "vector"), Part("Gamma", "vector"))
    named_starts = (
        Start("fast", "a spin", lambda one: np.array([[0.2, 3.0, -0.1], [0.0, 0.6, -0.8]])),
    )

    @cached_property
    def form(self):
        numbers = np.array([1.0, 0.6, 0.8, self.weight])
        return LiePoissonHamiltonian(top_energy, top_gradient, numbers)

    @cached_property
    def quantities(self):
        return (
            Quantity("energy", "energy", "1", "energy", self.form.energy),
            Quantity("spin", "casimir", "1", "Π·Γ", along_gravity, degree="quadratic"),
        )


@kernel(state_value)
def space_energy(t, y, p):
    total = -p[3] * y[2, 1]
    for k in range(3):
        own = y[0, k] * y[3, 0] + y[1, k] * y[3, 1] + y[2, k] * y[3, 2]
        total = total + 0.5 * p[k] * own * own
    return total


@kernel()
def space_derivatives(t, y, p, out, work):
    put(out, 0, scale(0.0, get(y, 3)))
    for k in range(3):
        axis = (y[0, k], y[1, k], y[2, k])
        put(out, 0, axpy(p[k] * dot(axis, get(y, 3)), axis, get(out, 0)))
    torque = (p[3] * y[1, 1], -p[3] * y[0, 1], 0.0 * y[0, 0])
    put(out, 1, sub(torque, cross(get(out, 0), get(y, 3))))


@kernel()
def vertical_momentum(t, y, p, out, work):
    out[0, 0] = y[3, 2]


@dataclass(frozen=True)
class SpaceTop(RigidSystem):
    weight: float = 0.5

    name = "own_space_top"
    description = "a heavy top in space"
    units = UNITS
    parameter_units = {"weight": "1"}
    parts = checked_parts(Part("Q", "rotation"), Part("pi", "vector"))
    named_starts = (Start("fast", "a spin", lambda one: np.vstack([np.eye(3), [0.2, 3.0, -0.1]])),)

    @cached_property
    def form(self):
        numbers = np.array([1.0, 0.6, 0.8, self.weight])
        return CotangentHamiltonian("SO(3)", space_energy, space_derivatives, numbers)

    @cached_property
    def quantities(self):
        momentum = Quantity(
            "momentum", "momentum_map", "1", "vertical momentum", vertical_momentum, degree="linear"
        )
        energy = Quantity("energy", "energy", "1", "energy", self.form.energy)
        return (energy, momentum, *self.constraints)


# --- a body that tumbles and falls, along an action: R, Ω, x, v ----------------------------------


@kernel()
def tumbling(t, y, p, out, work):
    for c in range(3):
        out[0, c] = y[3, c]
        out[1, c] = p[c] * y[3, (c + 1) % 3] * y[3, (c + 2) % 3]
        out[2, c] = y[5, c]
        out[3, c] = p[3 + c]


@kernel()
def falling_energy(t, y, p, out, work):
    fall = p[3] * y[4, 0] + p[4] * y[4, 1] + p[5] * y[4, 2]
    out[0, 0] = 0.5 * dot(get(y, 5), get(y, 5)) - fall


@dataclass(frozen=True)
class FallingBody(RigidSystem):
    gravity: float = 1.0

    name = "falling_body"
    description = "a body that tumbles and falls"
    units = UNITS
    parameter_units = {"gravity": "1"}
    parts = checked_parts(
        Part("R", "rotation"), Part("Omega", "vector"), Part("x", "vector"), Part("v", "vector")
    )
    named_starts = (
        Start(
            "thrown", "thrown",
            lambda one: np.vstack([np.eye(3), [0.6, 0.0, 0.8], np.zeros(3), [1.0, 0.0, 5.0]]),
        ),
    )  # fmt: skip

    @cached_property
    def form(self):
        inertia = np.array([1.0, 2.0, 2.5])
        ratios = (np.roll(inertia, -1) - np.roll(inertia, -2)) / inertia
        action = product(RIGHT_ROTATION, TRANSLATION, TRANSLATION, TRANSLATION)
        numbers = np.array([*ratios, 0.0, 0.0, -self.gravity])
        return HomogeneousFlow(tumbling, action, falling_energy, numbers)

    @cached_property
    def quantities(self):
        energy = Quantity("energy", "energy", "1", "of the fall", self.form.energy)
        return (energy, *self.constraints)


SYSTEMS = (
    DrivenSpin, FreeBody, Pair, Precessing, DoubleWell, DraggedWell, OwnNambu, BodyTop, SpaceTop,
    FallingBody,
)  # fmt: skip
OBSERVABLES = (
    Observable(
        name="squared_length", units="1", long_name="|w|²", function=squared_length,
        systems=("driven_spin",), kind="casimir", degree="quadratic",
    ),
)  # fmt: skip
