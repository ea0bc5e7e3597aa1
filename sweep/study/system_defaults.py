"""Values that a study leaves open: all integrators that fit, and what a system declares.

``integrators = "all"`` stands for every integrator with a fixed step that fits the system, main
methods of adaptive pairs among them, but for those that are named beside it, and
``{ name = "all", order = "< 5", arithmetic = "double-double" }`` for those of such orders, in that
arithmetic;
``duration = "declared"`` and ``step_size = "declared"`` for the horizon of the system's
`convergence` and, for each integrator, the step sizes that suit its order there.
"""

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import integrators
import systems
from integrators.errors import InputError
from integrators.method import EXACT
from integrators.precision import ARITHMETIC, ARITHMETICS, DOUBLE
from sweep.plugins.registry import Library
from sweep.study.exclude import Condition
from sweep.study.experiment import ENTRY_KEYS, ResolvedExperiment
from sweep.study.limits import INTEGRATORS
from sweep.study.run_table import RunTable
from sweep.study.toml.nodes import Node
from sweep.study.toml.shapes import NUMBER, STRING, Fields, any_of, choice_of, shaped
from systems.base import Convergence

ALL = "all"
DECLARED = "declared"


def remarks_on_parameters(tables: Iterable[RunTable]) -> list[str]:
    """Remarks on the parameters of experiments, worth reading before they run.

    They are the systems' own remarks, and parameters left at a default that may surprise.

    Parameters
    ----------
    tables : iterable of RunTable
        One of each experiment.

    Returns
    -------
    list of str
        A line each, with the names of the experiments that it is about.
    """
    found: dict[str, list[str]] = {}
    for table in tables:
        experiment = table.experiment
        remarks = [text for made in table.systems for text in made.remarks]
        for text in dict.fromkeys([*remarks, *_surprising_defaults_left(experiment)]):
            found.setdefault(text, []).append(experiment.name)
    return [f"{', '.join(names)}: {text}" for text, names in found.items()]


def _surprising_defaults_left(experiment: ResolvedExperiment) -> Iterator[str]:
    """A sentence on each parameter that an experiment leaves at a default that may surprise."""
    system = experiment.library.system_class(experiment.system)
    given = {*experiment.parameters, *(axis.name for axis in experiment.scan)}
    defaults = {field.name: field.default for field in dataclasses.fields(system)}
    for name, why in system.surprising_defaults.items():
        if name not in given:
            unit = system.parameter_units[name]
            yield f"{name} is not given: {defaults[name]:g} {unit}, {why}"


def with_declared_defaults(table: Node, family: Sequence[systems.System], library: Library) -> Node:
    """Fill in the values that an experiment's table leaves open.

    Parameters
    ----------
    table : Node
    family : tuple of System
    library : Library

    Returns
    -------
    Node

    Raises
    ------
    StudyError
        If the system declares nothing, no integrator fits, or there is a unit of time.
    """
    filled: dict[str, Any] = {}
    if _asks_for_declared_value(table, "duration"):
        filled["duration"] = _convergence_of_family(table["duration"], table, family).duration
    if "integrators" in table:
        given = table["integrators"]
        nodes = given.one_or_more()
        if len(nodes) > INTEGRATORS.most:  # they are counted later, when they are read
            raise given.error(str(INTEGRATORS.error(len(nodes))))
        taken = {label_of_entry(node.value, library) for node in nodes if not _stands_for_all(node)}
        entries: list[Any] = []
        for node in nodes:
            if _stands_for_all(node):
                fitting = _fitting_integrators(node, family, library, taken)
                taken |= fitting.keys()
                entries += fitting.values()
            else:
                entries.append(node.value)
        if _asks_for_declared_value(table, "step_size"):
            convergence = _convergence_of_family(table["step_size"], table, family)
            interval = _longest_step_allowed(table, convergence)
            entries = [
                _entry_with_declared_steps(entry, convergence, interval, library)
                for entry in entries
            ]
        if _asks_for_declared_value(table, "step_size") or any(map(_stands_for_all, nodes)):
            filled["integrators"] = entries
    return dataclasses.replace(table, value=table.value | filled) if filled else table


def _asks_for_declared_value(table: Node, key: str) -> bool:
    return key in table and table[key].value == DECLARED


def _stands_for_all(node: Node) -> bool:
    """Whether an entry stands for all integrators that fit."""
    return node.value == ALL or type(node.value) is dict and node.value.get("name") == ALL


def _convergence_of_family(
    node: Node, table: Node, family: Sequence[systems.System]
) -> Convergence:
    """The `Convergence` of the family's systems, or an error at `node`."""
    system = family[0]
    if system.convergence is None:
        raise node.error(f"{system.name!r} declares none: give a number")
    if "time_unit" in table:
        raise node.error("what a system declares is in its own unit of time: leave out 'time_unit'")
    return system.convergence


def label_of_entry(entry: Any, library: Library) -> str | None:
    """The label of an entry of a study's integrators.

    Parameters
    ----------
    entry : str or dict
        As it is written.
    library : Library

    Returns
    -------
    str or None
        None where it is none that can be read.
    """
    if type(entry) is dict and "label" in entry:
        return entry["label"] if type(entry["label"]) is str else None
    integrator = _integrator_of_entry(entry, library)
    return None if integrator is None else integrator.label


def _integrator_of_entry(entry: Any, library: Library) -> integrators.Integrator | None:
    """The integrator of an entry, or None: what is wrong with it is said where it is read."""
    table = entry if type(entry) is dict else {"name": entry}
    if type(table.get("name")) is not str:
        return None
    options = {key: value for key, value in table.items() if key not in ENTRY_KEYS}
    try:
        return library.integrator(table["name"], options)
    except InputError:
        return None


@shaped(any_of(NUMBER, STRING))
def _read_order_condition(node: Node) -> tuple[Callable[[Any], bool], str]:
    """Whether an order is one that `node` means, as a function of it, and which that is in words.

    `EXACT` is greater and less than none.
    """
    written = node.value if type(node.value) is str else node.number()
    if written == EXACT:
        return lambda order: order == EXACT, ", exact,"
    try:
        condition = Condition.parse("order", written, None)
    except InputError:
        raise node.expected(f'an order, a comparison such as "< 5", or "{EXACT}"') from None
    in_words = f" and order {written}"
    return lambda order: order not in (EXACT, None) and bool(condition.holds(order)), in_words


@shaped(choice_of(ARITHMETICS))
def read_arithmetic(node: Node) -> str:
    """The arithmetic that a value names."""
    return node.choice(ARITHMETIC, ARITHMETICS)


ALL_ENTRY = Fields(  # an entry that stands for all
    {"name": Node.string, "order": _read_order_condition, ARITHMETIC: read_arithmetic},
    required=("name",),
)


def _fitting_integrators(
    node: Node, family: Sequence[systems.System], library: Library, taken: Collection[str | None]
) -> dict[str, Any]:
    """Entries of the integrators that one for all stands for, by label, but those `taken`."""
    given = node.fields(ALL_ENTRY) if type(node.value) is dict else {}
    of_order, in_words = given.get("order", (lambda order: True, ""))
    arithmetic = given.get(ARITHMETIC, DOUBLE)
    options = {} if arithmetic == DOUBLE else {ARITHMETIC: arithmetic}
    fitting = {}
    for name in integrators.names(library.methods):
        if library.integrator(name, {}).adaptive:
            continue
        integrator = library.integrator(name, options)
        if of_order(integrator.order) and _integrator_fits(integrator, family):
            fitting[integrator.label] = {"name": name} | options if options else name
    if not fitting:
        fixed = f"integrator with a fixed step{in_words}"
        raise node.error(f"no {fixed} fits {family[0].name!r}")
    new = {label: entry for label, entry in fitting.items() if label not in taken}
    if not new:
        raise node.error("all that it stands for are among the others: leave it out")
    return new


def fitting_integrators(
    family: Sequence[systems.System], library: Library
) -> dict[str, integrators.Integrator]:
    """The integrators that fit, with their default options, with a fixed step and adaptive ones.

    Parameters
    ----------
    family : sequence of systems.System
        All of which they are to fit.
    library : Library

    Returns
    -------
    dict of str to integrators.method.Integrator
        By name, with its modifier.
    """
    known = {name: library.integrator(name, {}) for name in integrators.names(library.methods)}
    return {name: found for name, found in known.items() if _integrator_fits(found, family)}


def fitting_methods(system: type[systems.System], library: Library) -> list[str]:
    """Names of the methods that fit a system with its default parameters and their own options.

    Parameters
    ----------
    system : type of systems.System
    library : Library
    """
    family = [library.system(system.name, {})]
    methods = (*integrators.ALL_INTEGRATORS, *library.methods)
    made = {method.name: library.integrator(method.name, method.example) for method in methods}
    return [name for name, found in made.items() if _integrator_fits(found, family)]


def _integrator_fits(integrator: integrators.Integrator, family: Sequence[systems.System]) -> bool:
    try:
        for system in family:
            integrator.check(system)
    except InputError:
        return False
    return True


def _longest_step_allowed(table: Node, convergence: Convergence) -> float:
    """The longest step that the sample interval allows, as far as the table says it."""
    given = table["duration"].value if "duration" in table else None
    duration: Any = convergence.duration if given == DECLARED else given
    samples = table["samples"].value if "samples" in table else 1
    numbers = type(duration) in (int, float) and type(samples) is int and samples > 0
    try:
        longest: float = duration / samples if numbers else math.inf
        return longest
    except OverflowError:  # which is said where they are read
        return math.inf


def _entry_with_declared_steps(
    entry: Any, convergence: Convergence, interval: float, library: Library
) -> Any:
    """An entry with the step sizes that suit its order; one that has its own, or none, as it is."""
    integrator = _integrator_of_entry(entry, library)
    entry = entry if type(entry) is dict else {"name": entry}
    if "step_size" in entry or integrator is None or integrator.adaptive:
        return entry
    order = integrator.order if isinstance(integrator.order, int) else 2  # EXACT: any steps do
    longest, shortest, count = convergence.steps(order, integrator.arithmetic)
    longest = min(longest, interval)
    steps = {"start": longest, "stop": shortest, "count": count, "spacing": "log"}
    return entry | {"step_size": steps}
