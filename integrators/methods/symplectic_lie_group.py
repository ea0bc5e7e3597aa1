"""Symplectic Lie group integrators on T*G, with a parameter θ.

Of E. Celledoni, E. Çokaj, A. Leone, D. Murari, B. Owren, *Lie group integrators for mechanical
systems*, section 3.2, with f = (∂H/∂μ, −R_g^* ∂H/∂g):

    M = dexp*_{−ξ}(μ₀ + Ad*_{exp θξ} n̄) − θ dexp*_{−θξ} Ad*_{exp θξ} n̄,              (15)
    (ξ, n̄) = h f(exp(θξ) g₀, M),                                                    (16)
    g₁ = exp(ξ) g₀,   μ₁ = Ad*_{exp −ξ} μ₀ + Ad*_{exp((θ−1)ξ)} n̄.                    (17)

On SO(3) Ad*_Q = Qᵀ and dexp*_{−ξ} = dexp_ξ. Since ξ̂ dexp_ξ = exp ξ̂ − 1, the three lines say with
k = n̄ + ξ × M, which is h μ̇ at the point (exp(θξ) g₀, M), that

    μ₁ = μ₀ + k,   M = θ dexp_{θξ} μ₀ + (1 − θ) dexp_{−(1−θ)ξ} μ₁.

In this form they are computed: k is small where n̄ is not, and momenta that the exact k keeps stay
to round-off. On the R³ of SO(3) × R³, which is abelian, dexp is 1: the θ method. For θ = ½ the map
is symmetric and of order 2, else of order 1; it is symplectic for every θ, and keeps the momentum
maps of symmetries from the left and from the right.

The unknowns are ξ and k as the body sees them, Q₀ᵀξ and Q₀ᵀk, in which the Jacobian of a spinning
body hardly changes from step to step; see `quasi_newton`.
"""

import numpy as np

from integrators.compiler.kernels import Kernel, inlined
from integrators.compiler.lanes import any_lane, select, sqrt
from integrators.compiler.vectors import add, axpy, cross, dot, get, increment, put, scale
from integrators.compiler.views import rows_of, tail
from integrators.forms.cotangent import CotangentHamiltonian
from integrators.lie_groups.exponentials import motion_coefficients
from integrators.lie_groups.factors import RIGHT_ROTATION
from integrators.lie_groups.rotations import turning
from integrators.method import ALL_DEGREES, Integrator, Method
from integrators.options import Option
from integrators.solvers.failures import fail, is_finite, poison
from integrators.solvers.fixed_point import note_count
from integrators.solvers.quasi_newton import (
    DEPTH,
    OF_Z,
    SCALES,
    TABLE,
    memory_size,
    newest,
    predict,
    quasi_newton_solver,
    remember,
    work_size,
)
from integrators.status import NOT_CONVERGED
from integrators.stepping.loop import method_signature
from integrators.stepping.problem import Problem

FLOOR = 1e-3  # of a radian or a momentum: least size of an unknown
PIECES = 8  # of a step along which its solution is followed where it is not found at once

ACT = RIGHT_ROTATION.act

# The unknowns are m rows: ξ and k, or ξ, its part in R³, k and its part. memory: what the sums
# lost; for each stage that of the solver. work: the solver's; the state at which f is taken; f's.


@inlined
def _from_body(y, a):
    """Q a"""
    return dot(get(y, 0), a), dot(get(y, 1), a), dot(get(y, 2), a)


@inlined
def _to_body(y, a):
    """Qᵀ a"""
    return axpy(a[2], get(y, 2), axpy(a[1], get(y, 1), scale(a[0], get(y, 0))))


@inlined
def _dexp(u, v):
    """dexp_u v = v + ((1 − cos a)/a²) u × v + ((a − sin a)/a³) u × (u × v), a = |u|."""
    _, b, c = motion_coefficients(dot(u, u))
    d = cross(u, v)
    return axpy(c, cross(u, d), axpy(b, d, v))


@inlined
def _residual(given, work, of_z, at):
    """r = z − h (f₁, μ̇) at (exp(θξ) g₀, M); what belongs to z is f₁ and μ̇."""
    m, derivatives, t, h, theta, y, p, trial, scratch = given
    z, f, r = rows_of(work, 0, m), rows_of(work, of_z, m), rows_of(work, at, m)
    last, half = m + 1, m // 2  # π and p are the last rows of a state
    momentum = 2 + half
    xi, k = get(z, 0), get(z, half)
    back = scale(-theta, xi)
    for i in range(3):  # Q exp(θ ξ̂), of the body's ξ
        row = get(y, i)
        put(trial, i, add(row, turning(back, row)))
    start = _to_body(y, get(y, momentum))
    ahead = _dexp(scale(theta - 1.0, xi), add(start, k))
    middle = axpy(theta, _dexp(scale(theta, xi), start), scale(1.0 - theta, ahead))
    put(trial, momentum, _from_body(y, middle))
    if m > 2:
        put(trial, 3, axpy(theta, get(z, 1), get(y, 3)))
        put(trial, last, axpy(1.0 - theta, get(z, 3), get(y, last)))
    derivatives(t, trial, p, f, scratch)
    omega = get(f, 0)
    put(f, half, add(get(f, half), cross(omega, get(trial, momentum))))  # (12): − ad*_ω π
    put(r, 0, axpy(-h, _to_body(y, omega), xi))
    put(r, half, axpy(-h, _to_body(y, get(f, half)), k))
    if m > 2:
        put(r, 1, axpy(-h, get(f, 1), get(z, 1)))
        put(r, 3, axpy(-h, get(f, 3), get(z, 3)))


@inlined
def _length(a):
    return sqrt(dot(a, a))


@inlined
def _note_scales(m, h, y, z, scales):
    """One over the sizes of the unknowns: how large they are, and a share of what they move."""
    half = m // 2
    momentum = _length(get(y, 2 + half))
    angle, push = _length(get(z, 0)), _length(get(z, half))
    _note_scale(scales, 0, angle + FLOOR)
    _note_scale(scales, half, angle * momentum + push + FLOOR * (momentum + push))
    if m > 2:
        for i in (1, 3):
            moved, place = _length(get(z, i)), _length(get(y, i + 2))
            _note_scale(scales, i, moved + FLOOR * (place + abs(h)))


@inlined
def _note_scale(scales, i, size):
    scale_of = select(size > 0.0, 1.0 / size, 1.0 + 0.0 * size)
    for c in range(3):
        scales[3 * i + c] = scale_of


_solve = quasi_newton_solver(_residual)


@inlined
def _explicit(m, derivatives, t, h, y, p, work, scratch, where):
    """ξ and k of an explicit step into the unknowns, where `where` holds."""
    half, f = m // 2, rows_of(work, OF_Z * 3 * m, m)
    derivatives(t, y, p, f, scratch)
    push = add(get(f, half), cross(get(f, 0), get(y, 2 + half)))
    put(f, 0, _to_body(y, get(f, 0)))
    put(f, half, _to_body(y, push))
    flat = tail(work, OF_Z * 3 * m)
    for i in range(3 * m):
        work[i] = select(where, h * flat[i], work[i])


@inlined
def _solve_or_follow(given, n, tolerance, inverse, new, zero, work):
    """Solve (16) from the start in `work`, or follow the solution while h grows to what it is.

    The second where the first fails: PIECES shares of h, the first from an explicit step. Returns
    as `quasi_newton_solver` does.
    """
    m, derivatives, t, h, theta, y, p, trial, scratch = given
    needed = zero <= 0.0
    ok, squares, total = needed, zero, zero
    for j in range(PIECES + 1):
        share = h if j == 0 else h * j / PIECES
        of_share = (m, derivatives, t, share, theta, y, p, trial, scratch)
        begin = new if j == 0 else 1.0
        ok, squares, count = _solve(of_share, n, tolerance, inverse, begin, needed, zero, work)
        total = total + count
        if j == 0:
            needed = ~ok & is_finite(y)
            if not any_lane(needed):
                break
            _explicit(m, derivatives, t, h / PIECES, y, p, work, scratch, needed)
        elif j < PIECES:
            for i in range(n):
                work[i] = select(needed, work[i] * ((j + 1.0) / j), work[i])
    return ok, squares, total


@inlined
def _advance(m, derivatives, t0, h, first, count, constants, options, y, memory, p, work, report):
    size, n, half = m + 2, 3 * m, m // 2
    own = work_size(n)
    low, trial = rows_of(memory, 0, size), rows_of(work, own, size)
    scratch = tail(work, own + 3 * size)
    z, f, scales = rows_of(work, 0, m), rows_of(work, OF_Z * n, m), tail(work, SCALES * n)
    stages = constants.shape[0] - 1  # of a composition; θ follows
    tolerance, theta = options[0], constants[stages]
    for k in range(first, first + count):
        passed = 0.0
        for s in range(stages):
            part = constants[s] * h
            time = t0 + k * h + (passed + theta * constants[s]) * h
            inverse = tail(memory, 3 * size + s * (n * n + DEPTH * n))
            recent = tail(inverse, n * n)
            zero = 0.0 * report[0]  # finite, unlike a state after a failure
            if k == 0:
                _explicit(m, derivatives, time, part, y, p, work, scratch, zero <= 0.0)
            else:
                newest(recent, k, n, work)
            _note_scales(m, part, y, z, scales)
            if k > 0:
                predict(recent, k, n, scales, work, tail(work, TABLE * n))
            given = (m, derivatives, time, part, theta, y, p, trial, scratch)
            new = 1.0 if k == 0 else 0.0
            ok, squares, evaluations = _solve_or_follow(
                given, n, tolerance, inverse, new, zero, work
            )
            note_count(report, evaluations)
            fail(report, ok, NOT_CONVERGED, k, sqrt(squares))
            remember(recent, k, n, work)
            ACT(z, 0, y, 0, trial)
            for i in range(3):
                increment(y, low, i, get(trial, i))
            increment(y, low, 2 + half, scale(part, get(f, half)))
            if m > 2:
                increment(y, low, 3, scale(part, get(f, 1)))
                increment(y, low, 5, scale(part, get(f, 3)))
            poison(y, ok)
            passed += constants[s]


def _advance_kernel(m: int) -> Kernel:
    def symplectic_lie_group(
        derivatives, unused, none, t0, h, first, count, constants, options, y, memory, p, work,
        report,
    ):  # fmt: skip
        _advance(
            m, derivatives, t0, h, first, count, constants, options, y, memory, p, work, report
        )

    return Kernel(symplectic_lie_group, method_signature, (m,))


ADVANCE = {m: _advance_kernel(m) for m in (2, 4)}  # by the rows of the unknowns


def _bind(form: CotangentHamiltonian, integrator: Integrator) -> Problem:
    m, stages = form.algebra_rows, len(integrator.stages)
    n, options = 3 * m, integrator.options
    return Problem(
        advance=ADVANCE[m],
        function=form.derivatives,
        monitor=form.monitor(),
        constants=np.array([*integrator.stages, integrator.constant(options["theta"])]),
        options=np.array([options["solver_tolerance"]]),
        parameters=form.packed,
        rows=form.rows,
        memory=3 * form.rows + stages * memory_size(n),
        work=work_size(n) + 3 * form.rows + form.derivatives.work(form.rows),
        solves=stages,
        formulation="state",
    )


SYMPLECTIC_LIE_GROUP = Method(
    name="symplectic_lie_group",
    sources=("celledoni2022", "celledoni2014"),
    description="symplectic Lie group integrator on T*SO(3) or T*(SO(3) × R³), with θ",
    order=2,
    symmetric=True,
    forms=(CotangentHamiltonian,),
    preserves={
        "symplectic_form": (),
        "momentum_map": ALL_DEGREES,
        "orthogonality": ALL_DEGREES,
    },
    bind=_bind,
    evaluations=0,  # as many as the solver takes: it counts them
    options={
        "theta": Option(0.5, "θ, from 0 to 1; symmetric and of order 2 for 0.5 alone", most=1.0),
        "solver_tolerance": Option(
            0.0, "relative residual at which the solver may stop; 0: round-off"
        ),
    },
    order_of=lambda order, options: order if options["theta"] == 0.5 else 1,
    symmetric_with=lambda options: options["theta"] == 0.5,
)
