// The explicit variational integrator on two-spheres, (3.17)-(3.18) of Lee, Leok, McClamroch,
// Lagrangian mechanics and variational integrators on two-spheres, for its Example 2: n bodies
// under V = -gamma sum_{i<j} c/sqrt(1-c^2), c = q_i.q_j. Compensated sums; half kicks merged.

#include "vectors.hpp"

// dV/dq_i = -gamma sum_{j!=i} q_j (1-c^2)^(-3/2), as in (3.21).
template <typename T, int n>
static void gradient(const Sum<T, true>* q, double gamma, Vector<T>* g) {
    for (int i = 0; i < n; i++) g[i] = Vector<T>();
    for (int i = 1; i < n; i++) {
        for (int j = 0; j < i; j++) {
            T c = dot(q[i].value, q[j].value), s = 1.0 - c * c;
            T pull = -gamma / (s * square_root(s));
            g[i] = g[i] + pull * q[j].value;
            g[j] = g[j] + pull * q[i].value;
        }
    }
}

template <typename T, int n>
static void integrate(T* state, const double* inverse_mass, double gamma, double h, long steps) {
    auto y = reinterpret_cast<Vector<T>*>(state);  // n rows of q, n rows of omega
    Sum<T, true> q[n], omega[n];
    Vector<T> g[n];
    for (int i = 0; i < n; i++) {
        q[i] = {y[i]};
        omega[i] = {y[n + i]};
    }
    gradient<T, n>(q, gamma, g);
    double kick = 0.5 * h;
    for (long k = 0; k < steps; k++) {
        for (int i = 0; i < n; i++) {
            // (3.18) and the next step's half kick; omega stays orthogonal to q.
            Vector<T> x = q[i].value, torque = cross(x, g[i]);
            T off = dot(x, omega[i].value);
            omega[i].add(-off * x + (-kick * inverse_mass[i]) * torque);
            // (3.17) as an increment, with the term that restores |q| = 1.
            Vector<T> a = h * omega[i].value;
            T squared = dot(a, a);
            T shrink = squared / (1.0 + square_root(1.0 - squared));
            T restore = 0.5 * (1.0 - dot(x, x));
            q[i].add((restore - shrink) * x + cross(a, x));
        }
        gradient<T, n>(q, gamma, g);
        kick = h;
    }
    for (int i = 0; i < n; i++) {
        y[i] = q[i].value;
        Vector<T> torque = cross(q[i].value, g[i]);
        y[n + i] = (-0.5 * h * inverse_mass[i]) * torque + omega[i].value;  // (3.18)
    }
}

extern "C" void three_bodies(double* y, const double* inverse_mass, double gamma, double h,
                             long steps) {
    integrate<double, 3>(y, inverse_mass, gamma, h, steps);
}

extern "C" void three_bodies_lanes(double* y, const double* inverse_mass, double gamma, double h,
                                   long steps) {
    integrate<v8, 3>(reinterpret_cast<v8*>(y), inverse_mass, gamma, h, steps);
}
