"""`sweep drift`: errors of invariants and constraints, and their drift."""

import functools

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


@click.command("drift")
@store_argument
@experiment_option
@where_option
@click.option("--quantity", "-q", multiple=True, metavar="NAME", help="energy, …; repeatable.")
@click.option("--all-steps", is_flag=True, help="Every step size, not only the smallest.")
@click.option("--growth", is_flag=True, help="How errors grow over the starts: like √t or t.")
@click.option(
    "--arithmetic",
    is_flag=True,
    help="Which part of a drift is the method's, and which is rounding, by runs in double-double.",
)
@click.option(
    "--structure",
    is_flag=True,
    help="Symplectic defects and reversal errors, of runs that have recorded them.",
)
@format_option
def command(store, experiment, where, quantity, all_steps, growth, arithmetic, structure, form):
    """Print mean, maximum and drift of the errors of the invariants in STORE.

    The drift is the slope of the signed error over time; with 95 % confidence it stays below
    "|drift| ≤". The verdict says how the error moves over the run:

    
      no drift seen      nothing grows above the oscillation; |drift| ≤ says how much could hide
      √t                 a random walk of its own in each start; it takes 32 starts
      linear             like t, as far as the interval of the exponent tells
      worse than linear  like a power of t above 1, or faster
      grows              surely, but by none of these laws as far as it is told
      wanders            about as slowly as the run is long: not surely bounded, and by no law
      at round-off       the error is a few roundings, and no drift of more than one is seen
      undecided          below the table stands why, and how much would decide

    Beside it "≥ 92× less than rk4" compares it, surely for 95 % of such pairs, with the integrator
    that drifts least of those that surely drift more, at equal step size, and in no more CPU time
    where that was measured. Where most runs fail, they are judged until the first one does.

    Its tests are at 99.7 % or stricter. An oscillation of less than one cycle in the run, and a
    memory of more than a fifth of it, are drift as far as the run shows. With --growth the
    exponent of the growth over the last decade of time stands beside the same verdict, and the
    drift in ε a step: like √t is round-off that is not biased.

    With --arithmetic each run is compared with its twin, which differs from it in arithmetic =
    "double-double" alone: what the twin drifts is the method's, what the run drifts beyond it is
    rounding, and both have an interval and a verdict of their own. Twins are those of the same
    experiment, else of another one in STORE that may be shorter, and are compared for as long as
    both last. Where trajectories are chaotic run and twin part, and rounding is not resolved below
    the oscillation of the error from then on. The source is the part that is seen to grow:

    \b
      method      the twin drifts, and rounding adds less than a tenth, or nothing that is seen
      rounding    the difference drifts, and the twin less than a tenth as much, or not visibly;
                  or the whole runs do, ten times more than their shorter twins leave open
      both        each does, by sizes within a factor of ten
      neither     no drift is seen in either; |drift| ≤ says how much could hide
      undecided   what hides in one part could be more than is seen of the other

    With --structure it is the map that is measured, where record = ["symplectic_defect",
    "reversal_error"]: whether a step is symplectic, and how near to its start a run returns.

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
    analyse, tables_of, summarize = (
        (sweep.growth_table, tables.growth_as_tables, analysis.summarize_growth)
        if growth
        else (sweep.drift_table, tables.drifts_as_tables, analysis.summarize_drifts)
    )
    if arithmetic:
        everywhere = open_experiments_for_command(store).values()
        analyse = functools.partial(sweep.arithmetic_table, others=list(everywhere))
        tables_of, summarize = tables.arithmetic_as_tables, analysis.summarize_sources
    if structure:
        analyse, tables_of = _structure_of_map, _structure_as_tables
        summarize = analysis.summarize_structure
    found, refused = {}, []
    for name, dataset in experiments.items():
        try:
            rows = analyse(dataset, quantity or None, "all" if all_steps else "smallest")
            found |= {name: rows} if rows else {}
        except InputError as reason:
            refused.append((name, reason))
    if not found:
        raise InputError(
            "\n".join(sweep.analysis.query_refusals_in_words(refused))
            or f"{store} has no runs{' in double precision' if arithmetic and experiments else ''}"
        )
    for name, reason in refused:
        click.echo(f"{name}: {reason}", err=True)
    if form == "json":
        echo_json_answers({name: (summarize(rows), rows) for name, rows in found.items()})
    elif form == "csv":
        echo_csv(found)
    else:
        found = {name: tables_of(rows) for name, rows in found.items()}
        echo_tables(form, found, {name: name for name in found}, "drift")


def _structure_of_map(dataset, _, step_sizes):
    return sweep.analysis.structure_table(dataset, step_sizes)


def _structure_as_tables(rows):
    return [sweep.tables.structure_as_table(rows)]
