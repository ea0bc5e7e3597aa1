"""Table of open verdicts, before and after runs were added to decide them."""

from math import isnan
from typing import TYPE_CHECKING

from sweep.tables.base import Column, Table, setting_columns, table_of_rows
from sweep.text import count_with_noun, format_duration

if TYPE_CHECKING:
    from sweep.campaign.decide import Decisions

ESTIMATE = "estimated CPU time"


def decisions_as_table(decisions: "Decisions") -> Table:
    """A table of the verdicts that were open, with notes on why some still are, and the CPU time.

    After a dry run it shows what would be added, and its expected CPU time.
    """
    proposed = decisions.proposed
    columns: list[Column] = [
        ("experiment", lambda row: row.experiment),
        *setting_columns(decisions.rows),
        ("verdict on", lambda row: row.subject),
        ("now" if proposed else "before", lambda row: row.before),
        *([] if proposed else [("after", lambda row: row.after)]),
        ("would be added" if proposed else "added", lambda row: "; ".join(row.added) or "–"),
        (ESTIMATE, lambda row: "–" if isnan(row.seconds) else format_duration(row.seconds)),
    ]
    rows = decisions.rows
    notes = [
        f"{row.experiment}, {row.subject} of {row.integrator}: {row.why}" for row in rows if row.why
    ]
    notes.append(decisions_in_words(decisions))
    kept = ("now", "before", "after", "would be added", ESTIMATE)
    return table_of_rows(rows, columns, kept, notes=notes)


def decisions_in_words(decisions: "Decisions") -> str:
    """Say how many verdicts were open, how many were decided, and the CPU time that it took.

    After a dry run it says for how many runs would be added, and the expected CPU time.
    """
    every = count_with_noun(decisions.verdicts, "verdict")
    if not decisions.rows:
        return f"None of {every} is open."
    took = format_duration(decisions.cpu_seconds)
    if decisions.proposed:
        chosen = sum(bool(row.added) for row in decisions.rows)
        return (
            f"{decisions.opened} of {every} {_are(decisions.opened)} open; for {chosen} of them "
            f"runs would be added or continued, in about {took} of CPU time. Nothing was run."
        )
    done = [count_with_noun(decisions.runs, "more run")] if decisions.runs else []
    if decisions.continued:
        done.append(f"continuing {count_with_noun(decisions.continued, 'run')}")
    by = f": by {' and '.join(done)}" if done else ""
    by += f", in {took} of CPU time." if decisions.cpu_seconds > 0 else "."
    left = f" {decisions.left} {_are(decisions.left)} left: {decisions.stopped}."
    return (
        f"{decisions.opened} of {every} {'was' if decisions.opened == 1 else 'were'} open, and "
        f"{decisions.decided} of these {_are(decisions.decided)} decided now{by}"
        f"{left if decisions.left else ''}"
    )


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
