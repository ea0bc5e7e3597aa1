"""The registry of systems: parameters, quantities, and what is refused."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from cases import Case, cases

import systems
from integrators import InputError
from integrators.forms.forms import velocities
from integrators.forms.hamiltonians import NambuHamiltonian
from systems.ensembles import draw_spins, generator
from systems.mechanical.base import MechanicalSystem
from systems.rigid.base import RigidSystem

KINDS = {"energy", "momentum_map", "casimir", "constraint", "observable"}


@pytest.mark.parametrize("cls", systems.ALL_SYSTEMS, ids=lambda cls: cls.name)
def test_a_registered_system_says_what_it_is(cls):
    system = systems.get(cls.name)
    assert type(system) is cls and systems.named(cls.name) is cls
    assert cls.description and cls.__doc__ and cls.name in systems.names()
    assert set(system.parameters) == set(cls.parameter_names()) == set(cls.parameter_units)
    assert systems.get(cls.name, **system.parameters) == system
    assert tuple(system.state_rows) == system.state_keys
    assert system.rows == sum(system.state_rows.values()) + system.form.forced
    assert len(system.row_labels) == system.rows
    assert system.time_units == cls.units["time"]


@pytest.mark.parametrize("cls", systems.ALL_SYSTEMS, ids=lambda cls: cls.name)
def test_quantities_are_labelled(cls):
    system = cls()
    quantities = system.quantities
    assert len({quantity.name for quantity in quantities}) == len(quantities)
    expected = {"energy", "unit_length", "tangency"}
    if isinstance(system, RigidSystem):
        expected = {"energy", *(constraint.name for constraint in system.constraints)}
    elif not isinstance(system, MechanicalSystem):
        nambu = isinstance(system.form, NambuHamiltonian)
        expected = {"energy", "casimir"} | (set() if nambu else {"unit_length"})
    assert expected <= {quantity.name for quantity in quantities}
    for quantity in quantities:
        assert quantity.kind in KINDS
        assert quantity.units and quantity.long_name
        assert len(quantity.columns) == max(1, len(quantity.components))


def test_invariants_do_not_change_along_the_motion(case):
    """By the exact flow: an invariant that is none would fail here."""
    times = np.linspace(0.0, 2.0, 5)[1:] * case.time_scale
    states = np.array([case.state, *(case.exact(t) for t in times)])
    for quantity in case.system.quantities:
        if quantity.kind == "observable":
            continue
        if quantity.kind == "energy" and case.system.name == "driven_chain":
            continue  # what shakes it does work that is no force's
        read = states if quantity.kind == "constraint" else case.moving(states)
        found = case.evaluate(quantity.function, read)[:, quantity.columns]
        size = max(1.0, np.abs(case.moving(states)).max() ** 2)
        assert np.abs(found - found[0]).max() <= 1e-11 * size


def test_energy_and_momentum_of_the_double_pendulum():
    """By hand, for Example 1: masses 1 at |x₁|, |x₁ + x₂|, gravity along e3."""
    system = systems.get(
        "spherical_pendulum_chain", mass=(1.0, 2.0), length=(1.5, 0.5), gravity=3.0
    )
    q, omega = np.split(system.ensemble(1, 0)[0], 2)
    v = np.cross(omega, q)
    x = np.cumsum([1.5 * q[0], 0.5 * q[1]], axis=0)
    velocity = np.cumsum([1.5 * v[0], 0.5 * v[1]], axis=0)
    masses = np.array([1.0, 2.0])
    energy = 0.5 * masses @ np.sum(velocity**2, axis=1) - 3.0 * masses @ x[:, 2]
    momentum = np.sum(masses[:, None] * np.cross(x, velocity), axis=0)[2]
    case = Case(system, np.vstack([q, omega]), "by hand")
    moving = np.vstack([q, v])[None]
    by_name = {quantity.name: quantity for quantity in system.quantities}
    assert case.evaluate(by_name["energy"].function, moving)[0, 0] == pytest.approx(energy)
    vertical = case.evaluate(by_name["momentum"].function, moving)[0, 2]
    assert vertical == pytest.approx(momentum)


def test_energy_of_bodies_a_right_angle_apart():
    system = systems.get("nbody_sphere")
    start = system.start("lee")
    case = Case(system, start, "by hand")
    energy = case.evaluate(system.form.energy, velocities(start)[None])[0, 0]
    assert energy == pytest.approx(0.5 * (1.1**2 + 1 + 1))  # V = 0 where q_i·q_j = 0


@pytest.mark.parametrize(
    ("name", "parameters", "key", "message"),
    [
        ("spherical_pendulum_chain", {"count": 0}, "count", "whole number ≥ 1"),
        ("spherical_pendulum_chain", {"count": 2.0}, "count", "= 2.0; expected a whole number"),
        ("spherical_pendulum_chain", {"count": True}, "count", "= True; expected a whole number"),
        ("spherical_pendulum_chain", {"mass": -1.0}, "mass", "= -1.0; expected a number > 0"),
        ("spherical_pendulum_chain", {"mass": [1.0]}, "mass", "has 1 values; expected 2"),
        ("spherical_pendulum_chain", {"mass": [1.0, "b"]}, "mass", "= 'b'; expected a number"),
        ("spherical_pendulum_chain", {"mass": None}, "mass", "= None; expected a number"),
        ("spherical_pendulum_chain", {"length": 0}, "length", "= 0; expected a number > 0"),
        ("spherical_pendulum_chain", {"length": np.nan}, "length", "= nan; expected a number"),
        ("spherical_pendulum_chain", {"gravity": "9.81"}, "gravity", "= '9.81'; expected a number"),
        ("spherical_pendulum_chain", {"gravity": [1, 2]}, "gravity", "= [1, 2]; expected a number"),
        ("spherical_pendulum_chain", {"graviti": 1.0}, "graviti", "Did you mean 'gravity'?"),
        ("nbody_sphere", {"count": 1}, "count", "whole number ≥ 2"),
        ("nbody_sphere", {"mass": [1.0, 2.0]}, "mass", "has 2 values; expected 3"),
        ("nbody_sphere", {"coupling": np.inf}, "coupling", "= inf; expected a number"),
        ("nbody_sphere", {"length": 1.0}, "length", "Valid: count, mass, coupling"),
    ],
)
def test_parameters_are_checked(name, parameters, key, message):
    with pytest.raises(InputError) as caught:
        systems.get(name, **parameters)
    assert message in str(caught.value)
    assert caught.value.key == key


@pytest.mark.parametrize("name", ["nbody", "pendulum_chain", "", None])
def test_unknown_systems_are_refused_with_the_valid_names(name):
    with pytest.raises(InputError, match="nbody_sphere|[a-z]+_pendulum_chain"):
        systems.get(name)


def test_starts_that_do_not_suit_the_parameters_are_refused():
    with pytest.raises(InputError, match="three bodies; this system has count = 2"):
        systems.get("nbody_sphere", count=2).start("lee")
    with pytest.raises(InputError, match="Did you mean 'lee'"):
        systems.get("nbody_sphere").start("Lee")


def test_a_system_is_immutable_and_has_its_values_normalised():
    system = systems.get("spherical_pendulum_chain", mass=[1, 2], gravity=2)
    assert system.parameters == {
        "count": 2,
        "mass": (1.0, 2.0),
        "length": (1.0, 1.0),
        "gravity": 2.0,
        "damping": "none",
    }
    with pytest.raises(FrozenInstanceError):
        system.gravity = 1.0


@pytest.mark.parametrize(
    "chain", [c for c in cases() if c.system.name == "spherical_pendulum_chain"], ids=str
)
def test_gravity_of_the_other_sign_turns_the_picture_upside_down(chain):
    parameters = chain.system.parameters
    mirrored = systems.get(chain.system.name, **parameters | {"gravity": -parameters["gravity"]})
    flip = np.array([1.0, 1.0, -1.0])
    q, omega = np.split(chain.state, 2)
    state = np.vstack([flip * q, -flip * omega])  # ω is an axial vector
    end = Case(mirrored, state, "mirrored").exact(chain.time_scale)
    q, omega = np.split(chain.exact(chain.time_scale), 2)
    np.testing.assert_allclose(end, np.vstack([flip * q, -flip * omega]), atol=1e-12)


@pytest.mark.parametrize("seed", [0, 7, 2**32, 2**130 + 17])
def test_members_are_drawn_by_the_generator_of_each(seed):
    members = [0, 5, 2**31]
    drawn = draw_spins(3, seed, members, unit=False)
    each = [generator(seed, member).standard_normal((3, 3)) for member in members]
    assert drawn.tobytes() == np.array(each).tobytes()
