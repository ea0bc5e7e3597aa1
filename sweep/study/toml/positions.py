"""The line on which each key of a TOML text stands, which `tomllib` does not tell."""

import bisect
import contextlib
import itertools
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass

from sweep.study.limits import MOST_DEPTH

_SPACE = re.compile(r"[ \t]*")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*'""")
_SCALAR = re.compile(
    r'"""(?:\\.|[^\\])*?""""{0,2}'  # up to two quotes may precede the closing three
    r"|'''.*?''''{0,2}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"""|[^\s,\[\]{}#"'=][^,\]}#\n]*""",
    re.DOTALL,
)


KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class BrokenInline:
    """An inline table with a line break in it, which TOML 1.0 forbids."""

    path: KeyPath
    opened: int  # line of its brace
    broken: int  # line that ends inside it


@dataclass(frozen=True)
class Scan:
    """What a scan found, up to the first character that it could not read."""

    lines: dict[KeyPath, int]  # key path, a tuple of str and int -> line, from 1
    broken: BrokenInline | None
    too_deep: int | None  # line of the first key path that is too long


def scan_key_positions(text: str, most_depth: int = MOST_DEPTH) -> Scan:
    """Scan a TOML text.

    Parameters
    ----------
    text : str
        Valid or not.
    most_depth : int, optional
        Parts of a key path, of arrays and tables in each other; the scan ends where one has more.

    Returns
    -------
    Scan
    """
    scanner, too_deep = _Scanner(text, most_depth), None
    with contextlib.suppress(_Unreadable):  # what was found so far still helps
        try:
            scanner.document()
        except _TooDeep:
            too_deep = scanner.line()
    return Scan(scanner.lines, scanner.broken, too_deep)


class _Unreadable(Exception):
    pass


class _TooDeep(Exception):
    pass


class _Scanner:
    def __init__(self, text: str, most_depth: int) -> None:
        self.text = text
        self.most_depth = most_depth
        self.at = 0
        self.newlines = [match.start() for match in re.finditer("\n", text)]
        self.lines: dict[KeyPath, int] = {(): 1}
        self.last: dict[KeyPath, int] = {}  # array of tables -> index of its last table
        self.broken: BrokenInline | None = None

    def line(self) -> int:
        return bisect.bisect_left(self.newlines, self.at) + 1

    def match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise _Unreadable
        self.at = found.end()
        return found.group()

    def sees(self, token: str) -> bool:
        return self.text.startswith(token, self.at)

    def takes(self, token: str) -> bool:
        seen = self.sees(token)
        self.at += len(token) * seen
        return seen

    def note(self, path: KeyPath, line: int) -> None:
        """Keep the line of a key path, unless that stands on one before."""
        if len(path) > self.most_depth:
            raise _TooDeep
        self.lines.setdefault(path, line)

    def expect(self, token: str) -> None:
        self.match(_SPACE)
        if not self.takes(token):
            raise _Unreadable

    def document(self) -> None:
        table: KeyPath = ()
        self.match(_BLANK)
        while self.at < len(self.text):
            if self.sees("["):
                table = self.header()
            else:
                self.pair(table)
            self.match(_BLANK)

    def header(self) -> KeyPath:
        """A line ``[a.b]`` or ``[[a.b]]``; returns the path of the table that it opens."""
        line = self.line()
        path: KeyPath = ()
        is_array = self.sees("[[")
        self.expect("[[" if is_array else "[")
        for key in self.keys():
            if path in self.last:  # [a.b] below [[a]] is in the last of the a
                path += (self.last[path],)
            path += (key,)
            self.note(path, line)
        self.expect("]]" if is_array else "]")
        if is_array:
            self.last[path] = self.last.get(path, -1) + 1
            path += (self.last[path],)
            self.lines[path] = line
        return path

    def pair(self, table: KeyPath) -> None:
        line = self.line()
        for key in self.keys():
            table += (key,)
            self.note(table, line)
        self.expect("=")
        self.match(_SPACE)
        self.value(table)

    def keys(self) -> Iterator[str]:
        """The parts of a dotted key."""
        while True:
            self.match(_SPACE)
            key = self.match(_KEY)
            yield _unquote_key(key) if key[0] in "\"'" else key
            self.match(_SPACE)
            if not self.takes("."):
                return

    def value(self, path: KeyPath) -> None:
        if self.sees("["):
            self.array(path)
        elif self.sees("{"):
            self.inline_table(path)
        else:
            self.match(_SCALAR)

    def array(self, path: KeyPath) -> None:
        self.expect("[")
        for index in itertools.count():
            self.match(_BLANK)
            if self.takes("]"):
                return
            self.note(path + (index,), self.line())
            self.value(path + (index,))
            self.match(_BLANK)
            if not self.takes(",") and not self.sees("]"):
                raise _Unreadable

    def inline_table(self, path: KeyPath) -> None:
        opened = self.line()
        self.expect("{")
        while True:
            self.inline_space(path, opened)
            if self.takes("}"):
                return
            self.pair(path)
            self.inline_space(path, opened)
            if not self.takes(",") and not self.sees("}"):
                raise _Unreadable

    def inline_space(self, path: KeyPath, opened: int) -> None:
        self.match(_SPACE)
        if self.broken is None and re.match(r"\r?\n|#", self.text[self.at : self.at + 2]):
            self.broken = BrokenInline(path, opened, self.line())
        self.match(_BLANK)


def _unquote_key(key: str) -> str:
    try:
        return next(iter(tomllib.loads(f"{key} = 0")))
    except tomllib.TOMLDecodeError:
        raise _Unreadable from None
