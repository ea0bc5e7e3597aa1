"""Merge stores of one study into a new one; the sources are only read.

The study of the new store has the tables of all sources, and the store the runs that they ask for.
A run that is computed is copied from the first source that has it, as a record, which is folded as
one of a worker. The store is made beside its place, and renamed when it is complete.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
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
from sweep.store.backends.places import METADATA, ObjectPlace, path_below
from sweep.store.checkpoints import CHECKPOINT, checkpoint_code_hash
from sweep.store.commit import records
from sweep.store.commit.fold import fold_group, written_by_tasks
from sweep.store.lease.lease import acquire_lease, lease_holder_of_store
from sweep.store.store import Store
from sweep.store.studies import stored_study
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

Progress = Callable[[str, int, int], object]  # what is read or written, how much, of how much

BLOCK_BYTES = 2**26  # of rows that are compared or copied at once
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
        Number of these whose results differ there; those of the first source were taken.
    pending : int
        Number of runs that are not computed yet.
    left_out : int
        Number of computed runs that no study asks for any more.
    """

    experiment: str
    runs: int
    taken: tuple[int, ...]
    both: int
    differing: int
    pending: int
    left_out: int

    def in_words(self, sources: Sequence[str]) -> str:
        """How many runs came from which source, and what became of the others."""
        pairs = zip(self.taken, sources, strict=True)
        taken = ", ".join(f"{count:,} from {source}" for count, source in pairs if count)
        text = f"{self.experiment}: {taken or 'no computed runs'}"
        if self.both:
            text += f"; {self.both:,} of a later store were there already"
        if self.differing:
            text += f", {self.differing:,} of them with other results"
        if self.left_out:
            text += f"; {self.left_out:,} that no study asks for any more are left out"
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
    _check_places(stores, target)
    with contextlib.ExitStack() as stack:
        for store in stores:
            _acquire_source_lease(stack, store)
        lease = stack.enter_context(acquire_lease(target))
        studies = [_verified_study(store, trust_plugins, progress) for store in stores]
        whole = _united_study(stores, studies)
        choices = [_choose_runs(stores, experiment) for experiment in whole.experiments]
        shares = _count_and_compare(stores, choices, prefer_first)
        attributes = _attributes_of_sources(stores)
        try:
            with create.creating_store_atomically(target, lease.check) as made:
                entries = diff.diff_root_against_study(made, None, whole)
                create.grow_store_to_study(made, whole, entries, attributes=attributes)
                for number, choice in enumerate(choices):
                    progress("Merging", number, len(choices))
                    _copy_rows(made, choice)
                    _copy_references(stores, made, choice.group)
        except OSError as error:
            raise StoreError(f"{target} cannot be written: {error.strerror or error}") from None
    progress("Merging", len(choices), len(choices))
    known = attributes[provenance.ATTRIBUTE].values()
    kinds = sorted({provenance.cpu_and_libm_kind(one) for one in known})
    return Merged(target.place, tuple(shares), tuple(kinds), tuple(map(str, paths)))


# --- sources ---------------------------------------------------------------------------------


def _check_places(stores: Sequence[Store], out: Store) -> None:
    """Raise `StoreError` unless there are stores to read, and a free place to write to."""
    if len({store.real for store in stores}) < max(2, len(stores)):
        raise StoreError("a merge needs two stores or more, each named once")
    for store in stores:
        with store.reading():
            if not store.exists():
                raise StoreError(f"{store}: there is no store to merge")
        if store.real.place in out.real.place.parents:
            raise StoreError(f"{out} lies in {store}: give a path beside it")
    if out.existing_root() is not None:
        raise StoreError(f"{out} exists: a merge makes a new store, expected a path that is free")


def _acquire_source_lease(stack: contextlib.ExitStack, store: Store) -> None:
    """Acquire the lease of a source; of one that is read-only, check that nobody holds it."""
    if _may_be_leased(store):
        stack.enter_context(acquire_lease(store))
    elif (writer := lease_holder_of_store(store)) is not None:
        raise StoreError(
            f"{store} is held by {writer} since {writer.since}: wait for it, or end it there"
        )


def _may_be_leased(store: Store) -> bool:
    if isinstance(store.place, ObjectPlace):
        try:
            store.place.check(writes=True)
        except Unreachable:
            return False
        return True
    return all(os.access(str(place), os.W_OK) for place in (store.place, store.lease_file.parent))


def _verified_study(store: Store, trust_plugins: bool, progress: Progress) -> Study:
    """Read the study of a source, whose plugins run if they are approved; verify the source."""
    study = stored_study(store, trust_plugins=trust_plugins)
    findings = verify.verify(store, functools.partial(progress, f"Reading {store.name}"))
    found = [finding for finding in findings if finding.remedy not in (REMOVE, FOREIGN)]
    if found:
        file = files.name_of_file(path_below(found[0].path, store.place))
        more = f", and {len(found) - 1:,} further findings" if len(found) > 1 else ""
        raise Damaged(
            f"{found[0].text}{more}",
            f"{store}: {file}",
            f"`sweep verify {store} --repair` mends it, and `sweep run` an interrupted run",
        )
    return study


def _united_study(stores: Sequence[Store], studies: Sequence[Study]) -> Study:
    """Unite the studies of all sources; refuse those that differ in more than their runs."""
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
    """Attributes of the root that say by which hosts and versions the runs were computed."""
    hosts: list[dict[str, Any]] = []
    merged: list[dict[str, Any]] = []
    numbers: dict[str, Any] = {}
    for store in stores:
        own = store.attributes | provenance.provenance_noted_by_workers(store)
        hosts += [host for host in own.get("hosts", []) if host not in hosts]
        numbers |= own.get(provenance.ATTRIBUTE, {})
        merged.append({"store": str(store)})
        merged[-1] |= {key: own[key] for key in ("versions", "merged") if key in own}
    return {"hosts": hosts, "merged": merged, provenance.ATTRIBUTE: numbers}


# --- which rows are taken --------------------------------------------------------------------


class _Rows:
    """Runs or references of a group of a source.

    Attributes
    ----------
    ids : ndarray of bytes, shape (rows,)
    whole : ndarray of bool, shape (rows,)
        Whether all samples of a row are computed, or the run has failed.
    """

    def __init__(self, store: Store, group: str, samples: int) -> None:
        self.store, self.samples, unfolded = store, samples, store.unfolded(group)
        self.arrays = {  # by their own metadata: copies of these are older where a store grew
            file.parent.name: files.ArrayFiles.read(file.parent, unfolded)
            for place in (group, files.end_checkpoints_group_name(group))
            for file in (store.place / place).glob(f"*/{METADATA}")
        }
        for array in self.arrays.values():
            if dict(zip(array.dims, array.shape, strict=True)).get("time", samples) != samples:
                raise StoreError(f"{store} was left while it grew; `sweep run` mends it")
        if (ends := self.arrays.get(CHECKPOINT.name)) is not None:
            of_group = files.read_zarr_metadata(ends.directory.parent)["attributes"]
            if of_group.get("code") != checkpoint_code_hash():
                del self.arrays[CHECKPOINT.name]
        ids = self.values("run_id").astype("S16")
        gap = ids == b""  # rows from there on were never brought up
        self.ids = ids[: int(np.argmax(gap)) if gap.any() else len(ids)]
        counts = self.values(variables.SAMPLE_COUNT.name)
        status = self.values("status") if "status" in self.arrays else np.zeros_like(counts)
        self.whole = files.are_runs_computed_to_sample(counts, status, samples)[: len(self.ids)]

    def values(self, name: str) -> np.ndarray:
        """All of a one-dimensional array."""
        return self.arrays[name].values()

    def columns(
        self, arrays: Mapping[str, ArrayFiles], rows: NDArray[np.intp]
    ) -> dict[str, np.ndarray]:
        """Values of rows for arrays of another store, which may have shorter or longer states."""
        found = {}
        for name, array in arrays.items():
            shape = (len(rows), *array.row_shape(self.samples))
            found[name] = np.full(shape, array.fill, array.dtype)
            if name in self.arrays:
                values = self.arrays[name].read_rows(rows)
                common = _common_extent(values, found[name])
                found[name][common] = values[common]
        return found


def _common_extent(one: np.ndarray, other: np.ndarray) -> tuple[slice, ...]:
    return tuple(slice(min(sizes)) for sizes in zip(one.shape, other.shape, strict=True))


def _blocks(
    rows: NDArray[np.intp], arrays: Mapping[str, ArrayFiles], samples: int
) -> Iterator[NDArray[np.intp]]:
    """Parts of some rows, of a size that memory has room for."""
    shapes = [(array.dtype.itemsize, *array.row_shape(samples)) for array in arrays.values()]
    length = max(1, BLOCK_BYTES // max(1, sum(map(math.prod, shapes))))
    return (rows[first : first + length] for first in range(0, len(rows), length))


@dataclass(frozen=True, eq=False)
class _Choice:
    """Which sources have the runs, or references, of a group.

    Parameters
    ----------
    group : str
    ids : ndarray of bytes, shape (runs,)
    parts : list of _Rows
        What the sources that have the group have of it.
    rows : ndarray of int, shape (parts, runs)
        The row of each run in each of these; -1 where it is not whole.
    """

    group: str
    ids: NDArray[np.bytes_]
    parts: list[_Rows]
    rows: NDArray[np.intp]

    @property
    def part(self) -> NDArray[np.intp]:
        """The first part in which each run is whole, -1 if there is none."""
        there = np.vstack([self.rows >= 0, np.ones_like(self.ids, dtype=bool)])
        first = there.argmax(axis=0)
        return np.where(first < len(self.parts), first, -1)


def _choose(stores: Sequence[Store], group: str, ids: NDArray[np.bytes_], samples: int) -> _Choice:
    """The `_Choice` of the rows of a group that have these ids."""
    having = [store for store in stores if (store.place / group).is_dir()]
    parts = [_Rows(store, group, samples) for store in having]
    rows = np.full((len(parts), len(ids)), -1)
    for own, part in zip(rows, parts, strict=True):
        whole = np.flatnonzero(part.whole)
        _, runs, there = np.intersect1d(ids, part.ids[whole], True, return_indices=True)
        own[runs] = whole[there]
    return _Choice(group, ids, parts, rows)


def _choose_runs(stores: Sequence[Store], experiment: ResolvedExperiment) -> _Choice:
    """Choose the runs of an experiment; refuse sources with runs that their study lacks."""
    name, ids = experiment.name, expand_experiment(experiment).run_id.astype("S16")
    choice = _choose(stores, name, ids, len(experiment.times))
    for part in choice.parts:
        asked = part.ids[part.values("in_study")[: len(part.ids)]]
        if lacking := len(np.setdiff1d(asked, ids)):
            raise StoreError(
                f"{part.store} has {lacking:,} runs of experiment {name!r} that its study does not "
                "give any more: a file of initial states may have changed; files are looked for in "
                "the current directory. Merge where they are as they were"
            )
    return choice


def _count_and_compare(
    stores: Sequence[Store], choices: Sequence[_Choice], prefer_first: bool
) -> list[Share]:
    """The `Share` of each experiment; refuses runs that differ unless the first are preferred."""
    shares, first = [], ""
    for choice in choices:
        part, there, differing = choice.part, choice.rows >= 0, 0
        for (k, one), (m, other) in itertools.combinations(enumerate(choice.parts), 2):
            runs = np.flatnonzero((part == k) & there[m])
            mine, theirs = choice.rows[k, runs], choice.rows[m, runs]
            apart = np.flatnonzero(_differ(one, mine, other, theirs))
            differing += len(apart)
            if len(apart) and not first:
                first = (
                    f"run {choice.ids[runs[apart[0]]].decode()} of experiment {choice.group!r}, "
                    f"row {mine[apart[0]]} of {one.store} and {theirs[apart[0]]} of {other.store}"
                )
        taken = {own.store: int(np.sum(part == k)) for k, own in enumerate(choice.parts)}
        computed = [own.ids[own.whole] for own in choice.parts]
        shares.append(
            Share(
                experiment=choice.group,
                runs=len(choice.ids),
                taken=tuple(taken.get(store, 0) for store in stores),
                both=int(there.sum() - np.sum(part >= 0)),
                differing=differing,
                pending=int(np.sum(part < 0)),
                left_out=len(np.setdiff1d(np.concatenate([choice.ids[:0], *computed]), choice.ids)),
            )
        )
    if first and not prefer_first:
        raise StoreError(
            f"{sum(share.differing for share in shares):,} of "
            f"{sum(share.both for share in shares):,} runs that are computed in "
            f"several of the stores differ; the first is {first}. Other machines or versions may "
            "be why (sines differ in the last bit): say `prefer_first=True` to take such "
            "runs from the store that is named first"
        )
    return shares


def _differ(
    one: _Rows, own: NDArray[np.intp], other: _Rows, theirs: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Which runs have other results in another source; time and host are not compared."""
    names = other.arrays.keys() - OWN
    arrays = {key: of for key, of in written_by_tasks(one.arrays).items() if key in names}
    found = np.zeros(len(own), dtype=bool)
    for block in _blocks(np.arange(len(own)), arrays, one.samples):
        for name, array in arrays.items():
            pair = array.read_rows(own[block]), other.arrays[name].read_rows(theirs[block])
            common = _common_extent(*pair)
            a, b = (np.ascontiguousarray(of[common]).view(f"u{of.itemsize}") for of in pair)
            found[block] |= (a != b).reshape(len(block), -1).any(axis=1)
    return found


# --- copying ---------------------------------------------------------------------------------


def _copy_rows(store: Store, choice: _Choice) -> None:
    """Copy the rows of a choice into the new store, one row of shards after another."""
    arrays = written_by_tasks(store.arrays_of_group(choice.group))
    size, of_part = arrays[variables.SAMPLE_COUNT.name].chunks[0], choice.part
    for shard_row, first in enumerate(range(0, len(choice.ids), size)):
        folder = records.records_folder(store.place, choice.group, shard_row)
        for number, part in enumerate(choice.parts):
            rows = first + np.flatnonzero(of_part[first : first + size] == number)
            for block in _blocks(rows, arrays, part.samples):
                name = records.RecordName(
                    start=int(block[0]), stop=int(block[-1]) + 1, count=len(block), first=0,
                    last=part.samples, part=0, failed=0, milliseconds=0, session=SESSION,
                    token=str(number), kind=records.RECORD,
                )  # fmt: skip
                columns = part.columns(arrays, choice.rows[number, block])
                records.write_record(folder, name, block, columns)
        fold_group(store, choice.group, SESSION, shard_row)


def _copy_references(stores: Sequence[Store], made: Store, experiment: str) -> None:
    """Copy the references of an experiment that are complete in a source."""
    group = files.references_group_name(experiment)
    if arrays := made.arrays_of_group(group):
        ids = arrays["run_id"].values().astype("S16")
        _copy_rows(made, _choose(stores, group, ids, arrays["states"].shape[1]))
