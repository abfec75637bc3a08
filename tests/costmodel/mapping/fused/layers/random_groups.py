"""Groups of layers and fused mappings of them, drawn at random."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from random import Random

from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.mapping.fused.layers.checker import tree_violations
from costmodel.mapping.fused.layers.group import GroupMapping, Intermediate, IntermediateRead, LayerGroup
from costmodel.mapping.fused.layers.turns import turns_of
from costmodel.mapping.fused.mapping import FusedMapping, Loops
from costmodel.mapping.mapping import LevelMapping, Mapping, loops
from costmodel.workload.network import Layer, gemm
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
    """A nest of every layer's part, which holds what it must."""
    found = []
    for one in turns_of(group, shared):
        levels, spread = group.architecture.levels, [level.fanout for level in group.architecture.levels]
        temporal: list[dict[str, int]] = [{} for _ in levels]
        spatial: list[dict[str, int]] = [{} for _ in levels]
        for dim, size in one.part.dims:
            # no loop outside a level moves what the level holds
            holders = (at for name, at in one.held.items() if dim in one.part.tensor(name).dims)
            outer = min(holders, default=len(levels) - 1)
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
                for tensor in one.part.tensors
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
        found.append(Mapping(tuple(blocks)))
    return tuple(found)


def mapping(random: Random, group: LayerGroup) -> GroupMapping:
    """A fused mapping of a group whose levels have room for anything."""
    shared = tree(random, group)
    return GroupMapping(shared, nests(random, group, shared))
