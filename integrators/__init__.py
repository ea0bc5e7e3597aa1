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

from integrators.lazy import lazy

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
