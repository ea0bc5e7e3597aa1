"""The guide: a Markdown file for each topic, which `sweep guide TOPIC` prints."""

from importlib import resources

from integrators.errors import check_known

TOPICS = (
    "tutorial", "study", "integrators", "orders", "drifts", "deciding", "chaos", "work",
    "precision", "stores", "browser", "clusters", "buckets", "plugins", "python", "papers",
    "operations", "glossary", "contributing",
)  # fmt: skip
# What may be asked for by name and is part of a topic.
PART_OF = {
    "adaptive": "integrators", "compositions": "integrators", "methods": "integrators",
    "systems": "integrators", "starts": "study", "status": "operations", "reports": "stores",
    "serve": "browser",
}  # fmt: skip


def topics() -> dict[str, str]:
    """The title of each topic, by its name, in the order in which to read them."""
    return {topic: text(topic).partition("\n")[0].removeprefix("# ") for topic in TOPICS}


def text(topic: str) -> str:
    """The text of a topic, or of the one it is part of, or `InputError` with the nearest name."""
    topic = PART_OF.get(topic, topic)
    check_known("topic", topic, TOPICS)
    return resources.files(__name__).joinpath(f"{topic}.md").read_text("utf-8")
