"""Boxes and instructions of a program as arrays are those that its values say, one by one."""

from __future__ import annotations

from random import Random

from costmodel.schedule.program.instruction_values import END, LOOP
from costmodel.schedule.program.listing import CODES, Listing, boxes_of
from costmodel.schedule.program.program import Instruction, Moves, Program, Repeat, box_at, counted
from tests.costmodel.schedule.program.test_checker import pair


def test_boxes_at_all_times() -> None:
    rng = Random(0)
    for _ in range(50):
        axes = rng.randint(1, 4)
        box = tuple((first := rng.randint(0, 9), first + rng.randint(1, 5)) for _ in range(axes))
        moves: Moves = tuple(
            (rng.randint(1, 4), tuple(rng.randint(-3, 9) for _ in range(axes)))
            for _ in range(rng.randint(0, 3))
        )
        found = boxes_of(box, moves)
        assert [tuple(map(tuple, one)) for one in found.tolist()] == [
            box_at(box, moves, time) for time in range(len(found))
        ]


def nested() -> Program:
    """A program whose first tile has a loop in a loop."""
    body = pair().tiles[0][0]
    assert isinstance(body, Repeat)
    inner = Repeat(3, (Instruction("compute", work=0, reads=(0, 1)), Instruction("free", 0)))
    tiles = ((Repeat(2, (Instruction("load", 0, 8), inner)), Instruction("store", 4)), pair().tiles[1])
    return Program("nested", 4, pair().chip, pair().messages, pair().works, tiles, 8, pair().layers)


def test_instructions_with_how_often_each_is_done() -> None:
    program = nested()
    listing = Listing.of(program)
    for tile, code in enumerate(program.tiles):
        first, end = listing.begin[tile : tile + 2].tolist()
        rows = [
            (listing.items[at], int(listing.times[at]), int(listing.code[at]), int(listing.number[at]))
            for at in range(first, end)
            if listing.code[at] not in (LOOP, END)
        ]
        assert [(item, times) for item, times, *_ in rows] == list(counted(code))
        for item, _, operation, number in rows:
            assert item is not None
            assert operation == CODES[item.operation]
            assert number == (item.work if item.operation == "compute" else item.message)
        assert set(listing.tile[first:end].tolist()) == {tile}
    assert listing.depth == 2
    at = next(at for at, item in enumerate(listing.items) if item and item.reads == (0, 1))
    assert listing.reads[listing.reads_begin[at] : listing.reads_begin[at + 1]].tolist() == [0, 1]
    # an END leads back to the first instruction of its body
    for at in (at for at, code in enumerate(listing.code) if code == END):
        body = int(listing.number[at])
        assert listing.code[body - 1] == LOOP
        assert listing.address[body - 1] == listing.address[at]
