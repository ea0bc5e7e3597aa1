"""What rigid bodies share: turns about their principal axes, and the symmetry of their inertia."""

from integrators.kernels import inlined
from integrators.rotations import turning
from integrators.vectors import get, increment


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


def symmetry_axes(inertia):
    """The axes about which a body of such principal moments is symmetric: ``"xyz"``, one or none.

    The component of w along such an axis is conserved.
    """
    return "".join(
        axis for k, axis in enumerate("xyz") if inertia[(k + 1) % 3] == inertia[(k + 2) % 3]
    )
