"""Time steps in double-double beside the same in double, of one trajectory alone.

    python tests/benchmarks/arithmetics.py

Times are of CPU, the least of several turns, in which the two are taken one after the other.
"""

import sys
import time
from dataclasses import replace

import integrators
import systems
from integrators.precision import DOUBLE, DOUBLE_DOUBLE
from integrators.stepping.batch import run_batch

DOES_NOT_HOLD = 3  # exit status
MOST, WITH_SINES = 25.0, 30.0  # times as long as in double
TURNS = 7
STEPS = {DOUBLE: 20_000, DOUBLE_DOUBLE: 2_000}

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
SINES = ("forced_pendulum_chain", "forced_rigid_body")  # of the time


def timer(integrator, system, arithmetic, state, step_size):
    """A function that gives the ns of CPU that a step takes."""
    problem = replace(integrator.bind(system, arithmetic), inlined=False)
    steps = STEPS[arithmetic]

    def once():
        begin = time.thread_time_ns()
        run_batch(problem, state[None], step_size, steps, 1)
        return (time.thread_time_ns() - begin) / steps

    once()
    return once


def main():
    """Print the table; `DOES_NOT_HOLD` where a ratio is above its bound."""
    print(f"{'':52s} {'double':>8s} {'double-double':>14s}  ratio (ns a step)")
    worst = 0.0
    for name, parameters, start, integrator_names, step_size in CASES:
        system = systems.get(name, **parameters)
        state = system.start(start or system.starts[0])
        for integrator_name in integrator_names:
            integrator = integrators.get(integrator_name)
            double = timer(integrator, system, DOUBLE, state, step_size)
            refined = system.refined(state)
            precise = timer(integrator, system, DOUBLE_DOUBLE, refined, step_size)
            turns = [(double(), precise()) for _ in range(TURNS)]
            ours, theirs = (min(times) for times in zip(*turns, strict=True))
            bound = WITH_SINES if name in SINES else MOST
            worst = max(worst, theirs / ours / bound)
            count = f" of {parameters['count']}" if parameters else ""
            print(
                f"{integrator_name + ' on ' + name + count:52s} {ours:8.0f} {theirs:14.0f}  "
                f"{theirs / ours:5.1f}{'' if theirs <= bound * ours else f'  above {bound:g}'}",
                flush=True,
            )
    return 0 if worst <= 1.0 else DOES_NOT_HOLD


if __name__ == "__main__":
    sys.exit(main())
