"""Where the data of neighbouring segments lies in a buffer, and when it is loaded, by hand."""

from __future__ import annotations

import pytest

from costmodel.schedule.program.program import Instruction
from costmodel.schedule.program.tile_code import StepMessages, TileSegment, tile_code

NONE: tuple[int, ...] = ()


def two_steps(large: int, small: int) -> TileSegment:
    """Message 0 is for the first step; message 1, for the second one, comes while that computes."""
    first = StepMessages((0,), NONE, 0, (0,), (1,), NONE, NONE, (0,))
    second = StepMessages(NONE, NONE, 1, (1,), NONE, NONE, NONE, (1,))
    return TileSegment.of([first, second], (0, 1), {0: large, 1: small}, ())


def one_step(size: int) -> TileSegment:
    """Message 2, which the segment before may fetch."""
    step = StepMessages((2,), NONE, 2, (2,), NONE, NONE, NONE, (2,))
    return TileSegment.of([step], (0,), {2: size}, ((2,),))


def listed(*segments: TileSegment) -> list[tuple[str, int, int | float]]:
    """What a tile with a buffer of 100 bytes does: the operation, the message or work, and the address."""
    found: list[tuple[str, int, int | float]] = []
    for one in tile_code(segments, 1, 0, 100):
        assert isinstance(one, Instruction)
        found.append((one.operation, max(one.message, one.work), one.address))
    return found


def test_the_data_of_a_last_step_leaves_bytes_free_for_what_comes_next() -> None:
    """By itself message 1 would lie behind message 0, from 60 on, and 70 bytes would find no place."""
    alone = listed(two_steps(60, 30))
    assert [one for one in alone if one[0] == "load"] == [("load", 0, 0), ("load", 1, 60)]
    assert listed(two_steps(60, 30), one_step(70)) == [
        ("load", 0, 30),
        ("compute", 0, -1),
        ("load", 1, 0),
        ("free", 0, -1),
        ("compute", 1, -1),
        ("load", 2, 30),
        ("free", 1, -1),
        ("compute", 2, -1),
        ("free", 2, -1),
    ]


@pytest.mark.parametrize("size", [71, 100])
def test_what_finds_no_bytes_is_loaded_late(size: int) -> None:
    """Message 1 takes 30 bytes of the last step, so no more than 70 can come beside it."""
    found = listed(two_steps(60, 30), one_step(size))
    assert found[:5] == listed(two_steps(60, 30))[:5]
    assert found[5:] == [("free", 1, -1), ("load", 2, 100 - size), ("compute", 2, -1), ("free", 2, -1)]
