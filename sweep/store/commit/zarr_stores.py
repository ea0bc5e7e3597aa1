"""A store as zarr reads it, with records that are not folded, and writes it, after a check."""

import asyncio
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.abc.store import Store as ZarrStore
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import LocalStore, WrapperStore

from sweep.store.backends.places import (
    ObjectPlace,
    Place,
    WriteCheck,
    path_below,
    read_bytes_or_none,
)
from sweep.store.commit.records import Unfolded, put_durably
from sweep.store.files import ArrayFiles, Index

CHUNK_KEY = re.compile(r"(.+?)/(c(?:[./]\d+)+)")


class StoreFiles(Protocol):
    """What zarr needs to know of a `sweep.store.store.Store`, whose names these are."""

    @property
    def place(self) -> Place:
        """Where it is."""

    @property
    def zarr_store(self) -> ZarrStore | str:
        """What zarr, and xarray, call its place."""

    @property
    def metadata(self) -> dict[str, Any]:
        """That of the root, as it was when it was first read."""

    def anew(self) -> Self:
        """The same store, of which nothing was read."""

    def list_files(self) -> set[str]:
        """The files as they are now, relative to it."""

    def arrays_of_group(self, group: str) -> dict[str, ArrayFiles]:
        """The arrays of a group, by name."""

    def unfolded_by_group(self) -> dict[str, Unfolded]:
        """What is not folded yet, by group."""


def zarr_store_with_records(store: StoreFiles, unfolded: Mapping[str, Unfolded]) -> ZarrStore | str:
    """What zarr, and xarray, read a `Store` by: its place alone where all is folded.

    Parameters
    ----------
    store : StoreFiles
    unfolded : dict of str to sweep.store.commit.records.Unfolded
        What is not folded yet, by group.
    """
    if not unfolded:
        return store.zarr_store
    arrays = {}
    for group in unfolded:
        for array in store.arrays_of_group(group).values():
            if array.sharded:
                path = path_below(array.directory, store.place)
                arrays[path] = array, unfolded[group]
    inner: ZarrStore
    if isinstance(store.place, ObjectPlace):
        inner = store.place.zarr_store()
    else:
        inner = LocalStore(store.place, read_only=True)
    return _WithRecords(inner, arrays)


class _WithRecords(WrapperStore[ZarrStore]):
    """The shards that a fold would change, as it would write them; all else as it is.

    It travels to workers, with the names of records and without their contents.
    """

    def __init__(self, store: ZarrStore, arrays: Mapping[str, tuple[ArrayFiles, Unfolded]]) -> None:
        super().__init__(store)
        self._arrays = arrays

    def _with_store(self, store: ZarrStore) -> Self:
        return type(self)(store, self._arrays)

    def _shard_with_records(self, key: str) -> tuple[ArrayFiles, Index, Unfolded] | None:
        """The array of a shard that has records, its index and the records; None of all else."""
        found = CHUNK_KEY.fullmatch(key)
        known = self._arrays.get(found[1]) if found else None
        if found is None or known is None:
            return None
        array, unfolded = known
        index = array.index_of_file(array.directory / found[2])
        if index[0] not in unfolded.records:
            return None
        return array, index, unfolded

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        shard = self._shard_with_records(key)
        if shard is None:
            return await self._store.get(key, prototype, byte_range)
        data = _read_shard(*shard)
        return None if data is None else prototype.buffer.from_bytes(_part(data, byte_range))

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def exists(self, key: str) -> bool:
        shard = self._shard_with_records(key)
        if shard is None:
            return await self._store.exists(key)
        return _read_shard(*shard) is not None


def _read_shard(array: ArrayFiles, index: Index, unfolded: Unfolded) -> bytes | None:
    return unfolded.shard_with(array, index, read_bytes_or_none(array.file(index)))


def _part(data: bytes, byte_range: ByteRequest | None) -> bytes:
    match byte_range:
        case RangeByteRequest(start, end):
            return data[start:end]
        case OffsetByteRequest(offset):
            return data[offset:]
        case SuffixByteRequest(suffix):
            return data[-suffix:]
    return data


def zarr_store_with_check(store: StoreFiles, check: WriteCheck) -> ZarrStore:
    """What zarr writes a `Store` by; `check` is called before each write takes effect.

    Parameters
    ----------
    store : StoreFiles
    check : callable
        Raises unless this process still holds the lease.
    """
    if isinstance(store.place, ObjectPlace):
        return _Checked(store.place.zarr_store(), store.place, check)
    return _CheckedLocal(store.place, check)


class _Checked(WrapperStore[ZarrStore]):
    """Checks before each request; an object is put as by `put_durably`, under a condition."""

    def __init__(self, store: ZarrStore, place: ObjectPlace, check: WriteCheck) -> None:
        super().__init__(store)
        self._place, self._check = place, check

    def _with_store(self, store: ZarrStore) -> Self:
        return type(self)(store, self._place, self._check)

    async def set(self, key: str, value: Buffer) -> None:
        data = value.to_bytes()
        await asyncio.to_thread(put_durably, self._place / key, data, self._check)

    async def delete(self, key: str) -> None:
        self._check()
        await self._store.delete(key)


class _CheckedLocal(LocalStore):
    """Checks when a file is written and not in its place yet; see `put_durably`."""

    def __init__(self, root: Path | str, check: WriteCheck, *, read_only: bool = False) -> None:
        super().__init__(root, read_only=read_only)
        self._check = check

    def with_read_only(self, read_only: bool = False) -> Self:
        return type(self)(self.root, self._check, read_only=read_only)

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        data = value.to_bytes()
        await asyncio.to_thread(put_durably, self.root / key, data, self._check)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        if not (self.root / key).exists():
            await self.set(key, value)

    async def delete(self, key: str) -> None:
        self._check()
        await super().delete(key)
