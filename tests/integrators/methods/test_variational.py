"""The variational integrators against the discrete equations of motion of their paper."""

import numpy as np
import pytest
from cases import first_of

import integrators
import systems

STEP = 2e-3
SYSTEMS = [  # and with a force one of each solver, since damping is one code
    ("spherical_pendulum_chain", {"mass": (1.0, 0.5)}),
    ("nbody_sphere", {"mass": (1.0, 2.0, 0.7)}),
    ("spring_pendula", {}),
    ("magnetic_dipoles", {}),
    ("lennard_jones_sphere", {"level": 0, "epsilon": 0.1}),
    ("elastic_rod", {"count": 8, "stiffness": 0.02}),
    ("spherical_pendulum_chain", {"mass": (1.0, 0.5), "damping": 0.3}),
    ("nbody_sphere", {"mass": (1.0, 2.0, 0.7), "damping": 0.3}),
]


@pytest.mark.parametrize(("name", "parameters"), first_of(SYSTEMS, 5))
def test_steps_fulfil_the_two_step_form(name, parameters):
    """(3.6) of Lee et al. of any three directions in a row, which knows no ω and no momenta.

    q_k × Σ_j M_ij (q_{j,k+1} − 2 q_{j,k} + q_{j,k−1}) + h² q_k × (∂V_k − F_k) = 0; there is no F
    in the paper. What is left of it is round-off of its terms: of Σ M_ij q_j.
    """
    system = systems.get(name, **parameters)
    form, n = system.form, system.bodies
    run = integrators.integrate(
        system, integrators.get("variational"), system.start("lee"),
        step_size=STEP, duration=50 * STEP, samples=50,
    )  # fmt: skip
    q = run.states[:, :n]
    second = form.inertia_matrix @ (q[2:] - 2.0 * q[1:-1] + q[:-2])
    net = np.zeros((len(q) - 2, n + form.forced, 3))
    for k, state in enumerate(run.states[1:-1]):
        scratch = np.zeros(form.net_gradient.work(form.rows) + 1)
        form.net_gradient.scalar(run.times[k + 1], state.copy(), form.packed, net[k], scratch)
    residual = np.cross(q[1:-1], second + STEP**2 * net[:, :n])
    terms = np.abs(form.inertia_matrix).sum(axis=1)[:, None]
    assert np.max(np.abs(residual) / terms) < 2e-15
    wrong = np.cross(q[1:-1], second + 0.99 * STEP**2 * net[:, :n])
    assert np.max(np.abs(wrong) / terms) > 1e-12
