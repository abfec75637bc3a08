"""What a scheduler is told of its layers: costs of tile parts, and of layers mapped on the whole chip."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import astuple, dataclass
from typing import Any

from costmodel.hardware.chip import Chip
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.whole_chip_cost import WholeChipCost
from solvers.schedule.tiles.cost_table import TabledTileCosts, TilePartCosts
from solvers.schedule.tiles.layer_parts import Pruning, TilePart
from solvers.schedule.tiles.mapper import TilePartCost
from solvers.schedule.whole_chip_costs import WholeChipCosts

AloneCosts = ReadOnlyDict[tuple[int, int], WholeChipCost | None]
"""Costs of layers that run layer-sequentially, by number of the layer and batch; None: no mapping found."""


@dataclass(frozen=True)
class KnownCosts:
    """Costs of a network's layers on a chip.

    ``shares``: of tile parts, on one tile. ``alone``: of whole layers that run layer-sequentially from DRAM,
    mapped on the whole chip; None where that is not offered.
    """

    shares: TilePartCosts
    alone: AloneCosts | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data that :meth:`from_json` reads back."""
        alone = None if self.alone is None else [[*key, _plain(cost)] for key, cost in self.alone.items()]
        shares = [[*share, *share_numbers(cost)] for share, cost in self.shares.items()]
        return {"tile_costs": shares, "alone_costs": alone}

    @staticmethod
    def from_json(content: ReadOnlyDict[str, Any]) -> KnownCosts:
        """The costs in a payload that has the keys of :meth:`to_json`."""
        width, alone = len(TilePart._fields), content["alone_costs"]
        shares = {TilePart(*row[:width]): share_cost_of(*row[width:]) for row in content["tile_costs"]}
        if alone is None:
            return KnownCosts(shares)
        return KnownCosts(shares, {(layer, batch): _cost(numbers) for layer, batch, numbers in alone})

    def table(self, graph: LayerGraph, chip: Chip, pruning: Pruning) -> TabledTileCosts:
        """The costs for a scheduler of ``graph`` on ``chip``: a table that solves nothing it lacks."""
        alone = None
        if self.alone is not None:
            shapes = {graph.layers[layer].nest(batch).shape: c for (layer, batch), c in self.alone.items()}
            alone = WholeChipCosts(chip, shapes)
        return TabledTileCosts(graph, chip.tile, self.shares, pruning=pruning, whole_chip=alone)


def share_numbers(cost: TilePartCost | None) -> tuple[float | None, int | None, bool]:
    """A tile part's cost as JSON, (pJ, cycles, proven), in payloads and results.

    :func:`share_cost_of` reads it back.
    """
    return (None, None, False) if cost is None else (cost.energy_pj, cost.cycles, cost.proven)


def share_cost_of(energy_pj: float | None, cycles: int | None, proven: bool) -> TilePartCost | None:
    """A tile part's cost from its numbers; None where no mapping was found."""
    return None if energy_pj is None or cycles is None else TilePartCost(energy_pj, cycles, proven)


def _plain(cost: WholeChipCost | None) -> list[Any] | None:
    if cost is None:
        return None
    parts, *others = astuple(cost)
    return [list(parts), *others]


def _cost(numbers: list[Any] | None) -> WholeChipCost | None:
    return None if numbers is None else WholeChipCost(tuple(numbers[0]), *numbers[1:])
