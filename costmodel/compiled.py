"""Decorators for the few functions that numba compiles. Importing this module imports numba."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba.core import errors, event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

from costmodel.compilation import COMPILATION
from costmodel.machine_code import SourceCache
from costmodel.references import ENTRY, reference_of

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class _HelperCode(JITCodeLibrary):
    """The code of a helper as numba has translated it, which is linked into the functions that call it.

    By itself numba also optimizes each helper, with all helpers inside it, and makes machine code of it. Both
    are done again for every function around it, and nothing ever runs that machine code: a helper cannot be
    called from Python. For helpers within helpers that was more than half of all compiling.
    """

    def _optimize_final_module(self) -> None:
        """Do nothing: the code is optimized in each :func:`entry` that it gets into."""

    def _finalize_final_module(self) -> None:
        """Hand nothing to the engine that makes machine code."""
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0, by which numba knows that there is no such machine code, once everything is linked."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0

    @property
    def codegen(self) -> _HelperCode:
        """Stand in for numba's code generator, of which only ``set_env`` is called."""
        return self

    def set_env(self, env_name: str, env: Any) -> None:
        """Do nothing: there is no machine code whose environment could be set."""


class _HelperCompiler(Compiler):
    """numba's compiler, which keeps a helper's code as :class:`_HelperCode`."""

    def define_pipelines(self) -> Any:
        state = self.state
        code: Any = _HelperCode  # numba has no types
        state.library = code(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()  # type: ignore[no-untyped-call]


class _EntryCode(JITCodeLibrary):
    """The code of a function that Python calls, with all helpers inside it.

    numba optimizes twice, because it looks for pairs of reference counts in between, and makes vector code of
    loops and copies of their bodies. Here no references are counted, and loops run over some seven dims or
    four levels: copies were most of the code, took most of the time, and were no faster.
    """

    def create_ir_module(self, name: str) -> Any:
        """Make a module for numba to translate into, marked as one of an entry."""
        module = super().create_ir_module(name)  # type: ignore[no-untyped-call]
        setattr(module, ENTRY, True)
        return module

    def _optimize_final_module(self) -> None:
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = options.loop_interleaving = options.slp_vectorization = False
        options.loop_unrolling = False
        builder = llvm.create_pass_builder(self._codegen._tm, options)  # noqa: SLF001 - as numba has it
        builder.getModulePassManager().run(self._final_module, builder)

    def serialize_using_object_code(self) -> Any:
        """Return what is kept on disk: machine code, and of the optimized code only what names it defines.

        numba keeps the optimized code, too, for functions that call this one; entries have none.
        """
        name, kind, (code, _) = super().serialize_using_object_code()  # type: ignore[no-untyped-call]
        return name, kind, (code, _names_only(self._final_module))


def _names_only(module: llvm.ModuleRef) -> bytes:
    """Bitcode that defines the functions and variables of a ``module``, without what is in them."""
    names = ir.Module()
    for defined in (one for one in module.functions if not one.is_declaration):
        function = ir.Function(names, ir.FunctionType(ir.VoidType(), []), defined.name)
        ir.IRBuilder(function.append_basic_block()).unreachable()
    for variable in (one for one in module.global_variables if not one.is_declaration):
        ir.GlobalVariable(names, ir.IntType(8), variable.name).initializer = ir.IntType(8)(0)
    return cast(bytes, llvm.parse_assembly(str(names)).as_bitcode())


class _EntryCompiler(Compiler):
    """numba's compiler, which makes an entry's code as :class:`_EntryCode`."""

    def define_pipelines(self) -> Any:
        state = self.state
        code: Any = _EntryCode  # numba has no types
        state.library = code(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().define_pipelines()  # type: ignore[no-untyped-call]


# _nrt False: references to the arguments' arrays are not counted, for that would take several times as long
# as the functions' work. The price: a compiled function can only use arrays that its Python caller holds, and
# cannot allocate any.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}
CALLED: dict[str, Any] = {**OPTIONS, "no_cpython_wrapper": True, "pipeline_class": _HelperCompiler}
INLINED: dict[str, Any] = {**CALLED, "forceinline": True}
ENTERED: dict[str, Any] = {**OPTIONS, "nogil": True, "pipeline_class": _EntryCompiler}


def inlined(function: FunctionT) -> FunctionT:
    """A small helper, whose code is put into every compiled function that calls it, from any module."""
    return cast(FunctionT, numba.njit(**INLINED)(function))


def called(function: FunctionT) -> FunctionT:
    """A larger helper with several callers. It stays a function of its own, which compiles sooner."""
    return cast(FunctionT, numba.njit(**CALLED)(function))


def entry(function: FunctionT) -> FunctionT:
    """A function that Python code calls; it runs without the interpreter's lock.

    Its machine code is kept on disk for later processes and other checkouts, and made anew when any source
    that it was made of changes: see :mod:`costmodel.machine_code`.
    """
    compiled = numba.njit(**ENTERED)(function)
    if cast(Any, numba.config).DISABLE_JIT:  # numba hands the function back as it is
        return cast(FunctionT, compiled)
    compiled.get_call_template = partial(_refuse, function.__qualname__)
    # numba asks this for the type of every argument; without it named tuples would have to be typed as
    # references in the whole process, in other packages' functions as well
    compiled.typeof_pyval = partial(reference_of, typed=compiled.typeof_pyval)
    with suppress(RuntimeError):  # no folder can be written: every process compiles
        # numba offers no other way to choose how a function is cached
        compiled._cache = SourceCache(function)  # type: ignore[no-untyped-call] # noqa: SLF001
    return cast(FunctionT, compiled)


def _refuse(name: str, *_: Any) -> None:
    """Stop numba from calling an entry in compiled code: what is kept of it could not be put there."""
    raise errors.TypingError(f"{name} is an entry, which only Python code calls")


class _Compiling(event.Listener):
    """Tells COMPILATION when numba begins and ends to compile a function, not when it finds code on disk."""

    def on_start(self, event: event.Event) -> None:
        dispatcher = event.data["dispatcher"]
        function, folder = dispatcher.py_func, dispatcher.stats.cache_path
        COMPILATION.begins(f"{function.__module__}.{function.__qualname__}", folder and Path(folder))

    def on_end(self, event: event.Event) -> None:
        COMPILATION.ends()


event.register("numba:compile", _Compiling())  # type: ignore[no-untyped-call]
