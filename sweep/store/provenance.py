"""What a run was computed with: kind of CPU, libm and versions, stored under a number.

Arithmetic and square roots are the same everywhere. Sines, cosines and logarithms may differ in
the last bit between two libraries, and for one library between two kinds of CPU.
"""

import functools
import hashlib
import json
import math
import platform
import struct
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llvmlite.binding

from sweep.store.backends.places import write_text_atomically
from sweep.store.store import Store

if TYPE_CHECKING:
    from sweep.store.lease.sessions import Session

FOLDER = "environments"
ATTRIBUTE = "environments"  # root attribute that describes each number
ARGUMENTS = 4096  # number of arguments at which the functions of libm are evaluated
DIGITS = 7  # hexadecimal digits of a hash that fit an int32


@functools.cache
def describe_cpu_libm_and_versions() -> dict[str, str]:
    """Describe what this process computes with, as a dict of texts."""
    return {
        "cpu": llvmlite.binding.get_host_cpu_name(),
        "libm": f"{' '.join(filter(None, platform.libc_ver()))} {_hash_of_libm()}".strip(),
        "system": f"{platform.system()} {platform.machine()}",
        "llvmlite": llvmlite.__version__,
        **versions(),
    }


def provenance_number(description: Mapping[str, str]) -> int:
    """The number of a description; never 0, which stands for an unknown environment."""
    text = json.dumps(description, sort_keys=True)
    return int(hashlib.sha256(text.encode()).hexdigest()[:DIGITS], 16) + 1


def cpu_and_libm_kind(description: Mapping[str, str]) -> str:
    """The kind of CPU and libm in words, on which results depend to the last bit."""
    return f"CPU {description['cpu']}, libm {description['libm']}"


@functools.lru_cache(maxsize=64)
def write_provenance_of_process(store: Store, session: "Session") -> int:
    """The number of this process's environment, once it is described in the store.

    Unless the root's attributes already describe it, a file is written.

    Parameters
    ----------
    store : sweep.store.store.Store
    session : sweep.store.lease.sessions.Session
        Part of the key of the cache, since a later session may find another store at the path.

    Returns
    -------
    int
    """
    number = provenance_number(describe_cpu_libm_and_versions())
    file = store.internal(FOLDER, f"{number}.json")
    if str(number) not in store.attributes.get(ATTRIBUTE, {}) and not file.is_file():
        file.parent.mkdir(exist_ok=True)
        write_text_atomically(file, json.dumps(describe_cpu_libm_and_versions()))
    return number


def provenance_noted_by_workers(store: Store) -> dict[str, Any]:
    """The new value of the root's attribute `ATTRIBUTE`, as a dict with this one key.

    It joins the environments that workers have described in files with those in the root.

    Parameters
    ----------
    store : sweep.store.store.Store

    Returns
    -------
    dict
        Empty if the root already describes all environments.
    """
    files = store.internal(FOLDER).glob("*.json")
    known = store.attributes.get(ATTRIBUTE, {})
    new = {file.stem: json.loads(file.read_text()) for file in files if file.stem not in known}
    return {ATTRIBUTE: known | new} if new else {}


def _hash_of_libm() -> str:
    """A hash of values of the functions that kernels call in libm."""
    digest = hashlib.sha256()
    for k in range(1, ARGUMENTS + 1):
        x = 40.0 * k / ARGUMENTS
        values = math.sin(x), math.cos(x), math.log(x), math.atan2(x, 3.0), math.exp(-x)
        digest.update(struct.pack("<5d", *values))
    return digest.hexdigest()[:8]


@functools.cache
def versions() -> dict[str, str]:
    """Versions of Geosweep, Python and the packages that results depend on.

    They are determined once in each process, so that they are those of the imported code.

    Returns
    -------
    dict of str to str
        Versions by name of the package, with ``python`` and, in a git checkout, ``commit``.
    """
    found = {"python": platform.python_version()}
    for package in ("geosweep", "numba", "numpy", "scipy", "xarray", "zarr", "distributed"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found | _git_commit()


def _git_commit() -> dict[str, str]:
    home = Path(__file__).resolve().parents[2]
    if not (home / ".git").exists():
        return {}
    command = ["git", "-C", str(home), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"commit": asked.stdout.strip()}
