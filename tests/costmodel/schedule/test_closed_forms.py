"""Schedules simple enough to be counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.hardware.chip import Chip
from costmodel.replay.replay import replay
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.starts import link_cycles
from costmodel.schedule.tree.data_flow import DataFlow
from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.tree.validity import NotPossibleError
from tests.costmodel.schedule.chip_cases import FormulaCosts, chain, chip, layer, of_widths
from tests.costmodel.schedule.tree.formulas import broken_formulas, node_attributes

ROOMY = chip(1, 1, dram=1_000_000, link=1_000_000)


def evaluate(text: str, graph: LayerGraph, on: Chip) -> ChipEvaluation:
    tree = parse_tree(text.replace("|", "\n").replace(">", "\t"))
    return ChipEvaluator(graph, on, tree.batch, FormulaCosts(graph)).evaluate(tree)


def test_one_leaf_on_one_tile() -> None:
    """4 x 4 filters on 4 x 4 positions of 4 channels, 3 samples; no links, one port."""
    found = evaluate("layer0 3", chain(1), chip(1, 1))
    macs, weights, data = 3 * 4 * 4 * 16, 16, 3 * 64
    assert found.dram_read_bytes == weights + data
    assert found.dram_write_bytes == data
    assert found.noc_hop_bytes == 0
    assert found.cycles == max(macs // 4, (weights + 2 * data) // 4)
    assert found.parts_pj == {
        "tiles": macs,
        "transfers": (weights + data) * 2.0,
        "noc": 0,
        "dram": (weights + data) * 60.0 + data * 70.0,
    }
    assert found.bubble_tile_cycles == found.cycles - macs // 4


def test_a_port_at_every_end_of_a_row_shares_what_a_tile_needs() -> None:
    """Two tiles in a row, both ports; half of every byte for a tile comes from the other tile's port."""
    graph = chain(1)
    found = evaluate("layer0 2", graph, chip(2, 1))
    picked = found.segments[0].leaf
    assert picked is not None
    weights = 16 if picked.placement.parts[0] > 1 else 32  # as many copies as the output channels are not cut
    inputs = 128 * (2 if picked.placement.parts[0] > 1 else 1)
    assert found.noc_hop_bytes == (weights + inputs + 128) / 2


def test_weights_are_loaded_again_for_every_batch_of_a_child_of_a_root_t_cut() -> None:
    """Section 3.3.1; a T cut below keeps them, and so does a root S cut for the whole batch."""
    graph, on = chain(2), chip(2, 1)
    activations = 8 * 64
    for subbatches in (1, 2, 8):
        samples = 8 // subbatches
        apart = evaluate(f"T 8/{subbatches}|>layer0 {samples}|>layer1 {samples}", graph, on)
        assert apart.dram_read_bytes == 2 * activations + subbatches * 2 * 16
        together = evaluate(f"T 8/1|>T 8/{subbatches}|>>layer0 {samples}|>>layer1 {samples}", graph, on)
        assert together.dram_read_bytes == activations + 2 * 16
        pipelined = evaluate(f"S 8/{subbatches}|>layer0 {samples}|>layer1 {samples}", graph, on)
        assert pipelined.dram_read_bytes == activations + 2 * 16


def test_weights_come_before_the_first_sub_batch() -> None:
    """Two layers in turn, one of four samples at a time; DRAM brings the weights once, before they are used.

    A sample takes each layer 64 cycles. The weights of a layer, 256 bytes, take 128 cycles at DRAM, twice as
    long as the layer before computes. Sharing them out among the four sub-batches would hide them. A replay
    of the schedule's program takes as many cycles, but for what its links need.
    """
    sizes: dict[str, Any] = {"k": 16, "c": 16, "h": 1, "w": 1, "input_h": 1, "input_w": 1}
    layers = layer("layer0", external_c=16, **sizes), layer("layer1", producers=(0,), **sizes)
    graph = LayerGraph("chain", layers)
    on = chip(1, 1, buffer=4096, dram=2, link=1_000_000)
    found = evaluate("T 4/1|>T 4/4|>>layer0 1|>>layer1 1", graph, on)
    weights, sample, each = 256 // 2, 16 // 2, 64
    assert found.cycles == (weights + sample) + (weights + each) + 3 * 2 * each == 712
    run = replay(write_program(graph, found))
    assert 0 <= run.cycles - found.cycles <= 2
    # a weight of a layer that runs once is fetched while the layer before computes, as well
    once = evaluate("T 4/1|>T 4/1|>>layer0 4|>>layer1 4", graph, on)
    assert once.cycles == (weights + 4 * sample) + 4 * each + 4 * each


@pytest.mark.parametrize("subbatches", [1, 2, 3, 6])
def test_two_leaves_in_a_pipeline(subbatches: int) -> None:
    samples = 6 // subbatches
    found = evaluate(
        f"S 6/{subbatches}|>layer0 {samples}|>layer1 {samples}", chain(2), chip(2, 1, dram=999, link=999)
    )
    each = samples * 4 * 4 * 16 // 4
    assert [child.cycles for child in found.segments[0].children] == [each, each]
    first_fetch = 1  # of less than 999 bytes
    assert found.cycles == first_fetch + (subbatches + 1) * each
    assert found.bubble_tile_cycles == 2 * found.cycles - 2 * subbatches * each


def test_a_leafs_time_is_that_of_the_busiest_link() -> None:
    """A row of 1 x 4 tiles with slow links: time follows the link, and a faster link is worth its factor."""
    graph = chain(1)
    slow, fast = (evaluate("layer0 4", graph, chip(4, 1, dram=9999, link=link)) for link in (1, 2))
    fetches = []
    for found, link in ((slow, 1), (fast, 2)):
        leaf = found.segments[0].leaf
        assert leaf is not None
        first, busiest = leaf.runs.first, int(leaf.links.max()) / 8 / 2
        assert first.link_cycles < -(-busiest // link) == link_cycles(found.chip, first.ahead + first.during)
        # Data comes before anything computes. Half of the outputs of three tiles, 64 bytes each, leave on one
        # link meanwhile.
        assert found.cycles == first.link_cycles + max(leaf.tile_cycles, 3 * 64 // 2 // link)
        fetches.append(first.link_cycles)
    assert fetches[0] == 2 * fetches[1]


@pytest.mark.parametrize("readers", [2, 3, 5])
def test_a_leaf_sends_to_all_its_readers_before_the_next_one_runs(readers: int) -> None:
    """Each of two tiles has half of the channels and sends its 4 bytes to the other, for each of the readers.

    Half of the weights of each layer, 16 bytes, cross the same link.
    """
    small: dict[str, Any] = {"c": 8, "k": 8, "h": 1, "w": 1}
    layers = [layer("layer0", external_c=8, **small)]
    layers += [layer(f"layer{number}", producers=(0,), **small) for number in range(1, readers + 1)]
    graph, on = LayerGraph("fan", tuple(layers)), chip(2, 1, dram=9999, link=1)
    nested = "".join(f"|>>>layer{number} 1" for number in range(1, readers + 1))
    found = evaluate(f"T 1/1|>T 1/1|>>layer0 1|>>T 1/1{nested}", graph, on)
    first, _ = found.segments[0].children
    assert first.leaf is not None
    assert first.runs is not None
    assert first.leaf.tile_cycles == 8
    assert first.runs.first.running == max(8, 4 * readers)
    # what comes first, what layer0 sends with the weights of layer1, and then the rest in turn
    assert found.cycles >= 16 + 4 + 4 * readers + 16 + 16 * (readers - 1) + 8
    assert found.cycles == pytest.approx(replay(write_program(graph, found)).cycles, abs=1)


def test_buffers_decide_what_fits() -> None:
    """Weights, inputs and outputs of two layers one after the other: next inputs arrive during a layer."""
    graph = chain(2)
    needed = 64 + 8 + 64 + 2 * 16  # inputs, stream, what layer0 sends to layer1, weights of both
    evaluate("T 2/1|>T 2/2|>>layer0 1|>>layer1 1", graph, chip(1, 1, needed))
    with pytest.raises(NotPossibleError, match=rf"hold {needed:,} bytes and has {needed - 1:,}"):
        evaluate("T 2/1|>T 2/2|>>layer0 1|>>layer1 1", graph, chip(1, 1, needed - 1))


def test_weights_used_once_need_not_be_there_together() -> None:
    graph = chain(4, k=4, c=4, h=1, w=1)
    once = 4 + 16 + 8 + 4 + 16  # inputs and weights of a layer and of the next, stream
    text = "T 1/1|>T 1/1|>>layer0 1|>>layer1 1|>>layer2 1|>>layer3 1"
    assert evaluate(text, graph, chip(1, 1, once)).segments[0].held.most == 8 * once
    # two sub-batches keep all four layers' weights
    twice = text.replace("T 1/1|>T 1/1", "T 2/1|>T 2/2")
    with pytest.raises(NotPossibleError, match=f"hold {4 + 8 + 4 + 4 * 16} bytes"):
        evaluate(twice, graph, chip(1, 1, once))


def test_nothing_fits_names_the_layer() -> None:
    with pytest.raises(NotPossibleError, match="layer0: no partition of 1 samples among 1 tiles"):
        evaluate("layer0 1", chain(1), chip(1, 1, 80))


def test_more_children_than_tiles() -> None:
    with pytest.raises(NotPossibleError, match="need 3 tiles side by side and have 2"):
        evaluate("S 1/1|>layer0 1|>layer1 1|>layer2 1", chain(3), chip(2, 1))


def test_nested_s_cuts_get_the_tiles_that_they_need() -> None:
    """By processing time alone the pair, of little work, would get one tile of four."""
    tiny: dict[str, Any] = {"k": 1, "h": 1, "w": 1, "input_h": 1, "input_w": 1}
    graph = LayerGraph(
        "uneven",
        (
            layer("big", external_c=4),
            layer("small", external_c=4, **tiny),
            layer("smaller", external_c=4, **tiny),
        ),
    )
    found = evaluate("S 1/1|>big 1|>S 1/1|>>small 1|>>smaller 1", graph, chip(2, 2))
    assert [child.tiles for child in found.segments[0].children] == [2, 2]


def test_tiles_and_batches_keep_the_papers_formulas() -> None:
    graph = chain(4)
    tree = parse_tree("S 6/1\n\tlayer0 6\n\tT 6/3\n\t\tS 2/2\n\t\t\tlayer1 1\n\t\t\tlayer2 1\n\t\tlayer3 2\n")
    found = ChipEvaluator(graph, chip(3, 2), 6, FormulaCosts(graph)).evaluate(tree)
    tiles = {i: (cost.first_tile, cost.first_tile + cost.tiles) for i, cost in enumerate(found.nodes())}
    nodes = node_attributes(DataFlow(tree, graph.producers), tiles)
    assert broken_formulas(nodes, frozenset(graph.producers), 6, 6) == []


def test_the_chart_ends_with_the_last_cycle() -> None:
    graph = chain(3)
    text = "T 4/2|>S 2/2|>>layer0 1|>>layer1 1|>layer2 2"
    found = evaluate(text, graph, chip(2, 1, dram=999, link=999))
    drawn = found.spatial_temporal(graph.producers)
    assert max(one.end for one in drawn) == found.cycles
    busy = sum((one.end_tile - one.first_tile) * (one.end - one.start) for one in drawn)
    # the box of a segment that is a leaf has its first fetch, too: a cycle of two tiles, in each round
    assert busy - 2 * 2 * 1 == 2 * found.cycles - found.bubble_tile_cycles


def test_an_evaluator_remembers_only_what_is_the_same() -> None:
    """One evaluator over many trees counts as a fresh one does."""
    graph, on = chain(3), chip(2, 1)
    known = ChipEvaluator(graph, on, 4, FormulaCosts(graph))
    for text in (
        "T 4/2|>S 2/2|>>layer0 1|>>layer1 1|>layer2 2",
        "T 4/4|>S 1/1|>>layer0 1|>>layer1 1|>layer2 1",
        "S 4/2|>layer0 2|>T 2/1|>>layer1 2|>>layer2 2",
        "T 4/1|>T 4/2|>>layer0 2|>>layer1 2|>layer2 4",
    ):
        fresh = evaluate(text, graph, on)
        again = known.evaluate(fresh.tree)
        assert (again.energy_pj, again.cycles, again.noc_hop_bytes) == (
            fresh.energy_pj, fresh.cycles, fresh.noc_hop_bytes,
        )  # fmt: skip


def test_a_tree_of_another_network_is_refused() -> None:
    with pytest.raises(InputError, match="no layer layer2"):
        evaluate("T 1/1|>layer0 1|>layer1 1|>layer2 1", chain(2), ROOMY)


def test_replay_counts_what_the_model_does_whatever_the_widths() -> None:
    """4-bit weights, activations of 12 bits: bits, hops and buffer peaks of a pipeline's program."""
    graph = chain(3)
    on = of_widths(chip(3, 1), 4, 12, 24)
    found = evaluate("S 4/4\n\tlayer0 1\n\tlayer1 1\n\tlayer2 1\n", graph, on)
    done = replay(write_program(graph, found))
    assert (done.dram_read_bits, done.dram_write_bits) == (found.dram_read_bits, found.dram_write_bits)
    assert done.dram_read_bits == 3 * 16 * 4 + 4 * 64 * 12
    assert done.hop_bytes == found.noc_hop_bytes
    (segment,) = found.segments
    assert int(done.peak_bits.max()) <= segment.held.most
    assert done.cycles <= found.cycles * 1.15
