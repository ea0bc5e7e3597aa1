"""The answers of `sweep.analysis` as users ask for them: of a path, a study or an experiment.

A function here is that of the same name there, with its documentation. It also opens a store, and
its rows are `sweep.rows.Rows`, which are tables.
"""

import functools
import importlib
import inspect
import re
from collections.abc import Callable
from types import ModuleType

from integrators.errors import InputError
from sweep.rows import Rows

# What turns rows into tables, for each function that gives rows.
TABLES = {
    "arithmetic_table": "arithmetic_as_tables",
    "chaos_table": "chaos_as_table",
    "drift_table": "drifts_as_tables",
    "growth_table": "growth_as_tables",
    "order_table": "orders_as_table",
    "structure_table": "structure_as_table",
    "tolerance_table": "tolerances_as_table",
    "work_table": "work_as_tables",
}
OF_ONE_EXPERIMENT = ("grid", "query", "results", "units")
SOURCE = """{name} : str, Path, Store, xarray.DataTree or xarray.Dataset
    A store, the tree of `sweep.open_study`, one experiment of it, or a selection of its runs.
"""
EACH = """experiment : str, optional
    Of a store or tree, only this one; each that has what is asked for unless given.
"""
ONE = """experiment : str, optional
    Of a store or tree, which one; may be left out where there is only one.
"""


def __getattr__(name: str) -> Callable:
    """One of the functions, which are made when they are first used."""
    if name in TABLES:
        made = _answering(getattr(_analysis(), name))
    elif name in OF_ONE_EXPERIMENT:
        made = _of_one_experiment(getattr(_analysis(), name))
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = made
    return made


def _analysis() -> ModuleType:
    return importlib.import_module("sweep.analysis")


def _answering(analyse: Callable) -> Callable:
    """An analysis that answers for all experiments of a store, as rows that are tables."""
    tables_of = functools.partial(_tables, TABLES[analyse.__name__])

    def answer(dataset, *arguments, experiment=None, **options):
        from sweep.store.open import open_experiments

        found, refused = {}, []
        for name, runs in open_experiments(dataset, experiment).items():
            try:
                found[name] = analyse(runs, *arguments, **options)
            except InputError as reason:
                refused.append((name, reason))
        if refused and not any(found.values()):
            if len(refused) == 1:
                raise refused[0][1]
            raise InputError("\n".join(_analysis().query_refusals_in_words(refused)))
        rows = [row for own in found.values() for row in own]
        names = [name for name, own in found.items() for _ in own if name]
        return Rows(rows, tables_of, names, [f"{name}: {reason}" for name, reason in refused])

    return _documented(answer, analyse, EACH)


def _of_one_experiment(function: Callable) -> Callable:
    """A function of one experiment that also takes the path of a store, or its tree."""

    def call(dataset, *arguments, experiment=None, **options):
        from sweep.store.open import open_experiment, open_tree

        whole = function.__name__ == "query" and experiment is None
        opened = open_tree(dataset) if whole else open_experiment(dataset, experiment)
        return function(opened, *arguments, **options)

    return _documented(call, function, ONE)


def _documented(made: Callable, function: Callable, experiment: str) -> Callable:
    """`made` with the name, signature and documentation of the function that it calls."""
    made = functools.wraps(function)(made)
    del made.__wrapped__
    made.__module__, made.__doc__ = __name__, _document(function, experiment)
    signature = inspect.signature(function)
    last = inspect.Parameter("experiment", inspect.Parameter.KEYWORD_ONLY, default=None)
    made.__signature__ = signature.replace(parameters=[*signature.parameters.values(), last])
    return made


def _document(function: Callable, experiment: str) -> str:
    """Documentation of a function that takes more than the one that it is made from."""
    first = next(iter(inspect.signature(function).parameters))
    text = inspect.getdoc(function) or ""
    text = re.sub(rf"{first} : .*\n(    .*\n)+", SOURCE.format(name=first), text, count=1)
    text = text.replace("\nReturns\n", f"{experiment}\nReturns\n", 1)
    text = text.replace(f"\n\n{experiment}", f"\n{experiment}")
    return re.sub(r"\nlist of (\w+)", r"\nRows of \1", text)


def _tables(name: str, rows: list) -> list:
    made = getattr(importlib.import_module("sweep.tables"), name)(rows)
    return made if isinstance(made, list) else [made]
