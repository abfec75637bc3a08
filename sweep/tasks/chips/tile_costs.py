"""Tile cost tasks: map many parts of layers on a chip's tile, to know what each costs there."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from costmodel.hardware.architecture import Architecture
from costmodel.limits import recording
from results.store.schema.rows import TileCostColumns, TileCostRow
from solvers.budget import Budget, Stopwatch
from solvers.mapping.space.rules import SpaceRules
from solvers.schedule.tiles.layer_parts import TilePart
from solvers.schedule.tiles.mapper import TileMapper
from sweep import VERSION
from sweep.study.identity import checked_params, content_hash
from sweep.tasks.chips.scheduling_costs import tile_part_numbers
from sweep.tasks.mapping import (
    SolveSettings,
    architecture_content,
    architecture_id,
    check_versions,
    solve_columns,
)

COUNT = "tile_costs, version 2"
"""How parts are counted; costs of another count are not reused."""


@dataclass(frozen=True)
class TileCostSource:
    """Where tile costs come from: a tile, and a solver with its settings. Equal sources give equal costs."""

    architecture: Architecture
    settings: SolveSettings

    @cached_property
    def id(self) -> str:
        rules = [] if self.settings.rules == SpaceRules() else [self.settings.rules.to_json()]
        return content_hash([COUNT, architecture_id(self.architecture), self.settings.content, *rules])


@dataclass(frozen=True)
class TileCostTask:
    """Map the tile parts ``parts`` on the source's tile; equal contents have equal :attr:`id`."""

    source: TileCostSource
    parts: tuple[TilePart, ...]

    table = "tile_costs"

    @property
    def content(self) -> dict[str, Any]:
        """What the answer depends on, as plain JSON data: this is what travels to a worker."""
        return {
            "kind": "tile_costs",
            "archsweep_version": VERSION,
            "architecture": architecture_content(self.source.architecture),
            "tile_parts": [list(part) for part in self.parts],
            "rules": self.source.settings.rules.to_json(),
            **self.source.settings.content,
        }

    @cached_property
    def id(self) -> str:
        return content_hash(["tile_costs", self.source.id, [list(part) for part in self.parts]])

    @property
    def columns(self) -> TileCostRow:
        """The columns of a ``tile_costs`` row that the task decides."""
        architecture, settings = self.source.architecture, self.source.settings
        own: TileCostRow = {
            "source_id": self.source.id,
            "architecture_id": architecture_id(architecture),
            "architecture": architecture_content(architecture),
            "objective_name": settings.objective,
            "tile_parts": len(self.parts),
        }
        return own | cast(TileCostRow, solve_columns(settings.content))


def run_tile_cost_task(content: ReadOnlyDict[str, Any]) -> TileCostColumns:
    """Answer a task from its :attr:`TileCostTask.content`; runs on a worker, returns plain data.

    Raises VersionMismatchError, and whatever the solver raises: the runtime makes that a failed completion.
    """
    check_versions(content)
    watch = Stopwatch()
    params = checked_params(content["solver"], content["params"])
    rules = SpaceRules.from_json(content["rules"])
    mapper = TileMapper(content["solver"], content["objective"], params, Budget(**content["budget"]), rules)
    parts = [TilePart(*numbers) for numbers in content["tile_parts"]]
    with recording() as limits:
        costs = mapper.costs(Architecture.from_json(content["architecture"]), parts)
    proven = all(cost is not None and cost.proven for cost in costs.values())
    return {
        "status": "optimal" if proven else "feasible",
        "costs": [
            [list(part), *tile_part_numbers(cost), cost.mapping if cost else ""]
            for part, cost in costs.items()
        ],
        "cpu_seconds": watch.cpu_seconds,
        "wall_seconds": watch.wall_seconds,
        "note": "; ".join(map(str, limits)) or None,
    }
