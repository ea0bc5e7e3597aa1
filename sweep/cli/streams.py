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
    """A text stream that has a way to write all characters.

    Its failures are `OutputFailed`, or are ignored.

    Parameters
    ----------
    stream : file object
        The stream to write to. Its other attributes are those of this object, except ``buffer``
        and ``detach``.
    is_needed : bool
        Whether what cannot be written ends the command. Standard error is not needed: nobody can
        be told, and a run goes on.
    """

    def __init__(self, stream: TextIO, is_needed: bool = True) -> None:
        self.beneath, self.is_needed = stream, is_needed

    def write(self, text: str) -> int:
        """Write text in the characters that its encoding has; return its number of characters."""
        encoding = self.beneath.encoding or "utf-8"
        with self._failing():
            self.beneath.write(text.encode(encoding, ERRORS).decode(encoding))
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


class VisibleStream(OutputStream):
    """An `OutputStream` that shows control characters other than newlines."""

    def write(self, text: str) -> int:
        """Write text with its control characters as escapes; return its number of characters."""
        super().write(escape_controls_in_lines(text))
        return len(text)


def prepare_streams() -> None:
    """Let standard output and standard error of this process take, and show, all characters."""
    for name in ("stdout", "stderr"):
        stream: TextIO | None = getattr(sys, name)
        if stream is None or isinstance(stream, VisibleStream):  # None: without a console
            continue
        beneath = cast(TextIO, OutputStream(stream, is_needed=name == "stdout"))
        setattr(sys, name, VisibleStream(beneath))


def raw_terminal_stream(stream: TextIO) -> TextIO:
    """The stream that passes control sequences on, as progress bars and redrawn tables need."""
    return stream.beneath if isinstance(stream, VisibleStream) else stream


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
