"""Systems whose field is a Python function have what all others have, and say what is wrong."""

import numpy as np
import pytest

import integrators
import systems
from integrators.errors import InputError
from integrators.stepping.python_step import collecting_errors
from sweep.plugins.checks import try_plugin_system
from sweep.plugins.loader import Plugin
from sweep.plugins.registry import Library
from systems.plugin import python_system

PARTS = {"q": "direction", "omega": "tangent"}
STARTS = {"level": [[1, 0, 0], [0, 0.3, 0.5]]}


def field(t, y, gravity=1.0):
    """A spherical pendulum."""
    q, omega = y
    return np.array([np.cross(omega, q), np.cross(q, [0.0, 0.0, -gravity])])


def energy(t, y, gravity):
    return 0.5 * y[1] @ y[1] + gravity * y[0, 2]


def turning(t, y):
    return y[1, 2]


def made(function=field, **changes):
    settings = {"parts": PARTS, "starts": STARTS} | changes
    return python_system("own", function, **settings)()


OWN = made(invariants={"energy": energy, "turning": (turning, "linear")})
KNOWN = systems.get("spherical_pendulum_chain", count=1)


def ends(system, name="rk4", **settings):
    usual = {"tolerance": 1e-9} if name == "dop853" else {"step_size": 0.02}
    settings = {"duration": 0.2, "samples": 2} | usual | settings
    start = system.start("level") if "state" not in settings else settings.pop("state")
    return integrators.integrate(system, integrators.get(name), start, **settings)


@pytest.mark.parametrize("name", ["rk4", "dop853"])
def test_the_motion_is_that_of_the_compiled_field(name):
    upside_down = type(OWN)(gravity=-1.0)  # e3 of the chain points down
    at = {"state": OWN.start("level")}
    own, known = ends(upside_down, name, **at), ends(KNOWN, name, **at)
    np.testing.assert_allclose(own.states, known.states, rtol=0, atol=1e-13)
    assert own.counters["evaluations"] == known.counters["evaluations"]


def test_runs_side_by_side_are_bitwise_the_runs_alone():
    starts = OWN.ensemble(2, 1, "level", 1e-2)
    together = ends(OWN, state=starts)
    for k, start in enumerate(starts):
        assert np.array_equal(together.states[k], ends(OWN, state=start).states)


def test_parameters_and_invariants_are_those_of_the_functions():
    heavy = type(OWN)(gravity=4.0)
    assert (OWN.description, heavy.parameters) == ("A spherical pendulum", {"gravity": 4.0})
    kinds = {one.name: (one.kind, one.degree) for one in heavy.quantities}
    assert kinds["energy"] == ("energy", "other") and kinds["turning"] == ("casimir", "linear")
    assert {"unit_length", "tangency"} < set(kinds)
    state, out = heavy.start("level"), np.zeros((1, 3))
    function = heavy.quantities[0].function
    function.scalar(0.0, state, heavy.form.packed, out, np.zeros(1))
    assert out[0, 0] == energy(0.0, state, 4.0)
    with pytest.raises(InputError, match="gravity"):
        type(OWN)(gravity="much")


def stops(t, y):
    if t > 0.1:
        raise ArithmeticError("no force")
    return 0.0 * y


def flat(t, y):
    return y.ravel()


def changing(t, y):
    y *= 2.0
    return y


def driven(t, y):
    return t * y


def drawing(t, y):
    return y * np.random.default_rng().random()


@pytest.mark.parametrize("name", ["rk4", "dop853"])
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (stops, "ArithmeticError: no force"),
        (flat, "returns an array of float64, shape (6,); expected an array of float64, shape"),
        (changing, "changes its argument y"),
        (driven, "depends on time, by which an energy is not conserved; give time_dependent=True"),
        (drawing, "returns something else when it is called again with the same arguments"),
    ],
)
def test_what_is_wrong_with_a_field_is_said_with_file_and_line(name, function, message):
    with pytest.raises(InputError) as caught:
        ends(made(function), name)
    assert str(caught.value).startswith(f"field {function.__name__!r} ({__file__}, line ")
    assert message in str(caught.value)


def test_a_run_that_fails_is_the_only_one_where_errors_are_collected():
    with collecting_errors() as errors:
        run = ends(made(stops))
    ((place, what),) = errors.items()
    assert run.status and np.isnan(run.states[-1]).all()
    assert place.startswith("field 'stops' (") and what.startswith("ArithmeticError: no force")


def test_an_invariant_that_the_field_does_not_keep_is_refused():
    text = """
import numpy as np
from systems.plugin import python_system
def field(t, y):
    return np.array([[y[0, 1], -y[0, 0], 0.0]])
def kept(t, y):
    return y[0, 0] ** 2 + y[0, 1] ** 2
def lost(t, y):
    return y[0, 0]
def broken(t, y):
    return 1.0 / 0.0 if y[0, 2] == 0.0 else y[0, 2]
OF = dict(parts={"y": "vector"}, starts={"one": [[1.0, 0.0, 0.5]]})
SYSTEMS = (
    python_system("right", field, invariants={"kept": (kept, "quadratic")}, **OF),
    python_system("wrong", field, invariants={"lost": (lost, "linear")}, **OF),
)
"""
    library = Library((Plugin("own.py", text, trusted=True),))
    for name in ("right", "wrong"):
        system = library.system(name, {})
        if name == "right":
            try_plugin_system(library, name, system, system.start("one"))
            continue
        with pytest.raises(InputError, match="'lost' of 'wrong' is declared to be conserved, and"):
            try_plugin_system(library, name, system, system.start("one"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"function": 3}, "field = 3; expected a function field(t, y)"),
        ({"function": lambda y: y}, "takes (y); expected (t, y), and parameters"),
        ({"starts": {}}, "system 'own' has no starts"),
        ({"starts": {"x": [[1, 0, 0]]}}, "start 'x' of 'own' has shape (1, 3); its parts have"),
        ({"parts": {"q": "circle"}}, "unknown kind of a part 'circle'"),
        ({"invariants": {"m": (turning, "cubic")}}, "unknown degree of the invariant 'm'"),
        ({"invariants": {"m": lambda t, y, mass: mass}}, "takes (t, y, mass); expected (t, y)"),
    ],
)
def test_what_is_no_system_is_refused(changes, message):
    with pytest.raises(InputError) as caught:
        made(**changes)
    assert message in str(caught.value)


def test_it_has_neither_exponents_nor_more_digits():
    with pytest.raises(InputError, match="tangent space"):
        integrators.lyapunov_exponents(
            OWN, integrators.get("rk4"), OWN.start("level"), step_size=0.1, duration=1.0, samples=1
        )
    with pytest.raises(InputError, match="double precision only"):
        ends(OWN, arithmetic="double-double")
