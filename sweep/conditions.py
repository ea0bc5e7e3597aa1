"""The initial conditions of an experiment, as read."""

from sweep.sources import Node, distinct, gathered
from sweep.starts import GivenStart, NamedStart, RandomStarts


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
