"""In double-double every integrator comes out on every system as in double, with 31 digits."""

import itertools
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from cases import first_of, pairings

import integrators
import systems
from integrators import InputError
from integrators.compiler.kernels import IS_COMPILED
from integrators.precision import DOUBLE_DOUBLE
from integrators.status import ENERGY, STATUS_ROW
from integrators.stepping.batch import run_batch

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="plain Python has float64 alone")

FOLDER = Path(__file__).parents[1]
CASES = {
    name: case
    for file in ("reference", "reference_lee", "reference_celledoni", "reference_mclachlan")
    for name, case in json.loads((FOLDER / f"{file}.json").read_text())["cases"].items()
}
VARIATIONAL, SPLITTING = "variational+sofroniou_spaletta10", "splitting+sofroniou_spaletta10"
MIDPOINT = "spherical_midpoint+sofroniou_spaletta10"  # one kernel for all systems
REFERENCES = {  # parameters and starts, an integrator and steps in a unit of time, bounds of errors
    "spherical_pendulum_chain/lee_example1_unit": ({}, "lee", VARIATIONAL, 1000, 3e-23),
    "spherical_pendulum_chain/n2_planar":
        ({"gravity": -9.81}, "celledoni", VARIATIONAL, 1000, 3e-23),
    "spherical_pendulum_chain/n2_spatial":
        ({"gravity": -9.81}, "celledoni_spatial", VARIATIONAL, 1000, 3e-23),
    "nbody_sphere/lee_example2": ({}, "lee", VARIATIONAL, 1000, 3e-23),
    # ω is some 10, and the digits end at 3e-22, then 3e-21: two compositions agree to 1e-30
    "elastic_rod/lee_example4_printed_inertia":
        ({"inertia": "printed"}, "lee", VARIATIONAL, 50_000, 3e-21),
    "magnetic_dipoles/lee_example5_as_run":
        ({"inertia_factor": 1.0}, "lee", VARIATIONAL, 400, 3e-23),
    "heavy_top/paper": ({}, "celledoni", SPLITTING, 4000, 3e-23),
    "quadrotor_payload/t2": ({}, "celledoni", "rk9", 1000, 1e-22),
    "free_rigid_body/figure3": ({"inertia": (1.0, 4 / 3, 2.0)}, "", SPLITTING, 20, 3e-23),
    "irreversible_rigid_body/t10": ({}, "", MIDPOINT, 40, 3e-23),
    "forced_rigid_body/eps0.07": ({}, "", MIDPOINT, 32, 3e-23),
    "point_vortices/equal_on_invariant_manifold": ({}, "", MIDPOINT, 20, 3e-23),
    "heisenberg_chain/closed_curve_100": ({}, "", "rk9", 40, 3e-23),
    "nambu_quadratic/t1": ({}, "", "rk9", 200, 3e-23),
}  # fmt: skip
STEP = 0.01  # time scales
ROUNDING = 2e-14  # of a few steps in double, relative to the largest number of the state
# The same of the energy, relative to itself and its parts: two roundings of each of three steps,
# and of what is compared at their ends.
ENERGY_ROUNDING = 8 * 2.0**-52


def in_double_double(pairing, states, steps=3, step=STEP, **options):
    """A batch of the pairing in double-double, from states in doubles brought to the manifold."""
    problem = pairing.integrator.bind(pairing.case.system, DOUBLE_DOUBLE)
    problem = replace(problem, inlined=False)
    refined = pairing.case.system.refined(states)
    return run_batch(problem, refined, step * pairing.case.time_scale, steps, 2, True, **options)


def test_steps_are_those_in_double(costly):
    state = costly.case.state[None]
    found, expected = in_double_double(costly, state), costly.batch(state)
    assert found.report[0, STATUS_ROW] == expected.report[0, STATUS_ROW] == 0
    size = np.max(np.abs(expected.states))
    assert np.max(np.abs(found.states[..., 0] - expected.states)) < ROUNDING * size
    high, low = np.moveaxis(found.states, -1, 0)
    assert np.all(high + low == high)
    assert np.any(low)  # otherwise it has the digits of a double only
    gained = np.abs(found.statistics[:, :, ENERGY] - expected.statistics[:, :, ENERGY])
    assert np.max(gained) <= ENERGY_ROUNDING * size_of_energy(costly.case)


def size_of_energy(case):
    """|H| + Σ |y ∂H/∂y| of the case's state: kinetic and potential energy, which may cancel."""
    state = case.moving(case.state)
    shifts = 1e-3 * np.eye(state.size).reshape(-1, *state.shape) * state
    energy, *shifted = case.evaluate(case.followed, np.stack([state, *(state + shifts)]))[:, 0]
    return abs(energy) + np.sum(np.abs(shifted - energy)) / 1e-3


def test_unit_lengths_are_kept_to_31_digits(costly):
    lengths = getattr(costly.case.system.form, "lengths", "unit")
    if "unit_length" not in costly.integrator.preserves or lengths != "unit":
        pytest.skip("no unit lengths are kept")
    off = in_double_double(costly, costly.case.state[None]).statistics[:, :, 1]
    assert np.max(np.abs(off)) < 1e-29


EXPLICIT = next(p for p in pairings() if str(p) == "rk4[q_omega]-heavy_top")
ITERATED = next(p for p in pairings() if p.name == "spherical_midpoint")
COMPOSED = next(p for p in pairings() if p.name == "variational+suzuki4")
slow = pytest.mark.slow


@slow
@pytest.mark.parametrize("chosen", [ITERATED, EXPLICIT], ids=str)
def test_members_come_out_as_alone(chosen):
    members = chosen.case.members(3, seed=1)
    together = in_double_double(chosen, members, steps=10)
    for m in range(3):
        alone = in_double_double(chosen, members[m : m + 1], steps=10)
        np.testing.assert_array_equal(together.states[m], alone.states[0])
        np.testing.assert_array_equal(together.report[m], alone.report[0])


@pytest.mark.parametrize(
    ("chosen", "steps", "count"),
    first_of([(COMPOSED, 2, 1), (ITERATED, 10, 3)]),
    ids=str,
)
def test_runs_go_on_from_checkpoints(chosen, steps, count):
    members = chosen.case.members(count, seed=2)
    whole = in_double_double(chosen, members, steps=2 * steps)
    first = in_double_double(chosen, members, steps=steps)
    problem = chosen.integrator.bind(chosen.case.system, DOUBLE_DOUBLE)
    assert first.checkpoints.shape == (count, problem.checkpoint_size)
    rest = in_double_double(chosen, members, steps=steps, checkpoints=first.checkpoints)
    np.testing.assert_array_equal(rest.states[:, -1], whole.states[:, -1])
    np.testing.assert_array_equal(rest.checkpoints, whole.checkpoints)


# --- reference states ------------------------------------------------------------------------


def off(run, entry):
    """The largest error of a run's end, of states given as decimals."""
    rows = entry["y"] if "y" in entry else entry["q"] + entry["omega"]
    ends = zip(run.states[-1].ravel(), run.states_low[-1].ravel(), strict=True)
    own = [Fraction(float(high)) + Fraction(float(low)) for high, low in ends]
    digits = [Fraction(x) for row in rows for x in row]  # without the work of a force
    return max(float(abs(x - y)) for x, y in zip(own[: len(digits)], digits, strict=True))


def reached(name, integrator, duration, step_size):
    """The run from the start of a reference case."""
    parameters, start, *_ = REFERENCES[name]
    system = systems.get(name.partition("/")[0], **parameters)
    start = system.start(start or system.starts[0], arithmetic=DOUBLE_DOUBLE)
    return integrators.integrate(
        system, integrators.get(integrator), start,
        duration=duration, samples=1, step_size=step_size, arithmetic=DOUBLE_DOUBLE,
    )  # fmt: skip


def entries(kind):
    """The first of the reference states, and as slow ones the others."""
    found = [(name, entry) for name in REFERENCES for entry in CASES[name].get(kind, [])]
    return [
        pytest.param(
            name, entry, id=f"{name}-{entry.get('t') or entry.get('steps')}",
            marks=() if entry is found[0][1] else slow,
        )
        for name, entry in found
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "entry"), entries("variational"))
def test_the_variational_map_has_every_digit(name, entry):
    step, steps = entry["step_size"], entry["steps"]
    assert off(reached(name, "variational", step * steps, step), entry) < 1e-24


def test_every_reference_state_is_reached():
    assert set(REFERENCES) == set(CASES)


@pytest.mark.parametrize(("name", "entry"), entries("exact"))
def test_runs_come_to_the_exact_states(name, entry):
    """But for where the digits of the reference end."""
    *_, integrator, steps, bound = REFERENCES[name]
    duration = float(entry["t"])
    run = reached(name, integrator, duration, duration / round(steps * duration))
    assert off(run, entry) < bound


# --- orders ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "system", "steps"),
    first_of(
        [
            ("variational+kahan_li8", "spherical_pendulum_chain", 200),
            ("variational+sofroniou_spaletta10", "spherical_pendulum_chain", 100),
            ("spherical_midpoint+kahan_li8", "free_rigid_body", 50),
            ("splitting+blanes_casas_murua8", "free_rigid_body", 50),
            ("splitting+blanes_casas_murua8", "heavy_top", 800),
            ("splitting+blanes_moan6", "free_rigid_body", 200),
            ("collective_gauss6", "free_rigid_body", 200),
            ("rkmk5", "spherical_pendulum_chain", 1600),
            ("cf4", "spherical_pendulum_chain", 8000),
            ("rk45+fixed", "spherical_pendulum_chain", 1600),
        ],
        2,
    ),
)
def test_orders_are_measured_below_the_digits_of_doubles(name, system, steps):
    system, integrator = systems.get(system), integrators.get(name)
    start = system.start(system.starts[0], arithmetic=DOUBLE_DOUBLE)
    duration = 0.1 if system.name == "heavy_top" else 1.0

    def end(count):
        run = integrators.integrate(
            system, integrator, start, duration=duration, samples=1, step_size=duration / count,
            arithmetic=DOUBLE_DOUBLE,
        )  # fmt: skip
        return run.states[-1], run.states_low[-1]

    ends = [end(steps * 2**k) for k in range(3)]
    first, second = (
        np.linalg.norm((a[0] - b[0]) + (a[1] - b[1])) for a, b in itertools.pairwise(ends)
    )
    assert second < 2e-16  # of a state of size 1
    assert np.log2(first / second) == pytest.approx(integrator.order, abs=0.05)


# --- bad input ---------------------------------------------------------------------------------


def run(name="variational", arithmetic=DOUBLE_DOUBLE, **options):
    system = systems.get("spherical_pendulum_chain")
    given = {"step_size": 0.01} | options
    return integrators.integrate(
        system, integrators.get(name), system.start("lee"), duration=0.1, samples=1,
        arithmetic=arithmetic, **given,
    )  # fmt: skip


def test_a_state_in_doubles_is_exact():
    assert np.all(np.isfinite(run().states_low))
    assert run(arithmetic="double").states_low is None
    np.testing.assert_array_equal(run(state_low=np.zeros((4, 3))).states_low, run().states_low)


def test_bad_input_is_named():
    with pytest.raises(InputError, match="'doubledouble'. Did you mean 'double-double'"):
        run(arithmetic="doubledouble")
    with pytest.raises(InputError, match="state_low is for arithmetic = 'double-double'"):
        run(arithmetic="double", state_low=np.zeros((4, 3)))
    with pytest.raises(InputError, match="state_low of shape"):
        run(state_low=np.zeros((3, 3)))
    with pytest.raises(InputError, match=r"at most half a unit in its last place"):
        run(state_low=np.full((4, 3), 1e-9))
    with pytest.raises(
        InputError, match="'dop853' computes in double precision only.*: rkmk54, .*rk45"
    ):
        run("dop853", step_size=None, tolerance=1e-6)
    with pytest.raises(InputError, match="expected 5e-30 to 1 in double-double"):
        run("rk45", step_size=None, tolerance=1e-30)
