"""The plugin and the study of README."""

import re
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text()
SECTION = README[README.index("\n## Plugins\n") : README.index("\n## From Python\n")]
(BEAD,) = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
(STUDY,) = re.findall(r"```toml\n(.*?)```", SECTION, re.DOTALL)


def write(directory, text=BEAD, study=STUDY):
    """Write ``bead.py`` and ``bead.toml``; the path of the study."""
    (directory / "bead.py").write_text(text)
    (directory / "bead.toml").write_text(study)
    return directory / "bead.toml"


def edited(before, after, text=BEAD):
    """The plugin with a text in place of another, which stands in it."""
    assert before in text
    return text.replace(before, after, 1)
