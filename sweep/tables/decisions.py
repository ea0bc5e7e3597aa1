"""Verdicts that were open, before and after runs were added to decide them: a table."""

from typing import TYPE_CHECKING

from sweep.tables.base import Table, scanned_axes_of_rows
from sweep.text import count_with_noun, format_duration, format_number

if TYPE_CHECKING:
    from sweep.campaign.decide import Decisions


def decisions_as_table(decisions: "Decisions", proposed: bool = False) -> Table:
    """A table of the verdicts that were open; below it why some still are, and the CPU time used.

    Parameters
    ----------
    decisions : sweep.campaign.decide.Decisions
    proposed : bool, optional
        Show what would be added and its expected CPU time: of a dry run.
    """
    rows, axes = decisions.rows, scanned_axes_of_rows(decisions.rows)
    headers = ["experiment", "integrator", *axes, "verdict on"]
    headers += ["now", "would be added", "CPU time"] if proposed else ["before", "after", "added"]
    headers += [] if proposed else ["CPU time"]
    cells = [
        [
            row.experiment,
            row.integrator,
            *(format_number(row.parameters.get(axis, "")) for axis in axes),
            row.subject,
            row.before,
            *([] if proposed else [row.after]),
            "; ".join(row.added) or "–",
            "–" if row.seconds != row.seconds else format_duration(row.seconds),
        ]
        for row in rows
    ]
    notes = [
        f"{row.experiment}, {row.subject} of {row.integrator}: {row.why}" for row in rows if row.why
    ]
    return Table(headers, cells, "", [*notes, decisions_in_words(decisions, proposed)])


def decisions_in_words(decisions: "Decisions", proposed: bool = False) -> str:
    """How many verdicts were open and are decided, and the CPU time used.

    Parameters
    ----------
    decisions : sweep.campaign.decide.Decisions
    proposed : bool, optional
        Say what would be added and its expected CPU time: of a dry run.
    """
    every = count_with_noun(decisions.verdicts, "verdict")
    if not decisions.rows:
        return f"None of {every} is open."
    took = format_duration(decisions.cpu_seconds)
    if proposed:
        chosen = sum(bool(row.added) for row in decisions.rows)
        return (
            f"{decisions.opened} of {every} are open; for {chosen} of them runs would be added, of "
            f"about {took} of CPU time. Nothing was run."
        )
    more = count_with_noun(decisions.runs, "more run")
    left = f" {decisions.left} are left: {decisions.stopped}." if decisions.left else ""
    return (
        f"{decisions.opened} of {every} were open, and {decisions.decided} of these are decided "
        f"now: by {more} and {took} of CPU time.{left}"
    )
