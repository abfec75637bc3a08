"""Counts the bits that a mapping of a matrix product moves by walking through it, step after step.

It shares no code with the cost model, and asks other questions: not which loops move a tile, but which
elements lie in it now; not whether loops bring sums back, but how many products a sum has so far. Each level
is looked at through its first instance; all instances move alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil

from costmodel.hardware.architecture import Architecture
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer

DIMS = {"A": "MK", "B": "NK", "Z": "MN"}
"""The dims of the tensors of a product."""


@dataclass(frozen=True)
class Bits:
    """The bits of an element of each tensor, and of a partial sum."""

    A: Fraction
    B: Fraction
    Z: Fraction
    sums: Fraction


@dataclass(frozen=True)
class Moved:
    """Bits of one tensor at one level, per instance: read, filled, updated, and held by the tile."""

    reads: Fraction
    fills: Fraction
    updates: Fraction
    held: Fraction


@dataclass(frozen=True)
class _Loop:
    dim: str
    bound: int
    stride: int
    level: int
    spatial: bool


def _loops(mapping: Mapping) -> list[_Loop]:
    """All loops, innermost first, each with the points that one of its steps moves."""
    covered, found = {"M": 1, "N": 1, "K": 1}, []
    for number, level in enumerate(mapping.levels):
        for loops, spatial in ((level.spatial, True), (level.temporal, False)):
            for dim, bound in loops:
                found.append(_Loop(dim, bound, covered[dim], number, spatial))
                covered[dim] *= bound
    return found


def _points(loops: list[_Loop]) -> list[tuple[tuple[int, ...], dict[str, int]]]:
    """Every setting of the loops, the last of them slowest, with the position in each dim that it makes."""
    found = []
    for indices in product(*(range(loop.bound) for loop in reversed(loops))):
        at = {"M": 0, "N": 0, "K": 0}
        for loop, index in zip(reversed(loops), indices, strict=True):
            at[loop.dim] += loop.stride * index
        found.append((indices, at))
    return found


def moved(layer: Layer, mapping: Mapping, name: str, level: int, bits: Bits) -> Moved:
    """What the tensor ``name`` moves at a level that keeps it."""
    loops, dims = _loops(mapping), DIMS[name]
    steps = [loop for loop in loops if not loop.spatial]
    inside = [loop for loop in loops if loop.spatial and loop.level <= level]
    child = max((n for n in range(level) if name in mapping.levels[n].keep), default=-1)
    walk, spread = _points(steps), _points(inside)

    def tile(indices: tuple[int, ...], outside: int) -> tuple[int, ...]:
        """Which tile lies in the level number ``outside`` (-1: MACs, which hold nothing) at a step."""
        if outside < 0:
            return indices
        return tuple(
            index
            for loop, index in zip(reversed(steps), indices, strict=True)
            if loop.level > outside and loop.dim in dims
        )

    read = filled = updated = Fraction(0)
    products: dict[tuple[int, ...], int] = {}
    partial, visit, mine = False, None, None
    pending: dict[tuple[int, ...], int] = {}
    element_bits = getattr(bits, name)

    def arrive() -> None:
        """The child's tile leaves for this level: the sums in it are added to those that are here."""
        nonlocal read, updated, partial
        for element, count in pending.items():
            if element in products:
                read += bits.sums
            products[element] = products.get(element, 0) + count
            whole = products[element] == layer.sizes["K"]
            updated += bits.Z if whole else bits.sums
            partial = partial or not whole
        pending.clear()

    outermost = level == len(mapping.levels) - 1
    for indices, at in walk:
        touched = {
            tuple(at[dim] + more[dim] for dim in dims): None for _, more in spread
        }  # by children that hold different elements
        if not outermost and tile(indices, level) != mine:
            mine = tile(indices, level)
            if name == "Z":
                arrive()
            everything = _of_tile(mapping, loops, level, dims, indices, steps)
            if name == "Z":
                filled += sum(bits.sums for element in everything if element in products)
            else:
                filled += element_bits * len(everything)
        if tile(indices, child) != visit:
            visit = tile(indices, child)
            if name == "Z":
                arrive()
            else:
                below = touched
                if child >= 0:
                    below = _of_tile(mapping, loops, child, dims, indices, steps, level)
                read += element_bits * len(below)
        if name == "Z":
            for _, more in spread:
                element = tuple(at[dim] + more[dim] for dim in dims)
                pending[element] = pending.get(element, 0) + 1
    if name == "Z":
        arrive()
    size = 1
    for loop in loops:
        if loop.level <= level and loop.dim in dims:
            size *= loop.bound
    each = bits.sums if partial else element_bits
    return Moved(read, filled, updated, size * each)


def _of_tile(
    mapping: Mapping,
    loops: list[_Loop],
    level: int,
    dims: str,
    indices: tuple[int, ...],
    steps: list[_Loop],
    spread_up_to: int | None = None,
) -> dict[tuple[int, ...], None]:
    """The elements in the tile of a level at a step; with ``spread_up_to``, in those of all its instances
    below one instance of that level, each once."""
    fixed = {"M": 0, "N": 0, "K": 0}
    for loop, index in zip(reversed(steps), indices, strict=True):
        if loop.level > level:
            fixed[loop.dim] += loop.stride * index
    top = level if spread_up_to is None else spread_up_to
    free = [loop for loop in loops if loop.level <= level or (loop.spatial and loop.level <= top)]
    return {tuple(fixed[dim] + more[dim] for dim in dims): None for _, more in _points(free)}


@dataclass(frozen=True)
class Cost:
    """What a mapping costs, or that it does not fit."""

    energy_pj: float
    cycles: int
    fits: bool
    leakage_pj_per_cycle: float


def cost(architecture: Architecture, layer: Layer, mapping: Mapping, bits: Bits, mac_pj: float) -> Cost:
    """Energy and cycles from the bits moved; ``mac_pj`` is that of one multiply-accumulate."""
    iterations = 1
    for loop in _loops(mapping):
        iterations *= 1 if loop.spatial else loop.bound
    energy, cycles, fits = layer.macs * mac_pj, Fraction(iterations), True
    leaking = 0.0
    for number, (hardware, level) in enumerate(zip(architecture.levels, mapping.levels, strict=True)):
        instances = 1
        for loop in _loops(mapping):
            instances *= loop.bound if loop.spatial and loop.level > number else 1
        found = [moved(layer, mapping, name, number, bits) for name in sorted(level.keep)]
        block = hardware.block_size * hardware.word_bits
        for one in found:
            energy += instances * ceil(one.reads / block) * hardware.read_energy_pj
            energy += instances * ceil(one.fills / block) * hardware.write_energy_pj
            energy += instances * ceil(one.updates / block) * hardware.update_energy_pj
        if hardware.size_words is not None:
            usable = int(hardware.size_words / hardware.multiple_buffering) * hardware.word_bits
            fits = fits and sum(one.held for one in found) <= usable
        out = sum((one.reads for one in found), Fraction(0)) / hardware.word_bits
        into = sum((one.fills + one.updates for one in found), Fraction(0)) / hardware.word_bits
        for words, bandwidth in (
            (out, hardware.read_bandwidth),
            (into, hardware.write_bandwidth),
            (out + into, hardware.shared_bandwidth),
        ):
            if bandwidth is not None:
                cycles = max(cycles, words / Fraction(bandwidth))
        leaking += instances * hardware.leakage_pj_per_cycle
    return Cost(energy + leaking * ceil(cycles), ceil(cycles), fits, leaking)
