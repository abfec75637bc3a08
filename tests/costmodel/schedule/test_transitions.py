"""Segments that overlap: what they save, what forbids it, and the same in replays of their programs."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from random import Random

import numpy as np
import pytest

from costmodel.hardware.chip import Chip
from costmodel.replay.replay import Replay, replay
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.program.checker import violations
from costmodel.schedule.program.program import Program
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.tile_cost import TileRows
from costmodel.schedule.transitions import Beginning, Transition
from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.tree.validity import NotPossibleError
from tests.costmodel.schedule.chip_cases import (
    FormulaCosts,
    MappedCosts,
    chain,
    chip,
    every_kind,
    layer,
    mapped_chip,
    random_segments,
    random_tree,
    strided,
)
from tests.costmodel.schedule.chip_counts import Counts, outputs

TURNS = "T 4/1\n\tT 4/2\n\t\tlayer0 2\n\tT 4/2\n\t\tlayer1 2\n\tT 4/2\n\t\tlayer2 2\n"
"""Three layers in turn, each in two runs of two samples."""


ON = chip(1, 1, dram=4)
"""One tile, and DRAM moves four bytes in a cycle: its replays take the model's cycles, all of them."""


def run(text: str, graph: LayerGraph, on: Chip, batch: int = 4) -> tuple[ChipEvaluation, Program, Replay]:
    evaluation = ChipEvaluator(graph, on, batch, FormulaCosts(graph)).evaluate(parse_tree(text))
    program = write_program(graph, evaluation)
    assert violations(program) == []
    return evaluation, program, replay(program, log=True)


def begins(program: Program, found: Replay, tensor: str) -> int:
    """When the first transfer of a tensor from DRAM begins, in ticks."""
    assert found.log is not None
    wanted = {n for n, one in enumerate(program.messages) if one.tensor == tensor and not one.sources}
    return int(min(row[1] for row in found.log.moved.tolist() if row[0] in wanted))


def computed(program: Program, found: Replay, layer_name: str) -> int:
    """When the last compute of a layer ends, in ticks."""
    assert found.log is not None
    rows = found.log.computed.tolist()
    return int(max(end for work, _, _, end in rows if program.works[work].layer == layer_name))


def test_the_next_fetch_overlaps_and_pays() -> None:
    """Each of three equal segments fetches 16 bytes of weights and 128 of inputs, which takes 36 cycles.

    A run takes 128 cycles, of which DRAM needs 32 for the outputs. So all but the first segment have their
    data before the last run of the one before has ended.
    """
    found, _, replayed = run(TURNS, chain(3), ON)
    assert [one.cycles for one in found.segments] == [36 + 2 * 128] * 3
    assert [one.saved_cycles for one in found.transitions] == [36, 36]
    assert found.segment_cycles == (36 + 2 * 128, 2 * 128, 2 * 128)
    assert found.cycles == replayed.cycles == 36 + 6 * 128
    assert found.most_held == 8 * max(replayed.peak_bytes)


def test_buffers_forbid_it() -> None:
    """With one byte too few for both the tile fetches inputs only when it has freed those of the last run."""
    graph = chain(3)
    wide, _, _ = run(TURNS, graph, ON)
    (both,) = {one.held_bits for one in wide.transitions}
    tight, program, replayed = run(TURNS, graph, chip(1, 1, both // 8 - 1, dram=4))
    assert tight.most_held < both
    # the weights still come early: 16 bytes in four cycles
    assert [one.saved_cycles for one in tight.transitions] == [4, 4]
    assert tight.cycles == replayed.cycles == wide.cycles + 2 * 32
    end = computed(program, replayed, "layer0")
    assert begins(program, replayed, "layer1.weights") < end <= begins(program, replayed, "layer0")


def test_a_data_dependence_forbids_part_of_it() -> None:
    """The second segment reads all that the first one makes, in one run; or what the network gets instead."""
    text = "T 4/1\n\tT 4/2\n\t\tlayer0 2\n\tT 4/1\n\t\tlayer1 4\n"
    reading = chain(2)
    free = LayerGraph("apart", (reading.layers[0], layer("layer1", external_c=4)))
    waits, program, slow = run(text, reading, ON)
    apart, _, fast = run(text, free, ON)
    # of 16 bytes of weights and 256 of inputs
    assert [one.saved_cycles for one in (*waits.transitions, *apart.transitions)] == [4, 68]
    assert (waits.cycles, apart.cycles) == (slow.cycles, fast.cycles)
    # the inputs are loaded when the outputs of both runs are stored
    assert slow.log is not None
    stores = {n for n, one in enumerate(program.messages) if not one.targets and one.tensor == "layer0"}
    stored = max(row[2] for row in slow.log.moved.tolist() if row[0] in stores)
    assert begins(program, slow, "layer1.weights") < stored <= begins(program, slow, "layer0")


def test_what_earlier_runs_have_made_is_there() -> None:
    """The second segment begins with two samples, which the first of two runs makes; or all in one run."""
    found = [
        run(f"T 4/1\n\tT 4/{runs}\n\t\tlayer0 {4 // runs}\n\tT 4/2\n\t\tlayer1 2\n", chain(2), ON)
        for runs in (2, 1)
    ]
    assert [one.transitions[0].saved_cycles for one, _, _ in found] == [36, 4]
    for evaluation, _, replayed in found:
        assert evaluation.cycles == replayed.cycles


def test_rounds_overlap_too() -> None:
    """The first segment of a round follows the last one of the round before."""
    text = "T 8/2\n\tT 4/2\n\t\tlayer0 2\n\tT 4/2\n\t\tlayer1 2\n\tT 4/2\n\t\tlayer2 2\n"
    found, _, replayed = run(text, chain(3), ON, 8)
    assert [one.saved_cycles for one in found.transitions] == [36, 36, 36]
    assert found.cycles == replayed.cycles == 36 + 2 * 6 * 128
    # nothing is drawn of the first fetch of a later round, as it comes during the round before
    assert max(one.end for one in found.spatial_temporal(chain(3).producers)) == found.cycles


def test_a_segment_does_not_hold_its_own_weights_twice() -> None:
    """In rounds of a single segment the tile frees what it holds before it loads the same messages again."""
    found, _, replayed = run("T 8/2\n\tT 4/2\n\t\tlayer0 2\n", chain(1), ON, 8)
    assert found.transitions == (Transition(),)
    assert found.cycles == replayed.cycles == 2 * (36 + 2 * 128)


def test_tiles_that_are_done_early_fetch_while_a_pipeline_drains() -> None:
    """Also where no tile's buffer holds data of both segments at a time."""
    text = "T 4/1\n\tS 4/1\n\t\tlayer0 4\n\t\tlayer1 4\n\tS 4/1\n\t\tlayer2 4\n\t\tlayer3 4\n"
    graph = chain(4)
    wide, _, fast = run(text, graph, chip(2, 1, dram=8, link=32))
    most = max(one.held.most for one in wide.segments)
    tight, _, slow = run(text, graph, chip(2, 1, most // 8, dram=8, link=32))
    for found, replayed in ((wide, fast), (tight, slow)):
        assert found.transitions[0].saved_cycles > 0
        assert found.cycles == pytest.approx(replayed.cycles, rel=0.05)


def test_tiles_with_other_output_channels_fetch_weights_by_themselves() -> None:
    """Of random segments: tiles with the same channels wait for one another, and for no others."""
    graph, on, random, several = every_kind(), chip(3, 2), Random(3), 0
    evaluator = ChipEvaluator(graph, on, 4, FormulaCosts(graph))
    for _ in range(80):
        try:
            found = evaluator.evaluate(random_tree(random, graph, 4))
        except NotPossibleError:
            continue
        for segment in found.segments:
            counts = Counts(graph, on, segment)
            for data in Beginning.of(segment, on, graph.producers).data:
                if data.kind == 1:
                    continue
                (number,) = [
                    one
                    for one, cost in counts.leaves.items()
                    if cost.leaf is not None and cost.leaf.runs.pinned is data.loads
                ]
                made = outputs(graph.layers[number], counts.leaves[number])
                channels = {tile: (k.start, k.stop) for tile, (k, *_) in made.items()}
                for one, other in combinations(channels, 2):
                    parts = [int(data.part[tile - data.first_tile]) for tile in (one, other)]
                    assert (parts[0] == parts[1]) == (channels[one] == channels[other])
                several += data.parts > 1
    assert several > 10


class Leaking(FormulaCosts):
    """The same costs, and each tile leaks as many pJ in a cycle."""

    def rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        found = super().rows(layer, batch, tiles)
        return replace(found, leakage_pj_per_cycle=np.full(len(found.parts), 3.0 * tiles))


@pytest.mark.parametrize("costs", [FormulaCosts, Leaking])
def test_what_searches_are_told_of_a_tree_is_never_above_its_cost(costs: type[FormulaCosts]) -> None:
    """Random trees on a chip that takes power when idle; a tree that is refused is not counted."""
    random, graph, lower = Random(4), every_kind(), 0
    on = chip(3, 2, dram=2)
    on = replace(on, dram=replace(on.dram, idle_pj_per_cycle=7.0))
    for batch in (1, 4):
        evaluator = ChipEvaluator(graph, on, batch, costs(graph))
        for _ in range(40):
            tree, told = random_segments(random, graph, batch), list[tuple[float, float]]()

            def refuse(energy_pj: float, cycles: float, told: list[tuple[float, float]] = told) -> bool:
                told.append((energy_pj, cycles))
                return True

            try:
                assert evaluator.evaluate_unless(tree, refuse) is None
            except NotPossibleError:
                assert not told
                continue
            found = evaluator.evaluate(tree)
            ((energy_pj, cycles),) = told
            assert energy_pj <= found.energy_pj
            assert cycles <= found.cycles
            lower += cycles < found.cycles
    assert lower > 10


def test_leakage_and_idle_power_follow_the_cycles() -> None:
    graph, on = chain(3), ON
    idling = replace(on, dram=replace(on.dram, idle_pj_per_cycle=7.0))
    plain, leaking = (
        ChipEvaluator(graph, one, 4, costs).evaluate(parse_tree(TURNS))
        for one, costs in ((on, FormulaCosts(graph)), (idling, Leaking(graph)))
    )
    assert leaking.cycles == plain.cycles == 36 + 6 * 128
    assert leaking.energy_pj == pytest.approx(plain.energy_pj + (7 + 3) * plain.cycles, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("on", [chip(2, 2), chip(3, 2, link=2), chip(4, 3, dram=2)], ids=lambda on: on.tiles)
def test_nothing_moves_faster_than_it_can(on: Chip) -> None:
    """Of random trees: all bytes at DRAM's rate, the busiest link at its own; no more saved than stated."""
    random, graph, saving = Random(2), every_kind(), 0
    for batch in (1, 4, 6):
        evaluator = ChipEvaluator(graph, on, batch, FormulaCosts(graph))
        for _ in range(60):
            try:
                found = evaluator.evaluate(random_tree(random, graph, batch))
            except NotPossibleError:
                continue
            links = found.rounds * np.sum([one.links for one in found.segments], axis=0)
            dram_bits = found.rounds * sum(one.dram_bits for one in found.segments)
            assert found.cycles >= on.least_cycles(dram_bits, int(links.max()))
            assert found.most_held <= on.tile.buffer.size_bits
            following = (*found.segments[1:], found.segments[0])
            for before, after, one in zip(found.segments, following, found.transitions, strict=False):
                saving += one.saved_cycles > 0
                most = evaluator.most_saved(after).itself, evaluator.most_saved(before).next_one
                assert 0 <= one.saved_cycles <= min(most)
    assert saving > 3


class AlongChannels(FormulaCosts):
    """Only partitions along output channels, however few of these there are."""

    def rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        found = super().rows(layer, batch, tiles)
        return found.kept(found.parts[:, 0] == tiles)


def test_tiles_without_a_part_do_not_bring_weights_early() -> None:
    """Five output channels among twelve tiles: seven get no weights, and all that there are have to come."""
    graph = LayerGraph(
        "narrow", tuple(layer(f"layer{n}", "fc", c=64, k=5, h=1, w=1, external_c=64) for n in range(3))
    )
    on = chip(4, 3, dram=1)
    tree = parse_tree("T 1/1\n\tlayer0 1\n\tlayer1 1\n\tlayer2 1\n")
    found = ChipEvaluator(graph, on, 1, AlongChannels(graph, idle=True)).evaluate(tree)
    assert found.cycles >= sum(one.dram_bits for one in found.segments) / on.dram.bits_per_cycle
    assert found.cycles >= 0.95 * replay(write_program(graph, found)).cycles


def test_layers_on_the_whole_chip_begin_and_end_by_themselves() -> None:
    graph, on, random = strided(), mapped_chip(2, 2, 256), Random(1)
    evaluator, pairs = ChipEvaluator(graph, on, 4, MappedCosts(graph, on, random)), 0
    for _ in range(30):
        try:
            found = evaluator.evaluate(random_segments(random, graph, 4))
        except NotPossibleError:
            continue
        following = (*found.segments[1:], found.segments[0])
        for before, after, one in zip(found.segments, following, found.transitions, strict=False):
            if before.whole_chip is not None or after.whole_chip is not None:
                pairs += 1
                assert one == Transition()
    assert pairs > 5


@pytest.mark.slow
def test_programs_of_random_trees_take_about_the_models_cycles() -> None:
    """Where segments overlap. Tiles do not begin at a time in the replay, so some fetch a little earlier."""
    graph, ratios = every_kind(), []
    for seed in range(150):
        random, on = Random(seed), chip(2, 2, dram=(2, 4, 8)[seed % 3], link=16)
        evaluator = ChipEvaluator(graph, on, 4, FormulaCosts(graph))
        try:
            found = evaluator.evaluate(random_tree(random, graph, 4))
        except NotPossibleError:
            continue
        if sum(one.saved_cycles for one in found.transitions) > found.cycles // 200:
            program = write_program(graph, found)
            replayed = replay(program)
            assert max(replayed.peak_bytes) * 8 <= found.most_held
            ratios.append(found.cycles / replayed.cycles)
    assert len(ratios) > 8
    assert 0.95 < sum(ratios) / len(ratios) < 1.15
    assert min(ratios) > 0.85
    assert max(ratios) < 1.25
