// Strang's splitting of a closed Heisenberg chain with an even number of spins into its bonds of
// two colours, H = sum w_i.w_{i+1}: section 3.5 of McLachlan, Modin, Verdier, A minimal-variable
// symplectic integrator on spheres. What a step changes is summed apart, and then folded into the
// state; half steps merged. The rotation's sine and cosine by fixed polynomials, p: the
// coefficients of sin(a)/a and of (1 - cos(a))/a^2 in a^2.

#include "vectors.hpp"

constexpr int turns = 8;  // steps in which every spin is led back to its length once

template <typename T>
static T polynomial(const double* c, T x) {
    T square = x * x;
    T high = fma(square, fma(c[5], x, c[4]), fma(c[3], x, c[2]));
    return c[0] + fma(c[1], x, square * high);
}

// A spin, and what a step has changed of it.
template <typename T>
struct Spin {
    Vector<T> value, low = {};

    void fold() {
        Vector<T> old = value;
        value = old + low;
        low = low - (value - old);
    }
};

// The flow of w_i.w_j: both turn about their sum.
template <typename T>
static inline void turn_bond(const double* p, Spin<T>& v, Spin<T>& w, double h) {
    Vector<T> here = v.value + v.low, there = w.value + w.low, s = here + there;
    T x = h * (h * dot(s, s));
    Vector<T> turn = h * cross(here, there);
    Vector<T> d = axpy(h * polynomial(p + 6, x), cross(turn, s), polynomial(p, x) * turn);
    v.low = v.low + d;
    w.low = w.low - d;
}

template <typename T, int n>
static void integrate(T* state, const double* p, double h, long steps) {
    auto y = reinterpret_cast<Vector<T>*>(state);
    Spin<T> w[n];
    for (int i = 0; i < n; i++) w[i] = {y[i]};
    double share = 0.5 * h;
    for (long k = 0; k < steps; k++) {
        for (int i = 0; i < n; i += 2) turn_bond(p, w[i], w[i + 1], share);
        for (int i = 1; i < n - 1; i += 2) turn_bond(p, w[i], w[i + 1], h);
        turn_bond(p, w[n - 1], w[0], h);
        for (int i = 0; i < n; i++) w[i].fold();
        for (int i = k % turns; i < n; i += turns) {  // back to unit length
            Vector<T> x = w[i].value;
            w[i].low = axpy(0.5 * (lacking(1.0, x) - 2.0 * dot(x, w[i].low)), x, w[i].low);
        }
        share = h;
    }
    for (int i = 0; i < n; i += 2) turn_bond(p, w[i], w[i + 1], 0.5 * h);
    for (int i = 0; i < n; i++) y[i] = w[i].value + w[i].low;
}

extern "C" void bonds_16(double* y, const double* p, double h, long steps) {
    integrate<double, 16>(y, p, h, steps);
}

extern "C" void bonds_16_lanes(double* y, const double* p, double h, long steps) {
    integrate<v8, 16>(reinterpret_cast<v8*>(y), p, h, steps);
}
