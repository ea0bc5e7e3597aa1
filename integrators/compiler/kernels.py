"""The kernel decorator: one Python function, compiled for every element type.

``@kernel(signature)`` takes a function from an element type to a Numba signature and gives a
`Kernel`: ``.scalar``, ``.lanes`` and what `Kernel.compiled` gives are compiled on first use and
served from a disk cache afterwards; ``.inline`` is for calls from other kernels, which compile it
into themselves. With ``NUMBA_DISABLE_JIT=1`` all are the plain Python function.
"""

import contextlib
import contextvars
import fcntl
import functools
import hashlib
import importlib.util
import itertools
import os
import re
import secrets
import signal
import sys
import threading
import time
from pathlib import Path

os.environ.setdefault("NUMBA_DISABLE_INTEL_SVML", "1")  # its vector sines differ from libm's

from collections.abc import Callable, Collection, Iterator
from types import FrameType, FunctionType
from typing import IO, Any, cast

import numba
from numba import types as types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.codegen import CPUCodegen
from numba.core.typing.templates import Signature as Signature
from numba.extending import intrinsic

from integrators.compiler.cache_directory import cache_root
from integrators.compiler.dependencies import printing_function, reachable_functions
from integrators.compiler.elements import DOUBLE, LANES, Element
from integrators.compiler.helpers import Helper, Varying
from integrators.compiler.lanes import flat, number_of, vectors
from integrators.compiler.ownership import make_private

Plain = Callable[..., Any]  # of numbers and arrays; a signature says which
Inlined = Callable[..., Any]  # a helper, which kernels compile into themselves
Compiled = Callable[..., Any]
ElementSignature = Callable[[types.Type], Signature]  # from an element type

IS_COMPILED = not numba.config.DISABLE_JIT  # otherwise kernels are plain Python

# Neither fastmath nor contraction: lanes must equal scalars to the last bit. The GIL is
# released, since a Dask worker that holds it too long is killed. No runtime (`_nrt`): kernels
# allocate nothing, and counting references to their arrays costs more than a step.
OPTIONS = {
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
    "fastmath": False,
    "_nrt": False,
}


def _number_functions_apart() -> None:
    """Start Numba's numbering of functions at random.

    Machine code is linked by a function's qualified name and that number. Closures of one name
    that different processes compiled, each its own, would bear the same number in the cache and
    replace each other, without an error, in a process that loads both.
    """
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(60))


_number_functions_apart()
os.register_at_fork(after_in_child=_number_functions_apart)


def whole_state(element: types.Type) -> Signature:
    """Signature ``(t, y, p, out, work)`` of a function of the whole state.

    `t` is a number (see `lanes.number_of`), `y` the state of shape ``(rows, 3)``, `p` the
    parameters, numbers too, `out` a stack of 3-vectors that the function fills, `work` flat
    scratch of a declared size. All functions that a system offers have this signature, so that a
    method is compiled once for all systems and reaches them through a pointer.

    Parameters
    ----------
    element : numba type
        Of the numbers: float64, lanes or double-double.

    Returns
    -------
    numba Signature
    """
    number, stack = number_of(element), vectors(element)
    return types.void(number, stack, flat(number), stack, flat(element))


def state_value(element: types.Type) -> Signature:
    """Signature ``(t, q, p) -> value`` of a number that belongs to a state.

    Parameters
    ----------
    element : numba type
        Of the numbers: float64, lanes or double-double.

    Returns
    -------
    numba Signature
    """
    number = number_of(element)
    return element(number, vectors(element), flat(number))


def generalized_force(element: types.Type) -> Signature:
    """Signature ``(t, q, omega, p, out, work)`` of a force on bodies at `q` turning at `omega`.

    Parameters
    ----------
    element : numba type
        Of the numbers: float64, lanes or double-double.

    Returns
    -------
    numba Signature
    """
    number, stack = number_of(element), vectors(element)
    return types.void(number, stack, stack, flat(number), stack, flat(element))


def split_flow(element: types.Type) -> Signature:
    """Signature ``(piece, t, h, w, low, p)`` of the exact flow of a piece; see `SplitFlow`.

    Parameters
    ----------
    element : numba type
        Of the numbers: float64, lanes or double-double.

    Returns
    -------
    numba Signature
    """
    number, stack = number_of(element), vectors(element)
    return types.void(types.int64, number, number, stack, stack, flat(number))


def inlined(function: Plain) -> Inlined:
    """Decorate a function that kernels call, to be compiled into each of them.

    Parameters
    ----------
    function : callable

    Returns
    -------
    callable
    """
    return Helper(function, OPTIONS) if IS_COMPILED else function


def varying(usual: Inlined, **others: Inlined) -> Inlined:
    """A helper that is `usual` except for some element types: see `helpers.Varying`.

    In plain Python, which has float64 alone, it is `usual`.
    """
    return Varying(usual, OPTIONS, others) if IS_COMPILED else usual


def spliced(function: Plain) -> Inlined:
    """Copy a helper into the kernels that call it, line by line, for them to compile.

    Does what `inlined` does. But that compiles the helper by itself first, with all helpers within
    it: nested large ones are compiled at every level again. Only for calls from other helpers.
    """
    return numba.njit(inline="always", **OPTIONS)(function)


def function_at(function_type: types.FunctionType) -> Callable[[Any], Any]:
    """A function from a kernel's `Kernel.address` to the kernel, of a `types.FunctionType`.

    A compiled function is called with addresses in no time: of functions among its arguments,
    Numba looks each up through Python, 35 µs at every call.
    """
    if not IS_COMPILED:
        return lambda address: address

    @intrinsic
    def found(typingctx, address):
        def emit(context, builder, sig, args):
            made = cgutils.create_struct_proxy(function_type)(context, builder)
            made.c_addr = made.py_addr = cgutils.get_null_value(cgutils.voidptr_t)
            made.jit_addr = builder.inttoptr(args[0], cgutils.voidptr_t)
            return made._getvalue()

        return function_type(types.int64), emit

    return found


class Kernel:
    """A function of numbers and arrays of one element type, compiled for each.

    Parameters
    ----------
    function : callable
        Plain Python in the vocabulary of `integrators.compiler.lanes`.
    signature : callable
        Returns the Numba signature for an element type (``float64``, ``lane``, …).
    made_from : tuple
        Kernels and plain values in the closure of `function`; they name it in the disk cache.
    work : callable
        Returns the elements of scratch that it needs for a number of rows of the state.
    """

    def __init__(
        self,
        function: Plain,
        signature: ElementSignature,
        made_from: tuple[object, ...] = (),
        work: Callable[[int], int] | None = None,
    ) -> None:
        self.function = function
        self.signature = signature
        self.work = work or (lambda rows: 0)
        self.made_from = made_from
        self._compiled: dict[Element, Compiled] = {}
        self._addresses: dict[Element, int] = {}
        origin = f"{function.__module__}.{function.__qualname__}"
        inner = ",".join(str(getattr(k, "label", k)) for k in made_from)
        self.label = f"{origin}({inner})" if inner else origin

    def __repr__(self) -> str:
        return f"<kernel {self.label}>"

    @functools.cached_property
    def inline(self) -> Inlined:
        """The helper that other kernels call, which becomes part of them."""
        return inlined(self.function)

    @property
    def scalar(self) -> Compiled:
        """The function compiled for float64."""
        return self.compiled(DOUBLE)

    @property
    def lanes(self) -> Compiled:
        """The function compiled for lanes of eight float64."""
        return self.compiled(LANES)

    def compiled(self, element: Element) -> Compiled:
        """The function compiled for an `elements.Element`."""
        if element not in self._compiled:
            self._compiled[element] = self._compile(element.type)
        return self._compiled[element]

    def address(self, element: Element) -> int | Compiled:
        """Address of its machine code, for `function_at`; in plain Python the function itself."""
        dispatcher: Any = self.compiled(element)
        if not IS_COMPILED:
            return dispatcher
        if element not in self._addresses:
            (made,) = dispatcher.overloads.values()
            name = made.fndesc.llvm_func_name
            self._addresses[element] = made.library.get_pointer_to_function(name)
        return self._addresses[element]

    @functools.cached_property
    def _depends_on(self) -> tuple[frozenset[str], list[tuple[str, str]]]:
        """Packages whose sources the machine code depends on, and the helpers it is made from."""
        found = reachable_functions(self.function)
        for inner in self.made_from:
            if isinstance(inner, Kernel):
                found |= reachable_functions(inner.function)
        return frozenset(package for package, _ in found), sorted(found)

    def check_function(self) -> None:
        """Raise `TypeError` where the function has other arguments than the signature, or prints.

        What prints would do so in each step of each run, on the workers.
        """
        code, count = self.function.__code__, len(self.signature(types.float64).args)
        own = code.co_varnames[: code.co_argcount]
        if len(own) != count:
            # It begins with the names, where it is a signature of its own.
            named = re.match(r"Signature ``(\(.*?\))", self.signature.__doc__ or "")
            raise TypeError(
                f"{code.co_name!r} in line {code.co_firstlineno} takes ({', '.join(own)}); "
                f"expected {named[1] if named else f'{count} arguments'}"
            )
        if printing := printing_function(cast(FunctionType, self.function)):
            raise TypeError(
                f"{printing.__name__!r} in line {printing.__code__.co_firstlineno} calls 'print', "
                "which each step of each run would do; leave it out, and record an observable "
                "to see a number"
            )

    def _compile(self, element: types.Type) -> Compiled:
        for made in (self, *self.made_from):
            if isinstance(made, Kernel):
                made.check_function()
        dispatcher = numba.njit(**OPTIONS)(self.function)
        if not IS_COMPILED:
            return dispatcher
        packages, helpers = self._depends_on
        alone: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if all(_package_hash(package) for package in packages):
            cache = _SourceKeyedCache(self.function)
            cache.locate(packages, f"{self.label}.{element}{helpers}")
            dispatcher._cache = cache
            alone = cache.alone()
        _check.get()()
        with alone, _handlers_raising_afterwards():
            dispatcher.compile(self.signature(element).args)
        dispatcher.disable_compile()
        return dispatcher


def kernel(
    signature: ElementSignature = whole_state, work: Callable[[int], int] | None = None
) -> Callable[[Plain], Kernel]:
    """Decorate a function as a `Kernel`, compiled when it is first called.

    Parameters
    ----------
    signature : callable
        Makes the signature of an element type: `whole_state`, `state_value`, `generalized_force`
        or `split_flow`.
    work : callable, optional
        ``work(rows)``: number of elements of scratch that the function uses; by default none.

    Returns
    -------
    callable
        The decorator.
    """
    return lambda function: Kernel(function, signature, work=work)


# --- interruptions ---------------------------------------------------------------------------

_check: contextvars.ContextVar[Callable[[], object]] = contextvars.ContextVar(
    "check", default=lambda: None
)
_told: contextvars.ContextVar[Callable[[str], object]] = contextvars.ContextVar(
    "told", default=lambda name: None
)


@contextlib.contextmanager
def checking(
    check: Callable[[], object], told: Callable[[str], object] = lambda name: None
) -> Iterator[None]:
    """Within this, in this thread, call a function before each kernel that is compiled or loaded.

    Parameters
    ----------
    check : callable
        Called without arguments. If it raises, that kernel is not compiled now.
    told : callable, optional
        Called with the name of each kernel that is compiled, since the disk cache lacks it.
    """
    tokens = _check.set(check), _told.set(told)
    try:
        yield
    finally:
        _check.reset(tokens[0])
        _told.reset(tokens[1])


@contextlib.contextmanager
def _handlers_raising_afterwards() -> Iterator[None]:
    """Put off what handlers of Ctrl-C and SIGTERM raise within this until its end.

    LLVM calls Python when it has made machine code. An exception there is lost, with that code.
    """
    before: dict[signal.Signals, Callable[[int, FrameType | None], Any]] = {}
    raised: list[BaseException] = []
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if callable(handler := signal.getsignal(number)):
                before[number] = handler
                signal.signal(number, _handler_keeping_errors(handler, raised))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if raised:
            raise raised[0]


def _handler_keeping_errors(
    handler: Callable[[int, FrameType | None], Any], raised: list[BaseException]
) -> Callable[[int, FrameType | None], None]:
    """A signal handler that calls `handler` and appends the exceptions of this to a list."""

    def handle(number: int, frame: FrameType | None) -> None:
        try:
            handler(number, frame)
        except BaseException as error:
            raised.append(error)

    return handle


# --- the disk cache --------------------------------------------------------------------------


class _Locator:
    """Locator of the directory of cached kernels, which changes with any of the sources."""

    def __init__(self, packages: Collection[str], label: str) -> None:
        self._directory = cache_root(sources_hash(frozenset(packages)))
        self._label = hashlib.sha256(label.encode()).hexdigest()[:16]
        self._py_file = label  # named in Numba's warnings

    def get_cache_path(self) -> str:
        return str(self._directory)

    def ensure_cache_path(self) -> None:
        make_private(self._directory)

    def get_source_stamp(self) -> str:
        return ""  # the directory is the stamp

    def get_disambiguator(self) -> str:
        return self._label


class _Implementation(CompileResultCacheImpl):
    def __init__(self, function: Plain, locator: _Locator) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = locator
        self._filename_base = self.get_filename_base(function.__name__, "")


class _SourceKeyedCache(FunctionCache):
    """Numba's function cache, keyed to all kernel sources instead of one file's date.

    Numba does not see edits in what a kernel calls, and never finds a closure over compiled
    functions again; a directory named by the hash of all sources and a label do both.
    """

    def __init__(self, function: Plain) -> None:
        self._name = repr(function)
        self._py_func = function

    def locate(self, packages: Collection[str], label: str) -> None:
        locator = _Locator(packages, label)
        self._impl = _Implementation(self._py_func, locator)
        self._cache_path = locator.get_cache_path()
        self._cache_file = IndexDataCacheFile(self._cache_path, self._impl.filename_base, "")
        self.enable()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Wait while another process compiles the same kernel, which is then served from the cache.

        For a minute at most: that process may be suspended.
        """
        index = Path(self._cache_file._index_path)
        if index.exists():
            yield
            return
        self._impl.locator.ensure_cache_path()
        path, end = index.with_suffix(".lock"), time.monotonic() + 60.0
        with open(path, "wb") as lock:
            while not _is_locked(lock) and time.monotonic() < end:
                time.sleep(0.01)
            try:
                yield
            finally:
                path.unlink(missing_ok=True)  # whoever has it open finds the kernel in the cache

    def load_overload(self, sig: Signature, target_context: BaseContext) -> Compiled | None:
        """As Numba's, which would load first all that it knows to compile, for half a second."""
        found = self._load_overload(sig, target_context)
        if found is None:
            _told.get()(self._py_func.__name__)
        return found

    def _index_key(self, sig: Signature, codegen: CPUCodegen) -> tuple[object, ...]:
        return sig, codegen.magic_tuple()  # the CPU and its features


def _is_locked(file: IO[bytes]) -> bool:
    """Lock a file; whether no other process has it, or the file system knows no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError)
    return True


@functools.cache
def sources_hash(packages: frozenset[str]) -> str:
    """Hash of Numba's version and of the sources of `packages` and of this package."""
    digest = hashlib.sha256(f"{numba.__version__} {sys.version_info[:2]}".encode())
    for package in sorted({*packages, __name__.partition(".")[0]}):
        digest.update(f"{package} {_package_hash(package)}".encode())
    return digest.hexdigest()[:16]


@functools.cache
def _package_hash(package: str) -> str:
    """Hash of every source of a package or module; "" of what was typed or piped in."""
    module = sys.modules.get(package)
    spec = importlib.util.find_spec(package) if module is None else None
    file = getattr(module, "__file__", None) or getattr(spec, "origin", None)
    if file is not None and Path(file).is_file():
        path = Path(file)
        paths = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
        sources = [(path.name, path.read_bytes()) for path in paths]
    else:
        text = _source_given_as_text(module)
        sources = [(package, text.encode())] if text else []
    digest = hashlib.sha256()
    for name, source in sources:
        digest.update(f"{package}/{name}".encode())
        digest.update(source)
    return digest.hexdigest()[:16] if sources else ""


def _source_given_as_text(module: Any) -> str:
    """The source of a module that was made from text, as plugins are; "" for other modules."""
    try:
        return module.__loader__.get_source(module.__name__) or ""
    except (AttributeError, ImportError):
        return ""
