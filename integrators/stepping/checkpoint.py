"""Checkpoints of trajectories: a run can stop after any step and is resumed bit for bit.

A checkpoint is a flat float64 vector with the whole state of one trajectory: the steps taken, y in
the problem's formulation, what the method carries from step to step (what sums lost, the start
values of solvers), the monitored values of the initial state, and counters. Between two samples
there are also the steps since the first of them, and their statistics so far: sums, which only the
end of the interval makes means. Since lanes are bitwise equal to scalar, a run may be resumed in
another lane, beside other trajectories or alone.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from integrators.compiler.elements import Element, aligned


@dataclass(frozen=True)
class Layout:
    """Layout of a checkpoint: its parts by name and in order, each flattened.

    Parameters
    ----------
    shapes : tuple of (str, tuple of int)
    """

    shapes: tuple[tuple[str, tuple[int, ...]], ...]

    @functools.cached_property
    def places(self) -> dict[str, tuple[slice, tuple[int, ...]]]:
        """Slice and shape of each part, by its name."""
        found: dict[str, tuple[slice, tuple[int, ...]]] = {}
        start = 0
        for name, shape in self.shapes:
            stop = start + math.prod(shape)
            found[name] = slice(start, stop), shape
            start = stop
        return found

    @functools.cached_property
    def size(self) -> int:
        """Numbers in a checkpoint."""
        return sum(math.prod(shape) for _, shape in self.shapes)

    def parts(self, checkpoints: np.ndarray) -> dict[str, np.ndarray]:
        """The parts by name, shape (members, …), of checkpoints of shape (members, size, …)."""
        return {
            name: checkpoints[:, where].reshape(-1, *shape, *checkpoints.shape[2:])
            for name, (where, shape) in self.places.items()
        }


@dataclass(frozen=True)
class Standing:
    """State of trajectories of a fixed-step problem, which a kernel advances in place.

    They lie in groups of as many as the element has side by side, whose axes are the last ones.

    Parameters
    ----------
    layout : Layout
    element : Element
    count : int
        Number of trajectories; in the last group, missing ones are copies of its first.
    first : int
        Number of the next step.
    within : int
        Number of steps since the last sample.
    parts : dict of str to ndarray, shape (groups, …, *element.shape)
        The parts of a checkpoint by name.
    """

    layout: Layout
    element: Element
    count: int
    first: int
    within: int
    parts: dict[str, np.ndarray]

    @classmethod
    def at_start(cls, layout: Layout, element: Element, initial: np.ndarray) -> "Standing":
        """At step 0, with initial states (members, rows, 3, …) in the problem's formulation."""
        return cls._with(layout, element, {"y": np.asarray(initial, dtype=float)}, 0, 0)

    @classmethod
    def at(cls, layout: Layout, element: Element, checkpoints: np.ndarray) -> "Standing":
        """From checkpoints, shape (members, size · parts), all of the same step.

        Raises
        ------
        ValueError
            If they are of different steps.
        """
        checkpoints = np.asarray(checkpoints, dtype=float)
        numbers = checkpoints.reshape(len(checkpoints), layout.size, *element.parts)
        parts = layout.parts(numbers)
        counted = [parts[name].reshape(len(numbers), -1)[:, 0] for name in ("step", "within")]
        steps = np.unique(counted, axis=1).astype(int).T.tolist()
        if len(steps) != 1:
            raise ValueError(f"checkpoints of different steps do not go on together: {steps}")
        ((first, within),) = steps
        return cls._with(layout, element, parts, first, within)

    @classmethod
    def _with(
        cls, layout: Layout, element: Element, given: dict[str, np.ndarray], first: int, within: int
    ) -> "Standing":
        """With given parts, shape (members, …), and zeros for the others."""
        count = len(given["y"])
        groups = -(-count // element.trajectories)
        parts = {name: aligned((groups, *own, *element.shape)) for name, own in layout.shapes}
        for name, values in given.items():
            _fill_groups(element, parts[name], values)
        return cls(layout, element, count, first, within, parts)

    def stop(self, ends: np.ndarray, most: int | None = None) -> tuple[np.ndarray, int, int, int]:
        """Where a run ends that stops after some steps, or at the last sample.

        Parameters
        ----------
        ends : ndarray of int
            Number of steps from the last sample to each of the next ones.
        most : int, optional
            Number of steps.

        Returns
        -------
        ends : ndarray of int
            Number of the step after each of these samples.
        last : int
            Number of the step before which it stops.
        reached : int
            Number of the samples that are reached.
        within : int
            Steps since the last of them.
        """
        marks = self.first - self.within + np.concatenate([[0], ends]).astype(np.int64)
        last = int(marks[-1]) if most is None else min(self.first + most, int(marks[-1]))
        reached = int(np.searchsorted(marks, last, side="right")) - 1
        return marks[1:], last, reached, last - int(marks[reached])

    def checkpoints(self, first: int, within: int) -> np.ndarray:
        """Checkpoints of the trajectories at step `first`, shape (members, size · parts).

        `within` is the number of steps since the last sample.
        """
        for name, value in (("step", first), ("within", within)):
            self.parts[name][...] = 0.0
            self.parts[name][values_at(self.element)] = value
        made = [self.members_first(part) for part in self.parts.values()]
        return np.concatenate([part.reshape(self.count, -1) for part in made], axis=1)

    def members_first(self, values: np.ndarray) -> np.ndarray:
        """Numbers of shape (groups, …) with the axis of the trajectories first, without copies."""
        if self.element.trajectories == 1:
            return values
        axis = values.ndim - len(self.element.shape)
        groups, width, *rest = (lanes := np.moveaxis(values, axis, 1)).shape
        return lanes.reshape(groups * width, *rest)[: self.count]


def values_at(element: Element) -> Any:
    """Index of the values in an array of elements: no tangents, no low parts of double-doubles."""
    return (..., 0) if element.parts else ...


def _fill_groups(element: Element, target: np.ndarray, values: np.ndarray) -> None:
    """Write numbers of shape (members, …) to groups, missing ones from the first of the last."""
    if element.trajectories == 1:
        target[...] = values
        return
    missing = -len(values) % element.trajectories
    last = len(values) + missing - element.trajectories
    filled = np.concatenate([values, np.repeat(values[last : last + 1], missing, axis=0)])
    lanes = np.moveaxis(target, target.ndim - len(element.shape), 1)
    lanes[...] = filled.reshape(lanes.shape)
