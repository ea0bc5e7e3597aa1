"""Sample the initial conditions of a recommendation: for the search, and for its verification."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from sweep.study.initial_conditions.base import RandomStarts

if TYPE_CHECKING:
    from sweep.study.experiment import ResolvedExperiment
    from sweep.study.run_table import States
    from systems.base import System

SEED = 20260101  # of the order in which a finite number of states is drawn


class StartSampler:
    """Draws initial conditions of an experiment without repetition.

    Random ensembles continue beyond the members that the experiment has; other ensembles are
    finite. `single` states, of no ensemble, are only searched with, and never held back.

    Parameters
    ----------
    experiment : sweep.study.experiment.ResolvedExperiment
    system : systems.System
    """

    def __init__(self, experiment: ResolvedExperiment, system: System) -> None:
        conditions = experiment.initial_conditions
        self._system = system
        self._random = [own for own in conditions if isinstance(own, RandomStarts)]
        single = [own for own in conditions if own.size == 1 and own not in self._random]
        finite = [own for own in conditions if own not in single and own not in self._random]
        self.single = _concatenate_states([own.states(system) for own in single], system)
        self._finite = _concatenate_states([own.states(system) for own in finite], system)
        if not self._random:
            self._finite = np.random.default_rng(SEED).permutation(self._finite)
        self._taken = 0

    @property
    def is_endless(self) -> bool:
        """Whether there is a random ensemble, so that more states can always be drawn."""
        return bool(self._random)

    @property
    def left(self) -> int:
        """Number of states of finite ensembles that are left; 0 if `is_endless`."""
        return 0 if self._random else max(0, len(self._finite) - self._taken)

    def take(self, count: int) -> States:
        """Draw the next states, shape (count, rows, 3); fewer where no more are left."""
        if not self._random:
            found = self._finite[self._taken : self._taken + count]
            self._taken += len(found)
            return found
        # The members of several ensembles in turn, so that all are about equally many.
        places = range(self._taken, self._taken + count)
        self._taken += count
        drawn = [
            self._random[place % len(self._random)].states(
                self._system, range(member := place // len(self._random), member + 1)
            )
            for place in places
        ]
        return _concatenate_states(drawn, self._system)


def _concatenate_states(parts: Iterable[States], system: System) -> States:
    """Concatenate arrays of states, each of shape (n, rows, 3)."""
    return np.concatenate([np.empty((0, system.rows, 3)), *parts])
