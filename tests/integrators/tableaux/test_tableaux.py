"""Butcher tableaux and commutator-free schemes: what they refuse, and the orders they claim."""

from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from integrators import InputError
from integrators.methods import commutator_free
from integrators.methods.commutator_free import Exponential, Scheme
from integrators.tableaux import butcher
from integrators.tableaux.butcher import DORMAND_PRINCE54, HEUN, KUTTA3, KUTTA4, Tableau
from integrators.tableaux.order_conditions import CHECKED, classical_order, trees

TABLEAUS = {name: t for name, t in vars(butcher).items() if isinstance(t, Tableau)}
SCHEMES = {name: s for name, s in vars(commutator_free).items() if isinstance(s, Scheme)}


# --- orders -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLEAUS)
def test_tableaus_have_their_orders_and_no_more(name):
    tableau = TABLEAUS[name]
    assert classical_order(tableau.matrix, tableau.b) == min(tableau.order, CHECKED)
    if tableau.embedded:
        assert classical_order(tableau.matrix, tableau.embedded) == tableau.embedded_order


def classical(scheme):
    """The Runge–Kutta method that a scheme is where all commutes: a = Σ_j α_j, b, embedded b."""
    count, ends = scheme.all_stages, []
    a = np.zeros((count, count))
    for line in (*scheme.exponentials, *scheme.estimate):
        end = np.zeros(count) if line.start < 0 else ends[line.start].copy()
        end[: len(line.coefficients)] += line.coefficients
        ends.append(end)
        if line.stage >= 0:
            a[line.stage] = end
    return a, ends[len(scheme.exponentials) - 1], ends[-1]


@pytest.mark.parametrize("name", SCHEMES)
def test_schemes_have_their_orders_and_no_more_where_all_commutes(name):
    scheme = SCHEMES[name]
    a, b, embedded = classical(scheme)
    assert np.array_equal(a, np.tril(a, -1))
    assert classical_order(a, b) == scheme.order
    if scheme.estimate:
        assert classical_order(a, embedded) == scheme.estimate_order


def test_cf4_is_the_classical_method_where_all_commutes():
    a, b, _ = classical(commutator_free.CF4_SCHEME)
    assert a == pytest.approx(KUTTA4.matrix, abs=1e-16)
    assert b == pytest.approx(np.array(KUTTA4.b), abs=1e-16)


@pytest.mark.parametrize("name", SCHEMES)
def test_stages_are_evaluated_at_the_sums_of_their_coefficients(name):
    scheme = SCHEMES[name]
    a = classical(scheme)[0]
    lines = scheme.constants.reshape(-1, commutator_free.HEAD + scheme.all_stages)
    for line in lines:
        stage = int(line[commutator_free.STAGE])
        if stage >= 0:
            assert line[commutator_free.NODE] == pytest.approx(a[stage].sum(), abs=1e-16)
    assert lines[len(scheme.exponentials) - 1, commutator_free.NODE] == pytest.approx(1.0)


# --- in fractions -------------------------------------------------------------------------------


def worst_condition(a, b, order):
    """The largest error of the conditions for an order; of fractions without any rounding."""

    def terms(tree):
        size, density, phi = 1, 1, np.full(len(b), type(b[0])(1))
        for branch in tree:
            own_size, own_density, own_phi = terms(branch)
            size, density, phi = size + own_size, density * own_density, phi * (a @ own_phi)
        return size, density * size, phi

    every = [tree for k in range(1, order + 1) for tree in trees(k)]
    return max(abs(b @ phi - type(b[0])(1) / density) for _, density, phi in map(terms, every))


def meets_exactly(a, b, order):
    """Whether fractions meet the conditions for an order, without any error."""
    return worst_condition(a, b, order) == 0


@pytest.mark.parametrize("name", [n for n, t in TABLEAUS.items() if type(t) is Tableau])
def test_the_fractions_of_tableaus_meet_their_conditions_exactly(name):
    tableau, s = TABLEAUS[name], TABLEAUS[name].stages
    exact = tableau.exact_constants
    b, nodes, a = exact[:s], exact[s : 2 * s], exact[2 * s : 2 * s + s * s].reshape(s, s)
    assert meets_exactly(a, b, tableau.order)
    assert not meets_exactly(a, b, tableau.order + 1)
    assert list(a.sum(axis=1)) == list(nodes)
    if tableau.embedded:
        assert meets_exactly(a, b - exact[-s:], tableau.embedded_order)
    np.testing.assert_allclose(exact.astype(float), tableau.constants, rtol=5e-16, atol=1e-17)


def test_decimals_of_a_tableau_meet_its_conditions_to_their_last():
    tableau, s = butcher.VERNER9, butcher.VERNER9.stages
    with localcontext(prec=50):
        exact = np.array([Decimal(x.numerator) / x.denominator for x in tableau.exact_constants])
        b, a = exact[:s], exact[2 * s :].reshape(s, s)
        assert worst_condition(a, b, tableau.order) < Decimal("1e-38")


@pytest.mark.parametrize("name", SCHEMES)
def test_the_fractions_of_schemes_meet_their_conditions_exactly(name):
    scheme = SCHEMES[name]
    stages, lines = scheme.all_stages, len(scheme.exponentials)
    ends, a = [], np.full((stages, stages), Fraction(0))
    for line in scheme.exact_constants.reshape(-1, commutator_free.HEAD + stages):
        start, stage = int(line[commutator_free.START]), int(line[commutator_free.STAGE])
        ends.append(line[commutator_free.HEAD :] + (ends[start] if start >= 0 else 0))
        assert ends[-1].sum() == line[commutator_free.NODE]
        if stage >= 0:
            a[stage] = ends[-1]
    assert meets_exactly(a, ends[lines - 1], scheme.order)
    if scheme.estimate:
        assert meets_exactly(a, ends[-1], scheme.estimate_order)
    np.testing.assert_allclose(
        scheme.exact_constants.astype(float), scheme.constants, rtol=5e-16, atol=0
    )


# --- what a tableau is and refuses --------------------------------------------------------------


def test_a_tableau_as_kernels_read_it():
    assert HEUN.constants.tolist() == [0.5, 0.5, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0]
    assert KUTTA3.stages == 3 and KUTTA3.nodes.tolist() == [0.0, 0.5, 1.0]
    pair = DORMAND_PRINCE54.constants
    assert len(pair) == 7 + 7 + 49 + 7
    assert pair[-7:] == pytest.approx(np.subtract(DORMAND_PRINCE54.b, DORMAND_PRINCE54.embedded))
    same = Tableau(a=[[0.0, 0.0], np.array([1, 0])], b=np.array([0.5, 0.5]), order=2)
    assert same == HEUN and hash(same) == hash(HEUN)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"b": (0.5, 0.6)}, r"the weights b sum to 1\.1; a consistent method needs 1"),
        ({"b": (0.5, float("nan"))}, r"b\[1\] = nan; expected a number"),
        ({"b": (0.5, "0.5")}, r"b\[1\] = '0.5'; expected a number"),
        ({"b": (0.5, True)}, r"b\[1\] = True; expected a number"),
        ({"b": 1.0}, r"b = 1\.0; expected a list of numbers"),
        ({"b": np.array(1.0)}, "expected a list of numbers"),
        ({"b": ()}, "b is empty; expected a weight for each stage"),
        ({"b": (0.5, 0.25, 0.25)}, r"expected 3 rows, as many as b has"),
        ({"a": "ab"}, "a = 'ab'; expected 2 rows"),
        ({"a": ((), (float("inf"),))}, r"a\[1\]\[0\] = inf; expected a number"),
        ({"a": ((), 1.0)}, r"a\[1\] = 1\.0; expected a list of numbers"),
        ({"a": ((0.1,), (1.0,))}, r"a\[0\]\[0\] = 0\.1: stage 0 depends on itself"),
        ({"a": ((0.0, 0.2), (1.0,))}, r"stage 0 depends on the later stage 1; .* explicit"),
        ({"embedded": (1.0,)}, "embedded has 1 weights and b 2; expected as many"),
        ({"embedded": (0.5, 0.4)}, r"the weights embedded sum to 0\.9"),
        ({"embedded": (1.0, 0.0)}, "embedded_order = 0; expected a whole number ≥ 1"),
        ({"order": 2.0}, r"order = 2\.0; expected a whole number ≥ 1"),
    ],
    ids=str,
)
def test_a_wrong_tableau_is_refused_in_clear_words(wrong, message):
    with pytest.raises(InputError, match=message):
        replace(HEUN, **wrong)


# --- what a scheme refuses ----------------------------------------------------------------------

TWO = Exponential((0.5,), stage=1), Exponential((0.0, 1.0))
NAN = float("nan")


@pytest.mark.parametrize(
    ("exponentials", "message"),
    [
        ((), "a scheme ends nowhere; a consistent one ends at a time of 1"),
        (TWO[:1], r"a scheme ends at a time of 0\.5; a consistent one"),
        ((Exponential((0.5, 0.5)),), "exponential 0 depends on what comes after it"),
        ((Exponential((1.0,), start=0),), "exponential 0 depends on what comes after it"),
        ((*TWO, Exponential((0.0,), start=3)), "exponential 2 depends on what comes after"),
        ((Exponential((0.5,), stage=2), TWO[1]), "exponential 0 is stage 2; the next is 1"),
        ((*TWO, 1.0), "expected a tuple of Exponential"),
        ("ab", "exponentials = 'ab'; expected a tuple of Exponential"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_scheme_is_refused_in_clear_words(exponentials, message):
    with pytest.raises(InputError, match=message):
        Scheme(exponentials, order=2)


def test_a_wrong_estimate_or_order_is_refused():
    assert Scheme(TWO, order=2).stages == 2
    with pytest.raises(InputError, match=r"ends at a time of 0\.9"):
        Scheme(TWO, order=2, estimate=(Exponential((0.9,)),), estimate_order=1)
    with pytest.raises(InputError, match="estimate_order = 0; expected a whole number ≥ 1"):
        Scheme(TWO, order=2, estimate=(Exponential((1.0,)),))
    with pytest.raises(InputError, match="order = 'two'; expected a whole number ≥ 1"):
        Scheme(TWO, order="two")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"coefficients": (NAN,)}, r"coefficients\[0\] = nan; expected a number"),
        ({"coefficients": (0.5, "a")}, r"coefficients\[1\] = 'a'; expected a number"),
        ({"coefficients": 0.5}, r"coefficients = 0\.5; expected a list of numbers"),
        ({"coefficients": (1.0,), "start": -2}, "start = -2; expected a whole number ≥ -1"),
        ({"coefficients": (1.0,), "stage": 1.0}, r"stage = 1\.0; expected a whole number ≥ -1"),
    ],
)
def test_a_wrong_exponential_is_refused_in_clear_words(wrong, message):
    with pytest.raises(InputError, match=message):
        Exponential(**wrong)
