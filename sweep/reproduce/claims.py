"""What a paper claims, and how a store answers it."""

from dataclasses import dataclass

import numpy as np

from sweep.reproduce.measuring import Selection

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
        Significant ones that the paper gives, where they are few: 1 of "about 400".
    """

    part: str
    text: str
    measured: Selection
    paper: float | None = None
    expected: float | None = None
    low: float = np.nan
    high: float = np.nan
    note: str = ""
    digits: int | None = None

    @property
    def bounds(self):
        """Lowest and highest value that holds."""
        if self.expected is None or np.isfinite(self.high):
            return self.low, self.high
        margin = CLOSE * abs(self.expected)
        return self.expected - margin, self.expected + margin

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
        if self.digits is not None:
            return _rounded(value, self.digits) == _rounded(self.paper, self.digits)
        close = abs(value - self.paper) <= CLOSE * abs(self.paper)
        return bool(close or least < self.paper < most)


def _rounded(value, digits):
    """To significant digits."""
    return float(f"{value:.{digits - 1}e}")


@dataclass(frozen=True)
class Row:
    """A claim and what was computed for it.

    Parameters
    ----------
    part, claim : str
    paper : float or None
        As printed.
    here : float
        As computed now; of several runs the one that the claim is about, as `setting` says.
    least, most : float
        Over those runs.
    low, high : float
        Bounds within which it holds.
    setting : str
    holds : bool
    as_printed : bool
        Whether it is the paper's figure, to 0.1 % or as many digits as it has or, of several
        starts, within their range.
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
