"""Limits of searches and bounds: whoever reaches one says so, and the answer to the question repeats it.

Code that stops at a limit, and so finds or proves less than it could, calls :func:`limit_reached` there.
Whoever asked collects what was said in a ``with recording()`` block: solvers in the note of their outcome
(``solvers.outcome.noting_limits``).
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

    ``narrows``: the limit belongs to the question, so that even a proven answer is one within it. Any other
    limit need not be spoken of where the answer is proven all the same.
    """

    what: str
    most: float
    effect: str
    narrows: bool = False

    def __str__(self) -> str:
        return f"limit of {self.most:,} {self.what} reached: {self.effect}"


Reached = dict[Limit, None]
"""The limits that were reached, each once, in the order in which they were."""

_RECORD: ContextVar[Reached | None] = ContextVar("limits reached", default=None)


def limit_reached(what: str, most: float, effect: str, *, narrows: bool = False) -> None:
    """Tell the innermost ``recording`` block, if there is one: see :class:`Limit`."""
    report(Limit(what, most, effect, narrows))


def report(limit: Limit) -> None:
    """The same for a limit that was recorded elsewhere."""
    if (record := _RECORD.get()) is not None:
        record[limit] = None


@contextmanager
def recording() -> Iterator[Reached]:
    """The limits that the code of the block reaches; a block further out does not hear of them."""
    reached: Reached = {}
    token = _RECORD.set(reached)
    try:
        yield reached
    finally:
        _RECORD.reset(token)


def cached(maxsize: int) -> Callable[[Callable[Arguments, ResultT]], Callable[Arguments, ResultT]]:
    """``functools.lru_cache`` whose remembered results come with the limits that were reached for them."""

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
