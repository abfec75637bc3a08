"""Calls that may wait long for another machine, made where Ctrl-C and SIGTERM need not wait for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, ClassVar, Generic, TypeVar

Value = TypeVar("Value")


class Background(Generic[Value]):
    """``call`` runs in a thread of its own, which does not hold up the end of the process.

    Python runs signal handlers in the main thread, between two of its own instructions: never while that
    thread is inside a library's call. So the call is made here, and the main thread waits in Python, where
    Ctrl-C and SIGTERM reach it at once.
    """

    _under_way: ClassVar[set[Background[Any]]] = set()

    def __init__(self, call: Callable[[], Value]) -> None:
        self._call = call
        self._outcome: Future[Value] = Future()
        self._under_way.add(self)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self._outcome.set_result(self._call())
        # all errors, for the thread that waits: one that stayed here would let it wait for ever. `value`
        # raises it there, and `failure` gives it to whoever only looks
        except BaseException as error:  # noqa: BLE001
            self._outcome.set_exception(error)
        finally:
            self._under_way.discard(self)

    @classmethod
    def under_way(cls) -> int:
        """How many calls have not ended: pyarrow waits for its own when the process ends, without limit."""
        return len(cls._under_way)

    @property
    def ended(self) -> bool:
        return self._outcome.done()

    @property
    def failure(self) -> BaseException | None:
        """What an ended call raised, None where it returned."""
        return self._outcome.exception()

    def wait(self, seconds: float) -> bool:
        """Wait so long at most; whether the call has ended."""
        wait([self._outcome], seconds)
        return self.ended

    def value(self) -> Value:
        """Wait for what the call returns; raises what it raises."""
        return self._outcome.result()
