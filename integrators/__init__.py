"""Time-stepping methods on spheres and Lie groups, and the kernels they are compiled from.

>>> import integrators, systems
>>> system = systems.get("spherical_pendulum_chain")
>>> method = integrators.get("variational+suzuki4")
>>> run = integrators.integrate(
...     system, method, system.start("lee"), step_size=0.01, duration=1.0, samples=10
... )
>>> run.states.shape
(11, 4, 3)
"""

from typing import TYPE_CHECKING

from integrators.lazy import lazy

if TYPE_CHECKING:  # the names of `_HOMES`, for type checkers
    from integrators.diagnostics.exponents import LyapunovExponents as LyapunovExponents
    from integrators.diagnostics.exponents import lyapunov_exponents as lyapunov_exponents
    from integrators.diagnostics.stability import StabilityWarning as StabilityWarning
    from integrators.diagnostics.structure import SymplecticDefect as SymplecticDefect
    from integrators.diagnostics.structure import reversal_error as reversal_error
    from integrators.diagnostics.structure import symplectic_defect as symplectic_defect
    from integrators.errors import InputError as InputError
    from integrators.integration import Trajectories as Trajectories
    from integrators.integration import integrate as integrate
    from integrators.method import Integrator as Integrator
    from integrators.method import Method as Method
    from integrators.registry import ALL_INTEGRATORS as ALL_INTEGRATORS
    from integrators.registry import DOP853 as DOP853
    from integrators.registry import get as get
    from integrators.registry import made as made
    from integrators.registry import named as named
    from integrators.registry import names as names
    from integrators.stepping.adaptive import StepHistory as StepHistory

_HOMES = {
    "ALL_INTEGRATORS": "integrators.registry",
    "DOP853": "integrators.registry",
    "InputError": "integrators.errors",
    "Integrator": "integrators.method",
    "LyapunovExponents": "integrators.diagnostics.exponents",
    "Method": "integrators.method",
    "StabilityWarning": "integrators.diagnostics.stability",
    "StepHistory": "integrators.stepping.adaptive",
    "SymplecticDefect": "integrators.diagnostics.structure",
    "Trajectories": "integrators.integration",
    "get": "integrators.registry",
    "integrate": "integrators.integration",
    "lyapunov_exponents": "integrators.diagnostics.exponents",
    "made": "integrators.registry",
    "named": "integrators.registry",
    "names": "integrators.registry",
    "reversal_error": "integrators.diagnostics.structure",
    "symplectic_defect": "integrators.diagnostics.structure",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
