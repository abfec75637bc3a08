"""With which step the data of another step begins to come, and is asked for, counted by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import ceil

import pytest

from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.program.timeline import asking, fetching, steps_of
from costmodel.schedule.segment.node_cost import runs_on_tiles
from costmodel.schedule.tree.tree import Leaf
from tests.costmodel.schedule.chip_cases import chain, chip, every_kind, layer
from tests.costmodel.schedule.program.program_counts import written
from tests.costmodel.schedule.test_closed_forms import evaluate


def begins(text: str, layers: int) -> list[tuple[str, int | None]]:
    """Of the first tile: the layer of each step, and where its data begins to come."""
    (segment,) = evaluate(text, chain(layers), chip(2, 2)).segments
    steps = list(steps_of(segment, 0))
    return [(step.layer, begin) for step, begin in zip(steps, fetching(steps), strict=True)]


def test_of_leaves_with_the_step_before() -> None:
    found = begins("T 2/1|>T 2/2|>>layer0 1|>>layer1 1", 2)
    assert found == [("layer0", None), ("layer1", 0), ("layer0", 1), ("layer1", 2)]


def test_of_what_follows_a_cut_with_the_cuts_first_step() -> None:
    found = begins("T 4/1|>T 4/2|>>layer0 2|>>T 2/2|>>>layer1 1|>>>layer2 1", 3)
    one = [("layer0", None), ("layer1", 0), ("layer2", 1), ("layer1", 2), ("layer2", 3)]
    # the next two samples of layer0 come from when the inner cut begins
    assert found == [*one, ("layer0", 1), ("layer1", 5), ("layer2", 6), ("layer1", 7), ("layer2", 8)]


def test_of_what_follows_a_pipeline_with_its_first_sub_batch() -> None:
    found = begins("T 4/1|>T 4/1|>>S 4/4|>>>layer0 1|>>>layer1 1|>>layer2 4", 3)
    assert found == [("layer0", None), ("layer0", 0), ("layer0", 1), ("layer0", 2), ("layer2", 0)]


@pytest.mark.parametrize(
    ("channels", "dram", "asked"), [(64, 1, [0, 0, 1]), (48, 1, [0, 1, 1]), (64, 2, [0, 1, 2])]
)
def test_data_is_asked_for_as_late_as_it_may_set_out(channels: int, dram: int, asked: list[int]) -> None:
    """All data could come from layer0 on. Each layer computes for 128 cycles, the last one needs weights.

    These are 256 bytes, or 192. At a byte a cycle 256 have to set out when layer1 begins, and so the 16 of
    layer2 before that, with layer0; 192 leave time for both while layer1 computes.
    """
    graph = LayerGraph("wide", (*chain(3).layers, layer("layer3", k=channels, producers=(2,))))
    text = "T 2/1|>T 2/1|>>T 2/1|>>>T 2/1|>>>>layer0 2|>>>>layer1 2|>>>layer2 2|>>layer3 2"
    evaluation = evaluate(text, graph, on := chip(1, 1, dram=dram))
    (segment,) = evaluation.segments
    leaves = {node.node.layer: node for node in evaluation.nodes() if isinstance(node.node, Leaf)}
    steps = list(steps_of(segment, 0))
    assert list(fetching(steps)) == [None, 0, 0, 0]
    assert asking(steps, leaves, on) == [None, *asked]


def in_time(begin: int, number: int, coming: Sequence[int], computing: Sequence[int]) -> bool:
    """Whether the data of a step, and of all after it, can set out when the step ``begin`` begins.

    ``coming``, ``computing`` [steps]: the cycles that a step's data takes, and those of its compute in which
    DRAM has no outputs to take.
    """
    return all(
        sum(coming[number : end + 1]) <= sum(computing[begin:end]) for end in range(number, len(coming))
    )


def test_no_data_of_random_schedules_could_be_asked_for_later() -> None:
    """From the step with which data is asked for, computing leaves time for it and all that comes behind it.

    The step after that does not, or it is the one that reads the data. Where no step does, data is asked for
    as soon as the buffer has bytes.
    """
    later = as_soon_as_possible = 0
    for seed in range(60):
        found = written(every_kind(), seed)
        if found is None:
            continue
        evaluation = found[1]
        leaves = {node.node.layer: node for node in evaluation.nodes() if isinstance(node.node, Leaf)}
        for segment, tile in product(evaluation.segments, range(evaluation.chip.tiles)):
            steps = list(steps_of(segment, tile))
            costs = [leaves[step.layer] for step in steps]
            first = [
                step.layer not in {one.layer for one in steps[:number]} for number, step in enumerate(steps)
            ]
            runs = [
                runs_on_tiles(cost).first if begins else runs_on_tiles(cost).later
                for cost, begins in zip(costs, first, strict=True)
            ]
            outputs = [
                ceil((run.dram_bits - run.ahead_bits) / evaluation.chip.dram.bits_per_cycle) for run in runs
            ]
            computing = [
                max(cost.leaf.tile_cycles - stored, 0)
                for cost, stored in zip(costs, outputs, strict=True)
                if cost.leaf
            ]
            coming = [run.fetched(evaluation.chip) for run in runs]
            asked, possible = asking(steps, leaves, evaluation.chip), list(fetching(steps))
            for number in range(1, len(steps)):
                begin, earliest = asked[number], possible[number]
                assert begin is not None
                assert earliest is not None
                assert earliest <= begin < number
                assert begin == earliest or in_time(begin, number, coming, computing)
                assert begin + 1 == number or not in_time(begin + 1, number, coming, computing)
                later += begin > earliest
                as_soon_as_possible += begin == earliest and begin + 1 < number
    assert later > 50
    assert as_soon_as_possible > 50
