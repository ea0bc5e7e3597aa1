"""The names that plugins import: there, and all that the examples need."""

import ast
import inspect
import tomllib

import driven_chain
import numpy as np
import pytest
import xarray as xr
from distributions import POINTS
from plugin_text import BEAD, ENTRY_POINTS, PLOTS

import integrators.plugin
import systems.plugin

STABLE = (integrators.plugin, systems.plugin)


@pytest.mark.parametrize("module", STABLE, ids=lambda module: module.__name__)
def test_every_name_is_there_once(module):
    assert all(hasattr(module, name) for name in module.__all__)
    assert list(module.__all__) == sorted(set(module.__all__))
    said = module.__doc__
    assert "stable" in said and "not" in said


def test_no_name_is_in_both():
    assert not set(integrators.plugin.__all__) & set(systems.plugin.__all__)


@pytest.mark.parametrize("text", [BEAD, inspect.getsource(driven_chain)], ids=["guide", "tests"])
def test_examples_import_from_nowhere_else(text):
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    named = {node.module: {alias.name for alias in node.names} for node in found}
    assert {"numpy"} == {
        alias.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    ours = {name for name in named if name.split(".")[0] in ("integrators", "systems", "sweep")}
    assert ours == {module.__name__ for module in STABLE}
    for module in STABLE:
        assert named[module.__name__] <= set(module.__all__)


def test_the_picture_of_the_guide_is_drawn():
    namespace = {}
    exec(compile(PLOTS, "plots.py", "exec"), namespace)
    (kind,) = namespace["PLOTS"]
    dataset = xr.Dataset(
        {"height": (("run", "time"), np.arange(6.0).reshape(2, 3))}, {"time": [0.0, 0.5, 1.0]}
    )
    lines = kind.draw(dataset).axes[0].lines
    assert [line.get_ydata().tolist() for line in lines] == [[0, 1, 2], [3, 4, 5]]


def test_the_entry_points_of_the_guide_are_of_groups_that_are_read():
    (groups,) = tomllib.loads(ENTRY_POINTS)["project"].values()
    assert set(groups) <= {f"geosweep.{kind}" for kind in POINTS} and len(groups) == 2
