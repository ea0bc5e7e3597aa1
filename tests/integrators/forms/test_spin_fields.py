"""What a Hamiltonian on spins yields: its field, and the exact flows of its pieces."""

import numpy as np
import pytest
from cases import parameters, split_cases

from integrators.forms.hamiltonians import NambuHamiltonian

T = 0.3


def states_of(case):
    """The case's state and some random ones."""
    return [case.state, *case.members(4, seed=11)]


def derivative(function, h):
    """Fourth-order central difference of a function at 0."""
    return (8 * (function(h) - function(-h)) - (function(2 * h) - function(-2 * h))) / (12 * h)


def energy(case, state, t=T):
    """H of a state, by the system's own function."""
    hamiltonian = case.system.form.hamiltonian
    return hamiltonian.scalar(t, np.ascontiguousarray(state), case.own)


def step_of(state):
    """A step for differences: small beside the distance of the closest two spins."""
    apart = state[:, None] - state[None]
    distances = np.linalg.norm(apart, axis=2)[np.triu_indices(len(state), 1)]
    return 1e-3 * np.min(distances, initial=1.0)


def pieces_of(case):
    """``flow(state, t, h)`` of every piece."""
    split = case.system.form.split

    def flow_of(piece):
        def flow(state, t, h):
            w, low = np.array(state), np.zeros_like(state)
            split.flow.scalar(piece, t, h, w, low, case.own)
            return w + low

        return flow

    return [flow_of(piece) for piece in range(split.pieces)]


# A flow takes seconds to compile: the first stage has one.
on_split_cases = pytest.mark.parametrize(
    "case_in_pieces", parameters(split_cases(), lambda case: str(case) == "free_rigid_body")
)


def test_gradients_are_those_of_the_hamiltonian(spin_case):
    for state in states_of(spin_case):
        found = spin_case.gradient(state, T)
        tracers = getattr(spin_case.system.form, "tracers", 0)  # H does not depend on them
        found[len(state) - tracers :] = 0.0
        expected = np.empty_like(state)
        for place in np.ndindex(state.shape):
            unit = np.zeros_like(state)
            unit[place] = 1.0
            expected[place] = derivative(
                lambda s, unit=unit, state=state: energy(spin_case, state + s * unit),
                step_of(state),
            )
        np.testing.assert_allclose(found, expected, atol=5e-12 * max(1.0, np.abs(found).max()))


def test_fields_follow_from_the_gradient(spin_case):
    """(2): ẇ_i = w_i × (1/κ_i) ∂H/∂w_i, or ∇C × ∇H of a Nambu system."""
    form = spin_case.system.form
    for state in states_of(spin_case):
        slope = spin_case.gradient(state, T)
        if isinstance(form, NambuHamiltonian):
            expected = np.cross(state @ form.matrix, slope)
        else:
            expected = np.cross(state, slope / form.divisors[:, None])
        found = spin_case.field("state", state, T)
        np.testing.assert_allclose(found, expected, atol=1e-14 * max(1.0, np.abs(slope).max()))


def test_energy_changes_by_its_explicit_time_alone(spin_case):
    """dH/dt = ∂H/∂t along the field."""
    for state in states_of(spin_case):
        slope = spin_case.field("state", state, T)
        speed = max(1.0, np.abs(slope).max())

        def along(s, state=state, slope=slope):
            return energy(spin_case, state + s * slope, T + s)

        def still(s, state=state):
            return energy(spin_case, state, T + s)

        found = derivative(along, step_of(state) / speed)
        assert found == pytest.approx(derivative(still, 1e-3), abs=5e-12 * speed**2)


@on_split_cases
def test_the_pieces_make_up_the_field(case_in_pieces):
    for state in states_of(case_in_pieces):
        field = case_in_pieces.field("state", state, T)
        h = step_of(state) / max(1.0, np.abs(field).max())
        slopes = [
            derivative(lambda s, flow=flow, state=state: flow(state, T, s), h)
            for flow in pieces_of(case_in_pieces)
        ]
        np.testing.assert_allclose(sum(slopes), field, atol=2e-11 * max(1.0, np.abs(slopes).max()))


@on_split_cases
def test_pieces_flow(case_in_pieces):
    """Two times, one after the other, are their sum; back again is where it began."""
    for state in states_of(case_in_pieces):
        size = np.linalg.norm(state, axis=1).max()
        for flow in pieces_of(case_in_pieces):
            first, second = 0.7 * case_in_pieces.time_scale, 1.1 * case_in_pieces.time_scale
            half = flow(state, T, first)
            whole = flow(state, T, first + second)
            rate = 1.0 + np.abs(whole - state).max()
            assert np.abs(flow(half, T + first, second) - whole).max() <= 1e-14 * size * rate
            assert np.abs(flow(half, T + first, -first) - state).max() <= 1e-14 * size * rate


@on_split_cases
def test_pieces_keep_lengths_and_what_every_piece_conserves(case_in_pieces):
    momenta = [q for q in case_in_pieces.system.quantities if q.kind == "momentum_map"]
    for state in states_of(case_in_pieces):
        lengths = np.linalg.norm(state, axis=1)
        for flow in pieces_of(case_in_pieces):
            moved = flow(state, T, case_in_pieces.time_scale)
            assert np.abs(np.linalg.norm(moved, axis=1) - lengths).max() <= 2e-15 * lengths.max()
            for quantity in momenta:
                both = case_in_pieces.evaluate(quantity.function, np.stack([state, moved]))
                change = np.abs(both[1] - both[0])[list(quantity.columns)]
                assert change.max() <= 2e-15 * lengths.max()
