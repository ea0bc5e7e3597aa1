"""Evaluations of a system's function in the steps of a method, counted."""

import functools
from dataclasses import replace

import numpy as np

from integrators import status
from integrators.compiler.elements import DOUBLE
from integrators.compiler.kernels import Kernel, whole_state
from integrators.stepping.formulations import to_stepped_states
from integrators.stepping.problem import Problem
from integrators.stepping.python_step import calling_python


@functools.cache
def _counting_kernel(function: Kernel) -> Kernel:
    """The same function, which counts its calls in the last number of scratch."""
    evaluate = function.inline

    def counted(t, y, p, out, work):
        evaluate(t, y, p, out, work)
        work[work.shape[0] - 1] = work[work.shape[0] - 1] + 1.0

    return Kernel(counted, whole_state, (function,))


def count_evaluations(
    problem: Problem, state: np.ndarray, step_size: float, steps: int
) -> tuple[int, int]:
    """Count how often steps, after a first one, evaluate the function of their problem.

    Parameters
    ----------
    problem : Problem
        In double precision.
    state : ndarray, shape (rows, 3)
    step_size : float
    steps : int

    Returns
    -------
    counted : int
        0 where the method has no function of the whole state, such as a splitting.
    reported : int
        Those that the method itself counts, besides the number that it declares.
    """
    if problem.function.signature is not whole_state:
        return 0, 0
    problem = replace(problem, function=_counting_kernel(problem.function), work=problem.work + 1)
    advance, *functions = problem.step_kernels(DOUBLE)
    y = np.array(to_stepped_states(problem, state[None])[0], dtype=float)
    memory, work = np.zeros(problem.memory), np.zeros(problem.work)
    report = np.zeros(status.REPORT_SIZE)
    for first, count in ((0, 1), (1, steps)):
        work[-1] = report[status.EVALUATIONS] = 0.0
        with calling_python():
            advance(
                *functions, 0.0, step_size, first, count, problem.constants, problem.options, y,
                memory, problem.parameters, work, report,
            )  # fmt: skip
    return int(work[-1]), int(report[status.EVALUATIONS])
