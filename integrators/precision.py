"""Numbers of the host in either arithmetic: doubles, and precise ones of 45 digits.

Kernels in double-double arithmetic, 32 digits, are given pairs of doubles. What makes them, here
and in the systems, is the code that makes doubles, run on precise numbers: objects of mpmath with
the methods that NumPy's functions call on arrays of objects. They lose no digit unasked: `float`
of one raises `LostDigits`, and so do sums and products with a float that has digits of its own,
such as 0.1, which must be made a precise number first.

A float that is given by a user stands for the simplest fraction that rounds to it
(`simplest_fraction`), so that 0.1 is 1/10 and 0.3333333333333333 is 1/3; see `to_precise`.
"""

import functools
import itertools
import math
import struct
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from integrators.errors import GeosweepError, InputError, check_known

Number = Any  # a float, or a precise number of mpmath

DOUBLE, DOUBLE_DOUBLE = ARITHMETICS = ("double", "double-double")
ARITHMETIC = "arithmetic"  # the option of integrators that names one of these
ROUND_OFF = {DOUBLE: 2.0**-52, DOUBLE_DOUBLE: 2.0**-104}  # from 1 to the next number
DIGITS = 45  # of precise numbers: those of double-double, and what ill conditioned steps lose
WRITTEN = 12  # most digits of a decimal in a program
SHORT = 24  # binary digits of a float that is taken for exact
PLAIN = 10**6  # denominators of fractions that are not looked at for multiples of π
DEGREES = 180  # largest denominator of a multiple of π
TURNS = 10**4  # largest multiple of π


class LostDigits(GeosweepError, ArithmeticError):
    """A precise number met a step that works in doubles."""


# --- from floats -------------------------------------------------------------------------------


def simplest_fraction(x: float) -> Fraction:
    """The fraction of least denominator that rounds to a float.

    Parameters
    ----------
    x : float

    Returns
    -------
    Fraction
        The fraction; for a large float, of the whole numbers that round to it, its own value.

    Raises
    ------
    InputError
        If it is not finite.
    """
    x = float(x)
    if not math.isfinite(x):
        raise InputError(f"{x!r} is not finite; expected a finite number")
    if x < 0.0:
        return -simplest_fraction(-x)
    if x.is_integer():
        return Fraction(x)
    exact, ulp = Fraction(x), Fraction(math.ulp(x))
    below = exact - Fraction(math.nextafter(x, 0.0))  # half as far from a power of 2
    even = not struct.unpack("<q", struct.pack("<d", x))[0] & 1
    return _simplest_fraction_between(exact - below / 2, exact + ulp / 2, even)


def _simplest_fraction_between(
    low: Fraction | float, high: Fraction | float, closed: bool
) -> Fraction:
    """The fraction of least denominator from `low` to `high`, positive; ends count if `closed`.

    It goes down the tree of Stern and Brocot by continued fractions: as long as both ends have the
    same whole part, that is the part of the fraction too.
    """
    parts = []
    while True:
        whole = math.floor(low)
        inside = whole if closed and whole == low else whole + 1
        if inside < high or (closed and inside == high):
            break
        parts.append(whole)
        low, high = 1 / (high - whole), (1 / (low - whole) if low > whole else math.inf)
    found = Fraction(inside)
    for whole in reversed(parts):
        found = whole + 1 / found
    return found


def simplest_fractions(values: ArrayLike) -> np.ndarray:
    """The `simplest_fraction` of each float, as an array of objects; of tableaux."""
    return _map_elements(simplest_fraction, np.asarray(values, dtype=float))


def to_precise(value: Any) -> Any:
    """The precise number that a number given by a user stands for.

    Parameters
    ----------
    value : float or Fraction, or tuple, list or array of these
        A float stands for its `simplest_fraction`; where that is no plain one and the float is a
        simple multiple of π, as π/6 is and a whole number of degrees, for that multiple.

    Returns
    -------
    precise number, or tuple or array of objects
        Whole numbers, and what is no number, are as they are given.
    """
    if isinstance(value, np.ndarray):
        return _map_elements(to_precise, value)
    if isinstance(value, (tuple, list)):
        return tuple(map(to_precise, value))
    if isinstance(value, float) and math.isfinite(value):
        return _precise_of_float(float(value))
    if isinstance(value, (float, Fraction)):
        return _nearest_precise(value)
    return value


@functools.lru_cache(maxsize=4096)
def _precise_of_float(x: float) -> Number:
    fraction = simplest_fraction(x)
    if fraction.denominator > PLAIN and abs(x) < math.pi * TURNS:
        multiple = Fraction(x / math.pi).limit_denominator(DEGREES)
        angle = _mpmath_context().pi * multiple.numerator / multiple.denominator
        off = abs(Fraction(_fraction_of_precise(angle)) - Fraction(x))
        if multiple and off <= Fraction(math.ulp(x)):
            return angle
    return _nearest_precise(fraction)


def precise_from_doubles(values: ArrayLike) -> np.ndarray:
    """Precise numbers that are the doubles given, as an array; of states that users give."""
    return _map_elements(lambda x: _mpmath_context().mpf(float(x)), np.asarray(values, dtype=float))


def _nearest_precise(value: Fraction | float) -> Number:
    """The precise number next to a rational one, or an infinite float."""
    mpf = _mpmath_context().mpf
    if isinstance(value, Fraction):
        return mpf(value.numerator) / value.denominator
    return mpf(value)


def _map_elements(made: Callable[[Any], object], values: np.ndarray) -> np.ndarray:
    found = np.empty(values.shape, dtype=object)
    for place in np.ndindex(values.shape):
        found[place] = made(values[place])
    return found


# --- of both arithmetics -----------------------------------------------------------------------


def is_precise(values: ArrayLike) -> bool:
    """Whether a number is precise, or an array of objects."""
    if isinstance(values, np.ndarray):
        return values.dtype.hasobject
    return hasattr(values, "_mpf_")


def to_numbers(values: ArrayLike, copy: bool = False) -> np.ndarray:
    """Numbers as an array: of float, or of precise numbers if one of them is.

    Parameters
    ----------
    values : array_like
    copy : bool
        Whether to make a new array where they are one already.

    Returns
    -------
    ndarray

    Raises
    ------
    LostDigits
        If others of them have digits of their own.
    TypeError, ValueError
        If they are no numbers, or no array.
    """
    if not (isinstance(values, np.ndarray) and values.dtype == float):
        found = np.asarray(values)
        if found.dtype == object and any(map(is_precise, found.flat)):
            return require_precise(found)
    return np.array(values, dtype=float) if copy else np.asarray(values, dtype=float)


def require_precise(values: ArrayLike) -> np.ndarray:
    """Numbers as an array of precise ones; `LostDigits` for floats with digits of their own."""
    return _map_elements(_precise_without_loss, np.asarray(values))


def _precise_without_loss(value: Any) -> Number:
    """A precise number as it is; another that is exact as it stands, as a precise one."""
    if hasattr(value, "_mpf_"):
        return value
    if isinstance(value, Fraction):
        return _nearest_precise(value)
    return _mpmath_context().mpf(_require_short_number(value))


def to_doubles(values: ArrayLike) -> np.ndarray:
    """Numbers of either arithmetic, or fractions, as the nearest doubles."""
    values = np.asarray(values)
    if values.dtype != object:
        return np.asarray(values, dtype=float)
    return to_double_doubles(values)[..., 0]


def to_double_doubles(values: ArrayLike | Sequence[Fraction]) -> np.ndarray:
    """Precise numbers as double-double ones.

    Parameters
    ----------
    values : array_like
        Precise numbers, fractions, and whatever is exact as it stands.

    Returns
    -------
    ndarray, shape (*shape, 2)
        The nearest doubles, then those nearest to what is left.

    Raises
    ------
    LostDigits
        For a float with digits of its own.
    """
    values = np.asarray(values)
    found = np.empty((*values.shape, 2))
    for place in np.ndindex(values.shape):
        found[place] = _high_and_low(values[place])
    return found


def _high_and_low(value: Any) -> tuple[float, float]:
    value = _fraction_of_precise(value) if hasattr(value, "_mpf_") else _require_short_number(value)
    if isinstance(value, float) and not math.isfinite(value):
        return value, 0.0
    high = float(value)
    return high, float(Fraction(value) - Fraction(high))


def _fraction_of_precise(number: Number) -> Fraction | float:
    """A precise number as a fraction; an infinite one, or NaN, as a float."""
    sign, mantissa, exponent, _ = number._mpf_
    if not mantissa and exponent:
        return float(str(number))
    return Fraction(-mantissa if sign else mantissa) * Fraction(2) ** exponent


def all_finite(values: ArrayLike) -> bool:
    """Whether every number of an array of either arithmetic is finite."""
    return bool(np.all(np.isfinite(to_doubles(values))))


def finite_parameters(values: ArrayLike) -> np.ndarray:
    """The parameters of a form as a new array of numbers of either arithmetic.

    Raises
    ------
    InputError
        If they are no list of finite numbers.
    """
    numbers = to_numbers(values, copy=True)
    if numbers.ndim != 1 or not all_finite(numbers):
        raise InputError(
            f"parameters = {numbers}; expected a list of finite numbers: what these are made of "
            "is too large or too small for double precision",
            key="parameters",
        )
    return numbers


def inverse_of(matrix: np.ndarray) -> np.ndarray:
    """The inverse of a matrix of either arithmetic."""
    if not is_precise(matrix):
        return np.linalg.inv(matrix)
    context = _mpmath_context()
    found = context.inverse(context.matrix(matrix.tolist()))
    return np.array(found.tolist(), dtype=object)


# --- what starts are made with -----------------------------------------------------------------


class Doubles:
    """Numbers of a system in double precision: `systems.base.System.arithmetic`."""

    name = DOUBLE
    pi = math.pi
    number = staticmethod(float)
    sqrt, sin, cos = staticmethod(math.sqrt), staticmethod(math.sin), staticmethod(math.cos)
    expm1, radians = staticmethod(math.expm1), staticmethod(math.radians)
    total = staticmethod(math.fsum)

    @staticmethod
    def array(values: ArrayLike) -> np.ndarray:
        """Numbers as an array of such numbers."""
        return np.array(values, dtype=float)


class PreciseNumbers:
    """The same of precise numbers.

    A float, which in a program is a decimal, is that decimal; one of more than `WRITTEN` digits has
    been computed, and raises `LostDigits`.
    """

    name = DOUBLE_DOUBLE

    @property
    def pi(self) -> Number:
        """π"""
        return +_mpmath_context().pi

    @staticmethod
    def number(value: Any) -> Number:
        """A number of the system's arithmetic."""
        if isinstance(value, float) and math.isfinite(value):
            written = Decimal(repr(float(value)))
            if len(written.as_tuple().digits) <= WRITTEN:
                value = Fraction(written)
        return _precise_without_loss(value)

    def array(self, values: ArrayLike) -> np.ndarray:
        """Numbers as an array of such numbers."""
        return _map_elements(self.number, np.asarray(values))

    def sqrt(self, x: Number) -> Number:
        """√x"""
        return self.number(x).sqrt()

    def sin(self, x: Number) -> Number:
        """The sine."""
        return self.number(x).sin()

    def cos(self, x: Number) -> Number:
        """The cosine."""
        return self.number(x).cos()

    def expm1(self, x: Number) -> Number:
        """exp(x) − 1"""
        return self.number(x).expm1()

    def radians(self, degrees: Number) -> Number:
        """An angle in radians."""
        return self.number(degrees) * self.pi / 180

    @staticmethod
    def total(values: Iterable[Number]) -> Number:
        """The sum."""
        return sum(values)


DOUBLES, PRECISE = Doubles(), PreciseNumbers()


def arithmetic_of(name: str) -> Doubles | PreciseNumbers:
    """`DOUBLES` or `PRECISE`, by the name of an arithmetic; or `InputError`."""
    check_known("arithmetic", name, ARITHMETICS, key="arithmetic")
    return PRECISE if name == DOUBLE_DOUBLE else DOUBLES


# --- the precise numbers -----------------------------------------------------------------------

UFUNCS = (  # by which NumPy's functions on arrays of objects are called, and mpmath's names
    ("sqrt", "sqrt"), ("exp", "exp"), ("expm1", "expm1"), ("log", "ln"), ("log1p", "log1p"),
    ("sin", "sin"), ("cos", "cos"), ("tan", "tan"), ("arcsin", "asin"), ("arccos", "acos"),
    ("arctan", "atan"), ("arctan2", "atan2"), ("sinh", "sinh"), ("cosh", "cosh"),
    ("tanh", "tanh"), ("hypot", "hypot"), ("floor", "floor"), ("ceil", "ceil"),
)  # fmt: skip
OPERATORS = ("add", "sub", "mul", "truediv", "mod", "pow")


@functools.cache
def _mpmath_context() -> Any:
    """mpmath's context with the precision and number class of this module."""
    import mpmath  # here: only double-double asks for it

    context = mpmath.MPContext()
    context.dps = DIGITS
    number = context.mpf
    number.__float__ = number.__complex__ = _refuse_conversion_to_float
    for name, own in UFUNCS:
        setattr(number, name, _function_as_method(getattr(context, own)))
    for side, name in itertools.product(("", "r"), OPERATORS):
        guarded = f"__{side}{name}__"
        setattr(number, guarded, _operator_refusing_long_floats(getattr(number, guarded)))
    return context


def _function_as_method(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *others: Any) -> Any:
        return function(self, *map(_require_short_number, others))

    return method


def _operator_refusing_long_floats(
    operation: Callable[[Any, Any], Any],
) -> Callable[[Any, Any], Any]:
    def guarded(self: Any, other: Any) -> Any:
        return operation(self, _require_short_number(other))

    return guarded


def _refuse_conversion_to_float(self: Any) -> NoReturn:
    raise LostDigits(f"{self} would lose digits as a float")


def _require_short_number(value: Any) -> Any:
    """A number as it is, but a float with digits of its own, which raises `LostDigits`."""
    if isinstance(value, (bool, np.bool_, np.integer)):
        return int(value)
    if isinstance(value, float):
        value = float(value)
        if math.isfinite(value):
            mantissa, _ = math.frexp(value)
            if not (mantissa * 2.0**SHORT).is_integer():
                raise LostDigits(
                    f"{value!r} is the double next to a number with more digits; expected that "
                    "number in the system's arithmetic"
                )
    return value
