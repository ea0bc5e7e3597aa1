"""Imports that wait: for a name to be used (PEP 562), or for another module to be imported."""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any


def lazy(
    package: str, homes: dict[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make a package import its names when they are first used.

    Parameters
    ----------
    package : str
        Its name.
    homes : dict of str to str
        The module that each of its names is in, and ``module:name`` of one that has another name
        there; of a module itself, its own name.

    Returns
    -------
    tuple of (callable, callable, list of str)
        The package's ``__getattr__``, ``__dir__`` and ``__all__``.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, _, inner = homes[name].partition(":")
        module = importlib.import_module(home)
        return module if home == f"{package}.{name}" else getattr(module, inner or name)

    return load, lambda: list(homes), list(homes)


def import_after(first: str, then: str) -> None:
    """Import a module as soon as another one is imported; at once if it is already.

    Parameters
    ----------
    first : str
        The module that is waited for.
    then : str
        The module to import.
    """
    if first in sys.modules:
        importlib.import_module(then)
    else:
        sys.meta_path.insert(0, _ImportAfter(first, then))


class _ImportAfter:
    """A finder of `sys.meta_path` that waits for an import, and is gone after it."""

    def __init__(self, first: str, then: str) -> None:
        self._first, self._then = first, then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Called by Python for each import."""
        if name != self._first:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and (loader := spec.loader) is not None:
            load = loader.exec_module

            def load_both(module: Any) -> None:
                loader.exec_module = load  # type: ignore[method-assign]  # once
                load(module)
                importlib.import_module(self._then)

            loader.exec_module = load_both  # type: ignore[method-assign]
        return spec
