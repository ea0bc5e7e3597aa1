"""The registry of answers: analyses of run tables, and how their rows are shown.

The command line, the report, the live page, ``ds.geosweep`` and Python all use it. The functions
named in `PYTHON` have the names and the documentation of those in `sweep.analysis`, but also accept
stores, and return `sweep.analysis.rows.Rows`, which are displayed as tables.
"""

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, overload

from integrators.errors import InputError
from sweep import analysis, store, tables
from sweep.analysis.rows import Rows

if TYPE_CHECKING:
    import xarray as xr

    from sweep.analysis.chaos import ChaosEstimate
    from sweep.analysis.convergence.orders import OrderEstimate, ToleranceEstimate
    from sweep.analysis.drift.drifts import DriftEstimate
    from sweep.analysis.drift.rounding_drift import ArithmeticEstimate
    from sweep.analysis.efficiency.pareto import WorkEstimate
    from sweep.analysis.structure import StructureEstimate
    from sweep.store.open import Source
    from sweep.tables.base import Table

# The colours of verdicts on pages; verdicts that are neither good nor bad have none.
LOOKS = {"confirmed": "good", "refuted": "bad", "undecided": "open", "no drift seen": "good"}
LOOKS |= {"at round-off": "good", "linear": "bad", "unsteady": "bad", "runs fail": "bad"}
LOOKS |= {"linear, each start its own": "bad"}


@dataclass(frozen=True)
class Answer:
    """An analysis of a run table, and how its rows are shown.

    Attributes
    ----------
    name, title, text : str
        Name of the answer, its heading, and how to read it.
    analyse : callable or None
        Takes a run table and options, and returns rows; raises `InputError` if something is
        missing. None for an answer that consists of pictures.
    tabulate, summarize : callable
        Make tables or sentences from rows, which may be those of several experiments.
    pictures : dict of str to str
        What each picture shows, by kind (see `sweep.plots.KINDS`).
    suits : callable
        Whether a run table is meant for this answer; otherwise a report does not mention it.
    unasked : callable
        Takes a run table. If it returns a line, reports show that line instead of tables, which
        are then made only on request.
    remarks : callable
        Takes a run table and its rows, and returns lines to show below their tables.
    more : callable
        Makes further rows from rows, which JSON output has under their own names.
    tabulate_one : callable or None
        Makes tables from the rows of a single integrator, if those of `tabulate` compare several.
        Such an answer is summarized neither in certificates nor over several experiments.
    """

    name: str
    title: str
    text: str = ""
    analyse: "Callable[..., list[Any]] | None" = None
    tabulate: "Callable[[list[Any]], list[Table]]" = lambda rows: []
    summarize: Callable[[list[Any]], list[str]] = lambda rows: []
    pictures: Mapping[str, str] = field(default_factory=dict)
    suits: "Callable[[xr.Dataset], bool]" = lambda dataset: True
    unasked: "Callable[[xr.Dataset], str]" = lambda dataset: ""
    remarks: "Callable[[xr.Dataset, list[Any]], list[str]]" = lambda dataset, rows: []
    more: Callable[[list[Any]], dict[str, list[Any]]] = lambda rows: {}
    tabulate_one: "Callable[[list[Any]], list[Table]] | None" = None

    def __reduce__(self) -> tuple[Any, ...]:  # for other processes, which have its functions too
        return _answer, (self.name,)

    def tables(self, dataset: "xr.Dataset", rows: list[Any]) -> "list[Table]":
        """Tabulate the rows of a run table, with its remarks below the first table.

        Parameters
        ----------
        dataset : xarray.Dataset
            The run table.
        rows : list
            Its rows, from `analyse`.

        Returns
        -------
        list of Table
        """
        first, *others = self.tabulate(rows)
        return [replace(first, notes=[*first.notes, *self.remarks(dataset, rows)]), *others]


# --- the registry ----------------------------------------------------------------------------


def orders_and_errors(
    dataset: "xr.Dataset", error: str | None = None, at: str = "end"
) -> list[Any]:
    """The orders of the fixed-step integrators, followed by the errors of the adaptive ones.

    Parameters
    ----------
    dataset : xarray.Dataset
    error, at : str, optional
        As in `sweep.order_table`.

    Returns
    -------
    list of OrderEstimate or ToleranceEstimate

    Raises
    ------
    InputError
        If no error is stored, and none can be computed from the stored states.
    """
    if error is None and not analysis.run_table_has_error(dataset):
        raise InputError(
            "no error against a reference is stored, nor states at four step sizes. Add to the "
            'experiment reference = { integrator = "dop853" }, or record = ["state"] and step '
            "sizes, and run it into a store of its own.",
            key="reference",
        )
    fixed, adaptive = analysis.orders_and_tolerances(dataset, error, at)
    return [*fixed, *adaptive]


ANSWERS = {
    answer.name: answer
    for answer in (
        Answer(
            "order",
            "Order of convergence",
            "An order is the slope of log error over log step size, with a 95 % interval. Step "
            "sizes that are too coarse, or whose errors are at round-off, do not count.",
            orders_and_errors,
            lambda rows: tables.errors_as_tables(rows),
            lambda rows: analysis.summarize_orders(*tables.fixed_and_adaptive(rows)),
            {
                "order": "Error against step size, with the measured orders. Filled marks count, "
                "open ones do not; grey lines have the slopes of the declared orders."
            },
        ),
        Answer(
            "drift",
            "Drift of invariants and constraints",
            "At the smallest step size of each integrator. The drift is below the bound with 95 % "
            "confidence: the bound says how much drift could be hidden, not that there is none.",
            lambda dataset, quantities=None, step_sizes="smallest": analysis.drift_table(
                dataset, quantities, step_sizes
            ),
            lambda rows: tables.drifts_as_tables(rows),
            lambda rows: analysis.summarize_drifts(rows),
            {
                "drift": "Drift of each invariant, with its interval.",
                "energy": "Size of the energy error over time.",
                "unit-length": "Departure from unit length over time.",
            },
            unasked=lambda dataset: (
                tables.NO_DRIFT_OF_ORDER_STUDY * analysis.is_order_study(dataset)
            ),
            remarks=lambda dataset, rows: tables.coarser_steps_note(dataset, rows),
        ),
        Answer(
            "arithmetic",
            "Cause of drifts: the method, or rounding",
            analyse=lambda *given, **options: analysis.arithmetic_table(*given, **options),
            tabulate=lambda rows: tables.arithmetic_as_tables(rows),
            summarize=lambda rows: analysis.summarize_sources(rows),
            suits=lambda dataset: False,
        ),
        Answer(
            "chaos",
            "Order and chaos",
            "Lyapunov exponents and the mean exponential growth of nearby orbits, from the tangent "
            "map of the steps that were taken. Where no chaos is seen, there may still be smaller "
            "exponents.",
            lambda dataset: analysis.chaos_table(dataset),
            lambda rows: [tables.chaos_as_table(rows)],
            lambda rows: analysis.summarize_chaos(rows),
            {
                "megno": "Mean exponential growth of nearby orbits: near 2 where the motion is "
                "regular, like t where it is chaotic.",
                "lyapunov": "The largest Lyapunov exponent until each time.",
            },
            suits=lambda dataset: bool(analysis.variables_of_chaos(dataset)),
            remarks=lambda dataset, rows: [
                f"{label}: {why}"
                for label, why in analysis.integrators_without_exponents(dataset).items()
            ],
        ),
        Answer(
            "structure",
            "What is preserved",
            "Which invariants and constraints are kept to round-off, compared with what the "
            "integrator is declared to do. If it was recorded, also whether a step preserves the "
            "symplectic form, as far as rounding allows to tell, and how near to its start a run "
            "returns in as many steps back.",
            lambda dataset, step_sizes="smallest": analysis.structure_table(dataset, step_sizes),
            lambda rows: tables.structure_as_tables(rows),
            lambda rows: analysis.summarize_structure(rows),
            suits=lambda dataset: bool(
                analysis.has_structure(dataset) or analysis.quantities_with_recorded_error(dataset)
            ),
        ),
        Answer(
            "work",
            "Work and precision",
            "What errors cost. An integrator is best of its family if no other member beats it in "
            "both error and work.",
            lambda dataset: analysis.work_table(dataset),
            lambda rows: tables.work_as_tables(rows),
            lambda rows: analysis.summarize_work(rows),
            {
                "work": "Errors against evaluations, and CPU time where it can be compared. Filled "
                "marks are the best of their family, open ones are not."
            },
            tabulate_one=lambda rows: [tables.work_of_one_as_table(rows)],
        ),
        Answer(
            "scan",
            "Against the scanned parameter",
            pictures={
                "scan": "The main error of the runs against the scanned parameter with most values."
            },
            suits=lambda dataset: bool(analysis.scanned_axes(dataset)),
        ),
        Answer(
            "sphere",
            "States on the sphere",
            pictures={
                "sphere": "Stored states as directions on the unit sphere, seen from both sides."
            },
        ),
    )
}


def _answer(name: str) -> Answer:
    return ANSWERS[name]


# --- in Python -------------------------------------------------------------------------------

# Functions that return rows. Those without an answer of their name are shown as orders are.
PYTHON = (
    "arithmetic_table", "chaos_table", "drift_table", "order_table", "structure_table",
    "tolerance_table", "work_table",
)  # fmt: skip
FOR_ONE_EXPERIMENT = ("grid", "query", "results", "units")
SOURCE = """{name} : str, Path, Store, xarray.DataTree or xarray.Dataset
    A store, the tree of `sweep.open_study`, one experiment of it, or a selection of its runs.
"""
EACH = """experiment : str, optional
    Name of one experiment of a store or tree; by default all that have the data.
"""
ONE = """experiment : str, optional
    Name of the experiment of a store or tree; required if there are several.
"""


def _made(name: str) -> Callable[..., Any]:
    if name in PYTHON:
        made = _answer_by_experiment(getattr(analysis, name))
    elif name in FOR_ONE_EXPERIMENT:
        made = _answer_for_one_experiment(getattr(analysis, name))
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = made
    return made


# ruff: noqa: D103
if TYPE_CHECKING:  # the functions as `_made` makes them
    Names = Sequence[str] | str | None
    One = str | None  # experiment

    def arithmetic_table(
        dataset: Source,
        quantities: Names = None,
        step_sizes: str = "all",
        others: Sequence[xr.Dataset | xr.DataTree] = (),
        *,
        experiment: One = None,
    ) -> Rows[ArithmeticEstimate]: ...
    def chaos_table(dataset: Source, *, experiment: One = None) -> Rows[ChaosEstimate]: ...
    def drift_table(
        dataset: Source,
        quantities: Names = None,
        step_sizes: str = "all",
        *,
        experiment: One = None,
    ) -> Rows[DriftEstimate]: ...
    def grid(dataset: Source, *, experiment: One = None) -> xr.Dataset: ...
    def order_table(
        dataset: Source, error: str | None = None, at: str = "end", *, experiment: One = None
    ) -> Rows[OrderEstimate]: ...
    @overload
    def query(data: xr.Dataset, expression: str) -> xr.Dataset: ...
    @overload
    def query(
        data: Source, expression: str, *, experiment: One = None
    ) -> xr.Dataset | xr.DataTree: ...
    def query(data: Any, expression: str, *, experiment: One = None) -> Any: ...
    def results(
        dataset: Source, columns: Sequence[str] | None = None, *, experiment: One = None
    ) -> xr.Dataset: ...
    def structure_table(
        dataset: Source, step_sizes: str = "all", *, experiment: One = None
    ) -> Rows[StructureEstimate]: ...
    def tolerance_table(
        dataset: Source, error: str = "global_error", at: str = "end", *, experiment: One = None
    ) -> Rows[ToleranceEstimate]: ...
    def units(dataset: Source, *, experiment: One = None) -> dict[str, str]: ...
    def work_table(
        dataset: Source, error: str | None = None, at: str = "end", *, experiment: One = None
    ) -> Rows[WorkEstimate]: ...

else:
    __getattr__ = _made


def _answer_by_experiment(analyse: Callable[..., list[Any]]) -> Callable[..., Rows]:
    """Extend an analysis to stores: it answers for each experiment, with rows shown as tables."""
    tables_of_rows = functools.partial(_tables_of_rows, analyse.__name__.removesuffix("_table"))

    def answer(
        dataset: Any, *arguments: Any, experiment: str | None = None, **options: Any
    ) -> Rows:
        opened = store.open_experiments(dataset, experiment)
        found, refused = analysis.ask_each_experiment(
            lambda dataset: analyse(dataset, *arguments, **options), opened
        )
        rows = [row for own in found.values() for row in own]
        names = [name for name, own in found.items() for _ in own if name]
        return Rows(rows, tables_of_rows, names, [f"{name}: {reason}" for name, reason in refused])

    return _with_documentation_of(analyse, answer, EACH)


def _answer_for_one_experiment(function: Callable[..., Any]) -> Callable[..., Any]:
    """Extend a function of one experiment to stores and trees."""

    def answer(dataset: Any, *arguments: Any, experiment: str | None = None, **options: Any) -> Any:
        whole = function.__name__ == "query" and experiment is None
        opened = store.open_tree(dataset) if whole else store.open_experiment(dataset, experiment)
        return function(opened, *arguments, **options)

    return _with_documentation_of(function, answer, ONE)


def _with_documentation_of(
    function: Callable[..., Any], answer: Callable[..., Any], experiment: str
) -> Callable[..., Any]:
    """Give `answer` the name, signature and documentation of `function`, which it calls.

    Parameters
    ----------
    function, answer : callable
    experiment : str
        Documentation of the additional parameter ``experiment``.
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
    """The docstring of `function`, changed for stores and the parameter ``experiment``."""
    first = next(iter(inspect.signature(function).parameters))
    text = inspect.getdoc(function) or ""
    text = re.sub(rf"{first} : .*\n(    .*\n)+", SOURCE.format(name=first), text, count=1)
    text = text.replace("\nReturns\n", f"{experiment}\nReturns\n", 1)
    text = text.replace(f"\n\n{experiment}", f"\n{experiment}")
    return re.sub(r"\nlist of (\w+)", r"\nRows of \1", text)


def _tables_of_rows(name: str, rows: list[Any]) -> "list[Table]":
    return ANSWERS.get(name, ANSWERS["order"]).tabulate(rows)
