"""The guide: a Markdown file for each topic, which `sweep guide TOPIC` prints."""

import functools
import textwrap
import tomllib
from importlib import resources

from integrators.errors import check_known

KINDS = {
    "Tutorial": ("tutorial",),
    "How to: studies": ("recipes", "scan", "starts", "methods", "cost"),
    "How to: runs": ("resume", "failures", "cluster", "submit", "encryption", "bucket"),
    "How to: answers": (
        "work", "recommend", "decide", "compare", "rounding", "precision", "structure", "chaos",
    ),
    "How to: results": ("query", "figures", "portraits", "report", "atlas", "browser", "papers"),
    "How to: stores": ("extend", "merge", "verify"),
    "How to: Python and plugins": (
        "python", "large", "trajectory", "system", "integrator", "force", "observable", "trust",
    ),
    "Explanation": ("order", "drift", "store"),
    "Reference": ("reference", "keys", "glossary", "contributing"),
}  # fmt: skip
TOPICS = tuple(topic for topics in KINDS.values() for topic in topics)
KEYS = "keys"  # whose text is made of what keys mean
KEYS_TITLE = "The keys of a study"
# What may be asked for by name and is part of a topic.
PART_OF = {
    "adaptive": "methods", "compositions": "methods", "integrators": "methods",
    "systems": "methods", "study": "recipes", "studies": "recipes", "orders": "order",
    "drifts": "drift", "stores": "store", "status": "failures", "reports": "report",
    "certificates": "atlas", "serve": "browser", "clusters": "cluster", "buckets": "bucket",
    "plugins": "system", "deciding": "decide", "operations": "resume",
}  # fmt: skip


def topics() -> dict[str, str]:
    """The title of each topic, by its name, in the order in which to read them."""
    return {topic: text(topic).partition("\n")[0].removeprefix("# ") for topic in TOPICS}


def text(topic: str) -> str:
    """The text of a topic, or of the one it is part of, or `InputError` with the nearest name."""
    topic = PART_OF.get(topic, topic)
    check_known("topic", topic, TOPICS)
    return _keys() if topic == KEYS else _file(f"{topic}.md")


@functools.cache
def keys_of_tables() -> dict[str, dict[str, str]]:
    """What each key of a study means, by the class of its table; its ``title`` comes first."""
    return tomllib.loads(_file("keys.toml"))


def _keys() -> str:
    lines = [
        f"# {KEYS_TITLE}",
        "",
        "All keys but `name`, `system`, `parameters`, `scan`, `zip` and `exclude` of an",
        "`[[experiment]]` may also stand in `[defaults]`, and then hold for every experiment that",
        "does not set them.",
    ]
    for (_, title), *keys in (list(table.items()) for table in keys_of_tables().values()):
        lines += ["", f"## {title}", "", *(_wrapped(f"- `{key}`: {told}") for key, told in keys)]
    return "\n".join([*lines, ""])


def _wrapped(item: str) -> str:
    return textwrap.fill(item, 100, subsequent_indent="  ", break_on_hyphens=False)


def _file(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text("utf-8")
