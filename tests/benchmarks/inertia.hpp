// What M is applied and constraints are solved by, in the order of integrators/solvers/constraints.py:
// a full matrix, and that of a chain of links in O(n).

#pragma once

#include "vectors.hpp"

template <typename T, int n>
struct Full {
    typedef Vector<T> Vec;
    const double (*mass)[n], (*inverse)[n];  // M, M^-1
    T a[n][n];

    static constexpr int size = 2 * n * n;

    explicit Full(const double* p)
        : mass(reinterpret_cast<const double(*)[n]>(p)), inverse(mass + n) {}

    void momenta(const Vec* v, Vec* out) const {
        for (int i = 0; i < n; i++) {
            out[i] = mass[i][0] * v[0];
            for (int j = 1; j < n; j++) out[i] = axpy(mass[i][j], v[j], out[i]);
        }
    }

    void velocities(const Vec* x, const Vec* start, Vec* out) const {
        for (int i = 0; i < n; i++) {
            Vec total = start[i];
            for (int j = 0; j < n; j++) total = axpy(inverse[i][j], x[j], total);
            out[i] = total;
        }
    }

    // LU of A_ij = (M^-1)_ij Q_i.q_j; the diagonal becomes that of U^-1.
    void factor(const Vec* ends, const Vec* q) {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) a[i][j] = inverse[i][j] * dot(ends[i], q[j]);
        for (int k = 0; k < n; k++) {
            a[k][k] = 1.0 / a[k][k];
            for (int i = k + 1; i < n; i++) {
                a[i][k] *= a[k][k];
                for (int j = k + 1; j < n; j++) a[i][j] = fma(-a[i][k], a[k][j], a[i][j]);
            }
        }
    }

    void solve(const Vec*, const Vec*, T* x) const {
        for (int i = 0; i < n; i++)
            for (int k = 0; k < i; k++) x[i] = fma(-a[i][k], x[k], x[i]);
        for (int i = n - 1; i >= 0; i--) {
            for (int k = i + 1; k < n; k++) x[i] = fma(-a[i][k], x[k], x[i]);
            x[i] *= a[i][i];
        }
    }
};

template <typename T, int n>
struct Chain {
    typedef Vector<T> Vec;
    struct Link {
        double length, mass, coupling, inertia;
    };
    struct Inverse {
        double own, x, y, t;
    };
    struct Factor {
        T inverse;
        Vec b, c;
    };
    const Link* link;
    const Inverse* w;
    Factor a[n];

    static constexpr int size = 8 * n;

    explicit Chain(const double* p)
        : link(reinterpret_cast<const Link*>(p)), w(reinterpret_cast<const Inverse*>(p + 4 * n)) {}

    void momenta(const Vec* v, Vec* out) const {
        Vec joint = 0.0 * v[0];
        for (int i = 0; i < n; i++) out[i] = joint = axpy(link[i].length, v[i], joint);
        Vec total = 0.0 * joint, beyond = total;
        for (int k = n - 1; k >= 0; k--) {
            joint = out[k];
            total = total + axpy(link[k].coupling, beyond, link[k].mass * joint);
            if (k > 0) total = axpy(link[k - 1].coupling, out[k - 1], total);
            out[k] = link[k].length * total;
            beyond = joint;
        }
    }

    void velocities(const Vec* x, const Vec* start, Vec* out) const {
        Vec before = 0.0 * x[0], after = before;
        for (int i = 0; i < n; i++) {
            out[i] = axpy(w[i].x, before, axpy(w[i].own, x[i], start[i]));
            before = axpy(w[i].t, before, w[i].y * x[i]);
        }
        for (int i = n - 1; i >= 0; i--) {
            out[i] = axpy(w[i].y, after, out[i]);
            after = axpy(w[i].t, after, w[i].x * x[i]);
        }
    }

    void factor(const Vec* ends, const Vec* q) {
        Vec s0 = 0.0 * q[0], s1 = s0, s2 = s0;
        for (int k = 0; k < n; k++) {
            double x = w[k].x, y = w[k].y, t = w[k].t;
            Vec end = ends[k], here = q[k];
            Vec right = {dot(s0, here), dot(s1, here), dot(s2, here)};
            Vec left = axpy(end.x, s0, axpy(end.y, s1, end.z * s2));
            T inverse = 1.0 / (w[k].own * dot(end, here) - (x * x) * dot(end, right));
            Vec b = axpy(-(t * x), right, y * here);
            Vec c = inverse * axpy(-(t * x), left, y * end);
            s0 = axpy(t * t, s0, b.x * c);
            s1 = axpy(t * t, s1, b.y * c);
            s2 = axpy(t * t, s2, b.z * c);
            a[k] = {inverse, inverse * b, c};
        }
    }

    void solve(const Vec* ends, const Vec* q, T* x) const {
        Vec before = 0.0 * q[0], after = before;
        for (int k = 0; k < n; k++) {
            T s = fma(-w[k].x, dot(ends[k], before), x[k]);
            before = axpy(s, a[k].b, w[k].t * before);
            x[k] = s * a[k].inverse;
        }
        for (int k = n - 1; k >= 0; k--) {
            x[k] -= dot(a[k].c, after);
            after = axpy(w[k].x * x[k], q[k], w[k].t * after);
        }
    }
};
