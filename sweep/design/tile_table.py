"""The tile cost table of a run: which shares are to be solved, in which tasks, and what came back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import asdict, dataclass, field
from typing import Any

from clusters.runtime import Runtime, complete_all
from results.store.folder import RunWriter
from results.store.known_answers import StoredAnswers
from results.store.tile_cost_rows import Costs, costs_of, stored_tile_costs
from solvers.schedule.tiles.cost_table import TabledTileCosts, TilePartCosts
from solvers.schedule.tiles.layer_parts import TileCostDemand, TilePart
from solvers.schedule.tiles.mapper import TileMapper, TilePartCost, architecture_of, tile_solver
from sweep.study.identity import canonical_json
from sweep.study.schedule_choice import TILE_LOT
from sweep.tasks.completions import answer_row, check_environment
from sweep.tasks.known_costs import share_cost_of
from sweep.tasks.mapping import SolveSettings
from sweep.tasks.tile import TileSource, TileTask

LOTS = {"mapping": TILE_LOT, "tile": 4096}
"""Shares a task, by the family of the solver: seconds of work, and few rows."""


def tile_source(demand: TileCostDemand, mapper: TileMapper) -> TileSource:
    """What answers the demand: its tile, and the solver; InputError for a tile without an architecture."""
    module = tile_solver(mapper.solver).load()
    params = asdict(module.Params() if mapper.params is None else mapper.params)
    settings = SolveSettings(mapper.solver, mapper.objective, canonical_json(params), mapper.budget)
    return TileSource(architecture_of(demand.tile), settings)


@dataclass
class TileTable:
    """Costs by source and share, from the store and from this run; an open share is in one task only.

    ``store`` has the run folders whose costs are reused; None solves everything.
    """

    store: StoredAnswers | None = None
    _known: dict[str, dict[TilePart, TilePartCost | None]] = field(default_factory=dict)
    _asked: dict[str, dict[TilePart, TileTask]] = field(default_factory=dict)

    def open_shares(self, source: TileSource, shares: Iterable[TilePart]) -> list[TilePart]:
        """Those of the shares that are not known yet."""
        known = self._costs_of(source)
        return [share for share in shares if share not in known]

    def tasks(self, source: TileSource, shares: Iterable[TilePart]) -> list[TileTask]:
        """The tasks whose answers the shares wait for, those that were made for others included."""
        waiting, asked = self.open_shares(source, shares), self._asked.setdefault(source.id, {})
        new = [share for share in waiting if share not in asked]
        lot = LOTS[tile_solver(source.settings.solver).family]
        for first in range(0, len(new), lot):
            task = TileTask(source, tuple(new[first : first + lot]))
            asked |= dict.fromkeys(task.shares, task)
        return list({asked[share].id: asked[share] for share in waiting}.values())

    def record(self, task: TileTask, row: ReadOnlyDict[str, Any]) -> None:
        """What came back for a task; a failed one leaves its shares open, for whoever asks again."""
        if row.get("costs") is not None:
            self._costs_of(task.source).update(_shares(costs_of(row["costs"])))
        asked = self._asked.get(task.source.id, {})
        for share in task.shares:
            asked.pop(share, None)

    def share_costs(self, source: TileSource, shares: Iterable[TilePart]) -> TilePartCosts:
        """What is known of the shares: a plain dict that can be sent to another process."""
        known = self._costs_of(source)
        return {share: known[share] for share in shares if share in known}

    def tile_costs(self, source: TileSource, demand: TileCostDemand) -> TabledTileCosts:
        """For a scheduler; MissingTilePartError when it asks for a share that is still open."""
        return TabledTileCosts(demand.graph, demand.tile, self._costs_of(source), pruning=demand.pruning)

    def _costs_of(self, source: TileSource) -> dict[TilePart, TilePartCost | None]:
        if source.id not in self._known:
            stored: Costs = stored_tile_costs(self.store, [source.id]) if self.store else {}
            self._known[source.id] = _shares(stored.get(source.id, {}))
        return self._known[source.id]


@dataclass(frozen=True)
class TileFiling:
    """Where the rows of tile tasks go: the run's writer, under the study's name."""

    writer: RunWriter
    study: str

    def filed(self, task: TileTask, answer: ReadOnlyDict[str, Any]) -> dict[str, Any]:
        """The row of a task and its answer, once it is written."""
        row = {"task_id": task.id, "study": self.study, **task.columns, **answer}
        self.writer.append(task.table, row)
        return row


def fill(
    table: TileTable,
    wanted: Iterable[tuple[TileSource, TileCostDemand]],
    runtime: Runtime,
    filing: TileFiling,
) -> Iterator[dict[str, Any]]:
    """Solve on ``runtime`` all that is open of ``wanted``; yields each row as soon as it is filed.

    Raises WorkersUnavailableError where workers have other versions than this process.
    """
    solving: dict[str, TileTask] = {}

    def submissions() -> Iterator[tuple[str, Any]]:
        for source, demand in wanted:
            for task in table.tasks(source, demand.tile_parts()):
                if task.id not in solving:
                    solving[task.id] = task
                    yield task.id, task.content

    for completion in complete_all(runtime, submissions()):
        check_environment(completion)
        task = solving.pop(completion.key)
        row = filing.filed(task, answer_row(completion))
        table.record(task, row)
        yield row


def _shares(
    costs: ReadOnlyDict[tuple[int, ...], tuple[float | None, int | None, bool]],
) -> dict[TilePart, TilePartCost | None]:
    """The costs of the results table as values."""
    return {TilePart(*numbers): share_cost_of(*cost) for numbers, cost in costs.items()}
