"""Recommendations against an exhaustive search, and what they promise against new starts.

    python tests/benchmarks/recommend.py [SYSTEM …]

The exhaustive search runs every integrator that fits, from the same starts until the end, at sizes
a factor of `GRID` apart, from the largest down to the first that keeps the bound in all, or that
costs `HOPELESS` times the cheapest so far. Its cheapest keeps the bound in the starts that were
seen, without a margin for others; that of a recommendation has one. Both are timed in turn.
Figures: at most 1.3 of the cheapest, at a tenth of the CPU time, kernels apart; the bound holds in
all of 20 new starts, in 19 of 20 sets.
"""

import math
import sys

import numpy as np

import sweep
from integrators.compiler.lanes import WIDTH
from sweep.campaign.recommend.recommend import SEARCHED
from sweep.campaign.recommend.starts import StartSampler
from sweep.campaign.recommend.trials import Bench, Candidate
from sweep.store.studies import parse_study
from sweep.study.system_defaults import fitting_integrators
from sweep.study.time_axis import TimeAxis
from sweep.text import format_table

GRID, HOPELESS = 1.1, 3.0
SETS, OF_SET = 20, 20
TIMINGS = 9
STUDY = """
format = 1
name = "recommended"
[[experiment]]
name = "only"
system = "{system}"
integrators = "all"
step_size = "declared"
duration = "declared"
samples = 1
initial_condition = {{ random = 8, seed = {seed}{around} }}
"""
NEAR_LEE = ', around = "lee", spread = 0.1'
ASKED = {  # where random starts are, the bound of the energy error, until when
    "spherical_pendulum_chain": (NEAR_LEE, 1e-9, 500.0),
    "heisenberg_chain": ("", 1e-9, 40.0),
    "heavy_top": ("", 1e-6, 4.0),
    "magnetic_dipoles": (NEAR_LEE, 1e-8, 6.0),
}


def experiment_of(system, seed):
    (experiment,) = parse_study(
        STUDY.format(system=system, seed=seed, around=ASKED[system][0])
    ).experiments
    return experiment


def bench_of(experiment, found):
    """A `Bench` of the system and times of a recommendation; it has all the time it takes."""
    (system,) = experiment.make_systems()
    axis = TimeAxis(found.until, found.samples)
    return Bench(experiment, system, found.bounds, axis, math.inf, drawn=False)


def search_exhaustively(bench, starts):
    """The cheapest candidate and its size, and what it cost to find it in CPU seconds."""
    step = bench.system.convergence.longest_step
    fitting = fitting_integrators([bench.system], bench.library)
    candidates = [Candidate(name, integrator, step) for name, integrator in fitting.items()]
    best, least = None, math.inf
    for candidate in sorted(candidates, key=lambda own: (own.adaptive, -own.order)):
        ratio, wanted = GRID ** (1 / candidate.cost_power), candidate.largest_size
        tried = set()
        while True:
            size = candidate.snapped(wanted, bench.time_axis.interval)
            wanted /= ratio
            if size in tried:
                if candidate.adaptive:  # there is no smaller tolerance
                    break
                continue
            tried.add(size)
            trial = bench.try_size(candidate, size, bench.time_axis.samples, starts)
            if trial.ratios.max() <= 1.0 and trial.seconds < least:
                best, least = (candidate, size), trial.seconds
            if trial.ratios.max() <= 1.0 or trial.seconds > HOPELESS * least:
                break
    return *best, bench.seconds


def timed_in_turn(bench, choices, starts):
    """The least CPU seconds of a run until the end, of each of some candidates and sizes."""
    found = [[] for _ in choices]
    for _ in range(TIMINGS):
        for own, (candidate, size) in zip(found, choices, strict=True):
            own.append(bench.time_run(candidate, size, bench.time_axis.samples, starts))
    return [min(own) for own in found]


def measure(system):
    """A row of the table."""
    _, bound, until = ASKED[system]
    experiment = experiment_of(system, seed=1)
    found = sweep.recommend(
        parse_study(STUDY.format(system=system, seed=1, around=ASKED[system][0])),
        energy_error=bound, until=until, budget=3600.0, say=lambda line: None,
    )  # fmt: skip
    print(f"{system}: {sweep.tables.recommendation_in_sentences(found)[0]}", flush=True)
    bench = bench_of(experiment, found)
    recommended = (
        Candidate(
            found.best.integrator,
            experiment.library.integrator(found.best.integrator, {}),
            bench.system.convergence.longest_step,
        ),
        found.best.size,
    )
    starts = StartSampler(experiment, bench.system).take(SEARCHED)
    *cheapest, spent = search_exhaustively(bench, starts)
    own, other = timed_in_turn(bench, [recommended, cheapest], starts[:WIDTH])
    new = StartSampler(experiment_of(system, seed=2), bench.system).take(SETS * OF_SET)
    ratios = bench.try_size(*recommended, bench.time_axis.samples, new).ratios[:, -1]
    sets = np.sum(np.all(ratios.reshape(SETS, OF_SET) <= 1.0, axis=1))
    return [
        system, f"{found.best.integrator} {found.best.size:.3g}",
        f"{cheapest[0].name} {cheapest[1]:.3g}", f"{own / other:.2f}",
        f"{found.search_seconds:.2g} s", f"{found.compile_seconds:.0f} s", f"{spent:.3g} s",
        f"1/{spent / found.search_seconds:.0f}", f"{sets} of {SETS}", f"{ratios.max():.2f}",
    ]  # fmt: skip


HEADERS = (
    "system", "recommended", "cheapest", "cost", "search", "kernels", "exhaustive", "part",
    "sets that keep it", "largest error/bound",
)  # fmt: skip


def main(names):
    rows = [measure(name) for name in names or ASKED]
    print(format_table(HEADERS, rows))


if __name__ == "__main__":
    main(sys.argv[1:])
