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

from integrators.actions import RIGHT_ROTATION
from integrators.cotangent import CotangentHamiltonian
from integrators.exponentials import motion_coefficients
from integrators.fixed_point import note_count
from integrators.kernels import Kernel, inlined
from integrators.lanes import any_lane, select, sqrt
from integrators.methods import ALL_DEGREES, Method, Option, Problem
from integrators.quasi_newton import (
    DEPTH,
    newest,
    predict,
    remember,
    scaled_square,
    set_column,
    take_inverse,
    take_step,
)
from integrators.rotations import turning
from integrators.stepping import NOT_CONVERGED, fail, method_signature, poison
from integrators.vectors import add, axpy, cross, dot, get, increment, put, scale
from integrators.views import rows_of, tail

MOST = 60  # iterations
ROUND_OFF = 2.0**-51  # of a residual, relative to the scales of the unknowns
NEAR = 64.0  # times that: where a residual that does not fall is the last
ACCEPTABLE = 1e-10  # residual that a solution may have
FALLS = 1.0 / 16.0  # of its square in an iteration, if the inverse is good
SHIFT = 2.0**-26  # of the unknowns for differences, relative to their scales
FLOOR = 1e-3  # of a radian or a momentum: least size of an unknown

ACT = RIGHT_ROTATION.act

# memory: what the sums lost; for each stage B and the last solutions.
# work: of n unknowns z, r, step, u, v, r beside z, f at z and beside it, scales (n each); the
# predictions (DEPTH n), the matrix to invert (2n²); the state at which f is taken; what f
# needs.
MATRIX = 9 + DEPTH


def stage_size(n):
    """Elements of memory that a stage carries from step to step."""
    return n * n + DEPTH * n


def work_size(n, rows):
    """Elements of scratch besides the system's."""
    return MATRIX * n + 2 * n * n + 3 * rows


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
    """dexp_u v = v + ((1 − cos θ)/θ²) u × v + ((θ − sin θ)/θ³) u × (u × v), θ = |u|."""
    _, b, c = motion_coefficients(dot(u, u))
    d = cross(u, v)
    return axpy(c, cross(u, d), axpy(b, d, v))


@inlined
def _residual(m, derivatives, t, h, theta, y, p, z, trial, f, r, scratch):
    """r = z − h (f₁, μ̇) at (exp(θξ) g₀, M), with f₁ and μ̇ left in `f`; `m` rows of unknowns."""
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
    """One over the scales of the unknowns: how large they are, and a share of what they move."""
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


@inlined
def _solve(
    m, derivatives, t, h, theta, tolerance, y, p, inverse, new, work, trial, scratch, report, k
):
    """Solve (16) from the start in z; leaves ξ and k in z and h⁻¹ times them in f."""
    n = 3 * m
    z, r, step = rows_of(work, 0, m), rows_of(work, n, m), tail(work, 2 * n)
    u, v, shifted = tail(work, 3 * n), tail(work, 4 * n), rows_of(work, 5 * n, m)
    f, beside, scales = rows_of(work, 6 * n, m), rows_of(work, 7 * n, m), tail(work, 8 * n)
    a = tail(work, MATRIX * n)
    zero = 0.0 * report[0]  # finite, unlike a state after a failure
    last, squares, count, fresh = zero, zero, zero, zero
    active = zero <= 0.0
    enough = max(tolerance, ROUND_OFF) * max(tolerance, ROUND_OFF)
    near = max(enough, NEAR * NEAR * ROUND_OFF * ROUND_OFF)
    acceptable = max(tolerance, ACCEPTABLE) * max(tolerance, ACCEPTABLE)
    for iteration in range(MOST):
        _residual(m, derivatives, t, h, theta, y, p, z, trial, f, r, scratch)
        squares = scaled_square(work, n, n, scales)
        count = select(active, count + 1.0, count)
        falls = (squares <= FALLS * last) | (zero <= -1.0 * iteration)
        at_end = ~falls & ((squares <= near) | ((squares <= acceptable) & (fresh > 0.0)))
        active = active & (squares > enough) & ~at_end
        if not any_lane(active):
            break
        renewed = active & ((zero < new) if iteration == 0 else ~falls)
        if any_lane(renewed):
            for j in range(n):
                kept, shift = work[j], SHIFT / scales[j]
                work[j] = kept + shift
                _residual(m, derivatives, t, h, theta, y, p, z, trial, beside, shifted, scratch)
                set_column(a, j, n, tail(work, 5 * n), tail(work, n), work[j] - kept, scales)
                work[j] = kept
            take_inverse(a, n, scales, inverse, renewed)
            count = select(renewed, count + n, count)
        fresh = select(renewed, 1.0 + zero, zero)
        corrects = active & ~renewed & (zero < iteration)
        take_step(inverse, n, scales, tail(work, n), step, u, v, tail(work, 5 * n), corrects)
        for i in range(n):
            work[i] = select(active, work[i] + step[i], work[i])
        last = squares
    note_count(report, count)
    ok = squares <= acceptable
    fail(report, ok, NOT_CONVERGED, k, sqrt(squares))
    return ok


@inlined
def _explicit(m, derivatives, t, h, y, p, z, f, scratch):
    """The start of the first step: ξ and k of an explicit one."""
    half = m // 2
    derivatives(t, y, p, f, scratch)
    push = add(get(f, half), cross(get(f, 0), get(y, 2 + half)))
    put(z, 0, scale(h, _to_body(y, get(f, 0))))
    put(z, half, scale(h, _to_body(y, push)))
    if m > 2:
        put(z, 1, scale(h, get(f, 1)))
        put(z, 3, scale(h, get(f, 3)))


@inlined
def _advance(
    m, derivatives, t0, h, first, count, stages, options, y, memory, p, work, report
):  # fmt: skip
    size, n, half = m + 2, 3 * m, m // 2
    low, d = rows_of(memory, 0, size), rows_of(work, MATRIX * n + 2 * n * n, size)
    trial, scratch = d, tail(work, MATRIX * n + 2 * n * n + 3 * size)
    z, f, scales = rows_of(work, 0, m), rows_of(work, 6 * n, m), tail(work, 8 * n)
    tolerance, theta = options[0], options[1]
    for k in range(first, first + count):
        passed = 0.0
        for s in range(stages.shape[0]):
            part = stages[s] * h
            time = t0 + k * h + (passed + theta * stages[s]) * h
            inverse = tail(memory, 3 * size + s * (n * n + DEPTH * n))
            recent = tail(inverse, n * n)
            if k == 0:
                _explicit(m, derivatives, time, part, y, p, z, f, scratch)
            else:
                newest(recent, k, n, work)
            _note_scales(m, part, y, z, scales)
            if k > 0:
                predict(recent, k, n, scales, work, tail(work, 9 * n))
            ok = _solve(
                m, derivatives, time, part, theta, tolerance, y, p, inverse,
                1.0 if k == 0 else 0.0, work, trial, scratch, report, k,
            )  # fmt: skip
            remember(recent, k, n, work)
            ACT(z, 0, y, 0, d)
            for i in range(3):
                increment(y, low, i, get(d, i))
            increment(y, low, 2 + half, scale(part, get(f, half)))
            if m > 2:
                increment(y, low, 3, scale(part, get(f, 1)))
                increment(y, low, 5, scale(part, get(f, 3)))
            poison(y, ok)
            passed += stages[s]


def _kernel(m):
    def symplectic_lie_group(
        derivatives, unused, none, t0, h, first, count, stages, options, y, memory, p, work, report
    ):
        _advance(m, derivatives, t0, h, first, count, stages, options, y, memory, p, work, report)

    return Kernel(symplectic_lie_group, method_signature, (m,))


ADVANCE = {m: _kernel(m) for m in (2, 4)}  # by the rows of the unknowns


def _bind(form, integrator):
    m, stages = form.algebra_rows, len(integrator.stages)
    n, options = 3 * m, integrator.options
    return Problem(
        advance=ADVANCE[m],
        function=form.derivatives,
        monitor=form.monitor(),
        constants=integrator.stages,
        options=np.array([options["solver_tolerance"], options["theta"]]),
        parameters=form.packed,
        rows=form.rows,
        memory=3 * form.rows + stages * stage_size(n),
        work=work_size(n, form.rows) + form.derivatives.work(form.rows),
        solves=stages,
        formulation="state",
    )


SYMPLECTIC_LIE_GROUP = Method(
    name="symplectic_lie_group",
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
            0.0, "relative residual at which a solve may stop; 0: round-off"
        ),
    },
    order_of=lambda order, options: order if options["theta"] == 0.5 else 1,
    symmetric_with=lambda options: options["theta"] == 0.5,
)
