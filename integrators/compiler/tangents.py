"""Numbers that carry derivatives: a float64 and its tangents in several directions.

Arithmetic is that of dual numbers: of y = f(x) the tangents are f'(x) times those of x, exact but
for rounding. The values are those of float64 to the last bit, since every operation takes them
alike, and comparisons look at nothing else. Griewank and Walther, *Evaluating Derivatives* (2008),
chapter 3.

A solver's iterations end when the values do; how their solution moves with the start is found
afterwards, by iterations that move the tangents alone (`carried`, `directions`).
"""

from collections.abc import Sequence

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from integrators.compiler import lanes
from integrators.compiler.compound import CompoundType, Family, Real
from integrators.compiler.lanes import FLOAT64, VECTOR, cos, exp, log, sin
from integrators.compiler.views import view

COUNT = 8  # tangents of a number


class TangentsType(CompoundType):
    """Numbers with tangents, alone or eight side by side."""

    number = types.float64
    tangents = COUNT


class Dual:
    """A value and its tangents, of `Real`.

    Alone, the tangents are one vector; eight side by side, a list of vectors. None of a constant.
    """

    def __init__(self, value: Real, tangents: Sequence[Real] | None = None) -> None:
        self.value, self.tangents = value, tangents

    @classmethod
    def of_real(cls, real: Real) -> "Dual":
        """A constant."""
        return cls(real)

    @classmethod
    def read(cls, values: Sequence[Real]) -> "Dual":
        """A number from the values of its struct."""
        return cls(values[0], values[1:])

    @classmethod
    def gathered(cls, parts: Sequence[Real], wide: bool) -> "Dual":
        """A number from its value and its tangents, each given as one number."""
        value, *tangents = parts
        if wide:
            return cls(value, tangents)
        vector = ir.Constant(ir.VectorType(FLOAT64, COUNT), ir.Undefined)
        for k, tangent in enumerate(tangents):
            vector = value.builder.insert_element(vector, tangent.value, ir.IntType(32)(k))
        return cls(value, [Real(value.builder, vector)])

    def write(self, size: int) -> list[Real]:
        """The values of a struct: eight side by side where there is a `size`."""
        value = self.value.repeated(size) if size else self.value
        none = [value.of(0.0)] * COUNT if size else [value.of(0.0).repeated(COUNT)]
        found = none if self.tangents is None else self.tangents
        return [value, *(t.repeated(size or COUNT) for t in found)]

    def spread(self) -> list[Real]:
        """The value and the tangents, each as one number."""
        value, tangents = self.write(0)
        builder = value.builder
        each = [builder.extract_element(tangents.value, ir.IntType(32)(k)) for k in range(COUNT)]
        return [value, *(Real(builder, tangent) for tangent in each)]

    def chained(self, value: Real, slope: Real) -> "Dual":
        """`value`, with its derivative by this number."""
        if self.tangents is None:
            return Dual(value)
        return Dual(value, [slope * t for t in self.tangents])

    def _sum(self, value: Real, other: "Dual", sign: int) -> "Dual":
        if other.tangents is None:
            return Dual(value, self.tangents)
        if self.tangents is None:
            return Dual(value, [t if sign > 0 else -t for t in other.tangents])
        pairs = zip(self.tangents, other.tangents, strict=True)
        return Dual(value, [a + b if sign > 0 else a - b for a, b in pairs])

    def __add__(self, other: "Dual") -> "Dual":
        return self._sum(self.value + other.value, other, 1)

    def __sub__(self, other: "Dual") -> "Dual":
        return self._sum(self.value - other.value, other, -1)

    def __neg__(self) -> "Dual":
        return Dual(-self.value, self.tangents and [-t for t in self.tangents])

    def __mul__(self, other: "Dual") -> "Dual":
        value = self.value * other.value
        if self.tangents is None:
            return other.chained(value, self.value)
        if other.tangents is None:
            return self.chained(value, other.value)
        pairs = zip(self.tangents, other.tangents, strict=True)
        return Dual(value, [a.fma(other.value, self.value * b) for a, b in pairs])

    def __truediv__(self, other: "Dual") -> "Dual":
        value = self.value / other.value
        if other.tangents is None:
            return Dual(value, self.tangents and [t / other.value for t in self.tangents])
        over = other.value.of(1.0) / other.value
        if self.tangents is None:
            return other.chained(value, -(value * over))
        pairs = zip(self.tangents, other.tangents, strict=True)
        return Dual(value, [(-value).fma(b, a) * over for a, b in pairs])

    def __abs__(self) -> "Dual":
        value = self.value.abs()
        one = self.value.of(1.0)
        return self.chained(value, (-one).where(self.value.compared("<", 0.0), one))

    def fma(self, b: "Dual", c: "Dual") -> "Dual":
        """self b + c; the value is rounded once."""
        value = self.value.fma(b.value, c.value)
        total = c.tangents
        for x, y in ((self, b), (b, self)):
            if x.tangents is None:
                continue
            if total is None:
                total = [y.value * t for t in x.tangents]
            else:
                total = [t.fma(y.value, s) for t, s in zip(x.tangents, total, strict=True)]
        return Dual(value, total)

    def sqrt(self) -> "Dual":
        """The square root; its derivative at 0 is taken as 0."""
        root = self.value.sqrt()
        some = root.compared(">", 0.0)
        half = self.value.of(0.5)
        slope = (half / root.where(some, half)).where(some, half * 0.0)
        return self.chained(root, slope)

    def nearest(self) -> "Dual":
        """The nearest whole number, with derivative 0."""
        return Dual((self.value + lanes.NEAREST) - lanes.NEAREST)

    def compared(self, symbol: str, other: "Dual") -> ir.Value:
        """Truth value of a comparison of the values."""
        return self.value.compared(symbol, other.value)

    def differs(self, other: "Dual") -> ir.Value:
        """Truth value of !=."""
        builder = self.value.builder
        return builder.not_(self.value.compared("==", other.value))


tangents = TangentsType("tangents", 1 + COUNT, wide=False)
tangents_lanes = TangentsType("tangents", 1 + COUNT, wide=True)
FAMILY = Family(
    TangentsType,
    Dual,
    tangents,
    tangents_lanes,
    (
        ir.LiteralStructType([FLOAT64, ir.VectorType(FLOAT64, COUNT)], packed=True),
        ir.LiteralStructType([VECTOR] * (1 + COUNT)),
    ),
)


# --- functions by their derivatives --------------------------------------------------------------


@intrinsic
def _value(typingctx, x):
    def emit(context, builder, sig, args):
        return builder.extract_value(args[0], 0)

    return (lanes.lane if x.wide else types.float64)(x), emit


@intrinsic
def _chained(typingctx, x, value, slope):
    """A value, with its derivative by x."""

    def emit(context, builder, sig, args):
        number = FAMILY.read(context, builder, x, args[0], x.wide)
        return FAMILY.write(builder, x, number.chained(*(Real(builder, a) for a in args[1:])))

    return x(x, value, slope), emit


@overload(lanes.value_of)
def _value_of(x):
    return (lambda x: _value(x)) if isinstance(x, TangentsType) else None


@overload(lanes.double_of)
def _double_of(x):
    return (lambda x: _value(x)) if isinstance(x, TangentsType) else None


@overload(sin)
def _sin(x):
    if isinstance(x, TangentsType):
        return lambda x: _chained(x, sin(_value(x)), cos(_value(x)))
    return None


@overload(cos)
def _cos(x):
    if isinstance(x, TangentsType):
        return lambda x: _chained(x, cos(_value(x)), -sin(_value(x)))
    return None


@overload(exp)
def _exp(x):
    def of_exponent(x):
        value = exp(_value(x))
        return _chained(x, value, value)

    return of_exponent if isinstance(x, TangentsType) else None


@overload(log)
def _log(x):
    if isinstance(x, TangentsType):
        return lambda x: _chained(x, log(_value(x)), 1.0 / _value(x))
    return None


# --- solvers: values that stand, tangents that move ----------------------------------------------
# A number's tangents are a lane of as many directions; these functions are of numbers alone.


@intrinsic
def _directions(typingctx, x):
    def emit(context, builder, sig, args):
        return builder.extract_value(args[0], 1)

    return lanes.lane(x), emit


@intrinsic
def _directed(typingctx, x, moving):
    def emit(context, builder, sig, args):
        return builder.insert_value(args[0], args[1], 1)

    return x(x, lanes.lane), emit


def directions(x):
    """The tangents as a lane; 0 without any."""
    return 0.0 * x


@overload(directions)
def _directions_overload(x):
    return (lambda x: _directions(x)) if x is tangents else (lambda x: lanes.eight(0.0))


def directed(x, moving):
    """The value of x with a lane for its tangents; x itself without tangents."""
    return x


@overload(directed)
def _directed_overload(x, moving):
    return (lambda x, moving: _directed(x, moving)) if x is tangents else (lambda x, moving: x)


def carried(x, moving):
    """The value of x with the tangents of `moving`; x itself without tangents."""
    return x


@overload(carried)
def _carried_overload(x, moving):
    if x is tangents:
        return lambda x, moving: _directed(x, directions(moving))
    return lambda x, moving: x


def over_directions(work):
    """View scratch as lanes, as many as it has elements; itself without tangents."""
    return work


@view(over_directions, lambda work: lanes.array(lanes.lane, 1))
def _over_directions(builder, source):
    return source.data, cgutils.unpack_tuple(builder, source.shape)
