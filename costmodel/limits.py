"""Limits of searches and bounds: code that reaches one reports it, and the answer's note repeats it.

Code that stops at a limit, and so finds or proves less than it could, calls :func:`limit_reached` there. Its
caller, however far up, collects the reports in a ``with recording()`` block: for solvers
``solvers.outcome.noting_limits`` does that, and puts them into the note of the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar, cast

Arguments = ParamSpec("Arguments")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class Limit:
    """A limit that was reached: at most ``most`` of ``what``, in plain words, and the ``effect`` of that.

    ``narrows``: the limit makes the question itself narrower, so that even a proven answer holds only within
    it and has to name it. Any other limit took nothing from an answer that was proven all the same.
    """

    what: str
    most: float
    effect: str
    narrows: bool = False

    def __str__(self) -> str:
        return f"limit of {self.most:,} {self.what} reached: {self.effect}"


Reached = dict[Limit, None]
"""The limits that were reached, each once, in the order of their first report."""

_RECORD: ContextVar[Reached | None] = ContextVar("limits reached", default=None)


def limit_reached(what: str, most: float, effect: str, *, narrows: bool = False) -> None:
    """Tell the innermost ``recording`` block, if there is one: see :class:`Limit`."""
    report(Limit(what, most, effect, narrows))


def report(limit: Limit) -> None:
    """Pass a limit that was recorded elsewhere on to the innermost ``recording`` block, if there is one."""
    if (record := _RECORD.get()) is not None:
        record[limit] = None


@contextmanager
def recording() -> Iterator[Reached]:
    """Collects the limits that the code of the block reaches; blocks further out do not hear of them."""
    reached: Reached = {}
    token = _RECORD.set(reached)
    try:
        yield reached
    finally:
        _RECORD.reset(token)


def cached(maxsize: int) -> Callable[[Callable[Arguments, ResultT]], Callable[Arguments, ResultT]]:
    """``functools.lru_cache`` that remembers, with each result, the limits reached for it.

    They are reported anew with every use of the result; else only the first caller would hear of them.
    """

    def remembering(function: Callable[Arguments, ResultT]) -> Callable[Arguments, ResultT]:
        @lru_cache(maxsize=maxsize)
        def computed(*args: Arguments.args, **kwargs: Arguments.kwargs) -> tuple[ResultT, tuple[Limit, ...]]:
            with recording() as reached:
                result = function(*args, **kwargs)
            return result, tuple(reached)

        @wraps(function)
        def remembered(*args: Arguments.args, **kwargs: Arguments.kwargs) -> ResultT:
            # lru_cache asks for hashable arguments, which a ParamSpec cannot say
            result, reached = cast(Callable[..., tuple[ResultT, tuple[Limit, ...]]], computed)(
                *args, **kwargs
            )
            for limit in reached:
                report(limit)
            return result

        remembered.cache_clear = computed.cache_clear  # type: ignore[attr-defined]
        return remembered

    return remembering
