"""Initial conditions that are the end states of another store's runs."""

import dataclasses
from collections.abc import Callable
from typing import Any

from integrators.errors import InputError
from sweep.study.initial_conditions.base import FileStarts, States
from systems import System

# The one by which the room of stores lets studies read them.
_loaders: "list[Callable[..., StoreStarts]]" = []


def register_end_state_reader(load: "Callable[..., StoreStarts]") -> None:
    """Register the function that reads end states of a store's runs as `StoreStarts`."""
    _loaders[:] = [load]


def read_end_states(*arguments: Any, **settings: Any) -> "StoreStarts":
    """End states of a store's runs as `StoreStarts`; arguments as of the registered function."""
    return _loaders[0](*arguments, **settings)


@dataclasses.dataclass(frozen=True)
class StoreStarts(FileStarts):
    """The states in which complete runs of another store ended; this store keeps them.

    Parameters
    ----------
    experiment : str
        Of the other store, which is `file`.
    where_runs : str
        An expression, as of `sweep.query`, that holds for the runs; empty: all.
    file, normalize, label, digest, members, where
        As in `FileStarts`; always an ensemble, in the order of the other store's rows.
    remembered : bool
        Whether `members` are from a store that has them as they were begun with.
    """

    experiment: str = ""
    where_runs: str = ""
    remembered: bool = dataclasses.field(default=False, compare=False)

    @property
    def ensemble(self) -> str:
        """Label of the ensemble."""
        return self.label

    @property
    def labels(self) -> tuple[str, ...]:
        """One label for each member."""
        return tuple(self.labels_of_members(range(self.size)))

    def states(self, system: System, members: range | None = None) -> States:
        """The states, shape ``(members, rows, 3)``; InputError if `system` has other rows."""
        if self.members.shape[1] != system.rows:
            raise InputError(
                f"the end states of experiment {self.experiment!r} of {self.file!r} have "
                f"{self.members.shape[1]} rows; {system.name} with {system.bodies} bodies expects "
                f"{system.rows}: {system.rows_in_words}",
                key="store",
            )
        as_begun = dataclasses.replace(self, normalize=False) if self.remembered else self
        return FileStarts.states(as_begun, system, members)
