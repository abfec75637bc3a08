"""The costs of layers that a scheduler plans with, as they travel to the worker that runs it.

A layer runs on some tiles, which costs what its tile parts cost, or on the whole chip with its data in DRAM.
"""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import astuple, dataclass
from typing import Any

from costmodel.formats.json.fused_layers_json import group_mapping_from_json
from costmodel.hardware.chip import Chip
from costmodel.hardware.whole_chip import tile_stack
from costmodel.hardware.widths import Widths
from costmodel.schedule.fused_groups.cost import FusedGroupCost
from costmodel.schedule.fused_groups.cuts import GroupCut
from costmodel.schedule.fused_groups.members import chip_group
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.whole_chip.cost import WholeChipCost
from solvers.schedule.fused_groups import FusedGroupCosts, GroupAnswer, GroupKey, best_cost
from solvers.schedule.objective import Objective
from solvers.schedule.tiles.cost_table import TabledTileCosts, TilePartCosts
from solvers.schedule.tiles.layer_parts import Pruning, TilePart
from solvers.schedule.tiles.mapper import TilePartCost
from solvers.schedule.whole_chip_costs import WholeChipCosts, WholeChipNests, nest_shape

GroupAnswers = ReadOnlyDict[GroupKey, list[tuple[GroupCut, dict[str, Any] | None]]]
"""By the names of a group's layers and batch, the ways to divide it among tiles, each with the mapping of a
tile's part (:func:`costmodel.formats.json.fused_layers_json.group_mapping_to_json`); None: none was found."""
WholeChipLayerCosts = ReadOnlyDict[tuple[int, int], WholeChipCost | None]
"""Costs of layers mapped on the whole chip, by number of the layer and batch; None: no mapping found."""


@dataclass(frozen=True)
class SchedulingCosts:
    """Costs of a network's layers on a chip.

    ``tile_parts``: of the parts of layers that one tile computes. ``whole_chip``: of layers mapped on the
    whole chip, from DRAM; None where the study does not offer that.
    """

    tile_parts: TilePartCosts
    whole_chip: WholeChipLayerCosts | None = None
    groups: GroupAnswers | None = None
    """Of layers that segments may map together, how tiles divide each group, and the mapping of its parts as
    JSON; None where the study does not offer that."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data that :meth:`from_json` reads back."""
        parts = [[*part, *tile_part_numbers(cost)] for part, cost in self.tile_parts.items()]
        whole_chip = None
        if self.whole_chip is not None:
            whole_chip = [[*key, _plain(cost)] for key, cost in self.whole_chip.items()]
        costs = {"tile_costs": parts, "whole_chip_costs": whole_chip}
        if self.groups is None:
            return costs
        groups = [[sorted(names), batch, answers] for (names, batch), answers in self.groups.items()]
        return costs | {"groups": groups}

    @staticmethod
    def from_json(content: ReadOnlyDict[str, Any]) -> SchedulingCosts:
        """The costs in a payload that has the keys of :meth:`to_json`."""
        # a row of "tile_costs" is flat: the numbers of the part, then those of its cost
        width, whole_chip = len(TilePart._fields), content["whole_chip_costs"]
        parts = {TilePart(*row[:width]): tile_part_cost_of(*row[width:]) for row in content["tile_costs"]}
        costs = None
        if whole_chip is not None:
            costs = {(layer, batch): _cost(numbers) for layer, batch, numbers in whole_chip}
        groups = None
        if (stated := content.get("groups")) is not None:
            groups = {(frozenset(names), batch): answers for names, batch, answers in stated}
        return SchedulingCosts(parts, costs, groups)

    def group_costs(self, graph: LayerGraph, chip: Chip, objective: Objective) -> FusedGroupCosts | None:
        """What groups cost on the chip, each counted when it is asked for; None where none are offered."""
        answers = self.groups
        if answers is None:
            return None

        def counted(key: GroupKey) -> FusedGroupCost | None:
            names, batch = key
            stack = tile_stack(chip)
            if stack is None or key not in answers:
                return None
            group = chip_group(graph, {graph.index[name] for name in names}, batch, stack)
            assert group is not None, "only groups were solved"
            stated = (
                GroupAnswer(
                    tuple((name, parts) for name, parts in cut),
                    None if mapping is None else group_mapping_from_json(group.group, mapping),
                )
                for cut, mapping in answers[key]
            )
            return best_cost(chip, graph, group, stated, objective)

        return FusedGroupCosts({}, counted, frozenset(names for names, _ in answers))

    def table(self, graph: LayerGraph, chip: Chip, pruning: Pruning) -> TabledTileCosts:
        """The costs for a scheduler of ``graph`` on ``chip``: a table that solves nothing it lacks."""
        on_chip = (
            None if self.whole_chip is None else WholeChipCosts(chip, self._nests(graph, chip.tile.widths))
        )
        return TabledTileCosts(graph, chip.tile, self.tile_parts, pruning=pruning, whole_chip=on_chip)

    def teach(self, table: TabledTileCosts) -> None:
        """Add these costs to a table that has some of them."""
        table.learn(self.tile_parts, self._nests(table.graph, table.tile.widths))

    def _nests(self, graph: LayerGraph, widths: Widths) -> WholeChipNests:
        """The costs on the whole chip by shape, as a table asks: layers of one shape cost the same."""
        costs = self.whole_chip or {}
        return {
            nest_shape(graph.layers[layer], batch, widths): cost for (layer, batch), cost in costs.items()
        }


TilePartNumbers = tuple[float | None, int | None, bool, float]
"""Energy (pJ), cycles, whether they are proven the least, leakage (pJ per cycle)."""


def tile_part_numbers(cost: TilePartCost | None) -> TilePartNumbers:
    """A tile part's cost as JSON in payloads, and in results before its mapping.

    :func:`tile_part_cost_of` reads it back.
    """
    if cost is None:
        return None, None, False, 0.0
    return cost.energy_pj, cost.cycles, cost.proven, cost.leakage_pj_per_cycle


def tile_part_cost_of(
    energy_pj: float | None, cycles: int | None, proven: bool, leakage: float, mapping: str = ""
) -> TilePartCost | None:
    """A tile part's cost from its numbers; None where no mapping was found."""
    if energy_pj is None or cycles is None:
        return None
    return TilePartCost(energy_pj, cycles, proven, leakage, mapping)


def _plain(cost: WholeChipCost | None) -> list[Any] | None:
    if cost is None:
        return None
    parts, *others = astuple(cost)
    return [list(parts), *others]


def _cost(numbers: list[Any] | None) -> WholeChipCost | None:
    return None if numbers is None else WholeChipCost(tuple(numbers[0]), *numbers[1:])
