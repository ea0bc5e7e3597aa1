"""Names of a package that are imported when they are first used (PEP 562)."""

import importlib
from collections.abc import Callable
from typing import Any


def lazy(
    package: str, homes: dict[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """What a package needs so that its names are imported when they are first used.

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
