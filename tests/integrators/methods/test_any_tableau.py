"""``rkmk``: a method made of the tableau that is given as its option."""

import dataclasses

import numpy as np
import pytest
from scipy.integrate import DOP853

import integrators
import systems
from integrators import InputError
from integrators.tableaux.butcher import DORMAND_PRINCE54, KUTTA3, KUTTA4, Tableau
from integrators.tableaux.order_conditions import classical_order, trees

CHAIN = systems.get("spherical_pendulum_chain")
START = CHAIN.start("lee")
MIDPOINT = {"a": [[], [0.5]], "b": [0.0, 1.0], "order": 2}
HEUN_EULER = {
    "a": [[], [1.0]], "b": [0.5, 0.5], "embedded": [1.0, 0.0], "order": 2, "embedded_order": 1,
}  # fmt: skip


def plain(tableau):
    """A tableau as a study writes it."""
    return {"a": [list(row) for row in tableau.a], "b": list(tableau.b), "order": tableau.order}


def run(name, **arguments):
    """A short run; `tableau` is the option."""
    options = {key: arguments.pop(key) for key in ("tableau",) if key in arguments}
    method = integrators.get(name, **options)
    return integrators.integrate(CHAIN, method, START, duration=1.0, samples=4, **arguments)


def error(**arguments):
    exact = run("dop853", tolerance=1e-13)
    return np.linalg.norm(run("rkmk", **arguments).states[-1] - exact.states[-1])


@pytest.mark.parametrize("tableau", [KUTTA3, plain(KUTTA3)], ids=["Tableau", "dict"])
def test_a_registered_method_is_that_of_its_tableau(tableau):
    made, known = run("rkmk", tableau=tableau, step_size=0.05), run("rkmk3", step_size=0.05)
    assert made.states.tobytes() == known.states.tobytes()


def test_a_pair_is_adaptive_and_fixed_its_main_method():
    pair = dataclasses.asdict(DORMAND_PRINCE54)
    made, known = run("rkmk", tableau=pair, tolerance=1e-6), run("rkmk54", tolerance=1e-6)
    assert made.states.tobytes() == known.states.tobytes()
    fixed = integrators.get("rkmk+fixed", tableau=pair)
    assert (fixed.name, fixed.adaptive, fixed.order, fixed.evaluations) == (
        "rkmk+fixed",
        False,
        5,
        6,
    )
    made = run("rkmk+fixed", tableau=pair, step_size=0.05)
    assert made.states.tobytes() == run("rkmk54+fixed", step_size=0.05).states.tobytes()


def test_errors_follow_the_step_size_and_the_tolerance():
    coarse, fine = (error(tableau=MIDPOINT, step_size=h) for h in (0.025, 0.0125))
    assert 1.9 < np.log2(coarse / fine) < 2.1
    errors = [error(tableau=HEUN_EULER, tolerance=tolerance) for tolerance in (1e-4, 1e-6)]
    assert errors[1] < 0.1 * errors[0]
    pair = run("rkmk", tableau=HEUN_EULER, tolerance=1e-4)
    stages = integrators.get("rkmk", tableau=HEUN_EULER).evaluations
    assert stages == 2
    assert pair.counters["evaluations"] >= stages * pair.counters["steps"] > 0


def test_options_are_hashable_and_make_the_same_integrator():
    padded = {**MIDPOINT, "a": np.array([[0, 0], [0.5, 0]]), "b": (0, 1)}
    one, two = (integrators.get("rkmk", tableau=t).options for t in (MIDPOINT, padded))
    assert one == two and hash(one["tableau"]) == hash(two["tableau"])
    assert integrators.get("rkmk", **one).options == one
    assert one["tableau"] == Tableau(**MIDPOINT)
    counted = integrators.get("rkmk", **one, steps_of="rkmk54")
    assert counted.adaptive and counted.order == 2


@pytest.mark.parametrize(
    ("change", "key", "message"),
    [
        ({"order": 3}, "tableau.order", "order = 3: the method with the weights b has order 2"),
        ({"b": [0.5, 0.5], "order": 2}, "tableau.order", "order = 2: .* has order 1"),
        ({"b": [0.0, 0.9]}, "tableau.b", r"the weights b sum to 0\.9"),
        ({"b": [0.0, "1"]}, r"tableau.b[1]", r"b\[1\] = '1'; expected a number"),
        ({"a": [[], [0.5, 0.5]]}, "tableau.a[1][1]", "stage 1 depends on itself"),
        ({"a": [[]]}, "tableau.a", "expected 2 rows"),
        ({"c": [0.0, 0.5]}, "tableau.c", "unknown key 'c' of tableau. Valid: a, b"),
        (
            {"embedded": [1.0, 0.0]},
            "tableau.embedded_order",
            "embedded_order = 0; expected a whole",
        ),
        ({"embedded_order": 1}, "tableau.embedded_order", "embedded_order = 1 of no method"),
        (
            {"embedded": [1.0, 0.0], "embedded_order": 2},
            "tableau.embedded_order",
            "embedded_order = 2: the method with the weights embedded has order 1",
        ),
        ({"embedded": [0.0, 1.0], "embedded_order": 1}, "tableau.embedded", "the weights of b"),
        ({"a": [[], [1e300]], "order": 8}, "tableau.order", "has order 1"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_a_wrong_tableau_is_refused_where_it_is_wrong(change, key, message):
    with pytest.raises(InputError, match=message) as caught:
        integrators.get("rkmk", tableau=MIDPOINT | change)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rkmk", {}, r"'rkmk' is made of a Butcher tableau: give tableau = { a = "),
        ("rkmk", {"tableau": [[0.0]]}, r"tableau = \[\[0\.0\]\]; expected a table, such as { a"),
        ("rkmk", {"tableau": {"a": [[]], "b": [1.0]}}, "tableau has no order; expected one such"),
        ("rkmk", {"tableau": MIDPOINT, "tablau": 1}, "Did you mean 'tableau'"),
        ("rkmk+fixed", {"tableau": MIDPOINT}, "'rkmk' has a fixed step already: leave '.fixed'"),
        ("rkmk+suzuki4", {}, "not symmetric"),
        ("rkmk4", {"tableau": MIDPOINT}, "unknown option 'tableau' of rkmk4"),
    ],
    ids=str,
)
def test_what_is_asked_for_wrongly_is_refused(name, options, message):
    with pytest.raises(InputError, match=message):
        integrators.get(name, **options)


def test_orders_follow_from_the_conditions():
    assert [len(trees(order)) for order in range(1, 9)] == [1, 1, 2, 4, 9, 20, 48, 115]
    assert classical_order(KUTTA4.matrix, KUTTA4.b) == 4
    assert classical_order(DOP853.A, DOP853.B) == 8
    nodes, weights = DOP853.A, DOP853.B.copy()
    weights[[-1, -2]] += 1e-6, -1e-6
    assert classical_order(nodes, weights) == 1
    assert integrators.get("rkmk", tableau=plain(KUTTA4) | {"order": 3}).order == 3
