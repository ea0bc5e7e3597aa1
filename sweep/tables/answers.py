"""The answers of `sweep.analysis` for a whole store, a tree or an experiment.

Each function has the name and the documentation of that in `sweep.analysis`. It opens stores too,
and what it gives are `sweep.analysis.rows.Rows`, which show as tables.
"""

import functools
import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from integrators.errors import InputError
from sweep import analysis, store, tables
from sweep.analysis.rows import Rows

if TYPE_CHECKING:
    import xarray as xr

# Made when they are first used, by `__getattr__`.
arithmetic_table: Callable[..., Rows]
chaos_table: Callable[..., Rows]
drift_table: Callable[..., Rows]
growth_table: Callable[..., Rows]
order_table: Callable[..., Rows]
structure_table: Callable[..., Rows]
tolerance_table: Callable[..., Rows]
work_table: Callable[..., Rows]
grid: "Callable[..., xr.Dataset]"
query: "Callable[..., xr.Dataset | xr.DataTree]"
results: "Callable[..., xr.Dataset]"
units: Callable[..., dict[str, str]]

# For each function that gives rows, the one of `sweep.tables` that makes tables of them.
TABLES = {
    "arithmetic_table": "arithmetic_as_tables",
    "chaos_table": "chaos_as_table",
    "drift_table": "drifts_as_tables",
    "growth_table": "growth_as_tables",
    "order_table": "orders_as_table",
    "structure_table": "structure_as_tables",
    "tolerance_table": "tolerances_as_table",
    "work_table": "work_as_tables",
}
FOR_ONE_EXPERIMENT = ("grid", "query", "results", "units")
SOURCE = """{name} : str, Path, Store, xarray.DataTree or xarray.Dataset
    A store, the tree of `sweep.open_study`, one experiment of it, or a selection of its runs.
"""
EACH = """experiment : str, optional
    Of a store or tree, only this one; each that has what is asked for unless given.
"""
ONE = """experiment : str, optional
    Of a store or tree, which one; may be left out where there is only one.
"""


def __getattr__(name: str) -> Callable[..., Any]:
    if name in TABLES:
        made = _answer_by_experiment(getattr(analysis, name))
    elif name in FOR_ONE_EXPERIMENT:
        made = _answer_for_one_experiment(getattr(analysis, name))
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = made
    return made


def _answer_by_experiment(analyse: Callable[..., list[Any]]) -> Callable[..., Rows]:
    """An analysis that answers for each experiment of a store, as rows that show as tables."""
    tables_of_rows = functools.partial(_rows_as_tables, TABLES[analyse.__name__])

    def answer(
        dataset: Any, *arguments: Any, experiment: str | None = None, **options: Any
    ) -> Rows:
        found: dict[str, list[Any]] = {}
        refused: list[tuple[str, InputError]] = []
        for name, runs in store.open_experiments(dataset, experiment).items():
            try:
                found[name] = analyse(runs, *arguments, **options)
            except InputError as reason:
                refused.append((name, reason))
        if refused and not any(found.values()):
            if len(refused) == 1:
                raise refused[0][1]
            raise InputError("\n".join(analysis.query_refusals_in_words(refused)))
        rows = [row for own in found.values() for row in own]
        names = [name for name, own in found.items() for _ in own if name]
        return Rows(rows, tables_of_rows, names, [f"{name}: {reason}" for name, reason in refused])

    return _with_documentation_of(analyse, answer, EACH)


def _answer_for_one_experiment(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one experiment that also takes the path of a store, or its tree."""

    def answer(dataset: Any, *arguments: Any, experiment: str | None = None, **options: Any) -> Any:
        whole = function.__name__ == "query" and experiment is None
        opened = store.open_tree(dataset) if whole else store.open_experiment(dataset, experiment)
        return function(opened, *arguments, **options)

    return _with_documentation_of(function, answer, ONE)


def _with_documentation_of(
    function: Callable[..., Any], answer: Callable[..., Any], experiment: str
) -> Callable[..., Any]:
    """`answer` with the name, signature and documentation of `function`, which it calls.

    Parameters
    ----------
    function, answer : callable
    experiment : str
        Documentation of the parameter that `answer` has besides.
    """
    functools.update_wrapper(answer, function)
    answer.__module__, answer.__doc__ = __name__, _documentation(function, experiment)
    signature = inspect.signature(function)
    last = inspect.Parameter("experiment", inspect.Parameter.KEYWORD_ONLY, default=None)
    own = signature.replace(parameters=[*signature.parameters.values(), last])
    answer.__dict__["__signature__"] = own
    del answer.__dict__["__wrapped__"]
    return answer


def _documentation(function: Callable[..., Any], experiment: str) -> str:
    """That of `function`, for one that takes stores too, and an experiment."""
    first = next(iter(inspect.signature(function).parameters))
    text = inspect.getdoc(function) or ""
    text = re.sub(rf"{first} : .*\n(    .*\n)+", SOURCE.format(name=first), text, count=1)
    text = text.replace("\nReturns\n", f"{experiment}\nReturns\n", 1)
    text = text.replace(f"\n\n{experiment}", f"\n{experiment}")
    return re.sub(r"\nlist of (\w+)", r"\nRows of \1", text)


def _rows_as_tables(name: str, rows: list[Any]) -> list[Any]:
    made = getattr(tables, name)(rows)
    return made if isinstance(made, list) else [made]
