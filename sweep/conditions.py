"""The initial conditions of an experiment, as read."""

from sweep.sources import Node, distinct, gathered
from sweep.starts import FileStarts, GivenStart, LatticeStarts, NamedStart, RandomStarts


def initial_conditions(node, family):
    """Starts, as a tuple, all of which are states of all systems in `family`."""
    nodes = node.one_or_more()
    starts = gathered(_start, nodes, family)
    distinct(nodes, [start.label for start in starts], "label", "; give each a label of its own")
    return starts


def _start(node, family):
    if type(node.value) is str:
        start = NamedStart(node.string(), label=node.value, where=node.where)
    else:
        kind = next((key for key in _TABLES if key in node), None)
        if kind is None:
            raise node.expected(
                "a start's name, { random, seed, … }, { lattice, … }, { file, … } or "
                "the state itself: { q, omega, … } or { w, … }"
            )
        start = _TABLES[kind](node)
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
    keys = ("w",) if "w" in node else ("q", "omega")
    node.table((*keys, "normalize", "label"), keys)
    position = f"[{node.path[-1]}]" if type(node.path[-1]) is int else ""
    vectors = gathered(lambda key: gathered(_vector, node[key].elements()), keys)
    return GivenStart(
        vectors=dict(zip(keys, vectors, strict=True)),
        normalize=node.optional("normalize", Node.boolean, False),
        label=node.optional("label", Node.string, f"state{position}"),
        where=node.where,
    )


def _vector(node):
    if type(node.value) is not list or len(node.value) != 3:
        raise node.expected("a vector of 3 numbers")
    return tuple(part.real() for part in node.elements())


def _lattice_starts(node):
    node.table(("lattice", "body", "around", "label"), ("lattice",))
    with node.context():
        return LatticeStarts(
            count=node["lattice"].integer(),
            body=node.optional("body", Node.integer, 0),
            around=node.optional("around", Node.string, None),
            label=node.optional("label", Node.string, "lattice"),
            where=node.where,
        )


def _file_starts(node):
    node.table(("file", "normalize", "label"), ("file",))
    path = node.source.directory / node["file"].string()
    with node.context():
        return FileStarts.load(
            path,
            file=node["file"].value,
            normalize=node.optional("normalize", Node.boolean, False),
            label=node.optional("label", Node.string, path.stem),
            where=node.where,
        )


# What makes the starts of a table, by the key that tells its kind.
_TABLES = {
    "random": _random_starts,
    "lattice": _lattice_starts,
    "file": _file_starts,
    "q": _given_start,
    "omega": _given_start,
    "w": _given_start,
}
