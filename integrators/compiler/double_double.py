"""Double-doubles: numbers of 31 digits as unevaluated sums of two float64.

A number is high + low with high the float64 nearest to it. The algorithms are those of M. Joldes,
J.-M. Muller and V. Popescu, *Tight and rigorous error bounds for basic building blocks of
double-word arithmetic* (ACM TOMS 44, 2017), numbered as there; their relative errors are a few
2⁻¹⁰⁴. They are written once for scalars and for lanes. Where high is not finite, low is of no
meaning, and may make later numbers NaN.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, Signature, infer_global, signature
from numba.extending import intrinsic, overload

from integrators.compiler import lanes
from integrators.compiler.compound import CompoundType, Family, Real
from integrators.compiler.lanes import FLOAT64, VECTOR, WIDTH, is_precise


class DoubleDoubleType(CompoundType):
    """Double-doubles, alone or eight side by side."""

    precise = True

    @property
    def number(self) -> types.Type:
        """The type of times, step sizes and parameters of kernels for these elements."""
        return double_double


def fast_two_sum(a: Real, b: Real) -> tuple[Real, Real]:
    """a + b, rounded, and its rounding error, for |a| ≥ |b|; algorithm 1."""
    total = a + b
    return total, b - (total - a)


def two_sum(a: Real, b: Real) -> tuple[Real, Real]:
    """a + b, rounded, and its rounding error; algorithm 2."""
    total = a + b
    of_a = total - b
    return total, (a - of_a) + (b - (total - of_a))


def two_product(a: Real, b: Real) -> tuple[Real, Real]:
    """a b, rounded, and its rounding error; algorithm 3."""
    product = a * b
    return product, a.fma(b, -product)


class DoubleDouble:
    """high + low, of `Real`; low None is an exact zero, of a number that is a float64."""

    def __init__(self, high: Real, low: Real | None = None) -> None:
        self.high, self.low = high, low

    @classmethod
    def of_real(cls, real: Real) -> "DoubleDouble":
        """A float64, or a lane."""
        return cls(real)

    @classmethod
    def read(cls, values: Sequence[Real]) -> "DoubleDouble":
        """A number from the values of its struct."""
        return cls(*values)

    @classmethod
    def gathered(cls, parts: Sequence[Real], wide: bool) -> "DoubleDouble":
        """A number from its parts."""
        return cls(*parts)

    def write(self, size: int) -> list[Real]:
        """The values of a struct, vectors of `size` or, for 0, doubles."""
        low = self.high.of(0.0) if self.low is None else self.low
        return [part.repeated(size) if size else part for part in (self.high, low)]

    def spread(self) -> list[Real]:
        """The parts that a lane of each vector of a struct takes."""
        return self.write(0)

    def __neg__(self) -> "DoubleDouble":
        return DoubleDouble(-self.high, None if self.low is None else -self.low)

    def __add__(self, other: "DoubleDouble") -> "DoubleDouble":
        if self.low is None:
            if other.low is None:
                return DoubleDouble(*two_sum(self.high, other.high))
            return other + self
        high, off = two_sum(self.high, other.high)
        if other.low is None:  # algorithm 4
            return DoubleDouble(*fast_two_sum(high, self.low + off))
        low, least = two_sum(self.low, other.low)  # algorithm 6
        high, off = fast_two_sum(high, off + low)
        return DoubleDouble(*fast_two_sum(high, least + off))

    def __sub__(self, other: "DoubleDouble") -> "DoubleDouble":
        return self + (-other)

    def __mul__(self, other: "DoubleDouble") -> "DoubleDouble":
        if self.low is None and other.low is not None:
            return other * self
        high, off = two_product(self.high, other.high)
        if self.low is None:
            return DoubleDouble(high, off)
        if other.low is None:  # algorithm 9
            return DoubleDouble(*fast_two_sum(high, self.low.fma(other.high, off)))
        least = self.low * other.low  # algorithm 12
        cross = self.low.fma(other.high, self.high.fma(other.low, least))
        return DoubleDouble(*fast_two_sum(high, off + cross))

    def __truediv__(self, other: "DoubleDouble") -> "DoubleDouble":
        if other.low is None:  # algorithm 15
            high = self.high / other.high
            product, off = two_product(high, other.high)
            left = (self.high - product) - off
            if self.low is not None:
                left = left + self.low
            return DoubleDouble(*fast_two_sum(high, left / other.high))
        high = self.high / other.high  # algorithm 17
        taken = other * DoubleDouble(high)
        left = self.high - taken.high
        assert taken.low is not None
        rest = -taken.low if self.low is None else self.low - taken.low
        return DoubleDouble(*fast_two_sum(high, (left + rest) / other.high))

    def __abs__(self) -> "DoubleDouble":
        assert self.low is not None
        negative = self.high.compared("<", 0.0)
        return DoubleDouble(
            (-self.high).where(negative, self.high), (-self.low).where(negative, self.low)
        )

    def fma(self, b: "DoubleDouble", c: "DoubleDouble") -> "DoubleDouble":
        """self b + c; the product is rounded to a double-double, unlike that of float64."""
        return self * b + c

    def sqrt(self) -> "DoubleDouble":
        """The square root, by a step of Newton's method from the high one's; 0 of 0."""
        assert self.low is not None
        high = self.high.sqrt()
        product, off = two_product(high, high)
        left = ((self.high - product) - off) + self.low
        some = self.high.compared(">", 0.0)
        twice = (high + high).where(some, high.of(1.0))
        root = fast_two_sum(high, left / twice)
        return DoubleDouble(*root)

    def nearest(self) -> "DoubleDouble":
        """The nearest whole number, of |x| < 2⁵¹."""
        assert self.low is not None
        return DoubleDouble((self.high + lanes.NEAREST) - lanes.NEAREST, self.low.of(0.0))

    def compared(self, symbol: str, other: "DoubleDouble") -> ir.Value:
        """Truth values of <, <=, >, >= or ==: the highs decide, where they differ."""
        builder = self.high.builder
        high, low = self.high, self.low if self.low is not None else self.high.of(0.0)
        other_low = other.low if other.low is not None else other.high.of(0.0)
        equal = high.compared("==", other.high)
        if symbol == "==":
            return builder.and_(equal, low.compared("==", other_low))
        decided = high.compared(symbol.rstrip("="), other.high)
        return builder.or_(decided, builder.and_(equal, low.compared(symbol, other_low)))

    def differs(self, other: "DoubleDouble") -> ir.Value:
        """Truth value of !=."""
        return self.high.builder.not_(self.compared("==", other))


double_double = DoubleDoubleType("double_double", 2, wide=False)
double_double_lanes = DoubleDoubleType("double_double", 2, wide=True)
FAMILY = Family(
    DoubleDoubleType,
    DoubleDouble,
    double_double,
    double_double_lanes,
    (ir.LiteralStructType([FLOAT64] * 2), ir.LiteralStructType([VECTOR] * 2)),
)


# --- from float64 and back ---------------------------------------------------------------------


@intrinsic
def pair(typingctx, high, low):
    """The double-double of two float64, the first being nearest to their sum."""

    def emit(context, builder, sig, args):
        return FAMILY.write(builder, double_double, DoubleDouble(*(Real(builder, x) for x in args)))

    return double_double(types.float64, types.float64), emit


@intrinsic
def high_part(typingctx, x):
    """The nearest float64, or lane of them."""

    def emit(context, builder, sig, args):
        return builder.extract_value(args[0], 0)

    return (lanes.lane if x.wide else types.float64)(x), emit


@infer_global(int)
class _Int(AbstractTemplate):
    """int(x), of whole numbers among a kernel's parameters."""

    def generic(self, args: tuple[types.Type, ...], kws: dict[str, types.Type]) -> Signature | None:
        return signature(types.int64, double_double) if args == (double_double,) else None


@lower_builtin(int, DoubleDoubleType)
def _int(context, builder, sig, args):
    return builder.fptosi(builder.extract_value(args[0], 0), ir.IntType(64))


@overload(lanes.double_of)
def _double_of(x):
    return (lambda x: high_part(x)) if x is double_double else None


@overload(lanes.number)
def _number(like, high, low):
    return (lambda like, high, low: pair(high, low)) if is_precise(like) else None


# --- functions ---------------------------------------------------------------------------------

PI = Fraction(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899863"
)
LN_2 = Fraction(
    "0.69314718055994530941723212145817656807550013436025525412068000949339362196969471561"
)
TERMS = 15  # of the series of the sine and the cosine up to π/4, and of the exponential
HALVINGS = 6  # of the exponent, until the series converges


def split_fraction(number: Fraction) -> tuple[float, float]:
    """High and low float64 of a `Fraction`."""
    high = float(number)
    return high, float(number - Fraction(high))


def split_into_columns(numbers: Iterable[Fraction]) -> tuple[tuple[float, ...], ...]:
    """High and low float64 of some fractions: a tuple of the high ones, a tuple of the low ones."""
    return tuple(zip(*map(split_fraction, numbers), strict=True))


def rounding_remainders(numbers: Iterable[Fraction], doubles: Iterable[float]) -> tuple[float, ...]:
    """Fractions less the doubles that approximate them, as a tuple of float64."""
    return tuple(float(n - Fraction(x)) for n, x in zip(numbers, doubles, strict=True))


QUARTER, QUARTER_LOW = split_fraction(PI / 2)
QUARTER_LEAST = float(PI / 2 - Fraction(QUARTER) - Fraction(QUARTER_LOW))
LN_2_HIGH, LN_2_LOW = split_fraction(LN_2)
SINE, SINE_LOW = split_into_columns(
    Fraction((-1) ** k, math.factorial(2 * k + 1)) for k in range(TERMS)
)
COSINE, COSINE_LOW = split_into_columns(
    Fraction((-1) ** k, math.factorial(2 * k)) for k in range(TERMS)
)
POWER, POWER_LOW = split_into_columns(Fraction(1, math.factorial(k + 1)) for k in range(TERMS))
OPTIONS = {"error_model": "numpy"}


def _overload_for_double_doubles(function: Callable[..., Any], alone: Callable[..., Any]) -> None:
    """Let kernels call a function of the vocabulary, which `alone` computes, eight of lanes."""

    @overload(function, jit_options=OPTIONS)
    def choose(x):
        if x is double_double:
            return alone
        if x is not double_double_lanes:
            return None

        def by_lane(x):
            result = x
            for i in range(WIDTH):
                result = lanes.with_lane(result, i, function(lanes.lane_of(x, i)))
            return result

        return by_lane


def _sine_of_shifted_angle(shift: int) -> Callable[[float], float]:
    """The sine of x + shift π/2, by the series of what is beyond the next π/2."""

    def sine(x):
        turns = lanes.nearest(x * (1.0 / QUARTER))
        r = ((x - turns * QUARTER) - turns * QUARTER_LOW) - turns * QUARTER_LEAST
        square = r * r
        odd, even = pair(SINE[TERMS - 1], 0.0), pair(COSINE[TERMS - 1], 0.0)
        for k in range(TERMS - 2, -1, -1):
            odd = odd * square + pair(SINE[k], SINE_LOW[k])
            even = even * square + pair(COSINE[k], COSINE_LOW[k])
        quadrant = int(high_part(turns) + shift) & 3
        value = even if quadrant & 1 else odd * r
        return -value if quadrant & 2 else value

    return sine


def _exponential(x):
    whole = high_part(lanes.nearest(x * (1.0 / LN_2_HIGH)))
    r = (x - whole * pair(LN_2_HIGH, LN_2_LOW)) * 0.5**HALVINGS
    less = pair(POWER[TERMS - 1], 0.0)  # (exp(r) − 1)/r
    for k in range(TERMS - 2, -1, -1):
        less = less * r + pair(POWER[k], POWER_LOW[k])
    less = less * r
    for _ in range(HALVINGS):  # of 2r it is twice that and its square
        less = 2.0 * less + less * less
    if not abs(whole) < 1000.0:
        return pair(math.exp(high_part(x)), 0.0)
    return (less + 1.0) * math.ldexp(1.0, int(whole))


def _logarithm(x):
    near = lanes.log(high_part(x))
    if not abs(near) < 690.0:
        return pair(near, 0.0)
    off = x * lanes.exp(-pair(near, 0.0)) - 1.0
    return near + (off - 0.5 * off * off)


for _function, _alone in (
    (lanes.sin, _sine_of_shifted_angle(0)),
    (lanes.cos, _sine_of_shifted_angle(1)),
    (lanes.exp, _exponential),
    (lanes.log, _logarithm),
):
    _overload_for_double_doubles(_function, _alone)
