"""A lower bound on energy for each MAC that knows how little a level holds, and so how often it is refilled.

:mod:`costmodel.mapping.bounds.bounds` counts each word of a level's tile as brought once. A register file of
32 words for a layer of millions is refilled all the time. How often at least follows from its size, for every
mapping of the layer, even or uneven, and for every mapping of any part of it.

**Reuse.** Let a level keep a tensor, as the innermost one. Walk the temporal loops around the tile from the
inside to the first that moves it. The tensor's *span* is all loops that make the tile and those walked over.
Let M be the MACs of one instance and D the words that are delivered into its tile; the tensor's reuse is M /
D. If no dims of the tensor share an axis, its reuse is the product of the loops within its span over dims
that it does not depend on. If some do, as the rows P and R of a convolution's inputs, it is at most that
product times W, the most steps and taps that touch one word: (R + stride - 1) / stride for rows, the same for
columns, or the number of steps if that is less. Proof by induction over the loops from the inside out, with c
the product of the loops outside the span over dims that the tensor does not depend on: D is at least c times
the union of all positions of the tile. A loop over such a dim brings everything again, as the tile has moved
since. Take any other loop, of n steps over a sweep that delivers d words and has the union u. Where o words
of the tile are there already, n d - (n - 1) o words are delivered. As d >= c u, that is at least c (n u - (n
- 1) o). The second factor is at least the new union, because these o words are in both sweeps' unions.

**Two reuses share one tile.** Take three tensors of which no dim is missing in two, as K is missing in
inputs, N, P and Q in weights, and C, R and S in outputs. Let X be the tensor whose span ends outermost. It
depends on all dims that Y lacks and on all that Z lacks, and the walked loops are none of X's. So its tile
covers the loops that make the reuses of Y and of Z, and has at least reuse(Y) * reuse(Z) / W words. (If X
slides, its words are at least the points of its tile over W; if Y does, its reuse has the factor W instead.)
Spatial loops of levels between X's and those of Y and Z may be outside of X's tile; their fan-outs F bound
them. With S words at X's level, less one for each other tensor there::

    reuse(Y) * reuse(Z) <= T = S * W * F

The words delivered for each MAC are 1 / reuse. So with prices a and b of a word of Y and of Z, a MAC takes at
least the minimum of a / y + b / z with y z <= T. That is 2 sqrt(a b / T), and more where y or z would be
larger than all dims that the tensor lacks. If all three are kept at one level of S words and Z's span ends
innermost, Y has at least z / W words there, too, and F is 1. With only Y's one word subtracted this is
y z + z <= T' = (S - 1) * W, which makes the minimum 2 sqrt(a b / T') + min(a, b) / T'. X itself comes once at
least. The bound is the least over X.

**Prices.** A delivered operand is written at its level and read at the next one that keeps it, there once for
each multicast group. A delivered output is an update at the next one. Of an output whose axes are one dim
each there is also a read there and a fill here for all visits but the first: all instances together are
responsible for ``macs * m / I`` words, with I the product of the dims that it lacks and m the spatial factors
over them outside of the level (:mod:`costmodel.mapping.bounds.bounds`). A fan-out spreads a dim on one of
its sides only, which bounds m where C, R and S are one dim in truth.

**Parts and padding.** A part of the layer, a box of its outputs, has all of C, R and S, and no dim larger
than the layer's; everything above falls with the dims only as the MACs do. Padding a dim by a factor makes
that factor more MACs, and a factor of multicast or reuse at most. A dim of one that is padded at least
doubles all MACs. That matters only to a dim that may be on one side of a fan-out: there the bound is at most
twice the energy without refills.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import gcd, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.architecture import Architecture
from costmodel.limits import cached
from costmodel.mapping.bounds.rounding import ROUNDING
from costmodel.mapping.bounds.sharing import allocations
from costmodel.workload.network import Layer, Tensor
from costmodel.workload.projection import Axis

Array = NDArray[np.float64]
Fanout = tuple[int, int]
"""The X and Y fan-out of a level."""


class _Outside(NamedTuple):
    """The ``fanouts`` of levels outside of the architecture; and whether an output that lacks one dim longer
    than 1 is taken to have this dim on one side of each fan-out only, which padding could change."""

    fanouts: tuple[Fanout, ...]
    one_side: bool


class _Kept(NamedTuple):
    """A tensor whose innermost level is ``level``; arrays have an entry for each allocation of fan-outs.

    ``access_pj``: for each MAC, the energy of the words between this level and the MAC units: reads of an
    operand, updates and later reads of an output. ``price_pj``: of a word delivered to the level; 0 at the
    outermost one. ``sure_pj``: the part of the price that is due for an output's first visits, too.
    ``first_pj``: what the first visits save, for each MAC. ``most``: the largest reuse that any tile can
    have, the product of the dims that the tensor lacks times W of its windows.
    """

    level: int
    access_pj: Array
    price_pj: Array
    sure_pj: Array
    first_pj: float
    most: float


@cached(maxsize=1024)
def least_pj_per_mac(
    architecture: Architecture,
    layer: Layer,
    innermost: tuple[frozenset[int], ...] | None = None,
    outside: tuple[Fanout, ...] = (),
) -> float:
    """The least energy (pJ) of one MAC and its accesses at all levels, but for fills of the outermost one.

    It holds for every mapping of the layer, of its parts and of its padded sizes. ``innermost``: for each
    tensor the levels, by number, that can be the innermost to keep it; None: any that can keep it.
    ``outside``: fan-outs of levels further out, as the mesh of a chip is to a tile; ``architecture`` keeps
    all tensors at its outermost level. Leakage is not in it.
    """
    mac_pj, multicast = architecture.compute.energy_pj, allocations(architecture, layer, any_factor=True)
    every = frozenset(range(len(architecture.levels)))
    allowed = innermost or [every] * len(layer.tensors)
    # Twice: once for any padding, and once with outputs that lack one dim spread on one side only. Padding
    # may break the latter, but costs twice the MACs then (the last paragraph of this module's docstring).
    # Both are bounds, so the larger one counts. Each is the least over the innermost levels of the three
    # tensors.
    found = []
    for one_side in (False, True):
        choices = [
            [
                _kept(architecture, layer, index, level, multicast[:, :, index], _Outside(outside, one_side))
                for level in sorted(levels)
                if architecture.levels[level].can_keep(tensor)
            ]
            for index, (tensor, levels) in enumerate(zip(layer.tensors, allowed, strict=True))
        ]
        least = mac_pj + min(
            float(
                (
                    np.sum([one.access_pj for one in kept], axis=0) + _refills_pj(architecture, layer, kept)
                ).min()
            )
            for kept in product(*choices)
        )
        if one_side:
            least = min(least, 2 * (mac_pj + sum(_spread_accesses(architecture, kept) for kept in choices)))
        found.append(least)
    return max(found) * ROUNDING


def _spread_accesses(architecture: Architecture, kept: Sequence[_Kept]) -> float:
    """The least energy (pJ) of one tensor's accesses for one MAC, if all fan-outs inside shared each access.

    ``kept``: the tensor with each level that can be its innermost.
    """
    return min(float(one.access_pj.min()) / _fanouts(architecture, 0, one.level) for one in kept)


def _fanouts(architecture: Architecture, first: int, last: int) -> int:
    """The product of all fan-outs of levels ``first`` to ``last``."""
    return prod(level.fanout_x * level.fanout_y for level in architecture.levels[first : last + 1])


def _kept(
    architecture: Architecture,
    layer: Layer,
    index: int,
    level: int,
    multicast: Array,
    outside: _Outside,
) -> _Kept:
    """Tensor number ``index`` with its innermost level; ``multicast`` [allocations, levels]: its factors."""
    tensor, here = layer.tensors[index], architecture.levels[level]
    # The reads of an operand come from whichever level further out keeps the tensor: the cheapest of them is
    # taken, and of an output's first visits the dearest, since these are subtracted.
    nothing = np.zeros(len(multicast))
    lacked = prod(size for dim, size in layer.dims if dim not in tensor.dims)
    most = lacked * _windows(layer, tensor)
    further = range(level + 1, len(architecture.levels))
    sources = [other for other in further if architecture.levels[other].can_keep(tensor)]
    write_pj = here.write_energy_pj / here.block_size
    reads = [
        architecture.levels[one].read_energy_pj / architecture.levels[one].block_size / multicast[:, one]
        for one in (level, *sources)
    ]
    if not tensor.is_output:
        price = write_pj + np.min(reads[1:], axis=0) if sources else nothing
        return _Kept(level, reads[0], price, nothing, 0.0, most)
    updates = [
        architecture.levels[one].update_energy_pj / architecture.levels[one].block_size / multicast[:, one]
        for one in (level, *sources)
    ]
    # Of outputs that slide or stride, words that an instance is responsible for are not counted exactly, so
    # nothing is claimed of their reads: only the updates are sure.
    if tensor.slides or any(axis[0][1] != 1 for axis in tensor.terms):
        sure = np.min(updates[1:], axis=0) if sources else nothing
        return _Kept(level, updates[0], sure, sure, 0.0, most)
    owned = [_owned(architecture, layer, tensor, one, outside) for one in (level, *sources)]
    raw = [
        architecture.levels[one].read_energy_pj / architecture.levels[one].block_size
        for one in (level, *sources)
    ]
    access = updates[0] + np.maximum(reads[0] - raw[0] * owned[0], 0.0)
    if not sources:
        return _Kept(level, access, nothing, nothing, 0.0, most)
    price = write_pj + np.min(
        [read + update for read, update in zip(reads, updates, strict=True)][1:], axis=0
    )
    first_pj = write_pj * owned[0] + max(read * part for read, part in zip(raw[1:], owned[1:], strict=True))
    return _Kept(level, access, price, np.min(updates[1:], axis=0), first_pj, most)


def _owned(architecture: Architecture, layer: Layer, tensor: Tensor, level: int, outside: _Outside) -> float:
    """Words of an output that all instances of a level together are responsible for, for each MAC, at most.

    It is the spatial factors over the dims that the output lacks, outside of the level, divided by the sizes
    of these dims.
    """
    lacked = [size for dim, size in layer.dims if dim not in tensor.dims and size > 1]
    fanouts = [(one.fanout_x, one.fanout_y) for one in architecture.levels[level + 1 :]]
    single = outside.one_side and len(lacked) == 1
    spread = prod(max(sides) if single else prod(sides) for sides in (*fanouts, *outside.fanouts))
    return min(1.0, spread / prod(lacked))


def _windows(layer: Layer, tensor: Tensor) -> float:
    """The most steps and taps that touch one word of a tensor: 1 if no dims share an axis."""
    return prod(_window(layer, axis) for axis in tensor.terms if len(axis) == 2)


def _window(layer: Layer, axis: Axis) -> float:
    """The same for one axis: a * i + b * j has the same value for (i, j) and for (i + b / g, j - a / g)."""
    (one, a), (other, b) = axis
    common = gcd(a, b)
    return min(
        (layer.sizes[one] - 1) / (b // common) + 1,
        (layer.sizes[other] - 1) / (a // common) + 1,
    )


def _refills_pj(architecture: Architecture, layer: Layer, kept: Sequence[_Kept]) -> Array:
    """The least energy of deliveries to the tensors' innermost levels, for each MAC [allocations]."""
    lacked = [dim for tensor in layer.tensors for dim, _ in layer.dims if dim not in tensor.dims]
    wide = any(len(axis) > 2 for tensor in layer.tensors for axis in tensor.terms)
    sliding = sum(tensor.slides for tensor in layer.tensors)
    # The proof is for three tensors, no dim missing in two of them, and one sliding tensor at most. For other
    # layers, such as depthwise convolutions, no refills are claimed.
    if len(kept) != 3 or len(set(lacked)) != len(lacked) or wide or sliding > 1:
        return np.zeros_like(kept[0].access_pj)
    windows = prod(_windows(layer, tensor) for tensor in layer.tensors)
    found = []
    for outermost in range(3):
        first, second = (one for number, one in enumerate(kept) if number != outermost)
        found.append(
            _pair_pj(architecture, windows, kept[outermost], first, second) + _once_pj(kept[outermost])
        )
    least: Array = np.min(found, axis=0)
    return least


def _once_pj(one: _Kept) -> Array:
    """A tensor at its largest reuse."""
    return np.maximum(one.price_pj / one.most - one.first_pj, one.sure_pj / one.most)


def _pair_pj(architecture: Architecture, windows: float, outer: _Kept, one: _Kept, other: _Kept) -> Array:
    """The least energy of two tensors whose reuses share the tile of ``outer``, for each MAC."""
    size = architecture.levels[outer.level].usable_words
    beside = (one.level == outer.level) + (other.level == outer.level)
    fanouts = _fanouts(architecture, outer.level + 1, max(one.level, other.level))
    least = _product_pj(max(size - beside, 1.0) * windows * fanouts, one, other, one.price_pj, other.price_pj)
    if beside == 2:
        a, b, words = one.price_pj, other.price_pj, max(size - 1, 1.0) * windows
        least = np.maximum(least, 2 * np.sqrt(a * b / words) + np.minimum(a, b) / words)
    # only one of the two is an output, so only one has first visits
    least = least - one.first_pj - other.first_pj
    sure = [item.sure_pj if item.first_pj else item.price_pj for item in (one, other)]
    return np.maximum(
        least,
        _product_pj(max(size - beside, 1.0) * windows * fanouts, one, other, *sure),
    )


def _product_pj(words: float, one: _Kept, other: _Kept, a: Array, b: Array) -> Array:
    """The least of a / y + b / z where y * z <= ``words`` and neither is above its tensor's largest reuse."""
    if one.most * other.most <= words:
        return a / one.most + b / other.most
    # On y * z = words the sum is least at y = sqrt(a * words / b), or as near to that as the largest reuses
    # let it be; where b is 0, y is as large as it can be.
    with np.errstate(divide="ignore", invalid="ignore"):
        reuse = np.nan_to_num(np.sqrt(a * words / b), nan=one.most, posinf=one.most)
    reuse = np.clip(reuse, words / other.most, one.most)
    found: Array = a / reuse + b * reuse / words
    return found


def least_operand_pj(architecture: Architecture, layer: Layer) -> float:
    """The least energy (pJ) of the accesses for one MAC at the levels that hand it its operands.

    Each MAC reads both operands at the innermost level that keeps them, and updates its output there. One
    access serves no more MACs than the fan-outs up to that level reach. It holds for every nest whose tensors
    are kept by the innermost level that can keep them, of any part of the layer, whoever filled the levels.
    """
    found = 0.0
    for tensor in layer.tensors:
        index = architecture.innermost_keeping(tensor)
        level = architecture.levels[index]
        pj = level.update_energy_pj if tensor.is_output else level.read_energy_pj
        found += pj / level.block_size / _fanouts(architecture, 0, index)
    return found * ROUNDING
