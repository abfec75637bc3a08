"""Lower bounds on energy and cycles that hold for every mapping the cost model counts.

They need no search: a mapping is known here only by the innermost level that keeps each tensor (its *choice*)
and by how its spatial fan-outs are spent (its *allocation*). ``lower_bounds`` takes the least over all
choices and all allocations. Items are those of ``costmodel/mapping/counts/traffic.py``.

Notation: ``l`` runs over levels, 0 the innermost and D the outermost; ``macs`` are the layer's MACs; ``s_l``
is the product of the spatial factors of level ``l``'s fan-out; ``m_l`` is a tensor's multicast factor there
(of an output the reduction factor): ``s_l`` divided by the number of multicast groups.

**Words of the MACs.** Let ``i`` be the innermost level that keeps a tensor. Bypassed levels pass on what goes
through them, so each instance of ``i`` sends ``compute_cycles * g_0 * ... * g_i`` words, where ``g_l = s_l /
m_l`` are the groups. There are ``s_(i+1) * ... * s_D`` instances, and ``compute_cycles * s_0 * ... * s_D =
macs``. So all instances together send ``macs / (m_0 * ... * m_i)`` words.
:func:`costmodel.mapping.bounds.sharing.allocations` bounds these products of multicast factors from above,
for all tensors at once.

For an output, these words are the updates. The reads are fewer by the partitions (item 9), for the first
visit of a word reads nothing. All partitions together are ``outputs * (product of the irrelevant spatial
factors outside i)``, which is ``macs * (m_(i+1) * ... * m_D) / I`` with ``I`` the product of the irrelevant
dims. This is only claimed for outputs each of whose axes is one dim with coefficient 1, where partitions
divide exactly; of other outputs the bound counts no reads.

**Compulsory words.** What the loops outside a tile deliver into it (item 3) is at least the union of all its
positions. The proof is by induction over the loops, from the inside out. Each iteration
of a loop ``k`` makes one *sweep* of all loops inside it, for which the claim is assumed. The first tile of a
later sweep is counted in one of three ways: as a whole tile; or, if the tile moves there as the innermost
moving loop moves it, by the words that are new in it; or as nothing, if the tile is there already. In each
case the words that are not counted have been counted before. Spatial copies add at most one union for each
multicast group. So D sends at least the distinct words that the MACs touch, whatever is bypassed,
and the instances of a level that keeps the tensor are filled with at least as many.

**Blocks.** Accesses are rounded up to whole blocks in each instance. So at least ``n / block`` accesses are
needed for ``n`` words, and in the one instance of D ``ceil(n / block)``.

**Energy and cycles together.** Every mapping has a choice, and its use of the fan-outs is covered by an
allocation. Given both, its energy is at least the sum of

* the energy of the MACs;
* for each tensor the words between its innermost level and the MACs, the fills of that level, and, if that
  level is not D, the compulsory words at D;
* leakage. Level ``l`` has ``s_(l+1) * ... * s_D >= 1`` instances. The compute cycles are
  ``macs / (s_0 * ... * s_D)``, so instances times cycles are at least ``macs / (s_0 * ... * s_l)``. They are
  also at least the cycles below.

Its cycles are at least ``macs`` over the largest product of spatial factors that fit the fan-outs and divide
``macs``; and at least what the instances of each level need to move the words just named. The least energy,
the least cycles and the least product are each a minimum over all choices and allocations.

**Timing.** On a machine with timing the cycles are at least those of
:mod:`costmodel.mapping.bounds.timed`. Where the timing describes the array, neither the MACs nor the compute
cycles bound them, and where it describes both ports, the outermost level's bandwidth does not either.

**Fewer or more mappings.** A :class:`Scope` may rule out innermost levels, which leaves fewer choices. Or it
may allow larger dims (padding). MACs, words touched and products of irrelevant dims only grow with the dims;
multicast factors are bounded for all sizes up to the largest at once; and for the parallelism fan-outs count
in full, as larger dims may divide by anything.
"""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, inf, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.architecture import Architecture
from costmodel.limits import cached
from costmodel.mapping.bounds.rounding import ROUNDING
from costmodel.mapping.bounds.sharing import allocations, fanouts_to, largest_product
from costmodel.mapping.bounds.timed import least_timed_cycles
from costmodel.mapping.counts.traffic import distinct_sums
from costmodel.mapping.element_bits import cheapest_in_words
from costmodel.mapping.timing.walk import has_inner_steps
from costmodel.workload.network import Layer, Tensor

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Bounds:
    """No mapping of the layer on the architecture takes less.

    ``edp_pj_cycles`` can be above the product of the other two: least energy and least cycles may need
    different mappings."""

    energy_pj: float
    cycles: int
    edp_pj_cycles: float


@dataclass(frozen=True)
class Scope:
    """The mappings that the bounds hold for; by default all mappings of the layer.

    ``innermost``: for each tensor the levels (indices) that can be the innermost to keep it; None: any.
    ``largest``: the layer with every dim as large as padding may make it; None: no padding.
    """

    innermost: tuple[frozenset[int], ...] | None = None
    largest: Layer | None = None


ANY_MAPPING = Scope()


class _Words(NamedTuple):
    """Words of one tensor at one level, of all its instances together; float [allocations] each.

    Allocations are those of :func:`costmodel.mapping.bounds.sharing.allocations`."""

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
    """One choice of a tensor's innermost level: its least energy in pJ [allocations], and the words that it
    moves at levels whose bandwidth can limit the cycles."""

    energy_pj: Array
    words: tuple[_Words, ...]


@cached(maxsize=64)
def lower_bounds(architecture: Architecture, layer: Layer, scope: Scope = ANY_MAPPING) -> Bounds:
    """Bounds for all mappings of ``layer`` in ``scope``, by default all with any bypass.

    The proof is in this module's docstring. Where elements are no words, the bounds are those of a machine
    that costs no more (:func:`.cheapest_in_words`).
    """
    if architecture.precision is not None:
        words, plain = cheapest_in_words(architecture, layer)
        largest = scope.largest and replace(scope.largest, bits=(), caches=())
        return lower_bounds(words, plain, replace(scope, largest=largest))
    padded = scope.largest is not None
    multicast = allocations(architecture, scope.largest or layer, any_factor=padded)
    every = frozenset(range(len(architecture.levels)))
    options = [
        _options(architecture, layer, tensor, (multicast[:, :, index], allowed))
        for index, (tensor, allowed) in enumerate(
            zip(layer.tensors, scope.innermost or [every] * len(layer.tensors), strict=True)
        )
    ]
    fastest = 0
    if _has_mac_cycles(architecture):
        fastest = -(-layer.macs // _parallel(architecture, layer, len(architecture.levels), padded))
    energy = cycles = edp = inf
    for choice in product(*options):
        moved = _cycles(architecture, [words for option in choice for words in option.words])
        taken = np.maximum(np.ceil(moved * ROUNDING), fastest)
        if architecture.timing is not None:
            # of parts that run one after the other, the timed cycles have only a part of these inside
            inner = 0.0 if has_inner_steps(architecture) else float(taken.min())
            timed = least_timed_cycles(architecture, layer, inner, larger=padded)
            taken = np.maximum(taken, ceil(timed * ROUNDING))
        spent = layer.macs * architecture.compute.energy_pj + _leakage(architecture, layer, taken, padded)
        for option in choice:
            spent = spent + option.energy_pj
        energy = min(energy, float(spent.min()))
        cycles = min(cycles, float(taken.min()))
        edp = min(edp, float((spent * taken).min()))
    return Bounds(energy * ROUNDING, int(cycles), edp * ROUNDING)


def _has_mac_cycles(architecture: Architecture) -> bool:
    """Whether a mapping takes at least as many cycles as its nest has temporal iterations.

    A machine whose timing describes the array need not: it cuts tiles into blocks of its own.
    """
    return architecture.timing is None or architecture.timing.array is None


def touched_words(tensor: Tensor, sizes: ReadOnlyDict[str, int]) -> int:
    """Distinct words of the tensor that MACs on dims of these sizes use, without those that strides skip."""
    return prod(
        sizes[axis[0][0]] if len(axis) == 1 else distinct_sums([(sizes[dim], step) for dim, step in axis])
        for axis in tensor.terms
    )


def _parallel(architecture: Architecture, layer: Layer, level: int, padded: bool) -> int:
    """The most MACs that can run at once below one instance of level number ``level``.

    ``level = len(architecture.levels)`` stands for the whole array. Fan-outs count as far as the layer's MACs
    divide by what is used of them, and in full where dims may be ``padded``.
    """
    fanouts = fanouts_to(architecture, level)
    return prod(fanouts) if padded else largest_product(layer.macs, fanouts)


def _options(
    architecture: Architecture, layer: Layer, tensor: Tensor, sharing: tuple[Array, frozenset[int]]
) -> list[_Option]:
    """The choices of the tensor's innermost level.

    All inner levels of unlimited bandwidth make one option together, at each allocation as cheap as the
    cheapest: they differ in energy only, and options multiply over the tensors. ``sharing``: the bounds on
    the tensor's multicast factors, and the levels that may be its innermost.
    """
    multicast, allowed = sharing
    dram, outermost = architecture.levels[-1], len(architecture.levels) - 1
    touched = touched_words(tensor, layer.sizes)
    least = _compulsory(tensor, outermost, np.full(len(multicast), float(touched)))
    access_pj = dram.update_energy_pj if tensor.is_output else dram.read_energy_pj
    least_pj = ceil(touched / dram.block_size) * access_pj
    options: list[_Option] = []
    unlimited: list[Array] = []
    for index, level in enumerate(architecture.levels[:-1]):
        if not level.can_keep(tensor) or index not in allowed:
            continue
        words = _mac_words(layer, tensor, index, multicast)
        if not tensor.is_output:
            words = words._replace(fills=least.reads)
        energy = words.energy_pj(architecture) + least_pj
        if level.read_bandwidth or level.write_bandwidth or level.shared_bandwidth:
            options.append(_Option(energy, (words, least)))
        else:
            unlimited.append(energy)
    if unlimited:
        options.append(_Option(np.min(unlimited, axis=0), (least,)))
    # With no level left there is no mapping and every number is a bound: the outermost level's is one, and
    # saves the caller an empty list.
    if outermost not in allowed and options:
        return options
    words = _mac_words(layer, tensor, outermost, multicast)
    # the words that D sends to the MACs and its compulsory words are the same words here: the larger count,
    # not the sum
    return [*options, _Option(np.maximum(words.energy_pj(architecture), least_pj), (words,))]


def _compulsory(tensor: Tensor, outermost: int, touched: Array) -> _Words:
    """The compulsory words at the outermost level: reads of an operand, updates of an output."""
    none = np.zeros_like(touched)
    if tensor.is_output:
        return _Words(outermost, none, none, touched)
    return _Words(outermost, touched, none, none)


def _mac_words(layer: Layer, tensor: Tensor, level: int, multicast: Array) -> _Words:
    """The words between ``level``, if it is the tensor's innermost, and the MACs, over the whole layer.

    Of an operand they are read there; of an output they are updated there, and read again but for first
    visits.
    """
    words = layer.macs / multicast[:, level]
    none = np.zeros_like(words)
    if not tensor.is_output:
        return _Words(level, words, none, none)
    if any(len(axis) != 1 or axis[0][1] != 1 for axis in tensor.terms):
        return _Words(level, none, none, words)
    irrelevant = prod(size for dim, size in layer.dims if dim not in tensor.dims)
    return _Words(level, words * np.maximum(0.0, 1 - multicast[:, -1] / irrelevant), none, words)


def _cycles(architecture: Architecture, parts: Sequence[_Words]) -> Array:
    """Cycles that the instances of every level need at least to move their ``parts``, the slowest bandwidth
    of any level: float [allocations]."""
    slowest = np.zeros_like(parts[0].reads)
    timing = architecture.timing
    # The ports that the timing describes take the place of the outermost level's bandwidth. Those of a level
    # inside are between it and the next one inwards, and its own bandwidth counts as well.
    ports = timing is not None and timing.load and timing.store and not has_inner_steps(architecture)
    described = {len(architecture.levels) - 1} if ports else set()
    for index in {part.level for part in parts} - described:
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
    """Leakage in pJ of all levels [allocations]: see "Energy and cycles together" above."""
    total = np.zeros_like(cycles)
    for index, level in enumerate(architecture.levels):
        if level.leakage_pj_per_cycle:
            lasts = cycles
            if _has_mac_cycles(architecture):
                lasts = np.maximum(cycles, layer.macs / _parallel(architecture, layer, index, padded))
            total += level.leakage_pj_per_cycle * lasts
    return total
