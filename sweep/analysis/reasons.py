"""Reasons of verdicts: the test, its outcome, what would decide, and the words for them.

Every clause that is printed of a verdict is made here, from numbers that were computed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

LITTLE = 0.1  # of an error: its other part is nearly all of it
LONGEST = 100.0  # times the duration: an advice to compute for longer than that is none

# What was tested, by name: `value` was held against `threshold`.
CLAUSES = {
    # of drifts
    "complete runs": "no run is complete",
    "steps until failure": "it takes {threshold:.0f} steps, and its runs fail after {value:.0f}",
    "sample intervals": "needs {threshold:.0f} sample intervals, has {value:.0f}",
    "windows": "needs {threshold:.0f} windows as long as the last sample interval, has {value:.0f}",
    "largest error": "the error is exactly 0",
    "zeros": "the error is exactly 0 at {value:.0f} of the times",
    "rise of the mean": "it falls",
    "independent starts": "to tell a drift from a random walk or an oscillation slower than the "
    "run it needs {threshold:.0f} independent starts, has {value:.2g} ({starts})",
    "mean": "its mean grows, {value:.2g} times its standard error, but single starts hardly",
    "memory": "it wanders, with a memory of about {value:.1g} of the run",
    "bending": "it grows, like √t or like t: its trend stands out above the oscillation, but the "
    "slow modes beside it rise as a random walk's do by {value:.2g} standard errors only, "
    "{threshold:.3g} tell",
    "lasting": "it grows like √t, or wanders about as slowly as the run is long, as far as "
    "{effective:.2g} independent starts tell ({starts})",
    "slowing": "it drifts, ever slower, {power}",
    "exponent": "it grows, {power} as far as one law fits, which is not surely like t",
    "hidden drift": "a drift {value:.3g} times as large as the error could hide; no drift is seen "
    "where that is less than 1",
    "complete starts": "needs {threshold:.0f} starts that are complete, has {value:.0f}",
    "samples in the last decade": "needs {threshold:.0f} samples in the last decade, has "
    "{value:.0f}",
    "above √t": "faster than √t, but not surely: its exponent is above {value:.2f} with 99.7 %",
    # of parts of drifts
    "twins": "no twin in double-double: add {entry} to its integrators, by `sweep extend "
    "STORE{chosen} --integrator {quoted}`, or to those of a shorter experiment in the same store",
    "growth": "it grows like √t, or not at all: like t^{low:.2f} – t^{high:.2f}",
    "pairs": "no pair of run and twin to compare, of {stopped}",
}

# Why nothing would decide undecided verdicts, by what was tested of all of them.
WITHOUT_REMEDIES = {
    ("complete runs",): "no run is complete",
}

# What would decide, by name: `number` of it would do.
REMEDIES = {
    "starts": "{number:.0f} starts or more",
    "likeness": "starts further apart (likeness {number:.2g}, not {now:.2g})",
    "duration": "{whole:.0f} times the duration",
    "samples": "{number:.0f} samples or more at equal intervals",
    "samples a decade": "{number:.0f} samples a decade",
}


# The same of several verdicts, whose numbers differ.
MEANS = {
    "starts": "more starts",
    "likeness": "starts further apart",
    "duration": "longer runs",
    "samples": "more samples",
    "samples a decade": "more samples a decade",
}


@dataclass(frozen=True)
class Remedy:
    """What would decide.

    Attributes
    ----------
    what : str
        One of `REMEDIES`.
    number : float
        The amount that would do.
    now : float
        The present amount.
    """

    what: str
    number: float
    now: float


@dataclass(frozen=True)
class Reason:
    """A test, its outcome, and what would decide.

    Attributes
    ----------
    tested : str
        One of `CLAUSES`.
    value, threshold : float
        The outcome, and what it was compared with.
    remedies : tuple of Remedy
        Alternatives; empty where nothing is open, or nothing is known to help.
    numbers : dict
        Other values in the sentence, by name.
    """

    tested: str
    value: float
    threshold: float
    remedies: tuple[Remedy, ...] = ()
    numbers: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        numbers = {"value": self.value, "threshold": self.threshold, **self.numbers}
        said = CLAUSES[self.tested].format(**numbers)
        told = [_remedy_in_words(remedy) for remedy in self.remedies]
        if not told:
            return said
        tells = "tells" if self.remedies[0].what == "duration" else "tell"
        return f"{said}: {told[0]} {tells}{''.join(f', or {one}' for one in told[1:])}"


def _remedy_in_words(remedy: Remedy) -> str:
    whole = np.ceil(remedy.number)  # any multiple of a duration is one of the step sizes too
    return REMEDIES[remedy.what].format(number=remedy.number, whole=whole, now=remedy.now)


def deciders_in_words(rows: Sequence[Any]) -> str:
    """What would decide undecided verdicts, in a few words: the first remedy of each.

    Parameters
    ----------
    rows : sequence
        Rows with `why`, a tuple of `Reason`, and possibly `lacks`, another one.
    """
    reasons = [(*row.why, *getattr(row, "lacks", ())) for row in rows]
    found = [next(((why, one) for why in of for one in why.remedies), None) for of in reasons]
    known = [each for each in found if each is not None]
    if not known:
        for tested, why_nothing in WITHOUT_REMEDIES.items():
            if all(any(why.tested in tested for why in of) for of in reasons):
                return why_nothing
        return "nothing is known that would decide"
    words = dict.fromkeys(_remedy_in_words(remedy).rstrip(",") for _, remedy in known)
    if len(words) > 1:
        words = dict.fromkeys(MEANS.get(remedy.what, remedy.what) for _, remedy in known)
    which = "" if len(known) == len(rows) else f" {len(known)} of them"
    *before, last = words
    return f"{', '.join(before)}{' and ' * bool(before)}{last} would decide{which}"


def starts_in_words(number: int) -> str:
    """``1 start``, ``8 starts``."""
    return f"{number} start{'' if number == 1 else 's'}"


def drift_verdict_in_words(row: Any, grows: bool, signs: bool) -> str:
    """The verdict on a drift in words, with the intervals that suit it, and what else there is.

    Parameters
    ----------
    row : DriftEstimate
    grows, signs : bool
        Whether the verdict says that something grows, and whether a sign matters to it.
    """
    sign = drift_sign_in_words(row, row.shared) if grows and signs else ""
    first = ", ".join(filter(None, [row.verdict, row.why and sign]))  # before what would decide
    words = [first + (f": {row.advice}" if row.why else "")]
    if row.verdict == "at round-off":
        words.append(roundings_in_words(row))
    if grows and not row.why and np.isfinite(row.exponent_low):  # which a reason says itself
        words.append(f"like t^{row.exponent_low:.2f} – t^{row.exponent_high:.2f}")
    if sign and not row.why:
        words.append(sign)
    if grows and np.isfinite(row.grown) and not row.shared:
        units = "" if row.units == "1" else f" {row.units}"
        words.append(
            f"rms over the starts {row.grown_low:.2g} – {row.grown_high:.2g}{units} at the end"
        )
    if row.below_rounding:
        words.append(below_rounding_in_words(row))
    if row.stopped:
        words.append(until_failure_in_words(row))
    return ", ".join(words)


def until_failure_in_words(row: Any) -> str:
    """The time until which runs that fail later are judged, in words.

    Parameters
    ----------
    row : DriftEstimate
    """
    runs = "its run fails" if row.starts == 1 else f"{row.stopped} of its {row.starts} runs fail"
    return f"until {row.span}, after which {runs}"


def roundings_in_words(row: Any) -> str:
    """The size of an error in roundings of the quantity, in words.

    Parameters
    ----------
    row : DriftEstimate
    """
    units = "" if row.units == "1" else f" {row.units}"
    quantity = row.quantity.replace("_", " ")
    return (
        f"|error| ≤ {row.largest_in_roundings:.2g} roundings of the {quantity}, "
        f"{row.resolution:.1g}{units} each"
    )


def below_rounding_in_words(row: Any) -> str:
    """The statement that a growth is below one rounding of the quantity.

    Parameters
    ----------
    row : DriftEstimate, GrowthEstimate or ArithmeticEstimate
    """
    units = "" if row.units == "1" else f" {row.units}"
    quantity = row.quantity.replace("_", " ")
    return f"less at the end than one rounding of the {quantity}, {row.resolution:.1g}{units}"


def drift_sign_in_words(row: Any, shared: bool) -> str:
    """The sign of a drift in words, by the starts that rise and fall; empty for a single run.

    Parameters
    ----------
    row : DriftEstimate or GrowthEstimate
    shared : bool
        Whether the mean over the starts drifts.
    """
    if not row.signed or row.starts < 2:
        return ""
    if row.starts in (row.rising, row.falling):
        return "of one sign in all starts"
    if shared:
        return f"of the mean over the starts, {row.with_mean} of {row.starts} with its sign"
    return f"{row.rising} of {row.starts} starts rise, {row.falling} fall"


def drift_part_in_words(part: Any, rate: str) -> str:
    """One part of a drift in words: its verdict with the interval that suits it.

    Parameters
    ----------
    part : arithmetic.DriftPart
    rate : str
        The units of a drift.
    """
    words = [part.verdict + (f": {'; '.join(map(str, part.why))}" if part.why else "")]
    if part.grows and np.isfinite(part.exponent_low):
        words.append(f"like t^{part.exponent_low:.2f} – t^{part.exponent_high:.2f}")
    if not part.grows and np.isfinite(part.bound):
        words.append(f"|drift| ≤ {part.bound:.2g} {rate}")
    return ", ".join(words)


SOURCE_CLAUSES = {  # by `arithmetic.SOURCES`
    "method": "the method's, seen in double-double too: {method}; rounding: {rounding}",
    "rounding": "rounding: {rounding}; in double-double: {method}",
    "both": "both; in double-double: {method}; rounding: {rounding}",
    "neither": "neither is seen to drift; in double-double: {method}; rounding: {rounding}",
    "undecided": "undecided; in double-double: {method}; rounding: {rounding}",
}
EXCLUDED = (  # of rounding where the whole runs grow, and what is compared shows no growth
    "rounding, since the method is too small in double-double: {method}; rounding: {rounding}"
)


def drift_source_in_words(row: Any) -> str:
    """The source of a drift in words, with what limits the answer.

    Parameters
    ----------
    row : arithmetic.ArithmeticEstimate
    """
    if row.why:
        return "; ".join(map(str, row.why))
    excluded = row.source == "rounding" and not row.rounding.grows
    clause = EXCLUDED if excluded else SOURCE_CLAUSES[row.source]
    words = clause.format(method=row.method_in_words, rounding=row.rounding_in_words)
    units = "" if row.units == "1" else f" {row.units}"
    limits = []
    if row.twin_at_round_off:
        limits.append(
            "double-double's own rounding can add up to as much as moves there, at most "
            f"{row.twin_rounding:.1g}{units}"
        )
    if row.below_rounding:
        limits.append(
            f"rounding grows to {row.rounding.size:.1g}{units}, {below_rounding_in_words(row)}"
        )
    if row.parted:
        limits.append(
            f"run and twin have parted: they differ by {row.apart / row.oscillation:.2g} times "
            "what the error oscillates, and no rounding is resolved below that"
        )
    for share, part in ((row.method_share, "the method"), (row.rounding_share, "rounding")):
        if share < LITTLE:
            limits.append(f"{part} makes up {share:.1g} of the error at the end")
    if row.whole.grows and (row.shorter or excluded):
        limits.append(
            f"the whole runs: {drift_part_in_words(row.whole, row.rate)}, to "
            f"{row.whole.size:.1g}{units}, of which the method, if it goes on, makes up at most "
            f"{row.method_reach:.1g}{units}"
        )
    return "; ".join([words, *limits])


def compared_pairs_in_words(row: Any) -> str:
    """The runs and times that are compared, in words; empty if it is all of them.

    Parameters
    ----------
    row : arithmetic.ArithmeticEstimate
    """
    words = []
    if row.shorter:
        words.append(f"compared until t = {row.duration:g} of {row.run_duration:g}")
    if row.elsewhere:
        words.append(f"with the twins of {row.elsewhere}")
    if row.starts and (missing := pairs_left_out_in_words(row)):
        words.append(f"without {missing}")
    return ", ".join(words)


def pairs_left_out_in_words(row: Any) -> str:
    """Number of pairs of run and twin that are left out, and why; empty if none is."""
    counts = {
        "that stopped": row.failed,
        "that are not computed so far": row.unfinished,
        "that have no twin": row.lacking,
    }
    return ", ".join(f"{count} {why}" for why, count in counts.items() if count)
