"""Lanes: a vector of eight float64, or of another number of them, as one Numba number.

A kernel is written once, in the vocabulary of this module, and compiles for every element type
(see `elements`): ``float64`` (one trajectory), `lane` (eight trajectories side by side, the LLVM
type ``<8 x double>``), and numbers made of several of these. Comparisons of lanes give a `mask`
(``<8 x i1>``); a branch may only test `any_lane` or `all_lanes` of a mask, everything else goes
through `select`.

Every operation is the correctly rounded IEEE one (or the scalar library function lane by
lane), so that lanes are bitwise equal to scalar code whatever the width of the CPU's vectors.
Products and sums are fused where `fma` says so, and nowhere else.
In plain Python (``NUMBA_DISABLE_JIT=1``) the functions below work on floats, and on objects that
have arithmetic and the functions as methods; lanes within one trajectory
(`integrators.compiler.blocks`) are arrays of eight there.
"""

import math
import operator
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import DataModelManager
from numba.core.imputils import lower_builtin, lower_cast
from numba.core.typeconv import Conversion
from numba.core.typing import BaseContext as TypingContext
from numba.core.typing.templates import AbstractTemplate, Signature, infer_global, signature
from numba.extending import intrinsic, models, overload, register_model

WIDTH = 8
ALIGNMENT = 64  # bytes: a cache line, and one vector of eight float64

FLOAT64 = ir.DoubleType()
VECTOR = ir.VectorType(FLOAT64, WIDTH)
_INDEX = ir.IntType(32)


class LaneType(types.Type):
    """Some float64 side by side, by default eight; scalars convert to it by being repeated."""

    wide = True

    def __init__(self, width: int = WIDTH) -> None:
        self.width = width
        super().__init__(name="lane" if width == WIDTH else f"lane_of_{width}")

    def can_convert_from(self, typingctx: TypingContext, other: types.Type) -> Conversion | None:
        """Let a real scalar stand where a lane is expected."""
        return Conversion.safe if isinstance(other, _SCALARS) else None

    def unify(self, typingctx: TypingContext, other: types.Type) -> "LaneType | None":
        """A variable that is a scalar on one path and a lane on another is a lane."""
        return self if isinstance(other, _SCALARS) else None


class MaskType(types.Type):
    """As many truth values."""

    def __init__(self, width: int = WIDTH) -> None:
        self.width = width
        super().__init__(name=f"mask_of_{width}")


_SCALARS = (types.Float, types.Integer)
lane = LaneType()
mask = MaskType()


def _is_wide(kind: types.Type) -> bool:
    """Whether a type is one of eight numbers side by side."""
    return getattr(kind, "wide", False)


def is_precise(kind: types.Type) -> bool:
    """Whether numbers of a type have the digits of two float64."""
    return getattr(kind, "precise", False)


def _are_lanes(*kinds: types.Type) -> bool:
    """Whether all types are those of this module: lanes, masks and scalars."""
    known = (LaneType, MaskType, types.Boolean, *_SCALARS)
    return all(isinstance(types.unliteral(kind), known) for kind in kinds)


@register_model(LaneType)
class _LaneModel(models.PrimitiveModel):
    def __init__(self, dmm: DataModelManager, fe_type: types.Type) -> None:
        super().__init__(dmm, fe_type, ir.VectorType(FLOAT64, fe_type.width))


@register_model(MaskType)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, dmm: DataModelManager, fe_type: types.Type) -> None:
        super().__init__(dmm, fe_type, ir.VectorType(ir.IntType(1), fe_type.width))


def wide_of(element: types.Type) -> types.Type:
    """Numba type of eight numbers of a type side by side."""
    return lane if element is types.float64 else element.family.wide


def scalar_of(element: types.Type) -> types.Type:
    """Numba type of a single number of an element type, also for lanes."""
    known = element is types.float64 or isinstance(element, LaneType)
    return types.float64 if known else element.family.scalar


def number_of(element: types.Type) -> types.Type:
    """Numba type of times, step sizes, constants and parameters beside `element`."""
    return getattr(element, "number", types.float64)


def vectors(element: types.Type) -> types.Array:
    """Numba type of a stack of 3-vectors, shape ``(rows, 3)``, of `element`."""
    return types.Array(element, 2, "C", aligned=element is types.float64)


def flat(element: types.Type) -> types.Array:
    """Numba type of a flat array of `element`."""
    return types.Array(element, 1, "C", aligned=element is types.float64)


def array(element: types.Type, ndim: int) -> types.Array:
    """Numba type of a C-contiguous array of `element`."""
    return types.Array(element, ndim, "C", aligned=element is types.float64)


# --- conversion and arithmetic ---------------------------------------------------------------


def _splat(builder: ir.IRBuilder, scalar: ir.Value, width: int = WIDTH) -> ir.Value:
    undefined = ir.Constant(ir.VectorType(FLOAT64, width), ir.Undefined)
    vector = builder.insert_element(undefined, scalar, _INDEX(0))
    zeros = ir.Constant(ir.VectorType(_INDEX, width), None)
    return builder.shuffle_vector(vector, undefined, zeros)


@lower_cast(types.Float, LaneType)
@lower_cast(types.Integer, LaneType)
def _cast_scalar_to_lane(context, builder, fromty, toty, value):
    return _splat(builder, context.cast(builder, value, fromty, types.float64), toty.width)


def _lane_among(args: Sequence[types.Type]) -> LaneType | None:
    """The type of the lanes among lanes and scalars; None of others, and of scalars alone."""
    found = {arg for arg in args if isinstance(arg, LaneType)}
    if len(found) != 1 or not all(isinstance(arg, (LaneType, *_SCALARS)) for arg in args):
        return None
    return found.pop()


class _BinaryTemplate(AbstractTemplate):
    result: type[types.Type] = LaneType

    def generic(self, args: tuple[types.Type, ...], kws: dict[str, types.Type]) -> Signature | None:
        own = _lane_among(args)
        if kws or len(args) != 2 or own is None:
            return None
        return signature(self.result(own.width), own, own)


class _ComparisonTemplate(_BinaryTemplate):
    result = MaskType


class _SameTemplate(AbstractTemplate):
    kind: type[types.Type] = LaneType

    def generic(self, args: tuple[types.Type, ...], kws: dict[str, types.Type]) -> Signature | None:
        is_same = not kws and len(set(args)) == 1 and isinstance(args[0], self.kind)
        return signature(args[0], *args) if is_same else None


class _MaskTemplate(_SameTemplate):
    kind = MaskType


def _register(
    template: type[AbstractTemplate],
    function: Callable[..., Any],
    argument_types: tuple[type[types.Type], ...],
    emit: Callable[..., ir.Value],
) -> None:
    infer_global(function)(type(f"_{function.__name__}_template", (template,), {}))

    @lower_builtin(function, *argument_types)
    def lower(context, builder, sig, args):
        return emit(builder, *args)


def _register_operators() -> None:
    arithmetic = {"add": "fadd", "sub": "fsub", "mul": "fmul", "truediv": "fdiv"}
    for name, instruction in arithmetic.items():
        for prefix in ("", "i"):
            _register(
                _BinaryTemplate,
                getattr(operator, prefix + name),
                (LaneType, LaneType),
                lambda builder, a, b, op=instruction: getattr(builder, op)(a, b),
            )
    for name, symbol in {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
        _register(
            _ComparisonTemplate,
            getattr(operator, name),
            (LaneType, LaneType),
            lambda builder, a, b, op=symbol: builder.fcmp_ordered(op, a, b),
        )
    for function, instruction in ((operator.and_, "and_"), (operator.or_, "or_")):
        _register(
            _MaskTemplate,
            function,
            (MaskType, MaskType),
            lambda builder, a, b, op=instruction: getattr(builder, op)(a, b),
        )
    _register(_MaskTemplate, operator.invert, (MaskType,), lambda builder, a: builder.not_(a))
    _register(_SameTemplate, operator.neg, (LaneType,), lambda builder, a: builder.fneg(a))
    _register(
        _SameTemplate, abs, (LaneType,), lambda builder, a: _llvm_intrinsic(builder, "fabs", a)
    )


def _llvm_intrinsic(builder: ir.IRBuilder, name: str, *values: ir.Value) -> ir.Value:
    """A call of LLVM's function of doubles, or of vectors of them, of that name."""
    kind = values[0].type
    of = f"v{kind.count}f64" if isinstance(kind, ir.VectorType) else "f64"
    function_type = ir.FunctionType(kind, [kind] * len(values))
    function = cgutils.get_or_insert_function(builder.module, function_type, f"llvm.{name}.{of}")
    return builder.call(function, values)


_register_operators()


# --- functions with one meaning for both element types ---------------------------------------


def select(condition, if_true, if_false):
    """Where `condition` holds `if_true`, elsewhere `if_false`; both are evaluated.

    Parameters
    ----------
    condition : bool or mask of lanes
    if_true, if_false : number or lanes

    Returns
    -------
    number or lanes
    """
    if np.ndim(condition):
        return np.where(condition, if_true, if_false)
    return _select_scalar(condition, if_true, if_false)


def _select_scalar(condition, if_true, if_false):
    return if_true if condition else if_false


@intrinsic
def _select_lanes(typingctx, condition, if_true, if_false):
    def emit(context, builder, sig, args):
        return builder.select(*args)

    own = LaneType(condition.width)
    return own(condition, own, own), emit


@overload(select)
def _select(condition, if_true, if_false):
    if not _are_lanes(if_true, if_false):
        return None
    if isinstance(condition, MaskType):
        return lambda condition, if_true, if_false: _select_lanes(condition, if_true, if_false)
    return _select_scalar


def any_lane(condition):
    """Whether `condition` holds in any lane."""
    return condition


def all_lanes(condition):
    """Whether `condition` holds in every lane."""
    return condition


def rarely(condition):
    """`condition`, a truth value that seldom holds: code is laid out for where it does not."""
    return condition


@intrinsic
def _expected_false(typingctx, condition):
    def emit(context, builder, sig, args):
        bit = ir.IntType(1)
        expect = ir.FunctionType(bit, [bit, bit])
        function = cgutils.get_or_insert_function(builder.module, expect, "llvm.expect.i1")
        return builder.call(function, [args[0], bit(0)])

    return types.boolean(types.boolean), emit


@overload(rarely)
def _rarely(condition):
    return lambda condition: _expected_false(condition)


def bits(condition):
    """The mask as an integer, lane 0 lowest; 0 or 1 for a scalar."""
    return 1 if condition else 0


@intrinsic
def _mask_bits(typingctx, condition):
    def emit(context, builder, sig, args):
        packed = builder.bitcast(args[0], ir.IntType(condition.width))
        return builder.zext(packed, ir.IntType(64))

    return types.int64(condition), emit


@overload(any_lane)
def _any_lane(condition):
    if isinstance(condition, MaskType):
        return lambda condition: _mask_bits(condition) != 0
    return any_lane


@overload(all_lanes)
def _all_lanes(condition):
    if isinstance(condition, MaskType):
        every = (1 << condition.width) - 1
        return lambda condition: _mask_bits(condition) == every
    return all_lanes


@overload(bits)
def _bits(condition):
    if isinstance(condition, MaskType):
        return lambda condition: _mask_bits(condition)
    return bits


def sqrt(x):
    """Square root; NaN for a negative argument, in plain Python too.

    Parameters
    ----------
    x : number or lanes

    Returns
    -------
    number or lanes
    """
    if not isinstance(x, Real):  # an expression
        return x.sqrt()
    return math.sqrt(x) if x >= 0.0 else math.nan


@intrinsic
def _sqrt_any(typingctx, x):
    def emit(context, builder, sig, args):
        return _llvm_intrinsic(builder, "sqrt", *args)

    return x(x), emit


@overload(sqrt)
def _sqrt(x):
    return (lambda x: _sqrt_any(x)) if _are_lanes(x) else None


def fma(a, b, c):
    """a b + c, rounded once.

    Parameters
    ----------
    a, b, c : number or lanes

    Returns
    -------
    number or lanes

    Notes
    -----
    Compiled code uses the CPU's instruction or, on one that has none, the C library's function,
    whose bits are the same but which is slower. Plain Python, where `math.fma` is from 3.13 only,
    divides the exact ratio of two integers, which rounds once as well.
    """
    rounded = a * b + c
    if np.ndim(rounded):
        return np.array([fma(*numbers) for numbers in np.broadcast(a, b, c)])
    if not isinstance(rounded, Real):  # an expression
        return rounded
    number = type(rounded)
    if not (math.isfinite(a) and math.isfinite(b)):
        return rounded
    if not math.isfinite(c):
        return number(c)
    (m, over_a), (n, over_b), (k, over_c) = (float(x).as_integer_ratio() for x in (a, b, c))
    above, below = m * n * over_c + k * over_a * over_b, over_a * over_b * over_c
    if above == 0:
        return rounded  # exact, with the sign that a zero has
    try:
        return number(above / below)
    except OverflowError:
        return number(math.inf if above > 0 else -math.inf)


@infer_global(fma)
class _FmaTemplate(AbstractTemplate):
    def generic(self, args: tuple[types.Type, ...], kws: dict[str, types.Type]) -> Signature | None:
        number = _lane_among(args)
        if number is None and all(isinstance(a, _SCALARS) for a in args):
            number = types.float64
        if kws or len(args) != 3 or number is None:
            return None
        return signature(number, number, number, number)


@lower_builtin(fma, LaneType, LaneType, LaneType)
@lower_builtin(fma, types.Float, types.Float, types.Float)
def _lower_fma(context, builder, sig, args):
    return _llvm_intrinsic(builder, "fma", *args)


@intrinsic
def _extract(typingctx, vector, index):
    def emit(context, builder, sig, args):
        return builder.extract_element(args[0], builder.trunc(args[1], _INDEX))

    return types.float64(vector, types.int64), emit


@intrinsic
def _insert(typingctx, vector, value, index):
    def emit(context, builder, sig, args):
        return builder.insert_element(args[0], args[1], builder.trunc(args[2], _INDEX))

    return vector(vector, types.float64, types.int64), emit


_EACH_LANE = """``math.{}``, lane by lane; NaN outside the domain, −∞ for the logarithm of 0.

Parameters
----------
x : number or lanes

Returns
-------
number or lanes
"""


def _each_lane(function: Callable[[float], float]) -> Callable[[Any], Any]:
    """`function` of a float, lane by lane: Numba's own scalar implementation each time."""

    def wrapped(x):
        if not isinstance(x, Real):
            return getattr(x, function.__name__)()
        try:
            return function(x)
        except ValueError:  # outside the domain, where compiled code gives NaN, or −inf for log 0
            return -math.inf if x == 0.0 else math.nan

    wrapped.__name__ = function.__name__
    wrapped.__doc__ = _EACH_LANE.format(function.__name__)

    @overload(wrapped)
    def choose(x):
        if not _are_lanes(x):
            return None
        if not isinstance(x, LaneType):
            return lambda x: function(x)
        width = x.width

        def by_lane(x):
            result = x
            for i in range(width):
                result = _insert(result, function(_extract(x, i)), i)
            return result

        return by_lane

    return wrapped


sin = _each_lane(math.sin)
cos = _each_lane(math.cos)
log = _each_lane(math.log)
exp = _each_lane(math.exp)

NEAREST = 6755399441055744.0  # 1.5 · 2⁵²: x + this − this is the whole number nearest to x


def nearest(x):
    """The whole number nearest to x, |x| < 2⁵¹; its derivative is 0."""
    return (x + NEAREST) - NEAREST


@overload(nearest)
def _nearest(x):
    return nearest if _are_lanes(x) else None


VAST = 1e150  # as good as infinity, and its square is a number


def infinite(like):
    """Infinity, or `VAST` where that is no number of the element type."""
    return math.inf


@overload(infinite)
def _infinite(like):
    return (lambda like: VAST) if is_precise(like) else (lambda like: math.inf)


def by_precision(like, usual, precise):
    """`usual`, or `precise` where the element type has the digits of two float64."""
    return usual


@overload(by_precision)
def _by_precision(like, usual, precise):
    if is_precise(like):
        return lambda like, usual, precise: precise
    return lambda like, usual, precise: usual


def number(like, high, low):
    """The constant high + low to the digits of the element type: `high` in double precision."""
    return high


@overload(number)
def _number(like, high, low):
    return None if is_precise(like) else (lambda like, high, low: high)


def value_of(x):
    """A number without its tangents, where it has any."""
    return x


@overload(value_of)
def _value_of(x):
    return (lambda x: x) if not hasattr(x, "tangents") else None


def double_of(x):
    """The float64 nearest to a single number: no tangents, no low part of a double-double."""
    return x


@overload(double_of)
def _double_of(x):
    return (lambda x: x) if isinstance(x, types.Float) else None


def hsum(x):
    """Sum of the lanes in a fixed tree: halves are added three times."""
    while np.ndim(x):
        half = len(x) // 2
        x = x[:half] + x[half:] if half else x[0]
    return x


@overload(hsum)
def _hsum(x):
    if not _is_wide(x):
        return lambda x: x

    def tree(x):
        a = (lane_of(x, 0) + lane_of(x, 4)) + (lane_of(x, 2) + lane_of(x, 6))
        b = (lane_of(x, 1) + lane_of(x, 5)) + (lane_of(x, 3) + lane_of(x, 7))
        return a + b

    return tree


def eight(value):
    """A lane of eight times `value`, whatever the kernel's element type."""
    return np.full(WIDTH, value)


@intrinsic
def _eight(typingctx, value):
    def emit(context, builder, sig, args):
        return _splat(builder, args[0])

    return lane(types.float64), emit


@overload(eight)
def _eight_overload(value):
    return lambda value: _eight(value)


def lane_of(x, i):
    """The number in lane i of `x`; a scalar is the number itself."""
    return x[i] if np.ndim(x) else x


@overload(lane_of)
def _lane_of(x, i):
    if isinstance(x, LaneType):
        return lambda x, i: _extract(x, i)
    return None if _is_wide(x) else (lambda x, i: x)


def with_lane(x, i, value):
    """`x` with `value` in lane i; a scalar becomes `value`."""
    return np.where(np.arange(WIDTH) == i, value, x) if np.ndim(x) else value


@overload(with_lane)
def _with_lane(x, i, value):
    if isinstance(x, LaneType) and _are_lanes(value):
        return lambda x, i, value: _insert(x, value, i)
    return None if _is_wide(x) else (lambda x, i, value: value)


def ramp(like):
    """0, 1, … 7 in the lanes; 0 for a scalar. `like` only gives the element type."""
    return np.arange(float(WIDTH)) if np.ndim(like) else 0.0


@intrinsic
def _ramp_lanes(typingctx):
    def emit(context, builder, sig, args):
        return ir.Constant(VECTOR, [float(i) for i in range(WIDTH)])

    return lane(), emit


@overload(ramp)
def _ramp(like):
    return (lambda like: _ramp_lanes()) if _is_wide(like) else (lambda like: 0.0)
