"""All errors of Geosweep.

Those that a user can mend are `InputError`; a run that ended early and can go on is `Interrupted`.
"""

import errno
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from integrators.errors import GeosweepError, InputError

__all__ = [
    "CannotUnite",
    "Damaged",
    "GeosweepError",
    "InputError",
    "Interrupted",
    "LeaseLost",
    "StoreError",
    "StoreLost",
    "StoreUnseen",
    "StudyError",
    "TaskFailed",
    "Unreachable",
    "VersionMismatch",
    "check_distinct_nodes",
    "gather_each",
]

MOST_PROBLEMS = 100  # of a study that are told; nobody reads more
# The sentence at the end of a problem that lists names, as all integrators that would do.
LIST_OF_NAMES = re.compile(r"[A-Z][^.:]*: (?P<names>[^,:]*(?:, [^,:]*){5,})$")


class StudyError(InputError):
    """A study that cannot be used; one line for each problem.

    Parameters
    ----------
    *problems : str
        Each as ``file:line: key.path: what is wrong, what was expected``; of very many, the first
        are told. A long list of names that several end with is told once.
    """

    def __init__(self, *problems: str) -> None:
        more = ["and further problems"] if len(problems) > MOST_PROBLEMS else []
        super().__init__("\n".join([*_shorten_repeated_lists(problems[:MOST_PROBLEMS]), *more]))
        self.problems = problems


def _shorten_repeated_lists(problems: Iterable[str]) -> Iterator[str]:
    """The problems; later ones refer to a long list of names that an earlier one ends with."""
    seen = set()
    for problem in problems:
        listed = LIST_OF_NAMES.search(problem)
        if listed is not None and listed[0] in seen:
            problem = f"{problem[: listed.start('names')]}those above."
        elif listed is not None:
            seen.add(listed[0])
        yield problem


def gather_each(read: Callable[..., Any], *columns: Iterable[Any]) -> tuple[Any, ...]:
    """``read`` of each row of some columns; the problems of all are reported together."""
    found, problems = list[Any](), list[str]()
    for row in zip(*columns, strict=True):
        try:
            found.append(read(*row))
        except StudyError as error:
            problems += error.problems
    if problems:
        raise StudyError(*dict.fromkeys(problems))
    return tuple(found)


def check_distinct_nodes(
    nodes: Iterable[Any], values: Iterable[Any], what: str, remedy: str = ""
) -> None:
    """Refuse a value that stands twice."""
    first: dict[Any, Any] = {}
    for node, value in zip(nodes, values, strict=True):
        if value in first:
            raise node.error(f"the {what} {value!r} is also that of {first[value].where}{remedy}")
        first[value] = node


class StoreError(InputError):
    """A store that cannot take this study."""


class CannotUnite(InputError):
    """Studies that contradict each other, so that no store can have the runs of both."""


class Unreachable(GeosweepError, OSError):
    """An object store that does not do what it is asked, however often: says why."""

    def __str__(self) -> str:
        return str(self.strerror)

    @classmethod
    def for_reason(cls, text: str) -> Self:
        """One of this reason."""
        return cls(errno.EIO, text)


class Damaged(GeosweepError):
    """A file of a store that is not what was written, or cannot be read.

    Parameters
    ----------
    text : str
        What is wrong with it.
    file : str
        Its name, or those of its array and its chunk; empty where `text` says it, or it is not
        known yet, see `sweep.store.files.ArrayFiles.damage`.
    remedy : str
        What to do about it; empty as long as it is not known which store it is of, see
        `sweep.store.files.damage_of_store`.
    """

    def __init__(self, text: str, file: str = "", remedy: str = "") -> None:
        super().__init__(text, file, remedy)
        self.text, self.file, self.remedy = text, file, remedy

    def __str__(self) -> str:
        said = f"{self.file} {self.text}".strip()
        return f"{said}; {self.remedy}" if self.remedy else said


class Interrupted(GeosweepError, RuntimeError):
    """The run ended early, for the reason given; what was running is committed or repeated."""


class TaskFailed(GeosweepError, RuntimeError):
    """A task raised: says which and why."""


class LeaseLost(GeosweepError):
    """A task is fenced off: its session has ended, or another coordinator holds the store.

    Workers only: a coordinator that has lost its lease is `Interrupted`, which ends its run.
    """


class VersionMismatch(GeosweepError, RuntimeError):
    """A worker has another version of the code than the coordinator."""


class StoreLost(GeosweepError, RuntimeError):
    """The store of a run was moved, deleted or replaced while it ran: says what to do."""


class StoreUnseen(GeosweepError, RuntimeError):
    """This process does not see the store that the coordinator writes to."""
