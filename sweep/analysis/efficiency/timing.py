"""CPU times of runs, and whether they are accurate enough to be compared.

The clock is read before and after a batch of up to eight runs that are computed together, and the
time is divided equally among them. Besides its steps, every batch costs a call of just under a
millisecond. Other activity of a machine makes times longer, never shorter. Therefore the shortest
of repeated measurements is used; it is reliable if it is much longer than a call, and if a second
measurement agrees with it. Times of different kinds of machines or versions are not compared: only
those of the kind that computed most runs are used.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from sweep.analysis.runs import selection
from sweep.analysis.runs.blocks import Booleans, Integers, median_or_nan

SHORTEST = 0.01  # seconds; in a batch of at least this time, a call takes at most a tenth
FEWEST = 3  # smallest number of repeats
APART = 0.1  # largest relative difference of the two shortest repeats
ALONE = 1.0  # seconds; a single measurement is enough if it is at least this long
OF_CELL = ("integrator", "step_size", "tolerance")
# Over the repeats of a run: the shortest and the longest time, the relative difference of the two
# shortest, and the time of the whole batch with the shortest; NaN if there is none.
TIMES = ("cpu_time", "cpu_time_largest", "cpu_time_apart", "cpu_time_batch")
# Also: how often a run was timed, and whether all of its times are from another kind of machine or
# version than those of most runs. If only some are, these are not counted.
TIMED = (*TIMES, "repeats", "cpu_time_elsewhere")
# Why a CPU time cannot be compared, and what the experiment needs.
ELSEWHERE = "taken by another machine or version than the others"
FEW = f"timed fewer than {FEWEST} times"
SHORT = f"in batches of less than {1e3 * SHORTEST:g} ms"
NOISY = f"with the two shortest more than {100 * APART:g} % apart"
NEEDS = {
    ELSEWHERE: "a store of one machine",
    FEW: "`repeat = 5`",
    SHORT: "a longer duration",
    NOISY: "more repeats on an idle machine",
}


def with_cpu_times_of_runs(full: xr.Dataset) -> xr.Dataset:
    """Add statistics of CPU times over repeats as the variables `TIMED`, and drop the repeats.

    Parameters
    ----------
    full : xarray.Dataset
        A run table with its repeats.

    Returns
    -------
    xarray.Dataset
        The run table with each run once.
    """
    cell = [*OF_CELL, *selection.scanned_axes(full)]
    frame = pd.DataFrame(
        {
            "run": selection.places_of_runs(full, [*cell, "initial_condition"])[1],
            "cell": selection.places_of_runs(full, cell)[1],
            "repeat": full["repeat"].values if "repeat" in full.coords else 0,
            "time": full["cpu_time"].values if "cpu_time" in full else np.nan,
        }
    )
    counts, away = selection.complete_runs(full), _computed_elsewhere(full)
    frame["here"] = pd.Series(counts & ~away).groupby(frame["run"]).transform("any")
    frame["time"] = frame["time"].where(counts & ~(away & frame["here"]))
    # The runs of a batch share its time equally, so that their times are the same number.
    together = frame.groupby(["cell", "repeat", "time"])["run"].transform("size")
    frame["batch"] = frame["time"] * together
    ranked = frame.sort_values("time", kind="stable")
    by_run = ranked.groupby("run")
    second = ranked[by_run.cumcount() == 1].set_index("run")["time"]
    repeats = by_run["time"].count()
    found = pd.DataFrame(
        {
            "cpu_time": by_run["time"].first(),
            "cpu_time_largest": by_run["time"].max(),
            "cpu_time_apart": second / by_run["time"].first() - 1.0,
            "cpu_time_batch": by_run["batch"].first(),
            "repeats": repeats,
            "cpu_time_elsewhere": ~by_run["here"].first() & (repeats > 0),
        }
    )
    once = found.loc[frame["run"][frame["repeat"] == frame["repeat"].min()]]
    return selection.run_table_without_repeats(full).assign(
        {name: ("run", once[name].to_numpy()) for name in TIMED}
    )


def _computed_elsewhere(full: xr.Dataset) -> Booleans:
    """Which complete runs were computed by another machine or version than most of them."""
    if "environment" not in full:
        return np.zeros(full.sizes["run"], dtype=bool)
    number, counts = full["environment"].values, selection.complete_runs(full)
    known, times = np.unique(number[counts], return_counts=True)
    return counts & (number != known[np.argmax(times)]) if len(known) else ~counts & False


def cpu_time_of_cell(timed: Mapping[str, Any], runs: Integers | Booleans) -> dict[str, Any]:
    """Statistics of the CPU times of one integrator at one step size: medians over its runs.

    Parameters
    ----------
    timed : dict of str to ndarray
        The variables `TIMED`, by run.
    runs : ndarray
        The runs that are used.

    Returns
    -------
    dict of str to float or bool
        The variables `TIMED`.
    """
    found: dict[str, Any] = {name: median_or_nan(timed[name][runs]) for name in TIMES}
    repeats, elsewhere = timed["repeats"][runs], timed["cpu_time_elsewhere"][runs]
    found["repeats"] = int(repeats.min()) if len(repeats) else 0
    return found | {"cpu_time_elsewhere": bool(elsewhere.any())}


def comparable_cpu_time_of_cell(cell: xr.Dataset) -> float:
    """Median CPU time of the complete runs; NaN if it cannot be compared with others.

    Parameters
    ----------
    cell : xarray.Dataset
        Runs of one integrator at one step size, from `with_cpu_times_of_runs`.

    Returns
    -------
    float
    """
    timed = {name: cell[name].values for name in TIMED}
    found = cpu_time_of_cell(timed, selection.complete_runs(cell))
    comparable = found["cpu_time"] > 0 and not what_cpu_time_lacks(found)
    return float(found["cpu_time"]) if comparable else np.nan


def what_cpu_time_lacks(timed: Mapping[str, Any]) -> list[str]:
    """Why a CPU time cannot be compared with others: a key of `NEEDS`, or empty if it can.

    Parameters
    ----------
    timed : dict of str to object
        Result of `cpu_time_of_cell`.

    Returns
    -------
    str
    """
    batch, repeats = timed["cpu_time_batch"], timed["repeats"]
    if timed["cpu_time_elsewhere"]:
        return [ELSEWHERE]
    if batch >= ALONE:
        return []
    lacks = {FEW: repeats < FEWEST, SHORT: not batch >= SHORTEST}
    lacks[NOISY] = not lacks[FEW] and not timed["cpu_time_apart"] <= APART
    return [why for why, lacking in lacks.items() if lacking]


def why_cpu_times_not_comparable(rows: Iterable[Any]) -> str:
    """Why CPU times cannot be compared, and what to add to the study; empty if all can be.

    Parameters
    ----------
    rows : sequence of WorkEstimate

    Returns
    -------
    str
    """
    timed = [what_cpu_time_lacks(vars(row)) for row in rows if row.cpu_time > 0]
    lacking = [own for own in timed if own]
    if not lacking:
        return ""
    of = "" if len(lacking) == len(timed) else f"{len(lacking)} of {len(timed)} "
    whys = [why for why in NEEDS if any(why in own for own in lacking)]
    needed = " and ".join(NEEDS[why] for why in whys)
    return f"{of}CPU times cannot be compared, {', '.join(whys)}: the experiment needs {needed}"
