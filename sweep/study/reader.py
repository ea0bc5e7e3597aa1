"""From the text of a study to its experiments: every value is read and checked here."""

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import integrators
import systems
from integrators.compiler.elements import DOUBLE_DOUBLE
from integrators.errors import InputError
from integrators.method import STEPS_OF
from integrators.precision import ARITHMETIC, DOUBLE
from integrators.stepping.adaptive import MOST_STEPS
from sweep.errors import (
    CannotUnite,
    Gathered,
    StudyError,
    check_distinct_nodes,
    read_nodes_gathering_problems,
)
from sweep.plugins import checks
from sweep.plugins.registry import (
    BUILT_IN,
    Library,
    family_without_observable_clashes,
    read_plugin_library,
    with_installed_plugins,
)
from sweep.study import axes, limits, schema, structure, system_defaults
from sweep.study.axes import Family
from sweep.study.exclude import Condition, Rule
from sweep.study.experiment import (
    STATISTICS,
    Axis,
    IntegratorEntry,
    PreciseReference,
    Reference,
    ResolvedExperiment,
    unite_experiments,
)
from sweep.study.initial_conditions import reader as conditions
from sweep.study.initial_conditions.base import Start
from sweep.study.schema import CHAOS, LYAPUNOV, MEGNO, STRUCTURE, lyapunov_names
from sweep.study.time_axis import TimeAxis
from sweep.study.toml.nodes import Node
from sweep.study.toml.shapes import (
    NUMBER,
    STRING,
    Fields,
    any_of,
    choice_of,
    list_of,
    shaped,
    table_of,
)
from systems import Quantity
from systems.base import CONSERVED

FORMAT = 1
Columns = Mapping[str, Sequence[str] | None]  # labels of each; None of numbers
NAME = "[A-Za-z0-9][A-Za-z0-9_.-]*"  # of a study, as for a file
DIGITS = 1e-24  # a usual tolerance of references in double-double
STEPS = ("step_size", "rejected_steps")  # of the step control, along the run
BESIDES = ("state", *STEPS, *STRUCTURE, LYAPUNOV, MEGNO)  # what is recorded besides quantities
RECORDED = (*CONSERVED, "constraint")  # kinds, where a study says nothing


def read_study(top: Node) -> dict[str, Any]:
    """Read the top table of a study.

    Parameters
    ----------
    top : Node

    Returns
    -------
    dict
        ``name``, ``description``, ``library`` and ``experiments``, a tuple of
        `ResolvedExperiment`.

    Raises
    ------
    StudyError
        With every problem that was found.
    """
    gather = Gathered()
    read = _make_key_reader(top, gather, STUDY)
    gather(top.table, STUDY, STUDY.required)
    library = read("plugins", default=BUILT_IN)
    defaults = read("defaults", default=None)
    read("format")
    found = {
        "name": read("name"),
        "description": read("description", default=""),
        "experiments": read("experiment", defaults, library),
        "library": library,
    }
    gather.raise_problems()
    return found


def _make_key_reader(table: Node, gather: Gathered, fields: Fields) -> Callable[..., Any]:
    """A function that reads a key of `table`, and keeps its problems in `gather`.

    It is read as the `Fields` say, or by another function.
    """

    def read(
        key: str, *needs: Any, by: Callable[..., Any] | None = None, default: Any = Gathered.FAILED
    ) -> Any:
        return gather(by or fields[key], table[key], *needs) if key in table else default

    return read


@shaped({"const": FORMAT})
def _check_study_format(node: Node) -> None:
    if node.integer() != FORMAT:
        raise node.error(f"this version reads format {FORMAT}, got {node.value}")


@shaped({"type": "string", "pattern": f"^{NAME}$"})
def _read_study_name(node: Node) -> str:
    if not re.fullmatch(NAME, node.label()):
        raise node.error(
            f"expected letters, digits, '_', '-' and '.', as for a file, got {node.value!r}"
        )
    return node.label()


@shaped(list_of(STRING, 0))
def _read_plugins(node: Node) -> Library:
    return read_plugin_library(node)


@shaped({"type": "string"})
def _read_description(node: Node) -> str:
    return node.string() if node.value != "" else ""


def _read_defaults(node: Node) -> Node:
    return node.table(DEFAULTS)


def _read_experiments(
    node: Node, defaults: Node | None, library: Library
) -> tuple[ResolvedExperiment, ...]:
    if type(node.value) is dict:
        raise node.error("expected an array of tables, got a table; write [[experiment]]")
    tables = node.elements()
    node.take(limits.EXPERIMENTS, len(tables))
    nodes = [dataclasses.replace(table.table(), fallback=defaults) for table in tables]
    try:
        found = read_nodes_gathering_problems(_read_experiment, nodes, library)
    except StudyError as error:
        raise StudyError(*_once_for_each_default(error.problems)) from None
    grids: dict[str, list[ResolvedExperiment]] = {}
    for grid in found:
        grids.setdefault(grid.name, []).append(grid)
    gather = Gathered()
    last = {table["name"].value: table["name"] for table in nodes}
    united = tuple(gather(_unite_grids, last[name], own) for name, own in grids.items())
    gather.raise_problems()
    return united


def _unite_grids(name: Node, grids: Sequence[ResolvedExperiment]) -> ResolvedExperiment:
    """The experiment of all tables of one name; what is wrong is said of the last of them."""
    try:
        return unite_experiments(grids)
    except CannotUnite as error:
        raise name.error(
            f"the tables of the name {name.value!r} are grids of one experiment, and cannot be: "
            f"{error}; give one of them another name"
        ) from None


def _once_for_each_default(problems: Iterable[str]) -> Iterator[str]:
    """The problems; of a value in the defaults that several experiments cannot use the first."""
    seen: set[str] = set()
    for problem in problems:
        place = re.match(r".*?: defaults[^:]*: ", problem)
        if place is None or place[0] not in seen:
            yield problem
        if place is not None:
            seen.add(place[0])


def _read_experiment(table: Node, library: Library) -> ResolvedExperiment:
    gather = Gathered()
    read = _make_key_reader(table, gather, EXPERIMENT)
    known = gather(table.table, EXPERIMENT, EXPERIMENT.required)
    library = gather(_library_with_named_plugins, table, library)
    system = read("system", library)
    fixed = read("parameters", system, default={})
    together = read("zip", by=axes.names_in_zip_groups, default=set())
    scan = read("scan", system, fixed, together, default=())
    zipped = read("zip", scan, default=())
    family = gather(axes.make_system_family, table, library, system, fixed, scan, zipped)
    library = gather(_library_with_recorded_plugins, table, family, library)
    names = schema.variable_names_of_quantity, schema.taken_variable_names
    family = gather(family_without_observable_clashes, table, family, library, *names)
    table = gather(system_defaults.with_declared_defaults, table, family, library)
    if table is Gathered.FAILED:
        gather.raise_problems()
    read = _make_key_reader(table, gather, EXPERIMENT)
    duration, samples = read("duration"), read("samples")
    time_axis = gather(axes.make_time_axis, table, duration, samples)
    steps = read("step_size", time_axis, together, default=())
    entries = read("integrators", family, library)
    tolerances = read("tolerance", entries, default=())
    used = gather(axes.check_steps_are_used, table, entries, steps, tolerances)
    if known is not Gathered.FAILED and used is not Gathered.FAILED:  # or sizes may seem to lack
        sizes = steps, tolerances, together
        entries = read("integrators", entries, time_axis, *sizes, by=axes.with_own_step_sizes)
    starts = read("initial_condition", family)
    reference = read("reference", family, duration, default=None)
    gather(_check_starts_have_all_digits, table, starts, family, entries, reference)
    record = gather(_read_record, table, family, library)
    gather(_check_measurable, table, record, family, entries, starts)
    gather(_try_plugins_at_first_start, table, library, family, starts, record, entries)
    values = {
        "name": read("name"),
        "system": table.value.get("system"),
        "parameters": fixed,
        "scan": scan,
        "integrators": entries,
        "step_sizes": steps,
        "tolerances": tolerances,
        "initial_conditions": starts,
        "time_axis": time_axis,
        "record": record,
        "statistics": read("statistics", default=STATISTICS[0]),
        "reference": reference,
        "exclude": read("exclude", entries, starts, scan, default=()),
        "zipped": zipped,
        "repeat": read("repeat", default=1),
        "max_steps": read("max_steps", default=MOST_STEPS),
        "time_unit": read("time_unit", default=1.0),
    }
    gather.raise_problems()
    with table.context():
        values |= _times_in_system_unit(values)
        experiment = ResolvedExperiment(**values, where=table.where, library=library)
    table.take(limits.RUNS, experiment.size)
    return experiment


def _library_with_named_plugins(table: Node, library: Library) -> Library:
    """The library, and the installed system and integrators that an experiment names."""
    words = system_defaults.ALL, system_defaults.DECLARED
    for key, kind in (("system", "system"), ("integrators", "integrator")):
        names = (name.partition("+")[0] for name in _strings_under_key(table, key))
        with table.get(key, table).context():
            library = with_installed_plugins(library, kind, names, words)
    return library


def _library_with_recorded_plugins(table: Node, family: Family, library: Library) -> Library:
    """The library, and the installed observables that an experiment records."""
    known = {*(of.name for of in family[0].quantities), *BESIDES}
    with table.get("record", table).context():
        return with_installed_plugins(
            library, "observable", _strings_under_key(table, "record"), known
        )


def _strings_under_key(table: Node, key: str) -> list[str]:
    """Names under a key of an experiment: itself, those of a list, and of tables in it."""
    value = table[key].value if key in table else []
    names: list[Any] = []
    for item in value if type(value) is list else [value]:
        names += [item.get("name"), item.get(STEPS_OF)] if type(item) is dict else [item]
    return [name for name in names if type(name) is str]


def read_time_axis(table: Node) -> TimeAxis:
    """The time axis that an experiment's table asks for, in the system's own unit of time.

    Parameters
    ----------
    table : Node

    Raises
    ------
    InputError
        If it is none, or the system of a plugin declares it: none is run for it.
    """
    table.table(required=("system", "duration", "samples"))
    if system_defaults.DECLARED in (table["duration"].value, table.get("step_size", table).value):
        library = _library_with_named_plugins(table, BUILT_IN)
        system = axes.read_system_class(table["system"], library)
        fixed = table.optional(
            "parameters", lambda node: axes.read_fixed_parameters(node, system), {}
        )
        together = table.optional("zip", axes.names_in_zip_groups, set())
        scan = table.optional("scan", lambda n: axes.read_scan_axes(n, system, fixed, together), ())
        zipped = table.optional("zip", lambda node: axes.read_zip_groups(node, scan), ())
        family = axes.make_system_family(table, library, system, fixed, scan, zipped)
        table = system_defaults.with_declared_defaults(table, family, library)
    axis = axes.make_time_axis(
        table, table["duration"].real(), axes.read_sample_count(table["samples"])
    )
    return axis.times_unit(table.optional("time_unit", _read_time_unit, 1.0))


@shaped(any_of(NUMBER, {"const": system_defaults.DECLARED}))
def _read_duration(node: Node) -> float:
    return node.real()


@shaped(NUMBER)
def _read_time_unit(node: Node) -> float:
    if not node.real() > 0:
        raise node.error(f"expected a positive number, got {node.value}")
    return node.real()


def _times_in_system_unit(values: Mapping[str, Any]) -> dict[str, Any]:
    """What an experiment says of times in the system's own unit, from multiples of another.

    A step size is the product of what the study gives and of the unit: the run is the same one
    whatever the duration, and with a unit of 1 it is the one without.
    """
    unit, reference = values["time_unit"], values["reference"]
    duration = values["time_axis"].duration
    try:
        time_axis = values["time_axis"].times_unit(unit)
    except InputError as error:
        raise InputError(
            f"{duration} times the time_unit {unit} is out of bounds: {error}", key="duration"
        ) from None

    def own(sizes: tuple[float, ...] | None) -> tuple[float, ...] | None:
        return None if sizes is None else tuple(size * unit for size in sizes)

    entries = (
        dataclasses.replace(entry, step_sizes=own(entry.step_sizes))
        for entry in values["integrators"]
    )
    if reference is not None:
        reference = dataclasses.replace(reference, until=reference.until * unit)
    return {
        "time_axis": time_axis,
        "step_sizes": own(values["step_sizes"]),
        "integrators": tuple(entries),
        "reference": reference,
        "exclude": tuple(rule.scaled("step_size", unit) for rule in values["exclude"]),
    }


@shaped(choice_of(STATISTICS))
def _read_statistics(node: Node) -> str:
    return node.choice("statistics", STATISTICS)


def _describe_quantity_kind(family: Family) -> str:
    """What is recorded of every system of an experiment, for messages."""
    return f"quantity of {family[0].name}" + " with every scanned value" * (len(family) > 1)


@shaped(choice_of([LYAPUNOV]))
def _read_counted(node: Node) -> str:
    return node.choice("quantity with a count", (LYAPUNOV,))


COUNTED = Fields({"name": _read_counted, "count": Node.integer}, required=("name",))


def _read_record(table: Node, family: Family, library: Library) -> tuple[str, ...]:
    every = [library.quantities(system) for system in family]
    shared = set.intersection(*({quantity.name for quantity in own} for own in every))
    offered = [quantity for quantity in every[0] if quantity.name in shared]
    if "record" not in table:
        return tuple(quantity.name for quantity in offered if quantity.kind in RECORDED)
    return _read_recorded_names(table["record"], family, library, offered)


@shaped(list_of(any_of(STRING, COUNTED.shape | {"required": ["name", "count"]}), 0))
def _read_recorded_names(
    node: Node, family: Family, library: Library, offered: Sequence[Quantity]
) -> tuple[str, ...]:
    """The names of what an experiment records; `offered` is what all of its systems have."""
    nodes = node.elements(least=0)
    valid = [*(quantity.name for quantity in offered), *BESIDES]
    default = library.system_class(family[0].name)()
    elsewhere = {quantity.name for quantity in library.quantities(default)} - set(valid)
    read = read_nodes_gathering_problems(
        _read_recorded, nodes, _describe_quantity_kind(family), valid, elsewhere
    )
    check_distinct_nodes(nodes, [name for name, _ in read], "quantity")
    return sum((names for _, names in read), ())


def _read_recorded(
    node: Node, kind: str, valid: Sequence[str], elsewhere: Collection[str]
) -> tuple[str, tuple[str, ...]]:
    """A name, or a table with one; and all the names that it stands for.

    Those `elsewhere` are quantities that the system has at its defaults alone.
    """
    if type(node.value) is not dict:
        if type(node.value) is str and node.value in elsewhere:
            raise node.error(
                f"no {kind} with these parameters: {node.value!r} is one at its defaults. "
                f"Valid: {', '.join(valid)}"
            )
        name = node.choice(kind, valid)
        return name, (name,)
    name = node.fields(COUNTED)["name"]
    if "count" not in node:
        raise node.error("the key 'count' is missing")
    if node["count"].integer() < 1:
        raise node["count"].error(f"expected 1 or more, got {node['count'].value}")
    return name, lyapunov_names(node["count"].value)


def _check_starts_have_all_digits(
    table: Node,
    starts: Sequence[Start],
    family: Family,
    entries: Sequence[IntegratorEntry],
    reference: Reference | None,
) -> None:
    """Refuse starts that are made in double precision only, of what is in double-double."""
    precise = reference is not None and reference.is_precise
    if not precise and not any(entry.is_precise for entry in entries):
        return
    with table["initial_condition"].context():
        for start in starts:
            if np.isnan(start.in_double_double(family[0], np.arange(1))).any():
                family[0].refined(start.states(family[0])[0])


def _check_measurable(
    table: Node,
    record: tuple[str, ...],
    family: Family,
    entries: Sequence[IntegratorEntry],
    starts: Sequence[Start],
) -> None:
    """Refuse what no run of the experiment has of what is measured of its map."""
    if not set(record) & set(schema.MEASURED):
        return
    for node in table["record"].elements():
        name, count = node.value, 1
        if type(name) is dict:
            name, count = name["name"], name["count"]
        if name not in schema.MEASURED:
            continue
        reason = structure.obstacle_to_measuring(name, family, entries)
        if reason:
            raise node.error(f"{name!r} {reason}; leave it out")
        if name in CHAOS:
            with node.context():
                structure.check_exponent_count(family, starts[0], count)


def _try_plugins_at_first_start(
    table: Node,
    library: Library,
    family: Family,
    starts: Sequence[Start],
    record: tuple[str, ...],
    entries: Sequence[IntegratorEntry],
) -> None:
    """Refuse what is not built in of the experiment where it does not work at its first start."""
    if not library.sources:
        return
    system, start = family[0], starts[0].states(family[0])[0]
    with table["system"].context():
        checks.try_plugin_system(library, system.name, system, start)
    with table["integrators"].context():
        with_tangents = bool({*record} & structure.WITH_TANGENTS)
        checks.try_plugin_integrators(library, entries, system, start, with_tangents)
    with table.get("record", table).context():
        elements = [DOUBLE_DOUBLE] * any(entry.is_precise for entry in entries)
        checks.try_plugin_observables(library, record, system, start, elements)


REFERENCE = Fields(
    {
        "integrator": Node.string, ARITHMETIC: system_defaults.read_arithmetic,
        "tolerance": Node.real, "until": Node.real,
    },
    required=("integrator",),
)  # fmt: skip


@shaped(any_of({"const": False}, REFERENCE.shape))
def _read_reference(node: Node, family: Family, duration: float) -> Reference | None:
    if node.value is False:  # none, where the defaults have one
        return None
    given = node.fields(REFERENCE)
    name, until = given["integrator"], given.get("until", duration)
    if given.get(ARITHMETIC, DOUBLE) != DOUBLE:
        return _read_precise_reference(node, name, until, family)
    with node["integrator"].context():
        integrator = integrators.get(name)
        if integrator.method is not integrators.DOP853:
            raise InputError(
                f"a reference is computed by 'dop853', not by {name!r}, in double precision; an "
                'integrator with a fixed step computes it with arithmetic = "double-double"'
            )
        for system in family:
            integrator.check(system)
    with node.context():
        return Reference(name, given.get("tolerance", 2.3e-14), until)


def _read_precise_reference(
    node: Node, name: str, until: float, family: Family
) -> PreciseReference:
    """A reference in double-double, by an integrator with a fixed step that fits the systems."""
    with node["integrator"].context():
        integrator = integrators.get(name)
        if integrator.adaptive:
            tolerance = node.optional("tolerance", Node.real, DIGITS)
            raise InputError(_why_not_adaptive(integrator, family[0], tolerance))
        integrator = integrators.get(name, **PreciseReference.options)
        for system in family:
            integrator.check(system)
        integrator.bind(family[0])
    if "tolerance" not in node:
        raise node.error(
            "a reference in double-double needs a tolerance, of which its step size follows: from "
            f"1e-28 to 1, such as tolerance = {DIGITS:g}"
        )
    with node.context():
        return PreciseReference(name, node["tolerance"].real(), until)


def _why_not_adaptive(
    integrator: integrators.Integrator, system: systems.System, tolerance: float
) -> str:
    """Why an adaptive integrator computes no reference in double-double, and what does."""
    said = f"{integrator.name!r} is adaptive; a reference in double-double needs a fixed step"
    order, names = _highest_order_with_fixed_step(system)
    said += f", such as {', '.join(map(repr, names[:3]))}"
    precise = integrator.method.precise
    own = integrator.order
    if not (precise and 0 < tolerance < 1 and isinstance(own, int) and order > own):
        return said
    times = tolerance ** (1 / order - 1 / own)
    return (
        f"{said}: of order {order}, not {own}, at tolerance = {tolerance:g} it takes "
        f"some {times:,.0f} times fewer steps"
    )


def _highest_order_with_fixed_step(system: systems.System) -> tuple[int, list[str]]:
    """The highest order that a system has in double-double, and integrators of it."""
    found: dict[int, list[str]] = {}
    for method in integrators.ALL_INTEGRATORS:
        if method.adaptive or not (method.precise and method.fits(system.form)):
            continue
        if isinstance(method.order, int):
            found.setdefault(method.order, []).append(method.name)
        for name, composition in method.compositions.items() if method.symmetric else ():
            found.setdefault(composition.order, []).append(f"{method.name}+{name}")
    order = max(found)
    return order, found[order]


@shaped(list_of(table_of({}, others=any_of(NUMBER, STRING)) | {"minProperties": 1}, 0))
def _read_exclusion_rules(
    node: Node, entries: Sequence[IntegratorEntry], starts: Sequence[Start], scan: Sequence[Axis]
) -> tuple[Rule, ...]:
    rules = node.elements(least=0)
    named = any("initial_condition" in rule for rule in rules)  # there can be very many
    columns = {
        "integrator": [entry.label for entry in entries],
        "step_size": None,
        "tolerance": None,
        "initial_condition": [of for start in starts for of in start.labels] if named else [],
        "ensemble": [start.ensemble for start in starts if start.ensemble],
    }
    columns |= {name: None for start in starts for name in start.coordinates}
    for axis in scan:
        words = axis.labels is not None or isinstance(axis.values[0], str)
        columns[axis.name] = axis.column.tolist() if words else None
    return read_nodes_gathering_problems(_read_exclusion_rule, rules, columns)


def _read_exclusion_rule(node: Node, columns: Columns) -> Rule:
    node.table(columns)
    if not node.value:
        raise node.expected("a table of conditions")
    return Rule(
        read_nodes_gathering_problems(
            _read_exclusion_condition, [node[key] for key in node.value], columns
        )
    )


def _read_exclusion_condition(node: Node, columns: Columns) -> Condition:
    written = node.value if type(node.value) is str else node.number()
    column = str(node.path[-1])
    with node.context():
        return Condition.parse(column, written, columns[column])


# --- the keys ---------------------------------------------------------------------------------

DEFAULTS = Fields(
    {
        "integrators": axes.read_integrator_entries,
        "step_size": axes.read_step_sizes,
        "tolerance": axes.read_tolerances,
        "initial_condition": conditions.read_initial_conditions,
        "duration": _read_duration,
        "samples": axes.read_sample_count,
        "record": _read_recorded_names,
        "statistics": _read_statistics,
        "reference": _read_reference,
        "repeat": Node.integer,
        "max_steps": Node.integer,
        "time_unit": _read_time_unit,
    }
)
EXPERIMENT = Fields(
    {
        "name": Node.label,
        "system": axes.read_system_class,
        "parameters": axes.read_fixed_parameters,
        "scan": axes.read_scan_axes,
        "zip": axes.read_zip_groups,
        "exclude": _read_exclusion_rules,
        **DEFAULTS,
    },
    required=("name", "system", "integrators", "initial_condition", "duration", "samples"),
)
shaped(DEFAULTS.shape)(_read_defaults)
# What an experiment lacks may stand in the defaults.
shaped(list_of(Fields(EXPERIMENT, required=("name", "system")).shape))(_read_experiments)
STUDY = Fields(
    {
        "format": _check_study_format,
        "name": _read_study_name,
        "description": _read_description,
        "plugins": _read_plugins,
        "defaults": _read_defaults,
        "experiment": _read_experiments,
    },
    required=("format", "name", "experiment"),
)
