"""Random states on products of two-spheres, each drawn from (seed, member) alone."""

import numpy as np

from integrators.forms import parts


def uniform(bodies, seed, member):
    """q uniform on the spheres, ω standard Gaussian in the tangent plane; shape (2n, 3)."""
    return on_manifold(_generator(seed, member).standard_normal((2 * bodies, 3)))


def near(state, spread, seed, member):
    """`state` moved by Gaussian tangent vectors.

    q_i turns by an angle of standard deviation `spread` (radians) in each tangent direction; ω_i
    changes by `spread` times the root mean square of the |ω|, or times 1 if all rest. The row of
    the work, where there is one, is dropped.
    """
    q, omega, _ = parts(state)
    kicks = _generator(seed, member).standard_normal((2 * len(q), 3))
    push, pull = np.split(kicks, 2)
    push = spread * _tangent(q, push)
    angle = np.linalg.norm(push, axis=1, keepdims=True)
    moved = np.cos(angle) * q + np.sinc(angle / np.pi) * push  # the geodesic along `push`
    size = np.sqrt(np.mean(np.sum(omega**2, axis=1))) or 1.0
    return on_manifold(np.concatenate([moved, omega + spread * size * pull]))


def on_manifold(state):
    """|q_i| = 1, then ω_i orthogonal to q_i; shape (2n, 3), without the row of the work."""
    q, omega, _ = parts(state)
    for _ in range(2):  # the second pass removes the first one's rounding
        q = q / np.linalg.norm(q, axis=1, keepdims=True)
        omega = _tangent(q, omega)
    return np.concatenate([q, omega])


def _tangent(q, vectors):
    return vectors - np.sum(q * vectors, axis=1, keepdims=True) * q


def _generator(seed, member):
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, member])))
