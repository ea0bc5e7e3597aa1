"""Inertia matrices: full, diagonal, and those of chains of links, with which work is O(n)."""

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from integrators.errors import InputError
from integrators.precision import all_finite, to_doubles, to_numbers
from integrators.solvers.chains import HALF, invert

# How M lies in the packed parameters.
DIAGONAL, FULL, CHAIN = range(3)

CHAIN_FROM = 6  # links; fewer go faster as a full matrix
NOT_INVERTIBLE = (
    "the inertia matrix must be finite, symmetric and positive definite, with a finite inverse, in "
    "double precision: give masses and lengths that are nearer to each other, or to 1"
)


@dataclass(frozen=True, eq=False)
class ChainInertia:
    """M = P N Pᵀ of links end to end, where (Pᵀ v)_k = Σ_{i≤k} l_i v_i are the joints' velocities.

    Every M with M_ij = u_i w_j for i < j is of this kind: l_i = u_i. Numbers are of either
    arithmetic.

    Parameters
    ----------
    lengths : array_like, shape (n,)
        l_i, not zero.
    masses : array_like, shape (n,)
        N_kk; point masses at the ends of massless links are these.
    couplings : array_like, shape (n − 1,), optional
        N_k,k+1, where links themselves have mass; 0 without.

    Raises
    ------
    InputError
        If shapes do not match, a number is not finite, a length is 0, M is not positive definite,
        or it or its inverse is not finite.
    """

    lengths: np.ndarray
    masses: np.ndarray
    couplings: np.ndarray = cast(np.ndarray, None)  # zeros

    def __post_init__(self) -> None:
        lengths, masses = (to_numbers(x, copy=True) for x in (self.lengths, self.masses))
        if lengths.ndim != 1 or masses.shape != lengths.shape or not lengths.size:
            raise InputError(
                f"lengths and masses of the links have shapes {lengths.shape} and {masses.shape}; "
                "expected two lists of the same length"
            )
        none = np.zeros(len(lengths) - 1)
        couplings = to_numbers(none if self.couplings is None else self.couplings, copy=True)
        if couplings.shape != none.shape:
            raise InputError(
                f"couplings of the links have shape {couplings.shape}; expected {none.shape}, one "
                "less than links"
            )
        for name, value in (("lengths", lengths), ("masses", masses), ("couplings", couplings)):
            if not all_finite(value):
                raise InputError(f"the {name} of the links must be finite")
            object.__setattr__(self, name, value)
        if not np.all(to_doubles(lengths)):
            raise InputError(
                f"link {np.argmin(np.abs(to_doubles(lengths)))} has length 0; expected it not zero"
            )
        if not self._is_positive_definite():
            raise InputError(NOT_INVERTIBLE)

    def __len__(self) -> int:
        return len(self.lengths)

    def _is_positive_definite(self) -> bool:
        pivots, beside = [np.inf], [0.0, *to_doubles(self.couplings)]
        for mass, coupling in zip(to_doubles(self.masses), beside, strict=True):
            pivots.append(mass - coupling * coupling / pivots[-1])
            if not pivots[-1] > 0.0:
                return False
        with np.errstate(all="ignore"):
            inverse = 1.0 / np.array(pivots[1:]) / to_doubles(self.lengths) ** 2
            return all_finite(inverse) and all_finite(self.diagonal)

    @cached_property
    def diagonal(self) -> np.ndarray:
        """M_ii, shape (n,)."""
        own = self.masses + 2.0 * np.append(self.couplings, 0.0)
        return np.cumsum(own[::-1])[::-1] * self.lengths**2

    @property
    def matrix(self) -> np.ndarray:
        """M, shape (n, n)."""
        beside = np.append(self.couplings, 0.0)
        columns = self.masses + beside + np.roll(beside, 1)
        beyond = np.cumsum(columns[::-1])[::-1]
        upper = np.triu(beyond * np.outer(self.lengths, self.lengths), 1)
        return upper + upper.T + np.diag(self.diagonal)

    @property
    def packed(self) -> np.ndarray:
        """Flat array of the inertia as the functions of `chains` read it, shape (8n,)."""
        n = len(self)
        forward = np.column_stack(
            [self.lengths, self.masses, np.append(self.couplings, 0.0), self.diagonal]
        ).ravel()
        inverse = np.empty(HALF * n, dtype=forward.dtype)
        invert(forward, n, np.zeros(n), inverse)
        return np.concatenate([forward, inverse])
