"""CPU of handing out blocks and of taking in what came of them, without a cluster: a constant and a slope.

    python benchmarks/block_costs.py [--designs 8000] [--network resnet18]

Blocks of two sizes are made, pickled, answered without work, unpickled and filed as the run loop does it;
then shares are cut up and joined as a sub-driver does it. What the runtime does for a call comes on top
(``benchmarks/scaling.py --measure``). The numbers are those of ``sweep.forecast.simulated_run.BlockCosts``.
"""

from __future__ import annotations

import pickle
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import record
from scaling import study

from clusters.runtime import Completion, Runtime
from results.store.folder import RunWriter
from results.store.schema.rows import MappingColumns
from sweep.blocks.block import Block
from sweep.blocks.block_work import BlockWork
from sweep.blocks.division import BlockDivision
from sweep.forecast.plan import StudyPlan, plan
from sweep.run.block_run import BlockRun
from sweep.study.network_choice import NetworkChoice
from sweep.study.study import Study
from sweep.tasks.mapping import MappingTask, run_mapping_task

SMALL, LARGE = 48, 2784
"""Solves of a block: of 0.03 s and of half a millisecond, in 1.4 s."""
WORKERS, REPEATS = 96, 24
BLOCKS_IN_SHARES = 24, 192
"""Small blocks in a share, of an eighth of a sub-driver's usual one and of a usual one."""


class Known:
    """A solver that knows one answer."""

    def __init__(self, answer: MappingColumns) -> None:
        self.answer = answer

    def __call__(self, problem: object, asked: object) -> MappingColumns:
        return self.answer


@dataclass
class Feeding:
    """As much of a runtime as a run loop looks at when it makes a block."""

    workers: int = WORKERS
    sub_drivers: int = 0


class Loop(BlockRun):
    """The run loop, a step at a time."""

    def made(self, begin: int, end: int, runtime: Runtime) -> Block:
        return self._block(begin, end, runtime)

    def filed(self, begin: int, end: int, completion: Completion) -> None:
        self._file(begin, end, completion)

    def time(self, seconds: float) -> None:
        self._seconds_each = seconds


class Clock:
    """Adds up CPU seconds by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def timed(self, name: str, call: Callable[[], Any]) -> Any:
        before = time.process_time()
        value = call()
        self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - before
        return value


def completion(key: str, value: Any) -> Completion:
    return Completion(key, value, None, "here:1", 1.4, 1.4, 1)


def of_blocks(run: Loop, work: BlockWork, solves: int, begin: int) -> float:
    """CPU seconds of the run loop for a block of so many solves."""
    # Only what happens in the driver is on the clock: pickling included, the worker's part not.
    clock, runtime = Clock(), cast(Runtime, Feeding())
    for number in range(REPEATS):
        first = begin + number * solves

        def made(first: int = first) -> bytes:
            return pickle.dumps(run.made(first, first + solves, runtime), pickle.HIGHEST_PROTOCOL)

        sent = clock.timed("made", made)
        answer = pickle.dumps(work(pickle.loads(sent)), pickle.HIGHEST_PROTOCOL)

        def filed(first: int = first, answer: bytes = answer) -> None:
            run.filed(first, first + solves, completion("", pickle.loads(answer)))

        clock.timed("filed", filed)
    return sum(clock.seconds.values()) / REPEATS


def of_shares(run: Loop, work: BlockWork, blocks: int, begin: int) -> tuple[float, float]:
    """CPU seconds of the run loop for a share of so many blocks, and of a sub-driver for each block of it."""
    here, there, repeats = Clock(), Clock(), 3
    runtime = cast(Runtime, Feeding(10 * WORKERS, 10))
    run.time(1.4 / SMALL)
    for number in range(repeats):
        first = begin + number * blocks * SMALL
        end = first + blocks * SMALL

        def made(first: int = first, end: int = end) -> bytes:
            block = replace(run.made(first, end, runtime), at_once=SMALL)
            return pickle.dumps(block, pickle.HIGHEST_PROTOCOL)

        sent, division = here.timed("made", made), BlockDivision(work)

        def drawn(division: BlockDivision = division) -> tuple[str, bytes] | None:
            part = division.draw(WORKERS)
            return None if part is None else (part[0], pickle.dumps(part[1], pickle.HIGHEST_PROTOCOL))

        def accepted(division: BlockDivision = division, sent: bytes = sent) -> None:
            division.accept("0", pickle.loads(sent))

        there.timed("accepted", accepted)
        done: bytes = b""
        while (part := there.timed("drawn", drawn)) is not None:
            key, payload = part
            answer = pickle.dumps(work(pickle.loads(payload)), pickle.HIGHEST_PROTOCOL)

            def joined(division: BlockDivision = division, key: str = key, answer: bytes = answer) -> bytes:
                found = division.file(completion(key, pickle.loads(answer)))
                return pickle.dumps(found[0].value, pickle.HIGHEST_PROTOCOL) if found else b""

            done = there.timed("joined", joined) or done

        def filed(first: int = first, end: int = end, done: bytes = done) -> None:
            run.filed(first, end, completion("", pickle.loads(done)))

        here.timed("filed", filed)
    return sum(here.seconds.values()) / repeats, sum(there.seconds.values()) / repeats / blocks


def measured(chosen: Study, path: Path) -> dict[str, float]:
    """The constants in seconds, and what they come from."""
    made: StudyPlan = plan(chosen)
    assert made.table is not None
    task = made.workload.tasks(next(iter(made.designs)))[0]
    assert isinstance(task, MappingTask)
    answer = run_mapping_task(task.content)
    with RunWriter(path) as writer:
        run = Loop(chosen, made.table, made.workload, writer)
        work = replace(run.work, solve=Known(answer))
        work(run.made(0, 12, cast(Runtime, Feeding())))  # imports and first calls are no cost of a block
        small, large = of_blocks(run, work, SMALL, 0), of_blocks(run, work, LARGE, REPEATS * SMALL)
        few, many = (of_shares(run, work, blocks, 0) for blocks in BLOCKS_IN_SHARES)
    # two sizes make a line: its slope is what a solve costs, its beginning what a block costs
    slope = (large - small) / (LARGE - SMALL)
    apart = (BLOCKS_IN_SHARES[1] - BLOCKS_IN_SHARES[0]) * SMALL
    share_slope = (many[0] - few[0]) / apart
    return {
        "block_of_48_ms": 1e3 * small,
        "block_of_2784_ms": 1e3 * large,
        "block_ms": 1e3 * (small - slope * SMALL),
        "solve_us": 1e6 * slope,
        "share_of_9216_ms": 1e3 * many[0],
        "share_ms": 1e3 * (few[0] - share_slope * BLOCKS_IN_SHARES[0] * SMALL),
        "solve_of_a_share_us": 1e6 * share_slope,
        "sub_driver_ms_a_block_of_48": 1e3 * many[1],
    }


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--designs", type=int, default=8000)
    parser.add_argument("--network", default="resnet18", help="a library name or a file")
    options = parser.parse_args()
    chosen = study(12 * (options.designs - 500))
    chosen = chosen.model_copy(update={"networks": (NetworkChoice(network=options.network),)})
    with tempfile.TemporaryDirectory() as scratch:
        found = measured(chosen, Path(scratch) / "runs" / chosen.name)
    for name, value in found.items():
        print(f"{name:32}{value:12.3f}")
    record.finish(found, options)


if __name__ == "__main__":
    main()
