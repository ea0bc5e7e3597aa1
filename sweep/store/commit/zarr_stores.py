"""A store as zarr reads it, with records that are not folded, and writes it, after a check.

Whatever zarr cannot read or decode is `Damaged` here, with the names of array, chunk and store.
"""

import asyncio
import contextlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, Self

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
from sweep.store.commit.records import put_durably
from sweep.store.files import (
    damage_of_store,
    name_of_file,
    unreadable,
)


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

    @property
    def attributes(self) -> dict[str, Any]:
        """Those of the root."""

    @property
    def consolidated(self) -> dict[str, dict[str, Any]]:
        """Metadata of all groups and arrays, as the root has them."""

    def anew(self) -> Self:
        """The same store, of which nothing was read."""

    def list_files(self) -> set[str]:
        """The files as they are now, relative to it."""


def zarr_store_to_read(store: StoreFiles, called: Place | None = None) -> ZarrStore:
    """What zarr, and xarray, read a `Store` by.

    Parameters
    ----------
    store : StoreFiles
        Absolute, where it is read in other working directories too, as by workers.
    called : Path or ObjectPlace, optional
        Its place as messages call it.
    """
    return _NamingDamage(_zarr_store_of_place(store.place, read_only=True), called or store.place)


def _zarr_store_of_place(place: Place, read_only: bool = False) -> ZarrStore:
    if isinstance(place, ObjectPlace):
        return place.zarr_store()
    return LocalStore(place, read_only=read_only)


class _NamingDamage(WrapperStore[ZarrStore]):
    """A zarr store of a place; what cannot be read is `Damaged`, and says where.

    It travels to workers.

    Parameters
    ----------
    store : ZarrStore
    place : Path or ObjectPlace
        As messages call it.
    """

    def __init__(self, store: ZarrStore, place: Place) -> None:
        super().__init__(store)
        self.place = place

    def _with_store(self, store: ZarrStore) -> Self:
        return type(self)(store, self.place)

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
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
        return damage_of_store(self.place, error) if isinstance(error, Damaged) else error


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
        if not (isinstance(path, StorePath) and isinstance(path.store, _NamingDamage)):
            raise
        text = "fails its checksum" if "checksum" in str(error) else f"cannot be decoded: {error}"
        damage = Damaged(text, name_of_file(path.path))
        raise damage_of_store(path.store.place, damage) from None


def zarr_store_with_check(store: StoreFiles, check: WriteCheck) -> ZarrStore:
    """What zarr writes a `Store` by; `check` is called before each write takes effect.

    Parameters
    ----------
    store : StoreFiles
    check : callable
        Raises unless this process still holds the lease.
    """
    return _Checked(_zarr_store_of_place(store.place), store.place, check)


class _Checked(_NamingDamage):
    """Checks before a write takes effect, which is as by `put_durably`."""

    def __init__(self, store: ZarrStore, place: Place, check: WriteCheck) -> None:
        super().__init__(store, place)
        self._check = check

    def _with_store(self, store: ZarrStore) -> Self:
        return type(self)(store, self.place, self._check)

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        data = value.to_bytes()
        await asyncio.to_thread(put_durably, self.place / key, data, self._check)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        if isinstance(self.place, ObjectPlace):
            await self._store.set_if_not_exists(key, value)
        elif not await self.exists(key):
            await self.set(key, value)

    async def delete(self, key: str) -> None:
        self._check()
        await self._store.delete(key)
