"""Where a trajectory stands, as numbers: a run stops after any sample and goes on bit for bit.

A checkpoint is a flat float64 vector with the whole state of one trajectory: the steps taken, y in
the problem's formulation, what the method carries from step to step (what sums lost, the start
values of solvers), the monitored values of the initial state, and counters. Statistics are those
of single sample intervals: none is in progress after a sample. Since lanes are bitwise equal to
scalar, a run may go on in another lane, in other company or alone.
"""

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

    @property
    def size(self):
        """Numbers in a checkpoint."""
        return sum(int(np.prod(shape)) for _, shape in self.shapes)

    def packed(self, parts):
        """Checkpoints, shape (members, size), of parts of shape (members, …) by name."""
        flat = [np.reshape(parts[name], (len(parts[name]), -1)) for name, _ in self.shapes]
        return np.concatenate(flat, axis=1)

    def parts(self, checkpoints):
        """The parts by name, shape (members, …), of checkpoints of shape (members, size)."""
        found, start = {}, 0
        for name, shape in self.shapes:
            stop = start + int(np.prod(shape))
            found[name] = checkpoints[:, start:stop].reshape(-1, *shape)
            start = stop
        return found


class Resumable:
    """A problem of `rows` and `memory`, with a fixed step, whose runs go on from checkpoints."""

    @property
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

    The arrays have the lanes last, or none for a single trajectory.

    Parameters
    ----------
    layout : Layout
    count : int
        Trajectories; the other lanes are copies of the first.
    first : int
        The step that comes next.
    y, memory, baseline, report : ndarray
    """

    layout: Layout
    count: int
    first: int
    y: np.ndarray
    memory: np.ndarray
    baseline: np.ndarray
    report: np.ndarray

    @classmethod
    def at_start(cls, layout, initial):
        """Of initial states (members, rows, 3) in the problem's formulation."""
        return cls.at(layout, _started(layout, initial))

    @classmethod
    def at(cls, layout, checkpoints):
        """Of checkpoints, shape (members, size), which all stand at the same step.

        Raises
        ------
        ValueError
            If they do not.
        """
        parts = layout.parts(np.asarray(checkpoints, dtype=float))
        steps = np.unique(parts.pop("step"))
        if len(steps) != 1:
            raise ValueError(f"checkpoints of different steps do not go on together: {steps}")
        lanes = {name: _lanes_last(values) for name, values in parts.items()}
        return cls(layout, len(checkpoints), int(steps[0]), **lanes)

    def checkpoints(self, first):
        """What the kernel left, with the step that comes next; shape (members, size)."""
        parts = {name: members_first(getattr(self, name), self.count) for name in PARTS}
        return self.layout.packed({"step": np.full(self.count, float(first)), **parts})


PARTS = ("y", "memory", "baseline", "report")


def _started(layout, initial):
    fresh = layout.parts(np.zeros((len(initial), layout.size)))
    return layout.packed(fresh | {"y": np.asarray(initial, dtype=float)})


def _lanes_last(values):
    """Shape (members, …) to (…, 8), filled up with copies of the first; one alone as it is."""
    if len(values) == 1:
        held = aligned(values.shape[1:])
        held[...] = values[0]
        return held
    held = aligned((*values.shape[1:], WIDTH))
    filled = np.concatenate([values, np.repeat(values[:1], WIDTH - len(values), axis=0)])
    held[...] = np.moveaxis(filled, 0, -1)
    return held


def members_first(values, count):
    """The lanes' axis to the front, without the copies."""
    if count == 1:
        return values[None]
    return np.ascontiguousarray(np.moveaxis(values, -1, 0)[:count])
