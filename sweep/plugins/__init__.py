"""What users bring: their own systems, integrators and observables, as source text."""

from integrators.lazy import lazy

_HOMES = {
    "BUILT_IN": "sweep.plugins.registry",
    "approved": "sweep.plugins.approvals",
    "kept": "sweep.plugins.loader",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
