"""Annotations: every function has them, but what Numba compiles, which mypy cannot check.

mypy lets functions without annotations pass in packages with kernels; this finds them.
"""

import ast
import inspect
from pathlib import Path

import mypy.api
import pytest

import integrators
import sweep
import systems
from sweep.study import model
from sweep.tables import answers

COMPLETE = (integrators, systems)
TYPED = (*COMPLETE, sweep, sweep.plots)
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


@pytest.mark.parametrize("package", [*COMPLETE, sweep])
def test_packages_say_that_they_have_types(package):
    assert (Path(package.__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize("package", TYPED)
def test_type_checkers_know_the_names_that_are_imported_when_used(package):
    stub = Path(package.__file__).with_suffix(".pyi")
    block = ast.parse((stub if stub.exists() else Path(package.__file__)).read_text())
    if not stub.exists():
        block = next(node for node in block.body if type(node) is ast.If)
    known = [name.asname for one in block.body if type(one) is ast.ImportFrom for name in one.names]
    other = [(one.targets[0].id, one.value.id) for one in block.body if type(one) is ast.Assign]
    named = [*known, *(name for name, _ in other)]
    assert set(named) - {own for _, own in other} == set(package.__all__)


@pytest.mark.parametrize("name", [*answers.PYTHON, *answers.FOR_ONE_EXPERIMENT])
def test_type_checkers_know_the_parameters_of_answers(name):
    block = next(n for n in reversed(ast.parse(inspect.getsource(answers)).body) if is_typed(n))
    own = [one for one in block.body if isinstance(one, ast.FunctionDef) and one.name == name][-1]
    declared = own.args
    known = [one.arg for one in (*declared.args, *declared.kwonlyargs)]
    defaults = [ast.literal_eval(one) for one in (*declared.defaults, *declared.kw_defaults)]
    made = inspect.signature(getattr(sweep, name)).parameters.values()
    assert known == [one.name for one in made]
    assert defaults == [one.default for one in made if one.default is not one.empty]


def is_typed(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def test_type_checkers_know_the_keys_of_an_experiment():
    keys, fields = model.NamedExperimentKeys, model.ExperimentTable.model_fields
    assert {*keys.__annotations__, *model.ExperimentKeys.__annotations__} == fields.keys()
    assert keys.__required_keys__ == {name for name, of in fields.items() if of.is_required()}
    assert fields.keys() <= inspect.signature(sweep.Study).parameters.keys()


SCRIPT = """
from collections.abc import Callable
import numpy as np
import sweep

def midpoint(f: Callable[..., np.ndarray], t: float, y: np.ndarray, h: float) -> np.ndarray:
    return y

own = sweep.python_method(midpoint, order=2)

study = sweep.Study(
    "order", system="spherical_pendulum_chain", duration=2.0, samples=10,
    initial_condition=["lee", {"around": "lee", "random": 3, "spread": 0.1, "seed": 1}],
    integrators=["rk4", {"name": "rk2_heun", "step_size": 0.1}, own],
    step_size=np.array([0.1, 0.05]), scan={"gravity": (1.0, 2.0)},
    reference={"integrator": "dop853"},
)
order: float = sweep.order_table(study.run("order.zarr", workers=2).store)[0].order
seconds: float = study.plan().cpu_seconds
left: int = sweep.status("order.zarr")[0].left
sweep.plots.picture("order", "order.zarr").savefig("order.pdf")
"""
MISTAKES = {
    "sweep.Study('a', system='b', integrators='rk4', initial_condition='lee', duration=1.0, "
    "samples=2, step_sizes=0.1)": 'did you mean "step_size"?',
    "sweep.Experiment(name='a', system='b', integrators='rk4', initial_condition='lee', "
    "duration='1.0', samples=2)": 'Argument "duration" to "Experiment" has incompatible type',
    "study.run('order.zarr', worker=2)": 'did you mean "workers"?',
    "sweep.ordr_table('order.zarr')": 'has no attribute "ordr_table"',
    "sweep.order_table('order.zarr')[0].ordr": '"OrderEstimate" has no attribute "ordr"',
}


CONFIGURATION = """[mypy]
follow_imports = skip
[mypy-sweep.*,integrators.*,systems.*]
follow_imports = normal
ignore_errors = True
[mypy-matplotlib.*,numpy.*,optype.*,pandas.*,scipy.*]
follow_imports_for_stubs = True
"""  # other packages, and what functions of these do, would take most of the time


@pytest.mark.slow
def test_a_type_checker_tells_a_misspelt_keyword_from_a_right_one(tmp_path):
    (tmp_path / "script.py").write_text("\n".join([SCRIPT, *MISTAKES]))
    (tmp_path / "mypy.ini").write_text(CONFIGURATION)
    options = ["--config-file", str(tmp_path / "mypy.ini"), "--cache-dir", str(tmp_path / "cache")]
    said, _, _ = mypy.api.run([*options, str(tmp_path / "script.py")])
    first = SCRIPT.count("\n") + 2
    told = [line for line in said.splitlines() if ": error: " in line]
    lines = [int(line.split(":")[1]) for line in told]
    assert sorted({*lines}) == [*range(first, first + len(MISTAKES))], said
    for line, words in enumerate(MISTAKES.values(), first):
        assert any(f":{line}: " in one and words in one for one in told), said
