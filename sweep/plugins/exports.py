"""What plugins and installed distributions add, by kind, and the checks of it."""

import contextlib
import dataclasses
import inspect
import re
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from integrators.errors import InputError
from integrators.method import Method
from sweep.errors import Interrupted
from sweep.plugins.plots import PlotKind
from systems import Observable, Quantity, System
from systems.base import Start


@dataclasses.dataclass(frozen=True)
class Export:
    """Things of a kind.

    Parameters
    ----------
    key : str
        The name of a plugin's tuple of them.
    words : str
        What they are, for messages.
    type : type
        Of each; of systems, what their classes are derived from.
    names : str
        A regular expression, and `naming` the same in words.
    """

    key: str
    words: str
    type: type[Any]
    names: str = "[A-Za-z][A-Za-z0-9_]*"
    naming: str = "a letter, then letters, digits and '_'"

    def is_of_kind(self, item: object) -> bool:
        """Whether `item` is such a thing."""
        if self.type is System:
            return isinstance(item, type) and issubclass(item, System)
        return isinstance(item, self.type)

    def check_export_name(self, of: str, name: object) -> None:
        """Raise `InputError` unless studies and command lines can say the name."""
        if not isinstance(name, str) or not re.fullmatch(self.names, name):
            raise InputError(f"{of} has the name {name!r}; expected {self.naming}")


EXPORTS = {
    "system": Export("SYSTEMS", "classes of systems, subclasses of systems.System", System),
    "integrator": Export("INTEGRATORS", "methods, each an integrators.Method", Method),
    "observable": Export("OBSERVABLES", "observables, each a systems.Observable", Observable),
    "plot": Export(
        "PLOTS",
        "kinds of plots, each a sweep.plugins.PlotKind",
        PlotKind,
        "[A-Za-z][A-Za-z0-9_-]*",
        "a letter, then letters, digits, '_' and '-'",
    ),
}
MOST_TOLD = 300  # characters of what its code raised
UNKNOWN = re.compile(  # of Numba, where an element type lacks a function, or a kernel a name
    r"No implementation of function Function\(.*?\) found for signature: >>> (.+?) There "
    r"(?:is|are) |NameError: name '(\w+)' is not defined"
)


class Source:
    """Where things come from that are not built in: a plugin, or an installed distribution.

    A subclass has `exports_of_kind`, `in_words`, `file` and `hash`.
    """

    def exports_of_kind(self, kind: str) -> tuple[Any, ...]:
        """The tuple of what it adds of a kind, a key of `EXPORTS`."""
        raise NotImplementedError

    @property
    def in_words(self) -> str:
        """What it is, for messages."""
        raise NotImplementedError

    @property
    def file(self) -> str:
        """Its name in tracebacks."""
        raise NotImplementedError

    @property
    def hash(self) -> str:
        """SHA-256 of the source, in hexadecimal."""
        raise NotImplementedError

    @property
    def systems(self) -> tuple[type[System], ...]:
        """The classes of systems that it adds."""
        return self.exports_of_kind("system")

    @property
    def methods(self) -> tuple[Method, ...]:
        """The `integrators.Method`s that it adds."""
        return self.exports_of_kind("integrator")

    @property
    def observables(self) -> tuple[Observable, ...]:
        """The `systems.Observable`s that it adds."""
        return self.exports_of_kind("observable")

    @property
    def plots(self) -> tuple[PlotKind, ...]:
        """The `PlotKind`s that it adds."""
        return self.exports_of_kind("plot")

    @property
    def exported_names(self) -> tuple[tuple[str, str], ...]:
        """What it adds, as pairs of a kind and a name."""
        return tuple((kind, item.name) for kind in EXPORTS for item in self.exports_of_kind(kind))

    @contextlib.contextmanager
    def blame_plugin_for_errors(
        self, doing: str, kept: tuple[type[BaseException], ...] = (InputError,)
    ) -> Iterator[None]:
        """Turn whatever its code raises, but for `kept`, into an `InputError` that says where."""
        passed: tuple[type[BaseException], ...] = (*kept, Interrupted)
        try:
            yield
        except passed:
            raise
        except (Exception, SystemExit) as error:
            raise InputError(
                f"{self.in_words} {doing}: {self._plugin_error_in_words(error)}"
            ) from error

    def _plugin_error_in_words(self, error: BaseException) -> str:
        if isinstance(error, SyntaxError) and error.filename == self.file:
            return f"line {error.lineno}: {error.msg}"
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == self.file]
        message = " ".join(str(error).split())
        unknown = UNKNOWN.search(message)
        lines += re.findall(rf'File "{re.escape(self.file)}", line (\d+)', message)  # Numba's
        where = f"line {lines[-1]}: " if lines else ""
        if unknown:
            return (
                f"{where}{type(error).__name__}: there is no {unknown[1] or unknown[2]}; expected "
                "plain arithmetic and the functions that integrators.plugin offers"
            )
        message = message if len(message) <= MOST_TOLD else f"{message[:MOST_TOLD]} …"
        return f"{where}{type(error).__name__}" + (f": {message}" if message else "")


def check_plugin_export(source: Source, kind: str, item: Any, of: str) -> None:
    """Raise `InputError` unless a `Source` may add `item` as a thing of a kind; `of` says where."""
    export = EXPORTS[kind]
    if not export.is_of_kind(item):
        raise InputError(f"{of} has {item!r}; expected {export.words}")
    if kind == "system":
        _check_plugin_system(source, item)
    export.check_export_name(of, item.name)


def _check_plugin_system(source: Source, item: type[System]) -> None:
    """Raise `InputError` for a class of systems that lacks something."""
    name = item.__name__

    def refuse(what: str) -> NoReturn:
        raise InputError(f"{source.in_words}: the system {name} {what}")

    if inspect.isabstract(item):
        refuse(f"lacks {', '.join(sorted(item.__abstractmethods__))}")
    if "__dataclass_params__" not in vars(item):
        refuse("is no dataclass; expected @dataclass(frozen=True) before it")
    for key in ("name", "description"):
        if not isinstance(getattr(item, key, None), str):
            refuse(f"has no {key}; expected a text, {key} = …")
    _check_plugin_units(item, refuse)
    starts = getattr(item, "named_starts", None)
    if not isinstance(starts, tuple) or not all(isinstance(start, Start) for start in starts):
        refuse(f"has named_starts = {starts!r}; expected a tuple of systems.plugin.Start")
    with source.blame_plugin_for_errors(f"cannot make the system {name} with default parameters"):
        made = item()
        quantities, _ = made.quantities, made.form
    for quantity in quantities:
        if not isinstance(quantity, Quantity):
            refuse(f"has {quantity!r} among its quantities; expected systems.Quantity")


def _check_plugin_units(item: type[System], refuse: Callable[[str], object]) -> None:
    units, own = getattr(item, "units", None), getattr(item, "parameter_units", None)
    keys = ("energy", "momentum", "time")
    if not isinstance(units, dict) or not set(keys) <= set(units):
        refuse(f"has units = {units!r}; expected a dict with the keys {', '.join(keys)}")
    names = item.parameter_names()
    if not isinstance(own, dict) or set(own) != set(names):
        refuse(f"has parameter_units = {own!r}; expected a dict with the keys {', '.join(names)}")
