"""Where the data of messages lies in a tile's buffer: no two at the same bytes while both are there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.widths import in_bytes

Array = NDArray[Any]

MOST_TRIES = 200
"""How many orders of placing are tried before a buffer counts as too fragmented."""
NOWHERE = -1
"""The address of a message that is not placed yet."""


@dataclass(eq=False)
class Occupancy:
    """What a tile's buffer holds, moment by moment. Each is equal to itself alone.

    ``sizes``: bytes of each message. ``peak``: the most bytes at a moment. ``live``: for each message that is
    there now when it came, with the sum of their ``live_bytes``. Moments are counted by arrivals, and
    ``stays`` has the time of each message between its arrival and the first one after it left; a message that
    comes again has several. Pairs of messages are not kept: some tiles hold thousands at a time.
    """

    sizes: Mapping[int, int | float]
    peak: int | float = 0
    live: dict[int, int] = field(default_factory=dict)
    live_bytes: int | float = 0
    stays: list[tuple[int, int, int]] = field(default_factory=list)
    _arrivals: dict[int, int] = field(default_factory=dict)
    _moment: int = 0

    def arrive(self, message: int) -> None:
        """A message begins to arrive: it takes its bytes."""
        if message in self.live:
            raise RuntimeError(f"message {message} arrives twice")
        self.live[message] = self._moment
        self._arrivals.setdefault(message, self._moment)
        self._moment += 1
        self.live_bytes += self.sizes[message]
        self.peak = max(self.peak, self.live_bytes)

    def leave(self, messages: Iterable[int]) -> None:
        """Messages give their bytes back."""
        for message in messages:
            self.stays.append((message, self.live.pop(message), self._moment))
            self.live_bytes -= self.sizes[message]

    @property
    def messages(self) -> list[int]:
        """All messages that ever came, in the order of their first arrival."""
        return list(self._arrivals)

    @property
    def times(self) -> tuple[Array, Array, Array]:
        """Each stay of a message: its number in :attr:`messages`, and from when to when it is there."""
        number = {message: place for place, message in enumerate(self._arrivals)}
        still = ((message, came, self._moment) for message, came in self.live.items())
        rows = [(number[message], begin, end) for message, begin, end in (*self.stays, *still)]
        owner, begin, end = np.array(rows, np.int64).reshape(-1, 3).T
        return owner, begin, end


Span = tuple[int | float, int | float]
"""Addresses from the first to before the second."""


def addresses(
    occupancy: Occupancy,
    first: int,
    end: int | float,
    avoided: Mapping[int, Sequence[Span]] | None = None,
    mirrored: bool = False,
) -> dict[int, int | float] | None:
    """An address from ``first`` on for each message, so that it ends before ``end``; None if none was found.

    Messages are placed one after the other at the lowest address that is free whenever they are there. They
    come in the order of their arrival, then by size, the largest first. After that, the message that did not
    fit is put in front of the others, and all are placed again.

    ``avoided``: for messages the spans where other data is. ``mirrored``: at the highest address instead.
    """
    spans = {
        message: [
            (first + end - stop, first + end - begin) if mirrored else (begin, stop) for begin, stop in own
        ]
        for message, own in (avoided or {}).items()
    }
    found = _Buffer(occupancy, spans, first, end).tried()
    if found is None or not mirrored:
        return found
    return {message: first + end - at - occupancy.sizes[message] for message, at in found.items()}


class _Buffer:
    """Places the messages of an occupancy in a buffer. All bytes are counted in bits, which are whole."""

    def __init__(
        self, occupancy: Occupancy, avoided: Mapping[int, Sequence[Span]], first: int, end: int | float
    ) -> None:
        self._messages = occupancy.messages
        self._sizes = np.array([int(8 * occupancy.sizes[one]) for one in self._messages], np.int64)
        self._first, self._end = 8 * first, int(8 * end)
        self._owner, self._begin, self._leave = occupancy.times
        self._stays: list[list[int]] = [[] for _ in self._messages]
        for stay, number in enumerate(self._owner.tolist()):
            self._stays[number].append(stay)
        self._avoided = [
            np.array([(int(8 * begin), int(8 * stop)) for begin, stop in avoided.get(one, ())], np.int64)
            for one in self._messages
        ]

    def tried(self) -> dict[int, int | float] | None:
        """The address of each message, in one of the orders that are tried; None where none fits."""
        missed = self._missed(range(len(self._messages)))
        order = sorted(range(len(self._messages)), key=lambda number: -self._sizes[number])
        tries = 0
        while missed is not None:
            if tries == MOST_TRIES:
                return None
            missed, tries = self._missed(order), tries + 1
            if missed is not None:
                order.remove(missed)
                order.insert(0, missed)
        return {
            message: in_bytes(int(at)) for message, at in zip(self._messages, self._at.tolist(), strict=True)
        }

    def _missed(self, order: Sequence[int]) -> int | None:
        """Place the messages in an order; the first one that does not fit, by its number."""
        self._at = np.full(len(self._messages), NOWHERE, np.int64)
        for number in order:
            at = self._lowest(number)
            if at + self._sizes[number] > self._end:
                return number
            self._at[number] = at
        return None

    def _lowest(self, number: int) -> int:
        """The lowest address at which a message does not meet those that are placed."""
        meeting = np.zeros(len(self._messages), bool)
        for stay in self._stays[number]:
            while_there = (self._begin < self._leave[stay]) & (self._leave > self._begin[stay])
            meeting[self._owner[while_there]] = True
        meeting &= self._at != NOWHERE
        begins, stops = self._at[meeting], (self._at + self._sizes)[meeting]
        if len(own := self._avoided[number]):
            begins, stops = np.append(begins, own[:, 0]), np.append(stops, own[:, 1])
        order = np.argsort(begins, kind="stable")
        # up to where all before each span ends is the lowest address in front of it
        free = np.maximum.accumulate(np.append(self._first, stops[order]))
        fits = free[:-1] + self._sizes[number] <= begins[order]
        return int(free[int(fits.argmax()) if fits.any() else -1])
