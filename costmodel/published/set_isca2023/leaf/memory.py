"""Leaves that were searched before, in rows of an array that compiled code puts segments together from.

A leaf is found again by all that its cost depends on: its layer's shape, batch and tiles, whether its outputs
go to DRAM, and where its producers on the chip have placed theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.published.set_isca2023.hardware import Platform
from costmodel.published.set_isca2023.leaf.search import ReleasedLeafCost, ReleasedLeafSearch
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.streams import Placement

Array = NDArray[Any]
MOST_BYTES = 1 << 28
"""When the leaves would take more memory than this, all of them are forgotten."""
NOWHERE = -1
"""Stands for the row of a leaf that fits the tiles with no partition."""


@dataclass(frozen=True)
class LeafQuestion:
    """A leaf whose cost is asked for: a layer for ``batch`` samples on ``tiles`` = (first, count).

    ``written``: its outputs go to DRAM. ``sources``: the row of every producer whose outputs are on the chip.
    """

    layer: int
    batch: int
    tiles: tuple[int, int]
    written: bool
    sources: dict[int, int]


class LeafMemory:
    """Rows of leaves: ``numbers`` [n, 3 + 6 tiles] as in :class:`ReleasedLeafCost`, and ``energy_pj`` [n].

    Layers of equal shape whose producers have equal shapes, too, are one kind and use the same rows.
    """

    def __init__(self, search: ReleasedLeafSearch, graph: LayerGraph, platform: Platform) -> None:
        self._search, width = search, 3 + 6 * platform.tiles
        self._most = max(1, MOST_BYTES // (8 * width))
        self._kinds, self._reads = _kinds(graph, search.tables.same_as), [_reads(one) for one in graph.layers]
        self.numbers, self.energy_pj = np.zeros((256, width), np.int64), np.zeros(256)
        self._rows: dict[tuple[Any, ...], int] = {}
        self._placements: list[Placement] = []
        self._placement_numbers: list[int] = []
        self._numbered: dict[Placement, int] = {}

    def clear_if_full(self, leaves: int) -> None:
        """Forget all leaves if ``leaves`` more would not fit; rows handed out before are then void.

        So it is called before a segment's first leaf, never between two of its leaves.
        """
        if len(self._placements) + leaves > self._most:
            for known in (self._rows, self._placements, self._placement_numbers, self._numbered):
                known.clear()

    def row(self, question: LeafQuestion) -> int:
        """The row of a leaf, which is searched if it is new; NOWHERE if no partition fits."""
        sources = question.sources
        origins: tuple[int, ...] = ()
        if sources:
            reads = self._reads[question.layer]
            origins = tuple(self._placement_numbers[sources[one]] if one in sources else -1 for one in reads)
        kind = self._kinds[question.layer]
        key = (kind, question.batch, question.tiles, question.written, origins)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self._searched(question)
        return row

    def _searched(self, question: LeafQuestion) -> int:
        producers = {number: self._placements[row] for number, row in question.sources.items()}
        on = (question.batch, *question.tiles)
        found = self._search.search(question.layer, on, producers, question.written)
        return NOWHERE if found is None else self._added(found)

    def _added(self, cost: ReleasedLeafCost) -> int:
        row = len(self._placements)
        if row == len(self.energy_pj):
            self.numbers = np.concatenate([self.numbers, np.zeros_like(self.numbers)])
            self.energy_pj = np.concatenate([self.energy_pj, np.zeros_like(self.energy_pj)])
        self.numbers[row], self.energy_pj[row] = cost.numbers, cost.energy_pj
        self._placements.append(cost.placement)
        self._placement_numbers.append(self._numbered.setdefault(cost.placement, len(self._numbered)))
        return row


def _reads(layer: Any) -> tuple[int, ...]:
    """The producers that a layer reads from, by number: first those of its weights, then of its inputs."""
    return (*layer.weight_producers, *layer.producers)


def _kinds(graph: LayerGraph, same_as: list[int]) -> list[int]:
    """For every layer the first one that costs the same when its producers lie on the same tiles.

    ``repeats`` tells layers apart that read one producer twice from those that read two producers.
    """
    first: dict[tuple[Any, ...], int] = {}
    found = []
    for index, layer in enumerate(graph.layers):
        reads = [graph.layers[one].sizes(1) for one in _reads(layer)]
        repeats = [_reads(layer).index(one) for one in _reads(layer)]
        key = (same_as[index], layer.external_c, len(layer.weight_producers), *reads, *repeats)
        found.append(first.setdefault(key, index))
    return found
