"""Says on standard error that functions are compiled, which the first solve of a machine waits for."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

from costmodel.compilation import compiled_elsewhere, listen
from costmodel.divided_compiling import any_missing
from costmodel.hardware.architecture import Architecture
from sweep.cli.messages import complain

LINE_SECONDS = 10.0
"""How often it is said what is being compiled."""
LOOK_SECONDS = 1.0
"""How often the machine's other processes are checked for what they compile."""
ONCE = (
    "machine code is being compiled, once for this machine and this version: of one solver up to about 20 "
    "seconds of CPU time, of all about 40 (measured on one machine)"
)
NOWHERE = (
    "No folder for it can be written, so every process compiles: set NUMBA_CACHE_DIR to a folder that can be"
)
AHEAD = "`archsweep warm-up` does it ahead."


class Reporter:
    """Says that compiling begins, and every LINE_SECONDS how far it is; nothing where code is found.

    ``done``: the functions that were compiled so far.
    """

    def __init__(self, advice: str = AHEAD) -> None:
        self.done: list[str] = []
        self._advice = advice
        self._helpers = 0
        self._said: float | None = None
        self._over = threading.Event()

    def begins(self, function: str, folder: Path | None) -> None:
        if self._said is None:
            where = f"It is kept in {folder.parent}" if folder else NOWHERE
            complain(" ".join(f"{ONCE}. {where}. {self._advice}".split()))
            self._said = time.monotonic()
        self._over = threading.Event()
        # the thread that compiles says nothing before it is done, and that may take half a minute
        threading.Thread(target=self._say_on, args=(function, self._over), daemon=True).start()

    def helper(self, function: str) -> None:
        self._helpers += 1

    def ends(self, function: str) -> None:
        self._over.set()
        self.done.append(function)

    def _say_on(self, function: str, over: threading.Event) -> None:
        began = time.monotonic()
        assert self._said is not None
        while not over.wait(max(0.0, self._said + LINE_SECONDS - time.monotonic())):
            self._said = time.monotonic()
            complain(
                f"compiling {function} for {self._said - began:.0f} s; "
                f"done so far: functions {len(self.done)}, their helpers {self._helpers}"
            )


@contextmanager
def said() -> Iterator[None]:
    """What is compiled by this process in the block is said on standard error."""
    before = listen(Reporter())
    try:
        yield
    finally:
        listen(before)


@contextmanager
def helped(solver: str, architecture: Architecture) -> Iterator[None]:
    """During the block a second process compiles with this one, if there is a second core.

    It begins only if something of the ``solver`` is not compiled yet for machines like ``architecture``.
    """
    from sweep.tasks.solver_code import code_of, help_to_compile

    if (os.cpu_count() or 1) < 2 or not any_missing(code_of(solver, architecture)):
        yield
        return
    helper = get_context("spawn").Process(target=help_to_compile, args=(solver, architecture), daemon=True)
    helper.start()
    try:
        yield
    finally:
        helper.terminate()
        helper.join()


@contextmanager
def said_of_workers(there_are: bool) -> Iterator[None]:
    """What other processes compile on this machine during the block is said, if the run has workers.

    Workers on other machines are not seen, unless these have the folder of machine code in common.
    """
    over = threading.Event()
    if there_are:
        since = time.time() - 1.0  # the clock of files may be a little behind
        threading.Thread(target=_watch, args=(since, over), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _watch(since: float, over: threading.Event) -> None:
    from costmodel.machine_code import kept_in

    said, folder = -LINE_SECONDS, kept_in()
    first = f"Workers wait for it before their first solve. {AHEAD}"
    while folder is not None and not over.wait(LOOK_SECONDS):
        functions = sorted(set(compiled_elsewhere(folder, since)))
        if functions and time.monotonic() - said >= LINE_SECONDS:
            if said < 0:
                complain(f"{ONCE}. It is kept in {folder}. {first}")
            said = time.monotonic()
            complain(f"workers are compiling {', '.join(functions)}")
