// The implicit variational integrator on two-spheres, (3.10)-(3.13) of Lee, Leok, McClamroch,
// Lagrangian mechanics and variational integrators on two-spheres, in multiplier form (RATTLE),
// for its Examples 1, a chain of pendula, and 4, an elastic rod. Half kicks merged.
// Unknown are the multipliers in  p_i' = p_i - k g_i + lambda_i q_i,  d = h M^-1 p',  from
// 2 q_i.d_i + d_i.d_i = 1 - q_i.q_i, which Newton's method solves.

#include "inertia.hpp"

static const double round_off = 0x1p-50, acceptable = 1e-12;

// V = -sum p_i e3.q_i
template <int n>
static void hanging(const double* p, const Vec* q, Vec* g) {
    for (int i = 0; i < n; i++) g[i] = {0.0, 0.0, -p[i]};
}

// V = -sum p_i e3.q_i + sum k_i/2 (1 - q_{i-1}.q_i)^2, where q_{-1} = e1
template <int n>
static void bending(const double* p, const Vec* q, Vec* g) {
    g[0] = {-(p[n] * (1.0 - q[0].x)), 0.0, -p[0]};
    for (int i = 1; i < n; i++) {
        double torque = p[n + i] * (1.0 - dot(q[i - 1], q[i]));
        g[i - 1] = g[i - 1] - torque * q[i];
        g[i] = -torque * q[i - 1];
        g[i].z -= p[i];
    }
}

template <int n, typename Inertia, void gradient(const double*, const Vec*, Vec*), bool compensated>
struct Integrator {
    Inertia inertia;
    const double* own;
    Sum<double, compensated> q[n], momentum[n];
    Vec g[n], place[n];  // place: the values of q

    explicit Integrator(const double* p) : inertia(p), own(p + Inertia::size) {}

    void moved() {
        for (int i = 0; i < n; i++) place[i] = q[i].value;
        gradient(own, place, g);
    }

    // Newton iterations, until the residual is at round-off or no longer halves; leaves
    // v = M^-1 p'.
    void multipliers(double h, const Vec* base, Vec* v, double* lambda) {
        double last = INFINITY;
        for (int iteration = 0; iteration < 60; iteration++) {
            Vec forces[n], ends[n];
            double f[n], residual = 0.0, squares = 0.0;
            for (int i = 0; i < n; i++) forces[i] = lambda[i] * place[i];
            inertia.velocities(forces, base, v);
            for (int i = 0; i < n; i++) {
                Vec x = place[i], d = h * v[i];
                double along = dot(x, d), length = dot(x, x), square = dot(d, d);
                f[i] = fma(2.0, along, square) - lacking(1.0, x);
                residual += std::fabs(f[i]) + (along + length > 0.0 ? 0.0 : 1.0);
                squares += square;
            }
            bool halves = residual <= 0.5 * last || residual > acceptable;
            bool rounds = residual * residual > (round_off * round_off * n) * squares;
            if (!(residual > 0.0 && rounds && halves)) break;
            for (int i = 0; i < n; i++) ends[i] = axpy(h, v[i], place[i]);
            inertia.factor(ends, place);
            inertia.solve(ends, place, f);
            for (int i = 0; i < n; i++) lambda[i] = fma(-0.5 / h, f[i], lambda[i]);
            last = residual;
        }
    }

    void step(double h, double kick, const double* start, double* lambda) {
        Vec p[n], base[n], v[n], none[n] = {};
        for (int i = 0; i < n; i++) p[i] = axpy(-kick, g[i], momentum[i].value);
        inertia.velocities(p, none, base);
        for (int i = 0; i < n; i++) lambda[i] = start[i];
        multipliers(h, base, v, lambda);
        for (int i = 0; i < n; i++) momentum[i].add(axpy(-kick, g[i], lambda[i] * place[i]));
        for (int i = 0; i < n; i++) q[i].add(h * v[i]);
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
        double lambda[n];
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

template <int n, typename Inertia, void gradient(const double*, const Vec*, Vec*), bool compensated>
static void integrate(double* state, const double* parameters, double h, long steps) {
    auto y = reinterpret_cast<Vec*>(state);  // n rows of q, n rows of omega
    Integrator<n, Inertia, gradient, compensated> integrator(parameters);
    integrator.begin(y);
    double newest[n] = {}, middle[n] = {}, oldest[n] = {}, start[n], lambda[n];
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
    integrate<2, Full<2>, hanging<2>, true>(y, p, h, steps);
}

extern "C" void double_pendulum_uncompensated(double* y, const double* p, double h, long steps) {
    integrate<2, Full<2>, hanging<2>, false>(y, p, h, steps);
}

extern "C" void rod(double* y, const double* p, double h, long steps) {
    integrate<10, Chain<10>, bending<10>, true>(y, p, h, steps);
}

extern "C" void rod_full(double* y, const double* p, double h, long steps) {
    integrate<10, Full<10>, bending<10>, true>(y, p, h, steps);
}
