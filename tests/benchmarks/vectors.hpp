// 3-vectors of double, or of v8: eight trajectories side by side in GCC's vector extension.
// Every expression rounds in the order of integrators/compiler/vectors.py, so that states can be
// compared bit by bit.

#pragma once

#include <cmath>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

typedef double v8 __attribute__((vector_size(64)));

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
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

template <typename T>
Vector<T> cross(Vector<T> a, Vector<T> b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
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
};
