"""What the inherited tests run on: every registered system, integrator and choice of options.

Nothing here is named that the registries know, but for what repeats others. Of all these, the
first stage of the tests has those that run on its kernels: of a pairing of each method, of each
system and of each function that makes kernels, at defaults. See `parameters`.
"""

import functools
import itertools
import operator
import os
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from driven_chain import DrivenChain
from variants import CROWDED, MILD, VARIANTS

import integrators
import systems
from integrators import InputError
from integrators.compiler.elements import DOUBLE, DOUBLE_DOUBLE, LANES, TANGENTS
from integrators.forms.flows import HomogeneousFlow
from integrators.forms.forms import split_state, velocities
from integrators.forms.hamiltonians import NambuHamiltonian
from integrators.stepping import loop
from integrators.stepping.adaptive import run_adaptive
from integrators.stepping.batch import run_batch
from systems.mechanical.base import MechanicalSystem
from systems.rigid.base import RigidSystem
from systems.spins.base import SpinSystem

everything = False  # whether both stages of the tests run; the options of pytest say
SMALL = loop.FEW_ROWS  # rows of the states whose loop may be compiled with all that it calls
# Of linear algebra, whose sums depend on it; commands and clusters change what others inherit.
THREADS = "_NUM_THREADS"
THREADS_AT_START = {key: of for key, of in os.environ.items() if key.endswith(THREADS)}
SEED = 5  # of the variants' states; one where no term of an error happens to vanish


@dataclass(frozen=True, eq=False)
class Case:
    """A system with an initial state."""

    system: systems.System
    state: np.ndarray = field(repr=False)
    label: str

    def __str__(self):
        return self.label

    @property
    def variant(self):
        """Whether it is a system with other parameters than its defaults."""
        return self.label != self.system.name

    @property
    def mechanical(self):
        """Whether the states are (q, ω), not spins or parts."""
        return isinstance(self.system, MechanicalSystem)

    @functools.cached_property
    def time_scale(self):
        """The time in which the state changes by about itself; steps are measured in it.

        Of spins, whose motions may cancel, and of states with parts of several units, that in which
        the field's fastest mode turns by two radians; the first motion of the Nambu system ends at
        infinity within four times as much.
        """
        if not self.mechanical:
            angle = 1.0 if isinstance(self.system.form, NambuHamiltonian) else 2.0
            return angle / np.abs(np.linalg.eigvals(self._jacobian())).max()
        turning, speeding, _ = split_state(self.field("q_omega", self.state))
        turning, speeding = (np.linalg.norm(part, axis=1) for part in (turning, speeding))
        return 1.0 / max(turning.max(), np.sqrt(speeding.max()))

    @property
    def lasting(self):
        """The time scales for which a long run follows the motion: 10, less if it ends before."""
        return 4.0 if isinstance(self.system.form, NambuHamiltonian) else 10.0

    def _jacobian(self):
        steps = 1e-5 * np.eye(self.state.size).reshape(-1, *self.state.shape)
        slopes = [
            self.field("state", self.state + s) - self.field("state", self.state - s) for s in steps
        ]
        return np.reshape(slopes, (self.state.size, -1)) / 2e-5

    @property
    def cheap(self):
        """Whether the first stage has it."""
        return not self.variant

    def gradient(self, state, t=0.0):
        """∂H/∂w of a spin system at a state, shape (n, 3)."""
        gradient = self.system.form.gradient
        out, work = np.empty_like(state), np.zeros(1 + gradient.work(len(state)))
        gradient.scalar(t, np.ascontiguousarray(state), self.own, out, work)
        return out

    @property
    def own(self):
        """The parameters that a spin system's own functions read."""
        return np.asarray(self.system.form.parameters, dtype=float)

    @property
    def followed(self):
        """The kernel of the energy, or balance, that statistics are kept of."""
        quantities = self.system.quantities
        conserved = [q.function for q in quantities if q.kind == "energy"]
        return conserved[0] if conserved else self.system.form.energy

    def moving(self, states):
        """States as invariants read them: (q, q̇), or spins."""
        return velocities(states) if self.mechanical else states

    def length_errors(self, states):
        """Mean unit length error over bodies, as statistics are kept of it; shape (S,)."""
        if isinstance(self.system.form, NambuHamiltonian):
            return np.zeros(len(states))
        bodies = states[:, : self.system.bodies]
        if isinstance(self.system, RigidSystem):
            bodies = states[:, list(self.system.unit_rows)]
        if not bodies.size:
            return np.zeros(len(states))
        return np.mean(np.abs(np.sum(bodies**2, axis=2) - 1.0), axis=1)

    def field(self, formulation, state, t=0.0):
        """The compiled vector field at a state in its formulation, shape (rows, 3)."""
        form = self.system.form.vector_field(formulation)
        out, work = np.empty_like(state), np.zeros(form.field.work(form.rows) + 1)
        form.field.scalar(t, np.ascontiguousarray(state), form.parameters, out, work)
        return out

    def members(self, count, seed):
        """Random states, shape (count, rows, 3)."""
        if self.system.name in CROWDED:
            return self.system.ensemble(count, seed, around=self.state, spread=0.03)
        return self.system.ensemble(count, seed)

    def evaluate(self, kernel, states, times=None):
        """Row 0 of what a `whole_state` kernel makes of states, shape (S, 3)."""
        times = np.zeros(len(states)) if times is None else np.asarray(times, dtype=float)
        out = np.zeros((len(states), 1, 3))
        loop.evaluate(kernel, times, states, self.system.form.packed, out)
        return out[:, 0]

    @functools.cache  # noqa: B019 (the cases live as long as the tests)
    def exact(self, duration, tolerance=2.3e-14):
        """The state after `duration`, by the reference integrator."""
        run = integrators.integrate(
            self.system, integrators.get("dop853"), self.state,
            duration=duration, samples=1, tolerance=tolerance,
        )  # fmt: skip
        return run.states[-1]


@dataclass(frozen=True, eq=False)
class Pairing:
    """A fixed-step integrator with its options on a case."""

    name: str
    options: tuple
    case: Case

    def __str__(self):
        return f"{self.name}{''.join(f'[{value}]' for _, value in self.options)}-{self.case}"

    @functools.cached_property
    def integrator(self):
        """The integrator."""
        return integrators.get(self.name, **dict(self.options))

    @property
    def cheap(self):
        """Whether the first stage has it: all its kernels are compiled there."""
        return self.kernels.keys() <= _first_kernels()

    @property
    def cheap_in_lanes(self):
        """Whether they are compiled for lanes there."""
        return self.kernels.keys() <= _first_kernels_in_lanes()

    @functools.cached_property
    def problem(self):
        """The integrator bound to the system.

        A loop of its own takes a second to compile: only the first of each code has it.
        """
        problem = self.integrator.bind(self.case.system)
        if self not in with_own_loops():
            return replace(problem, inlined=False)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "FEW_ROWS", SMALL)
            assert problem.own_loop(LANES) or problem.rows > SMALL  # which it keeps
        return problem

    @functools.cached_property
    def kernels(self):
        """By their labels, those that make up a step."""
        made = self.integrator.bind(self.case.system)
        functions = (made.advance, made.function, made.move, made.pull, made.monitor)
        return {kernel.label: kernel for kernel in functions if kernel}

    def batch(self, members, steps=3, samples=2, step=0.01, statistics=True):
        """`run_batch` with a step in time scales."""
        h = step * self.case.time_scale
        return run_batch(self.problem, np.asarray(members), h, steps, samples, statistics)

    def end(self, state, steps, scales=1.0):
        """The state after so many time scales, taken in `steps` steps."""
        duration = scales * self.case.time_scale
        run = integrators.integrate(
            self.case.system, self.integrator, state,
            step_size=duration / steps, duration=duration, samples=1,
        )  # fmt: skip
        return run.states[-1]


@dataclass(frozen=True, eq=False)
class AdaptivePairing:
    """An adaptive integrator with its choices on a case."""

    name: str
    options: tuple
    case: Case

    def __str__(self):
        return f"{self.name}{''.join(f'[{value}]' for _, value in self.options)}-{self.case}"

    @property
    def integrator(self):
        """The integrator with its choices."""
        return integrators.get(self.name, **dict(self.options))

    @property
    def cheap(self):
        """Whether the first stage has it: it is the first of its method, or of its system."""
        return self in _first_adaptive_pairings()

    @functools.cached_property
    def kernels(self):
        """By their labels, those that make up a step."""
        return {kernel.label: kernel for kernel in self.problem(1e-3).made_from}

    @property
    def interpolates(self):
        """Whether samples lie within steps, which know nothing of them."""
        return ("output", "land") not in self.options

    def problem(self, tolerance):
        """Bound to the system; numbers are small beside an absolute tolerance of their own."""
        options = dict(self.options)
        if "absolute_tolerance" in integrators.get(self.name).options:
            options["absolute_tolerance"] = 0.1 * tolerance
        return integrators.get(self.name, **options).bind(self.case.system)

    def run(self, tolerance, samples=4, scales=1.0, members=None, statistics=True):
        """`run_adaptive` over so many time scales, from the case's state or `members`."""
        times = scales * self.case.time_scale * np.arange(samples + 1) / samples
        members = self.case.state[None] if members is None else members
        return run_adaptive(self.problem(tolerance), members, times, tolerance, statistics)


@dataclass(frozen=True, eq=False)
class Promise:
    """The quantities that an integrator declares to keep."""

    pairing: Pairing
    quantities: tuple

    def __str__(self):
        return str(self.pairing)

    @property
    def cheap(self):
        """Whether the first stage has it."""
        return self.pairing.cheap


def parameters(items, is_cheap=operator.attrgetter("cheap")):
    """Parameters for pytest of what a test runs on, of which the slow ones are marked.

    In the first stage there are only those that it has.
    """
    return [
        pytest.param(item, id=str(item), marks=() if is_cheap(item) else pytest.mark.slow)
        for item in items
        if everything or is_cheap(item)
    ]


def compilings(item, argument=""):
    """What a test of a case or pairing has compiled, by label and element type: functions.

    For lanes, double-double and tangents where the name of the test's argument says so.
    """
    if isinstance(item, Promise):
        item = item.pairing
    if isinstance(item, Case):
        reference = integrators.get("dop853").bind(item.system)
        kernels = {k.label: k for k in (*reference.made_from, *_functions(item.system))}
    elif isinstance(item, Pairing | AdaptivePairing):
        kernels = item.kernels
    else:
        return {}
    found = {
        (label, element.name): functools.partial(kernel.compiled, element)
        for label, kernel in kernels.items()
        for element in (DOUBLE, *ELEMENTS.get(argument, ()))
        if element is not TANGENTS or label != item.problem.monitor.label  # of what is followed
    }
    own = item.problem.own_loop(LANES) if argument == "in_lanes" else None
    return found | (
        {(own.label, LANES.name): functools.partial(own.compiled, LANES)} if own else {}
    )


ELEMENTS = {"in_lanes": (LANES,), "costly": (TANGENTS, DOUBLE_DOUBLE)}  # beside doubles


def _functions(system):
    return [quantity.function for quantity in system.quantities]


@functools.cache
def cases():
    """Every system, default or `MILD`, with its first start; its variants with a random state."""
    result = []
    for cls in (*systems.ALL_SYSTEMS, DrivenChain):
        system = cls(**MILD.get(cls.name, {}))
        start = system.start(system.starts[0]) if system.starts else system.ensemble(1, SEED)[0]
        result.append(Case(system, start, system.name))
        for i, parameters in enumerate(VARIANTS.get(cls.name, ()), start=1):
            variant = cls(**parameters)
            result.append(Case(variant, variant.ensemble(1, SEED)[0], f"{cls.name}.{i}"))
    return tuple(result)


def mechanical_cases():
    """Those whose states are (q, ω)."""
    return [case for case in cases() if case.mechanical]


def layout_cases():
    """Those of `LAYOUTS`."""
    return [case for case in cases() if case.label in LAYOUTS]


def spin_cases():
    """Those whose states are spins."""
    return [case for case in cases() if isinstance(case.system, SpinSystem)]


def split_cases():
    """Those whose Hamiltonian is a sum of pieces with exact flows."""
    return [case for case in spin_cases() if getattr(case.system.form, "split", None)]


@functools.cache
def pairings():
    """Every fixed-step integrator on every case it fits, but for what repeats others; see below."""
    return _pairings(Pairing, adaptive=False)


@functools.cache
def covering_pairings():
    """Those of `pairings` with a method or a case that none before has."""
    return with_new(pairings(), lambda pairing: {pairing.name, str(pairing.case)})


@functools.cache
def kernel_pairings():
    """Those of `pairings` with a method or a kernel that none before has."""
    return with_new(pairings(), lambda pairing: {pairing.name, *pairing.kernels})


@functools.cache
def lane_pairings():
    """Those of `pairings` with a name, a kernel of a method or a system that none before has.

    But for the code of others over more links, rows or pieces.
    """

    def what(pairing):
        system = pairing.case.system.name
        return {pairing.name, pairing.integrator.bind(pairing.case.system).advance.label, system}

    return with_new([p for p in pairings() if p.case.label not in ALIKE_IN_LANES], what)


@functools.cache
def costly_pairings():
    """Those of `pairings` with a function that makes steps, or a system, that none before has.

    For what takes seconds to compile, double-double and tangents: of a system the one with the
    fewest new kernels.
    """
    at_defaults = [pairing for pairing in pairings() if not pairing.case.variant]
    chosen = with_new(at_defaults, lambda pairing: {_stepping_function(pairing)})
    for case in dict.fromkeys(pairing.case for pairing in at_defaults):
        if case not in {pairing.case for pairing in chosen}:
            of_case = [pairing for pairing in at_defaults if pairing.case is case]
            compiled = _labels(chosen)
            chosen.append(min(of_case, key=lambda pair: len(pair.kernels.keys() - compiled)))
    return chosen


def with_new(all_of_them, what):
    """Those in which something is that is in none before."""
    seen, chosen = set(), []
    for pairing in all_of_them:
        has = what(pairing)
        if not has <= seen:
            chosen.append(pairing)
            seen |= has
    return chosen


@functools.cache
def with_own_loops():
    """Those of `pairings` with a new function that makes steps; the first stage has none."""
    found = with_new(pairings(), lambda pairing: {_stepping_function(pairing)})
    return found if everything else []


def is_usual(pairing):
    """Whether the first stage has it of `costly_pairings`."""
    return str(pairing) == "variational-spherical_pendulum_chain"


def first_of(items, count=1):
    """Parameters for pytest, tuples or single ones, of which the first stage has the first."""
    return [
        pytest.param(
            *(item if isinstance(item, tuple) else (item,)),
            marks=() if index < count else pytest.mark.slow,
        )
        for index, item in enumerate(items)
    ]


def covers(item):
    """Whether it is a pairing of the first stage with a new name, case or function of kernels.

    New is what none of `pairings` before has. Or whether it is a promise of such a pairing.
    """
    pairing = item.pairing if isinstance(item, Promise) else item
    return pairing.cheap and (pairing in covering_pairings() or pairing in _first_pairings())


def _stepping_function(pairing):
    """The name of the function that makes its step of kernels and constants."""
    return pairing.integrator.bind(pairing.case.system).advance.label.partition("(")[0]


def _new_methods_and_cases(all_of_them):
    """Those with a method, whatever its composition, or a case that none before has."""
    at_defaults = [pairing for pairing in all_of_them if not pairing.case.variant]
    of_methods = with_new(at_defaults, lambda pairing: {pairing.integrator.method.name})
    met = {pairing.case for pairing in of_methods}
    others = [pairing for pairing in at_defaults if pairing.case not in met]
    return of_methods + with_new(others, lambda pairing: {pairing.case})


@functools.cache
def _first_pairings():
    """Those with a new method or case, and one with each function of kernels.

    A function makes kernels of other kernels and constants, whose names follow its own.
    """
    first = _new_methods_and_cases(pairings())
    at_defaults = [pairing for pairing in pairings() if not pairing.case.variant]
    functions = with_new(
        [*first, *at_defaults], lambda pair: {label.partition("(")[0] for label in pair.kernels}
    )
    return [*first, *functions]


@functools.cache
def _first_kernels():
    return _labels(_first_pairings())


@functools.cache
def _first_kernels_in_lanes():
    """Those of the first pairing of each family."""
    first = _new_methods_and_cases(pairings())
    return _labels(with_new(first, lambda pairing: {pairing.integrator.family}))


def _labels(chosen):
    return {label for pairing in chosen for label in pairing.kernels}


@functools.cache
def _first_adaptive_pairings():
    return _new_methods_and_cases(adaptive_pairings())


@functools.cache
def adaptive_pairings():
    """Every adaptive integrator on every case it fits, but for what repeats others; see below."""
    return _pairings(AdaptivePairing, adaptive=True)


# Compositions are one code over other constants: all but the longest, which has tests of its own,
# meet these systems, and elsewhere a default meets one of each kind, a variant none. A method that
# shares its kernel or its solver with one that meets all meets one of every order, and of variants
# those of the rigid body alone.
COMPOSED = (
    "spherical_pendulum_chain", "nbody_sphere", "forced_pendulum_chain", "driven_chain",
    "free_rigid_body", "forced_rigid_body", "heisenberg_chain", "nambu_quadratic",
)  # fmt: skip
ELSEWHERE = ("suzuki4", "blanes_moan6", "blanes_casas_murua8")
OF_EVERY_ORDER = ("suzuki4", "kahan_li6", "kahan_li8")
ALIKE = ("extended_spherical_midpoint", "implicit_midpoint", "geodesic_midpoint", "moser_veselov")
ALIKE += ("collective_gauss2", "rattle_su2")
ALIKE_IN_LANES = ("spherical_pendulum_chain.2", "elastic_rod.1", "heavy_top.2")
LONG = 20  # stages
# So are explicit methods, over other tableaus: rk4 meets everything, the others `ANYWHERE`.
TABLEAUS = ("rk2_heun", "rk2_midpoint", "rk9", "rk45+fixed")
# (q, q̇), what moves (q, ω) along an action, and projections are one code around the functions of a
# system on spheres: they meet the layouts of inertia, with a force and without, time and scratch.
LAYOUTS = (
    "spherical_pendulum_chain", "spherical_pendulum_chain.2", "nbody_sphere", "nbody_sphere.2",
    "forced_pendulum_chain", "driven_chain",
)  # fmt: skip
# Lie group methods know a system by its generator and its action alone. One meets everything else,
# one of the other kernel every default; the rest are these two over other constants, a cut series
# beside them one more pair of kernels.
LIE_GROUP = {"rkmk4": "all", "cf4": "defaults"}
ANYWHERE = ("spherical_pendulum_chain", "free_rigid_body")
# An explicit adaptive method meets everything in the first of these ways, `LAYOUTS` in the second
# too, and there in all four.
WAYS = {"rk45": (("q_omega", "dense"), ("q_qdot", "land"))}
# In (q, π) the first of those meets the layouts of inertia and a force, and the other, with an
# adaptive one, a chain.
HAMILTONIAN = {
    "rkmk4": (
        "spherical_pendulum_chain", "spherical_pendulum_chain.1", "spherical_pendulum_chain.2",
        "forced_pendulum_chain",
    ),
    "cf4": ("spherical_pendulum_chain",),
    "cf32a": ("spherical_pendulum_chain",),
}  # fmt: skip
SEMIDIRECT = {  # both groups
    "rkmk4": ("heavy_top", "heavy_top.2"), "cf4": ("heavy_top",), "cf32a": ("heavy_top.2",),
}  # fmt: skip
# Adaptive ones, and SciPy's, meet one case of each action, and rkmk54 three of its eight ways.
OF_EVERY_ACTION = (*ANYWHERE, "forced_pendulum_chain", "free_rigid_body.2")
RKMK54_WAYS = (
    ("algebra", "dense", "exact"), ("algebra", "dense", "truncated"), ("metric", "land", "exact"),
)  # fmt: skip


def _is_met(integrator, case):
    name, options = integrator.method.name, integrator.options
    if name in ALIKE and case.variant and case.system.name != "free_rigid_body":
        return False
    if integrator.composition:
        if case.variant:
            return False
        if case.label not in COMPOSED:
            return integrator.modifier in ELSEWHERE
        if name in ALIKE:
            return integrator.modifier in OF_EVERY_ORDER
        return integrator.composition.stages <= LONG
    if name in TABLEAUS:
        return case.label in ANYWHERE
    if name.startswith("scipy_"):
        return case.label in OF_EVERY_ACTION
    generic = options.get("formulation") == "q_qdot" or integrator.modifier.startswith("projected")
    if generic and case.mechanical and case.label not in LAYOUTS:
        return False
    if HomogeneousFlow in integrator.method.forms:
        return _is_met_by_lie_group(integrator, case)
    if name in WAYS and case.label not in ANYWHERE:
        way = (options["formulation"], options["output"])
        return way in WAYS[name][: 1 + case.mechanical]
    return True


def _is_met_by_lie_group(integrator, case):
    name, options = integrator.name, integrator.options
    for key, choice, met in (
        ("formulation", "q_pi", HAMILTONIAN), ("action", "semidirect", SEMIDIRECT),
    ):  # fmt: skip
        if options.get(key) == choice:
            usual = options.get("output", "land") == "land"
            usual = usual and options.get("dexpinv", "exact") == "exact"
            return usual and case.label in met.get(name, ())
    if integrator.adaptive:
        way = tuple(options.get(key) for key in ("error", "output", "dexpinv"))
        return case.label in OF_EVERY_ACTION and (name != "rkmk54" or way in RKMK54_WAYS)
    meets = LIE_GROUP.get(name, "few")
    if options.get("dexpinv") == "truncated":
        return name == "rkmk4" and case.label in ANYWHERE
    if case.mechanical and case.label not in LAYOUTS:
        return False
    everything = meets == "all" or (meets == "defaults" and not case.variant)
    return everything or case.label in ANYWHERE


def _pairings(kind, adaptive):
    result = []
    for name in integrators.names():
        integrator = integrators.get(name)
        if integrator.adaptive != adaptive:
            continue
        choices = [
            [(key, choice) for choice in option.choices]
            for key, option in integrator.method.options.items()
            if option.choices
        ]
        chosen = {
            options: integrators.get(name, **dict(options))
            for options in itertools.product(*choices)
        }
        result += [
            kind(name, options, case)
            for case in cases()
            for options, made in chosen.items()
            if _is_met(made, case) and _fits(made, case.system)
        ]
    return tuple(result)


def _fits(integrator, system):
    try:
        integrator.check(system)
    except InputError:
        return False
    return True


def symmetric_pairings():
    """Those that a negative step leads back."""
    return [p for p in pairings() if p.integrator.symmetric]


def reversible_pairings():
    """Those that reversed velocities lead back: symmetric, unforced and without explicit time."""
    return [
        p
        for p in symmetric_pairings()
        if p.case.mechanical
        and p.case.system.name != "driven_chain"
        and not p.case.system.form.forced
    ]


def promises():
    """What every integrator declares to keep of every case's quantities."""
    result = []
    for pairing in pairings():
        kept = tuple(
            of
            for of in pairing.case.system.quantities
            if pairing.integrator.keeps(of.name, of.kind, of.degree)
        )
        result += [Promise(pairing, kept)] if kept else []
    return result
