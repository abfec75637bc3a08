"""Who waits for which answers: the one ledger under designs, costs of layers and epochs of seeds."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Waiter = TypeVar("Waiter", bound=Hashable)


class WaitingLedger(Generic[Waiter]):
    """Waiters, each with the ids of the answers that it still lacks.

    An id is solved once, however many wait for it: :meth:`wait` returns it to the first waiter only, and that
    caller has it solved. The ledger forgets an id once it is answered. So a caller of :meth:`wait` must leave
    out the ids whose answers it has, and some waiter must wait for every id that is being solved: otherwise
    the id would look new and be solved again.
    """

    def __init__(self) -> None:
        self._lacking: dict[Waiter, set[str]] = {}
        self._waiting: dict[str, list[Waiter]] = {}
        """By id, the waiters that lack its answer, in the order in which they came."""

    def __len__(self) -> int:
        """How many wait for something."""
        return len(self._lacking)

    def wait(self, waiter: Waiter, ids: Iterable[str]) -> list[str]:
        """Let ``waiter`` wait for all of ``ids``; returns those that nobody waited for before, each once.

        What the waiter lacked before, it goes on lacking. Without ids it is not entered.
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
        """Whether ``waiter`` still lacks an answer."""
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
