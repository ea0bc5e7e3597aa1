"""Output streams that are safe to print untrusted text to.

Labels, file names, lease files and error texts may contain control sequences, which could move the
cursor or hide text. Standard output and standard error show control characters as escapes, in
tracebacks and warnings too; the program writes its own control sequences to `raw_terminal_stream`.
Characters that the encoding lacks are written in ASCII: ``<=`` for ≤, ``lambda`` for λ.
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
    "λ": "lambda",  # Unicode spells it "lamda"
    "\N{COMBINING DOT ABOVE}": "'", "\N{COMBINING CIRCUMFLEX ACCENT}": "^",
}  # fmt: skip
ERRORS = "geosweep"  # the name by which encoders know `_replace_by_ascii`
FULL = (errno.ENOSPC, errno.EDQUOT)


class OutputFailed(Exception):
    """Standard output cannot be written.

    Parameters
    ----------
    number : int
        The operating system's error number (``errno``).
    """

    def __init__(self, number: int) -> None:
        fault = "is full" if number in FULL else "cannot be written"
        super().__init__(f"standard output {fault}: {os.strerror(number)}")
        self.is_closed_pipe = number == errno.EPIPE


class OutputStream:
    """A text stream that can write every character, and shows control characters as escapes.

    Attributes that it lacks are those of the stream beneath, except ``buffer`` and ``detach``.

    Parameters
    ----------
    stream : file object
        The stream to write to.
    is_needed : bool
        Whether a failure to write raises `OutputFailed`. Failures of standard error are ignored,
        since they cannot be reported, and the run should go on.
    is_raw : bool
        Whether control characters are passed on unchanged.
    """

    def __init__(self, stream: TextIO, is_needed: bool = True, is_raw: bool = False) -> None:
        self.beneath, self.is_needed, self.is_raw = stream, is_needed, is_raw

    def write(self, text: str) -> int:
        """Write text in characters that the encoding has; return the number of characters."""
        encoding = self.beneath.encoding or "utf-8"
        shown = text if self.is_raw else escape_controls_in_lines(text)
        with self._output_errors():
            self.beneath.write(shown.encode(encoding, ERRORS).decode(encoding))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts, as `write` does."""
        self.write("".join(lines))

    def flush(self) -> None:
        """Flush the stream beneath."""
        with self._output_errors():
            self.beneath.flush()

    @contextlib.contextmanager
    def _output_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if self.is_needed:
                raise OutputFailed(error.errno or errno.EIO) from None

    def __getattr__(self, name: str) -> Any:
        if name in ("buffer", "detach"):  # bytes written to these would not be escaped
            raise AttributeError(name)
        return getattr(self.beneath, name)


def prepare_streams() -> None:
    """Replace standard output and standard error of this process by an `OutputStream`."""
    for name in ("stdout", "stderr"):
        stream: TextIO | None = getattr(sys, name)  # None if the process has no console
        if stream is not None and not isinstance(stream, OutputStream):
            setattr(sys, name, OutputStream(stream, is_needed=name == "stdout"))


def raw_terminal_stream(stream: TextIO) -> TextIO:
    """The stream without escaping, for progress bars and redrawn tables."""
    if isinstance(stream, OutputStream):
        return cast(TextIO, OutputStream(stream.beneath, stream.is_needed, is_raw=True))
    return stream


def is_terminal(stream: TextIO) -> bool:
    """Whether a stream is a terminal that can redraw lines."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def rich_console(stream: TextIO) -> "Console":
    """A console of `rich` that writes control sequences to a stream unescaped."""
    from rich.console import Console

    return Console(file=raw_terminal_stream(stream), highlight=False)


def holds_all_characters(stream: TextIO) -> bool:
    """Whether the encoding of a stream has all characters of Unicode."""
    return codecs.lookup(stream.encoding or "utf-8").name.startswith("utf")


def _replace_by_ascii(error: UnicodeError) -> tuple[str, int]:
    """Error handler for `codecs.register_error` that writes characters in ASCII."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text, raised = "", error.start and _is_raised(error.object[error.start - 1])
    for character in error.object[error.start : error.end]:
        text += "^" * (_is_raised(character) and not raised) + _in_ascii(character)
        raised = _is_raised(character)
    return text, error.end


def _is_raised(character: str) -> bool:
    """Whether a character is a superscript; a ^ is written before the first of a sequence."""
    return unicodedata.decomposition(character).startswith("<super>")


def _in_ascii(character: str) -> str:
    """A character in ASCII: its decomposition, the name of a Greek letter, or an escape."""
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
