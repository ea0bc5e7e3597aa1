"""The icosahedron, its faces divided in four again and again: points spread over the sphere."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from integrators.precision import DOUBLES, to_doubles


@dataclass(frozen=True, eq=False)
class Icosphere:
    """A triangulation of the sphere.

    Attributes
    ----------
    vertices : ndarray, shape (v, 3)
        Unit vectors.
    faces : ndarray of int, shape (f, 3)
        Vertices of each triangle, counterclockwise from outside.
    """

    vertices: np.ndarray
    faces: np.ndarray

    @property
    def edges(self) -> np.ndarray:
        """Pairs of vertices, each pair once, shape (e, 2)."""
        sides = self.faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
        return np.unique(np.sort(sides, axis=1), axis=0)

    def subdivided(self) -> "Icosphere":
        """Every face in four, by the middles of its chords brought to the sphere."""
        edges = self.edges
        middles = self.vertices[edges[:, 0]] + self.vertices[edges[:, 1]]
        numbers = {tuple(edge): len(self.vertices) + k for k, edge in enumerate(edges.tolist())}
        faces = []
        for a, b, c in self.faces.tolist():
            ab, bc, ca = (numbers[min(e), max(e)] for e in ((a, b), (b, c), (c, a)))
            faces += [(a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca)]
        return Icosphere(np.concatenate([self.vertices, _unit_vectors(middles)]), np.array(faces))


@functools.cache  # of a handful of levels
def icosphere(level: int, arithmetic: Any = DOUBLES) -> Icosphere:
    """The icosahedron subdivided `level` times: 10·4^level + 2 vertices, 20·4^level faces.

    The icosahedron's vertices are the cyclic permutations of (0, ±1, ±φ), φ the golden ratio.
    """
    golden = (1.0 + arithmetic.sqrt(5.0)) / 2.0
    signs = [(-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0)]
    corners = np.array([np.roll((0.0, s, r * golden), k) for k in range(3) for s, r in signs])
    mesh = Icosphere(_unit_vectors(corners), _faces_of_icosahedron(to_doubles(corners)))
    for _ in range(level):
        mesh = mesh.subdivided()
    return mesh


def _faces_of_icosahedron(corners: np.ndarray) -> np.ndarray:
    """Triples of corners at the edge length, 2, from each other."""
    near = np.abs(np.linalg.norm(corners[:, None] - corners, axis=2) - 2.0) < 1e-9
    faces = []
    for a, b in zip(*np.nonzero(np.triu(near)), strict=True):
        for c in np.nonzero(near[a] & near[b])[0]:
            if c > b:
                outward = np.linalg.det(corners[[a, b, c]]) > 0
                faces.append((a, b, c) if outward else (a, c, b))
    return np.array(faces)


def _unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Unit vectors; from products, sums and a root, the same on every CPU."""
    x, y, z = vectors.T
    return vectors / np.sqrt(x * x + y * y + z * z)[:, None]
