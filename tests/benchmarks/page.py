"""How long the page of `sweep serve` takes to answer, of very many runs; beside bounds.

    python tests/benchmarks/page.py [--runs 1000000] [--json]

A store of five integrators, five step sizes and so many runs is made of records that are put
without computing. Then a server is asked for each view and for other choices, as a browser asks.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np
import psutil
from store import columns_of, put

SAMPLES, MOST_SECONDS = 4, 0.5
ORDERS = {"variational": 2, "rk2_heun": 2, "rk4": 4, "variational+suzuki4": 4}
ORDERS |= {"variational+yoshida6": 6}
STEPS = [0.1, 0.05, 0.025, 0.02, 0.01]
STUDY = """
format = 1
name = "bench"
[[experiment]]
name = "only"
system = "spherical_pendulum_chain"
integrators = {integrators}
step_size = {steps}
initial_condition = {{ around = "lee", random = {starts}, spread = 1e-2, seed = 1 }}
duration = {duration}
samples = {samples}
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


def made(place, runs):
    """A store whose errors fall with the orders of its integrators."""
    from sweep.store import create, diff, studies
    from sweep.store.commit import fold
    from sweep.store.store import Store

    starts = runs // (len(ORDERS) * len(STEPS))
    study = studies.parse_study(
        STUDY.format(
            integrators=list(ORDERS), steps=STEPS, starts=starts, samples=SAMPLES,
            duration=0.1 * SAMPLES,
        )
    )  # fmt: skip
    store = Store.at(place)
    create.create_or_grow_store(store, study, diff.diff_store_against_study(store, study))
    fold.begin_session(store.anew(), "bench")
    store = store.anew()
    arrays = fold.written_by_tasks(store.arrays_of_group("only"))
    labels = store.array("only", "integrator").values()
    steps = store.array("only", "step_size").values()
    size = steps ** np.array([ORDERS[label] for label in labels])
    chance = np.random.default_rng(1)
    for start in range(0, len(steps), 4096):
        rows = np.arange(start, min(start + 4096, len(steps)))
        columns = columns_of(arrays, len(rows), SAMPLES + 1)
        errors = size[rows] * np.exp(0.1 * chance.normal(size=len(rows)))
        for name, values in columns.items():
            if name == "reference_error":
                values[:] = 1e-15
            elif "_error" in name:
                values[:] = errors[:, None] * np.abs(values)
                values[:, 0] = 0.0
            elif name in ("steps", "evaluations"):
                values[:] = 0.1 * SAMPLES / steps[rows]
        put(store, arrays, rows, columns, SAMPLES + 1)
    fold.fold_all(store, "bench")
    fold.end_session(store, checkpoints=True)
    return starts


def asked(base, token, place, name, **choices):
    """Seconds until an answer is there."""
    query = urllib.parse.urlencode({"store": place, "experiment": "only", **choices}, doseq=True)
    request = urllib.request.Request(f"{base}/api/{name}?{query}", headers={"X-Token": token})
    began = time.perf_counter()
    with urllib.request.urlopen(request) as answer:
        answer.read()
    return time.perf_counter() - began


def measure(folder, runs):
    """Rows of what is measured."""
    place = folder / "large.zarr"
    starts = made(place, runs)
    program = Path(sys.executable).parent / "sweep"
    began = time.perf_counter()
    with subprocess.Popen(
        [program, "serve", place, "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        base, token = re.match(r"Open (\S+)/\?token=(\S+)", process.stdout.readline()).groups()
        asked(base, token, place, "choices")
        rows = [("opened, Python's start included", None, time.perf_counter() - began)]
        rows.append(("progress", MOST_SECONDS, asked(base, token, place, "progress")))
        for view in VIEWS:
            took = asked(base, token, place, "figure", view=view)
            rows.append((f"{view}, for the first time", MOST_SECONDS, took))
        for what, choice in CHOICES.items():
            took = asked(base, token, place, "figure", **{"view": "orders", **choice})
            rows.append((what, MOST_SECONDS, took))
        rows.append(("a run", MOST_SECONDS, asked(base, token, place, "run", run=runs // 2)))
        took = asked(base, token, place, "figure", view="orders", starts="all")
        rows.append((f"orders of all {starts:,} starts", None, took))
        took = asked(base, token, place, "figure", view="orders", starts="all")
        rows.append(("the same once more", MOST_SECONDS, took))
        memory = psutil.Process(process.pid).memory_info().rss / 2**20
        process.terminate()
    return [*rows, ("memory of the server [MB]", None, memory)]


def main():
    """Measure and print; the exit code, 3 if a figure does not hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder), given.runs)
    if given.json:
        json.dump(rows, sys.stdout, indent=2)
    for what, bound, found in () if given.json else rows:
        word = "" if bound is None else "holds" if found <= bound else "FAILS"
        print(f"{what:<40} {found:8.2f}  {'' if bound is None else f'<= {bound} s':>9}  {word}")
    return 3 * any(bound is not None and found > bound for _, bound, found in rows)


if __name__ == "__main__":
    sys.exit(main())
