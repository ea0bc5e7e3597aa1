"""Plugins: a user's own systems, integrators, observables and plots, as source text.

A plugin is its source and nothing else: what the coordinator read travels with each task, and
every process makes a module of it, once, under a name that has the hash of the source in it. It
exports plain tuples, ``SYSTEMS``, ``INTEGRATORS``, ``OBSERVABLES`` and ``PLOTS``; `registry` puts
them beside the built-in ones. Nothing is registered anywhere.

Source runs here and nowhere else, and only that of a `Plugin` that is `trusted`: of a file that a
study of one's own names, or of what a store brings and `sweep.plugins.approvals` lets pass.
"""

import dataclasses
import functools
import hashlib
import importlib.abc
import importlib.util
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from integrators.errors import InputError
from sweep.plugins.exports import EXPORTS, Source, check_plugin_export
from sweep.text import read_regular_file

MOST_BYTES = 1_000_000  # it is sent with each task
_loading = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Plugin(Source):
    """A plugin by its source.

    Parameters
    ----------
    name : str
        As the study says: a file relative to it, or an importable module.
    text : str
        Its source.
    trusted : bool
        Whether it may run: no, unless whoever made this says so. A worker takes its
        coordinator's word.
    """

    name: str
    text: str
    trusted: bool = False

    @property
    def hash(self) -> str:
        """SHA-256 of the source, in hexadecimal: what ``sha256sum`` says of the file."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def in_words(self) -> str:
        """The plugin, for messages."""
        return f"plugin {self.name!r}"

    @property
    def file(self) -> str:
        """Its name in tracebacks."""
        return self.name

    def exports_of_kind(self, kind: str) -> tuple[Any, ...]:
        """The tuple of what it adds of a kind."""
        return _exports_of_plugin(self)[kind]


def read_plugin_source(name: str, directory: Path) -> Plugin:
    """The `Plugin` of a name in a study.

    Parameters
    ----------
    name : str
        Ends with ``.py`` or has a ``/``: a file relative to `directory`. Else a module.
    directory : Path

    Raises
    ------
    InputError
        If there is none, or it is no text.
    """
    if name.endswith(".py") or "/" in name or "\\" in name:
        path = directory / name
        where = f"no file {name!r} in {directory.resolve()}"
    else:
        path, where = _source_file_of_module(name, directory), f"no source of the module {name!r}"
    try:
        data = read_regular_file(path, MOST_BYTES, "Python source, sent with each task")
    except FileNotFoundError:
        raise InputError(
            f"there is {where}; expected the path of a Python file, relative to the study's, or "
            "the name of an importable module"
        ) from None
    except OSError as error:
        raise InputError(f"{name!r} cannot be read: {error.strerror}") from None
    try:
        return Plugin(name, data.decode(), trusted=True)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"{name!r} is no UTF-8 text, in line {line}") from None


def plugins_kept_in_store(attributes: Mapping[str, Any], store: object) -> tuple[Plugin, ...]:
    """The plugins that a store brings, none of which may run yet.

    Parameters
    ----------
    attributes : mapping
        Of the store's root.
    store : str or sweep.Store
        For messages.

    Returns
    -------
    tuple of Plugin

    Raises
    ------
    InputError
        If one is no text.
    """
    try:
        sources = {name: own["source"] for name, own in attributes.get("plugins", {}).items()}
        sizes = [len(source.encode()) for source in sources.values()]
    except (AttributeError, KeyError, TypeError, UnicodeEncodeError):
        raise InputError(f"{store}: the plugins that it keeps cannot be read") from None
    for name, size in zip(sources, sizes, strict=True):
        if size > MOST_BYTES:
            raise InputError(
                f"{name!r} has {size:,} bytes; expected at most {MOST_BYTES:,}: it is sent with "
                "each task"
            )
    return tuple(Plugin(name, source) for name, source in sources.items())


def _source_file_of_module(name: str, directory: Path) -> Path:
    """The source file of an importable module, or `InputError`; a package has several."""
    beside = directory / f"{name}.py"
    hint = f" Did you mean {beside.name!r}?" if os.path.isfile(beside) else ""
    try:
        spec = importlib.util.find_spec(name)
    except (Exception, SystemExit) as error:  # its parents are imported
        raise InputError(
            f"the module {name!r} cannot be found: {type(error).__name__}: {error}.{hint}"
        ) from None
    if spec is None:
        raise InputError(
            f"there is no module {name!r}; expected the name of an importable module, or the path "
            f"of a file that ends with .py.{hint}"
        )
    if spec.submodule_search_locations is not None:
        raise InputError(f"{name!r} is a package; expected a module of one file")
    return Path(spec.origin or "")


# --- modules -----------------------------------------------------------------------------------


class _Loader(importlib.abc.InspectLoader):
    """Makes a module of a plugin's text; tracebacks and the kernel cache ask for its source."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin

    def get_source(self, fullname: str) -> str:
        return self._plugin.text

    def get_code(self, fullname: str) -> CodeType:
        # Not its bytes: of these a first line chooses the encoding, and other source could run
        # than the one that is shown.
        text = self._plugin.text.removeprefix("\ufeff")
        return compile(text, self._plugin.name, "exec", dont_inherit=True)


@functools.cache
def _load_plugin_module(plugin: Plugin) -> ModuleType:
    """The module of a plugin, loaded once; its name tells it from an edited one."""
    if not plugin.trusted:
        raise InputError(f"plugin {plugin.name!r}, sha256 {plugin.hash}, is not approved to run")
    name = f"geosweep_plugin_{plugin.hash[:16]}"
    with _loading:
        if name in sys.modules:
            return sys.modules[name]
        own = _Loader(plugin)
        spec = importlib.machinery.ModuleSpec(name, own)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            with plugin.blame_plugin_for_errors("cannot be imported", kept=()):
                own.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return module


@functools.cache
def _exports_of_plugin(plugin: Plugin) -> dict[str, tuple[Any, ...]]:
    """What a plugin exports, checked: a tuple by each kind of `EXPORTS`."""
    module, keys = _load_plugin_module(plugin), [export.key for export in EXPORTS.values()]
    if not any(key in vars(module) for key in keys):
        raise InputError(
            f"{plugin.in_words} exports nothing; expected one of {', '.join(keys)}, such as "
            "SYSTEMS = (MySystem,)"
        )
    found = {}
    for kind, export in EXPORTS.items():
        items, of = getattr(module, export.key, ()), f"{plugin.in_words}: {export.key}"
        if not isinstance(items, (tuple, list)):
            raise InputError(f"{of} = {items!r}; expected a tuple of {export.words}")
        for item in items:
            check_plugin_export(plugin, kind, item, of)
        found[kind] = tuple(items)
    return found
