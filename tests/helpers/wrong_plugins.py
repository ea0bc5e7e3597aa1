"""Wrong plugins: right ones with a text in place of another, or with another declaration."""

import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from plugin_text import LEAPFROG
from right_steps import ALL, INTEGRATORS, kick_drift
from right_systems import (
    BodyTop,
    DoubleWell,
    DrivenSpin,
    FallingBody,
    Pair,
    Precessing,
    along_gravity,
    driven_flow,
    saddle,
    squared_length,
)

from integrators.method import Integrator
from integrators.plugin import (
    ExactFlow,
    SpheresLagrangian,
    SplitFlow,
    accumulate,
    cross,
    kernel,
    simple_method,
    split_flow,
    summed,
)
from sweep.plugins.method_checks import check_method
from sweep.plugins.system_checks import check_system
from systems.plugin import (
    Part,
    Quantity,
    Start,
    quantities_of_spheres,
    quantities_of_spins,
)

HELPERS = Path(__file__).resolve().parent
SYSTEMS = (HELPERS / "right_systems.py").read_text()
STEPS = (HELPERS / "right_steps.py").read_text()
TEXT = """format = 1
name = "plugin"
plugins = ["plugin.py"]

[[experiment]]
name = "own"
system = "{system}"
integrators = [{integrators}]
step_size = [0.1, 0.05]
initial_condition = [{{ random = 2, seed = 1 }}]
duration = 2.0
samples = 10
{more}
"""
SPIN = "driven_spin"
STEPS_BY_NAME = {method.name: method for method in INTEGRATORS}
GRADIENT = "    out[0, 0] = p[1] * sin(p[2] * t)\n"
SUM = "        put(d, i, scale(0.5 * h, add(get(first, i), get(second, i))))\n"
KEPT_SUM = """    work[9 * rows] = work[9 * rows] + 1e-9 * y[0, 0]
    d[0, 0] = d[0, 0] + work[9 * rows]
"""
KICK = "        omega = add(get(y, n + i), kick)\n"
HEUN = "field(t + h, end, p, second, scratch)"


# --- another text --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wrong:
    """A plugin with a text in place of another."""

    what: str
    source: str
    before: str
    after: str
    system: str
    integrators: str = "rk4"
    more: str = ""
    said: str = ""  # when it is refused

    @property
    def text(self):
        assert self.before in self.source, self.what
        return self.source.replace(self.before, self.after)

    @property
    def study(self):
        names = ", ".join(f'"{name}"' for name in self.integrators.split())
        return TEXT.format(system=self.system, integrators=names, more=self.more)


def of_system(what, system, before, after, **options):
    """A wrong system."""
    return Wrong(what, SYSTEMS, before, after, system, **options)


def of_method(what, name, before, after, **options):
    """A wrong integrator."""
    return Wrong(what, STEPS, before, after, "nbody_sphere", name, **options)


ELSEWHERE = "relative to the state, on"
WRONG = (
    of_system(
        "gradient: sign of the term sin νt",
        SPIN,
        GRADIENT,
        GRADIENT.replace("= p", "= -p"),
        said="the differences of driven_energy give",
    ),
    of_system(
        "gradient: sign",
        "double_well",
        "= -2.0 * p[0] * q[0, 2]",
        "= 2.0 * p[0] * q[0, 2]",
        said="the differences of well give",
    ),
    of_system(
        "gradient: of a Nambu system",
        "own_nambu",
        "0.0, -p[0] * w",
        "0.0, p[0] * w",
        said="the differences of nambu_energy give",
    ),
    of_system(
        "derivatives: sign of the torque",
        "own_space_top",
        "sub(torque, ",
        "sub(scale(-1.0, torque), ",
        said="the differences of space_energy give",
    ),
    of_system(
        "force: writes the angular velocity",
        "dragged_well",
        "    put(out, 0, scale(-p[2]",
        "    omega[0, 0] = 0.5\n    put(out, 0, scale(-p[2]",
        said="writes to its 'omega'",
    ),
    of_system(
        "gradient: writes the state",
        "double_well",
        "    work[0] = -2.0",
        "    q[0, 1] = 0.0\n    work[0] = -2.0",
        said="writes to its 'q'",
    ),
    of_system(
        "gradient: work too small",
        "double_well",
        "work=lambda rows: 2",
        "work=lambda rows: 1",
        said="beyond the 1 numbers of its 'work'",
    ),
    of_system(
        "gradient: reads scratch before it is written",
        "double_well",
        "    work[1] = 0.0 * q[0, 0]\n",
        "    work[1] = 0.0 * work[1]\n",
        said="is nan along a direction",
    ),
    of_system(
        "generator: the energy is not kept",
        "falling_body",
        "out[3, c] = p[3 + c]",
        "out[3, c] = -p[3 + c]",
        said="'energy' of 'falling_body' is declared to be conserved",
    ),
    of_method(
        "step: writes the state",
        "kick_drift",
        KICK,
        KICK + "        put(y, n + i, omega)\n",
        said="writes to its 'y'",
    ),
    of_method(
        "step: keeps a sum from call to call",
        "own_heun",
        SUM,
        SUM + KEPT_SUM,
        said="in row 0 of its 'd'",
    ),
    of_method(
        "step: writes beyond the increment",
        "kick_drift",
        KICK,
        KICK + "        put(d, 2 * n + i, kick)\n",
        said="index 4 is out of bounds",
    ),
    of_method(
        "step: a stage at the wrong time",
        "own_heun",
        HEUN,
        "field(t, end, p, second, scratch)",
        said="has order 1.0",
    ),
    of_method(
        "equation: 99.99 % of the field",
        "own_heun",
        SUM,
        SUM.replace("0.5", "0.49995"),
        said=ELSEWHERE,
    ),
    of_method(
        "equation: half the time",
        "lie_midpoint",
        "i, scale(h,",
        "i, scale(0.5 * h,",
        said=ELSEWHERE,
    ),
    of_method(
        "equation: two bodies of three",
        "strang",
        "    n = y.shape[0] // 2\n",
        "    n = 2\n",
        said="on 'nbody_sphere'",
    ),
    of_method(
        "equation: three bodies of the study's five",
        "kick_drift",
        "    n = y.shape[0] // 2\n",
        "    n = min(y.shape[0] // 2, 3)\n",
        more="parameters = { count = 5 }",
        said="on 'nbody_sphere'",
    ),
    of_system(
        "arguments: too few of a system's function",
        SPIN,
        "def driven_energy(t, w, p):",
        "def driven_energy(w, p):",
        said="'driven_energy' in line 59 takes (w, p); expected (t, q, p)",
    ),
    of_method(
        "arguments: too many of a step",
        "strang",
        "def strang(gradient, t, h, y, p, d, work, scratch):",
        "def strang(gradient, t, h, y, p, d, work, scratch, more):",
        said="work, scratch, more); expected (function, t, h, y, p, d, work, scratch)",
    ),
    of_method(
        "print: in a step",
        "strang",
        "    gradient(t + 0.5 * h, mid, p, slope, scratch)\n",
        "    gradient(t + 0.5 * h, mid, p, slope, scratch)\n    print(t)\n",
        said="calls 'print', which each step of each run would do",
    ),
)


def right_plugins():
    """The right plugins: name, source and study of each."""
    made = Wrong("", "", "", "", "nbody_sphere", "geodesic_leapfrog geodesic_leapfrog+suzuki4")
    yield "guide: geodesic_leapfrog", LEAPFROG, made.study
    for name in re.findall(r'(?m)^    name = "(\w+)"', SYSTEMS):
        record = 'record = ["squared_length"]' if name == SPIN else ""
        yield name, SYSTEMS, Wrong("", "", "", "", name, more=record).study
    for name in STEPS_BY_NAME:
        yield name, STEPS, Wrong("", "", "", "", "nbody_sphere", name).study


# --- another declaration, and the kernels of the right ones --------------------------------------


@kernel(split_flow)
def secants(piece, t, h, w, low, p):
    accumulate(low, 0, cross((0.0, 0.0, -h * p[0]), summed(w, low, 0)))


def of_class(cls, said, **attributes):
    """The check of a system with other attributes, each made of the system; what it says."""

    def check():
        system = cls()
        for name, make in attributes.items():
            vars(system)[name] = make(system)
        check_system(system)

    return check, said


def of_form(cls, said, **changes):
    return of_class(cls, said, form=lambda one: replace(one.form, **changes))


def of_quantity(cls, said, *arguments, **options):
    return of_class(cls, said, quantities=lambda one: (Quantity(*arguments, **options),))


def of_spins(cls, said, **options):
    return of_class(
        cls, said, quantities=lambda one: quantities_of_spins(one.form, one.units, **options)
    )


def of_step(name, said, **changes):
    """The same of an integrator."""
    method = replace(STEPS_BY_NAME[name], **changes)
    return partial(check_method, Integrator(method)), said


NOT_KEPT = "is declared to be conserved, and changes"
DECLARED = {
    "time_dependent: not declared": of_form(
        DrivenSpin,
        "it depends on time. Give its form time_dependent=True",
        time_dependent=False,
    ),
    "momentum: not kept by the potential": of_class(
        DoubleWell,
        f"'momentum' of 'double_well' {NOT_KEPT}",
        quantities=lambda one: quantities_of_spheres(one.form, one.units, momentum="z"),
    ),
    "total: spins that turn": of_spins(
        DrivenSpin, f"'momentum' of 'driven_spin' {NOT_KEPT}", total="z"
    ),
    "energy_degree: of products of spins": of_spins(
        Pair, "not a sum of quadratic functions of one spin each", energy_degree="quadratic"
    ),
    "degree: a square declared linear": of_quantity(
        DrivenSpin,
        "is not linear in the state",
        *("squared_length", "casimir", "1", "|w|²", squared_length),
        degree="linear",
    ),
    "kind: Π·Π for the Casimir Π·Γ": of_quantity(
        BodyTop, f"'spin' of 'own_top' {NOT_KEPT}", "spin", "casimir", "1", "Π·Π", squared_length
    ),
    "kind: an unknown word": of_quantity(
        BodyTop, "Did you mean 'casimir'?", "spin", "casimirs", "1", "Π·Γ", along_gravity
    ),
    "energy: not that of the form": of_quantity(
        BodyTop, "the energy of its form", "energy", "energy", "1", "energy", along_gravity
    ),
    "split: pieces do not add up to the field": of_form(
        DrivenSpin, "do not add up to the field", split=SplitFlow(driven_flow, pieces=1)
    ),
    "split: a piece is not an exact flow": of_form(
        DrivenSpin, "piece 0 of the split flow", split=SplitFlow(secants, pieces=1)
    ),
    "exact: the flow of another field": of_form(
        Precessing, "the exact flow of 'own_precession'", exact=ExactFlow(driven_flow)
    ),
    "rigid_body: in an oscillating field": of_form(
        DrivenSpin, "is declared a rigid_body", rigid_body=True
    ),
    "named_starts: off the manifold": of_class(
        DoubleWell,
        "expected at most 1e-09. Let its function return a state on the manifold",
        named_starts=lambda one: (Start("saddle", "", lambda one: 1.1 * saddle(one)),),
    ),
    "lengths: of any length, declared 'unit'": of_class(
        Precessing,
        "start 'aside' of 'own_precession'",
        named_starts=lambda one: (Start("aside", "", lambda one: np.array([[2.0, 0.0, 0.0]])),),
    ),
    "unit_rows: of a vector whose length changes": of_form(
        FallingBody, "declared by unit_rows", unit_rows=(3,)
    ),
    "parts: a direction that does not stay one": of_class(
        FallingBody,
        "the constraint 'unit_length' of 'falling_body'",
        parts=lambda one: (one.parts[0], Part("Omega", "direction"), *one.parts[2:]),
    ),
    "symmetric: a kick, then a drift": of_step(
        "kick_drift", "is declared symmetric", symmetric=True
    ),
    "symplectic_form: of Heun's method": of_step(
        "own_heun", "the symplectic form", preserves={"symplectic_form": ()}
    ),
    "unit_length: of Heun's method": of_step(
        "own_heun", "changes 'unit_length'", preserves={"unit_length": ALL}
    ),
    "momentum_map: of Heun's method": of_step(
        "own_heun", "changes 'momentum'", preserves={"momentum_map": ALL}
    ),
    "casimir: of Heun's method": of_step(
        "own_heun", "changes 'casimir'", preserves={"casimir": ALL}
    ),
    "preserves: an unknown word": of_step(
        "own_heun",
        "unknown word in what 'own_heun' preserves",
        preserves={"momentum": ALL},
    ),
    "work: too small": (
        lambda: check_method(
            Integrator(
                simple_method(
                    "kick_drift",
                    "",
                    kick_drift,
                    form=SpheresLagrangian,
                    order=1,
                    work=lambda rows: 3,
                )
            )
        ),
        "its 'work' has 3 numbers",
    ),
    "evaluations: 1 of 2": of_step(
        "own_heun", "2 times a step; it is declared to do so 1 times", evaluations=1
    ),
    "suits: any inertia matrix": of_step(
        "kick_drift", "on 'spherical_pendulum_chain'", suits=lambda form: not form.forced
    ),
    "order: 3, along an action": of_step(
        "lie_midpoint", "is declared to have order 3, and has order 2.0", order=3
    ),
}
