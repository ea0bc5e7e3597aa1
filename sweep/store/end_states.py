"""The states in which runs of a store ended, from which others begin."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from integrators.errors import InputError, check_known
from integrators.stepping.formulations import to_stored_states
from sweep.analysis.runs.query import runs_where_expression_holds
from sweep.store import checkpoints, storage
from sweep.store.backends.places import Place
from sweep.store.files import RowNumbers, end_checkpoints_group_name
from sweep.store.open import open_study
from sweep.store.storage import StoredGroup
from sweep.store.store import Store
from sweep.study.limits import MEMORY
from sweep.study.model import Study
from sweep.study.run_table import digests_of_ids, expand_experiment
from sweep.study.starts import StoreStarts


class StudyReader(Protocol):
    """Reads the study that a store keeps."""

    def __call__(self, store: Store, *, trust_plugins: bool) -> Study:
        """As `sweep.store.studies.stored_study`."""


def load_starts_from_store(
    store: str | Place | Store,
    *,
    read_study: StudyReader,
    kept: str | Place | Store | None = None,
    trust_plugins: bool = False,
    **settings: Any,
) -> StoreStarts:
    """Read the end states of a store's runs.

    Parameters
    ----------
    store : str, Path, ObjectPlace or Store
        The other store.
    read_study : callable
        `sweep.store.studies.stored_study`: checkpoints are read with the systems of the study.
    kept : str, Path or Store, optional
        A store that was made with these starts, and knows them if the other one is gone.
    trust_plugins : bool
        As in `sweep.store.studies.stored_study`, of the other store.
    **settings
        What the study says: `file`, `experiment` or "", `where_runs`, `label` or "", …

    Raises
    ------
    InputError
        If there is no such store, experiment or run, or its end states were not stored.
    """
    store = Store.at(store)
    with store.reading(key="store"):
        there = store.exists()
    if not there and kept is not None:
        found = _starts_kept_by_store(Store.at(kept), settings)
        if found is not None:
            return StoreStarts(**found)
    if not there:
        raise InputError(
            f"there is no store {store.absolute()}; a path is relative to the study's directory",
            key="store",
        )
    asked = settings["experiment"], settings["where_runs"]
    experiment, members = end_states_of_stored_runs(
        store, *asked, read_study=read_study, trust_plugins=trust_plugins
    )
    given = {
        "experiment": experiment,
        "label": settings["label"] or f"{store.place.stem}/{experiment}",
    }
    return StoreStarts(**settings | given, digest=_hash_of_start_states(members), members=members)


def _hash_of_start_states(members: NDArray[np.float64]) -> str:
    return hashlib.blake2b(members.astype("<f8").tobytes(), digest_size=16).hexdigest()


def end_states_of_stored_runs(
    store: Store,
    experiment: str = "",
    where: str = "",
    *,
    read_study: StudyReader,
    trust_plugins: bool = False,
) -> tuple[str, NDArray[np.float64]]:
    """The states in which complete runs of a store ended.

    The last sample of ``state`` where that is recorded; otherwise of the checkpoint at the end,
    which runs with a fixed step have.

    Parameters
    ----------
    store : Store
    experiment : str
        May be empty where the store has only one.
    where : str
        An expression as of `sweep.query`, ``step_size < 0.1``; empty: all.
    read_study, trust_plugins
        As in `load_starts_from_store`.

    Returns
    -------
    experiment : str
    states : ndarray, shape (runs, rows, 3)
        In the order of the store's rows.

    Raises
    ------
    InputError
        As `load_starts_from_store`.
    """
    try:
        tree = open_study(store)
    except InputError as error:
        raise InputError(str(error), key="store") from None
    except Exception as error:  # whatever metadata can be that Geosweep has not written
        raise InputError(f"{store} cannot be read: {error}", key="store") from None
    names = list(tree.children)
    if not experiment and len(names) != 1:
        raise InputError(
            f'{store} has the experiments {", ".join(names)}: say which, experiment = "{names[0]}"',
            key="store",
        )
    experiment = experiment or names[0]
    check_known(f"experiment of {store}", experiment, names, key="experiment")
    table = tree[experiment].to_dataset()
    chosen = table["in_study"].values.astype(bool) & (table["status"].values == 0)
    chosen &= table["sample_count"].values == table.sizes["time"]
    if where:
        try:
            chosen &= runs_where_expression_holds(table, where)
        except InputError as error:
            raise InputError(
                f"experiment {experiment!r} of {store}: {error}", key="where"
            ) from None
    rows = np.flatnonzero(chosen)
    if not len(rows):
        such, key = (f" for which {where!r} holds", "where") if where else ("", "store")
        raise InputError(f"experiment {experiment!r} of {store} has no complete run{such}", key=key)
    group = store.group(experiment)
    if "state" in group:
        needed = len(rows) * math.prod(group["state"].shape[2:]) * 8
        if needed > MEMORY.most:
            raise InputError(str(MEMORY.error(needed)), key="store")
        states = group["state"].oindex[rows, table.sizes["time"] - 1]
    else:
        ids = group["run_id"][:][rows].tolist()
        states = _states_from_end_checkpoints(
            store, experiment, ids, rows, read_study, trust_plugins
        )
    return experiment, _trim_states_to_equal_rows(store, experiment, states)


def _trim_states_to_equal_rows(
    store: Store, experiment: str, states: NDArray[np.float64]
) -> NDArray[np.float64]:
    """States without rows that none of them has; refused if some have fewer than others."""
    there: NDArray[np.bool_] = np.asarray(np.isfinite(states).all(axis=2))
    if (there != there[0]).any():
        raise InputError(
            f"the runs of experiment {experiment!r} of {store} have states of "
            f"{' and '.join(map(str, np.unique(there.sum(axis=1))))} rows: choose some by 'where'",
            key="store",
        )
    return np.ascontiguousarray(states[:, there[0]])


def _states_from_end_checkpoints(
    store: Store,
    experiment: str,
    ids: Sequence[str],
    rows: RowNumbers,
    read_study: StudyReader,
    trust_plugins: bool,
) -> NDArray[np.float64]:
    """The states of runs' checkpoints at their end, NaN where one has fewer rows."""
    root = store.root()
    name = end_checkpoints_group_name(experiment)
    ends = storage.open_zarr_group(root, name) if name in root else None
    if ends is None or ends.attrs.get("code") != checkpoints.checkpoint_code_hash():
        _refuse_without_recorded_state(
            store, experiment, "its final checkpoints are of another version of the kernels"
        )
    study = read_study(store, trust_plugins=trust_plugins)
    made = next(e for e in study.experiments if e.name == experiment)
    table = expand_experiment(made)
    wanted = digests_of_ids(ids)
    own = np.flatnonzero(np.isin(table.digests, wanted))
    run_of = dict(zip(table.digests[own].tolist(), own.tolist(), strict=True))
    runs = table.take(np.array([run_of[digest] for digest in wanted.tolist()]))
    stored = ends[checkpoints.CHECKPOINT.name].oindex[rows]
    states = np.full((len(rows), max(s.rows for s in table.systems), 3), np.nan)
    problems = {}
    pairs = zip(runs.integrator_index.tolist(), runs.system_index.tolist(), strict=True)
    columns = (states, stored, ids, pairs, runs.adaptive.tolist())
    for state, checkpoint, run_id, pair, adaptive in zip(*columns, strict=True):
        if pair not in problems:
            method = made.integrators[pair[0]].integrator()
            problems[pair] = method.bind(table.systems[pair[1]])
        problem = problems[pair]
        own = checkpoint[: problem.checkpoint_size]
        if adaptive or not len(own) or not np.isfinite(own[0]):
            _refuse_without_recorded_state(
                store, experiment, f"run {run_id} has no final checkpoint at the last sample"
            )
        parts = problem.elements[0].parts
        own = own.reshape(1, -1, *parts)
        ends = to_stored_states(problem, problem.layout.parts(own)["y"][:, None])[0, 0]
        state[: problem.rows] = ends[..., 0] if parts else ends
    return states


def _refuse_without_recorded_state(store: Store, experiment: str, why: str) -> NoReturn:
    raise InputError(
        f"experiment {experiment!r} of {store} does not record 'state', and {why}; run it with "
        "\"state\" in its record, or choose other runs by 'where'",
        key="store",
    )


# --- once the other store is gone ------------------------------------------------------------


def _starts_kept_by_store(kept: Store, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """The starts as a store that was made with them knows them, or None."""
    try:
        root = kept.root()
    except (OSError, ValueError):
        return None
    for name in storage.experiment_group_names(root):
        group = storage.open_zarr_group(root, name)
        for start in _starts_of_stored_group(group):
            asked = {key: settings[key] for key in ("file", "where_runs", "normalize")}
            asked |= {key: settings[key] for key in ("experiment", "label") if settings[key]}
            if asked.items() <= start.items():
                members = _ensemble_member_states(group, start["label"])
                if members is None:
                    continue
                if start["normalize"] or _hash_of_start_states(members) == start["digest"]:
                    return {**settings} | {
                        "experiment": start["experiment"],
                        "label": start["label"],
                        "digest": start["digest"],
                        "members": members,
                        "remembered": True,
                    }
    return None


def _starts_of_stored_group(group: StoredGroup) -> list[dict[str, Any]]:
    expanded = json.loads(group.attrs["experiment"])
    return [s for s in expanded["initial_conditions"] if isinstance(s, dict) and "where_runs" in s]


def _ensemble_member_states(group: StoredGroup, label: str) -> NDArray[np.float64] | None:
    """The initial states of an ensemble, in the order of its members, or None."""
    labels = group["initial_condition"][:]
    rows: dict[int, int] = {}
    mine = (group["ensemble"][:] == label) & group["in_study"][:]
    for row in np.flatnonzero(mine).tolist():
        rows.setdefault(int(labels[row][len(label) + 1 : -1]), row)
    if not rows or sorted(rows) != list(range(len(rows))):
        return None
    states = group["initial_state"].oindex[[rows[member] for member in range(len(rows))]]
    return np.ascontiguousarray(states[:, np.isfinite(states[0]).all(axis=1)])
