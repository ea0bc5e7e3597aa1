"""Selection of runs by an expression, ``integrator == "variational" and step_size < 1e-3``."""

from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Any, TypeVar

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from integrators.errors import InputError, suggest_nearest
from sweep.analysis.runs.blocks import Booleans
from sweep.analysis.runs.expressions import Refusal, evaluate_expression
from sweep.analysis.runs.selection import run_table
from sweep.analysis.runs.summaries import AT, parse_result_column, reduce_result_columns

Found = TypeVar("Found", bound=Sized)
LISTED = 8  # maximum number of values of a coordinate in a message


def query(data: xr.Dataset | xr.DataTree, expression: str) -> xr.Dataset | xr.DataTree:
    """Select the runs that satisfy an expression.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataTree
        One experiment, a selection of its runs, or the tree of `sweep.open_study`.
    expression : str
        Comparisons of coordinates and variables over ``run`` with numbers, quoted text and each
        other, with ``and``, ``or``, ``not``, ``in [...]``, parentheses and ``+ - * /``:
        ``integrator in ['rk4', 'rk45'] and not gravity > 5``. A status may be given by name, as in
        ``status == 'not_converged'``, and time series by the reductions that `results` has, as in
        ``energy_error@max > 1e-8``. Nothing else is possible; for the grammar, see
        `sweep.analysis.runs.expressions`.

    Returns
    -------
    xarray.Dataset or xarray.DataTree
        The selected runs; lazy arrays remain lazy. A tree has the experiments with selected runs.

    Raises
    ------
    InputError
        If the expression cannot be evaluated, with the names that exist; or if no run satisfies it,
        with the values that exist.

    Examples
    --------
    >>> query(tree["order"], "integrator == 'rk4' and step_size < 0.05")   # doctest: +SKIP
    """
    if isinstance(data, xr.DataTree) and data.children:
        chosen, _ = ask_each_experiment(lambda node: query(node, expression), data.children)
        result = xr.DataTree.from_dict(chosen)
        result.attrs = data.attrs
        return result
    dataset = run_table(data)
    holds, columns = _evaluate(dataset, expression)
    if not holds.any():
        columns = columns or {"integrator": dataset["integrator"].values}
        there = (
            f"{name}: {_values_in_words(dataset, name, columns[name])}" for name in sorted(columns)
        )
        raise InputError(
            f"no run is selected by {expression}. There is {'; '.join(there)}", key="where"
        )
    return dataset if holds.all() else dataset.isel(run=np.flatnonzero(holds))


def ask_each_experiment(
    ask: Callable[[Any], Found], experiments: Mapping[str, Any]
) -> tuple[dict[str, Found], list[tuple[str, InputError]]]:
    """Analyse each of several experiments, and collect the results and errors.

    Parameters
    ----------
    ask : callable
        Takes an experiment and returns a sequence; it raises `InputError` if results are missing.
    experiments : dict
        Experiments by name.

    Returns
    -------
    found : dict
        Results by name.
    refused : list of (str, InputError)
        Names of the experiments without a result, and why.

    Raises
    ------
    InputError
        If no experiment has a result.
    """
    found, refused = dict[str, Found](), []
    for name, experiment in experiments.items():
        try:
            found[name] = ask(experiment)
        except InputError as reason:
            refused.append((name, reason))
    if refused and not any(map(len, found.values())):
        raise InputError("\n".join(query_refusals_in_words(refused)), key=refused[0][1].key)
    return found, refused


def query_refusals_in_words(refused: Iterable[tuple[str, InputError]]) -> list[str]:
    """Merge equal messages; each follows the names of the experiments that it is about."""
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
        See `query`.

    Returns
    -------
    ndarray of bool, shape ``(run,)``

    Raises
    ------
    InputError
        If the expression cannot be evaluated.
    """
    return _evaluate(dataset, expression)[0]


def _evaluate(dataset: xr.Dataset, expression: str) -> tuple[Booleans, dict[str, NDArray[Any]]]:
    """A mask of the runs that satisfy an expression, and the columns that it names."""

    def read(names: list[str]) -> dict[str, NDArray[Any]]:
        for name in names:
            if AT not in name and name not in dataset.variables:
                raise Refusal(_why_name_is_unknown(dataset, name))
        try:
            columns = [parse_result_column(dataset, name) for name in names]
        except InputError as error:
            raise Refusal(error) from None
        return reduce_result_columns(dataset, columns)

    return evaluate_expression(
        expression, dataset.sizes["run"], read, {"status": _status_numbers_by_name(dataset)}
    )


def _status_numbers_by_name(dataset: xr.Dataset) -> dict[str, int]:
    """Status codes by name, from the attributes of ``status``."""
    attributes = dataset["status"].attrs if "status" in dataset else {}
    meanings = attributes.get("flag_meanings", "").split()
    return dict(zip(meanings, attributes.get("flag_values", ()), strict=False))


def _why_name_is_unknown(dataset: xr.Dataset, name: str) -> str:
    """Explain an unknown name: a label without quotes, or a typing error."""
    for coordinate in ("integrator", "initial_condition", "ensemble"):
        if coordinate in dataset.coords and name in dataset[coordinate].values:
            return f"{name!r} is a value of {coordinate!r}: write it in quotes, '{name}'"
    there = [str(key) for key in (*dataset.coords, *dataset.data_vars)
             if dataset[key].dims == ("run",)]  # fmt: skip
    hint = suggest_nearest(name, there)
    known = "" if "Valid" in hint else f" There is: {', '.join(there)}"
    return f"the runs have no {name!r}.{hint}{known}"


def _values_in_words(dataset: xr.Dataset, name: str, column: NDArray[Any]) -> str:
    """The values of a column as text; the smallest and the largest if there are many."""
    values = [value for value in dict.fromkeys(column.tolist()) if value == value]
    if not values:
        return "none"
    if name == "status":
        numbers = _status_numbers_by_name(dataset)
        return ", ".join(text for text, number in numbers.items() if number in values)
    if isinstance(values[0], str):
        more = f" … ({len(values)} in all)" if len(values) > LISTED else ""
        return ", ".join(map(repr, values[:LISTED])) + more
    values = sorted(values)
    if len(values) > LISTED:
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(str, values))
