"""`sweep order`, `drift`, `work` and `chaos`: print an analysis of each experiment."""

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
from sweep.cli.selected_runs import open_experiments
from sweep.tables.answers import ANSWERS, Answer
from sweep.text import escape_controls_in_lines

if TYPE_CHECKING:
    import xarray as xr

    from sweep.analysis import OrderEstimate, ToleranceEstimate

Datasets = Mapping[str, "xr.Dataset"]  # run tables by experiment


@command
def order(
    datasets: Datasets, output_format: str, at: str, error: str | None, across: str | None
) -> None:
    """Print measured and declared order of convergence of each integrator in STORE.

    The measured order is the slope of log error over log step size, with a 95 % confidence
    interval, from all step sizes that are neither too coarse nor limited by round-off. An order is
    confirmed if the whole interval is within 1/2 of the declared order, refuted if no part of it
    is, and otherwise undecided; then the reason is printed, and what to add to the study. For
    adaptive integrators a second table has errors by tolerance.

    \b
    Example:
      sweep order quickstart.zarr --experiment pendulum
      sweep order quickstart.zarr --error energy_error --at sup
      sweep order quickstart.zarr --across experiment
      sweep order quickstart.zarr --format latex > orders.tex

    Options:
      --error NAME  Error to use: a variable over (run, time), or self for the differences between
          the states stored at successive step sizes.  [default: global_error; self without a
          reference]
      --across NAME  Compare orders across the values of NAME in one table: experiment, system, a
          parameter such as count, or an integrator's option such as formulation.
    """
    if across is None:
        print_answer(ANSWERS["order"], datasets, output_format, error, at, heading=_title_of_orders)
        return
    rows = sweep.analysis.orders_across(datasets, across, error, at)
    estimates = [row.estimate for row in rows]
    if output_format == "json":
        echo_json(_for_json(sweep.analysis.summarize_orders(estimates), rows=rows))
    elif output_format == "csv":
        _echo_csv({across: rows})
    else:
        table = sweep.tables.orders_across_as_table(rows)
        _echo_tables(
            output_format, across, "order", _title_of_orders(f"across {across}", estimates), [table]
        )


def _title_of_orders(name: str, rows: "Sequence[OrderEstimate | ToleranceEstimate]") -> str:
    """Heading of order tables: a name, the errors that are used, and the times of these."""
    names = {sweep.analysis.SELF: "differences between step sizes"}
    errors = dict.fromkeys(names.get(row.error, row.error) for row in rows)
    return f"{name}: order of {' or '.join(errors)}{sweep.tables.error_times_for_title(rows)}"


@command
def drift(
    datasets: Datasets,
    output_format: str,
    quantity: tuple[str, ...],
    all_steps: bool,
    arithmetic: bool,
    structure: bool,
) -> None:
    """Print mean, maximum and drift of the errors of the invariants in STORE.

    The drift is the slope of the error over time, averaged over the initial conditions. It has a
    95 % confidence interval, and a bound, which is the end of the interval farther from 0.
    `sweep guide drift` defines the verdicts:

    \b
      linear          a rate that differs from 0 and agrees in both halves
      unsteady        a rate that differs from 0 but not alike in both halves
      random walk     no rate; the spread over the starts grows like √t
      linear, each    no common rate at 99.7 %; the spread over the starts
      start its own   grows like t
      at round-off    no error above 16 roundings of the quantity
      no drift seen   no rate at 99.7 %; it may be as large as the bound
      runs fail       most runs fail; no drift until then

    With fewer than 8 samples there is no verdict. With 8 starts or more, "spread ~ t^p" gives the
    growth of the spread over the starts: p is ½ for a random walk, as unbiased rounding causes it
    (Brouwer's law), 1 if each start drifts, and 0 if errors are bounded. Errors of vectors and of
    constraints are norms: they have no sign, and grow like √t in a random walk. They drift if their
    root mean square certainly grows faster, as "rms ~ t^p" shows.

    "≥ 92× less than rk4" means that rk4 drifts at least 92 times as fast, with 95 % confidence, at
    the same step size and in no more CPU time, if that was measured. Of all integrators that
    certainly drift faster, the slowest is named. Where most runs fail, only the time until the
    first failure is used.

    With --arithmetic each run is compared with its twin, a run that differs only in arithmetic =
    "double-double". The drift of the twin is that of the method; the difference between the two is
    caused by rounding. The source printed is the one that drifts or walks, and whose drift is the
    larger by the 95 % intervals. If the experiment has no twin, one from another experiment in
    STORE is used; the two are compared for as long as both last.

    With --structure the table has what was measured beside what is declared: which invariants and
    constraints are preserved to round-off, and with record = ["symplectic_defect",
    "reversal_error"] whether steps are symplectic, and how close to its start a run returns when
    it is reversed.

    \b
    Example:
      sweep drift quickstart.zarr -q energy
      sweep drift round-off.zarr -q energy
      sweep drift round-off.zarr -q energy --arithmetic
      sweep drift mclachlan-symmetries.zarr --structure

    Options:
      -q, --quantity NAME  Print only this quantity, such as energy; repeatable.
      --all-steps  Print every step size, not only the smallest.
      --arithmetic  Separate the drift of the method from that of rounding, by runs in
          double-double arithmetic.
      --structure  Print symplectic defects and reversal errors of runs that recorded them.
    """
    if arithmetic and structure:
        raise InputError("--arithmetic and --structure print different tables: give one of them")
    if structure and quantity:
        raise InputError("--structure cannot be combined with --quantity: leave one of them out")
    step_sizes = "all" if all_steps else "smallest"
    if structure:
        print_answer(ANSWERS["structure"], datasets, output_format, step_sizes)
        return
    answer = ANSWERS["arithmetic" if arithmetic else "drift"]
    if arithmetic:  # twins may be in experiments that were not selected
        store = click.get_current_context().params["store"]
        others = list(open_experiments(store).values())
        with_twins = functools.partial(sweep.analysis.arithmetic_table, others=others)
        answer = replace(answer, analyse=with_twins)
    print_answer(answer, datasets, output_format, quantity or None, step_sizes)


@command
def chaos(datasets: Datasets, output_format: str) -> None:
    """Print Lyapunov exponents and MEGNO of the runs in STORE.

    They are computed along the numerical trajectory, for experiments with record = ["lyapunov",
    "megno"]. MEGNO, the mean exponential growth of nearby orbits, tells regular motion from chaos:

    \b
      chaotic        MEGNO ends above 5, and still grows like t
      no chaos seen  MEGNO ends near 2 or below; exponents smaller than those
                     in the table could not be seen
      undecided      a line below the table gives the duration that would decide

    \b
    Example:
      sweep chaos pendulum.zarr
    """
    print_answer(ANSWERS["chaos"], datasets, output_format)


@command
def work(
    datasets: Datasets,
    output_format: str,
    error: str | None,
    at: str,
    against: Literal["steps", "evaluations", "cpu-time"] = "evaluations",
) -> None:
    """Print the errors in STORE with steps, evaluations and CPU time, and mark the best.

    Errors of invariants and constraints are the maximum over each run. The best are those on the
    Pareto front of their family of integrators: no other member reaches as small an error with as
    little work. A second table has the work that each family needs for errors of 0.1, 0.01, etc.

    \b
    Example:
      sweep work quickstart.zarr -e pendulum
      sweep work quickstart.zarr --error energy_error --against cpu-time

    Options:
      --error NAME  Print only this error, such as global_error or energy_error.
      --against [steps|evaluations|cpu-time]  Measure of work for marking the best.  [default:
          evaluations]
    """
    measure = against.replace("-", "_")
    answer = replace(
        ANSWERS["work"],
        analyse=sweep.analysis.work_table,
        tabulate=lambda rows: sweep.tables.work_as_tables(rows, measure),
        more=lambda rows: {"least": sweep.least_work(rows, measure)},
        summarize=lambda rows: sweep.analysis.summarize_work(rows, measure),
    )
    print_answer(answer, datasets, output_format, error, at)


# --- printing --------------------------------------------------------------------------------


def print_answer(
    answer: Answer,
    datasets: Datasets,
    output_format: str,
    *arguments: Any,
    heading: Callable[[str, list[Any]], str] = lambda name, rows: name,
) -> None:
    """Print an analysis of each experiment; print on standard error why others have none.

    Parameters
    ----------
    answer : Answer
        The analysis, and how its rows are printed.
    datasets : dict of str to xarray.Dataset
        Run tables by experiment.
    output_format : {"text", "json", "csv", "latex"}
    *arguments
        Arguments of `answer.analyse` after the run table.
    heading : callable, optional
        The line above the tables of an experiment, from its name and rows.

    Raises
    ------
    InputError
        If the analysis has no rows for any experiment.
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
        raise InputError("no run of the store has the results that this needs")
    if output_format == "json":
        echo_json(
            {
                name: _for_json(answer.summarize(rows), rows=rows, **answer.more(rows))
                for name, rows in found.items()
            }
        )
    elif output_format == "csv":
        _echo_csv(found)
    else:
        for name, rows in found.items():
            tables = answer.tables(datasets[name], rows)
            _echo_tables(output_format, name, answer.name, heading(name, rows), tables)


def _for_json(summary: Sequence[str], **rows: Sequence[Any]) -> dict[str, Any]:
    """Lists of rows by name, and the sentences that summarize them, as an object for JSON."""
    return {"summary": summary} | {
        name: sweep.tables.table_rows_for_json(own) for name, own in rows.items()
    }


def _echo_csv(answers: Mapping[str, Sequence[Any]]) -> None:
    """Print rows of an analysis as one CSV table, whose first column is the experiment.

    A field that is a dict gets a column for each key. Lists, such as the points of a curve, are
    left out; only the JSON output has them.
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


def _echo_tables(
    output_format: str, name: str, label: str, title: str, tables: Sequence[Any]
) -> None:
    """Print tables of an experiment as text, or as LaTeX with a label."""
    if output_format == "latex":
        echo_document(sweep.tables.tables_as_latex(tables, title, f"{name}-{label}") + "\n")
    else:
        click.echo(f"{title}\n{sweep.tables.tables_as_text(tables)}\n")
