"""Chips of elements of any width: KAPLA's 16-bit words said as what they are, and layers by their tensors."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from costmodel.errors import InputError
from costmodel.formats.chips import load_chip
from costmodel.hardware.architecture import Architecture
from costmodel.hardware.chip import Chip, Dram, Noc, TileBuffer
from costmodel.hardware.whole_chip import counted_architecture, whole_architecture
from costmodel.hardware.widths import BYTES, Widths, in_bytes, whole_bytes
from costmodel.mapping.evaluate import evaluate
from costmodel.replay.replay import replay
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.training import training_graph
from costmodel.schedule.tree.tree import TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from costmodel.schedule.whole_chip.cost import whole_chip_cost
from costmodel.workload.network import convolution
from tests.costmodel.schedule.chip_cases import (
    MappedCosts,
    every_kind,
    layer,
    mapped_chip,
    of_widths,
    random_mapping,
    random_segments,
    strided,
)
from tests.costmodel.schedule.program.program_counts import written
from tests.thorough import also, how_many


def forged(true: Chip) -> Chip:
    """A chip of 16-bit words in which every word is called a byte, as the library had KAPLA's chips."""
    tile, buffer = true.tile, true.tile.buffer
    assert tile.architecture is not None
    levels = tuple(replace(level, word_bits=8) for level in tile.architecture.levels)
    size = TileBuffer(buffer.size_bytes // 2, 2 * buffer.read_pj_per_byte, 2 * buffer.write_pj_per_byte)
    dram = true.dram
    return replace(
        true,
        tile=replace(tile, buffer=size, architecture=replace(tile.architecture, levels=levels), widths=BYTES),
        noc=Noc(true.noc.link_bytes_per_cycle // 2, 2 * true.noc.hop_pj_per_byte),
        dram=Dram(dram.bytes_per_cycle // 2, 2 * dram.read_pj_per_byte, 2 * dram.write_pj_per_byte),
    )


def without_word_bits(stack: Architecture | None) -> Architecture:
    assert stack is not None
    return replace(stack, levels=tuple(replace(level, word_bits=8) for level in stack.levels))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kapla-16x16-paper", *also("kapla-16x16-released")])
@pytest.mark.parametrize(
    "graph", [every_kind(), strided(), training_graph(strided())], ids=lambda one: one.name
)
def test_words_said_truly_count_as_those_forged_as_bytes(name: str, graph: object) -> None:
    """Random trees, on tiles and mapped on the whole chip: equal energies and cycles, twice the bytes."""
    true = load_chip(name, {"mesh": [3, 2], "stripe": 2, "tile.buffer.size": "600 words"})
    bytes_ = forged(true)
    assert true.tile.widths == Widths(16, 16, 16)
    for stack in (counted_architecture, whole_architecture):
        assert without_word_bits(stack(true)) == without_word_bits(stack(bytes_))
    random, compared, mapped = Random(0), 0, 0
    for _ in range(how_many(20, thorough=60)):
        seed, tree = random.random(), random_segments(random, graph, 4)  # type: ignore[arg-type]
        found, other = (_evaluated(graph, on, tree, seed) for on in (true, bytes_))
        if isinstance(found, str) or isinstance(other, str):
            assert isinstance(found, str) == isinstance(other, str)
            continue
        assert (found.energy_pj, found.cycles, found.parts_pj) == (
            other.energy_pj,
            other.cycles,
            other.parts_pj,
        )
        assert (found.dram_read_bytes, found.dram_write_bytes, found.noc_hop_bytes) == (
            2 * other.dram_read_bytes, 2 * other.dram_write_bytes, 2 * other.noc_hop_bytes,
        )  # fmt: skip
        compared += 1
        mapped += sum(segment.whole_chip is not None for segment in found.segments)
    assert compared > how_many(2, thorough=8)
    assert mapped > how_many(2, thorough=8)


def _evaluated(graph: object, on: Chip, tree: TreeNode, seed: float) -> ChipEvaluation | str:
    costs = MappedCosts(graph, on, Random(seed))  # type: ignore[arg-type]
    try:
        return ChipEvaluator(graph, on, 4, costs).evaluate(tree)  # type: ignore[arg-type]
    except NotPossibleError as reason:
        return str(reason)


def test_tensors_of_layers_have_the_widths_of_what_they_are() -> None:
    widths, plain = Widths(weights=4, activations=8, partial_sums=24), layer("plain", external_c=4)
    assert ElementBits.of(plain, widths) == ElementBits.of_parameters(widths) == (4, 8, 8, 24)
    graph = every_kind()
    of_activations = next(one for one in graph.layers if one.weight_producers)
    assert ElementBits.of(of_activations, widths) == (8, 8, 8, 24)
    # errors come in place of the weights, and the gradient of weights in place of the outputs
    update = next(one for one in training_graph(strided()).layers if one.part == "update")
    assert ElementBits.of(update, widths) == (8, 8, 4, 24)


def test_what_no_chip_can_have_is_refused() -> None:
    for values, said in (
        ((0, 8, 8), "weights"),
        ((8, 2048, 2048), "activations"),
        ((8, 8, 7), "partial_sums"),
    ):
        with pytest.raises(InputError, match=said):
            Widths(*values)
    with pytest.raises(InputError, match="at least a word of buffer, 32 bits"):
        counted_architecture(of_widths(mapped_chip(1, 1, 3, stream=0), 8, 8, 32))


def test_bits_in_bytes() -> None:
    assert [in_bytes(bits) for bits in (8, 12, 1)] == [1, 1.5, 0.125]
    assert [whole_bytes(bits) for bits in (0, 8, 12, 1)] == [0, 1, 2, 1]


@pytest.mark.slow
def test_one_tile_moves_each_tensor_with_its_bits() -> None:
    """Mixed widths on one tile: what ``evaluate`` counts of each tensor at DRAM, times its bits.

    Of outputs, what is read are partial sums, and as many of those written are not complete.
    """
    random, spilled = Random(3), 0
    for weights, activations, sums in ((4, 8, 32), (16, 8, 24), (2, 4, 4)):
        on = of_widths(mapped_chip(1, 1, 4096), weights, activations, sums)
        stack, nest = counted_architecture(on), convolution("one", N=2, K=4, C=6, P=3, Q=2, R=2, S=1)
        assert stack is not None
        for _ in range(40):
            if (mapping := random_mapping(random, stack, nest)) is None:
                continue
            found, dram = (
                whole_chip_cost(on, nest, mapping),
                evaluate(stack, nest, mapping).levels[-1].tensors,
            )
            outputs = dram["Outputs"]
            assert found.dram_read_bits == (
                weights * dram["Weights"].reads + activations * dram["Inputs"].reads + sums * outputs.reads
            )
            complete = nest.tensor("Outputs").words(nest.sizes)
            assert outputs.updates - outputs.reads == complete
            assert found.dram_write_bits == activations * complete + sums * outputs.reads
            spilled += outputs.reads > 0
    assert spilled > 10


@pytest.mark.slow
def test_replays_of_random_programs_count_the_same_bits() -> None:
    """Trees on chips of bytes, of 5 bits, and of 4-bit weights with activations of 12 bits."""
    replayed: set[Widths] = set()
    for seed in range(15):
        if (found := written(every_kind(), seed)) is None:
            continue
        program, evaluation = found
        done = replay(program)
        assert (done.dram_read_bits, done.dram_write_bits) == (
            evaluation.dram_read_bits, evaluation.dram_write_bits,
        )  # fmt: skip
        assert done.hop_bytes == pytest.approx(evaluation.noc_hop_bytes, rel=1e-12)
        assert done.peak_bits.max() <= evaluation.chip.tile.buffer.size_bits
        replayed.add(program.chip.tile.widths)
    assert len(replayed) == 3
