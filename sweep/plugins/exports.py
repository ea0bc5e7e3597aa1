"""What plugins and installed distributions add, by kind, and the checks of it."""

import contextlib
import inspect
import re
import traceback
from collections.abc import Iterator
from typing import Any, NamedTuple

from integrators.errors import InputError
from integrators.method import Method
from sweep.errors import Interrupted
from sweep.plugins.plots import PlotKind
from systems import Observable, Quantity, System
from systems.base import Start


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
            words = self._plugin_error_in_words(error)
            raise InputError(f"{self.in_words} {doing}: {words}") from error

    def _plugin_error_in_words(self, error: BaseException) -> str:
        if isinstance(error, SyntaxError) and error.filename == self.file:
            return f"line {error.lineno}: {error.msg}"
        message = " ".join(str(error).split())
        frames = traceback.extract_tb(error.__traceback__)
        lines = [str(frame.lineno) for frame in frames if frame.filename == self.file]
        lines += re.findall(rf'File "{re.escape(self.file)}", line (\d+)', message)  # Numba's
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


def check_plugin_export(source: Source, kind: str, item: Any, of: str) -> None:
    """Raise `InputError` unless a `Source` may add `item` as a thing of a kind; `of` says where."""
    _, words, base = EXPORTS[kind]
    is_class = isinstance(item, type) and issubclass(item, base)
    if not (is_class if kind == "system" else isinstance(item, base)):
        raise InputError(f"{of} has {item!r}; expected {words}")
    if kind == "system":
        for lack in _lacks_of_system(source, item):
            raise InputError(f"{source.in_words}: the system {item.__name__} {lack}")
    check_export_name(kind, of, item.name)


def _lacks_of_system(source: Source, item: type[System]) -> Iterator[str]:
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
    with source.blame_plugin_for_errors(doing):
        made = item()
        quantities, _ = made.quantities, made.form
    for quantity in quantities:
        if not isinstance(quantity, Quantity):
            yield f"has {quantity!r} among its quantities; expected systems.Quantity"
