"""The tile cost table of a run: what tile parts cost, and which tasks solve those that are not known.

A tile part is what one tile computes of a layer (:class:`solvers.schedule.tiles.layer_parts.TilePart`).
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass, field

from results.store.known_answers import StoredAnswers
from results.store.schema.rows import TileCostRow
from results.store.tile_cost_rows import Costs, PartCost, costs_of, stored_tile_costs
from solvers.schedule.tiles.cost_table import TilePartCosts
from solvers.schedule.tiles.layer_parts import TilePart
from solvers.schedule.tiles.mapper import TilePartCost, tile_solver
from sweep.study.schedule_choice import TILE_LOT
from sweep.tasks.chips.scheduling_costs import tile_part_cost_of
from sweep.tasks.chips.tile_costs import TileCostSource, TileCostTask

LOTS = {"mapping": TILE_LOT, "tile": 2048}
"""Tile parts in one task, by the family of the solver: enough work beside a task's own time, and few rows.

A mapping solver searches for each part; a tile solver takes a tenth of a millisecond for it.
"""


@dataclass
class TileTable:
    """Costs by source (tile and mapper) and tile part, from the store and from this run.

    A part that is not known yet is in one task only, however many schedules wait for it.
    ``store`` has the run folders whose costs are reused; None solves everything.
    """

    store: StoredAnswers | None = None
    _known: dict[str, dict[TilePart, TilePartCost | None]] = field(default_factory=dict)
    """By id of the source; a cost is None where no mapping on the tile was found."""
    _asked: dict[str, dict[TilePart, TileCostTask]] = field(default_factory=dict)
    """By id of the source, the parts that are being solved, each with its task."""

    def open_parts(self, source: TileCostSource, parts: Iterable[TilePart]) -> list[TilePart]:
        """The ``parts`` whose costs are not known yet."""
        known = self._costs_of(source)
        return [part for part in parts if part not in known]

    def tasks(self, source: TileCostSource, parts: Iterable[TilePart]) -> list[TileCostTask]:
        """The tasks whose answers ``parts`` wait for: new ones, and those made for an earlier call."""
        waiting, asked = self.open_parts(source, parts), self._asked.setdefault(source.id, {})
        new = [part for part in waiting if part not in asked]
        lot = LOTS[tile_solver(source.settings.solver).family]
        for first in range(0, len(new), lot):
            task = TileCostTask(source, tuple(new[first : first + lot]))
            asked |= dict.fromkeys(task.parts, task)
        return list({asked[part].id: asked[part] for part in waiting}.values())

    def record(self, task: TileCostTask, row: TileCostRow) -> None:
        """Enter the row of a task. If it failed, its parts get a new task when they are asked for again."""
        costs = row.get("costs")
        if costs is not None:
            self._costs_of(task.source).update(_parts(costs_of(costs)))
        asked = self._asked.get(task.source.id, {})
        for part in task.parts:
            asked.pop(part, None)

    def part_costs(self, source: TileCostSource, parts: Iterable[TilePart]) -> TilePartCosts:
        """The known costs of ``parts``: a plain dict that can be sent to another process."""
        known = self._costs_of(source)
        return {part: known[part] for part in parts if part in known}

    def _costs_of(self, source: TileCostSource) -> dict[TilePart, TilePartCost | None]:
        if source.id not in self._known:
            stored: Costs = stored_tile_costs(self.store, [source.id]) if self.store else {}
            self._known[source.id] = _parts(stored.get(source.id, {}))
        return self._known[source.id]


def _parts(
    costs: ReadOnlyDict[tuple[int, ...], PartCost],
) -> dict[TilePart, TilePartCost | None]:
    """Costs as the results table has them, by the numbers of a part, as values."""
    return {TilePart(*numbers): tile_part_cost_of(*cost) for numbers, cost in costs.items()}
