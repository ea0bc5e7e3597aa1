// The spherical midpoint method of McLachlan, Modin and Verdier, A minimal-variable symplectic
// integrator on spheres, (4), by fixed-point iteration from a start extrapolated through the last
// eight steps, for the free rigid body, the Heisenberg chain and point vortices. The arithmetic is
// that of integrators/methods/midpoints.py and fixed_point.py, without the acceleration of slow cases.

#include "vectors.hpp"

static const int depth = 8;
static const double smooth = 0x1p-74;
static const double two_pi = 2.0 * 3.141592653589793;

// H = w.I^-1 w/2, p = 1/I
template <typename T>
static void rigid(const double* p, const Vector<T>* w, Vector<T>* g) {
    g[0] = {p[0] * w[0].x, p[1] * w[0].y, p[2] * w[0].z};
}

// H = sum w_{i-1}.w_i, closed
template <typename T, int n>
static void ring(const double*, const Vector<T>* w, Vector<T>* g) {
    for (int i = 0; i < n; i++) g[i] = w[i == 0 ? n - 1 : i - 1] + w[i == n - 1 ? 0 : i + 1];
}

// H = -sum k_i k_j ln|w_i - w_j|^2/4 pi, p = (n, k)
template <typename T, int n>
static void vortices(const double* p, const Vector<T>* w, Vector<T>* g) {
    for (int i = 0; i < n; i++) g[i] = Vector<T>();
    for (int i = 1; i < n; i++) {
        for (int j = 0; j < i; j++) {
            Vector<T> apart = w[i] - w[j];
            T push = -(p[1 + i] * p[1 + j] / two_pi) / dot(apart, apart);
            g[i] = g[i] + push * apart;
            g[j] = g[j] + (-push) * apart;
        }
    }
}

template <typename T, int n, void gradient(const double*, const Vector<T>*, Vector<T>*)>
static void spherical_midpoint(T* state, const double* p, double h, long steps) {
    typedef Vector<T> Vec;
    auto y = reinterpret_cast<Vec*>(state);
    Sum<T, true> w[n];
    Vec u[n], g[n], change[n] = {}, recent[depth][n] = {};
    T inverse[n];
    for (int i = 0; i < n; i++) {
        w[i] = {y[i]};
        inverse[i] = T{} + 1.0;
    }
    for (long k = 0; k < steps; k++) {
        long known = k < depth ? k : depth, m = known > 1 ? known - 1 : known;
        double side = known > 1 ? 2.0 * (k % 2) : 0.0, difference = 1.0;
        if (known == 0)
            for (int i = 0; i < n; i++) u[i] = w[i].value;
        for (long j = 1; j <= known; j++) {
            const Vec* before = recent[(k - j) % depth];
            double weight = -difference * (m - j + 1) / j, share = side * difference - weight;
            for (int i = 0; i < n; i++)
                u[i] = j == 1 ? share * before[i] : axpy(share, before[i], u[i]);
            difference = weight;
        }
        T last = T{} + INFINITY, left = last;
        Mask<T> active = everywhere<T>();
        for (int iteration = 0; iteration < 100; iteration++) {
            gradient(p + 2 * n, u, g);
            T squares = {}, differences = {};
            for (int i = 0; i < n; i++) {
                Vec d = h * cross(p[n + i] * u[i], g[i]), m = axpy(0.5, d, w[i].value);
                T near = inverse[i], ratio = dot(m, m) * near * near;
                T root = near * fma(-ratio, fma(-0.375, ratio, 1.25), 1.875);
                if (any(ratio > 1.5)) root = select(ratio > 1.5, 1.0 / square_root(dot(m, m)), root);
                Vec moved = root * m - u[i], corrected = d - change[i];
                squares = squares + dot(moved, moved);
                differences = differences + dot(corrected, corrected);
                change[i] = select<T>(active, d, change[i]);
                u[i] = select<T>(active, root * m, u[i]);
                inverse[i] = select(active, root, inverse[i]);
            }
            T guess = 0.5 * left * differences / last;
            left = iteration > 0 ? select(guess < squares, guess, squares) : squares;
            active = active & (left > smooth * smooth * n);
            if (!any(active)) break;
            last = squares;
        }
        for (int i = 0; i < n; i++) {
            recent[k % depth][i] = u[i];
            Vec end = w[i].value + change[i];
            w[i].add(axpy(0.5 * lacking(1.0, w[i].value), end, change[i]));
        }
    }
    for (int i = 0; i < n; i++) y[i] = w[i].value;
}

extern "C" void rigid_body(double* y, const double* p, double h, long steps) {
    spherical_midpoint<double, 1, rigid<double>>(y, p, h, steps);
}

extern "C" void rigid_body_lanes(double* y, const double* p, double h, long steps) {
    spherical_midpoint<v8, 1, rigid<v8>>(reinterpret_cast<v8*>(y), p, h, steps);
}

extern "C" void ring_100(double* y, const double* p, double h, long steps) {
    spherical_midpoint<double, 100, ring<double, 100>>(y, p, h, steps);
}

extern "C" void ring_100_lanes(double* y, const double* p, double h, long steps) {
    spherical_midpoint<v8, 100, ring<v8, 100>>(reinterpret_cast<v8*>(y), p, h, steps);
}

extern "C" void four_vortices(double* y, const double* p, double h, long steps) {
    spherical_midpoint<double, 4, vortices<double, 4>>(y, p, h, steps);
}

extern "C" void four_vortices_lanes(double* y, const double* p, double h, long steps) {
    spherical_midpoint<v8, 4, vortices<v8, 4>>(reinterpret_cast<v8*>(y), p, h, steps);
}
