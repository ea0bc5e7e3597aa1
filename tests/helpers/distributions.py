"""Distributions of the tests, whose entry points name the plugin of README, with a plot.

Each is a directory for the path: a module, and metadata beside it.
"""

import itertools

from plugin_text import BEAD, STUDY

PLOTS = '''
from sweep.plugins import PlotKind


def heights(dataset):
    """Height of the first body over time."""
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().plot(dataset["time"], dataset["height"].T)
    return figure


PLOTS = (PlotKind("heights", heights),)
'''
NAMED = f"""{BEAD}{PLOTS}
RALSTONS, HEIGHT, HEIGHTS = INTEGRATORS[0], OBSERVABLES[0], PLOTS[0]
"""
POINTS = {
    "systems": "bead = MODULE:Bead",
    "integrators": "ralston = MODULE:RALSTONS",
    "observables": "height = MODULE:HEIGHT",
    "plots": "heights = MODULE:HEIGHTS",
}
INSTALLED = STUDY.replace(STUDY[STUDY.index("plugins") : STUDY.index("[[exp")], "")
_numbers = itertools.count()


def distribute(directory, name, text=NAMED, points=POINTS, module=None):
    """Write a distribution; the name of its module."""
    module = module or f"{name}_{next(_numbers)}"
    metadata = directory / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (directory / f"{module}.py").write_text(text)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[geosweep.{group}]\n{said}\n" for group, said in points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(lines).replace("MODULE", module))
    return module
