"""Measurements of a run's map that a study's record may name besides quantities.

``symplectic_defect`` and ``reversal_error``, see `integrators.diagnostics.structure`, are measured
when a run is over; ``lyapunov`` and ``megno``, see `integrators.diagnostics.exponents`, along it.
They count in no run's CPU time.
"""

import contextlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from integrators.diagnostics import exponents
from integrators.diagnostics.structure import (
    AdaptiveMap,
    defect_of_map,
    defect_of_steps,
    errors_of_return,
)
from integrators.errors import InputError
from integrators.forms.phase_spaces import phase_space, state_space
from integrators.method import Integrator
from sweep.study.variables import CHAOS, MEGNO, REVERSAL_ERROR, STRUCTURE, SYMPLECTIC_DEFECT
from systems import System

if TYPE_CHECKING:
    from sweep.study.experiment import IntegratorEntry
    from sweep.study.starts import Start

MOST_BODIES = 128  # for a symplectic defect: its time and memory grow as their square and worse
WITH_TANGENTS = {SYMPLECTIC_DEFECT, *CHAOS}  # for which steps are computed with tangents


def obstacle_to_measuring(
    name: str, systems: Sequence[System], entries: "Sequence[IntegratorEntry]"
) -> str:
    """The reason why no run of an experiment can be measured; empty if some can be.

    Parameters
    ----------
    name : str
        Of `sweep.study.variables.MEASURED`.
    systems : list of systems.System
    entries : list of sweep.study.IntegratorEntry
    """
    if name == REVERSAL_ERROR:
        if all(entry.adaptive for entry in entries):
            return "needs an integrator with a fixed step: an adaptive one has no steps to go back"
        return ""
    follows, first = name in CHAOS, systems[0].name
    obstacles = [exponents.obstacle_to_following(entry.integrator()) for entry in entries]
    if follows and all(obstacles):
        return f"cannot be computed: {'; '.join(dict.fromkeys(obstacles))}"
    try:
        if follows:
            exponents.check_compiled()
        for system in systems:
            (state_space if follows else phase_space)(system.form)
    except InputError as error:
        return f"cannot be {'computed' if follows else 'measured'} on {first}: {error}"
    fewest = min(system.bodies for system in systems)
    if fewest > MOST_BODIES and not follows:
        return f"is measured of up to {MOST_BODIES} bodies; {first} has {fewest}"
    return ""


def check_exponent_count(systems: Sequence[System], start: "Start", count: int) -> None:
    """Raise InputError where runs of an experiment have not so many Lyapunov exponents.

    Parameters
    ----------
    systems : list of systems.System
    start : an initial condition
        Of which the first state counts.
    count : int
    """
    smallest = min(systems, key=lambda system: system.bodies)
    exponents.check_count(smallest.form, start.states(smallest)[0], count)


def exponents_of_record(record: Collection[str]) -> list[str]:
    """The names of Lyapunov exponents in a record, in order."""
    return [name for name in record if name in CHAOS and name != MEGNO]


def followed_problem(
    problem: Any, integrator: Integrator, form: Any, record: Collection[str]
) -> exponents.Followed | None:
    """The `Followed` problem whose tangent vectors give what a record asks for; None without any.

    Parameters
    ----------
    problem : Problem or AdaptiveProblem
    integrator : Integrator
        Whose problem it is.
    form : SpheresLagrangian or another
    record : tuple of str
    """
    if exponents.obstacle_to_following(integrator) or not {*record} & {*CHAOS}:
        return None
    if integrator.adaptive and integrator.main is not None:
        problem = integrator.main.bind(form)
    return exponents.Followed(problem, form, max(1, len(exponents_of_record(record))))


def checkpoint_size(integrator: Integrator, system: System, record: Collection[str]) -> int:
    """Numbers in the checkpoint at the end of a run: of the problem, and of its tangent vectors."""
    if integrator.counted is not None:  # its runs do not go on from their end
        return 0
    problem = integrator.bind(system)
    followed = followed_problem(problem, integrator, system.form, record)
    return problem.checkpoint_size + (followed.checkpoint_size if followed else 0)


def symplectic_defects(
    form: Any,
    problem: Any,
    initial: NDArray[np.float64],
    step_size: float,
    interval: float,
    maps: Sequence[AdaptiveMap],
) -> dict[str, NDArray[np.float64]]:
    """The variables of `SYMPLECTIC_DEFECT` of runs of one problem.

    Parameters
    ----------
    form : SpheresLagrangian, SpinHamiltonian or NambuHamiltonian
    problem : Problem or AdaptiveProblem
    initial : ndarray, shape (runs, rows, 3)
    step_size : float
        NaN of an adaptive problem.
    interval : float
        Between the first two samples, the duration of an adaptive problem's map.
    maps : sequence of AdaptiveMap
        Of each run of an adaptive problem; of another one empty.

    Returns
    -------
    dict of str to ndarray
        NaN where there are too many bodies, or the state is no regular point.

    Raises
    ------
    integrators.diagnostics.structure.Unfinished
        Of the maps.
    """
    found = np.full((len(initial), 2), np.nan)
    if form.bodies <= MOST_BODIES:
        space = phase_space(form)
        for i, state in enumerate(initial):
            with contextlib.suppress(InputError):  # an equilibrium may have no tangent plane
                if maps:
                    measured = defect_of_map(space, maps[i], state, interval)
                else:
                    measured = defect_of_steps(space, problem, state, step_size, 1)
                found[i] = measured.defect, measured.resolution
    names = (variable.name for variable in STRUCTURE[SYMPLECTIC_DEFECT])
    return dict(zip(names, found.T, strict=True))


def reversal_errors(
    form: Any, problem: Any, initial: NDArray[np.float64], back: NDArray[np.float64] | None
) -> dict[str, NDArray[np.float64]]:
    """The variable of `REVERSAL_ERROR` of runs of one problem; NaN of adaptive ones.

    Parameters
    ----------
    form, problem
        As above.
    initial, back : ndarray, shape (runs, rows, 3)
        States at the start, and those to which as many steps lead back from the end; with a last
        axis of high and low where the problem is one in double-double. None of adaptive runs.

    Returns
    -------
    dict of str to ndarray
    """
    if back is None:
        return {REVERSAL_ERROR: np.full(len(initial), np.nan)}
    return {REVERSAL_ERROR: errors_of_return(form, problem, initial, back)}
