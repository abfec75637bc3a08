"""Who waits for which answers: the one ledger under designs, costs of layers and epochs of seeds."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Waiter = TypeVar("Waiter", bound=Hashable)


class WaitingLedger(Generic[Waiter]):
    """Waiters, each with the ids of the answers that it still lacks.

    An id is to be solved once, however many wait for it: :meth:`wait` returns it to the first who asks only.
    Nothing is kept of an id that nobody waits for any more, nor of a waiter that lacks nothing. So whoever
    calls :meth:`wait` leaves out what is known already, and lets somebody wait for all that is being solved:
    else it would be solved again.
    """

    def __init__(self) -> None:
        self._lacking: dict[Waiter, set[str]] = {}
        self._waiting: dict[str, list[Waiter]] = {}
        """By id, the waiters that lack its answer, in the order in which they came."""

    def __len__(self) -> int:
        """How many wait for something."""
        return len(self._lacking)

    def wait(self, waiter: Waiter, ids: Iterable[str]) -> list[str]:
        """Let ``waiter`` wait for all of ``ids``; returns those that no other waits for, each one once.

        A waiter that waits already goes on to lack what it lacked. Without any ids it is not entered.
        """
        distinct = dict.fromkeys(ids)
        if not distinct:
            return []
        new = [answer_id for answer_id in distinct if answer_id not in self._waiting]
        lacking = self._lacking.setdefault(waiter, set())
        for answer_id in distinct:
            if answer_id not in lacking:
                lacking.add(answer_id)
                self._waiting.setdefault(answer_id, []).append(waiter)
        return new

    def waits(self, waiter: Waiter) -> bool:
        """Whether an answer that ``waiter`` asked for is still to come."""
        return waiter in self._lacking

    def is_awaited(self, answer_id: str) -> bool:
        """Whether somebody waits for this answer."""
        return answer_id in self._waiting

    def answered(self, answer_id: str) -> list[Waiter]:
        """Forget the id; returns the waiters that lacked nothing else, in the order in which they came."""
        released: list[Waiter] = []
        for waiter in self._waiting.pop(answer_id, []):
            lacking = self._lacking[waiter]
            lacking.discard(answer_id)
            if not lacking:
                del self._lacking[waiter]
                released.append(waiter)
        return released
