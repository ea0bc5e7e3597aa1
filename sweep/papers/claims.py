"""Claims of papers, and their evaluation from the results of studies."""

from dataclasses import dataclass

import numpy as np

from sweep.papers.agreement import (
    Agreement,
    EnergyTrend,
    KeptToRoundOff,
    agreement_with_printed_figure,
)
from sweep.papers.measuring import Datasets, Selection

CLOSE = 1e-3  # relative tolerance of a figure without explicit bounds


@dataclass(frozen=True)
class Claim:
    """A number that a paper prints, or that measures a statement or picture in it.

    Parameters
    ----------
    part : str
        Part of the paper, such as ``Example 1``.
    text : str
        Name of the measured quantity.
    measured : Selection
        The selected runs, of a subclass that measures the number.
    paper : float or None
        The printed value; None if the paper gives only a picture or words.
    expected : float or None
        The value that the setting gives; None if only bounds are known.
    low, high : float
        Bounds within which the claim holds; by default within `CLOSE` of `expected`.
    note : str
        Note on the setting, such as its difference from the printed one.
    digits : int, optional
        Number of significant digits that the paper prints: 1 for "about 400".
    exact : bool, optional
        Whether only agreement in all printed digits counts, as for an order or a formula.
    behaviour : EnergyTrend or KeptToRoundOff, optional
        Qualitative behaviour that the paper shows with the figure.
    """

    part: str
    text: str
    measured: Selection
    paper: float | None = None
    expected: float | None = None
    low: float = np.nan
    high: float = np.nan
    note: str = ""
    digits: int = 5
    exact: bool = False
    behaviour: EnergyTrend | KeptToRoundOff | None = None

    @property
    def bounds_that_hold(self) -> tuple[float, float]:
        """Lowest and highest value for which the claim holds."""
        if self.expected is None or np.isfinite(self.high):
            return self.low, self.high
        margin = CLOSE * abs(self.expected)
        return self.expected - margin, self.expected + margin

    def computed_row(self, datasets: Datasets, factor: float) -> "Row":
        """The claim's `Row`, from the datasets of its paper's studies."""
        runs = self.measured.selected_runs(datasets, factor)
        value, least, most = self.measured.value_and_range(runs)
        low, high = self.bounds_that_hold
        behaves, seen = self.behaviour.is_seen_in_runs(runs, most) if self.behaviour else (None, "")
        notes = "; ".join(filter(None, (self.note, seen)))
        digits, found = None, None
        if self.paper is not None:
            digits, ensemble = self.digits, self.measured.ensemble
            found = agreement_with_printed_figure(
                self.paper, value, least, most,
                digits=digits, exact=self.exact, ensemble=ensemble, behaves=behaves,
            )  # fmt: skip
        return Row(
            part=self.part,
            claim=self.text,
            paper=self.paper,
            digits=digits,
            here=value,
            agreement=found,
            least=least,
            most=most,
            low=low,
            high=high,
            setting=self.measured.setting_in_words(runs) + (f" ({notes})" if notes else ""),
            holds=bool(low <= value <= high),
        )


@dataclass(frozen=True)
class Row:
    """A claim with its computed value.

    Parameters
    ----------
    part, claim : str
    paper : float or None
        The printed value; None if the paper prints no number.
    digits : int or None
        Number of significant digits of the printed value.
    here : float
        The computed value; for several runs their median, largest or least, as `setting` says.
    agreement : Agreement or None
        Agreement with the printed value: ``digits``, ``range``, ``magnitude``, ``behaviour`` or
        ``not reproduced``.
    least, most : float
        Range of the values of these runs.
    low, high : float
        Bounds within which the claim holds.
    setting : str
        Integrators, step sizes, parameters and duration of the runs, in words.
    holds : bool
        Whether the computed value lies within the bounds.
    """

    part: str
    claim: str
    paper: float | None
    digits: int | None
    here: float
    agreement: Agreement | None
    least: float
    most: float
    low: float
    high: float
    setting: str
    holds: bool


@dataclass(frozen=True)
class Paper:
    """A paper: its claims, and the packaged studies in which they are measured.

    Parameters
    ----------
    name : str
        Name of the paper in ``sweep reproduce NAME``.
    title : str
    claims : tuple of Claim
    pictures : tuple of str
        Names of further studies, which are used for pictures only.
    """

    name: str
    title: str
    claims: tuple[Claim, ...]
    pictures: tuple[str, ...] = ()

    @property
    def study_names(self) -> tuple[str, ...]:
        """Names of the studies, in the order of the claims."""
        return tuple(dict.fromkeys(claim.measured.study for claim in self.claims))
