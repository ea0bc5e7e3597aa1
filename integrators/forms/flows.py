"""Forms that a method steps directly: a vector field, exact flows, a flow along an action."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from integrators.compiler.kernels import Kernel, whole_state
from integrators.compiler.vectors import dot, get
from integrators.compiler.views import rows_of, tail
from integrators.errors import InputError
from integrators.lie_groups.actions import Action
from integrators.precision import to_numbers


class Form(Protocol):
    """A form: rows of a state, and a vector field."""

    @property
    def rows(self) -> int:
        """Rows of the state."""

    def vector_field(self, formulation: str = "q_omega") -> "VectorField":
        """The equations of motion in the embedding space."""


class AlongAction(Form, Protocol):
    """A form that moves along an action."""

    def homogeneous_flow(self) -> "HomogeneousFlow":
        """The same motion along the action."""


class FormOfStates(Form, Protocol):
    """The form of a system: it completes states by the rows that users may leave out."""

    @property
    def parameters(self) -> np.ndarray:
        """The parameters as the form was given them."""

    @property
    def forced(self) -> bool:
        """Whether a force acts whose work is the last row of a state."""

    @property
    def packed(self) -> np.ndarray:
        """The parameters as kernels read them."""

    def completed(self, state: ArrayLike) -> np.ndarray:
        """A state as an array, with its row for the work."""


class HasForm(Protocol):
    """A system: anything with a form."""

    @property
    def form(self) -> Form:
        """The form, with compiled functions and numbers."""


SystemOrForm = HasForm | Form

ON_MANIFOLD = 1e-9  # how far a given state may be off the manifold


@dataclass(frozen=True)
class VectorField:
    """ẏ = f(t, y) in the embedding space, with what a method needs besides f.

    Parameters
    ----------
    field : Kernel
        ``field(t, y, p, out, work)`` writes f, of the state's shape ``(rows, 3)``.
    monitor : Kernel
        Writes the quantities whose statistics are kept at every step, ``out[0, :2]``.
    projections : mapping of str to Kernel
        Projections to the manifold by the name of the modifier; each projects ``y`` in place, with
        the compensation ``out`` of its sums.
    parameters : ndarray, shape (k,)
        The parameters that `field` and `monitor` read.
    rows : int
        Rows of the state.
    formulation : str
        Variables of the state: ``q_omega`` (q, ω) or ``q_qdot`` (q, q̇) of a Lagrangian, else
        ``state``.
    """

    field: Kernel
    monitor: Kernel
    projections: Mapping[str, Kernel]
    parameters: np.ndarray
    rows: int
    formulation: str = "state"

    def vector_field(self, formulation: str = "q_omega") -> "VectorField":
        """Itself: every form has a vector field."""
        return self


@dataclass(frozen=True)
class SplitFlow:
    """Exact flows of the pieces that a Hamiltonian is the sum of.

    Parameters
    ----------
    flow : Kernel
        ``flow(piece, t, h, w, low, p)`` moves the state w + low, both of shape (n, 3), by the
        exact flow of a piece for a time h from t on: it reads the sum, by `vectors.summed`, and
        adds what the state gains to `low` alone, by `vectors.accumulate`. `low` is a running
        change, which the method folds into `w` now and then. Signature `kernels.split_flow`;
        `p` are the system's own parameters.
    pieces : int
        Their number. Where H depends on time, only the last piece does.
    varying : tuple of int
        The rows of the state whose lengths change. The method leads all others back to theirs.
    """

    flow: Kernel
    pieces: int
    varying: tuple[int, ...] = ()


@dataclass(frozen=True)
class ExactFlow:
    """The exact flow of a Hamiltonian that does not depend on time, in closed form.

    Parameters
    ----------
    flow : Kernel
        ``flow(0, t, h, w, low, p)``, as that of the only piece of a `SplitFlow`.
    """

    flow: Kernel


@dataclass(frozen=True)
class HomogeneousFlow:
    """ẏ = ψ_*(f(t, y)) at y: the state moves along the action of a Lie group.

    Parameters
    ----------
    generator : Kernel
        ``generator(t, y, p, out, work)`` writes f, an element of the algebra, to the
        ``action.algebra_rows`` rows of `out`.
    action : Action
    energy : Kernel
        ``energy(t, y, p, out, work)`` writes to ``out[0, 0]`` what the statistics follow: the
        energy or, where a force acts, the energy less its work.
    parameters : ndarray, shape (k,)
        The parameters that `generator` and `energy` read.
    unit_rows : tuple of int
        The rows of the state that are unit vectors.
    forced : bool
        Whether a non-conservative force acts. Then the last row of the state is the work that it
        has done, as (W, 0, 0), and the last factor of the action a `TRANSLATION`.
    monitor : Kernel, optional
        The quantities whose statistics are kept, as in `VectorField`; made from `energy` and
        `unit_rows` unless given.
    formulation : str
        Variables of the state, as in `VectorField`, or ``q_pi`` (q, π).
    conversions : tuple of Kernel
        Where states are stored in another formulation: the kernel from that formulation to this
        one, and its inverse, which write all rows of a state. Signature `kernels.whole_state`.
    split : SplitFlow, optional
        The flow of a sum with the same motion, where it is Hamiltonian.

    Raises
    ------
    InputError
        If the action or a function is none, or a row of unit vectors is none of the state's.

    Notes
    -----
    Celledoni, Çokaj, Leone, Murari and Owren, *Lie group integrators for mechanical systems*,
    (2)–(3).

    Examples
    --------
    A body that tumbles and falls: R with the body's own Ω from the right, Ω, place and velocity. A
    kernel fills all rows of `out`, and uses plain arithmetic, `vectors` and `lanes` alone.

    >>> import numpy as np, integrators
    >>> from integrators.lie_groups.actions import product
    >>> from integrators.lie_groups.factors import RIGHT_ROTATION, TRANSLATION
    >>> from integrators.forms.flows import HomogeneousFlow
    >>> from integrators.compiler.kernels import kernel
    >>> @kernel()
    ... def generator(t, y, p, out, work):
    ...     for c in range(3):
    ...         out[0, c] = y[3, c]  # Ṙ = R Ω̂
    ...         out[1, c] = p[c] * y[3, (c + 1) % 3] * y[3, (c + 2) % 3]  # Euler's equations
    ...         out[2, c] = y[5, c]
    ...         out[3, c] = p[3 + c]
    >>> @kernel()
    ... def energy(t, y, p, out, work):
    ...     out[0, 0] = 0.5 * (y[5, 0] * y[5, 0] + y[5, 1] * y[5, 1] + y[5, 2] * y[5, 2])
    ...     out[0, 0] = out[0, 0] - (p[3] * y[4, 0] + p[4] * y[4, 1] + p[5] * y[4, 2])
    >>> inertia, fall = np.array([1.0, 2.0, 2.5]), [0.0, 0.0, -9.81]
    >>> ratios = (np.roll(inertia, -1) - np.roll(inertia, -2)) / inertia
    >>> action = product(RIGHT_ROTATION, TRANSLATION, TRANSLATION, TRANSLATION)
    >>> body = HomogeneousFlow(generator, action, energy, np.array([*ratios, *fall]))
    >>> start = np.vstack([np.eye(3), [0.3, -0.2, 0.5], np.zeros(3), [1.0, 0.0, 5.0]])
    >>> run = integrators.integrate(
    ...     body, integrators.get("rkmk4"), start, step_size=0.01, duration=1.0, samples=10
    ... )
    >>> run.states.shape
    (11, 6, 3)
    """

    generator: Kernel
    action: Action
    energy: Kernel
    parameters: np.ndarray = field(default_factory=lambda: np.zeros(0))
    unit_rows: tuple[int, ...] = ()
    forced: bool = False
    monitor: Kernel = cast(Kernel, None)  # of the energy and the lengths
    formulation: str = "state"
    conversions: tuple[Kernel, ...] = ()
    split: SplitFlow | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.action, Action):
            raise InputError(
                f"action is {self.action!r}; expected one that product, spheres or tangent_spheres "
                "of integrators.lie_groups.actions gives",
                key="action",
            )
        for name in ("generator", "energy"):
            given = getattr(self, name)
            if not isinstance(given, Kernel) or given.signature is not whole_state:
                raise InputError(
                    f"{name} is {given!r}; expected a function decorated by @kernel()", key=name
                )
        wrong = [row for row in self.unit_rows if not 0 <= row < self.action.rows]
        if wrong:
            raise InputError(
                f"unit_rows has {wrong[0]}, and the action {self.action.name} moves "
                f"{self.action.rows} rows, from 0 on"
            )
        if self.monitor is None:
            object.__setattr__(self, "monitor", _monitor_kernel(self.energy, tuple(self.unit_rows)))

    @property
    def yields(self) -> tuple[type, ...]:
        """The other forms that derive from this one."""
        return (VectorField, SplitFlow) if self.split else (VectorField,)

    @property
    def rows(self) -> int:
        """Rows of the state: as many as the action moves."""
        return self.action.rows

    @property
    def packed(self) -> np.ndarray:
        """The parameters as kernels read them."""
        return to_numbers(self.parameters)

    def completed(self, state: ArrayLike) -> np.ndarray:
        """A state with its row for the work, which is 0 where that is left out."""
        return append_work_row(state, self.rows) if self.forced else to_numbers(state)

    def check_state(self, state: np.ndarray) -> None:
        """Raise `InputError` unless rotations are orthogonal and unit vectors of length 1."""
        for row in self.action.rotations:
            _check_rotation(row, state[row : row + 3])
        for row in {*self.unit_rows, *self.action.unit_rows}:
            off = abs(np.dot(state[row], state[row]) - 1.0)
            if off > ON_MANIFOLD:
                raise InputError(
                    f"row {row} of the state is no unit vector: |q·q − 1| = {off:.3g}; expected "
                    f"at most {ON_MANIFOLD:g}",
                    key="state",
                )

    def homogeneous_flow(self) -> "HomogeneousFlow":
        """Itself."""
        return self

    def vector_field(self, formulation: str = "q_omega") -> VectorField:
        """ψ_*(f) in the embedding space; there is one formulation."""
        return VectorField(
            field=_vector_field_kernel(
                self.generator, self.action.velocity, self.action.algebra_rows
            ),
            monitor=self.monitor,
            projections={},
            parameters=self.packed,
            rows=self.rows,
            formulation=self.formulation,
        )


def _check_rotation(row: int, matrix: np.ndarray) -> None:
    off = np.linalg.norm(matrix.T @ matrix - np.eye(3))
    where = f"rows {row} to {row + 2} of the state"
    if off > ON_MANIFOLD:
        raise InputError(
            f"{where} are no rotation: ‖RᵀR − 1‖ = {off:.3g}; expected at most {ON_MANIFOLD:g}. "
            "The nearest rotation is U Vᵀ of its singular value decomposition U S Vᵀ",
            key="state",
        )
    if np.linalg.det(matrix) < 0:
        raise InputError(f"{where} are a reflection, of determinant −1", key="state")


def append_work_row(state: ArrayLike, rows: int) -> np.ndarray:
    """Append a row of zeros, for the work of a force, to a state that lacks this last of its rows.

    Parameters
    ----------
    state : array_like, shape (…, rows − 1, 3) or (…, rows, 3)
    rows : int

    Returns
    -------
    ndarray, shape (…, rows, 3)
    """
    state = to_numbers(state)
    if state.ndim < 2 or state.shape[-2:] != (rows - 1, 3):
        return state
    return np.concatenate([state, np.zeros_like(state[..., :1, :])], axis=-2)


@functools.cache
def _vector_field_kernel(generator: Kernel, velocity: Kernel, algebra_rows: int) -> Kernel:
    generator_of, velocity_of = generator.inline, velocity.inline
    m = algebra_rows

    def field(t, y, p, out, work):
        generator_of(t, y, p, rows_of(work, 0, m), tail(work, 3 * m))
        velocity_of(t, y, p, out, work)

    made_from = (generator, velocity, algebra_rows)
    return Kernel(field, whole_state, made_from, lambda rows: 3 * m + generator.work(rows))


@functools.cache
def _monitor_kernel(energy: Kernel, unit_rows: tuple[int, ...]) -> Kernel:
    energy_of, count = energy.inline, len(unit_rows)
    rows = unit_rows or (0,)

    def monitor(t, y, p, out, work):
        energy_of(t, y, p, out, work)
        total = 0.0 * y[0, 0]  # of the state's element type
        if count > 0:
            for i in rows:
                total = total + abs(dot(get(y, i), get(y, i)) - 1.0)
            total = total / count
        out[0, 1] = total

    return Kernel(monitor, whole_state, (energy, unit_rows), energy.work)
