"""Whether the data that is loaded from DRAM has been stored there, and how many stores a load waits for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.schedule.program.listing import boxes_of
from costmodel.schedule.program.part_data import elements
from costmodel.schedule.program.program import Program

Array = NDArray[Any]


class StoredOutputs:
    """Whether every load of a layer's outputs waits for stores that together have all its elements, and when.

    No two stores of a layer's outputs have an element in common. So the elements that each has in common with
    a load can be added up.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._boxes: dict[tuple[int, ...], tuple[Array, Array]] = {}

    def reasons(self) -> Iterator[str]:
        """Loads of a layer's outputs some of whose elements no store has."""
        layers = {nest.layer for nest in self._program.layers}
        for number, message in enumerate(self._program.messages):
            if message.sources or message.tensor not in layers:
                continue
            if any(self._program.messages[one].tensor != message.tensor for one in message.after):
                yield f"message {number}: waits for a store of another tensor than {message.tensor}"
                continue
            all_of, stored = elements(message.box), self._common(number)[0].sum(axis=1)
            if (missing := stored != all_of).any():
                least = int(stored[np.argmax(missing)])
                yield f"message {number}: {all_of} elements of {message.tensor}, {least} are stored"

    def needs(self, number: int) -> Array:
        """How often each store has to have ended before a load's n-th time: [stores, times].

        That is the number, counted from 1, of the last time that the store has an element of the load; 0 if
        it never has one.
        """
        both, begin = self._common(number)
        own = np.arange(both.shape[1]) - np.repeat(begin[:-1], np.diff(begin)) + 1
        return np.maximum.reduceat(np.where(both > 0, own, 0), begin[:-1], axis=1).T

    def _common(self, number: int) -> tuple[Array, Array]:
        """How many elements a load has in common with its stores: [times, times of all stores].

        Also where in the second axis the times of each store begin: [stores + 1].
        """
        message = self._program.messages[number]
        mine = boxes_of(message.box, message.moves)
        if message.after not in self._boxes:
            boxes = [
                boxes_of(one.box, one.moves) for one in map(self._program.messages.__getitem__, message.after)
            ]
            begin = np.concatenate(([0], np.cumsum([len(one) for one in boxes], dtype=np.int64)))
            stores = np.concatenate(boxes) if boxes else np.zeros((0, *mine.shape[1:]), np.int64)
            self._boxes[message.after] = stores, begin
        stores, begin = self._boxes[message.after]
        both = np.ones((len(mine), len(stores)), np.int64)
        for axis in range(mine.shape[1]):
            first = np.maximum(mine[:, axis, 0, np.newaxis], stores[np.newaxis, :, axis, 0])
            end = np.minimum(mine[:, axis, 1, np.newaxis], stores[np.newaxis, :, axis, 1])
            both *= np.maximum(end - first, 0)
        return both, begin
