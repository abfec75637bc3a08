"""Rehearsals of schedules before any cost is known: what a solver would ask for if all costs were ideal."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import cast

from costmodel.hardware.chip import Chip, Tile
from costmodel.hardware.whole_chip import mean_way
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import NetworkLayer
from costmodel.schedule.tile_cost import TileFloor
from costmodel.schedule.whole_chip.cost import WholeChipCost
from results.store.schema.rows import ScheduleColumns
from solvers.budget import Stopwatch
from solvers.schedule.tiles.cost_table import TabledTileCosts
from solvers.schedule.tiles.layer_parts import Request, TilePart, batches_of, requested_parts
from solvers.schedule.tiles.mapper import TilePartCost
from solvers.schedule.whole_chip_costs import WholeChipCosts
from sweep.design.schedule_bounds import ideal_cost
from sweep.tasks.chips.schedule import ScheduleTask
from sweep.tasks.chips.schedule_answer import run_schedule_task
from sweep.tasks.chips.scheduling_costs import SchedulingCosts
from sweep.tasks.chips.tile_costs import TileCostTask
from sweep.tasks.columns import CostRequests
from sweep.tasks.mapping import MappingTask


class Rehearsal:
    """Runs a schedule by a solver that asks as it goes, and answers its requests with ideal costs.

    It ends after the round in which ``wall_seconds`` are over; requests of later rounds stay unknown.
    """

    def __init__(self, task: ScheduleTask, wall_seconds: float) -> None:
        self._task, self._watch = task, Stopwatch()
        self._budget = task.solve.budget
        self._seconds = min(wall_seconds, self._budget.wall_seconds)
        self._tile_parts: dict[TilePart, TilePartCost | None] = {}
        self._whole_chip: dict[tuple[int, int], WholeChipCost | None] = {}
        self._floors = _floors_of(task)
        self._way_pj = mean_way(task.on.chip) * task.on.chip.noc.hop_pj_per_bit
        self.asked: list[TileCostTask | MappingTask] = []
        """The tasks that a run would have solved, in the order of the requests."""

    def run(self) -> None:
        """Run all rounds, of which the last is a whole solve, or as many as there is time for."""
        while (needs := _needs_of(self._round())) and self._watch.wall_seconds < self._seconds:
            before = len(self.asked)
            for numbers in needs:
                self._answer(Request.of_numbers(numbers))
            if len(self.asked) == before:
                raise RuntimeError(f"{self._task.solve.solver} asked again for costs that it had: {needs}")

    def _round(self) -> ScheduleColumns | CostRequests:
        whole_chip = self._whole_chip if self._task.on.whole_chip else None
        payload = self._task.payload(SchedulingCosts(self._tile_parts, whole_chip))
        left = max(0.1, self._seconds - self._watch.wall_seconds)
        return run_schedule_task(payload | {"budget": asdict(replace(self._budget, wall_seconds=left))})

    def _answer(self, request: Request) -> None:
        """Give the solver the costs that it asks for: ideal ones, as nothing has been mapped yet.

        The tasks that would find the real costs are noted: they are what the plan counts.
        """
        demand, on = self._task.demand, self._task.on
        layer = demand.graph.layers[request.layer]
        least = self._floors.floor_of_work(request.layer, demand.batch)
        if request.on_whole_chip:
            ideal = ideal_whole_chip_cost(on.chip, layer, request.batch)
            self._whole_chip[request.layer, request.batch] = _raised(
                ideal, request.batch, least, self._way_pj
            )
            self.asked.append(on.whole_chip_task(layer.nest(request.batch)))
            return
        parts = requested_parts(demand.graph, request, demand.tile, demand.pruning)
        if new := [part for part in parts if part not in self._tile_parts]:
            per_mac = least.energy_pj / layer.operations
            self._tile_parts |= {part: _raised_part(demand.tile, part, per_mac) for part in new}
            self.asked.append(TileCostTask(on.source, tuple(new)))


def _needs_of(answer: ScheduleColumns | CostRequests) -> list[list[int]]:
    """The requests that ended a round; none where the solver came to its end."""
    return cast(CostRequests, answer)["needs"] if "needs" in answer else []


def ideal_whole_chip_cost(chip: Chip, layer: NetworkLayer, batch: int) -> WholeChipCost:
    """The least that a layer with products could cost on the whole chip.

    MACs are always busy, each bit moves once between DRAM and a buffer, and links are free.
    """
    moved, operations = layer.compulsory_elements(batch), batch * layer.operations
    tile, dram, bits = chip.tile, chip.dram, ElementBits.of(layer, chip.tile.widths)
    read, written = moved.inputs * bits.inputs + moved.weights * bits.weights, moved.outputs * bits.outputs
    parts_pj = (
        operations * tile.mac_pj,
        read * tile.buffer.write_pj_per_bit + written * tile.buffer.read_pj_per_bit,
        0.0,
        read * dram.read_pj_per_bit + written * dram.write_pj_per_bit,
    )
    tile_cycles = -(-operations // tile.macs)
    cycles = max(-(-tile_cycles // chip.tiles), -(-(read + written) // dram.bits_per_cycle))
    return WholeChipCost(parts_pj, cycles, tile_cycles, read, written, 0.0)


def costs_before(task: ScheduleTask) -> SchedulingCosts:
    """Costs for a solve before anything has been mapped: ideal ones, raised to the bounds on work.

    A solver holds its answer against bounds that know the energy of operands. Ideal costs would be below
    these, as no real cost is. Equal tile parts of several layers get the energy of the dearest.
    """
    demand, floors = task.demand, _floors_of(task)
    with_products = [
        (number, layer, floors.floor_of_work(number, demand.batch))
        for number, layer in enumerate(demand.graph.layers)
        if layer.has_weights
    ]
    # a part does not say which layer it is of: the dearest layer's energy is above the floors of all of them
    per_mac = max((least.energy_pj / layer.operations for _, layer, least in with_products), default=0.0)
    tile_parts = {part: _raised_part(demand.tile, part, per_mac) for part in demand.tile_parts()}
    if not task.on.whole_chip:
        return SchedulingCosts(tile_parts, None)
    chip = task.on.chip
    way_pj = mean_way(chip) * chip.noc.hop_pj_per_bit
    whole_chip = {
        (number, batch): _raised(ideal_whole_chip_cost(chip, layer, batch), batch, least, way_pj)
        for number, layer, least in with_products
        for batch in batches_of(task.batch)
    }
    return SchedulingCosts(tile_parts, whole_chip)


def _floors_of(task: ScheduleTask) -> TabledTileCosts:
    """What is known of a task's costs before any is found: the bounds on each layer's work."""
    offered = WholeChipCosts(task.on.chip, {}) if task.on.whole_chip else None
    demand = task.demand
    return TabledTileCosts(demand.graph, demand.tile, {}, None, demand.pruning, offered)


def _raised_part(tile: Tile, part: TilePart, pj_per_mac: float) -> TilePartCost:
    """A tile part's ideal cost with at least this energy."""
    ideal = ideal_cost(tile, part)
    return replace(ideal, energy_pj=max(ideal.energy_pj, part.layer().macs * pj_per_mac))


def _raised(ideal: WholeChipCost, batch: int, least: TileFloor, way_pj: float) -> WholeChipCost:
    """A layer's ideal cost on the whole chip, with at least the energy of its floor inside, and with links.

    ``way_pj``: energy of a bit on the mean way between ports and tiles. Bounds know that no bit goes less
    than to the nearest tile.
    """
    inside, filling, _, dram = ideal.parts_pj
    inside = max(inside, batch * least.whole_chip_pj - filling)
    links = (ideal.dram_read_bits + ideal.dram_write_bits) * way_pj
    return replace(ideal, parts_pj=(inside, filling, links, dram))
