"""Ranges of layers that are alike, against their layers written out, and against what their schemes cost."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from itertools import combinations

import pytest

from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.segment.node_cost import NodeCost
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Deadline
from solvers.schedule import kapla
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.kapla.alike import AlikeRanges
from solvers.schedule.kapla.costing import Costing, CostingLimit
from solvers.schedule.kapla.estimates.estimate import Estimates, SchemeEstimate
from solvers.schedule.kapla.estimates.floors import LayerFloor
from solvers.schedule.kapla.estimates.footprints import Footprints
from solvers.schedule.kapla.regions import Regions
from solvers.schedule.kapla.segments import BatchDivision, Scheme, Segment, Slicing
from solvers.schedule.problem import ScheduleProblem
from tests.costmodel.schedule.chip_cases import shared_heads
from tests.solvers.schedule.kapla.test_footprints import small_chip, table_of
from tests.solvers.schedule.test_repeated_blocks import decoder

SLICED = ("trans_cell",)
"""Networks with layers that read some channels of others; outside of a range such reads are told apart."""


def written_out(graph: LayerGraph, first: int, end: int) -> Hashable:
    """All that a range of layers is: of each channel that a layer reads where it comes from, one by one."""
    inside = range(first, end)
    readers: dict[int, list[int]] = {number: [] for number in inside}
    for reader, layer in enumerate(graph.layers):
        for number in {*layer.producers, *layer.weight_producers} & readers.keys():
            readers[number].append(reader)
    written = []
    for number in inside:
        layer = graph.layers[number]
        channels: list[list[tuple[int, int] | None]] = [[None] * layer.external_c, []]
        for into, reads in zip(channels, graph.reads(layer), strict=True):
            for producer, begin, stop in reads:
                near = producer in inside
                into += [(producer - first, one) if near else None for one in range(begin, stop)]
        to_dram = not readers[number] or any(reader not in inside for reader in readers[number])
        plain = replace(layer, name="", external_c=0, producers=(), weight_producers=(), channels=())
        written.append((plain, tuple(channels[0]), tuple(channels[1]), to_dram))
    return tuple(written)


@pytest.mark.parametrize("name", ["lstm", "trans_cell", "goog", "decoder"])
def test_ranges_are_alike_where_all_of_their_layers_are(name: str) -> None:
    graph = decoder(3) if name == "decoder" else LayerGraph(name, load_graph(name).layers[:40])
    ranges = AlikeRanges(graph)
    numbers: dict[int, Hashable] = {}
    by_content: dict[Hashable, int] = {}
    for first, end in combinations(range(len(graph.layers) + 1), 2):
        number, content = ranges.number(first, end), written_out(graph, first, end)
        assert numbers.setdefault(number, content) == content
        assert by_content.setdefault(content, number) == number or name in SLICED
    every = len(graph.layers) * (len(graph.layers) + 1) // 2
    assert 1 < len(numbers) < every


def test_heads_that_share_keys_are_not_alike_those_with_their_own() -> None:
    """The keys come from outside of the range; once for two heads, or for each."""
    graph = shared_heads()
    score = next(layer for layer in graph.layers if layer.name == "score")
    names = ("sharing", "again", "own")
    producers = score.weight_producers, score.weight_producers, (2, 3, 4, 2, 3, 4)
    scores = (
        replace(score, name=name, weight_producers=whose)
        for name, whose in zip(names, producers, strict=True)
    )
    several = LayerGraph("scores", (*graph.layers[:7], *scores))
    ranges = AlikeRanges(several)
    sharing, again, own = (ranges.number(first, first + 1) for first in range(7, 10))
    assert sharing == again != own


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "layers", "batch", "buffer_kib"),
    [("lstm", 20, 4, 64), ("trans_cell", 24, 2, 32), ("resnet", 14, 4, 64)],
)
def test_alike_schemes_fit_are_estimated_and_cost_alike(
    name: str, layers: int, batch: int, buffer_kib: int
) -> None:
    """Every scheme by itself, on a mesh where tiles count."""
    graph, chip = LayerGraph(name, load_graph(name).layers[:layers]), small_chip(buffer_kib << 10)
    costs = table_of(graph, chip, batch)
    model = ChipModel(chip, costs)
    problem = ScheduleProblem(graph, model, batch)
    slicing = Slicing(problem, kapla.Params(most_layers=6))
    regions = Regions(slicing, costs.normalized_cycles)
    floors = [LayerFloor.of(graph, number, chip) for number in range(layers)]
    estimates, footprints = Estimates(slicing, chip, floors, regions), Footprints(graph, chip, costs, regions)
    evaluator = model.evaluator(graph, batch, problem.objective)
    fits: dict[Hashable, tuple[bool, bool]] = {}
    least: dict[Hashable, SchemeEstimate] = {}
    taken: dict[Hashable, tuple[object, ...] | None] = {}
    schemes, possible = 0, 0
    for segment in slicing.segments():
        for division in slicing.divisions(segment):
            scheme, key = Scheme(segment, division), (slicing.alike(segment), division)
            # a new object each time, which knows nothing of shorter segments
            plain = Estimates(slicing, chip, floors, regions)
            found = [*plain.fitting(segment, (division,))] == [division], footprints.may_fit(scheme)
            assert fits.setdefault(key, found) == found
            ((_, estimate),) = estimates.least(segment, [division])
            assert least.setdefault(key, estimate) == estimate
            try:
                cost = evaluator.segment(slicing.node(scheme))
                numbers = cost.cycles, cost.parts_pj, cost.dram_read_bits, cost.dram_write_bits, cost.busy
                possible += 1
            except NotPossibleError:
                numbers = None
            assert taken.setdefault(key, numbers) == numbers
            schemes += 1
    assert possible > 20
    assert len(taken) < 0.9 * schemes


def test_of_alike_schemes_one_is_counted_and_others_where_pairs_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the second of two alike schemes saves after the first one follows from its own cost."""
    graph, chip = LayerGraph("lstm", load_graph("lstm").layers[:18]), small_chip(1 << 22)
    costs = table_of(graph, chip, 4)
    model = ChipModel(chip, costs)
    problem = ScheduleProblem(graph, model, 4)
    slicing = Slicing(problem, kapla.Params())
    evaluator = model.evaluator(graph, 4, problem.objective)
    counted: list[NodeCost] = []
    segment = evaluator.segment

    def counting(node: object) -> NodeCost:
        counted.append(segment(node))  # type: ignore[arg-type]
        return counted[-1]

    monkeypatch.setattr(evaluator, "segment", counting)
    costing = Costing(Regions(slicing, costs.normalized_cycles), evaluator, costs)
    by_number: dict[Hashable, list[Segment]] = {}
    for one in slicing.segments():
        by_number.setdefault(slicing.alike(one), []).append(one)
    first, second = next(
        (one, other)
        for same in by_number.values()
        for one, other in combinations(same, 2)
        if one.end == other.first and len(one) > 1
    )
    schemes = [Scheme(one, BatchDivision(2)) for one in (first, second)]
    costing.cost(schemes, CostingLimit(Deadline(60.0)))
    assert len(counted) == 1
    assert costing.found[first] == costing.found[second]
    saved = costing.savings.between(*schemes)
    plain = evaluator.between(*(segment(slicing.node(one)) for one in schemes))
    assert saved.cycles == plain.saved_cycles
    assert len(counted) == 2
