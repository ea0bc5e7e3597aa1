"""Numbers made of several float64, as Numba types: the base of tangents and double-doubles.

A family of such numbers has two types: one is made of float64, the other, `wide`, of lanes, eight
numbers side by side. Its operations are written once, in the arithmetic of `Real`, and emitted as
LLVM instructions for both. In memory the parts of a number follow one another, and the eight
numbers of a wide one too: an array of float64 with one more axis, or two, is an array of them.
"""

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.base import BaseContext
from numba.core.datamodel import DataModelManager
from numba.core.imputils import lower_builtin, lower_cast
from numba.core.typeconv import Conversion
from numba.core.typing import BaseContext as TypingContext
from numba.core.typing.templates import AbstractTemplate, Signature, infer_global, signature
from numba.extending import intrinsic, models, overload, register_model

from integrators.compiler import lanes
from integrators.compiler.lanes import FLOAT64, VECTOR, WIDTH, LaneType, lane, mask

_INDEX = ir.IntType(32)
_SCALARS = (types.Float, types.Integer)


class Real:
    """An LLVM value of type double, or a vector of them, with the operators of a number.

    Beside a vector a double is repeated. Each operation is rounded once; nothing is contracted.
    """

    def __init__(self, builder: ir.IRBuilder, value: ir.Value) -> None:
        self.builder, self.value = builder, value

    @property
    def size(self) -> int:
        """Length of a vector; 0 for a double."""
        return self.value.type.count if isinstance(self.value.type, ir.VectorType) else 0

    def of(self, number: float) -> "Real":
        """A Python float as a value of the same type."""
        kind = self.value.type
        return Real(self.builder, ir.Constant(kind, [number] * self.size if self.size else number))

    def repeated(self, size: int) -> "Real":
        """A double as a vector of so many."""
        if self.size == size:
            return self
        kind = ir.VectorType(FLOAT64, size)
        undefined = ir.Constant(kind, ir.Undefined)
        one = self.builder.insert_element(undefined, self.value, _INDEX(0))
        zeros = ir.Constant(ir.VectorType(_INDEX, size), None)
        return Real(self.builder, self.builder.shuffle_vector(one, undefined, zeros))

    def _values_of_equal_size(self, *others: "Real | float") -> list[ir.Value]:
        numbers = [self, *(x if isinstance(x, Real) else self.of(x) for x in others)]
        size = max(x.size for x in numbers)
        return [x.repeated(size).value for x in numbers] if size else [x.value for x in numbers]

    def _apply_instruction(self, instruction: str, *others: "Real | float") -> "Real":
        return Real(
            self.builder, getattr(self.builder, instruction)(*self._values_of_equal_size(*others))
        )

    def __add__(self, other: "Real | float") -> "Real":
        return self._apply_instruction("fadd", other)

    def __sub__(self, other: "Real | float") -> "Real":
        return self._apply_instruction("fsub", other)

    def __mul__(self, other: "Real | float") -> "Real":
        return self._apply_instruction("fmul", other)

    def __truediv__(self, other: "Real | float") -> "Real":
        return self._apply_instruction("fdiv", other)

    def __rmul__(self, other: "Real | float") -> "Real":
        return self * other

    def __neg__(self) -> "Real":
        return self._apply_instruction("fneg")

    def _intrinsic(self, name: str, *others: "Real | float") -> "Real":
        values = self._values_of_equal_size(*others)
        kind = values[0].type
        of = f"v{kind.count}f64" if isinstance(kind, ir.VectorType) else "f64"
        function_type = ir.FunctionType(kind, [kind] * len(values))
        function = cgutils.get_or_insert_function(
            self.builder.module, function_type, f"llvm.{name}.{of}"
        )
        return Real(self.builder, self.builder.call(function, values))

    def fma(self, b: "Real | float", c: "Real | float") -> "Real":
        """self b + c, rounded once."""
        return self._intrinsic("fma", b, c)

    def sqrt(self) -> "Real":
        """The square root."""
        return self._intrinsic("sqrt")

    def abs(self) -> "Real":
        """The absolute value."""
        return self._intrinsic("fabs")

    def compared(self, symbol: str, other: "Real | float") -> ir.Value:
        """The truth value, or truth values, of a comparison; false where one is NaN."""
        return self.builder.fcmp_ordered(symbol, *self._values_of_equal_size(other))

    def where(self, condition: ir.Value, other: "Real | float") -> "Real":
        """This where a truth value holds, or those of a vector do, else `other`."""
        return Real(
            self.builder, self.builder.select(condition, *self._values_of_equal_size(other))
        )


class CompoundType(types.Type):
    """A family's type; the class of each family is one of its own.

    Parameters
    ----------
    name : str
    parts : int
        Number of float64 in a number.
    wide : bool
        Whether it is eight numbers side by side.
    """

    family: "Family"

    def __init__(self, name: str, parts: int, wide: bool) -> None:
        self.parts, self.wide = parts, wide
        super().__init__(name=f"{name}_lanes" if wide else name)

    def __reduce__(self) -> str:
        """Pickle as a global name of the module, so that cached code refers to this very type."""
        return self.name

    def can_convert_from(self, typingctx: TypingContext, other: types.Type) -> Conversion | None:
        """Let a real scalar, or a lane where numbers are wide, stand where one is expected."""
        return Conversion.safe if self._can_represent(other) else None

    def unify(self, typingctx: TypingContext, other: types.Type) -> "CompoundType | None":
        """A variable that is a scalar on one path and such a number on another is one."""
        return self if self._can_represent(other) else None

    def _can_represent(self, other: types.Type) -> bool:
        if isinstance(other, _SCALARS):
            return True
        return self.wide and (other is lane or isinstance(other, type(self)) and not other.wide)


class _Model(models.PrimitiveModel):
    """Data model: a struct of values in registers; in memory each number a run of float64."""

    def __init__(self, dmm: DataModelManager, fe_type: CompoundType) -> None:
        super().__init__(dmm, fe_type, fe_type.family.struct(fe_type))
        count = fe_type.parts * (WIDTH if fe_type.wide else 1)
        self._memory = ir.ArrayType(FLOAT64, count) if fe_type.wide else self.get_value_type()

    def get_data_type(self) -> ir.Type:
        return self._memory

    def as_data(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        if not self._fe_type.wide:
            return value
        data = ir.Constant(self._memory, ir.Undefined)
        for part, i in itertools.product(range(self._fe_type.parts), range(WIDTH)):
            number = builder.extract_element(builder.extract_value(value, part), _INDEX(i))
            data = builder.insert_value(data, number, i * self._fe_type.parts + part)
        return data

    def from_data(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        if not self._fe_type.wide:
            return value
        parts = []
        for part in range(self._fe_type.parts):
            vector = ir.Constant(VECTOR, ir.Undefined)
            for i in range(WIDTH):
                number = builder.extract_value(value, i * self._fe_type.parts + part)
                vector = builder.insert_element(vector, number, _INDEX(i))
            parts.append(vector)
        return cgutils.make_anonymous_struct(builder, parts, self.get_value_type())


class Family:
    """Two types, of numbers alone and eight side by side, with their operations.

    Parameters
    ----------
    kind : type
        The class of the two types, of `CompoundType`.
    number : type
        Class of numbers in which operations are written: ``number.of_real(real)``;
        ``number.read(values)`` and ``x.write(size)``, which take a number from the values of its
        struct and give them, of `size` numbers or, for 0, of one alone; ``x.spread()`` gives the
        parts of one alone, of which ``number.gathered(parts, wide)`` makes it again, to stand
        beside wide ones or alone.
    scalar, wide : CompoundType
    structs : tuple of llvmlite.ir.Type
        LLVM types of a number alone, and of numbers side by side.
    """

    def __init__(
        self,
        kind: type[CompoundType],
        number: Any,
        scalar: CompoundType,
        wide: CompoundType,
        structs: tuple[ir.Type, ir.Type],
    ) -> None:
        self.kind, self.number, self.scalar, self.wide = kind, number, scalar, wide
        self.name = scalar.name
        self._structs = structs
        scalar.family = wide.family = self
        register_model(kind)(_Model)
        self._register_casts()
        self._register_operators()
        self._register_choices()

    def __contains__(self, kind: types.Type) -> bool:
        return kind is self.scalar or kind is self.wide

    def struct(self, kind: CompoundType) -> ir.Type:
        """The LLVM type of a number of `kind`."""
        return self._structs[kind.wide]

    def read(
        self,
        context: BaseContext,
        builder: ir.IRBuilder,
        kind: types.Type,
        value: ir.Value,
        wide: bool,
    ) -> Any:
        """An LLVM value of one of the types, a lane, a float or an integer, as a number.

        `wide` says whether it is to stand beside eight; repeated it is only where need be.
        """
        if isinstance(kind, self.kind):
            struct = self.struct(kind)
            values = [builder.extract_value(value, i) for i in range(len(struct.elements))]
            number = self.number.read([Real(builder, v) for v in values])
            return number.gathered(number.spread(), wide) if wide and not kind.wide else number
        if kind is not lane:
            value = context.cast(builder, value, kind, types.float64)
        return self.number.of_real(Real(builder, value))

    def write(self, builder: ir.IRBuilder, kind: CompoundType, number: Any) -> ir.Value:
        """A number as an LLVM value of `kind`."""
        struct = self.struct(kind)
        size = WIDTH if kind.wide else 0
        values = [real.value for real in number.write(size)]
        return cgutils.make_anonymous_struct(builder, values, struct)

    def result(self, arguments: Sequence[types.Type]) -> CompoundType | None:
        """Type of the result of an operation on `arguments`; None if none is of the family."""
        if not any(isinstance(a, self.kind) for a in arguments):
            return None
        if not all(isinstance(a, (self.kind, LaneType, *_SCALARS)) for a in arguments):
            return None
        wide = any(a is lane or isinstance(a, self.kind) and a.wide for a in arguments)
        return self.wide if wide else self.scalar

    def _combinations(self, count: int) -> list[tuple[type[types.Type], ...]]:
        kinds = (self.kind, LaneType, types.Float, types.Integer)
        return [c for c in itertools.product(kinds, repeat=count) if self.kind in c]

    def _register_casts(self) -> None:
        for kind in (types.Float, types.Integer, LaneType, self.kind):

            @lower_cast(kind, self.kind)
            def cast(context, builder, fromty, toty, value):
                number = self.read(context, builder, fromty, value, toty.wide)
                return self.write(builder, toty, number)

    def register(
        self,
        function: Callable[..., Any],
        count: int,
        result: Callable[[CompoundType], types.Type],
        emit: Callable[..., Any],
    ) -> None:
        """Let kernels call `function` with numbers of the family; `emit` takes and gives them."""

        def generic(
            template: AbstractTemplate, args: tuple[types.Type, ...], kws: dict[str, types.Type]
        ) -> Signature | None:
            if kws or len(args) != count or (made := self.result(args)) is None:
                return None
            taken = [a if isinstance(a, (self.kind, LaneType)) else types.float64 for a in args]
            return signature(result(made), *taken)

        name = f"_{self.scalar.name}_{function.__name__}"
        infer_global(function)(type(name, (AbstractTemplate,), {"generic": generic}))
        for kinds in self._combinations(count):

            @lower_builtin(function, *kinds)
            def lower(context, builder, sig, args):
                wide = self.result(sig.args).wide
                pairs = zip(sig.args, args, strict=True)
                found = emit(*(self.read(context, builder, *pair, wide) for pair in pairs))
                if not isinstance(found, self.number):
                    return found  # truth values
                return self.write(builder, sig.return_type, found)

    def _register_operators(self) -> None:
        def truth(made: CompoundType) -> types.Type:
            return mask if made.wide else types.boolean

        for name in ("add", "sub", "mul", "truediv"):
            for prefix in ("", "i"):
                function = getattr(operator, prefix + name)
                self.register(function, 2, lambda made: made, getattr(operator, name))
        for name, symbol in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=="}.items():
            self.register(
                getattr(operator, name), 2, truth, lambda a, b, symbol=symbol: a.compared(symbol, b)
            )
        self.register(operator.ne, 2, truth, lambda a, b: a.differs(b))
        for function, emit in (
            (operator.neg, operator.neg),
            (abs, abs),
            (lanes.sqrt, lambda x: x.sqrt()),
            (lanes.nearest, lambda x: x.nearest()),
        ):
            self.register(function, 1, lambda made: made, emit)
        self.register(lanes.fma, 3, lambda made: made, lambda a, b, c: a.fma(b, c))

    def _register_choices(self) -> None:
        family = self

        @infer_global(lanes.select)
        class Select(AbstractTemplate):
            def generic(
                self, args: tuple[types.Type, ...], kws: dict[str, types.Type]
            ) -> Signature | None:
                made = None if kws or len(args) != 3 else family.result(args[1:])
                if made is None or args[0] not in (mask, types.boolean):
                    return None
                taken = [a if a is lane or a in family else types.float64 for a in args[1:]]
                return signature(made, args[0], *taken)

        for condition, kinds in itertools.product(
            (types.Boolean, type(mask)), self._combinations(2)
        ):

            @lower_builtin(lanes.select, condition, *kinds)
            def select(context, builder, sig, args):
                made = sig.return_type
                pairs = zip(sig.args[1:], args[1:], strict=True)
                numbers = [self.read(context, builder, *pair, made.wide) for pair in pairs]
                a, b = (self.write(builder, made, number) for number in numbers)
                parts = [
                    builder.select(
                        args[0], builder.extract_value(a, i), builder.extract_value(b, i)
                    )
                    for i in range(len(a.type.elements))
                ]
                return cgutils.make_anonymous_struct(builder, parts, a.type)

        scalar, wide = self.scalar, self.wide

        @intrinsic
        def extract(typingctx, x, i):
            def emit(context, builder, sig, args):
                values = [
                    builder.extract_value(args[0], k) for k in range(len(args[0].type.elements))
                ]
                at = builder.trunc(args[1], _INDEX)
                parts = [Real(builder, builder.extract_element(value, at)) for value in values]
                return self.write(builder, scalar, self.number.gathered(parts, False))

            return scalar(wide, types.int64), emit

        @intrinsic
        def insert(typingctx, x, value, i):
            def emit(context, builder, sig, args):
                at = builder.trunc(args[2], _INDEX)
                number = self.read(context, builder, scalar, args[1], False)
                parts = []
                for k, part in enumerate(number.spread()):
                    into = builder.extract_value(args[0], k)
                    parts.append(builder.insert_element(into, part.value, at))
                return cgutils.make_anonymous_struct(builder, parts, args[0].type)

            return wide(wide, scalar, types.int64), emit

        @intrinsic
        def widened(typingctx, x):
            def emit(context, builder, sig, args):
                return self.write(builder, wide, self.read(context, builder, lane, args[0], True))

            return wide(lane), emit

        @overload(lanes.lane_of)
        def lane_of(x, i):
            return (lambda x, i: extract(x, i)) if x is wide else None

        @overload(lanes.with_lane)
        def with_lane(x, i, value):
            if x is wide and (value is scalar or isinstance(value, _SCALARS)):
                return lambda x, i, value: insert(x, value, i)
            if x is lane and value is scalar:
                return lambda x, i, value: insert(widened(x), value, i)
            return None
