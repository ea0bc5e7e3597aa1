"""Systems whose states are lists of parts: rotations, directions, their tangents, vectors.

A part of kind ``rotation`` is three rows of a state, an orthogonal matrix of determinant 1 row by
row; one of kind ``direction`` is a unit vector, ``tangent`` a vector that is orthogonal to the
direction before it, and ``vector`` any vector, one row each. A subclass names its parts, and has
the rest from them: how a study spells a state, random states, what is refused, the errors against a
reference and the constraints.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from integrators.errors import InputError, check_known
from integrators.precision import to_numbers
from systems import ensembles
from systems.base import Quantity, StateError, System
from systems.checking import IN_STUDIES, ON_MANIFOLD
from systems.rigid import rotation_matrices
from systems.rigid.constraints import orthogonality_kernel, tangency_kernel, unit_length_kernel

KINDS = ("vector", "rotation", "direction", "tangent")
ERRORS = {  # of kinds that have a name of their own
    "rotation": "attitude_error",
    "direction": "direction_error",
    "tangent": "angular_velocity_error",
}


@dataclass(frozen=True)
class Part:
    """A part of a state.

    Parameters
    ----------
    key : str
        Key of the part in a study, and label of its rows.
    kind : {"vector", "rotation", "direction", "tangent"}
    body : int
        Body to which it belongs, counted from 0.
    error : str
        The error against a reference that it counts in; parts that share one have one unit. Unless
        given ``attitude_error``, ``direction_error`` or ``angular_velocity_error``, by its kind;
        of a vector its key and ``_error``.
    units : str
    size : float
        Standard deviation of each component of a random vector or tangent.
    axis : tuple of float
        For a rotation: the unit vector in the body that takes the directions of a lattice.
    turns : bool
        For a vector: whether it is rotated with the attitude of the body, like one in space.

    Raises
    ------
    InputError
        For an unknown kind.
    """

    key: str
    kind: str
    body: int = 0
    error: str = ""
    units: str = "1"
    size: float = 1.0
    axis: tuple[float, ...] = (0.0, 0.0, 1.0)
    turns: bool = False

    def __post_init__(self) -> None:
        check_known("kind of a part", self.kind, KINDS, key="kind")
        if not self.error:
            object.__setattr__(self, "error", ERRORS.get(self.kind, f"{self.key}_error"))

    @property
    def rows(self) -> int:
        """Rows of a state that it takes."""
        return 3 if self.kind == "rotation" else 1

    @property
    def labels(self) -> list[str]:
        """What each of its rows is."""
        if self.kind == "rotation":
            return [f"{self.key}_{row}" for row in "xyz"]
        return [self.key]


class RigidSystem(System):
    """A system whose states are composed of parts: vectors, directions and rotations.

    A subclass has `parts` besides what `System` asks for. Where its form is forced, a state has
    one more row, (W, 0, 0): the work that the forces have done.
    """

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The parts of a state in the order of its rows, from `checked_parts`."""

    @property
    def state_keys(self) -> tuple[str, ...]:
        """The names of the parts."""
        return tuple(part.key for part in self.parts)

    @property
    def state_rows(self) -> dict[str, int]:
        """How many rows each part has."""
        return {part.key: part.rows for part in self.parts}

    @property
    def bodies(self) -> int:
        """The number of bodies."""
        return 1 + max(part.body for part in self.parts)

    @property
    def row_labels(self) -> list[str]:
        """What each row of a state is."""
        labels = [label for part in self.parts for label in part.labels]
        return labels + ["work"] * self.form.forced

    @property
    def state_text(self) -> str:
        """What a state is."""
        words = [
            f"the rows of {part.key}" if part.kind == "rotation" else part.key
            for part in self.parts
        ]
        return ", ".join(words) + ", the work done" * self.form.forced

    @property
    def rows_in_words(self) -> str:
        """What the rows of a state are, for messages."""
        words = ", then ".join(
            f"{part.rows} row{'s' * (part.rows > 1)} of {part.key}" for part in self.parts
        )
        return words + ", then (work, 0, 0)" * self.form.forced

    def check_vectors(self, key: str, vectors: Any) -> None:
        """Raise `InputError` unless a part is given by as many vectors as it has rows."""
        rows = self.state_rows[key]
        if len(vectors) != rows:
            what = "the 3 rows of a rotation matrix" if rows == 3 else "one vector"
            raise InputError(f"expected {what}, got {len(vectors)} vectors", key=key)

    @property
    def state_errors(self) -> tuple[StateError, ...]:
        """Errors against a reference, of parts that are alike; the work is in none."""
        groups: dict[str, list[Part]] = {}
        for part in self.parts:
            groups.setdefault(part.error, []).append(part)
        return tuple(self._state_error(name, parts) for name, parts in groups.items())

    def _state_error(self, name: str, parts: Sequence[Part]) -> StateError:
        rows = [row for part in parts for row in range(*self._row_range(part))]
        norm = "Frobenius" if parts[0].kind == "rotation" else "Euclidean"
        keys = ", ".join(part.key for part in parts)
        return StateError(name, tuple(rows), parts[0].units, f"{norm} norm of the error of {keys}")

    def _row_range(self, part: Part) -> tuple[int, int]:
        """First row of a part, and the one after its last."""
        first = sum(other.rows for other in self.parts[: self.parts.index(part)])
        return first, first + part.rows

    def of(self, state: np.ndarray, key: str) -> np.ndarray:
        """The rows of one part of a state, shape (3, 3) of a rotation, (3,) of another.

        Raises
        ------
        InputError
            If there is no such part.
        """
        check_known("part of a state", key, self.state_keys, where=f"of {self.name}")
        part = next(part for part in self.parts if part.key == key)
        rows = to_numbers(state)[slice(*self._row_range(part))]
        return rows if part.kind == "rotation" else rows[0]

    def _split_parts(self, state: np.ndarray) -> dict[str, np.ndarray]:
        """The parts of a state by their keys, as new arrays, without the work."""
        return {part.key: np.array(self.of(state, part.key)) for part in self.parts}

    def _stack_parts(self, values: dict[str, np.ndarray]) -> np.ndarray:
        return np.concatenate([np.reshape(values[part.key], (-1, 3)) for part in self.parts])

    # --- the manifold ----------------------------------------------------------------------------

    def normalized(self, state: np.ndarray) -> np.ndarray:
        """`state` brought to the manifold: nearest rotations, unit directions, then tangents."""
        state = self.form.completed(state)
        values = self._project_parts(self._split_parts(state))
        moved = self._stack_parts(values)
        return np.concatenate([moved, state[len(moved) :]])

    def _project_parts(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        direction = None
        for part in self.parts:
            value = values[part.key]
            if part.kind == "rotation":
                values[part.key] = rotation_matrices.nearest(value, part.key)
            elif part.kind == "direction":
                _check_direction(part, value)
                for _ in range(2):  # the second pass removes the first one's rounding
                    value = value / np.linalg.norm(value)
                direction = values[part.key] = value
            elif part.kind == "tangent":
                for _ in range(2):
                    value = value - (value @ direction) * direction
                values[part.key] = value
        return values

    def _check_manifold(self, state: np.ndarray) -> None:
        direction = None
        for part in self.parts:
            value = self.of(state, part.key)
            if part.kind == "rotation":
                _check_rotation(part, value)
            elif part.kind == "direction":
                _check_direction(part, value)
                _check_near(part, abs(value @ value - 1.0), f"|{part.key}·{part.key} − 1|")
                before, direction = part.key, value
            elif part.kind == "tangent":
                _check_near(part, abs(value @ direction), f"|{before}·{part.key}|")
        if self.form.forced and np.any(state[-1, 1:]):
            raise InputError(f"the last row is {state[-1]}; expected (work, 0, 0)")

    # --- random and turned states ----------------------------------------------------------------

    def _draw_states(self, seed: int, members: Sequence[int]) -> np.ndarray:
        drawn = [self._draw_member(seed, member) for member in members]
        return np.reshape(drawn, (len(members), -1, 3)) if drawn else np.empty((0, self.rows, 3))

    def _draw_states_near(
        self, centre: np.ndarray, spread: float, seed: int, members: Sequence[int]
    ) -> np.ndarray:
        drawn = [self._draw_member_near(centre, spread, seed, member) for member in members]
        return np.reshape(drawn, (len(members), -1, 3)) if drawn else np.empty((0, self.rows, 3))

    def _draw_member(self, seed: int, member: int) -> np.ndarray:
        """Rotations and directions uniform, the others Gaussian of the size of the part."""
        generator, values = ensembles.generator(seed, member), {}
        for part in self.parts:
            if part.kind == "rotation":
                values[part.key] = rotation_matrices.uniform(generator)
            else:
                size = 1.0 if part.kind == "direction" else part.size
                values[part.key] = size * generator.standard_normal(3)
        return self._stack_parts(self._project_parts(values))

    def _draw_member_near(
        self, centre: np.ndarray, spread: float, seed: int, member: int
    ) -> np.ndarray:
        """Rotations and directions turned by angles, the others moved relative to those alike."""
        generator, values = ensembles.generator(seed, member), self._split_parts(centre)
        sizes = self._sizes_by_error(values)
        for part in self.parts:
            kick, value = spread * generator.standard_normal(3), values[part.key]
            if part.kind == "rotation":
                values[part.key] = rotation_matrices.exponential(kick) @ value
            elif part.kind == "direction":
                values[part.key] = ensembles.geodesic(value, kick - (kick @ value) * value)
            else:
                values[part.key] = value + sizes[part.error] * kick
        return self._stack_parts(self._project_parts(values))

    def _sizes_by_error(self, values: dict[str, np.ndarray]) -> dict[str, float]:
        """Root mean square length of vectors that are alike, by their error; 1 where all are 0."""
        squares: dict[str, list[float]] = {}
        for part in self.parts:
            if part.kind in ("vector", "tangent"):
                squares.setdefault(part.error, []).append(np.sum(values[part.key] ** 2))
        return {error: np.sqrt(np.mean(found)) or 1.0 for error, found in squares.items()}

    def _turn_body(self, state: np.ndarray, body: int, direction: np.ndarray) -> np.ndarray:
        values = self._split_parts(state)
        own = [part for part in self.parts if part.body == body]
        for kind in ("direction", "rotation"):
            found = [part for part in own if part.kind == kind]
            if found:
                part, value = found[0], values[found[0].key]
                start = value if kind == "direction" else value @ np.array(part.axis)
                turn = rotation_matrices.shortest(start / np.linalg.norm(start), direction)
                carried = [p for p in own if p.turns or (p.kind, kind) == ("tangent", "direction")]
                for other in carried:
                    values[other.key] = turn @ values[other.key]
                values[part.key] = direction if kind == "direction" else turn @ value
                return self._stack_parts(self._project_parts(values))
        raise InputError(f"body {body} of {self.name} has no direction to turn", key="lattice")

    # --- constraints -----------------------------------------------------------------------------

    @property
    def unit_rows(self) -> tuple[int, ...]:
        """The rows that are unit vectors, for a `HomogeneousFlow`."""
        return tuple(self._row_range(part)[0] for part in self.parts if part.kind == "direction")

    @property
    def constraints(self) -> tuple[Quantity, ...]:
        """The quantities that say how far a state is off the manifold, a tuple of `Quantity`."""
        rotations = tuple(
            self._row_range(part)[0] for part in self.parts if part.kind == "rotation"
        )
        pairs, units = [], "1"
        for before, part in zip(self.parts, self.parts[1:], strict=False):
            if part.kind == "tangent":
                pairs.append((self._row_range(before)[0], self._row_range(part)[0]))
                units = part.units
        found = []
        if rotations:
            words = "max ‖RᵀR − 1‖ over rotations"
            kernel = orthogonality_kernel(rotations)
            found.append(Quantity("orthogonality", "constraint", "1", words, kernel))
        if self.unit_rows:
            words = "max |q·q − 1| over directions"
            kernel = unit_length_kernel(self.unit_rows)
            found.append(Quantity("unit_length", "constraint", "1", words, kernel))
        if pairs:
            kernel = tangency_kernel(tuple(pairs))
            found.append(
                Quantity("tangency", "constraint", units, "max |q·ω| over directions", kernel)
            )
        return tuple(found)


def _check_rotation(part: Part, matrix: np.ndarray) -> None:
    _check_near(part, rotation_matrices.distance(matrix), f"‖{part.key}ᵀ{part.key} − 1‖")
    rotation_matrices.check_no_reflection(matrix, part.key)


def _check_direction(part: Part, vector: np.ndarray) -> None:
    if not np.any(vector):
        raise InputError(f"{part.key} is the zero vector, which has no direction", key=part.key)


def _check_near(part: Part, error: float, what: str) -> None:
    if error > ON_MANIFOLD:
        kind = "no rotation" if part.kind == "rotation" else "off the manifold"
        raise InputError(
            f"{part.key} is {kind}: {what} = {error:.3g}; expected at most {ON_MANIFOLD:g}. "
            f"{IN_STUDIES}",
            key=part.key,
        )


def checked_parts(*parts: Part) -> tuple[Part, ...]:
    """Parts that make up a state, as a tuple.

    Parameters
    ----------
    *parts : Part

    Returns
    -------
    tuple of Part

    Raises
    ------
    InputError
        If there are none, two share a key, or a tangent follows no direction.
    """
    if not parts:
        raise InputError("a state needs a part, such as Part('Q', 'rotation')")
    keys = [part.key for part in parts]
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"two parts of a state are called {key!r}", key=key)
    kinds = ["", *(part.kind for part in parts)]
    for part, before in zip(parts, kinds, strict=False):
        if part.kind == "tangent" and before != "direction":
            raise InputError(
                f"{part.key} is a tangent and stands behind no direction; expected the part "
                "before it to be one",
                key=part.key,
            )
    return parts
