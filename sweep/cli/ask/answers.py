"""`sweep order`, `drift`, `work` and `chaos`: an answer of the registry to each experiment."""

import csv
import functools
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import click

import sweep
from integrators.errors import InputError
from sweep.cli.options import command
from sweep.cli.output import echo_document, echo_json
from sweep.cli.selection import open_experiments
from sweep.tables.answers import ANSWERS, Answer
from sweep.text import escape_controls_in_lines

if TYPE_CHECKING:
    import xarray as xr

    from sweep.analysis import OrderEstimate, ToleranceEstimate

Datasets = Mapping[str, "xr.Dataset"]  # run tables by experiment


@command
def order(datasets: Datasets, form: str, at: str, error: str | None, across: str | None) -> None:
    """Print the measured order of each integrator in STORE beside the declared one.

    Slope of log error over log step size, with a 95 % interval from all step sizes that are
    neither too coarse nor at the floor of round-off. Confirmed: the interval is within 1/2 of the
    declared order; refuted: none of it is; undecided: with the reason, and what to add.
    Adaptive integrators have errors by tolerance, in a table of their own.

    \b
    Example:
      sweep order quickstart.zarr --experiment pendulum
      sweep order quickstart.zarr --error energy_error --at sup
      sweep order quickstart.zarr --across experiment
      sweep order quickstart.zarr --format latex > orders.tex

    Options:
      --error NAME  A variable over (run, time); or self, for differences of stored states between
          step sizes.  [default: global_error; self without a reference]
      --across NAME  One table that compares orders across NAME: experiment, system, a parameter
          such as count, or an option of integrators such as formulation.
    """
    if across is None:
        print_answer(ANSWERS["order"], datasets, form, error, at, heading=_title_of_orders)
        return
    rows = sweep.analysis.orders_across(datasets, across, error, at)
    estimates = [row.estimate for row in rows]
    if form == "json":
        echo_json(_for_json(sweep.analysis.summarize_orders(estimates), rows=rows))
    elif form == "csv":
        _echo_csv({across: rows})
    else:
        table = sweep.tables.orders_across_as_table(rows)
        _echo_tables(
            form, across, "order", _title_of_orders(f"across {across}", estimates), [table]
        )


def _title_of_orders(name: str, rows: "Sequence[OrderEstimate | ToleranceEstimate]") -> str:
    """A name, the errors that orders are measured of, and their time."""
    names = {sweep.analysis.SELF: "differences between step sizes"}
    errors = dict.fromkeys(names.get(row.error, row.error) for row in rows)
    return f"{name}: order of {' or '.join(errors)}{sweep.tables.error_times_for_title(rows)}"


@command
def drift(
    datasets: Datasets,
    form: str,
    quantity: tuple[str, ...],
    all_steps: bool,
    arithmetic: bool,
    structure: bool,
) -> None:
    """Print mean, maximum and drift of the errors of the invariants in STORE.

    The drift is the slope of the error over time, mean over the starts, with its 95 % interval,
    whose end farther from 0 is the bound. The verdict is one of

    \b
      linear                      the rate surely differs from 0, and is the same in both halves
      unsteady                    it surely differs from 0, but not alike in both halves
      random walk                 no rate; the spread over the starts grows like √t
      linear, each start its own  no common rate at 99.7 %; the spread grows like t
      at round-off                no error above 16 roundings of the quantity
      no drift seen               no rate at 99.7 %; the bound says what could hide

    and empty with fewer than 8 samples. `sweep guide drift` defines them. With 8 starts or more
    "spread ~ t^p" is how their spread grows: ½ is a random walk, as unbiased rounding makes it
    (Brouwer's law), 1 a drift of each start, 0 bounded. Errors of vectors are norms, and of
    constraints sizes, which have no sign and grow like √t where they walk: they drift where they
    surely grow faster, by "rms ~ t^p" of their root mean square.

    Beside it "≥ 92× less than rk4" says that rk4 drifts at least 92 times as fast, which holds for
    95 % of such pairs, and is the slowest of those that certainly drift faster: at equal step size,
    and in no more CPU time where that was measured. Where most runs fail, they are judged until the
    first one does.

    With --arithmetic each run is compared with its twin, which differs from it only in arithmetic =
    "double-double": the twin's drift is the method's, what the run drifts beyond it is rounding.
    The source is the one that drifts or walks, and whose drift is surely the larger, by the 95 %
    intervals. Twins are taken from the same experiment, else from another one in STORE that may be
    shorter, and are compared for as long as both last.

    With --structure what is measured stands beside what is declared: which invariants and
    constraints are kept to round-off, and with record = ["symplectic_defect", "reversal_error"]
    whether a step is symplectic, and how near to its start a run returns when reversed.

    \b
    Example:
      sweep drift quickstart.zarr -q energy
      sweep drift round-off.zarr -q energy
      sweep drift round-off.zarr -q energy --arithmetic
      sweep drift mclachlan-symmetries.zarr --structure

    Options:
      -q, --quantity NAME  Only this: energy, …; repeatable.
      --all-steps  Every step size, not only the smallest.
      --arithmetic  Which part of a drift is the method's and which is rounding; uses runs in
          double-double.
      --structure  Symplectic defects and reversal errors of runs that recorded them.
    """
    if arithmetic and structure:
        raise InputError("--arithmetic and --structure are tables of their own: give one of them")
    if structure and quantity:
        raise InputError("--structure is of the map and of no quantity: leave --quantity out")
    step_sizes = "all" if all_steps else "smallest"
    if structure:
        print_answer(ANSWERS["structure"], datasets, form, step_sizes)
        return
    answer = ANSWERS["arithmetic" if arithmetic else "drift"]
    if arithmetic:  # twins may be in experiments that are not asked for
        store = click.get_current_context().params["store"]
        others = list(open_experiments(store).values())
        with_twins = functools.partial(sweep.analysis.arithmetic_table, others=others)
        answer = replace(answer, analyse=with_twins)
    print_answer(answer, datasets, form, quantity or None, step_sizes)


@command
def chaos(datasets: Datasets, form: str) -> None:
    """Print Lyapunov exponents and MEGNO of the runs in STORE.

    They are those of the numerical trajectory, for experiments with record = ["lyapunov",
    "megno"]. MEGNO, the mean exponential growth of nearby orbits, tells order from chaos:

    \b
      chaotic        it ends above 5, and still grows like t
      no chaos seen  it ends near 2 or below; exponents below those of the table could hide
      undecided      the duration that would decide stands below the table

    \b
    Example:
      sweep chaos pendulum.zarr
    """
    print_answer(ANSWERS["chaos"], datasets, form)


@command
def work(
    datasets: Datasets,
    form: str,
    error: str | None,
    at: str,
    against: Literal["steps", "evaluations", "cpu-time"] = "evaluations",
) -> None:
    """Print the errors in STORE beside steps, evaluations and CPU time, the best marked.

    Errors of invariants and constraints are the largest of a run. Best are those on the Pareto
    front of their family of integrators: no other member reaches as small an error for as little
    work. A second table has the work that each family needs for errors of 0.1, 0.01 and so on.

    \b
    Example:
      sweep work quickstart.zarr -e pendulum
      sweep work quickstart.zarr --error energy_error --against cpu-time

    Options:
      --error NAME  Only this error: global_error, energy_error, …
      --against [steps|evaluations|cpu-time]  Measure of work by which the best are marked.
          [default: evaluations]
    """
    measure = against.replace("-", "_")
    answer = replace(
        ANSWERS["work"],
        analyse=sweep.analysis.work_table,
        tabulate=lambda rows: sweep.tables.work_as_tables(rows, measure),
        more=lambda rows: {"least": sweep.least_work(rows, measure)},
        summarize=lambda rows: sweep.analysis.summarize_work(rows, measure),
    )
    print_answer(answer, datasets, form, error, at)


# --- printing --------------------------------------------------------------------------------


def print_answer(
    answer: Answer,
    datasets: Datasets,
    form: str,
    *arguments: Any,
    heading: Callable[[str, list[Any]], str] = lambda name, rows: name,
) -> None:
    """Print an answer to each experiment; on standard error why others have none.

    Parameters
    ----------
    answer : Answer
    datasets : dict of str to xarray.Dataset
        Run tables by experiment.
    form : {"text", "json", "csv", "latex"}
    *arguments
        As its `analyse` takes them behind the run table.
    heading : callable, optional
        The line above the tables of an experiment, from its name and rows.

    Raises
    ------
    InputError
        Where no experiment has any.
    """
    analyse = answer.analyse
    assert analyse is not None
    found, refused = sweep.analysis.ask_each_experiment(
        lambda dataset: analyse(dataset, *arguments), datasets
    )
    for name, refusal in refused:
        click.echo(f"{name}: {refusal}", err=True)
    found = {name: rows for name, rows in found.items() if rows}
    if not found:
        raise InputError("the store has no runs that could answer")
    if form == "json":
        echo_json(
            {
                name: _for_json(answer.summarize(rows), rows=rows, **answer.more(rows))
                for name, rows in found.items()
            }
        )
    elif form == "csv":
        _echo_csv(found)
    else:
        for name, rows in found.items():
            tables = answer.tables(datasets[name], rows)
            _echo_tables(form, name, answer.name, heading(name, rows), tables)


def _for_json(summary: Sequence[str], **rows: Sequence[Any]) -> dict[str, Any]:
    """Rows of an analysis, by what they are, with the sentences that summarize them."""
    return {"summary": summary} | {
        name: sweep.tables.table_rows_for_json(own) for name, own in rows.items()
    }


def _echo_csv(answers: Mapping[str, Sequence[Any]]) -> None:
    """Print rows of an analysis as one CSV table, whose first column is the experiment.

    A field that is a dict has a column for each key; lists, such as the points of a curve, are left
    out, and only in the JSON output.
    """
    flat: list[dict[str, object]] = []
    for experiment, rows in answers.items():
        for row in sweep.tables.table_rows_for_json(rows):
            cells: dict[str, object] = {"experiment": experiment}
            for key, value in row.items():
                inner = value.items() if isinstance(value, dict) else ()
                cells |= {f"{key}.{name}": item for name, item in inner} or {key: value}
            flat.append({k: v for k, v in cells.items() if not isinstance(v, list | dict)})
    columns = list(dict.fromkeys(key for row in flat for key in row))
    writer = csv.DictWriter(text := io.StringIO(), columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    echo_document(escape_controls_in_lines(text.getvalue().rstrip("\n")))


def _echo_tables(form: str, name: str, label: str, title: str, tables: Sequence[Any]) -> None:
    """Print tables of an experiment as text or LaTeX, which has a label."""
    if form == "latex":
        echo_document(sweep.tables.tables_as_latex(tables, title, f"{name}-{label}") + "\n")
    else:
        click.echo(f"{title}\n{sweep.tables.tables_as_text(tables)}\n")
