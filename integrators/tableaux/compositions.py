"""Symmetric compositions: a method of order 2 or 1 raised to order 4, 6, 8 or 10.

One step of size h of a symmetric method S of order 2 becomes stages of size γ_s h; Σγ = 1, γ
symmetric. A step of a method χ of order 1 and its adjoint χ* becomes, from right to left,

    χ*(c_2s h) ∘ χ(c_2s−1 h) ∘ … ∘ χ*(c_2 h) ∘ χ(c_1 h),    c symmetric;

a symmetric composition of S = χ*(h/2) ∘ χ(h/2) is the one with both shares of a stage γ/2. Digits
are given up to the middle, which follows from the sums, and checked at 60 decimals; those of
`blanes_moan6` and `blanes_casas_murua8` at the 15 that are published.
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
    def exact_coefficients(self):
        """The γ as `Fraction`."""
        return _about_middle(self.first_half)

    @property
    def coefficients(self):
        """The γ, correctly rounded, shape ``(stages,)``."""
        return _rounded(self.exact_coefficients)

    @property
    def exact_shares(self):
        """The c with which χ and χ* compose to the same, as `Fraction`."""
        return [gamma / 2 for gamma in self.exact_coefficients for _ in range(2)]

    @property
    def shares(self):
        """The c, correctly rounded, shape ``(2 stages,)``."""
        return _rounded(self.exact_shares)


@dataclass(frozen=True)
class AdjointComposition:
    """A symmetric composition of a method of order 1 with its adjoint.

    Published are the times a_i of A and b_i of B in a splitting A + B,
    ``a_1 b_1 a_2 … b_s a_s+1``. Flows of A meet where χ* ends and χ begins, those of B where χ
    ends and χ* begins, so that a_1 = c_1, b_1 = c_1 + c_2, a_2 = c_2 + c_3, …; the conditions
    for an order are the same (McLachlan 1995).

    Parameters
    ----------
    order : int
        The order that it gives to a method of order 1 with its adjoint.
    a_first_half, b_first_half : tuple of str
        The a before the middle one, and the b before the middle two, as decimals; Σa = Σb = 1.
    source : str
        Where the coefficients come from.
    """

    order: int
    a_first_half: tuple
    b_first_half: tuple
    source: str

    @property
    def stages(self):
        """The number of stages, of χ and χ* each."""
        return 2 * len(self.a_first_half)

    @property
    def exact_shares(self):
        """The c as `Fraction`, 2 stages of them."""
        a = _about_middle(self.a_first_half)
        half = [Fraction(digits) for digits in self.b_first_half]
        half.append(Fraction(1, 2) - sum(half))
        b = [*half, *reversed(half)]
        times = [time for pair in zip(a, b, strict=False) for time in pair]  # but the last a
        shares = [times[0]]
        for time in times[1:]:
            shares.append(time - shares[-1])
        return shares

    @property
    def shares(self):
        """The c, correctly rounded, shape ``(2 stages,)``."""
        return _rounded(self.exact_shares)


@dataclass(frozen=True)
class ProcessedComposition:
    """A symmetric composition between a processor and its inverse: π ∘ Kⁿ ∘ π⁻¹.

    The kernel K meets fewer conditions than its order has, and so takes fewer stages. The
    processor π = G(h) ∘ G(−h), which costs only where a state is wanted, supplies the others. Time
    reversal would ask for a π that is even in h, as this one is but for errors of the step.

    Parameters
    ----------
    order : int
        The effective order, of π ∘ K ∘ π⁻¹, from a symmetric method of order 2.
    first_half : tuple of str
        The coefficients of K before the middle one, as decimals.
    half_processor : tuple of str
        The coefficients of G but the last one, which makes their sum 0.
    source : str
        Where the coefficients come from.
    """

    order: int
    first_half: tuple
    half_processor: tuple
    source: str

    @property
    def stages(self):
        """The number of stages of the kernel."""
        return 2 * len(self.first_half) + 1

    @property
    def processor_stages(self):
        """The number of stages of the processor."""
        return 2 * len(self.half_processor) + 2

    @property
    def exact_shares(self):
        """The c of the kernel, 2 stages of them, and those of the processor, as `Fraction`."""
        half = [Fraction(digits) for digits in self.half_processor]
        half.append(-sum(half))
        processor = [*(-gamma for gamma in half), *half]
        stages = [*_about_middle(self.first_half), *processor]
        return [gamma / 2 for gamma in stages for _ in range(2)]

    @property
    def shares(self):
        """The c, correctly rounded."""
        return _rounded(self.exact_shares)


def _about_middle(first_half):
    """Exact coefficients of sum 1: those given as decimals, the middle one, and mirrored."""
    half = [Fraction(digits) for digits in first_half]
    return [*half, 1 - 2 * sum(half), *reversed(half)]


def _rounded(exact):
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
    "sofroniou_spaletta10": Composition(
        order=10,
        first_half=(
            "0.07879572252168641926390768",
            "0.31309610341510852776481247",
            "0.02791838323507806610952027",
            "-0.22959284159390709415121340",
            "0.13096206107716486317465686",
            "-0.26973340565451071434460973",
            "0.07497334315589143566613711",
            "0.11199342399981020488957508",
            "0.36613344954622675119314812",
            "-0.39910563013603589787862981",
            "0.10308739852747107731580277",
            "0.41143087395589023782070412",
            "-0.00486636058313526176219566",
            "-0.39203335370863990644808194",
            "0.05194250296244964703718290",
            "0.05066509075992449633587434",
            "0.04967437063972987905456880",
        ),
        source="Sofroniou and Spaletta (2005)",
    ),
}

ADJOINT_COMPOSITIONS = {
    "blanes_moan6": AdjointComposition(
        order=6,
        a_first_half=(
            "0.0502627644003922",
            "0.413514300428344",
            "0.0450798897943977",
            "-0.188054853819569",
            "0.541960678450780",
        ),
        b_first_half=(
            "0.148816447901042",
            "-0.132385865767784",
            "0.067307604692185",
            "0.432666402578175",
        ),
        source="Blanes and Moan (2002), S6",
    ),
}

PROCESSED_COMPOSITIONS = {
    "blanes_casas_murua8": ProcessedComposition(
        order=8,
        first_half=(
            "0.168",
            "0.168",
            "0.585550530805562",
            "-0.460090457516872",
            "0.172863148729731",
            "0.179664539695039",
        ),
        half_processor=(
            "-0.543415765371656",
            "0.598212975943381",
            "0.236885952363384",
            "-0.511744926116413",
            "0.162324207599241",
            "0.588351189003849",
            "0.333987768164597",
            "-0.337188967354338",
            "-0.008488123494574411",
        ),
        source="Blanes, Casas and Murua (2006), 13 stages",
    ),
}
