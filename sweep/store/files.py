"""The store's files read directly: fast to import, and one damaged chunk hides no other.

Zarr reads an array or raises; here each chunk of an array can be looked at by itself. Only what
`sweep.store.storage` writes is understood: blosc with crc32c, numbers or strings.
"""

import functools
import json
import math
from dataclasses import dataclass

import numpy as np

from sweep.errors import Damaged, Unreachable
from sweep.store.backends.places import METADATA, map_over_place

FORMAT_VERSION = 1
INTERNAL = "_geosweep"
REFERENCES, CHECKPOINTS = "references", "checkpoints"
CODECS = ("blosc", "crc32c")


def references_group_name(experiment):
    """Name of the group with the references of an experiment."""
    return f"{INTERNAL}/{REFERENCES}/{experiment}"


@dataclass(frozen=True, eq=False)
class ArrayFiles:
    """An array of the store, by its files.

    Parameters
    ----------
    directory : Path or ObjectPlace
    shape, chunks : tuple of int
    dtype : numpy.dtype
        Object for strings.
    dims : tuple of str
    fill : float, int, bool or str
        What a chunk that is not there reads as.
    attributes : dict
    separator : {"/", "."}
        In the names of chunks.
    """

    directory: object
    shape: tuple
    chunks: tuple
    dtype: np.dtype
    dims: tuple
    fill: object
    attributes: dict
    separator: str = "/"

    @classmethod
    def read(cls, directory):
        """The array in `directory`.

        Raises
        ------
        Damaged
            If its metadata cannot be read, or are none that Geosweep writes.
        """
        metadata = read_zarr_metadata(directory)
        try:
            names = tuple(codec["name"] for codec in metadata["codecs"])
            if metadata["node_type"] != "array" or names[1:] != CODECS:
                raise Damaged(f"{directory / METADATA} describes no array that Geosweep writes")
            text = metadata["data_type"] == "string"
            fill = metadata["fill_value"]
            return cls(
                directory=directory,
                shape=tuple(metadata["shape"]),
                chunks=tuple(metadata["chunk_grid"]["configuration"]["chunk_shape"]),
                dtype=np.dtype(object if text else metadata["data_type"]),
                dims=tuple(metadata["dimension_names"]),
                fill=math.nan if fill == "NaN" else fill,
                attributes=metadata["attributes"],
                separator=metadata["chunk_key_encoding"]["configuration"]["separator"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Damaged(f"{directory / METADATA} lacks or garbles {error}") from None

    @property
    def name(self):
        """Of the array."""
        return self.directory.name

    @property
    def ndim(self):
        """Number of dimensions."""
        return len(self.shape)

    @property
    def grid(self):
        """Number of chunks along each dimension."""
        return tuple(math.ceil(n / c) for n, c in zip(self.shape, self.chunks, strict=True))

    def file(self, index):
        """The file of a chunk."""
        return self.directory / self.separator.join(("c", *map(str, index)))

    def rows(self, index):
        """The chunk's slice of the first dimension."""
        start = index[0] * self.chunks[0]
        return slice(start, min(start + self.chunks[0], self.shape[0]))

    def chunk(self, index):
        """A chunk's values, or None if there is no file.

        Raises
        ------
        Damaged
            If the file is not what was written.
        """
        try:
            data = self.file(index).read_bytes()
        except FileNotFoundError:
            return None
        except Unreachable:
            raise
        except OSError as error:
            raise Damaged(f"cannot be read: {error.strerror}") from None
        values = self._decoded(data)
        return values[tuple(slice(n) for n in self._extent(index))]

    def values(self):
        """The whole array, which is one-dimensional."""
        parts = map_over_place(self.directory, self._filled, range(self.grid[0]))
        return np.concatenate(parts) if parts else np.zeros(0, self.dtype)

    def _filled(self, i):
        part, size = self.chunk((i,)), self._extent((i,))[0]
        return np.full(size, self.fill, self.dtype) if part is None else part

    def _extent(self, index):
        """Shape of the part of a chunk that lies within the array."""
        sizes = zip(index, self.chunks, self.shape, strict=True)
        return tuple(min(chunk, shape - i * chunk) for i, chunk, shape in sizes)

    def _decoded(self, data):
        import google_crc32c

        body, stored = data[:-4], data[-4:]
        if google_crc32c.value(body) != int.from_bytes(stored, "little") or len(stored) < 4:
            raise Damaged("fails its checksum")
        try:
            plain = _blosc_codec().decode(body)
            values = (
                _decode_string_chunk(plain)
                if self.dtype == object
                else np.frombuffer(plain, self.dtype)
            )
            return values.reshape(self.chunks)
        except (RuntimeError, ValueError) as error:
            raise Damaged(f"cannot be decoded: {error}") from None


@functools.cache
def _blosc_codec():
    from numcodecs.blosc import Blosc

    return Blosc()


def _decode_string_chunk(data):
    from numcodecs.vlen import VLenUTF8

    return VLenUTF8().decode(data)


def read_zarr_metadata(directory):
    """The metadata of a group or an array.

    Raises
    ------
    Damaged
        If there are none, or they are no JSON.
    """
    file = directory / METADATA
    try:
        found = json.loads(file.read_bytes())
    except Unreachable:
        raise
    except OSError as error:
        raise Damaged(f"{file} cannot be read: {error.strerror}") from None
    except ValueError:
        raise Damaged(f"{file} is no JSON") from None
    if not isinstance(found, dict):
        raise Damaged(f"{file} describes no group and no array")
    return found


def are_runs_computed_to_sample(counts, status, samples):
    """Whether runs are computed up to the last of so many samples, or to where they failed.

    Parameters
    ----------
    counts, status : ndarray of int, shape (runs,)
        The commit marker and the status, 0 if it is complete.
    samples : int
    """
    return (counts >= samples) | ((counts > 0) & (status > 0))


def read_1d_arrays(directory, names):
    """One-dimensional arrays of a group by name.

    Raises
    ------
    Damaged
        If one of them is.
    """
    result = {}
    for name in names:
        try:
            result[name] = ArrayFiles.read(directory / name).values()
        except Damaged as damage:
            raise Damaged(f"{directory / name}: {damage}") from None
    return result
