"""What is pending: which items wait, how many make a batch, which were running when a worker died."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from clusters.pace import Pace

CALLS_PER_WORKER = 2
"""Most calls a worker holds: one running, and one waiting so that a busy driver does not leave it idle."""

SMOOTHING = 0.1
"""Weight of the newest item in the moving mean of item seconds."""


@dataclass(slots=True, eq=False)
class Item:
    """One accepted item.

    strikes: workers it took along; attempts: times it is known to have started; holder: the call that is
    responsible for it now (an earlier one may still run it too, and whichever answers first counts).
    """

    key: str
    payload: bytes
    strikes: int = 0
    attempts: int = 1
    holder: object = None


class Ledger:
    """Items from their submission to their completion, each completed once. Knows nothing of processes."""

    def __init__(self, pace: Pace, first_seconds: float | None = None) -> None:
        """``first_seconds``: what an item is taken to need before the first one was timed."""
        self.pace = pace
        self._mean_seconds = first_seconds
        self._queue: deque[Item] = deque()
        self._pending: dict[str, Item] = {}

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def queued(self) -> int:
        return len(self._queue)

    def accept(self, key: str, payload: bytes) -> None:
        """Queue a new item; raises ValueError for a key still pending."""
        if key in self._pending:
            raise ValueError(f"expected a new key, found {key!r}, which is still pending; submit each once")
        item = self._pending[key] = Item(key, payload)
        self._queue.append(item)

    def finish(self, item: Item, seconds: float | None = None) -> bool:
        """Take the item off; False if it was already. seconds, if known, steer the size of coming batches."""
        if seconds is not None:
            mean = self._mean_seconds
            self._mean_seconds = seconds if mean is None else mean + SMOOTHING * (seconds - mean)
        if not self._is_pending(item):
            return False
        del self._pending[item.key]
        return True

    def _is_pending(self, item: Item) -> bool:
        return self._pending.get(item.key) is item

    @property
    def next_is_suspect(self) -> bool:
        """Whether the next item was running when a worker died (it wants a worker for itself)."""
        return bool(self._queue) and self._queue[0].strikes > 0

    @property
    def batch_size(self) -> int:
        """How many items together take about ``target_seconds``; 1 until the first item was timed.

        At most a quarter of the window: a worker holds two calls, and two wait in the queue.
        """
        if self._mean_seconds is None:
            return 1
        largest = max(1, self.pace.window // (2 * CALLS_PER_WORKER))
        return max(1, min(largest, int(self.pace.target_seconds / max(self._mean_seconds, 1e-9))))

    @property
    def calls_per_worker(self) -> int:
        """Two where items are short, so that a worker has its next call at once; else one.

        Behind a long item a call would wait while other workers are idle.
        """
        short = self._mean_seconds is not None and self._mean_seconds < self.pace.target_seconds
        return CALLS_PER_WORKER if short else 1

    def capacity(self, workers: int) -> int:
        """How many more items can be accepted: all calls of these workers full, and as many in the queue, but
        no more than the window for each worker."""
        per_worker = min(self.pace.window, 2 * CALLS_PER_WORKER * self.batch_size)
        return max(0, workers * per_worker - len(self._pending))

    def take_batch(self, workers: int) -> list[Item]:
        """The items of the next call: a batch, or fewer at the end, so that all workers end together.

        An item that was running when a worker died is a batch of its own: if the next worker dies, too, no
        other item is suspected.
        """
        # an even part of the queue for every call that the workers can hold
        even_part = math.ceil(len(self._queue) / (CALLS_PER_WORKER * max(1, workers)))
        most = min(self.batch_size, even_part)
        batch: list[Item] = []
        while self._queue and len(batch) < most and not (batch and self._queue[0].strikes):
            item = self._queue.popleft()
            if self._is_pending(item):
                batch.append(item)
                most = 1 if item.strikes else most
        return batch

    def put_back(self, items: Sequence[Item]) -> None:
        """Queue lost items again, first in line and in their order."""
        for item in items:
            item.holder = None
        self._queue.extendleft(reversed(items))

    def clear(self) -> None:
        self._queue.clear()
        self._pending.clear()
