"""Zarr's access to a store: writes are checked and durable, and errors name the damaged chunk.

Data that zarr cannot read or decode raise `Damaged`, with the names of store, array and chunk.
"""

import asyncio
import contextlib
import copy
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from zarr.abc.store import ByteRequest
from zarr.abc.store import Store as ZarrStore
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import register_pipeline
from zarr.storage import LocalStore, MemoryStore, StorePath, WrapperStore

from integrators.errors import GeosweepError
from sweep.errors import Damaged
from sweep.store.backends.places import (
    METADATA,
    ObjectPlace,
    Place,
    WriteCheck,
    read_bytes_or_none,
)
from sweep.store.commit.records import Ledger, ledger_entry, put_durably, write_new_file
from sweep.store.files import (
    CHUNK_KEY,
    damage_of_store,
    name_of_file,
    unreadable_file_error,
)


class PlaceStore(WrapperStore[ZarrStore]):
    """The zarr store through which zarr and xarray read and write; it can be sent to workers.

    A file that cannot be read raises `Damaged` with its name.

    Parameters
    ----------
    place : Path or ObjectPlace
        An absolute path, if it is to be read in other working directories, such as by workers.
    called : Path or ObjectPlace, optional
        The name of the store in messages.
    check : callable, optional
        Called before each write takes effect; may raise. Writes are then those of `put_durably`.
    is_new : bool
        Whether this is a new store, in a directory that nobody else reads. Its metadata, which zarr
        reads and writes again for each array and attribute, are in memory until `write_metadata`.

    Attributes
    ----------
    written : dict
        Ledger entries of the chunks that were written through this object.
    """

    def __init__(
        self,
        place: Place,
        called: Place | None = None,
        check: WriteCheck | None = None,
        is_new: bool = False,
    ) -> None:
        self._metadata: dict[str, Buffer] = {}  # of a new store
        inner: ZarrStore
        if is_new:
            inner = MemoryStore(self._metadata)
        else:
            inner = place.zarr_store() if isinstance(place, ObjectPlace) else LocalStore(place)
        super().__init__(inner)
        self.place, self.called, self._check = place, called or place, check
        self.written = Ledger()

    def _with_store(self, store: ZarrStore) -> Self:
        new = copy.copy(self)
        new._store = store
        return new

    def write_metadata(self) -> None:
        """Write the metadata of a new store."""
        for key, value in self._metadata.items():
            write_new_file(Path(str(self.place), key), value.to_bytes())

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """As zarr's method; raises `Damaged` if the file cannot be read."""
        try:
            if isinstance(self._store, MemoryStore) and not key.endswith(METADATA):
                found = read_bytes_or_none(self.place / key)
                return None if found is None else prototype.buffer.from_bytes(found)
            if isinstance(self._store, LocalStore):  # without a thread for each file
                data = self._store.get_sync(key, prototype=prototype, byte_range=byte_range)
                if data is None:
                    read_bytes_or_none(self.place / key)  # raises if it is a directory, unlike zarr
            else:
                data = await self._store.get(key, prototype, byte_range)
            if data is not None and key.endswith(METADATA):
                json.loads(data.to_bytes())
        except NotADirectoryError:  # zarr looks for arrays in all that a group contains
            return None
        except OSError as error:
            raise self._named(unreadable_file_error(name_of_file(key), error)) from None
        except ValueError:
            raise self._named(Damaged("is not JSON", key)) from None
        return data

    def _named(self, error: GeosweepError) -> GeosweepError:
        return damage_of_store(self.called, error) if isinstance(error, Damaged) else error

    async def set(self, key: str, value: Buffer) -> None:
        """As zarr's method."""
        data, is_chunk = value.to_bytes(), CHUNK_KEY.fullmatch(key)
        if self._check is not None:
            self._check_writable()
            await asyncio.to_thread(put_durably, self.place / key, data, self._check)
        elif is_chunk:
            write_new_file(Path(str(self.place), key), data)
        else:
            await self._store.set(key, value)
        if is_chunk:
            self.written[key] = ledger_entry(data)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """As zarr's method."""
        if self._check is None or isinstance(self.place, ObjectPlace):
            await self._store.set_if_not_exists(key, value)
        elif not await self.exists(key):
            await self.set(key, value)

    async def delete(self, key: str) -> None:
        """As zarr's method."""
        if self._check is not None:
            self._check()
        await self._store.delete(key)


class DamageNamingPipeline(BatchedCodecPipeline):
    """Zarr's codec pipeline, which raises `Damaged` for a bad chunk in a store of Geosweep."""

    async def read_batch(self, batch_info: Iterable[Any], *rest: Any, **options: Any) -> None:
        """As zarr's method."""
        with _naming_chunks(batch := tuple(batch_info)):
            await super().read_batch(batch, *rest, **options)

    async def write_batch(self, batch_info: Iterable[Any], *rest: Any, **options: Any) -> None:
        """As zarr's method, which first reads a chunk that is written only in part."""
        with _naming_chunks(batch := tuple(batch_info)):
            await super().write_batch(batch, *rest, **options)


register_pipeline(DamageNamingPipeline)


@contextlib.contextmanager
def _naming_chunks(batch: tuple[Any, ...]) -> Iterator[None]:
    try:
        yield
    except (GeosweepError, OSError):
        raise
    except Exception as error:
        path = batch[0][0]  # zarr passes one chunk at a time
        if not (isinstance(path, StorePath) and isinstance(path.store, PlaceStore)):
            raise
        text = "fails its checksum" if "checksum" in str(error) else f"cannot be decoded: {error}"
        damage = Damaged(text, name_of_file(path.path))
        raise damage_of_store(path.store.called, damage) from None
