"""What no schedule of a task is below, known before any tile cost is."""

from __future__ import annotations

from math import isfinite, prod

from costmodel.chip import lower_bounds
from solvers.schedule.tile_costs import ShareCost, TabledTileCosts
from solvers.schedule.tile_shares import Demand, Share
from sweep.schedule_task import ScheduleTask


def ideal_costs(demand: Demand) -> dict[Share, ShareCost]:
    """What shares would cost on tiles whose MACs are always busy and whose inner buffers are free.

    No mapping solver finds less: every product is one MAC's work for a cycle, and takes its energy.
    """
    tile = demand.tile
    macs = {share: prod((*share[:6], share.b, share.groups)) for share in demand.shares()}
    return {share: ShareCost(n * tile.mac_pj, -(-n // tile.macs)) for share, n in macs.items()}


def bounds_before(task: ScheduleTask) -> tuple[float, float]:
    """Proven lower bounds on energy_pj and cycles of the task's schedules; 0 where some layer cannot run."""
    demand = task.demand
    costs = TabledTileCosts(demand.graph, demand.tile, ideal_costs(demand), pruning=demand.pruning)
    found = lower_bounds(demand.graph, task.on.chip, demand.batch, costs)
    if not (isfinite(found.energy_pj) and isfinite(found.cycles)):
        return 0.0, 0.0
    return found.energy_pj, found.cycles
