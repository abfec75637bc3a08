"""Random programs: a second count of bytes and peaks, what time cannot go below or above, and determinism."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from costmodel.replay.replay import Replay, replay
from costmodel.replay.tables import ReplayOptions
from costmodel.schedule.program.program import Instruction, Program, Repeat
from tests.costmodel.replay.programs import random_program
from tests.costmodel.replay.second_count import instructions, link_bytes, peak

SEEDS = range(120)
STEPS = ((1, 0), (0, -1), (-1, 0), (0, 1))
"""Where links to the east, north, west and south go."""


def programs(seed: int) -> Program:
    """A random program; in every second one the whole of it runs three times, with all data freed between."""
    found = random_program(Random(seed))
    if seed % 2:
        return found
    tiles = []
    for body in found.tiles:
        held: dict[int, None] = {}
        for one in instructions(body):
            if one.operation in ("load", "receive"):
                held[one.message] = None
            elif one.operation == "free":
                del held[one.message]
        frees = [Instruction("free", number) for number in held]
        tiles.append((Repeat(3, (*body, *frees)),))
    return replace(found, tiles=tuple(tiles))


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_peaks_and_operations_are_those_of_a_second_count(seed: int) -> None:
    program = programs(seed)
    found, chip = replay(program), program.chip
    links = {
        ((x, y), (x + STEPS[way][0], y + STEPS[way][1])): Fraction(
            int(found.link_port_bits[x, y, way]), 8 * len(chip.ports)
        )
        for x, y, way in np.argwhere(found.link_port_bits).tolist()
    }
    assert links == link_bytes(program)
    all_of = [one for body in program.tiles for one in instructions(body)]
    assert found.operations == sum(
        program.works[one.work].operations for one in all_of if one.operation == "compute"
    )
    for tile, body in enumerate(program.tiles):
        mine = [one for one in instructions(body) if one.operation == "compute"]
        assert found.busy_cycles[tile] == sum(program.works[one.work].cycles for one in mine)
        assert found.peak_bytes[tile] == peak(program, tile)
    dram = [
        (message, one)
        for tile, body in enumerate(program.tiles)
        for one in instructions(body)
        if one.operation in ("load", "store")
        and tile == ((message := program.messages[one.message]).sources or message.targets)[0]
    ]
    assert found.dram_read_bytes == sum(
        message.size_bytes for message, one in dram if one.operation == "load"
    )
    assert found.dram_write_bytes == sum(
        message.size_bytes for message, one in dram if one.operation == "store"
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_time_is_between_what_is_busiest_and_one_thing_after_the_other(seed: int) -> None:
    program = programs(seed)
    options = ReplayOptions(packet_bytes=1 + seed % 9, packets_in_flight=1 + seed % 3)
    found, chip = replay(program, options, log=True), program.chip
    assert found.cycles >= found.busy_cycles.max()
    assert found.cycles >= found.busiest_link_bytes / chip.noc.link_bytes_per_cycle
    assert found.cycles >= (found.dram_read_bytes + found.dram_write_bytes) / chip.dram.bytes_per_cycle
    slowest = min(chip.noc.link_bytes_per_cycle, chip.dram.bytes_per_cycle)
    assert found.log is not None
    moved = sum(program.messages[number].size_bytes for number in found.log.moved[:, 0].tolist())
    assert found.cycles <= found.busy_cycles.sum() + moved / slowest + 1
    _check_log(program, found)


def _check_log(program: Program, found: Replay) -> None:
    """Computes of a tile do not overlap, and no transfer is faster than links and DRAM."""
    assert found.log is not None
    chip, ticks = program.chip, found.log.ticks
    assert (len(found.log.computed), len(found.log.moved)) == (found.computes, found.transfers)
    for tile in range(chip.tiles):
        mine = found.log.computed[found.log.computed[:, 1] == tile]
        assert (mine[1:, 2] >= mine[:-1, 3]).all()
    for number, start, end in found.log.moved.tolist():
        message = program.messages[number]
        if not message.sources or not message.targets:
            assert end - start >= message.size_bytes * ticks / chip.dram.bytes_per_cycle


@pytest.mark.parametrize("seed", range(10))
def test_the_same_program_takes_the_same_time(seed: int) -> None:
    one, other = (replay(programs(seed), log=True) for _ in range(2))
    assert one.log is not None
    assert other.log is not None
    assert one.cycles == other.cycles
    assert (one.log.moved == other.log.moved).all()
    assert (one.log.computed == other.log.computed).all()
