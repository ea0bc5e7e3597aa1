"""All errors of Geosweep.

`InputError` is an error that the user can correct; `Interrupted` means that a run ended early and
can be resumed.
"""

import contextlib
import errno
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

from integrators.errors import GeosweepError, InputError, check_known

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
]

KeyPath = tuple[str | int, ...]  # keys and indices that lead to a value of a study
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
        super().__init__("\n".join([*_list_names_only_once(problems[:MOST_PROBLEMS]), *more]))
        self.problems = problems


def _list_names_only_once(problems: Iterable[str]) -> Iterator[str]:
    """Yield the problems, of which later ones refer to a long list of names in an earlier one."""
    seen = set()
    for problem in problems:
        listed = LIST_OF_NAMES.search(problem)
        if listed is not None and listed[0] in seen:
            problem = f"{problem[: listed.start('names')]}those above."
        elif listed is not None:
            seen.add(listed[0])
        yield problem


class Problem(NamedTuple):
    """A problem with a value of a study.

    Parameters
    ----------
    path : tuple of str and int
        Keys and indices that lead to the value, relative to the caller's own table.
    said : str
        The message.
    other : tuple of str and int or None
        Path of another value that is part of the problem; its position is printed after `said`.
    remedy : str
        Text after that position: what to do.
    """

    path: KeyPath
    said: str
    other: KeyPath | None = None
    remedy: str = ""

    def under(self, path: KeyPath) -> "Problem":
        """The same problem, with a path that begins one level further up."""
        other = None if self.other is None else path + self.other
        return self._replace(path=path + self.path, other=other)


class WrongValues(InputError):
    """Values that cannot be used, with a `Problem` for each.

    `sweep.study.toml.StudyText.explain` adds the file and the line.
    """

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(problem.said for problem in problems))
        self.problems = problems


def problems_in(error: InputError) -> tuple[Problem, ...]:
    """The problems of an error; any other `InputError` is one problem at its key."""
    if isinstance(error, WrongValues):
        return error.problems
    parts = re.findall(r"\w+", error.key or "")
    path = tuple(int(part) if part.isdigit() else part for part in parts)
    return (Problem(path, str(error)),)


@contextlib.contextmanager
def noted(problems: list[Problem], *path: str | int) -> Iterator[None]:
    """Catch errors within this context, and append their problems to a list, below a path."""
    try:
        yield
    except InputError as error:
        problems += [one.under(path) for one in problems_in(error)]


@contextlib.contextmanager
def under(*path: str | int) -> Iterator[None]:
    """Raise the errors of this context as `WrongValues` with problems below a path."""
    problems: list[Problem] = []
    with noted(problems, *path):
        yield
    if problems:
        raise WrongValues(*problems)


def read_each(
    read: Callable[..., Any], *columns: Iterable[Any], paths: Iterable[KeyPath] | None = None
) -> tuple[Any, ...]:
    """Call ``read`` for each row of some columns, and raise all their problems together.

    Parameters
    ----------
    read : callable
        Takes a value of each column; may raise `InputError`.
    *columns : iterable
        Columns of the same length.
    paths : iterable of tuple, optional
        Path of each row; by default its number.

    Returns
    -------
    tuple

    Raises
    ------
    WrongValues
        With the problems of all rows.
    """
    rows, found, problems = list(zip(*columns, strict=True)), list[Any](), list[Problem]()
    numbers = ((index,) for index in range(len(rows)))
    for path, row in zip(numbers if paths is None else paths, rows, strict=True):
        with noted(problems, *path):
            found.append(read(*row))
        if len(problems) > MOST_PROBLEMS:
            break
    if problems:
        raise WrongValues(*problems)
    return tuple(found)


def check_keys(kind: str, keys: Iterable[str], known: Collection[str], where: str = "") -> None:
    """Raise `WrongValues` with a problem for each unknown key of a table."""
    keys = list(keys)
    paths = [(key,) for key in keys]
    read_each(lambda key: check_known(kind, key, known, where=where), keys, paths=paths)


def check_distinct(
    values: Iterable[Any], what: str, remedy: str = "", paths: Sequence[KeyPath] | None = None
) -> None:
    """Raise `WrongValues` if a list contains a value twice."""
    first: dict[Any, KeyPath] = {}
    for index, value in enumerate(values):
        path: KeyPath = (index,) if paths is None else paths[index]
        if value in first:
            said = f"the {what} {value!r} is also that of "
            raise WrongValues(Problem(path, said, first[value], remedy))
        first[value] = path


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
