"""What every system offers: parameters, starts, ensembles, quantities with units."""

import contextlib
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from integrators.compiler.kernels import Kernel
from integrators.errors import InputError, check_array, check_known, check_number, check_whole
from integrators.forms.flows import FormOfStates
from integrators.html import html_facts
from integrators.precision import (
    DOUBLE,
    DOUBLE_DOUBLE,
    DOUBLES,
    LostDigits,
    arithmetic_of,
    precise_from_doubles,
    to_double_doubles,
    to_precise,
)
from systems import ensembles
from systems.checking import check_members, set_checked

ERROR_OF = "Euclidean norm of the error of all {}"
CONSERVED = ("energy", "momentum_map", "casimir")  # kinds of quantities that a motion keeps


@dataclass(frozen=True)
class Quantity:
    """A recorded quantity: an invariant, a constraint or an observable.

    Parameters
    ----------
    name : str
        As in a study's ``record`` and in the store.
    kind : {"energy", "momentum_map", "casimir", "constraint", "observable"}
        The one of kind ``energy`` is what the form's monitor follows at every step; of a forced
        system it is the energy balance. An observable is not conserved.
    units : str
        ``"1"`` where there is none.
    long_name : str
    function : Kernel
        Signature `kernels.whole_state`, writes row 0 of ``out``. An invariant or observable of a
        Lagrangian system reads the state (q, q̇), a constraint the state in the integrator's own
        formulation.
    components : tuple of str
        Names of the components of a vector; empty for a number.
    columns : tuple of int
        The columns of row 0 that hold the components.
    degree : {"linear", "quadratic", "other"}
        For an invariant, its degree as a polynomial in the state.
    each_row : bool
        For an observable: whether it is a vector for each row of the state, which `function` writes
        to the same row of ``out``, from the first one on. Other rows are NaN.
    """

    name: str
    kind: str
    units: str
    long_name: str
    function: Kernel
    components: tuple[str, ...] = ()
    columns: tuple[int, ...] = (0,)
    degree: str = "other"
    each_row: bool = False


@dataclass(frozen=True)
class StateError:
    """An error against a reference: the Euclidean norm of that of some rows of the state.

    Parameters
    ----------
    name : str
        As in the store.
    rows : slice or tuple of int
    units, long_name : str
    """

    name: str
    rows: slice | tuple[int, ...]
    units: str
    long_name: str


@dataclass(frozen=True)
class Start:
    """A named initial state.

    Parameters
    ----------
    name, description : str
    make : callable
        ``make(system)`` gives the state, shape (rows, 3).
    """

    name: str
    description: str
    make: Callable[..., Any]


def _tuples_as_lists(value: object) -> object:
    return [_tuples_as_lists(item) for item in value] if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Family:
    """Named initial states with axes: ``make(system, **values)`` gives one, shape (rows, 3).

    Parameters
    ----------
    name, description : str
    axes : mapping of str to float
        The axes with the values that they have unless given.
    make : callable
    """

    name: str
    description: str
    axes: Mapping[str, float]
    make: Callable[..., Any]

    @property
    def in_words(self) -> str:
        """The description, and the axes with their defaults."""
        axes = ", ".join(f"{axis} = {value:g}" for axis, value in self.axes.items())
        return f"{self.description} ({axes})"


HIGH = 8  # orders that doubles leave few powers of ten to


@dataclass(frozen=True)
class Convergence:
    """The horizon and the step sizes that suit a study of convergence.

    Over the duration errors grow to well above round-off, and less than by chaos; from the longest
    step on down to the shortest the error of some method falls as a power of the step size.

    Parameters
    ----------
    duration, longest_step, shortest_step : float
        In the system's unit of time.
    """

    duration: float
    longest_step: float
    shortest_step: float

    def steps(self, order: int, arithmetic: str = DOUBLE) -> tuple[float, float, int]:
        """Longest and shortest step, and how many in between, for a method of an order.

        A high order falls from its first asymptotic step to round-off, five to nine powers of ten,
        within a small ratio of step sizes; a low one is asymptotic only for small ones. In
        double-double one of `HIGH` order falls by ten powers more, and there and for order 5,
        which the next term of its error hides in double, step sizes begin where errors are
        asymptotic.
        """
        if arithmetic != DOUBLE and order > 4:
            longest, decades = self.longest_step / 2, 14.0 if order >= HIGH else 9.5
            return longest, longest * 10.0 ** (-decades / order), 12
        longest = self.longest_step * (order / 8 if order < 4 else 2.0 if order > 8 else 1.0)
        decades = 9.5 if order < 8 else 5.0
        shortest = max(self.shortest_step, longest * 10.0 ** (-decades / order))
        return longest, shortest, 12 if order < 3 else 16 if order < 5 else 24


@dataclass(frozen=True)
class System(ABC):
    """A system with its parameters; a frozen dataclass for each.

    A subclass has class attributes `name`, `description`, `named_starts` and `families`, where it
    is not dimensionless `units` (of energy, momentum and time) and `parameter_units`, the
    parameters as fields, and `form`. What its states are, of shape ``(rows, 3)``, the kinds of
    systems say: `MechanicalSystem`, `SpinSystem` and `RigidSystem`. They have `state_keys`, by
    which a study spells a state, `state_text`, `row_labels`, and `state_errors`, a tuple of
    `StateError`. `convergence` is the `Convergence` that suits the default parameters, if it says
    one. `remarks` are sentences on the parameters, worth knowing before a run, and
    `surprising_defaults` says of parameters whose default is not what one would expect why it is
    that: `sweep check` and `sweep show system` print them. `arithmetic`, `precision.DOUBLES` or
    `PRECISE`, has the numbers that forms and starts are made of: a form or start that takes from it
    what is exact in no double, as 0.1 and √3, can be had in double-double too.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    units: ClassVar[Mapping[str, str]] = {"energy": "1", "momentum": "1", "time": "1"}
    parameter_units: ClassVar[Mapping[str, str]] = {}  # of those that have any
    named_starts: ClassVar[tuple[Start, ...]]
    families: ClassVar[tuple[Family, ...]] = ()
    sources: ClassVar[tuple[str, ...]] = ()  # the works that it is from, as of `Method.sources`
    later: ClassVar[tuple[str, ...]] = ()  # parameters that came when there were stores of it
    former_names: ClassVar[tuple[str, ...]] = ()  # that studies and stores may still have
    surprising_defaults: ClassVar[Mapping[str, str]] = {}
    convergence: ClassVar[Convergence | None] = None
    arithmetic: ClassVar[Any] = DOUBLES  # of the numbers that forms and starts are made of

    def __post_init__(self) -> None:
        """Check parameters of type float; a subclass with bounds or other types has its own."""
        numbers = [own.name for own in fields(self) if own.type in (float, "float")]
        set_checked(self, **{name: check_number(name, getattr(self, name)) for name in numbers})

    if TYPE_CHECKING:  # attributes of some classes, properties of others

        @property
        def remarks(self) -> tuple[str, ...]:
            """Sentences on the parameters, worth knowing before a run."""

        @property
        def state_keys(self) -> tuple[str, ...]:
            """Names by which a study spells a state."""

        @property
        def state_text(self) -> str:
            """What a state is."""

        @property
        def row_labels(self) -> list[str]:
            """What each row of a state is."""

        @property
        def state_errors(self) -> tuple[StateError, ...]:
            """Errors against a reference."""
    else:
        remarks = ()

    def _repr_html_(self) -> str:
        facts = self.facts()
        quantities = {
            own.name: own.long_name + (f" [{own.units}]" if own.units != "1" else "")
            for own in self.quantities
        }
        shown = {name: facts[name] for name in ("parameters", "state", "starts")}
        return html_facts(
            f"{self.name}: {self.description}", shown | {"quantities": quantities}, self.remarks
        )

    def facts(self) -> dict[str, Any]:
        """What the system is, by headings: text, or lines of text by name.

        Remarks and families are left out where there are none.
        """
        unit = "" if self.time_units == "1" else f" {self.time_units}"
        convergence: str | dict[str, str] = "declares none"
        if (own := self.convergence) is not None:
            steps = f"{own.shortest_step:g} – {own.longest_step:g}{unit}"
            convergence = {"duration": f"{own.duration:g}{unit}", "step sizes": steps}
        facts: dict[str, Any] = {
            "system": self.name,
            "description": self.description,
            "form": type(self.form).__name__,
            "parameters": {name: self._parameter_in_words(name) for name in self.parameters},
            "state": f"({self.rows}, 3): {self.rows_in_words}",
            "starts": {start.name: start.description for start in self.named_starts},
        }
        if self.remarks:
            facts["remarks"] = "; ".join(self.remarks)
        facts["convergence"] = convergence
        if self.families:
            facts["families"] = {family.name: family.in_words for family in self.families}
        return facts

    def _parameter_in_words(self, name: str) -> str:
        """A parameter with its unit, unless it is a word; and why its default is surprising."""
        value, unit, why = self.parameters[name], self.parameter_units.get(name, "1"), ""
        if name in self.surprising_defaults:
            why = f" ({self.surprising_defaults[name]})"
        without_unit = isinstance(value, str) or unit == "1"
        return f"{_tuples_as_lists(value)}{'' if without_unit else f' {unit}'}{why}"

    @property
    @abstractmethod
    def form(self) -> FormOfStates:
        """The form, with compiled functions and numbers."""

    def in_arithmetic(self, name: str) -> Self:
        """The system itself, or its twin of precise numbers.

        The twin's parameters are what their floats stand for, see `precision.to_precise`, and so
        its form and starts are made of precise numbers, by the same code.

        Parameters
        ----------
        name : {"double", "double-double"}

        Returns
        -------
        System

        Raises
        ------
        InputError
            For another name.
        """
        arithmetic = arithmetic_of(name)
        if arithmetic.name == self.arithmetic.name:
            return self
        twin, kind = object.__new__(type(self)), type(self)
        for key, value in vars(self).items():
            if not isinstance(getattr(kind, key, None), functools.cached_property):
                object.__setattr__(twin, key, value)
        for key in self.parameter_names():
            object.__setattr__(twin, key, to_precise(getattr(self, key)))
        object.__setattr__(twin, "arithmetic", arithmetic)
        return twin

    @property
    @abstractmethod
    def quantities(self) -> tuple[Quantity, ...]:
        """Tuple of `Quantity`."""

    @classmethod
    def parameter_names(cls) -> tuple[str, ...]:
        """Names of the parameters; those that only have a keyword, as they are shared, last."""
        return tuple(
            field.name for field in sorted(fields(cls), key=lambda field: bool(field.kw_only))
        )

    @property
    def in_words(self) -> str:
        """The name, for messages; with what of the parameters decides on the form."""
        return repr(self.name)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters by name; vectors are tuples."""
        return {name: getattr(self, name) for name in self.parameter_names()}

    @property
    def identity(self) -> dict[str, Any]:
        """The parameters by which runs are identified: without `later` ones at their defaults."""
        usual = self.later_defaults()
        return {
            name: value
            for name, value in self.parameters.items()
            if name not in usual or value != usual[name]
        }

    @classmethod
    @functools.cache
    def later_defaults(cls) -> dict[str, Any]:
        """The `later` parameters with their defaults, as `parameters` has them."""
        usual = cls().parameters if cls.later else {}
        return {name: usual[name] for name in cls.later}

    @property
    def first_name(self) -> str:
        """The name by which runs are identified: that which it had first."""
        return (*self.former_names, self.name)[0]

    @property
    def time_units(self) -> str:
        """Units of time."""
        return self.units["time"]

    @property
    def bodies(self) -> int:
        """The number of spheres."""
        return cast(Any, self.form).bodies  # those without override this

    @property
    def rows(self) -> int:
        """Rows of a state."""
        return self.form.rows

    @property
    def state_rows(self) -> dict[str, int]:
        """How many rows each of `state_keys` has: one for each body."""
        return dict.fromkeys(self.state_keys, self.bodies)

    def check_vectors(self, key: str, vectors: Any) -> None:
        """Raise `InputError` unless one of `state_keys` is given by as many vectors as it has."""
        if len(vectors) != self.state_rows[key]:
            raise InputError(
                f"expected {self.bodies} vectors, one for each body, got {len(vectors)}", key=key
            )

    @property
    def starts(self) -> tuple[str, ...]:
        """Names of the initial states that come with the system."""
        return tuple(start.name for start in self.named_starts)

    def start(self, name: str, arithmetic: str = DOUBLE) -> np.ndarray:
        """A named initial state.

        Parameters
        ----------
        name : str
        arithmetic : {"double", "double-double"}

        Returns
        -------
        ndarray, shape (rows, 3), or (rows, 3, 2) of high and low doubles

        Raises
        ------
        InputError
            If there is none of that name, or it does not suit the parameters, or is made in double
            precision only.
        """
        check_known("start", name, self.starts, where=f"of {self.name}")
        start = next(start for start in self.named_starts if start.name == name)
        return self._make_state(f"start {name!r}", start.make, arithmetic)

    def _make_state(
        self, what: str, make: Callable[..., Any], arithmetic: str, **values: float
    ) -> np.ndarray:
        """The state that `make` makes of the system, or the high and low doubles of its twin's."""
        state = self.form.completed(make(self, **values))
        if arithmetic_of(arithmetic) is DOUBLES:
            return state
        twin = self.in_arithmetic(arithmetic)
        with self._refusing_lost_digits(what):
            made = make(twin, **{key: to_precise(value) for key, value in values.items()})
            return to_double_doubles(twin.form.completed(made))

    @contextlib.contextmanager
    def _refusing_lost_digits(self, what: str) -> Iterator[None]:
        """Say what of the system cannot be had with all digits."""
        try:
            yield
        except (LostDigits, TypeError) as error:
            raise InputError(
                f"{what} of {self.name} is made in double precision only: {error}"
            ) from error

    def member(self, family: str, arithmetic: str = DOUBLE, **values: float) -> np.ndarray:
        """The state of a family at some values of its axes; defaults for those not given.

        Parameters
        ----------
        family : str
        arithmetic : {"double", "double-double"}
            In double-double a value is what its float stands for, see `precision.to_precise`.
        **values : float

        Returns
        -------
        ndarray, shape (rows, 3), or (rows, 3, 2) of high and low doubles

        Raises
        ------
        InputError
            For an unknown family or axis, where there is no state, or for one that is made in
            double precision only.
        """
        families = {known.name: known for known in self.families}
        check_known("family", family, families, "name", f"of {self.name}")
        known = families[family]
        for key, value in values.items():
            check_known("axis", key, known.axes, key, f"of {family}")
            check_number(key, value)
        state = self._make_state(
            f"family {family!r}", known.make, arithmetic, **{**known.axes, **values}
        )
        self.check_state(state if state.ndim == 2 else state[..., 0])
        return state

    def ensemble(
        self,
        members: int | range,
        seed: int,
        around: str | np.ndarray | None = None,
        spread: float | None = None,
    ) -> np.ndarray:
        """Random initial states on the manifold; member m depends on ``(seed, m)`` alone.

        Parameters
        ----------
        members : int or range
            How many, or which.
        seed : int
        around : str or ndarray of shape (rows, 3), optional
            The start that they scatter around; without one, directions are uniform on the spheres
            and angular velocities standard Gaussian tangent vectors.
        spread : float, optional
            With `around`: standard deviation of the Gaussian tangent vector, in radians for
            directions and relative for angular velocities.

        Returns
        -------
        ndarray, shape (members, rows, 3)

        Raises
        ------
        InputError
            If only one of `around` and `spread` is given, `around` is no state, or a number is
            out of bounds.
        """
        if not isinstance(members, range):
            members = range(check_whole("members", members, least=0))
        if len(members) and min(members) < 0:
            raise InputError(f"members = {members!r}; expected whole numbers ≥ 0", key="members")
        seed = check_whole("seed", seed, least=0)
        if (around is None) != (spread is None):
            raise InputError("an ensemble takes both 'around' and 'spread', or neither")
        if around is None:
            drawn = self._draw_states(seed, members)
        else:
            spread = check_number("spread", spread, above=0.0)
            centre = self._centre_state(around)
            drawn = self._draw_states_near(centre, spread, seed, members)
        return self.form.completed(drawn)

    def lattice(
        self, count: int, body: int = 0, around: str | np.ndarray | None = None
    ) -> np.ndarray:
        """Initial states with one body's direction on a nearly uniform lattice over the sphere.

        Parameters
        ----------
        count : int
            Of directions; with another count all of them are others.
        body : int, optional
        around : str or ndarray of shape (rows, 3), optional
            The start that the other bodies are taken from; the first named one unless given. The
            body is turned the shortest way, with its angular velocity if it has one.

        Returns
        -------
        ndarray, shape (count, rows, 3)

        Raises
        ------
        InputError
            If `around` is no state, the system is singular in one of the states, or a number is
            out of bounds.
        """
        count = check_whole("lattice", count)
        if check_whole("body", body, least=0) >= self.bodies:
            raise InputError(
                f"body = {body}; {self.name} has {self.bodies} bodies, counted from 0", key="body"
            )
        if around is None and not self.starts:
            raise InputError(f"{self.name} has no named start: give 'around'", key="around")
        centre = self._centre_state(self.starts[0] if around is None else around)
        points = ensembles.lattice(count)
        states = self.form.completed([self._turn_body(centre, body, point) for point in points])
        check_members(self, states)
        return states

    def _centre_state(self, around: str | np.ndarray) -> np.ndarray:
        centre = self.start(around) if isinstance(around, str) else around
        self.check_state(centre)
        return centre

    def check_state(self, state: ArrayLike) -> None:
        """Raise `InputError` unless `state` is finite, of the right shape, on the manifold."""
        state = self.form.completed(check_array("state", state, f"({self.rows}, 3)"))
        if state.shape != (self.rows, 3):
            raise InputError(
                f"state of shape {state.shape}; {self.name} with {self.bodies} bodies expects "
                f"({self.rows}, 3): {self.rows_in_words}"
            )
        if not np.all(np.isfinite(state)):
            raise InputError("the state has a number that is not finite")
        self._check_manifold(state)
        self.check_positions(state[: self.bodies])

    def refined(self, states: ArrayLike) -> np.ndarray:
        """States in doubles, such as those of an ensemble, brought to the manifold to 32 digits.

        Their doubles are taken for exact, and change by what they are off the manifold.

        Parameters
        ----------
        states : array_like, shape (rows, 3) or (members, rows, 3)
            The row of a force's work may be left out.

        Returns
        -------
        ndarray, shape (*shape, 2)
            High and low doubles.

        Raises
        ------
        InputError
            If one is no state, or the system knows its manifold in double precision only.
        """
        shape = f"({self.rows}, 3) or (members, {self.rows}, 3)"
        states = self.form.completed(check_array("states", states, shape))
        check_members(self, states if states.ndim == 3 else states[np.newaxis])
        twin = self.in_arithmetic(DOUBLE_DOUBLE)
        with self._refusing_lost_digits("manifold"):
            made = [
                twin.normalized(state)
                for state in precise_from_doubles(states).reshape(-1, self.rows, 3)
            ]
            return np.reshape(to_double_doubles(made), (*states.shape, 2))

    def check_positions(self, directions: np.ndarray) -> None:
        """Raise `InputError` where the system is singular; here it is so nowhere.

        Parameters
        ----------
        directions : ndarray, shape (n, 3)
        """
        return

    @property
    def rows_in_words(self) -> str:
        """What the rows of a state are, for messages."""
        keys = " of each body, then ".join(self.state_keys)
        return f"{keys} of each body"

    @abstractmethod
    def normalized(self, state: np.ndarray) -> np.ndarray:
        """`state` brought to the manifold."""

    @abstractmethod
    def _draw_states(self, seed: int, members: Sequence[int]) -> np.ndarray:
        """Random states, shape (members, rows, 3), each from `seed` and its member alone."""

    @abstractmethod
    def _draw_states_near(
        self, centre: np.ndarray, spread: float, seed: int, members: Sequence[int]
    ) -> np.ndarray:
        """The same, near `centre`."""

    @abstractmethod
    def _turn_body(self, state: np.ndarray, body: int, direction: np.ndarray) -> np.ndarray:
        """`state` with `body` turned to a direction, a unit vector."""

    @abstractmethod
    def _check_manifold(self, state: np.ndarray) -> None:
        """Raise `InputError` unless `state` is on the manifold."""
