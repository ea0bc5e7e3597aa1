"""Spin systems of McLachlan et al. against what is known of them by hand."""

from fractions import Fraction

import numpy as np
import pytest
from cases import ALIKE, Case, first_of
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import integrators
import systems
from integrators import InputError
from integrators.stepping import loop

E1, E2, _ = np.eye(3)


# --- vortices --------------------------------------------------------------------------------


def exact_field(w, strengths):
    """2 κ_j w_i × w_j/(4π|w_i − w_j|²) of two vortices, in rational arithmetic but for π."""
    (a, b), (first, second) = [[Fraction(x) for x in row] for row in w], strengths
    square = sum((x - y) ** 2 for x, y in zip(a, b, strict=True))
    turn = [a[k - 2] * b[k - 1] - a[k - 1] * b[k - 2] for k in range(3)]
    unit = np.array([float(x / square) for x in turn]) / (2.0 * np.pi)
    return np.array([second * unit, -first * unit])


@pytest.mark.parametrize("distance", [1e-2, 1e-5, 1e-8])
def test_close_vortices_keep_their_digits(distance):
    strengths = (1.0, -0.7)
    system = systems.get("point_vortices", strengths=strengths)
    start = np.array([[0.36, 0.48, 0.8], [0.36 + 0.6 * distance, 0.48, 0.8 - 0.27 * distance]])
    case = Case(system, system.normalized(start), "close")
    expected = exact_field(case.state, strengths)
    size = np.abs(expected).max()
    np.testing.assert_allclose(case.field("state", case.state), expected, atol=1e-14 * size)
    short, low = 1e-3 / size * distance, np.zeros((2, 3))
    system.form.split.flow.scalar(0, 0.0, short, case.state.copy(), low, case.own)
    slope = low / short
    np.testing.assert_allclose(slope, expected, atol=2e-3 * size)


def test_the_invariant_manifold_is_that_of_the_paper():
    system = systems.get("point_vortices")

    def c(theta, phi):
        return [np.cos(phi) * np.sin(theta), np.sin(theta) * np.sin(phi), np.cos(theta)]

    theta, phi = 1.1, 2.3
    found = system.member("invariant_manifold", theta=theta, phi=phi)
    paper = [
        c(theta, phi), c(theta, phi + np.pi), c(np.pi - theta, -phi), c(np.pi - theta, np.pi - phi)
    ]  # fmt: skip
    np.testing.assert_allclose(found, paper, atol=1e-15)
    np.testing.assert_array_equal(system.member("invariant_manifold"), system.start("mclachlan"))
    case = Case(system, system.start("mclachlan"), "manifold")
    back = case.exact(99.49858943052823)  # one period
    np.testing.assert_allclose(back, case.state, atol=1e-11)


# --- chains ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "colatitude"), [(3, 1.0), (7, 0.4), (100, 2.0)])
def test_a_latitude_circle_turns_at_the_rate_that_is_known(count, colatitude):
    """−2(1 − cos(2π/n)) cos θ about e3."""
    system = systems.get("heisenberg_chain", count=count)
    start = system.member("latitude_circle", colatitude=colatitude)
    np.testing.assert_allclose(start[:, 2], np.cos(colatitude), atol=1e-15)
    angle = -2.0 * (1.0 - np.cos(2.0 * np.pi / count)) * np.cos(colatitude) * 2.0
    turn = np.array(
        [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]]
    )
    end = Case(system, start, "circle").exact(2.0)
    np.testing.assert_allclose(end, start @ turn.T, atol=1e-12)


def test_curves_are_sampled_and_brought_to_unit_length():
    system = systems.get("heisenberg_chain", count=12, boundary="open", lengths="any")
    found = system.curve(lambda s: [3.0 * np.cos(s), 3.0 * np.sin(s), 4.0])
    s = 2.0 * np.pi * np.arange(12) / 12
    expected = np.stack([0.6 * np.cos(s), 0.6 * np.sin(s), np.full(12, 0.8)], axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-15)
    np.testing.assert_array_equal(system.member("wavy_curve"), system.start("closed_curve"))
    wavy = system.member("wavy_curve", height=0.1, wobble=0.4, lobes=3)
    heights = wavy[:, 2] / np.linalg.norm(wavy[:, :2], axis=1)
    np.testing.assert_allclose(heights, 0.1 + 0.4 * np.cos(3 * s), atol=1e-15)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda s: [np.cos(s), np.sin(s)], "three finite numbers at every s"),
        (lambda s: [np.nan, 0.0, 1.0], "three finite numbers at every s"),
        (lambda s: [s - np.pi, 0.0, 0.0], "passes through 0 at s = 3.14159"),
        (lambda s: "circle", "not an array of numbers; expected [x, y, z] at every s"),
    ],
)
def test_curves_that_are_refused(function, message):
    with pytest.raises(InputError) as caught:
        systems.get("heisenberg_chain", count=4).curve(function)
    assert message in str(caught.value)


FIXED_STEPS = ["rk4+projected", "spherical_midpoint+kahan_li8"]
FIXED_STEPS += [
    method.name
    for method in integrators.ALL_INTEGRATORS
    if method.fits(systems.get("point_vortices", tracers=1).form)
    and not method.adaptive
    and method.made_of is None
]

# --- Nambu systems -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "casimir", "gradient"),
    [  # as the paper prints them
        ("A3,1", lambda w: w[0] ** 2, lambda w: [2 * w[0], 0, 0]),
        ("A3,4", lambda w: w[0] * w[1], lambda w: [w[1], w[0], 0]),
        ("A3,6", lambda w: w[0] ** 2 + w[1] ** 2, lambda w: [2 * w[0], 2 * w[1], 0]),
        ("A3,8", lambda w: w[1] ** 2 + w[0] * w[2], lambda w: [w[2], 2 * w[1], w[0]]),
        ("A3,9", lambda w: w @ w, lambda w: 2 * w),
    ],
)
def test_lie_algebras_have_their_casimirs(name, casimir, gradient):
    matrix, b = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, -1.0], [0.0, -1.0, 1.0]]), np.array([1, 2, 3])
    system = systems.get("nambu_quadratic", algebra=name, quadratic=matrix, linear=b)
    case = Case(system, np.array([[0.7, -0.4, 1.1]]), name)
    (w,) = case.state
    expected = np.cross(gradient(w), matrix @ w + b)
    np.testing.assert_allclose(case.field("state", case.state)[0], expected, atol=1e-15)
    own = next(q for q in system.quantities if q.name == "casimir")
    assert case.evaluate(own.function, case.state[None])[0, 0] == pytest.approx(casimir(w))


def test_the_algebra_of_rotations_is_a_rigid_body():
    """C = |w|² moves twice as fast as ẇ = w × ∇H, and with the spherical midpoint method."""
    w, inverse = [[0.48, 0.6, 0.64]], (1.0, 0.5, 0.25)
    system = systems.get("nambu_quadratic", algebra="A3,9", quadratic=np.diag(inverse))
    found, expected = (
        integrators.integrate(
            one, integrators.get(name), w, step_size=h, duration=20 * h, samples=1
        ).states[-1]
        for one, name, h in (
            (system, "nambu_midpoint", 0.1),
            (systems.get("free_rigid_body"), "spherical_midpoint", 0.2),
        )
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-15)


# --- energies, invariants, starts ------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parameters", "state", "energy"),
    [
        ("free_rigid_body", {"inertia": (2, 1, 1)}, [[0.6, 0, 0.8]], 0.09 + 0.32),
        ("irreversible_rigid_body", {"sigma": 0.5}, [[0, 0.6, -0.8]], 0.09 * 1.3 + 0.08 * 0.6),
        ("forced_rigid_body", {}, [[0, 0, 1]], 0.25),  # at t = 0
        ("precession", {"axis": (1, 2, 3)}, [[0, 0.6, 0.8]], 3.6),
        ("point_vortices", {"strengths": (2, -3)}, [E1, -E1], 6 * np.log(4) / (4 * np.pi)),
        ("heisenberg_chain", {"count": 5}, [E2] * 5, 5.0),
        ("heisenberg_chain", {"count": 5, "boundary": "open"}, [E2] * 5, 4.0),
        ("nambu_quadratic", {}, [[3, 1, 2]], 2.5),
        (
            "nambu_quadratic",
            {"quadratic": ((2, 1, 0), (1, 0, 3), (0, 3, -4)), "linear": (1, -2, 5)},
            [[3, 1, 2]],
            10.0 + 11.0,
        ),
    ],
)
def test_energies_by_hand(name, parameters, state, energy):
    case = Case(systems.get(name, **parameters), np.array(state, dtype=float), name)
    found = case.evaluate(case.system.form.energy, case.state[None])[0, 0]
    assert found == pytest.approx(energy, rel=1e-15)


def claims(name, **parameters):
    """What a system says of its energy and total spin: kind and degree, and the components."""
    quantities = {q.name: q for q in systems.get(name, **parameters).quantities}
    energy, momentum = quantities["energy"], quantities.get("momentum")
    columns = "".join("xyz"[c] for c in momentum.columns) if momentum else ""
    return energy.kind, energy.degree, columns


@pytest.mark.parametrize(
    ("name", "parameters", "kind", "degree", "total"),
    [
        ("free_rigid_body", {}, "energy", "quadratic", ""),
        ("free_rigid_body", {"inertia": (1, 3, 3)}, "energy", "quadratic", "x"),
        ("free_rigid_body", {"inertia": (3, 1, 3)}, "energy", "quadratic", "y"),
        ("free_rigid_body", {"inertia": (2, 2, 2)}, "energy", "quadratic", "xyz"),
        ("irreversible_rigid_body", {"inertia": (2, 2, 2)}, "energy", "other", ""),
        ("forced_rigid_body", {}, "observable", "other", ""),
        ("forced_rigid_body", {"inertia": (1, 1, 2)}, "observable", "other", "z"),
        ("forced_rigid_body", {"inertia": (1, 2, 2)}, "observable", "other", ""),
        ("precession", {}, "energy", "linear", "z"),
        ("precession", {"axis": (0, -2, 0)}, "energy", "linear", "y"),
        ("precession", {"axis": (1, 0, 1)}, "energy", "linear", ""),
        ("point_vortices", {}, "energy", "other", "xyz"),
        ("heisenberg_chain", {"boundary": "open"}, "energy", "other", "xyz"),
        ("nambu_quadratic", {}, "energy", "quadratic", ""),
        ("nambu_quadratic", {"linear": (0, 0, 1)}, "energy", "other", ""),
    ],
)
def test_what_is_conserved(name, parameters, kind, degree, total):
    assert claims(name, **parameters) == (kind, degree, total)


def test_lengths_are_followed_on_unit_spheres_only():
    for lengths, names in (("unit", {"energy", "unit_length", "casimir"}), ("any", {"energy"})):
        system = systems.get("free_rigid_body", lengths=lengths)
        assert {q.name for q in system.quantities} - {"casimir"} == names - {"casimir"}
        long = 2.0 * system.start("figure3")
        if lengths == "any":
            system.check_state(long)
        else:
            with pytest.raises(InputError, match="body 0 is off the manifold"):
                system.check_state(long)


@given(st.integers(0, 10**6), st.floats(-3.0, 3.0))
def test_starts_of_a_precession_are_at_their_angle_to_the_axis(seed, angle):
    axis = np.random.default_rng(seed).standard_normal(3)
    system = systems.get("precession", axis=axis)
    unit = axis / np.linalg.norm(axis)
    (equator,), (tilted,) = system.start("equator"), system.member("tilted", angle=angle)
    assert abs(equator @ unit) <= 3e-16 and equator @ equator == pytest.approx(1.0, abs=5e-16)
    assert tilted @ unit == pytest.approx(np.cos(angle), abs=1e-15)


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("free_rigid_body", [[np.cos(1.1), 0, np.sin(1.1)]]),
        ("irreversible_rigid_body", [[0, 0.7248 / 0.99995912, -0.6889 / 0.99995912]]),
        ("precession", [E1]),
    ],
)
def test_first_starts(name, start):
    system = systems.get(name)
    np.testing.assert_allclose(system.start(system.starts[0]), start, atol=1e-8)


@pytest.mark.parametrize(
    "name", ["free_rigid_body", "irreversible_rigid_body", "forced_rigid_body"]
)
def test_moments_of_no_body_are_remarked_on(name):
    """The paper's own, of a quadratic H on so(3)*, run all the same."""
    (remark,) = systems.get(name, inertia=(1.0, 2.0, 4.0)).remarks
    assert "(1.0, 2.0, 4.0) are the moments of no body, since 4 > 1 + 2" in remark
    for moments in ((1.0, 4 / 3, 2.0), (1.0, 2.0, 3.0), (0.1, 0.2, 0.3), (2.0, 2.0, 2.0)):
        assert systems.get(name, inertia=moments).remarks == ()


@pytest.mark.parametrize(
    ("name", "parameters", "key", "message"),
    [
        ("free_rigid_body", {"inertia": (1, 2)}, "inertia", "has 2 values; expected 3"),
        ("free_rigid_body", {"inertia": (1, 2, 0)}, "inertia", "= 0; expected a number > 0"),
        ("free_rigid_body", {"inertia": (1, 2, "4")}, "inertia", "= '4'; expected a number"),
        ("free_rigid_body", {"lengths": "one"}, "lengths", "unknown lengths 'one'. Valid: unit"),
        ("irreversible_rigid_body", {"sigma": 1.0}, "sigma", "= 1.0; expected |sigma| < 1"),
        ("irreversible_rigid_body", {"sigma": np.nan}, "sigma", "= nan; expected a number"),
        ("forced_rigid_body", {"epsilon": None}, "epsilon", "= None; expected a number"),
        ("forced_rigid_body", {"epsilom": 1.0}, "epsilom", "Did you mean 'epsilon'?"),
        ("precession", {"axis": (0, 0, 0)}, "axis", "expected a vector that is not zero"),
        ("precession", {"axis": 1.0}, "axis", "axis = 1.0; expected [x, y, z]"),
        ("precession", {"axis": "xyz"}, "axis", "axis = 'xyz'; expected [x, y, z]"),
        ("precession", {"axis": (0, 1)}, "axis", "has 2 values; expected 3"),
        ("point_vortices", {"strengths": 1.0}, "strengths", "list of two numbers or more"),
        ("point_vortices", {"strengths": (1.0,)}, "strengths", "list of two numbers or more"),
        ("point_vortices", {"strengths": (1, 0.0)}, "strengths", "strength of vortex 1 is 0"),
        ("point_vortices", {"strengths": (1, 0.0)}, "strengths", "or give tracers = 1"),
        ("point_vortices", {"strengths": (), "tracers": 2}, "strengths", "list of one number or"),
        ("point_vortices", {"tracers": -1}, "tracers", "= -1; expected a whole number ≥ 0"),
        ("point_vortices", {"tracers": 200_000}, "tracers", "at most 200,000 bodies"),
        ("point_vortices", {"strengths": (1, np.inf)}, "strengths", "= inf; expected a number"),
        (
            "point_vortices",
            {"lengths": "any"},
            "lengths",
            "unknown parameter 'lengths' of point_vortices",
        ),
        ("heisenberg_chain", {"count": 2}, "count", "= 2; expected a whole number ≥ 3"),
        ("heisenberg_chain", {"count": 1, "boundary": "open"}, "count", "whole number ≥ 2"),
        ("heisenberg_chain", {"boundary": "opened"}, "boundary", "Did you mean 'open'?"),
        (
            "nambu_quadratic",
            {"inertia": 1.0},
            "inertia",
            "unknown parameter 'inertia' of nambu_quadratic",
        ),
        ("nambu_quadratic", {"algebra": "A3,2"}, "algebra", "unknown algebra 'A3,2'. Did you mean"),
        ("nambu_quadratic", {"algebra": np.zeros((3, 3))}, "algebra", "is 0; expected one that"),
        ("nambu_quadratic", {"algebra": [[1, 0], [0, 1]]}, "algebra", "a list of [x, y, z]"),
        ("nambu_quadratic", {"linear": (1, 2)}, "linear", "has 2 values; expected 3"),
        (
            "nambu_quadratic",
            {"quadratic": ((1, 2, 0), (3, 1, 0), (0, 0, 1))},
            "quadratic",
            "quadratic[0][1] = 2.0 and quadratic[1][0] = 3.0; expected a symmetric matrix",
        ),
    ],
)
def test_parameters_that_are_refused(name, parameters, key, message):
    with pytest.raises(InputError) as caught:
        systems.get(name, **parameters)
    assert message in str(caught.value)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("name", "parameters", "family", "values", "message"),
    [
        ("point_vortices", {"strengths": (1, 1, 1)}, "invariant_manifold", {}, "system has 3"),
        ("point_vortices", {}, "invariant_manifold", {"theta": 0.0}, "vortices 0 and 1 coincide"),
        (
            "point_vortices", {}, "invariant_manifold", {"theta": np.pi / 2, "phi": 0.0},
            "vortices 0 and 2 coincide, where the Hamiltonian is singular",
        ),
        ("heisenberg_chain", {}, "wavy_curve", {"lobes": 1.5}, "lobes = 1.5; expected a whole"),
    ],
)  # fmt: skip
def test_members_that_are_refused(name, parameters, family, values, message):
    with pytest.raises(InputError) as caught:
        systems.get(name, **parameters).member(family, **values)
    assert message in str(caught.value)


def test_starts_of_tracers_are_a_lattice():
    system = systems.get("point_vortices", tracers=50)
    alone = systems.get("point_vortices").start("mclachlan")
    state = system.start("mclachlan")
    np.testing.assert_array_equal(state[:4], alone)
    assert state.shape == (54, 3) and np.abs(np.mean(state[4:], axis=0)).max() < 0.02
    ring = systems.get("point_vortices", strengths=(1, 2, 3), tracers=2).member("latitude_ring")
    np.testing.assert_allclose(ring[:3, 2], np.cos(1.0), atol=1e-15)
    assert np.linalg.norm(ring[:3].mean(axis=0)) == pytest.approx(np.cos(1.0), rel=1e-14)


def test_tracers_may_meet_but_at_no_vortex():
    system = systems.get("point_vortices", strengths=(1, 2), tracers=2)
    system.check_state([E1, E2, -E1, -E1])
    with pytest.raises(InputError, match="tracer 1, row 3 of w, is at vortex 0"):
        system.check_state([E1, E2, -E1, E1])


@pytest.mark.parametrize(
    ("name", "bound"),
    first_of(
        [("rk4", 5e-9), ("cf4", 5e-9), ("rkmk5", 5e-12), ("spherical_midpoint+kahan_li8", 1e-14)],
        3,
    ),
)
def test_a_tracer_turns_about_a_vortex_by_the_closed_form(name, bound):
    """At an angle θ from it at the rate −κ/(4π(1 − cos θ)), and the vortex stays."""
    system = systems.get("point_vortices", strengths=(2.0,), tracers=3)
    vortex = np.array([0.36, 0.48, -0.8])
    state = np.array([vortex, E1, -E2, [0.6, 0.0, -0.8]])
    run = integrators.integrate(
        system, integrators.get(name), state, step_size=0.01, duration=10.0, samples=1
    )
    np.testing.assert_allclose(run.states[-1, 0], vortex, rtol=0, atol=2e-16)
    for tracer, end in zip(state[1:], run.states[-1, 1:], strict=True):
        angle = -10.0 * 2.0 / (4.0 * np.pi * (1.0 - tracer @ vortex))
        expected = Rotation.from_rotvec(angle * vortex).apply(tracer)
        np.testing.assert_allclose(end, expected, rtol=0, atol=bound)


@pytest.mark.parametrize("name", first_of(name for name in FIXED_STEPS if name not in ALIKE))
def test_vortices_do_not_feel_tracers(name, monkeypatch):
    """They move to the last bit as they do without any, in lanes too."""
    monkeypatch.setattr(loop, "FEW_ROWS", 0)
    strengths = (1.0, -0.7, 1.3)
    alone = systems.get("point_vortices", strengths=strengths)
    members = alone.ensemble(3, 5)[1:]  # of the first a tracer is too close to a vortex
    carrying = systems.get("point_vortices", strengths=strengths, tracers=17)
    lattice = np.broadcast_to(carrying.member("latitude_ring")[3:], (2, 17, 3))
    options = {"step_size": 0.05, "duration": 5.0, "samples": 5}
    method = integrators.get(name)
    expected = integrators.integrate(alone, method, members, **options)
    found = integrators.integrate(
        carrying, method, np.concatenate([members, lattice], axis=1), **options
    )
    assert np.all(np.isfinite(found.states))
    np.testing.assert_array_equal(found.states[:, :, :3], expected.states)
    assert np.abs(found.states[:, -1, 3:] - lattice).max() > 0.1


def test_the_start_of_four_vortices_is_theirs_alone():
    with pytest.raises(InputError, match="four vortices; this system has 2"):
        systems.get("point_vortices", strengths=(1, 2)).start("mclachlan")


# --- ensembles -------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", ["unit", "any"])
def test_ensembles_and_lattices_of_spins(lengths):
    system = systems.get("heisenberg_chain", count=4, lengths=lengths)
    drawn = system.ensemble(2000, seed=1)
    sizes = np.linalg.norm(drawn, axis=2)
    if lengths == "unit":
        assert np.abs(sizes - 1.0).max() <= 3e-16
    else:
        assert np.mean(sizes**2) == pytest.approx(3.0, rel=0.05)
    assert np.abs(drawn.mean(axis=0)).max() < 0.1
    near = system.ensemble(50, seed=2, around=drawn[0], spread=1e-3)
    apart = np.linalg.norm(near - drawn[0], axis=2) / sizes[0]
    assert apart.min() > 0 and apart.max() < 1e-2
    states = system.lattice(9, body=2, around=drawn[0])
    np.testing.assert_allclose(np.linalg.norm(states[:, 2], axis=1), sizes[0, 2], rtol=1e-14)
    np.testing.assert_array_equal(np.delete(states, 2, axis=1)[4], np.delete(drawn[0], 2, axis=0))


def test_a_lattice_of_vortices_with_a_singular_member_says_which():
    system = systems.get("point_vortices", strengths=(1, 1))
    points = system.lattice(5, around=np.array([E1, E2]))[:, 0]
    with pytest.raises(InputError, match="member 3: vortices 0 and 1 coincide"):
        system.lattice(5, around=np.array([E1, points[3]]))


def test_a_spin_of_length_zero_is_refused():
    chain = systems.get("heisenberg_chain", count=3)
    with pytest.raises(InputError, match="spin 1 is the zero vector"):
        chain.check_state([E1, np.zeros(3), E2])


def test_a_projected_method_needs_unit_lengths():
    projected = integrators.get("rk4+projected")
    projected.check(systems.get("precession"))
    with pytest.raises(InputError, match="projects what 'precession' does not have; use 'rk4'"):
        projected.check(systems.get("precession", lengths="any"))
