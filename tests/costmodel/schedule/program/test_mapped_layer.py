"""Programs of layers mapped on the whole chip, against the model's counts and element by element."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, product
from random import Random
from typing import Any

import numpy as np
import pytest

from costmodel.hardware.chip import Chip
from costmodel.hardware.whole_chip import counted_architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import LevelMapping, Mapping
from costmodel.replay.replay import replay
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.program.checker import violations
from costmodel.schedule.program.program import Box, Program, box_at
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.segment.buffers import Held
from costmodel.schedule.segment.node_cost import NodeCost
from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.tree.tree import Cut, Leaf
from costmodel.schedule.tree.validity import NotPossibleError
from costmodel.schedule.whole_chip.cost import WholeChipCost, streamed_layer_cost, whole_chip_cost
from costmodel.schedule.whole_chip.padding import padded_inputs
from tests.costmodel.schedule.chip_cases import FormulaCosts, chain, layer, mapped_chip, random_mapping
from tests.costmodel.schedule.program.program_counts import done, dram_bytes, link_bytes, peaks
from tests.thorough import how_many

ONE: dict[str, Any] = {"external_c": 4}
LAYERS = {
    "pixels": layer("one", h=2, w=3, input_h=2, input_w=3, **ONE),
    "rows": layer("one", h=6, w=1, r=3, pad_h=1, input_h=6, input_w=1, c=2, k=2, external_c=2),
    "strides": layer("one", h=4, w=2, r=3, stride_h=2, input_h=9, input_w=2, c=2, k=2, external_c=2),
    "padded": layer("one", h=4, w=4, r=3, s=3, pad_h=1, pad_w=1, c=2, k=2, external_c=2),
    "groups": layer("one", "groupconv", h=2, w=2, c=4, k=8, groups=2, **ONE),
    "depthwise": layer("one", "groupconv", h=4, w=2, r=3, c=4, k=4, groups=4, pad_h=1, input_w=2, **ONE),
    "products": layer("one", "fc", c=8, k=6, h=1, w=1, input_h=1, input_w=1, external_c=8),
}
TRIES = how_many(60, thorough=100)
"""Mappings that are drawn, of which many do not fit."""
CHIPS = [mapped_chip(2, 2, 96), mapped_chip(3, 2, 128, link=1, stream=0), mapped_chip(1, 2, 64, dram=9)]


def segment(on: Chip, leaf: Leaf, cost: WholeChipCost) -> NodeCost:
    nothing, held = np.zeros(on.tiles, np.int64), np.full(on.tiles, cost.held_bits)
    return NodeCost(
        leaf, 0, on.tiles, cost.cycles, cost.parts_pj, cost.dram_read_bits, cost.dram_write_bits,
        cost.tile_cycles, np.zeros(0, np.int64), Held((), nothing, nothing, held), whole_chip=cost,
    )  # fmt: skip


def program_of(
    graph: LayerGraph, on: Chip, costs: Sequence[WholeChipCost], batch: int, rounds: int = 1
) -> tuple[Program, ChipEvaluation]:
    """The program of layers that have the whole chip one after the other."""
    own = [Leaf(one.name, batch) for one in graph.layers]
    tree = own[0] if len(own) == rounds == 1 else Cut("T", batch * rounds, rounds, tuple(own))
    segments = tuple(segment(on, leaf, cost) for leaf, cost in zip(own, costs, strict=True))
    evaluation = ChipEvaluation(tree, on, rounds, segments, ())
    return write_program(graph, evaluation), evaluation


def drawn(on: Chip, one: NetworkLayer, batch: int, random: Random, count: int) -> Iterator[WholeChipCost]:
    """Costs by random mappings that keep everything in buffers, beside the outputs on their way out."""
    whole, nest = counted_architecture(on), one.nest(batch)
    assert whole is not None
    usable = on.tile.buffer.size_bytes - on.tile.output_stream_bytes
    for _ in range(count):
        mapping = random_mapping(random, whole, nest)
        if mapping is None or len(mapping.levels[-2].keep) < len(nest.tensors):
            continue
        if sum(tensor.words(mapping.tiles[-2]) for tensor in nest.tensors) > usable:
            continue
        axes = [set(dict(axis)) for axis in nest.tensor("Inputs").terms]
        loops = {dim for dim, _ in mapping.levels[-1].temporal}
        # of two loops along one axis Timeloop counts other words than any order of steps fetches
        if max(len(loops & axis) for axis in axes) < 2:
            yield whole_chip_cost(on, nest, mapping, padded_inputs(one))


def equal(program: Program, evaluation: ChipEvaluation) -> None:
    """The program can run, and moves the bytes that the model counts."""
    assert violations(program) == []
    assert dram_bytes(program) == (evaluation.dram_read_bytes, evaluation.dram_write_bytes)
    assert float(sum(link_bytes(program).values())) == pytest.approx(evaluation.noc_hop_bytes, rel=1e-12)
    found = replay(program)
    assert (found.dram_read_bytes, found.dram_write_bytes) == dram_bytes(program)
    assert found.hop_bytes == pytest.approx(evaluation.noc_hop_bytes, rel=1e-12)
    assert 8 * max(found.peak_bytes) <= max(one.held.most for one in evaluation.segments)
    assert max(peaks(program)) + program.output_stream_bytes == max(found.peak_bytes)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_random_mappings(name: str) -> None:
    """With loops of DRAM in any order; batches in rounds; more of a step than the buffer holds twice."""
    one, random, programs, again, parts = LAYERS[name], Random(name), 0, 0, 0
    graph = LayerGraph("one", (one,))
    for on, batch, rounds in zip(CHIPS, (4, 2, 3), (1, 2, 1), strict=True):
        for cost in drawn(on, one, batch, random, TRIES):
            try:
                program, evaluation = program_of(graph, on, [cost], batch, rounds)
            except NotPossibleError:
                # parts of the channels of several groups at a time are no boxes
                parts += 1
                continue
            equal(program, evaluation)
            assert replay(program).operations == batch * rounds * one.operations
            again += any(message.after for message in program.messages)
            programs += 1
    assert programs >= how_many(2, thorough=5)
    assert again > how_many(0, thorough=3)  # partial sums come back
    assert parts == 0 or name == "groups"


def needed(one: NetworkLayer, box: Box) -> set[tuple[Any, ...]]:
    """The elements that a box of the nest reads, in the axes of messages."""
    samples, channels, rows, columns, of_group, window_rows, window_columns = (range(*ends) for ends in box)
    found: set[tuple[Any, ...]] = set()
    for k, c, r, s in product(channels, of_group, window_rows, window_columns):
        found.add(("one.weights", k, c, r, s))
        channel = k // one.group_k * one.group_c + c
        for n, p, q in product(samples, rows, columns):
            y, x = p * one.stride_h + r - one.pad_h, q * one.stride_w + s - one.pad_w
            if 0 <= y < one.input_h and 0 <= x < one.input_w:
                found.add(("one.input", n, channel, y, x))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_a_compute_has_what_it_needs_and_outputs_leave_complete(name: str) -> None:
    one, random, computes = LAYERS[name], Random(name), 0
    graph, on, batch = LayerGraph("one", (one,)), CHIPS[0], 4
    whole = one.r * one.s * one.group_c
    for cost in drawn(on, one, batch, random, TRIES):
        try:
            program, _ = program_of(graph, on, [cost], batch)
        except NotPossibleError:
            continue
        stored: Counter[tuple[int, ...]] = Counter()
        for tile, code in enumerate(program.tiles):
            arrived, works, left = Counter[int](), Counter[int](), Counter[int]()
            summed: Counter[tuple[int, ...]] = Counter()
            for item in done(code):
                if item.operation == "load":
                    arrived[item.message] += 1
                elif item.operation == "compute":
                    work = program.works[item.work]
                    box = box_at(work.box, work.moves, works[item.work])
                    works[item.work] += 1
                    has = set[tuple[Any, ...]]()
                    for number in item.reads:
                        message = program.messages[number]
                        at = box_at(message.box, message.moves, arrived[number] - 1)
                        has.update((message.tensor, *of) for of in product(*(range(*ends) for ends in at)))
                    assert needed(one, box) <= has
                    for n, k, p, q, *_ in product(*(range(*ends) for ends in box)):
                        summed[n, k, p, q] += 1
                    computes += 1
                elif item.operation == "store":
                    message = program.messages[item.message]
                    at = box_at(message.box, message.moves, left[item.message])
                    left[item.message] += 1
                    for of in product(*(range(*ends) for ends in at)):
                        stored[of] += summed.pop(of)
            assert not summed, f"tile {tile} keeps outputs"
        # what tiles and visits have added to each output is all of its products
        assert set(stored.values()) == {whole}
        assert len(stored) == batch * one.k * one.h * one.w
    assert computes > how_many(20, thorough=50)


def one_by_one(loops: tuple[tuple[str, int], ...], on: Chip) -> tuple[Program, ChipEvaluation]:
    """A layer of 8 x 8 channels and 16 samples on one tile with these loops of DRAM."""
    one = layer("one", "fc", c=8, k=8, h=1, w=1, input_h=1, input_w=1, external_c=8)
    inside = {dim: size // dict(loops).get(dim, 1) for dim, size in (("K", 8), ("C", 8), ("N", 16))}
    everything = frozenset(("Weights", "Inputs", "Outputs"))
    buffer = LevelMapping(tuple((dim, size) for dim, size in inside.items() if size > 1), (), (), everything)
    registers = LevelMapping((), (), (), frozenset())
    mapping = Mapping((registers, buffer, LevelMapping(loops, (), (), everything)))
    cost = whole_chip_cost(on, one.nest(16), mapping)
    return program_of(LayerGraph("one", (one,)), on, [cost], 16)


def test_a_loop_is_repeated_and_its_data_takes_turns() -> None:
    """Sixteen samples in sixteen steps: messages of two steps, and a repetition."""
    on = mapped_chip(1, 1, 1 << 10, stream=0)
    program, evaluation = one_by_one((("N", 16),), on)
    equal(program, evaluation)
    assert len(program.messages) == 1 + 2 + 2
    assert len(program.works) == 2
    assert sum(1 for item in program.tiles[0] if hasattr(item, "times")) == 1


def test_a_step_is_cut_where_the_buffer_does_not_hold_two() -> None:
    """A column of weights takes the place of the one before as soon as that is done with."""
    # 64 bytes of inputs, 8 x 4 weights and 16 x 4 outputs are a step's; the second's weights come one by one
    large, small = (mapped_chip(1, 1, size, stream=0, dram=1) for size in (1 << 10, 230))
    wide, narrow = (one_by_one((("K", 2),), on) for on in (large, small))
    for program, evaluation in (wide, narrow):
        equal(program, evaluation)
    assert len(narrow[0].works) > len(wide[0].works) == 2
    assert max(replay(narrow[0]).peak_bytes) == 224
    # the next step's data still comes while this one computes, and the first part waits for less
    assert replay(narrow[0]).cycles < replay(wide[0]).cycles


@pytest.mark.slow
def test_streamed_layers() -> None:
    """Pooling by planes and by rows, with windows that overlap, and sums of two operands."""
    pool = layer("one", "pool", c=6, k=6, h=4, w=4, r=3, s=3, stride_h=2, stride_w=2, input_h=9, input_w=9,
                 external_c=6)  # fmt: skip
    padded = layer("one", "pool", c=6, k=6, h=4, w=4, r=3, s=3, pad_h=1, pad_w=1, external_c=6)
    both = layer("one", "eltwise", c=12, k=6, external_c=12)
    rows = 0
    for one, buffer, batch in product((pool, padded, both), (70, 200, 1 << 12), (1, 3)):
        for on in (mapped_chip(2, 2, buffer), mapped_chip(5, 3, buffer)):
            cost = streamed_layer_cost(on, one, batch)
            if cost is None:
                continue
            program, evaluation = program_of(LayerGraph("one", (one,)), on, [cost], batch, 2)
            equal(program, evaluation)
            assert replay(program).operations == 2 * batch * one.operations
            rows += any(work.box[2] != (0, one.h) for work in program.works)
    assert rows >= 4


@pytest.mark.slow
def test_layers_hand_on_their_outputs_through_dram() -> None:
    """A layer waits for the last visit of partial sums, wherever its own loops begin."""
    random, programs = Random(5), 0
    first = layer("first", h=4, w=2, input_w=2, **ONE)
    second = layer("second", r=3, h=4, w=2, input_w=2, pad_h=1, producers=(0,))
    graph, on = LayerGraph("two", (first, second)), CHIPS[1]
    for costs in islice(zip(*(drawn(on, one, 2, random, 100) for one in graph.layers), strict=False), 8):
        program, evaluation = program_of(graph, on, costs, 2, 2)
        equal(program, evaluation)
        programs += 1
    assert programs > 5


@pytest.mark.slow
def test_a_layer_on_the_whole_chip_among_others() -> None:
    """In two rounds, between segments whose weights are pinned."""
    graph, on = chain(4), mapped_chip(2, 2, 256)
    tree = parse_tree("T 4/2\n\tlayer0 2\n\tlayer1 2\n\tlayer2 2\n\tlayer3 2\n")
    pinned = ChipEvaluator(graph, on, 4, FormulaCosts(graph)).evaluate(tree)
    costs = list(islice(drawn(on, graph.layers[1], 2, Random(3), 100), 5))
    assert len(costs) == 5
    for cost in costs:
        first, _, *others = pinned.segments
        segments = first, segment(on, Leaf("layer1", 2), cost), *others
        evaluation = replace(pinned, segments=segments, transitions=())
        program = write_program(graph, evaluation)
        assert violations(program) == []
        assert dram_bytes(program) == (evaluation.dram_read_bytes, evaluation.dram_write_bytes)
        assert replay(program).hop_bytes == pytest.approx(evaluation.noc_hop_bytes, rel=1e-12)


def test_padded_dims_and_what_cannot_be_written() -> None:
    on, one = CHIPS[0], LAYERS["products"]
    graph, nest = LayerGraph("one", (one,)), one.nest(2)
    whole = counted_architecture(on)
    assert whole is not None
    bypassed = next(
        mapping
        for mapping in (random_mapping(Random(seed), whole, nest) for seed in range(100))
        if mapping is not None and len(mapping.levels[-2].keep) < 3
    )
    cost = whole_chip_cost(on, nest, bypassed)
    assert evaluate(whole, nest, bypassed).levels[-1].tensors
    with pytest.raises(NotPossibleError, match="do not keep"):
        program_of(graph, on, [cost], 2)
    (cost, *_) = drawn(on, one, 2, Random(1), 100)
    small = replace(on, tile=replace(on.tile, buffer=replace(on.tile.buffer, size_bytes=12)))
    with pytest.raises(NotPossibleError, match="of a buffer are beside"):
        program_of(graph, small, [cost], 2)
