"""Read and write the text of a study, with the line of each value for messages."""

import contextlib
import dataclasses
import json
import os
import re
import reprlib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tomlkit
from tomlkit.items import Item

from integrators.errors import InputError
from sweep.errors import KeyPath, Problem, StudyError
from sweep.study.study_limits import MOST_DEPTH, MOST_TEXT

if TYPE_CHECKING:
    from sweep.plugins.loader import Plugin

_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')"""
_KEYS = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_LINE = re.compile(rf"[ \t]*(?:(\[\[?)[ \t]*({_KEYS})[ \t]*\]\]?[ \t\r]*$|({_KEYS})[ \t]*=)")
_TOKEN = re.compile(r"""[][{},]|"(?:\\.|[^"\\])*"|'[^']*'|[^\s,[\]{}"']+""")
_STRING_OR_COMMENT = re.compile(
    r'"""(?:\\.|[^\\])*?""""{0,2}|\'\'\'.*?\'\'\'\'{0,2}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*',
    re.DOTALL,
)


@dataclasses.dataclass(frozen=True)
class StudyText:
    """The values of a study, with their lines in its text and the context for reading them.

    Parameters
    ----------
    name : str
        Name of the study in messages.
    data : dict
        Values as `tomllib` returns them.
    lines : dict of tuple to int
        Line of each key path in the text; empty if the study is built in Python.
    directory : Path
        Directory that paths in the study are relative to.
    plugins, kept
        As in `sweep.study.study.parse_study`.
    """

    name: str
    data: dict[str, Any]
    lines: dict[KeyPath, int] = dataclasses.field(default_factory=dict)
    directory: Path = Path(".")
    plugins: "Mapping[str, Plugin] | None" = None
    kept: object = None

    def find(self, path: KeyPath) -> tuple[KeyPath, Any]:
        """The longest part of a key path that is written in the study, and the value there.

        A key that an experiment lacks is looked for in the defaults. Index 0 of a value that is not
        a list is the value itself.
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
        """The place of a key path, ``file:line: key.path``, as far as it is written."""
        path, _ = self.find(path)
        shown = f": {format_key_path(path)}" if path else ""
        if not self.lines:
            return f"{self.name}{shown}"
        while path not in self.lines:
            path = path[:-1]
        return f"{self.name}:{self.lines[path]}{shown}"

    def explain(self, problem: Problem, under: KeyPath = ()) -> str:
        """A problem in words with its place; its path is relative to the keys `under`."""
        path, said, other, remedy = problem
        place = f"{self.where(under + path)}: {said}"
        return place if other is None else f"{place}{self.where(under + other)}{remedy}"


def format_key_path(path: KeyPath) -> str:
    """A key path as text, such as ``experiment[0].integrators[2].name``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            bare = re.fullmatch(r"[A-Za-z0-9_-]+", part)
            text += ("." if text else "") + (part if bare else json.dumps(part))
    return text


# --- reading ----------------------------------------------------------------------------------


def parse_toml(text: str, name: str, directory: str | Path = ".", **settings: Any) -> StudyText:
    """Parse the TOML text of a study.

    Parameters
    ----------
    text : str
    name : str
        Name of the text in messages.
    directory : str or Path, optional
    **settings
        Further fields of `StudyText`.

    Returns
    -------
    StudyText

    Raises
    ------
    StudyError
        If the text is not valid TOML, is too long, or is nested too deeply.
    """
    if len(text) > MOST_TEXT:
        raise StudyError(
            f"{name}: has {len(text):,} characters; at most {MOST_TEXT:,} are possible: put states "
            "into a NumPy file, or write several studies"
        )
    lines, _ = _lines_of_keys(text, name)  # checks the depth, which slows the parser
    try:
        data = tomllib.loads(text)
    except ValueError as error:  # a TOMLDecodeError, or an integer of thousands of digits
        raise _explain_syntax_error(text, name, str(error)) from None
    return StudyText(name, data, lines, Path(directory), **settings)


def _lines_of_keys(text: str, name: str) -> tuple[dict[KeyPath, int], list[tuple[str, int]]]:
    """The line of each table header, of each key that begins a line, and of each array element.

    Also the brackets that are open at the end, each with its line.
    """
    lines: dict[KeyPath, int] = {(): 1}
    last: dict[KeyPath, int] = {}  # index of the last table of each array of tables
    table: KeyPath = ()
    path: KeyPath = ()
    opened: list[tuple[str, int]] = []
    index, begins = 0, False  # of an array's next element

    def check_depth(levels: int) -> None:
        if levels > MOST_DEPTH:
            raise StudyError(
                f"{name}:{number}: arrays or tables are nested too deeply; at most {MOST_DEPTH} "
                "levels are possible"
            )

    text = _STRING_OR_COMMENT.sub(_if_it_may_be_a_key, text)
    for number, line in enumerate(text.split("\n"), 1):
        found = None if opened else _LINE.match(line)
        if found is not None:
            path = () if found[1] else table
            keys = _split_keys(found[2] or found[3])
            check_depth(len(keys))
            for key in keys:
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
                opened.append((token, number))
            elif token in "]}":
                del opened[-1:]
            check_depth(len(opened) + (token.count(".") if token[0] not in "\"'" else 0))
            if len(opened) == 1 and opened[0][0] == "[" and token in "[,":
                index, begins = (index + 1 if token == "," else 0), True
    return lines, opened


def _if_it_may_be_a_key(found: re.Match[str]) -> str:
    """Keep a string on one line, which may be a key; reduce others and comments to line breaks."""
    text = found[0]
    return "\n" * text.count("\n") if text[0] == "#" or text[:3] in ('"""', "'''") else text


def _split_keys(keys: str) -> list[str]:
    """The parts of a dotted key."""
    parts = re.findall(_KEY, keys)
    with contextlib.suppress(tomllib.TOMLDecodeError):
        return [next(iter(tomllib.loads(f"{p} = 0"))) if p[0] in "\"'" else p for p in parts]
    return parts


def _explain_syntax_error(text: str, name: str, message: str) -> StudyError:
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    if found is None:
        return StudyError(f"{name}: not valid TOML: {message}")
    what, at_end = message[: found.start()], found[1] is None
    own = text.rstrip().split("\n") if at_end else text.split("\n")[: int(found[1])]
    line, rest = len(own), "" if at_end else own[-1][int(found[2]) - 1 :].strip()
    lines, opened = _lines_of_keys("\n".join(own), name)
    bracket, begun = opened[-1] if opened else ("", line)
    if at_end:
        unclosed = f", where the {bracket!r} of line {begun} is still open" if bracket else ""
        return StudyError(f"{name}:{line}: not valid TOML: {what}, at the end of file{unclosed}")
    if bracket != "{" or rest[:1] not in ("", "#"):
        return StudyError(f"{name}:{line}: not valid TOML: {what}, at column {found[2]}")
    where = next((f"{format_key_path(path)}: " for path in lines if lines[path] == begun), "")
    return StudyError(
        f"{name}:{begun}: {where}the inline table that opens here goes on after the end of line "
        f"{line}, which TOML 1.0 forbids. Write {{ … }} on one line; only an array inside it may "
        "span several"
    )


# --- writing ----------------------------------------------------------------------------------


def as_written(value: Any) -> Any:
    """A value with TOML types: lists for tuples and NumPy arrays, strings for paths."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, dict):
        return {key: as_written(item) for key, item in value.items()}
    return list(map(as_written, value)) if isinstance(value, (list, tuple)) else value


def write_study_text(top: Mapping[str, Any], experiments: Sequence[Mapping[str, Any]]) -> str:
    """Write a study as TOML text.

    Parameters
    ----------
    top : dict
        The top-level keys of the study.
    experiments : sequence of dict
        The ``[[experiment]]`` tables; values of None are left out.

    Returns
    -------
    str

    Raises
    ------
    InputError
        If TOML has no type for a value.
    """
    document, tables = tomlkit.document(), tomlkit.aot()
    for key, value in top.items():
        document[key] = _toml_item(as_written(value))
    for experiment in experiments:
        table = tomlkit.table()
        for key, value in experiment.items():
            if value is not None:
                table[key] = _toml_item(as_written(value))
        tables.append(table)
    document["experiment"] = tables
    return tomlkit.dumps(document)


def text_with_experiments(
    text: str, experiments: Sequence[Mapping[str, Any]], heading: str = ""
) -> str:
    """Append ``[[experiment]]`` tables to the text of a study.

    Parameters
    ----------
    text : str
    experiments : sequence of dict
        Tables as in `write_study_text`.
    heading : str, optional
        Comment before each table.

    Returns
    -------
    str
    """
    more = [f"{heading}\n{write_study_text({}, [own])}".strip() for own in experiments]
    made = "\n\n".join([text.rstrip(), *more]) + "\n"
    try:
        tomllib.loads(made)
    except tomllib.TOMLDecodeError:  # its experiments are written as an array
        top = tomllib.loads(text)
        made = write_study_text(top, [*top.pop("experiment"), *experiments])
    return made if more else text


def _toml_item(value: Any) -> Item:
    """A value as a TOML item; arrays and tables are inline, since they are within a table."""
    if isinstance(value, dict):
        table = tomlkit.inline_table()
        for key, of in value.items():
            table[key] = _toml_item(of)
        return table
    if isinstance(value, list):
        array = tomlkit.array()
        for of in value:
            array.append(_toml_item(of))
        return array.multiline(len(value) > 4 and any(isinstance(of, dict) for of in value))
    if not isinstance(value, (bool, int, float, str)):
        raise InputError(f"expected a number, text, list or dict, got {reprlib.repr(value)}")
    return tomlkit.item(value)
