"""The midpoint rules on spins: their definitions, linear stability, lengths, hard solves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import integrators
import systems
from integrators import InputError
from integrators.compiler.kernels import inlined, kernel, state_value
from integrators.compiler.vectors import dot, get, put
from integrators.forms.hamiltonians import SpinHamiltonian
from integrators.status import COMPLETE, NOT_CONVERGED

BODY = systems.get("free_rigid_body", inertia=(1.0, 4 / 3, 2.0))
INVERSE = 1.0 / np.array(BODY.inertia)


def moved(system, name, state, step_size, steps=1):
    """The state after some steps."""
    return integrators.integrate(
        system, integrators.get(name), state,
        step_size=step_size, duration=steps * step_size, samples=1,
    ).states[-1]  # fmt: skip


def field(system, u):
    """w × ∂H/∂w/κ in NumPy, from the compiled gradient."""
    form = system.form
    out, work = np.empty_like(u), np.zeros(1 + form.gradient.work(form.rows))
    form.gradient.scalar(0.0, np.ascontiguousarray(u), np.asarray(form.parameters), out, work)
    return np.cross(u, out) / form.strengths[:, None]


def unit(m):
    return m / np.linalg.norm(m, axis=1, keepdims=True)


def geodesic(system, w, end, h):
    chord = h * field(system, unit(w + end))
    angle = np.linalg.norm(chord, axis=1, keepdims=True)
    return 2.0 * np.sin(0.5 * angle) / angle * chord


def moser_veselov(system, w, end, h):
    m = 0.5 * (w + end)
    s = 0.5 * (1.0 + np.sqrt(1.0 - h * h * np.sum((m * INVERSE) ** 2)))
    return h / s * np.cross(m, m * INVERSE)


def extended(system, w, end, h):
    lengths = np.sqrt(np.linalg.norm(w, axis=1) * np.linalg.norm(end, axis=1))
    return h * field(system, lengths[:, None] * unit(w + end))


RULES = {
    "spherical_midpoint": lambda system, w, end, h: h * field(system, unit(w + end)),  # (4)
    "implicit_midpoint": lambda system, w, end, h: h * field(system, 0.5 * (w + end)),  # (5)
    "extended_spherical_midpoint": extended,  # (9)
    "geodesic_midpoint": geodesic,  # remark 2.2
    "moser_veselov": moser_veselov,
}
PLACES = {
    "body": BODY,
    "irreversible": systems.get("irreversible_rigid_body"),
    "vortices": systems.get("point_vortices", strengths=(1.0, -0.7, 1.3)),
    "chain": systems.get("heisenberg_chain", count=5, boundary="open"),
    "long spins": systems.get("heisenberg_chain", count=5, lengths="any"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", RULES)
def test_a_step_satisfies_its_rule(name, place):
    system = PLACES[place]
    if not integrators.get(name).method.fits(system.form):
        with pytest.raises(InputError, match="needs"):
            integrators.get(name).check(system)
        return
    w = system.ensemble(1, seed=4)[0]
    end = moved(system, name, w, 0.2)
    assert np.abs(end - w).max() > 1e-3
    np.testing.assert_allclose(end - w, RULES[name](system, w, end, 0.2), rtol=0, atol=4e-15)


def test_a_nambu_step_satisfies_its_rule():
    """Appendix A: h ∇C(m) × ∇H(u)/r with r = √(C(m)/c), u = m/r."""
    system = systems.get("nambu_quadratic")
    w = system.start("mclachlan")
    end = moved(system, "nambu_midpoint", w, 0.1)
    matrix, m = system.form.matrix, 0.5 * (w[0] + end[0])
    r = np.sqrt((m @ matrix @ m) / (w[0] @ matrix @ w[0]))
    gradient = m / r * (1.0, 0.0, -1.0)
    expected = 0.1 * np.cross(matrix @ m, gradient) / r
    np.testing.assert_allclose(end[0] - w[0], expected, rtol=0, atol=1e-15)


def test_where_a_nambu_casimir_is_zero_there_is_no_step():
    system = systems.get("nambu_quadratic")
    run = integrators.integrate(
        system, integrators.get("nambu_midpoint"), [[1.0, 1.0, 0.5]],
        step_size=0.1, duration=1.0, samples=1,
    )  # fmt: skip
    assert run.status == NOT_CONVERGED and np.isnan(run.states[-1]).all()


@given(st.floats(0.05, 1.9), st.floats(3.0, 90.0))
def test_rotation_angle_of_a_precession(frequency, degrees):
    """Theorem 2.4 (vi), for any angle α between w and a: the equation that φ satisfies."""
    system = systems.get("precession")
    alpha = np.radians(degrees)
    w = system.member("tilted", angle=alpha)
    end = moved(system, "spherical_midpoint", w, frequency)
    turned = np.arctan2(np.cross(w[0], end[0])[2], w[0, 0] * end[0, 0] + w[0, 1] * end[0, 1])
    half = 0.5 * abs(turned)
    left = (np.sin(half) * np.sin(alpha)) ** 2 + (np.tan(half) * np.cos(alpha)) ** 2
    # What is compared is the angle: its error is that of the left side over its slope.
    slope = np.sin(half) * np.cos(half) * np.sin(alpha) ** 2
    slope += np.tan(half) / np.cos(half) ** 2 * np.cos(alpha) ** 2
    assert abs(left - (0.5 * frequency) ** 2) / slope <= 1e-14


def test_hard_solves_take_few_evaluations():
    """Plain iteration takes 597 and more at λh = 1.9 and α = 5°."""
    system = systems.get("precession")
    run = integrators.integrate(
        system, integrators.get("spherical_midpoint"), system.member("tilted", angle=np.radians(5)),
        step_size=1.9, duration=38.0, samples=1,
    )  # fmt: skip
    assert run.status == COMPLETE and 10 < run.counters["iterations_max"] <= 25


@kernel(state_value)
def coupled_energy(t, w, p):
    """H = w_0·M w_1, M row by row."""
    return dot(get(w, 0), matrix_times(p, get(w, 1)))


@inlined
def matrix_times(p, a):
    return (
        dot((p[0], p[1], p[2]), a),
        dot((p[3], p[4], p[5]), a),
        dot((p[6], p[7], p[8]), a),
    )


@kernel()
def coupled_gradient(t, w, p, out, work):
    """∂H/∂w_0 = M w_1 and ∂H/∂w_1 = Mᵀ w_0."""
    put(out, 0, matrix_times(p, get(w, 1)))
    a = get(w, 0)
    for c in range(3):
        out[1, c] = p[c] * a[0] + p[3 + c] * a[1] + p[6 + c] * a[2]


@pytest.mark.parametrize("name", ["spherical_midpoint", "extended_spherical_midpoint"])
def test_turns_of_single_spins_commute_with_the_method(name):
    """Theorem 2.4 (iii), 2.8 (iii): H∘ψ_g of w_0·M w_1 has the matrix g_0ᵀ M g_1."""
    matrix = np.array([[0.7, -0.2, 0.4], [0.1, 1.1, -0.5], [-0.6, 0.3, 0.2]])
    first, second = Rotation.random(2, random_state=1).as_matrix()
    w = np.array([[0.6, 0.0, -0.8], [0.48, 0.64, 0.6]])
    turned = np.array([first @ w[0], second @ w[1]])
    ends = [
        moved(
            SpinHamiltonian(np.array([1.0, -0.7]), coupled_energy, coupled_gradient, own.ravel()),
            name, start, 0.2, steps=20,
        )
        for own, start in ((matrix, turned), (first.T @ matrix @ second, w))
    ]  # fmt: skip
    assert np.abs(ends[1] - w).max() > 0.3
    expected = [first @ ends[1][0], second @ ends[1][1]]
    np.testing.assert_allclose(ends[0], expected, rtol=0, atol=5e-15)


def test_beyond_the_stability_limit_there_is_no_step_at_right_angles():
    system = systems.get("precession")
    for name, status in (("spherical_midpoint", NOT_CONVERGED), ("implicit_midpoint", COMPLETE)):
        with pytest.warns(integrators.StabilityWarning) if status else _nothing():
            run = integrators.integrate(
                system, integrators.get(name), system.start("equator"),
                step_size=2.1, duration=21.0, samples=1,
            )  # fmt: skip
        assert run.status == status, name
    assert np.isfinite(moved(system, "spherical_midpoint", system.start("equator"), 1.98)).all()


def _nothing():
    import contextlib

    return contextlib.nullcontext()


@pytest.mark.parametrize("name", ["extended_spherical_midpoint", "implicit_midpoint"])
def test_spins_of_any_length_keep_it(name):
    system = systems.get("heisenberg_chain", count=4, lengths="any")
    w = np.array([[0.3, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 2.0, 0.5], [1.0, 1.0, 1.0]])
    end = moved(system, name, w, 0.05, steps=4000)
    before, after = np.linalg.norm(w, axis=1), np.linalg.norm(end, axis=1)
    np.testing.assert_allclose(after, before, rtol=4e-16, atol=0)
    np.testing.assert_allclose(end.sum(axis=0), w.sum(axis=0), rtol=0, atol=1e-14)
    assert np.all(end[1] == 0.0)


def test_rules_keep_the_energy_of_a_rigid_body():
    """To 2e-15 over 1000 steps, section 3.1."""
    w = BODY.start("figure3")
    energy = 0.5 * np.sum(w**2 * INVERSE)
    for name in ("spherical_midpoint", "implicit_midpoint", "moser_veselov"):
        run = integrators.integrate(
            BODY, integrators.get(name), w, step_size=0.1, duration=100.0, samples=100
        )
        assert np.abs(0.5 * np.sum(run.states[:, 0] ** 2 * INVERSE, axis=1) - energy).max() <= 2e-15


@pytest.mark.parametrize(
    ("name", "system", "message"),
    [
        ("moser_veselov", "forced_rigid_body", "needs a free rigid body"),
        ("spherical_midpoint", "nambu_quadratic", "needs the form SpinHamiltonian"),
        ("nambu_midpoint", "free_rigid_body", "needs the form NambuHamiltonian"),
        ("rk4+projected_tangent", "free_rigid_body", "use 'rk4\\+projected'"),
        ("rk4+projected", "nambu_quadratic", "use 'rk4'"),
        ("variational", "heisenberg_chain", "would do: spherical_midpoint"),
    ],
)
def test_what_does_not_fit_is_refused(name, system, message):
    with pytest.raises(InputError, match=message):
        integrators.get(name).check(systems.get(system))


def test_unit_vectors_are_asked_for():
    system = systems.get("free_rigid_body", lengths="any")
    with pytest.raises(InputError, match="'extended_spherical_midpoint' takes any"):
        integrators.get("spherical_midpoint").check(system)
    with pytest.raises(InputError, match="leave it out"):
        integrators.get("rk4", formulation="q_qdot").check(system)


def test_a_loose_solver_takes_fewer_evaluations():
    system = systems.get("heisenberg_chain", count=6)
    counts = []
    for tolerance in (0.0, 1e-6):
        run = integrators.integrate(
            system, integrators.get("spherical_midpoint", solver_tolerance=tolerance),
            system.start("closed_curve"), step_size=0.2, duration=20.0, samples=1,
        )  # fmt: skip
        counts.append(run.counters["evaluations"])
    assert counts[1] < 0.7 * counts[0]
