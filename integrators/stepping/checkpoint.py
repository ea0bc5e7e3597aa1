"""Where a trajectory stands, as numbers: a run stops after any sample and goes on bit for bit.

A checkpoint is a flat float64 vector with the whole state of one trajectory: the steps taken, y in
the problem's formulation, what the method carries from step to step (what sums lost, the start
values of solvers), the monitored values of the initial state, and counters. Statistics are those
of single sample intervals: none is in progress after a sample. Since lanes are bitwise equal to
scalar, a run may go on in another lane, in other company or alone.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from integrators.compiler.lanes import WIDTH
from integrators.compiler.memory import aligned
from integrators.status import MONITORED, REPORT_SIZE


@dataclass(frozen=True)
class Layout:
    """Where the parts of a checkpoint lie, by name and in order; any shape becomes flat.

    Parameters
    ----------
    shapes : tuple of (str, tuple of int)
    """

    shapes: tuple

    @functools.cached_property
    def places(self):
        """By the name of a part, its slice and its shape."""
        found, start = {}, 0
        for name, shape in self.shapes:
            stop = start + math.prod(shape)
            found[name] = slice(start, stop), shape
            start = stop
        return found

    @functools.cached_property
    def size(self):
        """Numbers in a checkpoint."""
        return sum(math.prod(shape) for _, shape in self.shapes)

    def parts(self, checkpoints):
        """The parts by name, shape (members, …), of checkpoints of shape (members, size)."""
        return {
            name: checkpoints[:, where].reshape(-1, *shape)
            for name, (where, shape) in self.places.items()
        }


class Resumable:
    """A problem of `rows` and `memory`, with a fixed step, whose runs go on from checkpoints."""

    @functools.cached_property
    def layout(self):
        """The `Layout` of a checkpoint of one trajectory."""
        return Layout(
            (
                ("step", ()),
                ("y", (self.rows, 3)),
                ("memory", (self.memory,)),
                ("baseline", (MONITORED,)),
                ("report", (REPORT_SIZE,)),
            )
        )

    @property
    def checkpoint_size(self):
        """Numbers in a checkpoint."""
        return self.layout.size


@dataclass(frozen=True)
class Standing:
    """Up to eight trajectories of a fixed-step problem, as a kernel takes and leaves them.

    All its numbers lie in one block, in the order of a checkpoint; the lanes are the last axis, or
    there are none for a single trajectory.

    Parameters
    ----------
    layout : Layout
    count : int
        Trajectories; the other lanes are copies of the first.
    first : int
        The step that comes next.
    numbers : ndarray, shape (size, 8) or (size,)
        The block, of which `y`, `memory`, `baseline` and `report` are parts.
    """

    layout: Layout
    count: int
    first: int
    numbers: np.ndarray

    @classmethod
    def at_start(cls, layout, initial):
        """Of initial states (members, rows, 3) in the problem's formulation."""
        run = cls(layout, len(initial), 0, _block(layout, len(initial)))
        _fill(run.y, np.asarray(initial, dtype=float))
        return run

    @classmethod
    def at(cls, layout, checkpoints):
        """Of checkpoints, shape (members, size), which all stand at the same step.

        Raises
        ------
        ValueError
            If they do not.
        """
        checkpoints = np.asarray(checkpoints, dtype=float)
        steps = np.unique(layout.parts(checkpoints)["step"])
        if len(steps) != 1:
            raise ValueError(f"checkpoints of different steps do not go on together: {steps}")
        run = cls(layout, len(checkpoints), int(steps[0]), _block(layout, len(checkpoints)))
        _fill(run.numbers, checkpoints)
        return run

    @functools.cached_property
    def y(self):
        """The state."""
        return self._part("y")

    @functools.cached_property
    def memory(self):
        """What the method carries from step to step."""
        return self._part("memory")

    @functools.cached_property
    def baseline(self):
        """The monitored values of the initial state."""
        return self._part("baseline")

    @functools.cached_property
    def report(self):
        """Status and counters, rows of `integrators.status`."""
        return self._part("report")

    def _part(self, name):
        where, shape = self.layout.places[name]
        return self.numbers[where].reshape((*shape, *self.numbers.shape[1:]))

    def checkpoints(self, first):
        """What the kernel left, with the step that comes next; shape (members, size)."""
        self._part("step")[...] = first
        return members_first(self.numbers, self.count)


def _block(layout, count):
    return aligned((layout.size,) if count == 1 else (layout.size, WIDTH))


def _fill(lanes, values):
    """Numbers of shape (members, …) into (…, 8), with copies of the first; one alone as it is."""
    if len(values) == 1:
        lanes[...] = values[0]
        return
    lanes[..., : len(values)] = values.transpose(*range(1, values.ndim), 0)
    lanes[..., len(values) :] = lanes[..., :1]


def members_first(values, count):
    """The lanes' axis to the front, without the copies."""
    if count == 1:
        return values[None]
    last = values.ndim - 1
    return np.ascontiguousarray(values.transpose(last, *range(last))[:count])
