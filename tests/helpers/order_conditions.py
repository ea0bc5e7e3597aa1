"""Order conditions of compositions, in the free algebra of A and B, and digits that meet them.

A composition of χ and χ* is one of the flows of A and B, where χ(h) = exp(hB) exp(hA). It has
order p if every word of k ≤ p letters of it has the coefficient that it has in exp(A + B), 1/k!.

    python tests/helpers/order_conditions.py NAME…

prints the coefficients of compositions to `DECIMALS`: those that meet the conditions, all of them,
and are nearest to the ones that are published, by Newton's method with steps of least norm.
"""

import math
import sys
from dataclasses import replace
from fractions import Fraction

import mpmath

from integrators.tableaux.compositions import (
    ADJOINT_COMPOSITIONS,
    COMPOSITIONS,
    PROCESSED_COMPOSITIONS,
)

ONE = 1 << 200  # numbers with two hundred binary digits after the point, as integers
DECIMALS = 45
FREE = {  # the digits that a composition has, and how many of the first are exact as they are
    **dict.fromkeys(COMPOSITIONS, (("first_half",), 0)),
    **dict.fromkeys(ADJOINT_COMPOSITIONS, (("a_first_half", "b_first_half"), 0)),
    **dict.fromkeys(PROCESSED_COMPOSITIONS, (("first_half", "half_processor"), 2)),
}
STEP = Fraction(1, 10**25)  # of the differences that make a Jacobian
RANK = mpmath.mpf(10) ** -18  # squared singular values below this share of the largest are 0


def merged(shares):
    """For how long A and B act in χ, χ*, χ, … of a splitting A + B, where A begins."""
    return (
        [shares[0], *(x + y for x, y in zip(shares[1::2], shares[2::2], strict=False)), shares[-1]],
        [x + y for x, y in zip(shares[::2], shares[1::2], strict=True)],
    )


def excesses(shares, longest):
    """By how much words of 0, 1, … letters of χ, χ*, χ, … miss 1/k!, times k!; the largest."""
    return [
        max(abs(c * math.factorial(k) - ONE) for c in of_length) / ONE
        for k, of_length in enumerate(words_of(shares, longest))
    ]


def words_of(shares, longest):
    """The coefficients of all words of 0, 1, … letters of χ, χ*, χ, …"""
    a, b = merged(shares)
    words = [[ONE], *([0] * 2**k for k in range(1, longest + 1))]
    for i, time in enumerate(a):
        words = multiplied(words, 0, time)
        words = multiplied(words, 1, b[i]) if i < len(b) else words
    return words


def multiplied(words, letter, time):
    """exp(time · letter) times a sum of words, whose first letter is the highest binary digit."""
    scaled = round(time * ONE)
    powers = [ONE]
    for k in range(1, len(words)):
        powers.append(powers[-1] * scaled // (k * ONE))
    result = []
    for length, coefficients in enumerate(words):
        result.append(list(coefficients))
        for word in range(len(coefficients)):
            for k in range(1, length + 1):  # as long as the word begins with that letter
                rest = length - k
                if (word >> rest) & 1 != letter:
                    break
                tail = words[rest][word & ((1 << rest) - 1)]
                result[length][word] += powers[k] * tail // ONE
    return result


def conjugated(composition):
    """The shares of a composition with those of a processor after it, and its inverse before."""
    shares, inner = composition.exact_shares, 2 * composition.stages
    kernel, processor = shares[:inner], shares[inner:]
    return [*(-share for share in reversed(processor)), *kernel, *processor]


def with_decimals(composition, names, values):
    """A composition with other decimals in some of its fields."""
    return replace(composition, **dict(zip(names, values, strict=True)))


def refined(composition, names, fixed):
    """Digits of a composition to `DECIMALS`; see the module.

    Parameters
    ----------
    composition : of a class of `tableaux.compositions`
    names : tuple of str
        Its fields with digits.
    fixed : int
        How many of the first stay as they are.

    Returns
    -------
    list of tuple of str
        As the fields are.
    """
    sizes = [len(getattr(composition, name)) for name in names]
    x = [Fraction(digits) for name in names for digits in getattr(composition, name)]

    def parts(x):
        ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
        return [tuple(x[end - size : end]) for size, end in zip(sizes, ends, strict=True)]

    def residual(x):
        made = with_decimals(composition, names, parts(x))
        words = words_of(conjugated(made), composition.order)
        return [c - ONE // math.factorial(k) for k, own in enumerate(words) for c in own]

    with mpmath.workdps(60):
        for _ in range(3):
            here = residual(x)
            jacobian = mpmath.matrix(len(here), len(x) - fixed)
            for j in range(fixed, len(x)):
                there = residual([*x[:j], x[j] + STEP, *x[j + 1 :]])
                for i, (one, other) in enumerate(zip(here, there, strict=True)):
                    jacobian[i, j - fixed] = mpmath.mpf(other - one) / ONE * STEP.denominator
            slope = jacobian.T * (mpmath.matrix(here) / ONE)
            squares, vectors = mpmath.eigsy(jacobian.T * jacobian)
            along, least = vectors.T * slope, RANK * max(squares)
            along = mpmath.matrix(
                [a / s if s > least else 0 for a, s in zip(along, squares, strict=True)]
            )
            step = vectors * along
            x[fixed:] = [
                own - Fraction(int(mpmath.nint(s * ONE)), ONE)
                for own, s in zip(x[fixed:], step, strict=True)
            ]
    return parts([_decimal(value) for value in x])


def _decimal(value):
    whole = abs(round(value * 10**DECIMALS))
    digits = f"{whole // 10**DECIMALS}.{whole % 10**DECIMALS:0{DECIMALS}d}"
    return ("-" if value < 0 else "") + digits


if __name__ == "__main__":
    every = COMPOSITIONS | ADJOINT_COMPOSITIONS | PROCESSED_COMPOSITIONS
    for asked in sys.argv[1:]:
        for tuple_of_digits in refined(every[asked], *FREE[asked]):
            print(asked, *tuple_of_digits, sep="\n    ")
