"""Plugins: systems, integrators, observables and plots that users add.

A study names the source file of a plugin; installed distributions add theirs by entry points.
Plugins import from `integrators.plugin`, `systems.plugin` and this package, whose names are stable.

>>> from sweep.plugins import PlotKind
"""

from integrators.lazy import lazy

_HOMES = {
    "BUILT_IN": "sweep.plugins.registry",
    "Library": "sweep.plugins.registry",
    "PlotKind": "sweep.plugins.plots",
    "approved_plugin_hashes": "sweep.plugins.approvals",
    "approved_plugins_of_store": "sweep.plugins.approvals",
    "plugins_kept_in_store": "sweep.plugins.loader",
    "read_plugin_source": "sweep.plugins.loader",
    "with_installed_plugins": "sweep.plugins.registry",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
