"""Annotations: every function has them, but what Numba compiles, which mypy cannot check.

mypy lets functions without annotations pass in packages with kernels; this finds them.
"""

import ast
from pathlib import Path

import pytest

import integrators
import systems

COMPLETE = (integrators, systems)
MODULES = {
    str(path.relative_to(root.parent)): path
    for package in COMPLETE
    for root in [Path(package.__file__).parent]
    for path in sorted(root.rglob("*.py"))
}
# What these decorate or are given is compiled, or called by Numba while it compiles.
COMPILING = {
    "Kernel", "kernel", "inlined", "spliced", "varying",
    "infer_global", "intrinsic", "lower_builtin", "lower_cast", "overload", "view",
}  # fmt: skip

# What an overload returns has to have the signature of what it is for, without annotations.
RETURNED = {
    "integrators/compiler/double_double.py": [
        "_sine_of_shifted_angle.sine",
        "_exponential",
        "_logarithm",
    ],
    "integrators/compiler/lanes.py": ["_select_scalar"],
}


def name_of(node):
    """The last name of a decorator or of what is called, without its arguments."""
    while isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)


def within(scope):
    """The nodes of a scope, without those inside of the functions and classes in it."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            for decorator in node.decorator_list:
                yield from ast.walk(decorator)
        elif not isinstance(node, ast.Lambda):
            yield from within(node)


def compiled_names(nodes):
    """Names of the functions that calls give to what compiles them."""
    calls = [n for n in nodes if isinstance(n, ast.Call) and name_of(n) in COMPILING]
    given = [a for call in calls for a in (*call.args, *(k.value for k in call.keywords))]
    return {argument.id for argument in given if isinstance(argument, ast.Name)}


def unannotated(scope, names=""):
    """Names of the functions outside kernels that lack an annotation, in a scope and below."""
    nodes = list(within(scope))
    compiled = compiled_names(nodes)
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            yield from unannotated(node, f"{names}{node.name}.")
        if isinstance(node, ast.FunctionDef) and node.name not in compiled:
            if any(name_of(decorator) in COMPILING for decorator in node.decorator_list):
                continue
            if not is_annotated(node, is_method=isinstance(scope, ast.ClassDef)):
                yield f"{names}{node.name}"
            yield from unannotated(node, f"{names}{node.name}.")


def is_annotated(function, is_method):
    own = function.args
    parameters = [*own.posonlyargs, *own.args]
    if is_method and "staticmethod" not in map(name_of, function.decorator_list):
        parameters = parameters[1:]
    parameters += own.kwonlyargs + [p for p in (own.vararg, own.kwarg) if p is not None]
    return function.returns is not None and all(p.annotation is not None for p in parameters)


def test_functions_outside_kernels_are_annotated():
    for module, path in MODULES.items():
        found = unannotated(ast.parse(path.read_text(encoding="utf-8")))
        assert list(found) == RETURNED.get(module, []), module


def test_functions_are_found_wherever_they_are_and_kernels_are_not():
    source = """
@kernel(state_value)
def potential(t, q, p): ...
def made(x: int) -> Kernel:
    def inner(t, y): ...
    def other(t, y): ...
    return Kernel(inner, whole_state)
class Form:
    def inner(self, state): ...
    def energy(self) -> float: ...
    @staticmethod
    def of(state) -> float: ...
"""
    assert list(unannotated(ast.parse(source))) == ["made.other", "Form.inner", "Form.of"]


@pytest.mark.parametrize("package", COMPLETE)
def test_packages_say_that_they_have_types(package):
    assert (Path(package.__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize("package", COMPLETE)
def test_type_checkers_know_the_names_that_are_imported_when_used(package):
    (block,) = (n for n in ast.parse(Path(package.__file__).read_text()).body if type(n) is ast.If)
    known = [name.asname for imported in block.body for name in imported.names]
    assert sorted(known) == sorted(package.__all__)
