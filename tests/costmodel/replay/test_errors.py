"""Programs that cannot run: the error names tile, instruction and message."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import pytest

from costmodel.errors import InputError
from costmodel.replay.replay import replay
from costmodel.replay.tables import ReplayOptions
from costmodel.schedule.program.program import Instruction, Message, Repeat
from tests.costmodel.replay.programs import (
    compute,
    free,
    load,
    message,
    program,
    receive,
    repeat,
    send,
    store,
    work,
)
from tests.costmodel.schedule.chip_cases import chip

PAIR = chip(2, 1, buffer=100)
IN, ACROSS, OUT = message(40, (), (0,)), message(40, (0,), (1,)), message(40, (0,), ())
BACK = message(40, (1,), (0,))


def refused(messages: list[Message], *tiles: Sequence[Instruction | Repeat], stream: int = 0) -> str:
    with pytest.raises(InputError) as error:
        replay(program(PAIR, messages, [work(3)], *tiles, stream=stream))
    return str(error.value)


def test_data_that_was_never_loaded_or_is_gone() -> None:
    said = refused([IN, IN], [load(1), compute(0, 0)])
    assert "tiles[0][1] (compute)" in said
    assert "message 0 (40 bytes of data[0:40], DRAM to tile 0), which was never loaded or received" in said
    said = refused([IN], [load(0), free(0), compute(0, 0)])
    assert "tiles[0][2] (compute)" in said
    assert "which was freed before" in said
    said = refused([IN], [repeat(2, load(0), free(0), free(0))])
    assert "tiles[0][0].body[2] (free)" in said


def test_data_over_other_data() -> None:
    said = refused([IN, IN], [load(0, 20), load(1, 59)])
    assert "tiles[0][1] (load)" in said
    assert "bytes 59 and following that are free" in said
    assert "message 0 (40 bytes of data[0:40], DRAM to tile 0) from byte 20 on" in said
    assert "message 0" in refused([IN, IN], [load(0, 40), load(1, 1)])
    assert replay(program(PAIR, [IN, IN], [], [load(0, 20), load(1, 60)])).peak_bytes == [80, 0]
    assert "a free of message 0" in refused([IN], [load(0), load(0, 40)])


def test_data_outside_of_the_buffer_or_where_outputs_leave() -> None:
    said = refused([IN], [load(0, 61)])
    assert "tiles[0][0] (load)" in said
    assert "within bytes 0 to 100 of the buffer, found 61 to 101" in said
    assert "within bytes 8 to 100" in refused([IN], [load(0, 7)], stream=8)


def test_messages_that_not_all_tiles_take_part_in() -> None:
    said = refused([ACROSS], [compute(0), send(0)], [])
    assert "tiles[1]: expected to take part in message 0 (40 bytes of data[0:40], tile 0 to tile 1)" in said
    assert "tile 0 sends it 1 times, found tile 1, which receives it 0 times" in said
    said = refused([ACROSS], [], [receive(0)])
    assert "tile 1 receives it 1 times, found tile 0, which sends it 0 times" in said


def test_a_deadlock_names_both_tiles() -> None:
    """Each tile's second compute waits until its outputs have left, which the other takes after its own."""
    one = [compute(0), send(0), compute(0), receive(1)]
    other = [compute(0), send(1), compute(0), receive(0)]
    said = refused([ACROSS, BACK], one, other)
    assert "tiles[0][2] (compute)" in said
    assert "message 0 (40 bytes of data[0:40], tile 0 to tile 1) to arrive" in said
    assert "Tile 1 has not received it, for at tiles[1][2] (compute) it waits for message 1" in said
    assert "2 of 2 tiles wait" in said
    said = refused([ACROSS, BACK], [receive(1), compute(0, 1), send(0)], [receive(0), compute(0, 0), send(1)])
    assert "tiles[0][1] (compute): expected message 1" in said
    assert "Tile 1 has not sent it, for at tiles[1][1] (compute) it waits for message 0" in said


def test_a_load_whose_store_comes_later_on_the_same_tile() -> None:
    again = message(40, (), (0,), after=(0,))
    said = refused([OUT, again], [load(1), compute(0, 1), store(0)])
    assert "tiles[0][1] (compute)" in said
    assert "It waits for the store of message 0" in said
    assert "tile 0 has not stored it, for at tiles[0][1] (compute) it waits for message 1" in said
    assert "numbers of messages to DRAM, found 0" in refused([IN, again], [load(1)])
    assert "found 0 stores" in refused([OUT, again], [load(1)])


def test_outputs_without_a_compute_or_twice() -> None:
    assert "no compute before it" in refused([OUT], [store(0)])
    said = refused([OUT], [compute(0), store(0), store(0)])
    assert "tiles[0][2] (store)" in said
    assert "twice" in said


@pytest.mark.parametrize(
    ("tile", "instruction", "said"),
    [
        (1, load(0), "a message that tile 1 can load, found message 0"),
        (0, receive(0), "a message that tile 0 can receive"),
        (0, load(1), "a message that tile 0 can load"),
        (1, free(0), "a message that tile 1 can free"),
        (1, send(1), "a message that tile 1 can send"),
        (1, store(2), "a message that tile 1 can store"),
        (0, load(3), "a message from 0 to 2, found 3"),
        (0, compute(1), "a work from 0 to 0, found 1"),
        (1, compute(0, 0), "to read messages to tile 1, found message 0"),
        (0, repeat(0), "at least 1 time"),
    ],
)
def test_instructions_that_do_not_fit(tile: int, instruction: Instruction | Repeat, said: str) -> None:
    tiles: list[list[Instruction | Repeat]] = [[], []]
    tiles[tile].append(instruction)
    assert said in refused([IN, ACROSS, OUT], *tiles)
    assert f"tiles[{tile}][0]" in refused([IN, ACROSS, OUT], *tiles)


@pytest.mark.parametrize(
    "wrong",
    [
        message(0, (), (0,)),
        message(4, (), ()),
        message(4, (0, 1), (0,)),
        message(4, (), (2,)),
        message(4, (), (0, 0)),
    ],
)
def test_messages_that_are_none(wrong: Message) -> None:
    assert "messages[0]" in refused([wrong])


def test_options_are_whole_numbers_in_range() -> None:
    with pytest.raises(InputError, match="packet_bytes"):
        ReplayOptions(packet_bytes=0)
    with pytest.raises(InputError, match="dram_latency"):
        ReplayOptions(dram_latency=-1)


def test_replay_shares_no_code_with_the_chip_model() -> None:
    """Of ours it imports itself, the values of programs, the hardware, the errors and the compiler."""
    root = Path(__file__).parents[3]
    values = ("costmodel.schedule.program.program.", "costmodel.hardware.", "costmodel.errors.")
    allowed = (*values, "costmodel.compiled.", "costmodel.replay.")
    ours = ("costmodel", "solvers", "clusters", "results", "sweep", "archsweep", "tests")
    files = sorted((root / "costmodel/replay").glob("*.py"))
    assert len(files) > 5
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [f"{alias.name}." for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}."]
            for name in names:
                assert name.split(".")[0] not in ours or name.startswith(allowed), (file.name, name)
