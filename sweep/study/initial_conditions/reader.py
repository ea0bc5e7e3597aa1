"""The initial conditions of an experiment, as read."""

from integrators.errors import check_known, suggest_nearest
from sweep.errors import check_distinct_nodes, read_nodes_gathering_problems
from sweep.study import limits, schema
from sweep.study.axes import RANGE, Family, read_value_range
from sweep.study.initial_conditions import from_store
from sweep.study.initial_conditions.base import (
    FileStarts,
    GivenStart,
    LatticeStarts,
    NamedStart,
    RandomStarts,
    Start,
)
from sweep.study.initial_conditions.families import FamilyStarts
from sweep.study.initial_conditions.from_store import StoreStarts
from sweep.study.toml.nodes import Node
from sweep.study.toml.shapes import (
    NUMBER,
    STRING,
    Fields,
    any_of,
    list_of,
    one_or_more,
    shape_of,
    shaped,
    table_of,
)
from systems import System
from systems.base import Family as StartFamily

BYTES_OF_A_ROW = 24


@shaped(any_of(STRING, {"type": "object"}))
def _centre_as_written(node: Node) -> Node:
    """The node of what an ensemble is about, which takes the systems to read."""
    return node


RANDOM = Fields(
    {
        "random": Node.integer, "seed": Node.integer, "around": _centre_as_written,
        "spread": Node.real, "label": Node.label,
    },
    required=("random", "seed"),
)  # fmt: skip
LATTICE = Fields(
    {"lattice": Node.integer, "body": Node.integer, "around": Node.string, "label": Node.label},
    required=("lattice",),
)
FILE = Fields(
    {"file": Node.string, "normalize": Node.boolean, "label": Node.label}, required=("file",)
)
STORE = Fields(
    {
        "store": Node.string, "experiment": Node.string, "where": Node.string,
        "normalize": Node.boolean, "label": Node.label,
    },
    required=("store",),
)  # fmt: skip
NAMED = Fields({"name": Node.string, "label": Node.label}, required=("name",))
OF_GIVEN = Fields({"normalize": Node.boolean, "label": Node.label})  # besides the state itself
AXIS = any_of(one_or_more(NUMBER), RANGE.shape)
VECTOR = list_of(NUMBER, 3) | {"maxItems": 3}
START = any_of(
    STRING,
    table_of({key: shape_of(read) for key, read in NAMED.items()}, NAMED.required, AXIS),
    *(fields.shape for fields in (RANDOM, LATTICE, FILE, STORE)),
    table_of(
        {key: shape_of(read) for key, read in OF_GIVEN.items()},
        others=any_of(VECTOR, list_of(VECTOR)),
    )
    | {"minProperties": 1},
)


@shaped(one_or_more(START))
def read_initial_conditions(node: Node, family: Family) -> tuple[Start, ...]:
    """Starts, as a tuple, all of which are states of all systems in the tuple `family`."""
    nodes = node.one_or_more()
    node.take(limits.STARTS, len(nodes))
    node.take(limits.PAIRS, len(nodes) * len(family))
    starts = read_nodes_gathering_problems(_read_start, nodes, family)
    check_distinct_nodes(
        nodes, [start.label for start in starts], "label", "; give each a label of its own"
    )
    return starts


def _read_start(node: Node, family: Family) -> Start:
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


def _read_named_start(node: Node, system: System) -> Start:
    """A named start or a family, by its name or as a table."""
    named = node if type(node.value) is str else node["name"]
    name = named.string()
    families = {family.name: family for family in system.families}
    with named.context():
        check_known(f"start of {system.name}", name, (*system.starts, *families))
    if name in families:
        return _read_family_starts(node, families[name], system)
    for key in node.value if named is not node else ():
        if key not in NAMED:
            raise node[key].error(
                f"unknown key {key!r}; {name!r} is one state and has no axes."
                f"{suggest_nearest(key, NAMED)}"
            )
    return NamedStart(name, node.optional("label", Node.label, name), where=node.where)


def _read_family_starts(node: Node, family: StartFamily, system: System) -> FamilyStarts:
    given = {}
    if type(node.value) is not str:
        node.table((*NAMED, *family.axes), kind=f"axis of {family.name}")
        nodes = [node[key] for key in node.value if key in family.axes]
        values = read_nodes_gathering_problems(_read_axis_values, nodes)
        given = {str(axis.path[-1]): of for axis, of in zip(nodes, values, strict=True)}
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


def _read_axis_values(node: Node) -> tuple[float, ...]:
    if type(node.value) is dict:
        return read_value_range(node)
    nodes = node.one_or_more()
    node.take(limits.NUMBERS, len(nodes))
    values = read_nodes_gathering_problems(Node.number, nodes)
    check_distinct_nodes(nodes, values, "value")
    return values


def _read_random_starts(node: Node, family: Family) -> RandomStarts:
    given = node.fields(RANDOM)
    around = _read_centre(given["around"], family) if "around" in given else None
    centre = getattr(around, "label", around)
    default = "random" if centre is None else f"{centre}-random"
    with node.context():
        return RandomStarts(
            members=given["random"],
            seed=given["seed"],
            around=around,
            spread=given.get("spread"),
            label=given.get("label", default),
            where=node.where,
        )


def _read_centre(node: Node, family: Family) -> str | Start:
    """The state that an ensemble is about: a start's name, or a table that gives one state."""
    if type(node.value) is str:
        return node.string()
    start = _read_start(node.table(), family)
    if start.size != 1:
        raise node.error(f"an ensemble is about one state, and this gives {start.size:,}")
    return start


def _read_given_start(node: Node, system: System) -> GivenStart:
    keys = system.state_keys
    _check_state_keys(node, system)
    node.table((*keys, *OF_GIVEN), keys)
    position = f"[{node.path[-1]}]" if type(node.path[-1]) is int else ""
    rows = system.state_rows
    vectors = read_nodes_gathering_problems(lambda key: _read_vectors(node[key], rows[key]), keys)
    return GivenStart(
        vectors=dict(zip(keys, vectors, strict=True)),
        normalize=node.optional("normalize", Node.boolean, False),
        label=node.optional("label", Node.label, f"state{position}"),
        where=node.where,
    )


def _check_state_keys(node: Node, system: System) -> None:
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


def _read_vectors(node: Node, rows: int) -> tuple[tuple[float, ...], ...]:
    """The rows of a part of a state; a single one may be written as a vector."""
    if rows == 1 and type(node.value) is list and not any(type(v) is list for v in node.value):
        return (_read_vector(node),)
    return read_nodes_gathering_problems(_read_vector, node.elements())


def _read_vector(node: Node) -> tuple[float, ...]:
    if type(node.value) is not list or len(node.value) != 3:
        raise node.expected("a vector of 3 numbers")
    return tuple(part.real() for part in node.elements())


def _read_lattice_starts(node: Node, _family: object) -> LatticeStarts:
    given = node.fields(LATTICE)
    with node.context():
        return LatticeStarts(
            count=given["lattice"],
            body=given.get("body", 0),
            around=given.get("around"),
            label=given.get("label", "lattice"),
            where=node.where,
        )


def _read_file_starts(node: Node, _family: object) -> FileStarts:
    given = node.fields(FILE)
    path = node.source.directory / given["file"]
    with node.context():
        return FileStarts.load(
            path,
            file=given["file"],
            normalize=given.get("normalize", False),
            label=given.get("label", path.stem),
            where=node.where,
        )


def _read_store_starts(node: Node, _family: object) -> StoreStarts:
    given = node.fields(STORE)
    name = given["store"]
    with node.context():
        return from_store.read_end_states(
            name if "://" in name else node.source.directory / name,
            kept=node.source.kept,
            trust_plugins=node.source.trust_plugins,
            file=name,
            experiment=given.get("experiment", ""),
            where_runs=given.get("where", ""),
            normalize=given.get("normalize", False),
            label=given.get("label", ""),
            where=node.where,
        )


# What makes the starts of a table, by the key that tells its kind.
_TABLES = {
    "random": _read_random_starts,
    "lattice": _read_lattice_starts,
    "file": _read_file_starts,
    "store": _read_store_starts,
}
