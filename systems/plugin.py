"""What plugins import that add systems or observables; `integrators.plugin` has all other names.

The names of these two modules are stable, and the modules that define them are not.

>>> from systems.plugin import MechanicalSystem, Start, quantities_of_spheres, set_checked

- kinds of systems: `MechanicalSystem`, `SpinSystem` and `RigidSystem` with `Part`, or `System`;
- what they have: `Start`, `Family`, `Quantity`, `StateError`, `Convergence`, and the quantities of
  a form;
- built-in Lagrangian systems to derive others from, and `with_force`, by which a force acts on one;
- `python_system`, by which a field and invariants in plain Python are a system;
- what is recorded besides: `Observable`;
- quadrotors to steer yourself: `QuadrotorPayload`, and `CONTROL_VALUES`, where its parameters have
  the numbers of a control of your own;
- checks of parameters: `set_checked`, and what gives it values.
"""

from systems.base import Convergence, Family, Quantity, Start, StateError, System
from systems.checking import (
    check_count,
    number_vector,
    positive_vector,
    set_checked,
    vector_list,
)
from systems.mechanical.base import (
    DampedSystem,
    MechanicalSystem,
    check_distinct,
    quantities_of_spheres,
    with_force,
)
from systems.mechanical.elastic_rod import ElasticRod
from systems.mechanical.lennard_jones import LennardJonesSphere
from systems.mechanical.magnetic_dipoles import MagneticDipoles
from systems.mechanical.nbody import NBodySphere
from systems.mechanical.pendulum_chain import SphericalPendulumChain
from systems.mechanical.spring_pendula import SpringPendula
from systems.observables import Observable
from systems.rigid.base import Part, RigidSystem, checked_parts
from systems.rigid.python_system import python_system
from systems.rigid.quadrotor_forces import CONTROL_VALUES
from systems.rigid.quadrotor_payload import QuadrotorPayload
from systems.spins.base import SpinSystem, quantities_of_nambu, quantities_of_spins

__all__ = [
    "CONTROL_VALUES",
    "Convergence",
    "DampedSystem",
    "ElasticRod",
    "Family",
    "LennardJonesSphere",
    "MagneticDipoles",
    "MechanicalSystem",
    "NBodySphere",
    "Observable",
    "Part",
    "QuadrotorPayload",
    "Quantity",
    "RigidSystem",
    "SphericalPendulumChain",
    "SpinSystem",
    "SpringPendula",
    "Start",
    "StateError",
    "System",
    "check_count",
    "check_distinct",
    "checked_parts",
    "number_vector",
    "positive_vector",
    "python_system",
    "quantities_of_nambu",
    "quantities_of_spheres",
    "quantities_of_spins",
    "set_checked",
    "vector_list",
    "with_force",
]
