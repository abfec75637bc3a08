"""A chip of one tile is its stack of levels: both ways to run a layer cost what ``evaluate`` says, exactly.

All energies are whole multiples of 1/64 pJ, which doubles add without rounding in any order; so equal means
equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import ceil
from random import Random
from typing import Any

import numpy as np
import pytest

from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.hardware.chip import Chip, Dram, Noc, Tile, TileBuffer
from costmodel.hardware.whole_chip import counted_architecture
from costmodel.hardware.widths import Widths
from costmodel.mapping.evaluate import Evaluation, evaluate
from costmodel.mapping.mapping import LevelMapping, Mapping
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.segment.node_cost import NodeCost
from costmodel.schedule.tile_cost import TileFloor, TileRows
from costmodel.schedule.tile_counts.tile_count import counted_on_tile
from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.tree.tree import Leaf
from costmodel.schedule.whole_chip.cost import WholeChipCost, whole_chip_cost
from costmodel.schedule.whole_chip.padding import padded_inputs
from costmodel.workload.network import Layer
from tests.costmodel.schedule.chip_cases import FormulaCosts, chain, chip, random_mapping

CASES, BLOCKS = 1000, 10


def energy(random: Random) -> float:
    return random.randint(0, 640) / 64


def level(random: Random, name: str, size: int | None, bits: int, **sides: Any) -> StorageLevel:
    words = [random.choice((None, None, random.randint(1, 9))) for _ in range(3)]
    return StorageLevel(
        name,
        size,
        bits,
        energy(random),
        energy(random),
        energy(random),
        block_size=1 if size is None else random.choice((1, 1, 2, 4)),
        leakage_pj_per_cycle=random.choice((0.0, energy(random))),
        read_bandwidth=words[0],
        write_bandwidth=words[1],
        shared_bandwidth=words[2],
        **sides,
    )


def chip_of(random: Random) -> Chip:
    """One tile of two or three levels; its buffer holds all that any way to run the layer keeps in it."""
    # elements are words of the buffer, and levels inside have words of their own
    bits = random.choice((1, 4, 8, 12, 16, 32))
    inner = [level(random, "registers", 64, random.randint(bits, 40))]
    if random.random() < 0.5:
        inner.append(level(random, "scratchpad", 512, bits, fanout_x=random.randint(1, 3)))
    fanout = {"fanout_x": random.randint(1, 4), "fanout_y": random.randint(1, 2)}
    buffer = level(random, "buffer", None, bits, **fanout)
    compute = Compute("MAC", bits, energy(random))
    inside = Architecture("inside", (*inner, buffer), compute)
    # three times a fraction of 1/64: a third of it, of words of 12 bits, is one, too
    a_word = 3 * energy(random)
    size = TileBuffer(1 << 20, energy(random), 8 * a_word / bits)
    tile = Tile(size, inside.mac_units, compute.energy_pj, 1, 1.0, 0, inside, widths=Widths.of_words(bits))
    dram = Dram(random.choice((1, 3, 16, 97)), *(8 * 3 * energy(random) / bits for _ in range(2)))
    return Chip("one tile", 1, 1, tile, Noc(1, energy(random)), dram)


def layer_of(random: Random) -> NetworkLayer:
    """A convolution, in groups or not, with windows inside its input or with padding around it."""
    groups = random.choice((1, 1, 2))
    h, w, r, s = (random.randint(1, 4) for _ in range(4))
    stride_h, stride_w = (random.randint(1, window) for window in (r, s))
    # padding on the left and above, and as much or less on the other sides
    above, left = random.randint(0, (r - 1) // 2), random.randint(0, (s - 1) // 2)
    below, right = random.randint(0, above), random.randint(0, left)
    sizes: dict[str, Any] = {
        "input_h": (h - 1) * stride_h + r - above - below,
        "input_w": (w - 1) * stride_w + s - left - right,
    }
    c, k = groups * random.randint(1, 4), groups * random.randint(1, 4)
    kind = "conv" if groups == 1 else "groupconv"
    return NetworkLayer(
        "one", kind, c=c, k=k, h=h, w=w, r=r, s=s, stride_h=stride_h, stride_w=stride_w, pad_h=above,
        pad_w=left, external_c=c, groups=groups, **sizes,
    )  # fmt: skip


def mapping_of(random: Random, architecture: Architecture, nest: Layer) -> Mapping:
    while (found := random_mapping(random, architecture, nest)) is None:
        pass
    return found


@dataclass(frozen=True)
class OneWay:
    """Tile costs of one layer: a mapping on the tile, or else one on the whole chip."""

    row: TileRows
    whole: WholeChipCost | None
    shares_weights = False

    def streamed_rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        return TileRows.of([])

    def shared_rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        return TileRows.of([])

    def shared_band_rows(
        self, layer: int, batch: int, tiles: int, heights: Sequence[int]
    ) -> Sequence[TileRows]:
        return [TileRows.of([]) for _ in heights]

    def band_rows(self, layer: int, batch: int, tiles: int, heights: Sequence[int]) -> Sequence[TileRows]:
        return [TileRows.of([]) for _ in heights]

    def reduced_rows(self, layer: int, batch: int, tiles: int, reduced: int) -> TileRows:
        return TileRows.of([])

    def rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        return self.row

    def normalized_cycles(self, layer: int) -> float:
        return 1.0

    def on_whole_chip(self, layer: int, batch: int) -> WholeChipCost | None:
        return self.whole

    def floor(self, layer: int, batches: Sequence[int], tiles: int) -> TileFloor:
        return TileFloor(0.0, 0.0)


def on_tile(inside: Architecture, nest: Layer, mapping: Mapping) -> OneWay:
    within = counted_on_tile(inside, nest, mapping)
    row = ((1, 1, 1, 1), within.energy_pj, within.cycles)
    return OneWay(TileRows.of([row], [within.leakage_pj_per_cycle]), None)


def run(on: Chip, layer: NetworkLayer, batch: int, way: OneWay) -> NodeCost:
    found = ChipEvaluator(LayerGraph("one", (layer,)), on, batch, way).evaluate(Leaf("one", batch))
    assert found.noc_hop_bytes == 0
    (cost,) = found.segments
    assert (found.energy_pj, found.cycles) == (sum(cost.parts_pj), cost.cycles)
    return cost


def padding_fetched(layer: NetworkLayer, nest: Layer, mapping: Mapping, reads: int) -> int:
    """Words of padding among those that DRAM's loops fetch: every iteration's box of positions, word by word.

    A step that moves the box as the first moving loop does fetches what the box before did not have, any
    other step the whole box, as Timeloop counts it. Padding is data (0) where the buffer does not keep the
    inputs, and where Timeloop takes the steps of two loops along one axis to be others than they are.
    """
    inputs, kept = nest.tensor("Inputs"), mapping.levels[-2]
    tile, loops = mapping.tiles[-2], mapping.levels[-1].temporal
    if "Inputs" not in kept.keep:
        return 0
    inner = dict(tile)
    strides = []
    for dim, bound in loops:
        strides.append(inner.get(dim, 1))
        inner[dim] = strides[-1] * bound
    sizes = inputs.extents(tile)
    row, column = (next(n for n, axis in enumerate(inputs.terms) if dim in dict(axis)) for dim in "PQ")
    first_move, before, found, words = None, None, 0, 0
    for step in product(*(range(bound) for _, bound in reversed(loops))):
        at = {dim: stride * i for (dim, _), stride, i in zip(loops, strides, reversed(step), strict=True)}
        start = tuple(sum(c * at.get(dim, 0) for dim, c in axis) for axis in inputs.terms)
        move = None if before is None else tuple(a - b for a, b in zip(start, before, strict=True))
        if move is not None and not any(move):
            continue
        box = set(product(*(range(a, a + size) for a, size in zip(start, sizes, strict=True))))
        if move is not None:
            first_move = first_move or move
            if move == first_move:
                assert before is not None
                box -= set(product(*(range(a, a + size) for a, size in zip(before, sizes, strict=True))))
        before, words = start, words + len(box)
        rows = range(layer.pad_h, layer.pad_h + layer.input_h)
        columns = range(layer.pad_w, layer.pad_w + layer.input_w)
        found += sum(word[row] not in rows or word[column] not in columns for word in box)
    along = [len({dim for dim, _ in loops} & set(dict(axis))) for axis in inputs.terms]
    assert words == reads or max(along) > 1
    return found if words == reads else 0


def expected(on: Chip, counted: Evaluation, saved: int) -> tuple[float, int]:
    """Energy and cycles that ``evaluate`` says, where ``saved`` words of padding are not fetched.

    Its cycles of DRAM are Timeloop's, in floating point: where bytes divide evenly by the bandwidth, they can
    be one more than the bytes need. The chip counts them in whole numbers, and leakage follows the cycles.
    """
    *inner, dram = counted.levels
    word, rate = on.tile.widths.activations, 8 * on.dram.bytes_per_cycle
    words = sum(one.reads + one.updates for one in dram.tensors.values())
    needed = max(counted.compute_cycles, ceil(Fraction(words * word, rate)))
    assert dram.cycles == needed or (dram.cycles == needed + 1 and words * word % rate == 0)
    computing = max(counted.compute_cycles, *(one.cycles for one in inner))
    cycles = max(computing, ceil(Fraction((words - saved) * word, rate)))
    leaked = sum(one.leakage_pj for one in counted.levels)
    fetched = saved * word * (on.dram.read_pj_per_byte + on.tile.buffer.write_pj_per_byte) / 8
    return counted.energy_pj - leaked + leaked / counted.cycles * cycles - fetched, cycles


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_one_tile_costs_what_its_levels_cost(block: int) -> None:
    random, padded, waiting, again = Random(block), 0, 0, 0
    for _ in range(CASES // BLOCKS):
        on, layer, batch = chip_of(random), layer_of(random), random.randint(1, 3)
        stack, nest, inside = counted_architecture(on), layer.nest(batch), on.tile.architecture
        assert stack is not None
        assert inside is not None
        # mapped on the whole chip, with any loops at DRAM
        mapping = mapping_of(random, stack, nest)
        whole = OneWay(TileRows.of([]), whole_chip_cost(on, nest, mapping, padded_inputs(layer)))
        cost, counted = run(on, layer, batch, whole), evaluate(stack, nest, mapping)
        saved = padding_fetched(layer, nest, mapping, counted.levels[-1].tensors["Inputs"].reads)
        assert (sum(cost.parts_pj), cost.cycles) == expected(on, counted, saved)
        again += saved > 0
        # mapped on the tile, with pinned weights and no loop at DRAM
        mapping = mapping_of(random, inside, nest)
        everything = frozenset(tensor.name for tensor in nest.tensors)
        outside = Mapping((*mapping.levels, LevelMapping((), (), (), everything)))
        pinned = on_tile(inside, nest, mapping)
        cost = run(on, layer, batch, pinned)
        saved = nest.tensor("Inputs").words(nest.sizes) - layer.c * batch * layer.input_h * layer.input_w
        found = expected(on, evaluate(stack, nest, outside), saved)
        assert (sum(cost.parts_pj), cost.cycles) == found
        padded, waiting = padded + (saved > 0), waiting + (cost.cycles > int(pinned.row.cycles[0]))
    assert padded >= 3
    assert waiting >= 3
    assert again >= 3


def test_what_waits_for_memory_leaks() -> None:
    """The same mapping with slower memory: every level in use leaks for as much longer."""
    waited = 0
    for random in map(Random, range(20)):
        on, layer = chip_of(random), layer_of(random)
        inside, nest = on.tile.architecture, layer.nest(1)
        assert inside is not None
        levels = tuple(replace(one, leakage_pj_per_cycle=0.25) for one in inside.levels)
        mapping = mapping_of(random, inside, nest)
        way = on_tile(replace(inside, levels=levels), nest, mapping)
        fast, slow = (
            run(replace(on, dram=replace(on.dram, bytes_per_cycle=rate)), layer, 1, way)
            for rate in (1 << 20, 1)
        )
        assert fast.cycles == int(way.row.cycles[0])
        rate = 0.25 * sum(mapping.utilized_instances)
        assert sum(slow.parts_pj) - sum(fast.parts_pj) == rate * (slow.cycles - fast.cycles)
        waited += slow.cycles > fast.cycles
    assert waited >= 3


class Leaking(FormulaCosts):
    """The same costs, and every tile leaks half a pJ in each cycle."""

    def rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        rows = super().rows(layer, batch, tiles)
        return replace(rows, leakage_pj_per_cycle=np.full(len(rows.parts), 0.5 * tiles))


@pytest.mark.parametrize(
    "tree",
    [
        "T 4/2|>layer0 2|>layer1 2|>layer2 2",
        "S 4/2|>layer0 2|>layer1 2|>layer2 2",
        "S 4/4|>T 1/1|>>layer0 1|>>layer1 1|>layer2 1",
        "T 4/1|>layer0 4|>S 4/4|>>layer1 1|>>layer2 1",
    ],
)
def test_every_tile_leaks_for_the_whole_run(tree: str) -> None:
    """Whatever the tiles wait for: pipelines that fill and drain, slow memory, slower tiles."""
    graph, on = chain(3), chip(2, 2, dram=1)
    node = parse_tree(tree.replace("|", "\n").replace(">", "\t"))
    plain, leaking = (
        ChipEvaluator(graph, on, 4, costs).evaluate(node) for costs in (FormulaCosts(graph), Leaking(graph))
    )
    left = [leaf.leaf.placement for leaf in leaking.nodes() if leaf.leaf]
    assert left == [leaf.leaf.placement for leaf in plain.nodes() if leaf.leaf]
    assert leaking.cycles == plain.cycles
    assert leaking.energy_pj - plain.energy_pj == pytest.approx(0.5 * on.tiles * plain.cycles)
