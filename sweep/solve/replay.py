"""A replay of a program as people see it: its numbers by name, and frames for a page that shows the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.json.programs import read_program
from costmodel.hardware.chip import Chip
from costmodel.replay.frames import Moving, replay_frames
from costmodel.replay.replay import Replay, replay
from costmodel.replay.tables import ReplayOptions
from costmodel.schedule.program.program import Program
from results.report.replay_page import Frame, Line, ReplayShown

FRAMES = 240
"""Frames of a page, each of them an equal part of the run."""
MOST_SQUARES = 40_000
"""Frames times tiles of a page: large chips have fewer frames, or a page would be hundreds of megabytes."""
MOST_MOVING = 40
"""Messages that a frame shows, those that carry the most."""


def replay_of(path: Path, options: ReplayOptions, *, log: bool) -> tuple[Program, Replay]:
    """The program of a file and its replay; InputError, with the file, for one that is none or cannot run."""
    program = read_program(path)
    try:
        return program, replay(program, options, log=log)
    except InputError as error:
        raise error.at(str(path)) from None


def replay_numbers(found: Replay) -> dict[str, Any]:
    """The numbers that sum a replay up; bytes, cycles and counts."""
    return {
        "cycles": found.cycles,
        "operations": found.operations,
        "utilization": found.utilization,
        "dram_read_bytes": found.dram_read_bytes,
        "dram_write_bytes": found.dram_write_bytes,
        "noc_hop_bytes": found.hop_bytes,
        "busiest_link_bytes": found.busiest_link_bytes,
        "most_peak_bytes": max(found.peak_bytes),
        "computes": found.computes,
        "transfers": found.transfers,
    }


def replay_shown(program: Program, found: Replay) -> ReplayShown:
    """A replay as its page shows it."""
    frames = max(1, min(FRAMES, MOST_SQUARES // program.chip.tiles))
    cut = replay_frames(program, found, frames, MOST_MOVING)
    each = [
        Frame(begin, layers, busy, [line for one in moving for line in _lines(program.chip, one)])
        for begin, layers, busy, moving in zip(
            cut.begins.tolist(), cut.computed.tolist(), cut.busy.tolist(), cut.moving, strict=False
        )
    ]
    numbers = {
        key.replace("_", " "): f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"
        for key, value in replay_numbers(found).items()
    }
    return ReplayShown(program.network, program.chip.positions, cut.layers, each, numbers)


def _lines(chip: Chip, moving: Moving) -> Iterator[Line]:
    """A message as lines from its sources to its targets; DRAM is on the nearer side of a tile."""
    starts = [chip.positions[tile] for tile in moving.sources]
    ends = [chip.positions[tile] for tile in moving.targets]

    def beside(position: tuple[int, int]) -> tuple[float, float]:
        left = 2 * position[0] < chip.columns
        return (-1.2 if left else chip.columns + 0.2, position[1])

    if starts and ends:
        # several sources add up what they send: all are lines to the same targets
        yield from (Line(a, b, moving.bytes, of_dram=False) for a in starts for b in ends if a != b)
    else:
        yield from (Line(a, beside(a), moving.bytes, of_dram=True) for a in starts)
        yield from (Line(beside(b), b, moving.bytes, of_dram=True) for b in ends)
