"""What runs of a pair of system and integrator cost, measured by a pilot.

How many steps an adaptive run takes is not known before, so the pilot counts them too.
"""

import dataclasses
import time

import numpy as np

from integrators.adaptive import prepare, run_adaptive
from integrators.integration import run_batch
from sweep import schema
from sweep.computing import Named, Recipe, Recorder
from sweep.time_axis import TimeAxis

REPEATS = 3
PILOT_SAMPLES = 256  # at most: recording has a fixed cost that long runs share
ENOUGH_STEPS = 50  # the first ones are small
LONGEST = 0.1  # seconds


@dataclasses.dataclass(frozen=True)
class Cost:
    """Measured cost of a pair of system and integrator.

    Parameters
    ----------
    step : float
        Seconds of one step of one trajectory.
    usual_step : float
        The median of the repeats.
    sample : float
        Seconds to record one sample of one trajectory.
    again : float
        How often the steps are taken again when the run is over, to measure its structure.
    run : float
        Seconds of what is measured of each trajectory besides.
    rate : float
        Steps of an adaptive run per unit time, at the tolerance 1; else NaN.
    order : int
        By which steps grow when the tolerance falls: as its power −1/order.
    """

    step: float
    usual_step: float
    sample: float
    again: float = 0.0
    run: float = 0.0
    rate: float = np.nan
    order: int = 1

    def steps(self, duration, tolerance):
        """Steps of an adaptive run, expected from the pilot's."""
        return self.rate * duration * tolerance ** (-1 / self.order)


@dataclasses.dataclass(frozen=True, eq=False)
class Trial:
    """A pair of system and integrator, and a few states to try it on.

    Parameters
    ----------
    recipe : sweep.computing.Recipe
    system, integrator : sweep.computing.Named
    initial : ndarray, shape (lanes, rows, 3)
    step_size, tolerance : float
        One of them is NaN.
    """

    recipe: Recipe
    system: Named
    integrator: Named
    initial: np.ndarray
    step_size: float
    tolerance: float

    def cost(self, seconds):
        """The `Cost` of the pair, of a pilot of about so many seconds; compiles its kernels."""
        recorder = Recorder(self.recipe, self.system, self.integrator)
        if np.isnan(self.step_size):
            return adaptive_cost(recorder, self.initial[:1], self.tolerance, seconds)
        return fixed_cost(recorder, self.initial, self.step_size, seconds)


def fixed_cost(recorder, initial, step_size, seconds):
    """The `Cost` of an integrator of fixed steps, of a pilot of about so many seconds.

    Parameters
    ----------
    recorder : sweep.computing.Recorder
    initial : ndarray, shape (lanes, rows, 3)
    step_size : float
    seconds : float
    """
    problem, statistics = recorder.problem, recorder.recipe.statistics == "every_step"

    def timed(steps):
        # The thread's own time: the local cluster's workers start meanwhile.
        began = time.thread_time()
        run_batch(problem, initial, step_size, steps, 1, statistics=statistics)
        return time.thread_time() - began

    timed(1)  # compiles
    steps = 8
    while (first := timed(steps)) < seconds and steps < 10**6:
        steps *= 4
    repeats = [first, *(timed(steps) for _ in range(REPEATS - 1))]
    call = min(timed(1) for _ in range(REPEATS))
    # A call can seem to take longer than the steps, which cost half at least.
    per_step = [max(one - call, 0.5 * one) / steps / len(initial) for one in repeats]
    per_sample = _recording_seconds(recorder, initial, step_size)
    structure = structure_cost(recorder, initial, step_size)
    return Cost(min(per_step), float(np.median(per_step)), per_sample, **structure)


def _recording_seconds(recorder, initial, step_size):
    """Seconds to record a sample of a trajectory: runs of one step a sample, less those steps."""
    samples = min(recorder.recipe.time_axis.samples, PILOT_SAMPLES)
    axis = TimeAxis(step_size * samples, samples)
    brief = Recorder(recorder.recipe.brief(axis), recorder.system, recorder.integrator)
    brief.run(initial, step_size, 1)
    began = time.thread_time()
    columns = brief.run(initial, step_size, 1)
    recording = time.thread_time() - began - columns["cpu_time"].sum()
    return max(recording, 0.0) / (len(initial) * (samples + 1))


def structure_cost(recorder, initial, step_size, tolerance=np.nan):
    """What the measured structure of a run costs: ``again`` and ``run`` of a `Cost`.

    Parameters
    ----------
    recorder : sweep.computing.Recorder
    initial : ndarray, shape (runs, rows, 3)
    step_size, tolerance : float
        One of them is NaN.

    Returns
    -------
    dict of str to float
    """
    record = recorder.recipe.record
    if not any(name in schema.STRUCTURE for name in record):
        return {}
    few = initial[:2]  # in lanes, where there are any
    recorder.structure(few, few, step_size, 1, tolerance)  # compiles
    began = time.thread_time()
    recorder.structure(few, few, step_size, 1, tolerance)
    seconds = time.thread_time() - began
    back = schema.REVERSAL_ERROR in record and np.isnan(tolerance)
    return {"again": float(back), "run": seconds / len(few)}


def adaptive_cost(recorder, initial, tolerance, seconds):
    """`Cost` of adaptive runs, by running one for a short time.

    Parameters
    ----------
    recorder : sweep.computing.Recorder
    initial : ndarray, shape (1, rows, 3)
    tolerance : float
    seconds : float
        That the pilot takes at least, unless the whole run is shorter.
    """
    times, made = recorder.recipe.times, recorder.problem
    statistics = recorder.recipe.statistics == "every_step"
    run_adaptive(made, initial, times[:2], 0.1, statistics)  # compiles
    intervals = max(1, (len(times) - 1) // 256)
    while True:
        began = time.thread_time()
        run = run_adaptive(made, initial, times[: intervals + 1], tolerance, statistics)
        took, steps = time.thread_time() - began, int(run.counters["steps"][0])
        enough = took >= seconds and steps >= ENOUGH_STEPS
        if enough or took > LONGEST or intervals >= len(times) - 1:
            break
        intervals = min(4 * intervals, len(times) - 1)
    order = recorder.order
    per_step = took / max(steps, 1)
    return Cost(
        step=per_step,
        usual_step=per_step,
        sample=_sample_seconds(recorder, initial, tolerance, intervals),
        rate=max(steps, 1) / times[intervals] * tolerance ** (1 / order),
        order=order,
        **structure_cost(recorder, initial, np.nan, tolerance),
    )


def _sample_seconds(recorder, initial, tolerance, intervals):
    """Seconds to record a sample, beside those of the integration and its preparation."""
    recipe = recorder.recipe
    axis = TimeAxis(recipe.times[intervals], intervals)
    brief = Recorder(recipe.brief(axis), recorder.system, recorder.integrator)
    before = time.thread_time()
    prepare(brief.problem, initial, axis.times, tolerance)
    began = time.thread_time()
    columns = brief.run(initial, np.nan, 0, tolerance=tolerance)
    beside = began - before + columns["cpu_time"].sum()
    recording = time.thread_time() - began - beside
    return max(recording, 0.0) / (intervals + 1)
