"""Printing to standard output as text or JSON, and writing of files."""

import contextlib
import importlib.resources
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from integrators.errors import InputError
from sweep.cli.streams import holds_all_characters, raw_terminal_stream
from sweep.store.backends.places import require_local_path
from sweep.text import format_number, format_table, value_for_json


def json_for_output(value: object, **options: Any) -> str:
    """A value as JSON, in ASCII if the encoding of standard output lacks characters."""
    return json.dumps(value, ensure_ascii=not holds_all_characters(sys.stdout), **options)


def echo_json(value: object) -> None:
    """Print a value as JSON, with null for NaN and infinities."""
    click.echo(json_for_output(value_for_json(value), indent=2))


def echo(facts: object, text: object, as_json: bool) -> None:
    """Print facts as JSON, or a text."""
    echo_json(facts) if as_json else click.echo(text)


def echo_document(text: str) -> None:
    """Print a text unchanged, except that a terminal shows control characters as escapes."""
    if sys.stdout.isatty():
        click.echo(text.replace("\r\n", "\n").expandtabs())
    else:
        click.echo(text, file=raw_terminal_stream(sys.stdout))


def rows_as_text(
    rows: Sequence[Mapping[str, Any]], cell: Callable[[Any], str] = format_number
) -> str:
    """Format rows with the same keys as a table.

    Parameters
    ----------
    rows : sequence of mapping
    cell : callable, optional
        Formats a value.

    Returns
    -------
    str
    """
    cells = [[cell(value) for value in row.values()] for row in rows]
    return format_table(rows[0], cells)


@contextlib.contextmanager
def writing(path: str | Path, key: str | None = None, place: str = "path") -> Iterator[None]:
    """Context in which a file is written; failures to write it become an `InputError`.

    Parameters
    ----------
    path : str or Path
    key : str, optional
        The argument that the error is about.
    place : str, optional
        What the user should change if the file already exists.
    """
    try:
        yield
    except FileExistsError:
        raise InputError(
            f"{path} exists; give another {place}, or remove it first", key=key
        ) from None
    except InputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: the name has a null byte
        why = getattr(error, "strerror", error)
        raise InputError(f"{path} cannot be written: {why}", key=key) from None


def write_from_template(template: str, path: str, changes: Mapping[str, str]) -> Path:
    """Write a file of `sweep/cli/templates` to a new file.

    Parameters
    ----------
    template : str
        Name of the template.
    path : str
    changes : mapping of str to str
        Replacements by the text that they replace.

    Returns
    -------
    Path
    """
    folder = importlib.resources.files("sweep").joinpath("cli", "templates")
    text = folder.joinpath(template).read_text("utf-8")
    for old, new in changes.items():
        text = text.replace(old, new)
    target = require_local_path(path)
    with writing(path), target.open("x", encoding="utf-8") as file:
        file.write(text)
    return target


def path_of_new_file(path: str, key: str, what: str = "file", endings: Sequence[str] = ()) -> Path:
    """Check, before any work is done, that a file can be written; return its path.

    Parameters
    ----------
    path : str
    key : str
        The argument that an error is about.
    what : str, optional
        What the file is, for the message.
    endings : sequence of str, optional
        Allowed endings, regardless of case; any by default.

    Returns
    -------
    Path

    Raises
    ------
    InputError
        If the ending is not allowed, the path is a directory, or its directory does not exist.
    """
    target = require_local_path(path)
    if endings and target.suffix.lower() not in endings:
        raise InputError(
            f"`{key}` {path}: a {what} cannot end in {target.suffix or 'nothing'}; expected one of "
            f"{', '.join(endings)}",
            key=key,
        )
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise InputError(f"`{key}` {path}: expected a file in a directory that exists", key=key)
    return target
