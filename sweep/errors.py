"""All errors of Geosweep.

`InputError` is an error that the user can correct; `Interrupted` means that a run ended early and
can be resumed.
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

MOST_PROBLEMS = 100  # problems of a study that are reported; nobody reads more
# A sentence at the end of a problem that lists names, such as all integrators that would fit.
LIST_OF_NAMES = re.compile(r"[A-Z][^.:]*: (?P<names>[^,:]*(?:, [^,:]*){5,})$")


class StudyError(InputError):
    """A study that cannot be used, with a line for each problem.

    Parameters
    ----------
    *problems : str
        Each as ``file:line: key.path: what is wrong, what was expected``. The message has at most
        the first `MOST_PROBLEMS`, and a long list of names in several problems only once.
    """

    def __init__(self, *problems: str) -> None:
        more = ["and further problems"] if len(problems) > MOST_PROBLEMS else []
        super().__init__("\n".join([*_shorten_repeated_lists(problems[:MOST_PROBLEMS]), *more]))
        self.problems = problems


def _shorten_repeated_lists(problems: Iterable[str]) -> Iterator[str]:
    """Yield the problems, of which later ones refer to a long list of names in an earlier one."""
    seen = set()
    for problem in problems:
        listed = LIST_OF_NAMES.search(problem)
        if listed is not None and listed[0] in seen:
            problem = f"{problem[: listed.start('names')]}those above."
        elif listed is not None:
            seen.add(listed[0])
        yield problem


def gather_each(read: Callable[..., Any], *columns: Iterable[Any]) -> tuple[Any, ...]:
    """Call ``read`` for each row of some columns, and raise all their problems together.

    Parameters
    ----------
    read : callable
        Takes a value of each column; may raise `StudyError`.
    *columns : iterable
        Columns of the same length.

    Returns
    -------
    tuple

    Raises
    ------
    StudyError
        With the problems of all rows.
    """
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
    """Refuse a value that occurs twice.

    Parameters
    ----------
    nodes : iterable
        Where the values are in the study.
    values : iterable
    what : str
        What a value is, for the message.
    remedy : str
        End of the message.
    """
    first: dict[Any, Any] = {}
    for node, value in zip(nodes, values, strict=True):
        if value in first:
            raise node.error(f"the {what} {value!r} is also that of {first[value].where}{remedy}")
        first[value] = node


class StoreError(InputError):
    """A store that cannot be used, or not with this study."""


class CannotUnite(InputError):
    """Studies that contradict each other, so that one store cannot hold the runs of both."""


class Unreachable(GeosweepError, OSError):
    """An object store that fails despite retries; the message says why."""

    def __str__(self) -> str:
        return str(self.strerror)

    @classmethod
    def for_reason(cls, text: str) -> Self:
        """The error with a reason as its message."""
        return cls(errno.EIO, text)


class Damaged(GeosweepError):
    """A file of a store that was changed or cannot be read.

    Parameters
    ----------
    text : str
        What is wrong with the file.
    file : str
        Name of the file, or of its array and chunk. It is empty if `text` contains it, or until
        `sweep.store.files.ArrayFiles.damage` adds it.
    remedy : str
        What to do about it; empty until `sweep.store.files.damage_of_store` adds it.
    """

    def __init__(self, text: str, file: str = "", remedy: str = "") -> None:
        super().__init__(text, file, remedy)
        self.text, self.file, self.remedy = text, file, remedy

    def __str__(self) -> str:
        said = f"{self.file} {self.text}".strip()
        return f"{said}; {self.remedy}" if self.remedy else said


class Interrupted(GeosweepError, RuntimeError):
    """A run ended early, for the reason given; running tasks are committed or will be repeated."""


class TaskFailed(GeosweepError, RuntimeError):
    """A task raised an exception; the message says which task, and why."""


class LeaseLost(GeosweepError):
    """A task is fenced off: its session has ended, or another coordinator holds the lease.

    Only workers raise it; a coordinator that has lost its lease raises `Interrupted`.
    """


class VersionMismatch(GeosweepError, RuntimeError):
    """A worker has another version of the code than the coordinator."""


class StoreLost(GeosweepError, RuntimeError):
    """The store was moved, deleted or replaced during a run; the message says what to do."""


class StoreUnseen(GeosweepError, RuntimeError):
    """This process does not see the store that the coordinator writes to."""
