"""Directives: Listing 1 of the paper, text and back, counts against running the updates by hand."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.formats.directives.counts import (
    Transfers,
    accesses,
    cycles,
    iterations,
    parallelism,
)
from costmodel.formats.directives.pipeline import mismatches
from costmodel.formats.directives.text import format_layers, parse_layers
from costmodel.formats.directives.values import (
    LayerScheme,
    LevelScheme,
    Stack,
    TensorTile,
    Update,
)

LISTING_1 = """\
CONV:
  REGF:
    tensor{0}(N=1, C=2, Xi=5, Yi=1)
    tensor{w1}(C=2, K=3, R=5, S=1)
    tensor{1}(N=1, K=3, Xo=1, Yo=1)
    stack(Yi+=1, Yo+=1, 8) % PE columns
    stack(S+=1, Yi+=1, 5) % PE rows
    update(Xi+=1, Xo+=1) % 1D conv
    update(Yi+=8, Yo+=8) % folding
    update(N+=1)
    update(C+=2)
    update(K+=3)
  GBUF:
    tensor{0}(N=4, C=4, Xi=19, Yi=19, shr=4)
    tensor{w1}(C=4, K=6, R=5, S=5)
    tensor{1}(N=4, K=6, Xo=15, Yo=15)
    stack(K+=6, 4) % output node parallel
    stack(N+=4, 16) % batch node parallel
    update(C+=4)
    update(K+=24)
    update(N+=64)
DWCONV:
  REGF:
  % ...
  GBUF:
    % DWCONV input is the same as CONV output
    tensor{1}(N=4, C=4, Xi=9, Yi=15)
    tensor{w2}(C=4, R=3, S=3)
    tensor{2}(N=4, C=4, Xo=4, Yo=7)
    stack(C+=4, 6) % channel node parallel
    stack(N+=4, 16) % batch node parallel
    stack(Xo+=4, 2) % output width node parallel
    update(Yo+=7)
    update(C+=24)
    update(N+=64)
"""
DRAM = """\
  DRAM:
    tensor{0}(N=64, C=16, Xi=19, Yi=19)
    tensor{w1}(C=16, K=48, R=5, S=5)
    tensor{1}(N=64, K=48, Xo=15, Yo=15)
"""
CONV, DWCONV = parse_layers(LISTING_1)


def test_listing_1_sizes_and_parallelism() -> None:
    registers, buffer = CONV.levels
    assert [tensor.words for tensor in registers.tensors] == [10, 30, 3]
    assert registers.held_words == 43
    assert (registers.parallelism, buffer.parallelism, parallelism(CONV)) == (40, 64, 2560)
    assert buffer.tensor("0").held_words == 4 * 4 * 19 * 19 // 4
    assert DWCONV.level("GBUF").parallelism == 12 * 16
    assert CONV.level("GBUF").tensor("1").output
    assert not CONV.level("GBUF").tensor("0").output


def test_listing_1_iterations() -> None:
    """15 elements of a row, 15 rows in folds of 8, four samples, 4 / 2 and 6 / 3 channels."""
    assert iterations(*CONV.levels) == (15, 2, 4, 2, 2)
    (whole,) = parse_layers(LISTING_1.split("DWCONV")[0] + DRAM)
    assert iterations(*whole.levels[1:]) == (4, 2, 1)
    assert cycles(whole) == 15 * 2 * 4 * 2 * 2 * 4 * 2


def test_an_output_row_is_45_words() -> None:
    """The paper's example: 15 updates that do not overlap, of 3 words each."""
    text = LISTING_1.split("DWCONV")[0]
    for old, new in (("Yo=15", "Yo=8"), ("Yi=19", "Yi=12"), ("N=4", "N=1"), ("K=6", "K=3"), ("C=4", "C=2")):
        text = text.replace(old, new)
    (row,) = parse_layers(text)
    assert iterations(*row.levels) == (15, 1, 1, 1, 1)
    assert accesses(row, "REGF")["1"].drained == 45


def test_listing_1_accesses() -> None:
    """By hand: windows of inputs slide by a column; diagonals of 8 + 5 - 1 rows are sent once."""
    found = accesses(CONV, "REGF")
    rows = 2 * 4 * 2 * 2  # folds, samples, channels of inputs and outputs
    assert found["0"].filled == (10 + 14 * 2) * rows
    assert found["0"].next_reads == found["0"].filled * 12
    assert found["w1"].filled == 30 * 2 * 2
    assert found["w1"].next_reads == found["w1"].filled * 5
    assert found["1"].drained == 3 * 15 * rows
    # the first pass over the two parts of C needs no reading: half of the accesses
    assert found["1"].filled == 3 * 15 * rows // 2
    assert found["1"].next_writes == found["1"].drained * 8


def test_listing_1_is_a_pipeline() -> None:
    assert list(mismatches(CONV, DWCONV, "1")) == []
    (wider,) = parse_layers("DWCONV:" + LISTING_1.split("DWCONV:")[1].replace("C+=24", "C+=48"))
    (reason,) = mismatches(CONV, wider, "1")
    assert reason == "CONV updates channels by 24, samples by 64, DWCONV channels by 48, samples by 64"
    (fewer,) = parse_layers("DWCONV:" + LISTING_1.split("DWCONV:")[1].replace("C+=4, 6", "C+=4, 3"))
    assert "makes 24 of channels at a time, DWCONV takes 12" in next(mismatches(CONV, fewer, "1"))
    with pytest.raises(InputError, match="a tensor that it computes"):
        list(mismatches(CONV, DWCONV, "w1"))


def test_text_and_back() -> None:
    text = format_layers((CONV, DWCONV))
    assert parse_layers(text) == (CONV, DWCONV)
    bare = [line.partition("%")[0].strip() for line in LISTING_1.splitlines()]
    kept = [line for line in bare if line]
    kept.remove("REGF:")  # the second layer's is left out
    assert [line.strip() for line in text.splitlines()].count("REGF:") == 1
    assert sorted(line.strip() for line in text.splitlines()) == sorted(kept)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("update(C+=2)", "updat(C+=2)", r"line 11: expected tensor\{NAME\}.*Did you mean update"),
        ("stack(K+=6, 4)", "stack(K+=6)", "line 17: repl: expected how many buffers"),
        ("tensor{w1}(C=2", "tensor{w1}(C=two", "line 4: expected a whole number, found C=two"),
        ("tensor{0}(N=4", "tensor{0}(N=0", r"line 14: tensor\{0\}: N: expected a whole number from 1 to"),
        ("update(K+=3)", "update(K+=3, K+=3)", "every dim once"),
        ("stack(K+=6, 4)", "stack(K+=6, 4000000)", "repl: expected a whole number from 1 to 1048576"),
        ("stack(K+=6, 4)", "stack(K+=6, 400000)", "level GBUF: stack: expected a whole number from 1 to"),
        ("CONV:\n  REGF:", "REGF:\n  REGF:", "line 1: expected a layer's name before its levels"),
        ("tensor{w1}(C=4, K=6", "tensor{w1}(C=8, K=6", r"level GBUF.*C=4 as in the level's other tensors"),
        ("tensor{0}(N=1, C=2, Xi=5", "tensor{0}(N=1, Xi=5", r"\('N', 'Xi', 'Yi'\) at GBUF, as at REGF"),
    ],
)
def test_wrong_text_is_named(old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_layers(LISTING_1.replace(old, new, 1))


def test_a_text_without_layers() -> None:
    for text in ("", "% nothing", "CONV:"):
        with pytest.raises(InputError, match=r"expected (a layer|levels)"):
            parse_layers(text)


def test_updates_must_cover_the_next_level() -> None:
    with pytest.raises(InputError, match="cover K=6 of GBUF, found 3"):
        iterations(*parse_layers(LISTING_1.replace("    update(K+=3)\n", ""))[0].levels)
    with pytest.raises(InputError, match="dims that end together"):
        iterations(*parse_layers(LISTING_1.replace("update(N+=1)", "update(N+=1, C+=1)"))[0].levels)
    with pytest.raises(InputError, match="a level outside GBUF"):
        accesses(CONV, "GBUF")


# --- sharing and forwarding


def layer_of(level: LevelScheme, outer: LevelScheme, inner: LevelScheme | None = None) -> LayerScheme:
    return LayerScheme("l", tuple(one for one in (inner, level, outer) if one))


def test_shared_inputs_are_read_once_and_sent_around() -> None:
    """Four nodes for four parts of K share inputs: each holds a quarter, reads it, passes it on thrice."""
    inputs, weights = (("N", 2), ("C", 8)), (("C", 8), ("K", 3))
    inner = LevelScheme(
        "REGF",
        (
            TensorTile("i", (("N", 1), ("C", 8))),
            TensorTile("w", (("C", 8), ("K", 1))),
            TensorTile("o", (("N", 1), ("K", 1)), output=True),
        ),
        updates=(Update((("N", 1),)), Update((("K", 1),))),
    )
    tiles = (TensorTile("w", weights), TensorTile("o", (("N", 2), ("K", 3)), output=True))
    outer = LevelScheme(
        "DRAM",
        (
            TensorTile("i", (("N", 6), ("C", 8))),
            TensorTile("w", (("C", 8), ("K", 12))),
            TensorTile("o", (("N", 6), ("K", 12)), output=True),
        ),
    )

    def gbuf(shared: int) -> LevelScheme:
        stack, updates = (Stack((("K", 3),), 4),), (Update((("N", 2),)),)
        return LevelScheme("GBUF", (TensorTile("i", inputs, shared), *tiles), stack, updates)

    alone, shared = (accesses(layer_of(gbuf(s), outer, inner), "GBUF") for s in (1, 4))
    assert (alone["i"].held, shared["i"].held) == (16, 4)
    assert alone["i"].next_reads == shared["i"].next_reads == 48  # a broadcast reads once, too
    # K starts over with the inputs three times, the six samples come once: 3 rounds of 3 steps of 48 words
    assert shared["i"].passed == 48 * 3 * 3
    apart = Transfers(broadcast=False)
    alone, shared = (accesses(layer_of(gbuf(s), outer, inner), "GBUF", apart) for s in (1, 4))
    assert (alone["i"].next_reads, shared["i"].next_reads) == (4 * 48, 48)
    with pytest.raises(InputError, match="shr: expected a divisor of the 4 buffers"):
        accesses(layer_of(gbuf(3), outer, inner), "GBUF")


def test_one_round_of_a_broadcast_needs_no_passing() -> None:
    inner = LevelScheme("REGF", (TensorTile("i", (("C", 1),)),), updates=(Update((("C", 1),)),))
    level = LevelScheme("GBUF", (TensorTile("i", (("C", 8),), 2),), (Stack((), 2),))
    outer = LevelScheme("DRAM", (TensorTile("i", (("C", 8),)),))
    scheme = layer_of(level, outer, inner)
    assert accesses(scheme, "GBUF")["i"].passed == 0
    assert accesses(scheme, "GBUF", Transfers(broadcast=False))["i"].passed == 8


def test_a_systolic_row_takes_from_its_neighbours() -> None:
    """Five PEs, each a word of a row on from the one before, slide by one: a word a step enters the row."""
    level = LevelScheme(
        "REGF",
        (TensorTile("i", (("Xi", 1),)), TensorTile("o", (("Xo", 1),), output=True)),
        (Stack((("Xi", 1), ("Xo", 1)), 5),),
        (Update((("Xi", 1), ("Xo", 1))),),
    )
    outer = LevelScheme("GBUF", (TensorTile("i", (("Xi", 20),)), TensorTile("o", (("Xo", 20),), output=True)))
    apart, joined = (
        accesses(layer_of(level, outer), "REGF", Transfers(forward=f))["i"] for f in (False, True)
    )
    assert apart.next_reads == 5 * 16
    assert joined.next_reads == 20
    assert joined.passed == 5 * 16 - 20


# --- counts, by running the updates

SIZES = st.integers(1, 4)


@given(st.lists(st.tuples(SIZES, st.integers(1, 2), st.booleans()), min_size=1, max_size=4), SIZES, SIZES)
def test_what_a_buffer_takes_is_what_it_did_not_hold(
    updates: list[tuple[int, int, bool]], width: int, height: int
) -> None:
    """A set may keep, by chance, what a wrapped update comes back to: it takes that or fewer.

    With two iterations each, as the cost model looks at.
    """
    from costmodel.formats.directives.counts import _Move, brought_words

    moves = [_Move((step, 0) if on_x else (0, step), trips) for step, trips, on_x in updates]
    region = (frozenset(range(width)), frozenset(range(height)))
    held: set[tuple[int, int]] = set()
    taken = 0
    for numbers in product(*(range(move.trips) for move in reversed(moves))):
        x, y = (
            sum(number * move.distance[axis] for number, move in zip(numbers, reversed(moves), strict=True))
            for axis in (0, 1)
        )
        now = {(x + i, y + j) for i in range(width) for j in range(height)}
        taken += len(now - held)
        held = now
    counted = brought_words(region, moves)
    assert taken <= counted <= width * height * prod(move.trips for move in moves)
    if len([move for move in moves if move.trips > 1]) < 2:
        assert counted == taken


@given(SIZES, st.integers(1, 6), SIZES)
def test_a_window_takes_what_it_slides_over(step: int, trips: int, width: int) -> None:
    from costmodel.formats.directives.counts import _Move, brought_words

    reached = {step * number + position for number in range(trips) for position in range(width)}
    assert brought_words((frozenset(range(width)),), [_Move((step,), trips)]) == len(reached)
