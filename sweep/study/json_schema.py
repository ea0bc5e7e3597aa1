"""The JSON Schema of study files: what the reader takes, and the names that there are to choose.

Editors complete and check by it while a study is written. It refuses nothing that the reader
accepts; what takes a look at several values together, the reader alone finds.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

import integrators
import systems
from integrators.errors import InputError
from integrators.method import STEPS_OF
from integrators.options import Option
from integrators.precision import ARITHMETIC, ARITHMETICS
from sweep.plugins.registry import BUILT_IN, Library, with_installed_plugins
from sweep.study.format import ALL, Defaults, Entry, ExperimentTable, StudyTable
from sweep.study.resolve import BESIDES

DIALECT = "http://json-schema.org/draft-07/schema#"  # which editors of TOML know
Shape = dict[str, Any]


def study_schema() -> Shape:
    """The JSON Schema of a study's file, with what is built in or installed.

    A study with plugins may name what these add: then any name will do.

    Returns
    -------
    dict
        Of lists, dicts, strings and numbers, as `json.dump` takes it.
    """
    library = with_installed_plugins(BUILT_IN, "system")
    library = with_installed_plugins(library, "integrator")
    kinds: list[type[systems.System]] = [*systems.ALL_SYSTEMS, *library.systems]
    known_systems = _choice_of(kind.name for kind in kinds)
    made = [method.name for method in integrators.ALL_INTEGRATORS if method.made_of is not None]
    known_integrators = _choice_of([ALL, *integrators.names(library.methods), *made])
    top, defaults, experiment = (
        table.model_json_schema(ref_template="#/definitions/{model}")
        for table in (StudyTable, Defaults, ExperimentTable)
    )
    definitions = defaults.pop("$defs") | experiment.pop("$defs")
    offered = experiment["properties"]  # by editors
    offered["system"] = _any_of(known_systems, offered["system"])
    offered["integrators"] = _any_of(known_integrators, offered["integrators"])
    required = experiment["required"]  # which may stand in the defaults
    experiment["required"] = [key for key in required if key not in Defaults.model_fields]
    experiment["allOf"] = [_experiment_shape_of_system(kind, library) for kind in kinds]
    top["properties"] |= {"defaults": defaults, "experiment": _list_of(experiment, 1)}
    methods = map(_entry_shape_of_method, (*integrators.ALL_INTEGRATORS, *library.methods))
    entry = _shape_of_one_or_list(
        known_integrators, {"properties": {"name": known_integrators}, "allOf": list(methods)}
    )
    named = {
        "defaults": {"properties": {"integrators": entry}},
        "experiment": {"items": {"properties": {"system": known_systems, "integrators": entry}}},
    }
    without_plugins = {"properties": {"plugins": {"maxItems": 0}}}
    return {
        **top,
        "$schema": DIALECT,
        "title": "A study of Geosweep",
        "definitions": definitions,
        "allOf": [
            *map(_required_key_shape, required),
            {"if": without_plugins, "then": {"properties": named}},
        ],
    }


def _list_of(shape: Shape, least: int = 0) -> Shape:
    return {"type": "array", "items": shape, "minItems": least}


def _any_of(*shapes: Shape) -> Shape:
    return {"anyOf": list(shapes)}


def _choice_of(names: Iterable[str]) -> Shape:
    return {"enum": list(names)}


def _required_key_shape(key: str) -> Shape:
    """Shape of a study in which each experiment, or the defaults, have a required key."""
    in_each = {"properties": {"experiment": {"items": {"required": [key]}}}}
    if key not in Defaults.model_fields:
        return in_each
    in_defaults = {"required": ["defaults"], "properties": {"defaults": {"required": [key]}}}
    return _any_of(in_defaults, in_each)


def _shape_of_one_or_list(word: Shape, table: Shape) -> Shape:
    """What holds for a word, and what for a table; for each of them in an array."""
    one = {"if": {"type": "string"}, "then": word, "else": table}
    return {"if": {"type": "array"}, "then": {"items": one}, "else": one}


def _entry_shape_of_method(method: integrators.Method) -> Shape:
    """What an entry of an integrator may say, if it is of this method."""
    options = {key: _option_shape(option) for key, option in method.options.items()}
    options |= {STEPS_OF: {"type": "string"}, ARITHMETIC: _choice_of(ARITHMETICS)}
    known = {"propertyNames": _choice_of([*Entry.model_fields, *options])}
    if method.made_of is not None:  # its options are those of what they make
        options, known = {}, {}
    return {
        "if": {"properties": {"name": {"pattern": f"^{method.name}(\\+|$)"}}},
        "then": {"properties": options} | known,
    }


def _option_shape(option: Option) -> Shape:
    if option.read is not None:
        return {}
    if option.choices:
        return _choice_of(option.choices)
    shape: Shape = {"type": "integer" if option.whole else "number"}
    if not option.positive and np.isfinite(option.least):
        shape["minimum"] = option.least
    if option.positive:
        shape["exclusiveMinimum"] = 0
    if np.isfinite(option.most):
        shape["maximum"] = option.most
    return shape


def _experiment_shape_of_system(kind: type[systems.System], library: Library) -> Shape:
    """What an experiment may say, if it is of this system."""
    parameters: dict[str, Shape] = dict.fromkeys(kind.parameter_names(), {})
    of_parameters = {"properties": parameters, "additionalProperties": False}
    starts = [start.name for start in kind.named_starts]
    starts += [family.name for family in kind.families]
    try:
        recorded = [quantity.name for quantity in library.quantities(kind())]
    except InputError:  # with the defaults there is none
        recorded = []
    known = _any_of(_choice_of([*recorded, *BESIDES]), {})  # parameters and plugins add others
    return {
        "if": {"properties": {"system": {"const": kind.name}}},
        "then": {
            "properties": {
                "parameters": of_parameters,
                "scan": of_parameters,
                "initial_condition": _shape_of_one_or_list(_choice_of(starts), {}),
                "record": _list_of(known),
            }
        },
    }
