"""Groups of layers as leaves of a schedule: their cost against the stack of levels, and against replays."""

from __future__ import annotations

from random import Random

import pytest

from costmodel.replay.replay import replay
from costmodel.schedule.program.checker import violations as program_violations
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.tree.validity import NotPossibleError
from tests.costmodel.schedule.chip_cases import mapped_chip
from tests.costmodel.schedule.fused_cases import BATCH, GRAPHS, drawn, evaluated

ROOM = 1 << 16
"""Bytes of a tile's buffer that suffice for anything."""
CASES = 12


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("mesh", [(1, 1), (2, 2), (3, 2)])
def test_replays_move_what_is_counted(name: str, mesh: tuple[int, int]) -> None:
    """Bytes of DRAM, bytes times links, operations, and what lies in the buffers, in all rounds."""
    written = together = 0
    for seed in range(CASES):
        random = Random(seed)
        one = drawn(random, name, mapped_chip(*mesh, ROOM))
        rounds = random.choice((1, 1, 2))
        found = evaluated(one, rounds)
        assert found.segments[-1].group is one.cost
        try:
            program = write_program(one.graph, found)
        except NotPossibleError as reason:
            refused = str(reason)
            continue
        assert not program_violations(program)
        run = replay(program)
        assert run.dram_read_bits == found.dram_read_bits
        assert run.dram_write_bits == found.dram_write_bits
        assert run.hop_bytes == pytest.approx(found.noc_hop_bytes)
        layers = one.graph.layers
        assert run.operations == sum(rounds * BATCH * each.operations for each in layers)
        written += 1
        together += any(one.mapping.shared.prefix)
    assert written >= CASES // 2, refused
    assert together >= 3
