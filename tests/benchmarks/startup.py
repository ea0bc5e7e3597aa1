"""How long one waits for a first study, and for commands that compute nothing.

    python tests/benchmarks/startup.py [--repeats 5]

Wall time of `sweep run quickstart` and its phases: with an empty kernel cache, and the least of
some repeats with a full one. Then a table with a row for each command on its complete store: the
least wall and CPU time, the bound, and the packages whose imports take longest, in seconds of their
own. Exit code 1 if anything takes longer than its bound; they are those of two idle cores.
"""

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
from reporting import PROGRAMS, module_path

BOUNDS = {
    "--help": 0.3,
    "ls studies": 0.3,
    "ls integrators": 0.3,
    "ls systems": 0.3,
    "status quickstart.zarr": 0.5,
    "query quickstart.zarr": 1.0,
    "order quickstart.zarr": 1.0,
    "drift quickstart.zarr": 1.0,
    "run quickstart": 1.0,
}
COLD, WARM = 20.0, 5.0  # seconds, of a first study
# What is printed at the end of a phase.
PHASES = {"begins": "Study ", "plans": " to compute in ", "computes": "====", "draws": "Plots: "}
SHOWN = 6  # packages
IMPORT = re.compile(r"import time: +(\d+) \| +\d+ \| +(\w+)")


def measure(command, folder):
    """Wall and CPU seconds of a command."""
    environment = os.environ | {"PYTHONPATH": module_path()}
    arguments, before = [PROGRAMS / "sweep", *command.split()], os.times()
    began = time.perf_counter()
    subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, check=True)
    wall, after = time.perf_counter() - began, os.times()
    children = "children_user", "children_system"
    return wall, sum(getattr(after, name) - getattr(before, name) for name in children)


def first_study(store, folder):
    """Wall seconds of `quickstart` into a new store, and of each of its phases."""
    environment = os.environ | {"PYTHONPATH": module_path()}
    command = [PROGRAMS / "sweep", "run", "quickstart", store]
    phases, left, before = {}, list(PHASES.items()), (began := time.perf_counter())
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, cwd=folder, env=environment, **options) as process:
        for line in process.stdout:
            if left and left[0][1] in line:
                phases[left.pop(0)[0]] = (now := time.perf_counter()) - before
                before = now
    phases["ends"] = time.perf_counter() - before
    return time.perf_counter() - began, phases


def imports(command, folder):
    """Seconds of the imports of each package that a command imports."""
    environment = os.environ | {"PYTHONPATH": module_path(), "PYTHONPROFILEIMPORTTIME": "1"}
    arguments = [sys.executable, PROGRAMS / "sweep", *command.split()]
    done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True)
    seconds = collections.Counter()
    for line in filter(None, map(IMPORT.match, done.stderr.splitlines())):
        seconds[line[2]] += int(line[1]) / 1e6
    return seconds


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    repeats, holds = parser.parse_args().repeats, True
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GEOSWEEP_CACHE_DIR"] = folder
        runs = [first_study(f"{i}.zarr", folder) for i in range(repeats)]
        warm = min([*runs[1:], first_study("quickstart.zarr", folder)], key=lambda run: run[0])
        for name, bound, (wall, phases) in (("cold", COLD, runs[0]), ("warm", WARM, warm)):
            said = ", ".join(f"{phase} {own:.2f}" for phase, own in phases.items())
            print(f"quickstart, {name}: {wall:.2f} s (bound {bound:g}): {said}")
            holds &= wall <= bound
        print(f"{'command':24} {'wall':>5} {'bound':>5} {'CPU':>5}  seconds of imports by package")
        for command, bound in BOUNDS.items():
            wall, cpu = np.min([measure(command, folder) for _ in range(repeats)], axis=0)
            found = imports(command, folder)
            said = ", ".join(f"{name} {own:.2f}" for name, own in found.most_common(SHOWN))
            print(f"{command:24} {wall:5.2f} {bound:5.1f} {cpu:5.2f}  {found.total():.2f}: {said}")
            holds &= wall <= bound
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
