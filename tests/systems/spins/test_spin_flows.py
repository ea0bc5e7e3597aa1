"""Fields and flows of spin systems against the paper's equations, written out with NumPy."""

import numpy as np
import pytest
from cases import Case
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import systems

TIME = 0.7
E1, E2, E3 = np.eye(3)
STRENGTHS = (1.0, -0.6, 1.7, 0.4, -2.0)


def case_of(name, **parameters):
    """A system with a random state, one where no two vortices are closer than 0.9."""
    system = systems.get(name, **parameters)
    return Case(system, system.ensemble(1, 30)[0], name)


def bonds(n, closed):
    return [(i, i + 1) for i in range(n - 1)] + [(n - 1, 0)] * closed


def coupled(w, pairs):
    """ẇ_i = w_i × Σ w_j over the bonds (i, j)."""
    slope = np.zeros_like(w)
    for i, j in pairs:
        slope[i] += np.cross(w[i], w[j])
        slope[j] += np.cross(w[j], w[i])
    return slope


def advected(w, strengths, pairs):
    """ẇ_i = Σ κ_j w_i × w_j/(4π(1 − w_i·w_j)) over the pairs (i, j)."""
    slope = np.zeros_like(w)
    for i, j in pairs:
        rate = 1.0 / (4.0 * np.pi * (1.0 - w[i] @ w[j]))
        slope[i] += strengths[j] * rate * np.cross(w[i], w[j])
        slope[j] += strengths[i] * rate * np.cross(w[j], w[i])
    return slope


def all_pairs(n):
    return [(i, j) for i in range(n) for j in range(i + 1, n)]


def reversible(w, inertia):
    return np.cross(w, w / inertia)


def irreversible(w, inertia, sigma):
    return np.cross(w, (w + 1.5 * sigma * w * w) / inertia)


# (name, parameters, ẇ(t, w)) as in the paper, (14) with 1 + σ w_3 in its third denominator
EQUATIONS = [
    ("free_rigid_body", {}, lambda t, w: reversible(w, [1, 2, 4])),
    ("free_rigid_body", {"inertia": (3, 1, 2)}, lambda t, w: reversible(w, [3, 1, 2])),
    ("irreversible_rigid_body", {}, lambda t, w: irreversible(w, [1, 2, 4], 2 / 3)),
    ("irreversible_rigid_body", {"sigma": -0.9}, lambda t, w: irreversible(w, [1, 2, 4], -0.9)),
    (
        "forced_rigid_body", {},
        lambda t, w: reversible(w, [1, 4 / 3, 2]) + np.cross(w, 0.07 * np.sin(t) * E3),
    ),
    ("precession", {"axis": (1, -2, 3)}, lambda t, w: np.cross(w, [1, -2, 3])),
    ("point_vortices", {}, lambda t, w: advected(w, np.ones(4), all_pairs(4))),
    (
        "point_vortices", {"strengths": STRENGTHS},
        lambda t, w: advected(w, STRENGTHS, all_pairs(5)),
    ),
    (
        "point_vortices", {"strengths": STRENGTHS[:2], "tracers": 3},
        lambda t, w: advected(w, (*STRENGTHS[:2], 0.0, 0.0, 0.0), all_pairs(5)),
    ),
    ("heisenberg_chain", {"count": 3}, lambda t, w: coupled(w, bonds(3, closed=True))),
    ("heisenberg_chain", {"count": 8}, lambda t, w: coupled(w, bonds(8, closed=True))),
    (
        "heisenberg_chain", {"count": 5, "boundary": "open"},
        lambda t, w: coupled(w, bonds(5, closed=False)),
    ),
    (
        "nambu_quadratic", {},
        lambda t, w: np.array([[w[0, 1] * w[0, 2], w[0, 2] * w[0, 0], w[0, 0] * w[0, 1]]]),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "parameters", "equations"), EQUATIONS)
def test_fields_are_those_of_the_paper(name, parameters, equations):
    case = case_of(name, **parameters)
    for state in case.members(5, seed=2):
        expected = equations(TIME, state)
        size = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(case.field("state", state, TIME), expected, atol=1e-14 * size)


# --- flows of pieces -------------------------------------------------------------------------


def about(axis, rate):
    return lambda t, w: np.cross(w, rate(t, w[0]) * axis)


def body(pieces, **parameters):
    return [(parameters, k, piece) for k, piece in enumerate(pieces)]


def rounds_of(strengths):
    """Pairs whose numbers add to 2k, modulo the number of rounds; the last of an even number."""
    n = len(strengths)
    m = n - 1 + n % 2
    for k in range(m):
        pairs = [(i, j) for i, j in all_pairs(m) if (i + j - 2 * k) % m == 0]
        pairs += [(k, n - 1)] * (n > m)
        yield lambda t, w, pairs=pairs: advected(w, strengths, pairs)


def colours_of(n, closed):
    known = bonds(n, closed)
    last = known[n - 1 :] if n % 2 else []
    for pairs in (known[: n - len(last)][::2], known[1 : n - len(last)][::2], last):
        if pairs:
            yield lambda t, w, pairs=pairs: coupled(w, pairs)


PIECES = {
    "free_rigid_body": [  # 1/I_k less 1/I_m of the middle moment, or of two equal ones
        *body([about(E1, lambda t, w: 0.5 * w[0]), about(E3, lambda t, w: -0.25 * w[2])]),
        *body(
            [about(E2, lambda t, w: 0.5 * w[1]), about(E1, lambda t, w: -w[0] / 6)],
            inertia=(3, 1, 2),
        ),
        *body([about(E2, lambda t, w: -0.25 * w[1])], inertia=(2, 4, 2)),
    ],
    "irreversible_rigid_body": body(
        [about(e, lambda t, w, k=k: (w[k] + w[k] ** 2) / 2**k) for k, e in enumerate(np.eye(3))]
    ),
    "forced_rigid_body": body(
        [
            lambda t, w: reversible(w, [1, 4 / 3, 2]),
            about(E3, lambda t, w: -0.4 * np.sin(t)),
        ],
        epsilon=-0.4,
    ),
    "precession": body([lambda t, w: np.cross(w, [1, -2, 3])], axis=(1, -2, 3)),
    "point_vortices": [
        *body(rounds_of(STRENGTHS), strengths=STRENGTHS),
        *body(rounds_of(STRENGTHS[:4]), strengths=STRENGTHS[:4]),
        *body(rounds_of(STRENGTHS[:2]), strengths=STRENGTHS[:2]),
    ],
    "heisenberg_chain": [
        *body(colours_of(3, True), count=3),
        *body(colours_of(6, True), count=6),
        *body(colours_of(7, True), count=7),
        *body(colours_of(2, False), count=2, boundary="open"),
        *body(colours_of(5, False), count=5, boundary="open"),
        *body(colours_of(6, False), count=6, boundary="open"),
    ],
}
SLOW = {"forced_rigid_body": pytest.mark.slow}  # its flow takes seconds to compile
FLOWS = [
    pytest.param(name, *piece, id=f"{name}-{i}", marks=SLOW.get(name, ()))
    for name, pieces in PIECES.items()
    for i, piece in enumerate(pieces)
]


@pytest.mark.parametrize(("name", "parameters", "piece", "equations"), FLOWS)
def test_a_piece_flows_as_its_equations_do(name, parameters, piece, equations):
    case = case_of(name, **parameters)
    split = case.system.form.split
    w, low = case.state.copy(), np.zeros_like(case.state)
    split.flow.scalar(piece, TIME, 1.5, w, low, case.own)
    exact = solve_ivp(
        lambda t, y: equations(t, y.reshape(-1, 3)).ravel(), (TIME, TIME + 1.5),
        case.state.ravel(), method="DOP853", rtol=2.3e-14, atol=1e-16,
    )  # fmt: skip
    np.testing.assert_array_equal(w, case.state)  # what it gains is in `low` alone
    assert np.abs(low).max() > 0.01
    np.testing.assert_allclose(w + low, exact.y[:, -1].reshape(-1, 3), rtol=0, atol=2e-14)


def test_every_piece_is_tested():
    for name, pieces in PIECES.items():
        for parameters, _, _ in pieces:
            found = [k for known, k, _ in pieces if known == parameters]
            assert found == list(range(systems.get(name, **parameters).form.split.pieces))


@pytest.mark.parametrize("n", range(2, 10))
def test_vortices_meet_each_other_once_and_nobody_twice_in_a_round(n):
    case = case_of("point_vortices", strengths=tuple(1.0 + np.arange(n)))
    split, met = case.system.form.split, []
    for piece in range(split.pieces):
        partners = []
        for i in range(n):  # who feels where vortex i is?
            moved = []
            for shift in (0.0, 0.01):
                w, low = case.state.copy(), np.zeros_like(case.state)
                w[i] = w[i] + shift
                split.flow.scalar(piece, 0.0, 0.1, w, low, case.own)
                moved.append(w + low)
            partners.append([j for j in range(n) if j != i and np.any(moved[0][j] != moved[1][j])])
        assert all(len(found) <= 1 for found in partners)
        met += [(i, j) for i, found in enumerate(partners) for j in found]
    assert sorted(met) == [(i, j) for i in range(n) for j in range(n) if i != j]


@given(st.integers(2, 9), st.booleans(), st.integers(0, 100))
def test_total_spin_stays_over_many_bonds(n, closed, seed):
    case = case_of("heisenberg_chain", count=n + closed, boundary=("open", "closed")[closed])
    split, (w,) = case.system.form.split, case.members(1, seed)
    total, low = w.sum(axis=0), np.zeros_like(w)
    for _ in range(50):
        for piece in range(split.pieces):
            split.flow.scalar(piece, 0.0, 0.3, w, low, case.own)
    assert np.abs((w + low).sum(axis=0) - total).max() <= 4e-15
