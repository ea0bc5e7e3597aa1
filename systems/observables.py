"""What a user records besides what systems offer themselves."""

from dataclasses import dataclass

from integrators.compiler.kernels import Kernel, whole_state
from integrators.errors import InputError, check_known
from systems.base import Quantity, System

KINDS = ("observable", "momentum_map", "casimir")


@dataclass(frozen=True, kw_only=True)
class Observable(Quantity):
    """A quantity of systems that were written without it.

    Parameters
    ----------
    name, units, long_name : str
        As in a study's ``record`` and in the store.
    function : Kernel
        ``function(t, y, p, out, work)``, decorated by ``@kernel()``, writes row 0 of `out`. It
        reads the state (q, q̇) of a mechanical system, any other as it is, and the form's own
        ``parameters``: what `p` is for a potential, Hamiltonian or generator.
    systems : tuple of str
        Names of the systems that have this observable.
    forms : tuple of type
        Or forms of the systems that have it, such as ``(SpheresLagrangian,)``.
    kind : {"observable", "momentum_map", "casimir"}
        The last two are invariants: their change is stored as ``NAME_error``.
    components : tuple of str
        Names of the components of a vector; empty for a number.
    columns : tuple of int
        The columns of row 0 that hold the components; by default the first ones.
    degree : {"linear", "quadratic", "other"}
        For an invariant, its degree as a polynomial in the state.
    each_row : bool
        As in `Quantity`: whether `function` writes a vector for each row of the state.

    Raises
    ------
    InputError
        If a value has the wrong type, or no system is named.
    """

    kind: str = "observable"
    columns: tuple[int, ...] = ()
    systems: tuple[str, ...] = ()
    forms: tuple[type, ...] = ()

    def __post_init__(self) -> None:
        for key in ("name", "units", "long_name"):
            if not isinstance(getattr(self, key), str) or not getattr(self, key):
                raise InputError(f"{key} = {getattr(self, key)!r}; expected a text", key=key)
        if not self.name.isidentifier():
            raise InputError(
                f"name = {self.name!r}; expected letters, digits and '_', as of a variable",
                key="name",
            )
        check_known("kind", self.kind, KINDS, key="kind")
        if not isinstance(self.function, Kernel) or self.function.signature is not whole_state:
            raise InputError(
                f"function of {self.name!r} is {self.function!r}; expected a function decorated "
                "by @kernel()",
                key="function",
            )
        self._check_tuple("components", str, 'names, such as ("x", "y", "z")')
        self._check_tuple("systems", str, 'names of systems, such as ("nbody_sphere",)')
        self._check_tuple("forms", type, "forms, such as (SpheresLagrangian,)")
        if not self.systems and not self.forms:
            raise InputError(
                f'{self.name!r} belongs to no system: say systems=("NAME",) or forms=(FORM,)'
            )
        size = max(1, len(self.components))
        if not self.columns:
            object.__setattr__(self, "columns", tuple(range(size)))
        if len(self.columns) != size or not set(self.columns) <= {0, 1, 2}:
            raise InputError(
                f"columns = {self.columns!r} of {self.name!r}; expected {size} of 0, 1 and 2",
                key="columns",
            )

    def _check_tuple(self, key: str, kind: type, expected: str) -> None:
        value = getattr(self, key)
        if not isinstance(value, tuple) or not all(isinstance(item, kind) for item in value):
            raise InputError(
                f"{key} = {value!r} of {self.name!r}; expected a tuple of {expected}", key=key
            )

    def belongs_to(self, system: System) -> bool:
        """Whether `system` has it."""
        return system.name in self.systems or isinstance(system.form, self.forms)
