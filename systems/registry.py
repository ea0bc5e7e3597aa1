"""All systems, by name."""

from collections.abc import Mapping, Sequence
from typing import Any

from integrators.errors import check_known
from systems.base import System
from systems.mechanical.elastic_rod import ElasticRod
from systems.mechanical.forced_chain import ForcedPendulumChain
from systems.mechanical.lennard_jones import LennardJonesSphere
from systems.mechanical.magnetic_dipoles import MagneticDipoles
from systems.mechanical.nbody import NBodySphere
from systems.mechanical.pendulum_chain import SphericalPendulumChain
from systems.mechanical.spring_pendula import SpringPendula
from systems.rigid.heavy_top import HeavyTop
from systems.rigid.quadrotor_payload import QuadrotorPayload
from systems.spins.forced_rigid_body import ForcedRigidBody
from systems.spins.free_rigid_body import FreeRigidBody
from systems.spins.heisenberg_chain import HeisenbergChain
from systems.spins.irreversible_rigid_body import IrreversibleRigidBody
from systems.spins.nambu_quadratic import NambuQuadratic
from systems.spins.point_vortices import PointVortices
from systems.spins.precession import Precession

ALL_SYSTEMS = (
    SphericalPendulumChain,
    NBodySphere,
    SpringPendula,
    ElasticRod,
    MagneticDipoles,
    LennardJonesSphere,
    ForcedPendulumChain,
    FreeRigidBody,
    IrreversibleRigidBody,
    ForcedRigidBody,
    Precession,
    PointVortices,
    HeisenbergChain,
    NambuQuadratic,
    HeavyTop,
    QuadrotorPayload,
)


def get(name: str, **parameters: Any) -> System:
    """The system of a name with its parameters; defaults for those not given.

    Parameters
    ----------
    name : str
    **parameters
        See ``sweep show system NAME``.

    Returns
    -------
    System

    Raises
    ------
    InputError
        For an unknown name or parameter, with the nearest valid one, or a wrong value.
    """
    return made(named(name), parameters)


def made(system: type[System], parameters: Mapping[str, Any]) -> System:
    """The system of a class and a dict of parameters; see `get`.

    Parameters
    ----------
    system : type
        A subclass of `System`.
    parameters : dict of str to object

    Returns
    -------
    System

    Raises
    ------
    InputError
        For an unknown parameter, with the nearest valid one, or a wrong value.
    """
    for key in parameters:
        check_known("parameter", key, system.parameter_names(), key, f"of {system.name}")
    return system(**parameters)


def named(name: str, also: Sequence[type[System]] = ()) -> type[System]:
    """The class of a system.

    Parameters
    ----------
    name : str
    also : sequence of type, optional
        Subclasses of `System` that it may be besides `ALL_SYSTEMS`.

    Returns
    -------
    type

    Raises
    ------
    InputError
        For an unknown name, with the nearest valid one.
    """
    every: tuple[type[System], ...] = (*ALL_SYSTEMS, *also)
    former = {name: system for system in every for name in system.former_names}
    if name in former:
        return former[name]
    systems = {system.name: system for system in every}
    check_known("system", name, systems)
    return systems[name]


def names() -> list[str]:
    """Names of the systems of `ALL_SYSTEMS`.

    Returns
    -------
    list of str
    """
    return [system.name for system in ALL_SYSTEMS]
