"""What a paper claims, and how a store answers it."""

from dataclasses import dataclass

import numpy as np

from sweep.papers.agreement import (
    Agreement,
    EnergyTrend,
    KeptToRoundOff,
    agreement_with_printed_figure,
)
from sweep.papers.measuring import Datasets, Selection

CLOSE = 1e-3  # relative difference up to which a figure without bounds of its own holds


@dataclass(frozen=True)
class Claim:
    """A figure that a paper prints, or that belongs beside one.

    Parameters
    ----------
    part : str
        Of the paper, ``Example 1``.
    text : str
        What is claimed.
    measured : Selection
        The runs and what is measured of them, a subclass.
    paper : float or None
        As printed; None where the paper gives a picture or words only.
    expected : float or None
        The value that the setting gives; None where only bounds are known.
    low, high : float
        Bounds within which the figure holds; `CLOSE` to `expected` unless given.
    note : str
        On the setting: where it differs from the printed one.
    digits : int, optional
        Significant ones that the paper prints: 1 of "about 400".
    exact : bool, optional
        Whether the printed figure is met to its digits or not at all: an order, a formula.
    behaviour : EnergyTrend or KeptToRoundOff, optional
        What the paper shows by the figure, or beside it.
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
        """Lowest and highest value that holds."""
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
    """A claim and what was computed for it.

    Parameters
    ----------
    part, claim : str
    paper : float or None
        As printed; None where the paper prints no figure.
    digits : int or None
        Significant ones that it prints.
    here : float
        As computed now; of several runs the one that the claim is about, as `setting` says.
    agreement : Agreement or None
        How far it is the printed one: ``digits``, ``range``, ``magnitude``, ``behaviour`` or
        ``not reproduced``.
    least, most : float
        Over those runs.
    low, high : float
        Bounds within which it holds.
    setting : str
    holds : bool
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
    claims: tuple[Claim, ...]
    pictures: tuple[str, ...] = ()

    @property
    def study_names(self) -> tuple[str, ...]:
        """Names of the studies, in the order of the claims."""
        return tuple(dict.fromkeys(claim.measured.study for claim in self.claims))
