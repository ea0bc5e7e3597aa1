"""What reaches the terminal: text in which nothing but the program itself moves the cursor.

Labels, file names, lock files and error texts are other people's. Whatever is written to standard
output and standard error, tracebacks and warnings too, shows their control characters as escapes;
the few sequences of our own go to `raw_terminal_stream`.
"""

import sys

from sweep.text import escape_controls_in_lines


class VisibleStream:
    """A text stream that shows control characters other than newlines.

    Parameters
    ----------
    stream : file object
        Where it is written to; it has all else that is asked for, but for ``buffer``.
    """

    def __init__(self, stream):
        self.beneath = stream

    def write(self, text):
        """Write text, by `sweep.text.escape_controls_in_lines`; the number of its characters."""
        self.beneath.write(escape_controls_in_lines(text))
        return len(text)

    def writelines(self, lines):
        """Write several."""
        self.write("".join(lines))

    def __getattr__(self, name):
        if name in ("buffer", "detach"):  # by which bytes would come past
            raise AttributeError(name)
        return getattr(self.beneath, name)


def show_control_characters():
    """Let standard output and standard error of this process show control characters."""
    if sys.stdout is not None:
        sys.stdout = VisibleStream(raw_terminal_stream(sys.stdout))
    if sys.stderr is not None:
        sys.stderr = VisibleStream(raw_terminal_stream(sys.stderr))


def raw_terminal_stream(stream):
    """The stream that takes control characters: for progress bars and what is drawn again."""
    return stream.beneath if isinstance(stream, VisibleStream) else stream
