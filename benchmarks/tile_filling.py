"""A tile cost table filled from its solves alone, without schedules that wait for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, cast

from clusters.runtime import Runtime, complete_all
from results.store.folder import RunWriter
from results.store.schema.rows import AnswerRow, TileCostRow
from solvers.schedule.tiles.cost_table import TabledTileCosts
from solvers.schedule.tiles.layer_parts import TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper, architecture_of, tile_solver
from sweep.design.tile_table import TileTable
from sweep.study.identity import canonical_json
from sweep.tasks.chips.tile_costs import TileCostSource, TileCostTask
from sweep.tasks.completions import answer_row, check_environment
from sweep.tasks.mapping import SolveSettings


def tile_source(demand: TileCostDemand, mapper: TileMapper) -> TileCostSource:
    """What answers the demand: its tile, and the solver; InputError for a tile without an architecture."""
    module = tile_solver(mapper.solver).load()
    params = asdict(module.Params() if mapper.params is None else mapper.params)
    settings = SolveSettings(mapper.solver, mapper.objective, canonical_json(params), mapper.budget)
    return TileCostSource(architecture_of(demand.tile), settings)


@dataclass(frozen=True)
class TileFiling:
    """Where the rows of tile tasks go: the run's writer, under the study's name."""

    writer: RunWriter
    study: str

    def filed(self, task: TileCostTask, answer: AnswerRow) -> TileCostRow:
        """The row of a task and its answer, once it is written."""
        row = task.columns | {"task_id": task.id, "study": self.study} | cast(TileCostRow, answer)
        self.writer.append(task.table, row)
        return row


def fill(
    table: TileTable,
    wanted: Iterable[tuple[TileCostSource, TileCostDemand]],
    runtime: Runtime,
    filing: TileFiling,
) -> Iterator[TileCostRow]:
    """Solve on ``runtime`` all that is open of ``wanted``; yields each row as soon as it is filed.

    Raises WorkersUnavailableError where workers have other versions than this process.
    """
    solving: dict[str, TileCostTask] = {}

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


def tile_costs(table: TileTable, source: TileCostSource, demand: TileCostDemand) -> TabledTileCosts:
    """For a scheduler; MissingTilePartError when it asks for a part that is still open."""
    known = table.part_costs(source, demand.tile_parts())
    return TabledTileCosts(demand.graph, demand.tile, known, pruning=demand.pruning)
