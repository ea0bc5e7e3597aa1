"""Initial conditions: what a study names, and the states that it stands for."""

import dataclasses

import numpy as np

from integrators.errors import InputError


@dataclasses.dataclass(frozen=True)
class NamedStart:
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

    ensemble = ""
    size = 1

    @property
    def labels(self):
        """One label for each state."""
        return (self.label,)

    def states(self, system):
        """States of `system`, shape ``(1, rows, 3)``; InputError for an unknown name."""
        return system.start(self.name)[np.newaxis]

    def check(self, system):
        """Raise InputError unless `system` has this start."""
        self.states(system)


@dataclasses.dataclass(frozen=True)
class GivenStart:
    """A state that the study spells out.

    Parameters
    ----------
    q, omega : tuple of (float, float, float)
        Directions and angular velocities, one for each body.
    normalize : bool
        Whether to project the state onto the manifold, instead of refusing one that is off it.
    label, where : str
        As in `NamedStart`.
    """

    q: tuple
    omega: tuple
    normalize: bool
    label: str
    where: str = dataclasses.field(default="", compare=False)

    ensemble = ""
    size = 1

    @property
    def labels(self):
        """One label for each state."""
        return (self.label,)

    def states(self, system):
        """The state, shape ``(1, rows, 3)``; InputError where it is none of `system`."""
        bodies = system.bodies
        for key, vectors in (("q", self.q), ("omega", self.omega)):
            if len(vectors) != bodies:
                raise InputError(
                    f"expected {bodies} vectors, one for each body, got {len(vectors)}", key=key
                )
        state = system.form.completed(self.q + self.omega)
        if self.normalize:
            with np.errstate(invalid="ignore"):  # q = 0 has no direction: refused below
                state = system.normalized(state)
        system.check_state(state)
        return state[np.newaxis]

    def check(self, system):
        """Raise InputError unless this is a state of `system`."""
        self.states(system)


@dataclasses.dataclass(frozen=True)
class RandomStarts:
    """An ensemble of random states; each is drawn from the seed and its number alone.

    Parameters
    ----------
    members : int
    seed : int
    around : str or None
        A named start, or None for states anywhere.
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
    around: str | None
    spread: float | None
    label: str
    where: str = dataclasses.field(default="", compare=False)

    def __post_init__(self):
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
    def ensemble(self):
        """Label of the ensemble."""
        return self.label

    @property
    def size(self):
        """Number of states."""
        return self.members

    @property
    def labels(self):
        """One label for each member."""
        return tuple(f"{self.label}[{member}]" for member in range(self.members))

    def states(self, system):
        """The members, shape ``(members, rows, 3)``; InputError for an unknown `around`."""
        return system.ensemble(self.members, self.seed, around=self.around, spread=self.spread)

    def check(self, system):
        """Raise InputError unless `system` can draw a member."""
        dataclasses.replace(self, members=1).states(system)
