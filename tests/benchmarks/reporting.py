"""What benchmarks of the service share: their options, the study that they run, their report."""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import sweep

PROGRAMS = Path(sysconfig.get_path("scripts"))
HERE = Path(__file__).parent
HELPERS = HERE.parent / "helpers"
STEP_SIZES = (1.25e-3, 1e-3, 8e-4, 5e-4)
STUDY = """
format = 1
name = "{name}"
[[experiment]]
name = "ensemble"
system = "spherical_pendulum_chain"
integrators = ["variational"]
step_size = {steps}
initial_condition = {{ around = "lee", random = {starts}, spread = 1e-2, seed = 1 }}
duration = {duration}
samples = {samples}
{more}
"""


def write_study(folder, name, runs, *, duration, samples, steps=STEP_SIZES, more=""):
    """A file with a study of so many runs of two pendula; `more` are further lines of it."""
    study = folder / f"{name}.toml"
    keys = {"name": name, "steps": list(steps), "starts": max(1, runs // len(steps))}
    study.write_text(STUDY.format(**keys, duration=duration, samples=samples, more=more))
    return study


def call_sweep(*arguments, cwd=None):
    """`sweep` with these arguments: exit code, and what it printed."""
    command = [PROGRAMS / "sweep", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def module_path(*first):
    """The ``PYTHONPATH`` of processes that are started: with the `sweep` of this one."""
    path = [*first, Path(sweep.__file__).parents[1], os.environ.get("PYTHONPATH")]
    return os.pathsep.join(str(place) for place in path if place)


def options(doc, quick, parts=()):
    """A parser with the options of all of them; `quick` is the help of ``--quick``."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.set_defaults(part=None)
    if parts:
        several = "repeatable; all unless given"
        parser.add_argument("--part", choices=parts, action="append", help=several)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--keep", type=Path, help="a new folder for stores and logs, which stay")
    parser.add_argument("--json", action="store_true")
    return parser


def report_parts(parts, given):
    """Run the chosen parts of a benchmark in a folder, which may be kept; as `report`.

    Parameters
    ----------
    parts : dict of str to callable
        Each from the folder and the arguments to rows of `report`.
    given : argparse.Namespace
        Of `options`.
    """
    signal.signal(signal.SIGTERM, _terminated)
    print(f"Load at the start: {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores", file=sys.stderr)
    if given.keep:
        given.keep.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rows = []
        for name in given.part or parts:
            found = parts[name](folder.absolute(), given)
            for what, _, measured, _ in found:  # at once: the table comes at the end
                print(f"{what}: {measured}", file=sys.stderr)
            rows += found
    return report(rows, given.json)


def _terminated(number, frame):
    raise SystemExit(128 + number)  # so that what is started ends


def report(rows, as_json):
    """Print rows of what, claim, measured and whether it holds; the exit code."""
    if as_json:
        keys = ("what", "claim", "measured", "holds")
        print(json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=2))
    else:
        print(f"{'':66} {'claim':>12}  {'measured':>18}")
        for what, claim, measured, holds in rows:
            verdict = {True: "holds", False: "FAILS", None: "skipped" if claim else ""}[holds]
            print(f"{what:66} {claim!s:>12}  {measured!s:>18}   {verdict}".rstrip())
    return 3 if any(holds is False for *_, holds in rows) else 0
