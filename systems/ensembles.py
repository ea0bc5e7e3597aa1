"""Many states on products of two-spheres: random ones, or one body over a lattice of directions.

A random state is drawn from (seed, member) alone.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from integrators.forms.forms import split_state
from integrators.precision import DOUBLES


def draw_uniform(bodies: int, seed: int, members: Sequence[int]) -> np.ndarray:
    """q uniform on the spheres, ω standard Gaussian in the tangent plane.

    Like all random states here of shape (members, rows, 3).
    """
    return project_to_manifold(_gaussian_numbers((2 * bodies, 3), seed, members))


def draw_near(state: np.ndarray, spread: float, seed: int, members: Sequence[int]) -> np.ndarray:
    """`state` moved by Gaussian tangent vectors.

    q_i turns by an angle of standard deviation `spread` (radians) in each tangent direction; ω_i
    changes by `spread` times the root mean square of the |ω|, or times 1 if all rest. The row of
    the work, where there is one, is dropped.
    """
    q, omega, _ = split_state(state)
    push, pull, _ = split_state(_gaussian_numbers((2 * len(q), 3), seed, members))
    moved = geodesic(q, spread * _tangent_parts(q, push))
    size = np.sqrt(np.mean(np.sum(omega**2, axis=1))) or 1.0
    return project_to_manifold(np.concatenate([moved, omega + spread * size * pull], axis=-2))


GOLDEN_COSINE, GOLDEN_SINE = -0.7373688780783197, 0.6754902942615238  # of π (3 − √5)


def lattice(count: int, arithmetic: Any = DOUBLES) -> np.ndarray:
    """A nearly uniform lattice of directions, by heights 1 − (2i + 1)/count; shape (count, 3).

    The Fibonacci lattice: each point is turned about e3 by the golden angle from the one before
    (Swinbank and Purser 2006). Turned by multiplication, it is the same to the last bit on every
    machine. In double-double the cosine and the sine have all digits, and the points are others by
    what those of double round.
    """
    cosine, sine = GOLDEN_COSINE, GOLDEN_SINE
    if arithmetic is not DOUBLES:
        angle = arithmetic.pi * (3 - arithmetic.sqrt(5.0))
        cosine, sine = arithmetic.cos(angle), arithmetic.sin(angle)
    points, x, y = [], 1.0, 0.0
    for i in range(count):
        height = arithmetic.number(count - 2 * i - 1) / count
        radius = arithmetic.sqrt((1.0 - height) * (1.0 + height))
        points.append((radius * x, radius * y, height))
        x, y = cosine * x - sine * y, sine * x + cosine * y
    return np.reshape(arithmetic.array(points), (count, 3))


def turn_body(state: np.ndarray, body: int, direction: np.ndarray) -> np.ndarray:
    """`state` with `body` turned to a unit vector the shortest way, and its ω with it.

    The row of the work, where there is one, is dropped.
    """
    moved = np.array(state, dtype=float)
    q, omega, _ = split_state(moved)  # views
    total = q[body] + direction
    square = np.sum(total * total)
    if square > 1e-20:  # else antipodal: turned half way round about ω, which stays as it is
        omega[body] -= 2.0 * np.sum(total * omega[body]) / square * total
    q[body] = direction
    return project_to_manifold(moved)


def project_to_manifold(state: np.ndarray) -> np.ndarray:
    """|q_i| = 1, then ω_i orthogonal to q_i; shape (…, 2n, 3), without the row of the work."""
    q, omega, _ = split_state(state)
    for _ in range(2):  # the second pass removes the first one's rounding
        q = q / np.linalg.norm(q, axis=-1, keepdims=True)
        omega = _tangent_parts(q, omega)
    return np.concatenate([q, omega], axis=-2)


def draw_spins(count: int, seed: int, members: Sequence[int], unit: bool) -> np.ndarray:
    """Random spins: uniform on the spheres, or standard Gaussian vectors."""
    drawn = _gaussian_numbers((count, 3), seed, members)
    return project_to_spheres(drawn) if unit else drawn


def draw_spins_near(
    state: np.ndarray, spread: float, seed: int, members: Sequence[int], unit: bool
) -> np.ndarray:
    """`state` moved by Gaussian vectors, of standard deviation `spread` in each direction.

    In radians on the unit spheres; else relative to each spin's length.
    """
    kicks = spread * _gaussian_numbers(np.shape(state), seed, members)
    if not unit:
        return state + np.linalg.norm(state, axis=1, keepdims=True) * kicks
    return project_to_spheres(geodesic(state, _tangent_parts(state, kicks)))


def project_to_spheres(state: np.ndarray) -> np.ndarray:
    """|w_i| = 1; shape (…, n, 3)."""
    for _ in range(2):  # the second pass removes the first one's rounding
        state = state / np.linalg.norm(state, axis=-1, keepdims=True)
    return state


def geodesic(q: np.ndarray, push: np.ndarray) -> np.ndarray:
    """Unit vectors moved along great circles by tangent vectors, in radians; shape (…, 3)."""
    angle = np.linalg.norm(push, axis=-1, keepdims=True)
    return np.cos(angle) * q + np.sinc(angle / np.pi) * push


def _tangent_parts(q: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return vectors - np.sum(q * vectors, axis=-1, keepdims=True) * q


def _gaussian_numbers(shape: tuple[int, ...], seed: int, members: Sequence[int]) -> np.ndarray:
    """Standard Gaussian numbers of each member by `generator`, shape ``(members, *shape)``."""
    found = np.empty((len(members), *shape))
    bits = np.random.Philox(0)
    draw = np.random.Generator(bits).standard_normal
    state: Any = bits.state
    state["state"]["counter"] = state["buffer"] = [0] * 4  # lists, which are read faster
    for drawn, key in zip(found, _philox_keys(seed, np.asarray(members)).tolist(), strict=True):
        state["state"]["key"] = key
        bits.state = state
        draw(out=drawn)
    return found


def generator(seed: int, member: int) -> np.random.Generator:
    """The random numbers of a member of an ensemble."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, member])))


def _philox_keys(seed: int, members: np.ndarray) -> np.ndarray:
    """What `numpy.random.SeedSequence([seed, member])` gives Philox, for many members at once.

    To make a generator for each takes longer than to draw from it. NumPy promises that the
    algorithm, `seed_seq_fe128` of O'Neill (2015), stays as it is.
    """
    words = range(0, max(1, seed.bit_length()), 32)
    entropy = [np.array([seed >> word & 0xFFFFFFFF], "u4") for word in words]
    entropy.append(members.astype("u4"))
    constant = 0x43B0D7E5

    def hashed(word: np.ndarray, factor: int) -> np.ndarray:
        nonlocal constant
        word = word ^ np.uint32(constant)
        constant = constant * factor & 0xFFFFFFFF
        word = word * np.uint32(constant)
        return word ^ word >> np.uint32(16)

    def mixed(word: np.ndarray, other: np.ndarray) -> np.ndarray:
        word = word * np.uint32(0xCA01F9DD)
        word = word - hashed(other, 0x931E8875) * np.uint32(0x4973F715)
        return word ^ word >> np.uint32(16)

    filled = [*entropy, *[np.zeros(1, "u4")] * 4]
    pool = [hashed(word, 0x931E8875) for word in filled[:4]]
    for i, j in itertools.permutations(range(4), 2):
        pool[j] = mixed(pool[j], pool[i])
    for word, j in itertools.product(entropy[4:], range(4)):
        pool[j] = mixed(pool[j], word)
    constant = 0x8B51F9DD
    return np.stack([hashed(word, 0x58F38DED) for word in pool], axis=-1).view("u8")
