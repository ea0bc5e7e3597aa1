"""Helpers, functions that are compiled into the kernels that call them.

Numba makes machine code of every function that another one calls, optimized for itself, with
wrappers for Python and C. Nothing calls that of a helper whose code becomes part of its kernels:
it took half the time, or more, that a kernel took to compile. Here helpers end as LLVM's
intermediate code, and are optimized where they are used.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from numba import _dynfunc
from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, StateDict
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NativeLowering
from numba.core.typing.templates import Signature


class _LinkedLibrary(JITCodeLibrary):
    """Intermediate code to be linked into other libraries; it has no machine code."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    """Numba's lowering, into a `_LinkedLibrary`."""

    _name = "helper_lowering"

    def run_pass(self, state: StateDict) -> bool:
        """Lower a helper, and let what Numba compiles from now on call it."""
        library = _LinkedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library, state.flags.no_compile = library, True
        super().run_pass(state)
        descriptor, environment = state.cr.fndesc, state.cr.env
        key = _dynfunc.make_function(  # by which Numba knows it; without code, and never called
            descriptor.lookup_module(), state.func_id.func_name, "", 0, environment, (library,)
        )
        state.targetctx.insert_user_function(key, descriptor, [library])
        state.reload_init.extend(library._reload_init)
        state.cr = state.cr._replace(cfunc=key)
        return True


class _Compiler(CompilerBase):
    def define_pipelines(self) -> list[DefaultPassBuilder]:
        """Numba's passes, and `_Lowering` in the place of its own."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [
            (_Lowering if kind is NativeLowering else kind, text) for kind, text in passes.passes
        ]
        passes.finalize()
        return [passes]


class Helper(CPUDispatcher):
    """A function that kernels call, and that runs as plain Python where Python calls it.

    Parameters
    ----------
    function : callable
        Plain Python.
    options : dict
        Options of `numba.njit`.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        wrappers = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        super().__init__(
            function,
            targetoptions=options | wrappers | {"nopython": True, "forceinline": True},
            pipeline_class=_Compiler,
        )

    def __call__(self, *arguments: Any) -> Any:
        """Run the plain function."""
        return self.py_func(*arguments)


class Varying(Helper):
    """A helper with different implementations for some element types.

    Parameters
    ----------
    usual : Helper
        Helper for all other element types.
    options : dict
        Options of `numba.njit`.
    others : dict of str to Helper
        Helpers by the family of an element type, ``tangents`` or ``double_double``. One is chosen
        where an argument, or the elements of an array among the arguments, are of its family.
    """

    def __init__(self, usual: Any, options: dict[str, Any], others: Mapping[str, Any]) -> None:
        super().__init__(usual.py_func, options)
        self._usual, self._others = usual, others

    def _chosen(self, arguments: Iterable[types.Type]) -> Helper:
        families = {getattr(getattr(a, "dtype", a), "family", None) for a in arguments}
        found = [self._others[f.name] for f in families if f and f.name in self._others]
        return found[0] if found else self._usual

    def get_call_template(
        self, args: tuple[types.Type, ...], kws: Mapping[str, types.Type]
    ) -> tuple[Any, ...]:
        """Numba's way to the type of a call."""
        return self._chosen(args).get_call_template(args, kws)

    def get_overload(self, sig: Signature) -> Callable[..., Any]:
        """Numba's way to the code of a call."""
        return self._chosen(sig).get_overload(sig)
