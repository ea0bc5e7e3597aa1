"""Separate a drift into the part of the method and the part of rounding.

The part of the method is the drift of a twin, a run with the same steps in double-double
arithmetic, whose rounding errors are 2⁵² times smaller. The part of rounding is the difference
between the two.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from integrators.errors import InputError
from integrators.precision import ARITHMETIC, DOUBLE, DOUBLE_DOUBLE
from sweep.analysis.drift import cell_errors
from sweep.analysis.drift.drifts import rate_of_cell, rate_units
from sweep.analysis.drift.estimators import AT_ROUND_OFF, NONE, DriftRate
from sweep.analysis.runs import selection
from sweep.analysis.runs.blocks import Integers

METHOD = "method"
ROUNDING = "rounding"
NEITHER = "neither"  # neither part is certainly larger
NO_TWIN = "no twin"
TWIN, TWIN_SAMPLES = "twin", "twin_samples"  # variables of a cell, over its runs
SAME_TIME = 1e-9  # largest relative difference of equal sample times

RunKey = tuple[str, bytes]  # JSON of system, method, parameters and step size; initial state


@dataclass(frozen=True, kw_only=True)
class ArithmeticEstimate:
    """The source of the drift of an error: the method or rounding.

    Attributes
    ----------
    quantity, integrator : str
    parameters : dict
        Values of the scanned axes.
    step_size : float
        NaN for an integrator without twins; then the row stands for all of its step sizes.
    twin : str
        Label of the integrator in double-double; empty if there is none.
    elsewhere : str
        The experiment of the twins; empty if it is that of the runs.
    starts, left_out : int
        Numbers of pairs that are compared, and of pairs that are not because one of the two runs
        ends before `duration`.
    duration, run_duration : float
        The time over which runs and twins are compared, and the duration of the runs.
    total, method, rounding : DriftRate
        Drift of the runs over `duration`, of their twins, and of the difference.
    source : str
        The part with the larger drift: its verdict is a drift or a walk, and its 95 % interval lies
        farther from 0 than any point of the other's interval. Otherwise ``neither``, or
        ``no twin``.
    units, time_units : str
    """

    quantity: str
    integrator: str
    parameters: dict[str, Any] = field(default_factory=dict)
    step_size: float = np.nan
    twin: str = ""
    elsewhere: str = ""
    starts: int = 0
    left_out: int = 0
    duration: float = np.nan
    run_duration: float = np.nan
    total: DriftRate = DriftRate()
    method: DriftRate = DriftRate()
    rounding: DriftRate = DriftRate()
    source: str = NO_TWIN
    units: str = "1"
    time_units: str = "1"

    @property
    def rate(self) -> str:
        """Units of a drift, such as ``J/s``; see `DriftEstimate.rate`."""
        return rate_units(self.units, self.time_units)

    @property
    def compared(self) -> str:
        """How the comparison is limited, in words; empty if all runs are compared to their end."""
        if self.source == NO_TWIN:
            return (
                f'no twin: the same entry once more, with arithmetic = "{DOUBLE_DOUBLE}", adds it'
            )
        shorter = self.duration < self.run_duration * (1 - 1e-9)
        words = [f"until t = {self.duration:g} of {self.run_duration:g}"] * shorter
        words += [f"with the twins of {self.elsewhere}"] * bool(self.elsewhere)
        words += [f"without {self.left_out} pairs of which one ends before"] * bool(self.left_out)
        return ", ".join(words)


def arithmetic_table(
    dataset: xr.Dataset | xr.DataTree,
    quantities: Sequence[str] | str | None = None,
    step_sizes: str = "all",
    others: Sequence[xr.Dataset | xr.DataTree] = (),
) -> list[ArithmeticEstimate]:
    """Separate each drift into the part of the method and the part of rounding.

    Each run in double precision is compared with its twin, a run that differs only in its
    double-double arithmetic, over the time that both cover. Twins are taken from the same
    experiment, or otherwise from the experiment that has the most of them.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    quantities : sequence of str, optional
        See `drift_table`.
    step_sizes : {"all", "smallest"}, optional
        Every step size of each integrator, or only the smallest one that has twins.
    others : sequence of xarray.Dataset or xarray.DataTree, optional
        Further experiments that may contain twins; they may be shorter.

    Returns
    -------
    list of ArithmeticEstimate
        By integrator, scanned values, step size and quantity; followed by a row without numbers for
        each fixed-step integrator without twins. Empty if all runs are in double-double.

    Raises
    ------
    InputError
        If no run has a twin, and in the cases of `drift_table`.
    """
    dataset = selection.run_table_without_repeats(dataset)
    quantities = cell_errors.chosen_drift_quantities(dataset, quantities)
    errors = [f"{quantity}_error" for quantity in quantities]
    tables = [dataset, *(selection.run_table_without_repeats(one) for one in others)]
    tables = [table for table in tables if all(name in table for name in errors)]
    keys = [_run_keys(table, DOUBLE_DOUBLE) for table in tables]
    rows: list[ArithmeticEstimate] = []
    lacking: list[ArithmeticEstimate] = []
    for label, own in _run_keys(dataset, DOUBLE).items():
        found = [
            pairs
            for table, twins in zip(tables, keys, strict=True)
            for twin in twins
            if (pairs := _pairs_of_integrators(dataset, own, table, twin, twins[twin])) is not None
        ]
        if not found:
            lacking.append(ArithmeticEstimate(quantity=quantities[0], integrator=label))
            continue
        pairs = max(found, key=lambda one: (not one.elsewhere, one.runs.sizes["run"]))
        rows += [
            _estimate_of_cell(pairs, setting, cell, quantity)
            for setting, cell in selection.cells_by_setting(pairs.runs, step_sizes)
            for quantity in quantities
        ]
    if lacking and not rows:
        raise InputError("\n".join(f"{row.integrator}: {row.compared}" for row in lacking))
    return rows + lacking


@dataclass(frozen=True)
class _Pairs:
    """Runs of one integrator, and the table with their twins.

    The runs have variables for the position of the twin, and for the number of common samples.
    """

    runs: xr.Dataset
    twins: xr.Dataset
    twin_label: str
    elsewhere: str


def _run_keys(table: xr.Dataset, arithmetic: str) -> dict[str, dict[RunKey, int]]:
    """Positions of the fixed-step runs in an arithmetic, by integrator and by key of twins."""
    described, found = selection.integrator_descriptions(table), dict[str, dict[RunKey, int]]()
    system = json.loads(table.attrs.get("system", "{}"))
    states = table["initial_state"].transpose("run", "row", "component").values
    for scanned, runs in selection.groups_of_runs(
        table, ["integrator", "step_size", *selection.scanned_axes(table)]
    ):
        label, step_size = scanned.pop("integrator"), scanned.pop("step_size")
        method = described.get(label, {})
        options = dict(method.get("options", {}))
        if options.pop(ARITHMETIC, DOUBLE) == arithmetic and np.isfinite(step_size):
            shared = [system.get("name"), method.get("name", label), options, step_size]
            shared.append(system.get("parameters", {}) | scanned)
            known = json.dumps(shared, sort_keys=True)
            own = found.setdefault(label, {})
            own |= {(known, states[run].tobytes()): run for run in runs.tolist()}
    return found


def _pairs_of_integrators(
    dataset: xr.Dataset,
    own: dict[RunKey, int],
    table: xr.Dataset,
    twin_label: str,
    twins: dict[RunKey, int],
) -> _Pairs | None:
    """The runs of an integrator with twins of another integrator; None if no run has a twin."""
    both = [(run, twins[key]) for key, run in own.items() if key in twins]
    times, others = dataset["time"].values, table["time"].values
    count = min(len(times), len(others))
    same = np.isclose(times[:count], others[:count], rtol=SAME_TIME, atol=0.0)
    shared = count if same.all() else int(np.argmin(same))
    if not both or shared < 2:
        return None
    positions, beside = map(np.array, zip(*both, strict=True))
    runs, known = selection.take_runs(dataset, positions), table.isel(run=beside)
    samples = np.minimum(_samples_of_runs(runs), _samples_of_runs(known))
    place = {
        TWIN: ("run", np.arange(len(samples))),
        TWIN_SAMPLES: ("run", np.minimum(samples, shared)),
    }
    elsewhere = json.loads(table.attrs.get("experiment", "{}")).get("name", "")
    return _Pairs(runs.assign(place), known, twin_label, "" if table is dataset else elsewhere)


def _samples_of_runs(table: xr.Dataset) -> Integers:
    """Number of samples of each run; 0 if it stopped, has not begun or left the study."""
    counts = np.broadcast_to(table.get("sample_count", table.sizes["time"]), table.sizes["run"])
    stopped = table["status"].values > 0 if "status" in table else False
    kept = table["in_study"].values.astype(bool) if "in_study" in table else True
    return np.where(kept & ~np.asarray(stopped) & (counts > 1), counts, 0)


def _estimate_of_cell(
    pairs: _Pairs, setting: dict[str, Any], cell: xr.Dataset, quantity: str
) -> ArithmeticEstimate:
    """The estimate for one integrator, one set of scanned values and one step size."""
    samples = cell[TWIN_SAMPLES].values
    # Choose between fewer pairs for longer and more pairs for less time: compare the most samples.
    span = max(np.unique(samples), key=lambda count: (count * np.sum(samples >= count), count))
    chosen = np.flatnonzero(samples >= max(span, 2))
    ends = pairs.runs["time"].values
    parts = [DriftRate()] * 3
    if len(chosen):
        run = _errors_until(cell, chosen, span, quantity)
        twin = _errors_until(pairs.twins, cell[TWIN].values[chosen], span, quantity)
        parts = [
            rate_of_cell(cell_errors.read_cell_errors(run, quantity)),
            rate_of_cell(cell_errors.read_cell_errors(twin, quantity)),
            rate_of_cell(cell_errors.read_cell_errors(run, quantity, twin), in_roundings=False),
        ]
    return ArithmeticEstimate(
        quantity=quantity,
        integrator=setting["integrator"],
        parameters=setting["parameters"],
        step_size=setting["step_size"],
        twin=pairs.twin_label,
        elsewhere=pairs.elsewhere,
        starts=len(chosen),
        left_out=len(samples) - len(chosen),
        duration=float(ends[max(span, 1) - 1] - ends[0]),
        run_duration=float(ends[-1] - ends[0]),
        total=parts[0],
        method=parts[1],
        rounding=parts[2],
        source=_source_of_drift(*parts[1:]),
        units=cell[f"{quantity}_error"].attrs.get("units", "1"),
        time_units=cell["time"].attrs.get("units", "1"),
    )


def _errors_until(table: xr.Dataset, runs: Integers, samples: int, quantity: str) -> xr.Dataset:
    """The errors of some runs up to a sample, as a table of complete runs."""
    names = [f"{quantity}_error{of}" for of in cell_errors.STATISTICS] + [quantity, "steps"]
    cell = table[[name for name in names if name in table]]
    return cell.isel(run=runs, time=slice(0, samples)).reset_coords("run_id", drop=True)


def _source_of_drift(method: DriftRate, rounding: DriftRate) -> str:
    """The part whose drift is certainly larger."""
    for name, part, other in ((METHOD, method, rounding), (ROUNDING, rounding, method)):
        moves = part.verdict not in (NONE, AT_ROUND_OFF)
        if moves and max(part.low, -part.high) > other.bound:
            return name
    return NEITHER
