"""Selection of the runs that a command uses."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import sweep
from integrators.errors import InputError, check_known

if TYPE_CHECKING:
    import xarray as xr

    from sweep.store.store import Store


def open_experiments(
    store: "str | Store", experiments: Sequence[str] = (), where: str | None = None
) -> "dict[str, xr.Dataset]":
    """Selected run tables by experiment; see `select_runs` for the parameters."""
    return {name: runs for name, (runs, _) in select_runs(store, experiments, where).items()}


def select_runs(
    store: "str | Store", experiments: Sequence[str] = (), where: str | None = None
) -> "dict[str, tuple[xr.Dataset, int]]":
    """Select runs of a store by experiment, among those that its study asks for.

    Parameters
    ----------
    store : str or Store
    experiments : sequence of str, optional
        Names of the experiments to use; all by default.
    where : str, optional
        An expression that the selected runs satisfy, as in `sweep.query`.

    Returns
    -------
    dict of str to (xarray.Dataset, int)
        The selected runs, and the total number of runs of the experiment. Experiments without
        selected runs are left out.

    Raises
    ------
    InputError
        If the store or an experiment does not exist, or if no run is selected.
    """
    selected: dict[str, tuple[xr.Dataset, int]] = {}
    refused: list[tuple[str, InputError]] = []
    tree = sweep.open_study(store)
    for name in experiments:
        check_known("experiment", name, tree.children, where=f"of {store}")
    for name in (name for name in tree.children if not experiments or name in experiments):
        dataset = tree[name].to_dataset()
        in_study = dataset["in_study"].values
        dataset = dataset if in_study.all() else dataset.isel(run=in_study)
        try:
            if total := dataset.sizes["run"]:
                selected[name] = dataset if where is None else sweep.query(dataset, where), total
        except InputError as error:
            refused.append((name, error))
    if not selected:
        raise InputError(
            "\n".join(sweep.analysis.query_refusals_in_words(refused)) or f"{store} has no runs"
        )
    return selected
