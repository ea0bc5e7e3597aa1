"""`Store`: where a run table is, and what belongs to it there.

Whatever a user calls a store by is resolved once, by `Store.at`; everything below takes a `Store`.

Each experiment is a Zarr group, created, grown and folded by the holder of the lease. Everything
else of a store is below ``_geosweep``:

- ``session.json``: the name of the session whose records count, empty once it has ended, and the
  lease holder who wrote this (`sweep.store.lease.holder.SessionRecord`).
- ``records/GROUP/ROW/*.record.npz`` and ``*.checkpoint.npz``: what tasks have put for a row of
  shards, see `sweep.store.commit.records`. Workers write each file once, under a name of its own,
  without the lease, and remove checkpoints; the lease holder removes both kinds.
- ``folded/GROUP.json``: the ledger of a group, the size and a checksum of each file, see
  `sweep.store.commit.ledger`. Written by the lease holder.
- ``references/EXPERIMENT`` and ``ends.GROUP``: groups of reference trajectories, and of the states
  of integrators at the end of runs; as those of experiments.
- ``environments/NUMBER.json``: what a worker computes with. Workers write it without the lease; two
  of one number write the same.
- ``progress.json``: what is expected and what runs, for `sweep status`. The coordinator writes it
  without a check of its lease, since no result depends on them.
- ``creating``: in a bucket, while a new store is put there.
- ``*.partial``: what was not finished; the next lease holder removes it.

And beside the store: ``STORE.lock``, the lease (`sweep.store.lease.lease`); ``STORE.submitted`` and
``STORE.cancel`` (`sweep.store.lease.requests`), on which no result depends; and
``STORE.TOKEN.creating``, a directory where a new store is put together.
"""

import contextlib
import errno
import functools
import glob
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from integrators.errors import InputError
from sweep.errors import Damaged, StoreError, Unreachable
from sweep.store import files
from sweep.store.backends import places
from sweep.store.backends.places import METADATA, ObjectPlace, Place, WriteCheck
from sweep.store.commit.records import (
    Unfolded,
    list_records,
    records_folder,
    unfolded_by_group,
)
from sweep.store.files import (
    FORMAT_VERSION,
    INTERNAL,
    ArrayFiles,
    ZarrMode,
    end_checkpoints_group_name,
)
from sweep.store.lease.holder import SessionRecord

if TYPE_CHECKING:
    from sweep.store.arrays import StoredGroup

HALF_MADE = "creating"  # object in a bucket while a store is put there
CREATING = ".creating"  # after the store's own name and a token: where a new one is put together
LEASE = ".lock"  # after the store's own name alone: who writes to the store
# Errors of what is there: of one that is not there, another process may have removed it just now.
UNUSABLE = (*(files.OF_FILE - {errno.ENOENT}), errno.EACCES, errno.EPERM)


@dataclass(frozen=True)
class Store:
    """A store, which need not exist yet. Two of one place are equal, and tasks carry it.

    Parameters
    ----------
    place : Path or ObjectPlace

    Examples
    --------
    >>> store = sweep.Store.at("quickstart.zarr")   # doctest: +SKIP
    >>> store.experiments                           # doctest: +SKIP
    ['pendulum', 'three-bodies']
    """

    place: Place

    @classmethod
    def at(cls, store: "str | Place | Store") -> "Store":
        """The store that a user names.

        Parameters
        ----------
        store : str, Path, ObjectPlace or Store

        Returns
        -------
        Store

        Raises
        ------
        InputError
            If it is an address of another kind, or none of a place in a bucket.
        """
        return store if isinstance(store, Store) else cls(places.place_of_store_name(store))

    def __str__(self) -> str:
        return str(self.place)

    def __reduce__(self) -> tuple[type["Store"], tuple[Place]]:
        return Store, (self.place,)  # without what was read here

    # --- names -------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The last part of its place."""
        return self.place.name

    @property
    def in_bucket(self) -> bool:
        """Whether it is in a bucket, and in no directory."""
        return isinstance(self.place, ObjectPlace)

    def absolute(self) -> "Store":
        """The same store by a path that does not depend on the working directory."""
        return Store(self.place.absolute())

    @property
    def real(self) -> "Store":
        """The same store by its only name, without symbolic links."""
        if isinstance(self.place, ObjectPlace):
            return self
        return Store(Path(os.path.realpath(self.place)))

    def sibling(self, ending: str) -> Place:
        """The place beside the store that has its name and an ending."""
        return self.place.with_name(self.name + ending)

    def product(self, ending: str) -> Path:
        """Path of what is made of the store: beside it or, of one in a bucket, here."""
        name = f"{self.name.removesuffix('.zarr')}{ending}"
        if isinstance(self.place, ObjectPlace):
            return Path(name)
        return (self.place if self.place.name else self.place.absolute()).with_name(name)

    @property
    def lease_file(self) -> Place:
        """The file beside the store that says who writes to it; one, whatever the store's name."""
        return self.real.sibling(LEASE)

    def internal(self, *names: str) -> Place:
        """The place below ``/_geosweep``, where everything lives that is not a result."""
        return self.place.joinpath(INTERNAL, *names)

    @property
    def session_file(self) -> Place:
        """The file of the `SessionRecord`."""
        return self.internal("session.json")

    @property
    def session(self) -> SessionRecord:
        """What it says of its last session, as it is now; of none, if there was none."""
        try:
            return SessionRecord.parse(self.session_file.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return SessionRecord()
        except OSError as error:
            raise files.unreadable(self.session_file, error) from None
        except (ValueError, TypeError):
            text = "is not what was written: it fails its checksum"
            raise Damaged(text, str(self.session_file)) from None

    @property
    def session_name(self) -> str:
        """Name of the session whose records count, as it is now; empty if none do."""
        return self.session.name

    @property
    def half_made_sign(self) -> Place:
        """The object in a bucket while a store is put there, whose ``zarr.json`` comes last."""
        return self.internal(HALF_MADE)

    @property
    def half_made_directories(self) -> list[Place]:
        """The directories beside it where it is put together, or was until that was cut short."""
        name = f"{glob.escape(self.name)}.????????{CREATING}"
        return [*self.place.parent.glob(name)]

    # --- what is there -----------------------------------------------------------------------

    @contextlib.contextmanager
    def reading(self, key: str | None = None) -> Iterator[None]:
        """Within this, a bucket that does not answer is bad input; it is asked whether it does.

        `key` is that of a study, where one names the store.
        """
        try:
            if isinstance(self.place, ObjectPlace):
                self.place.check()
            yield
        except Unreachable as error:
            raise InputError(f"{self} cannot be read: {error}", key) from None

    @contextlib.contextmanager
    def naming_damage(self) -> Iterator[None]:
        """Within this, what is `Damaged`, or cannot be read, is said with the store's name.

        Also what the operating system says of a file below it, as of a loop of links.
        """
        try:
            yield
        except Damaged as damage:
            raise files.damage_of_store(self, damage) from None
        except OSError as error:
            file = error.filename
            if not isinstance(self.place, Path) or not isinstance(file, str | Path):
                raise
            below = self.place.absolute() in Path(file).absolute().parents
            if error.errno not in UNUSABLE or not below:
                raise
            text = f"cannot be used: {error.strerror}"
            if isinstance(error, PermissionError):
                raise StoreError(f"{file} {text}") from None
            raise files.damage_of_store(self, Damaged(text, str(file))) from None

    def exists(self) -> bool:
        """Whether there is anything at its place; also of a name that no file can have."""
        if isinstance(self.place, ObjectPlace):
            return self.place.exists()
        return os.path.exists(self.place)

    def is_half_made(self) -> bool:
        """Whether its creation in a bucket was cut short, or is under way."""
        return self.half_made_sign.is_file() and not (self.place / METADATA).is_file()

    def is_unwritable(self) -> bool:
        """Whether it is in a directory that this user may not write."""
        if isinstance(self.place, ObjectPlace):
            return False
        return not os.access(self.place, os.W_OK | os.X_OK)

    def anew(self) -> "Store":
        """The same store, of which nothing was read: `attributes` and `experiments` of now."""
        return Store(self.place)

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the root; as `metadata`. `Damaged` if they are other ones."""
        if self._broken_seals[0]:
            lost = "it says which study the store holds: restore it from a copy"
            raise self._damage_of_root(lost)
        attributes: dict[str, Any] = self.metadata["attributes"]
        return attributes

    @functools.cached_property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the root, its ``zarr.json``, read once; see `anew`.

        Raises
        ------
        InputError
            If there is no store, or one of a newer version, or its object store does not answer.
        """
        try:
            with self.reading():
                metadata = files.read_zarr_metadata(self.place)
        except Damaged as damage:
            if self.internal().is_dir():
                remedy = (
                    "it says which study the store holds: restore it from a copy, or run the "
                    "study into another STORE"
                )
                if os.path.lexists(str(self.place / METADATA)):
                    raise Damaged(damage.text, damage.file, remedy) from None
                raise InputError(
                    f"{damage.file} is not there, and the store is half deleted; {remedy}"
                ) from None
            raise InputError(
                f"{self} is not a store; expected a directory that `sweep run` wrote"
            ) from None
        attributes = metadata.get("attributes", {})
        self.check_format(attributes)
        if "experiments" not in attributes:
            raise InputError(f"{self.place / METADATA} lacks its experiments: the store is damaged")
        return metadata

    @functools.cached_property
    def _broken_seals(self) -> list[bool]:
        """Whether the root's attributes, and its copies of metadata, are others than were sealed.

        Not where there are no copies, nor seals, as while the store grows.
        """
        if not (seals := (self.metadata.get("consolidated_metadata") or {}).get("seals")):
            return [False, False]
        found = files.seals_of_root(self.metadata)
        return [seals[:1] != found[:1], seals[1:] != found[1:]]

    def _damage_of_root(self, remedy: str) -> Damaged:
        return Damaged("fails its checksum", str(self.place / METADATA), remedy)

    def check(self) -> None:
        """Raise `InputError` unless there is a store that can be read; see `metadata`."""
        _ = self.metadata

    def check_format(self, attributes: Mapping[str, Any]) -> None:
        """Raise `StoreError` unless the root's attributes are of a format that can be read."""
        if "format_version" not in attributes:
            raise StoreError(f"{self} is a Zarr store, but not one that `sweep run` wrote")
        if (version := attributes["format_version"]) < FORMAT_VERSION:
            raise StoreError(
                f"{self} has format {version}, of an earlier Geosweep; this one reads format "
                f"{FORMAT_VERSION}. Run its study, whose text is in 'studies' of "
                f"{self.place / METADATA}, into another STORE"
            )
        if version > FORMAT_VERSION:
            raise StoreError(
                f"{self} has format {version}, written by a newer Geosweep; this one reads up to "
                f"{FORMAT_VERSION}. Update Geosweep"
            )

    @property
    def experiments(self) -> list[str]:
        """Names of the experiments: those of the study in its order, then those that left it."""
        names = [name for name in self.consolidated if "/" not in name]
        if not names:  # it was cut short when it was made or grown
            names = [file.parent.name for file in self.place.glob(f"*/{METADATA}")]
        others = sorted(set(names) - {INTERNAL})
        return list(dict.fromkeys([*self.attributes["experiments"], *others]))

    @property
    def consolidated(self) -> dict[str, dict[str, Any]]:
        """Metadata of all groups and arrays, by their paths, as the root has them; or nothing.

        `Damaged` if they are other ones.
        """
        if self._broken_seals[1]:
            raise self._damage_of_root(f"`sweep verify {self} --repair` mends it")
        return (self.metadata.get("consolidated_metadata") or {}).get("metadata") or {}

    def list_files(self) -> set[str]:
        """The files of the store as they are now, a set of paths relative to it."""
        return places.files_below(self.place)

    def array(self, *names: str) -> ArrayFiles:
        """The `ArrayFiles` at a path below the store, with what is not folded yet.

        Raises
        ------
        Damaged
            If its metadata are.
        """
        *group, _ = names
        return ArrayFiles.read(self.place.joinpath(*names), self.unfolded("/".join(group)))

    def unfolded(self, group: str) -> Unfolded | None:
        """The `sweep.store.commit.records.Unfolded` of a group, None if all is folded."""
        return self.unfolded_by_group().get(files.group_with_records_of(group))

    def unfolded_by_group(self) -> dict[str, Unfolded]:
        """What is not folded yet, by group."""
        records = list_records(records_folder(self.place))
        return unfolded_by_group(records, self.session_name) if records else {}

    def arrays_of_group(
        self, group: str, unfolded: Unfolded | None = None
    ) -> dict[str, ArrayFiles]:
        """The arrays of a group, by name, without what is not folded yet unless that is given.

        Parameters
        ----------
        group : str
            Group of runs or references; the checkpoints at the ends of its runs are among them.
        unfolded : sweep.store.commit.records.Unfolded, optional
            As of `unfolded`.

        Raises
        ------
        Damaged
            If their metadata are.
        """
        copies = self.consolidated or files.read_metadata_below(self.place)
        return {
            name.rpartition("/")[2]: ArrayFiles.of(self.place / name, metadata, unfolded)
            for own in (group, end_checkpoints_group_name(group))
            for name, metadata in copies.items()
            if name.rpartition("/")[0] == own and metadata.get("node_type") != "group"
        }

    # --- by zarr -----------------------------------------------------------------------------

    def root(self, mode: ZarrMode = "r", check: WriteCheck | None = None) -> "StoredGroup":
        """The root group; always the metadata as it is, never the consolidated copy.

        Without what is not folded yet. `check` is called before each write
        takes effect, and may raise.
        """
        root: StoredGroup = _arrays().open_root_group(self.place, mode, check)
        return root

    def group(self, name: str, mode: ZarrMode = "r") -> "StoredGroup":
        """A group below the root; like the root's, its metadata as it is."""
        group: StoredGroup = _arrays().open_zarr_group(self.root(mode), name)
        return group

    def existing_root(self) -> "StoredGroup | None":
        """The root group; None if nothing is there.

        Raises
        ------
        StoreError
            If there is something else at its place, or it cannot be read.
        """
        try:
            if not self._is_taken():
                return None
        except Unreachable as error:
            raise StoreError(f"{self} cannot be used: {error}") from None
        except OSError as error:
            raise StoreError(f"{self} cannot be read: {error.strerror}") from None
        try:
            attributes = files.read_zarr_metadata(self.place).get("attributes", {})
        except Damaged:
            if self.internal().is_dir():
                self.anew().check()  # says what is wrong with it
            attributes = {}
        if "format_version" not in attributes:
            raise StoreError(f"{self} exists and is not a Geosweep store; give another STORE")
        self.check_format(attributes)
        return self.root()

    def _is_taken(self) -> bool:
        """Whether there is anything but what is left of a store whose creation was cut short."""
        if isinstance(self.place, ObjectPlace):
            self.place.check()
            return self.place.is_dir() and not self.is_half_made()
        return self.place.exists() and not (self.place.is_dir() and not any(self.place.iterdir()))


def _arrays() -> ModuleType:
    from sweep.store import arrays  # with zarr, which `sweep status` need not wait for

    return arrays
