"""Splitting: its map beside one put together by hand, orders, invariants over long runs."""

import numpy as np
import pytest
from cases import first_of

import integrators
import systems
from integrators import status as status_of
from integrators.compiler.elements import aligned
from integrators.stepping.batch import run_batch

EPSILON = np.finfo(float).eps

# Pieces: 2, 2 with explicit time in the last, 3, 3 (pairs of four vortices), 1, 2 of which lengths
# of rows are not kept.
SPLIT = {
    "chain": systems.get("heisenberg_chain", count=6),
    "driven body": systems.get("forced_rigid_body", epsilon=0.9),
    "odd chain": systems.get("heisenberg_chain", count=5, lengths="any"),
    "vortices": systems.get("point_vortices"),
    "precession": systems.get("precession", axis=(0.3, -0.5, 0.7)),
    "top": systems.get("heavy_top", inertia=(1.0, 2.0, 1.0), mass=0.8, length=0.4),
}
NAMES = ["splitting", "splitting+triple_jump4", "splitting+blanes_moan6"]


def split(name):
    """A system of `SPLIT` and a random state of it."""
    system = SPLIT[name]
    return system, system.ensemble(1, seed=5)[0]


def flowed(system, state, piece, t, h):
    """The exact flow of one piece."""
    w, low = np.array(state), np.zeros_like(state)
    own = np.asarray(system.form.parameters, dtype=float)
    system.form.split.flow.scalar(piece, t, h, w, low, own)
    assert np.all(w == state)  # what it gains is in `low` alone
    return w + low


def by_hand(system, state, shares, t, h):
    """χ, χ*, χ, … one after the other, nothing merged; time passes with the last piece."""
    pieces = system.form.split.pieces
    for s, share in enumerate(shares):
        order = range(pieces) if s % 2 == 0 else range(pieces - 1, -1, -1)
        for piece in order:
            state = flowed(system, state, piece, t, share * h)
        t += share * h
    return state


@pytest.mark.parametrize("integrator", NAMES)
@pytest.mark.parametrize("name", first_of(SPLIT))
def test_a_step_is_the_maps_one_after_the_other(name, integrator):
    system, state = split(name)
    method = integrators.get(integrator)
    h, steps = 0.1, 7
    batch = run_batch(method.bind(system), state[None], h, 1, steps)
    expected = state
    for k in range(steps):
        expected = by_hand(system, expected, method.shares, k * h, h)
        assert batch.states[0, k + 1] == pytest.approx(expected, abs=2e-14)  # round-off by hand


@pytest.mark.parametrize("name", first_of(SPLIT))
def test_steps_are_those_of_the_kernel_between_the_processor_and_its_inverse(name):
    """Whatever is seen is processed, and what goes on is not: a sample more changes no other."""
    system, state = split(name)
    method = integrators.get("splitting+blanes_casas_murua8")
    problem, h, steps = method.bind(system), 0.1, 6
    kernel, processor = np.split(method.shares, [2 * method.composition.stages])
    inner, expected = by_hand(system, state, -processor[::-1], 0.0, h), [state]
    for k in range(steps):
        inner = by_hand(system, inner, kernel, k * h, h)
        expected.append(by_hand(system, inner, processor, (k + 1) * h, h))
    every = run_batch(problem, state[None], h, 1, steps, statistics=True)
    np.testing.assert_allclose(every.states[0, 1:], expected[1:], rtol=0.0, atol=2e-13)
    seldom = run_batch(problem, state[None], h, 3, 1)
    rest = run_batch(problem, None, h, 3, 1, checkpoints=seldom.checkpoints)
    assert np.all(seldom.states[0, 1] == every.states[0, 3])
    assert np.all(rest.states[0, 1] == every.states[0, 6])


@pytest.mark.slow
def test_the_time_of_the_last_piece_is_that_of_its_shares():
    """By hand with the time standing still in a step the body goes elsewhere."""
    system, state = split("driven body")
    method = integrators.get("splitting+triple_jump4")
    problem, h = method.bind(system), 0.1
    for t0 in (0.0, 1.3):
        y, report = state.copy(), np.zeros(status_of.REPORT_SIZE)
        advance, *functions, _ = problem.kernels(problem.elements[0])
        advance(
            *functions, t0, h, 0, 1, problem.constants, problem.options, y,
            aligned((problem.memory,)), problem.parameters, aligned((problem.work,)), report,
        )  # fmt: skip
        assert y == pytest.approx(by_hand(system, state, method.shares, t0, h), abs=4e-15)
        still = state
        for share in np.reshape(method.shares, (-1, 2)):
            still = by_hand(system, still, share, t0, h)
        assert np.abs(y - still).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("step", [0.5, 40.0])
def test_one_piece_is_its_exact_flow_whatever_the_step(step):
    system, state = split("precession")
    axis = np.array(system.axis)
    run = integrators.integrate(
        system, integrators.get("splitting"), state, step_size=step, duration=4 * step, samples=4
    )
    rate, direction = np.linalg.norm(axis), axis / np.linalg.norm(axis)
    angle = -rate * run.times[:, None]
    along = (state[0] @ direction) * direction
    across = state[0] - along
    expected = along + np.cos(angle) * across + np.sin(angle) * np.cross(direction, across)
    assert run.states[:, 0] == pytest.approx(expected, abs=4 * EPSILON * max(1.0, 4 * step * rate))


@pytest.mark.parametrize(("step", "bound"), [(0.1, 4e-14), (0.5, 2e-13)])
def test_long_runs_keep_total_spin_and_lengths(step, bound):
    """100,000 steps; total spin measured 7.2e-15 and 7.1e-14.

    The flow of a bond keeps all lengths; one that does so of unit vectors only, which takes fewer
    operations, lets their errors grow: with a step of 0.5 to any size, total spin with them.
    """
    system = systems.get("heisenberg_chain", count=16)
    run = integrators.integrate(
        system, integrators.get("splitting"), system.ensemble(1, seed=5)[0],
        step_size=step, duration=1e5 * step, samples=100,
    )  # fmt: skip
    total = run.states.sum(axis=1)
    assert np.abs(total - total[0]).max() <= bound
    lengths = np.sum(run.states**2, axis=2)
    assert np.abs(lengths - 1.0).max() <= 4 * EPSILON


def test_spins_of_any_length_keep_the_one_they_begin_with():
    system = systems.get("heisenberg_chain", count=6, lengths="any")
    state = system.ensemble(1, seed=2)[0]
    state *= np.array([1e-150, 0.0, 1e-3, 1.0, 7.0, 40.0])[:, None]
    run = integrators.integrate(
        system, integrators.get("splitting+suzuki4"), state,
        step_size=0.01, duration=100.0, samples=10,
    )  # fmt: skip
    assert run.status == status_of.COMPLETE
    lengths = np.linalg.norm(run.states, axis=2)
    assert lengths == pytest.approx(np.tile(lengths[0], (11, 1)), rel=4 * EPSILON, abs=0.0)


def test_a_start_a_little_off_the_spheres_is_led_back_to_them():
    system = systems.get("heisenberg_chain", count=16)
    state = (1.0 + 4e-10) * system.ensemble(1, seed=2)[0]
    run = integrators.integrate(
        system, integrators.get("splitting"), state, step_size=0.1, duration=2.4, samples=24
    )
    lengths = np.sum(run.states**2, axis=2)
    assert np.abs(lengths[1] - 1.0).max() > 7e-10  # an eighth of them is led back in each step
    assert np.abs(lengths[-1] - 1.0).max() <= 4 * EPSILON


def test_a_form_without_pieces_is_refused_with_what_would_do():
    with pytest.raises(integrators.InputError, match="needs the form SplitFlow.*variational"):
        integrators.get("splitting").check(systems.get("nbody_sphere"))
    with pytest.raises(integrators.InputError, match="takes a map and its adjoint.*'splitting'"):
        integrators.get("spherical_midpoint+blanes_moan6")
