"""What a schedule solve is told of its layers: costs of shares on tiles, and of layers alone on the chip."""

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
"""By number of the layer and batch; None: no mapping was found."""


@dataclass(frozen=True)
class KnownCosts:
    """Costs of a network's layers on a chip; ``alone`` None: layers may not run alone."""

    shares: TilePartCosts
    alone: AloneCosts | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data that :meth:`from_json` reads back."""
        alone = None if self.alone is None else [[*key, _plain(cost)] for key, cost in self.alone.items()]
        shares = [[*share, *share_numbers(cost)] for share, cost in self.shares.items()]
        return {"tile_costs": shares, "alone_costs": alone}

    @staticmethod
    def from_json(content: ReadOnlyDict[str, Any]) -> KnownCosts:
        """The costs in a payload that :meth:`to_json` is a part of."""
        width, alone = len(TilePart._fields), content["alone_costs"]
        shares = {TilePart(*row[:width]): share_cost_of(*row[width:]) for row in content["tile_costs"]}
        if alone is None:
            return KnownCosts(shares)
        return KnownCosts(shares, {(layer, batch): _cost(numbers) for layer, batch, numbers in alone})

    def table(self, graph: LayerGraph, chip: Chip, pruning: Pruning) -> TabledTileCosts:
        """For a scheduler of ``graph`` on ``chip``: nothing but what is known, and nothing solved."""
        alone = None
        if self.alone is not None:
            shapes = {graph.layers[layer].nest(batch).shape: c for (layer, batch), c in self.alone.items()}
            alone = WholeChipCosts(chip, shapes)
        return TabledTileCosts(graph, chip.tile, self.shares, pruning=pruning, whole_chip=alone)


def share_numbers(cost: TilePartCost | None) -> tuple[float | None, int | None, bool]:
    """A share's cost as plain JSON data, in payloads as in results; :func:`share_cost_of` reads it back."""
    return (None, None, False) if cost is None else (cost.energy_pj, cost.cycles, cost.proven)


def share_cost_of(energy_pj: float | None, cycles: int | None, proven: bool) -> TilePartCost | None:
    return None if energy_pj is None or cycles is None else TilePartCost(energy_pj, cycles, proven)


def _plain(cost: WholeChipCost | None) -> list[Any] | None:
    if cost is None:
        return None
    parts, *others = astuple(cost)
    return [list(parts), *others]


def _cost(numbers: list[Any] | None) -> WholeChipCost | None:
    return None if numbers is None else WholeChipCost(tuple(numbers[0]), *numbers[1:])
