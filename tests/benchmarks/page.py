"""How long the page of `sweep serve` takes to answer, of very many runs; beside bounds.

    python tests/benchmarks/page.py [--runs 1000000] [--quick] [--json]

The study has five integrators, five step sizes and so many runs of four samples. A server is asked
for each view and for other choices, as a browser asks. ``--quick`` has a hundredth of the runs.
Exit code 3: a figure does not hold.
"""

import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import psutil
from reporting import PROGRAMS, call_sweep, options, report_parts

MOST_SECONDS = 0.5
INTEGRATORS = ["variational", "rk2_heun", "rk4", "variational+suzuki4", "variational+yoshida6"]
STEPS = [0.1, 0.05, 0.025, 0.02, 0.01]
STUDY = """
format = 1
name = "page"
[[experiment]]
name = "only"
system = "spherical_pendulum_chain"
integrators = {integrators}
step_size = {steps}
initial_condition = {{ around = "lee", random = {starts}, spread = 1e-2, seed = 1 }}
duration = 0.4
samples = 4
reference = {{ integrator = "dop853" }}
record = ["energy", "unit_length"]
"""
VIEWS = ("orders", "drifts", "work", "series")
CHOICES = {
    "two integrators": {"integrator": ["rk4", "variational"]},
    "four step sizes": {"step_size": ["0.1", "0.05", "0.025", "0.02"]},
    "another quantity": {"quantity": "energy_error"},
    "one start": {"starts": "lee-random[3]"},
    "another view": {"view": "work", "against": "steps"},
}


def asked(base, token, place, name, **choices):
    """Seconds until an answer is there."""
    query = urllib.parse.urlencode({"store": place, "experiment": "only", **choices}, doseq=True)
    request = urllib.request.Request(f"{base}/api/{name}?{query}", headers={"X-Token": token})
    began = time.perf_counter()
    with urllib.request.urlopen(request) as answer:
        answer.read()
    return time.perf_counter() - began


def page(folder, given):
    """Rows about the page."""
    study, place = folder / "page.toml", folder / "page.zarr"
    starts = given.runs // (len(INTEGRATORS) * len(STEPS))
    study.write_text(STUDY.format(integrators=INTEGRATORS, steps=STEPS, starts=starts))
    code, said = call_sweep("run", study, place, "--no-summary")
    if code:
        return [("the study", "ends", said[-500:], False)]
    began = time.perf_counter()
    with subprocess.Popen(
        [PROGRAMS / "sweep", "serve", place, "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        base, token = re.match(r"Open (\S+)/\?token=(\S+)", process.stdout.readline()).groups()
        asked(base, token, place, "choices")
        rows = [row("opened, Python's start included", time.perf_counter() - began, None)]
        rows.append(row("progress", asked(base, token, place, "progress")))
        for view in VIEWS:
            took = asked(base, token, place, "figure", view=view)
            rows.append(row(f"{view}, for the first time", took))
        for what, choice in CHOICES.items():
            took = asked(base, token, place, "figure", **{"view": "orders", **choice})
            rows.append(row(what, took))
        rows.append(row("a run", asked(base, token, place, "run", run=given.runs // 2)))
        took = asked(base, token, place, "figure", view="orders", starts="all")
        rows.append(row(f"orders of all {starts:,} starts", took, None))
        took = asked(base, token, place, "figure", view="orders", starts="all")
        rows.append(row("the same once more", took))
        memory = psutil.Process(process.pid).memory_info().rss / 2**20
        process.terminate()
    return [*rows, ("memory of the server", "", f"{memory:.0f} MB", None)]


def row(what, seconds, most=MOST_SECONDS):
    """A row about a time; without a bound, None."""
    claim, holds = ("", None) if most is None else (f"<= {most:g} s", seconds <= most)
    return what, claim, f"{seconds:.2f} s", holds


def main():
    """Measure and print; the exit code."""
    parser = options(__doc__, "a hundredth of the runs")
    parser.add_argument("--runs", type=int, default=1_000_000)
    given = parser.parse_args()
    if given.quick:
        given.runs //= 100
    return report_parts({"page": page}, given)


if __name__ == "__main__":
    sys.exit(main())
