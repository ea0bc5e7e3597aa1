"""The text of a study: its values, and where each of them stands, for messages."""

import contextlib
import dataclasses
import functools
import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from integrators.errors import InputError, check_known
from sweep.errors import Gathered, StudyError
from sweep.study.limits import MOST_DEPTH, MOST_TEXT, Budget, Limit

if TYPE_CHECKING:
    from sweep.plugins.loader import Plugin

KeyPath = tuple[str | int, ...]

_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')"""
_KEYS = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_LINE = re.compile(rf"[ \t]*(?:(\[\[?)[ \t]*({_KEYS})[ \t]*\]\]?[ \t\r]*$|({_KEYS})[ \t]*=)")
_MANY_KEYS = re.compile(rf"^[ \t\[]*(?:{_KEY}[ \t]*\.[ \t]*){{{MOST_DEPTH}}}", re.MULTILINE)
_TOKEN = re.compile(r"""[][{},]|"(?:\\.|[^"\\])*"|'[^']*'|[^\s,[\]{}"']+""")
_STRING_OR_COMMENT = re.compile(
    r'"""(?:\\.|[^\\])*?""""{0,2}|\'\'\'.*?\'\'\'\'{0,2}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*',
    re.DOTALL,
)


@dataclasses.dataclass(frozen=True)
class StudyText:
    """The values of a study, the name that it goes by in messages, and what it may refer to.

    Parameters
    ----------
    name : str
    data : dict
        As `tomllib` gives it.
    text : str
        From which it was read; None where a program made the values, and there are no lines.
    directory : Path
        That paths in it are relative to.
    plugins, kept, trust_plugins
        As in `sweep.study.model.parse_study`.
    budget : Budget
        What was read of it asks for so far, all together.
    """

    name: str
    data: dict[str, Any]
    text: str | None = None
    directory: Path = Path(".")
    plugins: "Mapping[str, Plugin] | None" = None
    kept: object = None
    trust_plugins: bool = False
    budget: Budget = dataclasses.field(default_factory=Budget, compare=False)

    def find(self, path: KeyPath) -> tuple[KeyPath, Any]:
        """The deepest part of a key path that is written, and the value there.

        A key that an experiment lacks is that of the defaults, and a value that is no list is the
        only one of its list.
        """
        found: KeyPath = ()
        value: Any = self.data
        defaults = self.data.get("defaults")
        for part in path:
            if isinstance(part, int) and type(value) is not list:
                continue
            in_experiment = found[:1] == ("experiment",) and len(found) == 2
            if in_experiment and type(value) is dict and part not in value:
                if type(defaults) is not dict or part not in defaults:
                    break
                found, value = ("defaults",), defaults
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                break
            found += (part,)
        return found, value

    def where(self, path: KeyPath) -> str:
        """``file:line: key.path`` of a key path, as far as it is written."""
        path, _ = self.find(path)
        shown = f": {format_key_path(path)}" if path else ""
        if self.text is None:
            return f"{self.name}{shown}"
        while path not in self.lines:
            path = path[:-1]
        return f"{self.name}:{self.lines[path]}{shown}"

    @functools.cached_property
    def lines(self) -> dict[KeyPath, int]:
        """Lines of headers of tables, of keys that begin a line, and of elements of arrays."""
        text = _STRING_OR_COMMENT.sub(_if_it_may_be_a_key, self.text or "")
        lines: dict[KeyPath, int] = {(): 1}
        last: dict[KeyPath, int] = {}  # array of tables -> index of its last table
        table: KeyPath = ()
        path: KeyPath = ()
        opened: list[str] = []  # brackets
        index, begins = 0, False  # of the element of an array, which is still to come
        for number, line in enumerate(text.split("\n"), 1):
            found = None if opened else _LINE.match(line)
            if found is not None:
                path = () if found[1] else table
                for key in _split_keys(found[2] or found[3]):
                    path += (last[path], key) if path in last else (key,)
                    lines.setdefault(path, number)
            if found is not None and found[1]:
                if found[1] == "[[":
                    last[path] = last.get(path, -1) + 1
                    path += (last[path],)
                    lines[path] = number
                table = path
                continue
            for token in _TOKEN.findall(line, found.end() if found else 0):
                if begins and token not in ",]":
                    lines[(*path, index)], begins = number, False
                if token in "[{":
                    opened.append(token)
                elif token in "]}":
                    del opened[-1:]
                if opened == ["["] and token in "[,":
                    index, begins = (index + 1 if token == "," else 0), True
        return lines


def _only_line_breaks(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")


def _if_it_may_be_a_key(found: re.Match[str]) -> str:
    """A string on one line as it is; of others, and of comments, the line breaks."""
    text = found[0]
    return _only_line_breaks(found) if text[0] == "#" or text[:3] in ('"""', "'''") else text


def _split_keys(keys: str) -> list[str]:
    """The parts of a dotted key."""
    parts = re.findall(_KEY, keys)
    with contextlib.suppress(tomllib.TOMLDecodeError):
        return [next(iter(tomllib.loads(f"{p} = 0"))) if p[0] in "\"'" else p for p in parts]
    return parts


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a value stands in a study.

    Parameters
    ----------
    source : StudyText
    path : tuple of str and int
        Keys and indices from the top of the text.
    """

    source: StudyText
    path: KeyPath = ()

    def at(self, *keys: str | int) -> "Place":
        """The place of a key, or an index, within this value."""
        return Place(self.source, self.path + keys)

    @property
    def value(self) -> Any:
        """The value as it is written."""
        return self.source.find(self.path)[1]

    def has(self, key: str) -> bool:
        """Whether a table, or the defaults for it, has a key."""
        return self.source.find((*self.path, key))[0] != self.source.find(self.path)[0]

    def elements(self, count: int | None = None) -> "list[Place]":
        """The places of the elements of a list, or of so many."""
        if count is None:
            count = len(self.value) if type(self.value) is list else 1
        return [self.at(index) for index in range(count)]

    @property
    def where(self) -> str:
        """``file:line: key.path``."""
        return self.source.where(self.path)

    def error(self, message: object) -> StudyError:
        """The `StudyError` that says where this value stands and what is wrong with it."""
        return StudyError(f"{self.where}: {message}")

    @contextlib.contextmanager
    def context(self, otherwise: "Place | None" = None) -> Iterator[None]:
        """Turn an `InputError` into a `StudyError` at the key, or key path, that it names.

        If it names none that is here, then at `otherwise`, by default this place.
        """
        try:
            yield
        except StudyError:
            raise
        except InputError as error:
            parts = re.findall(r"\w+", error.key or "")
            path = tuple(int(part) if part.isdigit() else part for part in parts)
            named = Place(self.source, self.source.find(self.path + path)[0])
            inside = named.path != self.source.find(self.path)[0]
            raise (named if inside else otherwise or self).error(error) from None

    def check_known(self, kind: str, name: object, known: Collection[str]) -> None:
        """Refuse a name that is not known, with the nearest that is."""
        with self.context():
            check_known(kind, name, known)

    def keys(
        self, names: Iterable[str], kind: str, known: Collection[str], required: Iterable[str] = ()
    ) -> "list[Place]":
        """The places of keys; of those that are unknown, and that are missing, all are refused."""
        names, gather = list(names), Gathered()
        for name in names:
            gather(self.at(name).check_known, kind, name, known)
        missing = (
            self.error(f"the key {key!r} is missing") for key in required if key not in names
        )
        gather.problems += [problem for error in missing for problem in error.problems]
        gather.raise_problems()
        return [self.at(name) for name in names]

    def take(self, limit: Limit, amount: int) -> None:
        """Count what this value asks for, and refuse it beyond a `Limit` on the whole study."""
        with self.context():
            self.source.budget.take(limit, amount)


def gather_each(read: Callable[..., Any], *columns: Iterable[Any]) -> tuple[Any, ...]:
    """``read`` of each row of some columns; the problems of all are reported together."""
    gather = Gathered()
    found = tuple(gather(read, *row) for row in zip(*columns, strict=True))
    gather.raise_problems()
    return found


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


# --- parsing ----------------------------------------------------------------------------------


def parse_toml(text: str, name: str, directory: str | Path = ".", **settings: Any) -> StudyText:
    """Parse the TOML text of a study.

    Parameters
    ----------
    text : str
    name : str
        Of the text, for messages.
    directory : str or Path, optional
    **settings
        Of `StudyText`.

    Returns
    -------
    StudyText

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
    if many := _MANY_KEYS.search(text):  # for which the parser takes years
        raise _too_deep(f"{name}:{text.count(chr(10), 0, many.end()) + 1}")
    try:
        data = tomllib.loads(text)
    except RecursionError:
        lines = enumerate(text.split("\n"), 1)
        raise _too_deep(f"{name}:{max(lines, key=lambda own: _brackets(own[1]))[0]}") from None
    except ValueError as error:  # a TOMLDecodeError, or an integer of thousands of digits
        raise _explain_syntax_error(text, name, str(error)) from None
    source = StudyText(name, data, text, Path(directory), **settings)
    deep = _deep_path(data)
    if deep is not None:
        raise _too_deep(source.where(deep[:4]))
    return source


def _too_deep(where: str) -> StudyError:
    return StudyError(
        f"{where}: arrays or tables are nested too deeply; at most {MOST_DEPTH} levels are possible"
    )


def _brackets(line: str) -> int:
    return line.count("[") + line.count("{")


def _deep_path(data: dict[str, Any]) -> KeyPath | None:
    """The path of a value that is nested too deeply, if there is one."""
    left: list[tuple[KeyPath, Any]] = [((), data)]
    while left:
        path, value = left.pop()
        if len(path) > MOST_DEPTH:
            return path
        items = value.items() if type(value) is dict else enumerate(value)
        left += [((*path, key), item) for key, item in items if type(item) in (dict, list)]
    return None


def _explain_syntax_error(text: str, name: str, message: str) -> StudyError:
    found = re.search(r" \(at line (\d+), column (\d+)\)$", message)
    if found is None:
        return StudyError(f"{name}: not valid TOML: {message}")
    line, column = int(found[1]), int(found[2])
    own = text.split("\n")[line - 1]
    opened = _line_of_open_brace(text, line)
    if opened is None or own[column - 1 :].strip()[:1] not in ("", "#"):
        what = message[: found.start()]
        return StudyError(f"{name}:{line}: not valid TOML: {what}, at column {column}")
    keys = StudyText(name, {}, text).lines
    where = next((f"{format_key_path(path)}: " for path in keys if keys[path] == opened), "")
    return StudyError(
        f"{name}:{opened}: {where}the inline table that opens here goes on after the end of line "
        f"{line}, which TOML 1.0 forbids. Write {{ … }} on one line; only an array inside it may "
        "span several"
    )


def _line_of_open_brace(text: str, line: int) -> int | None:
    """The line of the inline table that is open at the end of a line, if the innermost is one."""
    left = _STRING_OR_COMMENT.sub(_only_line_breaks, text)
    left, pairs = "\n".join(left.split("\n")[:line]), 1
    while pairs:
        left, pairs = re.subn(r"\{[^][{}]*\}|\[[^][{}]*\]", _only_line_breaks, left)
    last = max(left.rfind("{"), left.rfind("["))
    return left.count("\n", 0, last) + 1 if left[last : last + 1] == "{" else None
