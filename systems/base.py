"""What every system offers: parameters, starts, ensembles, quantities with units."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from integrators import InputError
from integrators.errors import check_array, check_known, check_number, check_whole
from integrators.forms import parts
from integrators.kernels import Kernel
from systems import ensembles

ON_MANIFOLD = 1e-9  # how far a given state may be off the manifold


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
        Signature `integrators.kernels.whole_state`, writes row 0 of ``out``. An invariant or
        observable of a Lagrangian system reads the state (q, q̇), a constraint the state in
        the integrator's own formulation.
    components : tuple of str
        Names of the components of a vector; empty for a number.
    columns : tuple of int
        Which columns of row 0 these are.
    degree : {"linear", "quadratic", "other"}
        Of an invariant, as a polynomial in the state.
    """

    name: str
    kind: str
    units: str
    long_name: str
    function: Kernel
    components: tuple = ()
    columns: tuple = (0,)
    degree: str = "other"


@dataclass(frozen=True)
class Start:
    """A named initial state: ``make(system)`` gives it, shape (rows, 3)."""

    name: str
    description: str
    make: Callable


@dataclass(frozen=True)
class System(ABC):
    """A mechanical system with its parameters; a frozen dataclass for each.

    A subclass has class attributes `name`, `description`, `named_starts`, `units` (of energy,
    momentum and time) and `parameter_units`, the parameters as fields, and `form`. Its states
    have shape ``(rows, 3)``: q, then ω; where a non-conservative force acts, one more row holds
    the work that it has done, as (W, 0, 0).
    """

    @property
    @abstractmethod
    def form(self):
        """The form, with compiled functions and numbers."""

    @property
    @abstractmethod
    def quantities(self):
        """Tuple of `Quantity`."""

    @classmethod
    def parameter_names(cls):
        """Names of the parameters."""
        return tuple(field.name for field in fields(cls))

    @property
    def parameters(self):
        """The parameters by name; vectors are tuples."""
        return {name: getattr(self, name) for name in self.parameter_names()}

    @property
    def time_units(self):
        """Units of time."""
        return self.units["time"]

    @property
    def bodies(self):
        """The number of spheres."""
        return self.form.bodies

    @property
    def rows(self):
        """Rows of a state."""
        return self.form.rows

    @property
    def starts(self):
        """Names of the initial states that come with the system."""
        return tuple(start.name for start in self.named_starts)

    def start(self, name):
        """A named initial state.

        Parameters
        ----------
        name : str

        Returns
        -------
        ndarray, shape (rows, 3)

        Raises
        ------
        InputError
            If there is none of that name, or it does not suit the parameters.
        """
        check_known(f"start of {self.name}", name, self.starts)
        start = next(start for start in self.named_starts if start.name == name)
        return self.form.completed(start.make(self))

    def ensemble(self, members, seed, around=None, spread=None):
        """Random initial states on the manifold; member m depends on ``(seed, m)`` alone.

        Parameters
        ----------
        members : int or range
            How many, or which.
        seed : int
        around : str or ndarray of shape (rows, 3), optional
            The start that they scatter around; without one, q is uniform on the spheres and
            ω a standard Gaussian tangent vector.
        spread : float, optional
            With `around`: standard deviation of the Gaussian tangent vector, in radians for q
            and relative for ω.

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
            drawn = [ensembles.uniform(self.bodies, seed, member) for member in members]
        else:
            spread = check_number("spread", spread, above=0.0)
            centre = self._centre(around)
            drawn = [ensembles.near(centre, spread, seed, member) for member in members]
        return self.form.completed(np.reshape(drawn, (-1, 2 * self.bodies, 3)))

    def lattice(self, count, body=0, around=None):
        """Initial states with one body's direction on a nearly uniform lattice over the sphere.

        Parameters
        ----------
        count : int
            Of directions; with another count all of them are others.
        body : int, optional
        around : str or ndarray of shape (rows, 3), optional
            The start that the other bodies are taken from; the first named one unless given. The
            body's own ω is turned with its direction, the shortest way.

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
        centre = self._centre(self.starts[0] if around is None else around)
        states = [ensembles.turned(centre, body, point) for point in ensembles.lattice(count)]
        states = self.form.completed(states)
        check_members(self, states)
        return states

    def _centre(self, around):
        centre = self.start(around) if isinstance(around, str) else around
        self.check_state(centre)
        return centre

    def check_state(self, state):
        """Raise `InputError` unless `state` is finite, of the right shape, on the manifold.

        The row of the work, where there is one, may be left out.
        """
        state = self.form.completed(check_array("state", state, f"({self.rows}, 3)"))
        if state.shape != (self.rows, 3):
            raise InputError(
                f"state of shape {state.shape}; {self.name} with {self.bodies} bodies expects "
                f"({self.rows}, 3): {self.bodies} rows of q, then {self.bodies} of omega"
                + (", then (work, 0, 0)" if self.form.forced else "")
            )
        if not np.all(np.isfinite(state)):
            raise InputError("the state has a number that is not finite")
        q, omega, work = parts(state)
        if np.any(work[:, 1:]):
            raise InputError(f"the last row is {work[0]}; expected (work, 0, 0)")
        length = np.abs(np.sum(q * q, axis=1) - 1.0)
        slope = np.abs(np.sum(q * omega, axis=1))
        for what, error in (("|q·q − 1|", length), ("|q·omega|", slope)):
            if error.max() > ON_MANIFOLD:
                raise InputError(
                    f"body {error.argmax()} is off the manifold: {what} = {error.max():.3g}; "
                    f"expected at most {ON_MANIFOLD:g}. Give more digits, or normalize = true"
                )
        self.check_positions(q)

    def check_positions(self, q):
        """Raise `InputError` where the potential is singular; here it is so nowhere.

        Parameters
        ----------
        q : ndarray, shape (n, 3)
        """
        return

    def normalized(self, state):
        """`state` brought to the manifold: |q| = 1, then ω orthogonal to q; the work as it is."""
        state = self.form.completed(state)
        moved = ensembles.on_manifold(state)
        return np.concatenate([moved, state[len(moved) :]])


def check_members(system, states):
    """Raise `InputError` with the number of the first of many `states` that is none of `system`."""
    for member, state in enumerate(states):
        try:
            system.check_state(state)
        except InputError as error:
            raise InputError(f"member {member}: {error}") from None


def quantities_of_spheres(form, units, momentum):
    """Energy, unit length and tangency of a `SpheresLagrangian`, and its conserved momenta.

    With a force the energy balance E − W is the invariant, and energy and work are observables.

    Parameters
    ----------
    form : SpheresLagrangian
    units : dict
        Of ``energy``, ``momentum`` and ``time``.
    momentum : str
        The axes about which angular momentum is conserved: ``"xyz"``, one of them or ``""``.
    """
    from integrators.spheres import tangency_error, unit_length_error, work_done

    per_time = "1" if units["time"] == "1" else f"rad {units['time']}-1"
    of_energy = units["energy"]
    if form.forced:
        balance = "energy less the work of the forces"
        energies = [
            Quantity("energy", "observable", of_energy, "total energy", form.energy),
            Quantity("work", "observable", of_energy, "work of the forces since time 0", work_done),
            Quantity("energy_balance", "energy", of_energy, balance, form.energy_balance),
        ]
    else:
        energies = [Quantity("energy", "energy", of_energy, "total energy", form.energy)]
    result = [
        *energies,
        Quantity("unit_length", "constraint", "1", "max |q·q − 1| over bodies", unit_length_error),
        Quantity("tangency", "constraint", per_time, "max |q·ω| over bodies", tangency_error),
    ]
    if momentum:
        names = {"xyz": "total angular momentum", "z": "vertical angular momentum"}
        other = f"angular momentum about e{'xyz'.find(momentum) + 1}"
        result.append(
            Quantity(
                name="momentum",
                kind="momentum_map",
                units=units["momentum"],
                long_name=names.get(momentum, other),
                function=form.angular_momentum,
                components=() if len(momentum) == 1 else tuple(momentum),
                columns=tuple("xyz".index(axis) for axis in momentum),
                degree="quadratic",
            )
        )
    return tuple(result)


def axes_along(vectors):
    """The axes to which all of `vectors`, shape (k, 3), are parallel: ``"xyz"`` for none at all."""
    vectors = np.reshape(np.asarray(vectors, dtype=float), (-1, 3))
    return "".join(
        name for c, name in enumerate("xyz") if not np.any(np.delete(vectors, c, axis=1))
    )


def check_distinct(q, antipodal=False):
    """Refuse bodies that coincide or, if asked, are antipodal.

    Parameters
    ----------
    q : ndarray, shape (n, 3)
    antipodal : bool

    Raises
    ------
    InputError
        Naming the first pair.
    """
    for what, sign in (("coincide", 1.0), ("are antipodal", -1.0))[: 1 + antipodal]:
        for i in range(1, len(q)):
            apart = np.linalg.norm(q[:i] - sign * q[i], axis=1)
            if apart.min() <= ON_MANIFOLD:
                raise InputError(
                    f"bodies {apart.argmin()} and {i} {what}, where the potential is singular",
                    key="q",
                )


def positive_vector(name, value, count):
    """A positive parameter for each of `count` bodies; see `number_vector`."""
    return number_vector(name, value, count, above=0.0)


def number_vector(name, value, count, **bounds):
    """A parameter for each of `count` bodies: a number repeated, or a list of that length.

    `bounds` are those of `integrators.errors.check_number`.
    """
    values = [value] * count if np.ndim(value) == 0 else list(value)
    if len(values) != count:
        raise InputError(f"{name} has {len(values)} values; expected {count}", key=name)
    return tuple(check_number(name, item, **bounds) for item in values)


def is_list(value, length=None):
    """Whether `value` is a list, tuple or array, of `length` items if that is given."""
    listed = isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)
    return listed and length in (None, len(value))


def vector_list(name, value, count=None):
    """A parameter that is a list of 3-vectors, of `count` if that is given, as tuples."""
    if not is_list(value) or not len(value) or not all(is_list(row, 3) for row in value):
        raise InputError(f"{name} = {value!r}; expected a list of [x, y, z]", key=name)
    if count is not None and len(value) != count:
        raise InputError(f"{name} has {len(value)} vectors; expected {count}", key=name)
    return tuple(tuple(check_number(name, part) for part in row) for row in value)


def set_checked(instance, **values):
    """Set validated fields of a frozen dataclass while it is made."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)
