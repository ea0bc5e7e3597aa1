"""What reaches the terminal: text in which nothing but the program itself moves the cursor.

Labels, file names, lock files and error texts may come from others. Whatever is written to standard
output and standard error, tracebacks and warnings too, shows their control characters as escapes;
the program's own control sequences are written to `raw_terminal_stream`. Where the encoding of the
terminal has no sign for a character, it is written in ASCII: ``<=`` for ≤, ``lambda`` for λ.
"""

import codecs
import contextlib
import errno
import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TextIO, cast

from sweep.text import escape_controls_in_lines

if TYPE_CHECKING:
    from rich.console import Console

IN_ASCII = {
    "─": "-", "–": "-", "—": "-", "−": "-", "±": "+-", "×": "x", "·": "*", "≤": "<=", "≥": ">=",
    "≈": "~", "√": "sqrt ", "⁄": "/", "‖": "||", "→": "->", "°": " deg", "∞": "inf",
    "λ": "lambda",  # which Unicode spells otherwise
    "\N{COMBINING DOT ABOVE}": "'", "\N{COMBINING CIRCUMFLEX ACCENT}": "^",
}  # fmt: skip
ERRORS = "geosweep"  # the name by which encoders know `_replace_by_ascii`
FULL = (errno.ENOSPC, errno.EDQUOT)


class OutputFailed(Exception):
    """Standard output cannot be written.

    Parameters
    ----------
    number : int
        The operating system's number of the error.
    """

    def __init__(self, number: int) -> None:
        fault = "is full" if number in FULL else "cannot be written"
        super().__init__(f"standard output {fault}: {os.strerror(number)}")
        self.is_closed_pipe = number == errno.EPIPE


class OutputStream:
    """A text stream that has a way to write all characters, and shows control characters.

    Its failures are `OutputFailed`, or are ignored.

    Parameters
    ----------
    stream : file object
        The stream to write to. Its other attributes are those of this object, except ``buffer``
        and ``detach``.
    is_needed : bool
        Whether what cannot be written ends the command. Standard error is not needed: nobody can
        be told, and a run goes on.
    is_raw : bool
        Whether control characters are passed on, rather than shown as escapes.
    """

    def __init__(self, stream: TextIO, is_needed: bool = True, is_raw: bool = False) -> None:
        self.beneath, self.is_needed, self.is_raw = stream, is_needed, is_raw

    def write(self, text: str) -> int:
        """Write text in the characters that its encoding has; return its number of characters."""
        encoding = self.beneath.encoding or "utf-8"
        shown = text if self.is_raw else escape_controls_in_lines(text)
        with self._failing():
            self.beneath.write(shown.encode(encoding, ERRORS).decode(encoding))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts, as `write` does."""
        self.write("".join(lines))

    def flush(self) -> None:
        """Write what is not written yet."""
        with self._failing():
            self.beneath.flush()

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if self.is_needed:
                raise OutputFailed(error.errno or errno.EIO) from None

    def __getattr__(self, name: str) -> Any:
        if name in ("buffer", "detach"):  # bytes written there would not be escaped
            raise AttributeError(name)
        return getattr(self.beneath, name)


def prepare_streams() -> None:
    """Let standard output and standard error of this process take, and show, all characters."""
    for name in ("stdout", "stderr"):
        stream: TextIO | None = getattr(sys, name)  # None: without a console
        if stream is not None and not isinstance(stream, OutputStream):
            setattr(sys, name, OutputStream(stream, is_needed=name == "stdout"))


def raw_terminal_stream(stream: TextIO) -> TextIO:
    """The stream that passes control sequences on, as progress bars and redrawn tables need."""
    if isinstance(stream, OutputStream):
        return cast(TextIO, OutputStream(stream.beneath, stream.is_needed, is_raw=True))
    return stream


def is_terminal(stream: TextIO) -> bool:
    """Whether lines that a stream shows can be drawn anew."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def rich_console(stream: TextIO) -> "Console":
    """A console of `rich` on a stream, whose control sequences are passed on."""
    from rich.console import Console

    return Console(file=raw_terminal_stream(stream), highlight=False)


def holds_all_characters(stream: TextIO) -> bool:
    """Whether the encoding of a stream has all characters."""
    return codecs.lookup(stream.encoding or "utf-8").name.startswith("utf")


def _replace_by_ascii(error: UnicodeError) -> tuple[str, int]:
    """Handle an error of encoding, as `codecs.register_error` asks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text, raised = "", error.start and _is_raised(error.object[error.start - 1])
    for character in error.object[error.start : error.end]:
        text += "^" * (_is_raised(character) and not raised) + _in_ascii(character)
        raised = _is_raised(character)
    return text, error.end


def _is_raised(character: str) -> bool:
    """Whether it is a superscript: of several, one ^ stands before the first."""
    return unicodedata.decomposition(character).startswith("<super>")


def _in_ascii(character: str) -> str:
    """What stands for a character: what it is made of, a Greek letter's name, or its escape."""
    made_of = unicodedata.normalize("NFKD", character)
    name = unicodedata.name(character, "").partition("GREEK ")[2].split()
    if character.isascii() or character in IN_ASCII:
        return IN_ASCII.get(character, character)
    if made_of != character:
        return "".join(map(_in_ascii, made_of))
    if name:
        return name[-1].title() if character.isupper() else name[-1].lower()
    if unicodedata.combining(character):
        return ""
    return character.encode("ascii", "backslashreplace").decode()


codecs.register_error(ERRORS, _replace_by_ascii)
