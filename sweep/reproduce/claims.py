"""What a paper claims, and how a store answers it."""

from dataclasses import dataclass, field

import numpy as np

from integrators.errors import InputError
from sweep.analysis import drift_table
from sweep.analysis.selection import describe, take

CLOSE = 1e-3  # relative difference up to which a figure without bounds of its own holds


@dataclass(frozen=True)
class Measured:
    """A mean error of some runs of a store: the median over the starts, and their range.

    Parameters
    ----------
    study, experiment : str
        Where they are.
    integrator : str
        Label of the entry.
    quantity : str
        ``energy`` or ``unit_length``: the mean over every step of |E − E₀|, or of |q·q − 1|, over
        bodies too. Where statistics of every step are missing, over the samples.
    step_size : float or None
        As the packaged study has it; None for an adaptive integrator.
    scan : dict
        Values of scanned parameters.
    """

    study: str
    experiment: str
    integrator: str
    quantity: str = "energy"
    step_size: float | None = None
    scan: dict = field(default_factory=dict)

    def runs(self, datasets, factor):
        """The runs, as a dataset; `factor` is what all step sizes were multiplied by.

        Parameters
        ----------
        datasets : dict of str to dict of str to xarray.Dataset
            By study and experiment.
        factor : float

        Raises
        ------
        InputError
            If there are none.
        """
        dataset = datasets[self.study][self.experiment]
        chosen = dataset["integrator"].values == self.integrator
        if self.step_size is not None:
            chosen &= np.isclose(dataset["step_size"].values, factor * self.step_size)
        for name, value in self.scan.items():
            chosen &= dataset[name].values == value
        if not chosen.any():
            raise InputError(f"{self.study} has no run of {self.integrator!r} like {self}")
        return take(dataset, np.flatnonzero(chosen))

    def value(self, runs):
        """Median, least and largest of the mean error."""
        if self.quantity == "unit_length" and "unit_length_error_mean" not in runs:
            return _spread(_unit_length_of_states(runs))
        (row,) = drift_table(runs, (self.quantity,))
        spread = row.mean_abs
        return spread.median, spread.low, spread.high

    def setting(self, runs):
        """In words: integrator, step size or tolerance, scanned values, duration, starts."""
        words = [self.integrator]
        if self.step_size is not None:
            words.append(f"h = {runs['step_size'].values[0]:g}")
        else:
            words.append(f"RelTol = {runs['tolerance'].values[0]:g}")
        words += [describe(self.scan)] if self.scan else []
        words.append(f"T = {runs['time'].values[-1]:g}")
        starts = runs.sizes["run"]
        return ", ".join(words + ([f"median of {starts} starts"] if starts > 1 else []))


def _unit_length_of_states(runs):
    """Mean of |q·q − 1| over samples and bodies, for each run."""
    q = runs["state"].isel(row=slice(0, runs.sizes["row"] // 2))
    error = abs((q * q).sum("component") - 1.0)
    return error.mean(("time", "row")).values


def _spread(values):
    return float(np.median(values)), float(values.min()), float(values.max())


@dataclass(frozen=True)
class Claim:
    """A figure that a paper prints, or that belongs beside one.

    Parameters
    ----------
    part : str
        Of the paper, ``Example 1``.
    text : str
        What is claimed.
    measured : Measured
    paper : float or None
        As printed; None where the paper gives a picture only.
    expected : float or None
        The value that the setting gives; None where only bounds are known.
    low, high : float
        Bounds within which the figure holds; `CLOSE` to `expected` unless given.
    note : str
        On the setting: where it differs from the printed one.
    """

    part: str
    text: str
    measured: Measured
    paper: float | None = None
    expected: float | None = None
    low: float = np.nan
    high: float = np.nan
    note: str = ""

    @property
    def bounds(self):
        """Lowest and highest value that holds."""
        if self.expected is None or np.isfinite(self.high):
            return self.low, self.high
        return self.expected * (1 - CLOSE), self.expected * (1 + CLOSE)

    def row(self, datasets, factor):
        """The claim's `Row`, from the datasets of its paper's studies."""
        runs = self.measured.runs(datasets, factor)
        value, least, most = self.measured.value(runs)
        low, high = self.bounds
        note = f" ({self.note})" if self.note else ""
        return Row(
            part=self.part,
            claim=self.text,
            paper=self.paper,
            here=value,
            least=least,
            most=most,
            low=low,
            high=high,
            setting=self.measured.setting(runs) + note,
            holds=bool(low <= value <= high),
            as_printed=self.paper is not None and self._is_printed(value, least, most),
        )

    def _is_printed(self, value, least, most):
        """Whether the printed figure is ours, or among those of the starts, or an upper bound."""
        if self.low == 0.0:
            return value <= self.paper
        close = abs(value - self.paper) <= CLOSE * self.paper
        return bool(close or least < self.paper < most)


@dataclass(frozen=True)
class Row:
    """A claim and what was computed for it.

    Parameters
    ----------
    part, claim : str
    paper : float or None
        As printed.
    here : float
        As computed now; the median over several starts.
    least, most : float
        Over the starts.
    low, high : float
        Bounds within which it holds.
    setting : str
    holds : bool
    as_printed : bool
        Whether it is the paper's figure, to 0.1 % or, of several starts, within their range.
    """

    part: str
    claim: str
    paper: float | None
    here: float
    least: float
    most: float
    low: float
    high: float
    setting: str
    holds: bool
    as_printed: bool


@dataclass(frozen=True)
class Paper:
    """A paper: its claims and the packaged studies that they are measured in.

    Parameters
    ----------
    name : str
        By which it is asked for.
    title : str
    claims : tuple of Claim
    pictures : tuple of str
        Names of further studies, which only pictures are drawn from.
    """

    name: str
    title: str
    claims: tuple
    pictures: tuple = ()

    @property
    def studies(self):
        """Names of the studies, in the order of the claims."""
        return tuple(dict.fromkeys(claim.measured.study for claim in self.claims))
