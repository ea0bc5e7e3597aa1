"""Views inside kernels: parts of arrays of scalars or lanes that cost no reference counting.

Slicing an array in a compiled loop counts references atomically; these views own nothing and
cost an addition. They are lowered where they stand rather than compiled as functions of their
own, since kernels count no references (`kernels.OPTIONS`) and so may return no arrays.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.base import BaseContext
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, Signature, infer_global, signature
from numba.extending import intrinsic

from integrators.compiler.lanes import (
    ALIGNMENT,
    WIDTH,
    array,
    flat,
    scalar_of,
    wide_of,
)


def _borrowed_array_struct(
    context: BaseContext,
    builder: ir.IRBuilder,
    array_type: types.Array,
    data: ir.Value,
    shape: Sequence[ir.Value],
) -> ir.Value:
    """An array struct over `data` that owns nothing: no reference counting in a step's loop."""
    result = context.make_array(array_type)(context, builder)
    itemsize = context.get_abi_sizeof(context.get_data_type(array_type.dtype))
    strides: list[ir.Value] = []
    step = ir.IntType(64)(itemsize)
    for extent in reversed(shape):
        strides.insert(0, step)
        step = builder.mul(step, extent)
    context.populate_array(
        result,
        data=builder.bitcast(data, context.get_data_type(array_type.dtype).as_pointer()),
        shape=cgutils.pack_array(builder, shape),
        strides=cgutils.pack_array(builder, strides),
        itemsize=ir.IntType(64)(itemsize),
        meminfo=None,
        parent=None,
    )
    return result._getvalue()


def view(
    function: Callable[..., Any], result: Callable[[types.Array], types.Array]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the lowering of the view `function`; `result` gives its type from its arguments'.

    The decorated ``data, shape = lower(builder, source, *integers)`` says what the view covers.
    """

    def generic(
        self: AbstractTemplate, args: tuple[types.Type, ...], kws: dict[str, types.Type]
    ) -> Signature | None:
        counts = [types.int64] * (len(args) - 1)
        return signature(result(args[0]), args[0], *counts)

    name = f"_{function.__name__}"
    template = type(name, (AbstractTemplate,), {"generic": generic, "key": function})
    infer_global(function, types.Function(template))  # which may be one of a function's

    def register(lower: Callable[..., Any]) -> Callable[..., Any]:
        @lower_builtin(function, types.Array, types.VarArg(types.Integer))
        def emit(context, builder, sig, args):
            source = context.make_array(sig.args[0])(context, builder, value=args[0])
            data, shape = lower(builder, source, *args[1:])
            return _borrowed_array_struct(context, builder, sig.return_type, data, shape)

        return lower

    return register


@functools.cache
def array_view(kind: types.Type, axes: int) -> Callable[[Any], Any]:
    """A function for kernels that views float64 as elements of a type, which take the last axes."""

    def viewed(floats):
        return floats

    @view(viewed, lambda floats: array(kind, floats.ndim - axes))
    def lower(builder, source):
        shape = cgutils.unpack_tuple(builder, source.shape)
        return source.data, shape[: len(shape) - axes]

    return viewed


def as_lanes(numbers):
    """View a C-contiguous array of shape ``(…, 8)`` as an array ``(…)`` of eight side by side."""
    return numbers


@view(as_lanes, lambda numbers: array(wide_of(numbers.dtype), numbers.ndim - 1))
def _as_lanes(builder, source):
    return source.data, cgutils.unpack_tuple(builder, source.shape)[:-1]


def members(elements):
    """View an array ``(…)`` of elements as numbers ``(…, width)``: a lane's, or 1 for scalars."""
    return elements[..., None]


@view(members, lambda elements: array(scalar_of(elements.dtype), elements.ndim + 1))
def _members(builder, source):
    kind, width = source.data.type.pointee, 1
    if isinstance(kind, ir.VectorType):
        width = kind.count
    elif isinstance(kind, ir.ArrayType):
        width = WIDTH
    return source.data, [*cgutils.unpack_tuple(builder, source.shape), ir.IntType(64)(width)]


def flattened(y):
    """The first two axes of `y` as one: a stack row by row, as a view."""
    return y.reshape(-1, *y.shape[2:])


@view(flattened, lambda y: array(y.dtype, y.ndim - 1))
def _flattened(builder, source):
    count, width, *others = cgutils.unpack_tuple(builder, source.shape)
    return source.data, [builder.mul(count, width), *others]


def rows(y, start, count):
    """`count` 3-vectors of the stack `y` from row `start`, as a view."""
    return y[start : start + count]


@view(rows, lambda y: y)
def _rows(builder, source, start, count):
    three = ir.IntType(64)(3)
    return builder.gep(source.data, [builder.mul(start, three)]), [count, three]


def rows_of(work, start, count):
    """View `count` 3-vectors in the flat array `work`, from element `start` on.

    Parameters
    ----------
    work : ndarray, flat
    start, count : int

    Returns
    -------
    ndarray, shape (count, 3)
    """
    return work[start : start + 3 * count].reshape(count, 3, *work.shape[1:])


@view(rows_of, lambda work: array(work.dtype, 2))
def _rows_of(builder, source, start, count):
    return builder.gep(source.data, [start]), [count, ir.IntType(64)(3)]


def tail(work, start):
    """View the flat array `work` from element `start` on.

    Parameters
    ----------
    work : ndarray, flat
    start : int

    Returns
    -------
    ndarray, flat
    """
    return work[start:]


@view(tail, lambda work: work)
def _tail(builder, source, start):
    (extent,) = cgutils.unpack_tuple(builder, source.shape)
    return builder.gep(source.data, [start]), [builder.sub(extent, start)]


def frame(count: int) -> Callable[[Any], Any]:
    """A function for kernels: a flat array of `count` elements in the frame of its caller.

    It takes an array, for the element type alone. What lies in the frame and is only indexed by
    constants, those of unrolled loops too, LLVM keeps in registers.
    """

    @intrinsic
    def framed(typingctx, like):
        kind = flat(like.dtype)

        def emit(context, builder, sig, args):
            block = ir.ArrayType(context.get_data_type(kind.dtype), count)
            with builder.goto_entry_block():
                data = builder.alloca(block)
                data.align = ALIGNMENT
            return _borrowed_array_struct(context, builder, kind, data, [ir.IntType(64)(count)])

        return kind(like), emit

    return framed
