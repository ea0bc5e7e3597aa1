"""Marks in picture files, so that pictures of unchanged data need not be drawn again.

A mark contains a digest of the data that the pictures of an experiment are drawn from, and the
kinds of the pictures. This module does not need Matplotlib.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr

MARK = re.compile(rb"geosweep ([0-9a-f]{64}) ([a-z0-9 -]+)\.")  # any bytes may follow
PNG_END = b"IEND\xaeB`\x82"  # missing if a file was cut off


def digest_of_pictures(dataset: xr.Dataset, kinds: Iterable[str]) -> str:
    """Digest of all data that the pictures of an experiment are drawn from.

    The digest covers coordinates, attributes, and the variables of each run, which include its
    identity and measured times. Since these differ when a run is computed again, series need not
    be read. The versions of the package and of Matplotlib and the code of `sweep` are covered too.

    Parameters
    ----------
    dataset : xarray.Dataset
        An experiment from `sweep.open_study`.
    kinds : iterable of str

    Returns
    -------
    str
    """
    drawn_by = *kinds, version("geosweep"), version("matplotlib"), _hash_of_code()
    digest = hashlib.sha256(repr(drawn_by).encode())
    digest.update(repr(sorted(dataset.attrs.items())).encode())
    for name, array in sorted(dataset.variables.items()):
        said = name, array.dims, array.shape, str(array.dtype), sorted(array.attrs.items())
        digest.update(repr(said).encode())
        if name in dataset.coords or array.dims == ("run",):
            numbers = array.dtype.kind in "biuf"
            digest.update(
                array.values.tobytes() if numbers else repr(array.values.tolist()).encode()
            )
    return digest.hexdigest()


@functools.cache
def _hash_of_code() -> str:
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def picture_mark(digest: str, kinds: Iterable[str]) -> str:
    """The mark in each picture of an experiment: the digest, and the kinds of all pictures."""
    return f"geosweep {digest} {' '.join(sorted(kinds))}."


def unchanged_pictures(files: Mapping[str, Path], digest: str) -> list[str]:
    """Kinds whose PNG files have the digest; none if a picture that was drawn with them is missing.

    Parameters
    ----------
    files : dict of str to Path
        Files by kind; they need not exist.
    digest : str
        Result of `digest_of_pictures`.

    Returns
    -------
    list of str
    """
    texts = {kind: file.read_bytes() for kind, file in files.items() if file.is_file()}
    whole = {kind: text for kind, text in texts.items() if text.endswith(PNG_END)}
    marks = {kind: found for kind, text in whole.items() if (found := MARK.search(text))}
    own = {kind: mark for kind, mark in marks.items() if mark[1].decode() == digest}
    complete = all(mark[2].decode().split() == sorted(own) for mark in own.values())
    return list(own) if complete else []
