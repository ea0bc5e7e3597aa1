"""Dependencies of a kernel's machine code: the functions that it calls, wherever they are.

A helper of another package, such as that of a user's own `factors.Factor`, is compiled into the
kernels that call it, so that their code depends on its source as well.
"""

import functools
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType

LIBRARIES = {"numpy", "numba", "scipy", "math"}  # whose versions say what they are
PLAIN = (bool, int, float, str, type(None))


@functools.cache
def reachable_functions(function: FunctionType) -> frozenset[tuple[str, str]]:
    """The functions that a kernel's function calls, directly or not, and itself.

    Parameters
    ----------
    function : callable
        Plain Python; the dispatchers, kernels and intrinsics in its globals and closure are
        followed.

    Returns
    -------
    frozenset of (str, str)
        The top package of each function; and its name, with the numbers and strings that are
        constants of it.
    """
    return frozenset((top_package(own), _name_with_constants(own)) for own in _reached(function))


def printing_function(function: FunctionType) -> FunctionType | None:
    """The function that prints, of those that a kernel's function calls and itself, if one does."""
    for own in _reached(function):
        if "print" in _names_in_code(own.__code__) and "print" not in own.__globals__:
            return own
    return None


def _reached(function: FunctionType) -> Iterator[FunctionType]:
    seen, left = {function}, [function]
    while left:
        current = left.pop()
        yield current
        for value in _values_named_in_code(current):
            inner = _python_function(value)
            if inner is not None and inner not in seen and top_package(inner) not in LIBRARIES:
                seen.add(inner)
                left.append(inner)


def top_package(function: FunctionType) -> str:
    """The top package of a function, or its module outside of packages."""
    return (function.__module__ or "__main__").partition(".")[0]


def _name_with_constants(function: FunctionType) -> str:
    """Name of a function with the constants that it reads, to distinguish closures of one name."""
    values = [repr(value) for value in _values_named_in_code(function) if _is_plain_constant(value)]
    name = f"{function.__module__}.{function.__qualname__}"
    return f"{name}[{','.join(values)}]" if values else name


def _values_named_in_code(function: FunctionType) -> Iterator[object]:
    """The values that the code of a function mentions by name."""
    names = set(_names_in_code(function.__code__))
    for name in sorted(names & function.__globals__.keys()):
        value = function.__globals__[name]
        yield value
        if isinstance(value, ModuleType):
            yield from (vars(value)[inner] for inner in sorted(names & vars(value).keys()))
    yield from _closure_values(function)


def _names_in_code(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in_code(constant)


def _closure_values(function: FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def _is_plain_constant(value: object) -> bool:
    return isinstance(value, PLAIN) or (
        isinstance(value, tuple) and all(map(_is_plain_constant, value))
    )


def _python_function(value: object) -> FunctionType | None:
    """The Python function behind a dispatcher, kernel or intrinsic; None for anything else."""
    for attribute in ("py_func", "_defn", "function"):
        inner = getattr(value, attribute, None)
        if isinstance(inner, FunctionType):
            return inner
    return value if isinstance(value, FunctionType) else None
