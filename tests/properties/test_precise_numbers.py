"""What kernels in double-double arithmetic are given: parameters, constants and starts."""

import itertools
import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import integrators
import systems
from integrators import InputError
from integrators.precision import simplest_fraction, to_double_doubles
from integrators.tableaux.compositions import ADJOINT_COMPOSITIONS, PROCESSED_COMPOSITIONS
from systems.base import Start
from systems.mechanical.base import MechanicalSystem
from systems.mechanical.pendulum_chain import SphericalPendulumChain
from systems.spins.base import SpinSystem

DD = "double-double"
OF_15_DIGITS = (*ADJOINT_COMPOSITIONS, *PROCESSED_COMPOSITIONS)
FOLDER = Path(__file__).parents[1]
REFERENCES = ("reference", "reference_lee", "reference_celledoni", "reference_mclachlan")
STARTS = {  # of the reference states: those that are no default's first one
    "spherical_pendulum_chain/n2_planar": "celledoni",
    "spherical_pendulum_chain/n2_spatial": "celledoni_spatial",
}
CASES = {
    name: case
    for file in REFERENCES
    for name, case in json.loads((FOLDER / f"{file}.json").read_text())["cases"].items()
}


def exact(values):
    """Pairs as fractions, shape (…)."""
    assert values.shape[-1] == 2
    flat = [Fraction(high) + Fraction(low) for high, low in values.reshape(-1, 2).tolist()]
    return np.array(flat, dtype=object).reshape(values.shape[:-1])


def assert_pairs_of(found, expected, ulps, published=1e-300):
    """High doubles are `expected` but for so many roundings, low ones their rest.

    Or `expected` has been `published` with an error of that size.
    """
    assert found.shape == (*np.shape(expected), 2) and found.dtype == float
    high, low = found[..., 0], found[..., 1]
    np.testing.assert_allclose(high, expected, rtol=ulps * 2.0**-52, atol=published)
    there = np.isfinite(high)
    assert np.all(np.abs(low[there]) <= 0.5 * np.spacing(np.abs(high[there])))
    assert not np.any(low[~there])


def test_methods_are_given_parameters_of_every_system(case):
    for integrator in (integrators.get("rk4"), integrators.get("rkmk4")):
        if integrator.method.fits(case.system.form):
            problem = integrator.bind(case.system, DD)
            assert_pairs_of(problem.parameters, integrator.bind(case.system).parameters, ulps=16)


def test_every_integrator_binds_to_what_it_fits():
    """With every modifier."""
    places = [systems.get(name) for name in PLACES]
    for registered in integrators.ALL_INTEGRATORS:
        method = integrators.get(registered.name, **registered.example).method
        if not method.is_installed:
            continue
        for modifier in ("", *method.modifiers):
            name = registered.name + "+" * bool(modifier) + modifier
            chosen = integrators.get(name, **registered.example)
            assert_binds(chosen, next(s for s in places if chosen.method.fits(s.form)))


PLACES = "spherical_pendulum_chain", "free_rigid_body", "nambu_quadratic", "heavy_top"


def assert_binds(integrator, system):
    if not integrator.method.precise:
        with pytest.raises(InputError, match="computes in double precision only"):
            integrator.bind(system, DD)
        return
    usual, problem = integrator.bind(system), integrator.bind(system, DD)
    published = 1e-14 if integrator.modifier in OF_15_DIGITS else 1e-300
    if integrator.adaptive:  # differences of the weights of a pair, in doubles
        published = 2.0**-53
    assert_pairs_of(problem.parameters, usual.parameters, ulps=16)
    assert_pairs_of(problem.constants, usual.constants, ulps=4, published=published)
    assert problem.rows == usual.rows
    if integrator.adaptive:
        assert problem.loop is usual.loop
        assert problem.checkpoint_size == 2 * usual.checkpoint_size
        return
    np.testing.assert_array_equal(problem.options, usual.options)
    assert problem.options.dtype == float
    assert problem.advance is usual.advance
    assert problem.memory >= usual.memory  # fixed points start from more solutions before


def test_starts_are_those_in_double_and_of_unit_length(case):
    system = case.system
    for name in system.starts:
        try:
            usual = system.start(name)
        except InputError:  # of other parameters
            continue
        if system.name == "driven_chain":  # made of floats such as 0.6
            with pytest.raises(InputError, match="'tilted' of driven_chain is made in double prec"):
                system.start(name, DD)
            continue
        found = system.start(name, DD)
        assert found.shape == (*usual.shape, 2)
        np.testing.assert_allclose(found[..., 0], usual, rtol=0, atol=2e-15 * np.abs(usual).max())
        for row, squared in enumerate(np.sum(exact(found) ** 2, axis=1)):
            if abs(usual[row] @ usual[row] - 1.0) < 1e-12:
                assert abs(squared - 1) < Fraction(1, 10**31)


def test_members_of_families(case):
    system = case.system
    for family in system.families:
        values = {
            key: value if key == "lobes" else 0.3 * value for key, value in family.axes.items()
        }
        try:
            usual = system.member(family.name, **values)
        except InputError:  # of other parameters
            continue
        found = system.member(family.name, DD, **values)
        np.testing.assert_allclose(found[..., 0], usual, rtol=0, atol=2e-15)
        lengths = np.sum(exact(found) ** 2, axis=1) - 1
        assert max(map(abs, lengths)) < Fraction(1, 10**31)


@pytest.mark.parametrize("name", CASES)
def test_starts_are_the_reference_ones_to_all_their_digits(name):
    system, initial = systems.get(name.partition("/")[0]), CASES[name]["initial"]
    rows = initial if isinstance(initial, list) else initial["q"] + initial["omega"]
    start = STARTS.get(name, system.starts[0])
    found = exact(system.start(start, DD))[: len(rows)]
    for own, digits in zip(found.ravel(), np.ravel(rows), strict=True):
        decimals = len(digits.partition(".")[2])
        assert abs(own - Fraction(digits)) <= max(Fraction(1, 10 ** min(decimals, 31)), 0)


def test_a_float_of_a_parameter_is_its_simplest_fraction():
    system = systems.get("spherical_pendulum_chain", count=2, mass=[0.1, 1 / 3], gravity=9.81)
    own = exact(integrators.get("rk4").bind(system, DD).parameters)[-2:]
    third, g = Fraction(1, 3), Fraction(981, 100)
    for found, expected in zip(own, ((Fraction(1, 10) + third) * g, third * g), strict=True):
        assert abs(found - expected) < Fraction(1, 10**31)


@pytest.mark.parametrize("count", [3, 8])  # a full matrix, and one of links
def test_inverses_of_inertia_matrices_have_all_digits(count):
    mass = [0.1 * (k + 1) for k in range(count)]
    system = systems.get("spherical_pendulum_chain", count=count, mass=mass, length=0.7)
    form = system.in_arithmetic(DD).form
    length, mass = Fraction(7, 10), [simplest_fraction(m) for m in mass]
    carried = np.cumsum(mass[::-1])[::-1]
    matrix = [[carried[max(i, j)] * length**2 for j in range(count)] for i in range(count)]
    packed = exact(to_double_doubles(form.packed))
    if count == 3:
        inverse = packed[9:18].reshape(3, 3)
    else:
        w = packed[4 * count : 8 * count].reshape(count, 4)
        inverse = np.diag(w[:, 0])
        for i in range(count):  # y_i t_{i+1} … t_{j−1} x_j
            for j in range(i + 1, count):
                inverse[i, j] = inverse[j, i] = w[i, 2] * np.prod(w[i + 1 : j, 3]) * w[j, 1]
    product = np.array(matrix) @ inverse
    assert max(map(abs, (product - np.eye(count, dtype=int)).ravel())) < Fraction(1, 10**28)


def test_the_numbers_of_a_form_alone_are_exact():
    system = systems.get("elastic_rod", count=8, mass=0.3, damping=0.1)
    for form in (system.form, systems.get("point_vortices", strengths=[0.1], tracers=2).form):
        problem = integrators.get("rk4").bind(form, DD)
        own = len(form.parameters)
        np.testing.assert_array_equal(problem.parameters[-own:, 0], form.parameters)
        assert not np.any(problem.parameters[-own:, 1])
        assert_pairs_of(problem.parameters, form.packed, ulps=16)


@dataclass(frozen=True)
class Wavering(SphericalPendulumChain):
    """A chain with a start that is made in double precision."""

    named_starts = (
        Start("computed", "by a root", lambda system: np.sqrt([[0.5, 0.0, 0.5], [0.0, 0.0, 0.0]])),
        Start("filled", "into floats", lambda system: _filled(system)),
    )


def _filled(system):
    state = np.zeros((2, 3))
    state[0] = [system.arithmetic.sin(0.3), 0.0, system.arithmetic.cos(0.3)]
    return state


@pytest.mark.parametrize("start", ["computed", "filled"])
def test_starts_in_double_precision_are_refused(start):
    system = Wavering(count=1)
    assert np.linalg.norm(system.start(start)[0]) == pytest.approx(1.0)
    with pytest.raises(InputError, match=f"start '{start}' of .* is made in double precision only"):
        system.start(start, DD)


def test_other_arithmetics_are_unknown():
    system = systems.get("nbody_sphere")
    for ask in (
        lambda: system.start("lee", "quad"),
        lambda: integrators.get("rk4").bind(system, "quad"),
        lambda: system.in_arithmetic("quad"),
    ):
        with pytest.raises(InputError, match="unknown arithmetic 'quad'"):
            ask()
    assert system.in_arithmetic("double") is system


def test_states_in_doubles_are_refined(case):
    """They stay what they are to round-off, and are on the manifold to 32 digits."""
    system, usual = case.system, case.members(2, seed=8)
    for states in (usual, usual[0]):
        found = system.refined(states)
        assert found.shape == (*states.shape, 2)
        sizes = np.maximum(1.0, np.abs(states))
        assert np.max(np.abs(found[..., 0] - states) / sizes) < 4e-15
    for state, own in zip(usual, exact(system.refined(usual)), strict=True):
        assert_on_manifold(system, state, own)


def assert_on_manifold(system, state, own):
    """Of fractions: unit lengths, tangency, orthogonality, each if the doubles have it."""
    most = Fraction(1, 10**31)
    for row, other in itertools.combinations_with_replacement(range(len(state)), 2):
        size = max(1.0, np.abs(state[row]).max()) * max(1.0, np.abs(state[other]).max())
        product, whole = own[row] @ own[other], float(row == other)
        if _is_kept(system, row, other) and abs(state[row] @ state[other] - whole) < 1e-13 * size:
            assert abs(product - int(whole)) < most * Fraction(size)


def _is_kept(system, row, other):
    """Whether two rows make a constraint."""
    if isinstance(system, MechanicalSystem):
        n = system.bodies
        return other < 2 * n and row < n and other in (row, row + n)
    if isinstance(system, SpinSystem):
        return row == other and system.on_spheres
    spans = [(*system._row_range(part), part.kind) for part in system.parts]
    for (first, last, kind), (after, _, of) in zip(spans, [*spans[1:], (0, 0, "")], strict=True):
        if kind == "rotation" and first <= row <= other < last:
            return True
        if (
            kind == "direction"
            and row == first
            and (other == first or (of, other) == ("tangent", after))
        ):
            return True
    return False


def test_what_is_no_state_is_not_refined():
    system = systems.get("spherical_pendulum_chain")
    with pytest.raises(InputError, match="off the manifold"):
        system.refined(1.1 * system.start("lee"))
    with pytest.raises(InputError, match="state of shape"):
        system.refined(np.ones((3, 3)))
