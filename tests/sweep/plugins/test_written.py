"""Steps in Python of a script: the plugin that is written of them, and studies with it."""

import math

import numba
import numpy as np
import pytest
from numpy import cross as product

import integrators
import sweep
from sweep.campaign.watch import Watcher
from sweep.errors import InputError, StudyError

HALF, TABLE, LIMITS = 0.5, np.array([[1.0, 0.5]]), {"a": (1, math.inf), "b": [None]}
UNKNOWN = object()


def half(h):
    return HALF * h


def later(order):
    share = half

    def midpoint(f, t, y, h):
        assert order == 2 and LIMITS["a"][0] == 1 and product(y, y).shape == y.shape
        return y + TABLE[0, 0] * h * f(t + share(h), y + math.fabs(1.0) * share(h) * f(t, y))

    return midpoint


@numba.njit
def jitted(f, t, y, h):
    return y + h * f(t, y)


def euler(f, t, y, h):
    return y + h * f(t, y)


def with_unknown(f, t, y, h):
    return y if UNKNOWN else f(t, y)


def with_missing(f, t, y, h):
    return missing(f(t, y))  # noqa: F821


def with_own_module(f, t, y, h):
    return f(t, plugin_text.edited(y))


import plugin_text  # noqa: E402

KEYS = {
    "system": "spherical_pendulum_chain", "initial_condition": "lee",
    "duration": 0.5, "samples": 2, "step_size": [0.05, 0.025],
}  # fmt: skip
SOURCE = '''"""Written by Geosweep from functions of a script or a notebook."""

from __future__ import annotations

import integrators.plugin as _geosweep
from numpy import cross as product
import math as math

HALF = 0.5
LIMITS = {'a': (1, float('inf'),), 'b': [None]}
TABLE = __import__('numpy').array([1.0, 0.5], dtype='float64').reshape((1, 2))
order = 2

def half(h):
    return HALF * h

share = half

def midpoint(f, t, y, h):
    assert order == 2 and LIMITS["a"][0] == 1 and product(y, y).shape == y.shape
    return y + TABLE[0, 0] * h * f(t + share(h), y + math.fabs(1.0) * share(h) * f(t, y))

INTEGRATORS = (_geosweep.python_method('midpoint', midpoint, order=2),)
'''


def plugin_of(method):
    """The plugin of a study that a method is among the plugins of."""
    (plugin,) = sweep.Study("own", **KEYS | {"integrators": "rk4"}, plugins=[method]).plugins
    return plugin


def test_a_plugin_has_the_source_of_a_step_and_of_what_it_uses():
    plugin = plugin_of(sweep.python_method(later(2), order=2))
    assert (plugin.name, plugin.text) == ("midpoint.py", SOURCE)
    (read,) = plugin.exports_of_kind("integrator")
    assert (read.name, read.order, read.symmetric) == ("midpoint", 2, False)


def test_declarations_are_in_the_plugin():
    made = sweep.python_method(
        "fast", jitted, order=1, preserves={"casimir": ("linear",)}, evaluations=1
    )
    (read,) = plugin_of(made).exports_of_kind("integrator")
    assert read.preserves == {"casimir": ("linear",)} and read.evaluations == 1
    assert "@numba.njit\ndef jitted" in plugin_of(made).text


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (with_unknown, "'UNKNOWN', which 'with_unknown' uses, is <object object at"),
        (with_missing, "'with_missing' uses 'missing', which is not defined"),
        (with_own_module, "the module 'plugin_text' is not installed, and workers lack it"),
        (lambda f, t, y, h: y, "a lambda has no source of its own"),
    ],
)
def test_what_cannot_be_written_is_refused(step, message):
    with pytest.raises(InputError) as caught:
        plugin_of(sweep.python_method("own", step, order=1))
    assert message in str(caught.value)


def test_a_step_is_an_integrator_of_an_experiment(cluster, tmp_path):
    own = sweep.python_method(later(2), order=2)
    given = [own, {"name": own, "label": "again", "step_size": 0.125}, "rk2_midpoint"]
    study = sweep.Study("own", integrators=given, **KEYS)
    assert 'plugins = ["midpoint.py"]' in study.toml()
    assert study.run(tmp_path / "own.zarr", cluster).complete
    found = sweep.open_study(tmp_path / "own.zarr")["own"].to_dataset()
    runs = sweep.results(found, ["evaluations", "energy_error_abs_max@max"]).to_dataframe()
    own, known = (runs[runs.integrator == name] for name in ("midpoint", "rk2_midpoint"))
    assert own.evaluations.tolist() == known.evaluations.tolist()
    np.testing.assert_allclose(own.iloc[:, -1], known.iloc[:, -1], rtol=1e-9)
    assert sweep.run(tmp_path / "own.zarr", None, cluster).complete  # the store keeps the source


def test_compositions_are_named_where_a_step_is_among_the_plugins():
    own = sweep.python_method(euler, order=1)
    with pytest.raises(StudyError, match="'euler' cannot be composed by 'suzuki4'|not symmetric"):
        sweep.Study("own", integrators="euler+suzuki4", **KEYS, plugins=[own])


def test_two_steps_of_one_name_are_refused():
    def other():
        def euler(f, t, y, h):
            return y + 1.0 * h * f(t, y)

        return euler

    given = [sweep.python_method(one, order=1) for one in (euler, other())]
    with pytest.raises(StudyError, match="there are two of the name 'euler.py', which differ"):
        sweep.Study("own", integrators=given, **KEYS)


def test_a_method_of_a_kernel_is_no_integrator_of_an_experiment():
    made = integrators.get("rk4").method
    with pytest.raises(StudyError, match="what sweep.python_method gives"):
        sweep.Study("own", integrators=[made], **KEYS)


def rotation(t, y, rate=1.0):
    """Rotation about e3."""
    return rate * HALF * product([0.0, 0.0, 2.0], y)


def height(t, y):
    return y[0, 2]


def test_a_field_is_the_system_of_an_experiment(cluster, tmp_path):
    turning = sweep.python_system(
        "turning", rotation, parts={"q": "direction"}, starts={"tilted": [[0.6, 0.0, 0.8]]},
        invariants={"height": (height, "linear")},
    )  # fmt: skip
    study = sweep.Study(
        "turning", system=turning, integrators="rk4", initial_condition="tilted",
        step_size=[0.1, 0.05], duration=1.0, samples=2, scan={"rate": [1.0, 2.0]},
    )  # fmt: skip
    assert 'system = "turning"' in study.toml() and 'plugins = ["turning.py"]' in study.toml()
    assert "SYSTEMS = (_geosweep.python_system('turning', rotation, " in study.plugins[0].text
    assert study.run(tmp_path / "turning.zarr", cluster).complete
    found = sweep.results(tmp_path / "turning.zarr", ["height_error@max"])
    assert found.sizes["run"] == 4 and float(abs(found["height_error@max"]).max()) < 1e-6


class Listening(Watcher):
    """Keeps what a run says."""

    def __init__(self):
        self.lines = []

    def said(self, text):
        self.lines.append(text)


def failing(f, t, y, h):
    if t > 3.0 and h == 0.05:
        raise ArithmeticError("no solution")
    return y + h * f(t, y)


def test_a_step_that_raises_fails_its_runs_alone_and_is_told_once(cluster, tmp_path):
    own = sweep.python_method(failing, order=1)
    keys = KEYS | {
        "duration": 4.0,
        "initial_condition": ["lee", {"around": "lee", "random": 2, "spread": 1e-3, "seed": 1}],
    }
    study = sweep.Study("failing", integrators=[own, "rk4"], **keys)
    watcher = Listening()
    outcome = sweep.run(study, tmp_path / "failing.zarr", cluster, watcher=watcher)
    assert outcome.complete and outcome.failed == 3
    (line,) = [line for line in watcher.lines if line.startswith("Warning: ")]
    assert line.startswith("Warning: step 'failing' (failing.py, line 9): ArithmeticError: no sol")
