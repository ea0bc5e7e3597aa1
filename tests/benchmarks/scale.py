"""What a million runs cost: files, tasks, memory, and the time to ask.

    python tests/benchmarks/scale.py [--part grow|plan|large|report|answers|tasks]
                                     [--runs 1000000] [--json]

``grow``: a trial of 16 runs is grown to a tenth of the runs, in its store. ``plan``: what `sweep
plan` says of as many runs of some seconds each. ``large``: as many short runs are planned, run and
asked for. ``report``: the report of a study of a hundredth of the runs, with orders, drifts and
failures. ``answers``: memory of the tables, plots and report of as many runs. ``tasks``: a study
whose tasks take about a second each. ``--quick`` is with a tenth of the runs, two minutes on two
idle cores; all of it takes some ten. Exit code 3: a figure does not hold.
"""

import contextlib
import json
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
from reporting import HERE, PROGRAMS, module_path, options, report_parts, write_study

MOST_FILES, MOST_TASKS, FILES_OF_A_MILLION = 100_000, 10_000, 2000
STEPS = (0.05, 0.0625, 0.125, 0.25)


def written(folder, name, runs, duration=1.0, samples=4, steps=STEPS):
    """A study file of so many runs."""
    return write_study(folder, name, runs, duration=duration, samples=samples, steps=steps)


class Watched:
    """A command that must succeed: its seconds, its CPU seconds and the most memory that it has."""

    def __init__(self, *arguments):
        began, used = time.perf_counter(), self._used()
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
        self.seconds, self.cpu = time.perf_counter() - began, self._used() - used
        if process.returncode:
            raise RuntimeError(f"{command} ended with {process.returncode}: {self.errors}")

    def _read(self, process):
        out, errors = process.communicate()
        self.out, self.errors = out.decode(), errors.decode()

    @staticmethod
    def _used():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

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
    """Rows about the plan of many runs of some seconds each."""
    study = written(folder, "plan", given.runs, 1.2e6, 1000, (1e-3, 2e-3, 4e-3, 5e-3))
    planned = Watched(PROGRAMS / "sweep", "plan", study, folder / "no.zarr", "--json")
    said = json.loads(planned.out)
    (row,) = said["experiments"]
    each = row["cpu_seconds"] / row["runs"]
    what = f"{row['runs']:,} runs of {each:.1f} s planned"
    return [
        bounded(f"{what}: files", MOST_FILES, row["files"]),
        (f"{what}: tasks", "", f"{said['tasks']:,}", None),
        bounded(f"{what}: memory", 1000, planned.megabytes, " MB"),
        (f"{what}: seconds, of CPU", "", f"{planned.seconds:.1f}, {planned.cpu:.1f}", None),
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
    again = Watched(program, "run", study, store, "--no-summary")
    few = Watched(program, "query", store, "step_size < 1", "--limit", "3")
    code = SELECTION.format(steps=STEPS, runs=given.runs, count=len(STEPS))
    asked = Watched(sys.executable, "-c", code, store)
    first, chosen = map(float, asked.out.split())
    what, most_files = f"{given.runs:,} runs", FILES_OF_A_MILLION * max(1, given.runs // 10**6)
    return [
        bounded(f"{what}: Dask tasks", MOST_TASKS, said["tasks"]),
        bounded(f"{what}: files in the end", most_files, files),
        bounded(f"{what}: files planned", MOST_FILES, said["experiments"][0]["files"]),
        bounded(f"{what}: memory of `sweep run`", 1000, done.megabytes, " MB"),
        bounded(f"{what}: `sweep status`", 1.0, status, " s", 2),
        bounded(f"{what}: CPU of `sweep run`, nothing to do", 5.0, again.cpu, " s", 2),
        bounded(f"{what}: `sweep query --limit 3`", 1.5, few.seconds, " s", 2),
        bounded(f"{what}: its memory", 300, few.megabytes, " MB"),
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
import sys, sweep
from streams import Stream, local_client

if __name__ == "__main__":
    _, study, store, workers = sys.argv
    with local_client(int(workers)) as client, Stream(client) as stream:
        sweep.run(study, store, client)
    print(len(stream.tasks), stream.work, stream.seconds, stream.own_cpu)
"""


def tasks(folder, given):
    """Rows about tasks of about a second: what of the workers' time is not theirs."""
    script = folder / "orchestration.py"
    script.write_text(ORCHESTRATION)
    cores = os.cpu_count() or 1
    study = written(folder, "tasks", 4 * given.tasks * cores * 50, 85.0, 50, (1e-3,))
    command = (sys.executable, script, study, folder / "tasks.zarr", cores)
    found = Watched("env", f"PYTHONPATH={module_path(HERE)}", *command)
    count, work, seconds, own = map(float, found.out.split()[-4:])
    of_all = cores * seconds
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
    parser = options(__doc__, "a tenth of the runs and tasks", PARTS)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--tasks", type=int, default=30, help="of a second, for each core, about")
    given = parser.parse_args()
    if given.quick:
        given.runs, given.tasks = given.runs // 10, 10
    return report_parts(PARTS, given)


if __name__ == "__main__":
    sys.exit(main())
