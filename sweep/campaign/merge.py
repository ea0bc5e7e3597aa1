"""Merge stores of one study into a new one; the sources are only read.

The study of the new store has the tables of all sources, and the store has their runs. A computed
run is copied from the first source that has it, as a record, which is folded like the records of
workers. The new store is built under another name beside its place, and renamed when complete.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweep.errors import CannotUnite, Damaged, StoreError, Unreachable
from sweep.store import create, diff, files, provenance
from sweep.store.backends.places import ObjectPlace, path_below
from sweep.store.checkpoints import CHECKPOINT, checkpoint_code_hash
from sweep.store.commit import records
from sweep.store.commit.fold import fold_group, written_by_tasks
from sweep.store.commit.ledger import is_growing
from sweep.store.lease.lease import acquire_lease, lease_holder_of_store
from sweep.store.store import Store
from sweep.store.stored_studies import stored_study
from sweep.store.upkeep import FOREIGN, REMOVE, verify
from sweep.study import variables
from sweep.study.run_table import expand_experiment
from sweep.study.study import unite_studies

if TYPE_CHECKING:
    from pathlib import Path

    from sweep.store.backends.places import Place
    from sweep.store.files import ArrayFiles
    from sweep.study import Study
    from sweep.study.experiment import ResolvedExperiment

Progress = Callable[[str, int, int], object]  # activity, amount done, total amount

BLOCK_BYTES = 2**26  # size of rows that are compared or copied at once
SESSION = "merge"  # of the records
# Arrays that may differ between two computations of a run.
OWN = {"cpu_time", "wall_time", variables.ENVIRONMENT, CHECKPOINT.name}


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
        Number of these runs whose results differ; those of the first source were taken.
    pending : int
        Number of runs that are not computed yet.
    left_out : int
        Number of computed runs that are no longer in any study.
    """

    experiment: str
    runs: int
    taken: tuple[int, ...]
    both: int
    differing: int
    pending: int
    left_out: int

    def in_words(self, sources: Sequence[str]) -> str:
        """Describe how many runs came from each source, and which were left out."""
        pairs = zip(self.taken, sources, strict=True)
        taken = ", ".join(f"{count:,} from {source}" for count, source in pairs if count)
        text = f"{self.experiment}: {taken or 'no computed runs'}"
        if self.both:
            text += f"; {self.both:,} of a later store were there already"
        if self.differing:
            text += f", {self.differing:,} of them with other results"
        if self.left_out:
            text += f"; {self.left_out:,} are left out, since no study asks for them any more"
        return text


@dataclass(frozen=True)
class Merged:
    """A merged store.

    Parameters
    ----------
    store : Path or ObjectPlace
    shares : tuple of Share
    kinds : tuple of str
        Kinds of CPU on which its runs were computed.
    sources : tuple of str
        The stores that were merged, as they were named.
    """

    store: Place
    shares: tuple[Share, ...]
    kinds: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def pending(self) -> int:
        """Number of runs that are not computed yet."""
        return sum(share.pending for share in self.shares)

    def __str__(self) -> str:
        lines = [share.in_words(self.sources) for share in self.shares]
        lines.append(f"Merged: {sum(share.runs for share in self.shares):,} runs in {self.store}")
        if self.pending:
            how = shlex.join(["sweep", "run", str(self.store)])
            lines.append(f"{self.pending:,} runs are not computed yet. To compute them: {how}")
        return "\n".join(lines)


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
        Two or more stores. A run that is computed in several is taken from the first of them.
    out : str or Path
        Path of the new store.
    prefer_first : bool
        Whether to take runs from the first source even if their results differ in another one.
    trust_plugins : bool
        Whether to approve the plugins of the stores, which are needed to tell which runs are equal.
        See `sweep.plugins.approvals`.
    progress : callable
        Called as ``progress(what, done, of)`` with the activity and how far it is.

    Returns
    -------
    Merged

    Raises
    ------
    StoreError
        If a source is not a store, is damaged, is leased by another process, or contradicts the
        others; if runs differ; or if `out` exists. Then nothing is written.
    InputError
        If a store has a plugin that this user has not approved. Then nothing is written.
    """
    stores, target = [Store.at(path).absolute() for path in paths], Store.at(out).absolute()
    _check_places(stores, target)
    with contextlib.ExitStack() as stack:
        for store in stores:
            stack.enter_context(_leasing_source(store))
        lease = stack.enter_context(acquire_lease(target))
        studies = [_verified_study(store, trust_plugins, progress) for store in stores]
        whole = _united_study(stores, studies)
        unions = [_union_of_runs(stores, experiment) for experiment in whole.experiments]
        shares = _count_and_compare(stores, unions, prefer_first)
        attributes = _attributes_of_sources(stores)
        try:
            with create.creating_store_atomically(target, lease.check) as made:
                entries = diff.diff_root_against_study(made, None, whole)
                create.grow_store_to_study(made, whole, entries, attributes=attributes)
                for number, union in enumerate(unions):
                    progress("Merging", number, len(unions))
                    _copy_rows(made, union)
                    _copy_references(stores, made, union.group)
        except OSError as error:
            raise StoreError(f"{target} cannot be written: {error.strerror or error}") from None
    progress("Merging", len(unions), len(unions))
    known = attributes[provenance.ATTRIBUTE].values()
    kinds = sorted({provenance.cpu_and_libm_kind(one) for one in known})
    return Merged(target.place, tuple(shares), tuple(kinds), tuple(map(str, paths)))


# --- sources ---------------------------------------------------------------------------------


def _check_places(stores: Sequence[Store], out: Store) -> None:
    """Raise `StoreError` unless all sources are stores, and the target path is free."""
    if len({store.real for store in stores}) < max(2, len(stores)):
        raise StoreError("a merge needs two stores or more, each named once")
    for store in stores:
        with store.reading():
            if not store.exists():
                raise StoreError(f"{store}: there is no store to merge")
        if store.real.place in out.real.place.parents:
            raise StoreError(f"{out} lies in {store}: give a path beside it")
    if out.existing_root() is not None:
        raise StoreError(f"{out} exists: a merge makes a new store, give a path that is free")


def _leasing_source(store: Store) -> contextlib.AbstractContextManager[object]:
    """Hold the lease of a source; if the source is read-only, only check that it has no lease."""
    places = store.place, store.lease_file.parent
    try:
        if isinstance(store.place, ObjectPlace):
            store.place.check(writes=True)
            return acquire_lease(store)
        if all(os.access(str(place), os.W_OK) for place in places):
            return acquire_lease(store)
    except Unreachable:
        pass
    if (writer := lease_holder_of_store(store)) is not None:
        raise StoreError(
            f"{store} is held by {writer} since {writer.since}: wait, or stop it with "
            f"`sweep cancel {store}`"
        )
    return contextlib.nullcontext()


def _verified_study(store: Store, trust_plugins: bool, progress: Progress) -> Study:
    """Verify a source and read its study, with its plugins if they are approved."""
    study = stored_study(store, trust_plugins=trust_plugins)
    if any(is_growing(store, name) for name in store.experiments):
        raise StoreError(f"an extension of {store} was interrupted; `sweep run` completes it")
    findings = verify.verify(store, functools.partial(progress, f"Reading {store.name}"))
    found = [finding for finding in findings if finding.remedy not in (REMOVE, FOREIGN)]
    if found:
        file = files.name_of_file(path_below(found[0].path, store.place))
        more = f", and {len(found) - 1:,} further findings" if len(found) > 1 else ""
        raise Damaged(
            f"{found[0].text}{more}",
            f"{store}: {file}",
            f"`sweep verify {store} --repair` repairs it; `sweep run` completes an interrupted run",
        )
    return study


def _united_study(stores: Sequence[Store], studies: Sequence[Study]) -> Study:
    """Unite the studies of all sources; refuse studies that differ in more than their runs."""
    whole = studies[0]
    for store, study in zip(stores[1:], studies[1:], strict=True):
        if study.name != whole.name:
            raise StoreError(
                f"{stores[0]} is the store of the study {whole.name!r}, {store} that of "
                f"{study.name!r}: expected stores of one study"
            )
        try:
            whole = unite_studies([whole, study], ("those before have", "it has"))
        except CannotUnite as error:
            raise StoreError(
                f"{store} cannot be merged with those before: {error}. Experiments that share "
                "system, parameters, time axis, record, statistics and reference are merged; "
                "`sweep extend` makes the shorter one longer"
            ) from None
    return whole


def _attributes_of_sources(stores: Sequence[Store]) -> dict[str, Any]:
    """Root attributes with the hosts and versions that computed the runs."""
    hosts: list[dict[str, Any]] = []
    merged: list[dict[str, Any]] = []
    numbers: dict[str, Any] = {}
    for store in stores:
        own = store.attributes | provenance.provenance_noted_by_workers(store)
        hosts += [host for host in own.get("hosts", []) if host not in hosts]
        numbers |= own.get(provenance.ATTRIBUTE, {})
        kept = {key: own[key] for key in ("versions", "merged") if key in own}
        merged.append({"store": str(store)} | kept)
    return {"hosts": hosts, "merged": merged, provenance.ATTRIBUTE: numbers}


# --- which rows are taken --------------------------------------------------------------------


class _Source:
    """Runs or references of a group of a source.

    Attributes
    ----------
    ids : ndarray of bytes, shape (rows,)
    whole : ndarray of int
        Rows of runs that are complete or have failed.
    """

    def __init__(self, store: Store, group: str, samples: int) -> None:
        self.store, self.samples = store, samples
        self.arrays = store.arrays_of_group(group, store.unfolded(group))
        if (ends := self.arrays.get(CHECKPOINT.name)) is not None:
            of_group = files.read_zarr_metadata(ends.directory.parent)["attributes"]
            if of_group.get("code") != checkpoint_code_hash():
                del self.arrays[CHECKPOINT.name]
        self.ids = self.arrays["run_id"].values().astype("S16")
        counts = self.arrays[variables.SAMPLE_COUNT.name].values()
        status = self.arrays["status"].values() if "status" in self.arrays else 0 * counts
        self.whole = np.flatnonzero(files.are_runs_computed_to_sample(counts, status, samples))

    def columns(
        self, arrays: Mapping[str, ArrayFiles], rows: NDArray[np.intp]
    ) -> dict[str, np.ndarray]:
        """Values of rows for the arrays of another store, whose states may differ in length."""
        found = {}
        for name, array in arrays.items():
            shape = (len(rows), *array.row_shape(self.samples))
            found[name] = np.full(shape, array.fill, array.dtype)
            if name in self.arrays:
                values = self.arrays[name].read_rows(rows)
                common = _common_extent(values, found[name])
                found[name][common] = values[common]
        return found

    def blocks(
        self, arrays: Mapping[str, ArrayFiles], rows: NDArray[np.intp]
    ) -> Iterator[NDArray[np.intp]]:
        """Parts of some rows that fit into memory."""
        shapes = [(one.dtype.itemsize, *one.row_shape(self.samples)) for one in arrays.values()]
        length = max(1, BLOCK_BYTES // max(1, sum(map(math.prod, shapes))))
        return (rows[first : first + length] for first in range(0, len(rows), length))

    def differs(
        self, own: NDArray[np.intp], other: _Source, theirs: NDArray[np.intp]
    ) -> NDArray[np.bool_]:
        """Which rows differ in their results from another source; ignores times and hosts."""
        names = other.arrays.keys() - OWN
        arrays = {key: of for key, of in written_by_tasks(self.arrays).items() if key in names}
        found = np.zeros(len(own), dtype=bool)
        for block in self.blocks(arrays, np.arange(len(own))):
            for name, array in arrays.items():
                pair = array.read_rows(own[block]), other.arrays[name].read_rows(theirs[block])
                common = _common_extent(*pair)
                a, b = (np.ascontiguousarray(of[common]).view(f"u{of.itemsize}") for of in pair)
                found[block] |= (a != b).reshape(len(block), -1).any(axis=1)
        return found


def _common_extent(one: np.ndarray, other: np.ndarray) -> tuple[slice, ...]:
    return tuple(slice(min(sizes)) for sizes in zip(one.shape, other.shape, strict=True))


class _Union:
    """The runs or references of a group, each from the first source that has it completely.

    Attributes
    ----------
    sources : list of _Source
        The sources that have the group.
    source, row : ndarray of int, shape (runs,)
        Index of the source of each run, -1 if there is none; and the row in this source.
    again : list of tuple
        Later sources, with their runs that are taken from an earlier one, and the rows of these.
    """

    def __init__(
        self, stores: Sequence[Store], group: str, ids: NDArray[np.bytes_], samples: int
    ) -> None:
        self.group, self.ids = group, ids
        having = (store for store in stores if (store.place / group).is_dir())
        self.sources = [_Source(store, group, samples) for store in having]
        self.source, self.row = np.full((2, len(ids)), -1)
        self.again: list[tuple[_Source, NDArray[np.intp], NDArray[np.intp]]] = []
        for number, source in enumerate(self.sources):
            _, runs, at = np.intersect1d(ids, source.ids[source.whole], True, return_indices=True)
            rows, new = source.whole[at], self.source[runs] < 0
            self.source[runs[new]], self.row[runs[new]] = number, rows[new]
            self.again.append((source, runs[~new], rows[~new]))

    def differing(self) -> Iterator[tuple[int, str]]:
        """Yield runs whose results differ in a later source, with a text that names both rows."""
        for other, runs, theirs in self.again:
            for number, source in enumerate(self.sources):
                mine = self.source[runs] == number
                rows, others = self.row[runs[mine]], theirs[mine]
                for at in np.flatnonzero(source.differs(rows, other, others)):
                    where = f"{rows[at]} of {source.store} and {others[at]} of {other.store}"
                    yield runs[mine][at], where


def _union_of_runs(stores: Sequence[Store], experiment: ResolvedExperiment) -> _Union:
    """Unite the runs of an experiment; refuse a source with runs that its study lacks."""
    name, ids = experiment.name, expand_experiment(experiment).run_id.astype("S16")
    union = _Union(stores, name, ids, experiment.samples + 1)
    for source in union.sources:
        asked = source.ids[source.arrays["in_study"].values()]
        if lacking := len(np.setdiff1d(asked, ids)):
            raise StoreError(
                f"{source.store} has {lacking:,} runs of experiment {name!r} that its study does "
                "not give any more: a file of initial states may have changed; files are looked "
                "for in the current directory. Merge where they are as they were"
            )
    return union


def _count_and_compare(
    stores: Sequence[Store], unions: Sequence[_Union], prefer_first: bool
) -> list[Share]:
    """The `Share` of each experiment; refuse differing runs unless `prefer_first` is set."""
    shares, first = [], ""
    for union in unions:
        differing = list(union.differing())
        if differing and not first:
            run, where = differing[0]
            first = f"run {union.ids[run].decode()} of experiment {union.group!r}, row {where}"
        taken = {own.store: int(np.sum(union.source == k)) for k, own in enumerate(union.sources)}
        computed = [union.ids[:0], *(own.ids[own.whole] for own in union.sources)]
        shares.append(
            Share(
                experiment=union.group,
                runs=len(union.ids),
                taken=tuple(taken.get(store, 0) for store in stores),
                both=sum(len(runs) for _, runs, _ in union.again),
                differing=len(differing),
                pending=int(np.sum(union.source < 0)),
                left_out=len(np.setdiff1d(np.concatenate(computed), union.ids)),
            )
        )
    if first and not prefer_first:
        raise StoreError(
            f"{sum(share.differing for share in shares):,} of "
            f"{sum(share.both for share in shares):,} runs that are computed in "
            f"several of the stores differ; the first is {first}. Different machines or versions "
            "can be the cause (sines differ in the last bit): use `prefer_first=True` to take such "
            "runs from the store that is named first"
        )
    return shares


# --- copying ---------------------------------------------------------------------------------


def _copy_rows(store: Store, union: _Union) -> None:
    """Copy the rows of a union into the new store, one row of shards after the other."""
    arrays = written_by_tasks(store.arrays_of_group(union.group))
    size = arrays[variables.SAMPLE_COUNT.name].chunks[0]
    for shard_row, first in enumerate(range(0, len(union.ids), size)):
        folder = records.records_folder(store.place, union.group, shard_row)
        for number, source in enumerate(union.sources):
            rows = first + np.flatnonzero(union.source[first : first + size] == number)
            for block in source.blocks(arrays, rows):
                name = records.RecordName(
                    start=int(block[0]), stop=int(block[-1]) + 1, count=len(block), first=0,
                    last=source.samples, part=0, failed=0, milliseconds=0, session=SESSION,
                    token=str(number), kind=records.RECORD,
                )  # fmt: skip
                columns = source.columns(arrays, union.row[block])
                records.write_record(folder, name, block, columns)
        fold_group(store, union.group, SESSION, shard_row)


def _copy_references(stores: Sequence[Store], made: Store, experiment: str) -> None:
    """Copy the references of an experiment that are complete in a source."""
    group = files.references_group_name(experiment)
    if arrays := made.arrays_of_group(group):
        ids = arrays["run_id"].values().astype("S16")
        _copy_rows(made, _Union(stores, group, ids, arrays["states"].shape[1]))
