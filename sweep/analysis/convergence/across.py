"""Orders of the same methods side by side: across experiments, parameters or formulations."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import xarray as xr

from integrators.errors import InputError
from sweep.analysis.convergence.curves import run_table_has_error
from sweep.analysis.convergence.orders import OrderEstimate, order_table
from sweep.analysis.rows import Rows
from sweep.analysis.runs.selection import adaptive_runs, integrator_descriptions, scanned_axes

EXPERIMENT, SYSTEM = "experiment", "system"
SETTINGS = ("system", "duration", "reference")  # of an experiment, beside its parameters


@dataclass(frozen=True)
class OrderAcross:
    """The order of one method at one value of the setting that is varied.

    Attributes
    ----------
    method : str
        Name that rows of the same method share: its label, or the name of the integrator where an
        option is varied and no other option distinguishes integrators of that name.
    experiment : str
    across : str
        The varied setting: ``experiment``, ``system``, a scanned or fixed parameter, or an option
        of integrators.
    value : object
        Its value in this row.
    estimate : OrderEstimate
    others : tuple of str
        Names of other settings and parameters in which the compared experiments differ.
    """

    method: str
    experiment: str
    across: str
    value: object
    estimate: OrderEstimate
    others: tuple[str, ...]

    @property
    def parameters(self) -> dict[str, Any]:
        """Values of the scanned axes, without the varied one."""
        return {k: v for k, v in self.estimate.parameters.items() if k != self.across}


def orders_across(
    experiments: Mapping[str, xr.Dataset], across: str, error: str | None = None, at: str = "end"
) -> Rows:
    """Measure orders in several experiments, and compare them by a setting in which they differ.

    Parameters
    ----------
    experiments : dict of str to xarray.Dataset
        Run tables by name. Those without this error, or without `across`, are left out.
    across : str
        ``experiment``, ``system``; a parameter of the system, scanned or not, such as ``count``;
        or an option of integrators, such as ``formulation``.
    error, at : str, optional
        As of `order_table`.

    Returns
    -------
    Rows of OrderAcross

    Raises
    ------
    InputError
        If `across` has fewer than two values, with the settings that have more.

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
    _check_values_differ(measured, across)
    taken = {name: data for name, data in measured.items() if _values_across(name, data, across)}
    others = tuple(_settings_that_differ(taken, across))
    rows = []
    for name, dataset in taken.items():
        for row in order_table(dataset, error, at):
            value = _value_of_row(name, dataset, across, row)
            if value is not None:
                rows.append(OrderAcross(row.integrator, name, across, value, row, others))
    return Rows(_with_shared_method_names(rows, taken, across))


def _check_values_differ(experiments: Mapping[str, xr.Dataset], across: str) -> None:
    """Raise InputError, with the settings that differ, unless `across` has two values."""
    keys: dict[str, None] = dict.fromkeys([EXPERIMENT, SYSTEM])
    for dataset in experiments.values():
        keys |= dict.fromkeys(
            [*scanned_axes(dataset), *_shared_settings(dataset).get("parameters", {})]
        )
        for one in integrator_descriptions(dataset).values():
            keys |= dict.fromkeys(one.get("options", {}))
    differ = []
    for key in keys:
        found = [v for name, data in experiments.items() for v in _values_across(name, data, key)]
        if len({_sorted_json(value) for value in found}) > 1:
            differ.append(key)
    if across not in differ:
        has = "has one value in" if across in keys else "is no setting of"
        hint = f"These differ: {', '.join(differ)}" if differ else "Nothing else differs either"
        raise InputError(
            f"{across!r} {has} the experiments that have orders. {hint}.", key="across"
        )


def _shared_settings(dataset: xr.Dataset) -> dict[str, Any]:
    """The settings that all runs of an experiment share."""
    return json.loads(dataset.attrs.get("fixed", "{}"))


def _sorted_json(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _values_across(name: str, dataset: xr.Dataset, across: str) -> list[Any]:
    """The values of the varied setting in an experiment; empty where it has none."""
    if across == EXPERIMENT:
        return [name]
    fixed = _shared_settings(dataset)
    if across == SYSTEM:
        return [fixed["system"]] if "system" in fixed else []
    if across in scanned_axes(dataset):
        return list(dict.fromkeys(dataset[across].values.tolist()))
    if across in fixed.get("parameters", {}):
        return [fixed["parameters"][across]]
    described = integrator_descriptions(dataset).values()
    options = [one.get("options", {}) for one in described]
    return [of[across] for of in options if across in of]


def _value_of_row(name: str, dataset: xr.Dataset, across: str, row: OrderEstimate) -> Any:
    """The value of the varied setting in a row; None where its integrator has no such option."""
    if across in row.parameters:
        return row.parameters[across]
    if across in (EXPERIMENT, SYSTEM) or across in _shared_settings(dataset).get("parameters", {}):
        return _values_across(name, dataset, across)[0]
    described = integrator_descriptions(dataset).get(row.integrator, {})
    return described.get("options", {}).get(across)


def _settings_that_differ(experiments: Mapping[str, xr.Dataset], across: str) -> Iterator[str]:
    """Names of the settings and parameters, except `across`, in which experiments differ."""
    fixed = {name: _shared_settings(dataset) for name, dataset in experiments.items()}
    parameters = dict.fromkeys(key for of in fixed.values() for key in of.get("parameters", {}))
    for key in (*SETTINGS, *parameters):
        values = [
            of.get(key) if key in SETTINGS else of.get("parameters", {}).get(key)
            for of in fixed.values()
        ]
        if key != across and len({_sorted_json(value) for value in values}) > 1:
            yield key


def _with_shared_method_names(
    rows: Sequence[OrderAcross], experiments: Mapping[str, xr.Dataset], across: str
) -> list[OrderAcross]:
    """Give the rows of each method, by name and options other than `across`, one name."""
    identities: list[tuple[str, str]] = []
    labels: dict[tuple[str, str], str] = {}
    names: dict[str, set[tuple[str, str]]] = {}
    for row in rows:
        described = integrator_descriptions(experiments[row.experiment]).get(row.method, {})
        name = described.get("name", row.method)
        options = {k: v for k, v in described.get("options", {}).items() if k != across}
        identity = name, _sorted_json(options)
        identities.append(identity)
        labels.setdefault(identity, row.method)
        names.setdefault(name, set()).add(identity)
    optional = any(
        across in one.get("options", {})
        for dataset in experiments.values()
        for one in integrator_descriptions(dataset).values()
    )
    return [
        replace(row, method=name if optional and len(names[name]) == 1 else labels[name, options])
        for row, (name, options) in zip(rows, identities, strict=True)
    ]
