"""Plugins of the guide and of the tests, with studies that use them."""

import re
from importlib import resources
from pathlib import Path

from sweep import guide

FILES = Path(__file__).parent / "plugins"
TEMPLATE = resources.files("sweep.cli") / "templates" / "integrator.py.txt"


def _shown(topic, language="python"):
    return re.findall(rf"```{language}\n(.*?)```", guide.text(topic), re.DOTALL)


BEAD, DAMPED = ((FILES / f"{name}.py").read_text() for name in ("bead", "damped"))
STUDY, DAMPED_STUDY = ((FILES / f"{name}.toml").read_text() for name in ("bead", "damped"))
INTEGRATORS = '"variational+suzuki4", "ralston", "ralston+projected"'  # of the study of a bead
LEAPFROG = TEMPLATE.read_text("utf-8").replace("@name@", "geodesic_leapfrog")
FORCE, _ = _shown("force")
(PLOTS,) = _shown("observable")
(ENTRY_POINTS,) = _shown("observable", "toml")


def write(directory, text=BEAD, study=STUDY):
    """Write ``bead.py`` and ``bead.toml``; the path of the study."""
    (directory / "bead.py").write_text(text)
    (directory / "bead.toml").write_text(study)
    return directory / "bead.toml"


def edited(before, after, text=BEAD):
    """The plugin, or another text, with a text in place of one that stands in it."""
    assert before in text
    return text.replace(before, after, 1)
