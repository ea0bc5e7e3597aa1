"""Comparison of orders of the same methods across experiments, parameters or formulations."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import xarray as xr

from integrators.errors import InputError
from sweep.analysis.convergence.curves import run_table_has_error
from sweep.analysis.convergence.orders import OrderEstimate, order_table
from sweep.analysis.rows import Rows
from sweep.analysis.runs.selection import adaptive_runs, integrator_descriptions

EXPERIMENT = "experiment"
SETTINGS = ("system", "duration", "reference")  # attributes of an experiment


@dataclass(frozen=True)
class OrderAcross:
    """The order of one method at one value of the setting that is varied.

    Attributes
    ----------
    method : str
        Name that rows of the same method share: the label; or, if an option is varied and no other
        option distinguishes integrators of that name, the name of the integrator.
    experiment : str
    across : str
        The varied setting: ``experiment``, ``system``, a scanned or fixed parameter, or an option
        of integrators.
    value : object
        Its value in this row.
    estimate : OrderEstimate
    others : tuple of str
        Names of the other settings in which the compared experiments differ.
    """

    method: str
    experiment: str
    across: str
    value: object
    estimate: OrderEstimate
    others: tuple[str, ...]

    @property
    def parameters(self) -> dict[str, Any]:
        """Values of the scanned axes, except the varied one."""
        return {k: v for k, v in self.estimate.parameters.items() if k != self.across}


def orders_across(
    experiments: Mapping[str, xr.Dataset], across: str, error: str | None = None, at: str = "end"
) -> Rows[OrderAcross]:
    """Measure orders in several experiments, and compare them across a setting that differs.

    Parameters
    ----------
    experiments : dict of str to xarray.Dataset
        Run tables by name. Experiments without this error or setting are left out.
    across : str
        The setting: ``experiment``, ``system``; a parameter of the system, scanned or not, such as
        ``count``; or an option of integrators, such as ``formulation``.
    error, at : str, optional
        See `order_table`.

    Returns
    -------
    Rows of OrderAcross

    Raises
    ------
    InputError
        If the setting has fewer than two values; the message lists settings that have more.

    Examples
    --------
    >>> tree = sweep.open_study("forms.zarr")  # doctest: +SKIP
    >>> orders_across({name: tree[name].to_dataset() for name in tree}, "count")  # doctest: +SKIP
    """
    measured = {
        name: dataset
        for name, dataset in experiments.items()
        if run_table_has_error(dataset, error) and not adaptive_runs(dataset).all()
    }
    found = [
        (name, row, _settings(name, dataset, row))
        for name, dataset in measured.items()
        for row in order_table(dataset, error, at)
    ]
    _check_values_differ([settings for *_, settings in found], across)
    found = [(name, row, settings) for name, row, settings in found if across in settings]
    compared = dict.fromkeys(name for name, *_ in found)
    shared = [_shared_settings(name, measured[name]) for name in compared]
    others = tuple(key for key in _varied_settings(shared) if key not in (EXPERIMENT, across))
    # A label may contain the varied option. If no other option distinguishes methods of one name,
    # they are called by that name, and otherwise by the first of their labels.
    methods, labels = [], dict[str, dict[str, str]]()
    for name, row, _ in found:
        method = integrator_descriptions(measured[name]).get(row.integrator, {})
        known, options = method.get("name", row.integrator), method.get("options", {})
        rest = _as_json(options | {across: None})
        labels.setdefault(known, {}).setdefault(rest, row.integrator)
        methods.append((known, across in options, labels[known], rest))
    return Rows(
        OrderAcross(
            known if varied and len(own) == 1 else own[rest],
            *(name, across, settings[across], row, others),
        )
        for (name, row, settings), (known, varied, own, rest) in zip(found, methods, strict=True)
    )


def _shared_settings(name: str, dataset: xr.Dataset) -> dict[str, Any]:
    """The settings that all runs of an experiment share."""
    fixed = json.loads(dataset.attrs.get("fixed", "{}"))
    own = {key: fixed[key] for key in SETTINGS if key in fixed}
    return {EXPERIMENT: name} | own | fixed.get("parameters", {})


def _settings(name: str, dataset: xr.Dataset, row: OrderEstimate) -> dict[str, Any]:
    """All settings of a row: those of its experiment, options of its integrator, scanned values."""
    options = integrator_descriptions(dataset).get(row.integrator, {}).get("options", {})
    return _shared_settings(name, dataset) | options | row.parameters


def _check_values_differ(settings: Sequence[dict[str, Any]], across: str) -> None:
    """Raise `InputError` unless the setting `across` has two values or more."""
    differ = _varied_settings(settings)
    if across not in differ:
        known = any(across in one for one in settings)
        has = "has one value in" if known else "is no setting of"
        hint = f"These differ: {', '.join(differ)}" if differ else "Nothing else differs either"
        raise InputError(
            f"{across!r} {has} the experiments that have orders. {hint}.", key="across"
        )


def _varied_settings(settings: Iterable[dict[str, Any]]) -> list[str]:
    """Keys that do not have the same value in all settings."""
    values: dict[str, set[str]] = {}
    for one in settings:
        for key, value in one.items():
            values.setdefault(key, set()).add(_as_json(value))
    return [key for key, found in values.items() if len(found) > 1]


def _as_json(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)
