"""Time steps in double-double, and with eight tangents, beside the same in double.

    python tests/benchmarks/arithmetics.py

Of one trajectory alone. Times are of CPU, the least of several turns, in which the three are taken
one after the other.
"""

import sys
import time
from dataclasses import replace

import numpy as np

import integrators
import systems
from integrators.compiler.tangents import COUNT
from integrators.precision import DOUBLE, DOUBLE_DOUBLE
from integrators.stepping.batch import run_batch, run_tangents

DOES_NOT_HOLD = 3  # exit status
MOST, WITH_SINES = 25.0, 30.0  # times as long as in double, in double-double
MOST_OF_TANGENTS = 12.0
TURNS = 7
TANGENTS = "tangents"
STEPS = {DOUBLE: 20_000, DOUBLE_DOUBLE: 2_000, TANGENTS: 4_000}

# System, its parameters, start (the first unless given), integrators, step size.
CASES = [
    ("spherical_pendulum_chain", {}, "", ("variational", "rk4", "rkmk4", "cf4"), 1e-2),
    (
        "spherical_pendulum_chain",
        {"count": 10},
        "celledoni_spatial",
        ("variational", "rkmk4"),
        1e-2,
    ),
    ("nbody_sphere", {}, "", ("variational",), 1e-3),
    ("magnetic_dipoles", {}, "", ("variational",), 1e-3),
    ("elastic_rod", {}, "", ("variational",), 1e-4),
    ("free_rigid_body", {}, "", ("spherical_midpoint", "splitting", "collective_gauss6"), 1e-2),
    ("heavy_top", {}, "", ("splitting", "rkmk4"), 1e-3),
    ("heisenberg_chain", {"count": 20}, "", ("splitting", "spherical_midpoint"), 1e-2),
    ("point_vortices", {}, "", ("spherical_midpoint",), 1e-2),
    ("forced_pendulum_chain", {}, "", ("variational",), 1e-2),
    ("quadrotor_payload", {}, "", ("rkmk4",), 1e-2),
]
# Where much of a step is sines and cosines: of the time, or of the angles by which bonds turn.
SINES = (
    ("variational", "forced_pendulum_chain"),
    ("splitting", "heisenberg_chain"),
)


def timer(integrator, system, kind, state, step_size):
    """A function that gives the ns of CPU that a step takes, in an arithmetic or with tangents."""
    problem = integrator.bind(system, DOUBLE if kind == TANGENTS else kind)
    problem = replace(problem, inlined=False)
    steps = STEPS[kind]
    directions = np.eye(state.size)[:COUNT].reshape(-1, *state.shape)

    def once():
        begin = time.thread_time_ns()
        if kind == TANGENTS:
            run_tangents(problem, state, directions, step_size, steps)
        else:
            run_batch(problem, state[None], step_size, steps, 1)
        return (time.thread_time_ns() - begin) / steps

    once()
    return once


def bounds(integrator, system):
    """How many times as long as in double steps may take in the two other ways."""
    return WITH_SINES if (integrator, system) in SINES else MOST, MOST_OF_TANGENTS


def main():
    """Print the table; `DOES_NOT_HOLD` where a ratio is above its bound."""
    titles = "".join(f"{title:>20s}" for title in (DOUBLE_DOUBLE, f"{COUNT} tangents"))
    print(f"{'ns a step, and times as long as in double':52s} {'double':>8s}{titles}")
    worst = 0.0
    for name, parameters, start, integrator_names, step_size in CASES:
        system = systems.get(name, **parameters)
        state = system.start(start or system.starts[0])
        for integrator_name in integrator_names:
            integrator = integrators.get(integrator_name)
            timers = [
                timer(integrator, system, kind, start_of, step_size)
                for kind, start_of in (
                    (DOUBLE, state), (DOUBLE_DOUBLE, system.refined(state)), (TANGENTS, state)
                )
            ]  # fmt: skip
            turns = [[once() for once in timers] for _ in range(TURNS)]
            double, *others = (min(times) for times in zip(*turns, strict=True))
            count = f" of {parameters['count']}" if parameters else ""
            line = f"{integrator_name + ' on ' + name + count:52s} {double:8.0f}"
            for taken, bound in zip(others, bounds(integrator_name, name), strict=True):
                worst = max(worst, taken / double / bound)
                above = f" > {bound:g}" if taken > bound * double else ""
                line += f"{taken:8.0f} {taken / double:5.1f}{above:6s}"
            print(line, flush=True)
    return 0 if worst <= 1.0 else DOES_NOT_HOLD


if __name__ == "__main__":
    sys.exit(main())
