"""The run loop of studies whose designs wait for nothing of each other: hand out blocks, store their rows.

The driver deals with blocks of solves, never with a single one, except where a block failed as a whole. It
neither makes tasks nor rows: workers do (``sweep/blocks/``). Equal solves are done once, because they are in
one group of designs (:attr:`DesignTable.groups`), and every solve of a group is in one block.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from clusters.pace import pace_for
from clusters.runtime import Completion, Runtime, complete_all
from results.store.folder import RunWriter
from results.store.known_answers import FoundAnswers, StoredAnswers
from results.store.row_batch import RowBatch
from results.store.schema.rows import LayerRow
from results.store.schema.tables import DESIGNS, LAYERS
from sweep.blocks.block import Block, BlockAnswers, BlockTally, GroupPart, SmallBatches
from sweep.blocks.block_work import BlockWork
from sweep.blocks.closing import Closing
from sweep.blocks.sizes import BLOCKS_A_WORKER, solves_of_block
from sweep.blocks.solve_ids import SolveIds
from sweep.design.mapping_workload import MappingWorkload
from sweep.design.workload import DesignWorkload
from sweep.run.observer import RunObserver
from sweep.study.design_space import Design
from sweep.study.design_table import DesignTable
from sweep.study.lock import study_id
from sweep.study.study import Study
from sweep.tasks.completions import answer_row, check_environment
from sweep.tasks.mapping import MappingTask
from sweep.tasks.summaries import NEEDED, MappingSummary

LATE = 2.0
"""A block ends early after this many times the seconds that it was to take; the rest goes into others."""
LONGEST_BLOCK = 60.0
"""Seconds after which a block ends early in any case: half of what runtimes grant beside a solve."""
SMOOTHING = 0.3
"""Weight of the newest block in the moving mean of the seconds of a solve."""
JOINED_ROWS = 1500
"""Rows of designs that a worker makes one part: fewer than the folder's writer keeps before it does so."""
BROKEN_AT_ONCE = 1000
"""Designs that break a constraint, in a block of their own: they only need rows."""


@dataclass
class _OpenGroup:
    """Answers to the solves of a group that several blocks share, by the number of the solve."""

    answers: dict[int, tuple[str, MappingSummary]] = field(default_factory=dict)
    obstacle: str = ""
    without: int = 0
    """How many solves are not to be done, for the obstacle."""


class BlockRun:
    """Runs a study of architectures whose designs are all known, into one run folder.

    ``store`` has the answers of earlier runs; None solves everything.
    """

    def __init__(
        self,
        study: Study,
        table: DesignTable,
        workload: DesignWorkload,
        writer: RunWriter,
        observer: RunObserver | None = None,
        store: StoredAnswers | None = None,
    ) -> None:
        assert isinstance(workload, MappingWorkload), "designs that ask for mappings and nothing else"
        self.study, self.table, self.workload, self.writer = study, table, workload, writer
        self.observer, self.store = observer or RunObserver(), store
        identity = study_id(study)
        self.work = BlockWork.of(study, table.space, workload, identity, writer.shared())
        """What a runtime for the run does with a block."""
        self._closing = Closing(study, workload, identity)
        self._each = len(workload.solves)
        """Solves of a group. Solve n of group g is number ``g * each + n`` of the study."""
        self._ids = SolveIds(table, workload)
        self._solves = table.group_count * self._each
        self._next = 0
        """The first solve that no block had yet."""
        self._again: deque[tuple[int, int]] = deque()
        """Ranges of solves that a block had and did not do."""
        self._alone: deque[int] = deque()
        """Solves of blocks that failed as a whole: each is handed out by itself, to find the one to blame."""
        self._out: dict[str, tuple[int, int]] = {}
        """By key, the solves of a block that is handed out."""
        self._joining: dict[str, SmallBatches] = {}
        """By key, rows that a worker makes a part of."""
        self._blocks = 0
        self._seconds_each: float | None = None
        """Moving mean of the seconds of a solve."""
        self._open: dict[int, _OpenGroup] = {}
        self._shares = True
        """Whether workers store rows themselves; no longer once the driver did not find what one stored."""
        if store is not None:
            store.settle(writer.path.name)
        self._knows_answers = store is not None and store.holds(LAYERS)

    def explore(self, runtime: Runtime) -> None:
        """Run until every design has its row; a failed solve makes a failed row and ends nothing."""
        for completion in complete_all(runtime, self._submissions(runtime)):
            check_environment(completion)
            if (joining := self._joining.pop(completion.key, None)) is not None:
                self._joined(joining, completion)
                continue
            begin, end = self._out.pop(completion.key)
            if completion.error is None:
                self._file(begin, end, completion)
            else:
                self._failed(begin, end, completion)

    def _submissions(self, runtime: Runtime) -> Iterator[tuple[str, Any] | None]:
        """What is handed out next, as (key, block); None to wait for a block."""
        for block in self._broken():
            yield self._key(0, 0), block
        while True:
            if self._shares and (rows := self.writer.waiting(DESIGNS.name, JOINED_ROWS)):
                yield self._join(rows)
            elif self._out and len(self._out) >= BLOCKS_A_WORKER * runtime.workers:
                yield None
            elif (chosen := self._draw(runtime.workers)) is not None:
                yield self._key(*chosen), self._block(*chosen, runtime.workers)
            elif self._out or self._joining:
                yield None  # a block may yet come back with solves undone
            else:
                return

    def _key(self, begin: int, end: int) -> str:
        """A key for a block with these solves, which is handed out now."""
        key = str(self._blocks)
        self._blocks += 1
        self._out[key] = begin, end
        return key

    def _join(self, rows: tuple[RowBatch, ...]) -> tuple[str, SmallBatches]:
        """The key and the work of making these rows a part."""
        key = str(self._blocks)
        self._blocks += 1
        self._joining[key] = SmallBatches(rows)
        return key, self._joining[key]

    def _joined(self, joining: SmallBatches, completion: Completion) -> None:
        """Take in a part that a worker made; where it could not, the driver makes it, and all others."""
        made = () if completion.error else cast(BlockAnswers, completion.value).batches
        if not made or not all(map(self.writer.sees, made)):
            self._shares, made = False, joining.batches
        for batch in made:
            self.writer.append_batch(batch)

    def _broken(self) -> Iterator[Block]:
        """The designs that break a constraint."""
        rows = np.flatnonzero(~self.table.feasible)
        for start in range(0, len(rows), BROKEN_AT_ONCE):
            yield Block.of(self.table, rows[start : start + BROKEN_AT_ONCE], (0,), (0, 0), 0.0, shared=False)

    def _draw(self, workers: int) -> tuple[int, int] | None:
        """The solves of the next block; None where all are handed out."""
        if self._alone:
            return (alone := self._alone.popleft()), alone + 1
        size = self._size(workers)
        if self._again:
            begin, end = self._again.popleft()
            if begin + size < end:
                self._again.appendleft((begin + size, end))
            return begin, min(end, begin + size)
        if self._next == self._solves:
            return None
        begin = self._next
        to_the_end = self._each - begin % self._each
        if to_the_end < self._each or size < self._each:
            end = begin + min(size, to_the_end)  # a part of a group
        else:
            end = min(self._solves, begin + size // self._each * self._each)
        self._next = end
        return begin, end

    def _size(self, workers: int) -> int:
        """How many solves a block takes: one until the first was timed."""
        if self._seconds_each is None:
            return 1
        left = self._solves - self._next + sum(end - begin for begin, end in self._again)
        return solves_of_block(self._seconds_each, left, workers)

    def _block(self, begin: int, end: int, workers: int) -> Block:
        """The block with these solves."""
        first, last = begin // self._each, (end - 1) // self._each + 1
        order, begins = self.table.by_group
        rows = order[begins[first] : begins[last]]
        seconds = min(LATE * pace_for(workers).target_seconds, LONGEST_BLOCK)
        return Block.of(
            self.table,
            rows,
            tuple((begins[first : last + 1] - begins[first]).tolist()),
            (begin % self._each, end - begin),
            seconds,
            self._stored(begin, end),
            shared=self._shares,
        )

    def _stored(self, begin: int, end: int) -> FoundAnswers | None:
        """What the store knows of these solves."""
        if self.store is None or not self._knows_answers:
            return None
        groups = range(begin // self._each, (end - 1) // self._each + 1)
        ids = [task_id for group in groups for task_id in self._ids.of_group(group)]
        asked = ids[begin % self._each :][: end - begin]
        return self.store.found(asked, self.writer.path.name, NEEDED["layers"])

    def _file(self, begin: int, end: int, completion: Completion) -> None:
        """Store what a worker made of a block; hand out again what it did not do."""
        answers = cast(BlockAnswers, completion.value)
        if not all(map(self.writer.sees, answers.batches)):
            self._shares = False
            self._again.appendleft((begin, end))
            return
        for batch in answers.batches:
            if completion.attempts > 1 and batch.table == LAYERS.name:
                batch = self.writer.taken_back(batch).with_attempts(completion.attempts)
            self.writer.append_batch(batch)
        if begin + answers.done < end:
            self._again.appendleft((begin + answers.done, end))
        if answers.done:
            self._timed(completion.wall_seconds / answers.done)
        self.observer.block_done(answers.tally)
        for part in answers.unfinished:
            self._enter(begin // self._each + part.group, part)

    def _timed(self, seconds: float) -> None:
        mean = self._seconds_each
        self._seconds_each = seconds if mean is None else mean + SMOOTHING * (seconds - mean)

    def _failed(self, begin: int, end: int, completion: Completion) -> None:
        """A block that took its worker along or ran over the limit: its solves are tried one by one.

        One that fails by itself is a failed row.
        """
        if end - begin > 1:
            self._alone.extend(range(begin, end))
            return
        group, position = divmod(begin, self._each)
        design, asked = self._designs(group)[0], self.workload.solves[position]
        task = MappingTask(design.architecture, asked.layer, asked.settings)
        identity: LayerRow = {"task_id": task.id, "study": self.study.name}
        row = cast(LayerRow, task.columns | identity | answer_row(completion))
        self.writer.append(task.table, row)
        tally = BlockTally()
        tally.count(row, asked)
        self.observer.block_done(tally)
        self._enter(group, GroupPart(0, position, (task.id,), (MappingSummary.of(row),)))

    def _enter(self, group: int, part: GroupPart) -> None:
        """Take in some answers of a group; with the last ones its designs get their rows."""
        entry = self._open.setdefault(group, _OpenGroup())
        if part.obstacle:
            entry.obstacle = part.obstacle
            entry.without += len(part.ids)
        for number, pair in enumerate(zip(part.ids, part.answers, strict=not part.obstacle), part.first):
            entry.answers[number] = pair
        if len(entry.answers) + entry.without < self._each:
            return
        del self._open[group]
        designs = self._designs(group)
        if entry.obstacle:
            rows = self._closing.without_solves(designs, entry.obstacle)
        else:
            ids, answers = zip(*(entry.answers[n] for n in range(self._each)), strict=True)
            rows = self._closing.rows(designs, ids, answers)
        tally = BlockTally()
        for row in rows:
            self.writer.append("designs", row)
        tally.close(rows, self.study.objectives)
        self.observer.block_done(tally)

    def _designs(self, group: int) -> list[Design]:
        order, begins = self.table.by_group
        return [self.table.design(row) for row in order[begins[group] : begins[group + 1]].tolist()]
