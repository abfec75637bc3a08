"""Every way in which a right program can be made wrong is found, with a reason that names it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from costmodel.schedule.program.checker import violations
from costmodel.schedule.program.program import (
    Instruction,
    LayerNest,
    Message,
    Program,
    Repeat,
    Work,
)
from tests.costmodel.schedule.chip_cases import chip

Code = list[Instruction | Repeat]


def pair() -> Program:
    """Tile 0 computes a layer of four samples two at a time, tile 1 the next one, which reads it.

    The outputs of that one go to DRAM, and a third layer on tile 0 reads them there.
    """
    by_two = ((2, (2, 0, 0, 0)),)
    messages = (
        Message("one.input", ((0, 2), (0, 1), (0, 1), (0, 1)), 2, (), (0,), by_two),
        Message("one", ((0, 2), (0, 1), (0, 1), (0, 1)), 2, (0,), (1,), by_two),
        Message("two", ((0, 2), (0, 1), (0, 1), (0, 1)), 2, (1,), (), by_two),
        Message("two", ((0, 4), (0, 1), (0, 1), (0, 1)), 4, (), (0,), (), (2,)),
        Message("three", ((0, 4), (0, 1), (0, 1), (0, 1)), 4, (0,), ()),
    )
    works = (
        Work("one", ((0, 2), (0, 1), (0, 1), (0, 1)), 3, 2, moves=by_two),
        Work("two", ((0, 2), (0, 1), (0, 1), (0, 1)), 3, 2, moves=by_two),
        Work("three", ((0, 4), (0, 1), (0, 1), (0, 1)), 3, 4),
    )
    first: tuple[Instruction | Repeat, ...] = (
        Repeat(
            2,
            (
                Instruction("load", 0, 8),
                Instruction("compute", work=0, reads=(0,)),
                Instruction("send", 1),
                Instruction("free", 0),
            ),
        ),
        Instruction("load", 3, 8),
        Instruction("compute", work=2, reads=(3,)),
        Instruction("store", 4),
        Instruction("free", 3),
    )
    second = (
        Repeat(
            2,
            (
                Instruction("receive", 1, 8),
                Instruction("compute", work=1, reads=(1,)),
                Instruction("store", 2),
                Instruction("free", 1),
            ),
        ),
    )
    dims = (("N", 4), ("K", 1), ("P", 1), ("Q", 1))
    nests = tuple(LayerNest(name, dims) for name in ("one", "two", "three"))
    return Program("pair", 4, chip(2, 1, buffer=14), messages, works, (first, second), 8, nests)


def test_a_right_program() -> None:
    assert violations(pair()) == []


def changed(program: Program, tile: int, change: Callable[[Code, Code], object]) -> Program:
    """``change`` gets the code of a tile and the body of its repetition."""
    code: Code = list(program.tiles[tile])
    repeat = code[0]
    assert isinstance(repeat, Repeat)
    body: Code = list(repeat.body)
    change(code, body)
    code[0] = Repeat(2, tuple(body))
    tiles = list(program.tiles)
    tiles[tile] = tuple(code)
    return replace(program, tiles=tuple(tiles))


def with_message(number: int, **changes: object) -> Callable[[], Program]:
    def made() -> Program:
        messages: list[Message] = list(pair().messages)
        messages[number] = replace(messages[number], **changes)  # type: ignore[arg-type]
        return replace(pair(), messages=tuple(messages))

    return made


def with_work(number: int, **changes: object) -> Callable[[], Program]:
    def made() -> Program:
        works: list[Work] = list(pair().works)
        works[number] = replace(works[number], **changes)  # type: ignore[arg-type]
        return replace(pair(), works=tuple(works))

    return made


def with_code(tile: int, change: Callable[[Code, Code], object]) -> Callable[[], Program]:
    return lambda: changed(pair(), tile, change)


def swap(one: int, other: int, body: Sequence[object]) -> None:
    assert isinstance(body, list)
    body[one], body[other] = body[other], body[one]


WRONG: dict[str, tuple[Callable[[], Program], str]] = {
    "a message that there is not": (
        with_code(0, lambda code, body: body.append(Instruction("free", 9))),
        "tile 0: free of message 9, of 5",
    ),
    "a tile that there is not": (with_message(1, targets=(2,)), "message 1: tile 2, of 2"),
    "waiting for what nobody stores": (with_message(3, after=(1,)), "message 3: waits for message 1"),
    "moves along other axes": (with_message(0, moves=((2, (2,)),)), "message 0: its box, moves"),
    "a receiver that is no target": (
        with_code(0, lambda code, body: body.insert(0, Instruction("receive", 1, 10))),
        "tile 0: receive of message 1, which has other sources and targets",
    ),
    "a sender that sends too seldom": (
        with_code(0, lambda code, body: code.insert(1, body.pop(2))),
        "message 1: its tiles issue it [2, 1] times",
    ),
    "a box that moves too often": (
        with_message(0, moves=((4, (1, 0, 0, 0)),)),
        "message 0: issued 2 times, and its box moves 4 times",
    ),
    "a transfer between tiles that waits for a store": (
        with_message(1, after=(2,)),
        "message 1: waits for stores, and does not come from DRAM",
    ),
    "outputs without rows and columns": (
        with_message(4, box=((0, 4), (0, 1)), moves=()),
        "message 4: a box of 2 axes, outputs have 4",
    ),
    "a layer that there is not": (with_work(0, layer="none"), "work 0: of none, which is no layer"),
    "computing what there is not": (
        with_code(0, lambda code, body: body.insert(1, Instruction("compute", work=7, reads=(0, 8)))),
        "tile 0: compute of work 7, of 3",
    ),
    "reading a message that there is not": (
        with_code(0, lambda code, body: body.insert(1, Instruction("compute", work=0, reads=(0, 8)))),
        "tile 0: compute reads message 8, of 5",
    ),
    "a tile twice": (with_message(1, targets=(1, 1)), "message 1: a tile twice among its sources or targets"),
    "sent a second time": (
        with_code(0, lambda code, body: body.insert(3, Instruction("send", 1))),
        "message 1: its tiles issue it [2, 4] times",
    ),
    "outside of the buffer": (
        with_code(0, lambda code, body: body.__setitem__(0, Instruction("load", 0, 13))),
        "tile 0: load of message 0 at address 13: 2 bytes are not within the buffer",
    ),
    "where outputs go out": (
        with_code(0, lambda code, body: body.__setitem__(0, Instruction("load", 0, 7))),
        "tile 0: load of message 0 at address 7: 2 bytes are not within the buffer",
    ),
    "reading what is freed": (
        with_code(0, lambda code, body: body.insert(1, body.pop(3))),
        "tile 0: compute reads message 0, which is not in the buffer",
    ),
    "freeing twice": (
        with_code(0, lambda code, body: body.append(Instruction("free", 0))),
        "tile 0: free of message 0, which is not in the buffer",
    ),
    "never freed": (
        with_code(0, lambda code, body: code.pop()),
        "tile 0: messages [3] are never freed",
    ),
    "sent before it is made": (
        with_code(0, lambda code, body: swap(1, 2, body)),
        "tile 0: send of message 1 before any compute",
    ),
    "sent of another layer": (
        with_message(1, tensor="three"),
        "is of three, and the compute before is of one",
    ),
    "sent of other samples": (
        with_message(1, moves=((2, (0, 0, 0, 0)),)),
        "tile 0: send of message 1 is ((0, 2), (0, 1), (0, 1), (0, 1)) of one, and the compute before makes",
    ),
    "computed twice": (
        with_work(0, moves=((2, (0, 0, 0, 0)),)),
        "one: ((0, 2), (0, 1), (0, 1), (0, 1)) of its nest is computed 2 times",
    ),
    "half computed": (
        with_work(2, box=((0, 2), (0, 1), (0, 1), (0, 1))),
        "three: ((2, 4), (0, 1), (0, 1), (0, 1)) of its nest is computed 0 times",
    ),
    "beyond the nest": (with_work(2, box=((0, 5), (0, 1), (0, 1), (0, 1))), "is not within its nest"),
    "loaded and never stored": (
        with_message(3, after=()),
        "message 3: 4 elements of two, 0 are stored",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_programs(mistake: str) -> None:
    made, expected = WRONG[mistake]
    reasons = violations(made())
    assert reasons
    assert any(expected in reason for reason in reasons), reasons


def test_two_messages_at_the_same_bytes() -> None:
    """The third layer's data begins to arrive before the last data of the first one is freed."""
    repeat, fetch, *rest = pair().tiles[0]
    assert isinstance(repeat, Repeat)
    *body, free = repeat.body
    code = (*body, free, *body, fetch, free, *rest)
    reasons = violations(replace(pair(), tiles=(code, pair().tiles[1])))
    assert reasons == ["tile 0: load of message 3 at address 8, where message 0 is"]


def test_waiting_for_what_comes_later() -> None:
    """Tile 0 loads the second layer's outputs before it has sent what that layer reads."""
    code = list(pair().tiles[0])
    order = [code[1], Instruction("compute", work=2, reads=(3,)), code[3], code[4], code[0]]
    reasons = violations(replace(pair(), tiles=(tuple(order), pair().tiles[1])))
    assert any("waits for ever" in reason for reason in reasons), reasons
