"""Systems whose equations of motion are a Python function of NumPy arrays.

Compiled methods call the function by its address, which is among the parameters of the form, so
that nothing is compiled for such a system.
"""

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from integrators.compiler.callbacks import call
from integrators.compiler.kernels import Kernel, whole_state
from integrators.compiler.views import members
from integrators.errors import InputError, check_known, check_number, short_repr
from integrators.forms.flows import VectorField
from integrators.precision import DOUBLE, LostDigits
from integrators.stepping.python_step import Declaration, PythonFunction, settings_given
from systems.base import Quantity, Start
from systems.rigid.base import Part, RigidSystem, checked_parts

Function = Callable[..., Any]
FIELD, MONITOR, INVARIANTS = range(3)  # whose address comes first among the parameters
LATER = 0.7123  # a time at which a field that does not depend on time is the same
_alive: list[PythonFunction] = []  # compiled code may have their addresses


class PythonSystem(RigidSystem):
    """Base of the systems that `python_system` makes."""

    declaration: ClassVar[Declaration]  # from which `sweep.Experiment` writes a plugin
    functions: ClassVar[tuple[PythonFunction, ...]]
    invariants: ClassVar[Mapping[str, tuple[tuple[str, ...], str]]]  # components and degree
    time_dependent: ClassVar[bool]
    own_parts: ClassVar[tuple[Part, ...]]

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of a state."""
        return self.own_parts

    @functools.cached_property
    def form(self) -> "PythonForm":
        """The form, which has the addresses of the functions."""
        if self.arithmetic.name != DOUBLE:
            raise LostDigits(f"{self.name!r} has its field in Python, in double precision only")
        addresses = [function.address for function in self.functions]
        numbers = np.array([*addresses, *self.parameters.values()], dtype=float)
        return PythonForm(self, numbers)

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """The invariants, then the constraints."""
        found = []
        for index, (name, (components, degree)) in enumerate(self.invariants.items()):
            kind, words = "momentum_map" if components else "casimir", f"invariant {name}"
            if name == "energy":
                kind, words = "observable" if self.time_dependent else "energy", "energy"
            units = self.units["energy"] if name == "energy" else "1"
            found.append(
                Quantity(
                    name, kind, units, words, _calling(INVARIANTS + index), components,
                    tuple(range(len(components) or 1)), degree,
                )
            )  # fmt: skip
        return (*found, *self.constraints)


@dataclasses.dataclass(frozen=True, eq=False)
class PythonForm:
    """The form of a `PythonSystem`: a vector field, and nothing else.

    Parameters
    ----------
    system : PythonSystem
    parameters : ndarray
        Addresses of the functions, then the system's own parameters.
    """

    system: PythonSystem
    parameters: np.ndarray

    forced = False
    yields = (VectorField,)

    @property
    def rows(self) -> int:
        """Rows of a state."""
        return sum(part.rows for part in self.system.parts)

    @property
    def bodies(self) -> int:
        """The number of bodies."""
        return self.system.bodies

    @property
    def packed(self) -> np.ndarray:
        """The parameters as kernels read them."""
        return self.parameters

    @property
    def energy(self) -> Kernel:
        """Kernel: the energy, and the mean unit length error."""
        return _calling(MONITOR)

    def completed(self, state: ArrayLike) -> np.ndarray:
        """The state as an array."""
        return np.asarray(state, dtype=float)

    def vector_field(self, formulation: str = "q_omega") -> VectorField:
        """The equations of motion; there is one formulation."""
        return VectorField(_calling(FIELD), _calling(MONITOR), {}, self.parameters, self.rows)


@functools.cache
def _calling(index: int) -> Kernel:
    """The kernel that calls the function whose address is at an index of the parameters."""

    def calling(t, y, p, out, work):
        call(p[index], t, 0.0, members(y), members(out), p)

    return Kernel(calling, whole_state, (index,))


class _Function(PythonFunction):
    """A function ``(t, y, **parameters)`` of a system.

    Parameters
    ----------
    kind : str
    function : callable
    rows, out_rows : int
    first : int
        Index of the system's own parameters among those of the form.
    names : sequence of str
        Of these parameters.
    """

    def __init__(
        self, kind: str, function: Function, rows: int, out_rows: int, names: tuple[str, ...]
    ) -> None:
        super().__init__(kind, function, rows, out_rows)
        taken = tuple(inspect.signature(self._plain).parameters)
        if taken[:2] != ("t", "y") or not set(taken[2:]) <= set(names):
            known = ", ".join(("t", "y", *names))
            raise InputError(
                f"{self.place} takes ({', '.join(taken)}); expected (t, y), and parameters of the "
                f"system's field, ({known})"
            )
        self._numbers = [names.index(name) - len(names) for name in taken[2:]]
        _alive.append(self)

    def value(self, t: float, state: np.ndarray, parameters: np.ndarray) -> Any:
        """What the function returns."""
        y = state.copy()
        if not self._is_jitted:
            y.setflags(write=False)
        own = [float(parameters[index]) for index in self._numbers]
        with np.errstate(all="ignore"):  # a run that blows up has inf and NaN
            return self._called(t, y, *own)

    def take(
        self, t: float, h: float, state: np.ndarray, out: np.ndarray, parameters: np.ndarray
    ) -> None:
        """Write what the function returns; NaN where it fails."""
        try:
            self.write(t, state, out, parameters)
        except BaseException as error:  # which compiled code would lose
            out[...] = math.nan
            self._fails(error)

    def write(self, t: float, state: np.ndarray, out: np.ndarray, parameters: np.ndarray) -> None:
        """Write what the function returns to `out`."""
        raise NotImplementedError


class _Field(_Function):
    """ẏ of a system, which is checked when it is called first."""

    def __init__(
        self, function: Function, rows: int, names: tuple[str, ...], time_dependent: bool
    ) -> None:
        super().__init__("field", function, rows, rows, names)
        self._time_dependent, self._is_checked = time_dependent, False

    def write(self, t: float, state: np.ndarray, out: np.ndarray, parameters: np.ndarray) -> None:
        """Write ẏ."""
        new = self.value(t, state, parameters)
        if type(new) is not np.ndarray or new.shape != state.shape or new.dtype != np.float64:
            self._refuse(new, f"an array of float64, shape {state.shape}")
        if not self._is_checked:
            self._check(t, state, parameters, new.copy())
        out[...] = new

    def _check(self, t: float, state: np.ndarray, parameters: np.ndarray, new: np.ndarray) -> None:
        if self.value(t, state, parameters).tobytes() != new.tobytes():
            raise InputError(
                "returns something else when it is called again with the same arguments: it keeps "
                "something between calls, or draws random numbers"
            )
        if not self._time_dependent:
            later = self.value(t + LATER, state, parameters)
            if later.tobytes() != new.tobytes():
                raise InputError(
                    "depends on time, by which an energy is not conserved; give time_dependent=True"
                )
        self._is_checked = True


class _Invariant(_Function):
    """An invariant: a number, or three."""

    def __init__(
        self, name: str, function: Function, rows: int, names: tuple[str, ...], size: int
    ) -> None:
        super().__init__(f"invariant {name!r}, function", function, rows, 1, names)
        self._size = size

    def write(self, t: float, state: np.ndarray, out: np.ndarray, parameters: np.ndarray) -> None:
        """Write the number or the vector to the first row."""
        out[0, : self._size] = self.checked(self.value(t, state, parameters))

    def checked(self, value: Any) -> np.ndarray:
        """What the function returns as an array of `size` numbers; or `InputError`."""
        try:
            found = np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            found = np.empty(0)
        if found.size != self._size or found.ndim > 1:
            expected = "a number" if self._size == 1 else f"{self._size} numbers"
            self._refuse(value, expected)
        return found.ravel()


class _Monitor(_Function):
    """What statistics of every step are of: the energy, if there is one, and unit lengths."""

    def __init__(self, energy: _Invariant | None, rows: int, units: list[int]) -> None:
        super().__init__("energy", energy._called if energy else _none, rows, 1, _names_of(energy))
        self._energy, self._units = energy, units

    def write(self, t: float, state: np.ndarray, out: np.ndarray, parameters: np.ndarray) -> None:
        """Write the energy and the mean unit length error."""
        out[0] = 0.0
        if self._energy is not None:
            self._energy.write(t, state, out, parameters)
        if self._units:
            directions = state[self._units]
            out[0, 1] = np.mean(np.abs(np.sum(directions * directions, axis=1) - 1.0))


def _none(t: float, y: np.ndarray) -> float:
    return 0.0


def _names_of(function: _Function | None) -> tuple[str, ...]:
    if function is None:
        return ()
    return tuple(inspect.signature(function._plain).parameters)[2:]


def python_system(
    name: str,
    field: Function,
    *,
    parts: Mapping[str, str],
    starts: Mapping[str, ArrayLike],
    invariants: Mapping[str, Function | tuple[Function, str]] | None = None,
    time_dependent: bool = False,
    description: str = "",
    units: Mapping[str, str] | None = None,
) -> type[PythonSystem]:
    """A system from a Python function, which every integrator of vector fields steps.

    It is slower than a compiled one, by some microseconds an evaluation beside those of the
    function; in double precision alone, without Lyapunov exponents.

    It stands in ``SYSTEMS`` of a plugin. In a script or a notebook a `sweep.Study` takes it as its
    system: then the source of the functions, and of what they use, is part of the study.

    Parameters
    ----------
    name : str
    field : callable
        ``field(t, y, …)`` returns ẏ as a new array, from a state `y` of shape ``(rows, 3)``.
        Further arguments, with numbers as defaults, are parameters of the system.
    parts : mapping of str to str
        The parts of a state and their kinds, as in `Part`: ``"vector"``, ``"direction"``,
        ``"tangent"`` (of the direction before it), a row each, and ``"rotation"``, three rows.
    starts : mapping of str to array_like, shape (rows, 3)
        Named initial states.
    invariants : mapping of str to callable or (callable, str), optional
        What the motion keeps: functions ``(t, y, …)`` of the same parameters, or fewer, that return
        a number or three; with the degree ``"linear"`` or ``"quadratic"``, which some methods
        preserve. The one called ``energy`` is followed at every step.
    time_dependent : bool
        Whether the field depends on time; then the energy is not conserved.
    description : str
        By default the first line of the function's docstring.
    units : mapping of str to str
        Of ``energy``, ``momentum`` and ``time``.

    Returns
    -------
    type of PythonSystem
        A class of systems.

    Raises
    ------
    InputError
        If a function takes other arguments, or a start or an invariant cannot be evaluated.

    Examples
    --------
    >>> def rotation(t, y, rate=1.0):
    ...     return rate * np.cross([0.0, 0.0, 1.0], y)
    >>> python_system(
    ...     "rotation", rotation, parts={"q": "direction"}, starts={"equator": [[1, 0, 0]]}
    ... ).name
    'rotation'
    """
    settings = settings_given(python_system, locals())
    if not inspect.isfunction(getattr(field, "py_func", field)):
        raise InputError(f"field = {short_repr(field)}; expected a function field(t, y)")
    plain = getattr(field, "py_func", field)
    own = list(inspect.signature(plain).parameters.values())[2:]
    defaults = {one.name: check_number(one.name, one.default) for one in own}
    names = tuple(defaults)
    made = checked_parts(*(Part(key, kind) for key, kind in parts.items()))
    rows = sum(part.rows for part in made)
    states = {key: _checked_start(name, key, state, rows) for key, state in starts.items()}
    if not states:
        raise InputError(f"system {name!r} has no starts; expected at least one initial state")
    numbers = np.array(list(defaults.values()))
    first = next(iter(states.values()))
    functions: list[_Function] = []
    declared: dict[str, tuple[tuple[str, ...], str]] = {}
    for key, given in (invariants or {}).items():
        function, degree = given if isinstance(given, tuple) else (given, "other")
        check_known(f"degree of the invariant {key!r}:", degree, ("linear", "quadratic", "other"))
        tried = _Invariant(key, function, rows, names, 1)
        size = np.size(tried.value(0.0, first, numbers))
        size = 3 if size == 3 and key != "energy" else 1
        functions.append(_Invariant(key, function, rows, names, size))
        declared[key] = (("x", "y", "z") if size == 3 else (), degree)
    starting = np.cumsum([0, *(part.rows for part in made)])
    directions = [int(row) for row, part in zip(starting, made, strict=False)
                  if part.kind == "direction"]  # fmt: skip
    energy: Any = dict(zip(declared, functions, strict=True)).get("energy")
    summary = (inspect.getdoc(plain) or "").partition("\n")[0].rstrip(".")
    return dataclasses.make_dataclass(
        name,
        [(key, float, dataclasses.field(default=value)) for key, value in defaults.items()],
        bases=(PythonSystem,),
        frozen=True,
        namespace={
            "name": name,
            "declaration": Declaration("system", name, field, settings),
            "description": description or summary or f"the field {plain.__name__!r}, in Python",
            "units": dict(PythonSystem.units, **(units or {})),
            "named_starts": tuple(
                Start(key, "a given state", functools.partial(_copy_of, state))
                for key, state in states.items()
            ),
            "functions": (
                _Field(field, rows, names, time_dependent),
                _Monitor(energy, rows, directions),
                *functions,
            ),
            "invariants": declared,
            "time_dependent": time_dependent,
            "own_parts": made,
        },
    )


def _copy_of(state: np.ndarray, system: object) -> np.ndarray:
    return state.copy()


def _checked_start(name: str, key: str, state: ArrayLike, rows: int) -> np.ndarray:
    found = np.asarray(state, dtype=float)
    if found.shape != (rows, 3):
        raise InputError(
            f"start {key!r} of {name!r} has shape {found.shape}; its parts have ({rows}, 3)"
        )
    return found
