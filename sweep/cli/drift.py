"""`sweep drift`: errors of invariants and constraints, and their drift."""

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import click

import sweep
from integrators.errors import InputError
from sweep.cli.common import answer_options, open_experiments_for_command, print_answer
from sweep.tables.answers import ANSWERS

if TYPE_CHECKING:
    import xarray as xr


@click.command("drift")
@answer_options
@click.option(
    "--quantity", "-q", multiple=True, metavar="NAME", help="Only this: energy, …; repeatable."
)
@click.option("--all-steps", is_flag=True, help="Every step size, not only the smallest.")
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
def command(
    datasets: "Mapping[str, xr.Dataset]",
    quantity: tuple[str, ...],
    all_steps: bool,
    arithmetic: bool,
    structure: bool,
    form: str,
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

    and empty with fewer than 8 samples. `sweep guide drifts` defines them. With 8 starts or more
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
        others = list(open_experiments_for_command(store).values())
        with_twins = functools.partial(sweep.analysis.arithmetic_table, others=others)
        answer = replace(answer, analyse=with_twins)
    print_answer(answer, datasets, form, quantity or None, step_sizes)
