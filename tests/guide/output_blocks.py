"""The output blocks of README and the guide: made from what the commands print, and compared.

    python tests/guide/output_blocks.py                  compare all; exit code 1 if one is off
    python tests/guide/output_blocks.py lee chaos    compare these
    python tests/guide/output_blocks.py --write          write them anew

Every fenced block that begins with ```` ```text NAME ```` is the one of `BLOCKS` with that name. A
command that ends with another exit code than it should is a failure too.

What is shown is what the command prints, with the directory that it runs in as ``.``, and without
what an excerpt leaves out, where an ellipsis stands: some rows, what verdicts rest on, and of a
paper all but how many of its numbers are reproduced.

What is compared:

- Words and integers must be the same. Spaces and rules do not count, since columns are as wide as
  their cells.
- Other numbers may differ by one unit of their last printed digit, or by 1e-13: systems have sizes
  about 1, and round-off, which is not the same on all kinds of processors, moves them by so much.
- Numbers below 1e-12 are round-off: one may be ten times the other, of either sign, and those below
  1e-16 are all the same.
- Columns of `STATISTICS` are estimates from few starts: they may differ by three standard
  deviations.
- Times, and numbers of tasks and workers, depend on the machine, and are not compared (`MACHINE`).
"""

import argparse
import difflib
import itertools
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from documents import DOCUMENTS, FENCED, command_lines, fenced

SWEEP = Path(sys.executable).parent / "sweep"
DAMAGED = 3  # the exit code where something is found

# --- what is shown -------------------------------------------------------------------------------


def run(folder, *arguments, code=0):
    """What `sweep` prints in a directory, with that as ``.``.

    Parameters
    ----------
    folder : Path
    *arguments : str
    code : int, optional
        The exit code that it must end with.

    Raises
    ------
    SystemExit
        If it ends with another one.
    """
    done = called(folder, *arguments)
    if done.returncode != code:
        command = " ".join(("sweep", *arguments))
        raise SystemExit(
            f"{command} ended with exit code {done.returncode}, not {code}:\n"
            f"{done.stdout}{done.stderr}"
        )
    return done.stdout.replace(f"{folder}/", "./")


def called(folder, *arguments):
    """The process of a command that has ended, in a directory."""
    return subprocess.run([SWEEP, *arguments], cwd=folder, capture_output=True, text=True)


def _first_run(folder, name, *options):
    """What the first run of a packaged study printed, which left its store in the directory."""
    printed = folder / f"{name}.txt"
    if not printed.exists():
        printed.write_text(run(folder, "run", name, *options))
    return printed.read_text()


def _quickstart(folder):
    """The tables of pendulum, without the plan and the heading, in short."""
    rest = _first_run(folder, "quickstart").split("\npendulum: ", 1)[1]
    orders, drifts = rest[: rest.index("\n\n", rest.index("\nenergy error"))].split("\nEnergy over")
    shown = ("variational", "rk4")
    parts = (_with_rows(part, lambda row: row["integrator"] in shown) for part in (orders, drifts))
    return "\nEnergy over".join(parts).split("\n", 2)[2]


def _in_short(folder):
    """The sentences of pendulum, and the last line."""
    printed = _first_run(folder, "quickstart")
    orders = re.search(r"^All \d+ integrators .*$", printed, re.M)[0]
    drifts = re.search(r"^Energy over .*?\.$", printed, re.M | re.S)[0]
    end = printed.splitlines()[-1]
    return f"{orders}\n…\n{drifts}\n…\n{end}\n"


def _own_study(folder, *arguments):
    """What a command prints in a directory with the study that `sweep init` writes, and its run."""
    below = folder / "own"
    if not below.exists():
        below.mkdir()
        run(below, "init", "my-study.toml")
        run(below, "run", "my-study.toml", "--no-summary")
    return run(below, *arguments)


def _own_order(folder):
    """After the one change of the tutorial."""
    _own_study(folder, "extend", "my-study.zarr", "-e", "order", "--integrator", "rkmk4")
    return _own_study(folder, "order", "my-study.zarr", "-e", "order").rstrip() + "\n"


def _work(folder):
    _first_run(folder, "quickstart")
    printed = run(folder, "work", "quickstart.zarr", "-e", "pendulum")
    sentence, rest = printed.split("Work of a whole run", 1)
    least = rest[rest.index("Least evaluations") :]
    table = _with_rows(least, lambda row: float(row["error ≤"]) >= 1e-6)
    return f"{sentence}…\n\n" + table[: table.index("\n\n") + 1]


def _paper(name):
    """How many of a paper's numbers are reproduced, if the files of its figures are there."""

    def shown(folder):
        printed = run(folder, "reproduce", name, "--plots")
        figures = re.findall(rf"^{name}-plots/.*\.png$", printed, re.MULTILINE)
        if missing := [file for file in figures or [name] if not (folder / file).exists()]:
            raise SystemExit(f"no figure {', '.join(missing)}")
        counts = re.findall(r"^\d+ of \d+ .*? are [^,:\n]*", printed, re.MULTILINE)
        return "".join(f"{count.partition(' about')[0]}\n" for count in counts)

    return shown


def _with_rows(printed, wanted):
    """A text whose table has only some of its rows, and a line that says how many it had more.

    Parameters
    ----------
    printed : str
    wanted : callable
        ``wanted(row)`` of a row's cells by header.
    """
    lines = printed.rstrip().splitlines()
    begin = next(i for i, line in enumerate(lines) if _is_rule(line)) + 1
    end = lines.index("", begin) if "" in lines[begin:] else len(lines)
    table = _Table(lines[begin - 1], lines[begin - 2])
    rows = [
        line
        for line in lines[begin:end]
        if wanted({header: cell for (header, _), cell in table.cells(line).items()})
    ]
    left = end - begin - len(rows)
    more = [f"… ({left} rows more)"] if left else []
    return "\n".join([*lines[:begin], *rows, *more, *lines[end:]]) + "\n"


def _run_printed_study(folder, name):
    """Run the study that the guide prints under a name."""
    (study,) = (block.text for block in fenced("toml") if block.name == name)
    (folder / f"{name}.toml").write_text(study)
    run(folder, "run", f"{name}.toml", "--no-summary")


def _order(name, *options):
    """The table that `sweep order` prints of the guide's study of that name."""

    def shown(folder):
        _run_printed_study(folder, name)
        return run(folder, "order", f"{name}.zarr", *options).partition("\n\n")[0] + "\n"

    return shown


def _chaos(folder):
    _run_printed_study(folder, "chaos")
    return run(folder, "chaos", "chaos.zarr").rstrip() + "\n"


def _whose_drift(folder):
    """The table, without what stands below it."""
    _run_printed_study(folder, "whose-drift")
    printed = run(folder, "drift", "whose-drift.zarr", "-q", "energy", "--arithmetic")
    return printed.split("\n\n")[0] + "\n"


def _verify(folder):
    _first_run(folder, "quickstart")
    below = folder / "damaged"
    below.mkdir()
    store = Path(shutil.copytree(folder / "quickstart.zarr", below / "quickstart.zarr"))
    _flip(store / "pendulum" / "energy", "c.0.0")
    _flip(store / "pendulum" / "step_size", "c.0")
    (store / "pendulum" / "steps" / "c.0.x.partial").touch()
    try:
        return run(below, "verify", "quickstart.zarr", code=DAMAGED)
    finally:
        shutil.rmtree(below)


def _flip(array, chunk):
    """Flip a bit in the middle of a chunk."""
    found = array / chunk
    data = bytearray(found.read_bytes())
    data[len(data) // 2] ^= 8
    found.write_bytes(data)


@dataclass(frozen=True)
class Block:
    """An output block.

    Parameters
    ----------
    make : callable
        ``make(folder)`` runs the command in a directory and returns the text of the block.
    tolerances : dict of str to float, optional
        By how much numbers of a column may differ.
    """

    make: Callable
    tolerances: dict = field(default_factory=dict)


# Three standard deviations of the difference of two: 64 starts know the exponent to ±0.25 (95 %).
STATISTICS = {"spread ~ t^p": 0.5}
BLOCKS = {
    "quickstart-in-short": Block(_in_short),
    "quickstart": Block(_quickstart, STATISTICS),
    "check": Block(lambda folder: _own_study(folder, "check", "my-study.toml")),
    "order": Block(_own_order),
    "work": Block(_work),
    "lee": Block(_paper("lee")),
    "mclachlan": Block(_paper("mclachlan")),
    "celledoni": Block(_paper("celledoni")),
    "below-round-off": Block(_order("below-round-off")),
    "chaos": Block(_chaos),
    "whose-drift": Block(_whose_drift, STATISTICS),
    "verify": Block(_verify),
}


def lines_of_shown_studies():
    """By its name, of each study that a block shows and whose outputs are compared: its commands.

    Returns
    -------
    dict of str to str
        The name of the study that is run or asked, by line.
    """
    studies = "|".join({block.name for block in fenced("toml")} & BLOCKS.keys())
    lines = (line for path in DOCUMENTS for line in command_lines(path))
    found = ((line, re.search(rf" ({studies})\.(toml|zarr)", line)) for line in lines)
    return {line: match[1] for line, match in found if match}


# --- what is compared ----------------------------------------------------------------------------

MACHINE = (
    re.compile(r"\d+(?= tasks?\b)"),
    re.compile(r"\d+(?= workers?\b)"),
    re.compile(r"[\d.]+ \w+(?= of CPU time)"),
    re.compile(r"[\d.]+ \w+(?= to record them)"),
)
MACHINE_COLUMNS = ("CPU time",)
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")
LEAST, NOISE, FLOOR = 1e-12, 1e-13, 1e-16


def _is_rule(line):
    """Whether it is the line below the headers of a table."""
    return bool(line) and set(line) <= {"─", " "}


class _Table:
    """The columns of a table, as wide as the parts of its rule."""

    def __init__(self, rule, headers):
        self.spans = [match.span() for match in re.finditer("─+", rule)]
        self.headers = list(self._cut(headers))

    def cells(self, line):
        """Cells by header and column, of which some have no header; None of another line."""
        gaps = [line[end : end + 2].strip() for _, end in self.spans]
        if not line or any(gaps[:-1]):
            return None
        return dict(zip(zip(self.headers, itertools.count()), self._cut(line), strict=False))

    def _cut(self, line):
        ends = [end for _, end in self.spans[:-1]] + [None]
        for (start, _), end in zip(self.spans, ends, strict=True):
            yield line[start:end].strip()


def parse(text):
    """Each line's cells by header and column; a line that is in no table has one cell.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of dict
    """
    found, table, before = [], None, ""
    for line in text.splitlines():
        cells = table.cells(line) if table else None
        if _is_rule(line):
            table, cells = _Table(line, before), {("", 0): "─"}
        elif cells is None:
            table = table if line else None
        found.append({("", 0): line} if cells is None else cells)
        before = line
    return found


def differences(shown, printed, tolerances=None):
    """Lines that the command does not print as they are shown, each with what it prints.

    Parameters
    ----------
    shown, printed : str
        The block, and what it is made to be of what the command prints now.
    tolerances : dict of str to float, optional
        By how much numbers of a column may differ.

    Returns
    -------
    list of str
        Of a unified diff; empty where they agree.
    """
    one, other = parse(shown), parse(printed)
    lines = shown.splitlines(), printed.splitlines()
    if len(one) != len(other):
        return list(difflib.unified_diff(*lines, "shown", "printed", lineterm=""))
    return [
        text
        for a, b, *both in zip(one, other, *lines, strict=True)
        if not _same_cells(a, b, tolerances or {})
        for text in (f"-{both[0]}", f"+{both[1]}")
    ]


def _same_cells(one, other, tolerances):
    return one.keys() == other.keys() and all(
        header in MACHINE_COLUMNS or same(cell, other[header, i], tolerances.get(header, 0.0))
        for (header, i), cell in one.items()
    )


def same(one, other, tolerance=0.0):
    """Whether two texts agree, numbers as the module says, or up to a tolerance."""
    for pattern in MACHINE:
        one, other = pattern.sub("#", one), pattern.sub("#", other)
    words, others = ([" ".join(part.split()) for part in NUMBER.split(t)] for t in (one, other))
    if words != others:
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return all(a == b or _same_number(a, b, tolerance) for a, b in pairs)


def _same_number(one, other, tolerance):
    a, b = (float(text.replace(",", "")) for text in (one, other))
    if not (set(one) & set(".e") and set(other) & set(".e")):
        return abs(a - b) <= tolerance  # integers, which agree unless the column allows more
    small, large = sorted(max(abs(value), FLOOR) for value in (a, b))
    if large < LEAST:
        return large <= 10.0 * small
    allowed = max(_last_unit(one), _last_unit(other), tolerance, NOISE)
    return abs(a - b) <= allowed * (1.0 + 1e-6)


def _last_unit(text):
    """Of the last digit of a number: 1e-10 of 2.16409e-05."""
    mantissa, _, exponent = text.partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


# --- README and the guide ------------------------------------------------------------------------


def shown_blocks(documents=DOCUMENTS):
    """The output blocks of documents, by name.

    Raises
    ------
    SystemExit
        If one has no name, or a name that is not in `BLOCKS` or stands twice.
    """
    found = {}
    for block in fenced("text", documents):
        if block.name not in BLOCKS:
            what = f"named {block.name!r}" if block.name else "without a name"
            known = ", ".join(BLOCKS)
            raise SystemExit(f"{block.document.name} has an output block {what}; known: {known}")
        if block.name in found:
            raise SystemExit(f"{block.document.name} has a second output block {block.name!r}")
        found[block.name] = block.text
    return found


def replaced(text, made):
    """A document's text with other blocks, by name."""

    def other(match):
        language, name, block = match.groups()
        if language != "text" or name not in made:
            return match[0]
        return match[0].removesuffix(f"{block}```") + f"{made[name]}```"

    return FENCED.sub(other, text)


def main():
    """Compare or write the blocks that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BLOCKS))
    parser.add_argument("--write", action="store_true", help="write them instead of comparing")
    given = parser.parse_args()
    if unknown := set(given.names) - set(BLOCKS):
        parser.error(f"no block {', '.join(sorted(unknown))}; there are {', '.join(BLOCKS)}")
    shown, made, off = shown_blocks(), {}, []
    if missing := set(BLOCKS) - set(shown):
        sys.exit(f"no document shows {', '.join(sorted(missing))}")
    with tempfile.TemporaryDirectory(prefix="geosweep-blocks-") as directory:
        folder = Path(directory).resolve()
        for name in [name for name in BLOCKS if name in (given.names or BLOCKS)]:
            made[name] = BLOCKS[name].make(folder)
            found = differences(shown[name], made[name], BLOCKS[name].tolerances)
            print(f"{name}: {'off' if found else 'as it is shown'}", flush=True)
            if found:
                off.append(name)
                print("\n".join(found), flush=True)
    if given.write:
        for path in DOCUMENTS:
            path.write_text(replaced(path.read_text(), made))
    elif off:
        names = " ".join(off)
        sys.exit(f"To write what is printed: python tests/guide/output_blocks.py --write {names}")


if __name__ == "__main__":
    main()
