"""How the error of an invariant grows over an ensemble: like √t, as round-off should, or like t.

Rounding errors that are independent of one another add up like √t (Brouwer's law). What is
alike in all steps, a biased rounding or a solver that stops short, grows like t: of one sign in
all runs, which their mean shows, or of another sign in each, which only the exponent shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from sweep.analysis.drift.cells import (
    PER_RUN,
    STATISTICS,
    cells_chosen_for_drift,
    chosen_drift_quantities,
    initial_rms_of_quantity,
    read_cell_errors,
    rounding_of_quantity,
)
from sweep.analysis.drift.drifts import drift_verdict_of_cell
from sweep.analysis.drift.growth_fits import fit_growth_exponent, fit_growth_of_cell_errors
from sweep.analysis.drift.verdicts import GROWING, verdict_with_round_off
from sweep.analysis.reasons import Reason, drift_sign_in_words
from sweep.analysis.runs.selection import run_table_without_repeats

__all__ = ["GrowthEstimate", "fit_growth_exponent", "growth_table"]

EPSILON = 2.0**-52


@dataclass(frozen=True)
class GrowthEstimate:
    """How one quantity's error grows under one integrator at one step size.

    Attributes
    ----------
    quantity, integrator : str
    parameters : dict
        Values of the scanned axes.
    step_size, tolerance : float
        One is NaN, as in `DriftEstimate`.
    starts, left_out : int
    steps, duration : float
        Number of steps of a run, median over the starts, and their time.
    rms : float
        Root mean square of the error over the starts, at the end.
    resolution : float
        One rounding of the quantity in the arithmetic of the runs.
    exponent, low, high : float
        Slope of log rms over log t in the last decade, and its 95 % interval; NaN where `reason`
        says why.
    drift, drift_error : float
        Drift of the mean over the starts and its standard error, in ε = 2⁻⁵² of the quantity's
        size a step; NaN of quantities without a sign.
    biased : bool
        Whether the mean over the starts drifts.
    rising, falling, with_mean : int
        Starts whose error rises over the run, and falls; and which the mean over the starts does.
    effective, likeness : float
        How many independent starts they count as, and how alike they are, from 0 to 1.
    signed : bool
        Whether the error has a sign.
    verdict : str
        The one that `drift_table` gives; see there, and of samples that thin out with time
        `growth_fits.fit_growth_exponent`. None of them says how the error grows later.
    why : tuple of Reason
        Why it is undecided, or why there is no exponent.
    units : str
    """

    quantity: str
    integrator: str
    parameters: dict[str, Any]
    step_size: float
    tolerance: float
    starts: int
    left_out: int
    steps: float
    duration: float
    rms: float
    resolution: float
    exponent: float
    low: float
    high: float
    drift: float
    drift_error: float
    biased: bool
    rising: int
    falling: int
    with_mean: int
    effective: float
    likeness: float
    signed: bool
    verdict: str
    why: tuple[Reason, ...]
    units: str

    @property
    def reason(self) -> str:
        """`why` in words."""
        return "; ".join(map(str, self.why))

    @property
    def below_rounding(self) -> bool:
        """Whether an error that is seen to grow is less than one rounding at the end."""
        return self.verdict in GROWING and self.rms < self.resolution

    @property
    def sign(self) -> str:
        """Sign of a drift, in words; empty where there is no drift, or no sign."""
        return drift_sign_in_words(self, self.biased)


def growth_table(
    dataset: xr.Dataset | xr.DataTree,
    quantities: Sequence[str] | str | None = None,
    step_sizes: str = "all",
) -> list[GrowthEstimate]:
    """Measure over the starts how errors grow; arguments as of `drift_table`.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    quantities : sequence of str, optional
    step_sizes : {"all", "smallest"}, optional

    Returns
    -------
    list of GrowthEstimate
        By integrator, scanned values, step size and quantity.

    Raises
    ------
    InputError
        As `drift_table`.
    """
    dataset = run_table_without_repeats(dataset)
    quantities = chosen_drift_quantities(dataset, quantities)
    wanted = [f"{quantity}_error{of}" for quantity in quantities for of in STATISTICS]
    dataset = dataset[[n for n in (*wanted, *quantities, *PER_RUN) if n in dataset]]
    return [
        _growth_estimate_of_cell(cell, key, quantity)
        for key, cell in cells_chosen_for_drift(dataset, step_sizes)
        for quantity in quantities
    ]


def _growth_estimate_of_cell(
    cell: xr.Dataset, key: dict[str, Any], quantity: str
) -> GrowthEstimate:
    key = dict(key)
    errors = read_cell_errors(cell, quantity)
    fit = fit_growth_of_cell_errors(errors)
    resolution = rounding_of_quantity(cell, quantity)
    found = verdict_with_round_off(drift_verdict_of_cell(errors), errors, resolution)
    duration = float(errors.ends[-1] - errors.ends[0])
    steps = float(np.median(errors.steps)) if errors.starts else np.nan
    to_epsilon = duration / (steps * EPSILON * initial_rms_of_quantity(cell, quantity))
    return GrowthEstimate(
        quantity=quantity,
        integrator=key.pop("integrator"),
        step_size=key.pop("step_size"),
        tolerance=key.pop("tolerance", np.nan),
        parameters=key,
        starts=errors.starts,
        left_out=errors.left_out,
        steps=steps,
        duration=duration,
        rms=errors.rms_at_end,
        resolution=resolution,
        exponent=fit.exponent,
        low=fit.low,
        high=fit.high,
        drift=fit.drift * to_epsilon,
        drift_error=fit.drift_error * to_epsilon,
        biased=found.shared,
        rising=found.rising,
        falling=found.falling,
        with_mean=found.with_mean,
        effective=found.effective,
        likeness=found.likeness,
        signed=found.signed,
        verdict=found.verdict,
        why=found.why or (fit.why if np.isnan(fit.exponent) else ()),
        units=cell[f"{quantity}_error"].attrs.get("units", "1"),
    )
