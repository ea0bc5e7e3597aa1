"""Agreement of computed numbers with printed ones, decided from numbers alone."""

import math
from collections.abc import Sized
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import xarray as xr

from sweep.papers.diagnostics import slope_over_time

FACTOR = 10.0  # in either direction: the same order of magnitude
ROUND_OFF = 1e-13  # some 450 units in the last place of 1


class Agreement(StrEnum):
    """Degree of agreement of a computed number with the printed one, best first.

    Attributes
    ----------
    DIGITS
        The computed number rounds to the printed one in all digits that the paper gives.
    RANGE
        The printed number lies within the range of an ensemble of starts.
    MAGNITUDE
        The computed number is within a factor of 10 of the printed one.
    BEHAVIOUR
        It is further off, but the runs show the same qualitative behaviour as the paper.
    NONE
        None of these holds, or the runs show a different behaviour.
    """

    DIGITS = "digits"
    RANGE = "range"
    MAGNITUDE = "magnitude"
    BEHAVIOUR = "behaviour"
    NONE = "not reproduced"


def agreement_with_printed_figure(
    paper: float,
    value: float,
    least: float,
    most: float,
    *,
    digits: int,
    exact: bool = False,
    ensemble: bool = False,
    behaves: bool | None = None,
) -> Agreement:
    """Classify the agreement of a computed number with a printed one.

    Parameters
    ----------
    paper : float
        The printed number.
    value, least, most : float
        The computed number, and the range of the runs.
    digits : int
        Number of significant digits that the paper prints.
    exact : bool, optional
        Whether only agreement in all digits counts, as for an order or the value of a formula.
    ensemble : bool, optional
        Whether the range is that of an ensemble of starts.
    behaves : bool, optional
        Whether the runs show the qualitative behaviour that the paper shows; None if it shows
        none. If they do not, the result is `Agreement.NONE`, however close the numbers are.

    Returns
    -------
    Agreement
    """
    if behaves is False:
        return Agreement.NONE
    if abs(value - paper) <= 0.5 * unit_of_last_printed_digit(paper, digits):
        return Agreement.DIGITS
    if ensemble and least < most and least <= paper <= most:
        return Agreement.RANGE
    if not exact and 1.0 / FACTOR <= value / paper <= FACTOR:
        return Agreement.MAGNITUDE
    return Agreement.BEHAVIOUR if behaves else Agreement.NONE


def unit_of_last_printed_digit(paper: float, digits: int) -> float:
    """The unit of the last significant digit: 1e-9 for 2.1641e-5 with five digits."""
    exponent = int(f"{paper:.{digits - 1}e}".partition("e")[2])
    return 10.0 ** (exponent - digits + 1)


# --- what a paper shows beside a figure ----------------------------------------------------------


@dataclass(frozen=True)
class EnergyTrend:
    """The energy rises, or falls, in every run, by the sign of its slope over time.

    Parameters
    ----------
    rises : bool
    """

    rises: bool

    def is_seen_in_runs(self, runs: xr.Dataset, most: float) -> tuple[bool, str]:
        """Whether all runs have the trend, and the numbers of runs in words."""
        slopes = np.asarray(slope_over_time("energy_error")(runs))
        gained, lost = int((slopes > 0).sum()), int((slopes < 0).sum())
        own, other = (gained, lost) if self.rises else (lost, gained)
        verbs = ("gain", "lose") if self.rises else ("lose", "gain")
        if own == len(slopes):
            return True, f"{_count_of_runs_in_words(own, slopes, verbs[0])} energy, as in the paper"
        shown = "gained" if self.rises else "lost"
        return (
            False,
            f"{_count_of_runs_in_words(other, slopes, verbs[1])} energy, where the paper shows it "
            f"{shown}",
        )


def _count_of_runs_in_words(count: int, runs: Sized, verb: str) -> str:
    """``128 of 128 gain``, or ``gains`` for a single run."""
    return f"{verb}s" if count == len(runs) == 1 else f"{count} of {len(runs)} {verb}"


@dataclass(frozen=True)
class KeptToRoundOff:
    """The error stays at round-off in every run, so that only its order of magnitude matters.

    Parameters
    ----------
    bound : float, optional
        The largest error that counts as round-off.
    """

    bound: float = ROUND_OFF

    def is_seen_in_runs(self, runs: xr.Dataset, most: float) -> tuple[bool, str]:
        """Whether the largest error is at round-off, and a sentence that says so."""
        if math.isfinite(most) and most <= self.bound:
            return True, f"round-off, as in the paper: ≤ {self.bound:g}"
        return False, f"not round-off: up to {most:.1e}"
