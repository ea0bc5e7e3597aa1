"""Agreement of computed numbers with printed ones."""

import math
from enum import StrEnum
from typing import Literal

import xarray as xr

from sweep.papers.diagnostics import slope_over_time

FACTOR = 10.0  # numbers within this factor of each other have the same order of magnitude
ROUND_OFF = 1e-13  # largest error at round-off, about 450 units in the last place of 1
Behaviour = Literal["energy gained", "energy lost", "round-off"]  # of every run


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
        The difference is larger, but the runs show the same qualitative behaviour as the paper.
    NONE
        None of these applies, or the runs show a different behaviour.
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
        The computed number, and its range over the runs.
    digits : int
        Number of significant digits that the paper prints.
    exact : bool, optional
        Whether only agreement in all digits counts, as for an order or the value of a formula.
    ensemble : bool, optional
        Whether the range is that of an ensemble of starts.
    behaves : bool, optional
        Whether the runs show the same qualitative behaviour as the paper; None if the paper shows
        none. If they do not, the result is `Agreement.NONE`, however close the numbers are.

    Returns
    -------
    Agreement
    """
    if behaves is False:
        return Agreement.NONE
    exponent = int(f"{paper:.{digits - 1}e}".partition("e")[2])
    unit_of_last_digit = 10.0 ** (exponent - digits + 1)  # 1e-9 for 2.1641e-5
    if abs(value - paper) <= 0.5 * unit_of_last_digit:
        return Agreement.DIGITS
    if ensemble and least < most and least <= paper <= most:
        return Agreement.RANGE
    if not exact and 1.0 / FACTOR <= value / paper <= FACTOR:
        return Agreement.MAGNITUDE
    return Agreement.BEHAVIOUR if behaves else Agreement.NONE


def behaviour_of_runs(shown: Behaviour, runs: xr.Dataset, most: float) -> tuple[bool, str]:
    """Compare the behaviour of all runs with that in the paper.

    Parameters
    ----------
    shown : {"energy gained", "energy lost", "round-off"}
        The energy rises or falls, according to its slope over time; or the error stays at
        round-off, so that only its order of magnitude matters.
    runs : xarray.Dataset
    most : float
        The largest measured number of the runs.

    Returns
    -------
    agrees : bool
        Whether all runs behave as in the paper.
    words : str
        The behaviour of the runs.
    """
    if shown == "round-off":
        if math.isfinite(most) and most <= ROUND_OFF:
            return True, f"round-off, as in the paper: ≤ {ROUND_OFF:g}"
        return False, f"not round-off: up to {most:.1e}"
    slopes = slope_over_time(runs, "energy_error")
    rising = shown == "energy gained"
    behaving = int((slopes > 0 if rising else slopes < 0).sum())
    seen = behaving == len(slopes)
    count = behaving if seen else int((slopes < 0 if rising else slopes > 0).sum())
    verb = "gain" if rising == seen else "lose"
    subject = f"{verb}s" if count == len(slopes) == 1 else f"{count} of {len(slopes)} {verb}"
    compared = "as in the paper" if seen else f"where the paper shows it {shown.split()[1]}"
    return seen, f"{subject} energy, {compared}"
