"""Order of Runge–Kutta methods, by the order conditions of rooted trees.

It has order p if for every rooted tree t with at most p vertices

    Σ_i b_i Φ_i(t) = 1/γ(t),   Φ_i(t) = Π_k Σ_j a_ij Φ_j(t_k),   γ(t) = |t| Π_k γ(t_k),

where t_1, t_2, … are what is left of t without its root, and |t| is the number of its vertices.

E. Hairer, S. P. Nørsett, G. Wanner, *Solving Ordinary Differential Equations I*, section II.2.
"""

import functools
from collections.abc import Iterator, Sequence

import numpy as np

Tree = tuple["Tree", ...]  # the trees on its root

CHECKED = 8  # orders above are not checked: there are 115 trees of 8 vertices, 286 of 9
TOLERANCE = 1e-10  # of a condition, beside the size of its terms; coefficients may be rounded


@functools.cache
def trees(order: int) -> tuple[Tree, ...]:
    """The rooted trees with so many vertices, each the sorted tuple of the trees on its root."""
    if order == 1:
        return ((),)
    return tuple(
        sorted({grown for tree in trees(order - 1) for grown in _trees_with_one_more_leaf(tree)})
    )


def _trees_with_one_more_leaf(tree: Tree) -> Iterator[Tree]:
    """The trees with one vertex more, a new leaf."""
    yield tuple(sorted((*tree, ())))
    for i, branch in enumerate(tree):
        for grown in _trees_with_one_more_leaf(branch):
            yield tuple(sorted((*tree[:i], grown, *tree[i + 1 :])))


def classical_order(
    matrix: np.ndarray, weights: Sequence[float] | np.ndarray, most: int = CHECKED
) -> int:
    """The order of a method, at most `most`.

    Parameters
    ----------
    matrix : ndarray, shape (stages, stages)
    weights : sequence of float, length stages
    most : int, optional

    Returns
    -------
    int
        0 if the weights do not sum to 1.
    """
    weights = np.asarray(weights)
    for order in range(1, most + 1):
        for tree in trees(order):
            _, density, phi = _order_density_weights(tree, matrix)
            terms = weights * phi
            most_error = TOLERANCE * max(1.0, np.abs(terms).sum())
            if not abs(terms.sum() - 1 / density) <= most_error < np.inf:
                return order - 1
    return most


def _order_density_weights(tree: Tree, matrix: np.ndarray) -> tuple[int, int, np.ndarray]:
    """|t|, γ(t) and Φ(t), of shape (stages,)."""
    size, density, phi = 1, 1, np.ones(len(matrix))
    for branch in tree:
        own_size, own_density, own_phi = _order_density_weights(branch, matrix)
        size, density, phi = size + own_size, density * own_density, phi * (matrix @ own_phi)
    return size, density * size, phi
