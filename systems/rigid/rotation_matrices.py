"""Rotation matrices for states: nearest, random and shortest ones. Arrays of shape (3, 3)."""

import numpy as np

from integrators.errors import InputError
from integrators.precision import all_finite, inverse_of, is_precise, to_doubles

PRECISE_ENOUGH = 1e-20  # last change of Newton's method, which then squares what is left
SINGULAR = 1e-12  # singular value, relative to the largest, below which no rotation is nearest


def nearest(matrix: np.ndarray, name: str) -> np.ndarray:
    """The rotation that is nearest to a matrix, by polar decomposition.

    Parameters
    ----------
    matrix : ndarray, shape (3, 3)
    name : str
        What a message calls it.

    Returns
    -------
    ndarray, shape (3, 3)
        As given where a number is not finite.

    Raises
    ------
    InputError
        If it has no inverse, or reflects.
    """
    if not all_finite(matrix):
        return np.array(matrix)
    left, values, right = np.linalg.svd(to_doubles(matrix))
    if values[2] <= SINGULAR * values[0]:
        raise InputError(
            f"{name} is a singular matrix, to which no rotation is nearest; expected three "
            "independent rows",
            key=name,
        )
    found = left @ right
    check_no_reflection(found, name)
    return _polar(matrix) if is_precise(matrix) else found


def _polar(matrix: np.ndarray) -> np.ndarray:
    """The nearest rotation in precise numbers, by Newton's method."""
    change = 1.0
    while change > PRECISE_ENOUGH:
        before, matrix = matrix, 0.5 * (matrix + inverse_of(matrix).T)
        change = np.max(np.abs(matrix - before))
    return matrix


def check_no_reflection(matrix: np.ndarray, name: str) -> None:
    """Raise `InputError` for an orthogonal matrix of determinant −1."""
    if np.linalg.det(matrix) < 0.0:
        raise InputError(
            f"{name} has the determinant −1: it is a reflection; expected a rotation, of "
            "determinant 1. Are two rows exchanged, or one of the wrong sign?",
            key=name,
        )


def distance(matrix: np.ndarray) -> float:
    """‖RᵀR − 1‖, the Frobenius norm."""
    return float(np.linalg.norm(matrix.T @ matrix - np.eye(3)))


def uniform(generator: np.random.Generator) -> np.ndarray:
    """A random rotation, uniform on SO(3), from a unit quaternion of normal numbers."""
    w, *vector = generator.standard_normal(4)
    size = np.sqrt(w * w + np.dot(vector, vector))
    w, (x, y, z) = w / size, np.array(vector) / size
    rotation = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return nearest(np.array(rotation), "rotation")


def exponential(vector: np.ndarray) -> np.ndarray:
    """exp of a vector of so(3): the rotation by |vector| about it."""
    angle, hat = np.linalg.norm(vector), hat_of(vector)
    half = 0.5 * np.sinc(0.5 * angle / np.pi) ** 2
    return np.eye(3) + np.sinc(angle / np.pi) * hat + half * (hat @ hat)


def shortest(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The rotation by the least angle that turns one unit vector into another.

    Between opposite ones it is about an axis that is orthogonal to both.
    """
    cosine, normal = float(start @ end), np.cross(start, end)
    if cosine <= -1.0 + 1e-14:
        axis = np.cross(start, np.eye(3)[np.argmin(np.abs(start))])
        axis /= np.linalg.norm(axis)
        return 2.0 * np.outer(axis, axis) - np.eye(3)
    hat = hat_of(normal)
    return np.eye(3) + hat + hat @ hat / (1.0 + cosine)


def hat_of(vector: np.ndarray) -> np.ndarray:
    """The matrix of x ↦ vector × x."""
    x, y, z = vector
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
