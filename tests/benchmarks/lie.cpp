// Lie group methods of Celledoni, Cokaj, Leone, Murari, Owren, Lie group integrators for mechanical
// systems: RKMK4 on Kutta's tableau with dexp^-1 in closed form (section 2.3), and CF4 (9), for
// its N-fold spherical pendulum (section 5) and its two quadrotors with a payload (section 6).
// Compensated sums. A system has `rows` of state and an algebra of `dimension` 3-vectors of its
// `Number`, and offers generator(t, y, f), act(s, y, d): d = exp(s).y - y, and dexpinv(s, v). Time
// starts at 0.

#include "vectors.hpp"

template <typename T>
struct Exponential {
    T sine, versine, rest;  // sin(a)/a, (1 - cos(a))/a^2, (a - sin(a))/a^3
};

static const double short_angle = 0.05;  // squared, up to which six terms of the series do

static Exponential<double> any_exponential(double x) {
    double a = std::sqrt(x), s = std::sin(0.5 * a), c = std::cos(0.5 * a);
    double sine = 2.0 * s * c / a;
    return {sine, 2.0 * s * s / x, (1.0 - sine) / x};
}

static Exponential<v8> any_exponential(v8 x) {
    Exponential<v8> e;
    for (int lane = 0; lane < 8; lane++) {
        auto own = any_exponential(x[lane]);
        e.sine[lane] = own.sine, e.versine[lane] = own.versine, e.rest[lane] = own.rest;
    }
    return e;
}

// sum (-x)^k first!/(first + 2k)!
template <typename T>
static T alternating(T x, int first) {
    T sum = T{} + 1.0;
    for (int k = 5; k >= 1; k--)
        sum = fma(-1.0 / ((first + 2 * k) * (first + 2 * k - 1)), x * sum, T{} + 1.0);
    return sum;
}

template <typename T>
static Exponential<T> exponential(Vector<T> u) {
    T x = dot(u, u);
    if (!all(x < short_angle)) return any_exponential(x);
    return {alternating(x, 1), 0.5 * alternating(x, 2), (1.0 / 6.0) * alternating(x, 3)};
}

// exp(u) x - x by Rodrigues' formula
template <typename T>
static Vector<T> turn(const Exponential<T>& e, Vector<T> u, Vector<T> x) {
    return cross(u, axpy(e.versine, cross(u, x), e.sine * x));
}

// What (A, a) in se(3) adds to a row of q and one of omega: exp(A) = E takes them to
// (Eq, E omega + D a x Eq), D = dexp_A
template <typename T>
static void act_tangent(
    Vector<T> A, Vector<T> a, Vector<T> q, Vector<T> omega, Vector<T>& dq, Vector<T>& domega
) {
    Exponential<T> e = exponential(A);
    dq = turn(e, A, q);
    Vector<T> shift = a + cross(A, axpy(e.rest, cross(A, a), e.versine * a));
    domega = turn(e, A, omega) + cross(shift, q + dq);
}

// exp(u) R - R, R in three rows
template <typename T>
static void act_rotation(Vector<T> u, const Vector<T>* r, Vector<T>* d) {
    Exponential<T> e = exponential(u);
    Vector<T> v = e.versine * u, s = e.sine * u;
    T x = dot(v, u);
    Vector<T> m0 = {v.x * u.x - x, v.x * u.y - s.z, v.x * u.z + s.y};
    Vector<T> m1 = {v.y * u.x + s.z, v.y * u.y - x, v.y * u.z - s.x};
    Vector<T> m2 = {v.z * u.x - s.y, v.z * u.y + s.x, v.z * u.z - x};
    d[0] = m0.x * r[0] + m0.y * r[1] + m0.z * r[2];
    d[1] = m1.x * r[0] + m1.y * r[1] + m1.z * r[2];
    d[2] = m2.x * r[0] + m2.y * r[1] + m2.z * r[2];
}

// g2 = (1 - a/2 cot(a/2))/a^2 at a^2 = x; its series is sum |B_2k|/(2k)! x^(k-1)
static const double series[] = {
    1.0 / 12.0,
    1.0 / 720.0,
    1.0 / 30240.0,
    1.0 / 1209600.0,
    1.0 / 47900160.0,
    691.0 / 1307674368000.0,
    1.0 / 74724249600.0,
    3617.0 / 10670622842880000.0,
    43867.0 / 5109094217170944000.0,
};
constexpr int terms = sizeof(series) / sizeof(series[0]);

template <typename T>
struct Coefficients {
    T g, slope;  // g2, and its derivative by a, divided by a
};

static Coefficients<double> any_coefficients(double x) {
    double half = 0.5 * std::sqrt(x), s = std::sin(half), g = (1.0 - half / std::tan(half)) / x;
    return {g, (0.25 / (s * s) - 1.0 / x - g) / x};
}

static Coefficients<v8> any_coefficients(v8 x) {
    Coefficients<v8> c;
    for (int lane = 0; lane < 8; lane++) {
        auto own = any_coefficients(x[lane]);
        c.g[lane] = own.g, c.slope[lane] = own.slope;
    }
    return c;
}

template <typename T>
static Coefficients<T> coefficients(T x) {
    if (!all(x < 0.5)) return any_coefficients(x);
    T g = T{} + series[terms - 1], slope = T{} + 2.0 * (terms - 1) * series[terms - 1];
    for (int k = terms - 2; k >= 0; k--) g = fma(x, g, T{} + series[k]);
    for (int k = terms - 2; k >= 1; k--) slope = fma(x, slope, T{} + 2.0 * k * series[k]);
    return {g, slope};
}

template <typename T>
static Vector<T> dexpinv_rotation(Vector<T> u, Vector<T> v) {
    Vector<T> turned = cross(u, v);
    return v - 0.5 * turned + coefficients(dot(u, u)).g * cross(u, turned);
}

// (B, b) becomes dexp^-1_(A, a) (B, b), section 2.3
template <typename T>
static void dexpinv_motion(Vector<T> A, Vector<T> a, Vector<T>& B, Vector<T>& b) {
    Coefficients<T> c = coefficients(dot(A, A));
    Vector<T> turned = cross(A, B), twisted = cross(a, B) + cross(A, b), twice = cross(A, turned);
    Vector<T> second = cross(a, turned) + cross(A, twisted);
    b = axpy(c.g, second, axpy(dot(A, a) * c.slope, twice, axpy(-0.5, twisted, b)));
    B = axpy(c.g, twice, axpy(-0.5, turned, B));
}

// The dense Cholesky factor U of a = U^T U in the upper triangle, 1/U_kk in inverse.
template <int n, typename T>
static void factor(T (*a)[n], T* inverse) {
    for (int k = 0; k < n; k++) {
        inverse[k] = 1.0 / square_root(a[k][k]);
        for (int j = k + 1; j < n; j++) a[k][j] *= inverse[k];
        for (int i = k + 1; i < n; i++)
            for (int j = i; j < n; j++) a[i][j] -= a[k][i] * a[k][j];
    }
}

template <int n, typename T>
static void solve(const T (*a)[n], const T* inverse, T* x) {
    for (int k = 0; k < n; k++) {
        x[k] *= inverse[k];
        for (int j = k + 1; j < n; j++) x[j] -= a[k][j] * x[k];
    }
    for (int k = n - 1; k >= 0; k--) {
        for (int j = k + 1; j < n; j++) x[k] -= a[k][j] * x[j];
        x[k] *= inverse[k];
    }
}

// Section 5. y is n rows of q, then n of omega, and s in the algebra n of A, then n of a. p: n
// masses, n lengths and the gravity, V = -gravity sum_i (sum_{k>=i} m_k) l_i e3.q_i: the paper's
// is -9.81.
template <typename T, int n>
struct Chain {
    typedef T Number;
    typedef Vector<T> Vec;
    static constexpr int rows = 2 * n, dimension = 2 * n;
    double mass[n][n], weight[n];  // M_ij, gravity l_i sum_{k>=i} m_k

    explicit Chain(const double* p) {
        const double* length = p + n;
        double tail = 0.0;
        for (int i = n - 1; i >= 0; i--) {
            tail += p[i];
            weight[i] = p[2 * n] * tail * length[i];
            for (int j = 0; j <= i; j++) mass[i][j] = mass[j][i] = tail * length[i] * length[j];
        }
    }

    // f = (omega_i, q_i x h_i), R(q) h = g: section 5.2
    void generator(double, const Vec* y, Vec* f) const {
        const Vec *q = y, *omega = y + n;
        Vec g[n];
        T r[3 * n][3 * n], inverse[3 * n], squares[n];
        for (int i = 0; i < n; i++) squares[i] = dot(omega[i], omega[i]);
        for (int i = 0; i < n; i++) {
            Vec pull = {T{}, T{}, T{} + weight[i]};
            for (int j = 0; j < n; j++)
                if (j != i) pull = pull + (mass[i][j] * squares[j]) * q[j];
            g[i] = cross(q[i], pull);
            block_row(q, i, r);
        }
        factor<3 * n>(r, inverse);
        solve<3 * n>(r, inverse, &g[0].x);
        for (int i = 0; i < n; i++) {
            f[i] = omega[i];
            f[n + i] = cross(q[i], g[i]);
        }
    }

    // R_ii = M_ii I, R_ij = M_ij q^_i^T q^_j = M_ij ((q_i.q_j) I - q_j q_i^T), on and above the
    // diagonal
    void block_row(const Vec* q, int i, T (*r)[3 * n]) const {
        for (int a = 0; a < 3; a++)
            for (int b = 0; b < 3; b++) r[3 * i + a][3 * i + b] = T{} + (a == b ? mass[i][i] : 0.0);
        for (int j = i + 1; j < n; j++) {
            double m = mass[i][j];
            T along = m * dot(q[i], q[j]);
            Vec x = -m * q[j];
            T* out[3] = {r[3 * i] + 3 * j, r[3 * i + 1] + 3 * j, r[3 * i + 2] + 3 * j};
            out[0][0] = along + x.x * q[i].x, out[0][1] = x.x * q[i].y, out[0][2] = x.x * q[i].z;
            out[1][0] = x.y * q[i].x, out[1][1] = along + x.y * q[i].y, out[1][2] = x.y * q[i].z;
            out[2][0] = x.z * q[i].x, out[2][1] = x.z * q[i].y, out[2][2] = along + x.z * q[i].z;
        }
    }

    void act(const Vec* s, const Vec* y, Vec* d) const {
        for (int i = 0; i < n; i++) act_tangent(s[i], s[n + i], y[i], y[n + i], d[i], d[n + i]);
    }

    void dexpinv(const Vec* s, Vec* v) const {
        for (int i = 0; i < n; i++) dexpinv_motion(s[i], s[n + i], v[i], v[n + i]);
    }
};

// The chain of two links by its two multipliers: M u = r + lambda q with q_i.u_i = 0, where u_i is
// omega_i' x q_i and M^-1 a constant.
template <typename T>
struct TwoLinks {
    typedef T Number;
    static constexpr int rows = 4, dimension = 4;
    double coupling, inverse[2][2], weight[2];  // M_12, M^-1, gravity l_i sum_{k>=i} m_k

    explicit TwoLinks(const double* p) {
        double total = p[0] + p[1], a = total * p[2] * p[2], c = p[1] * p[3] * p[3];
        coupling = p[1] * p[2] * p[3];
        double determinant = a * c - coupling * coupling;
        inverse[0][0] = c / determinant, inverse[1][1] = a / determinant;
        inverse[0][1] = inverse[1][0] = -coupling / determinant;
        weight[0] = p[4] * total * p[2], weight[1] = p[4] * p[1] * p[3];
    }

    void generator(double, const Vector<T>* y, Vector<T>* f) const {
        const Vector<T> *q = y, *omega = y + 2;
        Vector<T> r0 = (coupling * dot(omega[1], omega[1])) * q[1];
        Vector<T> r1 = (coupling * dot(omega[0], omega[0])) * q[0];
        r0.z += weight[0];
        r1.z += weight[1];
        Vector<T> u0 = axpy(inverse[0][1], r1, inverse[0][0] * r0);
        Vector<T> u1 = axpy(inverse[1][1], r1, inverse[1][0] * r0);
        T b0 = dot(q[0], u0), b1 = dot(q[1], u1), off = inverse[0][1] * dot(q[0], q[1]);
        T a0 = inverse[0][0] * dot(q[0], q[0]), a1 = inverse[1][1] * dot(q[1], q[1]);
        T scale = 1.0 / fma(off, off, -(a0 * a1));
        T x0 = fma(a1, b0, -(off * b1)) * scale, x1 = fma(a0, b1, -(off * b0)) * scale;
        f[0] = omega[0];
        f[1] = omega[1];
        f[2] = -1.0 * axpy(inverse[0][0] * x0, q[0], axpy(inverse[0][1] * x1, q[1], u0));
        f[3] = -1.0 * axpy(inverse[1][0] * x0, q[0], axpy(inverse[1][1] * x1, q[1], u1));
    }

    void act(const Vector<T>* s, const Vector<T>* y, Vector<T>* d) const {
        for (int i = 0; i < 2; i++) act_tangent(s[i], s[2 + i], y[i], y[2 + i], d[i], d[2 + i]);
    }

    void dexpinv(const Vector<T>* s, Vector<T>* v) const {
        for (int i = 0; i < 2; i++) dexpinv_motion(s[i], s[2 + i], v[i], v[2 + i]);
    }
};

// Section 6 with a controller of thrust in closed loop, where masses and lengths cancel; e3 points
// down, M_i = 0. y is y, v, R_1 in three rows, Omega_1, R_2, Omega_2, q_1, omega_1, q_2, omega_2:
// 14 rows; what follows them is left alone. s is ordered as f of section 6.1. p: g, k_y, k_v, k_q,
// k_w, cos(beta), sin(beta), then by threes the diagonals of J_1 and J_2, and c1 and c2, where
// y_d = c1 t + c2 t^2.
template <typename T>
struct Quadrotors {
    typedef T Number;
    typedef Vector<T> Vec;
    static constexpr int rows = 14, dimension = 10;
    double gravity, position_gain, speed_gain, angle_gain, turn_gain, cosine, sine;
    Vector<double> inertia[2], drift, bend;

    explicit Quadrotors(const double* p)
        : gravity(p[0]), position_gain(p[1]), speed_gain(p[2]), angle_gain(p[3]), turn_gain(p[4]),
          cosine(p[5]), sine(p[6]), inertia{{p[7], p[8], p[9]}, {p[10], p[11], p[12]}},
          drift{p[13], p[14], p[15]}, bend{p[16], p[17], p[18]} {}

    void generator(double t, const Vec* y, Vec* f) const {
        const Vec down = {T{}, T{}, T{} + gravity};
        Vec wanted = repeat(2.0 * bend);  // y_d''
        Vec e = y[0] - repeat(t * (drift + t * bend)), edot = y[1] - repeat(drift + (2.0 * t) * bend);
        Vec force = wanted - down - position_gain * e - speed_gain * edot;  // F/m_y
        T size = square_root(dot(force, force));
        Vec b = (-1.0 / size) * force;
        Vec w = Vec{T{} + 1.0, T{}, T{}} - b.x * b;  // e1 - (e1.b) b
        T width = square_root(dot(w, w));
        Vec n = (1.0 / width) * w;
        Vec aim[2] = {cosine * b + sine * n, cosine * b - sine * n};  // q_id
        Vec a = {};                                  // (mu_1 + mu_2)/m_y
        for (int i = 0; i < 2; i++) {
            Vec q = y[10 + 2 * i];
            a = a + (-size / (2.0 * cosine) * dot(q, aim[i])) * q;
        }
        // The same quantities' derivatives by time
        Vec force_rate = -position_gain * edot - speed_gain * (a + down - wanted);
        Vec b_rate = (1.0 / size) * (dot(b, force_rate) * b - force_rate);
        Vec w_rate = -b_rate.x * b - b.x * b_rate;
        Vec n_rate = (1.0 / width) * (w_rate - dot(n, w_rate) * n);
        Vec aim_rate[2] = {cosine * b_rate + sine * n_rate, cosine * b_rate - sine * n_rate};
        f[0] = y[1];
        f[1] = a + down;
        for (int i = 0; i < 2; i++) {
            body(inertia[i], y + 2 + 4 * i, f + 2 + 2 * i);
            link(aim[i], aim_rate[i], y + 10 + 2 * i, f + 6 + 2 * i);
        }
    }

    static Vec repeat(Vector<double> a) { return {T{} + a.x, T{} + a.y, T{} + a.z}; }

    // (R Omega, -J^-1 Omega x J Omega) from R in three rows and Omega
    static void body(Vector<double> j, const Vec* y, Vec* f) {
        Vec o = y[3];
        f[0] = {dot(y[0], o), dot(y[1], o), dot(y[2], o)};
        f[1] = {(j.y - j.z) * o.y * o.z / j.x, (j.z - j.x) * o.z * o.x / j.y,
                (j.x - j.y) * o.x * o.y / j.z};
    }

    // (omega, q x X): omega' = X - (q.X) q
    void link(Vec aim, Vec aim_rate, const Vec* y, Vec* f) const {
        Vec q = y[0], omega = y[1], turn = cross(aim, aim_rate);  // omega_id
        Vec angle = cross(aim, q), speed = omega + cross(q, cross(q, turn));  // e_q, e_w
        Vec x = -angle_gain * angle - turn_gain * speed - dot(q, turn) * cross(omega, q);
        f[0] = omega;
        f[1] = cross(q, x);
    }

    void act(const Vec* s, const Vec* y, Vec* d) const {
        for (int i = 0; i < 2; i++) {
            d[i] = s[i];
            act_rotation(s[2 + 2 * i], y + 2 + 4 * i, d + 2 + 4 * i);
            d[5 + 4 * i] = s[3 + 2 * i];
            const Vec *own = s + 6 + 2 * i, *from = y + 10 + 2 * i;
            Vec* to = d + 10 + 2 * i;
            act_tangent(own[0], own[1], from[0], from[1], to[0], to[1]);
        }
    }

    void dexpinv(const Vec* s, Vec* v) const {
        for (int i = 0; i < 2; i++) {
            v[2 + 2 * i] = dexpinv_rotation(s[2 + 2 * i], v[2 + 2 * i]);
            dexpinv_motion(s[6 + 2 * i], s[7 + 2 * i], v[6 + 2 * i], v[7 + 2 * i]);
        }
    }
};

// (6) by Kutta's tableau; dexp^-1 at 0 is the identity.
template <typename System>
static void rkmk4(typename System::Number* state, const double* p, double h, long steps) {
    constexpr int rows = System::rows, dimension = System::dimension;
    typedef typename System::Number T;
    typedef Vector<T> Vec;
    const System system(p);
    Sum<T, true> sum[rows];
    Vec y[rows], d[rows], place[rows], s[dimension], k1[dimension], k2[dimension], k3[dimension];
    Vec k4[dimension];
    for (int i = 0; i < rows; i++) sum[i] = {y[i] = reinterpret_cast<Vec*>(state)[i]};

    auto stage = [&](double t, double reach, const Vec* before, Vec* k) {
        for (int i = 0; i < dimension; i++) s[i] = reach * before[i];
        system.act(s, y, d);
        for (int i = 0; i < rows; i++) place[i] = y[i] + d[i];
        system.generator(t, place, k);
        system.dexpinv(s, k);
    };

    for (long step = 0; step < steps; step++) {
        double t = step * h;
        system.generator(t, y, k1);
        stage(t + 0.5 * h, 0.5 * h, k1, k2);
        stage(t + 0.5 * h, 0.5 * h, k2, k3);
        stage(t + h, h, k3, k4);
        for (int i = 0; i < dimension; i++)
            s[i] = (h / 6.0) * (k1[i] + 2.0 * (k2[i] + k3[i]) + k4[i]);
        system.act(s, y, d);
        for (int i = 0; i < rows; i++) {
            sum[i].add(d[i]);
            y[i] = sum[i].value;
        }
    }
    for (int i = 0; i < rows; i++) reinterpret_cast<Vec*>(state)[i] = y[i];
}

// (9)
template <typename System>
static void cf4(typename System::Number* state, const double* p, double h, long steps) {
    constexpr int rows = System::rows, dimension = System::dimension;
    typedef typename System::Number T;
    typedef Vector<T> Vec;
    const System system(p);
    Sum<T, true> sum[rows];
    Vec y[rows], y2[rows], d2[rows], d[rows], place[rows], s[dimension], f1[dimension];
    Vec f2[dimension], f3[dimension], f4[dimension];
    for (int i = 0; i < rows; i++) sum[i] = {y[i] = reinterpret_cast<Vec*>(state)[i]};

    auto evaluate = [&](double t, const Vec* from, Vec* f) {
        system.act(s, from, d);
        for (int i = 0; i < rows; i++) place[i] = from[i] + d[i];
        system.generator(t, place, f);
    };

    for (long step = 0; step < steps; step++) {
        double t = step * h;
        system.generator(t, y, f1);
        for (int i = 0; i < dimension; i++) s[i] = (0.5 * h) * f1[i];
        evaluate(t + 0.5 * h, y, f2);
        for (int i = 0; i < rows; i++) y2[i] = place[i];
        for (int i = 0; i < dimension; i++) s[i] = (0.5 * h) * f2[i];
        evaluate(t + 0.5 * h, y, f3);
        for (int i = 0; i < dimension; i++) s[i] = h * (f3[i] - 0.5 * f1[i]);
        evaluate(t + h, y2, f4);
        for (int i = 0; i < dimension; i++)
            s[i] = (h / 12.0) * (3.0 * f1[i] + 2.0 * (f2[i] + f3[i]) - f4[i]);
        system.act(s, y, d2);
        for (int i = 0; i < rows; i++) place[i] = y[i] + d2[i];
        for (int i = 0; i < dimension; i++)
            s[i] = (h / 12.0) * (2.0 * (f2[i] + f3[i]) + 3.0 * f4[i] - f1[i]);
        system.act(s, place, d);
        for (int i = 0; i < rows; i++) {
            sum[i].add(d2[i] + d[i]);
            y[i] = sum[i].value;
        }
    }
    for (int i = 0; i < rows; i++) reinterpret_cast<Vec*>(state)[i] = y[i];
}

extern "C" void rkmk4_chain_2(double* y, const double* p, double h, long steps) {
    rkmk4<TwoLinks<double>>(y, p, h, steps);
}

extern "C" void rkmk4_chain_2_lanes(double* y, const double* p, double h, long steps) {
    rkmk4<TwoLinks<v8>>(reinterpret_cast<v8*>(y), p, h, steps);
}

extern "C" void cf4_chain_2(double* y, const double* p, double h, long steps) {
    cf4<TwoLinks<double>>(y, p, h, steps);
}

extern "C" void cf4_chain_2_lanes(double* y, const double* p, double h, long steps) {
    cf4<TwoLinks<v8>>(reinterpret_cast<v8*>(y), p, h, steps);
}

extern "C" void rkmk4_chain_20(double* y, const double* p, double h, long steps) {
    rkmk4<Chain<double, 20>>(y, p, h, steps);
}

extern "C" void cf4_chain_20(double* y, const double* p, double h, long steps) {
    cf4<Chain<double, 20>>(y, p, h, steps);
}

extern "C" void rkmk4_quadrotors(double* y, const double* p, double h, long steps) {
    rkmk4<Quadrotors<double>>(y, p, h, steps);
}

extern "C" void rkmk4_chain_20_lanes(double* y, const double* p, double h, long steps) {
    rkmk4<Chain<v8, 20>>(reinterpret_cast<v8*>(y), p, h, steps);
}

extern "C" void cf4_chain_20_lanes(double* y, const double* p, double h, long steps) {
    cf4<Chain<v8, 20>>(reinterpret_cast<v8*>(y), p, h, steps);
}

extern "C" void rkmk4_quadrotors_lanes(double* y, const double* p, double h, long steps) {
    rkmk4<Quadrotors<v8>>(reinterpret_cast<v8*>(y), p, h, steps);
}
