"""Verdicts that were open, and what runs that were added have decided: a table."""

from typing import TYPE_CHECKING

from sweep.tables.base import Table, scanned_axes_of_rows
from sweep.text import count_with_noun, format_duration, format_number

if TYPE_CHECKING:
    from sweep.campaign.decide.decide import Decision, Decisions


def decisions_as_table(decisions: "Decisions", proposed: bool = False) -> Table:
    """A table of the verdicts that were open; below it why some still are, and the CPU time used.

    Parameters
    ----------
    decisions : sweep.campaign.decide.decide.Decisions
    proposed : bool, optional
        Show what would be added and its expected CPU time: of a dry run.
    """
    rows, axes = decisions.rows, scanned_axes_of_rows(decisions.rows)
    headers = ["experiment", "integrator", *axes, "verdict on"]
    headers += ["would be added", "CPU time"] if proposed else ["now", "found", "added"]
    cells = [
        [
            row.experiment,
            row.integrator,
            *(format_number(row.parameters.get(axis, "")) for axis in axes),
            row.subject,
            *(_proposal_cells(row) if proposed else _result_cells(row)),
        ]
        for row in rows
    ]
    notes = [
        f"{row.experiment}, {row.subject} of {row.integrator}: {row.why}" for row in rows if row.why
    ]
    return Table(headers, cells, "", [*notes, decisions_in_words(decisions, proposed)])


def _proposal_cells(row: "Decision") -> tuple[str, str]:
    price = "–" if row.seconds != row.seconds else format_duration(row.seconds)
    return "; ".join(row.added) or "–", price


def _result_cells(row: "Decision") -> tuple[str, str, str]:
    return "open" if row.open else row.after, row.found, "; ".join(row.added) or "–"


def decisions_in_words(decisions: "Decisions", proposed: bool = False) -> str:
    """How many verdicts were open and are decided, the CPU time used, and the confidence.

    Parameters
    ----------
    decisions : sweep.campaign.decide.decide.Decisions
    proposed : bool, optional
        Say what would be added and its expected CPU time: of a dry run.
    """
    opened = count_with_noun(decisions.verdicts, "verdict")
    if not decisions.rows:
        return f"None of {opened} is open."
    if proposed:
        chosen = [row for row in decisions.rows if row.added]
        price = sum(row.seconds for row in chosen)
        return (
            f"{_rows_in_words(decisions, opened)}; for {len(chosen)} of them runs would be "
            f"added, of about {format_duration(price)} of CPU time. Nothing was run."
        )
    many = count_with_noun(decisions.runs, "more run")
    took = format_duration(decisions.cpu_seconds)
    words = [
        f"{decisions.opened} of {opened} were open, and {decisions.decided} of these are "
        f"decided now: by {many} and {took} of CPU time."
    ]
    if decisions.left:
        words.append(f"{decisions.left} are left: {decisions.stopped}.")
    loose = [row for row in decisions.rows if not row.opened]
    if loose:
        closer = sum(row.after != row.before for row in loose)
        words.append(f"Of {len(loose)} that grew or wandered by no law {closer} have another one.")
    if decisions.looks:
        words.append(
            f"After {count_with_noun(decisions.looks, 'look')} more an order that was open is "
            f"decided by an interval {decisions.wider:.2f} times as wide as at 95 %, so that 95 % "
            "hold for all these looks together; tests of drifts hold with "
            f"{100 * decisions.sure:.1f} %."
        )
    return " ".join(words)


def _rows_in_words(decisions: "Decisions", of: str) -> str:
    loose = len(decisions.rows) - decisions.opened
    more = f", and {loose} grow or wander by no law" if loose else ""
    return f"{decisions.opened} of {of} are open{more}"
