"""Plugins: systems, integrators, observables and plots that users add.

A study names the source file of a plugin; installed distributions add theirs by entry points.
Plugins import from `integrators.plugin`, `systems.plugin` and this package, whose names are stable.

A plugin is read as text, of a file (`loader`), of functions of a script (`written`) or of a store,
whose plugins the user has to approve (`approvals`). The text is made a module, whose exports must
be of their kinds (`loader`); they are added to what is built in (`registry`), and tried before any
run: whether they compile and are what they declare (`checks`, `system_checks`, `method_checks`).

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
