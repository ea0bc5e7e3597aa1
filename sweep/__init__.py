"""Geosweep: distributed parameter studies of integrators on spheres.

>>> import sweep
>>> outcome = sweep.run("quickstart", "quickstart.zarr")   # doctest: +SKIP
>>> tree = sweep.open_study("quickstart.zarr")             # doctest: +SKIP
"""

import importlib
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# Imported when first used: `sweep --help` should not wait for Dask, xarray and Numba.
_HOMES = {
    "ClusterSpec": "sweep.clusters.spec",
    "drift_table": "sweep.analysis",
    "export": "sweep.exports.files",
    "grid": "sweep.analysis",
    "growth_table": "sweep.analysis",
    "least_work": "sweep.analysis",
    "open_study": "sweep.store.open",
    "order_table": "sweep.analysis",
    "query": "sweep.analysis",
    "report": "sweep.reports.page",
    "results": "sweep.analysis",
    "run": "sweep.campaign.coordinator",
    "tolerance_table": "sweep.analysis",
    "units": "sweep.analysis",
    "work_table": "sweep.analysis",
}
__all__ = [*_HOMES, "versions"]


def __getattr__(name):
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return __all__


def versions():
    """Versions of Geosweep, Python and the packages that results depend on, as a dict.

    In a git checkout with its ``commit``.
    """
    found = {"python": platform.python_version()}
    for package in ("geosweep", "numba", "numpy", "scipy", "xarray", "zarr", "distributed"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found | _commit()


def _commit():
    home = Path(__file__).resolve().parent.parent
    if not (home / ".git").exists():
        return {}
    command = ["git", "-C", str(home), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"commit": asked.stdout.strip()}
