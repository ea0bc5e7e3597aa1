// Strang's splitting of a closed Heisenberg chain with an even number of spins into its bonds of
// two colours, H = sum w_i.w_{i+1}: section 3.5 of McLachlan, Modin, Verdier, A minimal-variable
// symplectic integrator on spheres. Compensated sums; half steps merged. The rotation's sine and
// cosine by fixed polynomials, p: the coefficients of sin(a)/a and of (1 - cos(a))/a^2 in a^2.

#include "vectors.hpp"

constexpr int turns = 8;  // stages in which every spin is led back to its length once

template <typename T>
static T polynomial(const double* c, T x) {
    T square = x * x;
    T high = fma(square, fma(c[5], x, c[4]), fma(c[3], x, c[2]));
    return c[0] + fma(c[1], x, square * high);
}

// The flow of w_i.w_j: both turn about their sum.
template <typename T>
static inline void turn_bond(const double* p, Sum<T, true>& v, Sum<T, true>& w, double h) {
    Vector<T> axis = -h * (v.value + w.value);
    Vector<T> slope = h * cross(v.value, w.value);
    T x = dot(axis, axis);
    Vector<T> d = axpy(polynomial(p + 6, x), cross(axis, slope), polynomial(p, x) * slope);
    v.add(d);
    w.add(-1.0 * d);
}

template <typename T, int n>
static void integrate(T* state, const double* p, double h, long steps) {
    auto y = reinterpret_cast<Vector<T>*>(state);
    Sum<T, true> w[n];
    for (int i = 0; i < n; i++) w[i] = {y[i]};
    double share = 0.5 * h;
    for (long k = 0; k < steps; k++) {
        for (int i = 0; i < n; i += 2) turn_bond(p, w[i], w[i + 1], share);
        for (int i = 1; i < n - 1; i += 2) turn_bond(p, w[i], w[i + 1], h);
        turn_bond(p, w[n - 1], w[0], h);
        for (int i = k % turns; i < n; i += turns) {  // back to unit length
            Vector<T> x = w[i].value;
            w[i].lost = axpy(0.5 * lacking(1.0, x), x, w[i].lost);
        }
        share = h;
    }
    for (int i = 0; i < n; i += 2) turn_bond(p, w[i], w[i + 1], 0.5 * h);
    for (int i = 0; i < n; i++) y[i] = w[i].value;
}

extern "C" void bonds_16(double* y, const double* p, double h, long steps) {
    integrate<double, 16>(y, p, h, steps);
}

extern "C" void bonds_16_lanes(double* y, const double* p, double h, long steps) {
    integrate<v8, 16>(reinterpret_cast<v8*>(y), p, h, steps);
}
