"""How far a computed figure is the one that a paper prints, decided from numbers alone."""

import math
from collections.abc import Sized
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import xarray as xr

from sweep.papers.diagnostics import slope_over_time

FACTOR = 10.0  # either way: the same order of magnitude
ROUND_OFF = 1e-13  # some 450 units in the last place of 1


class Agreement(StrEnum):
    """How far a computed figure is the printed one, from the closest to none.

    Attributes
    ----------
    DIGITS
        It rounds to the printed figure, in all digits that the paper gives.
    RANGE
        The printed figure lies within the range of an ensemble of starts.
    MAGNITUDE
        It is within a factor of 10 of the printed figure.
    BEHAVIOUR
        It is further off, but the runs do what the paper shows by the figure.
    NONE
        It is none of these, or the runs do something else than what the paper shows.
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
    """The `Agreement` of a computed figure with a printed one.

    Parameters
    ----------
    paper : float
        As printed.
    value, least, most : float
        As computed, with the range of the runs.
    digits : int
        Significant ones that the paper prints.
    exact : bool, optional
        Whether the figure is met to its digits or not at all: an order, the value of a formula.
    ensemble : bool, optional
        Whether the range is that of an ensemble of starts.
    behaves : bool, optional
        Whether the runs do what the paper shows beside the figure; None where it shows nothing.
        Where they do not, no number makes them those of the paper.

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
    """The unit of the last of a figure's significant digits: 1e-9 of 2.1641e-5 with five."""
    exponent = int(f"{paper:.{digits - 1}e}".partition("e")[2])
    return 10.0 ** (exponent - digits + 1)


# --- what a paper shows beside a figure ----------------------------------------------------------


@dataclass(frozen=True)
class EnergyTrend:
    """The energy rises, or falls, in every run: the sign of its slope over time.

    Parameters
    ----------
    rises : bool
    """

    rises: bool

    def is_seen_in_runs(self, runs: xr.Dataset, most: float) -> tuple[bool, str]:
        """Whether all runs have the trend, and how many have which, in words."""
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
    """``128 of 128 gain``, or ``gains`` of a single run."""
    return f"{verb}s" if count == len(runs) == 1 else f"{count} of {len(runs)} {verb}"


@dataclass(frozen=True)
class KeptToRoundOff:
    """The error stays at round-off in every run, so that only its being so small means anything.

    Parameters
    ----------
    bound : float, optional
        The largest error that is called round-off.
    """

    bound: float = ROUND_OFF

    def is_seen_in_runs(self, runs: xr.Dataset, most: float) -> tuple[bool, str]:
        """Whether the largest error is so small, and that in words."""
        if math.isfinite(most) and most <= self.bound:
            return True, f"round-off, as in the paper: ≤ {self.bound:g}"
        return False, f"not round-off: up to {most:.1e}"
