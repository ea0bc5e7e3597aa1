"""Choose runs by an expression, as ``integrator == "variational" and step_size < 1e-3``."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from integrators.errors import InputError, suggest_nearest
from sweep.analysis.runs.blocks import Booleans
from sweep.analysis.runs.expressions import Expression
from sweep.analysis.runs.selection import run_table
from sweep.analysis.runs.summaries import AT, parse_result_column, reduce_result_columns

LISTED = 8  # values of a coordinate that a message names


def query(data: xr.Dataset | xr.DataTree, expression: str) -> xr.Dataset | xr.DataTree:
    """Choose the runs for which an expression holds.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataTree
        One experiment, a selection of its runs, or the tree of `sweep.open_study`.
    expression : str
        Comparisons of the coordinates and variables over ``run`` with numbers, text in quotes and
        each other, with ``and``, ``or``, ``not``, ``in [...]``, brackets and ``+ - * /``:
        ``integrator in ['rk4', 'rk45'] and not gravity > 5``. A status may be named,
        ``status == 'not_converged'``, and of series everything may be asked that `results` gives:
        ``energy_error@max > 1e-8``. Nothing else is possible; the grammar is
        that of `sweep.analysis.runs.expressions`.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        The runs for which it holds, as lazy as they were; of a tree, the experiments that have
        some.

    Raises
    ------
    InputError
        When it cannot be evaluated, saying which names there are; when it holds for no run, saying
        which values there are.

    Examples
    --------
    >>> query(tree["order"], "integrator == 'rk4' and step_size < 0.05")   # doctest: +SKIP
    """
    if isinstance(data, xr.DataTree) and data.children:
        return _query_each_experiment(data, expression)
    dataset = run_table(data)
    holds = runs_where_expression_holds(dataset, expression)
    if not holds.any():
        raise InputError(
            f"no run is selected by {expression}. There is "
            f"{_values_that_runs_have(dataset, expression)}",
            key="where",
        )
    return dataset if holds.all() else dataset.isel(run=np.flatnonzero(holds))


def _query_each_experiment(tree: xr.DataTree, expression: str) -> xr.DataTree:
    chosen: dict[str, xr.Dataset | xr.DataTree] = {}
    refused = []
    for name, node in tree.children.items():
        try:
            chosen[name] = query(node, expression)
        except InputError as error:
            refused.append((name, error))
    if not chosen:
        raise InputError("\n".join(query_refusals_in_words(refused)), key="where")
    result = xr.DataTree.from_dict(chosen)
    result.attrs = tree.attrs
    return result


def query_refusals_in_words(refused: Iterable[tuple[str, InputError]]) -> list[str]:
    """Merge equal messages of several experiments, each behind the names of its experiments."""
    names: dict[str, list[str]] = {}
    for name, error in refused:
        names.setdefault(str(error), []).append(name)
    if len(names) == 1:
        return list(names)
    return [f"{', '.join(of)}: {text}" for text, of in names.items()]


def runs_where_expression_holds(dataset: xr.Dataset, expression: str) -> Booleans:
    """Evaluate an expression for each run of a table.

    Parameters
    ----------
    dataset : xarray.Dataset
        A run table.
    expression : str
        As of `query`.

    Returns
    -------
    ndarray of bool, shape ``(run,)``

    Raises
    ------
    InputError
        When it cannot be evaluated.
    """
    parsed = Expression(expression)
    columns = _columns_named_in_expression(dataset, parsed)
    return parsed.runs_where_it_holds(
        columns, dataset.sizes["run"], {"status": _status_numbers_by_name(dataset)}
    )


def _status_numbers_by_name(dataset: xr.Dataset) -> dict[str, int]:
    """Status codes by name, from the attributes of ``status``."""
    attributes = dataset["status"].attrs if "status" in dataset else {}
    meanings = attributes.get("flag_meanings", "").split()
    return dict(zip(meanings, attributes.get("flag_values", ()), strict=False))


def _columns_named_in_expression(
    dataset: xr.Dataset, expression: Expression
) -> dict[str, NDArray[Any]]:
    """Columns that an expression names, by name; `InputError` for unknown ones."""
    scalars = [
        str(key) for key in (*dataset.coords, *dataset.data_vars) if dataset[key].dims == ("run",)
    ]
    for name in expression.names:
        if AT not in name and name not in scalars:
            raise expression.error_of_expression(_why_name_is_unknown(dataset, name, scalars))
    return reduce_result_columns(
        dataset, [parse_result_column(dataset, name) for name in expression.names]
    )


def _why_name_is_unknown(dataset: xr.Dataset, name: str, scalars: Sequence[str]) -> str:
    """Explain an unknown name: a series, a label without quotes, or a typing error."""
    if name in dataset.variables:
        return (
            f"{name!r} is a series over time: say what of it, e.g. {name}{AT}end or {name}{AT}max"
        )
    for coordinate in ("integrator", "initial_condition", "ensemble"):
        if coordinate in dataset.coords and (dataset[coordinate].values == name).any():
            return f"{name!r} is a value of {coordinate!r}: write it in quotes, '{name}'"
    hint = suggest_nearest(name, scalars).strip()
    known = "" if hint.startswith("Valid") else f" There is: {', '.join(scalars)}"
    return f"the runs have no {name!r}. {hint}{known}"


def _values_that_runs_have(dataset: xr.Dataset, expression: str) -> str:
    """The values of the columns that an expression names, in words."""
    columns = _columns_named_in_expression(dataset, Expression(expression))
    columns = columns or {"integrator": dataset["integrator"].values}
    return "; ".join(
        f"{name}: {_column_values_in_words(dataset, name, columns[name])}"
        for name in sorted(columns)
    )


def _column_values_in_words(dataset: xr.Dataset, name: str, column: NDArray[Any]) -> str:
    if name == "status":
        present = {*column.tolist()}
        return ", ".join(
            text for text, value in _status_numbers_by_name(dataset).items() if value in present
        )
    values = [value for value in dict.fromkeys(column.tolist()) if value == value]
    if not values:
        return "none"
    if isinstance(values[0], str):
        more = f" … ({len(values)} in all)" if len(values) > LISTED else ""
        return ", ".join(repr(value) for value in values[:LISTED]) + more
    values = sorted(values)
    if len(values) > LISTED:
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(str, values))
