"""Small chips, networks and schedules for tests of the chip model, and a source of tile costs by formula."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from math import prod
from random import Random
from typing import Any

from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.hardware.chip import Chip, Dram, Noc, Tile, TileBuffer
from costmodel.hardware.whole_chip import whole_architecture
from costmodel.hardware.widths import Widths
from costmodel.mapping.mapping import LevelMapping, Loop, Mapping, violations
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.leaf.partitions import factorizations
from costmodel.schedule.tile_cost import TileFloor, TileRows, table_floor
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode
from costmodel.schedule.whole_chip.cost import WholeChipCost, streamed_layer_cost, whole_chip_cost
from costmodel.workload.network import Layer


def chip(columns: int = 2, rows: int = 2, buffer: int = 1 << 20, **changes: int) -> Chip:
    tile = Tile(TileBuffer(buffer, 1.0, 2.0), 4, 0.5, 2, 0.25, output_stream_bytes=changes.pop("stream", 8))
    noc = Noc(changes.pop("link", 3), 5.0)
    return Chip("small", columns, rows, tile, noc, Dram(changes.pop("dram", 4), 60.0, 70.0), **changes)


def mapped_chip(columns: int = 2, rows: int = 2, buffer: int = 64, **changes: int) -> Chip:
    """The same with two PEs a tile, of eight words each, that a mapping can spread loops over."""
    registers = StorageLevel("registers", 8, 8, 0.125, 0.25, 0.5)
    outermost = StorageLevel("buffer", None, 8, 1.0, 2.0, 2.0, read_bandwidth=4.0, fanout_x=2)
    architecture = Architecture("tile", (registers, outermost), Compute("mac", 8, 0.5))
    plain = chip(columns, rows, buffer, **changes)
    return replace(plain, tile=replace(plain.tile, architecture=architecture))


def of_widths(on: Chip, weights: int, activations: int, partial_sums: int) -> Chip:
    """The chip with elements of other widths; the words inside its tiles hold a partial sum each."""
    tile = replace(on.tile, widths=Widths(weights, activations, partial_sums))
    if tile.architecture is not None:
        levels = tuple(replace(level, word_bits=partial_sums) for level in tile.architecture.levels)
        tile = replace(tile, architecture=replace(tile.architecture, levels=levels))
    return replace(on, name=f"{on.name} of {weights}, {activations}, {partial_sums} bits", tile=tile)


def random_mapping(random: Random, architecture: Architecture, nest: Layer) -> Mapping | None:
    """Prime factors of all dims where fan-outs let them, loops in random orders, tensors kept at random.

    None where the first try does not fit the buffers.
    """
    last = len(architecture.levels) - 1
    bounds: dict[tuple[int, int], dict[str, int]] = {(i, b): {} for i in range(last + 1) for b in range(3)}
    for dim, prime in [(dim, prime) for dim, size in nest.dims for prime in _primes(size)]:
        places = [(last, 0)] * 6
        for place, there in bounds.items():
            level, used = architecture.levels[place[0]], prod(there.values())
            if used * prime <= (10**6, level.fanout_x, level.fanout_y)[place[1]]:
                places.append(place)
        loops = bounds[random.choice([place for place in places if _once_on_a_side(bounds, place, dim)])]
        loops[dim] = loops.get(dim, 1) * prime
    names, levels = [tensor.name for tensor in nest.tensors], []
    for index in range(last + 1):
        temporal, x, y = (_shuffled(random, bounds[index, block].items()) for block in range(3))
        keep = frozenset(name for name in names if index == last or random.random() < 0.7)
        levels.append(LevelMapping(temporal, x, y, keep))
    mapping = Mapping(tuple(levels))
    return None if violations(architecture, nest, mapping) else mapping


def _once_on_a_side(bounds: dict[tuple[int, int], dict[str, int]], place: tuple[int, int], dim: str) -> bool:
    level, block = place
    return block == 0 or dim not in bounds[level, 3 - block]


def _shuffled(random: Random, loops: Iterable[Loop]) -> tuple[Loop, ...]:
    ordered = sorted(loops)
    return tuple(random.sample(ordered, len(ordered)))


def _primes(number: int) -> list[int]:
    for prime in range(2, number + 1):
        if number % prime == 0:
            return [prime, *_primes(number // prime)]
    return []


class FormulaCosts:
    """Every partition: an operation costs 1 pJ and a quarter of a cycle of its tile.

    ``idle``: also those with more parts than indices along some dim, which leave tiles without a part.
    ``slices``: in how many each partition may be computed where weights are streamed; none: never.
    ``shares``: (sharers, slices of each share) where weights are shared; none: never.
    """

    def __init__(
        self,
        graph: LayerGraph,
        idle: bool = False,
        slices: Sequence[int] = (),
        shares: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.graph, self.idle, self.slices, self.shares = graph, idle, slices, shares

    @property
    def shares_weights(self) -> bool:
        return bool(self.shares)

    def rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        it = self.graph.layers[layer]
        sizes = it.sizes(batch)
        found = []
        for parts in factorizations(tiles):
            if self.idle or all(part <= size for part, size in zip(parts, sizes, strict=True)):
                k, b, h, w = (-(-size // part) for size, part in zip(sizes, parts, strict=True))
                operations = it.operations * k * b * h * w / (it.k * it.h * it.w)
                found.append((parts, tiles * operations, max(1, int(operations / 4))))
        return TileRows.of(found)

    def streamed_rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        """Slices repeat nothing; each takes a whole number of cycles."""
        it, rows = self.graph.layers[layer], self.rows(layer, batch, tiles)
        found, counts = [], []
        if it.has_weights and not it.weight_producers:
            for count in self.slices:
                for parts, energy, cycles in zip(rows.parts, rows.energy_pj, rows.cycles, strict=True):
                    if parts[0] * count <= it.k:
                        found.append((tuple(parts.tolist()), float(energy), count * -(-int(cycles) // count)))
                        counts.append(count)
        return TileRows.of(found, slices=counts)

    def shared_rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        """Likewise: a slice takes a whole number of cycles."""
        it, rows = self.graph.layers[layer], self.rows(layer, batch, tiles)
        found, counts, sharing = [], [], []
        if it.has_weights and not it.weight_producers:
            for sharers, each in self.shares:
                count = sharers * each
                for parts, energy, cycles in zip(rows.parts, rows.energy_pj, rows.cycles, strict=True):
                    alike = prod(
                        min(part, size) for part, size in zip(parts[1:], it.sizes(batch)[1:], strict=True)
                    )
                    if parts[0] * count <= it.k and alike % sharers == 0:
                        found.append((tuple(parts.tolist()), float(energy), count * -(-int(cycles) // count)))
                        counts.append(count)
                        sharing.append(sharers)
        return TileRows.of(found, slices=counts, sharers=sharing)

    def shared_band_rows(
        self, layer: int, batch: int, tiles: int, heights: Sequence[int]
    ) -> Sequence[TileRows]:
        it = self.graph.layers[layer]
        found = []
        for height in heights:
            band = replace(it, h=height, producers=(), external_c=it.c, channels=())
            graph = LayerGraph("band", (band,))
            rows = FormulaCosts(graph, self.idle, shares=self.shares).shared_rows(0, batch, tiles)
            found.append(rows.kept(rows.parts[:, 2] == 1))
        return found

    def band_rows(self, layer: int, batch: int, tiles: int, heights: Sequence[int]) -> Sequence[TileRows]:
        it = self.graph.layers[layer]
        found = []
        for height in heights:
            band = replace(it, h=height, producers=(), external_c=it.c, channels=())
            rows = FormulaCosts(LayerGraph("band", (band,)), self.idle).rows(0, batch, tiles)
            found.append(rows.kept(rows.parts[:, 2] == 1))
        return found

    def reduced_rows(self, layer: int, batch: int, tiles: int, reduced: int) -> TileRows:
        """The parts of the input channels are charged as they are."""
        it = self.graph.layers[layer]
        found = []
        for parts in factorizations(tiles):
            if self.idle or all(part <= size for part, size in zip(parts, it.sizes(batch), strict=True)):
                k, b, h, w = (-(-size // part) for size, part in zip(it.sizes(batch), parts, strict=True))
                operations = it.operations * k * b * h * w // (it.k * it.h * it.w)
                largest = operations * -(-it.c // reduced) // it.c
                found.append((parts, float(tiles * operations), max(1, largest // 4)))
        return TileRows.of(found)

    def normalized_cycles(self, layer: int) -> float:
        return self.graph.layers[layer].operations / 4

    def on_whole_chip(self, layer: int, batch: int) -> WholeChipCost | None:
        return None

    def floor(self, layer: int, batches: Sequence[int], tiles: int) -> TileFloor:
        return table_floor(self, self.graph, layer, batches, tiles)


class MappedCosts(FormulaCosts):
    """The same, and layers on the whole chip by random mappings: the best of some in energy or cycles."""

    def __init__(self, graph: LayerGraph, on: Chip, random: Random) -> None:
        super().__init__(graph)
        self.on, self.random = on, random
        self.known: dict[tuple[int, int], WholeChipCost | None] = {}

    def rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        return (
            TileRows.of([])
            if self.graph.layers[layer].needs_whole_chip
            else super().rows(layer, batch, tiles)
        )

    def on_whole_chip(self, layer: int, batch: int) -> WholeChipCost | None:
        if (layer, batch) not in self.known:
            self.known[layer, batch] = self._drawn(self.graph.layers[layer], batch)
        return self.known[layer, batch]

    def _drawn(self, layer: NetworkLayer, batch: int) -> WholeChipCost | None:
        if not layer.has_weights:
            return streamed_layer_cost(self.on, layer, batch)
        whole, nest = whole_architecture(self.on), layer.nest(batch)
        assert whole is not None
        mappings = (random_mapping(self.random, whole, nest) for _ in range(100))
        fitting = islice((mapping for mapping in mappings if mapping is not None), 4)
        found = [whole_chip_cost(self.on, nest, mapping) for mapping in fitting]
        by_energy = self.random.random() < 0.5
        return min(found, key=lambda one: one.energy_pj if by_energy else one.cycles, default=None)


def layer(name: str, kind: str = "conv", **sizes: Any) -> NetworkLayer:
    """A layer of 1 x 1 filters on 4 x 4 positions unless told otherwise; inputs as large as outputs."""
    given: dict[str, Any] = {"c": 4, "k": 4, "h": 4, "w": 4, "r": 1, "s": 1, "stride_h": 1, "stride_w": 1}
    given |= {"pad_h": 0, "pad_w": 0, **sizes}
    given.setdefault("input_h", given["h"])
    given.setdefault("input_w", given["w"])
    return NetworkLayer(name, kind, **given)


def chain(count: int, **sizes: Any) -> LayerGraph:
    layers = [layer("layer0", external_c=4, **sizes)]
    layers += [layer(f"layer{i}", producers=(i - 1,), **sizes) for i in range(1, count)]
    return LayerGraph("chain", tuple(layers))


def every_kind() -> LayerGraph:
    """All kinds of layers: strides, padding, groups, branches that are added and concatenated, attention."""
    image: dict[str, Any] = {"h": 4, "w": 5}
    small: dict[str, Any] = {"h": 2, "w": 2}
    third: dict[str, Any] = {"r": 3, "s": 3, "pad_h": 1, "pad_w": 1}
    halved: dict[str, Any] = {"stride_h": 2, "stride_w": 2}
    layers = (
        layer("stem", c=3, k=6, external_c=3, **image, **third),
        layer("left", c=6, k=4, **image, producers=(0,)),
        layer("right", "groupconv", c=6, k=6, **image, r=3, pad_h=1, groups=3, producers=(0,)),
        layer("right2", c=6, k=6, **image, producers=(2,)),
        # of 5 channels each: all of left and one of right2, the other five of right2
        layer("joined", "eltwise", c=10, k=5, **image, operands=2, producers=(1, 3)),
        layer("pooled", "pool", c=5, k=5, **small, r=2, s=2, **halved, input_h=4, input_w=5, producers=(4,)),
        layer("both", c=11, k=4, **small, **halved, input_h=3, input_w=3, producers=(3, 4)),
        layer("key", c=5, k=5, h=2, w=1, s=2, input_w=2, producers=(5,)),
        layer("turned", "transpose", c=5, k=2, h=5, w=1, order=(1, 0, 2), input_h=2, producers=(7,)),
        layer("mixed", c=5, k=2, **small, producers=(5,), weight_producers=(8,)),
        layer("squashed", "ptp", c=2, k=2, **small, producers=(9,)),
        layer("last", "fc", c=6, k=7, h=1, w=1, r=2, s=2, input_h=2, input_w=2, producers=(6, 10)),
    )
    return LayerGraph("every kind", layers)


def read_in_part() -> LayerGraph:
    """Layers of which others read some of the channels, as errors of concatenations are read."""
    layers = (
        layer("whole", c=3, k=7, external_c=3),
        layer("first", c=3, k=4, producers=(0,), channels=((0, 3),)),
        layer("behind", "groupconv", c=4, k=4, r=3, pad_h=1, groups=2, producers=(0,), channels=((3, 7),)),
        layer("within", "pool", c=2, k=2, producers=(0,), channels=((2, 4),)),
        layer("wide", c=3, k=8, producers=(0,), channels=((4, 7),)),
        layer(
            "summed", "eltwise", c=12, k=4, operands=3, producers=(1, 4, 4), channels=((0, 4), (4, 8), (1, 5))
        ),
        # the last channels of one next to all of another and the first of a third
        layer("joined", c=9, k=2, producers=(0, 3, 5), channels=((2, 7), (0, 2), (0, 2))),
    )
    return LayerGraph("read in part", layers)


def cut_off() -> LayerGraph:
    """Layers that begin at rows and columns behind the first, or have more padding on one side."""
    layers = (
        layer("whole", c=3, k=4, h=6, w=5, external_c=3),
        layer("below", c=4, k=4, h=4, w=5, pad_h=-2, input_h=6, producers=(0,)),
        layer("right", "pool", c=4, k=4, h=6, w=2, s=2, pad_w=-1, input_w=4, stride_w=1, producers=(0,)),
        layer("other", "pool", c=4, k=4, h=3, w=5, stride_h=2, pad_h=-1, input_h=6, producers=(0,)),
        layer("above", c=4, k=4, h=4, w=5, r=3, pad_h=2, input_h=4, producers=(1,)),
        layer("behind", "groupconv", c=4, k=4, h=3, w=5, r=2, groups=2, input_h=3, producers=(3,)),
        layer("from_dram", c=3, k=4, h=2, w=3, pad_h=-3, pad_w=-2, input_h=5, input_w=5, external_c=3),
    )
    return LayerGraph("cut off", layers)


def equal_parts() -> LayerGraph:
    """Layers of which several parts of channels, rows or columns need the very same data."""
    maps: dict[str, Any] = {"h": 2, "w": 3}
    layers = (
        layer("tokens", c=3, k=6, **maps, external_c=3),
        # of three output channels in a group several parts have the same inputs
        layer("grouped", "groupconv", c=6, k=12, groups=3, **maps, producers=(0,)),
        # all rows of a map of two need both; of three columns the middle one needs all
        layer("window", c=12, k=6, r=3, s=3, pad_h=1, pad_w=1, **maps, producers=(1,)),
        layer("query", c=6, k=8, **maps, producers=(2,)),
        layer("key", c=6, k=6, h=4, w=1, s=3, pad_h=1, input_h=2, input_w=3, producers=(2,)),
        # two groups of three output channels, which read the same four numbers
        layer("score", "groupconv", c=8, k=6, groups=2, **maps, producers=(3,), weight_producers=(4,)),
        layer("from_dram", "groupconv", c=2, k=6, groups=2, **maps, r=5, pad_h=2, external_c=2),
        layer("both", "eltwise", c=12, k=6, operands=2, **maps, producers=(2, 5)),
        layer("last", c=12, k=6, **maps, r=3, pad_h=1, producers=(6, 7)),
    )
    return LayerGraph("equal parts", layers)


def shared_heads() -> LayerGraph:
    """Attention of six heads of two channels that share the keys of three layers and the values of two."""
    tokens: dict[str, Any] = {"h": 2, "w": 5}
    keys: dict[str, Any] = {"h": 2, "w": 1, "s": 5, "input_h": 2, "input_w": 5}
    values: dict[str, Any] = {**keys, "h": 3, "r": 2, "pad_h": 1}
    layers = (
        layer("tokens", c=3, k=4, external_c=3, **tokens),
        layer("query", c=4, k=12, **tokens, producers=(0,)),
        *(layer(f"key{number}", c=4, k=3, **keys, producers=(0,)) for number in range(3)),
        *(layer(f"value{number}", c=4, k=2, **values, producers=(0,)) for number in range(2)),
        layer(
            "score",
            "groupconv",
            c=12,
            k=18,
            groups=6,
            **tokens,
            producers=(1,),
            weight_producers=(2, 2, 3, 3, 4, 4),
        ),
        layer("softmax", "ptp", c=18, k=18, **tokens, producers=(7,)),
        # heads take turns in whose values they read
        layer(
            "mixed",
            "groupconv",
            c=18,
            k=12,
            groups=6,
            **tokens,
            producers=(8,),
            weight_producers=(5, 6, 5, 6, 5, 6),
        ),
        layer("out", c=12, k=4, **tokens, producers=(9,)),
        layer("sum", "eltwise", c=8, k=4, operands=2, **tokens, producers=(0, 10)),
    )
    return LayerGraph("shared heads", layers)


def routed() -> LayerGraph:
    """Tokens at 3 x 2 positions, two experts that get 6 rows each, and factors for two channels each."""
    tokens: dict[str, Any] = {"h": 3, "w": 2}
    load: dict[str, Any] = {"h": 6, "w": 1}
    to_expert: dict[str, Any] = {"c": 4, "k": 4, **load, "input_h": 3, "input_w": 2, "groups": 2}
    back: dict[str, Any] = {"c": 8, "k": 4, "r": 2, **tokens, "input_h": 6, "input_w": 1, "groups": 2}
    layers = (
        layer("tokens", c=3, k=4, external_c=3, **tokens),
        layer("router", c=4, k=5, **tokens, producers=(0,)),
        layer("top", "topk", c=5, k=2, r=5, **tokens, producers=(1,)),
        layer("to0", "dispatch", **to_expert, producers=(0,), weight_producers=(2,)),
        layer("to1", "dispatch", **to_expert, producers=(0,), weight_producers=(2,)),
        layer("up", "groupconv", c=8, k=2, **load, groups=2, producers=(3, 4)),
        layer("down0", c=1, k=4, **load, producers=(5,), channels=((0, 1),)),
        layer("down1", c=1, k=4, **load, producers=(5,), channels=((1, 2),)),
        layer("made", "ptp", c=8, k=8, **load, producers=(6, 7)),
        layer("back", "combine", **back, producers=(8,), weight_producers=(2,)),
        layer("sum", "eltwise", c=8, k=4, operands=2, **tokens, producers=(0, 9)),
        layer("factor", c=4, k=2, **tokens, producers=(0,)),
        layer("scaled", "scale", c=4, k=4, r=2, groups=2, **tokens, producers=(10,), weight_producers=(11,)),
        layer("kept", "decay", c=4, k=4, r=2, groups=2, **tokens, producers=(12,), weight_producers=(11,)),
    )
    return LayerGraph("routed", layers)


def recurrent() -> LayerGraph:
    """A state of 8 channels in 4 heads and 3 x 2 numbers each: one from DRAM, and three steps of it."""
    state: dict[str, Any] = {"h": 3, "w": 2}
    one: dict[str, Any] = {"h": 1, "w": 1}
    carry: dict[str, Any] = {"c": 16, "k": 8, "r": 3, **state, "groups": 4}
    layers = (
        layer("token", c=3, k=8, external_c=3, **one),
        layer("numbers", c=3, k=12, external_c=3, **one),
        layer("factors", c=3, k=4, h=5, w=1, external_c=3),
        layer("all_rows", "pool", c=4, k=4, **one, r=5, input_h=5, producers=(2,)),
        layer(
            "written",
            "outer",
            c=8,
            k=8,
            r=2,
            **state,
            input_h=1,
            input_w=1,
            groups=12,
            producers=(0,),
            weight_producers=(1,),
        ),
        layer("first", "carry", **carry, external_c=8, producers=(4,), weight_producers=(3,)),
        layer("second", "carry", **carry, producers=(5, 4), weight_producers=(3,)),
        layer("wide", c=8, k=10, **state, producers=(6,)),
        # what is added are some channels of a wider layer
        layer(
            "third",
            "carry",
            **carry,
            producers=(6, 7),
            weight_producers=(3,),
            channels=((0, 8), (1, 9), (0, 4)),
        ),
    )
    return LayerGraph("recurrent", layers)


def strided() -> LayerGraph:
    """What has a training step with all layers that need a whole chip: strides, pooling, flattening."""
    third: dict[str, Any] = {"r": 3, "s": 3, "pad_h": 1, "pad_w": 1}
    layers = (
        layer("stem", c=2, k=4, external_c=2, stride_h=2, stride_w=2, input_h=8, input_w=8, **third),
        layer("left", c=4, k=4, producers=(0,), **third),
        layer("sum", "eltwise", c=8, k=4, operands=2, producers=(0, 1)),
        layer(
            "pooled",
            "pool",
            c=4,
            k=4,
            h=2,
            w=2,
            r=2,
            s=2,
            stride_h=2,
            stride_w=2,
            input_h=4,
            input_w=4,
            producers=(2,),
        ),
        layer("last", "fc", c=4, k=6, h=1, w=1, r=2, s=2, input_h=2, input_w=2, producers=(3,)),
        # leaves every other row and column out
        layer("apart", c=4, k=3, h=2, w=2, stride_h=2, stride_w=2, input_h=3, input_w=3, producers=(2,)),
    )
    return LayerGraph("strided", layers)


def random_tree(random: Random, graph: LayerGraph, batch: int, deepest: int = 4) -> TreeNode:
    """A valid tree: a random topological order, cut at random into random cuts."""
    return _node(random, _order(random, graph), batch, deepest)


def _order(random: Random, graph: LayerGraph) -> list[str]:
    order: list[str] = []
    waiting = set(graph.producers)
    while waiting:
        ready = sorted(name for name in waiting if waiting.isdisjoint(graph.producers[name]))
        order.append(random.choice(ready))
        waiting.remove(order[-1])
    return order


def _divisors(number: int) -> list[int]:
    return [part for part in range(1, number + 1) if number % part == 0]


def random_segments(random: Random, graph: LayerGraph, batch: int) -> TreeNode:
    """A root T cut of random trees, a leaf each for layers that need a whole chip, and half the others."""
    order, subbatches = _order(random, graph), random.choice(_divisors(batch))
    pieces: list[list[str]] = []
    for name in order:
        by_itself = graph.layers[graph.index[name]].needs_whole_chip or random.random() < 0.5
        if by_itself or not pieces or graph.layers[graph.index[pieces[-1][0]]].needs_whole_chip:
            pieces.append([name])
        else:
            pieces[-1].append(name)
    samples = batch // subbatches
    children = [Leaf(one[0], samples) if len(one) == 1 else _node(random, one, samples, 2) for one in pieces]
    return Cut("T", batch, subbatches, tuple(children))


def _node(random: Random, layers: list[str], batch: int, deepest: int) -> TreeNode:
    if (len(layers) == 1 and random.random() < 0.9) or deepest == 0:
        return Leaf(layers[0], batch) if len(layers) == 1 else _flat(random, layers, batch)
    pieces = random.randint(1 if len(layers) == 1 else 2, min(4, len(layers)))
    ends = [*sorted(random.sample(range(1, len(layers)), pieces - 1)), len(layers)]
    subbatches = random.choice(_divisors(batch))
    children = [
        _node(random, layers[first:end], batch // subbatches, deepest - 1)
        for first, end in zip([0, *ends], ends, strict=False)
    ]
    return Cut(random.choice("ST"), batch, subbatches, tuple(children))  # type: ignore[arg-type]


def _flat(random: Random, layers: list[str], batch: int) -> TreeNode:
    return Cut("T", batch, 1, tuple(Leaf(layer, batch) for layer in layers))
