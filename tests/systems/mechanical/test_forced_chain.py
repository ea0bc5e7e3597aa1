"""The forced chain against equations written down by hand."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import integrators
import systems
from integrators import InputError
from integrators.forms.forms import split_state


@pytest.mark.slow
def test_one_link_in_a_plane_is_the_damped_driven_pendulum():
    """m l² θ'' = −m g l sin θ − c θ' + l a cos θ cos Ωt, where q = (sin θ, 0, cos θ)."""
    m, l, g, c, a, frequency = 1.5, 0.7, 9.81, 0.4, 2.0, 3.0  # noqa: E741
    system = systems.get(
        "forced_pendulum_chain",
        count=1, mass=m, length=l, gravity=g, damping=c, amplitude=a, frequency=frequency,
    )  # fmt: skip

    def slope(t, y):
        angle, speed, _ = y
        push = l * a * np.cos(angle) * np.cos(frequency * t)
        torque = -m * g * l * np.sin(angle) - c * speed + push
        return speed, torque / (m * l * l), (push - c * speed) * speed

    start = np.array([[np.sin(0.8), 0.0, np.cos(0.8)], [0.0, -0.5, 0.0]])
    planar = solve_ivp(slope, (0, 5), (0.8, -0.5, 0.0), "DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
    for name, options in (
        ("variational+kahan_li8", {"step_size": 0.01}),
        ("dop853", {"tolerance": 2.3e-14}),
    ):
        run = integrators.integrate(
            system, integrators.get(name), start, duration=5.0, samples=1, **options
        )
        q, omega, work = split_state(run.states[-1])
        assert q[0] == pytest.approx([np.sin(planar[0]), 0.0, np.cos(planar[0])], abs=1e-11)
        assert omega[0] == pytest.approx([0.0, planar[1], 0.0], abs=1e-11)
        assert work[0] == pytest.approx([planar[2], 0.0, 0.0], abs=1e-11)


def test_the_force_pushes_the_free_end():
    """F_i = l_i f + drag: by virtual work of a force on the end at Σ l_i q_i."""
    system = systems.get(
        "forced_pendulum_chain", count=3, length=(0.5, 1.0, 2.0), damping=(0.0, 0.3, 0.1),
        amplitude=2.0, frequency=0.7,
    )  # fmt: skip
    q, omega, _ = split_state(system.ensemble(1, 3)[0])
    v = np.cross(omega, q)
    out, form = np.zeros((3, 3)), system.form
    form.force.scalar(1.3, q.copy(), omega.copy(), form.parameters, out, np.zeros(1))
    f = np.array([2.0 * np.cos(0.7 * 1.3), 0.0, 0.0])
    end = np.array([0.5, 1.0, 2.0]) @ v
    assert np.sum(out * v) == pytest.approx(f @ end - 0.3 * v[1] @ v[1] - 0.1 * v[2] @ v[2])
    assert out[0] == pytest.approx(0.5 * f)


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ({}, ()),
        ({"amplitude": 0.0}, ()),
        ({"damping": (0.0, 0.0)}, ()),
        ({"amplitude": 0.0, "damping": 0.0}, ("momentum",)),
    ],
)
def test_momentum_is_claimed_where_it_is_conserved(parameters, names):
    system = systems.get("forced_pendulum_chain", **parameters)
    kinds = {quantity.name: quantity.kind for quantity in system.quantities}
    assert tuple(name for name, kind in kinds.items() if kind == "momentum_map") == names
    assert kinds["energy"] == kinds["work"] == "observable"
    assert kinds["energy_balance"] == "energy"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"damping": -0.1}, "damping = -0.1; expected a number ≥ 0"),
        ({"damping": "none"}, "damping = 'none'; expected a number ≥ 0, or one for each link"),
        ({"damping": [0.1]}, "damping has 1 values; expected 2"),
        ({"damping": [0.1, "b"]}, "damping = 'b'; expected a number ≥ 0"),
        ({"amplitude": None}, "amplitude = None; expected a number"),
        ({"frequency": -1.0}, "frequency = -1.0; expected a number ≥ 0"),
        ({"count": 0}, "count = 0; expected a whole number ≥ 1"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(InputError, match=message):
        systems.get("forced_pendulum_chain", **parameters)


def test_members_start_without_work_and_are_those_of_the_free_chain():
    forced, free = systems.get("forced_pendulum_chain"), systems.get("spherical_pendulum_chain")
    members = forced.ensemble(3, 7, around="lee", spread=0.1)
    assert members.shape == (3, 5, 3) and not np.any(members[:, 4])
    np.testing.assert_array_equal(members[:, :4], free.ensemble(3, 7, around="lee", spread=0.1))
    np.testing.assert_array_equal(forced.ensemble(3, 7)[:, :4], free.ensemble(3, 7))


def test_normalized_keeps_the_work():
    system = systems.get("forced_pendulum_chain")
    state = 2.0 * system.start("lee")
    state[4, 0] = 1.5
    found = system.normalized(state)
    system.check_state(found)
    assert found[4, 0] == 1.5
    np.testing.assert_array_equal(system.normalized(state[:4])[:4], found[:4])


def test_a_lattice_starts_without_work():
    forced, free = systems.get("forced_pendulum_chain"), systems.get("spherical_pendulum_chain")
    members = forced.lattice(5, body=1)
    np.testing.assert_array_equal(members[:, :4], free.lattice(5, body=1))
    assert members.shape == (5, 5, 3) and not np.any(members[:, 4])
