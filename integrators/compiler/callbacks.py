"""Calls from kernels to Python functions of NumPy arrays, by address.

A kernel has the address among its numbers, so that it is compiled once for all functions.
"""

import ctypes
import functools
import math
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from integrators.compiler.kernels import IS_COMPILED, Kernel

MOST_VIEWS = 64  # pairs of arrays that are kept: one for each thread and element
_SIGNATURE = ctypes.CFUNCTYPE(
    None,
    *(ctypes.c_double, ctypes.c_double),
    *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64),
    *(ctypes.c_void_p, ctypes.c_int64),
)
Place = tuple[int, int, int, int, int]  # addresses of arrays, and their sizes
_callbacks: "weakref.WeakValueDictionary[int, Callback]" = weakref.WeakValueDictionary()


class Callback:
    """Base of what kernels call by `address`; a subclass has `take`.

    Parameters
    ----------
    rows, out_rows : int
        Of the state that it is given, and of what it writes.

    Attributes
    ----------
    address : int
        Of its machine code.
    """

    def __init__(self, rows: int, out_rows: int) -> None:
        self._rows, self._out_rows = rows, out_rows
        self._views: dict[Place, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        this = weakref.ref(self)

        def called(t: float, h: float, state: int, out: int, width: int, p: int, n: int) -> None:
            own = this()
            assert own is not None  # whoever has the address holds it
            own.take_each(t, h, *own._arrays((state, out, width, p or 0, n)))

        self._machine_code = _SIGNATURE(called)
        found = ctypes.cast(self._machine_code, ctypes.c_void_p).value
        assert found is not None
        self.address: int = found
        _callbacks[self.address] = self

    def take(
        self, t: float, h: float, state: np.ndarray, out: np.ndarray, parameters: np.ndarray
    ) -> None:
        """Write to `out` what comes of a state at time `t`, and of a step size `h`."""
        raise NotImplementedError

    def take_each(
        self, t: float, h: float, states: np.ndarray, out: np.ndarray, parameters: np.ndarray
    ) -> None:
        """`take` of trajectories side by side, arrays (rows, 3, trajectories).

        Copies of the first, which fill lanes, are not computed again.
        """
        self.take(t, h, states[:, :, 0], out[:, :, 0], parameters)
        if states.shape[2] > 1:
            first = states[:, :, 0].tobytes()
            for i in range(1, states.shape[2]):
                if states[:, :, i].tobytes() == first:
                    out[:, :, i] = out[:, :, 0]
                else:
                    self.take(t, h, states[:, :, i], out[:, :, i], parameters)

    def _arrays(self, place: Place) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        views = self._views.get(place)
        if views is None:
            if len(self._views) >= MOST_VIEWS:
                self._views.clear()
            state, out, width, p, n = place
            views = (
                _array_at(state, (self._rows, 3, width)),
                _array_at(out, (self._out_rows, 3, width)),
                _array_at(p, (n,)) if n else np.zeros(0),
            )
            self._views[place] = views
        return views


def _array_at(address: int, shape: tuple[int, ...]) -> np.ndarray:
    """An array of float64 over memory that others own."""
    size = math.prod(shape)
    return np.ctypeslib.as_array((ctypes.c_double * size).from_address(address)).reshape(shape)


def _call(
    address: float, t: float, h: float, y: np.ndarray, out: np.ndarray, p: np.ndarray
) -> None:
    """Call a `Callback` by its address; arrays have the shape (rows, 3, trajectories)."""
    _callbacks[int(address)].take_each(t, h, y, out, p)


@intrinsic
def _call_compiled(typingctx, address, t, h, y, out, p):
    def emit(context, builder, sig, args):
        number, integer = ir.DoubleType(), ir.IntType(64)
        states, made, parameters = (
            context.make_array(kind)(context, builder, value=value)
            for kind, value in zip(sig.args[3:], args[3:], strict=True)
        )
        pointer = integer.as_pointer()
        kinds = [number, number, pointer, pointer, integer, pointer, integer]
        kind = ir.FunctionType(ir.VoidType(), kinds)
        function = builder.inttoptr(builder.fptosi(args[0], integer), kind.as_pointer())
        width = builder.extract_value(states.shape, 2)
        count = builder.extract_value(parameters.shape, 0)
        data = [builder.bitcast(one.data, pointer) for one in (states, made, parameters)]
        builder.call(function, [args[1], args[2], *data[:2], width, data[2], count])
        return context.get_dummy_value()

    return types.void(address, t, h, y, out, p), emit


call = _call_compiled if IS_COMPILED else _call


def is_jitted(function: object) -> bool:
    """Whether `numba.njit` has decorated a function."""
    return hasattr(function, "py_func")


@intrinsic
def _pointer(typingctx, address):
    def emit(context, builder, sig, args):
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(address), emit


class JittedField:
    """ẏ as a compiled function ``f(t, y)`` of an array, for steps that are compiled.

    A step is compiled for a function, so there is one for all systems of a kind: its parameters
    are in memory that it shares, and whoever calls it writes them there first, within `lock`.

    Parameters
    ----------
    kernel : Kernel
        Of the signature `kernels.whole_state`.
    count : int
        Number of its parameters.
    rows : int
        Rows of a state.
    """

    def __init__(self, kernel: Kernel, count: int, rows: int) -> None:
        self.parameters, self.lock = np.zeros(count), threading.RLock()
        address, compiled, size = self.parameters.ctypes.data, kernel.scalar, kernel.work(rows)

        @numba.njit
        def field(t: float, y: np.ndarray) -> np.ndarray:
            if y.shape[0] != rows or y.shape[1] != 3:
                raise ValueError("f(t, y) was given a y of another shape than the state's")
            out = np.zeros((rows, 3))
            parameters = numba.carray(_pointer(address), (count,), np.float64)
            compiled(t, np.ascontiguousarray(y), parameters, out, np.zeros(max(1, size)))
            return out

        self.function: Callable[..., np.ndarray] = field


jitted_field = functools.lru_cache(maxsize=256)(JittedField)


@functools.lru_cache(maxsize=256)
def with_field(step: Callable[..., Any], field: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled step of (t, y, h) alone: Numba takes 4 µs to see that a field is a function."""

    @numba.njit
    def taken(t: float, y: np.ndarray, h: float) -> Any:
        return step(field, t, y, h)

    return taken
