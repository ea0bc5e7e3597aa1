"""How many plans say the CPU time of a study within a factor of two: packaged studies.

    python tests/benchmarks/plans.py                    # on a machine without other work
    python tests/benchmarks/plans.py --busy 2           # two processes keep two cores busy
    python tests/benchmarks/plans.py quickstart --plans 20
    python tests/benchmarks/plans.py --quick            # of eight short ones, in two minutes

Each study is planned again and again by `sweep plan`, half of the times before and half after it
is run by `sweep run` once, in the same company. A plan holds if it says between half and twice the
CPU time that `sweep status` says was used, references included. Prints each study, with what
planning takes once kernels are loaded, and the counts: at least 95 of 100 are to hold, and planning
is to take 3 % of the CPU time, or 0.3 s.
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

WANTED, FACTOR = 0.95, 2.0
QUICK = ["quickstart", "celledoni-orders", "celledoni-steps", "forced-chain", "lee-example-4"]
QUICK += ["lee-properties", "mclachlan-approaches", "orders"]
MOST_PLANNING = 0.03, 0.3  # of the CPU time, seconds
COMMAND = "import sys; from sweep.cli.main import main; sys.exit(main())"
TWICE = """
import sys, time, sweep
sweep.plan(*sys.argv[1:])
began = time.process_time()
sweep.plan(*sys.argv[1:])
print(time.process_time() - began)
"""


def main():
    """Plan and run the studies."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("studies", nargs="*", help="all packaged ones unless given")
    parser.add_argument("--plans", type=int, default=4, help="of each study")
    parser.add_argument("--busy", type=int, default=0, help="processes that compute besides")
    parser.add_argument("--most", type=float, default=60.0, help="CPU seconds of a study")
    parser.add_argument("--quick", action="store_true", help="eight short studies, twice each")
    given = parser.parse_args()
    if given.quick:
        given.studies, given.plans = given.studies or QUICK, 2
    names = given.studies or [row["name"] for row in json.loads(sweep("ls", "studies", "--json"))]
    with company(given.busy):
        found = [study(name, given) for name in names]
    report([own for own in found if own], given.busy)


def report(found, busy):
    """Print how many plans hold, and by how much they are off."""
    off = np.array([planned / used for plans, used, _ in found for planned in plans])
    holds = int(np.sum(np.abs(np.log(off)) <= np.log(FACTOR)))
    print(f"with {busy} others: {holds} of {len(off)} plans of {len(found)} studies hold")
    few = np.quantile(off, [0.0, 0.05, 0.5, 0.95, 1.0])
    print("planned / used: " + " ".join(f"{value:.2f}" for value in few))
    part, least = MOST_PLANNING
    slow = sum(planning > max(part * used, least) for _, used, planning in found)
    print(
        f"planning took {max(own[2] for own in found):.2g} s at most, too long for {slow} studies"
    )
    if holds < WANTED * len(off):
        raise SystemExit(f"fewer than {WANTED:.0%} hold")


def study(name, given):
    """What a study's plans say, what it used, and what planning takes; None of a long one."""
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        plans = [plan(name, place / "none.zarr")]
        if plans[0] > given.most:
            print(f"{name:24} about {plans[0]:.0f} s: left out", flush=True)
            return None
        plans += [plan(name, place / "none.zarr") for _ in range(given.plans // 2 - 1)]
        store = place / "store.zarr"
        sweep("run", name, store, "--no-summary", codes=(0, 3))
        last = json.loads(sweep("status", store, "--json"))["last_plan"]
        plans += [plan(name, place / "none.zarr") for _ in range(given.plans - len(plans))]
        planning = float(python(TWICE, name, place / "none.zarr"))
    used = last["cpu_seconds_used"]
    plans.append(last["cpu_seconds"])  # the run's own
    texts = [f"{own:.3g}{'' if used / FACTOR <= own <= FACTOR * used else ' !'}" for own in plans]
    print(
        f"{name:24} used {used:8.3g} s, planned {', '.join(texts)} in {planning:.2g} s", flush=True
    )
    return plans, used, planning


def plan(name, store):
    """What a study's plan says, in seconds."""
    return json.loads(sweep("plan", name, store, "--json"))["cpu_seconds"]


def sweep(*words, codes=(0,)):
    """What a command prints."""
    return python(COMMAND, *words, codes=codes)


def python(code, *words, codes=(0,)):
    """What a program prints."""
    command = [sys.executable, "-c", code, *map(str, words)]
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
