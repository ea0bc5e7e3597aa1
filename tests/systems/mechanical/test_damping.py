"""Damping, which every mechanical system has, against what it does by hand."""

import numpy as np
import pytest
from cases import first_of
from study_text import one_experiment, problems

import integrators
import systems
from integrators import InputError
from integrators.forms.forms import split_state

SYSTEMS = {
    "spherical_pendulum_chain": ({}, 0.1),
    "nbody_sphere": ({}, 0.1),
    "spring_pendula": ({}, 1e-3),
    "elastic_rod": ({"count": 2, "stiffness": 0.02}, 1e-4),
    "magnetic_dipoles": ({}, 1e-6),
    "lennard_jones_sphere": ({"level": 0, "epsilon": 0.1}, 0.1),
}


def damped(name, scale=1.0):
    """The system, its bodies damped unequally, and what the c_i are."""
    parameters, size = SYSTEMS[name]
    count = systems.get(name, **parameters).bodies
    damping = scale * size * (1.0 + np.arange(count) % 3)
    return systems.get(name, **parameters, damping=tuple(damping)), damping


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_force_is_that_of_the_torques(name):
    """F_i·δq_i = −c_i ω_i·δθ_i of a turn δq = δθ × q, at any state."""
    system, damping = damped(name)
    state = system.ensemble(1, 5, around=system.starts[0], spread=0.1)[0]
    state[system.bodies : 2 * system.bodies] += 0.3 * np.cross(
        [0.2, -0.5, 0.7], state[: system.bodies]
    )
    q, omega, _ = split_state(state)
    out, form = np.zeros((system.bodies, 3)), system.form
    form.force.scalar(0.4, q.copy(), omega.copy(), form.parameters, out, np.zeros(1))
    turns = np.cross(q, np.random.default_rng(3).normal(size=q.shape))
    np.testing.assert_allclose(
        np.sum(out * np.cross(turns, q), axis=1),
        -damping * np.sum(omega * turns, axis=1),
        rtol=1e-12,
        atol=1e-15 * damping.max(),
    )


@pytest.mark.parametrize("name", first_of(["spherical_pendulum_chain", "nbody_sphere"]))
def test_energy_falls_by_the_work_of_the_damping(name):
    """E falls in every sample interval, by ∫ Σ c_i |ω_i|²; a stronger damping takes more."""
    lost = []
    for scale in (1.0, 2.0):
        system, damping = damped(name, scale)
        duration = 0.1 * system.convergence.duration
        run = integrators.integrate(
            system, integrators.get("variational+kahan_li6"), system.start(system.starts[0]),
            step_size=duration / 200, duration=duration, samples=100,
        )  # fmt: skip
        n, work = system.bodies, run.states[:, -1, 0]
        assert np.all(np.diff(work) < 0.0)
        power = -np.sum(damping * np.sum(run.states[:, n : 2 * n] ** 2, axis=2), axis=1)
        simpson = np.array([1.0, *(4.0, 2.0) * 49, 4.0, 1.0]) @ power * duration / 300
        assert work[-1] == pytest.approx(simpson, rel=1e-5)
        lost.append(-work[-1])
    assert lost[1] > 1.5 * lost[0]


@pytest.mark.parametrize("name", SYSTEMS)
def test_no_damping_is_no_force(name):
    """The form, the rows, the quantities and the identity are those without the parameter."""
    parameters, _ = SYSTEMS[name]
    free, none, still = (
        systems.get(name, **parameters, **given)
        for given in ({}, {"damping": "none"}, {"damping": 0.0})
    )
    assert free == none and free.form.force is None and "damping" not in free.identity
    assert still.rows == free.rows + 1 and not any(still.damping)
    strong, _ = damped(name)
    maps = [
        {q.name for q in system.quantities if q.kind == "momentum_map"}
        for system in (free, still, strong)
    ]
    assert maps[0] == maps[1] and not maps[2]
    assert len({repr(system.identity) for system in (free, none, still, strong)}) == 3


@pytest.mark.parametrize(
    ("damping", "message"),
    [
        (-0.1, "damping = -0.1; expected a number ≥ 0"),
        ([0.1], "damping has 1 values; expected 3"),
        ([0.1, "b", 0.0], "damping = 'b'; expected a number ≥ 0"),
        ("some", "damping = 'some'; expected a number ≥ 0, one for each body, or 'none'"),
    ],
)
def test_damping_is_checked(damping, message):
    with pytest.raises(InputError, match=message):
        systems.get("nbody_sphere", damping=damping)


def test_systems_with_a_force_and_without_are_no_one_experiment():
    """Energy is the invariant of some and the balance that of the others."""
    scan = '{ damping = [{ label = "off", value = "none" }, { label = "on", value = 0.1 }] }'
    (line,) = problems(one_experiment(system='"nbody_sphere"', scan=scan))
    assert "scan: some of these systems have a force and some have none" in line
    assert 'damping = 0 for damping = "none"' in line
