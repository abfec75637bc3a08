"""Lower bounds on energy and cycles that hold for every mapping the cost model counts.

Notation: ``i`` runs over levels (0 innermost, D outermost), ``macs`` are the layer's MACs, ``s_l`` the
product of the spatial factors of the block under level ``l``, ``m_l`` the multicast (outputs: reduction)
factor of a tensor there: ``s_l`` over the number of multicast groups.

**Operands.** Let ``i`` be the innermost level that keeps a tensor. Bypassed levels pass on what goes
through them, so each instance of ``i`` sends ``compute_cycles * g_0 * ... * g_i`` words, ``g_l = s_l / m_l``
being the groups. There are ``s_(i+1) * ... * s_D`` instances and ``compute_cycles * s_0 * ... * s_D = macs``,
so together they send ``macs / (m_0 * ... * m_i)`` words. :func:`costmodel.mapping.sharing.allocations` bounds
the products of the ``m_l`` of all tensors at once. Outputs: these are the updates; the reads are fewer by the
partitions (item 9), which add up to ``outputs * (product of irrelevant spatial factors outside i)``, that is
``macs * (m_(i+1) * ... * m_D) / I`` with ``I`` the product of the irrelevant dims (only claimed for outputs
whose axes are single dims without coefficient, where partitions divide exactly).

**Compulsory words.** What the loops outside a tile deliver into it (item 3) is at least the union of all its
positions: after every sweep of the loops inside a loop ``k``, the next sweep either starts with a whole tile,
or with what the overlap leaves of it when the tile moves from the counted end of the sweep (iteration 1 of
every loop) as the innermost loop moves it, or with nothing when it starts at that very position; in each
case the words counted before contain the rest, by induction over ``k``. Spatial copies add at most one
union per group. So D sends at least the distinct words the MACs touch, whatever is bypassed, and the
instances of a level that keeps the tensor are filled with at least as many.

**Blocks.** Accesses are rounded up to blocks per instance, so ``n`` words cost at least ``n / block``
accesses, and in the one instance of D ``ceil(n / block)``.

**Energy and cycles together.** Every mapping has an innermost level for each tensor (the *choice*) and is
covered by an allocation. Given both, its energy is at least: the MACs; per tensor the operands at its
innermost level, fills of it and, if it is not D, the compulsory words at D; leakage, of
``s_(i+1) * ... * s_D >= 1`` instances a level, for at least ``macs / (s_0 * ... * s_D)`` and for at least the
cycles below. Its cycles are at least ``macs`` over the largest product of spatial factors that fit the
fan-outs and divide ``macs``, and for every level what its instances need to move the words just named. Least
energy, least cycles and least product are each the minimum over all choices and allocations.

**Fewer or more mappings.** A :class:`Scope` may leave out innermost levels, and so choices. Or it may allow
the dims to be larger (padding): MACs, words touched and irrelevant products only grow with the dims,
multicast factors are bounded for all sizes up to the largest at once, and for parallelism fan-outs count in
full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, inf, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.architecture import Architecture
from costmodel.limits import cached
from costmodel.mapping.rounding import ROUNDING
from costmodel.mapping.sharing import allocations, fanouts_to, largest_product
from costmodel.mapping.traffic import distinct_sums
from costmodel.workload.network import Layer, Tensor

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Bounds:
    """No mapping of the layer on the architecture takes less; the product can be above that of the two."""

    energy_pj: float
    cycles: int
    edp_pj_cycles: float


@dataclass(frozen=True)
class Scope:
    """Which mappings the bounds are to hold for; as it stands all of the layer's.

    ``innermost``: per tensor the levels (indices) of which one is the innermost that keeps it; None: any.
    ``largest``: the layer with every dim as large as it may be padded to; None: no padding.
    """

    innermost: tuple[frozenset[int], ...] | None = None
    largest: Layer | None = None


ANY_MAPPING = Scope()


class _Words(NamedTuple):
    """Words of one tensor at one level, in all its instances; arrays with an entry per allocation."""

    level: int
    reads: Array
    fills: Array
    updates: Array

    def energy_pj(self, architecture: Architecture) -> Array:
        level = architecture.levels[self.level]
        energy = (
            self.reads * level.read_energy_pj
            + self.fills * level.write_energy_pj
            + self.updates * level.update_energy_pj
        )
        return energy / level.block_size


class _Option(NamedTuple):
    """A tensor's innermost level: what that costs, and the words whose bandwidth it asks for."""

    energy_pj: Array
    words: tuple[_Words, ...]


@cached(maxsize=64)
def lower_bounds(architecture: Architecture, layer: Layer, scope: Scope = ANY_MAPPING) -> Bounds:
    """Bounds for all mappings of ``layer`` in ``scope``; see the module for the proof.

    As ``scope`` stands by default that is all mappings, with any bypass.
    """
    padded = scope.largest is not None
    multicast = allocations(architecture, scope.largest or layer, any_factor=padded)
    every = frozenset(range(len(architecture.levels)))
    options = [
        _options(architecture, layer, tensor, (multicast[:, :, index], allowed))
        for index, (tensor, allowed) in enumerate(
            zip(layer.tensors, scope.innermost or [every] * len(layer.tensors), strict=True)
        )
    ]
    fastest = -(-layer.macs // _parallel(architecture, layer, len(architecture.levels), padded))
    energy = cycles = edp = inf
    for choice in product(*options):
        moved = _cycles(architecture, [words for option in choice for words in option.words])
        taken = np.maximum(np.ceil(moved * ROUNDING), fastest)
        spent = layer.macs * architecture.compute.energy_pj + _leakage(architecture, layer, taken, padded)
        for option in choice:
            spent = spent + option.energy_pj
        energy = min(energy, float(spent.min()))
        cycles = min(cycles, float(taken.min()))
        edp = min(edp, float((spent * taken).min()))
    return Bounds(energy * ROUNDING, int(cycles), edp * ROUNDING)


def touched_words(tensor: Tensor, layer: Layer) -> int:
    """Distinct words of the tensor that the layer's MACs use: the holes of strides are not."""
    return prod(distinct_sums([(layer.sizes[dim], step) for dim, step in axis]) for axis in tensor.axes)


def _parallel(architecture: Architecture, layer: Layer, levels: int, padded: bool) -> int:
    """The most MACs at once below the innermost ``levels`` levels' fan-outs."""
    fanouts = fanouts_to(architecture, levels)
    return prod(fanouts) if padded else largest_product(layer.macs, fanouts)


def _options(
    architecture: Architecture, layer: Layer, tensor: Tensor, sharing: tuple[Array, frozenset[int]]
) -> list[_Option]:
    """The tensor's options; levels of unlimited bandwidth make one together, as cheap as the cheapest.

    ``sharing``: the bounds on its multicast factors, and the levels that may be its innermost.
    """
    multicast, allowed = sharing
    dram, outermost = architecture.levels[-1], len(architecture.levels) - 1
    touched = touched_words(tensor, layer)
    least = _compulsory(tensor, outermost, np.full(len(multicast), float(touched)))
    access_pj = dram.update_energy_pj if tensor.is_output else dram.read_energy_pj
    least_pj = ceil(touched / dram.block_size) * access_pj
    options: list[_Option] = []
    unlimited: list[Array] = []
    for index, level in enumerate(architecture.levels[:-1]):
        if not level.can_keep(tensor) or index not in allowed:
            continue
        words = _operands(layer, tensor, index, multicast)
        if not tensor.is_output:
            words = words._replace(fills=least.reads)
        energy = words.energy_pj(architecture) + least_pj
        if level.read_bandwidth or level.write_bandwidth or level.shared_bandwidth:
            options.append(_Option(energy, (words, least)))
        else:
            unlimited.append(energy)
    if unlimited:
        options.append(_Option(np.min(unlimited, axis=0), (least,)))
    if outermost not in allowed and options:
        return options
    words = _operands(layer, tensor, outermost, multicast)
    return [*options, _Option(np.maximum(words.energy_pj(architecture), least_pj), (words,))]


def _compulsory(tensor: Tensor, outermost: int, touched: Array) -> _Words:
    none = np.zeros_like(touched)
    if tensor.is_output:
        return _Words(outermost, none, none, touched)
    return _Words(outermost, touched, none, none)


def _operands(layer: Layer, tensor: Tensor, level: int, multicast: Array) -> _Words:
    """The words that ``level`` moves if it is the tensor's innermost, without fills."""
    words = layer.macs / multicast[:, level]
    none = np.zeros_like(words)
    if not tensor.is_output:
        return _Words(level, words, none, none)
    if any(len(axis) != 1 or axis[0][1] != 1 for axis in tensor.axes):
        return _Words(level, none, none, words)
    irrelevant = prod(size for dim, size in layer.dims if dim not in tensor.dims)
    return _Words(level, words * np.maximum(0.0, 1 - multicast[:, -1] / irrelevant), none, words)


def _cycles(architecture: Architecture, parts: Sequence[_Words]) -> Array:
    """Cycles in which the instances of every level can move the words that it is asked for."""
    slowest = np.zeros_like(parts[0].reads)
    for index in {part.level for part in parts}:
        level, here = architecture.levels[index], [part for part in parts if part.level == index]
        reads = np.sum([part.reads for part in here], axis=0)
        writes = np.sum([part.fills + part.updates for part in here], axis=0)
        for bandwidth, words in (
            (level.read_bandwidth, reads),
            (level.write_bandwidth, writes),
            (level.shared_bandwidth, reads + writes),
        ):
            if bandwidth:
                slowest = np.maximum(slowest, words / (bandwidth * architecture.instances[index]))
    return slowest


def _leakage(architecture: Architecture, layer: Layer, cycles: Array, padded: bool) -> Array:
    total = np.zeros_like(cycles)
    for index, level in enumerate(architecture.levels):
        if level.leakage_pj_per_cycle:
            inside = _parallel(architecture, layer, index, padded)
            total += level.leakage_pj_per_cycle * np.maximum(cycles, layer.macs / inside)
    return total
