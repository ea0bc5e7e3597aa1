"""Right integrators, one of each form, of which `wrong_plugins` makes wrong ones."""

from integrators.plugin import (
    HomogeneousFlow,
    SpheresLagrangian,
    VectorField,
    add,
    axpy,
    cross,
    get,
    moved,
    put,
    rows_of,
    scale,
    simple_method,
    tail,
    turning_unit,
)


def kick_drift(gradient, t, h, y, p, d, work, scratch):
    n = y.shape[0] // 2
    slope = rows_of(work, 0, n)
    gradient(t, y, p, slope, scratch)
    for i in range(n):
        kick = scale(-h * p[n + i], cross(get(y, i), get(slope, i)))
        omega = add(get(y, n + i), kick)
        put(d, n + i, kick)
        put(d, i, turning_unit(scale(h, omega), get(y, i)))


def strang(gradient, t, h, y, p, d, work, scratch):  # drift, kick, drift
    n = y.shape[0] // 2
    slope, mid = rows_of(work, 0, n), rows_of(work, 3 * n, 2 * n)
    for i in range(n):
        put(d, i, turning_unit(scale(0.5 * h, get(y, n + i)), get(y, i)))
        put(mid, i, add(get(y, i), get(d, i)))
        put(mid, n + i, get(y, n + i))
    gradient(t + 0.5 * h, mid, p, slope, scratch)
    for i in range(n):
        kick = scale(-h * p[n + i], cross(get(mid, i), get(slope, i)))
        put(d, n + i, kick)
        put(mid, i, turning_unit(scale(0.5 * h, add(get(y, n + i), kick)), get(mid, i)))
        put(d, i, add(get(d, i), get(mid, i)))


def heun(field, t, h, y, p, d, work, scratch):
    rows = y.shape[0]
    first, end, last = rows_of(work, 0, rows), rows_of(work, 3 * rows, rows), tail(work, 6 * rows)
    second = rows_of(last, 0, rows)
    field(t, y, p, first, scratch)
    for i in range(rows):
        put(end, i, axpy(h, get(first, i), get(y, i)))
    field(t + h, end, p, second, scratch)
    for i in range(rows):
        put(d, i, scale(0.5 * h, add(get(first, i), get(second, i))))


def lie_midpoint(generator, act, t, h, y, p, sigma, work, scratch):
    rows, m = y.shape[0], sigma.shape[0]
    half, d = rows_of(work, 0, rows), rows_of(work, 3 * rows, rows)
    flat = tail(work, 6 * rows)
    generator(t, y, p, sigma, scratch)
    for i in range(m):
        for c in range(3):
            flat[3 * i + c] = 0.5 * h * sigma[i, c]
    moved(act, t, flat, y, p, d, half)
    generator(t + 0.5 * h, half, p, sigma, scratch)
    for i in range(m):
        put(sigma, i, scale(h, get(sigma, i)))


ALL = ("linear", "quadratic", "other")
KEPT = {"symplectic_form": (), "momentum_map": ALL, "unit_length": ALL, "tangency": ALL}
COMMON = {
    "form": SpheresLagrangian,
    "preserves": KEPT,
    "suits": lambda form: form.diagonal,
    "condition": "a diagonal inertia matrix and no force",
}

INTEGRATORS = (
    simple_method(
        "kick_drift", "kick, then drift", kick_drift, order=1, work=lambda rows: 3 * rows, **COMMON
    ),
    simple_method(
        "strang", "drift, kick, drift", strang, order=2, symmetric=True,
        work=lambda rows: 3 * rows + 3 * rows, **COMMON,
    ),
    simple_method(
        "own_heun", "Heun's method", heun, form=VectorField, order=2, evaluations=2,
        work=lambda rows: 9 * rows + 1,
    ),
    simple_method(
        "lie_midpoint", "midpoint rule along an action", lie_midpoint, form=HomogeneousFlow,
        order=2, evaluations=2, work=lambda rows: 12 * rows,
    ),
)  # fmt: skip
