"""Who reads whose outputs in a network, by the numbers of its layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from costmodel.schedule.tree.data_flow import Producers


@dataclass(frozen=True)
class Wiring:
    """A network's layers by number: the number of each name, and for each layer whom it reads and who reads
    it.
    """

    numbers: Mapping[str, int]
    producers: Sequence[Sequence[int]]
    consumers: Sequence[frozenset[int]]

    @staticmethod
    def of(producers: Producers) -> Wiring:
        numbers = {layer: number for number, layer in enumerate(producers)}
        read = [tuple(numbers[name] for name in names) for names in producers.values()]
        readers: list[set[int]] = [set() for _ in numbers]
        for consumer, names in enumerate(read):
            for producer in names:
                readers[producer].add(consumer)
        return Wiring(numbers, read, [frozenset(one) for one in readers])
