"""What no schedule of a task is below, known before any tile cost is."""

from __future__ import annotations

from math import isfinite, prod

from costmodel.hardware.chip import Tile
from costmodel.schedule.bounds import lower_bounds
from solvers.schedule.tiles.layer_parts import TileCostDemand, TilePart
from solvers.schedule.tiles.mapper import TilePartCost
from sweep.tasks.known_costs import KnownCosts
from sweep.tasks.schedule import ScheduleTask


def ideal_cost(tile: Tile, share: TilePart) -> TilePartCost:
    """What a share would cost on a tile whose MACs are always busy and whose inner buffers are free.

    No mapping solver finds less: every product is one MAC's work for a cycle, and takes its energy.
    """
    macs = prod((*share[:6], share.b, share.groups))
    return TilePartCost(macs * tile.mac_pj, -(-macs // tile.macs))


def ideal_costs(demand: TileCostDemand) -> dict[TilePart, TilePartCost]:
    """Those of all shares of a demand."""
    return {share: ideal_cost(demand.tile, share) for share in demand.tile_parts()}


def bounds_before(task: ScheduleTask) -> tuple[float, float]:
    """Proven lower bounds on energy_pj and cycles of the task's schedules; 0 where some layer cannot run."""
    demand = task.demand
    # of solvers that ask as they go the whole table is never made, and floors fall back on the work
    known = KnownCosts({} if task.solve.asks else ideal_costs(demand), {} if task.on.alone else None)
    costs = known.table(demand.graph, task.on.chip, demand.pruning)
    found = lower_bounds(demand.graph, task.on.chip, demand.batch, costs)
    if not (isfinite(found.energy_pj) and isfinite(found.cycles)):
        return 0.0, 0.0
    return found.energy_pj, found.cycles
