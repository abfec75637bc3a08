"""Files of one schedule each, as ``archsweep solve schedule --json`` prints it: counted again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.chips import load_chip
from costmodel.formats.json.safe_json import keys_of_json_file, load_json
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.formats.yaml.file_keys import check_keys
from costmodel.hardware.chip import Chip
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.tree.tree import TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget
from solvers.mapping.problem import OBJECTIVES as MAPPING_OBJECTIVES
from solvers.schedule.fitting import fitted, summed_in_groups
from solvers.schedule.fused_groups import GroupMapper, solved_groups
from solvers.schedule.objective import Objective
from solvers.schedule.tiles.cost_table import solved_costs
from solvers.schedule.tiles.layer_parts import Pruning, TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper, tile_solver
from sweep.study.mapping_space import SpaceKeys

TILE_SECONDS = 10.0
"""The time limit of a mapping where a file states none, as those of earlier versions."""
KEYS = ("chip", "network", "objective_name", "tile_solver", "tree")


@dataclass(frozen=True)
class ScheduleCase:
    """A tree on a chip; ``objective`` steers the choice of partitions, ``mapper`` makes the tile costs.

    ``whole_chip``: whether a segment of one layer may be that layer mapped on the whole chip, from DRAM.
    ``fused_groups``: whether layers of a segment may be mapped together.
    """

    where: str
    chip: Chip
    graph: LayerGraph
    objective: Objective
    mapper: TileMapper
    pruning: Pruning
    tree: TreeNode
    whole_chip: bool = False
    fused_groups: bool = False

    def line(self) -> dict[str, Any]:
        """The object that ``archsweep evaluate --json`` prints; null beside the reason ``not_possible``.

        Raises InputError for a tree that is not one of the network.
        """
        names = ("energy_pj", "latency_cycles", "dram_bytes", "noc_hop_bytes")
        demand = TileCostDemand(self.graph, self.chip.tile, self.chip.tiles, self.tree.batch, self.pruning)
        costs = solved_costs(demand, self.mapper, self.chip if self.whole_chip else None)
        groups = None
        if self.fused_groups:
            asked = GroupMapper(self.mapper.objective)
            groups = solved_groups(self.graph, self.chip, self.tree.batch, asked, self.objective)
        try:
            judge = ChipEvaluator(
                self.graph, self.chip, self.tree.batch, costs, self.objective.exponents, groups
            )
            cost = judge.evaluate(self.tree)
        except NotPossibleError as reason:
            return {**dict.fromkeys(names), "not_possible": str(reason)}
        except InputError as error:
            raise error.at(self.where) from None
        numbers = (cost.energy_pj, cost.cycles, cost.dram_bytes, round(cost.noc_hop_bytes))
        return dict(zip(names, numbers, strict=True))


def is_schedule_file(path: Path) -> bool:
    """Whether a file holds a schedule: a JSON object with a ``chip`` and a ``tree``."""
    return {"chip", "tree"} <= keys_of_json_file(path)


def read_schedule(path: Path) -> ScheduleCase:
    """The schedule of a file; InputError names the key that is missing or wrong."""
    where, content = str(path), load_json(path)
    for key in KEYS:
        if not isinstance(content.get(key), str):
            raise InputError(where, "a text", content.get(key), key=key)
    tile_solver(content["tile_solver"])
    if (objective := content.get("tile_objective")) not in MAPPING_OBJECTIVES:
        raise InputError(where, f"one of {', '.join(MAPPING_OBJECTIVES)}", objective, key="tile_objective")
    dims = content.get("dims", {})
    if not isinstance(dims, dict) or any(type(length) is not int for length in dims.values()):
        raise InputError(where, "whole lengths by their names", dims, key="dims")
    space = check_keys(SpaceKeys, content.get("tile_space", {}), f"{where}: tile_space")
    for key in ("whole_chip", "share_weights", "fused_groups"):
        if not isinstance(stated := content.get(key, False), bool):
            raise InputError(where, "true or false", stated, key=key)
    whole_chip = content.get("whole_chip", False)
    try:
        budget = Budget(content.get("tile_seconds", TILE_SECONDS))
    except InputError as error:
        raise InputError(where, error.expected, content["tile_seconds"], key="tile_seconds") from None
    chip = load_chip(content["chip"])
    graph = summed_in_groups(load_layer_graph(content["network"], dims), chip)
    return ScheduleCase(
        where,
        chip,
        graph if whole_chip else fitted(graph, chip),
        Objective.named(content["objective_name"]),
        TileMapper(content["tile_solver"], content["tile_objective"], budget=budget, rules=space.rules),
        Pruning(most=content.get("most_partitions"), share_weights=content.get("share_weights", False)),
        parse_tree(content["tree"], f"{where}: tree"),
        whole_chip,
        content.get("fused_groups", False),
    )
