"""Initial states taken from the end states of the runs of another store."""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from integrators.errors import InputError, check_known
from sweep.analysis.runs.query import runs_where_expression_holds
from sweep.store.backends.places import Place
from sweep.store.open import open_study
from sweep.store.store import Store
from sweep.study.starts import StoreStarts
from sweep.study.study_limits import MEMORY


def load_starts_from_store(
    store: str | Place | Store, *, kept: str | Place | Store | None = None, **settings: Any
) -> StoreStarts:
    """Read the end states of a store's runs, as initial states for others.

    Parameters
    ----------
    store : str, Path, ObjectPlace or Store
        The store with the end states.
    kept : str, Path or Store, optional
        A store that was computed from these initial states, and serves as their source if the
        first one no longer exists.
    **settings
        Settings of the study: `file`, `experiment` or "", `where_runs`, `label` or "", …

    Returns
    -------
    StoreStarts

    Raises
    ------
    InputError
        If there is no such store, experiment or run, or its end states were not stored.
    """
    store = Store.at(store)
    with store.reading(key="store"):
        there = store.exists()
    if there:
        experiment, members = _end_states_of_stored_runs(
            store, settings["experiment"], settings["where_runs"]
        )
        label = settings["label"] or f"{store.place.stem}/{experiment}"
        settings |= {"experiment": experiment, "label": label, "members": members}
        return StoreStarts(**settings, digest=_hash_of_start_states(members))
    found = None if kept is None else _starts_kept_by_store(Store.at(kept), settings)
    if found is None:
        raise InputError(
            f"there is no store {store.absolute()}; a path is relative to the study's directory",
            key="store",
        )
    return found


def _hash_of_start_states(members: NDArray[np.float64]) -> str:
    return hashlib.blake2b(members.astype("<f8").tobytes(), digest_size=16).hexdigest()


def _end_states_of_stored_runs(
    store: Store, experiment: str, where: str
) -> tuple[str, NDArray[np.float64]]:
    """The experiment's name and the end states of its complete runs, ``(runs, rows, 3)``."""
    try:
        tree = open_study(store)
    except InputError as error:
        raise InputError(str(error), key="store") from None
    except Exception as error:  # metadata of a foreign store may be anything
        raise InputError(f"{store} cannot be read: {error}", key="store") from None
    names = list(tree.children)
    if not experiment and len(names) != 1:
        raise InputError(
            f"{store} has the experiments {', '.join(names)}: choose one, "
            f'experiment = "{names[0]}"',
            key="store",
        )
    experiment = experiment or names[0]
    check_known("experiment", experiment, names, "experiment", f"of {store}")
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
    if "state" not in table:
        raise InputError(
            f"experiment {experiment!r} of {store} does not record 'state'; run it with \"state\" "
            "in its record",
            key="store",
        )
    needed = len(rows) * math.prod(table["state"].shape[2:]) * 8
    if needed > MEMORY.most:
        raise InputError(str(MEMORY.error(needed)), key="store")
    states = table["state"].isel(run=rows, time=-1).values
    return experiment, _trim_states_to_equal_rows(store, experiment, states)


def _trim_states_to_equal_rows(
    store: Store, experiment: str, states: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The states without rows that are NaN in all; refused if some have fewer rows than others."""
    there: NDArray[np.bool_] = np.asarray(np.isfinite(states).all(axis=2))
    if (there != there[0]).any():
        raise InputError(
            f"the runs of experiment {experiment!r} of {store} have states of "
            f"{' and '.join(map(str, np.unique(there.sum(axis=1))))} rows: choose some by 'where'",
            key="store",
        )
    return np.ascontiguousarray(states[:, there[0]])


# --- if the other store no longer exists -----------------------------------------------------


def _starts_kept_by_store(kept: Store, settings: Mapping[str, Any]) -> StoreStarts | None:
    """The initial states, read from a store that was computed from them; None if it lacks them."""
    try:
        tree = open_study(kept)
    except (OSError, ValueError):
        return None
    asked = {key: settings[key] for key in ("file", "where_runs", "normalize")}
    asked |= {key: settings[key] for key in ("experiment", "label") if settings[key]}
    for table in (node.to_dataset() for node in tree.children.values()):
        for start in json.loads(table.attrs["experiment"])["initial_conditions"]:
            if not isinstance(start, dict) or not asked.items() <= start.items():
                continue
            members = _states_of_ensemble(table, start["label"])
            if members is not None and (
                start["normalize"] or _hash_of_start_states(members) == start["digest"]
            ):
                own = {key: start[key] for key in ("experiment", "label", "digest")}
                return StoreStarts(**{**settings, **own}, members=members, remembered=True)
    return None


def _states_of_ensemble(table: xr.Dataset, label: str) -> NDArray[np.float64] | None:
    """The initial states of an ensemble in the order of its members; None if some are missing."""
    mine = np.flatnonzero((table["ensemble"].values == label) & table["in_study"].values)
    numbers = [int(own[len(label) + 1 : -1]) for own in table["initial_condition"].values[mine]]
    members, first = np.unique(numbers, return_index=True)
    if not len(mine) or members.tolist() != list(range(len(members))):
        return None
    states = table["initial_state"].isel(run=mine[first]).values
    return np.ascontiguousarray(states[:, np.isfinite(states[0]).all(axis=1)])
