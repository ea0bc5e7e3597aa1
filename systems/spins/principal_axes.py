"""What rigid bodies share: turns about their principal axes, and the symmetry of their inertia."""

from integrators.compiler.kernels import inlined
from integrators.compiler.vectors import get, increment
from integrators.lie_groups.rotations import turning


@inlined
def turn(w, low, k, angle):
    """Turn the spin in row 0 by `angle` about e_k, by a compensated increment.

    The flow of a Hamiltonian H(w_k) for a time h is the turn by −h dH/dw_k, since
    ẇ = w × ∇H = −dH/dw_k e_k × w, which leaves w_k as it is.
    """
    zero = angle - angle  # of the state's element type
    axis = (zero, zero, angle)
    if k == 0:
        axis = (angle, zero, zero)
    elif k == 1:
        axis = (zero, angle, zero)
    increment(w, low, 0, turning(axis, get(w, 0)))


@inlined
def own_rate(p, k):
    """1/I_k less that of two equal moments, if there are two; p = (1/I_1, 1/I_2, 1/I_3, …).

    What is left out of H is a multiple of |w|², which moves nothing. A symmetric body then turns
    about its axis alone, so that the flow of every piece keeps what the body conserves.
    """
    common = 0.0
    if p[0] == p[1] or p[0] == p[2]:
        common = p[0]
    elif p[1] == p[2]:
        common = p[1]
    return p[k] - common


def symmetry_axes(inertia):
    """The axes about which a body of such principal moments is symmetric: ``"xyz"``, one or none.

    The component of w along such an axis is conserved.
    """
    return "".join(
        axis for k, axis in enumerate("xyz") if inertia[(k + 1) % 3] == inertia[(k + 2) % 3]
    )
