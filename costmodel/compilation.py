"""Tells a listener when functions are compiled. Importing this module imports no compiler.

A function is compiled where no machine code of it is kept yet: once on a machine, while the first solve
waits. A function whose machine code is found on disk is only loaded, and the listener is not told.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

COMPILING = ".compiling"
"""End of the name of a mark: a file beside the kept machine code while a process compiles a function."""


class Listener(Protocol):
    """Hears of compilations, in the thread that compiles; functions are named with their modules.

    A function that calls others has these compiled first: they are its helpers.
    """

    def begins(self, function: str, folder: Path | None) -> None:
        """A function is about to be compiled and kept in ``folder``; None: no folder can be written."""

    def helper(self, function: str) -> None:
        """A helper of the function that is being compiled is done."""

    def ends(self, function: str) -> None:
        """The function that began is compiled, or cannot be."""


class Silent:
    """Says nothing: the listener before anybody sets one."""

    def begins(self, function: str, folder: Path | None) -> None:
        pass

    def helper(self, function: str) -> None:
        pass

    def ends(self, function: str) -> None:
        pass


class _Compilation:
    """The functions that this process is compiling, each called by the one before it in ``_open``."""

    def __init__(self) -> None:
        self.listener: Listener = Silent()
        self._open: list[str] = []
        self._mark: Path | None = None

    def begins(self, function: str, folder: Path | None) -> None:
        self._open.append(function)
        if len(self._open) == 1:
            self._mark = _marked(function, folder)
            self.listener.begins(function, folder)

    def ends(self) -> None:
        function = self._open.pop()
        if self._open:
            self.listener.helper(function)
            return
        if self._mark is not None:
            with suppress(OSError):
                self._mark.unlink()
        self.listener.ends(function)


COMPILATION = _Compilation()
"""The one of this process. It needs no lock: numba has one, so no two threads compile at the same time."""


def listen(listener: Listener) -> Listener:
    """Tell ``listener`` of every compilation from now on; returns the one that was told so far."""
    before, COMPILATION.listener = COMPILATION.listener, listener
    return before


def compiled_elsewhere(root: Path, since: float) -> Iterator[str]:
    """The functions that other processes are compiling into folders of ``root``, begun after ``since``.

    ``since`` is in seconds since 1970, as file times are. A killed process leaves its mark. On this host it
    is known to be dead, and its mark does not count; of other hosts' marks only the age can be judged.
    """
    for mark in root.glob(f"*/*{COMPILING}"):
        function, host, process, _ = mark.name.rsplit(".", 3)
        ours = host == _host()
        with suppress(OSError):  # that function is compiled by now
            if mark.stat().st_mtime >= since and (not ours or _is_another(int(process))):
                yield function


def _marked(function: str, folder: Path | None) -> Path | None:
    """Write the mark, an empty file, that tells other processes what this one compiles.

    None where none can be written.
    """
    if folder is None:
        return None
    mark = folder / f"{function}.{_host()}.{os.getpid()}{COMPILING}"
    try:
        mark.touch()
    except OSError:
        return None
    return mark


def _host() -> str:
    """This host's name without dots, which separate the parts of a mark's name."""
    return socket.gethostname().replace(".", "-")


def _is_another(process: int) -> bool:
    """Whether the process of this host with that number is alive and is not this one."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True
