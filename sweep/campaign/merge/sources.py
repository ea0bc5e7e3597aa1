"""Sources of a merge: leased, so that nobody writes to them, and checked against each other."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sweep.campaign.merge.copy_rows import Rows, worker_written_arrays
from sweep.errors import Damaged, StoreError, Unreachable
from sweep.plugins import approvals
from sweep.store import storage
from sweep.store.backends.places import ObjectPlace, path_below
from sweep.store.files import name_of_file
from sweep.store.lease.lease import acquire_lease, lease_holder_of_store
from sweep.store.store import Store
from sweep.store.studies import stored_study
from sweep.store.upkeep import REMOVE, verify

if TYPE_CHECKING:
    import contextlib

    from sweep.store.storage import StoredGroup
    from sweep.study import Study

KEPT = "that share system, parameters, time axis, record, statistics and reference are merged"


@dataclass(frozen=True, eq=False)
class Source:
    """A store that is merged, with the study that it keeps."""

    store: Store
    root: StoredGroup
    study: Study

    def group(self, name: str) -> StoredGroup | None:
        """A group below the root, or None."""
        return storage.open_zarr_group(self.root, name) if name in self.root else None

    @functools.cached_property
    def _runs(self) -> dict[str, Rows | None]:
        return {}

    def runs(self, name: str, samples: int) -> Rows | None:
        """The `Rows` of an experiment, or None."""
        if name not in self._runs:
            group = self.group(name)
            self._runs[name] = None if group is None else Rows(group, samples)
        return self._runs[name]


def check_merge_places(stores: Sequence[Store], out: Store) -> None:
    """Raise `StoreError` unless there are stores to read, and a free place to write to."""
    if len({store.real for store in stores}) < max(2, len(stores)):
        raise StoreError("a merge needs two stores or more, each named once")
    for store in stores:
        with store.reading():
            if not store.exists():
                raise StoreError(f"{store}: there is no store to merge")
    with out.reading():
        is_free = _is_free_output_place(out)
    if not is_free:
        raise StoreError(f"{out} exists: a merge makes a new store, expected a path that is free")
    for store in stores:
        if store.real.place in out.real.place.parents:
            raise StoreError(f"{out} lies in {store}: give a path beside it")


def _is_free_output_place(out: Store) -> bool:
    place = out.place
    if isinstance(place, ObjectPlace):
        return not out.exists() or out.is_half_made()
    return not os.path.lexists(place) or (place.is_dir() and not any(place.iterdir()))


def _may_be_leased(store: Store) -> bool:
    if isinstance(store.place, ObjectPlace):
        try:
            store.place.check(writes=True)
        except Unreachable:
            return False
        return True
    beside = str(store.lease_file.parent)
    return os.access(store.place, os.W_OK) and os.access(beside, os.W_OK)


def acquire_source_lease(stack: contextlib.ExitStack, store: Store) -> None:
    """Acquire the lease of a source; of one that is read-only, check that nobody holds it."""
    if _may_be_leased(store):
        stack.enter_context(acquire_lease(store))
    elif (writer := lease_holder_of_store(store)) is not None:
        raise StoreError(
            f"{store} is held by {writer} since {writer.since}: wait for it, or end it there"
        )


def open_merge_source(
    store: Store, trust_plugins: bool, progress: Callable[[str, int, int], object]
) -> Source:
    """Open and verify a source; its plugins run, if they are approved.

    Raises
    ------
    StoreError
        If there is no store.
    Damaged
        If it is damaged.
    InputError
        If a plugin is not approved; then nothing of the store is read.
    """
    root = store.existing_root()
    if root is None:
        raise StoreError(f"{store}: there is no store to merge")
    approvals.approved_plugins_of_store(root.attrs, store, trust_plugins)
    findings = verify.verify(store, functools.partial(progress, f"Reading {store.name}"))
    found = [finding for finding in findings if finding.remedy != REMOVE]
    if found:
        file = name_of_file(path_below(found[0].path, store.place))
        more = f", and {len(found) - 1:,} further findings" if len(found) > 1 else ""
        raise Damaged(
            f"{found[0].text}{more}",
            f"{store}: {file}",
            f"`sweep verify {store} --repair` mends it, and `sweep run` an interrupted run",
        )
    return Source(store, root, stored_study(store, trust_plugins=trust_plugins))


def check_same_study(one: Source, other: Source) -> None:
    """Refuse stores of two studies, and experiments that differ in more than their runs."""
    if one.study.name != other.study.name:
        raise StoreError(
            f"{one.store} is the store of the study {one.study.name!r}, {other.store} that of "
            f"{other.study.name!r}: expected stores of one study"
        )
    for name in storage.experiment_group_names(one.root):
        if name in other.root:
            _check_same_rows(one, other, name)


def _check_same_rows(one: Source, other: Source, name: str) -> None:
    groups = [storage.open_zarr_group(source.root, name) for source in (one, other)]
    fixed = [json.loads(group.attrs["fixed"]) for group in groups]
    for scanned in {name for group in groups for name in group.attrs["scanned"]}:
        for parts in fixed:  # a coordinate says which value each row has
            parts["parameters"].pop(scanned, None)
    for key, value in fixed[0].items():
        if fixed[1][key] != value:
            longer = "; `sweep extend` makes the shorter one longer" * (key == "duration")
            raise StoreError(
                f"{other.store} cannot be merged with {one.store}: experiment {name!r} has {key} = "
                f"{fixed[1][key]!r} there, and {value!r} here. Experiments {KEPT}{longer}"
            )
    times, others = (group["time"][:] for group in groups)
    if not np.array_equal(times, others):
        raise StoreError(
            f"{other.store} cannot be merged with {one.store}: the samples of experiment {name!r} "
            "are at other times there"
        )
    for group, source in zip(groups, (one, other), strict=True):
        for array in worker_written_arrays(group).values():
            if array.ndim > 1 and array.shape[1] != len(times):
                raise StoreError(f"{source.store} was left while it grew; `sweep run` mends it")
