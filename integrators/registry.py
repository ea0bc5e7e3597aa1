"""All integrators, by name."""

from collections.abc import Mapping, Sequence
from typing import Any

from integrators.bibliography import PROJECTIONS
from integrators.method import Integrator, Method, method_and_modifier
from integrators.methods import dormand_prince
from integrators.methods.commutator_free import COMMUTATOR_FREE_METHODS
from integrators.methods.commutator_free_pairs import COMMUTATOR_FREE_PAIRS
from integrators.methods.exact import METHOD as EXACT
from integrators.methods.external.heyoka_taylor import METHOD as HEYOKA_TAYLOR
from integrators.methods.external.scipy_solvers import SCIPY_SOLVERS
from integrators.methods.hopf_lifts import COLLECTIVE_METHODS, RATTLE_SU2
from integrators.methods.midpoints import ALL_MIDPOINTS
from integrators.methods.munthe_kaas import RKMK_METHODS
from integrators.methods.munthe_kaas_pairs import RKMK, RKMK54
from integrators.methods.ode45 import RK45
from integrators.methods.runge_kutta import RK2_HEUN, RK2_MIDPOINT, RK4, RK9
from integrators.methods.splitting import SPLITTING
from integrators.methods.symplectic_lie_group import SYMPLECTIC_LIE_GROUP
from integrators.methods.variational import VARIATIONAL

DOP853 = dormand_prince.METHOD
ALL_INTEGRATORS = (
    VARIATIONAL,
    *ALL_MIDPOINTS,
    *COLLECTIVE_METHODS,
    RATTLE_SU2,
    SPLITTING,
    EXACT,
    *RKMK_METHODS,
    RKMK54,
    RKMK,
    *COMMUTATOR_FREE_METHODS,
    SYMPLECTIC_LIE_GROUP,
    *COMMUTATOR_FREE_PAIRS,
    RK2_MIDPOINT,
    RK2_HEUN,
    RK4,
    RK9,
    RK45,
    DOP853,
    *SCIPY_SOLVERS,
    HEYOKA_TAYLOR,
)


def get(name: str, **options: Any) -> Integrator:
    """The integrator of a name such as ``variational+suzuki4`` or ``rk4+projected``.

    Parameters
    ----------
    name : str
        A method of `ALL_INTEGRATORS`, and a composition, a projection or, of an adaptive Lie group
        method, ``fixed`` after ``+``.
    **options
        Options of the method; see ``sweep show integrator NAME``. With a fixed step also
        ``steps_of``: ``get("rkmk5", steps_of="rkmk54")`` takes a tolerance and as many equal steps
        over the duration as the adaptive integrator of that name takes at it. ``rkmk`` is made of
        its option ``tableau``, a `butcher.Tableau` or a dict of what that takes.

    Returns
    -------
    Integrator

    Raises
    ------
    InputError
        For an unknown name, modifier or option, with the nearest valid one.
    """
    return made(name, options)


def made(name: str, options: Mapping[str, Any], also: Sequence[Method] = ()) -> Integrator:
    """The integrator of a name and a dict of options; see `get`.

    Parameters
    ----------
    name : str
    options : dict of str to object
    also : sequence of Method, optional
        Methods that it may be besides those of `ALL_INTEGRATORS`.

    Returns
    -------
    Integrator

    Raises
    ------
    InputError
        For an unknown name, modifier or option, as `get`.
    """
    return Integrator.of(name, options, (*ALL_INTEGRATORS, *also))


def named(name: str, also: Sequence[Method] = ()) -> tuple[Method, str]:
    """The method and the modifier that a name has.

    Parameters
    ----------
    name : str
        Name of an integrator, as in `get`.
    also : sequence of Method, optional
        Methods that it may be besides those of `ALL_INTEGRATORS`.

    Returns
    -------
    method : Method
    modifier : str
        The part of the name after ``+``, or empty.

    Raises
    ------
    InputError
        For an unknown name or modifier, with the nearest valid one.
    """
    return method_and_modifier(name, (*ALL_INTEGRATORS, *also))


def sources(name: str, also: Sequence[Method] = ()) -> dict[str, tuple[str, ...]]:
    """The works that an integrator is from: its method, and its composition or projection.

    Parameters
    ----------
    name : str
        Name of an integrator, as in `get`.
    also : sequence of Method, optional
        Methods that it may be besides those of `ALL_INTEGRATORS`.

    Returns
    -------
    dict of str to tuple of str
        Sources of the method and, where it has any, of the modifier, by their names; as in
        `Method.sources`.
    """
    method, modifier = named(name, also)
    found = {method.name: method.sources}
    if modifier in method.compositions:
        found[modifier] = method.compositions[modifier].sources
    elif modifier in method.projections:
        found[modifier] = PROJECTIONS
    return found


def names(also: Sequence[Method] = ()) -> list[str]:
    """All names that are enough to `get` an integrator, with modifiers.

    Parameters
    ----------
    also : sequence of Method, optional
        Methods besides those of `ALL_INTEGRATORS`.

    Returns
    -------
    list of str
    """
    return [
        name
        for method in (*ALL_INTEGRATORS, *also)
        if method.made_of is None
        for name in (method.name, *(f"{method.name}+{m}" for m in method.modifiers))
    ]
