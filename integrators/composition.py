"""Symmetric compositions: a symmetric method of order 2 raised to order 4, 6 or 8.

One step of size h becomes stages of size γ_s h; Σγ = 1, γ symmetric. Digits checked at 60
decimals; each list is the first half, the middle coefficient is 1 − 2 Σ.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np


@dataclass(frozen=True)
class Composition:
    """A symmetric composition.

    Parameters
    ----------
    order : int
        The order that it gives to a symmetric method of order 2.
    first_half : tuple of str
        The coefficients before the middle one, as decimals.
    source : str
        Where the coefficients come from.
    """

    order: int
    first_half: tuple
    source: str

    @property
    def stages(self):
        """The number of stages."""
        return 2 * len(self.first_half) + 1

    @property
    def coefficients(self):
        """The γ, correctly rounded, shape ``(stages,)``."""
        half = [Fraction(digits) for digits in self.first_half]
        exact = [*half, 1 - 2 * sum(half), *reversed(half)]
        return np.array([float(value) for value in exact])


COMPOSITIONS = {
    "triple_jump4": Composition(
        order=4,
        first_half=("1.35120719195965763404768780897146082692199937621714482832871",),
        source="Creutz and Gocksch (1989), Forest (1989), Suzuki (1990), Yoshida (1990)",
    ),
    "suzuki4": Composition(
        order=4,
        first_half=(
            "0.414490771794375737142354062860761495711774604016707133323285",
            "0.414490771794375737142354062860761495711774604016707133323285",
        ),
        source="Suzuki (1990)",
    ),
    "yoshida6": Composition(
        order=6,
        first_half=(
            "0.78451361047755726381949763",
            "0.23557321335935813368479318",
            "-1.17767998417887100694641568",
        ),
        source="Yoshida (1990), solution A",
    ),
    "kahan_li6": Composition(
        order=6,
        first_half=(
            "0.39216144400731413927925056",
            "0.33259913678935943859974864",
            "-0.70624617255763935980996482",
            "0.08221359629355080023149045",
        ),
        source="Kahan and Li (1997), s9odr6a",
    ),
    "kahan_li8": Composition(
        order=8,
        first_half=(
            "0.13020248308889008087881763",
            "0.56116298177510838456196441",
            "-0.38947496264484728640807860",
            "0.15884190655515560089621075",
            "-0.39590389413323757733623154",
            "0.18453964097831570709183254",
            "0.25837438768632204729397911",
            "0.29501172360931029887096624",
        ),
        source="Kahan and Li (1997), s17odr8a",
    ),
}
