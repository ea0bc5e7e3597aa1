"""A store as zarr reads it, with records that are not folded, and writes it, while it may."""

import asyncio
import re

from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.storage import LocalStore, WrapperStore

from sweep.store.backends.places import read_bytes_or_none
from sweep.store.commit.records import put_durably

CHUNK_KEY = re.compile(r"(.+?)/(c(?:[./]\d+)+)")


def zarr_store_with_records(store, unfolded):
    """What zarr, and xarray, read a `Store` by: its place alone where all is folded.

    Parameters
    ----------
    store : sweep.store.store.Store
    unfolded : dict of str to sweep.store.commit.records.Unfolded
        What is not folded yet, by group.
    """
    if not unfolded:
        return store.zarr_store
    arrays = {}
    for place in unfolded:
        for array in store.arrays_of_group(place).values():
            if array.sharded:
                path = array.directory.relative_to(store.place).as_posix()
                arrays[path] = array, unfolded[place]
    inner = store.zarr_store if store.in_bucket else LocalStore(store.place, read_only=True)
    return _WithRecords(inner, arrays)


class _WithRecords(WrapperStore):
    """The shards that a fold would change, as it would write them; all else as it is.

    It travels to workers, with the names of records and without their contents.
    """

    def __init__(self, store, arrays):
        super().__init__(store)
        self._arrays = arrays

    def _with_store(self, store):
        return type(self)(store, self._arrays)

    def _shard(self, key):
        """A shard's bytes, or `NotImplemented` of what records do not concern."""
        found = CHUNK_KEY.fullmatch(key)
        array, unfolded = self._arrays.get(found and found[1], (None, None))
        if array is None:
            return NotImplemented
        index = array.index_of_file(array.directory / found[2])
        if index[0] not in unfolded.records:
            return NotImplemented
        return unfolded.shard_with(array, index, read_bytes_or_none(array.file(index)))

    async def get(self, key, prototype, byte_range=None):
        data = self._shard(key)
        if data is NotImplemented:
            return await self._store.get(key, prototype, byte_range)
        return None if data is None else prototype.buffer.from_bytes(_part(data, byte_range))

    async def get_partial_values(self, prototype, key_ranges):
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def exists(self, key):
        data = self._shard(key)
        return await self._store.exists(key) if data is NotImplemented else data is not None


def _part(data, byte_range):
    match byte_range:
        case RangeByteRequest(start, end):
            return data[start:end]
        case OffsetByteRequest(offset):
            return data[offset:]
        case SuffixByteRequest(suffix):
            return data[-suffix:]
    return data


def zarr_store_with_check(store, check):
    """What zarr writes a `Store` by; `check` is called before each write takes effect.

    Parameters
    ----------
    store : sweep.store.store.Store
    check : callable
        Raises unless the store is still this process's.
    """
    if store.in_bucket:
        return _Checked(store.zarr_store, check)
    return _CheckedLocal(store.place, check)


class _Checked(WrapperStore):
    """Looks before each request."""

    def __init__(self, store, check):
        super().__init__(store)
        self._check = check

    def _with_store(self, store):
        return type(self)(store, self._check)

    async def set(self, key, value):
        self._check()
        await self._store.set(key, value)

    async def delete(self, key):
        self._check()
        await self._store.delete(key)


class _CheckedLocal(LocalStore):
    """Looks when a file is written and not in its place yet; see `put_durably`."""

    def __init__(self, root, check, *, read_only=False):
        super().__init__(root, read_only=read_only)
        self._check = check

    def with_read_only(self, read_only=False):
        return type(self)(self.root, self._check, read_only=read_only)

    async def set(self, key, value):
        self._check_writable()
        data = value.to_bytes()
        await asyncio.to_thread(put_durably, self.root / key, data, self._check)

    async def set_if_not_exists(self, key, value):
        if not (self.root / key).exists():
            await self.set(key, value)

    async def delete(self, key):
        self._check()
        await super().delete(key)
