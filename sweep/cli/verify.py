"""`sweep verify`: is a store sound?"""

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import sweep
from sweep.cli.common import echo_json, json_option, store_argument, trust_option
from sweep.cli.main import DOES_NOT_HOLD
from sweep.cli.progress import ProgressLine
from sweep.store.lease.lease import lease_holder_of_store
from sweep.store.store import Store
from sweep.store.upkeep import COPY, FOREIGN, GONE, REMOVE, RUN, STUDY
from sweep.store.upkeep.verify import Finding
from sweep.text import count_with_noun, format_table

if TYPE_CHECKING:
    from sweep.store.files import RowNumbers

SHOWN = 20


@click.command("verify")
@store_argument
@click.option(
    "--repair",
    is_flag=True,
    help="Repair it: mark runs to compute again, remove what is left over.",
)
@trust_option
@json_option
def command(store: str, repair: bool, trust_plugins: bool, as_json: bool) -> None:
    """Read every chunk of STORE, and check that what is committed is there and sound.

    With --repair, runs whose results are damaged are marked as not computed, and `sweep run`
    computes only these again; coordinates and initial states are written again from the study
    that the store keeps, with its plugins. Exit code 3: something was found.

    \b
    Example:
      sweep verify quickstart.zarr
      sweep verify quickstart.zarr --repair
    """
    if trust_plugins and not repair:
        raise click.UsageError("--trust-plugins is of --repair: nothing is run to read a store")

    opened = Store.at(store)
    marked: Mapping[str, int] = {}
    left: Sequence[Finding] = ()
    files = 0
    with ProgressLine(only_on_terminal=True) as line:

        def show(done: int, total: int) -> None:
            nonlocal files
            files = total
            line.show("Reading", done / max(1, total))

        if repair:
            mended = sweep.repair(opened, trust_plugins, show)
            findings, marked, left = mended.findings, mended.marked, mended.left
        else:
            if (writer := lease_holder_of_store(opened)) is not None:
                click.echo(f"{opened} is written meanwhile, by {writer}", err=True)
            findings = sweep.verify(opened, show, writer)
    if as_json:
        echo_json(
            {
                "store": str(opened),
                "files": files,
                "sound": not findings,
                "findings": [_finding_as_dict(finding) for finding in findings],
                "marked": marked,
                "left": len(left),
            }
        )
    elif not findings:
        click.echo(f"{opened} is sound: {files:,} files read.")
    else:
        _print_findings(opened, files, findings)
        if repair:
            _print_repaired(opened, findings, marked, left)
        else:
            _print_what_repair_would_do(opened, findings)
    if findings:
        sys.exit(DOES_NOT_HOLD)


def _finding_as_dict(finding: Finding) -> dict[str, Any]:
    return {
        "place": finding.place,
        "array": finding.array,
        "chunk": list(finding.chunk),
        "problem": finding.text,
        "remedy": finding.remedy,
        "rows": _row_ranges(finding.rows),
        "committed_runs": finding.runs,
    }


def _row_ranges(rows: "RowNumbers") -> list[list[int]]:
    """Ascending rows as pairs of the first and the last of each contiguous range."""
    if not len(rows):
        return []

    parts = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
    return [[int(part[0]), int(part[-1])] for part in parts]


def _print_findings(store: Store, files: int, findings: Sequence[Finding]) -> None:
    headers = ["experiment", "array", "chunk", "problem", "runs", "rows"]
    rows = [_finding_cells(finding) for finding in findings[:SHOWN]]
    click.echo(format_table(headers, rows))
    if len(findings) > SHOWN:
        click.echo(f"… and {len(findings) - SHOWN:,} more; --json lists them")
    click.echo(
        f"\n{store}: {count_with_noun(len(findings), 'finding')} "
        f"in {count_with_noun(files, 'file')}"
    )


def _finding_cells(finding: Finding) -> list[str]:
    ranges = _row_ranges(finding.rows)
    rows = ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in ranges[:3])
    return [
        finding.place,
        finding.array,
        "/".join(map(str, finding.chunk)),
        finding.text,
        f"{finding.runs:,}" if finding.array else "",
        rows + (" …" if len(ranges) > 3 else ""),
    ]


def _print_what_repair_would_do(store: Store, findings: Sequence[Finding]) -> None:
    count = dict.fromkeys((RUN, STUDY, COPY, REMOVE, FOREIGN), 0)
    for finding in findings:
        count[finding.remedy] += 1
    gone = _experiments_that_are_gone(findings)
    for place in gone:
        click.echo(f"{place} would leave the store, and `sweep run` would compute it anew")
    for place, rows in _count_rows_to_rerun(findings).items():
        what = "references" if place.startswith("_") else "runs"
        click.echo(f"{place}: {rows:,} {what} would be computed again")
    if count[STUDY]:
        click.echo(f"{count[STUDY]:,} would be written again from the study")
    if count[COPY]:
        click.echo(f"{count[COPY]:,} would be put back from the store's copy")
    if count[REMOVE] > len(gone):
        click.echo(f"{count[REMOVE] - len(gone):,} would be removed")
    if count[FOREIGN]:
        click.echo(f"{count[FOREIGN]:,} would be left, to be moved away by hand")
    if any(finding.remedy != FOREIGN for finding in findings):
        click.echo(f"To mend it: {shlex.join(['sweep', 'verify', str(store), '--repair'])}")


def _count_rows_to_rerun(findings: Sequence[Finding]) -> dict[str, int]:
    """The number of damaged runs or references that must be computed again, by group."""
    rows: dict[str, set[int]] = {}
    for finding in findings:
        if finding.remedy == RUN and len(finding.rows):
            rows.setdefault(finding.place, set()).update(finding.rows.tolist())
    return {place: len(damaged) for place, damaged in rows.items()}


def _experiments_that_are_gone(findings: Sequence[Finding]) -> list[str]:
    return [finding.place for finding in findings if finding.text == GONE]


def _print_repaired(
    store: Store,
    findings: Sequence[Finding],
    marked: Mapping[str, int],
    left: Sequence[Finding],
) -> None:
    """Print which runs were marked as not computed, and what could not be repaired."""
    runs = {place: count for place, count in marked.items() if not place.startswith("_")}
    for place, count in runs.items():
        click.echo(f"{place}: {count:,} runs are marked as not computed")
    for place, count in marked.items():
        if place not in runs and count:
            click.echo(f"{place}: {count:,} references will be computed when a run needs them")
    foreign = [finding for finding in left if finding.remedy == FOREIGN]
    for said, some in (
        ("could not be mended", [finding for finding in left if finding.remedy != FOREIGN]),
        ("left, to be moved away by hand", foreign),
    ):
        if some:
            click.echo(f"{len(some):,} {said}:")
        for finding in some[:SHOWN]:
            where = "/".join(filter(None, (finding.place, finding.array)))
            click.echo(f"  {where} {'/'.join(map(str, finding.chunk))} {finding.text}")
    if len(left) == len(foreign):
        again = f" To compute the runs: {shlex.join(['sweep', 'run', str(store)])}"
        needed = runs or _experiments_that_are_gone(findings)
        rest = " else" * bool(foreign)
        click.echo(f"All{rest} is mended.{again if needed else ''}")
