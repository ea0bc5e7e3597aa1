// The implicit variational integrator on two-spheres, (3.10)-(3.13) of Lee, Leok, McClamroch,
// Lagrangian mechanics and variational integrators on two-spheres, in multiplier form (RATTLE),
// for its Example 1: a chain of n pendula, V = -sum p_i e3.q_i. Half kicks merged.
// Unknown are the multipliers in  p_i' = p_i - k g_i + lambda_i q_i,  d = h M^-1 p',  from
// 2 q_i.d_i + d_i.d_i = 1 - q_i.q_i.

#include "vectors.hpp"

static const double round_off = 0x1p-52, acceptable = 1e-12;

// LDL^T of a symmetric matrix, in place; the diagonal becomes that of D^-1.
template <int n>
static void factor(double a[n][n]) {
    for (int j = 0; j < n; j++) {
        double d = a[j][j];
        for (int k = 0; k < j; k++) d -= a[j][k] * a[k][j];
        a[j][j] = 1.0 / d;
        for (int i = j + 1; i < n; i++) {
            double s = a[i][j];
            for (int k = 0; k < j; k++) s -= a[i][k] * a[k][j];
            a[j][i] = s;
            a[i][j] = s * a[j][j];
        }
    }
}

template <int n>
static void solve(const double a[n][n], double* x) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) x[i] -= a[i][k] * x[k];
    for (int i = 0; i < n; i++) x[i] *= a[i][i];
    for (int i = n - 1; i >= 0; i--)
        for (int k = i + 1; k < n; k++) x[i] -= a[k][i] * x[k];
}

typedef Vector<double> Vec;

template <int n, bool compensated>
struct Chain {
    const double (*mass)[n], (*inverse)[n];  // M, M^-1
    const double* weight;                    // p_i
    Sum<double, compensated> q[n], momentum[n];
    Vec g[n];
    double a[n][n];

    // parameters: M and M^-1 (n x n each), then p_i.
    explicit Chain(const double* parameters)
        : mass(reinterpret_cast<const double(*)[n]>(parameters)),
          inverse(mass + n),
          weight(parameters + 2 * n * n) {}

    void gradient() {
        for (int i = 0; i < n; i++) g[i] = {0.0, 0.0, -weight[i]};
    }

    // A_ij = (M^-1)_ij q_i.q_j, factored.
    void constraints() {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) a[i][j] = inverse[i][j] * dot(q[i].value, q[j].value);
        factor<n>(a);
    }

    Vec times(const double* row, const Vec* x) const {
        Vec total = row[0] * x[0];
        for (int j = 1; j < n; j++) total = row[j] * x[j] + total;
        return total;
    }

    // base_i + sum_j (M^-1)_ij lambda_j q_j
    Vec constrained(int i, Vec base, const double* lambda) const {
        for (int j = 0; j < n; j++) base = (inverse[i][j] * lambda[j]) * q[j].value + base;
        return base;
    }

    // Chord iterations with the frozen factors, until the residual is at round-off or no longer
    // halves; leaves v = M^-1 p'.
    void multipliers(double h, const Vec* base, Vec* v, double* lambda) const {
        double last = INFINITY;
        for (int iteration = 0; iteration < 60; iteration++) {
            double f[n], residual = 0.0;
            for (int i = 0; i < n; i++) {
                Vec x = q[i].value;
                v[i] = constrained(i, base[i], lambda);
                Vec d = h * v[i];
                f[i] = 2.0 * dot(x, d) + dot(d, d) - (1.0 - dot(x, x));
                residual += std::fabs(f[i]);
            }
            bool halves = residual <= 0.5 * last || residual > acceptable;
            if (!(residual > 4.0 * round_off * h && halves)) break;
            solve<n>(a, f);
            for (int i = 0; i < n; i++) lambda[i] -= f[i] * (0.5 / h);
            last = residual;
        }
    }

    void step(double h, double kick, const double* start, double* lambda) {
        Vec p[n], base[n], v[n];
        for (int i = 0; i < n; i++) p[i] = -kick * g[i] + momentum[i].value;
        for (int i = 0; i < n; i++) base[i] = times(inverse[i], p);
        for (int i = 0; i < n; i++) lambda[i] = start[i];
        multipliers(h, base, v, lambda);
        for (int i = 0; i < n; i++) momentum[i].add(-kick * g[i] + lambda[i] * q[i].value);
        for (int i = 0; i < n; i++) q[i].add(h * v[i]);
        gradient();
        constraints();
    }

    void begin(const Vec* y) {
        Vec v[n];
        for (int i = 0; i < n; i++) {
            q[i] = {y[i]};
            v[i] = cross(y[n + i], y[i]);  // (2.10)
        }
        for (int i = 0; i < n; i++) momentum[i] = {times(mass[i], v)};
        gradient();
        constraints();
    }

    // The half kick of (3.12), then q_i.v_i = 0.
    void end(double kick, Vec* y) {
        Vec p[n], base[n];
        double lambda[n];
        for (int i = 0; i < n; i++) p[i] = -kick * g[i] + momentum[i].value;
        for (int i = 0; i < n; i++) {
            base[i] = times(inverse[i], p);
            lambda[i] = -dot(q[i].value, base[i]);
        }
        solve<n>(a, lambda);
        for (int i = 0; i < n; i++) {
            y[i] = q[i].value;
            y[n + i] = cross(q[i].value, constrained(i, base[i], lambda));
        }
    }
};

template <int n, bool compensated>
static void integrate(double* state, const double* parameters, double h, long steps) {
    auto y = reinterpret_cast<Vec*>(state);  // n rows of q, n rows of omega
    Chain<n, compensated> chain(parameters);
    chain.begin(y);
    double newest[n] = {}, middle[n] = {}, oldest[n] = {}, start[n], lambda[n];
    for (long k = 0; k < steps; k++) {
        for (int i = 0; i < n; i++)  // a parabola through the last three steps, if there are
            start[i] = k >= 3   ? 3.0 * (newest[i] - middle[i]) + oldest[i]
                       : k == 2 ? 2.0 * newest[i] - middle[i]
                                : newest[i];
        chain.step(h, k == 0 ? 0.5 * h : h, start, lambda);
        for (int i = 0; i < n; i++) {
            oldest[i] = middle[i];
            middle[i] = newest[i];
            newest[i] = lambda[i];
        }
    }
    chain.end(0.5 * h, y);
}

extern "C" void double_pendulum(double* y, const double* parameters, double h, long steps) {
    integrate<2, true>(y, parameters, h, steps);
}

extern "C" void double_pendulum_uncompensated(double* y, const double* parameters, double h,
                                              long steps) {
    integrate<2, false>(y, parameters, h, steps);
}
