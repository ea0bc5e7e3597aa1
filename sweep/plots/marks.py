"""Marks in the files of pictures, so that those of the same data need not be drawn again.

A mark holds a digest of what an experiment's pictures are drawn from, and their kinds. It needs no
Matplotlib.
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

MARK = re.compile(rb"geosweep ([0-9a-f]{64}) ([a-z0-9 -]+)\.")  # what follows may be any byte
PNG_END = b"IEND\xaeB`\x82"  # which a file that was cut off lacks


def digest_of_pictures(dataset: xr.Dataset, kinds: Iterable[str]) -> str:
    """A digest of all that the pictures of an experiment are drawn from.

    These are coordinates, attributes and what is known of each run, among which are its identity
    and its measured times: a run that is computed again has others. So no series is read. Versions
    of the package and of Matplotlib, and all code of `sweep`, count too.

    Parameters
    ----------
    dataset : xarray.Dataset
        An experiment as `sweep.open_study` gives it.
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
    """The text that each picture of an experiment keeps: the digest, and the kinds of all."""
    return f"geosweep {digest} {' '.join(sorted(kinds))}."


def unchanged_pictures(files: Mapping[str, Path], digest: str) -> list[str]:
    """The kinds whose PNGs have a digest; none if one that was drawn with them is missing.

    Parameters
    ----------
    files : dict of str to Path
        Where the picture of a kind is, if there is one.
    digest : str
        As of `digest_of_pictures`.
    """
    texts = {kind: file.read_bytes() for kind, file in files.items() if file.is_file()}
    whole = {kind: text for kind, text in texts.items() if text.endswith(PNG_END)}
    marks = {kind: found for kind, text in whole.items() if (found := MARK.search(text))}
    own = {kind: mark for kind, mark in marks.items() if mark[1].decode() == digest}
    complete = all(mark[2].decode().split() == sorted(own) for mark in own.values())
    return list(own) if complete else []
