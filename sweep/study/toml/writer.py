"""Values as TOML: the text of a study that was built in Python."""

import reprlib
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import tomlkit
from tomlkit.items import Item

from integrators.errors import InputError
from sweep.study.format import as_written


def write_study_text(top: Mapping[str, Any], experiments: Sequence[Mapping[str, Any]]) -> str:
    """The text of a study.

    Parameters
    ----------
    top : dict
        Keys of the study itself.
    experiments : sequence of dict
        The ``[[experiment]]`` tables; a value of None is left out.

    Returns
    -------
    str

    Raises
    ------
    InputError
        If a value is none that TOML has: names its key.
    """
    document, tables = tomlkit.document(), tomlkit.aot()
    for key, value in top.items():
        document[key] = _toml_item_of_key(key, value)
    for index, experiment in enumerate(experiments):
        table = tomlkit.table()
        for key, value in experiment.items():
            if value is not None:
                table[key] = _toml_item_of_key(f"experiment[{index}].{key}", value)
        tables.append(table)
    document["experiment"] = tables
    return tomlkit.dumps(document)


def text_with_experiments(
    text: str, experiments: Sequence[Mapping[str, Any]], heading: str = ""
) -> str:
    """The text of a study and, behind it, further ``[[experiment]]`` tables.

    Parameters
    ----------
    text : str
    experiments : sequence of dict
        As of `write_study_text`.
    heading : str, optional
        Comment before each of them.

    Returns
    -------
    str
    """
    more = [f"{heading}\n{write_study_text({}, [own])}".strip() for own in experiments]
    made = "\n\n".join([text.rstrip(), *more]) + "\n"
    try:
        tomllib.loads(made)
    except tomllib.TOMLDecodeError:  # its tables are written as a list
        top = tomllib.loads(text)
        made = write_study_text(top, [*top.pop("experiment"), *experiments])
    return made if more else text


def _toml_item_of_key(key: str, value: Any) -> Item:
    try:
        return _as_toml_item(as_written(value))
    except TypeError as error:
        raise InputError(f"{key}: {error}") from None


def _as_toml_item(value: Any) -> Item:
    """A value as TOML: arrays and tables inline, since they stand within a table."""
    if isinstance(value, dict):
        table = tomlkit.inline_table()
        for key, of in value.items():
            table[key] = _as_toml_item(of)
        return table
    if isinstance(value, list):
        array = tomlkit.array()
        for of in value:
            array.append(_as_toml_item(of))
        return array.multiline(len(value) > 4 and any(isinstance(of, dict) for of in value))
    if not isinstance(value, (bool, int, float, str)):
        raise TypeError(f"expected a number, text, list or dict, got {reprlib.repr(value)}")
    return tomlkit.item(value)
