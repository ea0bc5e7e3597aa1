"""The search for the cheapest candidate, where errors and costs of all are known."""

import dataclasses

import numpy as np
import pytest

import integrators
from sweep.campaign.recommend.search import search
from sweep.campaign.recommend.trials import Candidate, Trial
from sweep.study.time_axis import TimeAxis


@dataclasses.dataclass
class Model:
    """A bench of candidates whose errors and costs are known: c·h^p·t^g, and s/h."""

    constants: dict  # error constant and CPU time of a step, by name
    growth: float = 0.0
    floor: float = 0.0
    in_time: bool = True
    spent: float = 0.0

    def __post_init__(self):
        self.time_axis = TimeAxis(1024.0, 256)

    def has_time_for(self, seconds=0.0):
        return True

    check_time = has_time_for

    def error(self, candidate, size, time):
        constant, _ = self.constants[candidate.name]
        return max(constant * size**candidate.order * time**self.growth, self.floor)

    def try_size(self, candidate, size, samples, starts):
        times = self.time_axis.times[1 : samples + 1]
        error = np.array([self.error(candidate, size, time) for time in times])
        steps = times[-1] / size
        seconds = self.constants[candidate.name][1] * steps
        self.spent += seconds * len(starts)
        return Trial(
            size=size,
            samples=samples,
            ratios=np.broadcast_to(error, (len(starts), samples)),
            errors={"energy_error": np.full(len(starts), error[-1])},
            seconds=seconds,
            steps=steps,
            drawn=True,
            round_off=1e-9,
        )

    def cheapest(self, candidates):
        """Seconds of the largest sizes that keep the bound, by name."""
        costs = {}
        for own in candidates:
            constant, seconds = self.constants[own.name]
            size = (1.0 / (constant * 1024.0**self.growth)) ** (1 / own.order)
            costs[own.name] = seconds * 1024.0 / min(size, own.largest_size)
        return costs


@pytest.mark.parametrize("growth", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(20))
def test_the_search_finds_the_cheapest_of_candidates_that_are_known(growth, seed):
    rng = np.random.default_rng(seed)
    names = ["rk2_midpoint", "rk4", "rkmk4", "cf4", "rkmk5", "rk45+fixed"]
    candidates = [Candidate(name, integrators.get(name), 0.5) for name in names]
    constants = {
        own.name: (10 ** rng.uniform(0, 4), own.order * 10 ** rng.uniform(-6.3, -5.7))
        for own in candidates
    }
    bench = Model(constants, growth)
    starts = np.zeros((40, 1, 3))
    _, finalists = search(bench, candidates, starts[:8], starts, lambda line: None)
    costs = bench.cheapest(candidates)
    best = min(finalists, key=lambda own: own.kept.seconds)
    assert best.kept.seconds <= 1.3 * min(costs.values())
    assert best.kept.ratios.max() <= 1.0


def test_the_search_ends_where_errors_fall_no_more():
    candidate = Candidate("rk4", integrators.get("rk4"), 0.5)
    bench = Model({"rk4": (100.0, 1e-6)}, floor=2.0)
    starts = np.zeros((40, 1, 3))
    (contender,), finalists = search(bench, [candidate], starts[:8], starts, lambda line: None)
    assert not finalists and contender.is_at_floor and bench.spent < 100 * 1024 / 0.5 * 1e-6 * 40
