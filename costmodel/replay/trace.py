"""What happened in a replay, in the Trace Event Format that Perfetto and Chrome's tracing page show.

One JSON object a line, in a list. A viewer shows three processes: computes, with a thread for each tile;
messages between tiles; messages from DRAM and to it. The format's unit of time, a microsecond, stands for a
cycle. Messages of a tile overlap in time and slices of a thread must not, so a message that begins before
another has ended goes into the next thread of that tile.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from costmodel.replay.failures import named
from costmodel.replay.replay import Replay
from costmodel.schedule.program.program import Program

TILES, BETWEEN, WITH_DRAM = 1, 2, 3
"""The three processes of a trace."""
LANES = 1000
"""The most threads that overlapping messages of one tile, or of DRAM, take."""


def trace_lines(program: Program, found: Replay) -> Iterator[str]:
    """The lines of a trace, which are a JSON list together. ValueError for a replay without a log."""
    if found.log is None:
        raise ValueError("a replay without a log has no trace: ask for it with log=True")
    for number, event in enumerate(_events(program, found)):
        yield ("[\n " if number == 0 else ",\n ") + json.dumps(event, separators=(",", ":"))
    yield "\n]\n"


def _events(program: Program, found: Replay) -> Iterator[dict[str, Any]]:
    assert found.log is not None
    for process, name in ((TILES, "compute"), (BETWEEN, "messages between tiles"), (WITH_DRAM, "DRAM")):
        yield _name("process_name", process, 0, f"{program.network}: {name}")
    for tile, (column, row) in enumerate(program.chip.positions):
        yield _name("thread_name", TILES, tile, f"tile {tile} (column {column}, row {row})")
    ticks = found.log.ticks
    for number, tile, start, end in found.log.computed.tolist():
        work = program.works[number]
        span = {"ts": start / ticks, "dur": (end - start) / ticks}
        yield {"name": work.layer, "ph": "X", "pid": TILES, "tid": tile, **span, "args": {"work": number}}
    ends: dict[int, list[int]] = defaultdict(list)
    for number, start, end in sorted(found.log.moved.tolist(), key=lambda row: (row[1], row[0])):
        message = program.messages[number]
        between = bool(message.sources and message.targets)
        owner = message.sources[0] if between else -1
        thread = (owner + 1) * LANES + _lane(ends[owner], start, end)
        yield {
            "name": message.tensor,
            "ph": "X",
            "pid": BETWEEN if between else WITH_DRAM,
            "tid": thread,
            "ts": start / ticks,
            "dur": (end - start) / ticks,
            "args": {"message": named(program, number)},
        }


def _lane(ends: list[int], start: int, end: int) -> int:
    """The first thread that is free at ``start``; ``ends`` are the ends of their last messages."""
    for lane, last in enumerate(ends):
        if last <= start:
            ends[lane] = end
            return lane
    if len(ends) < LANES:
        ends.append(end)
        return len(ends) - 1
    return LANES - 1


def _name(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
