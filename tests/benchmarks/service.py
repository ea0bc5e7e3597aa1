"""What the service costs over the bare kernels, and how long the quickstart takes.

    python tests/benchmarks/service.py [--runs 40000] [--json]

Each figure is measured in one run on an idle machine. The overhead compares the wall time of
`sweep run`, all included, times the number of cores with the CPU time that the same kernels
with the same diagnostics take for the same runs in plain processes, one a core, at once.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from reporting import PROGRAMS, STEP_SIZES, write_study

SWEEP = PROGRAMS / "sweep"
CORES = os.cpu_count() or 1
DURATION, SAMPLES = 85.0, 50


def seconds_of(*command, **environment):
    """Wall time of a command that must succeed."""
    began = time.perf_counter()
    subprocess.run(
        [str(part) for part in command],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | environment,
    )
    return time.perf_counter() - began


def bare_seconds(starts):
    """CPU seconds of all runs of `starts` initial states by the kernels and diagnostics alone."""
    import systems
    from sweep.campaign.worker.trajectory import Batch, Integration, NamedComponent, Recipe
    from sweep.study.time_axis import TimeAxis

    system = systems.get("spherical_pendulum_chain")
    record = ("energy", "momentum", "unit_length", "tangency")
    recipe = Recipe(TimeAxis.uniform(DURATION, SAMPLES), record, "every_step", 0)
    integration = Integration(
        recipe,
        NamedComponent.of(system.name, system.parameters),
        NamedComponent.of("variational", {}),
    )
    states = system.ensemble(starts, 1, around="lee", spread=1e-2)

    def run(initial, step, steps):
        runs = Batch.begin(initial, step, steps, np.nan)
        integration.advance(runs, SAMPLES)
        integration.finish(runs)

    run(states[:8], STEP_SIZES[0], 8)  # loads the kernels
    began = time.process_time()
    for step in STEP_SIZES:
        for i in range(0, len(states), 8):
            run(states[i : i + 8], step, round(DURATION / SAMPLES / step))
    return time.process_time() - began


def overhead(runs):
    """Ratio of the service's core seconds to the bare kernels', and seconds of a bare run."""
    starts = runs // len(STEP_SIZES)
    with tempfile.TemporaryDirectory() as folder:
        study = write_study(Path(folder), "short-runs", runs, duration=DURATION, samples=SAMPLES)
        seconds_of(SWEEP, "plan", study)  # compiles the kernels
        wall = seconds_of(SWEEP, "run", study, Path(folder) / "store.zarr", "--no-summary")
    share = max(8, starts // 20 // CORES // 8 * 8)
    with ProcessPoolExecutor(CORES) as pool:
        bare = sum(pool.map(bare_seconds, [share] * CORES)) / (share * CORES) * starts
    return wall * CORES / bare, bare / (starts * len(STEP_SIZES))


def quickstart():
    """Seconds of the quickstart with a cold and with a warm kernel cache."""
    with tempfile.TemporaryDirectory() as folder:
        cache = {"GEOSWEEP_CACHE_DIR": str(Path(folder) / "cache")}
        cold = seconds_of(SWEEP, "run", "quickstart", Path(folder) / "cold.zarr", **cache)
        warm = [
            seconds_of(SWEEP, "run", "quickstart", Path(folder) / f"{i}.zarr", **cache)
            for i in range(3)
        ]
    return cold, min(warm)


def lanes_gain():
    """Ratio of a run's `cpu_time` with one start to that with an ensemble of 64, least of all."""
    import sweep

    with tempfile.TemporaryDirectory() as folder:
        medians = []
        for starts in (1, 64):
            study = write_study(
                Path(folder),
                f"of-{starts}",
                starts,
                duration=DURATION,
                samples=SAMPLES,
                steps=[1e-3],
            )
            seconds_of(SWEEP, "run", study, Path(folder) / f"{starts}.zarr", "--no-summary")
            tree = sweep.open_study(Path(folder) / f"{starts}.zarr")
            medians.append(float(np.median(tree["ensemble"]["cpu_time"])))
    return medians[0] / medians[1]


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    cold, warm = quickstart()
    ratio, each = overhead(given.runs)
    rows = [
        ("quickstart, cold kernel cache [s]", cold, 40.0, cold <= 40),
        ("quickstart, warm [s]", warm, 8.0, warm <= 8),
        (
            f"{given.runs} runs of {each * 1e3:.2f} ms: service / bare kernels",
            ratio,
            1.25,
            ratio <= 1.25,
        ),
        ("cpu_time of a run: one start / ensemble", gain := lanes_gain(), 4.0, gain >= 4),
    ]
    if given.json:
        keys = ("what", "measured", "bound", "holds")
        json.dump([dict(zip(keys, row, strict=True)) for row in rows], sys.stdout, indent=2)
        return
    for what, measured, bound, holds in rows:
        print(f"{what:<56} {measured:8.2f}   bound {bound:5.2f}   {'holds' if holds else 'FAILS'}")


if __name__ == "__main__":
    main()
