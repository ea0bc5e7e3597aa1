"""The plugin and the study of the guide."""

import re

from sweep import guide

TOPIC = guide.text("plugins")
BEAD, FORCE, PENDULUM, MIDPOINT, SCRIPT, LEAPFROG, PLOTS, DAMPED = re.findall(
    r"```python\n(.*?)```", TOPIC, re.DOTALL
)
STUDY, DAMPED_STUDY, ENTRY_POINTS = re.findall(r"```toml\n(.*?)```", TOPIC, re.DOTALL)


def write(directory, text=BEAD, study=STUDY):
    """Write ``bead.py`` and ``bead.toml``; the path of the study."""
    (directory / "bead.py").write_text(text)
    (directory / "bead.toml").write_text(study)
    return directory / "bead.toml"


def edited(before, after, text=BEAD):
    """The plugin with a text in place of another, which stands in it."""
    assert before in text
    return text.replace(before, after, 1)
