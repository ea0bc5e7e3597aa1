"""Mechanical systems, spin systems on spheres and rigid bodies, each a file of physics.

>>> import systems
>>> systems.get("spherical_pendulum_chain", count=3, gravity=9.81).bodies
3
"""

from integrators.errors import InputError, check_known
from systems.base import Quantity, System
from systems.mechanical.elastic_rod import ElasticRod
from systems.mechanical.forced_chain import ForcedPendulumChain
from systems.mechanical.lennard_jones import LennardJonesSphere
from systems.mechanical.magnetic_dipoles import MagneticDipoles
from systems.mechanical.nbody import NBodySphere
from systems.mechanical.pendulum_chain import SphericalPendulumChain
from systems.mechanical.spring_pendula import SpringPendula
from systems.observables import Observable
from systems.rigid.heavy_top import HeavyTop
from systems.rigid.quadrotor_payload import QuadrotorPayload
from systems.spins.forced_rigid_body import ForcedRigidBody
from systems.spins.free_rigid_body import FreeRigidBody
from systems.spins.heisenberg_chain import HeisenbergChain
from systems.spins.irreversible_rigid_body import IrreversibleRigidBody
from systems.spins.nambu_lagrange import NambuLagrange
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
    NambuLagrange,
    HeavyTop,
    QuadrotorPayload,
)

__all__ = [
    "ALL_SYSTEMS",
    "InputError",
    "Observable",
    "Quantity",
    "System",
    "get",
    "made",
    "named",
    "names",
]


def get(name, **parameters):
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


def made(system, parameters):
    """The system of a class with a dict of parameters, or `InputError`; see `get`."""
    for key in parameters:
        check_known(f"parameter of {system.name}", key, system.parameter_names(), key=key)
    return system(**parameters)


def named(name, also=()):
    """The class of a system of `ALL_SYSTEMS` or of `also`, or `InputError`."""
    systems = {system.name: system for system in (*ALL_SYSTEMS, *also)}
    check_known("system", name, systems)
    return systems[name]


def names():
    """All names."""
    return [system.name for system in ALL_SYSTEMS]
