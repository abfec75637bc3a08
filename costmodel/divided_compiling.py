"""Divides compiling among processes that need the same machine code at the same time. Imports no compiler.

Numba compiles in one thread of a process, and every process that finds no machine code on disk makes it. On a
fresh machine the workers of a run would therefore all compile the same functions, and many workers would wait
as long as one. Here the functions are in parts. Each process claims the next part that nobody has,
compiles it, and at the end waits for the parts of the others::

    process 1   | claims part 1, compiles ............. | waits | solves
    process 2   | claims part 2, compiles .................... | solves
    process 3   | waits ...................................... | solves
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

try:
    import fcntl
except ImportError:  # Windows: every process compiles
    fcntl = None  # type: ignore[assignment]

CLAIM = ".claim"
"""End of the name of the file whose lock is the claim on a part."""


class Call(NamedTuple):
    """A function that Python calls (:func:`costmodel.compiled.entry`), and arguments as it will have them.

    It is compiled for their types and not called, so their values do not matter.
    """

    function: Any
    arguments: tuple[Any, ...]


Part = Sequence[Call]
"""Functions that one process compiles together, since helpers that they share are then translated once."""


def compile_divided(parts: Iterable[Part]) -> None:
    """Compile the parts whose machine code is not kept yet, except for those that other processes compile.

    These are waited for. A process that dies loses its claims: what it had not made yet is then compiled by
    whoever first calls it, as everything is where no folder can be written.
    """
    others = []
    for part in _missing(parts):
        with _claimed(part, wait=False) as mine:
            if mine:
                _compile(part)
            else:
                others.append(part)
    for part in others:
        with _claimed(part, wait=True):
            pass


def any_missing(parts: Iterable[Part]) -> bool:
    """Whether some part has functions without machine code on disk."""
    return bool(_missing(parts))


def _missing(parts: Iterable[Part]) -> list[Part]:
    """The parts of which some function has no machine code on disk, if there is a folder to keep any."""
    return [part for part in parts if not all(_is_kept(call) for call in part)]


def _is_kept(call: Call) -> bool:
    """Whether machine code for a call is on disk.

    Also True where none is made or kept: then none can be made ahead.
    """
    cache = _cache(call.function)
    return cache is None or cache.has(_types(call), call.function.targetctx)


def _types(call: Call) -> tuple[Any, ...]:
    """Numba's types of a call's arguments."""
    return tuple(call.function.typeof_pyval(argument) for argument in call.arguments)


def _cache(function: Any) -> Any:
    """A function's ``costmodel.machine_code.SourceCache``.

    None where no folder can be written, and where numba is told not to compile.
    """
    cache = getattr(function, "_cache", None)
    return cache if hasattr(cache, "index") else None


def _compile(part: Part) -> None:
    """Compile a part, without looking for garbage: numba's trees of code are in use until it is done.

    Looking through them took a twelfth of the time.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        for call in part:
            call.function.compile(_types(call))
    finally:
        if collects:
            gc.enable()


@contextmanager
def _claimed(part: Part, wait: bool) -> Iterator[bool]:
    """Whether this process has the claim on a part for the block; with ``wait``, once no other one has it.

    The operating system ends a claim with its process, however that ends.
    """
    cache = _cache(part[0].function)
    if fcntl is None or cache is None:
        yield True
        return
    try:
        file = os.open(cache.index.with_suffix(CLAIM), os.O_RDWR | os.O_CREAT)
    except OSError:  # the folder can only be read
        yield True
        return
    try:
        yield _lock(file, wait)
    finally:
        os.close(file)


def _lock(file: int, wait: bool) -> bool:
    """Lock an open file for this process; False if another one has it, which is not waited for."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: every process compiles
        return True
    return True
