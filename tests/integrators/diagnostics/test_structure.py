"""Measured symplecticity and time reversal: of maps that are known, and of every integrator."""

import numpy as np
import pytest
from cases import ALIKE, cases, costly_pairings, first_of, is_usual, pairings, parameters, with_new
from driven_chain import DrivenChain

import integrators
import systems
from integrators import InputError, reversal_error, symplectic_defect
from integrators.diagnostics.structure import defect_of_map
from integrators.forms.cotangent import CotangentHamiltonian
from integrators.forms.flows import HomogeneousFlow
from integrators.forms.hamiltonians import NambuHamiltonian, SpinHamiltonian
from integrators.forms.lie_poisson import LiePoissonHamiltonian
from integrators.forms.phase_spaces import phase_space
from integrators.method import OF_ADJOINTS
from integrators.stepping.batch import run_batch, run_ends, run_tangents
from integrators.stepping.formulations import to_stored_states
from systems.rigid import rotation_matrices
from systems.spins.base import SpinSystem

STEP = 0.1  # in time scales
TOO_FAST = [[1.0], [1.0], [1e3], [1e3]]  # for a step of two pendula


def unforced(found):
    """Those whose system has a symplectic form."""
    forms = [getattr(item, "case", item).system.form for item in found]
    kept = [not (form.forced or isinstance(form, HomogeneousFlow)) for form in forms]
    return [item for item, keep in zip(found, kept, strict=True) if keep]


def symplectic_pairings():
    """Integrators that declare to be symplectic, plain and composed once, on what they fit.

    Each on the first system of each kind of phase space, and with each kernel that steps. But
    pieces of splits are exact flows of Hamiltonians, which tests of splitting say of each system,
    and midpoint rules that are alike have one kernel.
    """
    found = [p for p in pairings() if "symplectic_form" in p.integrator.preserves]
    usual = ("", "suzuki4", *OF_ADJOINTS)
    found = [p for p in unforced(found) if p.integrator.modifier in usual]

    def what(pairing):
        name, form = pairing.integrator.method.name, pairing.case.system.form
        shared = name == "splitting" or name in ALIKE
        kernel = name if shared else pairing.integrator.bind(form).advance.label
        return {pairing.name, kernel, (name, type(phase_space(form)))}

    return with_new(found, what)


def spin_form(lengths="unit", strengths=(1.0, -0.7)):
    """A form with these strengths; its Hamiltonian is never called."""
    borrowed = systems.get("precession").form
    return SpinHamiltonian(strengths, borrowed.hamiltonian, borrowed.gradient, lengths=lengths)


def nambu_form(matrix):
    """A form with this quadratic C; its Hamiltonian is never called."""
    borrowed = systems.get("nambu_quadratic").form
    return NambuHamiltonian(np.array(matrix), borrowed.hamiltonian, borrowed.gradient)


# --- the manifolds -------------------------------------------------------------------------------


@pytest.mark.parametrize("unforced_case", parameters(unforced(cases())))
def test_the_symplectic_form_makes_the_equations_hamiltonian(unforced_case):
    """Ω(X, v) = ±dH(v) for every tangent v, with X the compiled field and dH by differences."""
    case, system, state = unforced_case, unforced_case.system, unforced_case.state
    space = phase_space(system.form)
    scales = space.scales(state, state + 0.0, case.time_scale)
    tangents = space.tangents(state, scales)
    field = case.field("q_omega", state)
    np.testing.assert_allclose(
        space.projected(state, field[None])[0], field, atol=1e-13 * size(field)
    )
    together = np.concatenate([field[None], tangents])
    contracted = space.products(state, together)[0, 1:]
    d = 1e-3
    energies = [
        case.evaluate(system.form.energy, case.moving(space.moved(state, tangents, angle)))[:, 0]
        for angle in (d, -d, 2 * d, -2 * d)
    ]
    slope = (8 * (energies[0] - energies[1]) - (energies[2] - energies[3])) / (12 * d)
    sign = -1.0 if isinstance(system, SpinSystem) else 1.0
    scale = max(size(slope), size(energies[0]))
    np.testing.assert_allclose(contracted, sign * slope, atol=2e-9 * scale)


def size(values):
    """The largest absolute value."""
    return np.abs(values).max()


@pytest.mark.parametrize("unforced_case", parameters(unforced(cases())))
def test_moved_states_stay_on_the_manifold(unforced_case):
    case, system, state = unforced_case, unforced_case.system, unforced_case.state
    space = phase_space(system.form)
    scales = space.scales(state, state + 0.0, case.time_scale)
    tangents = space.tangents(state, scales)
    dimension = 2 * system.bodies * (2 if case.mechanical else 1)
    if isinstance(system.form, CotangentHamiltonian):
        dimension = 3 * system.form.algebra_rows
    if isinstance(system.form, LiePoissonHamiltonian):
        dimension = 4
    assert tangents.shape == (dimension, *state.shape)
    assert np.linalg.matrix_rank(tangents.reshape(dimension, -1) / size(scales)) == dimension
    np.testing.assert_allclose(space.projected(state, tangents), tangents, atol=1e-13)
    for moved in space.moved(state, tangents, 0.1):
        assert_on_manifold(case, moved)
    d = 1e-4
    slopes = (space.moved(state, tangents, d) - space.moved(state, tangents, -d)) / (2 * d)
    np.testing.assert_allclose(slopes / scales, tangents / scales, atol=1e-8)


def assert_on_manifold(case, state):
    """The system takes it, and every length or Casimir is that of the case's state."""
    case.system.check_state(state)
    spins = isinstance(case.system, SpinSystem)
    if spins:
        casimir = next(q for q in case.system.quantities if q.kind == "casimir")
        found = case.evaluate(casimir.function, np.stack([state, case.state]))[:, 0]
        assert found[0] == pytest.approx(found[1], rel=1e-14, abs=1e-15)
    if spins and not isinstance(case.system.form, NambuHamiltonian):
        lengths = np.linalg.norm(state, axis=1)
        np.testing.assert_allclose(lengths, np.linalg.norm(case.state, axis=1), rtol=1e-14)


# --- maps that are known -------------------------------------------------------------------------

SPINS = np.array([[0.36, -0.48, 0.8], [0.0, 0.6, -0.8]])


@pytest.mark.parametrize(
    ("lengths", "factor", "defect"),
    [
        ("unit", 1.0, 0.0),
        ("unit", -1.0, 2.0),  # JᵀΩ'J = −Ω
        ("unit", 2.0, 7.0),  # 2³ Ω
        ("any", 2.0, 1.0),  # 2³/2² Ω
        ("any", -1.0, 2.0),
    ],
)
def test_scaled_spins(lengths, factor, defect):
    space = phase_space(spin_form(lengths))
    found = defect_of_map(space, lambda members: factor * members, SPINS, 1.0)
    assert found.defect == pytest.approx(defect, abs=found.resolution)
    assert found.resolution < 1e-12


def test_turned_spins():
    """Each about e3, by an angle that depends on the other's height: the flow of w1·e3 w2·e3."""

    def ends(members):
        strengths = np.array([1.0, -0.7])
        rates = 3.0 * members[:, ::-1, 2] / strengths
        z = members[..., 0] + 1j * members[..., 1]
        turned = np.exp(-1j * rates) * z
        return np.stack([turned.real, turned.imag, members[..., 2]], axis=2)

    for lengths, state in (("unit", SPINS), ("any", SPINS * [[0.5], [3.0]])):
        found = defect_of_map(phase_space(spin_form(lengths)), ends, state, 1.0)
        assert found.defect <= found.resolution < 1e-12
    wrong = defect_of_map(phase_space(spin_form(strengths=(1.0, 1.0))), ends, SPINS, 1.0)
    assert wrong.defect > 0.1


def test_faster_bodies():
    """(q, ω) to (q, 2ω) doubles dq ∧ dp."""
    system = systems.get("spherical_pendulum_chain")
    faster = [[1.0], [1.0], [2.0], [2.0]]
    found = defect_of_map(
        phase_space(system.form), lambda members: members * faster, system.start("lee"), 1.0
    )
    assert found.defect == pytest.approx(1.0, abs=found.resolution)


def test_a_spin_of_no_length_does_not_count():
    state = np.array([[0.0, 0.0, 0.0], [0.0, 0.6, -0.8]])
    space = phase_space(spin_form("any"))
    assert defect_of_map(space, lambda members: 2.0 * members, state, 1.0).defect == pytest.approx(
        1
    )
    with pytest.raises(InputError, match="every spin is 0"):
        defect_of_map(space, lambda members: members, np.zeros((2, 3)), 1.0)


@pytest.mark.parametrize(
    "matrix", [np.eye(3), np.diag([1.0, -1.0, 0.0]), np.diag([1.0, 2.0, -3.0])]
)
def test_scaled_nambu_states(matrix):
    """∇C·(u × v)/|∇C|² grows with the first power of the scale, on cones and cylinders too."""
    space = phase_space(nambu_form(matrix))
    found = defect_of_map(space, lambda members: 2.0 * members, np.array([[0.4, 0.3, 0.8]]), 1.0)
    assert found.defect == pytest.approx(1.0, abs=found.resolution)


def test_nambu_equilibria_have_no_tangent_plane():
    space = phase_space(nambu_form(np.diag([1.0, -1.0, 0.0])))
    with pytest.raises(InputError, match="∇C = 0 at the state"):
        defect_of_map(space, lambda members: members, np.array([[0.0, 0.0, 1.0]]), 1.0)


def test_maps_of_coadjoint_orbits():
    """Ad*_{g⁻¹} and the flow of a function of Γ are Poisson maps; 3 (Π, Γ) is none."""
    top = systems.get("heavy_top", formulation="lie_poisson")
    space, state = phase_space(top.form), np.array([[1.0, -2.0, 0.5], [0.3, 0.8, -9.0]])
    turn, shift = rotation_matrices.exponential(np.array([0.3, -1.0, 2.0])), [0.4, -3.0, 1.0]

    def coadjoint(members):
        turned = members @ turn.T
        return np.stack([turned[:, 0] + np.cross(shift, turned[:, 1]), turned[:, 1]], axis=1)

    def pushed(members):  # Π̇ = Γ × ∂H/∂Γ of H = Γ_1² Γ_2
        x, y, z = members[:, 1].T
        slope = np.stack([2.0 * x * y, x * x, 0.0 * z], axis=1)
        return members + np.stack([np.cross(members[:, 1], slope), 0.0 * slope], axis=1)

    for ends, defect in ((coadjoint, 0.0), (pushed, 0.0), (lambda y: 3.0 * y, 2.0)):
        found = defect_of_map(space, ends, state, 1.0)
        assert found.defect == pytest.approx(defect, abs=found.resolution)
        assert found.resolution < 1e-11
    with pytest.raises(InputError, match="Γ = 0 at the state, whose orbit is the sphere of Π"):
        defect_of_map(space, coadjoint, state * [[1.0], [0.0]], 1.0)


def test_a_map_of_small_scales_is_resolved_as_far_as_it_can_be():
    """Turns by an angle that swings a thousand times over the sphere: no first angle is fit."""

    def ends(members):
        z = (members[..., 0] + 1j * members[..., 1]) * np.exp(1j * np.sin(1e3 * members[..., 2]))
        return np.stack([z.real, z.imag, members[..., 2]], axis=2)

    found = defect_of_map(phase_space(spin_form()), ends, SPINS, 1.0)
    assert found.defect <= found.resolution
    assert 1e-11 < found.resolution < 1e-6


# --- integrators ---------------------------------------------------------------------------------


@pytest.mark.parametrize("symplectic_pairing", parameters(symplectic_pairings(), is_usual))
def test_declared_integrators_are_symplectic(symplectic_pairing):
    """By tangents of a kernel that other tests need too, which take seconds to compile.

    Of the others by differences of its steps.
    """
    pairing, case = symplectic_pairing, symplectic_pairing.case
    state, h = case.state, STEP * case.time_scale
    with_tangents = {other.problem.advance.label for other in costly_pairings()}
    if pairing.problem.advance.label in with_tangents:
        found = symplectic_defect(case.system, pairing.integrator, state, step_size=h)
        # Measured: defects up to 4.1e-15, of a stiff rod 2.8 resolutions; nearly all below 1e-15.
        assert found.defect <= min(1e-14, 4 * found.resolution)
        assert found.resolution < 3e-15
        return

    def ends(members):
        return run_ends(pairing.problem, members, h, 1, lanes=False)

    found = defect_of_map(phase_space(case.system.form), ends, state, h)
    # Measured: defects up to 1.9e-13; nearly all below 3e-14.
    assert found.defect <= min(1e-12, 4 * found.resolution)
    assert found.resolution < 2e-12


@pytest.mark.parametrize("name", first_of(["rk4", "rk4+projected"]))
def test_others_are_not(name):
    system = systems.get("heisenberg_chain", count=5)
    state = system.ensemble(1, seed=3)[0]
    found = symplectic_defect(system, integrators.get(name), state, step_size=0.1)
    assert found.defect > 1e7 * found.resolution and found.resolution < 5e-15  # found 1.1e8, 2e-15


@pytest.mark.parametrize(("name", "power"), [("rk4", 5), ("rk2_heun", 3)])
def test_the_defect_of_a_step_falls_as_its_local_error(name, power):
    system = systems.get("spherical_pendulum_chain")
    method, start = integrators.get(name), system.start("lee")
    coarse, fine = (
        symplectic_defect(system, method, start, step_size=h).defect for h in (0.01, 0.005)
    )
    assert np.log2(coarse / fine) == pytest.approx(power, abs=0.1)  # measured: 5.05, 3.02


def test_several_steps_and_explicit_time():
    system, method = DrivenChain(count=2), integrators.get("variational")
    state = system.ensemble(1, seed=2)[0]
    later = symplectic_defect(system, method, state, step_size=0.01, steps=20, start_time=3.0)
    assert later.defect <= later.resolution < 5e-15  # found 4e-16, 1.3e-15


@pytest.mark.slow
def test_a_turning_spin_moves_with_its_start_as_it_turns():
    axis, h, steps = np.array([0.3, -0.5, 0.7]), 0.3, 4
    system = systems.get("precession", axis=tuple(axis))
    problem = integrators.get("exact").bind(system)
    state = system.ensemble(1, seed=1)[0]
    turned = rotation_matrices.exponential(steps * h * axis)
    end, found = run_tangents(problem, state, np.eye(3)[:, None], h, steps)
    np.testing.assert_allclose(found[:, 0].T, turned_by(turned, end, state), atol=2e-15)


def turned_by(rotation, end, state):
    """A rotation or its inverse, whichever leads one state to the other."""
    forward = np.abs(rotation @ state[0] - end[0]).max() < 1e-14
    return rotation if forward else rotation.T


@pytest.mark.slow
def test_a_pendulum_at_its_hyperbolic_fixed_point():
    """The traces of n steps are those of the linear recursion δ'' = (h²/l) δ, as for Verlet's."""
    system, h = systems.get("spherical_pendulum_chain", count=1, length=0.7), 0.1
    state = np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 0.0]])  # gravity is along −e3 of this system
    basis = phase_space(system.form).tangents(state, np.ones((2, 1)))
    growth = np.arccosh(1.0 + 0.5 * h * h / 0.7)
    for steps in (1, 2, 25):
        end, found = run_tangents(
            integrators.get("variational").bind(system), state, basis, h, steps
        )
        assert np.array_equal(end, state)
        trace = np.trace(found.reshape(4, -1) @ np.linalg.pinv(basis.reshape(4, -1)))
        assert trace == pytest.approx(4.0 * np.cosh(steps * growth), rel=1e-14 * steps)


def test_a_step_that_fails_has_no_tangents():
    system = systems.get("spherical_pendulum_chain")
    state = system.ensemble(1, seed=1)[0] * TOO_FAST
    problem = integrators.get("variational").bind(system)
    end, found = run_tangents(problem, state, np.ones((9, 4, 3)), 1.0, 1)
    assert np.isnan(end).all() and np.isnan(found).all()


@pytest.mark.parametrize(("name", "tolerance"), [("dop853", 1e-12), ("rk45", 1e-8)])
def test_adaptive_integrators_have_the_defect_of_their_tolerance(name, tolerance):
    system = systems.get("spherical_pendulum_chain")
    found = symplectic_defect(
        system, integrators.get(name), system.start("lee"), tolerance=tolerance, duration=0.5
    )
    assert found.defect < 10 * tolerance
    assert name == "dop853" or found.defect > 0.01 * tolerance


def test_a_step_that_fails_has_no_defect():
    system = systems.get("spherical_pendulum_chain")
    state = system.ensemble(1, seed=1)[0] * TOO_FAST
    method = integrators.get("variational")
    assert np.isnan(symplectic_defect(system, method, state, step_size=1.0).defect)
    assert np.isnan(reversal_error(system, method, state, step_size=1.0, steps=2))


@pytest.mark.parametrize(
    "name",
    first_of(
        [
            "variational-spherical_pendulum_chain", "rk4[q_qdot]-nbody_sphere",
            "spherical_midpoint-point_vortices", "nambu_midpoint-nambu_quadratic",
        ],
        3,
    ),
)  # fmt: skip
def test_many_ends_are_those_of_batches(name):
    (pairing,) = (pairing for pairing in pairings() if str(pairing) == name)
    case, problem = pairing.case, pairing.problem
    members, h = case.members(11, seed=4), 0.01 * case.time_scale
    singly = [run_batch(problem, m[None], h, 3, 1).states[:, -1] for m in members]
    expected = to_stored_states(problem, np.concatenate(singly))
    for lanes in (True, False):
        found = run_ends(problem, members, h, 3, lanes=lanes)
        assert np.array_equal(found, expected)


# --- back to the start ---------------------------------------------------------------------------


def test_symmetric_methods_lead_back():
    system = systems.get("forced_rigid_body")  # its H depends on time
    starts = system.ensemble(9, seed=1)
    found = {
        name: reversal_error(
            system, integrators.get(name), starts, step_size=0.1, steps=100, start_time=0.7
        )
        for name in ("spherical_midpoint", "spherical_midpoint+suzuki4", "rk4")
    }
    for name, errors in found.items():
        assert errors.shape == (9,)
        assert np.all(errors > 1e-10) if name == "rk4" else np.all(errors < 1e-14)
    alone = reversal_error(
        system, integrators.get("rk4"), starts[3], step_size=0.1, steps=100, start_time=0.7
    )
    assert alone == found["rk4"][3] and isinstance(alone, float)


def test_the_work_of_a_force_is_no_part_of_the_distance():
    system = systems.get("forced_pendulum_chain", damping=0.0, amplitude=0.5)
    state = system.start(system.starts[0])
    shifted = state + np.array([0.0] * (len(state) - 1) + [1.0])[:, None] * [1e6, 0.0, 0.0]
    method = integrators.get("variational")
    errors = [reversal_error(system, method, s, step_size=0.01, steps=50) for s in (state, shifted)]
    assert errors[0] == errors[1] < 1e-13


def test_runs_go_back_in_time():
    system = systems.get("forced_rigid_body", epsilon=0.5)
    state, method = system.ensemble(1, seed=1)[0], integrators.get("rk4")
    options = {"step_size": 0.01, "samples": 4}
    forth = integrators.integrate(system, method, state, duration=2.0, start_time=1.0, **options)
    back = integrators.integrate(
        system, method, forth.states[-1], duration=-2.0, start_time=3.0, **options
    )
    assert forth.times.tolist() == [1.0, 1.5, 2.0, 2.5, 3.0]
    assert back.times.tolist() == [3.0, 2.5, 2.0, 1.5, 1.0]
    np.testing.assert_allclose(back.states[::-1], forth.states, atol=1e-9)
    other = integrators.integrate(system, method, state, duration=2.0, **options)
    assert np.abs(other.states[-1] - forth.states[-1]).max() > 1e-3  # the time counts


# --- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s, i, x: symplectic_defect(s, i("rk4"), x), "rk4.*: give step_size and steps"),
        (lambda s, i, x: symplectic_defect(s, i("rk45"), x, step_size=0.1), "takes a tolerance, a"),
        (lambda s, i, x: symplectic_defect(s, i("rk4"), x, step_size=-0.1), "a number > 0"),
        (lambda s, i, x: symplectic_defect(s, i("rk4"), x, step_size=0.1, steps=0), "whole number"),
        (lambda s, i, x: symplectic_defect(s, i("rk4"), [x, x], step_size=0.1), "2 members"),
        (lambda s, i, x: symplectic_defect(s, i("rk4"), 2 * x, step_size=0.1), "off the manifold"),
        (lambda s, i, x: reversal_error(s, i("rk45"), x, step_size=0.1, steps=1), "is adaptive"),
    ],
)  # fmt: skip
def test_calls_that_are_refused(call, message):
    system = systems.get("spherical_pendulum_chain")
    with pytest.raises(InputError, match=message):
        call(system, integrators.get, system.start("lee"))


def test_forms_without_a_symplectic_form_are_refused():
    forced, field = systems.get("forced_pendulum_chain"), systems.get("precession").form
    with pytest.raises(InputError, match="a non-conservative force preserves no symplectic form"):
        symplectic_defect(
            forced, integrators.get("variational"), forced.start(forced.starts[0]), step_size=0.1
        )
    with pytest.raises(InputError, match="no symplectic form is known for VectorField"):
        phase_space(field.vector_field())


@pytest.mark.parametrize("given", [{"start_time": 1.0}, {"duration": -1.0}])
def test_adaptive_runs_start_at_0_and_go_forward(given):
    system = systems.get("precession")
    options = {"duration": 1.0, "samples": 1, "tolerance": 1e-6} | given
    with pytest.raises(InputError, match="runs from time 0 on"):
        integrators.integrate(system, integrators.get("rk45"), [[1.0, 0.0, 0.0]], **options)
