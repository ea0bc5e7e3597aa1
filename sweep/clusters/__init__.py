"""Clusters of all kinds on which runs are computed, connections to them, and their workers."""

from integrators.lazy import lazy

# These import Dask, which takes as long as all the rest of a run that has nothing to compute.
_NAMES = "connect", "local", "processes", "profiles", "workers"
__getattr__, __dir__, __all__ = lazy(__name__, {name: f"sweep.clusters.{name}" for name in _NAMES})
