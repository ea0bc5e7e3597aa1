"""What runs of a pair of system and integrator cost, and the pilot of adaptive ones.

How many steps an adaptive run takes is not known before, so the pilot counts them too.
"""

import dataclasses
import time

import numpy as np

from integrators.adaptive import prepare, run_adaptive
from sweep import schema
from sweep.computing import Recorder
from sweep.time_axis import TimeAxis

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
