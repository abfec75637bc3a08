"""Whether every message is issued by its own sources and targets, all of them equally often."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.schedule.program.instruction_values import COMPUTE, HOLD, LOAD, RECEIVE, SEND, STORE
from costmodel.schedule.program.listing import Listing, laid_out
from costmodel.schedule.program.program import Program

Array = NDArray[Any]
TRANSFERS = {LOAD: "load", RECEIVE: "receive", SEND: "send", STORE: "store"}


class IssuedMessages:
    """Which messages each tile issues, and how often.

    A *slot* is a message on one of its tiles, where its data comes in or goes out. ``keys`` [slots] has one
    number for each (message, whether it goes out, tile), in ascending order, so a slot is found by bisection.
    ``message``, ``tile``, ``leaves`` [slots]: the three again.
    """

    def __init__(self, program: Program, listing: Listing) -> None:
        self._program, self._tiles = program, program.chip.tiles
        targets, counts = laid_out(message.targets for message in program.messages)
        sources, leaving = laid_out(message.sources for message in program.messages)
        numbers = np.arange(len(program.messages))
        comes = self._key(np.repeat(numbers, np.diff(counts)), 0, targets)
        leaves = self._key(np.repeat(numbers, np.diff(leaving)), 1, sources)
        self.keys, self._twice = np.unique(np.concatenate((comes, leaves)), return_counts=True)
        self.message = self.keys // (2 * self._tiles)
        self.tile = self.keys % self._tiles
        self.leaves = self.keys // self._tiles % 2 == 1
        self._listing = listing

    def _key(self, message: Array, leaves: Array | int, tile: Array) -> Array:
        keys: Array = (message * 2 + leaves) * self._tiles + tile
        return keys

    def slots_of(self, message: Array, leaves: Array | int, tile: Array) -> Array:
        """The slot of each message on each tile, -1 where the tile does not take part in it."""
        keys = self._key(message, leaves, tile)
        if not len(self.keys):
            return np.full(len(keys), -1)
        found = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[found] == keys, found, -1)

    @cached_property
    def _rows(self) -> Array:
        """The instructions that issue messages."""
        return np.flatnonzero(self._listing.code < COMPUTE)

    @cached_property
    def slot(self) -> Array:
        """The slot of each instruction that issues a message; -1 where its tile or kind is wrong."""
        listing, rows = self._listing, self._rows
        code = listing.code[rows]
        slots = self.slots_of(listing.number[rows], code >= SEND, listing.tile[rows])
        # A load is of a message from DRAM and a receive of one from tiles; likewise for store and send. An
        # instruction of the wrong kind has no slot.
        from_dram, to_dram = self._ends
        message = listing.number[rows]
        right = np.select(
            [code == LOAD, code == RECEIVE, code == SEND],
            [from_dram[message], ~from_dram[message], ~to_dram[message]],
            to_dram[message],
        )
        return np.where(right, slots, -1)

    @cached_property
    def _ends(self) -> tuple[Array, Array]:
        """Whether each message comes from DRAM, and whether it goes there."""
        messages = self._program.messages
        from_dram = np.array([not message.sources for message in messages], bool)
        return from_dram, np.array([not message.targets for message in messages], bool)

    def reasons(self) -> Iterator[str]:
        """Messages that are issued by others than their sources and targets, or not equally often."""
        listing, rows, slot = self._listing, self._rows, self.slot
        times = np.zeros(len(self.keys), np.int64)
        np.add.at(times, slot[slot >= 0], listing.times[rows][slot >= 0])
        expected = np.array(
            [prod(times for times, _ in message.moves) for message in self._program.messages], np.int64
        )
        moves = np.array([bool(message.moves) for message in self._program.messages], bool)
        begin = np.searchsorted(self.message, np.arange(len(self._program.messages) + 1))
        least = np.minimum.reduceat(times, begin[:-1]) if len(times) else times
        most = np.maximum.reduceat(times, begin[:-1]) if len(times) else times
        twice = np.zeros(len(expected), bool)
        twice[self.message[self._twice > 1]] = True
        unequal = twice | (least != most) | (least == 0) | (moves & (least != expected))
        for number in np.flatnonzero(unequal).tolist():
            own = times[begin[number] : begin[number + 1]].tolist()
            if twice[number]:
                yield f"message {number}: a tile twice among its sources or targets"
            elif len(set(own)) > 1 or not own[0]:
                yield f"message {number}: its tiles issue it {own} times, not all equally often"
            else:
                yield f"message {number}: issued {own[0]} times, and its box moves {expected[number]} times"
        foreign = rows[slot < 0]
        columns = (one[foreign].tolist() for one in (listing.tile, listing.code, listing.number))
        for tile, code, number in dict.fromkeys(zip(*columns, strict=True)):
            yield f"tile {tile}: {TRANSFERS[code]} of message {number}, which has other sources and targets"
        holds = np.flatnonzero(listing.code == HOLD)
        slots = self.slots_of(listing.number[holds], 1, listing.tile[holds])
        for at in holds[(slots < 0) | ~self._ends[1][listing.number[holds]]].tolist():
            tile, number = listing.tile[at], listing.number[at]
            yield f"tile {tile}: hold of message {number}, which it does not send to DRAM"
