"""Tells a listener when functions are compiled. Importing this module imports no compiler.

A function is compiled when no machine code of it is kept yet: once for a machine, for which the first solve
waits. Nothing is told of functions whose machine code is found.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

COMPILING = ".compiling"
"""How the name of the file ends that lies beside kept machine code while a process compiles a function."""


class Listener(Protocol):
    """Is told in the thread that compiles, which waits for it; functions are named with their module."""

    def begins(self, function: str, folder: Path | None) -> None:
        """A function is about to be compiled and kept in ``folder``; None: no folder can be written."""

    def helper(self, function: str) -> None:
        """A function that the one under way calls is compiled."""

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
    """The functions that this process compiles at the moment, each called by the one before it."""

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
"""Of this process; the compiler holds a lock of its own, so no two threads compile at once."""


def listen(listener: Listener) -> Listener:
    """Tell ``listener`` of every compilation from now on; returns the one that was told so far."""
    before, COMPILATION.listener = COMPILATION.listener, listener
    return before


def compiled_elsewhere(root: Path, since: float) -> Iterator[str]:
    """The functions that other processes compile into folders of ``root``, and began to after ``since``.

    ``since`` is in seconds as file times are. The file of a process that was killed stays: on this host
    it does not count, and of another host it counts if it is as new.
    """
    for mark in root.glob(f"*/*{COMPILING}"):
        function, host, process, _ = mark.name.rsplit(".", 3)
        ours = host == _host()
        with suppress(OSError):  # that function is compiled by now
            if mark.stat().st_mtime >= since and (not ours or _is_another(int(process))):
                yield function


def _marked(function: str, folder: Path | None) -> Path | None:
    """An empty file that says to other processes what this one compiles; None where none can be written."""
    if folder is None:
        return None
    mark = folder / f"{function}.{_host()}.{os.getpid()}{COMPILING}"
    try:
        mark.touch()
    except OSError:
        return None
    return mark


def _host() -> str:
    return socket.gethostname().replace(".", "-")


def _is_another(process: int) -> bool:
    """Whether a process of this host, by its number, is alive and not this one."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True
