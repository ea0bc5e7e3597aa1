"""What users bring: plugins, as source text, and installed distributions, by their entry points.

A plugin is its source and nothing else: what the coordinator read travels with each task, and
every process makes a module of it, once, under a name that has the hash of the source in it. It
exports plain tuples, ``SYSTEMS``, ``INTEGRATORS``, ``OBSERVABLES`` and ``PLOTS``; `registry` puts
them beside the built-in ones. Nothing is registered anywhere.

Source runs here and nowhere else, and only that of a `Plugin` that is `trusted`: of a file that a
study of one's own names, or of what a store brings and `sweep.plugins.approvals` lets pass.

An entry point names a class of systems, an `integrators.Method`, a `systems.Observable` or a
`PlotKind`, in one of `GROUPS` and under the name that the thing has itself::

    [project.entry-points."geosweep.systems"]
    bead = "beads.sphere:Bead"

So names are known before anything is loaded, and an entry point is loaded only if a study or a
command names it and it is neither built in nor a plugin's. It is sent to workers by its name, with
the hash of its source: a worker without the same distribution refuses it.
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

MOST_BYTES = 1_000_000  # it is sent with each task
_loading = threading.Lock()


class Export(NamedTuple):
    """Things of a kind.

    Attributes
    ----------
    key : str
        The name of a plugin's tuple of them.
    words : str
        What they are, for messages.
    type : type
        Of each; of systems, what their classes are derived from.
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
MOST_TOLD = 300  # characters of what its code raised
UNKNOWN = re.compile(  # of Numba, where an element type lacks a function, or a kernel a name
    r"No implementation of function Function\(.*?\) found for signature: >>> (.+?) There "
    r"(?:is|are) |NameError: name '(\w+)' is not defined"
)


# --- what is added, and what fails ----------------------------------------------------------------


@contextlib.contextmanager
def blame_source(
    source: "Source", doing: str, kept: tuple[type[BaseException], ...] = (InputError,)
) -> Iterator[None]:
    """Turn what a source's code raises, but for `kept`, into an `InputError` that says where.

    Parameters
    ----------
    source : Plugin or Installed
    doing : str
        What fails, such as ``cannot be imported``.
    kept : tuple of type, optional
        Errors that pass as they are.
    """
    passed: tuple[type[BaseException], ...] = (*kept, Interrupted)
    try:
        yield
    except passed:
        raise
    except (Exception, SystemExit) as error:
        words = _error_in_words(error, source.file)
        raise InputError(f"{source.in_words} {doing}: {words}") from error


def _error_in_words(error: BaseException, file: str) -> str:
    if isinstance(error, SyntaxError) and error.filename == file:
        return f"line {error.lineno}: {error.msg}"
    message = " ".join(str(error).split())
    frames = traceback.extract_tb(error.__traceback__)
    lines = [str(frame.lineno) for frame in frames if frame.filename == file]
    lines += re.findall(rf'File "{re.escape(file)}", line (\d+)', message)  # Numba's
    where = f"line {lines[-1]}: {type(error).__name__}" if lines else type(error).__name__
    if unknown := UNKNOWN.search(message):
        return (
            f"{where}: there is no {unknown[1] or unknown[2]}; expected plain arithmetic and "
            "the functions that integrators.plugin offers"
        )
    more = " …" if len(message) > MOST_TOLD else ""
    return f"{where}: {message[:MOST_TOLD]}{more}" if message else where


def check_export_name(kind: str, of: str, name: object) -> None:
    """Raise `InputError` unless studies and command lines can say the name of a thing of a kind."""
    signs, naming = ("_-", ", '_' and '-'") if kind == "plot" else ("_", " and '_'")
    if not isinstance(name, str) or not re.fullmatch(f"[A-Za-z][A-Za-z0-9{signs}]*", name):
        raise InputError(
            f"{of} has the name {name!r}; expected a letter, then letters, digits{naming}"
        )


def check_plugin_export(source: "Source", kind: str, item: Any, of: str) -> None:
    """Raise `InputError` unless a source may add `item` as a thing of a kind; `of` says where."""
    _, words, base = EXPORTS[kind]
    is_class = isinstance(item, type) and issubclass(item, base)
    if not (is_class if kind == "system" else isinstance(item, base)):
        raise InputError(f"{of} has {item!r}; expected {words}")
    if kind == "system":
        for lack in _lacks_of_system(source, item):
            raise InputError(f"{source.in_words}: the system {item.__name__} {lack}")
    check_export_name(kind, of, item.name)


def _lacks_of_system(source: "Source", item: type[System]) -> Iterator[str]:
    """What a class of systems lacks, in words; what cannot be made raises `InputError`."""
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
    if not isinstance(own, dict) or set(own) != set(names):
        yield f"has parameter_units = {own!r}; expected a dict with the keys {', '.join(names)}"
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

    @property
    def exported_names(self) -> tuple[tuple[str, str], ...]:
        """What it adds, as pairs of a kind and a name."""
        return tuple((kind, item.name) for kind in EXPORTS for item in self.exports_of_kind(kind))


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
            with blame_source(plugin, "cannot be imported", kept=()):
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


# --- installed distributions ---------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Installed:
    """An entry point.

    Parameters
    ----------
    kind : str
        Of what it names, a key of `GROUPS`.
    name, value : str
        As in its metadata.
    distribution : str
        Whose they are, with its version.
    hash : str
        SHA-256 of the source, once `with_source_hash` has loaded that.
    """

    kind: str
    name: str
    value: str
    distribution: str
    hash: str = ""

    @property
    def in_words(self) -> str:
        """The entry point, for messages."""
        return f"the entry point {self.name!r} ({GROUPS[self.kind]}) of {self.distribution}"

    @property
    def file(self) -> str:
        """The name of its module in tracebacks."""
        with contextlib.suppress(Exception):  # which are told when it is loaded
            spec = importlib.util.find_spec(self.entry_point.module)
            if spec is not None and spec.origin is not None:
                return spec.origin
        return self.value

    @property
    def entry_point(self) -> EntryPoint:
        """As the metadata have it."""
        return EntryPoint(self.name, self.value, GROUPS[self.kind])

    def exports_of_kind(self, kind: str) -> tuple[Any, ...]:
        """The tuple of what it adds of a kind; loaded when it is asked for."""
        return (_installed_with_same_hash(self),) if kind == self.kind else ()

    @property
    def exported_names(self) -> tuple[tuple[str, str], ...]:
        """What it adds, as pairs of a kind and a name; it is not loaded."""
        return ((self.kind, self.name),)

    def with_source_hash(self) -> "Installed":
        """The same with the hash of the source that is installed here."""
        return dataclasses.replace(self, hash=_load_entry_point(self)[1])


def offered_entry_points(kind: str, taken: Container[str]) -> dict[str, Installed]:
    """The entry points of a kind that distributions offer, not loaded.

    Parameters
    ----------
    kind : str
    taken : container of str
        Names that are built in.

    Returns
    -------
    dict of str to Installed
        By name.

    Raises
    ------
    InputError
        If a name is taken, or is no name.
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
    owner = "" if dist is None else f"{dist.name} {dist.version}"  # all that are found have one
    return Installed(kind, point.name, point.value, owner)


@functools.cache
def _installed_with_same_hash(one: Installed) -> Any:
    """The installed thing of a name, if its source has the expected hash."""
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
    """What an entry point names, checked, and the hash of its source when it was loaded."""
    with blame_source(one, "cannot be loaded", kept=()):
        item = one.entry_point.load()
        digest = _hash_of_module_source(sys.modules[one.entry_point.module])
    check_plugin_export(one, one.kind, item, one.in_words)
    if item.name != one.name:
        raise InputError(f"{one.in_words} names {item.name!r}; expected the same name")
    return item, digest


@functools.cache
def _hash_of_module_source(module: ModuleType) -> str:
    """SHA-256 of a module's source; of a package's module, of all that the package has.

    As it was when the module was loaded, whatever becomes of the files.
    """
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
