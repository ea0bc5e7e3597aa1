"""`sweep verify`: is a store sound?"""

import shlex
import sys

import click
import numpy as np

import sweep
from sweep.cli.common import echo_json, json_option, progress_bar, store_argument, trust_option
from sweep.cli.main import DOES_NOT_HOLD
from sweep.store.lease.lease import lease_holder_of_store
from sweep.store.store import Store
from sweep.store.upkeep import COPY, GONE, NOTHING, REMOVE, RUN, STUDY
from sweep.text import count_with_noun, format_table

SHOWN = 20


@click.command("verify")
@store_argument
@click.option("--repair", is_flag=True, help="Mend it: mark what must run again, remove strays.")
@trust_option
@json_option
def command(store, repair, trust_plugins, as_json):
    """Read every chunk of STORE, and compare what is committed with what is there.

    With --repair, runs whose results are damaged are marked as not computed, and `sweep run`
    computes just them again; coordinates and initial states are written again from the study
    that the store keeps, with its plugins. Exit code 3: something was found.

    \b
    Example:
      sweep verify quickstart.zarr
      sweep verify quickstart.zarr --repair
    """
    if trust_plugins and not repair:
        raise click.UsageError("--trust-plugins is of --repair: nothing is run to read a store")

    store = Store.at(store)
    with _Bar() as bar:
        if repair:
            mended = sweep.repair(store, trust_plugins, bar.progress)
            findings, marked, left = mended.findings, mended.marked, mended.left
        else:
            if (writer := lease_holder_of_store(store)) is not None:
                click.echo(f"{store} is written meanwhile, by {writer}", err=True)
            findings, marked, left = sweep.verify(store, bar.progress, writer), {}, ()
    if as_json:
        echo_json(
            {
                "store": str(store),
                "files": bar.files,
                "sound": not findings,
                "findings": [_finding_as_dict(finding) for finding in findings],
                "marked": marked,
                "left": len(left),
            }
        )
    else:
        _print_findings(store, bar.files, findings, marked, left, repair)
    if findings:
        sys.exit(DOES_NOT_HOLD)


def _finding_as_dict(finding):
    return {
        "place": finding.place,
        "array": finding.array,
        "chunk": list(finding.chunk),
        "problem": finding.text,
        "remedy": finding.remedy,
        "rows": _row_ranges(finding.rows),
        "committed_runs": finding.runs,
    }


def _row_ranges(rows):
    """Rows as pairs of the first and the last of each stretch."""
    if not len(rows):
        return []

    parts = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
    return [[int(part[0]), int(part[-1])] for part in parts]


def _print_findings(store, files, findings, marked, left, repair):
    if not findings:
        click.echo(f"{store} is sound: {files:,} files read.")
        return

    headers = ["experiment", "array", "chunk", "problem", "runs", "rows"]
    rows = [_finding_cells(finding) for finding in findings[:SHOWN]]
    click.echo(format_table(headers, rows))
    if len(findings) > SHOWN:
        click.echo(f"… and {len(findings) - SHOWN:,} more; --json lists them")
    click.echo(
        f"\n{store}: {count_with_noun(len(findings), 'finding')} "
        f"in {count_with_noun(files, 'file')}"
    )
    (_print_repaired if repair else _print_repair_remedies)(store, findings, marked, left)


def _finding_cells(finding):
    stretches = _row_ranges(finding.rows)
    rows = ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in stretches[:3])
    return [
        finding.place,
        finding.array,
        "/".join(map(str, finding.chunk)),
        finding.text,
        f"{finding.runs:,}" if finding.array else "",
        rows + (" …" if len(stretches) > 3 else ""),
    ]


def _print_repair_remedies(store, findings, marked, left):
    """What --repair would do."""
    count = dict.fromkeys((RUN, STUDY, COPY, REMOVE, NOTHING), 0)
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
    if count[NOTHING]:
        click.echo(f"{count[NOTHING]:,} cannot be mended: restore the store from a copy")
    click.echo(f"To mend it: sweep verify {store} --repair")


def _count_rows_to_rerun(findings):
    rows = {}
    for finding in findings:
        if finding.remedy == RUN and len(finding.rows):
            rows.setdefault(finding.place, set()).update(finding.rows.tolist())
    return {place: len(mine) for place, mine in rows.items()}


def _experiments_that_are_gone(findings):
    return [finding.place for finding in findings if finding.text == GONE]


def _print_repaired(store, findings, marked, left):
    runs = {place: count for place, count in marked.items() if not place.startswith("_")}
    for place, count in runs.items():
        click.echo(f"{place}: {count:,} runs are marked as not computed")
    for place, count in marked.items():
        if place not in runs and count:
            click.echo(f"{place}: {count:,} references will be computed when a run needs them")
    if left:
        click.echo(f"{len(left):,} could not be mended:")
        for finding in left[:SHOWN]:
            where = "/".join(filter(None, (finding.place, finding.array)))
            click.echo(f"  {where} {'/'.join(map(str, finding.chunk))} {finding.text}")
    else:
        again = f" To compute the runs: {shlex.join(['sweep', 'run', str(store)])}"
        needed = runs or _experiments_that_are_gone(findings)
        click.echo(f"All is mended.{again if needed else ''}")


class _Bar:
    """A progress bar over files on a terminal."""

    def __init__(self):
        self.files = 0
        self._bar, self._done = None, 0

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._close_progress_bar()

    def _close_progress_bar(self):
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None

    def progress(self, done, of):
        """So many files are read, of so many."""
        if self._bar is None or done < self._done:
            self._close_progress_bar()
            self._done, self.files = 0, of
            self._bar = progress_bar(of, "Reading")
            self._bar.__enter__()
        self._bar.update(done - self._done)
        self._done = done
