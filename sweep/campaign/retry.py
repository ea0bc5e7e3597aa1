"""Compute failed runs again, from the study that the store keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from integrators.errors import InputError, check_known
from sweep.analysis.runs.query import ask_each_experiment, runs_where_expression_holds
from sweep.campaign.run import Outcome, run
from sweep.store import diff
from sweep.store.commit import fold
from sweep.store.failed_runs import failure_status_names
from sweep.store.lease.lease import acquire_lease
from sweep.store.open import open_study
from sweep.store.store import Store
from sweep.store.stored_studies import stored_study
from sweep.store.upkeep.mark_runs import mark_runs_not_computed

if TYPE_CHECKING:
    from pathlib import Path

    import xarray as xr

RowsByExperiment = dict[str, NDArray[np.intp]]


def rows_of_failed_runs(
    store: Store, where: str = "", among: Sequence[str] = ()
) -> RowsByExperiment:
    """Find the rows of failed runs in a store.

    Parameters
    ----------
    store : Store
    where : str
        Expression as for `sweep.query`, such as ``step_size > 0.1``; empty for all runs.
    among : sequence of str
        Names of statuses; empty for all failures.

    Returns
    -------
    dict of str to ndarray of int
        Rows by experiment, for experiments with failed runs.

    Raises
    ------
    InputError
        If no experiment has a variable of the expression, or a status is unknown.
    """
    known = failure_status_names()
    for name in among:
        check_known("status of a run that failed", name, known, key="status")
    wanted = [known[name] for name in among or known]

    def failures(node: xr.DataTree) -> NDArray[np.bool_]:
        table = node.to_dataset()
        failed = table["in_study"].values.astype(bool) & (table["sample_count"].values > 0)
        failed &= np.isin(table["status"].values, wanted)
        return failed & runs_where_expression_holds(table, where) if where else failed

    try:
        failed, _ = ask_each_experiment(failures, open_study(store).children)
    except InputError as error:
        raise InputError(f"`where`: {error}", key="where") from None
    return {name: np.flatnonzero(runs) for name, runs in failed.items() if runs.any()}


def retry(
    store: str | Path | Store,
    where: str = "",
    among: str | Sequence[str] = (),
    *,
    chosen: Callable[[RowsByExperiment], object] = lambda rows: None,
    trust_plugins: bool = False,
    **options: Any,
) -> Outcome | None:
    """Mark failed runs as not computed, and run the study of the store.

    The lease is released in between, and the run acquires it like any other run. If another process
    acquires it first, that process computes the marked runs.

    Parameters
    ----------
    store : str, Path or Store
    where : str, optional
        Only runs for which this expression holds, as for `sweep.query`.
    among : str or sequence of str, optional
        Only runs with these statuses, such as ``"not_converged"``.
    chosen : callable
        Called with the rows of failed runs by experiment, before anything is written.
    trust_plugins : bool
        Whether to approve the plugins that the store brings; see `sweep.plugins.approvals`.
    **options
        Options of `sweep.run`.

    Returns
    -------
    sweep.campaign.run.Outcome or None
        None if there is no run to compute again, and none was pending.

    Raises
    ------
    InputError
        As in `rows_of_failed_runs` and `sweep.run`; then nothing is changed.
    """
    store = Store.at(store).absolute()
    among = (among,) if isinstance(among, str) else among
    study = stored_study(store, trust_plugins=trust_plugins)
    with acquire_lease(store) as lease:
        fold.fold_leftovers(store, lease)
        entries = diff.diff_store_against_study(store, study)
        rows = rows_of_failed_runs(store, where, among)
        chosen(rows)
        if not rows and not any(entry.pending.any() for entry in entries):
            return None
        # A worker that was suspended may still write records of these runs.
        fold.end_session(store, lease)
        for name, mine in rows.items():
            mark_runs_not_computed(store, name, mine, lease.check)
    return run(study, store, **options)
