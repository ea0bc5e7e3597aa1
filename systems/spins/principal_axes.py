"""What rigid bodies share: turns about their principal axes, and the symmetry of their inertia."""

from collections.abc import Sequence

import numpy as np

from integrators.compiler.kernels import inlined
from integrators.compiler.lanes import fma
from integrators.errors import short_repr
from integrators.lie_groups.rotations import rotation_coefficients
from systems.checking import excess_moment


@inlined
def turn(w, low, k, angle):
    """Turn the spin in row 0 of w + low by `angle` about e_k; `low` takes the change.

    The flow of a Hamiltonian H(w_k) for a time h is the turn by −h dH/dw_k, since
    ẇ = w × ∇H = −dH/dw_k e_k × w, which leaves w_k as it is.
    """
    i, j = (k + 1) % 3, (k + 2) % 3
    x, y = w[0, i] + low[0, i], w[0, j] + low[0, j]
    a, b = rotation_coefficients(angle * angle)
    sine = a * angle
    versine = (b * angle) * angle
    low[0, i] = low[0, i] - fma(sine, y, versine * x)
    low[0, j] = low[0, j] + fma(sine, x, -(versine * y))


def remarks_on_moments(inertia: Sequence[float]) -> tuple[str, ...]:
    """What there is to say of moments that no body has, as `System.remarks`; empty of others."""
    excess = excess_moment(inertia)
    if not excess:
        return ()
    return (
        f"inertia = {short_repr(inertia)} are the moments of no body, since {excess}; H is a "
        "quadratic function of w all the same",
    )


def middle_axis(inertia: Sequence[float]) -> int:
    """The axis of the middle moment of inertia; of a symmetric body one of the two equal ones.

    H less |w|²/(2 I) with that moment moves w as H does and has two pieces, about the axes next to
    it: the one before, k + 2 modulo 3, and the one after, k + 1. A symmetric body turns about the
    one before alone.
    """
    equal = symmetry_axes(inertia)
    return ("xyz".index(equal[0]) + 1) % 3 if equal else int(np.argsort(inertia)[1])


def symmetry_axes(inertia: Sequence[float]) -> str:
    """The axes about which a body of such principal moments is symmetric: ``"xyz"``, one or none.

    The component of w along such an axis is conserved.
    """
    return "".join(
        axis for k, axis in enumerate("xyz") if inertia[(k + 1) % 3] == inertia[(k + 2) % 3]
    )
