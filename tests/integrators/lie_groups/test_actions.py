"""Actions of Lie groups: group laws, generators, dexp⁻¹ and brackets, beside matrices."""

import math

import numpy as np
import pytest
import scipy.linalg
from cases import first_of

from integrators import InputError
from integrators.lie_groups.actions import product, spheres, tangent_spheres
from integrators.lie_groups.exponentials import BERNOULLI
from integrators.lie_groups.factors import (
    COADJOINT_SE3,
    RIGHT_ROTATION,
    ROTATION,
    SEMIDIRECT,
    SEMIDIRECT_R3,
    SPHERE,
    TANGENT_SPHERE,
    TRANSLATION,
)

EPSILON = np.finfo(float).eps
EVERYTHING = product(
    SPHERE, TANGENT_SPHERE, COADJOINT_SE3, ROTATION, RIGHT_ROTATION, TRANSLATION, SEMIDIRECT,
    SEMIDIRECT_R3,
)  # fmt: skip
# Rows of the state and of the algebra, in that order.
Q, OMEGA, R, S, V = (0, 1), 2, slice(5, 8), slice(8, 11), 11
PAIRS = (slice(12, 15), 15), (slice(16, 19), 20)  # of a rotation and its momentum
ROTATIONS = (R, S, PAIRS[0][0], PAIRS[1][0])
TURNS = (0, 1, 3, 5, 6, 8, 10)  # the rows of an element that are rotations
NOTHING = np.zeros(0)
STEP = 1e-3


def evaluated(kernel, rows, first, second, t=0.0):
    """What a `whole_state` kernel writes, of a stack and a second, flat one."""
    out = np.empty((rows, 3))
    kernel.scalar(t, np.ascontiguousarray(first), NOTHING, out, np.ravel(second).copy())
    return out


def act(action, y, sigma):
    """exp(σ)·y"""
    return y + evaluated(action.act, action.rows, y, sigma)


def velocity(action, y, sigma):
    return evaluated(action.velocity, action.rows, y, sigma)


def dexpinv(action, sigma, v):
    """dexp⁻¹_σ v, and the largest squared angle in σ."""
    out, work = np.array(v), np.full(1, np.nan)
    action.dexpinv.scalar(0.0, np.ascontiguousarray(sigma), NOTHING, out, work)
    return out, work[0]


def bracket(action, a, b):
    return evaluated(action.bracket, action.algebra_rows, a, b)


# --- states and elements ------------------------------------------------------------------------


def unit(v):
    return v / np.linalg.norm(v)


def state_of(numbers):
    """A state of `EVERYTHING` from three numbers for each row."""
    y = np.reshape(numbers, (-1, 3)).copy()
    for row in Q:
        y[row] = unit(y[row] + (0.0, 0.0, 3.5))
    y[OMEGA] -= (y[OMEGA] @ y[1]) * y[1]
    for rows in ROTATIONS:
        y[rows] = scipy.linalg.expm(hat(y[rows][0]))
    return y


def hat(u):
    """û, (5)."""
    return np.array([[0.0, -u[2], u[1]], [u[2], 0.0, -u[0]], [-u[1], u[0], 0.0]])


def random_pair(seed, size=1.0):
    generator = np.random.default_rng(seed)
    state = state_of(generator.uniform(-2.0, 2.0, 3 * EVERYTHING.rows))
    return state, size * generator.standard_normal((EVERYTHING.algebra_rows, 3))


def elements(seed):
    """Two, of angles up to 5."""
    return np.random.default_rng(seed).uniform(-3.0, 3.0, (2, EVERYTHING.algebra_rows, 3))


# --- the same by matrices -----------------------------------------------------------------------


def motion(u, a):
    """exp(A, a) as a 4×4 matrix."""
    element = np.zeros((4, 4))
    element[:3, :3], element[:3, 3] = hat(u), a
    return scipy.linalg.expm(element)


def adjoint(g):
    """Ad_g on R⁶, by conjugation of 4×4 matrices."""
    columns = []
    for basis in np.eye(6):
        element = np.zeros((4, 4))
        element[:3, :3], element[:3, 3] = hat(basis[:3]), basis[3:]
        moved = g @ element @ np.linalg.inv(g)
        columns.append([moved[2, 1], moved[0, 2], moved[1, 0], *moved[:3, 3]])
    return np.transpose(columns)


def by_matrices(y, *elements):
    """The state moved by one element after another, in the algebra of `EVERYTHING`."""
    y = y.copy()
    for sigma in elements:
        turns = [scipy.linalg.expm(hat(u)) for u in sigma]
        y[0] = turns[0] @ y[0]
        y[1:3] = np.reshape(adjoint(motion(sigma[1], sigma[2])) @ y[1:3].ravel(), (2, 3))
        inverse = np.linalg.inv(motion(sigma[3], sigma[4]))
        y[3:5] = np.reshape(adjoint(inverse).T @ y[3:5].ravel(), (2, 3))  # Ad*_{g⁻¹}, (10)
        y[R], y[S], y[V] = turns[5] @ y[R], y[S] @ turns[6], y[V] + sigma[7]
        for (rows, momentum), (turn, shift) in zip(PAIRS, ((8, 9), (10, 12)), strict=True):
            pair = np.eye(4)  # (11), which is the product of SE(3)
            pair[:3, :3], pair[:3, 3] = y[rows], y[momentum]
            pair = motion(sigma[turn], sigma[shift]) @ pair
            y[rows], y[momentum] = pair[:3, :3], pair[:3, 3]
        y[19], y[21] = y[19] + sigma[11], y[21] + sigma[13]
    return y


def test_two_elements_move_a_state_as_the_product_of_their_matrices():
    for seed in range(5):
        y, one = random_pair(seed)
        two = random_pair(100 + seed)[1]
        moved = act(EVERYTHING, act(EVERYTHING, y, one), two)
        assert moved == pytest.approx(by_matrices(y, one, two), abs=2e-13)


@pytest.mark.parametrize(("s", "t"), [(0.7, -0.9), (0.0, 1.0), (1.0, -1.0), (0.3, 0.6)])
def test_one_parameter_groups(s, t):
    """exp(sσ) exp(tσ) = exp((s + t)σ)"""
    for seed in range(5):
        (y, _), (sigma, _) = random_pair(seed), elements(seed)
        twice = act(EVERYTHING, act(EVERYTHING, y, t * sigma), s * sigma)
        assert twice == pytest.approx(act(EVERYTHING, y, (s + t) * sigma), abs=1e-13)


def slope(path):
    """The derivative at 0 of a path of states, by differences of order four."""
    one, two = (path(k * STEP) - path(-k * STEP) for k in (1, 2))
    return (8.0 * one - two) / (12.0 * STEP)


@pytest.mark.parametrize("seed", range(5))
def test_velocities_are_derivatives_of_the_action(seed):
    (y, _), (sigma, _) = random_pair(seed), elements(seed)
    expected = slope(lambda t: act(EVERYTHING, y, t * sigma))  # (2)
    assert velocity(EVERYTHING, y, sigma) == pytest.approx(expected, abs=2e-9)


@pytest.mark.parametrize("seed", range(5))
def test_dexpinv_is_that_of_the_action(seed):
    """exp(σ + t dexp⁻¹_σ v)·y moves with the velocity of v, from either side."""
    (y, _), (sigma, v) = random_pair(seed), elements(seed)
    pulled, widest = dexpinv(EVERYTHING, sigma, v)
    assert widest == pytest.approx(max(sigma[i] @ sigma[i] for i in TURNS), rel=4 * EPSILON)
    found = slope(lambda t: act(EVERYTHING, y, sigma + t * pulled))
    expected = velocity(EVERYTHING, act(EVERYTHING, y, sigma), v)
    assert found == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("seed", range(5))
def test_dexpinv_is_its_series_by_brackets(seed):
    sigma, v = elements(seed)
    sigma, power, series = sigma / 10.0, v, 0.0  # angles up to 0.6
    for k in range(14):
        series = series + float(BERNOULLI[k] / math.factorial(k)) * power  # (8)
        power = bracket(EVERYTHING, sigma, power)
    assert dexpinv(EVERYTHING, sigma, v)[0] == pytest.approx(series, abs=2e-14)


# --- what an action keeps it restores -----------------------------------------------------------


def errors_of(y):
    """How far a state is off what the action of its rows keeps."""
    lengths = [y[row] @ y[row] - 1.0 for row in Q]
    orthogonality = [y[rows].T @ y[rows] - np.eye(3) for rows in ROTATIONS]
    return np.concatenate([lengths, [y[1] @ y[OMEGA]], np.ravel(orthogonality)])


@pytest.mark.parametrize("size", [0.0, 0.1, 1.0])
def test_a_state_that_is_slightly_off_is_led_back(size):
    generator = np.random.default_rng(4)
    for seed in range(3):
        y, sigma = random_pair(seed, size)
        off = y + 1e-6 * generator.standard_normal(y.shape)
        assert np.abs(errors_of(off)).max() > 1e-7
        moved = act(EVERYTHING, off, sigma)
        assert np.abs(errors_of(moved)).max() < 2e-10  # the square of what it was
        assert moved == pytest.approx(act(EVERYTHING, y, sigma), abs=5e-5)


def test_vectors_of_any_length_keep_theirs():
    generator = np.random.default_rng(2)
    y, sigma = generator.standard_normal((2, 3, 3))
    moved = act(spheres(3, "any"), y, sigma)
    assert np.sum(moved**2, axis=1) == pytest.approx(np.sum(y**2, axis=1), rel=4 * EPSILON)
    expected = [scipy.linalg.expm(hat(u)) @ q for u, q in zip(sigma, y, strict=True)]
    assert moved == pytest.approx(np.array(expected), abs=1e-14)


def test_coadjoint_orbits_are_kept():
    """|Γ|² and Π·Γ, the Casimirs of se(3)*."""
    for seed in range(10):
        y, sigma = random_pair(seed)
        moved = act(EVERYTHING, y, sigma)
        for casimir in (lambda y: y[4] @ y[4], lambda y: y[3] @ y[4]):
            assert casimir(moved) == pytest.approx(casimir(y), abs=2e-14)


# --- products -----------------------------------------------------------------------------------


def check_parts(action, rows, algebra_rows):
    """An action does what `EVERYTHING` does to these rows of its states and elements."""
    for seed, size in ((1, 0.05), (2, 1.0), (3, 2.0)):
        y, sigma = random_pair(seed, size)
        v = random_pair(seed + 100)[1]
        one, part = (y, sigma, v), (y[rows], sigma[algebra_rows], v[algebra_rows])
        for of in (act, velocity):
            np.testing.assert_array_equal(of(action, *part[:2]), of(EVERYTHING, *one[:2])[rows])
        whole = dexpinv(EVERYTHING, *one[1:])[0], bracket(EVERYTHING, *one[1:])
        found = dexpinv(action, *part[1:])[0], bracket(action, *part[1:])
        for alone, beside in zip(found, whole, strict=True):
            np.testing.assert_array_equal(alone, beside[algebra_rows])


@pytest.mark.parametrize(
    ("action", "rows", "algebra_rows"),
    first_of(
        [
            (product(TRANSLATION, ROTATION), [11, 5, 6, 7], [7, 5]),
            (spheres(2), [0, 0], [0, 0]),
            (tangent_spheres(2), [1, 1, 2, 2], [1, 1, 2, 2]),
            (tangent_spheres(1, forced=True), [1, 2, 11], [1, 2, 7]),
        ]
    ),
    ids=lambda value: getattr(value, "name", None),
)
def test_factors_do_not_see_each_other(action, rows, algebra_rows):
    assert (action.rows, action.algebra_rows) == (len(rows), len(algebra_rows))
    check_parts(action, rows, algebra_rows)


def test_the_widest_angle_is_that_of_any_factor():
    for row in TURNS:
        sigma = np.full((EVERYTHING.algebra_rows, 3), 0.01)
        sigma[row] = 0.0, 3.0, 4.0
        assert dexpinv(EVERYTHING, sigma, sigma)[1] == 25.0
    for row in {*range(EVERYTHING.algebra_rows)} - {*TURNS}:  # a translation has none
        sigma = np.zeros((EVERYTHING.algebra_rows, 3))
        sigma[row] = 0.0, 3.0, 4.0
        assert dexpinv(EVERYTHING, sigma, sigma)[1] == 0.0
    sigma = np.zeros((6, 3))
    sigma[1] = 0.0, 3.0, 4.0
    assert dexpinv(tangent_spheres(3), sigma, sigma)[1] == 25.0
    assert dexpinv(spheres(6), sigma, sigma)[1] == 25.0


# --- refusals -----------------------------------------------------------------------------------


def test_what_is_no_factor_is_refused():
    with pytest.raises(InputError, match="needs a factor, such as TANGENT_SPHERE"):
        product()
    with pytest.raises(InputError, match="'SPHERE' is no factor of an action; expected SPHERE"):
        product("SPHERE")
    with pytest.raises(InputError, match="is no factor"):
        product(ROTATION, product(TRANSLATION))
    with pytest.raises(InputError, match="unknown lengths 'units'. Did you mean 'unit'"):
        spheres(2, lengths="units")
    for made in (spheres, tangent_spheres):
        for count in (0, -1, 1.5, True):
            with pytest.raises(InputError, match="expected a whole number ≥ 1"):
                made(count)
