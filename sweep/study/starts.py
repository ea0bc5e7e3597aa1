"""Initial conditions, and the states that they stand for."""

import dataclasses
import hashlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from integrators.errors import InputError, check_known, suggest_nearest
from integrators.precision import DOUBLE, DOUBLE_DOUBLE
from sweep.errors import check_keys, read_each, under
from sweep.study import model, variables
from sweep.study.model import expected, read_value
from sweep.study.study_limits import MEMORY, MOST_MEMORY, MOST_STATES, PAIRS, Limit
from sweep.study.toml import StudyText
from sweep.text import open_regular_file
from systems import System
from systems.base import Family
from systems.checking import check_members

Systems = tuple[System, ...]
BYTES_OF_A_ROW = 24
SHOWN = 5  # names of arrays in a message
States = NDArray[np.float64]  # their last axes are rows and components


@dataclasses.dataclass(frozen=True)
class Start:
    """Base of all starts, by default of one state; a subclass has `label` and `states`.

    Parameters
    ----------
    where : callable
        Returns its place in the study, for messages.
    """

    where: Callable[[], str] = dataclasses.field(default=str, compare=False, kw_only=True)

    if TYPE_CHECKING:

        @property
        def label(self) -> str:
            """Label of the start in the store."""

        def states(self, system: System) -> States:
            """States of `system`, shape ``(size, rows, 3)``; InputError where there is none."""

    @property
    def size(self) -> int:
        """Number of states."""
        return 1

    @property
    def labels(self) -> tuple[str, ...]:
        """One label for each state."""
        return tuple(self.labels_of_members(range(self.size)))

    def labels_of_members(self, members: Sequence[int]) -> list[str]:
        """Labels of the states with the given numbers."""
        return [self.label for _ in members]

    @property
    def ensemble(self) -> str:
        """Label of the ensemble; empty for a single start."""
        return ""

    @property
    def content(self) -> str:
        """Identity of the start: all its settings in the study, except its label."""
        names = (field.name for field in dataclasses.fields(self) if field.compare)
        said = {name: getattr(self, name) for name in names if name != "label"}
        return f"{type(self).__name__} {said}"

    @property
    def coordinates(self) -> dict[str, NDArray[np.float64]]:
        """Coordinates that distinguish the states, by name, of shape ``(size,)``; or none."""
        return {}

    def check(self, system: System) -> None:
        """Raise InputError unless all of these are states of `system`."""
        self.states(system)

    def in_double_double(self, system: System, members: NDArray[np.integer]) -> States:
        """Some of the states in double-double.

        By default they are not known, since the study gives doubles only.

        Parameters
        ----------
        system : systems.System
        members : ndarray of int

        Returns
        -------
        ndarray, shape (members, rows, 3, 2)
            High and low doubles; NaN if only the doubles are known.

        Raises
        ------
        InputError
            If the system makes such states in double precision only.
        """
        return np.full((len(members), system.rows, 3, 2), np.nan)


class Ensemble(Start):
    """Base of starts with many members; a subclass has `label`, `where`, `size` and `states`."""

    @property
    def ensemble(self) -> str:
        """Label of the ensemble."""
        return self.label

    def labels_of_members(self, members: Sequence[int]) -> list[str]:
        """The labels of some members; that of the start if it is no ensemble."""
        return [f"{self.label}[{i}]" if self.ensemble else self.label for i in members]


@dataclasses.dataclass(frozen=True)
class NamedStart(Start):
    """One of a system's named starts.

    Parameters
    ----------
    name : str
    label : str
        Label of the run in the store.
    """

    name: str
    label: str

    def states(self, system: System) -> States:
        """States of `system`, shape ``(1, rows, 3)``; InputError for an unknown name."""
        return system.start(self.name)[np.newaxis]

    def in_double_double(self, system: System, members: NDArray[np.integer]) -> States:
        """As of any `Start`; here known."""
        made = system.start(self.name, arithmetic=DOUBLE_DOUBLE)
        return np.broadcast_to(made, (len(members), *made.shape))


@dataclasses.dataclass(frozen=True)
class GivenStart(Start):
    """A state that is written out in the study.

    Parameters
    ----------
    vectors : dict of str to tuple of (float, float, float)
        A vector for each body or row, by the names of the parts of a state: ``q`` and ``omega``,
        ``w``, or those of a rigid system.
    normalize : bool
        Whether to project a state that is off the manifold onto it, instead of refusing it.
    label : str
        As in `NamedStart`.
    """

    vectors: dict[str, tuple[tuple[float, float, float], ...]]
    normalize: bool
    label: str

    def states(self, system: System) -> States:
        """The state, shape ``(1, rows, 3)``; `InputError` if it is not a state of `system`."""
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
    """An ensemble of random states, each of which depends only on the seed and its number.

    Parameters
    ----------
    members : int
    seed : int
    around : str, Start or None
        The centre: a named start, or any start of one state; None for states anywhere.
    spread : float or None
        Standard deviation of the tangent vector to a member, in radians for q and relative for
        omega; None without `around`.
    label : str
        Label of the ensemble; member 3 of ``a`` is ``a[3]``.

    Raises
    ------
    InputError
        If only one of `around` and `spread` is given.
    """

    members: int
    seed: int
    around: str | Start | None
    spread: float | None
    label: str

    def __post_init__(self) -> None:
        if self.around is None and self.spread is not None:
            raise InputError("a spread needs a start to scatter around: 'around'", key="spread")
        if self.around is not None and self.spread is None:
            raise InputError("members around a start need a 'spread'", key="around")

    @property
    def size(self) -> int:
        """Number of states."""
        return self.members

    @property
    def content(self) -> str:
        """Identity of the start, without its size: a larger ensemble has the same first members."""
        around = self.around.content if isinstance(self.around, Start) else self.around
        return super(RandomStarts, dataclasses.replace(self, members=1, around=around)).content

    def states(self, system: System, members: range | None = None) -> States:
        """The members, shape ``(members, rows, 3)``; `InputError` for an unknown `around`.

        With a range of `members`, only these.
        """
        members = range(self.members) if members is None else members
        around = self.around.states(system)[0] if isinstance(self.around, Start) else self.around
        return system.ensemble(members, self.seed, around=around, spread=self.spread)

    def check(self, system: System) -> None:
        """Raise `InputError` unless `system` can draw a member."""
        with np.errstate(over="ignore", invalid="ignore"):
            state = self.states(system, range(1))
        if not np.isfinite(state).all():
            raise InputError(
                f"a spread of {self.spread} gives states that are not finite; expected a smaller "
                "number of radians",
                key="spread",
            )


@dataclasses.dataclass(frozen=True)
class LatticeStarts(Ensemble):
    """States in which the direction of one body is on a nearly uniform lattice over the sphere.

    Parameters
    ----------
    count : int
        Number of directions.
    body : int
        Index of the body, counted from 0.
    around : str or None
        Named start from which the other parts of the state are taken; None for the system's first.
    label : str
        As in `RandomStarts`.
    """

    count: int
    body: int
    around: str | None
    label: str

    @property
    def size(self) -> int:
        """Number of states."""
        return self.count

    def states(self, system: System) -> States:
        """The members, shape ``(count, rows, 3)``; `InputError` if one is not a state."""
        return system.lattice(self.count, body=self.body, around=self.around)


@dataclasses.dataclass(frozen=True)
class FamilyStarts(Ensemble):
    """The states of a system's family at every combination of the values of its axes.

    Parameters
    ----------
    name : str
        Name of the family.
    axes : dict of str to tuple of (int or float)
        Values of all axes; the last axis varies fastest.
    given : tuple of str
        The axes that the study gives, which appear in labels; the others have their default value.
    columns : dict of str to str
        Name in the store of the coordinate of each axis.
    label : str
        Label of the ensemble; members are ``label[theta=0.7, phi=0.4]``.
    """

    name: str
    axes: dict[str, tuple[float, ...]]
    given: tuple[str, ...]
    columns: dict[str, str]
    label: str

    @property
    def size(self) -> int:
        """Number of states."""
        return math.prod(map(len, self.axes.values()))

    def labels_of_members(self, members: Sequence[int]) -> list[str]:
        """Labels of the members; that of the ensemble if the study gives no axis."""
        every = self._combinations()
        said = [self._in_words(every[member]) for member in members]
        return [f"{self.label}[{own}]" if self.given else self.label for own in said]

    @property
    def coordinates(self) -> dict[str, NDArray[np.float64]]:
        """The values of each axis over the states, by the name of its coordinate."""
        values = np.array([list(values.values()) for values in self._combinations()], dtype=float)
        names = [self.columns[axis] for axis in self.axes]
        return dict(zip(names, values.T, strict=True))

    def states(self, system: System) -> States:
        """States of `system`, shape ``(size, rows, 3)``; InputError where there is none."""
        return np.array([self._state(system, values) for values in self._combinations()])

    def in_double_double(self, system: System, members: NDArray[np.integer]) -> States:
        """As of any `Start`; here known."""
        every = self._combinations()
        return np.array([self._state(system, every[i], DOUBLE_DOUBLE) for i in members])

    def _combinations(self) -> list[dict[str, float]]:
        """All combinations of values, as dicts by axis."""
        every = itertools.product(*self.axes.values())
        return [dict(zip(self.axes, values, strict=True)) for values in every]

    def _state(
        self, system: System, values: Mapping[str, float], arithmetic: str = DOUBLE
    ) -> States:
        try:
            return system.member(self.name, arithmetic=arithmetic, **values)
        except InputError as error:
            case = f" (where {self._in_words(values)})" if self.given else ""
            raise InputError(f"{error}{case}", key=error.key) from None

    def _in_words(self, values: Mapping[str, float]) -> str:
        """Values as ``theta=0.7, phi=0.4``, with all digits, so that labels are distinct."""
        shown = (f"{axis}={str(values[axis]).removesuffix('.0')}" for axis in self.given)
        return ", ".join(shown)


# --- files and stores -------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class FileStarts(Ensemble):
    """States from a NumPy file, which is read only once, since the store keeps them.

    Parameters
    ----------
    file : str
        Path as written in the study.
    normalize : bool
        As in `GivenStart`.
    label : str
        Label of the state, or of the ensemble if the file has an axis of members.
    digest : str
        Digest of the numbers in the file.
    members : ndarray, shape ``(rows, 3)`` or ``(members, rows, 3)``
    """

    file: str
    normalize: bool
    label: str
    digest: str
    members: States = dataclasses.field(compare=False, repr=False)

    @classmethod
    def load(cls, path: Path, **settings: Any) -> Self:
        """Read a ``.npy`` file, or ``.npz`` with one array; `InputError` if it holds no states."""
        members = _load_state_array(path)
        data: Any = members.astype("<f8", copy=False)  # a buffer, unknown to NumPy's types
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

    def states(self, system: System, members: range | None = None) -> States:
        """The states, shape ``(members, rows, 3)``; `InputError` if `system` has other rows.

        With a range of `members`, only these.
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
            given, states = states, np.empty_like(states)
            with np.errstate(invalid="ignore"):  # `check` refuses numbers that are not finite
                for row, member in enumerate(members):
                    try:
                        states[row] = system.normalized(given[row])
                    except InputError as error:
                        raise InputError(f"member {member}: {error}", key=error.key) from None
        return states

    def check(self, system: System) -> None:
        """Raise InputError unless all members are states of `system`."""
        check_members(system, self.states(system))


def _load_state_array(path: Path) -> States:
    """The one array of a file as float64 of shape (rows, 3) or (members, rows, 3)."""
    if path.suffix not in (".npy", ".npz"):
        raise InputError(
            f"expected a file of numpy.save or numpy.savez, .npy or .npz, got {path.name!r}"
        )
    try:
        open_regular_file(path, MOST_MEMORY, "an array of states").close()
        # Mapped, so that a wrong header cannot claim more numbers than the file has.
        values: Any = np.load(path, mmap_mode="r", allow_pickle=False)
        if path.suffix == ".npz":
            if len(names := values.files) != 1:
                shown = ", ".join(names[:SHOWN]) + ", …" * (len(names) > SHOWN)
                raise InputError(f"{path} holds {len(names)} arrays ({shown}); expected one")
            if (size := values.zip.infolist()[0].file_size) > MOST_MEMORY:
                raise MEMORY.error(size)
            values = values[names[0]]
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(
            f"there is no file {path.absolute()}; a path is relative to the study's directory"
        ) from None
    except Exception as error:  # NumPy raises many types for files that are not arrays
        what = "cannot be read" if isinstance(error, OSError) else "is no array of numbers"
        raise InputError(f"{path} {what}: {getattr(error, 'strerror', None) or error}") from None
    if values.dtype.kind not in "fiu":
        raise InputError(f"{path} holds {values.dtype}; expected real numbers")
    if values.ndim not in (2, 3) or values.shape[-1] != 3 or not values.size:
        raise InputError(
            f"{path} holds an array of shape {values.shape}; expected (rows, 3) or "
            "(members, rows, 3), the rows being those of a state"
        )
    return np.array(values, dtype=float, order="C")


@dataclasses.dataclass(frozen=True)
class StoreStarts(FileStarts):
    """The end states of complete runs in another store; the new store keeps them.

    Parameters
    ----------
    experiment : str
        Experiment of the other store, which is `file`.
    where_runs : str
        Expression that selects runs, as for `sweep.query`; empty for all runs.
    file, normalize, label, digest, members
        As in `FileStarts`; always an ensemble, in the order of the other store's rows.
    remembered : bool
        Whether `members` come from a store that was begun with them, not from the other store.
    """

    experiment: str = ""
    where_runs: str = ""
    remembered: bool = dataclasses.field(default=False, compare=False)

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


# The function that `sweep.store` registers, so that this package need not import it.
_loaders: "list[Callable[..., StoreStarts]]" = []


def register_end_state_reader(load: "Callable[..., StoreStarts]") -> None:
    """Register the function that reads the end states of a store's runs as `StoreStarts`."""
    _loaders[:] = [load]


def read_end_states(*arguments: Any, **settings: Any) -> "StoreStarts":
    """Read the end states of a store's runs as `StoreStarts` with the registered function."""
    return _loaders[0](*arguments, **settings)


# --- reading from a study's file --------------------------------------------------------------


def read_start(
    given: Any,
    family: Systems,
    source: StudyText,
    count: Callable[[Limit, int], object],
    where: Callable[[], str],
    label: str,
) -> Start:
    """Read a start, and check that its states are states of all systems.

    Parameters
    ----------
    given : str or a table of `sweep.study.model`
    family : tuple of systems.System
    source : StudyText
        The study, whose directory file names are relative to.
    count : callable
        Called with a `Limit` and the amount that the start needs; raises beyond the limit.
    where : callable
        As in `Start`.
    label : str
        Label for a state without one.

    Returns
    -------
    Start

    Raises
    ------
    InputError
        If the start is not valid.
    """
    system = family[0]
    match given:
        case str() | model.NameStart():
            start: Start = _named_start(given, system)
        case model.RandomStart(around=around):
            if isinstance(around, dict):
                with under("around"):
                    read = read_value(model.AnyStart, around)
                    around = read_start(read, family, source, count, str, "state")
                    if around.size != 1:
                        raise InputError(
                            f"an ensemble scatters around one state, and this gives {around.size:,}"
                        )
            centre = around.label if isinstance(around, Start) else around
            label = "random" if centre is None else f"{centre}-random"
            spread = None if given.spread is None else float(given.spread)
            start = RandomStarts(given.random, given.seed, around, spread, given.label or label)
        case model.LatticeStart():
            start = LatticeStarts(given.lattice, given.body, given.around, given.label or "lattice")
        case model.FileStart():
            path = source.directory / given.file
            with under("file"):
                settings = given.model_dump() | {"label": given.label or path.stem}
                start = FileStarts.load(path, **settings)
        case model.StoreStart():
            start = read_end_states(
                given.store if "://" in given.store else source.directory / given.store,
                kept=source.kept,
                file=given.store,
                experiment=given.experiment,
                where_runs=given.where,
                normalize=given.normalize,
                label=given.label or "",
            )
        case _:
            start = _given_start(given, system, label)
    if isinstance(start, FamilyStarts | LatticeStarts):  # whose states are all made and checked
        if start.size > MOST_STATES:
            raise InputError(f"gives {start.size:,} states; at most {MOST_STATES:,} are possible")
        count(PAIRS, start.size * len(family))
    count(MEMORY, BYTES_OF_A_ROW * start.size * sum(own.rows for own in family))
    try:
        for own in family:
            start.check(own)
    except InputError as error:
        raise InputError(str(error), key=error.key or "around") from None
    return dataclasses.replace(start, where=where)


def _named_start(given: "str | model.NameStart", system: System) -> Start:
    """Make a named start, or the starts of a family."""
    given = model.NameStart(name=given) if isinstance(given, str) else given
    families = {family.name: family for family in system.families}
    known = (*system.starts, *families)
    check_known("start", given.name, known, "name", f"of {system.name}")
    if given.name in families:
        return _family_starts(given, families[given.name], system)
    for key in given.model_extra or ():
        close = suggest_nearest(key, model.NameStart.model_fields)
        with under(key):
            raise InputError(
                f"unknown key {key!r}; {given.name!r} is one state and has no axes.{close}"
            )
    return NamedStart(given.name, given.label or given.name)


def _family_starts(given: "model.NameStart", family: Family, system: System) -> FamilyStarts:
    written = given.model_extra or {}
    check_keys("axis", written, ["name", "label", *family.axes], f"of {family.name}")
    paths = [(axis,) for axis in written]
    values = read_each(_axis_values, written.values(), paths=paths)
    axes = dict(zip(written, values, strict=True))
    defaults = {axis: (value,) for axis, value in family.axes.items() if axis not in axes}
    taken = variables.taken_variable_names(system)
    columns = {a: f"{family.name}_{a}" if a in taken else a for a in family.axes}
    own = family.name, axes | defaults, tuple(axes), columns, given.label or family.name
    return FamilyStarts(*own)


def _axis_values(written: object) -> tuple[float, ...]:
    return model.read_numbers(read_value(model.Values, written), "value", lambda value: value)


def _given_start(given: "model.GivenStartTable", system: System, label: str) -> GivenStart:
    keys, written = system.state_keys, given.model_extra or {}
    if wrong := [key for key in written if type(written[key]) is list and key not in keys]:
        with under(wrong[0]):
            raise InputError(
                f"a state of {system.name} is given by {' and '.join(keys)}, not by "
                f"{' and '.join(wrong)}"
            )
    if not any(key in keys for key in written):
        shown = ", ".join([*keys[:2], "…"])
        what = (
            "a start's name, { name, … }, { random, seed, … }, { lattice, … }, { file, … }, "
            f"{{ store, … }} or the state itself: {{ {shown} }}"
        )
        raise expected(what, given.model_dump(exclude_unset=True))
    check_keys("key", written, [*keys, *model.GivenStartTable.model_fields])
    if lacking := [key for key in keys if key not in written]:
        raise InputError(f"the key {lacking[0]!r} is missing")
    columns = [written[key] for key in keys], [system.state_rows[key] for key in keys]
    vectors = read_each(_vectors, *columns, paths=[(key,) for key in keys])
    return GivenStart(dict(zip(keys, vectors, strict=True)), given.normalize, given.label or label)


def _vectors(written: Any, rows: int) -> tuple[tuple[float, ...], ...]:
    """The rows of a part of a state; a single row may be written as a vector."""
    alone = rows == 1 and type(written) is list and not any(type(own) is list for own in written)
    given = [read_value(model.Vector, written)] if alone else None
    given = given or read_value(model.Vectors, written)
    return tuple(tuple(map(float, vector)) for vector in given)
