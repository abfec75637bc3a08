"""Small chips, networks and schedules for tests of the chip model, and a source of tile costs by formula."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

from costmodel.architecture import Architecture, Compute, StorageLevel
from costmodel.chip import (
    AloneCost,
    Chip,
    Dram,
    LayerGraph,
    NetworkLayer,
    Noc,
    Tile,
    TileBuffer,
    TileFloor,
    TileRows,
    table_floor,
)
from costmodel.chip.partitions import factorizations
from costmodel.mapping import LevelMapping, Loop, Mapping, violations
from costmodel.ratree import Cut, Leaf, Node
from costmodel.workload import Layer


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


def random_mapping(random: Random, architecture: Architecture, nest: Layer) -> Mapping | None:
    """Prime factors of all dims at random places, loops in random orders, tensors kept at random.

    None where the first try fits nowhere.
    """
    places = [(level, block) for level in range(len(architecture.levels)) for block in range(3)]
    bounds: dict[tuple[int, int], dict[str, int]] = {place: {} for place in places}
    for dim, size in nest.dims:
        for prime in _primes(size):
            place = random.choice(places)
            bounds[place][dim] = bounds[place].get(dim, 1) * prime
    names, last = [tensor.name for tensor in nest.tensors], len(architecture.levels) - 1
    levels = []
    for level in range(last + 1):
        blocks = [
            random.sample(sorted(bounds[level, block].items()), len(bounds[level, block]))
            for block in range(3)
        ]
        keep = frozenset(name for name in names if level == last or random.random() < 0.7)
        levels.append(LevelMapping(*map(tuple, blocks), keep))
    mapping = Mapping(tuple(levels))
    return None if violations(architecture, nest, mapping) else mapping


def _shuffled(random: Random, loops: Iterable[Loop]) -> tuple[Loop, ...]:
    ordered = sorted(loops)
    return tuple(random.sample(ordered, len(ordered)))


def _primes(number: int) -> list[int]:
    for prime in range(2, number + 1):
        if number % prime == 0:
            return [prime, *_primes(number // prime)]
    return []


class FormulaCosts:
    """Every partition without empty parts: an operation costs 1 pJ and a quarter of a cycle of its tile."""

    def __init__(self, graph: LayerGraph) -> None:
        self.graph = graph

    def rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        it = self.graph.layers[layer]
        sizes = it.sizes(batch)
        found = []
        for parts in factorizations(tiles):
            if all(part <= size for part, size in zip(parts, sizes, strict=True)):
                k, b, h, w = (-(-size // part) for size, part in zip(sizes, parts, strict=True))
                operations = it.operations * k * b * h * w / (it.k * it.h * it.w)
                found.append((parts, tiles * operations, max(1, int(operations / 4))))
        return TileRows.of(found)

    def normalized_cycles(self, layer: int) -> float:
        return self.graph.layers[layer].operations / 4

    def alone(self, layer: int, batch: int) -> AloneCost | None:
        return None

    def floor(self, layer: int, batches: list[int], tiles: int) -> TileFloor:
        return table_floor(self, layer, batches, tiles)


def layer(name: str, kind: str = "conv", **sizes: object) -> NetworkLayer:
    """A layer of 1 x 1 filters on 4 x 4 positions unless told otherwise; inputs as large as outputs."""
    given = {"c": 4, "k": 4, "h": 4, "w": 4, "r": 1, "s": 1, "stride_h": 1, "stride_w": 1}
    given |= {"pad_h": 0, "pad_w": 0, **sizes}
    given.setdefault("input_h", given["h"])
    given.setdefault("input_w", given["w"])
    return NetworkLayer(name, kind, **given)  # type: ignore[arg-type]


def chain(count: int, **sizes: object) -> LayerGraph:
    layers = [layer("layer0", external_c=4, **sizes)]
    layers += [layer(f"layer{i}", producers=(i - 1,), **sizes) for i in range(1, count)]
    return LayerGraph("chain", tuple(layers))


def every_kind() -> LayerGraph:
    """All kinds of layers: strides, padding, groups, branches that are added and concatenated, attention."""
    image, small = {"h": 4, "w": 5}, {"h": 2, "w": 2}
    third = {"r": 3, "s": 3, "pad_h": 1, "pad_w": 1}
    halved = {"stride_h": 2, "stride_w": 2}
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


def random_tree(random: Random, graph: LayerGraph, batch: int, deepest: int = 4) -> Node:
    """A valid tree: a random topological order, cut at random into random cuts."""
    order: list[str] = []
    waiting = set(graph.producers)
    while waiting:
        ready = sorted(name for name in waiting if waiting.isdisjoint(graph.producers[name]))
        order.append(random.choice(ready))
        waiting.remove(order[-1])
    return _node(random, order, batch, deepest)


def _node(random: Random, layers: list[str], batch: int, deepest: int) -> Node:
    if (len(layers) == 1 and random.random() < 0.9) or deepest == 0:
        return Leaf(layers[0], batch) if len(layers) == 1 else _flat(random, layers, batch)
    pieces = random.randint(1 if len(layers) == 1 else 2, min(4, len(layers)))
    ends = [*sorted(random.sample(range(1, len(layers)), pieces - 1)), len(layers)]
    subbatches = random.choice([part for part in range(1, batch + 1) if batch % part == 0])
    children = [
        _node(random, layers[first:end], batch // subbatches, deepest - 1)
        for first, end in zip([0, *ends], ends, strict=False)
    ]
    return Cut(random.choice("ST"), batch, subbatches, tuple(children))  # type: ignore[arg-type]


def _flat(random: Random, layers: list[str], batch: int) -> Node:
    return Cut("T", batch, 1, tuple(Leaf(layer, batch) for layer in layers))
