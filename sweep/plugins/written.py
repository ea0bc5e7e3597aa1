"""Plugins that are written from functions of a script or a notebook.

The functions' source, with that of the functions and the values that they use, becomes a plugin:
whatever is true of plugins in files, of their approval, their workers and their hash, is true of
these.
"""

import ast
import builtins
import dis
import functools
import importlib.metadata
import inspect
import math
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from integrators.errors import InputError, short_repr
from integrators.stepping.python_step import Declaration
from sweep.plugins.loader import EXPORTS, Plugin

OWN = {"integrators", "systems", "sweep"}  # packages that every worker has
BESIDE = "_geosweep"  # the name in the plugin of what declares the functions
DECLARED_BY = {
    "system": ("systems.plugin", "python_system"),
    "integrator": ("integrators.plugin", "python_method"),
}
HEAD = '"""Written by Geosweep from functions of a script or a notebook."""'


def plugin_of_declaration(declared: Declaration) -> Plugin:
    """The plugin that declares a system or an integrator again.

    Parameters
    ----------
    declared : Declaration

    Returns
    -------
    sweep.plugins.loader.Plugin

    Raises
    ------
    InputError
        If the source of a function, or of what it uses, is not known.
    """
    text, (module, declare) = _Writer(), DECLARED_BY[declared.kind]
    arguments = [repr(declared.name), text.function(declared.function)]
    for key, value in declared.settings.items():
        arguments.append(f"{key}={_literal(key, value, text.function)}")
    own = f"{BESIDE}.{declare}({', '.join(arguments)})"
    exports = f"{EXPORTS[declared.kind].key} = ({own},)"
    return text.plugin(declared.name, module, exports)


class _Writer:
    """The source of functions and of what they use, by names."""

    def __init__(self) -> None:
        self._known: dict[str, object] = {}  # what each name of the plugin is
        self._imports: list[str] = []
        self._values: list[str] = []
        self._functions: list[str] = []

    def plugin(self, name: str, module: str, exports: str) -> Plugin:
        """The plugin of what was written, which exports something."""
        imports = [f"import {module} as {BESIDE}", *sorted(self._imports)]
        parts = ["from __future__ import annotations", "\n".join(imports)]
        parts += ["\n".join(sorted(self._values))] * bool(self._values)
        return Plugin(
            f"{name}.py", "\n\n".join([HEAD, *parts, *self._functions, exports]) + "\n", True
        )

    def function(self, function: Any) -> str:
        """Write a function and what it uses; returns its name."""
        plain: FunctionType = getattr(function, "py_func", function)
        name, source = plain.__name__, _source_of(plain)
        if self._is_new(name, function):
            for used in _names_used(plain, source):
                self._write(used, _value_of(used, plain), plain)
            self._functions.append(source)
        return name

    def _is_new(self, name: str, value: object) -> bool:
        if name in self._known and not _are_same(self._known[name], value):
            raise InputError(
                f"two things that the functions use are called {name!r}; expected a name of its "
                "own for each"
            )
        is_new = name not in self._known
        self._known[name] = value
        return is_new

    def _write(self, name: str, value: Any, user: FunctionType) -> None:
        """Write what a function uses by a name."""
        if isinstance(getattr(value, "py_func", value), FunctionType) and not _is_installed(
            getattr(value, "__module__", "")
        ):
            own = self.function(value)
            if own != name and self._is_new(name, value):
                self._functions.append(f"{name} = {own}")
        elif self._is_new(name, value):
            if line := _import_of(name, value):
                self._imports.append(line)
            else:
                where = f"{name!r}, which {user.__name__!r} uses,"
                self._values.append(f"{name} = {_literal(where, value)}")


def _are_same(one: object, other: object) -> bool:
    return one is other or (type(one) is type(other) and repr(one) == repr(other))


def _source_of(function: FunctionType) -> str:
    """The source of a function, or `InputError`."""
    name = function.__name__
    if name == "<lambda>":
        raise InputError("a lambda has no source of its own; expected a function, def step(…)")
    try:
        source = textwrap.dedent(inspect.getsource(function)).rstrip()
        parsed = ast.parse(source).body
    except (OSError, TypeError, SyntaxError):
        raise InputError(
            f"the source of {name!r} is not known; expected a function of a file or a notebook"
        ) from None
    if len(parsed) != 1 or not isinstance(parsed[0], ast.FunctionDef) or parsed[0].name != name:
        raise InputError(f"the source of {name!r} is no function of that name")
    return source


def _names_used(function: FunctionType, source: str) -> list[str]:
    """The names, not those of Python itself, that a function and its decorators look up."""
    parsed = ast.parse(source).body[0]
    assert isinstance(parsed, ast.FunctionDef)
    defaults = [*parsed.args.defaults, *filter(None, parsed.args.kw_defaults)]
    own = ast.walk(ast.Module([ast.Expr(e) for e in (*parsed.decorator_list, *defaults)], []))
    names = [node.id for node in own if isinstance(node, ast.Name)]
    looked_up = {*function.__code__.co_freevars, *_globals_of_code(function.__code__)}
    written = (node.id for node in ast.walk(parsed) if isinstance(node, ast.Name))
    names += [name for name in written if name in looked_up]
    known = {*function.__globals__, *function.__code__.co_freevars}
    return [
        name
        for name in dict.fromkeys(names)
        if name != function.__name__ and (name in known or not hasattr(builtins, name))
    ]


def _globals_of_code(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_of_code(constant)


def _value_of(name: str, function: FunctionType) -> Any:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    enclosed = {key: cell.cell_contents for key, cell in cells}
    if name not in enclosed and name not in function.__globals__:
        raise InputError(f"{function.__name__!r} uses {name!r}, which is not defined")
    return enclosed.get(name, function.__globals__.get(name))


def _import_of(name: str, value: Any) -> str:
    """The line that imports something of an installed package; empty of what is no such thing."""
    if isinstance(value, ModuleType):
        if not _is_installed(value.__name__):
            raise InputError(
                f"the module {value.__name__!r} is not installed, and workers lack it; expected "
                "its functions by name: from … import …"
            )
        return f"import {value.__name__} as {name}"
    origin = getattr(value, "__name__", "")
    homes = [getattr(value, "__module__", None) or "", "numpy", "scipy.special"]
    for home in homes if origin else ():
        if _is_installed(home) and getattr(sys.modules.get(home), origin, None) is value:
            return f"from {home} import {origin} as {name}"
    return ""


@functools.cache
def _installed_packages() -> frozenset[str]:
    found = {*OWN, *sys.stdlib_module_names, *importlib.metadata.packages_distributions()}
    return frozenset(found - {"__main__"})


def _is_installed(module: object) -> bool:
    return str(module).partition(".")[0] in _installed_packages()


def _literal(what: str, value: Any, function: Callable[[Any], str] | None = None) -> str:
    """A value as Python writes it, with what `function` writes for functions; or `InputError`."""
    if function is not None and isinstance(getattr(value, "py_func", value), FunctionType):
        return function(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return repr(value)
    if type(value) is np.ndarray and value.dtype.kind in "biufc":
        shown = _literal(what, value.ravel().tolist())
        array = f"__import__('numpy').array({shown}, dtype={value.dtype.name!r})"
        return f"{array}.reshape({value.shape})"
    if type(value) in (tuple, list):
        inner = ", ".join(_literal(what, one, function) for one in value)
        if type(value) is list:
            return f"[{inner}]"
        return f"({inner},)" if value else "()"
    if isinstance(value, Mapping):
        pairs = (f"{_literal(what, k)}: {_literal(what, of, function)}" for k, of in value.items())
        return f"{{{', '.join(pairs)}}}"
    raise InputError(
        f"{what} is {short_repr(value)}, which cannot be written into a plugin; expected "
        "functions, installed packages, numbers, texts, arrays, or lists and dicts of these"
    )
