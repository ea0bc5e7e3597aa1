"""What users bring: their own systems, integrators, observables and plots.

As source text, which a study names; or as installed distributions, by their entry points. Plugins
import from `integrators.plugin`, `systems.plugin` and here, where names are stable.

>>> from sweep.plugins import PlotKind
"""

from sweep.plugins.plots import PlotKind

__all__ = ["PlotKind"]
