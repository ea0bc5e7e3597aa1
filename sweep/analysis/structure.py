"""Measured preservation of structure by integrators, compared with what they declare."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from integrators.errors import InputError
from sweep.analysis.drift import cell_errors
from sweep.analysis.runs import selection
from sweep.analysis.runs.blocks import Booleans, Floats
from sweep.analysis.runs.states import initial_state_norms
from sweep.analysis.runs.summaries import Column, Spread, reduce_result_columns

SYMPLECTIC, RESOLUTION, REVERSAL = "symplectic_defect", "symplectic_resolution", "reversal_error"
NONE, NOT, UNDECIDED = "no defect seen", "not symplectic", "undecided"
RETURNED, APART = "to round-off", "no"  # whether runs return to their starts
# A value of at most WITHIN times the usual effect of rounding is at round-off. A value of more than
# CLEAR times the largest possible effect of rounding is certainly larger.
WITHIN, CLEAR = 4.0, 10.0
SIZE = "size_of_start"


@dataclass(frozen=True)
class KeptQuantity:
    """How well runs preserve an invariant or a constraint.

    Attributes
    ----------
    quantity : str
    largest : float
        The largest |error| of all runs.
    rounding : float
        Bound of the sum of the rounding errors of all steps; the largest over the starts.
    kept : str
        ``to round-off`` if no error exceeds 4 times its `rounding` divided by √N, as the sum of N
        roundings with random signs; ``no`` if an error exceeds 10 times its `rounding`; else
        ``undecided``. Empty without runs.
    declared : bool or None
        Whether the integrator is declared to preserve the quantity; None if the store does not say.
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
        """Whether the quantity is declared to be preserved, but measured not to be."""
        return self.declared is True and self.kept == APART


@dataclass(frozen=True)
class StructureEstimate:
    """Symplectic defect, reversal error and preserved quantities of an integrator at one step size.

    Attributes
    ----------
    integrator : str
        The label in the study.
    parameters : dict
        Values of the scanned axes.
    step_size, tolerance : float
        One is NaN: adaptive integrators have a tolerance, the others a step size.
    starts, left_out : int
        Number of initial conditions with a measurement, and of runs without.
    defect : Spread
        Symplectic defect max |JᵀΩJ − Ω| / max |Ω| of the first step, or of the first sample
        interval of an adaptive integrator, over the starts. NaN if it is not recorded.
    largest_resolved : float
        The largest resolution of a defect over the starts. The resolution is the defect that
        rounding causes in a symplectic step.
    verdict : str
        ``no defect seen`` if no defect exceeds 4 times its resolution; ``not symplectic`` if a
        defect exceeds 10 times its resolution; else ``undecided``. Empty if none is recorded.
    reversal : Spread
        Distance between the start and the state after the run and as many steps back. NaN for
        adaptive integrators, and if it is not recorded.
    largest_rounding : float
        The largest reversal error that rounding may cause, over the starts: the sum of the
        roundings of all N steps forward and back, amplified by the divergence of nearby
        trajectories.
    returned : str
        ``to round-off`` if no reversal error exceeds 4 times its rounding divided by √2N, as for
        roundings with random signs; ``no`` if one exceeds 10 times its rounding; else
        ``undecided``. Empty if none is recorded.
    symplectic, symmetric : bool or None
        Whether the integrator is declared to be so; None if the store does not say.
    quantities : tuple of KeptQuantity
        The recorded invariants and constraints.
    duration : float
        Duration of the run forward.
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
        """Whether the integrator is declared symmetric, but its runs do not return."""
        return self.symmetric is True and self.returned == APART

    @property
    def symplectic_disputed(self) -> bool:
        """Whether the integrator is declared symplectic, but its steps are not."""
        return self.symplectic is True and self.verdict == NOT


def structure_table(
    dataset: xr.Dataset | xr.DataTree, step_sizes: str = "all"
) -> list[StructureEstimate]:
    """Measure how well symplectic form, time reversal and each quantity are preserved.

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
        If nothing of this is recorded, or `step_sizes` is invalid.
    """
    dataset = selection.run_table_without_repeats(dataset)
    quantities = cell_errors.quantities_with_recorded_error(dataset)
    if not has_structure(dataset) and not quantities:
        raise InputError(
            "neither symplectic defect nor reversal error nor any invariant is recorded: name them "
            'in the experiment, as in record = ["energy", "symplectic_defect", "reversal_error"], '
            "and run it into a store of its own.",
            key="record",
        )
    described = selection.integrator_descriptions(dataset)
    runs = dataset.assign({SIZE: ("run", initial_state_norms(dataset))})
    return [
        _estimate_of_cell(setting, cell, described.get(setting["integrator"], {}), quantities)
        for setting, cell in selection.cells_by_setting(runs, step_sizes)
    ]


def has_structure(dataset: xr.Dataset) -> bool:
    """Whether a run table has symplectic defects or reversal errors."""
    return SYMPLECTIC in dataset or REVERSAL in dataset


def _estimate_of_cell(
    setting: dict[str, Any], cell: xr.Dataset, declared: dict[str, Any], quantities: Sequence[str]
) -> StructureEstimate:
    counts = selection.complete_runs(cell)
    defect, resolution, reversal = (
        cell[name].values[counts] if name in cell else np.full(counts.sum(), np.nan)
        for name in (SYMPLECTIC, RESOLUTION, REVERSAL)
    )
    steps = 2 * cell["steps"].values[counts]
    one = (selection.relative_round_off_of_runs(cell) * cell[SIZE].values)[counts]
    measured = np.isfinite(defect) | np.isfinite(reversal) | bool(quantities)
    times = cell["time"]
    return StructureEstimate(
        **setting,
        starts=int(measured.sum()),
        left_out=int(len(counts) - measured.sum()),
        defect=Spread.of(defect),
        largest_resolved=Spread.of(resolution).high,
        verdict=_verdict_by_resolution(defect, resolution, resolution, NONE, NOT),
        reversal=Spread.of(reversal),
        largest_rounding=Spread.of(steps * one).high,
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
    of_every_step = f"{name}_abs_max" if f"{name}_abs_max" in cell else name
    column = Column(of_every_step, "abs_max", 0, name)
    largest = reduce_result_columns(cell, [column])[name][counts]
    one = cell_errors.rounding_of_quantity(cell, quantity, np.flatnonzero(counts))
    steps = cell["steps"].values[counts]
    found = _verdict_by_resolution(largest, np.sqrt(steps) * one, steps * one, RETURNED, APART)
    size = one / selection.relative_round_off_of_runs(cell)[0]
    if found == APART and np.nanmax(largest) >= size:  # it is 0 and has no scale
        found = UNDECIDED
    return KeptQuantity(
        quantity=quantity,
        largest=Spread.of(largest).high,
        rounding=Spread.of(steps * one).high,
        kept=found,
        declared=None if kept is None else quantity in kept,
        units=str(cell[name].attrs.get("units", "1")),
    )


def _verdict_by_resolution(
    values: Floats, usual: Floats, most: Floats, none: str, some: str
) -> str:
    """`none` if values are usual effects of rounding, `some` if larger ones; else undecided."""
    there = np.isfinite(values)
    if not there.any():
        return ""
    if np.any(values[there] > CLEAR * most[there]):
        return some
    return none if np.all(values[there] <= WITHIN * usual[there]) else UNDECIDED
