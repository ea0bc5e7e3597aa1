"""Merge stores of one study into a new one; the sources are only read.

The new store keeps the studies of all sources. It is a copy of the first source, extended by the
runs of the others; it is made beside its place, and renamed when it is complete.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep.campaign.merge.copy_rows import (
    Rows,
    copy_rows,
    runs_with_different_results,
    worker_written_arrays,
)
from sweep.campaign.merge.sources import (
    acquire_source_lease,
    check_merge_places,
    check_same_study,
    open_merge_source,
)
from sweep.errors import CannotUnite, StoreError
from sweep.store import checkpoints, create, diff, provenance, storage
from sweep.store.backends.trees import copy_tree
from sweep.store.commit import fold
from sweep.store.commit.records import put_durably
from sweep.store.files import end_checkpoints_group_name, references_group_name
from sweep.store.lease.holder import SessionRecord
from sweep.store.lease.lease import acquire_lease
from sweep.store.store import Store
from sweep.study.model import unite_studies
from sweep.study.run_table import expand_experiment

if TYPE_CHECKING:
    from pathlib import Path

    from sweep.campaign.merge.sources import Source
    from sweep.store.backends.places import Place
    from sweep.store.diff import Entry
    from sweep.store.storage import StoredGroup
    from sweep.study import Study

Progress = Callable[[str, int, int], object]  # what is read or written, how much, of how much


@dataclass(frozen=True)
class Share:
    """Where the runs of a merged experiment come from.

    Parameters
    ----------
    experiment : str
    runs : int
        Number of runs in the studies of all sources.
    taken : tuple of int
        Number of computed runs that came from each source.
    both : int
        Number of computed runs that a later source has as well.
    differing : int
        Number of these whose results differ there; those of the first source were taken.
    pending : int
        Number of runs that are not computed yet.
    left_out : int
        Number of computed runs of later sources that no study asks for any more.
    """

    experiment: str
    runs: int
    taken: tuple[int, ...]
    both: int
    differing: int
    pending: int
    left_out: int


@dataclass(frozen=True)
class Merged:
    """A merged store.

    Parameters
    ----------
    store : Path or ObjectPlace
    shares : tuple of Share
    kinds : tuple of str
        Kinds of CPU on which its runs were computed.
    """

    store: Place
    shares: tuple[Share, ...]
    kinds: tuple[str, ...]

    @property
    def pending(self) -> int:
        """Number of runs that are not computed yet."""
        return sum(share.pending for share in self.shares)


def merge(
    paths: Sequence[str | Path],
    out: str | Path,
    *,
    prefer_first: bool = False,
    trust_plugins: bool = False,
    progress: Progress = lambda what, done, of: None,
) -> Merged:
    """Merge stores of one study into a new one.

    Parameters
    ----------
    paths : sequence of str or Path
        Two stores or more. A run that is computed in several is taken from the first of them.
    out : str or Path
        Place of the new store.
    prefer_first : bool
        Whether to take runs from the first source even if their results differ in another one.
    trust_plugins : bool
        Whether to approve the plugins that the stores bring: with them it is known which runs
        are the same. See `sweep.plugins.approvals`.
    progress : callable
        ``progress(what, done, of)`` is called with what is read or merged, and how far it is.

    Returns
    -------
    Merged

    Raises
    ------
    StoreError
        If a source is no store, damaged, leased by another process, or contradicts the others; if
        runs differ; if there is something at `out`. Then nothing is written.
    InputError
        If a store brings a plugin that this user has not approved; nor then.
    """
    stores, target = [Store.at(path).absolute() for path in paths], Store.at(out).absolute()
    check_merge_places(stores, target)
    with contextlib.ExitStack() as stack:
        for store in stores:
            acquire_source_lease(stack, store)
        lease = stack.enter_context(acquire_lease(target))
        sources = [open_merge_source(store, trust_plugins, progress) for store in stores]
        for other in sources[1:]:
            check_same_study(sources[0], other)
        whole = _united_study(sources)
        _check_studies_give_stored_runs(sources, whole)
        conflicts = _count_conflicting_runs(sources, whole, prefer_first)
        try:
            with create.creating_store_atomically(target, lease.check) as made:
                shares = _fill_merged_store(sources, whole, made, conflicts, progress)
                kinds = _record_hosts_and_versions(sources, made)
                storage.consolidate_zarr_metadata(made)
        except OSError as error:
            raise StoreError(f"{target} cannot be written: {error.strerror or error}") from None
    return Merged(target.place, tuple(shares), tuple(kinds))


def _united_study(sources: Sequence[Source]) -> Study:
    """Unite the studies of all sources."""
    whole = sources[0].study
    for source in sources[1:]:
        try:
            whole = unite_studies([whole, source.study])
        except CannotUnite as error:
            raise StoreError(
                f"{source.store} cannot be merged with those before: {error}"
            ) from None
    return whole


def _check_studies_give_stored_runs(sources: Sequence[Source], whole: Study) -> None:
    """Refuse sources whose studies no longer expand to the runs that they have."""
    given = {one.name: expand_experiment(one).run_id.astype("S16") for one in whole.experiments}
    for source in sources:
        for name in storage.experiment_group_names(source.root):
            group = storage.open_zarr_group(source.root, name)
            if (runs := source.runs(name, group["time"].shape[0])) is None:
                continue
            ids = runs.ids
            asked = ids[group["in_study"][:][: len(ids)]]
            lacking = ~np.isin(asked, given.get(name, ids[:0]))
            if lacking.any():
                raise StoreError(
                    f"{source.store} has {int(lacking.sum()):,} runs of experiment {name!r} that "
                    "its study does not give any more: a file of initial states may have changed; "
                    "files are looked for in the current directory. Merge where they are as they "
                    "were"
                )


# --- runs that several have ------------------------------------------------------------------


def _count_conflicting_runs(
    sources: Sequence[Source], whole: Study, prefer_first: bool
) -> dict[str, tuple[int, int]]:
    """Count, by experiment, runs that several sources have, and those of them that differ."""
    found, first = {}, ""
    for experiment in whole.experiments:
        name, samples = experiment.name, len(experiment.times)
        every = [source.runs(name, samples) for source in sources]
        both = differ = 0
        for later in range(1, len(sources)):
            if (own := every[later]) is None:
                continue
            left = own.whole.copy()
            for earlier, known in enumerate(every[:later]):
                if known is None:
                    continue
                rows = known.find(own.ids)
                shared = left & (rows >= 0)
                shared[shared] = known.whole[rows[shared]]
                left &= ~shared
                theirs = np.flatnonzero(shared)
                apart = runs_with_different_results(known.group, rows[theirs], own.group, theirs)
                both, differ = both + len(theirs), differ + int(apart.sum())
                if apart.any() and not first:
                    row = theirs[np.argmax(apart)]
                    first = (
                        f"run {own.ids[row].decode()} of experiment {name!r}, row "
                        f"{rows[row]} of {sources[earlier].store} and {row} of "
                        f"{sources[later].store}"
                    )
        found[name] = both, differ
    count = sum(differ for _, differ in found.values())
    if count and not prefer_first:
        raise StoreError(
            f"{count:,} of {sum(both for both, _ in found.values()):,} runs that are computed in "
            f"several of the stores differ; the first is {first}. Other machines or versions may "
            "be why (sines differ in the last bit): say `prefer_first=True` to take such "
            "runs from the store that is named first"
        )
    return found


# --- putting it together ---------------------------------------------------------------------


def _fill_merged_store(
    sources: Sequence[Source],
    whole: Study,
    store: Store,
    conflicts: Mapping[str, tuple[int, int]],
    progress: Progress,
) -> list[Share]:
    """Fill the new store; returns a `Share` for each experiment."""
    copy_tree(sources[0].store.place, store.place, ignore=("*.partial", "in-flight.json"))
    _make_store_writable(store.place)
    fold.settle(store)
    put_durably(store.session_file, SessionRecord().content())
    entries = diff.diff_store_against_study(store, whole)
    create.create_or_grow_store(store, whole, entries)
    store = store.anew()
    root = store.root("r+")
    shares = []
    for number, entry in enumerate(entries):
        progress("Merging", number, len(entries))
        samples = len(entry.experiment.times)
        target = storage.open_zarr_group(root, entry.name)
        taken, left_out = [], 0
        for index, source in enumerate(sources):
            runs = source.runs(entry.name, samples)
            if index == 0 or runs is None:
                taken.append(0 if runs is None else int(runs.whole.sum()))
                continue
            taken.append(_copy_runs_from_source(source, runs, root, target, entry))
            asked = runs.group["in_study"][:][: len(runs.ids)]
            left_out += int(
                np.sum(~asked & runs.whole & (Rows(target, samples).find(runs.ids) < 0))
            )
            _copy_references_from_source(source, root, entry)
        for place in (entry.name, references_group_name(entry.name)):
            if place in root:
                fold.note_all_folded(store, place)
        shares.append(
            _summarize_merged_experiment(entry, target, taken, conflicts[entry.name], left_out)
        )
    progress("Merging", len(entries), len(entries))
    return shares


def _make_store_writable(place: Place) -> None:
    """Make copied files writable, since a source may be read-only."""
    for directory, _, names in os.walk(str(place)):
        for path in (directory, *(os.path.join(directory, name) for name in names)):
            mode = os.stat(path).st_mode
            if not mode & 0o200:
                os.chmod(path, mode | 0o200)


def _copy_runs_from_source(
    source: Source, runs: Rows, root: StoredGroup, target: StoredGroup, entry: Entry
) -> int:
    """Copy runs that have more samples in a source; returns how many are complete there."""
    there = Rows(target, runs.samples)
    rows = runs.find(there.ids)
    better = rows >= 0
    better[better] = runs.progress[rows[better]] > there.progress[better]
    own = np.flatnonzero(better)
    theirs = rows[own]
    ends = source.group(place := end_checkpoints_group_name(entry.name))
    if ends is not None and ends.attrs.get("code") == checkpoints.checkpoint_code_hash():
        copy_rows(
            ends, theirs, storage.open_zarr_group(root, place), own, [checkpoints.CHECKPOINT.name]
        )
    copy_rows(runs.group, theirs, target, own, list(worker_written_arrays(target)))
    return int(runs.whole[theirs].sum())


def _copy_references_from_source(source: Source, root: StoredGroup, entry: Entry) -> None:
    """Copy references that are complete in a source, and not yet in the store."""
    place = references_group_name(entry.name)
    group = source.group(place)
    if group is None or place not in root:
        return
    target = storage.open_zarr_group(root, place)
    samples = target["states"].shape[1]
    if group["states"].shape[1] != samples:
        return  # they are computed again
    runs, there = Rows(group, samples), Rows(target, samples)
    rows = runs.find(there.ids)
    better = rows >= 0
    better[better] = runs.whole[rows[better]] & ~there.whole[better]
    own = np.flatnonzero(better)
    copy_rows(group, rows[own], target, own, list(worker_written_arrays(target)))


def _summarize_merged_experiment(
    entry: Entry,
    target: StoredGroup,
    taken: Sequence[int],
    conflicts: tuple[int, int],
    left_out: int,
) -> Share:
    samples = len(entry.experiment.times)
    pending = ~storage.are_runs_committed(target, samples)[entry.rows]
    return Share(
        experiment=entry.name,
        runs=entry.table.size,
        taken=tuple(taken),
        both=conflicts[0],
        differing=conflicts[1],
        pending=int(pending.sum()),
        left_out=left_out,
    )


def _record_hosts_and_versions(sources: Sequence[Source], store: Store) -> list[str]:
    """Record hosts and versions of all sources; returns their kinds of CPU and libm."""
    root = store.root("r+")
    every: list[dict[str, Any]] = []
    numbers: dict[str, Any] = {}
    for source in sources:
        every += [host for host in source.root.attrs.get("hosts", []) if host not in every]
        numbers |= source.root.attrs.get(provenance.ATTRIBUTE, {})
    parts = []
    for source in sources:
        parts.append({"store": str(source.store), "versions": source.root.attrs.get("versions")})
        parts[-1] |= (
            {"merged": source.root.attrs["merged"]} if "merged" in source.root.attrs else {}
        )
    found = {"hosts": every, "merged": parts, "versions": provenance.versions()}
    root.attrs.update(found | {provenance.ATTRIBUTE: numbers})
    return sorted({provenance.cpu_and_libm_kind(known) for known in numbers.values()})
