"""Readers of what an experiment varies: systems, step sizes, times and integrators."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from integrators.errors import InputError, check_known
from integrators.precision import ARITHMETIC, DOUBLE, DOUBLE_DOUBLE
from integrators.stepping.adaptive import check_tolerance
from sweep.errors import Gathered, StudyError, check_distinct_nodes, read_nodes_gathering_problems
from sweep.plugins.registry import Library
from sweep.study import limits
from sweep.study.experiment import (
    ENTRY_KEYS,
    TOLERANCE_KEYS,
    Axis,
    IntegratorEntry,
    check_equal_axis_lengths,
    count_scan_combinations,
    scan_combinations,
)
from sweep.study.run_id import StepSize, Tolerance
from sweep.study.system_defaults import ALL, ALL_ENTRY, DECLARED
from sweep.study.time_axis import (
    PerDecade,
    TimeAxis,
    check_range_count,
    spaced_values,
)
from sweep.study.toml.nodes import Node
from sweep.study.toml.shapes import (
    ANYTHING,
    INTEGER,
    NUMBER,
    STRING,
    Fields,
    any_of,
    choice_of,
    list_of,
    one_or_more,
    shape_of,
    shaped,
    table_of,
)
from systems import System

SPACINGS = ("linear", "log")
Family = tuple[System, ...]  # the systems of an experiment, one for each combination scanned
SETTING = any_of(NUMBER, STRING, {"type": "array", "minItems": 1})  # of a parameter


@shaped(choice_of(SPACINGS))
def _read_spacing(node: Node) -> str:
    return node.choice("spacing", SPACINGS)


RANGE = Fields(
    {
        "start": Node.number, "stop": Node.number, "count": Node.integer,
        "spacing": _read_spacing,
    },
    required=("start", "stop", "count"),
)  # fmt: skip
PER_DECADE = Fields({"per_decade": Node.integer, "first": Node.real}, required=("per_decade",))
STEP_SIZES = any_of(one_or_more(NUMBER), RANGE.shape)


@shaped(STRING)
def read_system_class(node: Node, library: Library) -> type[System]:
    """The class of the system of a `Library` that `node` names."""
    with node.context():
        return library.system_class(node.string())


@shaped(table_of({}, others=SETTING))
def read_fixed_parameters(node: Node, system: type[System]) -> dict[str, Any]:
    """A table of parameters of a class of systems, as a dict."""
    node.table(system.parameter_names(), kind="parameter")
    values = read_nodes_gathering_problems(_read_setting, [node[key] for key in node.value])
    return dict(zip(node.value, values, strict=True))


@shaped(SETTING)
def _read_setting(node: Node) -> Any:
    """A number, a string, or an array of them as a tuple."""
    if type(node.value) is list:
        return read_nodes_gathering_problems(_read_setting, node.elements())
    return node.value if type(node.value) is str else node.number()


LABELLED = Fields({"label": Node.label, "value": _read_setting}, required=("label", "value"))
SCANNED = any_of(RANGE.shape, list_of(any_of(NUMBER, STRING, LABELLED.shape)))


@shaped(table_of({}, others=SCANNED))
def read_scan_axes(
    node: Node, system: type[System], fixed: Mapping[str, Any], together: Collection[str]
) -> tuple[Axis, ...]:
    """A table of scanned parameters, as a tuple of `Axis`; those in `fixed` are refused.

    Values may stand twice on the axes named in `together`, which advance with others.
    """
    node.table(system.parameter_names(), kind="parameter")
    for key in node.value:
        if key in fixed:
            raise node[key].error(f"{key!r} is scanned here and fixed by 'parameters'")
    return read_nodes_gathering_problems(
        _read_scan_axis, [node[key] for key in node.value], together
    )


def _read_scan_axis(node: Node, together: Collection[str]) -> Axis:
    name = str(node.path[-1])
    if type(node.value) is dict:
        return Axis(name, read_value_range(node), where=node.where)
    nodes = node.elements()
    node.take(limits.NUMBERS, len(nodes))
    if type(nodes[0].value) is dict:
        for point in nodes:
            point.table(LABELLED, LABELLED.required)
        labels = tuple(point["label"].label() for point in nodes)
        values = read_nodes_gathering_problems(_read_setting, [point["value"] for point in nodes])
        check_distinct_nodes(nodes, labels, "label")
    else:
        labels = None
        read = Node.label if type(nodes[0].value) is str else _read_scalar
        values = read_nodes_gathering_problems(read, nodes)
    if name not in together:
        check_distinct_nodes(nodes, values, "value")
    return Axis(name, values, labels, where=node.where)


def _read_scalar(node: Node) -> float:
    if type(node.value) is list:
        raise node.error('a vector needs a label: write { label = "…", value = […] }')
    return node.number()


def read_value_range(node: Node) -> tuple[float, ...]:
    """A table of ``start``, ``stop``, ``count`` and ``spacing`` as a tuple of numbers."""
    given = node.fields(RANGE)
    with node.context():
        count = check_range_count(given["count"])
        node["count"].take(limits.NUMBERS, count)
        return spaced_values(
            given["start"], given["stop"], count, given.get("spacing", SPACINGS[0])
        )


def names_in_zip_groups(node: Node) -> set[str]:
    """The names in groups of axes, as far as they are any: `read_zip_groups` says what is wrong."""
    groups = node.value if type(node.value) is list else []
    return {name for group in groups if type(group) is list for name in group if type(name) is str}


@shaped(list_of(list_of(STRING, 2)))
def read_zip_groups(node: Node, scan: Sequence[Axis]) -> tuple[tuple[str, ...], ...]:
    """Groups of names of axes that advance together: scanned ones, and ``step_size``."""
    lengths = {axis.name: len(axis.values) for axis in scan}
    groups = node.elements()
    for group in groups:
        if type(group.value) is not list or len(group.value) < 2:
            raise group.expected('an array of the names of at least two axes: zip = [["a", "b"]]')
    nodes = [name for group in groups for name in group.elements()]
    names = read_nodes_gathering_problems(_read_zipped_axis, nodes, lengths)
    check_distinct_nodes(nodes, names, "axis", "; an axis is in one group, and once")
    for group in groups:
        with group.context():
            check_equal_axis_lengths(
                {name: lengths[name] for name in group.value if name in lengths}
            )
    return tuple(tuple(group.value) for group in groups)


def _read_zipped_axis(node: Node, lengths: Mapping[str, int]) -> str:
    with node.context():
        check_known("axis", node.string(), (*lengths, "step_size"))
    return node.string()


def make_system_family(
    table: Node,
    library: Library,
    system: type[System],
    fixed: Mapping[str, Any],
    scan: Sequence[Axis],
    zipped: Sequence[Sequence[str]],
) -> Family:
    """The systems of an experiment's table: a tuple, one for each combination of `scan`."""
    family = []
    table.get("scan", table).take(limits.SYSTEMS, count_scan_combinations(scan, zipped))
    for chosen in scan_combinations(scan, zipped):
        try:
            with np.errstate(all="ignore"):  # numbers that are not finite are refused
                one = library.system(system.name, {**fixed, **chosen})
                family.append(one)
                table["system"].take(limits.ROWS, one.rows)
            table["system"].take(limits.MEMORY, _system_bytes(one))
        except StudyError:
            raise
        except InputError as error:
            place = _place_of_parameter(table, scan, error.key, chosen)
            case = ", ".join(f"{name} = {value}" for name, value in chosen.items())
            raise place.error(f"{error}" + (f" (where {case})" if case else "")) from None
    if len({one.form.forced for one in family}) > 1:
        raise table["scan"].error(
            "some of these systems have a force and some have none, so that their energies are not "
            "one quantity: put them into two experiments, or give the force a size of 0, such as "
            'damping = 0 for damping = "none"'
        )
    return tuple(family)


def _system_bytes(system: System) -> int:
    """Bytes of a system's arrays, and of its parameters as Python's numbers."""
    arrays = sum(getattr(value, "nbytes", 0) for value in vars(system.form).values())
    return arrays + 100 * system.rows


def _place_of_parameter(
    table: Node, scan: Sequence[Axis], name: str | None, chosen: Mapping[str, Any]
) -> Node:
    for axis in scan:
        if axis.name == name:
            node = table["scan"][axis.name]
            is_range = type(node.value) is dict
            return node if is_range else node[axis.values.index(chosen[axis.name])]
    if name is not None and "parameters" in table and name in table["parameters"]:
        return table["parameters"][name]
    return table["system"]


# --- time, step sizes, integrators ------------------------------------------------------------


@shaped(any_of(INTEGER, PER_DECADE.shape))
def read_sample_count(node: Node) -> int | PerDecade:
    """The number of sample intervals, or so many `PerDecade`."""
    if type(node.value) is not dict:
        return node.integer()
    given = node.fields(PER_DECADE)
    return PerDecade(given["per_decade"], given.get("first"))


def make_time_axis(table: Node, duration: float, samples: int | PerDecade) -> TimeAxis:
    """The time axis of an experiment's table."""
    with table.context():
        equal = TimeAxis.uniform(duration, 1 if isinstance(samples, PerDecade) else samples)
    if not isinstance(samples, PerDecade):
        return equal
    place, largest, generated = _largest_step_size(table, samples)
    with table["samples"].context(otherwise=place):
        return samples.axis(duration, largest, generated)


def _largest_step_size(table: Node, samples: PerDecade) -> tuple[Node, float, bool]:
    """The largest step size of an experiment: where it stands, its value, whether of a range."""
    entries = table["integrators"].one_or_more() if "integrators" in table else []
    tables = [table, *(node for node in entries if type(node.value) is dict)]
    found = []
    for node in (table["step_size"] for table in tables if "step_size" in table):
        generated = type(node.value) is dict
        places = [node] if generated else node.one_or_more()
        if generated:
            given = node.fields(RANGE)
            values: Sequence[float] = [float(max(given["start"], given["stop"]))]
        else:
            values = read_nodes_gathering_problems(Node.real, places)
        found += [(place, value, generated) for place, value in zip(places, values, strict=True)]
    if found:
        return max(found, key=lambda one: one[1])
    if samples.first is None:
        raise table["samples"].error(
            "the samples are multiples of the largest step size, and there is none: give "
            "'step_size', or the time of the 'first' sample"
        )
    return table["samples"], samples.first, False


@shaped(any_of(STEP_SIZES, {"const": DECLARED}))
def read_step_sizes(
    node: Node, time_axis: TimeAxis, together: Collection[str]
) -> tuple[StepSize, ...]:
    """A number, an array or a range as step sizes; those of a range are snapped.

    Each once, unless ``step_size`` is in `together`, the names of axes that advance with others.
    """
    if node.value == DECLARED:
        return ()  # each integrator has its own
    if type(node.value) is dict:
        with node.context():
            snapped = [time_axis.snapped(float(value)) for value in read_value_range(node)]
        if "step_size" in together:
            return tuple(snapped)
        return tuple({time_axis.steps(value): value for value in snapped}.values())
    nodes = node.one_or_more()
    node.take(limits.NUMBERS, len(nodes))
    values = read_nodes_gathering_problems(Node.real, nodes)
    zipped = "step_size" in together
    _check_step_sizes_divide(node, nodes, values, time_axis, zipped)
    if zipped:
        return values
    exact = [time_axis.interval / time_axis.steps(value) for value in values]
    check_distinct_nodes(nodes, exact, "step size")
    return values


def _check_step_sizes_divide(
    node: Node,
    nodes: Sequence[Node],
    values: Sequence[StepSize],
    time_axis: TimeAxis,
    zipped: bool,
) -> None:
    """Refuse step sizes that do not divide the interval: of several, the nearest of all at once."""

    def snapped_value(place: Node) -> StepSize:
        with place.context():
            return time_axis.snapped(place.real())

    snapped = read_nodes_gathering_problems(snapped_value, nodes)
    wrong = [i for i, value in enumerate(values) if snapped[i] != value]
    if len(wrong) > 1:
        nearest = [f"{value:.10g}" for value in snapped]
        raise node.error(
            f"{len(wrong)} of {len(values)} step sizes do not divide "
            f"{time_axis.interval_in_words}; the nearest that do are "
            f"[{', '.join(nearest if zipped else dict.fromkeys(nearest))}]"
        )
    for i in wrong:
        with nodes[i].context():
            time_axis.steps(values[i])


@shaped(any_of(one_or_more(NUMBER), RANGE.shape))
def read_tolerances(node: Node, entries: Sequence[IntegratorEntry]) -> tuple[Tolerance, ...]:
    """A number, an array or a range as tolerances of those of `entries` that are adaptive."""
    found = {entry.arithmetic for entry in entries if entry.adaptive}
    arithmetic = DOUBLE_DOUBLE if found == {DOUBLE_DOUBLE} else DOUBLE
    if type(node.value) is dict:
        with node.context():
            return tuple(check_tolerance(value, arithmetic) for value in read_value_range(node))
    nodes = node.one_or_more()
    node.take(limits.NUMBERS, len(nodes))
    values = read_nodes_gathering_problems(_read_tolerance, nodes, arithmetic)
    check_distinct_nodes(nodes, values, "tolerance")
    return values


def _read_tolerance(node: Node, arithmetic: str) -> Tolerance:
    with node.context():
        return check_tolerance(node.real(), arithmetic)


def check_steps_are_used(
    table: Node,
    entries: Sequence[IntegratorEntry],
    steps: Sequence[StepSize],
    tolerances: Sequence[Tolerance],
) -> None:
    """Refuse `steps` or `tolerances` of an experiment's table that none of `entries` takes."""
    kinds = {entry.adaptive for entry in entries}
    if tolerances and "tolerance" in table.value and True not in kinds:
        raise table["tolerance"].error(
            "a tolerance is for adaptive integrators, and those of this experiment have a fixed "
            "step: leave it out, or add an adaptive one such as 'rk45'"
        )
    if steps and "step_size" in table.value and False not in kinds:
        raise table["step_size"].error(
            "a step size is for integrators with a fixed step, and those of this experiment are "
            "adaptive: leave it out, or add one such as 'rk4'"
        )


ENTRY = Fields(
    dict(
        zip(
            ENTRY_KEYS,
            (Node.string, Node.label, read_step_sizes, read_tolerances, read_tolerances),
            strict=True,
        )
    ),
    required=("name",),
)
_OWN_ENTRY = table_of(
    {key: shape_of(read) for key, read in ENTRY.items()}, ENTRY.required, ANYTHING
)
INTEGRATOR = {
    "if": {"type": "object", "required": ["name"], "properties": {"name": {"const": ALL}}},
    "then": ALL_ENTRY.shape,
    "else": any_of(STRING, _OWN_ENTRY),
}


@shaped(one_or_more(INTEGRATOR))
def read_integrator_entries(
    node: Node, family: Family, library: Library
) -> tuple[IntegratorEntry, ...]:
    """Integrators of a `Library` that fit all systems in `family`: a tuple of `IntegratorEntry`.

    Their own step sizes are not read yet, so that a mistake in the time axis hides no other.
    """
    nodes = node.one_or_more()
    node.take(limits.INTEGRATORS, len(nodes))
    node.take(limits.PAIRS, len(nodes) * len(family))
    entries = read_nodes_gathering_problems(_read_integrator_entry, nodes, family, library)
    check_distinct_nodes(
        nodes, [entry.label for entry in entries], "label", "; give each a label of its own"
    )
    return entries


def _read_integrator_entry(node: Node, family: Family, library: Library) -> IntegratorEntry:
    named, options = node, {}
    if type(node.value) is dict:
        named = node.table(required=ENTRY.required)["name"]
        options = {key: _read_option(node[key]) for key in node.value if key not in ENTRY_KEYS}
    with node.context(otherwise=named):
        integrator = library.integrator(named.string(), options)
    with named.context():
        for system in family:
            integrator.check(system)
    if ARITHMETIC in integrator.options:
        with node[ARITHMETIC].context():
            integrator.bind(family[0])
    given = [key for key in TOLERANCE_KEYS if key in node]
    if given and not integrator.adaptive:
        raise node[given[0]].error(f"{integrator.name!r} has a fixed step and no tolerance")
    if len(given) > 1:
        raise node[given[1]].error(f"means the same as {given[0]!r}: give one of them")
    if "step_size" in node and integrator.adaptive:
        counted = integrator.counted
        raise node["step_size"].error(
            f"{integrator.name!r} chooses its steps by a tolerance and has no step size"
            if counted is None
            else f"{integrator.name!r} takes as many steps as {counted.name!r} takes at a "
            "tolerance, and has no step size: leave out one of 'step_size' and 'steps_of'"
        )
    label = node.optional("label", Node.label, integrator.label)
    own = integrator.name, integrator.options
    return IntegratorEntry(label, *own, where=node.where, library=library)


def _read_option(node: Node) -> Any:
    """A number or a string; an array or a table of them, which may be empty, as tuple or dict."""
    if type(node.value) is dict:
        values = read_nodes_gathering_problems(_read_option, [node[key] for key in node.value])
        return dict(zip(node.value, values, strict=True))
    if type(node.value) is list:
        return read_nodes_gathering_problems(_read_option, node.elements(least=0))
    return _read_setting(node)


def with_own_step_sizes(
    node: Node,
    entries: Sequence[IntegratorEntry],
    time_axis: TimeAxis,
    shared: tuple[StepSize, ...],
    shared_tolerances: tuple[Tolerance, ...],
    together: Collection[str],
) -> tuple[IntegratorEntry, ...]:
    """`entries`, the integrators of `node`, with step sizes or tolerances of their own.

    Without them they take the `shared` ones of the experiment, of which there must be some.
    """
    made = []

    def read(own: Node, entry: IntegratorEntry) -> None:
        if entry.adaptive:
            mine = _tolerances_of_entry(own, entry, shared_tolerances)
            made.append(dataclasses.replace(entry, tolerances=mine))
        else:
            mine = _step_sizes_of_entry(own, time_axis, shared, together)
            made.append(dataclasses.replace(entry, step_sizes=mine))

    gather = Gathered()
    lacking = set()  # kinds: of those without a size the first is told
    for own, entry in zip(node.one_or_more(), entries, strict=True):
        keys = TOLERANCE_KEYS if entry.adaptive else ("step_size",)
        given = shared_tolerances if entry.adaptive else shared
        if given or any(key in own for key in keys):
            gather(read, own, entry)
        elif entry.adaptive not in lacking:
            gather(read, own, entry)
            lacking.add(entry.adaptive)
    gather.raise_problems()
    return tuple(made)


def _tolerances_of_entry(
    node: Node, entry: IntegratorEntry, shared: tuple[Tolerance, ...]
) -> tuple[Tolerance, ...] | None:
    for key in TOLERANCE_KEYS:
        if key in node:
            return read_tolerances(node[key], [entry])
    if not shared:
        how = "takes its steps at a tolerance" if "steps_of" in entry.options else "is adaptive"
        raise node.error(
            f"{entry.name!r} {how}, and there is no 'tolerance', neither here nor in the "
            f'experiment; write tolerance = 1e-6, or {{ name = "{entry.name}", '
            "relative_tolerance = 1e-6 }"
        )
    return None


def _step_sizes_of_entry(
    node: Node,
    time_axis: TimeAxis,
    shared: tuple[StepSize, ...],
    together: Collection[str],
) -> tuple[StepSize, ...] | None:
    if "step_size" in node:
        return read_step_sizes(node["step_size"], time_axis, together)
    if not shared:
        raise node.error("there is no 'step_size', neither here nor in the experiment")
    return None
