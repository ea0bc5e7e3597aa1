"""A run's results do not depend on how it is cut into samples and pieces of any length."""

import itertools

import numpy as np
import pytest
from cases import pairings
from sizes import natural_size

import integrators
import systems
from integrators import status
from integrators.method import EXACT
from integrators.stepping.adaptive import StepBound, prepare, run_adaptive
from integrators.stepping.batch import run_batch
from integrators.stepping.formulations import to_lagrangian_states
from integrators.tableaux.compositions import PROCESSED_COMPOSITIONS

MEMBERS = (1, 10)  # one alone, and some in two groups of lanes
CUTS = ((24, 1, False), (6, 4, False), (1, 24, True), (8, 3, True))


def test_sampling_does_not_change_the_end(in_lanes):
    for members in MEMBERS:
        start = in_lanes.case.members(members, seed=5)
        fine = in_lanes.batch(start, steps=1, samples=24, statistics=False)
        for steps, samples, statistics in CUTS:
            other = in_lanes.batch(start, steps, samples, statistics=statistics)
            np.testing.assert_array_equal(other.states, fine.states[:, ::steps])
            kept = rows_of_steps(in_lanes)
            np.testing.assert_array_equal(other.report[:, kept], fine.report[:, kept])


def rows_of_steps(pairing):
    """The rows of a report that count steps: some methods evaluate for every state that is seen."""
    chosen = pairing.integrator
    of_states = chosen.order == EXACT or chosen.modifier in PROCESSED_COMPOSITIONS
    return [row for row in range(status.REPORT_SIZE) if row != status.EVALUATIONS or not of_states]


def test_intervals_of_different_length_end_at_the_same_states(in_lanes):
    for members in MEMBERS:
        start = in_lanes.case.members(members, seed=5)
        fine = in_lanes.batch(start, steps=1, samples=24)
        uneven = np.array([1, 1, 2, 3, 7, 10])
        whole = in_lanes.batch(start, steps=uneven, samples=6)
        ends = np.cumsum(uneven)
        np.testing.assert_array_equal(whole.states, fine.states[:, [0, *ends]])
        np.testing.assert_array_equal(whole.report, fine.report)
        largest = np.maximum.reduceat(fine.statistics[..., status.ABS_MAX], [0, *ends[:-1]], axis=1)
        np.testing.assert_array_equal(whole.statistics[..., status.ABS_MAX], largest)


def test_statistics_are_those_of_every_step(covering):
    case = covering.case
    steps, samples = 5, 4
    statistics = covering.batch([case.state], steps, samples).statistics[0]
    every = covering.batch([case.state], 1, steps * samples).states[0]
    times = 0.01 * case.time_scale * np.arange(len(every))
    energy = case.evaluate(case.followed, to_lagrangian_states(covering.problem, every), times)[
        :, 0
    ]
    followed = [q for q in case.system.quantities if q.function is case.followed]
    rounded = [natural_size(quantity, case, case.state) for quantity in followed]
    sizes = max([1.0, *rounded]), 1.0
    for m, errors in enumerate((energy - energy[0], case.length_errors(every))):
        errors = errors[1:].reshape(samples, steps)
        expected = {
            status.MEAN: errors.mean(axis=1),
            status.MINIMUM: errors.min(axis=1),
            status.MAXIMUM: errors.max(axis=1),
            status.ABS_MEAN: np.abs(errors).mean(axis=1),
            status.ABS_MAX: np.abs(errors).max(axis=1),
        }
        for row, values in expected.items():
            assert statistics[:, m, row] == pytest.approx(values, rel=1e-12, abs=2e-15 * sizes[m])


def test_statistics_of_one_step_in_so_many(covering):
    """Counted from a sample on, and of the step to the next."""
    start, uneven = [covering.case.state], np.array([1, 2, 3, 8, 10])
    each = covering.batch(start, 1, uneven.sum()).statistics[0, :, :, status.MEAN]
    found = covering.batch(start, uneven, 5, statistics=3).statistics[0]
    for own, errors in zip(found, np.split(each, np.cumsum(uneven)[:-1]), strict=True):
        seen = errors[[*range(2, len(errors) - 1, 3), len(errors) - 1]]
        np.testing.assert_array_equal(own[:, status.MAXIMUM], seen.max(axis=0))
        np.testing.assert_array_equal(own[:, status.ABS_MAX], np.abs(seen).max(axis=0))
        assert own[:, status.MEAN] == pytest.approx(seen.mean(axis=0), rel=1e-12, abs=1e-30)


def test_statistics_end_with_the_last_step_before_a_failure():
    pairing = next(p for p in pairings() if p.name == "variational")
    state = pairing.case.state.copy()
    state[-1] = np.nan
    batch = pairing.batch([state], steps=2, samples=3)
    assert np.all(np.isnan(batch.statistics[0, :, 0]))


# --- checkpoints ------------------------------------------------------------------------------


def fixed_part(pairing, steps, checkpoints):
    h = 0.01 * pairing.case.time_scale
    return run_batch(pairing.problem, None, h, steps, len(steps), True, checkpoints=checkpoints)


def test_a_run_in_pieces_is_the_run_at_once(in_lanes):
    """In lanes, then others in company of one that went alone, then each alone."""
    start = in_lanes.case.members(10, seed=5)
    steps = np.array([3, 2, 4, 1, 5])
    whole = in_lanes.batch(start, steps, samples=5)
    first = in_lanes.batch(start, steps[:2], samples=2)
    alone = in_lanes.batch(start[1:2], steps[:2], samples=2)
    assert first.checkpoints.shape == (10, in_lanes.problem.checkpoint_size)
    np.testing.assert_array_equal(alone.checkpoints[0], first.checkpoints[1])
    regrouped = np.concatenate([alone.checkpoints, first.checkpoints[2:]])
    second = fixed_part(in_lanes, steps[2:4], regrouped)
    np.testing.assert_array_equal(second.states[:, 0], whole.states[1:, 2])
    for member, checkpoint in zip(range(1, 10), second.checkpoints, strict=True):
        third = fixed_part(in_lanes, steps[4:], checkpoint[None])
        np.testing.assert_array_equal(third.states[0], whole.states[member, 4:])
        np.testing.assert_array_equal(third.statistics[0], whole.statistics[member, 4:])
        np.testing.assert_array_equal(third.report[0], whole.report[member])
        np.testing.assert_array_equal(third.checkpoints[0], whole.checkpoints[member])
    np.testing.assert_array_equal(second.states, whole.states[1:, 2:5])
    np.testing.assert_array_equal(second.statistics, whole.statistics[1:, 2:4])


def in_short_pieces(piece, intervals):
    """What `piece(first, checkpoints)` returns, called until all intervals are reached.

    States and statistics of all pieces, and the last piece.
    """
    parts, first, checkpoints = [], 0, None
    while first < intervals:
        parts.append(piece(first, checkpoints))
        checkpoints = parts[-1].checkpoints
        first += parts[-1].states.shape[1] - 1
        assert 0.0 <= parts[-1].part < 1.0
    assert any(part.part for part in parts)
    states = np.concatenate([part.states[:, 1:] for part in parts], axis=1)
    return states, np.concatenate([part.statistics for part in parts], axis=1), parts[-1]


def assert_same(pieces, whole):
    states, statistics, last = pieces
    np.testing.assert_array_equal(states, whole.states[:, 1:])
    np.testing.assert_array_equal(statistics, whole.statistics)
    np.testing.assert_array_equal(last.report, whole.report)
    np.testing.assert_array_equal(last.checkpoints, whole.checkpoints)


def test_a_run_stops_after_any_step(in_lanes):
    """Between samples too, in lanes and alone, whether there are statistics or not."""
    steps, h = np.array([5, 1, 6]), 0.01 * in_lanes.case.time_scale
    for members, statistics in itertools.product(MEMBERS, (1, 0, 3)):
        start = in_lanes.case.members(members, seed=5)

        def piece(first, checkpoints, start=start, statistics=statistics):
            return run_batch(
                in_lanes.problem, start, h, steps[first:], 3 - first, statistics,
                checkpoints=checkpoints, most=2,
            )  # fmt: skip

        whole = in_lanes.batch(start, steps, samples=3, statistics=statistics)
        assert_same(in_short_pieces(piece, 3), whole)


def test_an_adaptive_run_stops_after_any_attempt(adaptive_pairing):
    problem, times = adaptive_pairing.problem(1e-5), np.array([0.0, 1.5, 1.501, 3.0])
    times, start = times * adaptive_pairing.case.time_scale, adaptive_pairing.case.state[None]
    for statistics in (1, 0, 3):

        def piece(first, checkpoints, statistics=statistics):
            return run_adaptive(
                problem, start, times[first:], 1e-5, statistics, checkpoints=checkpoints, most=2
            )

        whole = run_adaptive(problem, start, times, 1e-5, statistics)
        pieces = in_short_pieces(piece, 3)
        assert_same(pieces, whole)
        for name, values in whole.counters.items():
            np.testing.assert_array_equal(pieces[2].counters[name], values)


def test_an_adaptive_run_in_pieces_is_the_run_at_once(adaptive_pairing):
    """Whatever the tolerance, and where it stops."""
    members = adaptive_pairing.case.members(2, seed=5)
    for tolerance, cuts in ((1e-3, (0, 1, 2, 7, 12)), (1e-7, (0, 5, 12))):
        problem = adaptive_pairing.problem(tolerance)
        times = 2.0 * adaptive_pairing.case.time_scale * np.arange(13) / 12
        whole = run_adaptive(problem, members, times, tolerance, True)
        checkpoints, standing = None, members
        for first, last in itertools.pairwise(cuts):
            part = run_adaptive(
                problem, standing, times[first : last + 1], tolerance, True, checkpoints=checkpoints
            )
            for name in ("states", "rejected_so_far"):
                np.testing.assert_array_equal(
                    getattr(part, name)[:, 1:], getattr(whole, name)[:, first + 1 : last + 1]
                )
            np.testing.assert_array_equal(part.statistics, whole.statistics[:, first:last])
            np.testing.assert_array_equal(
                part.step_sizes[:, 1:], whole.step_sizes[:, first + 1 : last + 1]
            )
            checkpoints, standing = part.checkpoints, None
        assert checkpoints.shape == (2, problem.checkpoint_size)
        np.testing.assert_array_equal(part.report, whole.report)
        np.testing.assert_array_equal(part.step_sizes[:, 0], whole.step_sizes[:, 0])
        np.testing.assert_array_equal(checkpoints, whole.checkpoints)
        for name, values in whole.counters.items():
            np.testing.assert_array_equal(part.counters[name], values)


@pytest.mark.parametrize("name", ["rk45", "dop853", "rkmk54"])
def test_a_run_that_failed_stays_as_it_is(name):
    system = systems.get("nbody_sphere", count=2)
    q = [[0.0, 0.0, 1.0], [np.sin(0.3), 0.0, np.cos(0.3)]]
    start = np.array([[*q, *np.zeros((2, 3))]])
    start[0, 2, 0] = np.inf if name == "dop853" else 0.0  # which would step over the collision
    problem = integrators.get(name).bind(system)
    first = run_adaptive(problem, start, [0.0, 0.1, 0.2, 0.3], 1e-6)
    assert first.report[0, status.STATUS_ROW] > status.COMPLETE
    later = run_adaptive(problem, None, [0.3, 0.4], 1e-6, checkpoints=first.checkpoints)
    for key, value in first.counters.items():
        np.testing.assert_array_equal(later.counters[key], value)
    np.testing.assert_array_equal(later.report, first.report)
    assert np.all(np.isnan(later.states[:, 1]))


def test_what_cannot_go_on_together_or_at_all():
    chain = systems.get("spherical_pendulum_chain")
    start = chain.start("lee")[None]
    problem = integrators.get("rk4").bind(chain)
    ends = [run_batch(problem, start, 0.1, steps, 1).checkpoints for steps in (1, 2)]
    with pytest.raises(ValueError, match="different steps"):
        run_batch(problem, None, 0.1, 1, 1, checkpoints=np.concatenate(ends))
    adaptive = integrators.get("rk45").bind(chain)
    with pytest.raises(ValueError, match="one adaptive trajectory"):
        run_adaptive(adaptive, start.repeat(2, axis=0), [0.0, 1.0], 1e-3, most=1)


@pytest.mark.parametrize("name", ["rk45", "dop853", "scipy_bdf"])
def test_adaptive_statistics_of_one_step_in_so_many(name):
    """The first step of an interval, and every third from there, in pieces as at once."""
    chain = systems.get("spherical_pendulum_chain")
    problem, start = integrators.get(name).bind(chain), chain.start("lee")[None]
    times = np.linspace(0.0, 6.0, 4)
    first, some, all_of_them = (
        run_adaptive(problem, start, times, 1e-5, every) for every in (10**6, 3, 1)
    )
    spread = [np.ptp(run.statistics[0, :, 0, :3], axis=1) for run in (first, some, all_of_them)]
    assert np.all(spread[0] == 0.0) and np.all((spread[1] > 0.0) & (spread[1] <= spread[2]))

    def piece(after, checkpoints):
        return run_adaptive(problem, start, times[after:], 1e-5, 3, checkpoints=checkpoints, most=2)

    assert_same(in_short_pieces(piece, len(times) - 1), some)


@pytest.mark.parametrize(("name", "counted"), [("rk4", "rk45"), ("variational", "dop853")])
@pytest.mark.parametrize("fails", [False, True])
def test_equal_steps_stop_while_they_are_counted_and_between_samples(name, counted, fails):
    """With several samples in a step too, and where a step fails: at two bodies that meet."""
    if fails:
        system, tolerance = systems.get("nbody_sphere", count=2), 0.2
        state = np.array([[0.6, 0.0, 0.8], [-0.6, 0.0, 0.8], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    else:
        system, tolerance = systems.get("spherical_pendulum_chain"), 1e-3
        state = system.start("celledoni")
    problem = integrators.get(name, steps_of=counted).bind(system)
    times = np.array([0.0, 0.5, 0.501, 0.502, 0.91, 0.92, 0.94, 1.0])
    bound = StepBound(times[-1])

    def piece(first, checkpoints):
        known, tried = prepare(problem, state[None], bound, tolerance, checkpoints, most=3)
        return run_adaptive(
            problem, None, times[first:], tolerance, True, checkpoints=known, bound=bound,
            most=0 if tried else 2,
        )  # fmt: skip

    whole = run_adaptive(problem, state[None], times, tolerance, True)
    pieces = in_short_pieces(piece, len(times) - 1)
    assert_same(pieces, whole)
    for key, values in whole.counters.items():
        np.testing.assert_array_equal(pieces[2].counters[key], values)
    assert (whole.counters["stop_step"][0] > 0) == fails
