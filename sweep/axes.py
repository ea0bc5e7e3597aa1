"""What an experiment varies: systems, step sizes, integrators and initial conditions, as read."""

import dataclasses

import integrators
import systems
from integrators.adaptive import check_tolerance
from integrators.errors import InputError
from sweep.experiment import Axis, IntegratorEntry, combinations
from sweep.sources import Gathered, Node, distinct, gathered
from sweep.starts import GivenStart, NamedStart, RandomStarts
from sweep.time_axis import TimeAxis, spaced

TOLERANCE_KEYS = ("tolerance", "relative_tolerance")  # of an entry; they mean the same
ENTRY_KEYS = ("name", "label", "step_size", *TOLERANCE_KEYS)  # all others are options


def system_class(node):
    """The class of the system that `node` names."""
    with node.context():
        return systems.named(node.string())


def fixed_parameters(node, system):
    """A table of parameters of a class of systems, as a dict."""
    node.table(system.parameter_names(), kind="parameter")
    values = gathered(_setting, [node[key] for key in node.value])
    return dict(zip(node.value, values, strict=True))


def _setting(node):
    """A number, a string, or an array of them as a tuple."""
    if type(node.value) is list:
        return gathered(_setting, node.elements())
    return node.value if type(node.value) is str else node.number()


def scan_axes(node, system, fixed):
    """A table of scanned parameters, as a tuple of `Axis`; those in `fixed` are refused."""
    node.table(system.parameter_names(), kind="parameter")
    for key in node.value:
        if key in fixed:
            raise node[key].error(f"{key!r} is scanned here and fixed by 'parameters'")
    return gathered(_axis, [node[key] for key in node.value])


def _axis(node):
    name = node.path[-1]
    if type(node.value) is dict:
        return Axis(name, _range(node), where=node.where)
    nodes = node.elements()
    if type(nodes[0].value) is dict:
        for point in nodes:
            point.table(("label", "value"), ("label", "value"))
        labels = tuple(point["label"].string() for point in nodes)
        values = gathered(_setting, [point["value"] for point in nodes])
        distinct(nodes, labels, "label")
    else:
        labels = None
        read = Node.string if type(nodes[0].value) is str else _scalar
        values = gathered(read, nodes)
    distinct(nodes, values, "value")
    return Axis(name, values, labels, where=node.where)


def _scalar(node):
    if type(node.value) is list:
        raise node.error('a vector needs a label: write { label = "…", value = […] }')
    return node.number()


def _range(node):
    node.table(("start", "stop", "count", "spacing"), ("start", "stop", "count"))
    spacing = node.optional("spacing", _spacing, "linear")
    ends = node["start"].number(), node["stop"].number()
    with node.context():
        return spaced(*ends, node["count"].integer(), spacing)


def _spacing(node):
    return node.choice("spacing", ("linear", "log"))


def family_of(table, system, fixed, scan):
    """The systems of an experiment's table: a tuple, one for each combination of `scan`."""
    family = []
    for chosen in combinations(scan):
        try:
            family.append(systems.get(system.name, **fixed, **chosen))
        except InputError as error:
            place = _place_of_parameter(table, scan, error.key, chosen)
            case = ", ".join(f"{name} = {value}" for name, value in chosen.items())
            raise place.error(f"{error}" + (f" (where {case})" if case else "")) from None
    return tuple(family)


def _place_of_parameter(table, scan, name, chosen):
    for axis in scan:
        if axis.name == name:
            node = table["scan"][name]
            is_range = type(node.value) is dict
            return node if is_range else node[axis.values.index(chosen[name])]
    given = "parameters" in table and name in table["parameters"]
    return table["parameters"][name] if given else table["system"]


# --- time, step sizes, integrators ------------------------------------------------------------


def time_axis_of(table, duration, samples):
    """The `TimeAxis` of an experiment's table."""
    with table.context():
        return TimeAxis(duration, samples)


def step_sizes(node, time_axis):
    """A number, an array or a range as step sizes; those of a range are snapped, each once."""
    if type(node.value) is dict:
        with node.context():
            snapped = [time_axis.snapped(float(value)) for value in _range(node)]
        return tuple({time_axis.steps(value): value for value in snapped}.values())
    nodes = node.one_or_more()
    values = gathered(_step_size, nodes, time_axis)
    exact = [time_axis.interval / time_axis.steps(value) for value in values]
    distinct(nodes, exact, "step size")
    return values


def _step_size(node, time_axis):
    value = node.real()
    with node.context():
        time_axis.steps(value)
    return value


def tolerances(node):
    """A number, an array or a range as tolerances of adaptive integrators."""
    if type(node.value) is dict:
        with node.context():
            return tuple(check_tolerance(value) for value in _range(node))
    nodes = node.one_or_more()
    values = gathered(_tolerance, nodes)
    distinct(nodes, values, "tolerance")
    return values


def _tolerance(node):
    with node.context():
        return check_tolerance(node.real())


def check_axes(table, entries):
    """Refuse step sizes or tolerances that an experiment gives and none of `entries` takes."""
    kinds = {entry.adaptive for entry in entries}
    if "tolerance" in table.value and True not in kinds:
        raise table["tolerance"].error(
            "a tolerance is for adaptive integrators, and those of this experiment have a fixed "
            "step: leave it out, or add an adaptive one such as 'rk45'"
        )
    if "step_size" in table.value and False not in kinds:
        raise table["step_size"].error(
            "a step size is for integrators with a fixed step, and those of this experiment are "
            "adaptive: leave it out, or add one such as 'rk4'"
        )


def integrator_entries(node, family):
    """Integrators, which fit all systems in `family`, as a tuple of `IntegratorEntry`.

    Their own step sizes are not read yet, so that a mistake in the time axis hides no other.
    """
    nodes = node.one_or_more()
    entries = gathered(_integrator, nodes, family)
    distinct(nodes, [entry.label for entry in entries], "label", "; give each a label of its own")
    return entries


def _integrator(node, family):
    named, options = node, {}
    if type(node.value) is dict:
        named = node.table(required=("name",))["name"]
        options = {key: _setting(node[key]) for key in node.value if key not in ENTRY_KEYS}
    with node.context(otherwise=named):
        integrator = integrators.get(named.string(), **options)
    with named.context():
        for system in family:
            integrator.check(system)
    given = [key for key in TOLERANCE_KEYS if key in node]
    if given and not integrator.adaptive:
        raise node[given[0]].error(f"{integrator.name!r} has a fixed step and no tolerance")
    if len(given) > 1:
        raise node[given[1]].error(f"means the same as {given[0]!r}: give one of them")
    if "step_size" in node and integrator.adaptive:
        raise node["step_size"].error(
            f"{integrator.name!r} chooses its steps by a tolerance and has no step size"
        )
    label = node.optional("label", Node.string, integrator.name)
    return IntegratorEntry(label, integrator.name, integrator.options, where=node.where)


def with_step_sizes(node, entries, time_axis, shared, shared_tolerances):
    """`entries`, the integrators of `node`, with step sizes or tolerances of their own.

    Without them they take the `shared` ones of the experiment, of which there must be some.
    """
    made = []

    def read(own, entry):
        if entry.adaptive:
            mine = _own_tolerances(own, entry, shared_tolerances)
            made.append(dataclasses.replace(entry, tolerances=mine))
        else:
            mine = _own_step_sizes(own, time_axis, shared)
            made.append(dataclasses.replace(entry, step_sizes=mine))

    gather = Gathered()
    for own, entry in zip(node.one_or_more(), entries, strict=True):
        gather(read, own, entry)
    gather.finish()
    return tuple(made)


def _own_tolerances(node, entry, shared):
    for key in TOLERANCE_KEYS:
        if key in node:
            return tolerances(node[key])
    if not shared:
        raise node.error(
            f"{entry.name!r} is adaptive, and there is no 'tolerance', neither here nor in the "
            f'experiment; write tolerance = 1e-6, or {{ name = "{entry.name}", '
            "relative_tolerance = 1e-6 }"
        )
    return None


def _own_step_sizes(node, time_axis, shared):
    if "step_size" in node:
        return step_sizes(node["step_size"], time_axis)
    if not shared:
        raise node.error("there is no 'step_size', neither here nor in the experiment")
    return None


# --- initial conditions -----------------------------------------------------------------------


def initial_conditions(node, family):
    """Starts, as a tuple, all of which are states of all systems in `family`."""
    nodes = node.one_or_more()
    starts = gathered(_start, nodes, family)
    distinct(nodes, [start.label for start in starts], "label", "; give each a label of its own")
    return starts


def _start(node, family):
    if type(node.value) is str:
        start = NamedStart(node.string(), label=node.value, where=node.where)
    elif "random" in node:
        start = _random_starts(node)
    elif "q" in node or "omega" in node:
        start = _given_start(node)
    else:
        raise node.expected("a start's name, { random, seed, … } or { q, omega, … }")
    with node.context(otherwise=node.get("around", node)):
        for system in family:
            start.check(system)
    return start


def _random_starts(node):
    node.table(("random", "seed", "around", "spread", "label"), ("random", "seed"))
    around = node.optional("around", Node.string, None)
    default = "random" if around is None else f"{around}-random"
    with node.context():
        return RandomStarts(
            members=node["random"].integer(),
            seed=node["seed"].integer(),
            around=around,
            spread=node.optional("spread", Node.real, None),
            label=node.optional("label", Node.string, default),
            where=node.where,
        )


def _given_start(node):
    node.table(("q", "omega", "normalize", "label"), ("q", "omega"))
    position = f"[{node.path[-1]}]" if type(node.path[-1]) is int else ""
    return GivenStart(
        q=gathered(_vector, node["q"].elements()),
        omega=gathered(_vector, node["omega"].elements()),
        normalize=node.optional("normalize", Node.boolean, False),
        label=node.optional("label", Node.string, f"state{position}"),
        where=node.where,
    )


def _vector(node):
    if type(node.value) is not list or len(node.value) != 3:
        raise node.expected("a vector of 3 numbers")
    return tuple(part.real() for part in node.elements())
