"""A hundred million steps of the packaged drift campaign, beside C++ that takes the same steps.

    python tests/benchmarks/campaign.py [--steps 1e8] [--quick] [--json]

Ours is `sweep run` with one worker of a run as `single` of the study `drift-campaign`: 1000 samples
with all diagnostics, in segments that may end with a checkpoint; its time is the `cpu_time` that
the store has of it. The C++, compiled on the spot, does the same compensated arithmetic and samples
nothing; half of its steps come before ours and half after, and its time is of its thread's CPU. The
bare kernels end in the same state to the last bit, or nothing is timed. The lengths are those at
the end; the drift of the energy is that of `sweep drift`, by the half-width of its interval: at
most 1, and none is seen. ``--quick`` takes 2e7 steps. Exit code 3: a figure does not hold.
"""

import shutil
import subprocess
import sys
import time

import numpy as np
from reporting import PROGRAMS, options, report_parts
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


def campaign(folder, given):
    """Rows about all that is measured."""
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
    parser = options(__doc__, "2e7 steps")
    parser.add_argument("--steps", type=float, default=1e8, help="1e8 unless given")
    given = parser.parse_args()
    given.steps = 20_000_000 if given.quick else int(given.steps)
    return report_parts({"campaign": campaign}, given)


if __name__ == "__main__":
    sys.exit(main())
