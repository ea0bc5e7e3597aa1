"""Wrong plugins, each a right one with a text in place of another, and the right ones."""

import re
from dataclasses import dataclass
from pathlib import Path

from plugin_text import LEAPFROG

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
BODIES = ("nbody_sphere", "spherical_pendulum_chain")
SPIN, PAIR, AXIS = "driven_spin", "own_pair", "own_precession"
GRADIENT = "    out[0, 0] = p[1] * sin(p[2] * t)\n"
BODY = """p[2] * z * z)


@kernel()
def body_gradient(t, w, p, out, work):
    for k in range(3):
        out[0, k] = p[k] * w[0, k]
"""
CUBIC_BODY = BODY.replace("* z * z)", "* z * z) + 0.1 * z * z * z")
CUBIC_BODY += "    out[0, 2] = out[0, 2] + 0.3 * w[0, 2] * w[0, 2]\n"
FIRST = "    gradient(t, y, p, slope, scratch)\n"
KICKS = """    for i in range(n):
        kick = scale(-h * p[n + i], cross(get(y, i), get(slope, i)))
        omega = add(get(y, n + i), kick)
        put(d, n + i, kick)
        put(d, i, turning_unit(scale(h, omega), get(y, i)))
"""
SUM = "        put(d, i, scale(0.5 * h, add(get(first, i), get(second, i))))\n"
KEPT_SUM = """    work[9 * rows] = work[9 * rows] + 1e-9 * y[0, 0]
    d[0, 0] = d[0, 0] + work[9 * rows]
"""
HEUN = "field(t + h, end, p, second, scratch)"


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


def of_method(what, name, before, after, system="nbody_sphere", source=STEPS, **options):
    """A wrong integrator."""
    return Wrong(what, source, before, after, system, name, **options)


def kept(name, words):
    """In place of what `own_heun` preserves, which is nothing."""
    return f"preserves={{{name!r}: {words}}}, work=lambda rows: 9 * rows"


ELSEWHERE = "relative to the state, on"
NOTHING = "work=lambda rows: 9 * rows"
WRONG = (
    of_system(
        "gradient: sign of the term sin νt",
        SPIN,
        GRADIENT,
        GRADIENT.replace("= p", "= -p"),
        said="the differences of driven_energy give",
    ),
    of_system(
        "time_dependent: not declared",
        SPIN,
        ", time_dependent=True",
        "",
        said="it depends on time. Give its form time_dependent=True",
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
        "momentum: not kept by the potential",
        "double_well",
        'momentum=""',
        'momentum="z"',
        said="'momentum' of 'double_well' is declared to be conserved, and changes",
    ),
    of_system(
        "total: spins that turn",
        SPIN,
        "(self.form, self.units)\n\n\n# --- a free",
        '(self.form, self.units, total="z")\n\n\n# --- a free',
        said="'momentum' of 'driven_spin' is declared to be conserved, and changes",
    ),
    of_system(
        "energy_degree: of products of spins",
        PAIR,
        'total="xyz")',
        'total="xyz", energy_degree="quadratic")',
        said="not a sum of quadratic functions of one spin each",
    ),
    of_system(
        "degree: a square declared linear",
        SPIN,
        'kind="casimir", degree="quadratic"',
        'kind="casimir", degree="linear"',
        more='record = ["squared_length"]',
        said="is not linear in the state",
    ),
    of_system(
        "kind: Π·Π for the Casimir Π·Γ",
        "own_top",
        "dot(get(y, 0), get(y, 1))",
        "dot(get(y, 0), get(y, 0))",
        said="'spin' of 'own_top' is declared to be conserved",
    ),
    of_system(
        "split: pieces do not add up to the field",
        SPIN,
        "(0.0, 0.0, -h * p[0])",
        "(0.0, 0.0, -0.9 * h * p[0])",
        said="do not add up to the field",
    ),
    of_system(
        "split: a piece is not an exact flow",
        SPIN,
        "turning((0.0, 0.0, -h * p[0]), summed(w, low, 0))",
        "cross((0.0, 0.0, -h * p[0]), summed(w, low, 0))",
        said="piece 0 of the split flow",
    ),
    of_system(
        "exact: the flow of another field",
        AXIS,
        "scale(-h, (p[0], p[1], p[2]))",
        "scale(-h, (p[0], p[1], 0.9 * p[2]))",
        integrators="exact",
        said="the exact flow of 'own_precession'",
    ),
    of_system(
        "rigid_body: with a cubic term",
        "own_body",
        BODY,
        CUBIC_BODY,
        integrators="moser_veselov",
        said="is declared a rigid_body",
    ),
    of_system(
        "named_starts: off the manifold",
        "double_well",
        "[0.6, 0.0, 0.8], [0.1, 1.2, -0.075]",
        "[0.6, 0.0, 0.9], [0.1, 1.2, -0.075]",
        said="expected at most 1e-09. Let its function return a state on the manifold",
    ),
    of_system(
        "lengths: of any length, declared 'unit'",
        AXIS,
        "np.array([[1.0, 0.0, 0.0]])",
        "np.array([[2.0, 0.0, 0.0]])",
        said="start 'aside' of 'own_precession'",
    ),
    of_system(
        "generator: the energy is not kept",
        "falling_body",
        "out[3, c] = p[3 + c]",
        "out[3, c] = -p[3 + c]",
        said="'energy' of 'falling_body' is declared to be conserved",
    ),
    of_system(
        "unit_rows: of a vector whose length changes",
        "falling_body",
        "falling_energy, numbers)",
        "falling_energy, numbers, unit_rows=(3,))",
        said="declared by unit_rows",
    ),
    of_system(
        "energy: not that of the form",
        "own_top",
        '"energy", self.form.energy)',
        '"energy", along_gravity)',
        said="the energy of its form",
    ),
    of_system(
        "kind: an unknown word",
        "own_top",
        '"spin", "casimir"',
        '"spin", "casimirs"',
        said="Did you mean 'casimir'?",
    ),
    of_system(
        "parts: a direction that does not stay one",
        "falling_body",
        'Part("Omega", "vector")',
        'Part("Omega", "direction")',
        said="the constraint 'unit_length' of 'falling_body'",
    ),
    of_method(
        "symmetric: a kick, then a drift",
        "kick_drift",
        "kick_drift, order=1",
        "kick_drift, order=1, symmetric=True",
        said="is declared symmetric",
    ),
    of_method(
        "symplectic_form: of Heun's method",
        "own_heun",
        NOTHING,
        kept("symplectic_form", "()"),
        system="spherical_pendulum_chain",
        said="the symplectic form",
    ),
    of_method(
        "unit_length: of Heun's method",
        "own_heun",
        NOTHING,
        kept("unit_length", "ALL"),
        said="changes 'unit_length'",
    ),
    of_method(
        "momentum_map: quadratic ones, of Heun's method",
        "own_heun",
        NOTHING,
        kept("momentum_map", "ALL"),
        said="changes 'momentum'",
    ),
    of_method(
        "casimir: of Heun's method",
        "own_heun",
        NOTHING,
        kept("casimir", "ALL"),
        system="free_rigid_body",
        said="changes 'casimir'",
    ),
    of_method(
        "preserves: an unknown word",
        "own_heun",
        NOTHING,
        kept("momentum", "ALL"),
        said="unknown word in what 'own_heun' preserves",
    ),
    of_method(
        "work: too small", "strang", "3 * rows + 3 * rows", "3", said="its 'work' has 3 numbers"
    ),
    of_method(
        "evaluations: 1 of 2",
        "own_heun",
        "evaluations=2,\n        work=lambda rows: 9",
        "work=lambda rows: 9",
        said="2 times a step; it is declared to do so 1 times",
    ),
    of_method(
        "step: writes the state",
        "strang",
        "        put(d, n + i, kick)\n        put(mid, i",
        "        put(d, n + i, kick)\n        put(y, i, get(mid, i))\n        put(mid, i",
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
        "strang",
        "        put(d, n + i, kick)\n        put(mid, i",
        "        put(d, 2 * n + i, kick)\n        put(mid, i",
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
        "suits: any inertia matrix",
        "strang",
        '"suits": lambda form: form.diagonal,',
        '"suits": lambda form: True,',
        said="on 'spherical_pendulum_chain'",
    ),
    of_method(
        "order: 3, along an action",
        "lie_midpoint",
        "order=2, evaluations=2, work=lambda rows: 12",
        "order=3, evaluations=2, work=lambda rows: 12",
        said="is declared to have order 3, and has order 2.0",
    ),
    of_method(
        "equation: 99.99 % of the kick",
        "strang",
        "scale(-h * p[n",
        "scale(-0.9999 * h * p[n",
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
        "strang",
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
    """The right plugins that no other test loads: name, source and study of each."""
    made = Wrong("", "", "", "", "nbody_sphere", "geodesic_leapfrog geodesic_leapfrog+suzuki4")
    yield "guide: geodesic_leapfrog", LEAPFROG, made.study
    for name in re.findall(r'(?m)^    name = "(\w+)"', SYSTEMS):
        record = 'record = ["squared_length"]' if name == SPIN else ""
        yield name, SYSTEMS, Wrong("", "", "", "", name, more=record).study
    for name in ("kick_drift", "strang", "own_heun", "lie_midpoint"):
        yield name, STEPS, Wrong("", "", "", "", "nbody_sphere", name).study
