"""Layers mapped on the whole chip: counted word by word and link by link, and by the multi-node template."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod
from random import Random
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.chips import chip_names, load_chip
from costmodel.formats.multi_nodes import load_multi_node
from costmodel.hardware.chip import Chip
from costmodel.hardware.multi_node.derived import architecture
from costmodel.hardware.whole_chip import counted_architecture, whole_architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import LevelMapping, Mapping
from costmodel.schedule.bounds.compulsory import layers_traffic
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.layer_graph.training import training_graph
from costmodel.schedule.tile_cost import TileRows
from costmodel.schedule.tree.tree import Leaf
from costmodel.schedule.whole_chip.cost import WholeChipCost, streamed_layer_cost, whole_chip_cost
from costmodel.schedule.whole_chip.padding import padded_inputs
from costmodel.workload.network import Layer, Tensor, convolution, gemm
from costmodel.workload.projection import Projection, Stride
from tests.costmodel.schedule.chip_cases import (
    FormulaCosts,
    MappedCosts,
    chain,
    layer,
    mapped_chip,
    of_widths,
    random_mapping,
    strided,
)
from tests.costmodel.schedule.whole_chip_counts import WholeChipCounts, all_placements

MAPPINGS = 12
PIXEL: dict[str, Any] = {"input_h": 1, "input_w": 1}
SMALLER: dict[str, Any] = {"input_h": 2, "input_w": 2}
NESTS = [
    gemm("products", M=6, N=4, K=4),
    convolution("pixels", N=2, K=4, C=2, P=3, Q=2, R=1, S=1),
    convolution("groups", N=3, K=4, C=4, P=2, Q=1, R=1, S=1, groups=2),
    convolution("halos", N=2, K=2, C=2, P=4, Q=1, R=3, S=1),
    convolution("strides", N=2, K=2, C=2, P=4, Q=1, R=3, S=1, stride=(2, 1)),
    layer("update", c=2, k=2, h=4, w=1, r=3, stride_h=2, input_h=9, external_c=2, part="update").nest(2),
    # each of 2 x 2 errors goes to a place of its own among 4 x 4
    layer("apart", c=4, k=2, external_c=4, part="error", **SMALLER, stride_h=2, stride_w=2).nest(2),
    layer("flat", "fc", c=4, k=2, h=2, w=2, r=2, s=2, external_c=4, part="error", **PIXEL).nest(2),
]


def mappings(random: Random, on: Chip, nest: Layer) -> list[Mapping]:
    """Such that spread loops over tiles, keep all tensors in buffers, and slide no window from DRAM: of data
    that windows share Timeloop's counts keep less than all."""
    whole = counted_architecture(on)
    found: list[Mapping] = []
    assert whole is not None
    sliding = {"P", "R"} if nest.sizes.get("R", 1) > 1 else set()
    while len(found) < MAPPINGS:
        mapping = random_mapping(random, whole, nest)
        if mapping is None or not sliding.isdisjoint(dim for dim, _ in mapping.levels[-1].temporal):
            continue
        if mapping.levels[-1].spatial and len(mapping.levels[-2].keep) == len(nest.tensors):
            found.append(mapping)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("nest", NESTS, ids=lambda nest: nest.name)
@pytest.mark.parametrize(
    "on",
    [
        mapped_chip(2, 2),
        mapped_chip(3, 2, link=1),
        mapped_chip(4, 1, dram=9),
        of_widths(mapped_chip(2, 2, 128), 16, 16, 16),
        of_widths(mapped_chip(3, 2, 256, link=1), 4, 8, 32),
    ],
    ids=lambda on: f"{on.tiles} {on.name}",
)
def test_words_and_links_one_by_one(nest: Layer, on: Chip) -> None:
    whole = counted_architecture(on)
    assert whole is not None
    for mapping in mappings(Random(1), on, nest):
        placed = [WholeChipCounts(on, nest, mapping, sides) for sides in all_placements(on, mapping)]
        found, words = whole_chip_cost(on, nest, mapping), placed[0]
        fewest = min(sum(one.links.values()) for one in placed)
        assert (found.dram_read_bits, found.dram_write_bits) == (words.read, words.written)
        assert found.hop_bits == pytest.approx(float(fewest), rel=1e-12)
        best = [one for one in placed if sum(one.links.values()) == fewest]
        counted = evaluate(whole, nest, mapping)
        # DRAM's own cycles are counted anew: evaluate rounds them in floating point, up to one cycle above
        inner_cycles = max(counted.compute_cycles, *(level.cycles for level in counted.levels[:-1]))
        steps = prod(bound for _, bound in mapping.levels[-1].temporal)
        assert found.cycles in {_cycles(on, one, inner_cycles, steps) for one in best}
        tiles, transfers, noc, dram = found.parts_pj
        # each buffer takes a tensor in whole words, of which the last may be filled in part
        rounded = len(nest.tensors) * on.tiles * whole.levels[-2].write_energy_pj
        assert 0 <= transfers - 2.0 * words.filled / 8 < (rounded if on.tile.widths.weights < 8 else 1e-9)
        assert noc == pytest.approx(5.0 * float(fewest) / 8)
        assert dram == pytest.approx((60.0 * words.read + 70.0 * words.written) / 8)
        buffer = whole.levels[-2]
        fills = sum(one.instances * one.fills for one in counted.levels[-2].tensors.values())
        inner = counted.energy_pj - counted.levels[-1].energy_pj - fills * buffer.write_energy_pj
        assert tiles == pytest.approx(inner)


def _cycles(on: Chip, counts: WholeChipCounts, of_tiles: int, steps: int) -> int:
    """The first step waits for its data, the last one for all data; then it computes, and outputs leave."""
    busiest = max(counts.links.values(), default=0)
    dram = ceil((counts.read + counts.written) / (8 * on.dram.bytes_per_cycle))
    fill, reading, drain = (one.cycles(on) for one in (counts.first, counts.reading, counts.last))
    step = ceil(of_tiles / steps)
    ends = max(fill + of_tiles - step, reading) + max(step, drain)
    return max(ends, dram, ceil(busiest / (8 * on.noc.link_bytes_per_cycle)))


class OneRow(FormulaCosts):
    """A single partition, two by two tiles of channels and samples, whose tiles run one mapping."""

    def __init__(self, graph: LayerGraph, on: Chip, inner: Mapping) -> None:
        super().__init__(graph)
        assert on.tile.architecture is not None
        part = convolution("part", N=1, K=2, C=4, P=4, Q=4, R=1, S=1)
        tile = evaluate(on.tile.architecture, part, inner)
        self.row = TileRows.of([((2, 2, 1, 1), 4 * tile.energy_pj, tile.cycles)])

    def streamed_rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        return TileRows.of([])

    def rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        return self.row


@pytest.mark.parametrize("link", [1, 100])
def test_a_layer_that_is_fetched_once_costs_on_the_whole_chip_what_it_costs_pinned(link: int) -> None:
    """The same loops within tiles, everything of a tile in its buffer: the two ways of counting agree."""
    graph, on = chain(1), mapped_chip(2, 2, 1000, link=link, stream=0, dram=100)
    nest = graph.layers[0].nest(2)
    inner = (_level({}, nest), _level({"K": 2}, nest, C=4, P=4, Q=4))
    pinned = ChipEvaluator(graph, on, 2, OneRow(graph, on, Mapping(inner))).evaluate(Leaf("layer0", 2))
    split = LevelMapping((), (("K", 2),), (("N", 2),), inner[0].keep)
    found = whole_chip_cost(on, nest, Mapping((*inner, split)))
    assert found.parts_pj == pytest.approx(tuple(pinned.parts_pj.values()))
    # beside leaves links have the time of the first fetch for their outputs, too
    cost = pinned.segments[0].leaf
    assert cost is not None
    outputs = on.least_cycles(0, int(cost.links.max()))
    assert (
        pinned.cycles - outputs <= found.cycles <= pinned.cycles
        if link == 1
        else found.cycles == pinned.cycles
    )
    assert (found.dram_read_bits, found.dram_write_bits) == (pinned.dram_read_bits, pinned.dram_write_bits)
    assert found.hop_bits == pinned.noc_hop_bits
    assert found.tile_cycles == pinned.segments[0].busy


@pytest.mark.parametrize("number", range(4))
def test_no_layer_of_a_training_step_beats_its_work_or_its_data(number: int) -> None:
    graph, on = training_graph(strided()), mapped_chip(2, 2, 256)
    costs = MappedCosts(graph, on, Random(number))
    for index, least in enumerate(layers_traffic(graph, 4, on.tile.widths)):
        found = costs.on_whole_chip(index, 4)
        assert found is not None
        # four tiles of two PEs, or of two vector units
        assert found.cycles * 8 >= 4 * graph.layers[index].operations
        assert found.dram_read_bits >= least.dram_read
        assert found.dram_write_bits >= least.dram_write


def test_halos_are_sent_to_each_tile() -> None:
    """Two tiles of a window of three, one step apart: each gets its own three inputs, weights go to both."""
    nest, on = convolution("window", K=1, C=1, P=2, Q=1, R=3, S=1), mapped_chip(2, 1)
    mapping = Mapping((_level({}, nest, R=3), _level({}, nest), _level({"P": 2}, nest)))
    found = whole_chip_cost(on, nest, mapping)
    assert (found.dram_read_bits, found.dram_write_bits) == (8 * (3 + 2 * 3), 8 * 2)
    # a link between the two tiles, a port at each: weights pass it both ways, half of the rest does
    assert found.hop_bits == 8 * (3 + (6 + 2) / 2)


def test_padding_is_not_fetched_for_any_tile() -> None:
    """The same with an image of two rows between a row of padding above and one below: each tile gets two."""
    nest, on = convolution("window", K=1, C=1, P=2, Q=1, R=3, S=1), mapped_chip(2, 1)
    mapping = Mapping((_level({}, nest, R=3), _level({}, nest), _level({"P": 2}, nest)))
    rows = Projection((Stride("P"), Stride("R")), length=2, offset=-1)
    padded = Tensor("Inputs", (rows, Projection((Stride("Q"), Stride("S")), length=1)), "inputs")
    data, found = (whole_chip_cost(on, nest, mapping, one) for one in (None, padded))
    assert (found.dram_read_bits, found.dram_write_bits) == (8 * (3 + 2 * 2), 8 * 2)
    assert found.hop_bits == data.hop_bits - 8 * 2 / 2
    assert data.parts_pj[1] - found.parts_pj[1] == 2 * 2.0
    assert data.parts_pj[0] == found.parts_pj[0]


def test_only_windows_beyond_the_edges_are_padded() -> None:
    inside = layer("inside", r=3, s=3, input_h=6, input_w=6)
    assert padded_inputs(inside) is None
    assert padding_and_length(layer("around", r=3, s=3, pad_h=1, pad_w=1)) == [(1, 4), (1, 4)]
    assert padding_and_length(layer("below", r=3, input_h=5)) == [(0, 5), (0, 4)]


def test_the_windows_lie_along_the_axes_of_the_nest() -> None:
    """Those over rows and columns of the layer's inputs are the last two axes of the nest's."""
    for one in (layer("a", r=3, s=3, pad_h=1), layer("b", "groupconv", r=3, pad_h=1, stride_h=2, groups=2)):
        padded, nest = padded_inputs(one), one.nest(2)
        assert padded is not None
        windows = [{step[:2] for step in axis.steps} for axis in padded.axes if axis.length is not None]
        assert [set(axis) for axis in nest.tensor("Inputs").terms[-2:]] == windows


def padding_and_length(one: NetworkLayer) -> list[tuple[int, int]]:
    """Along rows and columns, the padding in front of the image and its length."""
    padded = padded_inputs(one)
    assert padded is not None
    return [(-axis.offset, axis.length) for axis in padded.axes if axis.length is not None]


@pytest.mark.parametrize("costs", ["paper", "released"])
def test_nodes_as_one_stack_of_levels(costs: str) -> None:
    """What the multi-node template says, without its idle energy and the bus for outputs that leave a PE."""
    device, on = load_multi_node("kapla-16x16", costs), load_chip(f"kapla-16x16-{costs}")
    theirs, ours = architecture(device), counted_architecture(on)
    assert ours is not None
    nest = gemm("products", M=64, N=64, K=64)
    mapping = Mapping(
        (
            _level({}, nest, K=2, N=4),
            _level({"M": 8}, nest, M=2, K=2),
            _level({"K": 4}, nest, N=16, M=4, K=4),
        )
    )
    found, expected = evaluate(ours, nest, mapping), evaluate(theirs, nest, mapping)
    outputs = expected.levels[1].tensors["Z"]
    left_out = outputs.updates * outputs.instances * device.costs.bus_pj
    assert found.energy_pj + left_out == pytest.approx(expected.energy_pj, rel=1e-12)
    for one, other in zip(ours.levels[:-1], theirs.levels[:-1], strict=True):
        assert (one.size_words, one.fanout_x, one.fanout_y) == (
            other.size_words,
            other.fanout_x,
            other.fanout_y,
        )
        assert one.shared_bandwidth == other.shared_bandwidth


@pytest.mark.parametrize("name", chip_names())
def test_every_chip_of_the_library_is_a_stack_of_levels(name: str) -> None:
    on = load_chip(name)
    whole, counted, tile = whole_architecture(on), counted_architecture(on), on.tile.architecture
    assert whole is not None
    assert counted is not None
    assert tile is not None
    assert whole.levels[:-2] == counted.levels[:-2] == tile.levels[:-1]
    assert whole.levels[-2].size_words == on.tile.buffer.size_bits // tile.levels[-1].word_bits
    assert (whole.levels[-1].fanout_x, whole.levels[-1].fanout_y) == (on.columns, on.rows)


def test_a_word_for_one_tile_is_charged_its_way_in_the_mean() -> None:
    on = mapped_chip(3, 2)
    whole, counted = whole_architecture(on), counted_architecture(on)
    assert whole is not None
    assert counted is not None
    ways = [abs(x - px) + abs(y - py) for x, y in on.positions for px, py in on.ports]
    added = [one.levels[-1].read_energy_pj + one.levels[-2].write_energy_pj for one in (whole, counted)]
    assert added[0] - added[1] == pytest.approx(on.noc.hop_pj_per_byte * sum(ways) / len(ways))


def test_a_buffer_may_have_the_name_of_memory() -> None:
    """A library architecture as a tile: its DRAM stands for the tile's buffer."""
    on = mapped_chip()
    assert on.tile.architecture is not None
    inner, outermost = on.tile.architecture.levels
    named = replace(on.tile.architecture, levels=(inner, replace(outermost, name="DRAM")))
    whole = whole_architecture(replace(on, tile=replace(on.tile, architecture=named)))
    assert whole is not None
    assert [level.name for level in whole.levels] == ["registers", "DRAM", "chip's DRAM"]


def test_tiles_without_architecture_have_no_loops() -> None:
    bare = mapped_chip()
    bare = replace(bare, tile=replace(bare.tile, architecture=None))
    assert whole_architecture(bare) is None
    nest = gemm("one", M=1, N=1, K=1)
    with pytest.raises(InputError, match="an architecture to map layers on"):
        whole_chip_cost(bare, nest, Mapping(()))


def test_a_layer_without_products_streams_through_the_tiles() -> None:
    """Six planes of 4 x 4 on four tiles: two of them have two planes, no tile more."""
    pooled = layer(
        "pooled", "pool", c=3, k=3, h=2, w=2, r=2, s=2, stride_h=2, stride_w=2, input_h=4, input_w=4
    )
    on = mapped_chip(2, 2, dram=100, link=100)
    found = streamed_layer_cost(on, pooled, 2)
    assert found is not None
    assert (found.dram_read_bits, found.dram_write_bits) == (8 * 6 * 16, 8 * 6 * 4)
    computing = 2 * 16 // 2
    # the first of two planes takes DRAM a cycle, and nothing computes until it is there
    assert found.cycles == 1 + computing
    assert found.tile_cycles == 4 * computing
    # every tile is one, one, two and no links from the four ports
    assert found.hop_bits == 8 * 6 * 20 * (0 + 1 + 1 + 2) / 4
    noc, dram = found.hop_bits / 8 * 5.0, 60.0 * 6 * 16 + 70.0 * 6 * 4
    assert found.parts_pj == (0.25 * 6 * 16, 2.0 * 6 * 16 + 1.0 * 6 * 4, noc, dram)
    assert streamed_layer_cost(mapped_chip(buffer=16), pooled, 2) is None


@pytest.mark.parametrize(
    "change",
    [
        {"parts_pj": (1.0, 1.0, 1.0)},
        {"parts_pj": (1.0, -1.0, 0.0, 0.0)},
        {"cycles": 0},
        {"dram_read_bits": -1},
        {"hop_bits": -1.0},
    ],
)
def test_no_such_cost(change: dict[str, object]) -> None:
    cost = WholeChipCost((1.0, 1.0, 1.0, 1.0), 1, 0, 0, 0, 0.0)
    assert cost.energy_pj == 4.0
    with pytest.raises(InputError, match="layer on the whole chip"):
        replace(cost, **change)  # type: ignore[arg-type]


def _level(x: dict[str, int], nest: Layer, **loops: int) -> LevelMapping:
    """Keeps all tensors."""
    names = frozenset(tensor.name for tensor in nest.tensors)
    return LevelMapping(tuple(loops.items()), tuple(x.items()), (), names)
