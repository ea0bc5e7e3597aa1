"""The systems of Examples 3 to 6 of Lee et al. against their formulas, written out again."""

import itertools

import numpy as np
import pytest
from numpy.linalg import norm

import integrators
import systems
from integrators import InputError
from systems.mechanical.elastic_rod import consistent_inertia, printed_inertia
from systems.mechanical.icosphere import icosphere

TRIANGLE = {
    "count": 3,
    "mass": (0.1, 0.2, 0.3),
    "length": (0.5, 0.6, 0.7),
    "gravity": -2.0,
    "stiffness": (3.0, 4.0, 5.0, 6.0),
    "edges": ((0, 1), (2, 1), (0, 2), (1, 2)),
    "pivots": ((0.0, 0.0, 0.0), (0.4, 0.1, 0.0), (-0.2, 0.3, 0.5)),
}


def springs_by_hand(s, q):
    value = -sum(m * s.gravity * a * x[2] for m, a, x in zip(s.mass, s.length, q, strict=True))
    for (i, j), kappa in zip(s.edges, s.stiffness, strict=True):
        r = np.subtract(s.pivots[j], s.pivots[i])
        d = r + 0.5 * s.length[j] * q[j] - 0.5 * s.length[i] * q[i]
        value += 0.5 * kappa * (norm(d) - norm(r)) ** 2
    return value


def rod_by_hand(s, q):
    value, chain = 0.0, [np.array([1.0, 0.0, 0.0]), *q]
    for i in range(s.count):
        middle = sum(s.length[j] * q[j] for j in range(i)) + 0.5 * s.length[i] * q[i]
        value -= s.mass[i] * s.gravity * middle[2]
        value += 0.5 * s.stiffness[i] * (1.0 - chain[i] @ chain[i + 1]) ** 2
    return value


def dipoles_by_hand(s, q):
    value = 0.0
    for i, j in itertools.combinations(range(s.count), 2):
        r = np.subtract(s.positions[j], s.positions[i])
        strength = 4e-7 * np.pi * s.moment[i] * s.moment[j] / (4 * np.pi * norm(r) ** 3)
        value += strength * (q[i] @ q[j] - 3 * (q[i] @ r) * (q[j] @ r) / norm(r) ** 2)
    return value


def molecules_by_hand(s, q):
    i, j = np.triu_indices(len(q), 1)
    sixth = (s.range / norm(q[i] - q[j], axis=1)) ** 6
    return np.sum(4 * s.epsilon * (sixth**2 - sixth))


BY_HAND = [
    (systems.get("spring_pendula"), springs_by_hand),
    (systems.get("spring_pendula", **TRIANGLE), springs_by_hand),
    (systems.get("elastic_rod"), rod_by_hand),
    (systems.get("elastic_rod", count=3, mass=(1, 2, 3), stiffness=(4, 5, 6)), rod_by_hand),
    (systems.get("magnetic_dipoles"), dipoles_by_hand),
    *(
        (
            systems.get(
                "magnetic_dipoles",
                positions=np.random.default_rng(n).uniform(0, 0.1, (n, 3)).tolist(),
                moment=np.linspace(0.1, 0.2, n).tolist(),
            ),
            dipoles_by_hand,
        )
        for n in (1, 2, 3, 5, 11)  # 3n is no multiple of eight
    ),
    *((systems.get("lennard_jones_sphere", level=level), molecules_by_hand) for level in (0, 1, 3)),
    (systems.get("lennard_jones_sphere", level=1, sigma=0.3, epsilon=2.0), molecules_by_hand),
]
NAMED = [pytest.param(*case, id=f"{case[0].name}-{case[0].bodies}") for case in BY_HAND]


def start_or_random(system):
    try:
        return system.start("lee")
    except InputError:
        return system.ensemble(1, seed=3)[0]


def near_start(system, members=1):
    """Positions near the start, or random ones, shape (members, n, 3)."""
    around = start_or_random(system)
    states = system.ensemble(members, seed=3, around=around, spread=0.03)
    return np.ascontiguousarray(states[:, : system.bodies])


def at_rest(system, q, kernel, rows):
    """What a kernel of the form makes of bodies at rest, shape (rows, 3)."""
    out, work = np.full((rows, 3), np.nan), np.full(1 + kernel.work(system.rows), np.nan)
    kernel.scalar(0.0, np.vstack([q, np.zeros_like(q)]), system.form.packed, out, work)
    return out


def potential(system, q):
    return at_rest(system, q, system.form.energy, 1)[0, 0]


def gradient(system, q):
    return at_rest(system, q, system.form.net_gradient, len(q))


@pytest.mark.parametrize(("system", "by_hand"), NAMED)
def test_potential_is_the_formula(system, by_hand):
    q = near_start(system)[0]
    assert potential(system, q) == pytest.approx(by_hand(system, q), rel=1e-12, abs=1e-18)


@pytest.mark.parametrize(("system", "by_hand"), NAMED)
def test_gradient_is_the_slope_of_the_formula(system, by_hand):
    (q,), h = near_start(system), 1e-4
    found = gradient(system, q)
    for seed in range(3):
        along = np.random.default_rng(seed).standard_normal(q.shape)
        along /= norm(along)
        near, far = (
            by_hand(system, q + s * along) - by_hand(system, q - s * along) for s in (h, 2 * h)
        )
        slope = (8 * near - far) / (12 * h)
        assert np.sum(found * along) == pytest.approx(slope, abs=1e-8 * max(norm(found), 1e-9))


def test_springs_by_their_own_start_are_partly_at_rest():
    """Two springs of Example 3 tie pendula that hang: only the other two and gravity pull."""
    system = systems.get("spring_pendula")
    g = gradient(system, np.ascontiguousarray(system.start("lee")[:4]))
    np.testing.assert_array_equal(g[0], [0.0, 0.0, -0.1 * 9.81 * 0.1])


# --- inertia ----------------------------------------------------------------------------------


def test_consistent_inertia_is_that_of_slender_rods():
    """½ ∫ |ẋ|² dm along the elements, by Gauss points."""
    mass, length = np.array([0.3, 0.1, 0.4, 0.2]), np.array([0.5, 0.9, 0.4, 0.7])
    v = np.random.default_rng(0).standard_normal((4, 3))
    points, weights = np.polynomial.legendre.leggauss(3)
    kinetic, joint = 0.0, np.zeros(3)
    for m, a, turning in zip(mass, length, v, strict=True):
        for x, w in zip(0.5 + 0.5 * points, 0.5 * weights, strict=True):
            kinetic += 0.5 * m * w * np.sum((joint + x * a * turning) ** 2)
        joint = joint + a * turning
    inertia = consistent_inertia(mass, length).matrix
    np.testing.assert_array_equal(inertia, inertia.T)
    assert 0.5 * np.einsum("ij,ic,jc", inertia, v, v) == pytest.approx(kinetic, rel=1e-14)


def test_printed_inertia_is_the_printed_one():
    """(3.24): M_ii = (n − i + 1/3) m l² and M_ij = (n − max(i, j) + 1)/2 m l², i from 1."""
    n, moment = 10, 0.005 * 0.1**2
    i = np.arange(1, n + 1)
    expected = 0.5 * (n - np.maximum.outer(i, i) + 1) * moment
    np.fill_diagonal(expected, (n - i + 1 / 3) * moment)
    found = printed_inertia(np.full(n, 0.005), np.full(n, 0.1)).matrix
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_dipoles_have_the_inertia_of_rods_unless_told_otherwise():
    assert systems.get("magnetic_dipoles").form.inertia == pytest.approx(0.05 * 0.02**2 / 12)
    as_run = systems.get("magnetic_dipoles", inertia_factor=1.0)
    assert as_run.form.inertia == pytest.approx(0.05 * 0.02**2)


def test_many_bodies_need_no_matrix():
    form = systems.get("lennard_jones_sphere").form
    assert form.bodies == 642 and form.diagonal and form.inertia.shape == (642,)
    assert form.packed.size == 2 * 642 + 3
    np.testing.assert_array_equal(form.inertia_matrix, np.eye(642))


# --- the sphere's triangulation and the two vortices ----------------------------------------------


@pytest.mark.parametrize("level", range(5))
def test_icosphere(level):
    mesh = icosphere(level)
    assert mesh.vertices.shape == (10 * 4**level + 2, 3)
    assert mesh.faces.shape == (20 * 4**level, 3)
    assert mesh.edges.shape == (30 * 4**level, 2)
    np.testing.assert_allclose(norm(mesh.vertices, axis=1), 1.0, atol=2.3e-16)
    corners = mesh.vertices[mesh.faces]
    volume = np.linalg.det(corners)
    assert volume.min() > 0  # counterclockwise from outside
    assert volume.sum() / 6 <= 4 * np.pi / 3 < (volume.sum() / 6) * 1.7


def test_neighbours_neither_attract_nor_repel():
    system = systems.get("lennard_jones_sphere")
    ends = system.mesh.vertices[system.mesh.edges]
    assert system.range * 2 ** (1 / 6) == pytest.approx(
        norm(ends[:, 0] - ends[:, 1], axis=1).mean()
    )
    assert systems.get("lennard_jones_sphere", sigma=0.25).range == 0.25
    assert systems.get("lennard_jones_sphere").parameters["sigma"] == "equilibrium"


def test_vortices_turn_as_they_should():
    system = systems.get("lennard_jones_sphere", level=2)
    q, omega = np.split(system.start("lee"), 2)
    velocity = np.zeros_like(q)
    for angle in (np.pi / 12, -np.pi / 12):
        c = np.array([np.sin(angle), 0.0, np.cos(angle)])
        squared = np.sum((q - c) ** 2, axis=1, keepdims=True)
        velocity += np.cross(c, q) * (1 - np.exp(-squared / 0.09)) / squared / (2 * np.pi)
    np.testing.assert_allclose(np.cross(omega, q), velocity, atol=1e-15)


# --- momentum maps --------------------------------------------------------------------------------

ROW, COLUMN = ((0.0, 0.0, 0.0), (0.1, 0.0, 0.0)), ((0.0, 0.0, 0.0), (0.0, 0.0, 0.1))
PAIR = {"count": 2, "edges": ((0, 1),), "stiffness": 1.0}


@pytest.mark.parametrize(
    ("name", "parameters", "columns"),
    [
        ("spring_pendula", {}, None),
        ("spring_pendula", PAIR | {"pivots": ROW}, None),
        ("spring_pendula", PAIR | {"pivots": ROW, "gravity": 0.0}, (0,)),
        ("spring_pendula", PAIR | {"pivots": COLUMN}, (2,)),
        ("spring_pendula", {"edges": (), "stiffness": 1.0}, (2,)),
        ("spring_pendula", {"edges": (), "stiffness": 1.0, "gravity": 0.0}, (0, 1, 2)),
        ("elastic_rod", {}, None),
        ("elastic_rod", {"gravity": 0.0}, (0,)),
        ("magnetic_dipoles", {}, None),
        ("magnetic_dipoles", {"positions": ROW}, (0,)),
        ("magnetic_dipoles", {"positions": COLUMN}, (2,)),
        ("lennard_jones_sphere", {}, (0, 1, 2)),
    ],
)
def test_momentum_is_claimed_only_where_there_is_symmetry(name, parameters, columns):
    quantities = {q.name: q for q in systems.get(name, **parameters).quantities}
    if columns is None:
        assert "momentum" not in quantities
    else:
        assert quantities["momentum"].columns == columns
        about = {(0,): "about e1", (2,): "vertical", (0, 1, 2): "total"}[columns]
        assert about in quantities["momentum"].long_name


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parameters", "key", "message"),
    [
        ("spring_pendula", {"count": 5}, "mass", ""),
        (
            "spring_pendula",
            {"count": 3},
            "edges",
            "edges[2] = [2, 3] names pendulum 3; there are 0",
        ),
        ("spring_pendula", {"edges": [[0, 4]]}, "edges", "names pendulum 4; there are 0 to 3"),
        ("spring_pendula", {"edges": [[0, -1]]}, "edges", "= -1; expected a whole number"),
        ("spring_pendula", {"edges": [[0, 1.0]]}, "edges", "= 1.0; expected a whole number"),
        ("spring_pendula", {"edges": [[0, 0]]}, "edges", "ties a pendulum to itself"),
        ("spring_pendula", {"edges": [[0, 1, 2]]}, "edges", "expected a pair of pendula"),
        ("spring_pendula", {"edges": 3}, "edges", "expected a list of pairs"),
        ("spring_pendula", {"edges": [[0, 1]]}, "stiffness", "has 4 values; expected 1"),
        ("spring_pendula", {"stiffness": [1, 2, 3, 0]}, "stiffness", "= 0; expected a number > 0"),
        ("spring_pendula", {"pivots": [[0, 0, 0]] * 4}, "edges", "spring of zero length"),
        ("spring_pendula", {"pivots": [[0, 0, 0]] * 3}, "pivots", "has 3 vectors; expected 4"),
        ("spring_pendula", {"pivots": [[0, 0]] * 4}, "pivots", "expected a list of [x, y, z]"),
        ("spring_pendula", {"pivots": 1.0}, "pivots", "expected a list of [x, y, z]"),
        ("spring_pendula", {"pivots": [["a", 0, 0]] * 4}, "pivots", "= 'a'; expected a number"),
        ("elastic_rod", {"inertia": "consistant"}, "inertia", "Did you mean 'consistent'?"),
        ("elastic_rod", {"inertia": 1.0}, "inertia", "Valid: consistent, printed"),
        ("elastic_rod", {"inertia": [1.0]}, "inertia", "Valid: consistent, printed"),
        ("elastic_rod", {"stiffness": 0.0}, "stiffness", "= 0.0; expected a number > 0"),
        ("elastic_rod", {"stiffness": [1.0, 2.0]}, "stiffness", "has 2 values; expected 10"),
        (
            "elastic_rod",
            {"count": 5, "mass": [1, 1, 1, 1, 100], "inertia": "printed"},
            "inertia",
            "positive definite",
        ),
        ("magnetic_dipoles", {"positions": [[0, 0, 0]] * 2}, "positions", "that of dipole 0 too"),
        ("magnetic_dipoles", {"positions": []}, "positions", "expected a list of [x, y, z]"),
        ("magnetic_dipoles", {"inertia_factor": 0.0}, "inertia_factor", "expected a number > 0"),
        ("magnetic_dipoles", {"moment": [0.1]}, "moment", "has 1 values; expected 16"),
        ("lennard_jones_sphere", {"epsilon": 0.0}, "epsilon", "= 0.0; expected a number > 0"),
        ("lennard_jones_sphere", {"sigma": -0.1}, "sigma", "= -0.1; expected a number > 0"),
        ("lennard_jones_sphere", {"sigma": "mean"}, "sigma", "'mean'. Valid: equilibrium"),
        ("lennard_jones_sphere", {"level": -1}, "level", "expected a whole number ≥ 0"),
        ("lennard_jones_sphere", {"level": 9}, "level", "at most 6"),
        ("lennard_jones_sphere", {"mass": [1.0]}, "mass", "expected a number > 0"),
    ],
)
def test_parameters_are_checked(name, parameters, key, message):
    with pytest.raises(InputError) as caught:
        systems.get(name, **parameters)
    assert message in str(caught.value)
    assert message == "" or caught.value.key == key


@pytest.mark.parametrize(
    ("name", "parameters", "q", "message"),
    [
        ("nbody_sphere", {"count": 2}, [[0, 0, 1], [0, 0, 1]], "bodies 0 and 1 coincide"),
        ("nbody_sphere", {"count": 2}, [[0, 0, 1], [0, 0, -1]], "bodies 0 and 1 are antipodal"),
        (
            "spring_pendula",
            PAIR | {"pivots": ROW, "length": 0.1},
            [[1, 0, 0], [-1, 0, 0]],
            "the spring edges[0] = [0, 1] has zero length",
        ),
    ],
)
def test_singular_states_are_refused(name, parameters, q, message):
    system = systems.get(name, **parameters)
    with pytest.raises(InputError) as caught:
        system.check_state(np.concatenate([q, np.zeros_like(q)]))
    assert message in str(caught.value)


def test_molecules_that_meet_are_refused():
    system = systems.get("lennard_jones_sphere", level=0)
    state = system.start("lee")
    system.check_state(state)  # antipodal ones are far apart
    state[[7, 19]] = state[[2, 14]]
    with pytest.raises(InputError, match="bodies 2 and 7 coincide"):
        system.check_state(state)


def test_starts_that_do_not_suit_are_refused():
    with pytest.raises(InputError, match="four pendula; this system has count = 2"):
        systems.get("spring_pendula", **PAIR, pivots=ROW).start("lee")
    with pytest.raises(InputError, match="at least two dipoles"):
        systems.get("magnetic_dipoles", positions=[[0, 0, 0]]).start("lee")


@pytest.mark.parametrize("count", [1, 2, 7, 10])
def test_the_middle_of_a_rod_of_any_length_is_hit(count):
    system = systems.get("elastic_rod", count=count)
    state = system.start("lee")
    system.check_state(state)
    assert np.flatnonzero(state[count:, 2]).tolist() == [(count - 1) // 2]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_ring_of_bodies_turns_as_one(count):
    system = systems.get("nbody_sphere", count=count, mass=2.0, coupling=0.7)
    start = system.start("ring")
    speed = norm(start[count] / np.sqrt(0.5))  # of the turn about z: |ω_0| = Ω sin 45°
    method = integrators.get("variational+kahan_li8")
    run = integrators.integrate(system, method, start, duration=1.0, samples=4, step_size=0.01)
    for time, state in zip(run.times, run.states, strict=True):
        c, s = np.cos(speed * time), np.sin(speed * time)
        turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        np.testing.assert_allclose(state.reshape(2, count, 3), start.reshape(2, count, 3) @ turn.T,
                                   atol=1e-12)  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"mass": (1.0, 2.0, 1.0)}, "has equal masses; this system has mass = (1.0, 2.0, 1.0)"),
        ({"coupling": 0.0}, "has bodies that attract; this system has coupling = 0.0"),
    ],
)
def test_a_ring_of_what_cannot_keep_it_is_refused(parameters, message):
    with pytest.raises(InputError) as caught:
        systems.get("nbody_sphere", **parameters).start("ring")
    assert message in str(caught.value)
