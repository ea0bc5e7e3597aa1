"""Mechanical systems, spin systems on spheres and rigid bodies, each a file of physics.

>>> import systems
>>> systems.get("spherical_pendulum_chain", count=3, gravity=9.81).bodies
3
"""

from typing import TYPE_CHECKING

from integrators.lazy import lazy

if TYPE_CHECKING:  # the names of `_HOMES`, for type checkers
    from integrators.errors import InputError as InputError
    from systems.base import Quantity as Quantity
    from systems.base import System as System
    from systems.observables import Observable as Observable
    from systems.registry import ALL_SYSTEMS as ALL_SYSTEMS
    from systems.registry import get as get
    from systems.registry import made as made
    from systems.registry import named as named
    from systems.registry import names as names

_HOMES = {
    "ALL_SYSTEMS": "systems.registry",
    "InputError": "integrators.errors",
    "Observable": "systems.observables",
    "Quantity": "systems.base",
    "System": "systems.base",
    "get": "systems.registry",
    "made": "systems.registry",
    "named": "systems.registry",
    "names": "systems.registry",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
