"""A hundred million steps of the packaged drift campaign, beside C++ that takes the same steps.

    python tests/benchmarks/campaign.py [--steps 1e8] [--json]

Ours is what a worker does for the run `single` of the study `drift-campaign`: 1000 samples with
all diagnostics, in segments that end with a checkpoint. The C++, compiled on the spot, does the
same compensated arithmetic and samples nothing. Both take turns, a twentieth of the steps each,
and times are of this thread's CPU; the bare kernels end in the same state to the last bit, or
nothing is timed. The lengths are those at the end; the drift of the energy is the estimate of
`sweep drift`, by the half-width of its interval: at most 1, and none is seen.
"""

import argparse
import dataclasses
import json
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass

import numpy as np
from timing import Case, Comparison, columns, compile_cpp

from integrators.compiler.elements import aligned
from sweep.analysis.drift.estimators import measure_drift, window_weights
from sweep.campaign.plan import Batches
from sweep.campaign.worker.trajectory import Batch, Integration
from sweep.store import diff, studies
from sweep.store.store import Store

DOES_NOT_HOLD = 3  # exit status
STUDY, RUN = "drift-campaign", "single"
TURNS = 20
SHORT = 20_000  # steps


@dataclass(frozen=True)
class Figure:
    """What was measured, and what it should be at most; None for what is only said."""

    what: str
    here: float
    at_most: float | None = None

    @property
    def holds(self):
        """None where there is no figure to reach."""
        return None if self.at_most is None else bool(self.here <= self.at_most)


def campaign(steps):
    """The campaign's run, of so many steps: its integration, step size and initial state."""
    entries = diff.diff_store_against_study(Store.at("none.zarr"), studies.load_study_file(STUDY))
    batches = Batches.of(next(entry for entry in entries if entry.name == RUN))
    table, axis = batches.entry.table, batches.entry.experiment.time_axis
    step_size = float(table.step_size[0])
    axis = dataclasses.replace(axis, duration=steps * step_size)
    recipe = dataclasses.replace(batches.recipe, time_axis=axis)
    integration = Integration(recipe, batches.systems[0], batches.integrators[0])
    return integration, step_size, table.initial_state(0)


class Ours:
    """The run in segments, as `sweep.campaign.worker.run_work` computes it."""

    def __init__(self, steps):
        self.integration, self.step_size, initial = campaign(steps)
        self.samples = self.integration.recipe.time_axis.samples
        self.runs = Batch.begin(initial[None], self.step_size, steps // self.samples, np.nan)
        self.errors = []

    def turn(self, number):
        """The next part of the run."""
        sampled = self.integration.advance(self.runs, self.samples * (number + 1) // TURNS)
        self.errors.append(sampled["energy_error"][0])


def in_turn(ours, theirs):
    """CPU seconds of all turns of each."""
    spent = np.zeros(2)
    for number in range(TURNS):
        for i, turn in enumerate((ours, theirs)):
            began = time.thread_time()
            turn(number)
            spent[i] += time.thread_time() - began
    return spent


def figures(steps, springs):
    """All that is measured; `springs` is the C++."""
    Ours(SHORT).turn(0)  # compiled before the clock starts
    run = Ours(steps)
    problem, y = run.integration.problem, aligned(run.runs.initial[0].shape)
    case = Case(problem, run.runs.initial[0], run.step_size, steps)
    cpp = case.theirs(springs, problem.parameters)
    Comparison("four springs", case, cpp).difference()
    y[...] = run.runs.initial[0]
    ours, theirs = in_turn(run.turn, lambda number: cpp.timed(y, steps // TURNS))
    errors = np.concatenate(run.errors)
    q = problem.layout.parts(run.runs.checkpoints)["y"][0][: len(y) // 2]
    times = run.integration.recipe.times
    weights = window_weights(times)
    means = (errors[None, 1:] + errors[None, :-1]) / 2
    drift = measure_drift((times[1:] + times[:-1]) / 2 @ weights, means @ weights)
    return [
        Figure("ours, ns a step", 1e9 * ours / steps),
        Figure("C++, ns a step", 1e9 * theirs / steps),
        Figure("ours / C++", ours / theirs, 1.25),
        Figure(
            "mean unit length error at the end", np.mean(np.abs((q * q).sum(axis=1) - 1)), 2e-16
        ),
        Figure("largest |energy error|, J", np.max(np.abs(errors))),
        Figure("drift of the energy, J/s", drift.rate),
        Figure(
            "|drift| beside the half-width of its interval",
            abs(drift.rate) / drift.half_width(),
            1.0,
        ),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=float, default=1e8, help="1e8 unless given")
    parser.add_argument("--json", action="store_true", help="a list of figures")
    arguments = parser.parse_args()
    compiler = shutil.which("g++")
    if compiler is None:
        print("skipped: no g++ here to compile what ours is timed beside", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        found = figures(
            int(arguments.steps), compile_cpp(compiler, "explicit", folder).four_springs
        )
    if arguments.json:
        print(json.dumps([asdict(figure) | {"holds": figure.holds} for figure in found], indent=2))
    else:
        print(table(found))
    return DOES_NOT_HOLD if any(figure.holds is False for figure in found) else 0


def table(found):
    """The figures as text."""
    lines = [("", "here", "at most", "holds")]
    for figure in found:
        most = "–" if figure.at_most is None else f"{figure.at_most:g}"
        holds = {None: "–", True: "yes", False: "no"}[figure.holds]
        lines.append((figure.what, f"{figure.here:.4g}", most, holds))
    return columns(lines)


if __name__ == "__main__":
    sys.exit(main())
