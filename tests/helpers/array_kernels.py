"""Functions of float64 arrays that are compiled for a test, and cached on disk as kernels are."""

from integrators.compiler.elements import DOUBLE
from integrators.compiler.kernels import Kernel, types
from integrators.compiler.lanes import array


def on_arrays(*axes):
    """Decorate a function of contiguous arrays of so many axes, and of numbers where it is 0."""
    given = [array(types.float64, count) if count else types.float64 for count in axes]

    def decorate(function):
        kernel = Kernel(function, lambda _: types.void(*given))
        return lambda *arguments: kernel.compiled(DOUBLE)(*arguments)

    return decorate
