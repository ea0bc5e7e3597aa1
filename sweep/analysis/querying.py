"""Choose runs by an expression, as ``integrator == "variational" and step_size < 1e-3``."""

import ast
import re

import numpy as np
import pandas as pd
import xarray as xr

from integrators.errors import InputError, nearest
from sweep.analysis.per_run import AT, column, reduced
from sweep.analysis.selection import run_table

EXAMPLE = "integrator == 'rk4' and step_size < 0.05"
SERIES = re.compile(rf"\b([A-Za-z_]\w*){AT}([A-Za-z_]\w*|[\d.]+(?:[eE][-+]?\d+)?)")
LISTED = 8  # values of a coordinate that a message names


def query(data, expression):
    """Choose the runs for which an expression holds.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataTree
        One experiment, a selection of its runs, or the tree of `sweep.open_study`.
    expression : str
        In Python's syntax, of the coordinates and variables over ``run``, with ``and``, ``or``,
        ``not`` and ``in``: ``integrator in ['rk4', 'rk45'] and not gravity > 5``. A status may be
        named, ``status == 'not_converged'``, and of series everything may be asked that `results`
        gives: ``energy_error@max > 1e-8``.

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
        return _query_tree(data, expression)
    dataset = run_table(data)
    holds = holding(dataset, expression)
    if not holds.any():
        raise InputError(
            f"no run is selected by {expression}. There is {_what_there_is(dataset, expression)}",
            key="where",
        )
    return dataset.isel(run=np.flatnonzero(holds))


def _query_tree(tree, expression):
    chosen, refused = {}, []
    for name, node in tree.children.items():
        try:
            chosen[name] = query(node, expression)
        except InputError as error:
            refused.append((name, error))
    if not chosen:
        raise InputError("\n".join(refusals(refused)), key="where")
    return _tree_of(tree, chosen)


def _tree_of(tree, chosen):
    result = xr.DataTree.from_dict(chosen)
    result.attrs = tree.attrs
    return result


def refusals(refused):
    """Messages of several experiments, each once behind the names that it holds for."""
    names = {}
    for name, error in refused:
        names.setdefault(str(error), []).append(name)
    if len(names) == 1:
        return list(names)
    return [f"{', '.join(of)}: {text}" for text, of in names.items()]


def holding(dataset, expression):
    """For which runs an expression holds.

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
    tree, series = _parsed(expression)
    names = _names(tree)
    values = _values(dataset, expression, names, series)
    code = ast.unparse(_StatusNames(dataset).visit(tree))
    runs = dataset.sizes["run"]
    try:
        holds = pd.eval(code, resolvers=[values], engine="python")
    except Exception as error:  # whatever evaluating a wrong expression raises
        raise _unusable(expression, error) from None
    holds = np.asarray(holds)
    if holds.dtype != bool or holds.shape not in ((), (runs,)):
        raise _unusable(expression, "it is no condition that holds or not for each run")
    return np.broadcast_to(holds, (runs,))


def _unusable(expression, reason):
    return InputError(
        f"{expression!r} cannot be evaluated: {str(reason).rstrip('.')}. Write it like "
        f'"{EXAMPLE}".',
        key="where",
    )


def _parsed(expression):
    """The syntax tree, and what is asked of series by the name that stands for it there."""
    series = {}

    def name_for(match):
        series.setdefault(name := f"series_{len(series)}_", match.group(0))
        return name

    text = SERIES.sub(name_for, str(expression).strip())
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError) as error:
        reason = getattr(error, "msg", str(error))
        if re.search(r"(?<![=<>!])=(?!=)", text):
            reason = "equality is written =="
        raise _unusable(expression, reason) from None
    return tree, series


def _names(tree):
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _values(dataset, expression, names, series):
    """What the names in an expression stand for, by name; `InputError` for unknown ones."""
    scalars = [
        str(key)
        for key in (*dataset.coords, *dataset.data_vars)
        if dataset[key].dims == ("run",) and key != "run"
    ]
    for name in sorted(names - series.keys()):
        if name not in scalars:
            raise _unusable(expression, _unknown(dataset, name, scalars))
    chosen = [column(dataset, text) for text in series.values()]
    found = reduced(dataset, chosen)
    values = {name: dataset[name].values for name in names - series.keys()}
    values |= {name: found[text] for name, text in series.items()}
    return {name: pd.Series(array) for name, array in values.items()}


def _unknown(dataset, name, scalars):
    """What to say of a name that no run has: a series, a label without quotes, or a mistake."""
    if name in dataset.variables:
        return (
            f"{name!r} is a series over time: say what of it, e.g. {name}{AT}end or {name}{AT}max"
        )
    for coordinate in ("integrator", "initial_condition", "ensemble"):
        if coordinate in dataset.coords and (dataset[coordinate].values == name).any():
            return f"{name!r} is a value of {coordinate!r}: write it in quotes, '{name}'"
    hint = nearest(name, scalars).strip()
    known = "" if hint.startswith("Valid") else f" There is: {', '.join(scalars)}"
    return f"the runs have no {name!r}. {hint}{known}"


class _StatusNames(ast.NodeTransformer):
    """Puts the number in place of a status that is named."""

    def __init__(self, dataset):
        self.flags = {}
        if "status" in dataset:
            attributes = dataset["status"].attrs
            meanings = attributes.get("flag_meanings", "").split()
            self.flags = dict(zip(meanings, attributes.get("flag_values", ()), strict=False))

    def visit_Compare(self, node):
        sides = [node.left, *node.comparators]
        if self.flags and any(isinstance(s, ast.Name) and s.id == "status" for s in sides):
            node.left, *node.comparators = [self._numbered(side) for side in sides]
        return node

    def _numbered(self, node):
        if isinstance(node, (ast.List, ast.Tuple)):
            node.elts = [self._numbered(item) for item in node.elts]
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            return node
        if node.value not in self.flags:
            raise InputError(
                f"unknown status {node.value!r}.{nearest(node.value, self.flags)}", key="where"
            )
        return ast.Constant(int(self.flags[node.value]))


def _what_there_is(dataset, expression):
    """The values that the runs have of what an expression names."""
    tree, series = _parsed(expression)
    values = _values(dataset, expression, _names(tree), series)
    values = values or {name: pd.Series(dataset[name].values) for name in ("integrator",)}
    texts = {name: series.get(name, name) for name in sorted(values)}
    return "; ".join(f"{text}: {_listed(dataset, name, values[name])}"
                     for name, text in texts.items())  # fmt: skip


def _listed(dataset, name, series):
    if name == "status":
        present, flags = set(series), _StatusNames(dataset).flags
        return ", ".join(text for text, value in flags.items() if value in present)
    values = list(dict.fromkeys(series.dropna().tolist()))
    if not values:
        return "none"
    if isinstance(values[0], str):
        more = f" … ({len(values)} in all)" if len(values) > LISTED else ""
        return ", ".join(repr(value) for value in values[:LISTED]) + more
    values = sorted(values)
    if len(values) > LISTED:
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(str, values))
