"""Load plugins from source text, and installed distributions by their entry points.

A plugin is only its source text. The coordinator sends the text with each task, and every process
makes a module of it once, whose name contains the hash of the source. The module exports the tuples
``SYSTEMS``, ``INTEGRATORS``, ``OBSERVABLES`` and ``PLOTS``; `registry` adds them to what is built
in. There is no global registration.

Only this module runs source, and only that of a `Plugin` that is `trusted`: from a file that the
user's own study names, or from a store if `sweep.plugins.approvals` accepts it.

An entry point names a class of systems, an `integrators.Method`, a `systems.Observable` or a
`PlotKind`, in one of `GROUPS` and under the name that the thing has itself::

    [project.entry-points."geosweep.systems"]
    bead = "beads.sphere:Bead"

So names are known before anything is loaded. An entry point is loaded only if a study or a command
names it, and nothing built in and no plugin has this name. Workers get its name and the hash of its
source, and refuse the task if they do not have the same distribution.
"""

import contextlib
import dataclasses
import dis
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
from collections.abc import Container, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple, TypeAlias

from integrators.errors import InputError
from integrators.method import Method
from sweep.errors import Interrupted
from sweep.plugins.plots import PlotKind
from sweep.text import read_regular_file
from systems import Observable, Quantity, System
from systems.base import Start

MOST_BYTES = 1_000_000  # of source, which is sent with each task
_loading = threading.Lock()


class Export(NamedTuple):
    """A kind of thing that plugins export.

    Attributes
    ----------
    key : str
        Name of the plugin's tuple.
    words : str
        Description of the elements, for messages.
    type : type
        Type of the elements; for systems, which are classes, their base class.
    """

    key: str
    words: str
    type: type[Any]


EXPORTS = {
    "system": Export("SYSTEMS", "classes of systems, subclasses of systems.System", System),
    "integrator": Export("INTEGRATORS", "methods, each an integrators.Method", Method),
    "observable": Export("OBSERVABLES", "observables, each a systems.Observable", Observable),
    "plot": Export("PLOTS", "kinds of plots, each a sweep.plugins.PlotKind", PlotKind),
}
GROUPS = {kind: f"geosweep.{kind}s" for kind in EXPORTS}
MOST_TOLD = 300  # characters of an error's message that are shown
UNKNOWN = re.compile(  # of Numba, where an element type lacks a function, or a kernel a name
    r"No implementation of function Function\(.*?\) found for signature: >>> (.+?) There "
    r"(?:is|are) |NameError: name '(\w+)' is not defined"
)


# --- what is added, and what fails ----------------------------------------------------------------


@contextlib.contextmanager
def blame_source(
    source: "Source", doing: str, kept: tuple[type[BaseException], ...] = (InputError,)
) -> Iterator[None]:
    """Turn exceptions of a plugin's code into an `InputError` with the line, except those `kept`.

    Parameters
    ----------
    source : Plugin or Installed
    doing : str
        Description of the failure, such as ``cannot be imported``.
    kept : tuple of type, optional
        Errors that pass as they are.
    """
    passed: tuple[type[BaseException], ...] = (*kept, Interrupted)
    try:
        yield
    except passed:
        raise
    except (Exception, SystemExit) as error:
        words = _error_in_words(error, source.file, getattr(source, "text", ""))
        raise InputError(f"{source.in_words} {doing}: {words}") from error


def _error_in_words(error: BaseException, file: str, text: str) -> str:
    if isinstance(error, SyntaxError) and error.filename == file:
        return f"line {error.lineno}: {error.msg}"
    message = " ".join(str(error).split())
    frames = traceback.extract_tb(error.__traceback__)
    lines = [str(frame.lineno) for frame in frames if frame.filename == file]
    lines += re.findall(rf'File "{re.escape(file)}", line (\d+)', message)  # Numba's
    where = f"line {lines[-1]}: {type(error).__name__}" if lines else type(error).__name__
    if unknown := UNKNOWN.search(message):
        expected = "plain arithmetic and the functions that integrators.plugin offers"
        if unknown[2]:
            place = _place_of_global(unknown[2], text)
            where = f"{place}{type(error).__name__}" if place else where
            expected += ", and parameters as p[0], p[1], …"
        return f"{where}: there is no {unknown[1] or unknown[2]}; expected {expected}"
    more = " …" if len(message) > MOST_TOLD else ""
    return f"{where}: {message[:MOST_TOLD]}{more}" if message else where


def _place_of_global(name: str, text: str) -> str:
    """Line and function of a source that uses a global name first; empty if none does."""
    codes = [compile(text, "plugin", "exec")]
    for code in codes:
        codes += [own for own in code.co_consts if isinstance(own, CodeType)]
        for own in dis.get_instructions(code):
            if (own.opname, own.argval) == ("LOAD_GLOBAL", name) and own.positions:
                return f"line {own.positions.lineno}, in {code.co_name!r}: "
    return ""


def check_export_name(kind: str, of: str, name: object) -> None:
    """Raise `InputError` unless a name of this kind is valid in studies and on command lines."""
    signs, naming = ("_-", ", '_' and '-'") if kind == "plot" else ("_", " and '_'")
    if not isinstance(name, str) or not re.fullmatch(f"[A-Za-z][A-Za-z0-9{signs}]*", name):
        raise InputError(
            f"{of} has the name {name!r}; expected a letter, then letters, digits{naming}"
        )


def check_plugin_export(source: "Source", kind: str, item: Any, of: str) -> None:
    """Raise `InputError` unless `item` is a valid export of a kind.

    Parameters
    ----------
    source : Plugin or Installed
    kind : str
        A key of `EXPORTS`.
    item : object
    of : str
        Place of the item, for messages.
    """
    _, words, base = EXPORTS[kind]
    is_class = isinstance(item, type) and issubclass(item, base)
    if not (is_class if kind == "system" else isinstance(item, base)):
        raise InputError(f"{of} has {item!r}; expected {words}")
    if kind == "system":
        for lack in _lacks_of_system(source, item):
            raise InputError(f"{source.in_words}: the system {item.__name__} {lack}")
    check_export_name(kind, of, item.name)


def _lacks_of_system(source: "Source", item: type[System]) -> Iterator[str]:
    """Describe what a class of systems lacks; `InputError` if its code raises an exception."""
    if inspect.isabstract(item):
        yield f"lacks {', '.join(sorted(item.__abstractmethods__))}"
    if "__dataclass_params__" not in vars(item):
        yield "is no dataclass; expected @dataclass(frozen=True) before it"
    for key in ("name", "description"):
        if not isinstance(getattr(item, key, None), str):
            yield f"has no {key}; expected a text, {key} = …"
    units, own = getattr(item, "units", None), getattr(item, "parameter_units", None)
    keys, names = ("energy", "momentum", "time"), item.parameter_names()
    if not isinstance(units, dict) or not set(keys) <= set(units):
        yield f"has units = {units!r}; expected a dict with the keys {', '.join(keys)}"
    if not isinstance(own, dict) or not set(own) <= set(names):
        yield f"has parameter_units = {own!r}; expected a dict with keys of {', '.join(names)}"
    starts = getattr(item, "named_starts", None)
    if not isinstance(starts, tuple) or not all(isinstance(start, Start) for start in starts):
        yield f"has named_starts = {starts!r}; expected a tuple of systems.plugin.Start"
    doing = f"cannot make the system {item.__name__} with default parameters"
    with blame_source(source, doing):
        made = item()
        quantities, _ = made.quantities, made.form
    for quantity in quantities:
        if not isinstance(quantity, Quantity):
            yield f"has {quantity!r} among its quantities; expected systems.Quantity"


# --- plugins -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Plugin:
    """The source of a plugin.

    Parameters
    ----------
    name : str
        Name in the study: a file relative to the study, or an importable module.
    text : str
        The source.
    trusted : bool
        Whether the source may run. Workers rely on what their coordinator says.
    """

    name: str
    text: str
    trusted: bool = False

    @property
    def hash(self) -> str:
        """SHA-256 of the source in hexadecimal, as ``sha256sum`` prints it for the file."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def in_words(self) -> str:
        """Description of the plugin for messages."""
        return f"plugin {self.name!r}"

    @property
    def file(self) -> str:
        """Name of the plugin's file in tracebacks."""
        return self.name

    def exports_of_kind(self, kind: str) -> tuple[Any, ...]:
        """The tuple of exports of a kind."""
        return _exports_of_plugin(self)[kind]

    @property
    def exported_names(self) -> tuple[tuple[str, str], ...]:
        """All exports as pairs of kind and name."""
        return tuple((kind, item.name) for kind in EXPORTS for item in self.exports_of_kind(kind))


def read_plugin_source(name: str, directory: Path) -> Plugin:
    """Read the `Plugin` that a study names.

    Parameters
    ----------
    name : str
        A file relative to `directory` if it ends with ``.py`` or contains ``/``, else a module.
    directory : Path

    Raises
    ------
    InputError
        If the source is not found, or is not UTF-8 text.
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
    """The plugins that a store keeps, not yet trusted.

    Parameters
    ----------
    attributes : mapping
        Attributes of the store's root group.
    store : str or sweep.Store
        The store, for messages.

    Returns
    -------
    tuple of Plugin

    Raises
    ------
    InputError
        If the source of a plugin is not text.
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
    """The source file of an importable module; `InputError` for a package or if there is none."""
    beside = directory / f"{name}.py"
    hint = f" Did you mean {beside.name!r}?" if os.path.isfile(beside) else ""
    try:
        spec = importlib.util.find_spec(name)
    except (Exception, SystemExit) as error:  # the search imports the parent packages
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
    """Makes a module from a plugin's text, and provides the text to tracebacks and kernel cache."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin

    def get_source(self, fullname: str) -> str:
        return self._plugin.text

    def get_code(self, fullname: str) -> CodeType:
        # The text, not its bytes: an encoding declared in the first line could make other source
        # run than is shown to the user.
        text = self._plugin.text.removeprefix("\ufeff")
        return compile(text, self._plugin.name, "exec", dont_inherit=True)


@functools.cache
def _load_plugin_module(plugin: Plugin) -> ModuleType:
    """The module of a plugin, loaded once; its name differs from that of an edited version."""
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
            with blame_source(plugin, "cannot be imported", kept=()):
                own.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return module


@functools.cache
def _exports_of_plugin(plugin: Plugin) -> dict[str, tuple[Any, ...]]:
    """The checked exports of a plugin: a tuple for each kind in `EXPORTS`."""
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


# --- installed distributions ---------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Installed:
    """An entry point of an installed distribution.

    Parameters
    ----------
    kind : str
        Kind of the object that it names, a key of `GROUPS`.
    name, value : str
        Name and value in the distribution's metadata.
    distribution : str
        Name and version of the distribution.
    hash : str
        SHA-256 of the source, once `with_source_hash` has loaded it.
    """

    kind: str
    name: str
    value: str
    distribution: str
    hash: str = ""

    @property
    def in_words(self) -> str:
        """Description of the entry point for messages."""
        return f"the entry point {self.name!r} ({GROUPS[self.kind]}) of {self.distribution}"

    @property
    def file(self) -> str:
        """Name of its module's file in tracebacks."""
        with contextlib.suppress(Exception):  # reported when the entry point is loaded
            spec = importlib.util.find_spec(self.entry_point.module)
            if spec is not None and spec.origin is not None:
                return spec.origin
        return self.value

    @property
    def entry_point(self) -> EntryPoint:
        """The `importlib.metadata.EntryPoint`."""
        return EntryPoint(self.name, self.value, GROUPS[self.kind])

    def exports_of_kind(self, kind: str) -> tuple[Any, ...]:
        """The tuple of exports of a kind; loads the entry point."""
        return (_installed_with_same_hash(self),) if kind == self.kind else ()

    @property
    def exported_names(self) -> tuple[tuple[str, str], ...]:
        """Its export as pairs of kind and name; does not load the entry point."""
        return ((self.kind, self.name),)

    def with_source_hash(self) -> "Installed":
        """A copy with the hash of the source that is installed here."""
        return dataclasses.replace(self, hash=_load_entry_point(self)[1])


def offered_entry_points(kind: str, taken: Container[str]) -> dict[str, Installed]:
    """The entry points of a kind in all installed distributions, not loaded.

    Parameters
    ----------
    kind : str
        A key of `GROUPS`.
    taken : container of str
        Built-in names.

    Returns
    -------
    dict of str to Installed
        The entry points by name.

    Raises
    ------
    InputError
        If a name is taken already, or is not valid.
    """
    found: dict[str, Installed] = {}
    for one in map(_installed_of_entry_point, entry_points(group=GROUPS[kind])):
        check_export_name(kind, one.in_words, one.name)
        if one.name in taken or one.name in found:
            other = found[one.name].in_words if one.name in found else "what is built in"
            raise InputError(
                f"{one.in_words} has the name of {other}; expected a name of its own: uninstall "
                "one of them"
            )
        found[one.name] = one
    return found


def _installed_of_entry_point(point: EntryPoint) -> Installed:
    kind = next(kind for kind, group in GROUPS.items() if group == point.group)
    dist = point.dist
    owner = "" if dist is None else f"{dist.name} {dist.version}"  # installed ones always have one
    return Installed(kind, point.name, point.value, owner)


@functools.cache
def _installed_with_same_hash(one: Installed) -> Any:
    """The object of an entry point, if its source has the expected hash."""
    points = entry_points(group=GROUPS[one.kind], name=one.name)
    here = next(map(_installed_of_entry_point, points), None)
    if here is None:
        raise InputError(f"{one.in_words} is not installed here; expected it on every worker")
    item, digest = _load_entry_point(here)
    if digest != one.hash:
        raise InputError(
            f"{one.in_words} has other source here, of {here.distribution}: its hash is "
            f"{digest[:16]}…, and {one.hash[:16]}… is asked for; install the same version on "
            "every worker"
        )
    return item


@functools.cache
def _load_entry_point(one: Installed) -> tuple[Any, str]:
    """The object of an entry point, checked, and the hash of its source as it was loaded."""
    with blame_source(one, "cannot be loaded", kept=()):
        item = one.entry_point.load()
        digest = _hash_of_module_source(sys.modules[one.entry_point.module])
    check_plugin_export(one, one.kind, item, one.in_words)
    if item.name != one.name:
        raise InputError(f"{one.in_words} names {item.name!r}; expected the same name")
    return item, digest


@functools.cache
def _hash_of_module_source(module: ModuleType) -> str:
    """SHA-256 of a module's source, or of all modules of its package, as they were when loaded."""
    package = sys.modules[module.__name__.partition(".")[0]]
    file = Path(getattr(package, "__file__", None) or module.__file__ or "")
    if file.name != "__init__.py":
        return hashlib.sha256(file.read_bytes()).hexdigest()
    digest = hashlib.sha256()
    for path in sorted(file.parent.rglob("*.py")):
        digest.update(f"{path.relative_to(file.parent).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


Source: TypeAlias = Plugin | Installed
