"""Time the kernels of the papers' systems beside C++, compiled on the spot.

    python tests/benchmarks/kernels.py [--json]

Before anything is timed, C++ and ours must end in the same state: to the last bit where both do
the same arithmetic. What is timed may contract products and sums. Lanes stand beside the same
source over vectors of eight. Times are of this thread's CPU, ours without statistics, with those
of every step and of one in ten, and C++, which has none, in turn many times over, and of the turn
that took them together least: the clock of a shared machine changes. `cost.py` times how the cost
grows with n.
"""

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import asdict

import numpy as np
from timing import CONTRACT, FLAGS, Case, Comparison, compile_cpp, measure, table

import integrators
import systems
from integrators.compiler.lanes import WIDTH
from integrators.forms.forms import SpheresLagrangian
from integrators.lie_groups.rotations import SMALL_SINE, SMALL_VERSINE

DOES_NOT_HOLD = 3  # exit status
BESIDE = 1.1  # most that ours may take over C++, which for lanes is vectorised by hand
LIBRARIES = ("explicit", "implicit", "spins", "splitting", "lie")  # of C++

# System, step size, steps timed in a turn, and of lanes.
CASES = {
    "bodies": ("nbody_sphere", 1e-4, 100_000, 30_000),
    "pendulum": ("spherical_pendulum_chain", 1e-2, 50_000, 20_000),
    "springs": ("spring_pendula", 5e-3, 30_000, 10_000),
    "dipoles": ("magnetic_dipoles", 1e-3, 10_000, 3_000),
    "rod": ("elastic_rod", 1e-4, 5_000, 2_000),
    "molecules": ("lennard_jones_sphere", 5e-3, 40, 5),
}


# The same of the spherical midpoint method.
SPINS = {
    "rigid body": ("free_rigid_body", 1e-2, 100_000, 50_000),
    "chain": ("heisenberg_chain", 1e-1, 2_000, 1_000),
    "vortices": ("point_vortices", 1e-1, 20_000, 10_000),
}

BONDS = ("heisenberg_chain", 1e-1, 50_000, 40_000)  # of splitting, with 16 spins

# Links, step size, steps timed in a turn, and of lanes: Lie group methods on chains.
LINKS = {2: (1e-2, 20_000, 10_000), 20: (1e-3, 1_000, 300)}
LIE_GROUP_METHODS = ("rkmk4", "cf4")
QUADROTORS = ("quadrotor_payload", 1e-2, 20_000, 10_000)  # rkmk4, as the cases above


def cases():
    """The cases by name: each system at its first start, scalar and in lanes around it."""
    result = {}
    for integrator, settings in (("variational", CASES), ("spherical_midpoint", SPINS)):
        for name, (system_name, step_size, steps, lane_steps) in settings.items():
            system = systems.get(system_name)
            problem = integrators.get(integrator).bind(system)
            start = system.start(system.starts[0])
            side_by_side = np.moveaxis(members(system), 0, -1)
            result[name] = Case(problem, start, step_size, steps)
            result[f"{name} lanes"] = Case(problem, side_by_side, step_size, lane_steps)
    return result | bond_cases() | lie_group_cases()


def bond_cases():
    """The splitting of a chain of 16 spins into its bonds."""
    name, step_size, steps, lane_steps = BONDS
    system = systems.get(name, count=16)
    problem = integrators.get("splitting").bind(system)
    side_by_side = np.moveaxis(members(system), 0, -1)
    return {
        "bonds": Case(problem, system.start(system.starts[0]), step_size, steps),
        "bonds lanes": Case(problem, side_by_side, step_size, lane_steps),
    }


def lie_group_cases():
    """Lie group methods on chains under gravity, in space."""
    result = {}
    for count, (step_size, steps, lane_steps) in LINKS.items():
        system = systems.get("spherical_pendulum_chain", count=count, gravity=-9.81)
        start = "celledoni_spatial"
        around = system.ensemble(WIDTH, seed=3, around=start, spread=1e-3)
        side_by_side = np.moveaxis(around, 0, -1).copy()
        for method in LIE_GROUP_METHODS:
            problem, name = integrators.get(method).bind(system), f"{method}, {count} links"
            result[name] = Case(problem, system.start(start), step_size, steps)
            result[f"{name} lanes"] = Case(problem, side_by_side, step_size, lane_steps)
    name, step_size, steps, lane_steps = QUADROTORS
    system = systems.get(name)
    problem, side_by_side = (
        integrators.get("rkmk4").bind(system),
        np.moveaxis(members(system), 0, -1),
    )
    result["quadrotors"] = Case(problem, system.start(system.starts[0]), step_size, steps)
    result["quadrotors lanes"] = Case(problem, side_by_side.copy(), step_size, lane_steps)
    return result


def lie_group_comparisons(case, lie):
    """Beside C++: two links by their multipliers, 20 by a dense 3n × 3n Cholesky factorisation."""
    result = []
    for count, bound in ((2, BESIDE), (20, 0.5)):
        chain = systems.get("spherical_pendulum_chain", count=count, gravity=-9.81)
        parameters = np.array([*chain.mass, *chain.length, chain.gravity])
        for method in LIE_GROUP_METHODS:
            name = f"{method}, {count} links"
            function, lanes = f"{method}_chain_{count}", case[f"{name} lanes"]
            cpp = case[name].theirs(getattr(lie, function), parameters)
            side_by_side = lanes.theirs(getattr(lie, f"{function}_lanes"), parameters)
            result += [
                Comparison(f"{name}, scalar", case[name], cpp, bound, exact=False),
                Comparison(f"{name}, lanes", lanes, side_by_side, bound, exact=False),
            ]
            if count == 2:
                beside = f"{name}, lanes beside scalar"
                result.append(Comparison(beside, lanes, lanes.in_turn(), 0.2, peer="scalar"))
    for how, function in (("", lie.rkmk4_quadrotors), (" lanes", lie.rkmk4_quadrotors_lanes)):
        quadrotors = case[f"quadrotors{how}"]
        cpp = quadrotors.theirs(function, quadrotor_parameters())
        what = f"rkmk4, quadrotors,{how or ' scalar'}"
        result.append(Comparison(what, quadrotors, cpp, BESIDE, exact=False, last=-1))
    return result


def quadrotor_parameters():
    """Those of the C++, which keeps no account of work."""
    s = systems.get("quadrotor_payload")
    angle = s.formation_angle
    gains = s.position_gain, s.velocity_gain, s.direction_gain, s.rate_gain
    return np.concatenate([
        [s.gravity, *gains, np.cos(angle), np.sin(angle)], *s.inertia, s.path_linear,
        s.path_quadratic,
    ])  # fmt: skip


def members(system):
    """Eight states near the first start; smooth curves of a chain."""
    if system.name == "heisenberg_chain":
        heights = 0.3 + 0.02 * np.arange(WIDTH)
        return np.array([system.member("wavy_curve", height=height) for height in heights])
    return system.ensemble(WIDTH, seed=3, around=system.starts[0], spread=1e-3)


def with_full_matrix(case):
    """The rod's case with M as any matrix, whose steps cost O(n³)."""
    form = systems.get(CASES["rod"][0]).form
    full = SpheresLagrangian(
        form.inertia_matrix, form.potential, form.potential_gradient, form.parameters
    )
    return Case(integrators.get("variational").bind(full), case.initial, case.step_size, case.steps)


def comparisons(explicit, implicit, spins, splitting, lie):
    """What is timed, from the compiled libraries."""
    case = cases()
    case["rod full"] = with_full_matrix(case["rod"])

    def beside(name, function):
        return case[name], case[name].theirs(function, case[name].problem.parameters)

    def both(what, name, scalar, lanes, exact=True):
        return (
            Comparison(f"{what}, scalar", *beside(name, scalar), BESIDE, exact),
            Comparison(f"{what}, lanes", *beside(f"{name} lanes", lanes), BESIDE, exact),
        )

    bodies, pendulum = "explicit variational, 3 bodies", "implicit variational, double pendulum"
    springs, dipoles = "explicit variational, 4 springs", "explicit variational, 16 dipoles"
    rod, molecules = "implicit variational, rod n=10", "explicit variational, 642 molecules"
    rigid, chain = "spherical midpoint, free rigid body", "spherical midpoint, 100 spins"
    vortices, bonds = "spherical midpoint, 4 vortices", "splitting into bonds, 16 spins"
    polynomials = np.array([*SMALL_SINE, *SMALL_VERSINE])  # of C++, whose angles are small
    return [
        *both(bodies, "bodies", explicit.three_bodies, explicit.three_bodies_lanes),
        *both(springs, "springs", explicit.four_springs, explicit.four_springs_lanes),
        *both(dipoles, "dipoles", explicit.sixteen_dipoles, explicit.sixteen_dipoles_lanes),
        Comparison(
            f"{molecules}, beside C++ pair by pair",
            *beside("molecules", explicit.molecules_642), 0.7, exact=False,
        ),
        *both(pendulum, "pendulum", implicit.double_pendulum, implicit.double_pendulum_lanes),
        Comparison(
            f"{pendulum}, beside uncompensated C++",
            *beside("pendulum", implicit.double_pendulum_uncompensated), BESIDE, exact=False,
        ),
        *both(rod, "rod", implicit.rod, implicit.rod_lanes),
        Comparison(f"{rod}, full matrix", *beside("rod full", implicit.rod_full)),
        *both(rigid, "rigid body", spins.rigid_body, spins.rigid_body_lanes),
        # The first steps have no steps to extrapolate through: ours accelerates them.
        *both(chain, "chain", spins.ring_100, spins.ring_100_lanes, exact=False),
        *both(vortices, "vortices", spins.four_vortices, spins.four_vortices_lanes),
        *(
            Comparison(
                f"{bonds}, {how}", case[name], case[name].theirs(function, polynomials), BESIDE
            )
            for how, name, function in (
                ("scalar", "bonds", splitting.bonds_16),
                ("lanes", "bonds lanes", splitting.bonds_16_lanes),
            )
        ),
        *lie_group_comparisons(case, lie),
    ]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="a list of rows, times in ns")
    wants_json = parser.parse_args().json
    compiler = shutil.which("g++")
    if compiler is None:
        print("skipped: no g++ here to compile what ours is timed beside", file=sys.stderr)
        if wants_json:
            print("[]")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(comparisons(*(compile_cpp(compiler, n, folder) for n in LIBRARIES)))
    if wants_json:
        print(json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False))
    else:
        print(f"ns of CPU per trajectory step; C++: g++ {' '.join([*FLAGS[1:3], CONTRACT])}\n")
        print(table(rows))
    return DOES_NOT_HOLD if any(row.holds is False or not row.cheap for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
