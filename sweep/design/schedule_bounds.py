"""Lower bounds on the schedules of a task that hold before any tile cost is known."""

from __future__ import annotations

from math import isfinite, prod

from costmodel.hardware.chip import Tile
from costmodel.schedule.bounds import lower_bounds
from solvers.schedule.tiles.layer_parts import TileCostDemand, TilePart
from solvers.schedule.tiles.mapper import TilePartCost
from sweep.tasks.schedule import ScheduleTask
from sweep.tasks.scheduling_costs import SchedulingCosts, WholeChipLayerCosts


def ideal_cost(tile: Tile, part: TilePart) -> TilePartCost:
    """What a tile part would cost if the tile's MACs were always busy and its inner buffers free.

    No mapping costs less, because each product takes a MAC one cycle and the energy of one MAC.
    """
    # the first six numbers of a part are C, K, P, Q, R and S
    macs = prod((*part[:6], part.b, part.groups))
    return TilePartCost(macs * tile.mac_pj, -(-macs // tile.macs))


def ideal_costs(demand: TileCostDemand) -> dict[TilePart, TilePartCost]:
    """The ideal costs of all tile parts of a demand."""
    return {part: ideal_cost(demand.tile, part) for part in demand.tile_parts()}


def bounds_before(task: ScheduleTask) -> tuple[float, float]:
    """Proven lower bounds on energy_pj and cycles of the task's schedules; 0 where some layer cannot run."""
    demand = task.demand
    # The table of a solver that asks as it goes is never complete; without it the bounds count MACs only.
    tile_parts = {} if task.solve.asks else ideal_costs(demand)
    # Of layers on the whole chip nothing is known: {} where they are offered, None where they are not.
    whole_chip: WholeChipLayerCosts | None = {} if task.on.whole_chip else None
    costs = SchedulingCosts(tile_parts, whole_chip).table(demand.graph, task.on.chip, demand.pruning)
    found = lower_bounds(demand.graph, task.on.chip, demand.batch, costs)
    if not (isfinite(found.energy_pj) and isfinite(found.cycles)):
        return 0.0, 0.0
    return found.energy_pj, found.cycles
