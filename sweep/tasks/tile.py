"""Tile cost tasks: map a lot of tile parts on a chip's tile, and the function that answers that."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from costmodel.hardware.architecture import Architecture
from costmodel.limits import recording
from solvers.budget import Budget, Stopwatch
from solvers.schedule.tiles.layer_parts import TilePart
from solvers.schedule.tiles.mapper import TileMapper
from sweep import VERSION
from sweep.study.identity import checked_params, content_hash
from sweep.tasks.columns import TileCostColumns
from sweep.tasks.known_costs import share_numbers
from sweep.tasks.mapping import (
    SolveSettings,
    architecture_content,
    architecture_id,
    check_versions,
    solve_columns,
)


@dataclass(frozen=True)
class TileSource:
    """Where tile costs come from: a tile, and a solver with its settings. Equal sources give equal costs."""

    architecture: Architecture
    settings: SolveSettings

    @cached_property
    def id(self) -> str:
        return content_hash(["tile_costs", architecture_id(self.architecture), self.settings.content])


@dataclass(frozen=True)
class TileTask:
    """Map the tile parts ``shares`` on the source's tile; equal contents have equal :attr:`id`."""

    source: TileSource
    shares: tuple[TilePart, ...]

    table = "tile_costs"

    @property
    def content(self) -> dict[str, Any]:
        """What the answer depends on, as plain JSON data: this is what travels to a worker."""
        return {
            "kind": "tile_costs",
            "archsweep_version": VERSION,
            "architecture": architecture_content(self.source.architecture),
            "shares": [list(share) for share in self.shares],
            **self.source.settings.content,
        }

    @cached_property
    def id(self) -> str:
        return content_hash(["tile_costs", self.source.id, [list(share) for share in self.shares]])

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of a ``tile_costs`` row that the task decides."""
        architecture, settings = self.source.architecture, self.source.settings
        return {
            "source_id": self.source.id,
            "architecture_id": architecture_id(architecture),
            "architecture": architecture_content(architecture),
            **solve_columns(settings.content),
            "objective_name": settings.objective,
            "tile_parts": len(self.shares),
        }


def run_tile_task(content: ReadOnlyDict[str, Any]) -> TileCostColumns:
    """Answer a task from its :attr:`TileTask.content`; runs on a worker, returns plain data.

    Raises VersionMismatchError, and whatever the solver raises: the runtime makes that a failed completion.
    """
    check_versions(content)
    watch = Stopwatch()
    params = checked_params(content["solver"], content["params"])
    mapper = TileMapper(content["solver"], content["objective"], params, Budget(**content["budget"]))
    shares = [TilePart(*numbers) for numbers in content["shares"]]
    with recording() as limits:
        costs = mapper.costs(Architecture.from_json(content["architecture"]), shares)
    proven = all(cost is not None and cost.proven for cost in costs.values())
    return {
        "status": "optimal" if proven else "feasible",
        "costs": [[list(share), *share_numbers(cost)] for share, cost in costs.items()],
        "cpu_seconds": watch.cpu_seconds,
        "wall_seconds": watch.wall_seconds,
        "note": "; ".join(map(str, limits)) or None,
    }
