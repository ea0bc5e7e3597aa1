"""What a million runs cost: files, tasks, memory, and the time to ask.

    python tests/benchmarks/scale.py [--part grow|plan|large|report|answers|tasks]
                                     [--runs 1000000] [--json]

``grow``: a trial of 16 runs is grown to a tenth of the runs, in its store. ``plan``: what `sweep
plan` says of as many runs of 10 s each. ``large``: as many short runs are planned, run and asked
for. ``report``: the report of a study of a hundredth of the runs, with orders, drifts and failures.
``answers``: memory of the tables, plots and report of as many runs. ``tasks``: a study whose tasks
take a second each. ``--quick`` is with a tenth of the runs, two
minutes on two idle cores; all of it takes some ten. Exit code 3: a figure does not hold.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
from disasters import PROGRAMS, report_parts

MOST_FILES, MOST_TASKS = 100_000, 10_000
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
"""
STEPS = (0.05, 0.0625, 0.125, 0.25)


def written(folder, name, runs, duration=1.0, samples=4, steps=STEPS):
    """A study file of so many runs."""
    study = folder / f"{name}.toml"
    keys = {"starts": runs // len(steps), "duration": duration, "samples": samples}
    study.write_text(STUDY.format(name=name, steps=list(steps), **keys))
    return study


class Watched:
    """A command that must succeed, with the most memory and the CPU time of its first process."""

    def __init__(self, *arguments):
        began = time.perf_counter()
        command = [str(argument) for argument in arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        reader = threading.Thread(target=self._read, args=(process,))
        reader.start()
        self.megabytes = 0.0
        looked = psutil.Process(process.pid)
        while process.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess, OSError, StopIteration):
                self.megabytes = max(self.megabytes, self._peak(looked))
            time.sleep(0.1)
        reader.join()
        self.seconds = time.perf_counter() - began
        if process.returncode:
            raise RuntimeError(f"{command} ended with {process.returncode}: {self.errors}")

    def _read(self, process):
        out, errors = process.communicate()
        self.out, self.errors = out.decode(), errors.decode()

    @staticmethod
    def _peak(process):
        """Most memory so far, of Linux's own counting; elsewhere that of now."""
        path = Path(f"/proc/{process.pid}/status")
        if path.exists():
            line = next(row for row in path.read_text().splitlines() if row.startswith("VmHWM"))
            return int(line.split()[1]) / 1024
        return process.memory_info().rss / 2**20


def count_files(store):
    """Files below a store."""
    return sum(len(names) for _, _, names in os.walk(store))


def bounded(what, bound, measured, unit="", digits=0):
    """A row of a figure that has to stay within a bound."""
    return (
        what, f"<= {bound:,}{unit}", f"{measured:,.{digits}f}{unit}", bool(measured <= bound)
    )  # fmt: skip


# --- growing ---------------------------------------------------------------------------------


def grow(folder, given):
    """Rows about a trial that is grown."""
    store, runs = folder / "grow.zarr", given.runs // 10
    Watched(PROGRAMS / "sweep", "run", written(folder, "grow", 16), store, "--no-summary")
    before = count_files(store)
    study = written(folder, "grow", runs)
    grown = Watched(PROGRAMS / "sweep", "run", study, store, "--no-summary")
    kept = f"{runs - 16:,} new runs, 16 kept" in grown.out
    sound = subprocess.run([PROGRAMS / "sweep", "verify", store], capture_output=True).returncode
    what = f"16 runs grown to {runs:,}"
    print(grown.out, file=sys.stderr)
    return [
        (f"{what}: runs computed again", 0, 0 if kept else "some", kept),
        bounded(f"{what}: files, {before} before", MOST_FILES, count_files(store)),
        (f"{what}: exit code of verify", 0, sound, sound == 0),
        (f"{what}: seconds", "", f"{grown.seconds:.0f}", None),
    ]


# --- planning --------------------------------------------------------------------------------


def plan(folder, given):
    """Rows about the plan of many runs of 10 s each."""
    study = written(folder, "plan", given.runs, 1.2e6, 1000, (1e-3, 2e-3, 4e-3, 5e-3))
    planned = Watched(PROGRAMS / "sweep", "plan", study, folder / "no.zarr", "--json")
    said = json.loads(planned.out)
    (row,) = said["experiments"]
    each = row["cpu_seconds"] / row["runs"]
    what = f"{row['runs']:,} runs of {each:.1f} s planned"
    return [
        bounded(f"{what}: files", MOST_FILES, row["files"]),
        bounded(f"{what}: tasks", MOST_TASKS, said["tasks"]),
        bounded(f"{what}: memory", 1000, planned.megabytes, " MB"),
        (f"{what}: seconds", "", f"{planned.seconds:.1f}", None),
    ]


# --- many runs -------------------------------------------------------------------------------

SELECTION = """
import sys, time, sweep
tree = sweep.open_study(sys.argv[1])
table = tree["ensemble"].to_dataset()
scalars = [n for n in table.data_vars if table[n].dims == ("run",)]
times = []
for step in {steps}:
    began = time.perf_counter()
    chosen = table[scalars].query(run=f"step_size == {{step}}").load()
    times.append(time.perf_counter() - began)
    assert chosen.sizes["run"] == {runs} // {count}, chosen.sizes
print(times[0], min(times))  # the first one imports what it needs
"""


def large(folder, given):
    """Rows about many short runs."""
    store, study = folder / "large.zarr", written(folder, "large", given.runs)
    program = PROGRAMS / "sweep"
    said = json.loads(Watched(program, "plan", study, store, "--json").out)
    done = Watched(program, "run", study, store, "--no-summary")
    files = count_files(store)
    status = min(Watched(program, "status", store).seconds for _ in range(3))
    code = SELECTION.format(steps=STEPS, runs=given.runs, count=len(STEPS))
    asked = Watched(sys.executable, "-c", code, store)
    first, chosen = map(float, asked.out.split())
    what = f"{given.runs:,} runs"
    return [
        bounded(f"{what}: Dask tasks", MOST_TASKS, said["tasks"]),
        bounded(f"{what}: files in the end", MOST_FILES, files),
        bounded(f"{what}: files planned", MOST_FILES, said["experiments"][0]["files"]),
        bounded(f"{what}: memory of `sweep run`", 1000, done.megabytes, " MB"),
        bounded(f"{what}: `sweep status`", 1.0, status, " s", 2),
        bounded(f"{what}: a step size's scalars chosen", 0.2, chosen, " s", 3),
        (f"{what}: the first such choice, which imports", "", f"{first:.2f} s", None),
        (f"{what}: opened and chosen, Python's start included", "", f"{asked.seconds:.1f} s", None),
        (f"{what}: seconds of `sweep run`", "", f"{done.seconds:.0f}", None),
    ]


# --- answers ---------------------------------------------------------------------------------

VARIED = """
format = 1
name = "{name}"
[defaults]
integrators = [{integrators}]
step_size = [0.1, 0.05, 0.025, 0.02, 0.01]
duration = {duration}
samples = {samples}
{defaults}
[[experiment]]
name = "ensemble"
system = "spherical_pendulum_chain"
initial_condition = {{ around = "lee", random = {many}, spread = 1e-2, seed = 1 }}
reference = {{ integrator = "dop853", until = 1.0 }}
[[experiment]]
name = "scan"
system = "spherical_pendulum_chain"
scan = {{ gravity = [1.0, 4.0, 9.81, 20.0, 40.0] }}
initial_condition = {{ around = "lee", random = {few}, spread = 1e-2, seed = 1 }}
reference = {{ integrator = "dop853", until = 1.0 }}
"""
METHODS = ("variational", "rk2_heun", "rk4", "rk4+projected", "rk4+projected_tangent")
METHODS += tuple(f"variational+{name}" for name in ("suzuki4", "triple_jump4", "yoshida6"))
METHODS += ("rk2_midpoint", "variational+kahan_li6")


def varied(folder, name, runs, methods, duration, samples, defaults=""):
    """The store of an experiment over starts and one over parameters, together of so many runs."""
    study, store = folder / f"{name}.toml", folder / f"{name}.zarr"
    quoted = ", ".join(f'"{method}"' for method in methods)
    each = runs // (len(methods) * 5)  # of a step size of an integrator
    keys = {"name": name, "integrators": quoted, "duration": duration, "samples": samples}
    few = max(1, each // 20)
    study.write_text(VARIED.format(**keys, many=each - 5 * few, few=few, defaults=defaults))
    run = [PROGRAMS / "sweep", "run", study, store, "--no-summary"]
    done = subprocess.run(run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if done.returncode not in (0, 3):  # 3: some failed, which a report has to show
        raise RuntimeError(f"sweep run {study} ended with {done.returncode}")
    return store


def report(folder, given):
    """Rows about the report of ten thousand runs, unless ``--runs`` is another hundredth."""
    runs = given.runs // 100
    store = varied(folder, "report", runs, METHODS, 10.0, 100)
    page = folder / "report.html"
    written = min(
        (Watched(PROGRAMS / "sweep", "report", store, "-o", page) for _ in range(3)),
        key=lambda one: one.seconds,
    )
    what = f"report of {runs:,} runs"
    return [
        bounded(f"{what}: seconds", 20, written.seconds, " s", 1),
        bounded(f"{what}: size", 5, page.stat().st_size / 1e6, " MB", 1),
        bounded(f"{what}: memory", 2000, written.megabytes, " MB"),
    ]


def answers(folder, given):
    """Rows about the memory of tables, plots and report of very many runs."""
    defaults = 'record = ["energy"]'
    store = varied(folder, "answers", given.runs, METHODS[:2], 1.0, 10, defaults)
    rows = []
    for arguments in (
        ("order", store),
        ("drift", store),
        ("plot", store, "-o", folder / "plots"),
        ("report", store, "-o", folder / "answers.html"),
    ):
        done = Watched(PROGRAMS / "sweep", *arguments)
        what = f"`sweep {arguments[0]}` of {given.runs:,} runs"
        rows.append(bounded(f"{what}: memory", 2000, done.megabytes, " MB"))
        rows.append((f"{what}: seconds", "", f"{done.seconds:.0f}", None))
    return rows


# --- tasks of a second -------------------------------------------------------------------------

ORCHESTRATION = """
import sys, time, sweep
from pathlib import Path
from sweep.campaign import plan, run
from sweep.campaign.watch import Watcher
from sweep.store import studies

plan.LEAST_TASK = plan.MOST_TASK = 1.0
handed_out = run.hand_out


class Clock(Watcher):
    work, tasks = 0.0, 0

    def planned(self, plans, tasks, workers):
        self.workers = workers
        self.start, self.cpu = time.perf_counter(), time.process_time()

    def ended(self, text, share):
        self.wall = time.perf_counter() - self.start
        self.own = time.process_time() - self.cpu


def hand_out(client, tasks, session, stop, on_receipt, *others):
    def count(task, receipt):
        clock.work, clock.tasks = clock.work + receipt.seconds, clock.tasks + 1
        on_receipt(task, receipt)

    handed_out(client, tasks, session, stop, count, *others)


if __name__ == "__main__":
    clock, run.hand_out = Clock(), hand_out
    sweep.run(studies.load_study_file(sys.argv[1]), sys.argv[2], watcher=clock)
    print(clock.tasks, clock.work, clock.wall * clock.workers, clock.own)
"""


def tasks(folder, given):
    """Rows about tasks of a second each: what of the workers' time is not theirs."""
    script = folder / "orchestration.py"
    script.write_text(ORCHESTRATION)
    cores = os.cpu_count() or 1
    study = written(folder, "tasks", 4 * given.tasks * cores * 50, 85.0, 50, (1e-3,))
    found = Watched(sys.executable, script, study, folder / "tasks.zarr")
    count, work, of_all, own = map(float, found.out.split()[-4:])
    what = f"{count:.0f} tasks of {work / count:.2f} s"
    return [
        bounded(f"{what}: time not spent in tasks", 5, 100 * (1 - work / of_all), " %", 1),
        bounded(f"{what}: CPU of coordinator and scheduler", 5, 100 * own / of_all, " %", 1),
    ]


# --- all ---------------------------------------------------------------------------------------

PARTS = {
    "grow": grow,
    "plan": plan,
    "large": large,
    "report": report,
    "answers": answers,
    "tasks": tasks,
}


def main():
    """Measure and print; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=PARTS, action="append", help="repeatable; else all")
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--tasks", type=int, default=30, help="of a second, for each core, about")
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs and tasks")
    parser.add_argument("--keep", type=Path, help="a new folder for stores, which stay")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.quick:
        given.runs, given.tasks = given.runs // 10, 10
    return report_parts(PARTS, given)


if __name__ == "__main__":
    sys.exit(main())
