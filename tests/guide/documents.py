"""README and the guide, in the order in which they are read, and their fenced blocks."""

import re
from dataclasses import dataclass
from pathlib import Path

from sweep.guide import KEYS, TOPICS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
GUIDE = ROOT / "sweep" / "guide"
PAGES = [topic for topic in TOPICS if topic != KEYS]  # which is made by the program
DOCUMENTS = (README, *(GUIDE / f"{topic}.md" for topic in PAGES))
FENCED = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Fenced:
    """A fenced block: its document, its language, its name or None, and its text."""

    document: Path
    language: str
    name: str | None
    text: str


def fenced(language, documents=DOCUMENTS):
    """The blocks of a language in all documents, as a list of `Fenced`."""
    return [
        Fenced(path, *found.groups())
        for path in documents
        for found in FENCED.finditer(path.read_text())
        if found[1] == language
    ]


def command_lines(path):
    """The lines of a document's ``sh`` blocks, without comments and empty lines."""
    lines = [line for block in fenced("sh", [path]) for line in block.text.splitlines()]
    bare = [re.sub(r"(^|\s+)#.*", "", line).strip() for line in lines]
    return [line for line in bare if line]
