"""The linear stability limit of a method on spins, and a warning beyond it.

The spherical midpoint method turns w' = λ w × a by an angle whose cosine is 1 − ½ (λh)², so it
needs λh < 2: McLachlan, Modin and Verdier, *A minimal-variable symplectic integrator on spheres*,
theorem 2.4 (vi). A Hamiltonian on spins turns spin i at ∂H/∂w_i / κ_i, so λ is the largest
|∂H/∂w_i| / |κ_i|. It changes along a run: the limit is checked where a run begins.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from integrators.forms.flows import SystemOrForm
from integrators.forms.forms import form_of, system_name
from integrators.forms.hamiltonians import SpinHamiltonian
from integrators.method import Integrator
from integrators.stepping import loop


class StabilityWarning(UserWarning):
    """A step size is beyond the linear stability limit of the method."""


def has_stability_limit(integrator: Integrator, system: SystemOrForm) -> bool:
    """Whether the integrator has a stability limit on a system of this form."""
    limit = integrator.method.stability_limit
    return np.isfinite(limit) and isinstance(form_of(system), SpinHamiltonian)


def frequencies(system: SystemOrForm, states: ArrayLike, time: float = 0.0) -> np.ndarray:
    """Frequency of the fastest spin, max_i |∂H/∂w_i| / |κ_i|.

    Parameters
    ----------
    system : System or form
        A system whose form is a `SpinHamiltonian`, or this form.
    states : array_like, shape (members, n, 3)
    time : float

    Returns
    -------
    ndarray, shape (members,)
        NaN where a state is not finite.
    """
    form = form_of(system)
    states = np.ascontiguousarray(states, dtype=float)
    gradients = np.zeros_like(states)
    times, parameters = np.full(len(states), float(time)), np.array(form.parameters, dtype=float)
    loop.evaluate(form.gradient, times, states, parameters, gradients)
    return np.max(np.linalg.norm(gradients, axis=2) / np.abs(form.divisors), axis=1)


def largest_step(integrator: Integrator, frequency: ArrayLike) -> Any:
    """The step size below which the integrator is linearly stable at a frequency, or several.

    A composition takes steps of γ h: the largest |γ| counts.
    """
    with np.errstate(divide="ignore"):
        return integrator.method.stability_limit / (
            np.max(np.abs(np.asarray(integrator.stages))) * np.asarray(frequency)
        )


def warn_if_unstable(
    system: SystemOrForm,
    integrator: Integrator,
    members: np.ndarray,
    step_size: float,
    start_time: float = 0.0,
) -> None:
    """Issue a `StabilityWarning` where a run begins beyond the stability limit.

    Parameters
    ----------
    system : System or form
    integrator : Integrator
    members : ndarray, shape (members, rows, 3)
    step_size, start_time : float
    """
    if not has_stability_limit(integrator, system):
        return
    found = frequencies(system, members, start_time)
    beyond = step_size >= largest_step(integrator, found)
    if beyond.any():
        fastest = float(found[beyond].max())
        of = f" at {beyond.sum()} of {len(members)} states" if len(members) > 1 else ""
        warnings.warn(
            f"step_size = {step_size!r} is beyond the linear stability limit of "
            f"{integrator.name!r} on {system_name(system)}{of}: "
            + explain_step_beyond_limit(integrator, step_size, fastest),
            StabilityWarning,
            stacklevel=3,
        )


def explain_step_beyond_limit(integrator: Integrator, step_size: float, frequency: float) -> str:
    """Sentence on a step size beyond the stability limit, with the step sizes within it."""
    gamma = float(np.max(np.abs(np.asarray(integrator.stages))))
    stage = "" if gamma == 1.0 else f" × largest |γ| {gamma:.4g}"
    product = step_size * frequency * gamma
    within = float(largest_step(integrator, frequency))
    return (
        f"step size {step_size:.6g} × frequency {frequency:.4g}{stage} = {product:.4g}, the limit "
        f"is {integrator.method.stability_limit:g}; within it are step sizes below "
        f"{_round_down_to_four_digits(within)}"
    )


def _round_down_to_four_digits(value: float) -> str:
    """Four significant digits, not above the value."""
    if not value > 0.0:  # at a frequency beyond all numbers
        return "0"
    scale = 10.0 ** (np.floor(np.log10(value)) - 3)
    return f"{np.floor(value / scale) * scale:.4g}"
