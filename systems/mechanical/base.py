"""Mechanical systems on products of two-spheres: states (q, ω), starts, energy, momentum."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike

from integrators.compiler.kernels import Kernel, generalized_force, kernel
from integrators.compiler.vectors import cross, get, put, scale
from integrators.errors import InputError
from integrators.forms.forms import SpheresLagrangian, split_state
from integrators.forms.spheres import tangency_error, unit_length_error, work_done
from integrators.precision import to_numbers
from systems import ensembles
from systems.base import ERROR_OF, Quantity, StateError, System
from systems.checking import (
    ON_MANIFOLD,
    Each,
    PerBody,
    check_directions,
    check_small,
    check_unit,
    number_vector,
    set_checked,
)


class MechanicalSystem(System):
    """A system whose form is a `SpheresLagrangian`.

    Its states have shape ``(rows, 3)``: q, then ω; where a non-conservative force acts, one more
    row holds the work that it has done, as (W, 0, 0).
    """

    state_keys = ("q", "omega")
    state_text = "q, then omega, of each body; then the work done, where a force acts"

    @property
    def row_labels(self) -> list[str]:
        """What each row of a state is."""
        labels = [f"{of}{i}" for of in self.state_keys for i in range(self.bodies)]
        return labels + ["work"] * self.form.forced

    @property
    def state_errors(self) -> tuple[StateError, ...]:
        """Errors against a reference; the work is in none."""
        n = self.bodies
        per_time = "1" if self.time_units == "1" else f"{self.time_units}-1"
        return (
            StateError("position_error", slice(0, n), "1", ERROR_OF.format("directions")),
            StateError(
                "velocity_error", slice(n, 2 * n), per_time, ERROR_OF.format("angular velocities")
            ),
        )

    @property
    def rows_in_words(self) -> str:
        """What the rows of a state are, for messages."""
        n = self.bodies
        words = f"{n} rows of q, then {n} of omega"
        return words + (", then (work, 0, 0)" if self.form.forced else "")

    def normalized(self, state: np.ndarray) -> np.ndarray:
        """`state` brought to the manifold: |q| = 1, then ω orthogonal to q; the work as it is."""
        state = self.form.completed(state)
        check_directions(state[: self.bodies], "q of body {}", key="q")
        moved = ensembles.project_to_manifold(state)
        return np.concatenate([moved, state[len(moved) :]])

    def _draw_states(self, seed: int, members: Sequence[int]) -> np.ndarray:
        return ensembles.draw_uniform(self.bodies, seed, members)

    def _draw_states_near(
        self, centre: np.ndarray, spread: float, seed: int, members: Sequence[int]
    ) -> np.ndarray:
        return ensembles.draw_near(centre, spread, seed, members)

    def _turn_body(self, state: np.ndarray, body: int, direction: np.ndarray) -> np.ndarray:
        return ensembles.turn_body(state, body, direction)

    def _check_manifold(self, state: np.ndarray) -> None:
        q, omega, work = split_state(state)
        if np.any(work[:, 1:]):
            raise InputError(f"the last row is {work[0]}; expected (work, 0, 0)")
        check_directions(q, "q of body {}", key="q")
        check_unit(q, "q")
        check_small(np.abs(np.sum(q * omega, axis=1)), "|q·omega|")


@kernel(generalized_force)
def friction(t, q, omega, p, out, work):
    """F_i = −c_i ω_i × q_i; the c_i are the last parameters."""
    n = q.shape[0]
    begin = p.shape[0] - n
    for i in range(n):
        put(out, i, scale(-p[begin + i], cross(get(omega, i), get(q, i))))


def with_force(
    form: SpheresLagrangian, force: Kernel, parameters: Sequence[float]
) -> SpheresLagrangian:
    """Add a non-conservative force to a `SpheresLagrangian`.

    Parameters
    ----------
    form : SpheresLagrangian
    force : Kernel
        Kernel of the signature `generalized_force`: ``force(t, q, omega, p, out, work)`` writes
        F_i, defined by the virtual work Σ F_i·δq_i, into row i of `out`. Its `p` holds the
        parameters of the form, then `parameters`.
    parameters : sequence of float
        Parameters of the force.

    Returns
    -------
    SpheresLagrangian
        Its states have one more row, for the work.

    Raises
    ------
    InputError
        If a force acts already.
    """
    if form.forced:
        raise InputError(
            "a force acts on the system already, as where it has a damping: write one function "
            "for all forces, and leave the damping out"
        )
    every = np.concatenate([to_numbers(form.parameters), np.ravel(parameters)])
    return replace(form, parameters=every, force=force)


UNDAMPED = "none"


@dataclass(frozen=True)
class DampedSystem(MechanicalSystem):
    """A mechanical system whose bodies may be damped, by the torques −c_i ω_i.

    A subclass checks its own parameters, then those here by `super().__post_init__()`, and its
    `form` is what `damped` makes of a conservative one.

    Parameters
    ----------
    damping : float or tuple of float or "none"
        Coefficient c_i of the torque −c_i ω_i on each body, in units of energy times time; ≥ 0.
        "none": no force; with 0 the state has a row for the work, as in runs with a force.

    Raises
    ------
    InputError
        If a value has the wrong type or sign, or a list the wrong length.
    """

    damping: PerBody | str = field(default=UNDAMPED, kw_only=True)

    later: ClassVar[tuple[str, ...]] = ("damping",)

    def __post_init__(self) -> None:
        if self.damping != UNDAMPED:
            if isinstance(self.damping, str):
                raise InputError(
                    f"damping = {self.damping!r}; expected a number ≥ 0, one for each body, or "
                    f"{UNDAMPED!r}",
                    key="damping",
                )
            damping = number_vector("damping", self.damping, self.body_count, least=0.0)
            set_checked(self, damping=damping)

    @property
    def has_force(self) -> bool:
        """Whether the damping is a force, if only one of size 0."""
        return self.damping != UNDAMPED

    @property
    def body_count(self) -> int:
        """The number of bodies, from the parameters alone."""
        return cast(Any, self).count  # a parameter of most

    def damped(self, form: SpheresLagrangian) -> SpheresLagrangian:
        """A conservative form with the friction, if there is any."""
        return with_force(form, friction, cast(Each, self.damping)) if self.has_force else form

    def quantities_without(self, momentum: str) -> tuple[Quantity, ...]:
        """`quantities_of_spheres`, with the momenta `momentum` if nothing is damped."""
        damped = self.has_force and any(cast(Each, self.damping))
        form = cast(SpheresLagrangian, self.form)
        return quantities_of_spheres(form, self.units, "" if damped else momentum)


def quantities_of_spheres(
    form: SpheresLagrangian, units: Mapping[str, str], momentum: str
) -> tuple[Quantity, ...]:
    """Energy, unit length, tangency and momenta of a `SpheresLagrangian`.

    With a force the energy balance E − W is the invariant, and energy and work are observables. If
    the potential depends on time, nothing of these is invariant.

    Parameters
    ----------
    form : SpheresLagrangian
    units : dict
        Of ``energy``, ``momentum`` and ``time``.
    momentum : str
        The axes about which angular momentum is conserved: ``"xyz"``, one of them or ``""``.

    Returns
    -------
    tuple of Quantity
    """
    per_time = "1" if units["time"] == "1" else f"rad {units['time']}-1"
    of_energy, invariant = units["energy"], "observable" if form.time_dependent else "energy"
    if form.forced:
        balance = "energy less the work of the forces"
        energies = [
            Quantity("energy", "observable", of_energy, "total energy", form.energy),
            Quantity("work", "observable", of_energy, "work of the forces since time 0", work_done),
            Quantity("energy_balance", invariant, of_energy, balance, form.energy_balance),
        ]
    else:
        energies = [Quantity("energy", invariant, of_energy, "total energy", form.energy)]
    result = [
        *energies,
        Quantity("unit_length", "constraint", "1", "max |q·q − 1| over bodies", unit_length_error),
        Quantity("tangency", "constraint", per_time, "max |q·ω| over bodies", tangency_error),
        Quantity(
            "conjugate_momentum", "observable", units["momentum"],
            "momentum p conjugate to each q, orthogonal to it", form.conjugate_momentum,
            each_row=True,
        ),
    ]  # fmt: skip
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


def axes_along(vectors: ArrayLike) -> str:
    """The axes to which all of `vectors`, shape (k, 3), are parallel: ``"xyz"`` for none at all."""
    vectors = np.reshape(np.asarray(vectors, dtype=float), (-1, 3))
    return "".join(
        name for c, name in enumerate("xyz") if not np.any(np.delete(vectors, c, axis=1))
    )


ASIDE = np.array([0.53, 0.31, 0.78])  # |ASIDE| < 1; along no axis of symmetry


def _any_points_coincide(points: np.ndarray) -> bool:
    """Whether any two of many points coincide: those are neighbours along every direction."""
    along = points @ ASIDE
    order = np.argsort(along)
    sorted_points, along = points[order], along[order]
    for k in range(1, len(points)):
        near = np.flatnonzero(along[k:] - along[:-k] <= ON_MANIFOLD)
        if not near.size:
            return False
        apart = np.linalg.norm(sorted_points[near + k] - sorted_points[near], axis=1)
        if np.any(apart <= ON_MANIFOLD):
            return True
    return False


def check_distinct(
    q: np.ndarray,
    antipodal: bool = False,
    bodies: str = "bodies",
    singular: str = "the potential",
    key: str = "q",
) -> None:
    """Refuse bodies that coincide or, if asked, are antipodal.

    Parameters
    ----------
    q : ndarray, shape (n, 3)
    antipodal : bool
    bodies, singular, key : str
        What they are, what is singular where they meet, and the message's key.

    Raises
    ------
    InputError
        Naming the first pair.
    """
    for what, sign in (("coincide", 1.0), ("are antipodal", -1.0))[: 1 + antipodal]:
        if not _any_points_coincide(q if sign > 0 else np.concatenate([q, -q])):
            continue
        for i in range(1, len(q)):
            apart = np.linalg.norm(q[:i] - sign * q[i], axis=1)
            if apart.min() <= ON_MANIFOLD:
                raise InputError(
                    f"{bodies} {apart.argmin()} and {i} {what}, where {singular} is singular",
                    key=key,
                )
