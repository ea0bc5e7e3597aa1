"""Initial conditions: what a study names, and the states that it stands for."""

import dataclasses
import hashlib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from integrators.errors import InputError
from integrators.precision import DOUBLE_DOUBLE
from sweep.study.limits import MEMORY, MOST_MEMORY, MOST_STATES
from sweep.text import open_regular_file
from systems import System
from systems.checking import check_members

SHOWN = 5  # names of arrays that a message has
States = NDArray[np.float64]  # their last axes are rows and components


class Start:
    """Base of all starts; a subclass has `label`, `size`, `labels`, `ensemble` and `states`."""

    if TYPE_CHECKING:
        label: str
        where: str

        @property
        def size(self) -> int:
            """Number of states."""

        @property
        def labels(self) -> tuple[str, ...]:
            """One label for each state."""

        @property
        def ensemble(self) -> str:
            """Label of the ensemble; empty for a single start."""

        def states(self, system: System) -> States:
            """States of `system`, shape ``(size, rows, 3)``; InputError where there is none."""

    @property
    def content(self) -> str:
        """Identity of the start: all that the study says of it, except its label."""
        return _fields_as_text(self)

    @property
    def coordinates(self) -> dict[str, NDArray[np.float64]]:
        """Numbers that tell the states apart, by name, each of shape ``(size,)``; here none."""
        return {}

    def labels_of_members(self, members: Sequence[int]) -> list[str]:
        """The labels of some of the states, a list of int."""
        labels = self.labels
        return [labels[member] for member in members]

    def check(self, system: System) -> None:
        """Raise InputError unless all of these are states of `system`."""
        self.states(system)

    def in_double_double(self, system: System, members: NDArray[np.integer]) -> States:
        """Some of the states with all digits of the numbers that they stand for.

        Here nothing is known of these: the doubles are all that the study says.

        Parameters
        ----------
        system : systems.System
        members : ndarray of int

        Returns
        -------
        ndarray, shape (members, rows, 3, 2)
            High and low doubles; NaN where nothing is known.

        Raises
        ------
        InputError
            If the system makes such states in double precision only.
        """
        return np.full((len(members), system.rows, 3, 2), np.nan)


def _fields_as_text(start: Any) -> str:
    fields = (field.name for field in dataclasses.fields(start) if field.compare)
    said = {name: getattr(start, name) for name in fields if name != "label"}
    return f"{type(start).__name__} {said}"


class SingleStart(Start):
    """Base of starts with one state; a subclass has `label`."""

    ensemble = ""
    size = 1

    @property
    def labels(self) -> tuple[str, ...]:
        """One label for each state."""
        return (self.label,)


class Ensemble(Start):
    """Base of starts with many members; a subclass has `label` and `size`."""

    @property
    def ensemble(self) -> str:
        """Label of the ensemble."""
        return self.label

    @property
    def labels(self) -> tuple[str, ...]:
        """One label for each member."""
        return tuple(self.labels_of_members(range(self.size)))

    def labels_of_members(self, members: Sequence[int]) -> list[str]:
        """The labels of some members."""
        return [f"{self.label}[{member}]" for member in members]


@dataclasses.dataclass(frozen=True)
class NamedStart(SingleStart):
    """One of a system's named starts.

    Parameters
    ----------
    name : str
    label : str
        Of the run, in the store.
    where : str
        Where the study says so, for messages.
    """

    name: str
    label: str
    where: str = dataclasses.field(default="", compare=False)

    def states(self, system: System) -> States:
        """States of `system`, shape ``(1, rows, 3)``; InputError for an unknown name."""
        return system.start(self.name)[np.newaxis]

    def in_double_double(self, system: System, members: NDArray[np.integer]) -> States:
        """As of any `Start`; here known."""
        made = system.start(self.name, arithmetic=DOUBLE_DOUBLE)
        return np.broadcast_to(made, (len(members), *made.shape))


@dataclasses.dataclass(frozen=True)
class GivenStart(SingleStart):
    """A state that the study spells out.

    Parameters
    ----------
    vectors : dict of str to tuple of (float, float, float)
        By the names of a state's parts, ``q`` and ``omega``, ``w`` or those of a rigid system: a
        vector for each body, or for each row.
    normalize : bool
        Whether to project the state onto the manifold, instead of refusing one that is off it.
    label, where : str
        As in `NamedStart`.
    """

    vectors: dict[str, tuple[tuple[float, float, float], ...]]
    normalize: bool
    label: str
    where: str = dataclasses.field(default="", compare=False)

    def states(self, system: System) -> States:
        """The state, shape ``(1, rows, 3)``; InputError where it is none of `system`."""
        if set(self.vectors) != set(system.state_keys):
            raise InputError(
                f"a state of {system.name} is given by {' and '.join(system.state_keys)}, "
                f"not by {' and '.join(self.vectors)}"
            )
        for key, vectors in self.vectors.items():
            system.check_vectors(key, vectors)
        given = np.concatenate([self.vectors[key] for key in system.state_keys])
        state = system.form.completed(given)
        if self.normalize:
            state = system.normalized(state)
        system.check_state(state)
        return state[np.newaxis]


@dataclasses.dataclass(frozen=True)
class RandomStarts(Ensemble):
    """An ensemble of random states; each is drawn from the seed and its number alone.

    Parameters
    ----------
    members : int
    seed : int
    around : str, Start or None
        A named start, or any start of one state; None for states anywhere.
    spread : float or None
        Standard deviation of the tangent vector to a member, in radians for q and relative for
        omega; None without `around`.
    label : str
        Of the ensemble; member 3 of ``a`` is ``a[3]``.
    where : str
        Where the study says so, for messages.

    Raises
    ------
    InputError
        If a value is out of bounds, or one of `around` and `spread` is without the other.
    """

    members: int
    seed: int
    around: str | Start | None
    spread: float | None
    label: str
    where: str = dataclasses.field(default="", compare=False)

    def __post_init__(self) -> None:
        if self.members < 1:
            raise InputError(f"expected at least 1 member, got {self.members}", key="random")
        if self.seed < 0:
            raise InputError(f"expected a seed of at least 0, got {self.seed}", key="seed")
        if self.around is None and self.spread is not None:
            raise InputError("a spread needs the start that it is about: 'around'", key="spread")
        if self.around is not None and self.spread is None:
            raise InputError("members around a start need a 'spread'", key="around")
        if self.spread is not None and not self.spread > 0:
            raise InputError(f"expected a positive number, got {self.spread}", key="spread")

    @property
    def size(self) -> int:
        """Number of states."""
        return self.members

    @property
    def content(self) -> str:
        """As of other starts; whatever the number of members, since the first are the same."""
        around = self.around.content if isinstance(self.around, Start) else self.around
        return _fields_as_text(dataclasses.replace(self, members=1, around=around))

    def states(self, system: System, members: range | None = None) -> States:
        """The members, shape ``(members, rows, 3)``; InputError for an unknown `around`.

        With a range of `members` only these, which are the same as among all.
        """
        members = range(self.members) if members is None else members
        around = self.around.states(system)[0] if isinstance(self.around, Start) else self.around
        return system.ensemble(members, self.seed, around=around, spread=self.spread)

    def check(self, system: System) -> None:
        """Raise InputError unless `system` can draw a member."""
        with np.errstate(over="ignore", invalid="ignore"):
            state = dataclasses.replace(self, members=1).states(system)
        if not np.isfinite(state).all():
            raise InputError(
                f"a spread of {self.spread} gives states that are not finite; expected a smaller "
                "number of radians",
                key="spread",
            )


@dataclasses.dataclass(frozen=True)
class LatticeStarts(Ensemble):
    """States with one body's direction on a nearly uniform lattice over the sphere.

    Parameters
    ----------
    count : int
        Of directions.
    body : int
        Counted from 0.
    around : str or None
        The named start that the rest is taken from; None for the system's first.
    label, where : str
        As in `RandomStarts`.

    Raises
    ------
    InputError
        If `count` is out of bounds.
    """

    count: int
    body: int
    around: str | None
    label: str
    where: str = dataclasses.field(default="", compare=False)

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST_STATES:
            raise InputError(
                f"expected 1 to {MOST_STATES:,} directions, got {self.count:,}", key="lattice"
            )

    @property
    def size(self) -> int:
        """Number of states."""
        return self.count

    def states(self, system: System) -> States:
        """The members, shape ``(count, rows, 3)``; InputError where one is no state."""
        return system.lattice(self.count, body=self.body, around=self.around)


@dataclasses.dataclass(frozen=True)
class FileStarts(Ensemble):
    """States that a NumPy file holds; they are in the store, so that it is read only once.

    Parameters
    ----------
    file : str
        As the study names it.
    normalize : bool
        As in `GivenStart`.
    label : str
        Of the state, or of the ensemble if the file has an axis of members.
    digest : str
        Of the numbers in the file.
    members : ndarray, shape ``(rows, 3)`` or ``(members, rows, 3)``
    where : str
        As in `NamedStart`.
    """

    file: str
    normalize: bool
    label: str
    digest: str
    members: States = dataclasses.field(compare=False, repr=False)
    where: str = dataclasses.field(default="", compare=False)

    @classmethod
    def load(cls, path: Path, **settings: Any) -> Self:
        """Read ``.npy``, or ``.npz`` with one array; InputError where it holds no states."""
        members = _load_state_array(path)
        data: Any = members.astype("<f8", copy=False)  # a buffer, which NumPy's types do not say
        digest = hashlib.blake2b(data, digest_size=16).hexdigest()
        return cls(**settings, digest=digest, members=members)

    @property
    def size(self) -> int:
        """Number of states."""
        return 1 if self.members.ndim == 2 else len(self.members)

    @property
    def ensemble(self) -> str:
        """Label of the ensemble; empty for a single state."""
        return "" if self.members.ndim == 2 else self.label

    @property
    def labels(self) -> tuple[str, ...]:
        """One label for each state."""
        return (self.label,) if self.members.ndim == 2 else super().labels

    def states(self, system: System, members: range | None = None) -> States:
        """The states, shape ``(members, rows, 3)``; InputError if `system` has other rows.

        With a range of `members` only these.
        """
        members = range(self.size) if members is None else members
        given = self.members.reshape(-1, *self.members.shape[-2:])[members.start : members.stop]
        rows, states = system.rows, system.form.completed(given)
        if states.shape[-2] != rows:
            raise InputError(
                f"{self.file!r} holds an array of shape {self.members.shape}; {system.name} with "
                f"{system.bodies} bodies expects ({rows}, 3) or (members, {rows}, 3): "
                f"{system.rows_in_words}",
                key="file",
            )
        if self.normalize:
            numbered = zip(members, states, strict=True)
            with np.errstate(invalid="ignore"):  # what is not finite is refused by `check`
                states = np.array([_normalize_member(system, *one) for one in numbered])
        return states

    def check(self, system: System) -> None:
        """Raise InputError unless all members are states of `system`."""
        check_members(system, self.states(system))


def _normalize_member(system: System, member: int, state: States) -> States:
    try:
        return system.normalized(state)
    except InputError as error:
        raise InputError(f"member {member}: {error}", key=error.key) from None


def _load_state_array(path: Path) -> States:
    """The one array of a file as float64 of shape (rows, 3) or (members, rows, 3)."""
    if path.suffix not in (".npy", ".npz"):
        raise InputError(
            f"expected a file of numpy.save or numpy.savez, .npy or .npz, got {path.name!r}",
            key="file",
        )
    try:
        with open_regular_file(path, MOST_MEMORY, "an array of states") as file:
            if path.suffix == ".npz":
                values = _only_array(path, file)
            else:  # whose header is believed only as far as there are bytes
                values = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InputError(
            f"there is no file {path.absolute()}; a path is relative to the study's directory",
            key="file",
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}", key="file") from None
    except InputError as error:
        raise InputError(str(error), key="file") from None
    except Exception as error:  # whatever a file can be that is no array
        raise InputError(f"{path} is no array of numbers: {error}", key="file") from None
    if values.dtype.kind not in "fiu":
        raise InputError(f"{path} holds {values.dtype}; expected real numbers", key="file")
    if values.ndim not in (2, 3) or values.shape[-1] != 3 or not values.size:
        raise InputError(
            f"{path} holds an array of shape {values.shape}; expected (rows, 3) or "
            "(members, rows, 3), the rows being those of a state",
            key="file",
        )
    return np.array(values, dtype=float, order="C")


def _only_array(path: Path, file: BinaryIO) -> np.ndarray:
    with zipfile.ZipFile(file) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if len(names) != 1:
            shown = ", ".join(names[:SHOWN]) + ", …" * (len(names) > SHOWN)
            raise InputError(f"{path} holds {len(names)} arrays ({shown}); expected one")
        size = archive.infolist()[0].file_size
        if size > MOST_MEMORY:
            raise MEMORY.error(size)
    file.seek(0)
    array: np.ndarray = np.load(file, allow_pickle=False)[names[0]]
    return array
