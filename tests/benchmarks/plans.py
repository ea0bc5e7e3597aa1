"""How many plans hold the CPU time that the runs then use: packaged studies, idle and with company.

    python tests/benchmarks/plans.py                    # on a machine without other work
    python tests/benchmarks/plans.py --busy 2           # two processes keep two cores busy
    python tests/benchmarks/plans.py quickstart --plans 20

Each study is planned again and again by `sweep plan`, half of the times before and half after it
is run by `sweep run` once, in the same company. A plan holds if the CPU time that `sweep status`
says was used, references included, lies in its interval. Prints each study, and the counts: at
least 90 of 100 are to hold.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np

from sweep.study import packaged_study_names

WANTED = 0.9
COMMAND = "import sys; from sweep.cli.main import main; sys.exit(main())"


def main():
    """Plan and run the studies."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("studies", nargs="*", help="all packaged ones unless given")
    parser.add_argument("--plans", type=int, default=4, help="of each study")
    parser.add_argument("--busy", type=int, default=0, help="processes that compute besides")
    parser.add_argument("--most", type=float, default=60.0, help="CPU seconds of a study")
    given = parser.parse_args()
    with company(given.busy):
        found = [study(name, given) for name in given.studies or packaged_study_names()]
    report([own for own in found if own], given.busy)


def report(found, busy):
    """Print how many plans hold, and how wide they are."""
    holds = [low <= used <= high for plans, used in found for low, high in plans]
    widths = [high / low for plans, _ in found for low, high in plans]
    off = [used / np.sqrt(low * high) for plans, used in found for low, high in plans]
    print(f"with {busy} others: {sum(holds)} of {len(holds)} plans of {len(found)} studies hold")
    print(f"most / least: median {np.median(widths):.2f}, largest {max(widths):.2f}")
    few = np.quantile(off, [0.0, 0.05, 0.5, 0.95, 1.0])
    print("used / middle of the interval: " + " ".join(f"{value:.2f}" for value in few))
    if sum(holds) < WANTED * len(holds):
        raise SystemExit(f"fewer than {WANTED:.0%} hold")


def study(name, given):
    """The intervals of a study's plans, and what it used; None if it would take too long."""
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        plans = [plan(name, place / "none.zarr")]
        if plans[0][0] > given.most:
            print(f"{name:24} {plans[0][0]:.0f} s at least: left out", flush=True)
            return None
        plans += [plan(name, place / "none.zarr") for _ in range(given.plans // 2 - 1)]
        store = place / "store.zarr"
        sweep("run", name, store, "--no-summary", codes=(0, 3))
        last = json.loads(sweep("status", store, "--json"))["last_plan"]
        plans += [plan(name, place / "none.zarr") for _ in range(given.plans - len(plans))]
    used = last["cpu_seconds_used"]
    plans.append((last["cpu_seconds"], last["cpu_seconds_most"]))  # the run's own
    texts = [f"{low:.3g}–{high:.3g}{'' if low <= used <= high else ' !'}" for low, high in plans]
    print(f"{name:24} used {used:8.3g} s; {', '.join(texts)}", flush=True)
    return plans, used


def plan(name, store):
    """The interval of a study's plan, in seconds."""
    found = json.loads(sweep("plan", name, store, "--json"))
    return found["cpu_seconds"], found["cpu_seconds_most"]


def sweep(*words, codes=(0,)):
    """What a command prints."""
    command = [sys.executable, "-c", COMMAND, *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode not in codes:
        raise SystemExit(f"{' '.join(map(str, words))}: {ended.stderr}")
    return ended.stdout


@contextlib.contextmanager
def company(count):
    """Processes that compute all the time, within ``with``."""
    others = [multiprocessing.Process(target=compute, daemon=True) for _ in range(count)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        for other in others:
            other.kill()


def compute():
    """Arithmetic in a cache's worth of memory, for ever."""
    values = np.random.default_rng(1).random((200, 200))
    while True:
        values = values @ values
        values /= np.abs(values).max()


if __name__ == "__main__":
    main()
