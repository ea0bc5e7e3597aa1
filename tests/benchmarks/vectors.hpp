// 3-vectors of double, or of v8: eight trajectories side by side in GCC's vector extension.
// Every expression rounds in the order of integrators/compiler/vectors.py, so that states can be
// compared bit by bit.

#pragma once

#include <cmath>
#include <cstdint>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

typedef double v8 __attribute__((vector_size(64)));

template <typename T>
using Mask = decltype(T() < T());  // bool, or eight int64 that are 0 or -1

inline bool all(bool holds) { return holds; }
inline bool any(bool holds) { return holds; }
inline double select(bool holds, double a, double b) { return holds ? a : b; }
inline double absolute(double x) { return std::fabs(x); }

#ifdef __AVX512F__
inline bool any(Mask<v8> holds) { return _mm512_movepi64_mask((__m512i)holds) != 0; }
inline bool all(Mask<v8> holds) { return _mm512_movepi64_mask((__m512i)holds) == 0xff; }
#else
inline bool any(Mask<v8> holds) {
    std::int64_t found = 0;
    for (int lane = 0; lane < 8; lane++) found |= holds[lane];
    return found != 0;
}
inline bool all(Mask<v8> holds) { return !any(~holds); }
#endif
inline v8 select(Mask<v8> holds, v8 a, v8 b) { return holds ? a : b; }
inline v8 absolute(v8 x) { return (v8)((Mask<v8>)x & INT64_MAX); }

template <typename T>
Mask<T> nowhere() { return T{} < T{}; }
template <typename T>
Mask<T> everywhere() { return T{} == T{}; }

inline double square_root(double x) { return std::sqrt(x); }

inline v8 square_root(v8 x) {
#ifdef __AVX512F__
    return (v8)_mm512_sqrt_pd((__m512d)x);
#else
    v8 result;
    for (int lane = 0; lane < 8; lane++) result[lane] = std::sqrt(x[lane]);
    return result;
#endif
}

// a b + c, rounded once, as the fma of doubles
inline v8 fma(v8 a, v8 b, v8 c) {
#ifdef __AVX512F__
    return (v8)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#else
    v8 result;
    for (int lane = 0; lane < 8; lane++) result[lane] = std::fma(a[lane], b[lane], c[lane]);
    return result;
#endif
}

inline v8 repeated(double x) { return v8{x, x, x, x, x, x, x, x}; }
inline v8 fma(double a, v8 b, v8 c) { return fma(repeated(a), b, c); }
inline v8 fma(double a, v8 b, double c) { return fma(repeated(a), b, repeated(c)); }
inline v8 fma(v8 a, double b, v8 c) { return fma(a, repeated(b), c); }
inline v8 fma(v8 a, v8 b, double c) { return fma(a, b, repeated(c)); }

template <typename T>
struct Vector {
    T x, y, z;
};

template <typename T>
Vector<T> operator+(Vector<T> a, Vector<T> b) {
    return {a.x + b.x, a.y + b.y, a.z + b.z};
}

template <typename T>
Vector<T> operator-(Vector<T> a, Vector<T> b) {
    return {a.x - b.x, a.y - b.y, a.z - b.z};
}

template <typename S, typename T>
Vector<T> operator*(S s, Vector<T> a) {
    return {s * a.x, s * a.y, s * a.z};
}

template <typename T>
T dot(Vector<T> a, Vector<T> b) {
    return fma(a.z, b.z, fma(a.y, b.y, a.x * b.x));
}

template <typename T>
Vector<T> select(Mask<T> holds, Vector<T> a, Vector<T> b) {
    return {select(holds, a.x, b.x), select(holds, a.y, b.y), select(holds, a.z, b.z)};
}

// s a + b
template <typename S, typename T>
Vector<T> axpy(S s, Vector<T> a, Vector<T> b) {
    return {fma(s, a.x, b.x), fma(s, a.y, b.y), fma(s, a.z, b.z)};
}

// squared - a.a
template <typename T>
T dot_from(T start, Vector<T> a, Vector<T> b) {
    return fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, start)));
}

template <typename S, typename T>
T lacking(S squared, Vector<T> a) {
    return fma(-a.z, a.z, fma(-a.y, a.y, fma(-a.x, a.x, squared)));
}

template <typename T>
Vector<T> cross(Vector<T> a, Vector<T> b) {
    return {fma(a.y, b.z, -(a.z * b.y)), fma(a.z, b.x, -(a.x * b.z)),
            fma(a.x, b.y, -(a.y * b.x))};
}

// A sum that keeps what its additions lost (Kahan), or an ordinary one.
template <typename T, bool compensated>
struct Sum {
    Vector<T> value, lost = {};

    void add(Vector<T> d) {
        if (compensated) {
            Vector<T> wanted = d + lost, old = value;
            value = old + wanted;
            lost = wanted - (value - old);
        } else {
            value = value + d;
        }
    }

    // As `add` by what `wanted` adds to `lost`, which it includes.
    void add_by(Vector<T> wanted) {
        Vector<T> old = value;
        value = old + wanted;
        if (compensated) lost = wanted - (value - old);
    }
};
