"""`Store`: the place of a run table, and the files that belong to it.

`Store.at` resolves whatever a user calls a store by; all other functions take a `Store`.

Each experiment is a Zarr group that the lease holder creates, grows and folds records into. All
other files of a store are below ``_geosweep``:

- ``session.json``: the name of the session whose records count, empty once it has ended, and the
  lease holder who wrote the file (`sweep.store.lease.holder.SessionRecord`).
- ``records/GROUP/ROW/*.record.npz`` and ``*.checkpoint.npz``: what tasks have written for a row of
  shards, see `sweep.store.commit.records`. Workers write each file once, under a unique name and
  without the lease, and remove checkpoints; the lease holder removes both kinds.
- ``folded/GROUP.json``: the ledger of a group, with size and checksum of each file, see
  `sweep.store.commit.ledger`. The lease holder writes it.
- ``references/EXPERIMENT`` and ``ends.GROUP``: groups of reference trajectories, and of checkpoints
  at the ends of runs. They are written like those of experiments.
- ``environments/NUMBER.json``: what a worker computes with. Workers write it without the lease;
  two workers with the same number write the same content.
- ``progress.json``: plans and running tasks, for `sweep status`. The coordinator writes it without
  checking its lease, since no result depends on it.
- ``creating``: present in a bucket while a new store is uploaded.
- ``*.partial``: an unfinished file, which the next lease holder removes.

Beside the store are ``STORE.lock``, the lease (`sweep.store.lease.lease`); ``STORE.submitted`` and
``STORE.cancel`` (`sweep.store.lease.requests`), on which no result depends; and
``STORE.TOKEN.creating``, a directory in which a new store is built.
"""

import contextlib
import difflib
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
    list_records,
    records_folder,
    unfolded_by_group,
)
from sweep.store.files import (
    FORMAT_VERSION,
    INTERNAL,
    ArrayFiles,
    Unfolded,
    ZarrMode,
    end_checkpoints_group_name,
)
from sweep.store.lease.holder import SessionRecord, read_lease_holder

if TYPE_CHECKING:
    from sweep.store.arrays import StoredGroup

HALF_MADE = "creating"  # object in a bucket while a new store is uploaded
CREATING = ".creating"  # suffix of the directory in which a new store is built
LEASE = ".lock"  # suffix of the lease file
# Errors that a file itself causes. A missing file is not among them: another process may just have
# removed it.
UNUSABLE = (*(files.OF_FILE - {errno.ENOENT}), errno.EACCES, errno.EPERM)


@dataclass(frozen=True)
class Store:
    """A store, which need not exist yet; compared by its place, and sent to workers with tasks.

    Parameters
    ----------
    place : Path or ObjectPlace
        Where the store is.

    Examples
    --------
    >>> store = sweep.Store.at("quickstart.zarr")   # doctest: +SKIP
    >>> store.experiments                           # doctest: +SKIP
    ['pendulum', 'three-bodies']
    """

    place: Place

    @classmethod
    def at(cls, store: "str | Place | Store") -> "Store":
        """The store at a path or address; a `Store` is returned as it is.

        Parameters
        ----------
        store : str, Path, ObjectPlace or Store

        Returns
        -------
        Store

        Raises
        ------
        InputError
            If the text is an address, but not a valid one of a store in a bucket.
        """
        return store if isinstance(store, Store) else cls(places.place_of_store_name(store))

    def __str__(self) -> str:
        return str(self.place)

    def __reduce__(self) -> tuple[type["Store"], tuple[Place]]:
        return Store, (self.place,)  # without cached metadata

    # --- names -------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The last part of the store's path."""
        return self.place.name

    @property
    def in_bucket(self) -> bool:
        """Whether the store is in a bucket, not in a directory."""
        return isinstance(self.place, ObjectPlace)

    def absolute(self) -> "Store":
        """The same store, by its absolute path."""
        return Store(self.place.absolute())

    @property
    def real(self) -> "Store":
        """The same store, by its absolute path with symbolic links resolved."""
        if isinstance(self.place, ObjectPlace):
            return self
        return Store(Path(os.path.realpath(self.place)))

    def sibling(self, ending: str) -> Place:
        """The file beside the store that has its name and a suffix."""
        return self.place.with_name(self.name + ending)

    def output_path(self, ending: str) -> Path:
        """The default path of output made from the store, such as plots.

        It is beside the store, or in the working directory if the store is in a bucket.
        """
        name = f"{self.name.removesuffix('.zarr')}{ending}"
        if isinstance(self.place, ObjectPlace):
            return Path(name)
        return (self.place if self.place.name else self.place.absolute()).with_name(name)

    @property
    def lease_file(self) -> Place:
        """The file beside the store that names the lease holder; the same through all links."""
        return self.real.sibling(LEASE)

    def internal(self, *names: str) -> Place:
        """A place below ``/_geosweep``, where everything lives that is not a result."""
        return self.place.joinpath(INTERNAL, *names)

    @property
    def session_file(self) -> Place:
        """The file that holds the `SessionRecord`."""
        return self.internal("session.json")

    @property
    def session(self) -> SessionRecord:
        """The record of the last session, read now; an empty one if there was no session.

        Raises
        ------
        Damaged
            If the file fails its checksum.
        """
        try:
            return SessionRecord.parse(self.session_file.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return SessionRecord()
        except OSError as error:
            raise files.unreadable_file_error(self.session_file, error) from None
        except (ValueError, TypeError):
            text = "is not what was written: it fails its checksum"
            raise Damaged(text, str(self.session_file)) from None

    @property
    def session_name(self) -> str:
        """Name of the session whose records count, read now; empty if none do."""
        return self.session.name

    @property
    def half_made_sign(self) -> Place:
        """The object that marks an upload to a bucket, in which ``zarr.json`` comes last."""
        return self.internal(HALF_MADE)

    @property
    def half_made_directories(self) -> list[Place]:
        """The directories beside the store in which it is being built, or an attempt was left."""
        name = f"{glob.escape(self.name)}.????????{CREATING}"
        return [*self.place.parent.glob(name)]

    # --- what is there -----------------------------------------------------------------------

    @contextlib.contextmanager
    def reading(self, key: str | None = None) -> Iterator[None]:
        """Turn `Unreachable` into `InputError`; a context manager that first asks the bucket.

        `key` is the key of the study that names the store, if one does.
        """
        try:
            if isinstance(self.place, ObjectPlace):
                self.place.check()
            yield
        except Unreachable as error:
            raise InputError(f"{self} cannot be read: {error}", key) from None

    @contextlib.contextmanager
    def naming_damage(self) -> Iterator[None]:
        """Add the name of the store to errors of unreadable files; a context manager.

        Besides `Damaged`, it handles errors of the operating system about files in the store, such
        as a loop of symbolic links.
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
        """Whether anything exists at the store's place; False for a path that no file can have."""
        if isinstance(self.place, ObjectPlace):
            return self.place.exists()
        return os.path.exists(self.place)

    def is_half_made(self) -> bool:
        """Whether the store is being created in a bucket, or its creation was interrupted."""
        return self.half_made_sign.is_file() and not (self.place / METADATA).is_file()

    def is_unwritable(self) -> bool:
        """Whether the store is a directory in which this user may not write."""
        if isinstance(self.place, ObjectPlace):
            return False
        return not os.access(self.place, os.W_OK | os.X_OK)

    def anew(self) -> "Store":
        """The same store without cached metadata, so that `attributes` are read again."""
        return Store(self.place)

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the root, read once; raises as `metadata`, and `Damaged`."""
        if self._broken_seals[0]:
            lost = "it says which study the store holds: restore it from a copy"
            raise self._damage_of_root(lost)
        attributes: dict[str, Any] = self.metadata["attributes"]
        return attributes

    def _read_metadata(self) -> dict[str, Any]:
        with self.reading():
            return files.read_zarr_metadata(self.place)

    def _read_metadata_again(self) -> dict[str, Any]:
        """Read the root of a store that is there, which a run may have made just now."""
        try:
            return self._read_metadata()
        except Damaged as damage:
            remedy = (
                "it says which study the store holds: restore it from a copy, or run the "
                "study into another STORE"
            )
            if os.path.lexists(str(self.place / METADATA)):
                raise Damaged(damage.text, damage.file, remedy) from None
            raise InputError(
                f"{damage.file} is not there, and the store is half deleted; {remedy}"
            ) from None

    @functools.cached_property
    def metadata(self) -> dict[str, Any]:
        """The ``zarr.json`` of the root, read once; see `anew`.

        Raises
        ------
        InputError
            If there is no store, it has another format, or its object store does not answer.
        Damaged
            If the file cannot be read.
        """
        try:
            metadata = self._read_metadata()
        except Damaged:
            if not self.internal().is_dir():
                raise InputError(self.absence_in_words()) from None
            metadata = self._read_metadata_again()
        attributes = metadata.get("attributes", {})
        self.check_format(attributes)
        if "experiments" not in attributes:
            raise InputError(f"{self.place / METADATA} lacks its experiments: the store is damaged")
        return metadata

    def absence_in_words(self) -> str:
        """Why nothing can be read at the place, and which store was perhaps meant."""
        expected = f"{self} is not a store; expected a directory that `sweep run` wrote"
        if isinstance(self.place, ObjectPlace):
            return expected
        if os.path.lexists(self.place):
            said = f"{expected}."
        elif (holder := read_lease_holder(self.lease_file)) is None:
            said = f"{self} is not a store: there is nothing of this name."
        elif holder.is_dead():
            return (
                f"{self} has nothing stored yet: its run ended early; `sweep run` begins it again"
            )
        else:
            return f"{self} has nothing stored yet: {holder} prepares its run"
        others = glob.glob("*.zarr", root_dir=self.place.parent)
        stems = [stem for name in others if (stem := name[:-5]) != self.name.removesuffix(".zarr")]
        if near := difflib.get_close_matches(self.place.stem, stems, n=1):
            return f"{said} Did you mean {near[0]}.zarr?"
        study = self.output_path(".toml")
        return f"{said} `sweep run {study} {self}` writes it" if study.is_file() else said[:-1]

    @functools.cached_property
    def _broken_seals(self) -> list[bool]:
        """Whether the root's attributes, and its copies of metadata, fail their checksums.

        While the store grows it has neither copies nor checksums, and both are False.
        """
        if not (seals := (self.metadata.get("consolidated_metadata") or {}).get("seals")):
            return [False, False]
        found = files.checksums_of_root(self.metadata)
        return [seals[:1] != found[:1], seals[1:] != found[1:]]

    def _damage_of_root(self, remedy: str) -> Damaged:
        return Damaged("fails its checksum", str(self.place / METADATA), remedy)

    def check(self) -> None:
        """Raise `InputError` or `Damaged` unless the store can be read; see `metadata`."""
        _ = self.metadata

    def check_format(self, attributes: Mapping[str, Any]) -> None:
        """Raise `StoreError` unless the root's attributes have the current format."""
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
        """Names of the experiments: those in the study, in its order, then those that left it."""
        names = [name for name in self.consolidated if "/" not in name]
        if not names:  # its creation or growth was interrupted
            names = [file.parent.name for file in self.place.glob(f"*/{METADATA}")]
        others = sorted(set(names) - {INTERNAL})
        return list(dict.fromkeys([*self.attributes["experiments"], *others]))

    @property
    def consolidated(self) -> dict[str, dict[str, Any]]:
        """The root's copies of the metadata of all groups and arrays, by path.

        It is empty while the store grows.

        Raises
        ------
        Damaged
            If the copies fail their checksum.
        """
        if self._broken_seals[1]:
            raise self._damage_of_root(f"`sweep verify {self} --repair` repairs it")
        return (self.metadata.get("consolidated_metadata") or {}).get("metadata") or {}

    def list_files(self) -> set[str]:
        """List the files of the store, as paths relative to it."""
        return places.files_below(self.place)

    def array(self, *names: str) -> ArrayFiles:
        """The array at a path below the store, including records that are not folded yet.

        Raises
        ------
        Damaged
            If the metadata of the array are damaged.
        """
        *group, _ = names
        return ArrayFiles.read(self.place.joinpath(*names), self.unfolded("/".join(group)))

    def unfolded(self, group: str) -> Unfolded:
        """The records of a group that are not folded yet, by row of shards."""
        return self.unfolded_by_group().get(files.group_with_records_of(group), {})

    def unfolded_by_group(self) -> Mapping[str, Unfolded]:
        """The records that are not folded yet, by group."""
        records = list_records(records_folder(self.place))
        return unfolded_by_group(records, self.session_name) if records else {}

    def arrays_of_group(
        self, group: str, unfolded: Unfolded | None = None
    ) -> dict[str, ArrayFiles]:
        """The arrays of a group by name, including the checkpoints at the ends of its runs.

        Parameters
        ----------
        group : str
            Name of a group of runs or references.
        unfolded : dict of int to list of Record, optional
            Records to read as if they were folded, from the method `unfolded`; by default none.

        Returns
        -------
        dict of str to ArrayFiles

        Raises
        ------
        Damaged
            If the metadata of an array are damaged.
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
        """Open the root group with zarr, without records that are not folded yet.

        Metadata are read from their own files, not from the consolidated copy.

        Parameters
        ----------
        mode : {"r", "r+", "a"}
            As in zarr.
        check : callable, optional
            Called before each write takes effect; may raise.
        """
        root: StoredGroup = _arrays().open_root_group(self.place, mode, check)
        return root

    def group(self, name: str, mode: ZarrMode = "r") -> "StoredGroup":
        """Open a group below the root with zarr, as `root` does."""
        group: StoredGroup = _arrays().open_zarr_group(self.root(mode), name)
        return group

    def existing_root(self) -> "StoredGroup | None":
        """Open the root group with zarr; None if the store does not exist.

        Raises
        ------
        StoreError
            If the place holds something other than a store, or cannot be read.
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
                self.anew().check()  # raises with the reason
            attributes = {}
        if "format_version" not in attributes:
            raise StoreError(f"{self} exists and is not a Geosweep store; give another STORE")
        self.check_format(attributes)
        return self.root()

    def _is_taken(self) -> bool:
        """Whether the place holds anything other than the remains of an interrupted creation."""
        if isinstance(self.place, ObjectPlace):
            self.place.check()
            return self.place.is_dir() and not self.is_half_made()
        return self.place.exists() and not (self.place.is_dir() and not any(self.place.iterdir()))


def _arrays() -> ModuleType:
    from sweep.store import arrays  # loads zarr, which `sweep status` does not need

    return arrays
