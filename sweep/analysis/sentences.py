"""Summaries of analyses in a sentence: numbers of rows with each verdict, and the main number.

Every statement follows from the rows. A few integrators are named; if there are more, they are
counted, since the table below the sentence lists them.

>>> summarize_orders(order_table(tree["pendulum"]))
['All 9 integrators have their declared order.']
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sweep.analysis.chaos import ChaosEstimate
from sweep.analysis.convergence.order_verdicts import CONFIRMED, EXACT, REFUTED, UNDECIDED
from sweep.analysis.drift.estimators import (
    AT_ROUND_OFF,
    EACH,
    FAILS,
    LINEAR,
    NONE,
    UNSTEADY,
    WALK,
)
from sweep.analysis.efficiency.pareto import LeastWork, rank_at_levels
from sweep.analysis.rows import grouped
from sweep.analysis.runs.selection import axis_values_in_words
from sweep.text import count_with_noun, format_number, join_with_and

NAMED = 3  # maximum number of integrators that a clause names
MOST = 200  # maximum number of characters of a sentence with names
NEAR = 1.05  # ratio of interpolated work up to which integrators need equally much

# The predicate of each verdict, singular and plural. Other verdicts are quoted.
VERBS = {
    # orders
    CONFIRMED: ("has its declared order", "have their declared order"),
    EXACT: ("is exact to round-off", "are exact to round-off"),
    REFUTED: ("has another order than it declares", "have another order than they declare"),
    # drifts, the worst first, as in sentences
    FAILS: ("fails", "fail"),
    LINEAR: ("drifts linearly", "drift linearly"),
    UNSTEADY: ("drifts unsteadily", "drift unsteadily"),
    EACH: ("drifts linearly, each start its own way", "drift linearly, each start its own way"),
    WALK: ("walks randomly", "walk randomly"),
    NONE: ("shows no drift", "show no drift"),
    AT_ROUND_OFF: ("stays at round-off", "stay at round-off"),
    "": ("is not judged", "are not judged"),
    # sources of drifts
    "method": ("drifts by itself", "drift by themselves"),
    "rounding": ("drifts by rounding", "drift by rounding"),
    "neither": ("has no part that is surely larger", "have no part that is surely larger"),
    "no twin": ("has no twin in double-double", "have no twin in double-double"),
    # structure
    "not symplectic": ("is not symplectic", "are not symplectic"),
    "no defect seen": ("shows no symplectic defect", "show no symplectic defect"),
    # chaos, of runs
    "chaotic": ("is chaotic", "are chaotic"),
    "no chaos seen": ("shows no chaos", "show no chaos"),
    # all of them
    UNDECIDED: ("is undecided", "are undecided"),
}


def compose_sentence(
    counts: Mapping[str, int],
    noun: str,
    details: Mapping[str, str],
    names: Mapping[str, Sequence[str]] | None = None,
    lead: str = "",
    closing: str = "",
) -> str:
    """Compose a sentence with a clause for each verdict, in the order of `VERBS`.

    Parameters
    ----------
    counts : dict of str to int
        Number of items with each verdict.
    noun : str
        The noun for an item, in the singular, which may be followed by a remark in parentheses.
    details : dict of str to str
        By verdict, text after the predicate.
    names : dict of str to sequence of str, optional
        By verdict, names of the items.
    lead, closing : str, optional
        Text before the first clause, and a last clause.

    Returns
    -------
    str
    """
    place = {verdict: i for i, verdict in enumerate(VERBS)}
    total, things = sum(counts.values()), f"{noun}s"
    if " (" in noun:
        things = noun.replace(" (", "s (", 1)
    clauses, of = [], f" of {total:,} {things}"
    for verdict, count in sorted(counts.items(), key=lambda item: place[item[0]]):
        own = () if names is None else names[verdict]
        if 0 < len(own) <= NAMED:
            subject = join_with_and(own)
        elif count == total:
            whole = {1: f"the only {noun}", 2: f"both {things}"}
            subject = whole.get(count, f"all {total:,} {things}")
        else:
            subject, of = f"{count:,}{of}", ""  # the total is mentioned once
        clauses.append(f"{subject} {VERBS[verdict][count > 1]}{details.get(verdict, '')}")
    text = f"{lead}{'; '.join([*clauses, *([closing] if closing else [])])}."
    if names is not None and len(text) > MOST:
        return compose_sentence(counts, noun, details, None, lead, closing)
    is_name = names is not None and any(text.startswith(tuple(own)) for own in names.values())
    return text if lead or is_name else text[0].upper() + text[1:]


def _sentence_of_rows(
    rows: Sequence[Any],
    verdict_of: Callable[[Any], str],
    details_of: Callable[[str, list[Any]], str] = lambda verdict, rows: "",
    lead: str = "",
    closing: str = "",
) -> str:
    """Compose a sentence about rows: about integrators if each has one row, else about cases."""
    groups: dict[str, list[Any]] = {}
    for row in rows:
        groups.setdefault(verdict_of(row), []).append(row)
    labels = list(dict.fromkeys(row.integrator for row in rows))
    one_each = len(labels) == len(rows)
    of = labels[0] if len(labels) == 1 else f"{len(labels)} integrators"
    return compose_sentence(
        {verdict: len(own) for verdict, own in groups.items()},
        "integrator" if one_each else f"case ({of})",
        {verdict: details_of(verdict, own) for verdict, own in groups.items()},
        {v: [row.integrator for row in own] for v, own in groups.items()} if one_each else None,
        lead,
        closing,
    )


def rows_by_quantity(rows: Iterable[Any]) -> dict[str, list[Any]]:
    """Group rows by quantity, in order of appearance."""
    return grouped(rows, lambda row: str(row.quantity))


def summarize_orders(rows: Sequence[Any], adaptive: Sequence[Any] = ()) -> list[str]:
    """Say which integrators have their declared order.

    Parameters
    ----------
    rows : sequence of OrderEstimate
    adaptive : sequence of ToleranceEstimate, optional
        Rows of integrators without an order, which get a sentence of their own.

    Returns
    -------
    list of str
    """
    found = [_sentence_of_rows(rows, _order_verdict, _order_details)] if rows else []
    there = [row for row in adaptive if row.starts and math.isfinite(row.value)]
    if there:
        best = min(there, key=lambda row: row.value)
        names = len({row.integrator for row in there})
        least = "error" if len(there) == 1 else "smallest error"
        of = f" of {names} adaptive integrators" if names > 1 else ""
        found.append(
            f"The {least}{of} is {best.value:.1e}, that of {best.integrator} at tolerance "
            f"{format_number(best.tolerance)}."
        )
    return found


def _order_verdict(row: Any) -> str:
    """The verdict; `EXACT` if it is confirmed without a measured order."""
    return EXACT if row.verdict == CONFIRMED and math.isnan(row.order) else row.verdict


def _order_details(verdict: str, rows: list[Any]) -> str:
    if len(rows) == 1 and verdict == CONFIRMED:
        return f", {format_number(rows[0].declared)}"
    if len(rows) == 1 and verdict == REFUTED:
        return f", {rows[0].order:.2f} instead of {format_number(rows[0].declared)}"
    if verdict != UNDECIDED:
        return ""
    causes = "; ".join(dict.fromkeys(row.cause for row in rows))
    helped = sum(bool(row.further_sizes) for row in rows)
    of = "" if helped == len(rows) else f" {helped} of them"
    return f" ({causes}{f'; further step sizes may decide{of}' if helped else ''})"


def summarize_drifts(rows: Sequence[Any]) -> list[str]:
    """Say which integrators drift, and by which factor less than others, for each quantity.

    Parameters
    ----------
    rows : sequence of DriftEstimate

    Returns
    -------
    list of str
    """
    sentences = []
    for quantity, own in rows_by_quantity(rows).items():
        spans = {row.span for row in own}
        span = spans.pop() if len(spans) == 1 else ""
        over = f" {'until' if span.startswith('t = ') else 'over'} {span}" if span else ""
        lead = f"{_capitalized(quantity)}{over}: "
        sentences.append(
            _sentence_of_rows(own, _drift_verdict, _drift_details, lead, _largest_comparison(own))
        )
    return sentences


def _capitalized(name: str) -> str:
    return f"{name[:1].upper()}{name[1:].replace('_', ' ')}"


def _drift_verdict(row: Any) -> str:
    """The verdict; `FAILS` if most runs fail, whatever they do until then."""
    return FAILS if row.stopped else str(row.verdict)


def _drift_details(verdict: str, rows: list[Any]) -> str:
    if verdict == FAILS:
        complete = sum(row.starts - row.stopped for row in rows)
        first, last = (of(rows, key=lambda row: row.duration).span for of in (min, max))
        until = " to ".join(dict.fromkeys((first, last)))
        runs = count_with_noun(sum(row.starts + row.left_out for row in rows), "run")
        return f" ({complete or 'none'} of {runs} complete; judged until {until})"
    rates, most = {row.rate for row in rows}, max(row.bound for row in rows)
    if verdict != NONE or len(rates) > 1 or not all(math.isfinite(row.bound) for row in rows):
        return ""
    return f" above {most:.2g} {rates.pop()} (95 %)"


def _largest_comparison(rows: list[Any]) -> str:
    """The largest factor between drifts at equal step size, in words; empty if there is none."""
    closest = [next((one for one in row.compared if one.equal_step), None) for row in rows]
    found = [(one.times, i, one) for i, one in enumerate(closest) if one is not None]
    if not found:
        return ""
    *_, i, one = max(found, key=lambda each: each[:2])
    values = [f"{axis} = {format_number(value)}" for axis, value in rows[i].parameters.items()]
    at = f" and {join_with_and(values)}" if values else ""
    return f"{rows[i].integrator} drifts {one} at equal step size{at} (95 %)"


def summarize_sources(rows: Sequence[Any]) -> list[str]:
    """Say whether drifts come from the method or from rounding, for each quantity.

    Parameters
    ----------
    rows : sequence of ArithmeticEstimate

    Returns
    -------
    list of str
    """
    return [
        _sentence_of_rows(own, lambda row: row.source, lead=f"{_capitalized(quantity)}: ")
        for quantity, own in rows_by_quantity(rows).items()
    ]


def summarize_structure(rows: Sequence[Any]) -> list[str]:
    """Say whether steps are symplectic.

    Parameters
    ----------
    rows : sequence of StructureEstimate

    Returns
    -------
    list of str
        Empty if no row has a recorded defect.
    """
    judged = [row for row in rows if row.verdict]
    return [_sentence_of_rows(judged, lambda row: row.verdict)] if judged else []


def summarize_chaos(rows: Sequence[ChaosEstimate]) -> list[str]:
    """Say how many runs are chaotic, and with which exponents.

    Parameters
    ----------
    rows : sequence of ChaosEstimate

    Returns
    -------
    list of str
    """
    details = {
        "chaotic": _exponents_in_words(rows),
        "no chaos seen": _hidden_exponents_in_words(rows),
        UNDECIDED: "",
    }
    counts = {verdict: sum(row.counts.get(verdict, 0) for row in rows) for verdict in details}
    counts = {verdict: count for verdict, count in counts.items() if count}
    if counts:
        return [compose_sentence(counts, "run", details)]
    why = "MEGNO is not recorded" if any(row.starts for row in rows) else "no run is complete"
    return [f"Order and chaos cannot be judged: {why}."]


def _exponents_in_words(rows: Sequence[ChaosEstimate]) -> str:
    """The range of the largest exponents of the chaotic runs."""
    there = [row for row in rows if row.chaotic]
    units = {row.units for row in there}
    if len(units) != 1 or any(math.isnan(row.chaotic_exponents.low) for row in there):
        return ""
    low = format_number(min(row.chaotic_exponents.low for row in there))
    high = format_number(max(row.chaotic_exponents.high for row in there))
    unit = "" if units == {"1"} else f" {next(iter(units))}"
    size = f"exponents of {low} – {high}" if low != high else f"an exponent of {low}"
    return f", with {size}{unit}"


def _hidden_exponents_in_words(rows: Sequence[ChaosEstimate]) -> str:
    there = [row for row in rows if row.regular]
    if len(units := {row.units for row in there}) != 1:
        return ""
    unit = "" if units == {"1"} else f" {next(iter(units))}"
    where = "" if all(row.regular == row.starts for row in rows) else " in them"
    return f" (exponents below {max(row.hidden for row in there):.2g}{unit} could hide{where})"


# By measure of work: predicate of the cheapest integrator, the same in the plural, comparative.
NEEDS = {
    "steps": ("needs the fewest steps", "need equally few steps", "fewer"),
    "evaluations": ("needs the fewest evaluations", "need equally few evaluations", "fewer"),
    "cpu_time": ("takes the least CPU time", "take equally little CPU time", "less"),
}


def summarize_work(rows: Sequence[Any], against: str = "evaluations") -> list[str]:
    """Name the cheapest integrator for the smallest error at which others were measured too.

    Parameters
    ----------
    rows : sequence of WorkEstimate
        The sentence is about the first error in the rows.
    against : {"steps", "evaluations", "cpu_time"}, optional

    Returns
    -------
    list of str
    """
    first = [row for row in rows if row.error == rows[0].error]
    settings = grouped(first, lambda row: axis_values_in_words(row.parameters))
    found = [_smallest_compared_level(rank_at_levels(own, against)) for own in settings.values()]
    least = NEEDS[against][0]
    if not any(reached for _, reached in found):
        why = "no error lies between measured errors of several integrators"
        return [f"It is not known which integrator {least}: {why}."]
    if len(found) == 1:
        return [_cheapest_in_words(*found[0], rows[0], against)]
    wins = Counter(
        f"{reached[0].integrator} in"
        if reached and len(_equally_cheap(reached)) == 1
        else "not known in"
        for _, reached in found
    )
    first = wins.most_common(NAMED)
    others = wins.total() - sum(count for _, count in first)
    parts = [f"{name} {count:,}" for name, count in (*first, ("others in", others)) if count]
    return [
        f"Which integrator {least} for small errors, in {len(settings):,} combinations of "
        f"scanned values: {', '.join(parts)}."
    ]


def _smallest_compared_level(
    levels: Sequence[tuple[float, list[LeastWork]]],
) -> tuple[float, list[LeastWork]]:
    """The smallest error for which not only the cheapest integrator was measured on both sides."""
    compared = [one for one in levels if any(each.interpolated for each in one[1][1:])]
    return min(compared, key=lambda one: one[0], default=(math.nan, []))


def _equally_cheap(reached: Sequence[LeastWork]) -> list[str]:
    """Integrators whose work cannot be distinguished from the least work.

    If that is interpolated, it is not exact.
    """
    first = reached[0]
    most = max(first.work_high, NEAR * first.work if first.interpolated else 0.0)
    return [one.integrator for one in reached if one.work <= most]


def _cheapest_in_words(level: float, reached: list[LeastWork], row: Any, against: str) -> str:
    least, equally, less = NEEDS[against]
    first, names = reached[0], _equally_cheap(reached)
    said = f"{names[0]} {least}"
    if len(names) > 1:
        many = names if len(names) <= NAMED else [*names[: NAMED - 1], f"{len(names) - 2} more"]
        said = f"{join_with_and(many)} {equally}"
    dearer = [one for one in reached if one.integrator not in names and one.interpolated]
    if dearer:
        ratio = dearer[0].work / first.work_high
        size = f"{ratio:.2g} times" if ratio >= 1.1 else f"{100 * (1 - 1 / ratio):.0f} %"
        bound = "" if first.interpolated else "at least "
        said += f", {bound}{size} {less} than {dearer[0].integrator}"
    units = "" if row.units == "1" else f" {row.units}"
    error = row.error.removesuffix("_error").replace("_", " ")
    return f"For {error} errors of {level:.0e}{units} {said}."
