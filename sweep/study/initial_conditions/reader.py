"""The initial conditions of an experiment, as read."""

from integrators.errors import check_known, nearest
from sweep import limits
from sweep.errors import check_distinct_nodes, read_nodes_gathering_problems
from sweep.study import schema
from sweep.study.axes import read_value_range
from sweep.study.initial_conditions import from_store
from sweep.study.initial_conditions.base import (
    FileStarts,
    GivenStart,
    LatticeStarts,
    NamedStart,
    RandomStarts,
)
from sweep.study.initial_conditions.families import FamilyStarts
from sweep.study.toml.nodes import Node

BYTES_OF_A_ROW = 24


def read_initial_conditions(node, family):
    """Starts, as a tuple, all of which are states of all systems in the tuple `family`."""
    nodes = node.one_or_more()
    node.take(limits.STARTS, len(nodes))
    node.take(limits.PAIRS, len(nodes) * len(family))
    starts = read_nodes_gathering_problems(_read_start, nodes, family)
    check_distinct_nodes(
        nodes, [start.label for start in starts], "label", "; give each a label of its own"
    )
    return starts


def _read_start(node, family):
    if type(node.value) is str or "name" in node:
        start = _read_named_start(node, family[0])
    else:
        kind = next((key for key in _TABLES if key in node), None)
        start = _TABLES[kind](node, family) if kind else _read_given_start(node, family[0])
    node.take(limits.MEMORY, BYTES_OF_A_ROW * start.size * sum(system.rows for system in family))
    if isinstance(start, FamilyStarts | LatticeStarts):
        node.take(limits.STATES, start.size * len(family))
    with node.context(otherwise=node.get("around", node)):
        for system in family:
            start.check(system)
    return start


def _read_named_start(node, system):
    """A named start or a family, by its name or as a table."""
    named = node if type(node.value) is str else node["name"]
    name = named.string()
    families = {family.name: family for family in system.families}
    with named.context():
        check_known(f"start of {system.name}", name, (*system.starts, *families))
    if name in families:
        return _read_family_starts(node, families[name], system)
    keys = ("name", "label")
    for key in node.value if named is not node else ():
        if key not in keys:
            raise node[key].error(
                f"unknown key {key!r}; {name!r} is one state and has no axes.{nearest(key, keys)}"
            )
    return NamedStart(name, node.optional("label", Node.label, name), where=node.where)


def _read_family_starts(node, family, system):
    given = {}
    if type(node.value) is not str:
        node.table(("name", "label", *family.axes), kind=f"axis of {family.name}")
        nodes = [node[key] for key in node.value if key in family.axes]
        values = read_nodes_gathering_problems(_read_axis_values, nodes)
        given = {axis.path[-1]: of for axis, of in zip(nodes, values, strict=True)}
    defaults = {axis: (value,) for axis, value in family.axes.items() if axis not in given}
    taken = schema.taken_variable_names(system)
    with node.context():
        return FamilyStarts(
            name=family.name,
            axes=given | defaults,
            given=tuple(given),
            columns={a: f"{family.name}_{a}" if a in taken else a for a in family.axes},
            label=node.optional("label", Node.label, family.name),
            where=node.where,
        )


def _read_axis_values(node):
    if type(node.value) is dict:
        return read_value_range(node)
    nodes = node.one_or_more()
    node.take(limits.NUMBERS, len(nodes))
    values = read_nodes_gathering_problems(Node.number, nodes)
    check_distinct_nodes(nodes, values, "value")
    return values


def _read_random_starts(node, family):
    node.table(("random", "seed", "around", "spread", "label"), ("random", "seed"))
    around = node.optional("around", lambda of: _read_centre(of, family), None)
    centre = getattr(around, "label", around)
    default = "random" if centre is None else f"{centre}-random"
    with node.context():
        return RandomStarts(
            members=node["random"].integer(),
            seed=node["seed"].integer(),
            around=around,
            spread=node.optional("spread", Node.real, None),
            label=node.optional("label", Node.label, default),
            where=node.where,
        )


def _read_centre(node, family):
    """The state that an ensemble is about: a start's name, or a table that gives one state."""
    if type(node.value) is str:
        return node.string()
    start = _read_start(node.table(), family)
    if start.size != 1:
        raise node.error(f"an ensemble is about one state, and this gives {start.size:,}")
    return start


def _read_given_start(node, system):
    keys = system.state_keys
    _check_state_keys(node, system)
    node.table((*keys, "normalize", "label"), keys)
    position = f"[{node.path[-1]}]" if type(node.path[-1]) is int else ""
    rows = system.state_rows
    vectors = read_nodes_gathering_problems(lambda key: _read_vectors(node[key], rows[key]), keys)
    return GivenStart(
        vectors=dict(zip(keys, vectors, strict=True)),
        normalize=node.optional("normalize", Node.boolean, False),
        label=node.optional("label", Node.label, f"state{position}"),
        where=node.where,
    )


def _check_state_keys(node, system):
    """Refuse what is no state, or one that is spelt out in the words of another kind of system."""
    keys, given = system.state_keys, node.value if type(node.value) is dict else {}
    wrong = [key for key, value in given.items() if type(value) is list and key not in keys]
    if wrong:
        raise node[wrong[0]].error(
            f"a state of {system.name} is given by {' and '.join(keys)}, not by "
            f"{' and '.join(wrong)}"
        )
    if not any(key in keys for key in given):
        shown = ", ".join([*keys[:2], "…"])
        raise node.expected(
            "a start's name, { name, … }, { random, seed, … }, { lattice, … }, { file, … }, "
            f"{{ store, … }} or the state itself: {{ {shown} }}"
        )


def _read_vectors(node, rows):
    """The rows of a part of a state; a single one may be written as a vector."""
    if rows == 1 and type(node.value) is list and not any(type(v) is list for v in node.value):
        return (_read_vector(node),)
    return read_nodes_gathering_problems(_read_vector, node.elements())


def _read_vector(node):
    if type(node.value) is not list or len(node.value) != 3:
        raise node.expected("a vector of 3 numbers")
    return tuple(part.real() for part in node.elements())


def _read_lattice_starts(node, _family):
    node.table(("lattice", "body", "around", "label"), ("lattice",))
    with node.context():
        return LatticeStarts(
            count=node["lattice"].integer(),
            body=node.optional("body", Node.integer, 0),
            around=node.optional("around", Node.string, None),
            label=node.optional("label", Node.label, "lattice"),
            where=node.where,
        )


def _read_file_starts(node, _family):
    node.table(("file", "normalize", "label"), ("file",))
    path = node.source.directory / node["file"].string()
    with node.context():
        return FileStarts.load(
            path,
            file=node["file"].value,
            normalize=node.optional("normalize", Node.boolean, False),
            label=node.optional("label", Node.label, path.stem),
            where=node.where,
        )


def _read_store_starts(node, _family):
    node.table(("store", "experiment", "where", "normalize", "label"), ("store",))
    name = node["store"].string()
    with node.context():
        return from_store.read_end_states(
            name if "://" in name else node.source.directory / name,
            kept=node.source.kept,
            trust_plugins=node.source.trust_plugins,
            file=node["store"].value,
            experiment=node.optional("experiment", Node.string, ""),
            where_runs=node.optional("where", Node.string, ""),
            normalize=node.optional("normalize", Node.boolean, False),
            label=node.optional("label", Node.label, ""),
            where=node.where,
        )


# What makes the starts of a table, by the key that tells its kind.
_TABLES = {
    "random": _read_random_starts,
    "lattice": _read_lattice_starts,
    "file": _read_file_starts,
    "store": _read_store_starts,
}
