"""`sweep failures`: which runs failed, why and where, what they share; what else ended early."""

import click

from sweep.cli.common import echo_json, experiment_option, json_option, store_argument
from sweep.store.failures import (
    failed_runs,
    references_that_end_early,
    values_shared_by_failed_runs,
)
from sweep.text import escape_control_characters, format_number, format_table

SHOWN = 40


@click.command("failures")
@store_argument
@experiment_option
@click.option("--all", "everything", is_flag=True, help=f"List all, not the first {SHOWN}.")
@json_option
def command(store, experiment, everything, as_json):
    """Say which runs of STORE failed: why, at which step and time, and what they share.

    What they share are axis values that all of them have, and as few complete runs as can be. Also
    which references end before their last sample: of which start, at what time, why, and what
    would do.

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
                "shared": [_shared_cause_as_dict(one) for one in shared],
                "failures": rows,
                "references": [_early_reference_as_dict(one) for one in early],
            }
        )
        return
    if not rows:
        click.echo("No run failed.")
    for one in (*shared, *(early if everything else early[:SHOWN])):
        click.echo(escape_control_characters(one))
    if len(early) > SHOWN and not everything:
        click.echo(f"… and {len(early) - SHOWN:,} more references; --all lists them")
    for name in dict.fromkeys(row["experiment"] for row in rows):
        mine = [row for row in rows if row["experiment"] == name]
        click.echo(
            f"\n{name}\n{_without_uninformative_columns(mine if everything else mine[:SHOWN])}"
        )
        if len(mine) > SHOWN and not everything:
            click.echo(f"… and {len(mine) - SHOWN:,} more; --all lists them")


def _shared_cause_as_dict(shared):
    return {**vars(shared), "text": str(shared)}


def _early_reference_as_dict(early):
    end = vars(early.end)
    return {**vars(early), "end": {**end, "text": str(early.end)}, "text": str(early)}


def _without_uninformative_columns(rows):
    """The rows without the columns that say nothing here."""
    wanted = [
        name
        for name in rows[0]
        if name != "experiment" and any(format_number(row[name]) not in ("–", "") for row in rows)
    ]
    cells = [[format_number(row[name], 5) for name in wanted] for row in rows]
    return format_table([name.replace("_", " ") for name in wanted], cells)
