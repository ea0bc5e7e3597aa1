"""`sweep failures`: which runs failed, why, where and what they share; which references ended."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from sweep.cli.common import (
    echo_json,
    experiment_option,
    json_option,
    rows_as_text,
    store_argument,
)
from sweep.store.failures import (
    EarlyReference,
    failed_runs,
    references_that_end_early,
    values_shared_by_failed_runs,
)
from sweep.text import escape_control_characters, format_number

SHOWN = 40


@click.command("failures")
@store_argument
@experiment_option
@click.option("--all", "everything", is_flag=True, help=f"List all, not only the first {SHOWN}.")
@json_option
def command(store: str, experiment: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """Say which runs of STORE failed: why, at which step and time, and what they share.

    What they share are values of an axis, each with how many of the runs that have it failed.
    Also which references end before their last sample: from which start, at what time, why, and
    what would help.

    \b
    Example:
      sweep failures quickstart.zarr
      sweep failures quickstart.zarr -e pendulum --json
    """
    rows, shared = failed_runs(store, experiment), values_shared_by_failed_runs(store, experiment)
    early = references_that_end_early(store, experiment)
    if as_json:
        echo_json(
            {
                "shared": [{**vars(values), "text": str(values)} for values in shared],
                "failures": rows,
                "references": [_early_reference_as_dict(reference) for reference in early],
            }
        )
        return
    if not rows:
        click.echo("No run failed.")
    for sentence in (*shared, *(early if everything else early[:SHOWN])):
        click.echo(escape_control_characters(sentence))
    if len(early) > SHOWN and not everything:
        click.echo(f"… and {len(early) - SHOWN:,} more references; --all lists them")
    for name in dict.fromkeys(row["experiment"] for row in rows):
        failed = [row for row in rows if row["experiment"] == name]
        click.echo(f"\n{name}\n{_failures_as_table(failed if everything else failed[:SHOWN])}")
        if len(failed) > SHOWN and not everything:
            click.echo(f"… and {len(failed) - SHOWN:,} more; --all lists them")


def _early_reference_as_dict(early: EarlyReference) -> dict[str, Any]:
    end = vars(early.end)
    return {**vars(early), "end": {**end, "text": str(early.end)}, "text": str(early)}


def _failures_as_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a table, without columns that are empty in all of them."""
    shown = [{key: format_number(value, 5) for key, value in row.items()} for row in rows]
    wanted = [
        key for key in shown[0] if key != "experiment" and {row[key] for row in shown} - {"–", ""}
    ]
    return rows_as_text([{key.replace("_", " "): row[key] for key in wanted} for row in shown])
