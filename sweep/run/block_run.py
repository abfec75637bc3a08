"""The run loop of studies whose designs wait for nothing of each other: hand out blocks, store their rows.

The driver deals with blocks of solves, never with a single one, except where a block failed as a whole.
Workers make tasks (``sweep/blocks/``). They also make rows, but for those of a solve that took its worker
along, of designs whose group several blocks have, and of all designs of a search that learns, which the
driver has to tell. Equal solves are done once, because they are in one group of designs
(:attr:`DesignTable.groups`), and each solve of a group is in just one block.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from clusters.runtime import Completion, Runtime, complete_all
from results.store.folder import RunWriter
from results.store.known_answers import FoundAnswers, StoredAnswers
from results.store.row_batch import RowBatch
from results.store.schema.rows import DesignRow
from results.store.schema.tables import DESIGNS, LAYERS
from sweep.blocks.block import (
    Block,
    BlockAnswers,
    BlockTally,
    BoundsOf,
    DiscardedDesigns,
    GroupBounds,
    GroupPart,
    Reason,
    SmallBatches,
)
from sweep.blocks.block_work import BlockWork
from sweep.blocks.closing import Closing
from sweep.blocks.lost_solve import lost_solve
from sweep.blocks.open_groups import GroupAnswers, OpenGroups
from sweep.blocks.sizes import (
    BLOCKS_A_WORKER,
    SHARES_HELD,
    SMOOTHING,
    latest_end,
    solves_of_block,
    solves_of_share,
)
from sweep.blocks.solve_ids import SolveIds
from sweep.design.evaluated_front import EvaluatedFront
from sweep.design.mapping_workload import MappingWorkload
from sweep.design.workload import DesignWorkload
from sweep.run.group_pruning import GroupPruning
from sweep.run.progress.observer import RunObserver
from sweep.study.designs.design_space import Design
from sweep.study.designs.design_table import DesignTable
from sweep.study.lock import study_id
from sweep.study.study import Study
from sweep.tasks.completions import check_environment
from sweep.tasks.summaries import NEEDED

JOINED_ROWS = 512
"""So many waiting rows of designs are sent to a worker, which makes them one part. The folder's writer would
do so itself when it holds more rows, or after some time."""
BROKEN_AT_ONCE = 1000
"""Designs that break a constraint, in a block of their own: they only need rows."""
DISCARDED_AT_ONCE = 500
"""Groups that bounds discard, in a block of their own."""
BOUNDED_AT_ONCE = 64
"""The most groups whose bounds a worker finds for one item. Also how many groups the driver at least compares
with the front at a time when it draws a block."""
PRUNED_BLOCKS = 8
"""Where bounds prune, blocks are cut as if so many times fewer solves were left, so they are up to so many
times shorter: what they find discards others before these begin."""


class BlockRun:
    """Runs designs of a study of architectures that are all known, into one run folder.

    ``store`` has the answers of earlier runs; None solves everything. ``front``: designs outside the table,
    which may dominate bounds. ``learns``: what is proposed next depends on the rows of designs, so the driver
    makes them, workers none, and (only then) ``rows`` and ``answered`` keep what came of the table.
    ``found``, if set, is an array (groups, 2): energy and cycles by a cheaper solver, which say what comes
    first. ``brings_parts``: the runtime was made before the table was, so that blocks bring the parts of
    designs.
    """

    first_look = False
    """Whether the solves are of the study's cheaper solver, see :class:`sweep.run.first_look.FirstLook`."""

    def __init__(
        self,
        study: Study,
        table: DesignTable,
        workload: DesignWorkload,
        writer: RunWriter,
        observer: RunObserver | None = None,
        store: StoredAnswers | None = None,
        *,
        front: EvaluatedFront | None = None,
        learns: bool = False,
        brings_parts: bool = False,
    ) -> None:
        assert isinstance(workload, MappingWorkload), "designs that ask for mappings and nothing else"
        self.study, self.table, self.workload, self.writer = study, table, workload, writer
        self.observer, self.store = observer or RunObserver(), store
        identity = study_id(study)
        self._brings_parts = brings_parts
        parts = () if brings_parts else tuple(map(tuple, table.parts.values))
        self.work = BlockWork.of(study, table.space, workload, identity, writer.shared(), parts)
        """What a runtime for the run does with a block."""
        self._closing = Closing(study, workload, identity)
        self._each = len(workload.solves)
        """Solves of a group."""
        self._ids = SolveIds(table, workload)
        self._solves = table.group_count * self._each
        self._groups: NDArray[np.int64] = np.arange(table.group_count)
        """The groups in the order in which they are solved: solve n of the group at position p is number
        ``p * each + n`` of the study."""
        self._learns = learns
        self.rows: list[DesignRow] = []
        self.answered: dict[int, GroupAnswers] = {}
        """By group."""
        self._pruning: GroupPruning | None = None
        if study.search.prune_by_bounds or study.fidelity is not None:
            self._pruning = GroupPruning(study, table, front or EvaluatedFront(len(study.objectives)))
        self._discarded: list[tuple[int, Sequence[Reason]]] = []
        """Groups that need no solve, and why their designs do not; their rows are yet to be made."""
        self.found: NDArray[np.float64] | None = None
        """Energy and cycles of each group by a cheaper solver, see :meth:`GroupPruning.on_front`; None: no
        such solver looked at them before."""
        self._stored_first = 0
        """Where bounds prune, the solves before this one are of groups that the store answers."""
        self._front_first = 0
        """Those from there up to this one are of groups that are on the front by what was ``found``."""
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
        self._open = OpenGroups(self._each)
        self._shares = True
        """Whether workers store rows themselves; no longer once the driver did not find what one stored."""
        if store is not None and not learns:
            store.settle(writer.path.name)
        self._knows_answers = store is not None and store.holds(LAYERS)

    def explore(self, runtime: Runtime) -> None:
        """Run until every design has its row; a failed solve makes a failed row and ends nothing.

        Raises WorkersUnavailableError where workers have another version of the code, or lack a module.
        """
        if self._pruning is not None:
            self._find_bounds(runtime, self._pruning)
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
        """What is handed out next, as (key, block); None to wait for a block.

        First the designs that break a constraint; then, whenever there are enough of them, those that bounds
        discard and rows to join; else blocks of solves.
        """
        for block in self._broken():
            yield self._key(0, 0), block
        while True:
            if self._discarded and self._learns:
                self._close_discarded()
            elif len(self._discarded) >= DISCARDED_AT_ONCE:
                yield self._key(0, 0), self._block_of_discarded()
            elif self._shares and (rows := self.writer.waiting(DESIGNS.name, JOINED_ROWS)):
                yield self._join(rows)
            elif self._out and len(self._out) >= self._most_out(runtime):
                yield None
            elif (chosen := self._draw(runtime)) is not None:
                yield self._key(*chosen), self._block(*chosen, runtime)
            elif self._discarded:
                if not self._learns:
                    yield self._key(0, 0), self._block_of_discarded()
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
            yield Block.of(
                self.table,
                rows[start : start + BROKEN_AT_ONCE],
                (0,),
                (0, 0),
                0.0,
                shared=False,
                brings_parts=self._brings_parts,
            )

    def _most_out(self, runtime: Runtime) -> int:
        """How many blocks are handed out at most."""
        if runtime.sub_drivers:
            return SHARES_HELD * runtime.sub_drivers
        return BLOCKS_A_WORKER * runtime.workers

    def _draw(self, runtime: Runtime) -> tuple[int, int] | None:
        """The solves (begin, end) of the next block. Puts aside groups that bounds discard.

        None where all are handed out, or where what is out may discard the next ones and is waited for.
        """
        if self._alone:
            return (alone := self._alone.popleft()), alone + 1
        size = self._size(runtime)
        if self._again:
            begin, end = self._again.popleft()
            if begin + size < end:
                self._again.appendleft((begin + size, end))
            return begin, min(end, begin + size)
        if self._next == self._solves:
            return None
        ends = self._stored_first, self._front_first, self._solves
        solves = next(end for end in ends if self._next < end)
        if self._pruning is not None and self._next >= self._stored_first and self._next % self._each == 0:
            if self._next in ends and self._out:
                return None  # what was begun with discards others before they are looked at
            self._discard(self._pruning, max(1, size // self._each), solves // self._each)
            if self._next == solves:
                return self._draw(runtime)
        if self.found is not None and solves - self._next >= runtime.workers * self._each:
            size = max(size, self._each)  # a worker that has all solves of a group may leave it in the middle
        begin = self._next
        to_the_end = self._each - begin % self._each
        if to_the_end < self._each or size < self._each:
            end = begin + min(size, to_the_end)  # a part of a group
        else:
            end = min(solves, begin + size // self._each * self._each)
        self._next = end
        return begin, end

    def _size(self, runtime: Runtime) -> int:
        """How many solves a block takes; with sub-drivers a share, of which workers get blocks."""
        block, shards = self._at_once(runtime), runtime.sub_drivers
        return solves_of_share(block, runtime.workers, shards) if shards else block

    def _at_once(self, runtime: Runtime) -> int:
        """How many solves a worker gets."""
        left = self._solves - self._next + sum(end - begin for begin, end in self._again)
        if self._pruning is not None:
            left = ceil(left / PRUNED_BLOCKS)
        return solves_of_block(self._seconds_each, left, runtime.workers, runtime.sub_drivers)

    def _block(self, begin: int, end: int, runtime: Runtime) -> Block:
        """The block with these solves."""
        groups = self._groups[begin // self._each : (end - 1) // self._each + 1]
        return self._block_of(
            groups,
            (begin % self._each, end - begin),
            latest_end(self._seconds_each, runtime.workers),
            self._stored(begin, end),
            self._at_once(runtime),
        )

    def _block_of(
        self,
        groups: NDArray[np.int64],
        solves: tuple[int, int],
        seconds: float = 0.0,
        stored: FoundAnswers | None = None,
        at_once: int = 1,
    ) -> Block:
        """A block of whole groups of designs; ``solves`` are ``first`` and how many."""
        order, begins = self.table.by_group
        designs = begins[groups + 1] - begins[groups]
        ends = np.cumsum(designs)
        # of each row, where it is in the table's order: those of a group follow each other there and here
        positions = np.arange(ends[-1]) + np.repeat(begins[groups] - (ends - designs), designs)
        return Block.of(
            self.table,
            order[positions],
            (0, *ends.tolist()),
            solves,
            seconds,
            stored,
            shared=self._shares,
            closes=not self._learns,
            at_once=at_once,
            first_look=self.first_look,
            front=self._pruning.front if self._pruning is not None and self.found is not None else None,
            brings_parts=self._brings_parts,
        )

    def _stored(self, begin: int, end: int) -> FoundAnswers | None:
        """What the store knows of these solves."""
        if self.store is None or not self._knows_answers:
            return None
        groups = self._groups[begin // self._each : (end - 1) // self._each + 1]
        ids = [task_id for group in groups.tolist() for task_id in self._ids.of_group(group)]
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
            attempts = batch.attempts
            if batch.table == LAYERS.name and not answers.divided:
                attempts = max(attempts, completion.attempts)
            if attempts > 1:
                batch = self.writer.taken_back(batch).with_attempts(attempts)
            self.writer.append_batch(batch)
        if begin + answers.done < end:
            self._again.appendleft((begin + answers.done, end))
        if answers.done:
            self._timed(completion.wall_seconds / answers.done)
        self._done(answers.tally)
        for part in answers.unfinished:
            self._enter(int(self._groups[begin // self._each + part.group]), part)

    def _done(self, tally: BlockTally) -> None:
        """Tell whoever watches, and learn what dominates others."""
        self.observer.block_done(tally)
        if self._pruning is not None:
            self._pruning.evaluated(tally.judged)

    def _find_bounds(self, runtime: Runtime, pruning: GroupPruning) -> None:
        """Have workers find the bounds of all groups, and put the groups in the order of their solves.

        First come groups that the store answers whole, then those on the front of the cheaper solver's
        answers, where there are some, then all others; within each the ones that promise most.
        """
        out: dict[str, NDArray[np.int64]] = {}

        def asked() -> Iterator[tuple[str, BoundsOf]]:
            at_once = min(BOUNDED_AT_ONCE, ceil(len(self._groups) / (BLOCKS_A_WORKER * runtime.workers)))
            for begin in range(0, len(self._groups), max(1, at_once)):
                key = f"bounds {begin}"
                out[key] = self._groups[begin : begin + at_once]
                yield key, BoundsOf(self._block_of(out[key], (0, 0)))

        for completion in complete_all(runtime, asked()):
            check_environment(completion)
            if completion.error is None:  # those without bounds, which are 0, are solved
                found = cast(GroupBounds, completion.value)
                pruning.bounds[out[completion.key]] = found.values
                groups = out[completion.key].tolist()
                pruning.broken |= {groups[number]: reasons for number, reasons in found.broken.items()}
        groups = pruning.order(self.found)
        stored = np.array([self._all_stored(group) for group in groups.tolist()], dtype=bool)
        first = np.zeros(len(groups), dtype=bool)
        if self.found is not None:
            first = pruning.on_front(self.found)[groups] & ~stored
        self._groups = np.concatenate([groups[stored], groups[first], groups[~stored & ~first]])
        self._stored_first = int(stored.sum()) * self._each
        self._front_first = self._stored_first + int(first.sum()) * self._each

    def _discard(self, pruning: GroupPruning, wanted: int, stop: int) -> None:
        """Look at the next groups, up to number ``stop``, until ``wanted`` need solves; put aside those that
        need none."""
        at_once, kept = max(wanted, BOUNDED_AT_ONCE), list[int]()
        end = self._next // self._each
        while len(kept) < wanted and end < stop:
            for group in self._groups[end : min(stop, end + at_once)].tolist():
                reasons = pruning.reasons(group)
                if reasons is None:
                    kept.append(group)
                else:
                    self._discarded.append((group, reasons))
            end = min(stop, end + at_once)
        # The groups kept move to the end of what was looked at; ``_next`` is the first solve of them.
        self._groups[end - len(kept) : end] = kept
        self._next = (end - len(kept)) * self._each

    def _all_stored(self, group: int) -> bool:
        """Whether the store answers all solves of a group: then bounds discard none of its designs."""
        if self.store is None or not self._knows_answers:
            return False
        return len(self.store.known(LAYERS, self._ids.of_group(group))) == self._each

    def _block_of_discarded(self) -> DiscardedDesigns:
        """The groups that bounds discard: their designs need rows."""
        assert self._pruning is not None
        chosen, self._discarded = self._discarded, []
        groups = np.array([group for group, _ in chosen])
        reasons = tuple(one for _, reasons in chosen for one in reasons)
        return DiscardedDesigns(self._block_of(groups, (0, 0)), self._pruning.bounds[groups], reasons)

    def _timed(self, seconds: float) -> None:
        mean = self._seconds_each
        self._seconds_each = seconds if mean is None else mean + SMOOTHING * (seconds - mean)

    def _failed(self, begin: int, end: int, completion: Completion) -> None:
        """A block that took its worker along or ran over the limit: its solves are tried one by one.

        One that fails by itself is a failed row. RuntimeError for a block without solves, whose rows then
        cannot be made at all.
        """
        if begin == end:
            assert completion.error is not None
            raise RuntimeError(f"rows of designs without solves could not be made: {completion.error}")
        if end - begin > 1:
            self._alone.extend(range(begin, end))
            return
        number, position = divmod(begin, self._each)
        group = int(self._groups[number])
        design, asked = self._designs(group)[0], self.workload.solves[position]
        lost = lost_solve(self.study, design.architecture, asked, position, completion)
        self.writer.append(LAYERS.name, lost.row)
        self._done(lost.tally)
        self._enter(group, lost.part)

    def _enter(self, group: int, part: GroupPart) -> None:
        """Take in some answers of a group; with the last ones its designs get their rows."""
        found = self._open.enter(group, part)
        if found is None:
            return
        self._group_done(group, found)

    def _group_done(self, group: int, found: GroupAnswers) -> None:
        """Make the rows of designs whose solves are all answered."""
        self._close(found.rows(self._closing, self._designs(group)))
        if self._learns:
            self.answered[group] = found

    def _close(self, rows: Sequence[DesignRow]) -> None:
        """Write the rows of designs that are made here, and tell whoever learns from them."""
        for row in rows:
            self.writer.append("designs", row)
        if not self._learns:
            tally = BlockTally()
            tally.close(rows, self.study.objectives)
            self._done(tally)
            return
        self.rows += rows
        for row in rows:
            self.observer.designed(row)
        if self._pruning is not None:
            self._pruning.evaluated(rows)

    def _close_discarded(self) -> None:
        """Make the rows of designs that bounds discard: the search that proposed them waits for them."""
        for group, reasons in self._discarded:
            assert self._pruning is not None
            energy_pj, cycles = self._pruning.bounds[group].tolist()
            self._close(self._closing.discarded(self._designs(group), (energy_pj, cycles), reasons))
        self._discarded = []

    def _designs(self, group: int) -> list[Design]:
        order, begins = self.table.by_group
        return [self.table.design(row) for row in order[begins[group] : begins[group + 1]].tolist()]
