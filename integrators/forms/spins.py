"""Vector field, energy, total spin and Casimirs of a Hamiltonian on spins, as kernels.

ẇ_i = w_i × (1/κ_i) ∂H/∂w_i, spins i = 1…n (McLachlan, Modin, Verdier, *A minimal-variable
symplectic integrator on spheres*, eq. (2)). The functions here make kernels from a system's
Hamiltonian and gradient, or from those of a Nambu system, ẇ = ∇C(w) × ∇H(w) with C = ½ w·Cw
(appendix A). They read the packed parameters ``[κ, 1/κ, the system's own]``, or ``[C, the
system's own]``, and the state: n rows of w, one of a Nambu system.
"""

from integrators.compiler.kernels import Kernel, inlined, kernel, whole_state
from integrators.compiler.lanes import select
from integrators.compiler.vectors import axpy, cross, dot, get, increment, normalizing, put, scale
from integrators.compiler.views import tail

QUADRATIC_SIZE = 9  # of a Nambu system's C, row by row


@inlined
def quadratic_gradient(c, w):
    """∇C = C w, of the matrix at the head of the parameters."""
    return (
        c[0] * w[0] + c[1] * w[1] + c[2] * w[2],
        c[3] * w[0] + c[4] * w[1] + c[5] * w[2],
        c[6] * w[0] + c[7] * w[1] + c[8] * w[2],
    )


@inlined
def quadratic_form(c, w):
    """2 C(w) = w·C w; products all rounded alike, or those of a null vector would not cancel."""
    g = quadratic_gradient(c, w)
    return w[0] * g[0] + w[1] * g[1] + w[2] * g[2]


def energy_kernel(hamiltonian: Kernel, nambu: bool) -> Kernel:
    """H into ``out[0, 0]``."""
    value = hamiltonian.inline

    def energy(t, y, p, out, work):
        out[0, 0] = value(t, y, tail(p, QUADRATIC_SIZE if nambu else 2 * y.shape[0]))

    return Kernel(energy, whole_state, made_from=(hamiltonian, nambu))


def monitor_kernel(hamiltonian: Kernel, nambu: bool) -> Kernel:
    """Kernel of the quantities whose statistics are kept: ``out[0] = H, mean_i |w_i·w_i − 1|``.

    The second number is 0 for a Nambu system, which has no spheres.
    """
    value = hamiltonian.inline

    def monitor(t, y, p, out, work):
        n = y.shape[0]
        out[0, 0] = value(t, y, tail(p, QUADRATIC_SIZE if nambu else 2 * n))
        total = 0.0 * y[0, 0]  # of the state's element type
        if not nambu:
            for i in range(n):
                total = total + abs(dot(get(y, i), get(y, i)) - 1.0)
        out[0, 1] = total / n

    return Kernel(monitor, whole_state, made_from=(hamiltonian, nambu))


def field_kernel(gradient: Kernel, nambu: bool) -> Kernel:
    """The vector field, on the embedding space: (2), or ∇C × ∇H."""
    gradient_of = gradient.inline

    def field(t, y, p, out, work):
        n = y.shape[0]
        gradient_of(t, y, tail(p, QUADRATIC_SIZE if nambu else 2 * n), out, work)
        for i in range(n):
            w = get(y, i)
            turning = quadratic_gradient(p, w) if nambu else scale(p[n + i], w)
            put(out, i, cross(turning, get(out, i)))

    return Kernel(field, whole_state, (gradient, nambu), gradient.work)


def generator_kernel(gradient: Kernel) -> Kernel:
    """u_i = −(1/κ_i) ∂H/∂w_i, about which w_i turns: (2) as ẇ_i = u_i × w_i."""
    gradient_of = gradient.inline

    def generator(t, y, p, out, work):
        n = y.shape[0]
        gradient_of(t, y, tail(p, 2 * n), out, work)
        for i in range(n):
            put(out, i, scale(-p[n + i], get(out, i)))

    return Kernel(generator, whole_state, (gradient,), gradient.work)


@kernel()
def total_spin(t, y, p, out, work):
    """Σ κ_i w_i into row 0 of ``out``."""
    total = scale(p[0], get(y, 0))
    for i in range(1, y.shape[0]):
        total = axpy(p[i], get(y, i), total)
    put(out, 0, total)


@kernel()
def spin_casimir(t, y, p, out, work):
    """½ Σ |w_i|² into ``out[0, 0]``."""
    total = 0.5 * dot(get(y, 0), get(y, 0))
    for i in range(1, y.shape[0]):
        total = total + 0.5 * dot(get(y, i), get(y, i))
    out[0, 0] = total


@kernel()
def nambu_casimir(t, y, p, out, work):
    """C = ½ w·Cw into ``out[0, 0]``."""
    w = get(y, 0)
    out[0, 0] = 0.5 * dot(w, quadratic_gradient(p, w))


@kernel()
def unit_length_error(t, y, p, out, work):
    """max_i |w_i·w_i − 1| into ``out[0, 0]``."""
    largest = 0.0 * y[0, 0]  # of the state's element type
    for i in range(y.shape[0]):
        error = abs(dot(get(y, i), get(y, i)) - 1.0)
        largest = select(error > largest, error, largest)
    out[0, 0] = largest


@kernel()
def project_spins(t, y, p, low, work):
    """Bring every w_i to unit length, by increments that `low` compensates."""
    for i in range(y.shape[0]):
        increment(y, low, i, normalizing(get(y, i)))
