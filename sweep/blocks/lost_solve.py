"""The row of a solve that took its worker along or ran over the limit: no worker lived to write it."""

from __future__ import annotations

from typing import NamedTuple, cast

from clusters.runtime import Completion
from costmodel.hardware.architecture import Architecture
from results.store.schema.rows import LayerRow
from sweep.blocks.block import BlockTally, GroupPart
from sweep.design.mapping_workload import LayerSolve
from sweep.study.study import Study
from sweep.tasks.completions import answer_row
from sweep.tasks.mapping import MappingTask
from sweep.tasks.summaries import MappingSummary


class LostSolve(NamedTuple):
    """What became of a block of one solve that failed as a whole."""

    row: LayerRow
    tally: BlockTally
    part: GroupPart
    """Of group 0 of the block."""


def lost_solve(
    study: Study, architecture: Architecture, asked: LayerSolve, position: int, completion: Completion
) -> LostSolve:
    """The failure of the solve at this ``position`` among those of its group."""
    task = MappingTask(architecture, asked.layer, asked.settings)
    identity: LayerRow = {"task_id": task.id, "study": study.name}
    row = cast(LayerRow, task.columns | identity | answer_row(completion))
    tally = BlockTally()
    tally.count(row, asked)
    return LostSolve(row, tally, GroupPart(0, position, (task.id,), (MappingSummary.of(row),)))
