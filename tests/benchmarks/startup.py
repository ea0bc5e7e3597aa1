"""How long one waits for commands that compute nothing, and what they import.

    python tests/benchmarks/startup.py [--repeats 5]

A table with a row for each command on a complete store of `quickstart`: the least wall and CPU time
of some repeats, the bound, and the packages whose imports take longest, in seconds of their own.
Exit code 1 if a command takes longer than its bound; they are those of two idle cores.
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
        for _ in range(2):
            measure("run quickstart", folder)
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
