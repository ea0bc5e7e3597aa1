"""Regular and chaotic motion, judged by recorded Lyapunov exponents and MEGNO."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from integrators.errors import InputError
from integrators.precision import ARITHMETIC, DOUBLE
from sweep.analysis.runs import selection
from sweep.analysis.runs.summaries import Spread

KIND = "chaos"  # attribute `kind` of the variables
MEGNO = "megno"
CHAOTIC = "chaotic"
NONE = "no chaos seen"
UNDECIDED = "undecided"

LEVEL = 2.0  # MEGNO of quasi-periodic motion
HIGH = 5.0  # MEGNO of chaotic motion is larger than this, and
GROWING = 1.5  # times its value at half the time; the ratio is 2 where MEGNO grows like t
NEAR = 0.5  # without chaos, MEGNO exceeds LEVEL, and its value at half the time, by at most this
FEWEST = 4  # sample intervals, so that one of them ends near half the time
HALFWAY = 0.1  # largest distance of a sample from half the time, as a share of the duration


@dataclass(frozen=True, kw_only=True)
class ChaosEstimate:
    """Divergence of nearby trajectories under one integrator at one step size.

    Attributes
    ----------
    integrator : str
        Label in the study.
    parameters : dict
        Values of the scanned axes.
    step_size, tolerance : float
        One of them is NaN, except for an integrator that takes as many equal steps as an adaptive
        run.
    starts, left_out : int
        Number of initial conditions that are used; and number of runs that are not, because they
        failed, are not finished, left the study, or have steps without a derivative.
    stopped : int
        Number of the used starts whose runs fail later; see `judged_runs`.
    duration : float
        Time over which the runs are judged.
    exponents : tuple of Spread
        The recorded Lyapunov exponents at the end, the largest first.
    megno : Spread
        MEGNO at the end; NaN if it is not recorded.
    chaotic, regular, undecided : int
        Numbers of starts with each verdict; all 0 without MEGNO.
    chaotic_exponents : Spread
        Largest exponents of the chaotic starts; NaN if there are none, or none is recorded.
    hidden : float
        Exponents smaller than this could not be seen in the starts without chaos. It is the maximum
        of their exponents, of 2 megno / t, and of 1 / t; NaN without such starts.
    longer : float
        Duration at which MEGNO would show the exponents of the undecided starts, if these persist;
        NaN without such starts.
    halved : bool
        Whether there is a sample near half the time, without which there is no verdict.
    units, time_units : str
        Units of exponents and of times.
    """

    integrator: str
    parameters: dict[str, Any]
    step_size: float
    tolerance: float
    starts: int
    left_out: int
    stopped: int
    duration: float
    exponents: tuple[Spread, ...]
    megno: Spread
    chaotic: int
    regular: int
    undecided: int
    chaotic_exponents: Spread
    hidden: float
    longer: float
    halved: bool
    units: str
    time_units: str

    @property
    def verdict(self) -> str:
        """The verdict if all starts have the same; else the number of starts with each verdict."""
        alike = len(self.counts) == 1
        return ", ".join(
            name if alike else f"{count} {name}" for name, count in self.counts.items()
        )

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of starts by verdict, without verdicts that no start has."""
        counts = {CHAOTIC: self.chaotic, NONE: self.regular, UNDECIDED: self.undecided}
        return {verdict: count for verdict, count in counts.items() if count}

    @property
    def telling(self) -> float:
        """`longer`, rounded up to a multiple of the duration, which step sizes divide."""
        return float(np.ceil(self.longer / self.duration) * self.duration)

    @property
    def in_words(self) -> str:
        """What the verdict leaves open, with the duration that would decide."""
        time = "" if self.time_units == "1" else f" {self.time_units}"
        rate = "" if self.units == "1" else f" {self.units}"
        said = [] if self.starts else ["no run is complete"]
        if self.regular:
            starts = f"{self.regular} starts" if self.regular > 1 else "start"
            where = "" if self.regular == self.starts else f" in the {starts} without chaos"
            said.append(f"exponents below {self.hidden:.2g}{rate} could hide{where}")
        if self.undecided and not self.halved:
            said.append("needs a sample at half the time: 4 sample intervals or more")
        elif self.undecided and not self.stopped:
            lasting = np.isfinite(self.longer)
            run = f"run of {self.telling:g}{time}" if lasting else "longer run"
            said.append(f"a {run} would decide" + (", if the exponents last" if lasting else ""))
        if self.stopped:
            said.append(
                f"judged until t = {self.duration:g}{time}, after which {self.stopped} of "
                f"{self.starts} runs fail"
            )
        return "; ".join(said)


def chaos_table(dataset: xr.Dataset | xr.DataTree) -> list[ChaosEstimate]:
    """Judge by Lyapunov exponents and MEGNO whether motion is regular or chaotic.

    A start is chaotic if MEGNO ends above 5 and at more than 1.5 times its value at half the time,
    as it does where it grows like λt/2. No chaos is seen if MEGNO ends below 2.5, and at most 0.5
    above its value at half the time.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.

    Returns
    -------
    list of ChaosEstimate
        By integrator, scanned values and step size or tolerance, except those in
        `integrators_without_exponents`.

    Raises
    ------
    InputError
        If neither exponents nor MEGNO are recorded, or no run of the selection has any.
    """
    dataset = selection.run_table_without_repeats(dataset)
    names = variables_of_chaos(dataset)
    if not names:
        raise InputError(
            "no exponent is recorded: name them in the experiment, as in "
            'record = ["lyapunov", "megno"], and run it into a store of its own.',
            key="record",
        )
    without = integrators_without_exponents(dataset)
    rows = [
        _estimate_of_cell(setting, cell, names)
        for setting, cell in selection.cells_by_setting(dataset)
        if setting["integrator"] not in without
    ]
    if not rows:
        reasons = "; ".join(f"{label}: {why}" for label, why in without.items())
        raise InputError(f"no run has exponents: {reasons or 'none is selected'}")
    return rows


def integrators_without_exponents(dataset: xr.Dataset) -> dict[str, str]:
    """Labels of integrators without exponents, with the reason for each.

    Parameters
    ----------
    dataset : xarray.Dataset
        One experiment, or a selection of its runs.

    Returns
    -------
    dict of str to str
    """
    names, described = variables_of_chaos(dataset), selection.integrator_descriptions(dataset)
    adaptive, found = selection.adaptive_runs(dataset), {}
    for key, runs in selection.groups_of_runs(dataset, ["integrator"]):
        label = key["integrator"]
        if described.get(label, {}).get("options", {}).get(ARITHMETIC, DOUBLE) != DOUBLE:
            found[label] = "tangent vectors go along with steps in double precision alone"
        elif adaptive[runs].all() and not any(
            np.isfinite(dataset[name].values[runs]).any() for name in names
        ):
            found[label] = "no tangent vectors went along with its adaptive steps"
    return found


def variables_of_chaos(dataset: xr.Dataset) -> list[str]:
    """Names of the recorded variables: exponents, the largest first, and MEGNO."""
    names = [str(n) for n, found in dataset.data_vars.items() if found.attrs.get("kind") == KIND]
    return sorted(names, key=lambda name: (name == MEGNO, name))


def _estimate_of_cell(
    setting: dict[str, Any], cell: xr.Dataset, names: Sequence[str]
) -> ChaosEstimate:
    judged, runs = selection.judged_runs(cell, FEWEST), cell.sizes["run"]
    cell = selection.take_runs(cell, judged.positions).isel(time=slice(0, judged.samples))
    times = cell["time"].values
    duration, middle = float(times[-1] - times[0]), (times[0] + times[-1]) / 2
    half = int(np.argmin(np.abs(times - middle)))
    halved = bool(abs(times[half] - middle) <= HALFWAY * duration)
    series = [cell[name].transpose("run", "time") for name in names]
    values = np.array([one[:, [half, -1]].values for one in series])
    values = values[:, np.isfinite(values).all(axis=(0, 2))]
    starts, has_megno = values.shape[1], names[-1] == MEGNO
    exponents = values[: len(names) - has_megno, :, 1]
    before, after = values[-1].T if has_megno else np.full((2, starts), np.nan)
    chaotic = (after > HIGH) & (after > GROWING * before) & halved
    regular = (after < LEVEL + NEAR) & (after - before < NEAR) & halved
    left = ~chaotic & ~regular & has_megno
    rates = 2.0 * after / duration
    seen = np.max([np.full(starts, 1.0 / duration), rates, *exponents], axis=0)
    least = np.min(rates[left], initial=np.inf)
    tells = 0.0 < least < np.inf  # MEGNO reaches twice `HIGH` in this duration
    return ChaosEstimate(
        **setting,
        starts=starts,
        left_out=runs - starts,
        stopped=judged.stopped,
        duration=duration,
        exponents=tuple(map(Spread.of, exponents)),
        megno=Spread.of(after),
        chaotic=int(np.sum(chaotic)),
        regular=int(np.sum(regular)),
        undecided=int(np.sum(left)),
        chaotic_exponents=Spread.of(exponents[0][chaotic]) if len(exponents) else Spread(),
        hidden=float(np.max(seen[regular])) if regular.any() else np.nan,
        longer=float(max(2.0 * duration, 4.0 * HIGH / least)) if tells else np.nan,
        halved=halved,
        units=str(cell[names[0]].attrs.get("units", "1")) if len(exponents) else "1",
        time_units=str(cell["time"].attrs.get("units", "1")),
    )
