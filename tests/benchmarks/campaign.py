"""Campaigns: a run of a hundred million steps beside C++, and many short runs beside a script.

    python tests/benchmarks/campaign.py [--part long] [--steps 1e8] [--quick] [--json]
    python tests/benchmarks/campaign.py --part million [--runs 1e6]

``long`` is a run as `single` of the packaged study `drift-campaign` by one worker of `sweep run`:
1000 samples with all diagnostics, in segments that may end with a checkpoint; its time is the
`cpu_time` that the store has of it. The C++, compiled on the spot, does the same compensated
arithmetic and samples nothing; half of its steps come before ours and half after, and its time is
of its thread's CPU. The bare kernels end in the same state to the last bit, or nothing is timed.
The lengths are those at the end; the drift of the energy is that of `sweep drift`, by the
half-width of its interval: at most 1, and none is seen.

``many`` runs `sweep run`, from its start to its end, on an ensemble of double pendula by `rk4` with
statistics of every step. Its ideal is the `cpu_time` of the runs over the number of cores;
`by_hand.py` computes the same with the library alone. ``million``, only if asked for, is a larger
one, whose runs have as many steps as take a millisecond here: 1e6 runs take nine minutes on two
cores, 1 GB of disk, and 0.5 GB of memory of the largest process.

``--quick`` takes 2e7 steps. Exit code 3: a figure does not hold.
"""

import os
import shutil
import subprocess
import sys
import time

import numpy as np
from reporting import HERE, PROGRAMS, options, report_parts
from timing import Case, Comparison, compile_cpp

import integrators
import sweep
import systems
from integrators.compiler.elements import aligned

STEP_SIZE, SAMPLES = 5e-3, 1000
SHORT = 20  # steps in a sample interval of the first run, which compiles
STUDY = """
format = 1
name = "{name}"
[[experiment]]
name = "single"
system = "spring_pendula"
integrators = ["variational"]
initial_condition = "lee"
record = ["energy", "unit_length", "tangency", "state"]
statistics = "none"
step_size = {step_size}
duration = {duration}
samples = {samples}
"""
MANY_STEP = 5e-3
MANY = """
format = 1
name = "{name}"
[[experiment]]
name = "many"
system = "spherical_pendulum_chain"
integrators = ["rk4"]
initial_condition = {{ around = "lee", random = {runs}, spread = 1e-2, seed = 1 }}
step_size = {step_size}
duration = {duration}
samples = {samples}
"""
SIZES = ((200_000, 1_000, 10, 1.5), (4_000, 100_000, 100, 1.2))  # runs, steps, samples, claim
SAMPLES_OF_MILLION = 10


def many(folder, given):
    """Rows about many short runs."""
    rows, _ = [], _seconds_of_many(folder, "first", 16, 1_000, 10)  # which compiles
    for runs, steps, samples, most in SIZES:
        name = f"{runs:,} runs of {steps:,} steps"
        wall, ideal = _seconds_of_many(folder, f"of-{steps}", runs, steps, samples)
        rows += _rows_of_many(name, wall, ideal, most)
        sizes = map(str, (runs, MANY_STEP, steps, samples, folder / f"by-hand-{steps}.zarr"))
        began = time.perf_counter()
        subprocess.run([sys.executable, HERE / "by_hand.py", *sizes], check=True)
        by_hand = time.perf_counter() - began
        beside = f"{wall / by_hand:.2f}"
        rows.append((f"{name}: time / by hand", "<= 1", beside, wall <= by_hand))
    return rows


def million(folder, given):
    """Rows about a million runs of a millisecond."""
    few, steps = 1_600, 10_000
    _, ideal = _seconds_of_many(folder, "before", few, steps, SAMPLES_OF_MILLION)  # which compiles
    each = ideal * os.cpu_count() / few / steps
    steps = max(1, round(1e-3 / each / SAMPLES_OF_MILLION)) * SAMPLES_OF_MILLION
    taken = _seconds_of_many(folder, "million", given.runs, steps, SAMPLES_OF_MILLION)
    return _rows_of_many(f"{given.runs:,} runs of {steps:,} steps", *taken, 1.05)


def _rows_of_many(name, wall, ideal, most):
    return [
        (f"{name}: s, and the kernels' CPU over cores", "", f"{wall:.1f}, {ideal:.1f}", None),
        (f"{name}: time / ideal", f"<= {most}", f"{wall / ideal:.2f}", wall <= most * ideal),
    ]


def _seconds_of_many(folder, name, runs, steps, samples):
    """Wall time of `sweep run`, and the CPU time of its runs over the number of cores."""
    study, store = folder / f"{name}.toml", folder / f"{name}.zarr"
    keys = {"step_size": MANY_STEP, "duration": steps * MANY_STEP, "samples": samples}
    study.write_text(MANY.format(name=name, runs=runs, **keys))
    began = time.perf_counter()
    command = [PROGRAMS / "sweep", "run", study, store, "--no-summary"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall, table = time.perf_counter() - began, sweep.open_study(store)["many"].to_dataset()
    return wall, float(table["cpu_time"].sum()) / os.cpu_count()


def computed(folder, name, steps):
    """The table of a run of so many steps."""
    study, store = folder / f"{name}.toml", folder / f"{name}.zarr"
    keys = {"step_size": STEP_SIZE, "duration": steps * STEP_SIZE, "samples": SAMPLES}
    study.write_text(STUDY.format(name=name, **keys))
    command = [PROGRAMS / "sweep", "run", study, store, "--workers", "1", "--no-summary"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return sweep.open_study(store)["single"].to_dataset()


class Springs:
    """The C++, which goes on where it stopped."""

    def __init__(self, compiler, folder):
        system = systems.get("spring_pendula")
        problem, start = integrators.get("variational").bind(system), system.start("lee")
        case = Case(problem, start, STEP_SIZE, 1)
        springs = compile_cpp(compiler, "explicit", folder).four_springs
        self._peer = case.theirs(springs, problem.parameters)
        Comparison("four springs", case, self._peer).difference()
        self._y, self.seconds = aligned(start.shape), 0.0
        self._y[...] = start

    def go_on(self, steps):
        """Take steps."""
        began = time.thread_time()
        self._peer.timed(self._y, steps)
        self.seconds += time.thread_time() - began


def long(folder, given):
    """Rows about a long run."""
    compiler = shutil.which("g++")
    if compiler is None:
        return [("no g++ here to compile what ours is timed beside", "", "", None)]
    springs, steps = Springs(compiler, folder), given.steps
    computed(folder, "short", SHORT * SAMPLES)  # compiled before the clock starts
    springs.go_on(steps // 2)
    table = computed(folder, "campaign", steps)
    springs.go_on(steps // 2)
    (ours,) = table["cpu_time"].values
    state = table["state"].isel(run=0, time=-1).values
    q = state[: len(state) // 2]
    length = float(np.mean(np.abs((q * q).sum(axis=1) - 1)))
    (drift,) = sweep.drift_table(table, "energy")
    ratio, beside = ours / springs.seconds, abs(drift.drift) / drift.half_width
    error = np.abs(table["energy_error"].values).max()
    return [
        ("ours, ns a step", "", f"{1e9 * ours / steps:.2f}", None),
        ("C++, ns a step", "", f"{1e9 * springs.seconds / steps:.2f}", None),
        ("ours / C++", "<= 1.25", f"{ratio:.3f}", bool(ratio <= 1.25)),
        ("mean unit length error at the end", "<= 2e-16", f"{length:.2g}", length <= 2e-16),
        ("largest |energy error|, J", "", f"{error:.3g}", None),
        ("drift of the energy, J/s", "", f"{drift.drift:.2g}", None),
        (
            "|drift| beside the half-width of its interval",
            "<= 1",
            f"{beside:.2f}",
            bool(beside <= 1),
        ),
    ]


def main():
    """Measure and print; the exit code."""
    parts = {"long": long, "many": many, "million": million}
    parser = options(__doc__, "2e7 steps", parts)
    parser.add_argument("--steps", type=float, default=1e8, help="of long, 1e8 unless given")
    parser.add_argument("--runs", type=float, default=1e6, help="of million, 1e6 unless given")
    given = parser.parse_args()
    given.part, given.runs = given.part or ["long", "many"], int(given.runs)
    given.steps = 20_000_000 if given.quick else int(given.steps)
    return report_parts(parts, given)


if __name__ == "__main__":
    sys.exit(main())
