"""Time a step of many systems at many sizes, and fit cost ∝ n^exponent.

    python tests/benchmarks/cost.py [--json]

Beside the step that makes use of a chain's inertia stands the same one with M as any matrix, up
to a size. The states of the largest rings of spins are beyond the caches. The exponent is the slope
of log time over log n by least squares; the last one is that between the two largest sizes.
"""

import argparse
import json
import sys
from dataclasses import asdict, dataclass

import numpy as np
from timing import Case, cell, columns

import integrators
import systems
from integrators.compiler.lanes import WIDTH
from integrators.forms.forms import SpheresLagrangian
from integrators.status import COMPLETE, ITERATIONS, STATUS_ROW
from integrators.stepping.batch import run_batch

LINKS = (10, 20, 50, 100, 200, 500, 1000)
LARGEST_FULL = 100
LEVELS = (1, 2, 3, 4)
SPINS = (100, 1_000, 10_000, 100_000)
TURN = 5e-3  # seconds that one timing takes
REPEATS = 15


@dataclass(frozen=True)
class Cost:
    """One size of a system: ns of CPU per trajectory step; `full` with a full matrix, if timed."""

    what: str
    n: int
    scalar: float
    lanes: float
    full: float | None
    iterations: float


def chain(n):
    """A hanging chain, 1 m and 1 kg in all, on its way: system, start, step size."""
    system = systems.get("spherical_pendulum_chain", count=n, mass=1.0 / n, length=1.0 / n)
    start = system.ensemble(1, seed=1, around=np.repeat([[0.6, 0, 0.8], [0, 0.5, 0]], n, 0),
                            spread=0.02)[0]  # fmt: skip
    return system, start, 0.02 / n


def rod(n):
    """Example 4's rod, in n elements."""
    system = systems.get("elastic_rod", count=n, mass=0.05 / n, length=1.0 / n)
    return system, system.start("lee"), 1e-3 / n


def molecules(level):
    """Example 6, on a sphere of any level."""
    system = systems.get("lennard_jones_sphere", level=level)
    return system, system.start("lee"), 5e-3 / 2**level


def spins(n):
    """A ring of spins along a smooth curve."""
    system = systems.get("heisenberg_chain", count=n)
    return system, system.start("closed_curve"), 0.1


SYSTEMS = {  # by what the table says: integrator, maker, sizes
    "chain": ("variational", chain, LINKS),
    "rod": ("variational", rod, LINKS),
    "molecules": ("variational", molecules, LEVELS),
    "chain, rkmk4": ("rkmk4", chain, LINKS),
    "spins, rk4": ("rk4", spins, SPINS),
    "spins, splitting": ("splitting", spins, SPINS),
    "spins, midpoint": ("spherical_midpoint", spins, SPINS),
}


def least_time(problem, initial, step_size):
    """Least ns per trajectory step over some turns."""
    once = Case(problem, initial, step_size, 20)
    steps = max(2, int(20 * TURN * 1e9 / (once.timer(once.ours())() * 20 * once.trajectories)))
    case = Case(problem, initial, step_size, steps)
    turn = case.timer(case.ours())
    return min(turn() for _ in range(REPEATS))


def cost(what, integrator, system, start, step_size):
    """The `Cost` of a system."""
    method = integrators.get(integrator)
    problem = method.bind(system)
    report = run_batch(problem, start[None], step_size, 100, 1).report[0]
    if report[STATUS_ROW] != COMPLETE:
        sys.exit(f"{what}, n = {system.bodies}: did not complete")
    members = system.ensemble(WIDTH, seed=3, around=start, spread=1e-4)
    side_by_side, form, full = np.moveaxis(members, 0, -1), system.form, None
    if isinstance(form, SpheresLagrangian) and not form.diagonal and form.bodies <= LARGEST_FULL:
        general = SpheresLagrangian(
            form.inertia_matrix, form.potential, form.potential_gradient, form.parameters
        )
        full = least_time(method.bind(general), start, step_size)
    return Cost(
        what, system.bodies, least_time(problem, start, step_size),
        least_time(problem, side_by_side, step_size), full, report[ITERATIONS] / 100,
    )  # fmt: skip


def exponents(costs, name):
    """The fitted exponent, and that of the last two sizes; None where there are not two."""
    points = [(np.log(c.n), np.log(getattr(c, name))) for c in costs if getattr(c, name)]
    if len(points) < 2:
        return None, None
    return tuple(float(np.polyfit(*np.transpose(some), 1)[0]) for some in (points, points[-2:]))


def table(costs):
    """The costs as text, with the exponents."""
    lines = [("", "n", "scalar", "lanes", "full matrix", "iterations")]
    for what in SYSTEMS:
        own = [c for c in costs if c.what == what]
        lines += [
            (what, str(c.n), cell(c.scalar, ".0f"), cell(c.lanes, ".0f"), cell(c.full, ".0f"),
             cell(c.iterations, ".1f"))
            for c in own
        ]  # fmt: skip
        fitted = [exponents(own, name) for name in ("scalar", "lanes", "full")]
        for i, label in enumerate(("exponent", "last exponent")):
            lines.append((label, "", *(cell(pair[i], ".2f") for pair in fitted), ""))
    return columns(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="a list of sizes, times in ns")
    wants_json = parser.parse_args().json
    costs = [
        cost(what, integrator, *make(size))
        for what, (integrator, make, sizes) in SYSTEMS.items()
        for size in sizes
    ]
    if wants_json:
        print(json.dumps([asdict(c) for c in costs], indent=2))
    else:
        print(f"ns of CPU per trajectory step\n\n{table(costs)}")


if __name__ == "__main__":
    main()
