"""Plugins: a user's own systems, integrators and observables, as source text.

A plugin is its source and nothing else: what the coordinator read travels with each task, and
every process makes a module of it, once, under a name that has the hash of the source in it. It
exports plain tuples, ``SYSTEMS``, ``INTEGRATORS`` and ``OBSERVABLES``; `registry` puts them
beside the built-in ones. Nothing is registered anywhere.

Source runs here and nowhere else, and only that of a `Plugin` that is `trusted`: of a file that a
study of one's own names, or of what a store brings and `sweep.plugins.approvals` lets pass.
"""

import contextlib
import dataclasses
import functools
import hashlib
import importlib.abc
import importlib.util
import inspect
import os
import re
import sys
import threading
import traceback
from pathlib import Path

from integrators.errors import InputError
from integrators.method import Method
from sweep.errors import Interrupted
from sweep.limits import read_regular
from systems import Observable, Quantity, System
from systems.base import Start

MOST_BYTES = 1_000_000  # it is sent with each task
EXPORTS = {
    "SYSTEMS": "classes of systems, subclasses of systems.System",
    "INTEGRATORS": "methods, each an integrators.Method",
    "OBSERVABLES": "observables, each a systems.Observable",
}
MOST_TOLD = 300  # characters of what its code raised
NAME = re.compile("[A-Za-z][A-Za-z0-9_]*")
_loading = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Plugin:
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
    def hash(self):
        """SHA-256 of the source, in hexadecimal: what ``sha256sum`` says of the file."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def systems(self):
        """The classes of systems that it adds."""
        return _exports(self)["SYSTEMS"]

    @property
    def methods(self):
        """The `integrators.Method`s that it adds."""
        return _exports(self)["INTEGRATORS"]

    @property
    def observables(self):
        """The `systems.Observable`s that it adds."""
        return _exports(self)["OBSERVABLES"]

    @property
    def named(self):
        """What it adds, as pairs of a kind and a name."""
        kinds = ("system", self.systems), ("integrator", self.methods)
        kinds += (("observable", self.observables),)
        return tuple((kind, item.name) for kind, items in kinds for item in items)

    @contextlib.contextmanager
    def blamed(self, doing, kept=(InputError,)):
        """Turn whatever its code raises, but for `kept`, into an `InputError` that says where."""
        try:
            yield
        except (*kept, Interrupted):
            raise
        except (Exception, SystemExit) as error:
            raise InputError(f"plugin {self.name!r} {doing}: {self._told(error)}") from error

    def _told(self, error):
        if isinstance(error, SyntaxError) and error.filename == self.name:
            return f"line {error.lineno}: {error.msg}"
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == self.name]
        message = " ".join(str(error).split())
        lines += re.findall(rf'File "{re.escape(self.name)}", line (\d+)', message)  # Numba's
        where = f"line {lines[-1]}: " if lines else ""
        message = message if len(message) <= MOST_TOLD else f"{message[:MOST_TOLD]} …"
        return f"{where}{type(error).__name__}" + (f": {message}" if message else "")


def read(name, directory):
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
        path, where = _file_of_module(name, directory), f"no source of the module {name!r}"
    try:
        data = read_regular(path, MOST_BYTES, "Python source, sent with each task")
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


def kept(attributes, store):
    """The plugins that a store brings, none of which may run yet.

    Parameters
    ----------
    attributes : mapping
        Of the store's root.
    store : Path or str
        For messages.

    Returns
    -------
    tuple of Plugin

    Raises
    ------
    InputError
        If one is no text.
    """
    found = attributes.get("plugins", {})
    try:
        sources = {name: plugin["source"] for name, plugin in found.items()}
        for name, source in sources.items():
            _check_size(name, source.encode())
    except (AttributeError, KeyError, TypeError, UnicodeEncodeError):
        raise InputError(f"{store}: the plugins that it keeps cannot be read") from None
    return tuple(Plugin(name, source) for name, source in sources.items())


def _check_size(name, data):
    if len(data) > MOST_BYTES:
        raise InputError(
            f"{name!r} has {len(data):,} bytes; expected at most {MOST_BYTES:,}: it is sent with "
            "each task"
        )


def _file_of_module(name, directory):
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

    def __init__(self, plugin):
        self._plugin = plugin

    def get_source(self, fullname):
        return self._plugin.text

    def get_code(self, fullname):
        # Not its bytes: of these a first line chooses the encoding, and other source could run
        # than the one that is shown.
        text = self._plugin.text.removeprefix("\ufeff")
        return compile(text, self._plugin.name, "exec", dont_inherit=True)


@functools.cache
def _module(plugin):
    """The module of a plugin, loaded once; its name tells it from an edited one."""
    if not plugin.trusted:
        raise InputError(f"plugin {plugin.name!r}, sha256 {plugin.hash}, is not approved to run")
    name = f"geosweep_plugin_{plugin.hash[:16]}"
    with _loading:
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_loader(name, _Loader(plugin))
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            with plugin.blamed("cannot be imported", kept=()):
                spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return module


@functools.cache
def _exports(plugin):
    """What a plugin exports, checked: a tuple by each key of `EXPORTS`."""
    module = _module(plugin)
    if not any(key in vars(module) for key in EXPORTS):
        raise InputError(
            f"plugin {plugin.name!r} exports nothing; expected one of {', '.join(EXPORTS)}, such "
            "as SYSTEMS = (MySystem,)"
        )
    return {key: _checked(plugin, key, getattr(module, key, ())) for key in EXPORTS}


def _checked(plugin, key, items):
    """What is exported under a key of `EXPORTS`, as a tuple."""
    of, expected = f"plugin {plugin.name!r}: {key}", EXPORTS[key]
    if not isinstance(items, (tuple, list)):
        raise InputError(f"{of} = {items!r}; expected a tuple of {expected}")
    for item in items:
        if key == "SYSTEMS":
            fits = isinstance(item, type) and issubclass(item, System)
        else:
            fits = isinstance(item, Method if key == "INTEGRATORS" else Observable)
        if not fits:
            raise InputError(f"{of} has {item!r}; expected {expected}")
        if key == "SYSTEMS":
            _check_system(plugin, item)
        if not NAME.fullmatch(item.name):
            raise InputError(
                f"{of} has the name {item.name!r}; expected a letter, then letters, digits and '_'"
            )
    return tuple(items)


def _check_system(plugin, item):
    """Raise `InputError` for a class of systems that lacks something."""
    name = item.__name__

    def refuse(what):
        raise InputError(f"plugin {plugin.name!r}: the system {name} {what}")

    if inspect.isabstract(item):
        refuse(f"lacks {', '.join(sorted(item.__abstractmethods__))}")
    if "__dataclass_params__" not in vars(item):
        refuse("is no dataclass; expected @dataclass(frozen=True) before it")
    for key in ("name", "description"):
        if not isinstance(getattr(item, key, None), str):
            refuse(f"has no {key}; expected a text, {key} = …")
    _check_units(item, refuse)
    starts = getattr(item, "named_starts", None)
    if not isinstance(starts, tuple) or not all(isinstance(start, Start) for start in starts):
        refuse(f"has named_starts = {starts!r}; expected a tuple of systems.plugin.Start")
    with plugin.blamed(f"cannot make the system {name} with default parameters"):
        made = item()
        quantities, _ = made.quantities, made.form
    for quantity in quantities:
        if not isinstance(quantity, Quantity):
            refuse(f"has {quantity!r} among its quantities; expected systems.Quantity")


def _check_units(item, refuse):
    units, own = getattr(item, "units", None), getattr(item, "parameter_units", None)
    keys = ("energy", "momentum", "time")
    if not isinstance(units, dict) or not set(keys) <= set(units):
        refuse(f"has units = {units!r}; expected a dict with the keys {', '.join(keys)}")
    names = item.parameter_names()
    if not isinstance(own, dict) or set(own) != set(names):
        refuse(f"has parameter_units = {own!r}; expected a dict with the keys {', '.join(names)}")
