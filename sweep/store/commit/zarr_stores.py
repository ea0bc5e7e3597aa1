"""A store as zarr reads it, with records that are not folded, and writes it, after a check.

Whatever zarr cannot read or decode is `Damaged` here, with the names of array, chunk and store.
"""

import asyncio
import contextlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, Self

from zarr.abc.store import ByteRequest
from zarr.abc.store import Store as ZarrStore
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import register_pipeline
from zarr.storage import LocalStore, StorePath, WrapperStore

from integrators.errors import GeosweepError
from sweep.errors import Damaged
from sweep.store.backends.places import (
    METADATA,
    ObjectPlace,
    Place,
    WriteCheck,
    read_bytes_or_none,
)
from sweep.store.commit.records import Ledger, entry_of, put_durably
from sweep.store.files import (
    CHUNK_KEY,
    damage_of_store,
    name_of_file,
    unreadable,
)


class PlaceStore(WrapperStore[ZarrStore]):
    """What zarr, and xarray, read and write a store by; it travels to workers.

    What cannot be read is `Damaged`, and says where.

    Parameters
    ----------
    place : Path or ObjectPlace
        Absolute, where it is read in other working directories too, as by workers.
    called : Path or ObjectPlace, optional
        As messages call it.
    check : callable, optional
        Called before each write takes effect, which then is as by `put_durably`; it may raise.
    inner : zarr.abc.store.Store, optional
        Zarr's own of the place.

    Attributes
    ----------
    written : dict
        The chunks that were written by it, as a ledger has them.
    """

    def __init__(
        self,
        place: Place,
        called: Place | None = None,
        check: WriteCheck | None = None,
        inner: ZarrStore | None = None,
    ) -> None:
        if inner is None:
            inner = place.zarr_store() if isinstance(place, ObjectPlace) else LocalStore(place)
        super().__init__(inner)
        self.place, self.called, self._check = place, called or place, check
        self.written = Ledger()

    def _with_store(self, store: ZarrStore) -> Self:
        new = type(self)(self.place, self.called, self._check, store)
        new.written = self.written
        return new

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """As zarr's; `Damaged` if it cannot be read."""
        try:
            data = await self._store.get(key, prototype, byte_range)
            if data is None and isinstance(self._store, LocalStore):
                read_bytes_or_none(
                    self._store.root / key
                )  # raises of a directory, which zarr does not
            elif data is not None and key.endswith(METADATA):
                json.loads(data.to_bytes())
        except NotADirectoryError:  # zarr looks for arrays in whatever is in a group
            return None
        except OSError as error:
            raise self._named(unreadable(name_of_file(key), error)) from None
        except ValueError:
            raise self._named(Damaged("is no JSON", key)) from None
        return data

    def _named(self, error: GeosweepError) -> GeosweepError:
        return damage_of_store(self.called, error) if isinstance(error, Damaged) else error

    async def set(self, key: str, value: Buffer) -> None:
        """As zarr's."""
        data = value.to_bytes()
        if self._check is None:
            await self._store.set(key, value)
        else:
            self._check_writable()
            await asyncio.to_thread(put_durably, self.place / key, data, self._check)
        if CHUNK_KEY.fullmatch(key):
            self.written[key] = entry_of(data)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """As zarr's."""
        if self._check is None or isinstance(self.place, ObjectPlace):
            await self._store.set_if_not_exists(key, value)
        elif not await self.exists(key):
            await self.set(key, value)

    async def delete(self, key: str) -> None:
        """As zarr's."""
        if self._check is not None:
            self._check()
        await self._store.delete(key)


class DamageNamingPipeline(BatchedCodecPipeline):
    """Zarr's decoding; in stores of ours a chunk that fails is `Damaged`, and says which it is."""

    async def read_batch(self, batch_info: Iterable[Any], *rest: Any, **options: Any) -> None:
        """As zarr's."""
        with _naming_chunks(batch := tuple(batch_info)):
            await super().read_batch(batch, *rest, **options)

    async def write_batch(self, batch_info: Iterable[Any], *rest: Any, **options: Any) -> None:
        """As zarr's, which first reads a chunk that is written in part."""
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
        path = batch[0][0]  # zarr gives one chunk at a time
        if not (isinstance(path, StorePath) and isinstance(path.store, PlaceStore)):
            raise
        text = "fails its checksum" if "checksum" in str(error) else f"cannot be decoded: {error}"
        damage = Damaged(text, name_of_file(path.path))
        raise damage_of_store(path.store.called, damage) from None
