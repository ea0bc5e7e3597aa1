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
    """State of trajectories of a fixed-step problem side by side, which a kernel advances in place.

    All its numbers lie in one block, in the order of a checkpoint; the last axes are those of the
    element type.

    Parameters
    ----------
    layout : Layout
    element : Element
    count : int
        Number of trajectories; the element's other ones are copies of the first.
    first : int
        Number of the next step.
    within : int
        Number of steps since the last sample.
    numbers : ndarray, shape (size, *element.shape)
        The block, of which `y`, `memory`, `baseline`, `report` and `statistics` are parts.
    """

    layout: Layout
    element: Element
    count: int
    first: int
    within: int
    numbers: np.ndarray

    @classmethod
    def at_start(cls, layout: Layout, element: Element, initial: np.ndarray) -> "Standing":
        """At step 0, with initial states (members, rows, 3, …) in the problem's formulation."""
        run = cls(layout, element, len(initial), 0, 0, aligned((layout.size, *element.shape)))
        _fill_lanes(element, run.y, np.asarray(initial, dtype=float))
        return run

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
        ((first, within),), block = steps, aligned((layout.size, *element.shape))
        run = cls(layout, element, len(numbers), first, within, block)
        _fill_lanes(element, run.numbers, numbers)
        return run

    @functools.cached_property
    def y(self) -> np.ndarray:
        """The state."""
        return self.part("y")

    @functools.cached_property
    def memory(self) -> np.ndarray:
        """Numbers that the method carries from step to step."""
        return self.part("memory")

    @functools.cached_property
    def baseline(self) -> np.ndarray:
        """The monitored values of the initial state."""
        return self.part("baseline")

    @functools.cached_property
    def report(self) -> np.ndarray:
        """Status and counters, rows of `integrators.status`."""
        return self.part("report")

    @functools.cached_property
    def statistics(self) -> np.ndarray:
        """Statistics of a sample interval that is not over; 0 at samples."""
        return self.part("statistics")

    def part(self, name: str) -> np.ndarray:
        """A part by its name."""
        where, shape = self.layout.places[name]
        return self.numbers[where].reshape((*shape, *self.numbers.shape[1:]))

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
            self.part(name)[...] = 0.0
            self.part(name)[values_at(self.element)] = value
        return self.members_first(self.numbers).reshape(self.count, -1)

    def members_first(self, values: np.ndarray) -> np.ndarray:
        """Numbers with the axis of the trajectories to the front, without the copies."""
        return members_first(self.element, values, self.count)


def values_at(element: Element) -> Any:
    """Index of the values in an array of elements: no tangents, no low parts of double-doubles."""
    return (..., 0) if element.parts else ...


def _fill_lanes(element: Element, target: np.ndarray, values: np.ndarray) -> None:
    """Write numbers of shape (members, …) to the lanes of a kernel, missing ones from the first."""
    if element.trajectories == 1:
        target[...] = values[0]
        return
    axis = target.ndim - len(element.shape)
    lanes = np.moveaxis(target, axis, 0)
    lanes[: len(values)] = values
    lanes[len(values) :] = lanes[:1]


def members_first(element: Element, values: np.ndarray, count: int) -> np.ndarray:
    """Numbers with the axis of trajectories first, without the copies."""
    if element.trajectories == 1:
        return values[None]
    axis = values.ndim - len(element.shape)
    return np.ascontiguousarray(np.moveaxis(values, axis, 0)[:count])
