"""Failures inside kernels: noted lane by lane in the report, and the state made NaN."""

import math

from integrators.compiler.kernels import inlined
from integrators.compiler.lanes import all_lanes, select
from integrators.compiler.vectors import add, get, sub
from integrators.status import COMPLETE, STATUS_ROW, STOP_RESIDUAL, STOP_STEP


@inlined
def fail(report, ok, code, step, residual):
    """Note `code` at `step` in the lanes where `ok` does not hold and no failure stands."""
    if not all_lanes(ok):
        ongoing = report[STATUS_ROW] <= COMPLETE
        _note(report, STATUS_ROW, ok, ongoing, code)
        _note(report, STOP_STEP, ok, ongoing, step)
        _note(report, STOP_RESIDUAL, ok, ongoing, residual)


@inlined
def _note(report, row, ok, ongoing, value):
    kept = report[row]
    report[row] = select(ok, kept, select(ongoing, value + 0.0 * kept, kept))


@inlined
def poison(y, ok):
    """Make the state NaN in the lanes where `ok` does not hold: nothing after a failure counts."""
    if not all_lanes(ok):
        for i in range(y.shape[0]):
            for c in range(3):
                y[i, c] = select(ok, y[i, c], y[i, c] * math.nan)


@inlined
def is_finite(y):
    """Whether every number of the state is finite, lane by lane."""
    total = sub(get(y, 0), get(y, 0))
    for i in range(1, y.shape[0]):
        total = add(total, sub(get(y, i), get(y, i)))  # 0, or NaN from then on
    return total[0] + total[1] + total[2] <= 0.0
