"""LSODA, Radau and BDF from SciPy, as people use them: by one tolerance, relative and absolute.

Samples within a step are SciPy's dense output. A solver's memory of its steps is not for others to
keep, so it is begun anew after every `ANEW` steps, wherever a run is interrupted, and a checkpoint
is the state there. A run that is resumed takes the steps since again, about a second of them at
most; one that goes on in the same process keeps its solver.

Evaluations are all calls of the vector field, those for Jacobians by differences too.

Radau and BDF solve linear systems by LAPACK: their last bits depend on the machine's, and on its
number of threads, which is one on workers.

L. Petzold, *Automatic selection of methods for solving stiff and nonstiff systems of ordinary
differential equations* (1983); E. Hairer and G. Wanner, *Solving Ordinary Differential Equations
II* (1996), section IV.8; L. F. Shampine and M. W. Reichelt, *The MATLAB ODE suite* (1997).
"""

import functools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from integrators.compiler.elements import DOUBLE
from integrators.forms.flows import Form, VectorField
from integrators.method import Integrator, Method
from integrators.methods.dormand_prince import (
    CARRIED,
    EVALUATIONS,
    OLD,
    SIZE,
    STATE,
    STATUS,
    STEPS,
    Path,
    scipy_solver,
)
from integrators.status import COMPLETE, NOT_FINITE
from integrators.stepping import loop
from integrators.stepping.adaptive import (
    AdaptiveProblem,
    Solution,
    StepBound,
    vector_field_problem,
)
from integrators.stepping.python_step import collect_error

ANEW = 10_000  # steps
BEGUN, START = SIZE, OLD  # in a checkpoint: time and state at which the solver was begun
NODES = {"LSODA": 1, "Radau": 3, "BDF": 1}  # times of an attempt's evaluations, its end last


class _Field:
    """The vector field of flat arrays, which counts its calls and keeps their times."""

    def __init__(self, slope: Any) -> None:
        self._slope, self.count, self.times = slope, 0, dict[float, None]()

    def __call__(self, t: float, y: np.ndarray) -> np.ndarray:
        self.count += 1
        self.times[t] = None
        return self._slope(t, np.ascontiguousarray(y))


@dataclass(frozen=True)
class _Solve:
    """The ``solve`` of an `AdaptiveProblem` by a solver of SciPy."""

    name: str
    going: dict[Any, Any] = field(default_factory=dict)  # the last solver, by where it stands

    def __call__(
        self,
        problem: AdaptiveProblem,
        state: np.ndarray,
        times: np.ndarray,
        tolerance: float,
        bound: StepBound,
        statistics: int,
        history: bool = False,
        checkpoint: np.ndarray | None = None,
        most: int | None = None,
    ) -> Solution:
        """Integrate one trajectory; see `adaptive.AdaptiveProblem`."""
        path = _Path(problem, state, times, tolerance, bound, statistics, checkpoint)
        path.name = self.name
        if checkpoint is not None:
            path.going = self.going.pop((tolerance, checkpoint.tobytes()), None)
        solution = path.run(history, most)
        self.going.clear()
        if path.status == COMPLETE:
            self.going[tolerance, solution.checkpoint.tobytes()] = path.solver, path.field
        return solution


class _Path(Path):
    """By a solver that is begun anew after `ANEW` steps."""

    name: str
    field: _Field
    going: Any = None
    history = False

    def make_solver(self, history: bool) -> None:
        """Make the solver of a checkpoint, by the steps that it has taken; `attempt` others."""
        self.history, steps = history, int(self.carried[STEPS])
        if self.going:
            self.solver, self.field = self.going
        elif steps:
            self._begin(float(self.carried[BEGUN]), self.last[START])
            for _ in range((steps - 1) % ANEW + 1):
                self.solver.step()

    def _begin(self, t: float, y: np.ndarray) -> None:
        self.field, allowed = _Field(self.slope), {"rtol": self.tolerance, "atol": self.tolerance}
        given = self.field, t, y.copy(), math.inf
        if self.name == "LSODA":  # its own first step is infinite at an equilibrium
            allowed["first_step"] = scipy_solver("RK23")(*given, **allowed).h_abs
        self.solver = scipy_solver(self.name)(*given, **allowed)

    def attempt(self) -> tuple[int, bool]:
        """Take a step; the number of attempts, and whether it is taken."""
        carried, began, before, said = self.carried, self.time, 0, None
        try:
            if carried[STEPS] % ANEW == 0:
                carried[BEGUN], self.last[START] = began, self.last[STATE]
                self._begin(began, self.last[STATE])
            else:
                before = self.field.count
            self.field.times.clear()
            said = self.solver.step()
        except ValueError as error:  # of arrays that are not finite, in SciPy's linear algebra
            said, carried[STATUS] = str(error), NOT_FINITE
        taken = self.status == COMPLETE and self.solver.status != "failed"
        carried[EVALUATIONS] += self.field.count - before
        ends = [t for t in self.field.times if t > began][NODES[self.name] - 1 :: NODES[self.name]]
        if self.history:
            accepted = [False] * (len(ends) - taken) + [True] * taken
            self.attempts += [
                (began, end - began, math.nan, ok) for end, ok in zip(ends, accepted, strict=True)
            ]
        if not taken:
            said = str(self.warned[-1].message) if self.warned else said
            collect_error(f"scipy_{self.name.lower()}", f"at t = {began:g}, {said}")
        return len(ends), taken

    def interpolate(self, t: float) -> np.ndarray:
        """The state at a time within the last step."""
        return self.solver.dense_output()(t)


def _bind(name: str, form: Form, integrator: Integrator) -> AdaptiveProblem:
    scipy_solver(name)  # now, or the first run would take the time
    carried = CARRIED + 3 * form.rows
    return vector_field_problem(
        form, _Solve(name), (loop.evaluation_kernel(DOUBLE),), integrator.options, carried
    )


def _method(
    name: str, order: int, family: str, description: str, sources: tuple[str, ...]
) -> Method:
    return Method(
        name=f"scipy_{name.lower()}",
        sources=(*sources, "virtanen2020"),
        description=f"SciPy's {name}, adaptive; {description}",
        order=order,
        symmetric=False,
        forms=(VectorField,),
        preserves={},
        bind=functools.partial(_bind, name),
        evaluations=0,
        family=family,
        adaptive=True,
        precise=False,
        tangents=False,
    )


SCIPY_SOLVERS = (
    _method(
        "LSODA", 12, "multistep",
        "Adams methods of orders 1 to 12, or BDF of orders 1 to 5 where the equations are stiff",
        ("petzold1983",),
    ),
    _method(
        "Radau", 5, "runge_kutta", "the implicit Radau IIA method of order 5", ("hairerwanner1996",)
    ),
    _method(
        "BDF", 5, "multistep", "implicit differentiation formulas of orders 1 to 5",
        ("shampinereichelt1997",),
    ),
)  # fmt: skip
