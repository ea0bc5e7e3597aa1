"""Repair what `sweep.store.upkeep.verify` found.

Results are never guessed: damaged ones count as never computed. Their runs are marked as not
computed before the remains of damaged files are removed, and `sweep run` computes only these runs
again. Coordinates and initial states are rewritten from the study, by the functions that write them
when a store grows.
"""

import dataclasses
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweep.errors import Damaged, InputError
from sweep.plugins import approvals
from sweep.store import create, diff
from sweep.store.arrays import StoredGroup, open_zarr_group
from sweep.store.backends.places import Place, WriteCheck, path_below
from sweep.store.commit import fold, ledger
from sweep.store.commit.ledger import ledger_of_group, note_files
from sweep.store.commit.records import put_durably
from sweep.store.commit.shards import Draft
from sweep.store.files import ArrayFiles, RowNumbers, group_with_records_of
from sweep.store.lease.lease import acquire_lease
from sweep.store.store import Store
from sweep.store.studies import stored_study
from sweep.store.upkeep import COPY, FOREIGN, GONE, NOTHING, REMOVE, RUN, STUDY
from sweep.store.upkeep.mark_runs import mark_runs_not_computed
from sweep.store.upkeep.verify import NO_ROWS, Finding, experiment_of_group, verify
from sweep.study import variables
from sweep.study.run_table import RunTable, expand_experiment

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
        found = []
        fold.remove_unfinished(store)
        try:
            _ = store.consolidated
        except Damaged as damage:
            found = [Finding("", "", (), damage.text, COPY, NO_ROWS, 0, store.place)]
            create.consolidate_zarr_metadata(store, lease.check)
        try:
            session = store.session_name
        except Damaged:  # `verify` will report it
            session = ""
        if session:
            fold.note_session(store, session, lease)
        return _Repair(store.anew(), trust_plugins, lease.check).mend(found, progress)


class _Repair:
    """Repairs a store in rounds, while its lease is held.

    Parameters
    ----------
    store : Store
    trust_plugins : bool
        As in `repair`.
    check : callable
        Raises unless this process still holds the lease.
    """

    def __init__(self, store: Store, trust_plugins: bool, check: WriteCheck) -> None:
        self._store, self._trust_plugins, self._check = store, trust_plugins, check
        self._marked: dict[str, set[int]] = {}
        self._lost: dict[tuple[object, ...], Finding] = {}

    def mend(
        self, found: Sequence[Finding], progress: Callable[[int, int], object]
    ) -> RepairResult:
        """Repair the store until nothing new is found; `found` was repaired before."""
        every, in_part = {_defect(finding): finding for finding in found}, set[Place]()
        for _ in range(ROUNDS):
            findings: Sequence[Finding] = verify(self._store, progress)
            in_part |= {finding.path for finding in findings if finding.is_in_part}
            findings = [f for f in findings if f.is_in_part or f.path not in in_part]
            new = [finding for finding in findings if _defect(finding) not in every]
            every |= {_defect(finding): finding for finding in new}
            if all(finding.remedy == FOREIGN for finding in new):
                break
            self._mend(findings)
        if every:
            create.consolidate_zarr_metadata(self._store, self._check)
        counts = {group: len(rows) for group, rows in self._marked.items() if rows}
        return RepairResult(tuple(every.values()), counts, (*findings, *self._lost.values()))

    def _mend(self, findings: Sequence[Finding]) -> None:
        store, check = self._store, self._check
        self._remove(findings)
        for finding in findings:
            if finding.remedy == COPY:
                name = f"{finding.place}/{finding.array}".strip("/")
                # Without consolidated metadata, which zarr would believe to be those of its nodes.
                kept = store.consolidated[name].items()
                own = {key: value for key, value in kept if key != "consolidated_metadata"}
                put_durably(finding.path, json.dumps(own, indent=2).encode(), check)
        self._forget_experiments({f.place for f in findings if f.text == GONE})
        for finding in findings:
            if finding.remedy == STUDY and not finding.array:
                known = ledger.read_all_files(store, finding.place, shards=True)
                note_files(store, finding.place, known, check)
        unfolded = fold.fold_all(self._store, self._store.session_name, check, lenient=True)
        damaged = [finding for finding in findings if finding.remedy == RUN]
        for group in dict.fromkeys([*unfolded, *(finding.place for finding in damaged)]):
            rows = [record.rows for record in unfolded.get(group, ())]
            rows += [finding.rows for finding in damaged if finding.place == group]
            self._mark(group, np.unique(np.concatenate(rows)))
        fold.remove_from_store(
            store, [r.place for records in unfolded.values() for r in records], check
        )
        for finding in damaged:
            if not finding.is_in_part:
                self._blank(finding)
        self._write_from_study([f for f in findings if f.remedy == STUDY and f.array])
        create.consolidate_zarr_metadata(self._store, check)
        self._store = self._store.anew()

    def _remove(self, findings: Sequence[Finding]) -> None:
        """Remove bad files, and directories or links in the place of files to be written."""
        gone: set[Place] = set()
        for finding in findings:
            file = finding.path
            is_ledger = finding.remedy == STUDY and not finding.array
            if is_ledger or (finding.remedy == REMOVE and finding.text != GONE):
                gone.add(file)
            elif finding.remedy in (RUN, STUDY, COPY) and isinstance(file, Path):
                gone |= {file} if file.is_dir() or file.is_symlink() else set()
                above = [place for place in file.parents if self._store.place in place.parents]
                gone |= {place for place in above if place.is_symlink() and not place.is_dir()}
        if gone:
            fold.remove_from_store(self._store, sorted(gone, key=str), self._check)

    def _forget_experiments(self, gone: Collection[str]) -> None:
        """Remove experiments whose directory is missing from the list of the store."""
        for name in gone:
            fold.forget_group(self._store, name, self._check)
        if gone:
            left = [name for name in self._store.attributes["experiments"] if name not in gone]
            create.consolidate_zarr_metadata(self._store, self._check)
            create.set_root_attributes(self._store, {"experiments": left}, self._check)
            self._store = self._store.anew()

    def _mark(self, group: str, rows: RowNumbers) -> None:
        """Mark runs as not computed."""
        if len(rows):
            mark_runs_not_computed(self._store, group, rows, self._check)
            self._marked.setdefault(group, set()).update(rows.tolist())

    def _blank(self, finding: Finding) -> None:
        """Blank the damaged chunks of a shard, or remove the shard; its runs are marked already."""
        array = ArrayFiles.read(self._store.place / finding.place / finding.array)
        group = group_with_records_of(finding.place)
        path = path_below(finding.path, self._store.place)
        if finding.chunk or array.name in (variables.SAMPLE_COUNT.name, "status"):
            known = ledger_of_group(self._store, group)
            index = array.index_of_file(finding.path)
            new = fold.write_shard(
                array, index, Draft.blank_damage, known, self._check, lenient=True
            )
            note_files(self._store, group, new, self._check, () if new else [path])
        else:
            note_files(self._store, group, {}, self._check, [path])
            fold.remove_from_store(self._store, [finding.path], self._check)

    # --- from the study ----------------------------------------------------------------------

    def _write_from_study(self, findings: Sequence[Finding]) -> None:
        """Rewrite coordinates and initial states."""
        study = stored_study(self._store, trust_plugins=self._trust_plugins) if findings else None
        experiments = {own.name: own for own in study.experiments} if study else {}
        for group in dict.fromkeys(finding.place for finding in findings):
            experiment = experiments.get(experiment_of_group(group))
            if experiment is None:  # no longer in the study, so that its coordinates are unknown
                continue
            table, mine = expand_experiment(experiment), [f for f in findings if f.place == group]
            fold.remove_from_store(self._store, [finding.path for finding in mine], self._check)
            root = self._store.root("r+", self._check)
            if group == experiment.name:
                self._write_coordinates(open_zarr_group(root, group), table, mine)
            else:
                if any(finding.array == "run_id" for finding in mine):
                    # References without ids are computed again when they are needed.
                    fold.forget_group(self._store, group, self._check)
                create.create_or_grow_reference_arrays(root, table, states_anew=True)
            ledger.note_coordinates(self._store, [group], self._check, root.store.written)

    def _write_coordinates(
        self, group: StoredGroup, table: RunTable, findings: Sequence[Finding]
    ) -> None:
        if any(finding.array == "run_id" for finding in findings):
            self._write_run_ids(group, table)
        rows, known = diff.rows_in_store(group, table)
        mine = np.flatnonzero(rows < known)
        entry = diff.ExperimentDiff(
            table.take(mine), rows[mine], np.zeros(len(mine), dtype=bool),
            np.zeros(len(mine), dtype=int), known, known - len(mine),
        )  # fmt: skip
        create.write_axis_coordinates(group, entry, table.systems[0])
        create.write_run_coordinates(group, entry)
        create.write_initial_states(group[variables.INITIAL_STATE.name], entry, since=0)
        of_all_rows = {"run", "in_study", "run_id"}
        for finding in findings:
            gone = np.setdiff1d(finding.rows, entry.rows)
            if len(gone) and finding.array not in of_all_rows:
                text = f"is lost for {len(gone):,} runs that left the study"
                lost = dataclasses.replace(
                    finding, text=text, remedy=NOTHING, rows=gone, runs=len(gone)
                )
                self._lost[_defect(lost)] = lost

    def _write_run_ids(self, group: StoredGroup, table: RunTable) -> None:
        """Rewrite the ids, if the rows are exactly those of the table, in the same order.

        Otherwise a missing id cannot be recovered, and its row no longer belongs to any study.
        """
        array = group["run_id"]
        if group.attrs.get(diff.ROWS_OF) == diff.hash_of_run_table(table.experiment):
            array[:] = table.run_id.astype(object)
            return
        ids: NDArray[np.object_] = array[:].astype(object)
        lost = np.flatnonzero(ids == "")
        self._mark(table.experiment.name, lost)
        ids[lost] = [f"{LOST} {row}" for row in lost.tolist()]
        array[:] = ids


def _defect(finding: Finding) -> tuple[object, ...]:
    return finding.place, finding.array, finding.chunk, finding.text
