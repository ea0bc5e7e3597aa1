"""Race our methods against heyoka's Taylor series and SciPy's DOP853, at equal error.

    pip install heyoka
    python tests/benchmarks/race.py [--only ring|pendulum|rigid] [--rounds 3] [--json]

A ring of 16 Heisenberg spins, the double spherical pendulum and the free rigid body, each from 64
random states over T = 1000 with 100 samples, on one core. Each method is run at several steps or
tolerances, all of them in turn, several rounds; least CPU seconds count, and those at an error of
1e-6, 1e-8 and 1e-10 are read off between the two nearest by powers. There are two errors, each
the largest over members and samples: of the invariants (energy, momentum, lengths) over all of
T, and of the state at t = 10 beside a reference in double-double, right to the last bits of a
double; for the rigid body, whose phase is all there is to lose, of the state at every sample of
eight members. SciPy's method runs two of the members, once, and its seconds are scaled. Exit code
3: an aim is not reached.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import integrators
import systems
from integrators.forms.forms import angular_velocities, velocities
from integrators.stepping.batch import run_batch
from integrators.stepping.formulations import to_stored_states

try:
    import heyoka
except ImportError:
    heyoka = None

MEMBERS, SAMPLES, INTERVAL = 64, 100, 10.0
TIMES = INTERVAL * np.arange(SAMPLES + 1)
SCIPY_MEMBERS = 2
REFERENCE_STEP = 0.01
TARGETS = (1e-6, 1e-8, 1e-10)
INVARIANTS, STATE = "invariants", "state"
TOLERANCES = tuple(10.0**-k for k in range(5, 17))


@dataclass(frozen=True)
class Track:
    """What is raced on.

    Parameters
    ----------
    system : systems.System
    initial : ndarray, shape (members, rows, 3)
    invariants : callable
        From states, shape (…, rows, 3), to what stays as it is, shape (…, k).
    equations : callable
        The system's equations in heyoka's expressions.
    steps : dict of str to tuple of int
        By integrator, numbers of steps in a sample interval.
    known : tuple of int
        Members and samples that there is a reference for.
    aims : dict of str to tuple of float
        By the error that is judged: how many times as fast as heyoka, at each target.
    """

    system: systems.System
    initial: np.ndarray
    invariants: object
    equations: object
    steps: dict
    known: tuple
    aims: dict

    @cached_property
    def reference(self):
        """States right to the last bits, shape (members, samples + 1, 3 rows)."""
        members, samples = self.known
        found = integrators.integrate(
            self.system, integrators.get("rk9"), self.initial[:members], duration=TIMES[samples],
            samples=samples, step_size=REFERENCE_STEP, arithmetic="double-double",
        )  # fmt: skip
        return found.states.reshape(members, samples + 1, -1)

    def errors(self, states):
        """The largest errors of states of shape (members, samples + 1, rows, 3), by name."""
        kept = self.invariants(states)
        members, samples = min(len(states), self.known[0]), self.known[1] + 1
        found = states[:members, :samples].reshape(members, samples, -1)
        return {
            INVARIANTS: float(np.abs(kept - kept[:, :1]).max()),
            STATE: float(np.linalg.norm(found - self.reference[:members], axis=2).max()),
        }


# --- the systems ---------------------------------------------------------------------------------


def ring():
    """Sixteen spins."""
    system = systems.get("heisenberg_chain", count=16)

    def invariants(w):
        energy = np.sum(w * np.roll(w, 1, axis=-2), axis=(-2, -1))
        lengths = np.sum(w**2, axis=-1)
        return np.concatenate([energy[..., None], lengths, w.sum(axis=-2)], axis=-1)

    def equations():
        w = vectors("w", 16)
        fields = [[w[i - 1][c] + w[(i + 1) % 16][c] for c in range(3)] for i in range(16)]
        return [(w[i], cross(w[i], fields[i])) for i in range(16)]

    steps = {
        "splitting+suzuki4": (100, 200, 400, 800),
        "splitting+blanes_moan6": (25, 40, 64, 100, 160, 250, 400),
        "splitting+kahan_li8": (25, 40, 64, 100, 160, 250),
        "splitting+blanes_casas_murua8": (25, 40, 64, 100, 160),
        "splitting+sofroniou_spaletta10": (10, 14, 20, 28, 40, 64, 100),
        "rk9": (25, 35, 50, 70, 95, 130),
    }
    aims = {INVARIANTS: (6.0, 4.5, 3.5)}
    initial = system.ensemble(MEMBERS, seed=1)
    return Track(system, initial, invariants, equations, steps, (MEMBERS, 1), aims)


def pendulum():
    """The double spherical pendulum, near Example 1 of Lee, Leok and McClamroch."""
    system = systems.get("spherical_pendulum_chain")
    carried = np.cumsum(system.mass[::-1])[::-1]
    mass = np.array([[carried[max(i, j)] for j in range(2)] for i in range(2)])
    mass *= np.outer(system.length, system.length)
    weight = carried * system.gravity * np.array(system.length)
    inverse = np.linalg.inv(mass)

    def invariants(y):
        q, v = np.split(velocities(y), 2, axis=-2)
        energy = 0.5 * np.einsum("...ic,ij,...jc->...", v, mass, v) - q[..., 2] @ weight
        turning = np.einsum("...ic,ij,...jd->...cd", q, mass, v)
        momentum = turning[..., 0, 1] - turning[..., 1, 0]
        lengths = np.sum(q * q, axis=-1)
        return np.concatenate([energy[..., None], momentum[..., None], lengths], axis=-1)

    def equations():
        q, v = vectors("q", 2), vectors("v", 2)
        free = [[0.0, 0.0, float(inverse[i] @ weight)] for i in range(2)]
        a = [[inverse[i, j] * dot(q[i], q[j]) for j in range(2)] for i in range(2)]
        b = [-dot(v[i], v[i]) - dot(q[i], free[i]) for i in range(2)]
        determinant = a[0][0] * a[1][1] - a[0][1] * a[1][0]
        multipliers = [
            (b[0] * a[1][1] - a[0][1] * b[1]) / determinant,
            (a[0][0] * b[1] - b[0] * a[1][0]) / determinant,
        ]
        accelerations = [
            [
                free[i][c] + sum(inverse[i, j] * multipliers[j] * q[j][c] for j in range(2))
                for c in range(3)
            ]
            for i in range(2)
        ]
        return [*zip(q, v, strict=True), *zip(v, accelerations, strict=True)]

    steps = {
        "variational+suzuki4": (100, 200, 400, 800),
        "variational+kahan_li6": (64, 100, 144, 200, 320, 500),
        "variational+kahan_li8": (64, 90, 120, 180, 250),
        "variational+sofroniou_spaletta10": (28, 40, 64, 100, 160),
        "rk9": (50, 70, 95, 130, 180, 250),
    }
    initial = system.ensemble(MEMBERS, seed=1, around="lee", spread=0.1)
    aims = {INVARIANTS: (2.0, 2.0, 1.8), STATE: (1.5, 1.4, 1.3)}
    return Track(system, initial, invariants, equations, steps, (MEMBERS, 1), aims)


def rigid():
    """The free rigid body."""
    system = systems.get("free_rigid_body")
    inertia = np.array(system.inertia)

    def invariants(w):
        energy = 0.5 * np.sum(w[..., 0, :] ** 2 / inertia, axis=-1)
        return np.stack([energy, np.sum(w[..., 0, :] ** 2, axis=-1)], axis=-1)

    def equations():
        (w,) = vectors("w", 1)
        return [(w, cross(w, [w[c] / float(inertia[c]) for c in range(3)]))]

    steps = {
        "exact": (1,),
        "splitting+blanes_moan6": (7, 10, 16, 25, 40, 64, 100, 160),
        "splitting+kahan_li8": (10, 16, 25, 40, 64, 100),
        "splitting+sofroniou_spaletta10": (4, 7, 10, 14, 20, 28, 40),
        "spherical_midpoint+kahan_li8": (5, 10, 16, 25, 40, 64),
        "spherical_midpoint+sofroniou_spaletta10": (4, 7, 10, 14, 20, 28),
    }
    aims = {STATE: (10.0, 6.0, 5.0)}
    initial = system.ensemble(MEMBERS, seed=1)
    return Track(system, initial, invariants, equations, steps, (8, SAMPLES), aims)


def vectors(name, count):
    """Variables of so many 3-vectors."""
    made = heyoka.make_vars(*(f"{name}{i}{c}" for i in range(count) for c in "xyz"))
    return [list(made[3 * i : 3 * i + 3]) for i in range(count)]


def dot(a, b):
    """a · b"""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a, b):
    """a × b"""
    return [a[c - 2] * b[c - 1] - a[c - 1] * b[c - 2] for c in range(3)]


# --- the competitors: from a setting to states and CPU seconds -----------------------------------


def ours(track, name):
    """All members by one of our integrators; the setting is the steps of a sample interval."""
    problem = integrators.get(name).bind(track.system)

    def run(steps):
        problem.trajectory(problem.element(MEMBERS, wide=True))
        begin = time.thread_time()
        batch = run_batch(problem, track.initial, INTERVAL / steps, steps, SAMPLES, wide=True)
        seconds = time.thread_time() - begin
        return to_stored_states(problem, batch.states), seconds

    return run


def dop853(track):
    """Some members by SciPy's method; the setting is its tolerance."""
    from scipy.integrate import solve_ivp

    problem = integrators.get("rk4").bind(track.system)
    compiled, p, rows = problem.function.scalar, problem.parameters, problem.rows
    work = np.zeros(problem.work + 1)
    in_velocities = problem.formulation == "q_qdot"
    initial = track.initial[:SCIPY_MEMBERS]
    initial = velocities(initial) if in_velocities else initial

    def slope(t, y):
        out = np.empty((rows, 3))
        compiled(t, y.reshape(rows, 3), p, out, work)
        return out.ravel()

    def run(tolerance):
        begin = time.thread_time()
        states = [
            solve_ivp(
                slope, (0.0, TIMES[-1]), state.ravel(), "DOP853", TIMES, rtol=tolerance,
                atol=tolerance,
            ).y.T
            for state in initial
        ]  # fmt: skip
        seconds = (time.thread_time() - begin) * MEMBERS / SCIPY_MEMBERS
        return to_stored_states(problem, np.reshape(states, (SCIPY_MEMBERS, -1, rows, 3))), seconds

    return run


def taylor(track):
    """All members by heyoka, in batches; the setting is its tolerance."""
    system = [pair for x, slope in track.equations() for pair in zip(x, slope, strict=True)]
    width = heyoka.recommended_simd_size()
    in_velocities = len(track.initial[0]) == 2 * getattr(track.system, "bodies", 0)
    initial = velocities(track.initial) if in_velocities else track.initial
    flat, grid = initial.reshape(MEMBERS, -1), np.repeat(TIMES[:, None], width, axis=1)
    steppers = {}

    def run(tolerance):
        if tolerance not in steppers:
            steppers[tolerance] = heyoka.taylor_adaptive_batch(
                system, flat[:width].T.copy(), tol=tolerance, compact_mode=False, fast_math=True
            )
        stepper, states, begin = steppers[tolerance], [], time.thread_time()
        for i in range(0, MEMBERS, width):
            stepper.set_time(0.0)
            stepper.state[:] = flat[i : i + width].T
            _, found = stepper.propagate_grid(grid)
            states.append(np.moveaxis(found, 2, 0))
        seconds = time.thread_time() - begin
        states = np.reshape(np.concatenate(states), (MEMBERS, SAMPLES + 1, *initial.shape[1:]))
        return angular_velocities(states) if in_velocities else states, seconds

    return run


# --- the race ------------------------------------------------------------------------------------


def race(track, rounds):
    """CPU seconds at each target, by the error that is judged and by competitor."""
    entries = {name: (ours(track, name), steps, rounds) for name, steps in track.steps.items()} | {
        "DOP853 (SciPy)": (dop853(track), TOLERANCES[:9:2], 1)
    }
    if heyoka is not None:
        entries["heyoka"] = taylor(track), TOLERANCES, rounds
    errors, seconds = {}, {}
    for number in range(rounds):
        for name, (run, settings, own_rounds) in entries.items():
            for setting in settings if number < own_rounds else ():
                states, took = run(setting)
                if number == 0:
                    errors[name, setting] = track.errors(states)
                seconds.setdefault((name, setting), []).append(took)
    found = {}
    for judged in (INVARIANTS, STATE):
        for name in entries:
            points = [
                (errors[key][judged], min(took)) for key, took in seconds.items() if key[0] == name
            ]
            at_targets = [seconds_at(sorted(points, reverse=True), error) for error in TARGETS]
            found.setdefault(judged, {})[name] = at_targets
    return found


def seconds_at(points, error):
    """CPU seconds at an error, between the points about it by powers; None beyond them.

    A single point is of a method that is exact to round-off: it stands for all larger errors.
    """
    if len(points) == 1:
        return points[0][1] if points[0][0] <= error else None
    for (above, fewer), (below, more) in zip(points, points[1:], strict=False):
        if below <= error <= above:
            part = np.log(above / error) / np.log(above / below)
            return float(fewer * (more / fewer) ** part)
    return None


def compared_with_heyoka(track, judged, seconds):
    """Our least seconds and whose, heyoka's, how many times as fast we are, the aim; by target."""
    known = [
        {name: seconds[name][k] for name in track.steps if seconds[name][k]}
        for k in range(len(TARGETS))
    ]
    winners = [min(found, key=found.get, default=None) for found in known]
    best = [found.get(name) for found, name in zip(known, winners, strict=True)]
    theirs = seconds.get("heyoka", [None] * len(TARGETS))
    ratios = [
        their / own if own and their else None for own, their in zip(best, theirs, strict=True)
    ]
    aims = track.aims.get(judged, [None] * len(TARGETS))
    return {"ours": best, "by": winners, "heyoka": theirs, "times as fast": ratios, "aim": aims}


TRACKS = {"ring": ring, "pendulum": pendulum, "rigid": rigid}


def main():
    """Race and print; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=TRACKS, action="append", help="repeatable; else all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="CPU seconds by system and method")
    given = parser.parse_args()
    if heyoka is None:
        print("There is no heyoka here to race against: pip install heyoka", file=sys.stderr)
    every, missed = {}, False
    for name in given.only or TRACKS:
        track = TRACKS[name]()
        for judged, seconds in race(track, given.rounds).items():
            found = compared_with_heyoka(track, judged, seconds)
            every.setdefault(name, {})[judged] = {"seconds": seconds, "compared": found}
            missed |= any(
                aim is not None and ratio is not None and ratio < aim
                for ratio, aim in zip(found["times as fast"], found["aim"], strict=True)
            )
            if not given.json:
                print_race(track, judged, seconds, found)
    if given.json:
        print(json.dumps({"error": TARGETS, "races": every}, indent=2))
    return 3 if missed else 0


def print_race(track, judged, seconds, found):
    """The table of one system and one error."""
    what = TITLES[track.system.name]
    print(f"{what}, judged by {JUDGED[judged]}: CPU seconds at an error of")
    print(f"{'':42}" + "".join(f"{error:>12g}" for error in TARGETS))
    for name, values in (seconds | {"our best": found["ours"]}).items():
        print(f"{name:42}" + "".join(f"{_cell(value):>12}" for value in values))
    print(
        f"{'by':42}" + "".join(f"{(name or '–').rpartition('+')[2]:>12.12}" for name in found["by"])
    )
    for name in ("times as fast", "aim"):
        if any(found[name]):
            label = {"times as fast": "times as fast as heyoka"}.get(name, name)
            print(f"{label:42}" + "".join(f"{_cell(value):>12}" for value in found[name]))
    print(flush=True)


TITLES = {
    "heisenberg_chain": "ring of 16 spins",
    "spherical_pendulum_chain": "double spherical pendulum",
    "free_rigid_body": "free rigid body",
}
JUDGED = {INVARIANTS: "the invariants over T = 1000", STATE: "the state"}


def _cell(value):
    return "–" if value is None else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
