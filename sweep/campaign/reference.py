"""Compute reference trajectories, a chunk row of their table at a time, in segments of samples.

The commit marker of a reference counts the samples that are there; it goes on from there, after
an interruption as well as to a longer duration.
"""

import time

import numpy as np

from integrators.methods import dormand_prince
from sweep.campaign.chunks import PROBE, SEGMENT
from sweep.campaign.recorder import make_system, squared_state_errors
from sweep.store import checkpoints, storage
from sweep.study import schema

MARKER, CHECKPOINT = schema.MARKER.name, checkpoints.CHECKPOINT.name
WRITTEN = ("states", "error", schema.CPU_TIME, CHECKPOINT, MARKER)


class ReferenceWork:
    """The computation of a task's references.

    Parameters
    ----------
    task : sweep.campaign.tasks.ReferenceTask
    arrays : dict of str to zarr.Array
        Of the experiment's references.
    attempt : sweep.store.lease.fencing.Attempt
    """

    def __init__(self, task, arrays, attempt):
        self.task, self.arrays, self.attempt = task, arrays, attempt
        span = slice(task.start, task.stop)
        self.columns = {name: arrays[name][span] for name in WRITTEN}
        self.initial = arrays[schema.INITIAL_STATE.name][span]
        self.segment = min(SEGMENT, task.checkpoint_every)
        self.written = time.perf_counter()

    def compute(self):
        """Compute and commit what is left; whether that is all, and it was not stopped.

        Raises
        ------
        sweep.errors.LeaseLost
            If another coordinator holds the store by now, or another process computes the task:
            what they have is not touched.
        """
        made = [make_system(named) for named in self.task.systems]
        whole = True
        for row, index in zip(self.task.rows - self.task.start, self.task.system, strict=True):
            whole = whole and self._go_on(row, made[index])
        self._commit()
        return whole

    def _go_on(self, row, system):
        """Compute a reference to its end; False if it was stopped before."""
        times, count = self.task.times, self._known(row)
        state = self.initial[row, : system.rows]
        # Of one sample no step is computed: this loads the kernels.
        compute_reference_trajectory(system, state, times[:1], self.task.tolerance)
        length = self._first_length(len(times) - count)
        while count < len(times):
            if self.attempt.is_stopped:
                return False
            began = time.perf_counter()
            taken = min(length, len(times) - count)
            self._advance(row, system, count, count + taken)
            count += taken
            rate = taken / max(time.perf_counter() - began, 1e-9)
            length = max(1, min(int(self.segment * rate), 16 * length))
            if time.perf_counter() - self.written > self.task.checkpoint_every:
                self._commit()
        return True

    def _known(self, row):
        """Samples that are there and that it can go on from."""
        count = int(self.columns[MARKER][row])
        return count if count and np.isfinite(self.columns[CHECKPOINT][row, 0]) else 0

    def _first_length(self, left):
        """Samples of the first segment: all, unless they are expected to take long."""
        expected = self.task.cost / len(self.task.rows)
        return max(2, int(left * min(1.0, PROBE * self.segment / max(expected, 1e-9))))

    def _advance(self, row, system, count, upto):
        """Take the samples from `count` on; those before are there."""
        first = max(count - 1, 0)
        size = checkpoints.reference_checkpoint_length(system.rows)
        began = time.thread_time()
        states, error, stands = compute_reference_trajectory(
            system,
            self.initial[row, : system.rows],
            self.task.times[first:upto],
            self.task.tolerance,
            self.columns[CHECKPOINT][row, :size] if count else None,
        )
        seconds, before = time.thread_time() - began, self.columns[schema.CPU_TIME][row]
        self.columns[schema.CPU_TIME][row] = seconds + (before if count and before > 0 else 0.0)
        new = slice(count - first, None)
        self.columns["states"][row, count:upto, : system.rows] = states[new]
        self.columns["error"][row, count:upto] = error[new]
        self.columns[CHECKPOINT][row, :size] = stands
        self.columns[MARKER][row] = upto

    def _commit(self):
        self.attempt.check()
        storage.write_chunk_rows(self.arrays, self.task.start, self.columns)
        self.written = time.perf_counter()


def compute_reference_trajectory(system, initial, times, tolerance, checkpoints=None):
    """A reference trajectory and its own error.

    Parameters
    ----------
    system : systems.System
    initial : ndarray, shape (rows, 3)
    times : ndarray, shape (S,)
    tolerance : float
    checkpoints : ndarray, shape (2 * size,), optional
        From an earlier call that ended at ``times[0]``; `initial` counts no more.

    Returns
    -------
    states : ndarray, shape (S, rows, 3)
    error : ndarray, shape (S,)
        Distance of the states at ten times the tolerance; the reference is better than this.
    checkpoints : ndarray, shape (2 * size,)
        Where both stand; see `checkpoints.reference_checkpoint_length`.
    """
    solved, stood = [], [None, None]
    starts = [initial, initial]
    if checkpoints is not None:
        stood = np.split(checkpoints, 2)
        starts = [part[dormand_prince.CARRIED :].reshape(system.rows, 3) for part in stood]
    tolerances = tolerance, min(10 * tolerance, 0.1)
    for state, own, part in zip(starts, tolerances, stood, strict=True):
        solved.append(dormand_prince.solve(system, state, times, own, part))
    (states, _, fine), (coarse, _, rough) = solved
    error = np.sqrt(sum(squared_state_errors(system, states - coarse).values()))
    return states, error, np.concatenate([fine, rough])
