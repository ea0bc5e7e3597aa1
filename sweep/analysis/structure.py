"""What integrators are declared to preserve, beside what is measured of runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from integrators.errors import InputError
from sweep.analysis.drift.cells import cells_chosen_for_drift, quantities_with_recorded_error
from sweep.analysis.drift.drifts import Spread
from sweep.analysis.runs.blocks import Booleans, Floats, slices_of_whole_runs
from sweep.analysis.runs.selection import (
    complete_runs,
    integrator_descriptions,
    relative_round_off_of_runs,
    run_table_without_repeats,
)
from sweep.analysis.runs.states import initial_state_norms

SYMPLECTIC, RESOLUTION, REVERSAL = "symplectic_defect", "symplectic_resolution", "reversal_error"
NONE, NOT, UNDECIDED = "no defect seen", "not symplectic", "undecided"
RETURNED, APART = "to round-off", "no"  # whether runs return to their starts
WITHIN, CLEAR = 4.0, 10.0  # times what rounding makes a value may be that, is surely more
SIZE = "size_of_start"


@dataclass(frozen=True)
class KeptQuantity:
    """How far runs keep an invariant or a constraint.

    Attributes
    ----------
    quantity : str
    largest : float
        The largest |error| of all runs.
    rounding : float
        The largest over the starts of what roundings of all steps can add up to.
    kept : str
        ``to round-off``, where no error is above 4 times its rounding divided by √N, as N roundings
        of random sign add up; ``no``, where one is more than 10 times its rounding; else
        ``undecided``. Empty without a run.
    declared : bool or None
        Whether the integrator is declared to keep it; None where the store does not say.
    units : str
    """

    quantity: str
    largest: float
    rounding: float
    kept: str
    declared: bool | None
    units: str

    @property
    def disputed(self) -> bool:
        """Whether it is declared to be kept, and measured not to be."""
        return self.declared is True and self.kept == APART


@dataclass(frozen=True)
class StructureEstimate:
    """Symplectic defect, reversal error and kept quantities of an integrator at one step size.

    Attributes
    ----------
    integrator : str
        The label in the study.
    parameters : dict
        Values of the scanned axes.
    step_size, tolerance : float
        One is NaN: adaptive integrators have a tolerance, the others a step size.
    starts, left_out : int
        Initial conditions with any measure, and runs without.
    defect : Spread
        max |JᵀΩJ − Ω| / max |Ω| over the starts, of the first step; of an adaptive integrator of
        the first sample interval. NaN where it is not recorded.
    largest_resolved : float
        The largest resolution of a defect over the starts: what rounding makes of none.
    verdict : str
        Of the defects ``no defect seen``, where none is above 4 times its resolution; ``not
        symplectic``, where one is more than 10 times its own; else ``undecided``. Empty where none
        is recorded.
    reversal : Spread
        Distance of the state from the start after the run and as many steps back; NaN of adaptive
        integrators, and where it is not recorded.
    largest_rounding : float
        The largest over the starts of what round-off can make of a return, where the roundings of
        all N steps forward and back add up; a motion whose neighbours part enlarges it.
    returned : str
        Of the reversal errors ``to round-off``, where none is above 4 times its rounding divided by
        √2N, as roundings of random sign add up; ``no``, where one is more than 10 times its
        rounding; else ``undecided``. Empty where none is recorded.
    symplectic, symmetric : bool or None
        Whether the integrator is declared to be; None where the store does not say.
    quantities : tuple of KeptQuantity
        The recorded invariants and constraints.
    duration : float
        Of a run forward.
    time_units : str
    """

    integrator: str
    parameters: dict[str, Any]
    step_size: float
    tolerance: float
    starts: int
    left_out: int
    defect: Spread
    largest_resolved: float
    verdict: str
    reversal: Spread
    largest_rounding: float
    returned: str
    symplectic: bool | None
    symmetric: bool | None
    quantities: tuple[KeptQuantity, ...]
    duration: float
    time_units: str

    @property
    def disputed(self) -> bool:
        """Whether it is declared symmetric, and its runs are measured not to return."""
        return self.symmetric is True and self.returned == APART

    @property
    def symplectic_disputed(self) -> bool:
        """Whether it is declared symplectic, and its steps are measured not to be."""
        return self.symplectic is True and self.verdict == NOT


def structure_table(
    dataset: xr.Dataset | xr.DataTree, step_sizes: str = "all"
) -> list[StructureEstimate]:
    """What is preserved, over the starts: the symplectic form, time reversal, each quantity.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    step_sizes : {"all", "smallest"}, optional
        Every step size (or tolerance) of each integrator, or only its smallest.

    Returns
    -------
    list of StructureEstimate
        By integrator, scanned values and step size.

    Raises
    ------
    InputError
        If nothing of it is recorded, or `step_sizes` is neither.
    """
    dataset = run_table_without_repeats(dataset)
    quantities = quantities_with_recorded_error(dataset)
    if not has_structure(dataset) and not quantities:
        raise InputError(
            "neither symplectic defect nor reversal error nor any invariant is recorded: name them "
            'in the experiment, as in record = ["energy", "symplectic_defect", "reversal_error"].',
            key="record",
        )
    described = integrator_descriptions(dataset)
    sizes = initial_state_norms(dataset)
    runs = dataset.assign({SIZE: ("run", sizes)})
    return [
        _estimate_of_cell(dict(key), cell, described.get(key["integrator"], {}), quantities)
        for key, cell in cells_chosen_for_drift(runs, step_sizes)
    ]


def has_structure(dataset: xr.Dataset) -> bool:
    """Whether a run table has symplectic defects or reversal errors."""
    return SYMPLECTIC in dataset or REVERSAL in dataset


def _estimate_of_cell(
    key: dict[str, Any], cell: xr.Dataset, declared: dict[str, Any], quantities: Sequence[str]
) -> StructureEstimate:
    counts = complete_runs(cell)
    defect, resolution, reversal = (
        cell[name].values[counts] if name in cell else np.full(counts.sum(), np.nan)
        for name in (SYMPLECTIC, RESOLUTION, REVERSAL)
    )
    steps = 2 * cell["steps"].values[counts]
    one = (relative_round_off_of_runs(cell) * cell[SIZE].values)[counts]
    measured = np.isfinite(defect) | np.isfinite(reversal) | bool(quantities)
    label, times = key.pop("integrator"), cell["time"]
    return StructureEstimate(
        integrator=label,
        step_size=key.pop("step_size"),
        tolerance=key.pop("tolerance", np.nan),
        parameters=key,
        starts=int(measured.sum()),
        left_out=int(len(counts) - measured.sum()),
        defect=_spread_of_finite(defect),
        largest_resolved=_spread_of_finite(resolution).high,
        verdict=_verdict_by_resolution(defect, resolution, resolution, NONE, NOT),
        reversal=_spread_of_finite(reversal),
        largest_rounding=_spread_of_finite(steps * one).high,
        returned=_verdict_by_resolution(
            reversal, np.sqrt(steps) * one, steps * one, RETURNED, APART
        ),
        symplectic=declared.get("symplectic"),
        symmetric=declared.get("symmetric"),
        quantities=tuple(_kept_quantity(cell, counts, name, declared) for name in quantities),
        duration=float(times.values[-1] - times.values[0]),
        time_units=times.attrs.get("units", "1"),
    )


def _kept_quantity(
    cell: xr.Dataset, counts: Booleans, quantity: str, declared: dict[str, Any]
) -> KeptQuantity:
    name, kept = f"{quantity}_error", declared.get("preserves")
    errors = cell[f"{name}_abs_max" if f"{name}_abs_max" in cell else name].variable
    errors = errors.transpose("run", "time")
    blocks = (np.abs(errors[rows].values) for rows in slices_of_whole_runs(*errors.shape))
    largest = np.concatenate([np.fmax.reduce(block, axis=1) for block in blocks])[counts]
    size = np.abs(cell[quantity].isel(time=0).values) if quantity in cell else 1.0
    one = (relative_round_off_of_runs(cell) * size)[counts]
    steps = cell["steps"].values[counts]
    return KeptQuantity(
        quantity=quantity,
        largest=_spread_of_finite(largest).high,
        rounding=_spread_of_finite(steps * one).high,
        kept=_verdict_by_resolution(largest, np.sqrt(steps) * one, steps * one, RETURNED, APART),
        declared=None if kept is None else quantity in kept,
        units=str(cell[name].attrs.get("units", "1")),
    )


def _verdict_by_resolution(
    values: Floats, usual: Floats, most: Floats, none: str, some: str
) -> str:
    """Whether values are what rounding usually makes, `none`, or more than it can make, `some`."""
    there = np.isfinite(values)
    if not there.any():
        return ""
    if np.any(values[there] > CLEAR * most[there]):
        return some
    return none if np.all(values[there] <= WITHIN * usual[there]) else UNDECIDED


def _spread_of_finite(values: Floats) -> Spread:
    values = values[np.isfinite(values)]
    if not len(values):
        return Spread(np.nan, np.nan, np.nan)
    return Spread(float(np.median(values)), float(values.min()), float(values.max()))
