"""What plugins import that add systems or observables; `integrators.plugin` has all other names.

The names of these two modules are stable, and the modules that define them are not.

>>> from systems.plugin import MechanicalSystem, Start, quantities_of_spheres, set_checked

- kinds of systems: `MechanicalSystem`, `SpinSystem` and `RigidSystem` with `Part`, or `System`;
- what they have: `Start`, `Family`, `Quantity`, `StateError`, `Convergence`, and the quantities of
  a form;
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
from systems.mechanical.base import MechanicalSystem, check_distinct, quantities_of_spheres
from systems.observables import Observable
from systems.rigid.base import Part, RigidSystem, checked_parts
from systems.rigid.quadrotor_forces import CONTROL_VALUES
from systems.rigid.quadrotor_payload import QuadrotorPayload
from systems.spins.base import SpinSystem, quantities_of_nambu, quantities_of_spins

__all__ = [
    "CONTROL_VALUES",
    "Convergence",
    "Family",
    "MechanicalSystem",
    "Observable",
    "Part",
    "QuadrotorPayload",
    "Quantity",
    "RigidSystem",
    "SpinSystem",
    "Start",
    "StateError",
    "System",
    "check_count",
    "check_distinct",
    "checked_parts",
    "number_vector",
    "positive_vector",
    "quantities_of_nambu",
    "quantities_of_spheres",
    "quantities_of_spins",
    "set_checked",
    "vector_list",
]
