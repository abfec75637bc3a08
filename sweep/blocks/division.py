"""What a sub-driver does with a driver's large blocks: cut them for its workers, and join what came back.

A large block, a *share* of the run, has thousands of solves. Its workers get blocks of a second or two. What
they make of them becomes one answer, which the driver takes in at the price of one block.
"""

from __future__ import annotations

from collections import deque
from typing import Any, cast

from clusters.runtime import Completion, JoinedCompletion
from results.store.known_answers import AnswersAtHand, FoundAnswers
from results.store.row_batch import PART_ROWS, RowBatch
from results.store.schema.rows import DesignRow
from results.store.schema.tables import DESIGNS, LAYERS
from sweep.blocks.block import Block, BlockAnswers, BlockTally, GroupPart
from sweep.blocks.block_work import BlockWork
from sweep.blocks.closing import Closing
from sweep.blocks.lost_solve import lost_solve
from sweep.blocks.open_groups import OpenGroups
from sweep.blocks.sizes import SMOOTHING, latest_end, solves_in_time
from sweep.tasks.completions import is_of_environment
from sweep.tasks.mapping import architecture_id, bare, mapping_id

JOINED_AT = 4 * PART_ROWS
"""So many rows of small batches become a part: it costs little more than one of a single row."""


class BlockDivision:
    """Shares of a run at work in one sub-driver; see :class:`clusters.runtime.PayloadDivision`."""

    def __init__(self, work: BlockWork) -> None:
        self._work = work
        self._shares: deque[_Share] = deque()
        """Those that have something to hand out, the oldest first."""
        self._out: dict[str, tuple[_Share, int, int]] = {}
        """By key of what a worker has, whose it is and which of its solves."""
        self._count = 0
        self._seconds_each: float | None = None
        """Moving mean of the seconds of a solve."""

    def accept(self, key: str, payload: Any) -> None:
        """Take in a block; anything else of :class:`BlockWork` goes to a worker as it is."""
        self._shares.append(_Share(self._work, key, payload))

    def draw(self, workers: int) -> tuple[str, Any] | None:
        """What a worker gets next, with a key; None while all is handed out."""
        while self._shares and not self._shares[0].is_left:
            self._shares.popleft()
        if not self._shares:
            return None
        share = self._shares[0]
        begin, end = share.draw(self._size(share, workers))
        key = str(self._count)
        self._count += 1
        self._out[key] = share, begin, end
        return key, share.payload(begin, end, latest_end(self._seconds_each, workers))

    def file(self, completion: Completion) -> list[JoinedCompletion]:
        """Take in what a worker made; returns the answers that are whole by that.

        An error that any work would have there, such as a missing module, fails the whole share.
        """
        share, begin, end = self._out.pop(completion.key)
        share.wall_seconds += completion.wall_seconds
        share.cpu_seconds += completion.cpu_seconds
        if share.is_whole or is_of_environment(completion):
            share.fail(completion)
        elif completion.error is not None:
            share.failed(begin, end, completion)
        else:
            answers = cast(BlockAnswers, completion.value)
            if answers.done:
                self._timed(completion.wall_seconds / answers.done)
            share.file(begin, end, answers, completion.attempts)
        if share.is_left and share not in self._shares:
            self._shares.appendleft(share)
        return [share.divided()] if share.is_done else []

    def _size(self, share: _Share, workers: int) -> int:
        """As many solves as the driver says; fewer where, by the times measured here, these would take longer
        than a block should."""
        if self._seconds_each is None:
            return share.at_once
        by_time = int(solves_in_time(self._seconds_each, workers))
        return max(1, min(share.at_once, by_time))

    def _timed(self, seconds: float) -> None:
        mean = self._seconds_each
        self._seconds_each = seconds if mean is None else mean + SMOOTHING * (seconds - mean)


class _Share:
    """One block of the driver's. Its solves count from 0; the first is ``block.first`` of its group."""

    def __init__(self, work: BlockWork, key: str, payload: Any) -> None:
        self._work, self._key, self._payload = work, key, payload
        self._block: Block | None = None
        """What the share is cut from, with all its parts; None where one worker gets all of it."""
        if isinstance(payload, Block) and payload.groups:
            self._block = payload.with_parts(work.parts)
        self._workload = work.workload
        if self._block and self._block.first_look:
            assert work.first is not None
            self._workload = work.first
        self._each = len(self._workload.solves)
        self._solves = self._block.solves if self._block else 0
        stored = self._block.stored if self._block else None
        self._at_hand = AnswersAtHand(stored) if stored else None
        self._next = 0
        self._again: deque[tuple[int, int]] = deque()
        """Ranges of solves that a worker had and did not do; at first, of what goes to a worker as it is."""
        self._alone: deque[int] = deque()
        """Solves of blocks that failed as a whole."""
        if self._block is None:
            self._again.append((0, 0))
        self._with_workers = 0
        self._open = OpenGroups(self._each)
        self._unfinished: list[GroupPart] = []
        self._batches: list[RowBatch] = []
        self._small: dict[str, list[RowBatch]] = {LAYERS.name: [], DESIGNS.name: []}
        self._tally = BlockTally()
        self._value: Any = None
        self._failure: Completion | None = None
        self.wall_seconds = self.cpu_seconds = 0.0
        """Of workers, for the share."""

    @property
    def is_whole(self) -> bool:
        """Whether one worker gets all of it: a payload without solves."""
        return self._block is None

    @property
    def at_once(self) -> int:
        """Solves of a worker's block, as the driver wants it."""
        return self._block.at_once if self._block else 1

    @property
    def is_left(self) -> bool:
        """Whether there is anything to hand out."""
        return self._failure is None and bool(self._alone or self._again or self._next < self._solves)

    @property
    def is_done(self) -> bool:
        return not self._with_workers and not self.is_left

    def draw(self, size: int) -> tuple[int, int]:
        """The next solves to hand out, at most ``size``: whole groups if these are not larger."""
        self._with_workers += 1
        if self._alone:
            return (alone := self._alone.popleft()), alone + 1
        if self._again:
            begin, end = self._again.popleft()
            if begin + size < end:
                self._again.appendleft((begin + size, end))
            return begin, min(end, begin + size)
        begin = self._next
        to_the_end = self._each - (self._first + begin) % self._each
        if size < self._each or to_the_end < self._each:
            end = begin + min(size, to_the_end)
        else:
            end = begin + size // self._each * self._each
        self._next = min(end, self._solves)
        return begin, self._next

    @property
    def _first(self) -> int:
        assert self._block is not None
        return self._block.first

    def _place(self, number: int) -> tuple[int, int]:
        """The group of a solve, and which of the group's solves it is."""
        return divmod(self._first + number, self._each)

    def payload(self, begin: int, end: int, seconds: float) -> Any:
        """What the worker gets for these solves."""
        if self._block is None:
            return self._payload
        group, position = self._place(begin)
        last, _ = self._place(end - 1)
        groups = group, last + 1
        # Of the block as it came, without parts that every worker has, too.
        came = cast(Block, self._payload)
        return came.part(groups, (position, end - begin), seconds, self._stored(begin, end))

    def _stored(self, begin: int, end: int) -> FoundAnswers | None:
        """What the store knows of these solves."""
        assert self._block is not None
        if self._at_hand is None:
            return None
        (group, position), (last, _) = self._place(begin), self._place(end - 1)
        ids: list[str] = []
        for number in range(group, last + 1):
            bare_one = bare(self._block.architecture(self._block.begins[number]))
            name = architecture_id(bare_one)
            ids += [mapping_id(name, asked.asked) for asked in self._workload.solves]
        return self._at_hand.of(ids[position:][: end - begin])

    def file(self, begin: int, end: int, answers: BlockAnswers, attempts: int) -> None:
        """Keep what a worker made; what it did not do is handed out again."""
        self._with_workers -= 1
        if begin + answers.done < end:
            self._again.appendleft((begin + answers.done, end))
        for batch in answers.batches:
            self._keep(batch.begun(attempts) if batch.table == LAYERS.name else batch)
        self._tally.merge(answers.tally, self._work.study.objectives)
        group, _ = self._place(begin)
        for part in answers.unfinished:
            self._enter(group + part.group, part)

    def failed(self, begin: int, end: int, completion: Completion) -> None:
        """A block that took its worker along: its solves are tried one by one, to find the one to blame."""
        self._with_workers -= 1
        if end - begin > 1:
            self._alone.extend(range(begin, end))
            return
        assert self._block is not None
        group, position = self._place(begin)
        asked = self._workload.solves[position]
        architecture = self._block.architecture(self._block.begins[group])
        lost = lost_solve(self._work.study, architecture, asked, position, completion)
        self._keep(RowBatch.of(LAYERS.name, [LAYERS.encode(lost.row)]))
        self._tally.merge(lost.tally, self._work.study.objectives)
        self._enter(group, lost.part)

    def fail(self, completion: Completion) -> None:
        """This completion is what the driver is told of all of it."""
        self._with_workers -= 1
        self._value = completion.value
        self._failure = completion

    def _enter(self, group: int, part: GroupPart) -> None:
        """Take in some answers of a group; the driver gets those of a group that others have parts of."""
        assert self._block is not None
        begin = group * self._each - self._first
        if not self._block.closes or begin < 0 or begin + self._each > self._solves:
            self._unfinished.append(GroupPart(group, part.first, part.ids, part.answers, part.obstacle))
            return
        found = self._open.enter(group, part)
        if found is not None:
            closing = Closing(self._work.study, self._work.workload, self._work.study_id)
            designs = self._block.designs(self._work.space, *self._block.begins[group : group + 2])
            self._close(found.rows(closing, designs))

    def _close(self, rows: list[DesignRow]) -> None:
        self._keep(RowBatch.of(DESIGNS.name, [DESIGNS.encode(row) for row in rows]))
        tally = BlockTally()
        tally.close(rows, self._work.study.objectives)
        self._tally.merge(tally, self._work.study.objectives)

    def _keep(self, batch: RowBatch) -> None:
        """Keep a batch for the driver; small ones become one part when they have rows enough."""
        if batch.part or batch.parquet or batch.attempts > 1:
            self._batches.append(batch)
            return
        small = self._small[batch.table]
        small.append(batch)
        if sum(one.rows for one in small) >= JOINED_AT:
            self._join(batch.table)

    def _join(self, table: str) -> None:
        small, self._small[table] = self._small[table], []
        if not small:
            return
        joined = RowBatch.joined(small) if len(small) > 1 else small[0]
        folder = self._work.folder
        if folder is not None and self._block is not None and self._block.shared:
            joined = folder.stored(joined)
        self._batches.append(joined)

    def divided(self) -> JoinedCompletion:
        """All of it, once it is done."""
        if self._failure is not None:
            return JoinedCompletion(
                self._key, self._value, self._failure.error, self.wall_seconds, self.cpu_seconds
            )
        for table in self._small:
            self._join(table)
        answers = BlockAnswers(self._solves, tuple(self._batches), tuple(self._unfinished), self._tally, True)
        return JoinedCompletion(self._key, answers, None, self.wall_seconds, self.cpu_seconds)
