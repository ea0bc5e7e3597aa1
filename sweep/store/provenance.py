"""What a run was computed with: kind of CPU, libm, versions. Its number stands beside the results.

Arithmetic and square roots are the same everywhere; the sines, cosines and logarithms of two
libraries may differ in the last bit, and one library's on two kinds of CPU.
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
ATTRIBUTE = "environments"  # of the root: what each number stands for
ARGUMENTS = 4096  # at which the functions of libm are tried
DIGITS = 7  # of a hash in hexadecimal, as a number: it fits an int32


@functools.cache
def describe_cpu_libm_and_versions() -> dict[str, str]:
    """What this process computes with, as a dict of texts."""
    return {
        "cpu": llvmlite.binding.get_host_cpu_name(),
        "libm": f"{' '.join(filter(None, platform.libc_ver()))} {_hash_of_libm()}".strip(),
        "system": f"{platform.system()} {platform.machine()}",
        "llvmlite": llvmlite.__version__,
        **versions(),
    }


def provenance_number(description: Mapping[str, str]) -> int:
    """The number of a description, never 0: that is of runs of which it is not known."""
    text = json.dumps(description, sort_keys=True)
    return int(hashlib.sha256(text.encode()).hexdigest()[:DIGITS], 16) + 1


def cpu_and_libm_kind(description: Mapping[str, str]) -> str:
    """What results depend on to the last bit, as a text: kind of CPU and libm."""
    return f"CPU {description['cpu']}, libm {description['libm']}"


@functools.lru_cache(maxsize=64)
def write_provenance_of_process(store: Store, session: "Session") -> int:
    """This process's number, once the store says what that stands for: its root, or a file.

    Parameters
    ----------
    store : sweep.store.store.Store
    session : sweep.store.lease.sessions.Session
        Another one may find another store at the same path.
    """
    number = provenance_number(describe_cpu_libm_and_versions())
    file = store.internal(FOLDER, f"{number}.json")
    if str(number) not in store.attributes.get(ATTRIBUTE, {}) and not file.is_file():
        file.parent.mkdir(exist_ok=True)
        write_text_atomically(file, json.dumps(describe_cpu_libm_and_versions()))
    return number


def provenance_noted_by_workers(store: Store) -> dict[str, Any]:
    """The root's attribute of what workers noted, with what it says already, as a dict.

    Parameters
    ----------
    store : sweep.store.store.Store

    Returns
    -------
    dict
        Empty if nobody has noted anything that it does not say.
    """
    files = store.internal(FOLDER).glob("*.json")
    known = store.attributes.get(ATTRIBUTE, {})
    new = {file.stem: json.loads(file.read_text()) for file in files if file.stem not in known}
    return {ATTRIBUTE: known | new} if new else {}


def _hash_of_libm() -> str:
    """A hash of values of the functions that kernels take from libm: equal ones compute alike."""
    digest = hashlib.sha256()
    for k in range(1, ARGUMENTS + 1):
        x = 40.0 * k / ARGUMENTS
        values = math.sin(x), math.cos(x), math.log(x), math.atan2(x, 3.0), math.exp(-x)
        digest.update(struct.pack("<5d", *values))
    return digest.hexdigest()[:8]


@functools.cache
def versions() -> dict[str, str]:
    """Versions of Geosweep, Python and the packages that results depend on.

    Those of the code that is imported, as they were when they were asked for first.

    Returns
    -------
    dict of str to str
        By name of the package, ``python`` among them; in a git checkout its ``commit`` too.
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
