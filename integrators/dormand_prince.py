"""DOP853, Hairer's Dormand–Prince method of order 8 from SciPy: the reference.

Every sample time is a step's end, since the dense output is only of order 7. Adaptive steps
and round-off near 1e-14 make it an independent check of everything with a fixed step.
"""

import warnings

import numpy as np

from integrators.errors import InputError, check_number
from integrators.forms import SpheresLagrangian, VectorField
from integrators.methods import Method, form_of
from integrators.stepping import COMPLETE, NOT_FINITE

SMALLEST_TOLERANCE = 100 * np.finfo(float).eps  # below it SciPy replaces it

METHOD = Method(
    name="dop853",
    description="SciPy's Dormand–Prince 8(5,3), adaptive; the reference",
    order=8,
    symmetric=False,
    forms=(VectorField,),
    preserves={"momentum_map": ("linear",), "casimir": ("linear",)},
    bind=None,
    evaluations=12,
    adaptive=True,
)


def solve(system, state, times, tolerance):
    """Integrate in (q, ω) by DOP853, landing on every sample time.

    Parameters
    ----------
    system : System or form
    state : ndarray, shape (rows, 3)
    times : ndarray, shape (S + 1,)
        Increasing; the first belongs to `state`.
    tolerance : float
        Relative and absolute, at least 2.3e-14.

    Returns
    -------
    states : ndarray, shape (S + 1, rows, 3)
        NaN from where the integration failed.
    status : int
        `stepping.COMPLETE` or `stepping.NOT_FINITE`.
    counters : dict
        ``steps``, ``rejected_steps``, ``evaluations``.

    Raises
    ------
    InputError
        If the tolerance is smaller than double precision supports.
    """
    if not SMALLEST_TOLERANCE <= check_number("tolerance", tolerance) < 1:
        raise InputError(f"tolerance = {tolerance!r}; expected 2.3e-14 to 1", key="tolerance")
    from scipy.integrate import DOP853  # here: it takes as long to import as all the rest

    slope = _slope(system)
    states = np.full((len(times), *np.shape(state)), np.nan)
    if not np.all(np.isfinite(slope(times[0], np.ravel(state)))):  # SciPy would search for ever
        return states, NOT_FINITE, {"steps": 0, "evaluations": 1, "rejected_steps": 0}
    states[0] = state
    y, step, counters = np.ravel(state).astype(float), None, {"steps": 0, "evaluations": 0}
    for i in range(1, len(times)):
        first = None if step is None else min(step, times[i] - times[i - 1])
        solver = DOP853(
            slope, times[i - 1], y, times[i], rtol=tolerance, atol=tolerance, first_step=first
        )
        y, step = _reach_end(solver, step, counters)
        if y is None:
            return states, NOT_FINITE, counters | {"rejected_steps": 0}
        states[i] = y.reshape(np.shape(state))
    return states, COMPLETE, counters | {"rejected_steps": 0}


def _slope(system):
    """The vector field of `system` as ``f(t, y)`` on flat arrays."""
    form = form_of(system)
    if isinstance(form, SpheresLagrangian):
        form = form.vector_field()
    compiled, p = form.field.scalar, form.parameters
    work = np.zeros(form.field.work(form.rows) + 1)

    def slope(t, y):
        out = np.empty((form.rows, 3))
        compiled(t, y.reshape(form.rows, 3), p, out, work)
        return out.ravel()

    return slope


def _reach_end(solver, step, counters):
    """Step to the end of the interval; the state there, or None, and the step to go on with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # overflow on the way to a failure
        while solver.status == "running" and solver.h_abs > 0:
            solver.step()
            counters["steps"] += 1
            if solver.status == "running" or step is None:
                step = solver.step_size  # the last step is cut short: no measure for the next
    counters["evaluations"] += solver.nfev
    if solver.status != "finished" or not np.all(np.isfinite(solver.y)):
        return None, step
    return solver.y, max(step, solver.h_abs)
