"""The costs of layers that schedulers are told: which solves they come from, and which are known so far."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass, field
from typing import cast

from results.store.known_answers import StoredAnswers
from results.store.schema.rows import AnswerRow, FusionRow, LayerRow, TileCostRow
from solvers.schedule.tiles.layer_parts import Request, TilePart, batches_of, requested_parts
from sweep.design.group_table import GroupTable, WantedGroups, wanted_groups
from sweep.design.tile_table import TileTable
from sweep.design.whole_chip_table import WholeChipTable
from sweep.tasks.chips.schedule import ScheduleTask
from sweep.tasks.chips.scheduling_costs import SchedulingCosts
from sweep.tasks.chips.tile_costs import TileCostTask
from sweep.tasks.fusion import FusionTask
from sweep.tasks.mapping import MappingTask

CostTask = TileCostTask | MappingTask | FusionTask
"""Parts of layers mapped on a tile, a layer mapped on the whole chip, or a tile's part of a group of layers
mapped together."""


@dataclass(frozen=True)
class WantedCosts:
    """The costs that a scheduler waits for: of tile parts, of layers mapped on the whole chip, of groups."""

    parts: Collection[TilePart] = ()
    whole_chip: ReadOnlyDict[tuple[int, int], MappingTask] = field(default_factory=dict)
    """By number of the layer and batch, the task whose mapping the cost is counted from."""
    groups: WantedGroups = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.parts) + len(self.whole_chip) + len(self.groups)

    def __or__(self, other: WantedCosts) -> WantedCosts:
        """The costs of both, each once, in the order in which they were asked for."""
        parts = dict.fromkeys((*self.parts, *other.parts))
        groups = {**self.groups, **other.groups}
        return WantedCosts(parts.keys(), {**self.whole_chip, **other.whole_chip}, groups)


def wanted_at_first(task: ScheduleTask) -> WantedCosts:
    """The costs that ``task`` waits for before its first round: all that its trees may have.

    A solver that asks as it goes waits for the groups of layers that may be mapped together, and for nothing
    else yet.
    """
    groups = wanted_groups(task)
    if task.solve.asks:
        return WantedCosts(groups=groups)
    whole_chip: dict[tuple[int, int], MappingTask] = {}
    if task.on.whole_chip:
        for number in range(len(task.network.graph.layers)):
            for batch in batches_of(task.batch):
                whole_chip |= _on_the_whole_chip(task, Request(number, batch, 0))
    return WantedCosts(task.demand.tile_parts(), whole_chip, groups)


def wanted_for(task: ScheduleTask, request: Request) -> WantedCosts:
    """The costs that answer a request of the task's solver."""
    demand = task.demand
    parts = requested_parts(demand.graph, request, demand.tile, demand.pruning)
    return WantedCosts(parts, _on_the_whole_chip(task, request))


def _on_the_whole_chip(task: ScheduleTask, request: Request) -> dict[tuple[int, int], MappingTask]:
    """The task that maps the request's layer on the whole chip, by number of the layer and batch.

    Empty where the request is for tiles, and for a layer without products, which needs no mapping.
    """
    layer = task.network.graph.layers[request.layer]
    if not (request.on_whole_chip and layer.has_weights):
        return {}
    return {(request.layer, request.batch): task.on.whole_chip_task(layer.nest(request.batch))}


class CostTables:
    """Costs of layers on tiles and on whole chips, from the store and from this run.

    ``store`` has the run folders whose costs are reused; None solves everything.
    """

    def __init__(self, store: StoredAnswers | None) -> None:
        self._tiles, self._whole_chips = TileTable(store), WholeChipTable(store)
        self._groups = GroupTable(store)

    def tasks(self, task: ScheduleTask, wanted: WantedCosts) -> list[CostTask]:
        """The solves that ``wanted`` waits for; other schedules may wait for the same."""
        on_tiles = self._tiles.tasks(task.on.source, wanted.parts)
        on_chips = self._whole_chips.open_tasks(wanted.whole_chip.values())
        return [*on_tiles, *on_chips, *self._groups.open_tasks(wanted.groups)]

    def record(self, task: CostTask, row: AnswerRow) -> None:
        """Enter the row of a solve; the costs of a failed one stay unknown."""
        if isinstance(task, TileCostTask):
            self._tiles.record(task, cast(TileCostRow, row))
        elif isinstance(task, FusionTask):
            self._groups.record(task, cast(FusionRow, row))
        else:
            self._whole_chips.record(task, cast(LayerRow, row))

    def unknown(self, task: ScheduleTask, wanted: WantedCosts) -> str:
        """How many of the wanted costs are not known, in words; empty where all are known."""
        parts = len(self._tiles.open_parts(task.on.source, wanted.parts))
        layers = len(self._whole_chips.open_tasks(wanted.whole_chip.values()))
        said = [f"{parts} tile costs"] if parts else []
        said += [f"{layers} layers on the whole chip"] if layers else []
        groups = len(self._groups.open_tasks(wanted.groups))
        said += [f"{groups} mappings of groups"] if groups else []
        return " and ".join(said)

    def known(self, task: ScheduleTask, wanted: WantedCosts) -> SchedulingCosts:
        """The wanted costs as values, once :meth:`unknown` is empty: what the solver is told."""
        parts = self._tiles.part_costs(task.on.source, wanted.parts)
        groups = None if task.on.groups is None else self._groups.answers(wanted.groups)
        if not task.on.whole_chip:
            return SchedulingCosts(parts, groups=groups)
        layers, whole_chips = task.network.graph.layers, self._whole_chips
        costs = {
            (layer, batch): whole_chips.cost(task.on, one, layers[layer])
            for (layer, batch), one in wanted.whole_chip.items()
        }
        return SchedulingCosts(parts, costs, groups)
