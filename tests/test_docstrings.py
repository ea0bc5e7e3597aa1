"""Docstrings of what is public: the parameters that they name are those of the signature."""

import inspect
import re

import integrators.plugin
import sweep
import systems.plugin

NAMED = {
    f"{package.__name__}.{name}": getattr(package, name)
    for package in (integrators, integrators.plugin, systems, systems.plugin, sweep)
    for name in package.__all__
}
CALLABLE = {
    name: made
    for name, made in NAMED.items()
    if callable(made) and not (inspect.isclass(made) and issubclass(made, Exception))
}
FUNCTIONS = [
    name
    for name, made in CALLABLE.items()
    if inspect.isfunction(made) and inspect.signature(made).return_annotation not in (None, "None")
]
ABSTRACT = {"systems.System", "systems.plugin.System"}  # each system has parameters of its own


def sections(made):
    """The sections of a numpydoc docstring by their titles, as lines."""
    found, title = {"": []}, ""
    lines = (inspect.getdoc(made) or "").splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if re.fullmatch("-{3,}", below.strip()) and line.strip():
            found[title := line.strip()] = []
        else:
            found[title].append(line)
    return found


def documented(made):
    """Names of the parameters that a docstring describes."""
    told = [s for title, s in sections(made).items() if title in ("Parameters", "Attributes")]
    heads = [line for lines in told for line in lines if line and not line.startswith((" ", "-"))]
    names = [name for head in heads for name in head.partition(" : ")[0].split(",")]
    return [name.strip().lstrip("*") for name in names if name.strip()]


def parameters(made):
    return [name for name in inspect.signature(made).parameters if not name.startswith("_")]


def test_the_documented_parameters_are_those_of_the_signature():
    for name in CALLABLE.keys() - ABSTRACT:
        made = CALLABLE[name]
        assert sorted(documented(made)) == sorted(parameters(made)), name


def test_functions_say_what_they_return():
    for name in FUNCTIONS:
        found = sections(CALLABLE[name])
        assert found.keys() & {"Returns", "Yields"}, f"{name}: no Returns"
        assert found[""], f"{name}: no summary"
