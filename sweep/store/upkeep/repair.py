"""Repair what `sweep.store.upkeep.verify` found.

Results are never guessed: damaged ones count as never computed. Their runs are marked as not
computed before the remains of damaged files are removed, and `sweep run` computes only these runs
again. Coordinates and initial states are rewritten from the study, by the functions that write them
when a store grows.
"""

import collections
import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sweep.errors import Damaged, InputError
from sweep.plugins import approvals
from sweep.store import create, diff
from sweep.store.arrays import open_zarr_group
from sweep.store.backends.places import Place, WriteCheck, path_below
from sweep.store.commit import fold
from sweep.store.commit.ledger import (
    ledger_of_group,
    note_coordinates,
    note_files,
    read_all_files,
)
from sweep.store.commit.records import Ledger, put_durably
from sweep.store.commit.shards import Draft
from sweep.store.files import (
    ArrayFiles,
    Index,
    RowNumbers,
    group_with_records_of,
    metadata_of_node,
    references_group_name,
)
from sweep.store.lease.lease import acquire_lease
from sweep.store.store import Store
from sweep.store.stored_studies import stored_study
from sweep.store.upkeep import COPY, FOREIGN, GONE, REMOVE, RUN, STUDY
from sweep.store.upkeep.mark_runs import mark_runs_not_computed
from sweep.store.upkeep.verify import SAMPLE_COUNT, STATUS, Finding, verify
from sweep.study.run_table import RunTable, expand_experiment
from sweep.study.study import Study

ROUNDS = 5  # a repair may reveal further damage
LOST = "lost"  # prefix of ids that replace those that cannot be recovered


@dataclass(frozen=True)
class RepairResult:
    """The result of a repair.

    Parameters
    ----------
    findings : tuple of Finding
        All defects that were found.
    marked : dict of str to int
        Number of runs that were marked as not computed, by group.
    left : tuple of Finding
        Defects that remain.
    """

    findings: tuple[Finding, ...]
    marked: dict[str, int]
    left: tuple[Finding, ...]


def repair(
    store: str | Place | Store,
    trust_plugins: bool = False,
    progress: Callable[[int, int], object] = lambda done, of: None,
) -> RepairResult:
    """Repair a store as far as possible, and mark the runs that must be computed again.

    Parameters
    ----------
    store : str, Path or Store
    trust_plugins : bool
        Whether to approve the plugins in the store, see `sweep.plugins.approvals`.
    progress : callable
        Called with the number of files read so far, and their total number.

    Returns
    -------
    RepairResult

    Raises
    ------
    InputError
        If there is no store, it cannot be written, another process writes to it, or it has a plugin
        that this user has not approved.
    Damaged
        If the attributes of the root are damaged, of which there is no copy.
    """
    store = Store.at(store).anew()
    attributes = store.attributes
    if store.is_unwritable():
        raise InputError(f"{store} cannot be written: no permission")
    approvals.approved_plugins_of_store(attributes, store, trust_plugins)
    with acquire_lease(store) as lease:
        every: dict[tuple[str, str, Index, str], Finding] = {}  # by what is found again
        fold.remove_unfinished(store)
        try:
            _ = store.consolidated
        except Damaged as damage:
            every["", "", (), damage.text] = Finding(store.place, "", damage.text, COPY)
            create.consolidate_zarr_metadata(store, lease.check)
        with contextlib.suppress(Damaged):  # `verify` will report it
            if session := store.session_name:
                fold.note_session(store, session, lease)
        mending = _Repair(store.anew(), trust_plugins, lease.check)
        for _ in range(ROUNDS):
            findings = verify(mending.store, progress)
            by_defect = {(f.place, f.array, f.chunk, f.text): f for f in findings}
            new = [f for defect, f in by_defect.items() if defect not in every]
            every |= by_defect
            if all(finding.remedy == FOREIGN for finding in new):
                break
            mending.mend(findings)
    marked = {group: len(rows) for group, rows in mending.marked.items() if rows}
    return RepairResult(tuple(every.values()), marked, (*findings, *mending.lost))


class _Repair:
    """Mends findings, while the lease of the store is held.

    Parameters
    ----------
    store : Store
    trust_plugins : bool
        As in `repair`.
    check : callable
        Raises unless this process still holds the lease.
    """

    def __init__(self, store: Store, trust_plugins: bool, check: WriteCheck) -> None:
        self.store, self._trust_plugins, self._check = store, trust_plugins, check
        self.marked = collections.defaultdict[str, set[int]](set)
        self.lost: list[Finding] = []

    def mend(self, findings: Sequence[Finding]) -> None:
        """Mend what was found: coordinates last, since the study is compared with all else."""
        store, check = self.store, self._check
        by_remedy = collections.defaultdict[str, list[Finding]](list)
        for finding in findings:
            by_remedy[finding.remedy].append(finding)
        ledgers = [finding for finding in by_remedy[STUDY] if not finding.array]
        coordinates = [finding for finding in by_remedy[STUDY] if finding.array]
        gone = [finding.place for finding in by_remedy[REMOVE] if finding.text == GONE]
        self._remove(f.path for f in (*by_remedy[REMOVE], *ledgers) if f.text != GONE)
        mine = (finding.path for finding in findings if finding.remedy not in (REMOVE, FOREIGN))
        self._remove(place for path in mine for place in _places_in_the_way(path, store))
        for finding in by_remedy[COPY]:
            name = f"{finding.place}/{finding.array}".strip("/")
            own = metadata_of_node(store.consolidated, name)
            put_durably(finding.path, json.dumps(own, indent=2).encode(), check)
        for name in gone:
            fold.forget_group(store, name, check)
        if gone:
            left = [name for name in store.attributes["experiments"] if name not in gone]
            create.consolidate_zarr_metadata(store, check)
            create.set_root_attributes(store, {"experiments": left}, check)
            self.store = store = store.anew()
        for finding in ledgers:
            note_files(store, finding.place, read_all_files(store, finding.place, True), check)
        unfolded = fold.fold_all(store, store.session_name, check, lenient=True)
        again = collections.defaultdict[str, list[RowNumbers]](list)
        for group, records in unfolded.items():
            again[group] += [record.rows for record in records]
        for finding in by_remedy[RUN]:
            again[finding.place].append(finding.rows)
        for group, rows in again.items():
            self._mark(group, np.unique(np.concatenate(rows)))
        self._remove(record.place for records in unfolded.values() for record in records)
        for finding in by_remedy[RUN]:
            self._blank_damaged_chunks(finding)
        if coordinates:
            study = stored_study(store, trust_plugins=self._trust_plugins)
            self._write_from_study(study, coordinates)
        else:
            create.consolidate_zarr_metadata(store, check)
        self.store = store.anew()

    def _remove(self, places: Iterable[Place]) -> None:
        if places := sorted(set(places), key=str):
            fold.remove_from_store(self.store, places, self._check)

    def _mark(self, group: str, rows: RowNumbers) -> None:
        """Mark runs as not computed."""
        if len(rows):
            mark_runs_not_computed(self.store, group, rows, self._check)
            self.marked[group].update(rows.tolist())

    def _blank_damaged_chunks(self, finding: Finding) -> None:
        """Blank the damaged chunks of a shard, or remove the shard; its runs are marked already."""
        array = ArrayFiles.read(self.store.place / finding.place / finding.array)
        group = group_with_records_of(finding.place)
        known, new = ledger_of_group(self.store, group), Ledger()
        if finding.chunk or array.name in (SAMPLE_COUNT, STATUS):
            index, change = array.index_of_file(finding.path), Draft.blank_damage
            new = fold.write_shard(array, index, change, known, self._check, lenient=True)
        gone = [] if new else [path_below(finding.path, self.store.place)]
        note_files(self.store, group, new, self._check, gone)
        if not new:
            self._remove([finding.path])

    def _write_from_study(self, study: Study, findings: Sequence[Finding]) -> None:
        """Write coordinates and initial states again, by the function that grows a store."""
        store, check, ours = self.store, self._check, dict[str, RunTable]()
        for experiment in study.experiments:
            ours[experiment.name] = table = expand_experiment(experiment)
            ours[references_group_name(experiment.name)] = table
        findings = [finding for finding in findings if finding.place in ours]
        self._remove(finding.path for finding in findings)
        for group in {finding.place for finding in findings if finding.array == "run_id"}:
            if group == ours[group].experiment.name:
                self._write_run_ids(group, ours[group])
            else:  # references without ids are computed again when they are needed
                fold.forget_group(store, group, check)
        entries = diff.diff_store_against_study(store, study)
        create.grow_store_to_study(store, study, entries, check, anew=True)
        rows_of = {entry.name: entry.rows for entry in entries}
        for finding in findings:
            gone = np.setdiff1d(finding.rows, rows_of.get(finding.place, finding.rows))
            if len(gone) and finding.array not in ("run", "in_study", "run_id"):
                text = f"is lost for {len(gone):,} runs that left the study"
                self.lost.append(replace(finding, text=text, rows=gone, runs=len(gone)))

    def _write_run_ids(self, group: str, table: RunTable) -> None:
        """Write the ids again, if the rows are exactly those of the table, in the same order.

        Otherwise a missing id cannot be recovered, and its row no longer belongs to any study.
        """
        root = self.store.root("r+", self._check)
        stored = open_zarr_group(root, group)
        ids = stored["run_id"][:].astype(object)
        if stored.attrs.get(diff.ROWS_OF) == diff.hash_of_run_table(table.experiment):
            ids[:] = table.run_id
        lost = np.flatnonzero(ids == "")
        self._mark(group, lost)
        ids[lost] = [f"{LOST} {row}" for row in lost.tolist()]
        stored["run_id"][:] = ids
        note_coordinates(self.store, [group], self._check, root.store.written)


def _places_in_the_way(file: Place, store: Store) -> Iterator[Path]:
    """A directory in place of a file, and broken links in place of it and its directories."""
    if isinstance(file, Path):
        inside = [place for place in (file, *file.parents) if store.place in place.parents]
        broken = (place for place in inside if place.is_symlink() and not place.exists())
        yield from [file] if file.is_dir() and store.place in file.parents else broken
