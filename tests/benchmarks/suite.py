"""What the tests take: wall and CPU time, memory, and the kernels that they compile.

    python tests/benchmarks/suite.py                 # the first stage, cold and warm
    python tests/benchmarks/suite.py --everything    # then the second stage
    python tests/benchmarks/suite.py -- -n 16        # with these options of pytest

Each row is one run of pytest. CPU time is that of all processes that were waited for, the memory
that of the largest one. Kernels are counted in all processes: those that were compiled, those of
them that more than one process compiled, and the seconds that compiling took. Exit code 3: a run
failed, or took longer or more memory than it should on two idle cores.
"""

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = {"first, cold": 240, "first, warm": 120, "both, second": 720}
MEMORY = 1.5e9

# Each process that compiles kernels appends a line a kernel: its hash, and the seconds.
SITE = """\
import sys
sys.path.append({root!r})
from integrators.lazy import import_after
import_after("integrators.compiler.kernels", "kernel_listener")
"""
LISTENER = """\
import os
import time
import numba.core.event as event

class Listener(event.Listener):
    began = {{}}

    def on_start(self, happened):
        self.began[id(happened.data["dispatcher"])] = time.perf_counter()

    def on_end(self, happened):
        dispatcher = happened.data["dispatcher"]
        seconds = time.perf_counter() - self.began.pop(id(dispatcher))
        implementation = getattr(dispatcher._cache, "_impl", None)
        if implementation is not None:  # and not a helper, which is compiled into kernels
            label = implementation.locator.get_disambiguator()
            with open({log!r}, "a") as log:
                log.write(f"{{label}} {{os.getpid()}} {{seconds:.3f}}\\n")

event.register("numba:compile", Listener())
"""
HEADER = ("stage", "wall s", "CPU s", "GB", "tests", "kernels", "twice", "compiling s")


def main():
    """Run the stages, and print a row of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--everything", action="store_true", help="the second stage too")
    parser.add_argument("options", nargs="*", help="of pytest")
    given = parser.parse_args()
    stages = {"first, cold": [], "first, warm": []}
    if given.everything:
        stages["second"] = ["-m", "slow"]
    print(("{:12}" + "{:>13}" * 7).format(*HEADER))
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for stage, options in stages.items():
            rows[stage] = run([*options, *given.options], Path(folder))
            wall, cpu, memory, tests, kernels, twice, seconds, _ = rows[stage]
            print(
                f"{stage:12}{wall:13.0f}{cpu:13.0f}{memory / 1e9:13.2f}{tests:13,}"
                f"{kernels:13,}{twice:13,}{seconds:13.0f}",
                flush=True,
            )
    walls = {stage: row[0] for stage, row in rows.items()}
    if given.everything:
        walls["both, second"] = walls["first, cold"] + walls["second"]
    failed = any(row[-1] for row in rows.values())
    slow = any(walls.get(stage, 0) > seconds for stage, seconds in SECONDS.items())
    if failed or slow or any(row[2] > MEMORY for row in rows.values()):
        raise SystemExit(3)


def run(options, folder):
    """The columns of a run of pytest, and its exit code; kernels are kept in a folder."""
    log = folder / "compiled"
    log.write_text("")
    (folder / "sitecustomize.py").write_text(SITE.format(root=str(ROOT)))
    (folder / "kernel_listener.py").write_text(LISTENER.format(log=str(log)))
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"GEOSWEEP_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": path}
    printed, began = folder / "printed", time.monotonic()
    with open(printed, "w") as output:
        pytest = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", *options],
            cwd=ROOT, env=environment, stdout=output, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        _, status, used = os.wait4(pytest.pid, 0)
    wall, code, text = (
        time.monotonic() - began,
        os.waitstatus_to_exitcode(status),
        printed.read_text(),
    )
    if code:
        print(text[-5000:])
    compiled = [line.split() for line in log.read_text().splitlines()]
    times = collections.Counter(label for label, *_ in compiled)
    return (
        wall,
        used.ru_utime + used.ru_stime,
        used.ru_maxrss * 1024,
        sum(map(int, re.findall(r"(\d+) (?:passed|failed)", text))),
        len(times),
        sum(count > 1 for count in times.values()),
        sum(float(seconds) for *_, seconds in compiled),
        code,
    )


if __name__ == "__main__":
    main()
