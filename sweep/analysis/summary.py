"""Summaries of answers in a sentence of at most `MOST` characters.

Each clause is about the rows with one verdict: how many there are, which, and the number that
matters. Nothing is said that no row says; what is undecided is counted, with what would decide it.
Where names make a sentence too long, it counts; the table below it has them.

>>> summarize_orders(order_table(tree["pendulum"]))
['All 9 integrators have their declared order.']
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sweep.analysis.chaos import ChaosEstimate
from sweep.analysis.convergence.order_verdicts import CONFIRMED, EXACT, REFUTED
from sweep.analysis.drift.verdicts import AT_ROUND_OFF, LINEAR, NONE, UNDECIDED, WALK, WORSE
from sweep.analysis.efficiency.pareto import ReachedLevel, rank_at_levels
from sweep.analysis.reasons import deciders_in_words
from sweep.analysis.runs.selection import axis_values_in_words
from sweep.text import format_number, join_with_and

MOST = 200  # characters: two lines of 100
NAMED = 3  # integrators of a clause that are named; more are counted
# How talkative a sentence is: so many names, with which numbers, and whether with its closing.
ALL, OPEN, NO = "all", "what would decide", "none"
FORMS = (
    (NAMED, ALL, True), (1, ALL, True), (0, ALL, True), (NAMED, ALL, False), (0, ALL, False),
    (0, OPEN, False), (0, NO, False),
)  # fmt: skip

# Verb of each verdict in the singular and the plural. Other verdicts are quoted.
VERBS = {
    # orders
    CONFIRMED: ("has its declared order", "have their declared order"),
    EXACT: ("is exact to round-off", "are exact to round-off"),
    REFUTED: ("has another order than it declares", "have another order than they declare"),
    # drifts, and what else grows; the worst first, as sentences have them
    WORSE: ("drifts faster than linearly", "drift faster than linearly"),
    LINEAR: ("drifts linearly", "drift linearly"),
    "grows": ("surely grows, by no law that is told", "surely grow, by no law that is told"),
    WALK: ("walks like √t", "walk like √t"),
    "wanders": ("wanders, and may be bounded or not", "wander, and may be bounded or not"),
    NONE: ("shows no drift", "show no drift"),
    AT_ROUND_OFF: ("stays at round-off", "stay at round-off"),
    # whose a drift is
    "method": ("drifts by itself", "drift by themselves"),
    "both": ("drifts by itself and by rounding", "drift by themselves and by rounding"),
    "rounding": ("drifts by rounding", "drift by rounding"),
    "neither": ("shows no drift of either kind", "show no drift of either kind"),
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


@dataclass(frozen=True)
class Group:
    """Integrators or runs with the same verdict.

    Attributes
    ----------
    verdict : str
        One of `VERBS`, or another one, which is quoted.
    count : int
    names : tuple of str
        Labels of integrators; empty where other things are counted.
    tail : str
        Text behind the verb, with a number.
    verb : str
        Replaces the verb of the verdict, unless empty.
    """

    verdict: str
    count: int
    names: tuple[str, ...] = ()
    tail: str = ""
    verb: str = ""

    def clause(self, everyone: "Everyone", named: int, numbers: str, first: bool) -> str:
        """``rk4 and cf4 drift linearly``, or ``4 of 9 integrators drift linearly``."""
        quoted = f"“{self.verdict}”"
        one, many = VERBS.get(self.verdict, (f"is judged {quoted}", f"are judged {quoted}"))
        verb = self.verb or (one if self.count == 1 else many)
        if 0 < len(self.names) <= named:
            subject = join_with_and(self.names)
        else:
            subject = everyone.count_in_words(self.count, first)
        tells = numbers == ALL or (numbers == OPEN and self.verdict == UNDECIDED)
        return f"{subject} {verb}{self.tail * tells}"


@dataclass(frozen=True)
class Everyone:
    """All cases of a sentence: their number, and what they are.

    Attributes
    ----------
    count : int
    noun : str
        Singular noun.
    of : str
        A remark behind the noun, such as ``(6 integrators)``.
    """

    count: int
    noun: str
    of: str = ""

    def count_in_words(self, count: int, first: bool) -> str:
        """``3 of 9 integrators``, or ``3`` after the first time."""
        of = f" {self.of}" if self.of else ""
        if count == self.count:
            every = {1: f"the only {self.noun}", 2: f"both {self.noun}s"}
            return f"{every.get(count, f'all {count:,} {self.noun}s')}{of}"
        return f"{count:,} of {self.count:,} {self.noun}s{of}" if first else f"{count:,}"


def compose_sentence(
    groups: Sequence[Group], everyone: Everyone, lead: str = "", closing: str = ""
) -> str:
    """The clauses of groups as a sentence, as talkative as fits `MOST` characters.

    Parameters
    ----------
    groups : sequence of Group
        Groups that together are everyone.
    everyone : Everyone
    lead, closing : str, optional
        Text before the first clause, and behind the last one.
    """
    for named, numbers, closes in FORMS:
        clauses, counted = [], False
        for group in groups:
            names = 0 < len(group.names) <= named
            clauses.append(group.clause(everyone, named, numbers, not counted))
            counted |= not names
        clauses += [closing] if closing and closes else []
        text = f"{lead}{'; '.join(clauses)}."
        if not lead and not 0 < len(groups[0].names) <= named:
            text = text[0].upper() + text[1:]
        if len(text) <= MOST:
            return text
    counts = ", ".join(f"{group.count:,} {group.verdict}" for group in groups)
    return f"{lead}of {everyone.count:,} {everyone.noun}s {counts}."


# --- rows of a table -------------------------------------------------------------------------


def _everyone_of_rows(rows: Sequence[Any]) -> Everyone:
    """Integrators where each has one row, else cases: an integrator at one step size and value."""
    names = list(dict.fromkeys(row.integrator for row in rows))
    if len(names) == len(rows):
        return Everyone(len(rows), "integrator")
    of = names[0] if len(names) == 1 else f"{len(names)} integrators"
    return Everyone(len(rows), "case", f"({of})")


def _groups_of_rows(
    rows: Sequence[Any],
    verdict_of: Callable[[Any], str],
    details_of: Callable[[str, list[Any]], dict[str, str]],
) -> list[Group]:
    """Rows by verdict, in the order of `VERBS`, with what `details_of` says of each group."""
    by_verdict: dict[str, list[Any]] = {}
    for row in rows:
        by_verdict.setdefault(verdict_of(row), []).append(row)
    own = len({row.integrator for row in rows}) == len(rows)
    place = {verdict: i for i, verdict in enumerate(VERBS)}
    return [
        Group(
            verdict,
            len(of),
            tuple(row.integrator for row in of) if own else (),
            **details_of(verdict, of),
        )
        for verdict, of in sorted(
            by_verdict.items(), key=lambda item: place.get(item[0], place[UNDECIDED] - 0.5)
        )
    ]


def _open_details(verdict: str, rows: list[Any]) -> dict[str, str]:
    return {"tail": f" ({deciders_in_words(rows)})"} if verdict == UNDECIDED else {}


def summarize_orders(rows: Sequence[Any], adaptive: Sequence[Any] = ()) -> list[str]:
    """Which integrators have their declared order.

    Parameters
    ----------
    rows : sequence of OrderEstimate
    adaptive : sequence of ToleranceEstimate, optional
        Of the integrators that have no order: a sentence of its own.

    Returns
    -------
    list of str
    """
    found = []
    if rows:
        groups = _groups_of_rows(rows, _order_group, _order_details)
        found.append(compose_sentence(groups, _everyone_of_rows(rows)))
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


def _order_group(row: Any) -> str:
    """The verdict, or `EXACT` of what is confirmed without an order."""
    return EXACT if row.verdict == CONFIRMED and math.isnan(row.order) else row.verdict


def _order_details(verdict: str, rows: list[Any]) -> dict[str, str]:
    if len(rows) == 1 and verdict == CONFIRMED:
        return {"tail": f", {format_number(rows[0].declared)}"}
    if len(rows) == 1 and verdict == REFUTED:
        row = rows[0]
        order = "" if row.declared == EXACT else "order "
        return {"verb": f"has order {row.order:.2f} and not {order}{format_number(row.declared)}"}
    if verdict != UNDECIDED:
        return {}
    causes = "; ".join(dict.fromkeys(row.cause for row in rows))
    helped = sum(bool(row.further_sizes) for row in rows)
    of = "" if helped == len(rows) else f" {helped} of them"
    would = f"; further step sizes may decide{of}" if helped else ""
    return {"tail": f" ({causes}{would})"}


def summarize_drifts(rows: Sequence[Any]) -> list[str]:
    """Which integrators drift, how, and by which factor less: a sentence for each quantity.

    Parameters
    ----------
    rows : sequence of DriftEstimate

    Returns
    -------
    list of str
    """
    return [
        compose_sentence(
            _groups_of_rows(of, lambda row: row.verdict, _drift_details),
            _everyone_of_rows(of),
            _lead_of_quantity(quantity, of),
            _largest_comparison(of),
        )
        for quantity, of in rows_by_quantity(rows).items()
    ]


def rows_by_quantity(rows: Iterable[Any]) -> dict[str, list[Any]]:
    """Rows of each quantity, in the order in which these come."""
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row.quantity, []).append(row)
    return found


def _lead_of_quantity(quantity: str, rows: list[Any]) -> str:
    """``Energy over 500 s:``, without the time where it is not the same of all."""
    name = quantity.replace("_", " ")
    spans = {row.span for row in rows}
    if len(spans) == 1:
        span = next(iter(spans))
        name += f" until {span}" if span.startswith("t = ") else f" over {span}"
    return f"{name[:1].upper()}{name[1:]}: "


def _drift_details(verdict: str, rows: list[Any]) -> dict[str, str]:
    if verdict == NONE and len(rates := {row.rate for row in rows}) == 1:
        most = max(row.bound for row in rows)  # NaN where one has none
        measured = all(math.isfinite(row.bound) for row in rows)
        return {"tail": f" above {most:.2g} {next(iter(rates))} (95 %)" * measured}
    return _open_details(verdict, rows)


def _largest_comparison(rows: list[Any]) -> str:
    """The largest factor between drifts at equal step size, in words; empty if none is sure."""
    found = [
        (one.times, i, row, one)
        for i, row in enumerate(rows)
        for one in [next((each for each in row.compared if each.equal_step), None)]
        if one is not None
    ]
    if not found:
        return ""
    *_, row, one = max(found)
    values = [f"{axis} = {format_number(value)}" for axis, value in row.parameters.items()]
    at = f" and {join_with_and(values)}" if values else ""
    return f"{row.integrator} drifts {one} at equal step size{at} (95 %)"


def summarize_growth(rows: Sequence[Any]) -> list[str]:
    """How errors grow over an ensemble: a sentence for each quantity.

    Parameters
    ----------
    rows : sequence of GrowthEstimate

    Returns
    -------
    list of str
    """
    return [
        compose_sentence(
            _groups_of_rows(of, lambda row: row.verdict, _open_details),
            _everyone_of_rows(of),
            f"Growth of the error in {quantity.replace('_', ' ')}: ",
        )
        for quantity, of in rows_by_quantity(rows).items()
    ]


def summarize_sources(rows: Sequence[Any]) -> list[str]:
    """Sources of drifts, method or rounding: a sentence for each quantity.

    Parameters
    ----------
    rows : sequence of ArithmeticEstimate

    Returns
    -------
    list of str
    """
    return [
        compose_sentence(
            _groups_of_rows(of, lambda row: row.source, lambda verdict, rows: {}),
            _everyone_of_rows(of),
            f"{quantity[:1].upper()}{quantity[1:].replace('_', ' ')}: ",
        )
        for quantity, of in rows_by_quantity(rows).items()
    ]


def summarize_structure(rows: Sequence[Any]) -> list[str]:
    """Whether steps are symplectic, of the rows that have recorded it.

    Parameters
    ----------
    rows : sequence of StructureEstimate

    Returns
    -------
    list of str
        Empty where no row has.
    """
    judged = [row for row in rows if row.verdict]
    if not judged:
        return []
    groups = _groups_of_rows(judged, lambda row: row.verdict, lambda verdict, rows: {})
    return [compose_sentence(groups, _everyone_of_rows(judged))]


# --- order and chaos: of runs ----------------------------------------------------------------


def summarize_chaos(rows: Sequence[ChaosEstimate]) -> list[str]:
    """How many runs are chaotic, with which exponents.

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
        UNDECIDED: _longer_runs_in_words(rows),
    }
    counts = {verdict: sum(row.counts.get(verdict, 0) for row in rows) for verdict in details}
    everyone = Everyone(sum(counts.values()), "run")
    if not everyone.count:
        runs = sum(row.starts for row in rows)
        why = "MEGNO is not recorded" if runs else "no run is complete"
        return [f"Nothing is told of order and chaos: {why}."]
    groups = [Group(v, count, tail=details[v]) for v, count in counts.items() if count]
    return [compose_sentence(groups, everyone)]


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


def _longer_runs_in_words(rows: Sequence[ChaosEstimate]) -> str:
    left = [row for row in rows if row.undecided]
    if left and all(row.stopped for row in left):
        return " (runs fail before it can be told)"
    left = [row for row in left if not row.stopped]
    if any(not row.halved for row in left):
        return " (4 sample intervals or more are needed)"
    times = {row.time_units for row in left}
    if len(times) != 1 or not all(math.isfinite(row.longer) for row in left):
        return " (longer runs would tell)"
    unit = "" if times == {"1"} else f" {next(iter(times))}"
    longest = max(row.telling for row in left)
    return f" (runs of {longest:g}{unit} would tell, if the exponents last)"


# --- work ------------------------------------------------------------------------------------

# Of each measure: verb of the cheapest, verb of several equally cheap ones, and comparative.
NEEDS = {
    "steps": ("needs the fewest steps", "need equally few steps", "fewer"),
    "evaluations": ("needs the fewest evaluations", "need equally few evaluations", "fewer"),
    "cpu_time": ("takes the least CPU time", "take equally little CPU time", "less"),
}


def summarize_work(rows: Sequence[Any], against: str = "evaluations") -> list[str]:
    """The integrator with the least work for the smallest error that can be compared.

    Parameters
    ----------
    rows : sequence of WorkEstimate
        The sentence is about the first error of these.
    against : {"steps", "evaluations", "cpu_time"}, optional

    Returns
    -------
    list of str
    """
    settings: dict[Any, list[Any]] = {}
    for row in rows:
        if row.error == rows[0].error:
            mine = settings.setdefault(axis_values_in_words(row.parameters), [])
            if row.starts and not row.failed and row.work_is_comparable(against):
                mine.append(row)
    ranked = [_smallest_compared_level(rank_at_levels(of, against)) for of in settings.values()]
    compared = [each for each in ranked if each is not None]
    if not compared:
        levels = [one for of in settings.values() for _, one in rank_at_levels(of, against)]
        why = "the reason stands below"
        if any(len(one) > 1 for one in levels):
            why = "no error is reached by several that were measured above and below it"
        elif levels:
            why = "no error is reached by more than one"
        return [f"It is not told which integrator {NEEDS[against][0]}: {why}."]
    if len(ranked) == 1:
        of = next(iter(settings.values()))
        return [_cheapest_in_words(*compared[0], rank_at_levels(of, against), rows[0], against)]
    first: dict[str, int] = {}
    for _, reached in compared:
        tied = _not_told_from_first(reached)
        name = reached[0].integrator if not tied else ""
        first[name] = first.get(name, 0) + 1
    return [_winners_in_words(first, len(ranked), len(compared), against)]


def _smallest_compared_level(
    levels: list[tuple[float, list[ReachedLevel]]],
) -> tuple[float, list[ReachedLevel]] | None:
    """The smallest error at which another family was measured beside the cheapest, or a method."""
    for others in (_levels_of_other_families, _levels_of_other_integrators):
        for level, reached in reversed(levels):
            if any(one.interpolated for one in others(reached)):
                return level, reached
    return None


def _levels_of_other_integrators(reached: list[ReachedLevel]) -> list[ReachedLevel]:
    return reached[1:]


def _levels_of_other_families(reached: list[ReachedLevel]) -> list[ReachedLevel]:
    return [one for one in reached if one.family != reached[0].family]


def _not_told_from_first(reached: list[ReachedLevel]) -> list[ReachedLevel]:
    """Those whose work cannot be told from the least."""
    return [one for one in reached[1:] if one.work <= reached[0].work_high]


def _cheapest_in_words(
    level: float,
    reached: list[ReachedLevel],
    levels: list[tuple[float, list[ReachedLevel]]],
    row: Any,
    against: str,
) -> str:
    least, equally, less = NEEDS[against]
    tied = _not_told_from_first(reached)
    names = [one.integrator for one in (reached[0], *tied)]
    if tied:
        within = 100 * (max(one.work_high for one in (reached[0], *tied)) / reached[0].work - 1)
        many = names if len(names) <= NAMED else [*names[: NAMED - 1], f"{len(names) - 2} more"]
        said = f"{join_with_and(many)} {equally}{f' within {within:.0f} %' if within else ''}"
    else:
        said = f"{names[0]} {least}"
    others = [one for one in _levels_of_other_families(reached) or reached if one.interpolated]
    surely = [one for one in others if one.integrator not in names]
    if surely:
        said += f", {_work_ratio_in_words(reached[0], surely[0], less)} than {surely[0].integrator}"
    units = "" if row.units == "1" else f" {row.units}"
    error = row.error.removesuffix("_error").replace("_", " ")
    text = f"For {error} errors of {level:.0e}{units} {said}"
    last, reaching = levels[-1]
    families = {one.family for one in reaching}
    if last < level and len(families) == 1 and _levels_of_other_families(reached):
        family = next(iter(families)).replace("_", " ")
        more = f"; of the families only {family} is seen to reach {last:.0e}{units}"
        text += more if len(text) + len(more) < MOST else ""
    return f"{text}."


def _work_ratio_in_words(first: ReachedLevel, other: ReachedLevel, less: str) -> str:
    """``1.8 times fewer``, or ``4 % fewer``; at least, where the least is a bound."""
    ratio = other.work / first.work_high
    size = f"{ratio:.2g} times" if ratio >= 1.1 else f"{100 * (1 - 1 / ratio):.0f} %"
    return f"{'' if first.interpolated else 'at least '}{size} {less}"


def _winners_in_words(first: dict[str, int], settings: int, compared: int, against: str) -> str:
    """How often each integrator is the cheapest over the combinations of scanned values."""
    names = sorted((name for name in first if name), key=lambda name: -first[name])
    parts = [f"{name} at {first[name]:,}" for name in names[:NAMED]]
    if len(names) > NAMED:
        parts.append(f"others at {sum(first[name] for name in names[NAMED:]):,}")
    left = first.get("", 0) + settings - compared
    parts += [f"it is not told at {left:,}"] if left else []
    lead = f"{NEEDS[against][0]} for small errors, of {settings:,} combinations of scanned values"
    return f"Who {lead}: {', '.join(parts)}."
