"""What reaches the terminal: text in which nothing but the program itself moves the cursor.

Labels, file names, lock files and error texts may come from others. Whatever is written to standard
output and standard error, tracebacks and warnings too, shows their control characters as escapes;
the program's own control sequences are written to `raw_terminal_stream`.
"""

import sys
from collections.abc import Iterable
from typing import Any, TextIO

from sweep.text import escape_controls_in_lines


class VisibleStream:
    """A text stream that shows control characters other than newlines.

    Parameters
    ----------
    stream : file object
        The stream to write to. Its other attributes are those of this object, except ``buffer``
        and ``detach``.
    """

    def __init__(self, stream: TextIO) -> None:
        self.beneath = stream

    def write(self, text: str) -> int:
        """Write text with its control characters as escapes; return its number of characters."""
        self.beneath.write(escape_controls_in_lines(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts, as `write` does."""
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        if name in ("buffer", "detach"):  # bytes written there would not be escaped
            raise AttributeError(name)
        return getattr(self.beneath, name)


def show_control_characters() -> None:
    """Let standard output and standard error of this process show control characters."""
    for name in ("stdout", "stderr"):
        stream: TextIO | None = getattr(sys, name)
        if stream is not None:  # as in a process without a console
            setattr(sys, name, VisibleStream(raw_terminal_stream(stream)))


def raw_terminal_stream(stream: TextIO) -> TextIO:
    """The stream that passes control sequences on, as progress bars and redrawn tables need."""
    return stream.beneath if isinstance(stream, VisibleStream) else stream
