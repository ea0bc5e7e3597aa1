"""Plain text: numbers and tables for a terminal, and reading of files of limited size."""

import errno
import math
import os
import re
import shutil
import stat
import sys
import textwrap
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from integrators.errors import InputError

if TYPE_CHECKING:
    import pandas

# C0, DEL and C1, which terminals obey; line separators; characters that change the direction of
# text; and lone surrogates, which stand for bytes of file names that are not UTF-8.
CONTROLS = "\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
UNSEEN, UNSEEN_OR_NEWLINE = re.compile(f"[{CONTROLS}]"), re.compile(f"[{CONTROLS}\n]")
SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def format_number(value: Any, digits: int = 3) -> str:
    """A number with at most `digits` significant digits; an en dash for None and NaN."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    return str(value)


def escape_control_characters(text: object) -> str:
    """A label or name on one line, with control characters and newlines as escapes (``\\x1b``)."""
    return UNSEEN_OR_NEWLINE.sub(_escape_of_control_character, str(text))


def escape_controls_in_lines(text: str) -> str:
    """Lines of text, with control characters other than newlines as escapes.

    From ``\\u007f`` on, the escapes are also those of JSON, so that JSON keeps its meaning.
    """
    return UNSEEN.sub(_escape_of_control_character, text)


def _escape_of_control_character(match: re.Match[str]) -> str:
    code = ord(match.group())
    return SHORT.get(match.group()) or (f"\\x{code:02x}" if code < 0x20 else f"\\u{code:04x}")


def format_table(
    headers: Iterable[object], rows: Iterable[Sequence[object]], kept: Collection[str] = ()
) -> str:
    """Text in aligned columns: words to the left, numbers to the right.

    Cells are on one line, see `escape_control_characters`. If a terminal is too narrow, columns are
    left out, and a last line names them.

    Parameters
    ----------
    headers : sequence of str
    rows : sequence of sequence of str
    kept : collection of str, optional
        Headers of columns that are never left out.

    Returns
    -------
    str
        A header, a rule and one line for each row, without a newline at the end.
    """
    lines = [[*map(escape_control_characters, line)] for line in (headers, *rows)]
    columns = list(zip(*lines, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    right = [len(lines) > 1 and all(_is_numeric(cell) for cell in column[1:]) for column in columns]
    lines.insert(1, ["─" * width for width in widths])
    shown = _columns_that_fit(lines[0], widths, kept)
    left_out = [name for number, name in enumerate(lines[0]) if number not in shown]
    text = "\n".join(
        "  ".join(
            line[k].rjust(widths[k]) if right[k] else line[k].ljust(widths[k]) for k in shown
        ).rstrip()
        for line in lines
    )
    also = wrap_for_output(f"(a wider terminal also shows {', '.join(left_out)})")
    return f"{text}\n{also}" if left_out else text


def _columns_that_fit(
    headers: Sequence[str], widths: Sequence[int], kept: Collection[str]
) -> list[int]:
    """Indices of the columns that fit into standard output, including all that are kept.

    The last columns are left out first; the first one never.
    """
    shown, room = list(range(len(widths))), width_of_output()
    for number in reversed(shown[1:]):
        if sum(widths[k] + 2 for k in shown) - 2 > room and headers[number] not in kept:
            shown.remove(number)
    return shown


def width_of_output(most: int = sys.maxsize) -> int:
    """Width of standard output in characters: that of the terminal, but at most `most`."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return min(most, shutil.get_terminal_size().columns) if is_terminal else most


def wrap_for_output(text: str, most: int = sys.maxsize) -> str:
    """Lines of text, broken at the width of standard output, or at `most` characters."""
    width = width_of_output(most)
    lines = (textwrap.fill(line, width, break_on_hyphens=False) for line in text.split("\n"))
    return "\n".join(lines)


def _is_numeric(cell: str) -> bool:
    return cell[:1] == "–" or cell.lstrip("+-.")[:1].isdigit()


def value_for_json(value: Any) -> Any:
    """A value for JSON: NumPy numbers as Python's, tuples as lists, NaN and infinities as None."""
    if isinstance(value, dict):
        return {key: value_for_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [value_for_json(item) for item in value]
    value = value.item() if hasattr(value, "dtype") and hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def format_duration(seconds: float) -> str:
    """A duration in a suitable unit: ``12 s``, ``3.4 min``, ``2.1 h``."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def about_duration(seconds: float) -> str:
    """An expected duration in words, such as ``about 12 s``; ``0 s`` if there is nothing to do."""
    return f"about {format_duration(seconds)}" if seconds else "0 s"


def join_with_and(words: Iterable[str]) -> str:
    """Join words: ``a``, ``a and b``, ``a, b and c``."""
    *before, last = words
    return f"{', '.join(before)} and {last}" if before else last


def count_with_noun(count: int, noun: str) -> str:
    """A count with its noun: ``1 run``, ``2 runs``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def steps_in_words(every: int) -> str:
    """``every step``, or ``every 10th step`` of so many."""
    suffixes = {} if every % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}
    ordinal = f"{every}{suffixes.get(every % 10, 'th')} " if every > 1 else ""
    return f"every {ordinal}step"


def data_frame(data: Any, columns: list[str] | None = None) -> "pandas.DataFrame":
    """Make a `pandas.DataFrame`; the first call imports pandas, which takes 0.3 s.

    Parameters
    ----------
    data : list of dict, list of list, or dict of str to array
        Rows, or columns by name.
    columns : list of str, optional
        Names of the columns, if rows are lists.

    Returns
    -------
    pandas.DataFrame
    """
    import pandas

    return pandas.DataFrame(data, columns=columns)


# --- files ------------------------------------------------------------------------------------


def open_regular_file(path: Path, most: int, what: str) -> BinaryIO:
    """Open a regular file of limited size for reading, without blocking.

    Parameters
    ----------
    path : Path
    most : int
        Maximum size in bytes.
    what : str
        What the file is, with its article, for messages.

    Returns
    -------
    binary file

    Raises
    ------
    OSError
        As `open`; also for a path that no file can have.
    InputError
        If the path is a device, a pipe or a socket, or the file is too large.
    """
    # Opening a pipe could block, and a terminal could become that of this process.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    try:
        mode = os.stat(path).st_mode
    except ValueError:  # a null byte
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # opening a device can have effects
        raise InputError(f"{path} is a device, a pipe or a socket; expected {what}, a regular file")
    descriptor = os.open(path, flags)
    try:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(found.st_mode):  # replaced since the check above
            raise InputError(f"{path} is not a regular file; expected {what}")
        if found.st_size > most:
            raise InputError(
                f"{path} has {found.st_size:,} bytes; expected {what}, at most {most:,} bytes"
            )
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular_file(path: Path, most: int, what: str) -> bytes:
    """Read a regular file as `open_regular_file` opens it; raises if it grows beyond `most`."""
    with open_regular_file(path, most, what) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise InputError(f"{path} grows beyond {most:,} bytes; expected {what}")
    return data
