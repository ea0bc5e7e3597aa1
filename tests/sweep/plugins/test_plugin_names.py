"""The names that plugins import: there, and all that the examples need."""

import ast
import inspect

import driven_chain
import pytest
from plugin_text import BEAD

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


@pytest.mark.parametrize("text", [BEAD, inspect.getsource(driven_chain)], ids=["README", "tests"])
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
