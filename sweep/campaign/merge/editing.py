"""Studies' texts with values put in, their comments and layout kept."""

import math

import tomlkit

from sweep.study.toml.writer import as_toml_item


def parse_toml_document(text):
    """The TOML document of a study's text, which is a valid one."""
    return tomlkit.parse(text)


def text_of_toml_document(written):
    """The text of a `parse_toml_document`."""
    return tomlkit.dumps(written)


def experiment_tables(written):
    """The experiments' tables of a `parse_toml_document`, by name."""
    return {str(table["name"]): table for table in written["experiment"]}


def set_table_key(table, key, value):
    """Set a key of a table, whose place and comment stay."""
    table[key] = as_toml_item(value)


def elements_as_list(value):
    """The elements of an array, or the one value that stands for it."""
    return list(value) if isinstance(value, list) else [value]


def push_defaults_into_experiments(written):
    """Write the defaults into each experiment that uses them, so that experiments stand alone."""
    defaults = written.get("defaults", {})
    for table in written["experiment"]:
        for key, value in defaults.items():
            if key not in table:
                set_table_key(table, key, unwrap_toml_value(value))
    written.pop("defaults", None)


def unwrap_toml_value(value):
    """A value of a document as Python's own."""
    return value.unwrap() if hasattr(value, "unwrap") else value


def exact_multiple_of_unit(value, unit):
    """The number whose product with a unit is `value`, to the last bit where there is one."""
    near = value / unit
    shorter = [float(f"{near:.{digits}g}") for digits in (6, 9, 12, 15, 16)]
    for candidate in (
        *shorter, near, math.nextafter(near, math.inf), math.nextafter(near, -math.inf)
    ):  # fmt: skip
        if candidate * unit == value:
            return candidate
    return near
