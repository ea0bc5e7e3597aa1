"""A campaign as its user would write it with the library alone: `campaign.py` is timed beside it.

    python tests/benchmarks/by_hand.py RUNS STEP_SIZE STEPS SAMPLES STORE

The runs of a random ensemble of double pendula by `rk4`, in as many processes as cores, and their
statistics of every step by xarray to Zarr.
"""

import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import xarray

import integrators
import systems
from integrators.stepping.batch import run_batch

PIECES = 16


def statistics(starts, step_size, steps, samples):
    """The statistics of the energy error of runs over each sample interval."""
    problem = integrators.get("rk4").bind(systems.get("spherical_pendulum_chain"))
    done = run_batch(problem, starts, step_size, steps // samples, samples, statistics=True)
    return done.statistics


def main(runs, step_size, steps, samples, store):
    """Compute and write all."""
    system = systems.get("spherical_pendulum_chain")
    starts = system.ensemble(int(runs), 1, around="lee", spread=1e-2)
    rest = float(step_size), int(steps), int(samples)
    with ProcessPoolExecutor() as pool:
        pieces = [pool.submit(statistics, own, *rest) for own in np.array_split(starts, PIECES)]
        found = np.concatenate([piece.result() for piece in pieces])
    dims = ("run", "time", "quantity", "statistic")
    xarray.Dataset({"error": (dims, found)}).to_zarr(store, mode="w")


if __name__ == "__main__":
    main(*sys.argv[1:])
