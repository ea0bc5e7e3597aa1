"""Studies' texts with values put in, their comments and layout kept."""

import math

import tomlkit

from sweep.study.toml.writer import as_item


def document(text):
    """The TOML document of a study's text, which is a valid one."""
    return tomlkit.parse(text)


def text_of(written):
    """The text of a `document`."""
    return tomlkit.dumps(written)


def experiment_tables(written):
    """The experiments' tables of a `document`, by name."""
    return {str(table["name"]): table for table in written["experiment"]}


def put(table, key, value):
    """Set a key of a table, whose place and comment stay."""
    table[key] = as_item(value)


def listed(value):
    """The elements of an array, or the one value that stands for it."""
    return list(value) if isinstance(value, list) else [value]


def push_defaults(written):
    """Write the defaults into each experiment that uses them, so that experiments stand alone."""
    defaults = written.get("defaults", {})
    for table in written["experiment"]:
        for key, value in defaults.items():
            if key not in table:
                put(table, key, _plain(value))
    written.pop("defaults", None)


def _plain(value):
    return value.unwrap() if hasattr(value, "unwrap") else value


def in_units(value, unit):
    """The number whose product with a unit is `value`, to the last bit where there is one."""
    near = value / unit
    shorter = [float(f"{near:.{digits}g}") for digits in (6, 9, 12, 15, 16)]
    for candidate in (
        *shorter, near, math.nextafter(near, math.inf), math.nextafter(near, -math.inf)
    ):  # fmt: skip
        if candidate * unit == value:
            return candidate
    return near
