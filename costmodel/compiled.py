"""How the few compiled functions are compiled; importing this module imports numba."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import event

from costmodel.compilation import COMPILATION
from costmodel.machine_code import SourceCache

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

# Counting references to the arguments' arrays takes several times longer than the functions' work. Without it
# (_nrt) they can use only arrays that the interpreter holds, and allocate none.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}
CALLED: dict[str, Any] = {**OPTIONS, "no_cpython_wrapper": True}
INLINED: dict[str, Any] = {**OPTIONS, "forceinline": True, "no_cpython_wrapper": True}


def inlined(function: FunctionT) -> FunctionT:
    """A helper that becomes part of every compiled function that calls it, in its own module or another."""
    return cast(FunctionT, numba.njit(**INLINED)(function))


def called(function: FunctionT) -> FunctionT:
    """A larger helper with several callers that stays a function of its own: that compiles sooner."""
    return cast(FunctionT, numba.njit(**CALLED)(function))


def entry(function: FunctionT) -> FunctionT:
    """A function that the interpreter calls, without its lock.

    The machine code is kept for later processes and other checkouts, and renewed when the source changes that
    it was made of: see :mod:`costmodel.machine_code`.
    """
    compiled = numba.njit(nogil=True, **OPTIONS)(function)
    with suppress(RuntimeError):  # no folder can be written: every process compiles
        # numba offers no other way to choose how a function is cached
        compiled._cache = SourceCache(function)  # type: ignore[no-untyped-call] # noqa: SLF001
    return cast(FunctionT, compiled)


class _Compiling(event.Listener):
    """Passes on what numba says at both ends of a compilation; code that is found on disk is none."""

    def on_start(self, event: event.Event) -> None:
        dispatcher = event.data["dispatcher"]
        function, folder = dispatcher.py_func, dispatcher.stats.cache_path
        COMPILATION.begins(f"{function.__module__}.{function.__qualname__}", folder and Path(folder))

    def on_end(self, event: event.Event) -> None:
        COMPILATION.ends()


event.register("numba:compile", _Compiling())  # type: ignore[no-untyped-call]
