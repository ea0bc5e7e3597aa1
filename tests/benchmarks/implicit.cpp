// The implicit variational integrator on two-spheres, (3.10)-(3.13) of Lee, Leok, McClamroch,
// Lagrangian mechanics and variational integrators on two-spheres, in multiplier form (RATTLE),
// for its Examples 1, a chain of pendula, and 4, an elastic rod. Half kicks merged.
// Unknown are the multipliers in  p_i' = p_i - k g_i + lambda_i q_i,  d = h M^-1 p',  from
// 2 q_i.d_i + d_i.d_i = 1 - q_i.q_i, which Newton's method solves, of two bodies a series.

#include <type_traits>

#include "inertia.hpp"

static const double round_off = 0x1p-50, acceptable = 1e-12;

// V = -sum p_i e3.q_i
template <typename T, int n>
static void hanging(const double* p, const Vector<T>*, Vector<T>* g) {
    for (int i = 0; i < n; i++) g[i] = {T{}, T{}, T{} - p[i]};
}

// V = -sum p_i e3.q_i + sum k_i/2 (1 - q_{i-1}.q_i)^2, where q_{-1} = e1
template <typename T, int n>
static void bending(const double* p, const Vector<T>* q, Vector<T>* g) {
    g[0] = {-(p[n] * (1.0 - q[0].x)), T{}, T{} - p[0]};
    for (int i = 1; i < n; i++) {
        T torque = p[n + i] * (1.0 - dot(q[i - 1], q[i]));
        g[i - 1] = g[i - 1] - torque * q[i];
        g[i] = -torque * q[i - 1];
        g[i].z -= p[i];
    }
}

template <typename T, int n, typename Inertia,
          void gradient(const double*, const Vector<T>*, Vector<T>*), bool compensated>
struct Integrator {
    typedef Vector<T> Vec;
    Inertia inertia;
    const double* own;
    Sum<T, compensated> q[n], momentum[n];
    Vec g[n], place[n];  // place: the values of q

    explicit Integrator(const double* p) : inertia(p), own(p + Inertia::size) {}

    void moved() {
        for (int i = 0; i < n; i++) place[i] = q[i].value;
        gradient(own, place, g);
    }

    // Newton iterations where `active`, until the residual is at round-off or no longer halves;
    // leaves v = M^-1 p'.
    void multipliers(double h, const Vec* base, Vec* v, T* lambda, Mask<T> active) {
        T last = T{} + INFINITY;
        for (int iteration = 0; iteration < 60; iteration++) {
            Vec forces[n], ends[n];
            T f[n], residual = {}, squares = {};
            for (int i = 0; i < n; i++) forces[i] = lambda[i] * place[i];
            inertia.velocities(forces, base, v);
            for (int i = 0; i < n; i++) {
                Vec x = place[i], d = h * v[i];
                T along = dot(x, d), length = dot(x, x), square = dot(d, d);
                f[i] = fma(2.0, along, square) - lacking(1.0, x);
                residual += absolute(f[i]) + select(along + length > 0.0, T{}, T{} + 1.0);
                squares += square;
            }
            Mask<T> halves = (residual <= 0.5 * last) | (residual > acceptable);
            Mask<T> rounds = residual * residual > (round_off * round_off * n) * squares;
            active = active & (residual > 0.0) & rounds & halves;
            if (!any(active)) break;
            for (int i = 0; i < n; i++) ends[i] = axpy(h, v[i], place[i]);
            inertia.factor(ends, place);
            inertia.solve(ends, place, f);
            for (int i = 0; i < n; i++)
                lambda[i] = select(active, fma(-0.5 / h, f[i], lambda[i]), lambda[i]);
            last = select(active, residual, last);
        }
    }

    // As `_sum_series` in integrators/solvers/multipliers.py; where that suffices.
    Mask<T> series(double h, const Vec* p, Vec* v, const T* lambda, T* added) const {
        const double(*w)[n] = inertia.inverse;
        Vec q0 = place[0], q1 = place[1];
        double half = 0.5 * h, shorter = -0.5 / h;
        T cosine = dot(q0, q1);
        Vec p0 = axpy(lambda[0], q0, p[0]), p1 = axpy(lambda[1], q1, p[1]);
        Vec v0 = axpy(w[0][1], p1, w[0][0] * p0), v1 = axpy(w[1][1], p1, w[1][0] * p0);
        T square0 = dot(v0, v0), square1 = dot(v1, v1);
        T along0 = dot_from(shorter * lacking(1.0, q0), q0, v0);
        T along1 = dot_from(shorter * lacking(1.0, q1), q1, v1);
        T r0 = fma(half, square0, along0), r1 = fma(half, square1, along1);
        T a00 = fma(h * w[0][0], along0, w[0][0]);
        T a01 = fma(h * w[0][1], dot(q1, v0), w[0][1] * cosine);
        T a10 = fma(h * w[1][0], dot(q0, v1), w[1][0] * cosine);
        T a11 = fma(h * w[1][1], along1, w[1][1]);
        T inverse = 1.0 / fma(a00, a11, -(a01 * a10));
        double s = half * w[0][0] * w[0][0], t = half * w[0][1] * w[0][1];
        double u = half * w[1][1] * w[1][1];
        T l = h * w[0][0] * w[0][1] * cosine, m = h * w[1][0] * w[1][1] * cosine;
        T x0 = fma(a01, r1, -(a11 * r0)) * inverse, y0 = fma(a10, r0, -(a00 * r1)) * inverse;
        T xs = fma(a01, t, -(a11 * s)) * inverse, ys = fma(a10, s, -(a00 * t)) * inverse;
        T xm = fma(a01, m, -(a11 * l)) * inverse, ym = fma(a10, l, -(a00 * m)) * inverse;
        T xt = fma(a01, u, -(a11 * t)) * inverse, yt = fma(a10, t, -(a00 * u)) * inverse;
        T x = x0, y = y0, last = {}, before = {};
        for (int term = 0; term < 4; term++) {
            T better_x = fma(x, fma(xs, x, xm * y), fma(xt * y, y, x0));
            T better_y = fma(x, fma(ys, x, ym * y), fma(yt * y, y, y0));
            before = last;
            last = absolute(better_x - x) + absolute(better_y - y);
            x = better_x;
            y = better_y;
        }
        T squares = square0 + square1, coming = (w[0][0] + w[1][1]) * (last * last);
        T limit = round_off * before;
        v[0] = axpy(w[0][0] * x, q0, axpy(w[0][1] * y, q1, v0));
        v[1] = axpy(w[1][0] * x, q0, axpy(w[1][1] * y, q1, v1));
        added[0] = x;
        added[1] = y;
        return (coming * coming <= limit * limit * squares) & (h * h * squares < 1.0);
    }

    void solve(double h, const Vec* p, Vec* v, T* lambda) {
        Mask<T> solved = nowhere<T>();
        Vec summed[n];
        T added[n] = {};
        if constexpr (std::is_same_v<Inertia, Full<T, 2>>) {
            solved = series(h, p, summed, lambda, added);
            if (all(solved)) {
                for (int i = 0; i < n; i++) {
                    v[i] = summed[i];
                    lambda[i] += added[i];
                }
                return;
            }
        }
        Vec base[n], none[n] = {};
        inertia.velocities(p, none, base);
        multipliers(h, base, v, lambda, solved == nowhere<T>());
        for (int i = 0; i < n; i++) {
            v[i] = select<T>(solved, summed[i], v[i]);
            lambda[i] += select(solved, added[i], T{});
        }
    }

    void step(double h, double kick, const T* start, T* lambda) {
        Vec p[n], change[n], v[n];
        for (int i = 0; i < n; i++) {
            change[i] = axpy(-kick, g[i], momentum[i].lost);
            p[i] = momentum[i].value + change[i];
            lambda[i] = start[i];
        }
        solve(h, p, v, lambda);
        for (int i = 0; i < n; i++) momentum[i].add_by(axpy(lambda[i], place[i], change[i]));
        for (int i = 0; i < n; i++) q[i].add_by(axpy(h, v[i], q[i].lost));
        moved();
    }

    void begin(const Vec* y) {
        Vec v[n], p[n];
        for (int i = 0; i < n; i++) {
            q[i] = {y[i]};
            v[i] = cross(y[n + i], y[i]);  // (2.10)
        }
        inertia.momenta(v, p);
        for (int i = 0; i < n; i++) momentum[i] = {p[i]};
        moved();
    }

    // The half kick of (3.12), then q_i.v_i = 0.
    void end(double kick, Vec* y) {
        Vec p[n], base[n], v[n], none[n] = {};
        T lambda[n];
        for (int i = 0; i < n; i++) p[i] = axpy(-kick, g[i], momentum[i].value);
        inertia.velocities(p, none, base);
        for (int i = 0; i < n; i++) lambda[i] = -dot(place[i], base[i]);
        inertia.factor(place, place);
        inertia.solve(place, place, lambda);
        for (int i = 0; i < n; i++) p[i] = lambda[i] * place[i];
        inertia.velocities(p, base, v);
        for (int i = 0; i < n; i++) {
            y[i] = place[i];
            y[n + i] = cross(place[i], v[i]);
        }
    }
};

template <typename T, int n, typename Inertia,
          void gradient(const double*, const Vector<T>*, Vector<T>*), bool compensated>
static void integrate(T* state, const double* parameters, double h, long steps) {
    auto y = reinterpret_cast<Vector<T>*>(state);  // n rows of q, n rows of omega
    Integrator<T, n, Inertia, gradient, compensated> integrator(parameters);
    integrator.begin(y);
    T newest[n] = {}, middle[n] = {}, oldest[n] = {}, start[n], lambda[n];
    for (long k = 0; k < steps; k++) {
        for (int i = 0; i < n; i++)  // a parabola through the last three steps, if there are
            start[i] = k >= 3   ? 3.0 * (newest[i] - middle[i]) + oldest[i]
                       : k == 2 ? 2.0 * newest[i] - middle[i]
                                : newest[i];
        integrator.step(h, k == 0 ? 0.5 * h : h, start, lambda);
        for (int i = 0; i < n; i++) {
            oldest[i] = middle[i];
            middle[i] = newest[i];
            newest[i] = lambda[i];
        }
    }
    integrator.end(0.5 * h, y);
}

extern "C" void double_pendulum(double* y, const double* p, double h, long steps) {
    integrate<double, 2, Full<double, 2>, hanging<double, 2>, true>(y, p, h, steps);
}

extern "C" void double_pendulum_lanes(double* y, const double* p, double h, long steps) {
    integrate<v8, 2, Full<v8, 2>, hanging<v8, 2>, true>(reinterpret_cast<v8*>(y), p, h, steps);
}

extern "C" void double_pendulum_uncompensated(double* y, const double* p, double h, long steps) {
    integrate<double, 2, Full<double, 2>, hanging<double, 2>, false>(y, p, h, steps);
}

extern "C" void rod(double* y, const double* p, double h, long steps) {
    integrate<double, 10, Chain<double, 10>, bending<double, 10>, true>(y, p, h, steps);
}

extern "C" void rod_lanes(double* y, const double* p, double h, long steps) {
    integrate<v8, 10, Chain<v8, 10>, bending<v8, 10>, true>(reinterpret_cast<v8*>(y), p, h, steps);
}

extern "C" void rod_full(double* y, const double* p, double h, long steps) {
    integrate<double, 10, Full<double, 10>, bending<double, 10>, true>(y, p, h, steps);
}
