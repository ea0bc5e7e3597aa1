"""`sweep verify`: check a store for damage, or repair it."""

import collections
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import sweep
from sweep.cli.main import DOES_NOT_HOLD
from sweep.cli.options import command
from sweep.cli.output import echo_json
from sweep.cli.progress_line import ProgressLine
from sweep.store.lease.lease import lease_holder_of_store
from sweep.store.store import Store
from sweep.store.upkeep import COPY, FOREIGN, GONE, REMOVE, RUN, STUDY
from sweep.store.upkeep.verify import Finding
from sweep.text import count_with_noun, format_table

if TYPE_CHECKING:
    from sweep.store.files import RowNumbers

SHOWN = 20
REPAIRS = {  # what a repair does with findings, by their remedy; `RUN` is printed by experiment
    STUDY: "would be written again from the study",
    COPY: "would be restored from the store's copy",
    REMOVE: "would be removed",
    FOREIGN: "would be left; move them away by hand",
}


@command
def verify(store: str, repair: bool, trust_plugins: bool, as_json: bool) -> None:
    """Read every chunk of STORE, and check that all committed results are present and undamaged.

    With --repair, runs with damaged results are marked as not computed, so that `sweep run`
    computes them again. Coordinates and initial states are written again from the study that the
    store keeps, with its plugins. Exit code 3: damage was found.

    \b
    Example:
      sweep verify quickstart.zarr
      sweep verify quickstart.zarr --repair

    Options:
      --repair  Mark damaged runs to compute them again, and remove leftover files.
    """
    if trust_plugins and not repair:
        raise click.UsageError("--trust-plugins needs --repair: reading a store runs no plugins")

    opened = Store.at(store)
    marked: Mapping[str, int] = {}
    findings: Sequence[Finding]
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
                click.echo(f"{opened} is being written by {writer}", err=True)
            findings = sweep.verify(opened, show, writer)
    facts: dict[str, Any] = {
        "store": str(opened),
        "files": files,
        "sound": not findings,
        "findings": [_finding_facts(finding) for finding in findings],
        "marked": marked,
        "left": len(left),
    }
    if as_json:
        echo_json(facts)
    elif not findings:
        click.echo(f"{opened} is sound: {files:,} files read.")
    else:
        _print_findings(opened, files, facts["findings"])
        done = _what_was_repaired(opened, findings, marked, left)
        click.echo("\n".join(done if repair else _what_repair_would_do(opened, findings)))
    if findings:
        sys.exit(DOES_NOT_HOLD)


def _finding_facts(finding: Finding) -> dict[str, Any]:
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
    """First and last row of each contiguous range of ascending rows."""
    parts = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
    return [[int(part[0]), int(part[-1])] for part in parts if len(part)]


def _print_findings(store: Store, files: int, findings: Sequence[Mapping[str, Any]]) -> None:
    cells = []
    for finding in findings[:SHOWN]:
        rows = [str(a) if a == b else f"{a}–{b}" for a, b in finding["rows"]]
        cells.append(
            [
                finding["place"],
                finding["array"],
                "/".join(map(str, finding["chunk"])),
                finding["problem"],
                f"{finding['committed_runs']:,}" if finding["array"] else "",
                ", ".join(rows[:3]) + " …" * (len(rows) > 3),
            ]
        )
    headers = ["experiment", "array", "chunk", "problem", "runs", "rows"]
    click.echo(format_table(headers, cells, kept=["problem"]))
    if len(findings) > SHOWN:
        click.echo(f"… and {len(findings) - SHOWN:,} more; --json lists them")
    found, read = count_with_noun(len(findings), "finding"), count_with_noun(files, "file")
    click.echo(f"\n{store}: {found} in {read}")


def _what_repair_would_do(store: Store, findings: Sequence[Finding]) -> Iterator[str]:
    """Yield lines that say what a repair would do, and the command for it."""
    gone = [finding.place for finding in findings if finding.text == GONE]
    for place in gone:
        yield f"{place} would be removed from the store; `sweep run` would compute it anew"
    again: dict[str, set[int]] = collections.defaultdict(set)
    for finding in findings:
        if finding.remedy == RUN and len(finding.rows):
            again[finding.place].update(finding.rows.tolist())
    for place, rows in again.items():
        what = "references" if place.startswith("_") else "runs"
        yield f"{place}: {len(rows):,} {what} would be computed again"
    count = collections.Counter(finding.remedy for finding in findings)
    count[REMOVE] -= len(gone)
    yield from (f"{count[of]:,} {what}" for of, what in REPAIRS.items() if count[of] > 0)
    if any(finding.remedy != FOREIGN for finding in findings):
        yield f"To mend it: {shlex.join(['sweep', 'verify', str(store), '--repair'])}"


def _what_was_repaired(
    store: Store, findings: Sequence[Finding], marked: Mapping[str, int], left: Sequence[Finding]
) -> Iterator[str]:
    """Yield lines that say which runs were marked as not computed, and what was not repaired."""
    runs = {place: count for place, count in marked.items() if not place.startswith("_")}
    for place, count in runs.items():
        yield f"{place}: {count:,} runs are marked as not computed"
    for place, count in marked.items():
        if place not in runs and count:
            yield f"{place}: {count:,} references will be computed when a run needs them"
    foreign = [finding for finding in left if finding.remedy == FOREIGN]
    broken = [finding for finding in left if finding.remedy != FOREIGN]
    for said, some in (
        ("could not be repaired", broken),
        ("left; move them away by hand", foreign),
    ):
        if some:
            yield f"{len(some):,} {said}:"
        for finding in some[:SHOWN]:
            where = "/".join(filter(None, (finding.place, finding.array)))
            yield f"  {where} {'/'.join(map(str, finding.chunk))} {finding.text}"
    if not broken:
        needed = runs or any(finding.text == GONE for finding in findings)
        again = f" To compute the runs: {shlex.join(['sweep', 'run', str(store)])}"
        yield f"All{' else' * bool(foreign)} is mended.{again * bool(needed)}"
