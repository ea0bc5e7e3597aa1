"""Problems that the stepping loops run: a method with a fixed step, bound to a form."""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from integrators.compiler import elements
from integrators.compiler.elements import Element
from integrators.compiler.kernels import Compiled, Kernel
from integrators.status import MONITORED, REPORT_SIZE, STATISTICS
from integrators.stepping import loop
from integrators.stepping.checkpoint import Layout
from integrators.stepping.python_step import PythonStep

Constants = np.ndarray | list[Fraction]  # fractions until they become doubles, high and low


class Stepper(Protocol):
    """An `integrators.method.Integrator`: what stepping loops read of it."""

    @property
    def evaluations(self) -> int:
        """Evaluations of the system's function in a step."""

    @property
    def options(self) -> Mapping[str, Any]:
        """All options, defaults filled in."""


@dataclass(frozen=True)
class Problem:
    """A method bound to a form: everything that the stepping loop needs but h and the state.

    `constants` and `parameters` have the shape ``(k,)``, or ``(k, 2)`` in double-double: high and
    low doubles. `options` are doubles.

    `memory` and `work` are sizes, in elements; `solves` the implicit solves in a step;
    `formulation` says what the state's second half is: ω (``q_omega``), q̇ (``q_qdot``) or π
    (``q_pi``); ``state`` where it has no halves. `conversions` are those of a `HomogeneousFlow`.
    `function`, `move` and `pull` are what
    `loop.method_signature` says; None where the method has no use for them.

    `inlined` says whether the loop in lanes of a state of few rows is compiled with all that it
    calls, once for each method and system: it is 1.1 to 2.4 times as fast then, and takes a second
    to compile.

    `seen` is the number of evaluations that a call of `advance` counts besides those of its steps,
    for the state that is seen after it.

    `python` is the step in Python that `advance` calls, which has no tangents.
    """

    advance: Kernel
    function: Kernel
    monitor: Kernel
    constants: Constants
    options: Constants
    parameters: np.ndarray
    rows: int
    memory: int
    work: int
    solves: int = 0
    formulation: str = "q_omega"
    conversions: tuple[Kernel, ...] = ()
    move: Kernel | None = None
    pull: Kernel | None = None
    inlined: bool = True
    seen: int = 0
    python: PythonStep | None = None

    @property
    def elements(self) -> tuple[Element, Element]:
        """The `Element` of one trajectory alone, and that of trajectories side by side."""
        if np.ndim(self.parameters) == 2:
            return elements.DOUBLE_DOUBLE, elements.DOUBLE_DOUBLE_LANES
        return elements.DOUBLE, elements.LANES

    def element(self, count: int, wide: bool) -> Element:
        """The `Element` for a batch of so many trajectories; `wide` as in `batch.run_batch`."""
        alone, beside = self.elements
        is_tiny = beside is elements.LANES and self.rows <= loop.TINY_ROWS
        if wide and is_tiny and count > beside.trajectories:
            return elements.WIDE_LANES
        return beside if count > 1 else alone

    def kernels(self, element: Element) -> list[Compiled]:
        """The compiled functions that `loop.image_kernel` takes, and the monitor."""
        return [*self.step_kernels(element), self.monitor.compiled(element)]

    def step_kernels(self, element: Element) -> list[Compiled]:
        """The compiled functions that `loop.image_kernel` takes."""
        return [kernel.compiled(element) for kernel in self.made_from[:-1]]

    @functools.cached_property
    def layout(self) -> Layout:
        """The `Layout` of a checkpoint of one trajectory."""
        return Layout(
            (
                ("step", ()),
                ("within", ()),
                ("y", (self.rows, 3)),
                ("memory", (self.memory,)),
                ("baseline", (MONITORED,)),
                ("report", (REPORT_SIZE,)),
                ("statistics", (MONITORED, STATISTICS)),
            )
        )

    @property
    def checkpoint_size(self) -> int:
        """Numbers in a checkpoint."""
        return self.layout.size * math.prod(self.elements[0].parts)

    def own_loop(self, element: Element) -> Kernel | None:
        """The kernel of the loop with all that it calls; None where an `Element` has none."""
        in_lanes = element in (elements.LANES, elements.WIDE_LANES)
        if not (in_lanes and self.inlined and self.rows <= loop.FEW_ROWS):
            return None
        return loop.inlined_trajectory_kernel(element, *self.made_from, self.rows, self.scratch)

    def trajectory(self, element: Element) -> Compiled:
        """The compiled loop over samples and steps, for the trajectories of an `Element`.

        It takes the arguments of `loop.trajectory_kernel` that follow the functions.
        """
        if own := self.own_loop(element):
            return own.compiled(element)
        addresses = [kernel.address(element) for kernel in self.made_from]
        return functools.partial(loop.trajectory_kernel(element).compiled(element), *addresses)

    @property
    def scratch(self) -> int:
        """Elements of scratch that the loop needs, and a guard behind them."""
        return loop.OBSERVED + max(self.work, self.monitor.work(self.rows)) + loop.GUARD

    @property
    def made_from(self) -> list[Kernel]:
        """The kernels that the loop is given, in the order of its arguments."""
        made = (self.advance, self.function, self.move, self.pull, self.monitor)
        return [kernel or self.function for kernel in made]
