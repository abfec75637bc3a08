"""Groups of layers and fused mappings of them, drawn at random."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import prod
from random import Random
from typing import cast

from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.mapping.fused.layers.checker import tree_violations
from costmodel.mapping.fused.layers.group import (
    GroupMapping,
    Intermediate,
    IntermediateRead,
    LayerGroup,
    SlidingRead,
)
from costmodel.mapping.fused.layers.turns import LayerTurns, turns_of
from costmodel.mapping.fused.mapping import FusedMapping, Loops
from costmodel.mapping.fused.pipeline import MeshAxis, Pipeline
from costmodel.mapping.mapping import LevelMapping, Mapping, loops
from costmodel.workload.network import Layer, convolution, gemm
from costmodel.workload.windows import Windows
from solvers.divisors import divisors


def architecture(
    random: Random,
    *,
    room: int | None = None,
    registers: int | None = None,
    fanout: int = 1,
    rates: bool = False,
) -> Architecture:
    """DRAM and two levels on the chip, with energies that floats hold exactly."""

    def level(name: str, size: int | None, fan: int) -> StorageLevel:
        read, written = random.randint(1, 9), random.randint(1, 9)
        rate = float(random.randint(1, 4)) if rates else None
        return StorageLevel(
            name, size, 16, read, written, written, read_bandwidth=rate, write_bandwidth=rate, fanout_x=fan
        )

    levels = (level("RegFile", registers, 1), level("SRAM", room, fanout), level("DRAM", None, 1))
    return Architecture("drawn", levels, Compute("MAC", 16, random.randint(1, 3)))


def products(random: Random, count: int, sizes: tuple[int, ...] = (2, 4, 6)) -> tuple[Layer, ...]:
    """A chain of matrix products."""
    rows, lengths = random.choice(sizes), [random.choice(sizes) for _ in range(count + 1)]
    return tuple(gemm(f"e{i}", M=rows, N=lengths[i + 1], K=lengths[i]) for i in range(count))


def chain(machine: Architecture, layers: tuple[Layer, ...], *, residual: bool = False) -> LayerGroup:
    """The group of a chain of products; with ``residual`` the last one reads the first output, too."""
    passed = (("M", "M"), ("N", "K"))
    reads = [[IntermediateRead(i + 1, "A", passed)] for i in range(len(layers) - 1)]
    if residual and len(layers) > 2 and layers[0].sizes["N"] == layers[-1].sizes["K"]:
        reads[0].append(IntermediateRead(len(layers) - 1, "A", passed))
    return LayerGroup(machine, layers, tuple(Intermediate(i, tuple(one)) for i, one in enumerate(reads)))


def tree(random: Random, group: LayerGroup) -> FusedMapping:
    """Shared loops, backing levels and hoisted tiles without violations."""
    while True:
        lists: list[Loops] = []
        for pair in range(len(group.layers) - 1):
            before = lists[-1] if lists else ()
            path = before[: random.randint(0, len(before))]
            if path == before:
                ours, theirs = group.dim_of[pair], group.dim_of[pair + 1]
                used = [name for name, _ in path]
                names = [name for name in ours if name in theirs and name not in used]
                for name in random.sample(names, random.randint(0, len(names))):
                    size = group.layers[pair].sizes[ours[name]]
                    if size > 1:
                        path = (*path, (name, random.choice(divisors(size)[:-1])))
            lists.append(path)
        around = ((), *lists, ())
        paths = tuple(max(one, other, key=len) for one, other in pairwise(around))
        backing = {
            group.layers[one.producer].name: random.choice(group.holding)
            for one in group.intermediates
            if random.random() < 0.8 and group.holding
        }
        hoist: dict[str, dict[str, int]] = {}
        for layer, path in zip(group.layers, paths, strict=True):
            for tensor in layer.tensors:
                if path and random.random() < 0.3:
                    hoist.setdefault(layer.name, {})[tensor.name] = random.randrange(len(path))
        found = FusedMapping(tuple(map(len, lists)), paths, (), backing, hoist)
        if not tree_violations(group, found):
            return found


def nests(random: Random, group: LayerGroup, shared: FusedMapping) -> tuple[Mapping, ...]:
    """A nest of every layer's largest part, which holds what it must."""
    return tuple(_nest(random, one, one.part) for one in turns_of(group, shared))


def _nest(random: Random, one: LayerTurns, part: Layer, inside: str = "") -> Mapping:
    """``inside``: dims whose loops are all at the innermost level."""
    levels, spread = one.architecture.levels, [level.fanout_x for level in one.architecture.levels]
    temporal: list[dict[str, int]] = [{} for _ in levels]
    spatial: list[dict[str, int]] = [{} for _ in levels]
    for dim, size in part.dims:
        # no loop outside a level moves what the level holds
        holders = (at for name, at in one.held.items() if dim in part.tensor(name).dims)
        outer = 0 if dim in inside else min(holders, default=len(levels) - 1)
        left = size
        for level in range(outer + 1):
            fitting = [divisor for divisor in divisors(left) if divisor <= spread[level]]
            spatial[level][dim] = random.choice(fitting)
            spread[level] //= spatial[level][dim]
            left //= spatial[level][dim]
            temporal[level][dim] = left if level == outer else random.choice(divisors(left))
            left //= temporal[level][dim]
    blocks = []
    for level, hardware in enumerate(levels):
        order = random.sample(list(temporal[level]), len(temporal[level]))
        keep = frozenset(
            tensor.name
            for tensor in part.tensors
            if level == len(levels) - 1 or level <= one.held.get(tensor.name, len(levels))
        )
        blocks.append(
            LevelMapping(
                loops((dim, temporal[level][dim]) for dim in order),
                loops(spatial[level].items()),
                (),
                keep,
            )
        )
        assert prod(spatial[level].values(), start=1) <= hardware.fanout_x
    return Mapping(tuple(blocks))


def whole(random: Random, group: LayerGroup, shared: FusedMapping, inside: str = "") -> GroupMapping:
    """A mapping below these shared loops, with a nest for every kind of turn.

    ``inside``: dims whose loops are all at the innermost level.
    """
    found, by_layer = [], {}
    for one in turns_of(group, shared):
        first, *others = (_nest(random, one, kind.part, inside) for kind in one.kinds)
        found.append(first)
        if others:
            by_layer[one.layer.name] = tuple(others)
    return GroupMapping(shared, tuple(found), by_layer)


def with_equal_orders(group: LayerGroup, mapping: GroupMapping) -> GroupMapping:
    """The mapping with all nests of a layer as its first, but for the loops over rows inside."""
    others = {}
    for one, nest in zip(turns_of(group, mapping.shared), mapping.nests, strict=True):
        shorter = []
        for kind in one.kinds[1:]:
            innermost = nest.levels[0]
            sizes = kind.part.sizes
            temporal = loops((dim, sizes["P"] if dim == "P" else bound) for dim, bound in innermost.temporal)
            shorter.append(Mapping((replace(innermost, temporal=temporal), *nest.levels[1:])))
        if shorter:
            others[one.layer.name] = tuple(shorter)
    return replace(mapping, others=others)


def mapping(random: Random, group: LayerGroup) -> GroupMapping:
    """A fused mapping of a group whose levels have room for anything."""
    return whole(random, group, tree(random, group))


def convolutions(
    random: Random,
    machine: Architecture,
    count: int,
    *,
    padded: bool = True,
    columns: bool = False,
    channels: tuple[int, ...] = (1, 2, 3),
    rows: tuple[int, ...] = (1, 2, 3, 4, 6),
    width: tuple[int, ...] = (1, 2),
    gaps: bool = False,
    pooled: bool = False,
) -> LayerGroup:
    """A chain of convolutions, pointwise, depthwise or neither, with strides, as a group.

    ``padded``: with padding, and rows behind the last window. Windows are along rows, with ``columns`` along
    columns, too. ``channels``, ``rows`` and ``width``: sizes to choose from, the last two of the last layer.
    ``gaps``: some windows are dilated, some leave rows out between them. ``pooled``: with poolings between
    layers.
    """
    kinds = [random.choice(("pointwise", "windows", "windows", "depthwise")) for _ in range(count)]
    through = [random.choice(channels)]
    for kind in kinds:
        through.append(through[-1] if kind == "depthwise" else random.choice(channels))
    made = (random.choice(rows), random.choice(width))
    layers: list[Layer] = []
    reads: list[IntermediateRead] = []
    for number in reversed(range(count)):
        wide = kinds[number] != "pointwise"
        along = [_Windows(random, made[0], wide, padded, gaps)]
        along.append(_Windows(random, made[1], columns and wide, padded, gaps))
        layer = convolution(
            f"c{number}",
            N=1,
            K=through[number + 1],
            C=through[number],
            P=made[0],
            Q=made[1],
            R=along[0].taps,
            S=along[1].taps,
            stride=(along[0].of.stride, along[1].of.stride),
            dilation=(along[0].dilation, along[1].dilation),
            groups=through[number] if kinds[number] == "depthwise" else 1,
        )
        layers.insert(0, layer)
        made = (along[0].rows, along[1].rows)
        pools: list[tuple[_Windows, _Windows]] = []
        while number and pooled and random.random() < 0.5 and len(pools) < 2:
            pool = (
                _Windows(random, made[0], True, padded, gaps),
                _Windows(random, made[1], columns, padded, gaps),
            )
            pools.insert(0, pool)
            made = (pool[0].rows, pool[1].rows)
        plain, slid = [], []
        for axis, (dim, one) in enumerate(zip("PQ", along, strict=True)):
            on_the_way = tuple(pool[axis].of for pool in pools)
            if all((windows.size, windows.stride) == (1, 1) for windows in (one.of, *on_the_way)):
                plain.append((dim, dim))
            else:
                slid.append(SlidingRead(dim, dim, one.of, on_the_way))
        reads.insert(0, IntermediateRead(number, "Inputs", tuple(plain), tuple(slid)))
    channel = ["K" if "K" in layer.sizes else "C" for layer in layers]
    intermediates = tuple(
        Intermediate(number, (replace(read, dims=(*read.dims, (channel[number], "C"))),))
        for number, read in enumerate(reads[1:])
    )
    return LayerGroup(machine, tuple(layers), intermediates)


class _Windows:
    """Windows at so many positions, and the rows that they are over; pointwise unless ``wide``.

    ``taps``: the rows that each reads, ``dilation`` rows apart.
    """

    def __init__(self, random: Random, positions: int, wide: bool, padded: bool, gaps: bool = False) -> None:
        stride = random.choice((1, 1, 2)) if wide else 1
        self.taps = random.randint(1 if gaps else stride, 3) if wide else 1
        self.dilation = random.choice((1, 2, 2, 3)) if gaps and self.taps > 1 else 1
        size = 1 + (self.taps - 1) * self.dilation
        reach, last = (positions - 1) * stride + size, (positions - 1) * stride
        above, below = (random.randint(0, size - 1) if padded else 0 for _ in range(2))
        if reach - above - below <= max(0, last - above):  # the last window would have padding alone
            above = below = 0
        behind = random.randint(0, stride - 1) if padded and not below else 0
        self.rows = reach - above - below + behind
        self.of = Windows(positions, size, stride, above)


def window_tree(random: Random, group: LayerGroup, *, anew: bool = False) -> FusedMapping:
    """Shared loops, windows among them, with backing levels and hoisted weights, without violations.

    ``anew``: with layers that make rows of windows anew, if any can.
    """
    while True:
        lists: list[Loops] = []
        for pair in range(len(group.layers) - 1):
            before = lists[-1] if lists else ()
            path = before[: random.randint(0, len(before))]
            if path == before:
                names = [
                    name
                    for name in group.loop_sizes
                    if group.dim_under(pair, name) and group.dim_under(pair + 1, name)
                    if name not in [used for used, _ in path] and group.loop_sizes[name] > 1
                ]
                for name in random.sample(names, random.randint(0, min(2, len(names)))):
                    path = (*path, (name, random.choice(divisors(group.loop_sizes[name])[:-1])))
            lists.append(path)
        around = ((), *lists, ())
        paths = tuple(max(one, other, key=len) for one, other in pairwise(around))
        backing = {
            group.layers[one.producer].name: random.choice(group.holding)
            for one in group.intermediates
            if random.random() < 0.8
        }
        hoist = {
            layer.name: {"Weights": random.randrange(len(path))}
            for layer, path in zip(group.layers, paths, strict=True)
            if path and random.random() < 0.3
        }
        found = FusedMapping(tuple(map(len, lists)), paths, (), backing, hoist)
        if anew:
            able = [(name, loop) for name in backing for loop in sliding(group, found, name)]
            chosen = frozenset(one for one in able if random.random() < 0.7)
            found = replace(found, recompute=chosen)
        if not tree_violations(group, found):
            return found


def pipelined(random: Random, shared: FusedMapping, columns: int, rows: int) -> FusedMapping | None:
    """The tree with its layers as stages of one pipeline on an array of this size; None if it cannot be."""
    count = len(shared.paths)
    sides = [side for side in (("x", columns), ("y", rows)) if side[1] >= count]
    if not sides or not shared.paths[0] or any(path != shared.paths[0] for path in shared.paths):
        return None
    if any(depth < len(shared.paths[0]) for depth in shared.prefix):
        return None
    axis, size = random.choice(sides)
    ends = sorted(random.sample(range(1, size + 1), count))
    parts = tuple(end - begin for begin, end in pairwise((0, *ends)))
    return replace(shared, pipelines=(Pipeline(0, cast(MeshAxis, axis), parts),))


def sliding(group: LayerGroup, shared: FusedMapping, name: str) -> list[str]:
    """The shared loops that slide along the rows or columns of the layer of this name."""
    position = next(number for number, layer in enumerate(group.layers) if layer.name == name)
    return [loop for loop, _ in shared.paths[position] if loop in group.slides[position]]
