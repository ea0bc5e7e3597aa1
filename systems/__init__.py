"""Mechanical systems, spin systems on spheres and rigid bodies, each a file of physics.

>>> import systems
>>> systems.get("spherical_pendulum_chain", count=3, gravity=9.81).bodies
3
"""

from integrators.lazy import lazy

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
