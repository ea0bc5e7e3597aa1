"""Where runs are computed: clusters of all kinds, connections to them, and their workers."""

from integrators.lazy import lazy

# With Dask, which takes as long to import as all the rest of a run that has nothing to compute.
_NAMES = "connect", "workers"
__getattr__, __dir__, __all__ = lazy(__name__, {name: f"sweep.clusters.{name}" for name in _NAMES})
