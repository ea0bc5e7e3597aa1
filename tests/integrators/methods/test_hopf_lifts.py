"""Collective methods and RATTLE against the same methods written out on quaternions."""

import numpy as np
import pytest
from cases import first_of
from scipy.optimize import fsolve

import integrators
import systems
from integrators import InputError
from integrators.methods.hopf_lifts import GAUSS

H = 0.2
PLACES = {
    "body": systems.get("irreversible_rigid_body"),
    "long spins": systems.get("heisenberg_chain", count=3, lengths="any"),
    "vortices": systems.get("point_vortices", strengths=(1.0, -0.7, 1.3)),
    "chain": systems.get("heisenberg_chain", count=3),
}


def product(a, b):
    """Of quaternions, shape (n, 4), the real part first."""
    real = a[:, :1] * b[:, :1] - np.sum(a[:, 1:] * b[:, 1:], axis=1, keepdims=True)
    vector = a[:, :1] * b[:, 1:] + b[:, :1] * a[:, 1:] + np.cross(a[:, 1:], b[:, 1:])
    return np.concatenate([real, vector], axis=1)


def conjugate(a):
    return a * [1.0, -1.0, -1.0, -1.0]


def pure(w):
    return np.concatenate([np.zeros((len(w), 1)), w], axis=1)


def step_of(system, name, w):
    return integrators.integrate(
        system, integrators.get(name), w, step_size=H, duration=H, samples=1
    ).states[-1]


def gradient(system, w):
    form = system.form
    out, work = np.empty_like(w), np.zeros(1 + form.gradient.work(form.rows))
    own = np.asarray(form.parameters, dtype=float)
    form.gradient.scalar(0.0, np.ascontiguousarray(w), own, out, work)
    return out


def hopf(q):
    """w = q e₃ q̄, of the length |q|²."""
    third = pure(np.broadcast_to([0.0, 0.0, 1.0], (len(q), 3)))
    return product(product(q, third), conjugate(q))[:, 1:]


def lifted(w, seed):
    """A q with hopf(q) = w, at a random place of its fibre."""
    lengths = np.linalg.norm(w, axis=1)
    unit = w / lengths[:, None]
    turn = np.concatenate(
        [1.0 + unit[:, 2:], -unit[:, 1:2], unit[:, :1], 0.0 * unit[:, :1]], axis=1
    )
    q = turn / np.linalg.norm(turn, axis=1, keepdims=True) * np.sqrt(lengths)[:, None]
    angle = np.random.default_rng(seed).uniform(0.0, 6.0, len(w))
    zero = np.zeros_like(angle)
    return product(q, np.stack([np.cos(angle), zero, zero, np.sin(angle)], axis=1))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("order", GAUSS)
def test_a_collective_step_is_that_of_gauss_on_r4(order, place):
    """q̇ = −(1/2κ) ∂H/∂w(q) q, from anywhere on the fibres over w."""
    system = PLACES[place]
    w = system.ensemble(1, seed=4)[0]
    q = lifted(w, seed=order)
    np.testing.assert_allclose(hopf(q), w, atol=3e-15)
    rows = np.array(GAUSS[order][1])
    stages = [q] * (len(rows) - 1)
    for _ in range(200):
        slopes = [
            product(pure(-0.5 * gradient(system, hopf(s)) / system.form.divisors[:, None]), s)
            for s in stages
        ]
        *stages, end = (q + H * np.tensordot(row, slopes, 1) for row in rows)
    found = step_of(system, f"collective_gauss{order}", w)
    assert np.abs(found - w).max() > 1e-3
    np.testing.assert_allclose(found, hopf(end), rtol=0, atol=1e-14)


@pytest.mark.parametrize("place", first_of(PLACES, 2))
def test_a_rattle_step_is_that_of_rattle_on_r8(place):
    """With H̃(q, p) = H(w) + ½ w₄² and (w₄, w) = ½ q̄ p, by difference quotients of H̃."""
    system = PLACES[place]
    form, w = system.form, system.ensemble(1, seed=4)[0]
    n, strengths = len(w), form.strengths[:, None]

    def lift(q, p):
        return 0.5 * product(conjugate(q), p)

    def energy(q, p):
        """H̃; p is that of the spin over κ, so is H̃ below."""
        found = lift(q, p)
        own = np.asarray(form.parameters, dtype=float)
        h = form.hamiltonian.scalar(0.0, np.ascontiguousarray(found[:, 1:]), own)
        return h + 0.5 * np.sum(strengths * found[:, :1] ** 2)

    def slope(q, p, of):
        out, d = np.empty((n, 4)), 1e-3
        for place in np.ndindex(n, 4):
            kick = np.zeros((n, 4))
            kick[place] = d
            sides = [
                energy(q + k * kick, p) if of == "q" else energy(q, p + k * kick)
                for k in (1, -1, 2, -2)
            ]
            out[place] = (8 * (sides[0] - sides[1]) - (sides[2] - sides[3])) / (12 * d)
        return out / strengths

    q = np.random.default_rng(7).standard_normal((n, 4))
    q = q / np.linalg.norm(q, axis=1, keepdims=True)
    p = 2.0 * product(q, pure(w))

    def residual(unknown):
        middle, later, multiplier = np.split(unknown.reshape(n, 9), [4, 8], axis=1)
        first = middle - p + 0.5 * H * (slope(q, middle, "q") + multiplier * q)
        moved = 0.5 * H * (slope(q, middle, "p") + slope(later, middle, "p"))
        length = np.sum(later**2, axis=1, keepdims=True) - 1.0
        return np.concatenate([first, later - q - moved, length], axis=1).ravel()

    start = np.concatenate([p, q, np.zeros((n, 1))], axis=1)
    middle, later, _ = np.split(
        fsolve(residual, start.ravel(), xtol=1e-13).reshape(n, 9), [4, 8], axis=1
    )
    end = middle - 0.5 * H * slope(later, middle, "q")
    end = end - np.sum(end * later, axis=1, keepdims=True) * later  # p·q = 0
    found = step_of(system, "rattle_su2", w)
    assert np.abs(found - w).max() > 1e-3
    np.testing.assert_allclose(found, lift(later, end)[:, 1:], rtol=0, atol=2e-9)


@pytest.mark.parametrize("name", ["collective_gauss2", "collective_gauss6", "rattle_su2"])
def test_spins_of_any_length_keep_it(name):
    system = systems.get("heisenberg_chain", count=4, lengths="any")
    w = np.array([[0.3, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 2.0, 0.5], [1.0, 1.0, 1.0]])
    run = integrators.integrate(
        system, integrators.get(name), w, step_size=0.05, duration=100.0, samples=1
    )
    before, after = np.linalg.norm(w, axis=1), np.linalg.norm(run.states[-1], axis=1)
    np.testing.assert_allclose(after, before, rtol=4e-16, atol=0)
    np.testing.assert_allclose(run.states[-1].sum(axis=0), w.sum(axis=0), rtol=0, atol=1e-14)
    assert np.all(run.states[-1, 1] == 0.0)


def test_evaluations_are_those_of_the_gradient():
    system = systems.get("free_rigid_body")
    for name, each in (("collective_gauss2", 1), ("collective_gauss6", 3), ("rattle_su2", 2)):
        run = integrators.integrate(
            system, integrators.get(name), system.start("figure3"),
            step_size=0.1, duration=10.0, samples=1,
        )  # fmt: skip
        iterations = 100 * run.counters["iterations_mean"]
        assert run.counters["evaluations"] == pytest.approx(each * iterations, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "system", "message"),
    [
        ("collective_gauss4+suzuki4", {}, "raises order 2: it has order 4 already"),
        ("rattle_su2", {"tracers": 2}, "needs a system without tracers"),
    ],
)
def test_what_does_not_fit_is_refused(name, system, message):
    with pytest.raises(InputError, match=message):
        integrators.get(name).check(systems.get("point_vortices", **system))
