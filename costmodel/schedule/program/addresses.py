"""Where the data of messages lies in a tile's buffer: no two at the same bytes while both are there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

MOST_TRIES = 200
"""How many orders of placing are tried before a buffer counts as too fragmented."""


@dataclass(eq=False)
class Occupancy:
    """What a tile's buffer holds, moment by moment. Each is equal to itself alone.

    ``sizes``: bytes of each message. ``together``: for each message those that are in the buffer at some
    moment with it. ``peak``: the most bytes at a moment. ``live``: the messages that are there now, with the
    sum of their ``live_bytes``.
    """

    sizes: Mapping[int, int | float]
    together: dict[int, set[int]] = field(default_factory=dict)
    peak: int | float = 0
    live: set[int] = field(default_factory=set)
    live_bytes: int | float = 0

    def arrive(self, message: int) -> None:
        """A message begins to arrive: it takes its bytes."""
        if message in self.live:
            raise RuntimeError(f"message {message} arrives twice")
        for other in self.live:
            self.together[other].add(message)
        self.together.setdefault(message, set()).update(self.live)
        self.live.add(message)
        self.live_bytes += self.sizes[message]
        self.peak = max(self.peak, self.live_bytes)

    def leave(self, messages: Iterable[int]) -> None:
        """Messages give their bytes back."""
        for message in messages:
            self.live.remove(message)
            self.live_bytes -= self.sizes[message]


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
    found = _tried(occupancy, spans, first, end)
    if found is None or not mirrored:
        return found
    return {message: first + end - at - occupancy.sizes[message] for message, at in found.items()}


def _tried(
    occupancy: Occupancy, avoided: Mapping[int, Sequence[Span]], first: int, end: int | float
) -> dict[int, int | float] | None:
    by_arrival = list(occupancy.together)
    found, missed = _placed(occupancy, avoided, by_arrival, first, end)
    if missed is None:
        return found
    order = sorted(by_arrival, key=lambda message: -occupancy.sizes[message])
    for _ in range(MOST_TRIES):
        found, missed = _placed(occupancy, avoided, order, first, end)
        if missed is None:
            return found
        order.remove(missed)
        order.insert(0, missed)
    return None


def _placed(
    occupancy: Occupancy,
    avoided: Mapping[int, Sequence[Span]],
    order: Sequence[int],
    first: int,
    end: int | float,
) -> tuple[dict[int, int | float], int | None]:
    """The addresses of messages placed in an order, and the first one that did not fit."""
    found: dict[int, int | float] = {}
    for message in order:
        size = occupancy.sizes[message]
        address: int | float = first
        others = (
            (found[other], found[other] + occupancy.sizes[other])
            for other in occupancy.together[message]
            if other in found
        )
        for begin, stop in sorted((*others, *avoided.get(message, ()))):
            if address + size <= begin:
                break
            address = max(address, stop)
        if address + size > end:
            return found, message
        found[message] = address
    return found, None
