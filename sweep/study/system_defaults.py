"""What a study leaves to others: the integrators that fit, and what suits a system.

``integrators = "all"`` stands for every integrator with a fixed step that fits the system, main
methods of adaptive pairs among them, but for those that are named beside it;
``duration = "declared"`` and ``step_size = "declared"`` for the horizon of the system's
`convergence` and, for each integrator, the step sizes that suit its order there.
"""

import dataclasses
import math

import integrators
from integrators.errors import InputError
from integrators.method import EXACT
from sweep.limits import INTEGRATORS

ALL = "all"
DECLARED = "declared"


def remarks_on_parameters(tables):
    """What is worth knowing of the parameters of experiments before they run.

    That is what systems remark, and which parameter is left at a default that may surprise.

    Parameters
    ----------
    tables : iterable of RunTable
        One of each experiment.

    Returns
    -------
    list of str
        A line each, with the names of the experiments that it is about.
    """
    found = {}
    for table in tables:
        experiment = table.experiment
        remarks = [text for made in table.systems for text in made.remarks]
        for text in dict.fromkeys([*remarks, *_surprising_defaults_left(experiment)]):
            found.setdefault(text, []).append(experiment.name)
    return [f"{', '.join(names)}: {text}" for text, names in found.items()]


def _surprising_defaults_left(experiment):
    """A sentence on each parameter that an experiment leaves at a default that may surprise."""
    system = experiment.library.system_class(experiment.system)
    given = {*experiment.parameters, *(axis.name for axis in experiment.scan)}
    defaults = {field.name: field.default for field in dataclasses.fields(system)}
    for name, why in system.surprising_defaults.items():
        if name not in given:
            unit = system.parameter_units[name]
            yield f"{name} is not given: {defaults[name]:g} {unit}, {why}"


def with_declared_defaults(table, family, library):
    """An experiment's table with what it leaves to others filled in.

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
    filled = {}
    if _says_declared(table, "duration"):
        filled["duration"] = _convergence_of_family(table["duration"], table, family).duration
    if "integrators" in table:
        given = table["integrators"]
        nodes = given.one_or_more()
        if len(nodes) > INTEGRATORS.most:  # they are counted later, when they are read
            raise given.error(str(INTEGRATORS.error(len(nodes))))
        _check_all_given_once([node for node in nodes if node.value == ALL])
        named = {_label_of_entry(node.value) for node in nodes}
        entries = []
        for node in nodes:
            entries += (
                _fitting_integrators(node, family, library, named)
                if node.value == ALL
                else [node.value]
            )
        if _says_declared(table, "step_size"):
            convergence = _convergence_of_family(table["step_size"], table, family)
            interval = _longest_step_allowed(table, convergence)
            entries = [
                _entry_with_declared_steps(entry, convergence, interval, library)
                for entry in entries
            ]
        if _says_declared(table, "step_size") or ALL in _string_values(given):
            filled["integrators"] = entries
    return dataclasses.replace(table, value=table.value | filled) if filled else table


def _check_all_given_once(nodes):
    if len(nodes) > 1:
        raise nodes[1].error(f"{ALL!r} stands in {nodes[0].where} too; give it once")


def _says_declared(table, key):
    return key in table and table[key].value == DECLARED


def _string_values(node):
    return [one.value for one in node.one_or_more() if type(one.value) is str]


def _convergence_of_family(node, table, family):
    """The `Convergence` of the family's systems, or an error at `node`."""
    system = family[0]
    if system.convergence is None:
        raise node.error(f"{system.name!r} declares none: give a number")
    if "time_unit" in table:
        raise node.error("what a system declares is in its own unit of time: leave out 'time_unit'")
    return system.convergence


def _label_of_entry(entry):
    """The label of an entry as far as it says one; None where it is nothing that has one."""
    label = entry.get("label", entry.get("name")) if type(entry) is dict else entry
    return label if type(label) is str else None


def _fitting_integrators(node, family, library, named):
    """All integrators with a fixed step that fit, but those that the study names itself."""
    known = integrators.names(library.methods)
    fitting = [
        name for name in known if _integrator_fits_family(library.integrator(name, {}), family)
    ]
    if not fitting:
        raise node.error(f"no integrator with a fixed step fits {family[0].name!r}")
    return [name for name in fitting if name not in named]


def _integrator_fits_family(integrator, family):
    if integrator.adaptive:
        return False
    try:
        for system in family:
            integrator.check(system)
    except InputError:
        return False
    return True


def _longest_step_allowed(table, convergence):
    """The longest step that the sample interval allows, as far as the table says it."""
    given = table["duration"].value if "duration" in table else None
    duration = convergence.duration if given == DECLARED else given
    samples = table["samples"].value if "samples" in table else 1
    numbers = type(duration) in (int, float) and type(samples) is int and samples > 0
    try:
        return duration / samples if numbers else math.inf
    except OverflowError:  # which is said where they are read
        return math.inf


def _entry_with_declared_steps(entry, convergence, interval, library):
    """An entry with the step sizes that suit its order; one that has its own, or none, as it is."""
    entry = entry if type(entry) is dict else {"name": entry}
    if "step_size" in entry or type(entry.get("name")) is not str:
        return entry
    try:
        options = {key: value for key, value in entry.items() if key not in ("name", "label")}
        integrator = library.integrator(entry["name"], options)
    except InputError:
        return entry  # what is wrong is said where it is read
    if integrator.adaptive:
        return entry
    order = 2 if integrator.order == EXACT else integrator.order  # no error falls: any steps do
    longest, shortest, count = convergence.steps(order, integrator.arithmetic)
    longest = min(longest, interval)
    steps = {"start": longest, "stop": shortest, "count": count, "spacing": "log"}
    return entry | {"step_size": steps}
