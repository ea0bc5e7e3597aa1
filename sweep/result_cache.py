"""A cache of what commands printed and drew, in the user's cache directory.

An entry is valid as long as everything that it depends on is unchanged. So `sweep ls` need not
import every integrator, a run that has nothing to compute need not analyse its store again, and a
page need not be drawn again. Any entry may be deleted at any time: the command computes it again.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import integrators
import sweep
import systems
from integrators.compiler.cache_directory import cache_root

if TYPE_CHECKING:
    import xarray as xr

FOLDER = "found"  # in the cache
MOST = 200  # files of it: the pictures of an experiment are one


def stamps(files: Iterable[str | Path]) -> dict[str, list[int]]:
    """Size, inode and time of each file: a file that was written since has others."""
    stats = {os.fspath(file): os.stat(file) for file in files}
    return {file: [own.st_size, own.st_ino, own.st_mtime_ns] for file, own in stats.items()}


def digest_of_state(*parts: object) -> str:
    """A digest of parts, by their `repr`, and of all code of ours."""
    roots = [Path(str(package.__file__)).parent for package in (integrators, systems, sweep)]
    code = stamps(sorted(file for root in roots for file in root.rglob("*.py")))
    return hashlib.sha256(repr([code, parts]).encode()).hexdigest()


def digest_of_pictures(dataset: "xr.Dataset", kinds: Iterable[str]) -> str:
    """Digest of all that the pictures of an experiment are drawn from, and of our code.

    The digest covers coordinates, attributes, and the variables of each run, which include its
    identity and measured times. Since these differ when a run is computed again, series need not
    be read. The versions of the package and of Matplotlib are covered too.

    Parameters
    ----------
    dataset : xarray.Dataset
        An experiment from `sweep.open_study`.
    kinds : iterable of str

    Returns
    -------
    str
    """
    digest = hashlib.sha256(repr(sorted(dataset.attrs.items())).encode())
    for name, array in sorted(dataset.variables.items()):
        said = name, array.dims, array.shape, str(array.dtype), sorted(array.attrs.items())
        digest.update(repr(said).encode())
        if name in dataset.coords or array.dims == ("run",):
            numbers = array.dtype.kind in "biuf"
            digest.update(
                array.values.tobytes() if numbers else repr(array.values.tolist()).encode()
            )
    drawn_by = *kinds, version("geosweep"), version("matplotlib")
    return digest_of_state(digest.hexdigest(), drawn_by)


def find_in_cache(name: str, state: str) -> Any:
    """What is kept by a name, if it was found in this state, a digest; else None."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        kept = json.loads(_file(name).read_bytes())
        return kept["found"] if kept["state"] == state else None
    return None


def put_into_cache(name: str, state: str, found: object) -> None:
    """Keep what was found in a state, by a name; in place of what was kept by it before."""
    file = _file(name)
    part = file.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):  # as on a disk that is full
        file.parent.mkdir(exist_ok=True)
        part.write_text(json.dumps({"state": state, "found": found}), encoding="utf-8")
        part.replace(file)
        by_age = sorted(file.parent.iterdir(), key=lambda own: -own.stat().st_mtime_ns)
        for old in by_age[MOST:]:
            old.unlink(missing_ok=True)


def _file(name: str) -> Path:
    return cache_root(FOLDER) / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"
