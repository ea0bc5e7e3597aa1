"""Race explicit splitting against heyoka's Taylor series and SciPy's DOP853, at equal error.

    pip install heyoka
    python tests/benchmarks/race.py [--json]

A ring of 16 Heisenberg spins and the free rigid body, each from 64 random states over T = 1000,
in one run on one core. Each method is run at several steps or tolerances; the CPU
seconds at an error of 1e-6, 1e-8 and 1e-10 are read off between the two nearest by powers. The
error of a run is the largest, over all members, of the errors of energy, total spin and length
at the samples, and of the state itself at t = 10, beside a reference of much smaller error; for
the rigid body, whose phase is all there is to lose, of the state at every sample of the first
eight. SciPy's method runs two of the members, and its seconds are scaled.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass

import numpy as np

import integrators
import systems
from integrators.compiler.lanes import WIDTH
from integrators.methods.dormand_prince import solve
from integrators.stepping.batch import run_batch

MEMBERS, SAMPLES, INTERVAL = 64, 100, 10.0
SCIPY_MEMBERS = 2
TARGETS = (1e-6, 1e-8, 1e-10)
STEPS = {  # of a sample interval of 10
    "heisenberg_chain": {
        "splitting+suzuki4": (100, 200, 400, 800),
        "splitting+blanes_moan6": (25, 40, 64, 100, 160, 250, 400),
        "splitting+kahan_li8": (25, 40, 64, 100, 160, 250),
        "splitting+sofroniou_spaletta10": (10, 14, 20, 28, 40, 64, 100),
    },
    "free_rigid_body": {
        "splitting+blanes_moan6": (10, 16, 25, 40, 64, 100, 160),
        "splitting+kahan_li8": (10, 16, 25, 40, 64, 100),
        "splitting+sofroniou_spaletta10": (4, 7, 10, 14, 20, 28, 40),
        "spherical_midpoint+kahan_li8": (5, 10, 16, 25, 40, 64),
        "spherical_midpoint+sofroniou_spaletta10": (4, 7, 10, 14, 20, 28),
    },
}
TOLERANCES = tuple(10.0**-k for k in range(5, 16))


@dataclass(frozen=True)
class Track:
    """What is raced on: a system, its members, and the reference states of them.

    `known` has shape (members known, samples known, 3 n): those at t = 0, 10, …
    """

    system: systems.System
    initial: np.ndarray
    times: np.ndarray
    known: np.ndarray

    @property
    def samples(self):
        return len(self.times) - 1

    def error(self, states):
        """The largest error of states of shape (members, samples + 1, n, 3)."""
        n, start = self.system.rows, states[:, :1]
        members, samples = min(len(states), len(self.known)), self.known.shape[1]
        energy = self._energy(states)
        found = [
            np.abs(energy - energy[:, :1]).max(),
            np.abs(np.sum(states**2, axis=3) - 1.0).max(),
            np.linalg.norm(
                states[:members, :samples].reshape(members, -1, 3 * n) - self.known[:members],
                axis=2,
            ).max(),
        ]
        if self.system.name == "heisenberg_chain":
            drift = states.sum(axis=2) - start.sum(axis=2)
            found.append(np.linalg.norm(drift, axis=2).max())
        return float(max(found))

    def _energy(self, w):
        if self.system.name == "heisenberg_chain":
            return np.sum(w * np.roll(w, 1, axis=2), axis=(2, 3))
        return 0.5 * np.sum(w[:, :, 0] ** 2 / self.system.inertia, axis=2)


def track(name, known_members, known_samples, **parameters):
    """The members and their reference."""
    system = systems.get(name, **parameters)
    initial = system.ensemble(MEMBERS, seed=1)
    times = INTERVAL * np.arange(SAMPLES + 1)
    upto = known_samples + 1
    known = [solve(system, w, times[:upto], 2.3e-14)[0] for w in initial[:known_members]]
    return Track(system, initial, times, np.reshape(known, (known_members, upto, -1)))


def ours(track, name, steps):
    """States of all members by one of our integrators, and CPU seconds."""
    problem = integrators.get(name).bind(track.system)
    problem.kernels(lanes=True)
    begin = time.thread_time()
    batches = [
        run_batch(problem, track.initial[i : i + WIDTH], INTERVAL / steps, steps, track.samples)
        for i in range(0, MEMBERS, WIDTH)
    ]
    seconds = time.thread_time() - begin
    return np.concatenate([batch.states for batch in batches]), seconds


def dop853(track, tolerance):
    """States of all members by SciPy's method, and CPU seconds."""
    from scipy.integrate import solve_ivp

    problem = integrators.get("rk4").bind(track.system)
    compiled, p, rows = problem.function.scalar, problem.parameters, problem.rows
    work = np.zeros(problem.work + 1)

    def slope(t, y):
        out = np.empty((rows, 3))
        compiled(t, y.reshape(rows, 3), p, out, work)
        return out.ravel()

    begin = time.thread_time()
    states = [
        solve_ivp(
            slope, (0.0, track.times[-1]), state.ravel(), "DOP853", track.times,
            rtol=tolerance, atol=tolerance,
        ).y.T
        for state in track.initial[:SCIPY_MEMBERS]
    ]  # fmt: skip
    seconds = (time.thread_time() - begin) * MEMBERS / SCIPY_MEMBERS
    return np.reshape(states, (SCIPY_MEMBERS, -1, rows, 3)), seconds


def equations(system):
    """ẇ = w × ∂H/∂w in heyoka's expressions."""
    import heyoka

    n = system.rows
    w = np.reshape(heyoka.make_vars(*(f"w{i}{c}" for i in range(n) for c in "xyz")), (n, 3))
    if system.name == "heisenberg_chain":
        gradient = [[w[i - 1, c] + w[(i + 1) % n, c] for c in range(3)] for i in range(n)]
    else:
        gradient = [[w[0, c] / system.inertia[c] for c in range(3)]]
    result = []
    for i in range(n):
        for c in range(3):
            d, e = (c + 1) % 3, (c + 2) % 3
            result.append((w[i, c], w[i, d] * gradient[i][e] - w[i, e] * gradient[i][d]))
    return result


def heyoka_runner(track):
    """A function from a tolerance to states of all members by heyoka, and CPU seconds."""
    import heyoka

    system, width = equations(track.system), heyoka.recommended_simd_size()
    flat = track.initial.reshape(MEMBERS, -1)
    grid = np.repeat(track.times[:, None], width, axis=1)

    def run(tolerance):
        stepper = heyoka.taylor_adaptive_batch(
            system, flat[:width].T.copy(), tol=tolerance, compact_mode=False
        )
        states, begin = [], time.thread_time()
        for i in range(0, MEMBERS, width):
            stepper.set_time(0.0)
            stepper.state[:] = flat[i : i + width].T
            _, found = stepper.propagate_grid(grid)
            states.append(np.moveaxis(found, 2, 0))
        seconds = time.thread_time() - begin
        shape = (MEMBERS, track.samples + 1, track.system.rows, 3)
        return np.reshape(np.concatenate(states), shape), seconds

    return run


def curve(track, run, settings, repeats=3):
    """Error and the least CPU seconds of several runs, for each setting, largest error first."""
    points = []
    for setting in settings:
        runs = [run(setting) for _ in range(repeats)]
        points.append((track.error(runs[0][0]), min(seconds for _, seconds in runs)))
    return sorted(points, reverse=True)


def seconds_at(points, error):
    """CPU seconds at an error, between the points about it by powers; None beyond them."""
    for (above, fewer), (below, more) in zip(points, points[1:], strict=False):
        if below <= error <= above:
            part = np.log(above / error) / np.log(above / below)
            return float(fewer * (more / fewer) ** part)
    return None


def race(track):
    """CPU seconds at each target, by competitor."""
    result = {}
    for name, steps in STEPS[track.system.name].items():
        points = curve(track, lambda count, name=name: ours(track, name, count), steps)
        result[name] = [seconds_at(points, error) for error in TARGETS]
    points = curve(track, heyoka_runner(track), TOLERANCES)
    result["heyoka"] = [seconds_at(points, error) for error in TARGETS]
    points = curve(track, lambda tolerance: dop853(track, tolerance), TOLERANCES[:9:2], repeats=1)
    result["DOP853 (SciPy)"] = [seconds_at(points, error) for error in TARGETS]
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="CPU seconds by system and method")
    wants_json = parser.parse_args().json
    try:
        import heyoka  # noqa: F401
    except ImportError:
        print("skipped: no heyoka here to race against: pip install heyoka", file=sys.stderr)
        return 0
    found = {
        "ring of 16 spins": race(track("heisenberg_chain", MEMBERS, 1, count=16)),
        "free rigid body": race(track("free_rigid_body", 8, SAMPLES)),
    }
    if wants_json:
        print(json.dumps({"error": TARGETS, "seconds": found}, indent=2))
        return 0
    for what, seconds in found.items():
        print(f"{what}: CPU seconds at an error of (times as fast as heyoka)")
        print(f"{'':42}" + "".join(f"{error:>18g}" for error in TARGETS))
        for name, values in seconds.items():
            cells = [
                "–" if value is None or best is None else f"{value:.3g} ({best / value:.2g})"
                for value, best in zip(values, seconds["heyoka"], strict=True)
            ]
            print(f"{name:42}" + "".join(f"{cell:>18}" for cell in cells))
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
