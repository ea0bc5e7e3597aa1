"""Views inside kernels: parts of arrays of scalars or lanes that cost no reference counting.

Slicing an array in a compiled loop counts references atomically; these views own nothing and
cost an addition.
"""

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from integrators.lanes import array, lane


def _borrowed(context, builder, array_type, data, shape):
    """An array struct over `data` that owns nothing: no reference counting in a step's loop."""
    result = context.make_array(array_type)(context, builder)
    itemsize = context.get_abi_sizeof(context.get_data_type(array_type.dtype))
    strides, step = [], ir.IntType(64)(itemsize)
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


def as_lanes(floats):
    """View a C-contiguous float64 array of shape ``(…, 8)`` as an array ``(…)`` of lanes."""
    return floats


@intrinsic
def _as_lanes(typingctx, floats):
    result = array(lane, floats.ndim - 1)

    def emit(context, builder, sig, args):
        source = context.make_array(sig.args[0])(context, builder, value=args[0])
        shape = cgutils.unpack_tuple(builder, source.shape)[:-1]
        return _borrowed(context, builder, sig.return_type, source.data, shape)

    return result(floats), emit


@overload(as_lanes)
def _as_lanes_overload(floats):
    return lambda floats: _as_lanes(floats)


def rows(y, start, count):
    """`count` 3-vectors of the stack `y` from row `start`, as a view."""
    return y[start : start + count]


def rows_of(work, start, count):
    """`count` 3-vectors laid over the flat array `work` from element `start`, as a view."""
    return work[start : start + 3 * count].reshape(count, 3)


def tail(work, start):
    """The flat array `work` from element `start` on, as a view."""
    return work[start:]


def _pointer_at(context, builder, array_type, value, offset):
    source = context.make_array(array_type)(context, builder, value=value)
    return builder.gep(source.data, [offset]), cgutils.unpack_tuple(builder, source.shape)


@intrinsic
def _rows(typingctx, y, start, count):
    def emit(context, builder, sig, args):
        offset = builder.mul(args[1], ir.IntType(64)(3))
        data, _ = _pointer_at(context, builder, sig.args[0], args[0], offset)
        return _borrowed(context, builder, sig.return_type, data, [args[2], ir.IntType(64)(3)])

    return y(y, types.int64, types.int64), emit


@intrinsic
def _rows_of(typingctx, work, start, count):
    result = array(work.dtype, 2)

    def emit(context, builder, sig, args):
        data, _ = _pointer_at(context, builder, sig.args[0], args[0], args[1])
        return _borrowed(context, builder, sig.return_type, data, [args[2], ir.IntType(64)(3)])

    return result(work, types.int64, types.int64), emit


@intrinsic
def _tail(typingctx, work, start):
    def emit(context, builder, sig, args):
        data, shape = _pointer_at(context, builder, sig.args[0], args[0], args[1])
        return _borrowed(context, builder, sig.return_type, data, [builder.sub(shape[0], args[1])])

    return work(work, types.int64), emit


@overload(rows)
def _rows_overload(y, start, count):
    return lambda y, start, count: _rows(y, start, count)


@overload(rows_of)
def _rows_of_overload(work, start, count):
    return lambda work, start, count: _rows_of(work, start, count)


@overload(tail)
def _tail_overload(work, start):
    return lambda work, start: _tail(work, start)
