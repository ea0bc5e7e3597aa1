"""States are compensated sums, and rounding errors are not biased: energies hardly drift."""

from dataclasses import replace

import numpy as np
import pytest
from array_kernels import on_arrays
from cases import first_of

import integrators
import systems
from integrators import status
from integrators.lie_groups import rotations
from integrators.stepping.batch import run_batch
from integrators.stepping.formulations import to_stored_states
from sweep.analysis.drift.estimators import measure_drift, window_weights

MEMBERS, DECADES = 64, 3
CASES = (  # system, parameters, integrator, step size, steps, root mean square at the end
    ("free_rigid_body", {}, "spherical_midpoint", 0.0973, 100_000, 5e-16),
    ("free_rigid_body", {}, "moser_veselov", 0.0973, 100_000, 3e-16),
    ("heisenberg_chain", {"count": 4}, "spherical_midpoint+kahan_li8", 0.0197, 10_000, 5e-15),
    ("heisenberg_chain", {"count": 4}, "collective_gauss6", 0.0097, 10_000, 5e-15),
    ("heisenberg_chain", {"count": 4}, "splitting+sofroniou_spaletta10", 0.0473, 30_000, 5e-15),
)


def mean_errors(system, method, step_size, steps):
    """Steps at which intervals end, and the mean energy error of each, (members, intervals)."""
    ends = np.unique(np.rint(np.geomspace(steps / 10**DECADES, steps, 10 * DECADES)).astype(int))
    problem = replace(integrators.get(method).bind(system), inlined=False)
    states = system.ensemble(MEMBERS, seed=1)
    counts, found = np.diff(ends, prepend=0), []
    for first in range(0, MEMBERS, 8):
        members = states[first : first + 8]
        batch = run_batch(problem, members, step_size, counts, len(ends), statistics=True)
        assert np.all(batch.report[:, status.STATUS_ROW] == status.COMPLETE)
        found.append(batch.statistics[:, :, 0, status.MEAN])
    return np.insert(ends, 0, 0), np.concatenate(found)


@pytest.mark.parametrize(
    ("name", "parameters", "method", "step_size", "steps", "bound"), first_of(CASES), ids=str
)
def test_energy_errors_do_not_grow_like_time(name, parameters, method, step_size, steps, bound):
    ends, errors = mean_errors(systems.get(name, **parameters), method, step_size, steps)
    assert np.sqrt(np.mean(errors[:, -1] ** 2)) <= bound
    weights = window_weights(ends)
    drift = measure_drift((ends[1:] + ends[:-1]) / 2 @ weights, errors @ weights)
    assert drift.verdict not in ("linear", "unsteady"), drift  # at 99.7 %, of these starts


def fixed_step_methods():
    """Every method with a fixed step, on the first system that it fits, with its formulations.

    The implicit variational step is left out: its multipliers, which lead lengths back within a
    step, mean nothing over a millionth of an ε of time. `test_long_runs` has it.
    """
    names = ("free_rigid_body", "nambu_quadratic", "heavy_top", "spherical_pendulum_chain")
    places = [systems.get(name, **({"count": 1} if "chain" in name else {})) for name in names]
    for method in integrators.ALL_INTEGRATORS:
        if method.fixed is not None or not method.adaptive:
            name = f"{method.name}+fixed" if method.adaptive else method.name
            chosen = integrators.get(name, **method.example)
            if not chosen.adaptive:
                yield chosen, next(s for s in places if method.fits(s.form))
    chain = places[-1]
    for name in ("rk4", "rk4+projected", "rk4+projected_tangent"):
        for formulation in ("q_omega", "q_qdot"):
            yield integrators.get(name, formulation=formulation), chain


@pytest.mark.parametrize(
    ("method", "system"), list(fixed_step_methods()), ids=lambda x: getattr(x, "label", x.name)
)
def test_steps_far_below_round_off_add_up(method, system):
    """4096 steps of a 256th ε: none would move a state that keeps nothing of what sums lose."""
    start = system.ensemble(1, seed=3)[0]
    problem, form = method.bind(system), system.form.vector_field()
    slope, work = np.empty_like(start), np.zeros(form.field.work(form.rows) + 1)
    form.field.scalar(0.0, np.ascontiguousarray(start), form.parameters, slope, work)
    size = np.linalg.norm(slope)
    h, steps = 2.0**-60 * np.abs(start).max() / size, 4096
    batch = run_batch(problem, start[None], h, steps, 1)
    assert batch.report[0, status.STATUS_ROW] == status.COMPLETE
    end = to_stored_states(problem, batch.states)[0, -1]
    moved = np.sum((end - start) * slope) / size
    assert moved == pytest.approx(h * steps * size, rel=0.25)  # 16 ε, of which ends round some off


@on_arrays(1, 1, 1)
def fill_coefficients(x, sines, versines):
    for i in range(x.size):
        sines[i] = rotations.quintic(rotations.SMALL_SINE, x[i], x[i] * x[i])
        versines[i] = rotations.quintic(rotations.SMALL_VERSINE, x[i], x[i] * x[i])


@pytest.mark.parametrize("least", [1e-4, 1e-3, 5e-3, 2e-2])
def test_rotations_keep_lengths_in_the_mean(least):
    """sin² + cos² − 1 = θ²(a² + b (θ² b − 2)) of a range of angles, in ε θ²; its rms is 0.3."""
    x = np.random.default_rng(1).uniform(least, 1.1 * least, 400_000)
    a, b = np.empty_like(x), np.empty_like(x)
    fill_coefficients(x, a, b)
    a, b, x = (part.astype(np.longdouble) for part in (a, b, x))
    excess = (a * a + b * (x * b - 2.0)) / 2.0**-52
    assert abs(excess.mean()) <= 4.0 * excess.std() / np.sqrt(x.size)
