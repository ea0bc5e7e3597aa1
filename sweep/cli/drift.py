"""`sweep drift`: errors of invariants and constraints, and their drift."""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

import sweep
from integrators.errors import InputError
from sweep.cli.common import (
    echo_csv,
    echo_json_answers,
    echo_tables,
    experiment_option,
    format_option,
    open_experiments_for_command,
    store_argument,
    where_option,
)

if TYPE_CHECKING:
    import xarray as xr

    from sweep.analysis.structure import StructureEstimate
    from sweep.tables import Table


@click.command("drift")
@store_argument
@experiment_option
@where_option
@click.option(
    "--quantity", "-q", multiple=True, metavar="NAME", help="Only this: energy, …; repeatable."
)
@click.option("--all-steps", is_flag=True, help="Every step size, not only the smallest.")
@click.option("--growth", is_flag=True, help="How errors grow over the starts: like √t or t.")
@click.option(
    "--arithmetic",
    is_flag=True,
    help="Which part of a drift is the method's and which is rounding; uses runs in double-double.",
)
@click.option(
    "--structure",
    is_flag=True,
    help="Symplectic defects and reversal errors of runs that recorded them.",
)
@format_option
def command(
    store: str,
    experiment: tuple[str, ...],
    where: str | None,
    quantity: tuple[str, ...],
    all_steps: bool,
    growth: bool,
    arithmetic: bool,
    structure: bool,
    form: str,
) -> None:
    """Print mean, maximum and drift of the errors of the invariants in STORE.

    The drift is the slope of the signed error over time; with 95 % confidence its size is below
    "|drift| ≤". The verdict says how the error develops over the run:

    \b
      no drift seen      nothing grows above the oscillation; |drift| ≤ says how much could hide
      √t                 a random walk, independent in each start; it takes 32 starts to tell
      linear             like t, within the interval of the exponent
      worse than linear  like a power of t above 1, or faster
      grows              with confidence, but none of these laws could be established
      wanders            varies as slowly as the run is long: neither bounded nor a growth law
      at round-off       the error is a few roundings, and no drift of more than one is seen
      undecided          why, and how much would decide it, stands below the table

    Beside it "≥ 92× less than rk4" compares the drift, with confidence for 95 % of such pairs,
    with that of the integrator that drifts least among those that certainly drift more, at equal
    step size, and in no more CPU time where that was measured. Where most runs fail, they are
    judged until the first one does.

    Tests are at 99.7 % or stricter. An oscillation of less than one cycle in the run, or with a
    memory of more than a fifth of it, cannot be told from drift. With --growth the exponent of the
    growth over the last decade of time stands beside the same verdict, and the drift in ε per
    step: growth like √t is unbiased round-off.

    With --arithmetic each run is compared with its twin, which differs from it only in arithmetic =
    "double-double": the twin's drift is the method's, what the run drifts beyond it is rounding,
    and each has an interval and a verdict of its own. Twins are taken from the same experiment,
    else from another one in STORE that may be shorter, and are compared for as long as both last.
    Where trajectories are chaotic, run and twin separate, and from then on rounding is not
    resolved below the oscillation of the error. The source is the part that is seen to grow:

    \b
      method      the twin drifts, and rounding adds less than a tenth, or nothing that is seen
      rounding    the difference drifts, and the twin less than a tenth as much, or not visibly;
                  or the whole runs do, ten times more than their shorter twins leave open
      both        each does, by sizes within a factor of ten
      neither     no drift is seen in either; |drift| ≤ says how much could hide
      undecided   what hides in one part could be more than is seen of the other

    With --structure what is measured stands beside what is declared: which invariants and
    constraints are kept to round-off, and with record = ["symplectic_defect", "reversal_error"]
    whether a step is symplectic, and how near to its start a run returns when reversed.

    \b
    Example:
      sweep drift quickstart.zarr -q energy
      sweep drift round-off.zarr -q energy --growth
      sweep drift round-off.zarr -q energy --arithmetic
      sweep drift mclachlan-symmetries.zarr --structure
    """
    if growth + arithmetic + structure > 1:
        raise InputError(
            "--growth, --arithmetic and --structure are tables of their own: give one of them"
        )
    if structure and quantity:
        raise InputError("--structure is of the map and of no quantity: leave --quantity out")
    experiments = open_experiments_for_command(store, experiment, where)
    tables, analysis = sweep.tables, sweep.analysis
    analyse: Callable[..., list[Any]] = sweep.drift_table
    as_tables: Callable[[list[Any]], list[Table]] = tables.drifts_as_tables
    summarize: Callable[[list[Any]], list[str]] = analysis.summarize_drifts
    if growth:
        analyse, as_tables = sweep.growth_table, tables.growth_as_tables
        summarize = analysis.summarize_growth
    if arithmetic:
        others = list(open_experiments_for_command(store).values())
        analyse = functools.partial(sweep.arithmetic_table, others=others)
        as_tables, summarize = tables.arithmetic_as_tables, analysis.summarize_sources
    if structure:
        analyse, as_tables = _structure_of_map, tables.structure_as_tables
        summarize = analysis.summarize_structure
    estimates: dict[str, list[Any]] = {}
    refused: list[tuple[str, InputError]] = []
    for name, dataset in experiments.items():
        try:
            rows = analyse(dataset, quantity or None, "all" if all_steps else "smallest")
            estimates |= {name: rows} if rows else {}
        except InputError as reason:
            refused.append((name, reason))
    if not estimates:
        raise InputError(
            "\n".join(sweep.analysis.query_refusals_in_words(refused))
            or f"{store} has no runs{' in double precision' if arithmetic and experiments else ''}"
        )
    for name, refusal in refused:
        click.echo(f"{name}: {refusal}", err=True)
    if form == "json":
        echo_json_answers({name: (summarize(rows), rows) for name, rows in estimates.items()})
    elif form == "csv":
        echo_csv(estimates)
    else:
        by_experiment = {name: as_tables(rows) for name, rows in estimates.items()}
        echo_tables(form, by_experiment, {name: name for name in estimates}, "drift")


def _structure_of_map(
    dataset: "xr.Dataset", _: Sequence[str] | None, step_sizes: str
) -> "list[StructureEstimate]":
    estimates: list[StructureEstimate] = sweep.analysis.structure_table(dataset, step_sizes)
    return estimates
