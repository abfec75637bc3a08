"""Lower bounds on the schedules of a task that hold before any tile cost is known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite, prod

from costmodel.hardware.chip import Tile
from costmodel.schedule.bounds.bounds import lower_bounds
from costmodel.schedule.bounds.staying import SegmentKinds
from costmodel.schedule.tile_cost import TileFloor
from solvers.schedule.chip_model import floors_of, with_bands, with_reductions
from solvers.schedule.tiles.cost_table import TabledTileCosts
from solvers.schedule.tiles.layer_parts import TilePart
from solvers.schedule.tiles.mapper import TilePartCost
from solvers.schedule.whole_chip_costs import WholeChipCosts
from sweep.design.group_table import wanted_groups
from sweep.tasks.chips.schedule import ScheduleTask
from sweep.tasks.energy_cycles import EnergyCycles


def ideal_cost(tile: Tile, part: TilePart) -> TilePartCost:
    """What a tile part would cost if the tile's MACs were always busy and its inner buffers free.

    No mapping costs less, because each product takes a MAC one cycle and the energy of one MAC.
    """
    # the first six numbers of a part are C, K, P, Q, R and S
    macs = prod((*part[:6], part.b, part.groups))
    return TilePartCost(macs * tile.mac_pj, -(-macs // tile.macs))


def _ideal_costs(tile: Tile, parts: Iterable[TilePart]) -> dict[TilePart, TilePartCost]:
    return {part: ideal_cost(tile, part) for part in parts}


@dataclass(frozen=True)
class _RaisedFloors:
    """Floors that are each the larger of two: both hold, and neither is always above the other.

    Those by ``costs``, which are ideal, know how evenly a layer can be cut among tiles. Those by work alone
    know the energy of the accesses that hand each MAC its operands.
    """

    costs: TabledTileCosts

    def floor(self, layer: int, batches: Sequence[int], tiles: int) -> TileFloor:
        """For layer number ``layer`` with any of ``batches`` samples a run, on up to ``tiles`` tiles."""
        found, work = (
            self.costs.floor(layer, batches, tiles),
            self.costs.floor_of_work(layer, max(batches)),
        )
        return TileFloor(
            max(found.energy_pj, work.energy_pj),
            max(found.tile_cycles, work.tile_cycles),
            max(found.whole_chip_pj, work.whole_chip_pj),
        )


def bounds_before(task: ScheduleTask) -> EnergyCycles:
    """Proven lower bounds on energy and cycles of the task's schedules; 0 where some layer cannot run."""
    params = json.loads(task.solve.params)
    demand, chip = task.demand, task.on.chip
    # Of layers on the whole chip nothing is known, nor of the parts that a solver will ask for as it goes.
    whole_chip = WholeChipCosts(chip, {}) if task.on.whole_chip else None
    known = not (task.solve.asks or task.on.whole_chip)
    costs = TabledTileCosts(
        demand.graph, chip.tile, {}, partial(_ideal_costs, chip.tile), demand.pruning, whole_chip, known
    )
    groups = frozenset(
        frozenset(demand.graph.index[name] for name in names) for names, _ in wanted_groups(task)
    )
    kinds = SegmentKinds(with_bands(params), with_reductions(params), groups)
    plain = not (kinds.bands or kinds.reductions)
    floors = _RaisedFloors(costs) if plain else floors_of(kinds, costs)
    found = lower_bounds(demand.graph, chip, demand.batch, floors, kinds)
    if not (isfinite(found.energy_pj) and isfinite(found.cycles)):
        return EnergyCycles(0.0, 0.0)
    return EnergyCycles(found.energy_pj, found.cycles)
