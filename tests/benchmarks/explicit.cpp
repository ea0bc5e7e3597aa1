// The explicit variational integrator on two-spheres, (3.17)-(3.18) of Lee, Leok, McClamroch,
// Lagrangian mechanics and variational integrators on two-spheres, for its Examples 2, 3, 5 and 6.
// Compensated sums; half kicks merged. Parameters p: M_i and 1/M_i of each body, then the
// potential's own.

#include "vectors.hpp"

// V = -gamma sum_{i<j} c/sqrt(1-c^2), c = q_i.q_j: dV/dq_i = -gamma sum_{j!=i} q_j (1-c^2)^(-3/2),
// as in (3.21).
template <typename T, int n>
static void attraction(const double* p, const Vector<T>* q, Vector<T>* g) {
    for (int i = 0; i < n; i++) g[i] = Vector<T>();
    for (int i = 1; i < n; i++) {
        for (int j = 0; j < i; j++) {
            T c = dot(q[i], q[j]), s = 1.0 - c * c;
            T pull = -p[0] / (s * square_root(s));
            g[i] = g[i] + pull * q[j];
            g[j] = g[j] + pull * q[i];
        }
    }
}

// Springs between the middles of links; p: m_i g l_i, l_i/2, their number, then for each i, j, k, |r|, r.
template <typename T, int n, int edges>
static void springs(const double* p, const Vector<T>* q, Vector<T>* g) {
    for (int i = 0; i < n; i++) g[i] = {T{}, T{}, T{} - p[i]};
    for (int k = 0; k < edges; k++) {
        const double* edge = p + 2 * n + 1 + 7 * k;
        int i = edge[0], j = edge[1];
        Vector<T> r = {T{} + edge[4], T{} + edge[5], T{} + edge[6]};
        Vector<T> d = axpy(-p[n + i], q[i], axpy(p[n + j], q[j], r));
        T length = square_root(dot(d, d));
        Vector<T> tension = (edge[2] * (length - edge[3]) / length) * d;
        g[i] = g[i] + -p[n + i] * tension;
        g[j] = g[j] + p[n + j] * tension;
    }
}

// K q; p: for eight rows of K at a time all columns.
template <typename T, int n>
static void dipoles(const double* p, const Vector<T>* q, Vector<T>* g) {
    auto columns = reinterpret_cast<const double(*)[3][8]>(p);
    auto out = reinterpret_cast<T*>(g);
    for (int first = 0; first < 3 * n; first += 8, columns += n) {
        T x[8], y[8], z[8];
        for (int i = 0; i < 8; i++) {
            x[i] = columns[0][0][i] * q[0].x;
            y[i] = columns[0][1][i] * q[0].y;
            z[i] = columns[0][2][i] * q[0].z;
        }
        for (int j = 1; j < n; j++) {
            for (int i = 0; i < 8; i++) {
                x[i] += columns[j][0][i] * q[j].x;
                y[i] += columns[j][1][i] * q[j].y;
                z[i] += columns[j][2][i] * q[j].z;
            }
        }
        for (int i = 0; i < 8; i++) out[first + i] = x[i] + y[i] + z[i];
    }
}

// (3.27), pair by pair; p: sigma^2, 4 epsilon, 24 epsilon/sigma^2.
template <int n>
static void molecules(const double* p, const Vector<double>* q, Vector<double>* __restrict g) {
    const double squared = p[0], strength = p[2];
    for (int i = 0; i < n; i++) g[i] = {};
    for (int i = 0; i < n; i++) {
        Vector<double> x = q[i], total = g[i];
        for (int j = i + 1; j < n; j++) {
            Vector<double> d = x - q[j];
            double s = squared / dot(d, d), s2 = s * s, s3 = s2 * s;
            Vector<double> pull = (s2 * s2 * (1.0 - 2.0 * s3)) * d;
            total = total + pull;
            g[j] = g[j] - pull;
        }
        g[i] = strength * total;
    }
}

template <typename T, int n, void gradient(const double*, const Vector<T>*, Vector<T>*)>
static void integrate(T* state, const double* p, double h, long steps) {
    auto y = reinterpret_cast<Vector<T>*>(state);  // n rows of q, n rows of omega
    const double *inverse_mass = p + n, *own = p + 2 * n;
    Sum<T, true> q[n], omega[n];
    Vector<T> g[n], place[n];
    for (int i = 0; i < n; i++) {
        q[i] = {place[i] = y[i]};
        omega[i] = {y[n + i]};
    }
    gradient(own, place, g);
    double kick = 0.5 * h;
    for (long k = 0; k < steps; k++) {
        for (int i = 0; i < n; i++) {
            // (3.18) and the next step's half kick; omega stays orthogonal to q.
            Vector<T> x = q[i].value, torque = cross(x, g[i]);
            T off = dot(x, omega[i].value);
            omega[i].add(axpy(-off, x, (-kick * inverse_mass[i]) * torque));
            // (3.17) as an increment, with the term that restores |q| = 1.
            Vector<T> a = h * omega[i].value;
            T squared = dot(a, a);
            T shrink = squared / (1.0 + square_root(1.0 - squared));
            T restore = 0.5 * lacking(1.0, x);
            q[i].add(axpy(restore - shrink, x, cross(a, x)));
            place[i] = q[i].value;
        }
        gradient(own, place, g);
        kick = h;
    }
    for (int i = 0; i < n; i++) {
        y[i] = place[i];
        Vector<T> torque = cross(place[i], g[i]);
        y[n + i] = axpy(-0.5 * h * inverse_mass[i], torque, omega[i].value);  // (3.18)
    }
}

extern "C" void three_bodies(double* y, const double* p, double h, long steps) {
    integrate<double, 3, attraction<double, 3>>(y, p, h, steps);
}

extern "C" void three_bodies_lanes(double* y, const double* p, double h, long steps) {
    integrate<v8, 3, attraction<v8, 3>>(reinterpret_cast<v8*>(y), p, h, steps);
}

extern "C" void four_springs(double* y, const double* p, double h, long steps) {
    integrate<double, 4, springs<double, 4, 4>>(y, p, h, steps);
}

extern "C" void four_springs_lanes(double* y, const double* p, double h, long steps) {
    integrate<v8, 4, springs<v8, 4, 4>>(reinterpret_cast<v8*>(y), p, h, steps);
}

extern "C" void sixteen_dipoles(double* y, const double* p, double h, long steps) {
    integrate<double, 16, dipoles<double, 16>>(y, p, h, steps);
}

extern "C" void sixteen_dipoles_lanes(double* y, const double* p, double h, long steps) {
    integrate<v8, 16, dipoles<v8, 16>>(reinterpret_cast<v8*>(y), p, h, steps);
}

extern "C" void molecules_642(double* y, const double* p, double h, long steps) {
    integrate<double, 642, molecules<642>>(y, p, h, steps);
}
