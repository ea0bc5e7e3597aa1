"""The values of a study with the places where they stand, and their errors."""

import contextlib
import dataclasses
import json
import math
import re
import reprlib
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from integrators.errors import InputError, check_known
from sweep.errors import Gathered, StudyError
from sweep.study.limits import MOST_DEPTH, MOST_LABEL, MOST_STRING, MOST_TEXT, Budget, Limit
from sweep.study.toml.positions import KeyPath, Scan, scan_key_positions
from sweep.study.toml.shapes import BOOLEAN, INTEGER, NUMBER, STRING, Fields, shaped

if TYPE_CHECKING:
    from sweep.plugins.loader import Plugin

Read = TypeVar("Read")
Default = TypeVar("Default")
_TYPES = {bool: "a boolean", int: "an integer", float: "a number", str: "a string"}
_TYPES |= {list: "an array", dict: "a table"}


@dataclasses.dataclass(frozen=True)
class Source:
    """A text, the name it goes by in messages, and the line of each key path in it.

    The lines are none of a text that a program wrote. And the directory that paths in it are
    relative to; all plugins that it can name, or None if they are files there; the store, if any,
    that was made with it: it knows initial states whose origin is gone; whether plugins of the
    stores that it names may run; and what was read of it asks for so far, all together.
    """

    name: str
    text: str
    lines: dict[KeyPath, int] | None
    directory: Path
    plugins: "Mapping[str, Plugin] | None" = None
    kept: object = None
    trust_plugins: bool = False
    budget: Budget = dataclasses.field(default_factory=Budget, compare=False)

    def where(self, path: KeyPath) -> str:
        """``file:line: key.path`` of a path, or of the deepest part of it that is written."""
        if self.lines is None:
            return f"{self.name}: {format_key_path(path)}" if path else self.name
        while path not in self.lines:
            path = path[:-1]
        return f"{self.name}:{self.lines[path]}" + (f": {format_key_path(path)}" if path else "")


@dataclasses.dataclass(frozen=True)
class Node:
    """A value of a study and where it stands.

    Parameters
    ----------
    value : object
        As `tomllib` gives it.
    path : tuple of str and int
        Keys and indices from the top of the text.
    source : Source
    fallback : Node, optional
        Table that supplies the keys that this one lacks.
    """

    value: Any
    path: KeyPath
    source: Source
    fallback: "Node | None" = None

    @property
    def where(self) -> str:
        """``file:line: key.path``."""
        return self.source.where(self.path)

    def error(self, message: str) -> StudyError:
        """The `StudyError` that says where this value stands and what is wrong with it."""
        return StudyError(f"{self.where}: {message}")

    @contextlib.contextmanager
    def context(self, otherwise: "Node | None" = None) -> Iterator[None]:
        """Turn an `InputError` into a `StudyError` at the key, or key path, that it names.

        If it names none that is here, then at the node `otherwise`, by default this one.
        """
        try:
            yield
        except StudyError:
            raise
        except InputError as error:
            raise self._deepest(error.key, otherwise or self).error(str(error)) from None

    def take(self, limit: Limit, amount: int) -> None:
        """Count what this value asks for, and refuse it beyond a `Limit` on the whole study."""
        with self.context():
            self.source.budget.take_from_budget(limit, amount)

    def __contains__(self, key: object) -> bool:
        own = isinstance(self.value, dict) and key in self.value
        return own or (self.fallback is not None and key in self.fallback)

    def __getitem__(self, key: str | int) -> "Node":
        if self.fallback is not None and key not in self.value:
            return self.fallback[key]
        return Node(self.value[key], self.path + (key,), self.source)

    def optional(
        self, key: str | int, read: "Callable[[Node], Read]", default: Default
    ) -> Read | Default:
        """``read`` of the node of a key, or `default` if there is none."""
        return read(self[key]) if key in self else default

    def get(self, key: str | int, otherwise: Default) -> "Node | Default":
        """The node of a key, or `otherwise` if there is none."""
        return self.optional(key, lambda node: node, otherwise)

    def _deepest(self, path: str | None, otherwise: "Node") -> "Node":
        """The deepest node that is here of a key, or key path such as ``tableau.a[1]``."""
        if path is not None and path in self:
            return self[path]
        node = self
        for part in re.findall(r"\w+", path or ""):
            part = int(part) if part.isdigit() else part
            listed = type(node.value) is list and part in range(len(node.value))
            if not listed and part not in node:
                break
            node, otherwise = node[part], node[part]
        return otherwise

    def expected(self, what: str) -> StudyError:
        """The error of a value of the wrong type or size."""
        kind = _TYPES.get(type(self.value))
        shown = f"{kind}: {reprlib.repr(self.value)}" if kind else f"a date or time: {self.value}"
        return self.error(f"expected {what}, got {shown}")

    @shaped(NUMBER)
    def number(self) -> float:
        """A finite number; an integer stays one."""
        if isinstance(self.value, float) and math.isfinite(self.value):
            return self.value
        if type(self.value) is float:
            raise self.expected("a finite number")
        return self.integer("a number")

    @shaped(NUMBER)
    def real(self) -> float:
        """A finite number, as a float."""
        return float(self.number())

    @shaped(INTEGER)
    def integer(self, what: str = "an integer") -> int:
        """An integer of at most 64 bits, which is what TOML promises."""
        if type(self.value) is not int:
            raise self.expected(what)
        if abs(self.value) >= 2**63:
            raise self.expected(f"{what} of at most 64 bits")
        return self.value

    @shaped(BOOLEAN)
    def boolean(self) -> bool:
        """``true`` or ``false``."""
        if type(self.value) is not bool:
            raise self.expected("true or false")
        return self.value

    @shaped(STRING)
    def string(self, most: int = MOST_STRING) -> str:
        """A string that is not empty, of at most so many characters."""
        if type(self.value) is not str or not self.value:
            raise self.expected("a string that is not empty")
        if len(self.value) > most:
            raise self.expected(f"at most {most:,} characters, not {len(self.value):,}")
        if "\0" in self.value:
            raise self.expected("a string without null characters")
        return self.value

    @shaped(STRING)
    def label(self) -> str:
        """A string that runs, files or directories can be called by."""
        return self.string(MOST_LABEL)

    def choice(self, kind: str, valid: Collection[str]) -> str:
        """One of the strings `valid`."""
        with self.context():
            check_known(kind, self.string(), valid)
        return self.string()

    def elements(self, least: int = 1) -> "list[Node]":
        """The nodes of an array with at least `least` elements."""
        if type(self.value) is not list or len(self.value) < least:
            raise self.expected("an array that is not empty" if least else "an array")
        return [self[index] for index in range(len(self.value))]

    def one_or_more(self) -> "list[Node]":
        """The nodes of an array, or this one if it is none."""
        return self.elements() if type(self.value) is list else [self]

    def table(
        self, keys: Collection[str] | None = None, required: Iterable[str] = (), kind: str = "key"
    ) -> "Node":
        """Check that this is a table with keys from `keys` (None: any) and with all `required`."""
        if type(self.value) is not dict:
            raise self.expected("a table")
        gather = Gathered()
        for key in self.value:
            if keys is not None:
                gather(self[key]._known, kind, keys)
        for key in required:
            if key not in self:
                gather.problems += self.error(f"the key {key!r} is missing").problems
        gather.raise_problems()
        return self

    def fields(self, fields: Fields) -> dict[str, Any]:
        """The values of the keys of a table that are there, as a dict.

        Parameters
        ----------
        fields : sweep.study.toml.shapes.Fields
            All keys that it can have, with what reads their values.
        """
        self.table(fields, fields.required)
        gather = Gathered()
        found = {key: gather(read, self[key]) for key, read in fields.items() if key in self}
        gather.raise_problems()
        return found

    def _known(self, kind: str, keys: Collection[str]) -> None:
        with self.context():
            check_known(kind, self.path[-1], keys)


def format_key_path(path: KeyPath) -> str:
    """A key path as one writes it: ``experiment[0].integrators[2].name``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            bare = re.fullmatch(r"[A-Za-z0-9_-]+", part)
            text += ("." if text else "") + (part if bare else json.dumps(part))
    return text


def parse_toml(
    text: str,
    name: str,
    directory: str | Path = ".",
    plugins: "Mapping[str, Plugin] | None" = None,
    kept: object = None,
    trust_plugins: bool = False,
    has_lines: bool = True,
) -> Node:
    """Parse a TOML text into the node of its top table.

    Parameters
    ----------
    text : str
    name : str
        Of the text, for messages.
    directory : str or Path, optional
        That paths in the text are relative to.
    plugins, kept, trust_plugins
        As in `sweep.study.model.parse_study`.
    has_lines : bool
        Whether messages name lines: those of a text that a program wrote tell nobody anything.

    Returns
    -------
    Node

    Raises
    ------
    StudyError
        If the text is not valid TOML, too long or nested too deeply.
    """
    if len(text) > MOST_TEXT:
        raise StudyError(
            f"{name}: has {len(text):,} characters; at most {MOST_TEXT:,} are possible: put states "
            "into a NumPy file, or write several studies"
        )
    scanned = scan_key_positions(text, MOST_DEPTH)  # the parser takes years for some that are deep
    if scanned.too_deep is not None:
        raise StudyError(
            f"{name}:{scanned.too_deep}: arrays or tables are nested too deeply; at most "
            f"{MOST_DEPTH} levels are possible"
        )
    try:
        data = tomllib.loads(text)
    except ValueError as error:  # a TOMLDecodeError, or an integer of thousands of digits
        raise _explain_syntax_error(scanned, name, str(error)) from None
    lines = scanned.lines if has_lines else None
    source = Source(name, text, lines, Path(directory), plugins, kept, trust_plugins)
    return Node(data, (), source)


def _explain_syntax_error(scan: Scan, name: str, message: str) -> StudyError:
    found = re.search(r" \(at line (\d+), column (\d+)\)$", message)
    if found is None:
        return StudyError(f"{name}: not valid TOML: {message}")
    line, broken = int(found[1]), scan.broken
    if broken is None or broken.broken != line:
        what = message[: found.start()]
        return StudyError(f"{name}:{line}: not valid TOML: {what}, at column {found[2]}")
    return StudyError(
        f"{name}:{broken.opened}: {format_key_path(broken.path)}: the inline table that opens "
        f"here goes on after the end of line {broken.broken}, which TOML 1.0 forbids. "
        "Write { … } on one line; only an array inside it may span several"
    )
