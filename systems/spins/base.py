"""Systems of spins: states w on a product of two-spheres, or in R³, starts, invariants."""

from collections.abc import Mapping, Sequence

import numpy as np

from integrators.forms.hamiltonians import NambuHamiltonian, SpinHamiltonian
from integrators.forms.spins import nambu_casimir, spin_casimir, total_spin, unit_length_error
from systems import ensembles
from systems.base import ERROR_OF, Quantity, StateError, System
from systems.checking import check_directions, check_unit


class SpinSystem(System):
    """A system whose form is a `SpinHamiltonian` or a `NambuHamiltonian`.

    Its states have shape ``(n, 3)``: w of each spin, a unit vector unless the system's lengths
    are ``"any"``.
    """

    state_keys = ("w",)
    state_text = "w of each spin"

    @property
    def row_labels(self) -> list[str]:
        """What each row of a state is."""
        return [f"w{i}" for i in range(self.bodies)]

    @property
    def state_errors(self) -> tuple[StateError, ...]:
        """The error against a reference."""
        rows = slice(0, self.bodies)
        return (StateError("position_error", rows, "1", ERROR_OF.format("directions")),)

    @property
    def on_spheres(self) -> bool:
        """Whether the spins are unit vectors."""
        return getattr(self.form, "lengths", "any") == "unit"

    def normalized(self, state: np.ndarray) -> np.ndarray:
        """`state` brought to the unit spheres, where the system lives on them."""
        state = self.form.completed(state)
        if not self.on_spheres:
            return state
        check_directions(state, "spin {}", key="w")
        return ensembles.project_to_spheres(state)

    def _draw_states(self, seed: int, members: Sequence[int]) -> np.ndarray:
        return ensembles.draw_spins(self.bodies, seed, members, unit=self.on_spheres)

    def _draw_states_near(
        self, centre: np.ndarray, spread: float, seed: int, members: Sequence[int]
    ) -> np.ndarray:
        return ensembles.draw_spins_near(centre, spread, seed, members, unit=self.on_spheres)

    def _turn_body(self, state: np.ndarray, body: int, direction: np.ndarray) -> np.ndarray:
        moved = np.array(state)
        moved[body] = np.linalg.norm(moved[body]) * direction
        return self.normalized(moved)

    def _check_manifold(self, state: np.ndarray) -> None:
        if self.on_spheres:
            check_directions(state, "spin {}", key="w")
            check_unit(state, "w")


def quantities_of_spins(
    form: SpinHamiltonian, units: Mapping[str, str], total: str = "", energy_degree: str = "other"
) -> tuple[Quantity, ...]:
    """Energy, length and Casimir of a `SpinHamiltonian`, and its conserved spin.

    Parameters
    ----------
    form : SpinHamiltonian
    units : dict
        Of ``energy``, ``momentum`` and ``time``.
    total : str
        The components of Σ κ_i w_i that are conserved: ``"xyz"``, one of them or ``""``.
    energy_degree : {"linear", "quadratic", "other"}
        Of H; ``"quadratic"`` if it is a sum of homogeneous quadratic functions of one spin each,
        which spherical methods keep, and ``"other"`` for products of different spins.

    Returns
    -------
    tuple of Quantity
    """
    kind, text = ("observable", "energy") if form.time_dependent else ("energy", "total energy")
    result = [
        Quantity("energy", kind, units["energy"], text, form.energy, degree=energy_degree),
        Quantity("unit_length", "constraint", "1", "max |w·w − 1| over spins", unit_length_error),
        Quantity("casimir", "casimir", "1", "½ Σ |w|²", spin_casimir, degree="quadratic"),
    ]
    if form.lengths == "any":
        del result[1]
    if total:
        result.append(
            Quantity(
                name="momentum",
                kind="momentum_map",
                units=units["momentum"],
                long_name="total spin Σ κ w" if total == "xyz" else f"component of Σ κ w: {total}",
                function=total_spin,
                components=() if len(total) == 1 else tuple(total),
                columns=tuple("xyz".index(axis) for axis in total),
                degree="linear",
            )
        )
    return tuple(result)


def quantities_of_nambu(
    form: NambuHamiltonian, units: Mapping[str, str], energy_degree: str = "other"
) -> tuple[Quantity, ...]:
    """Energy and Casimir of a `NambuHamiltonian`.

    Parameters
    ----------
    form : NambuHamiltonian
    units : dict
        Of ``energy``.
    energy_degree : {"linear", "quadratic", "other"}
        Of H in w.

    Returns
    -------
    tuple of Quantity
    """
    energy = units["energy"]
    return (
        Quantity("energy", "energy", energy, "Hamiltonian H", form.energy, degree=energy_degree),
        Quantity(
            "casimir", "casimir", "1", "Casimir C = ½ w·Cw", nambu_casimir, degree="quadratic"
        ),
    )
