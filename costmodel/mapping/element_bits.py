"""Tensors whose elements are not a word each: what levels hold and move is then counted in units of bits.

An architecture's ``precision`` gives every tensor a width. Elements are packed: a level of 16-bit words
holds four int4 weights in a word, and an access moves four of them. Only the sum of a tensor's bits is
rounded up to blocks, per kind of access and instance, as words are (item 10 of
``costmodel/mapping/counts/traffic.py``).

**Partial sums.** An output is as wide as a partial sum as long as products are still to be added to it, and
as an activation from then on. So at one level

* a sum that is read to be added to, or filled because it comes back, is a partial sum;
* so is every update but the last one of each sum, with which it is finished;
* a tile takes the bits of partial sums in its level, unless every sum is finished when it arrives.

A fan-out outside the level that spreads a summed dim (one that the outputs do not have) leaves each instance
with parts of the sums: there nothing is ever finished. Elsewhere the loops tell whether sums arrive finished.
MAC units hold no sums, so any loop over a summed dim brings them again. The tile of a level stays where it is
and goes on adding while the loops directly outside it are summed ones; any summed loop further out takes it
away before it has all products. For a summed C and an output's K, from a tile outwards::

    tile | C2  K8 |  every sum leaves once, and arrives finished
    tile | K8  C2 |  every sum leaves and arrives twice

**Units.** All this is integer arithmetic. For each level there is a unit, the largest that divides its words
and all widths. Block sizes, capacities and bandwidths are then whole multiples of it, elements too, and the
formulas for words (``energy.py``, ``latency.py``) count units as they stand. If every width is that of the
level's words, a unit is a word and nothing changes, to the last bit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor, gcd, inf, lcm
from typing import Protocol

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.hardware.precision import MOST_GROUPED, Precision, Width
from costmodel.limits import cached
from costmodel.mapping.bounds.rounding import ROUNDING
from costmodel.workload.network import MOST_COUNTED, Layer, Tensor


@dataclass(frozen=True)
class LevelUnits:
    """One level in units: ``word`` units of each word, ``elements`` of an element by tensor, ``sums`` of a
    partial sum. An output that is finished has its entry in ``elements``."""

    word: int
    elements: dict[str, int]
    sums: int

    @property
    def is_words(self) -> bool:
        """Whether every element is a word."""
        return self.word == self.sums == 1 and set(self.elements.values()) == {1}


def width_of(precision: Precision, layer: Layer, tensor: Tensor) -> Width:
    """The width of a tensor's elements; of the output, once it is finished."""
    if precision.from_network and (stated := dict(layer.bits).get(tensor.name)) is not None:
        # a scale for more elements than a width can say is next to nothing
        scales = (one[1:] for one in layer.scales if one[0] == tensor.name and one[2] <= MOST_GROUPED)
        scale = next(scales, ())
        return Width(stated, *scale)
    if tensor.name in layer.caches:
        return precision.caches
    return precision.weights if tensor.role == "weights" else precision.activations


def _bits(precision: Precision, layer: Layer) -> tuple[dict[str, Fraction], Fraction]:
    """Bits of an element by tensor, and of a partial sum, which is never narrower than a finished output."""
    bits = {tensor.name: width_of(precision, layer, tensor).per_element for tensor in layer.tensors}
    return bits, max(precision.partial_sums.per_element, bits[layer.output.name])


def units_of(architecture: Architecture, layer: Layer) -> tuple[LevelUnits, ...] | None:
    """Each level in units, innermost first; None where every element is a word everywhere.

    InputError for a layer whose counts in units could exceed 64 bits.
    """
    return None if architecture.precision is None else _units(architecture, architecture.precision, layer)


@cached(maxsize=256)
def _units(architecture: Architecture, precision: Precision, layer: Layer) -> tuple[LevelUnits, ...] | None:
    bits, sums = _bits(precision, layer)
    found = tuple(_in_units(level.word_bits, bits, sums) for level in architecture.levels)
    if all(units.is_words for units in found):
        return None
    widest = max(max(units.word, units.sums, *units.elements.values()) for units in found)
    if layer.macs * widest > MOST_COUNTED:
        expected = f"at most {MOST_COUNTED:,} MACs times units of an element (64-bit counts)"
        remedy = "Choose widths and groups that have more factors in common with the words"
        raise InputError(f"layer {layer.name}", expected, layer.macs * widest, remedy, key="precision")
    return found


def _in_units(word_bits: int, bits: dict[str, Fraction], sums: Fraction) -> LevelUnits:
    """The units of one level: whole multiples of the largest unit that divides all of them."""
    widths = [Fraction(word_bits), *bits.values(), sums]
    denominator = lcm(*(width.denominator for width in widths))
    unit = Fraction(gcd(*(int(width * denominator) for width in widths)), denominator)
    return LevelUnits(
        int(word_bits / unit), {name: int(width / unit) for name, width in bits.items()}, int(sums / unit)
    )


def stack_in_units(architecture: Architecture, layer: Layer) -> Architecture:
    """The architecture with block sizes, usable sizes and bandwidths in units, which may be words."""
    units = units_of(architecture, layer)
    if units is None:
        return architecture
    levels = (_level_in_units(level, one) for level, one in zip(architecture.levels, units, strict=True))
    return replace(architecture, levels=tuple(levels))


def _level_in_units(level: StorageLevel, units: LevelUnits) -> StorageLevel:
    word = units.word
    return replace(
        _of_size(level, level.usable_words * word),
        block_size=level.block_size * word,
        read_bandwidth=None if level.read_bandwidth is None else level.read_bandwidth * word,
        write_bandwidth=None if level.write_bandwidth is None else level.write_bandwidth * word,
        shared_bandwidth=None if level.shared_bandwidth is None else level.shared_bandwidth * word,
    )


def _of_size(level: StorageLevel, usable: float) -> StorageLevel:
    """The level with ``usable`` words usable.

    A level has at least one word, so where less than one is usable it gets one word and two buffers: 1 / 2
    rounds down to 0 usable words.
    """
    if usable == inf:
        return level
    return replace(level, size_words=max(1, floor(usable)), multiple_buffering=1.0 if usable >= 1 else 2.0)


@dataclass(frozen=True)
class OpenSums:
    """Of one level that keeps the output: whether what it holds are partial sums, and why.

    ``split``: a fan-out outside spreads a summed dim, so no instance here ever has all products of a sum.
    ``arrive``: the level holds partial sums, because they come from inside before all their products are
    added, or because of ``split``.
    """

    arrive: bool
    split: bool


class LevelLoops(Protocol):
    """One level's part of a nest: its loops as (dim, bound), innermost first, and the tensors kept there."""

    @property
    def temporal(self) -> Sequence[tuple[str, int]]: ...
    @property
    def spatial(self) -> Sequence[tuple[str, int]]: ...
    @property
    def keep(self) -> Collection[str]: ...


def open_sums(layer: Layer, levels: Sequence[LevelLoops]) -> tuple[OpenSums, ...]:
    """Which sums are unfinished, by level (or part of one), innermost first; see this module's docstring.

    What a level that bypasses the output has here means nothing.
    """
    found, inner = [], -1
    for index, level in enumerate(levels):
        outside = levels[index + 1 :]
        split = any(dim in layer.summed for outer in outside for dim, _ in outer.spatial)
        # MAC units hold nothing: every iteration over a summed dim brings the sum back.
        arriving = [dim for outer in levels[inner + 1 :] for dim, _ in outer.temporal]
        arrive = any(dim in layer.summed for dim in arriving) if inner < 0 else _comes_back(layer, arriving)
        found.append(OpenSums(split or arrive, split))
        if layer.output.name in level.keep:
            inner = index
    return tuple(found)


def _comes_back(layer: Layer, dims: Sequence[str]) -> bool:
    """Whether loops over ``dims`` outside a tile of the output, innermost first, take it away and bring it
    back."""
    moved = next((number for number, dim in enumerate(dims) if dim not in layer.summed), len(dims))
    return any(dim in layer.summed for dim in dims[moved:])


def held_units(layer: Layer, tensor: Tensor, units: LevelUnits, sums: OpenSums) -> int:
    """Units of one element of a tensor in a level's tile."""
    return units.sums if tensor is layer.output and sums.arrive else units.elements[tensor.name]


def mac_pj(architecture: Architecture, layer: Layer) -> float:
    """Energy of one multiply-accumulate of the layer.

    Operands as wide as those of the architecture's MAC units take what these take. Others take what the
    technology's law says for a multiplier of their two widths; the scale that a group of elements shares
    (:class:`.Width`) is no part of an operand. InputError
    where there is no law, and for a layer that does not multiply two tensors.
    """
    compute, precision = architecture.compute, architecture.precision
    if precision is None:
        return compute.energy_pj
    operands = [width_of(precision, layer, tensor).bits for tensor in layer.tensors if not tensor.is_output]
    if set(operands) == {compute.word_bits}:
        return compute.energy_pj
    where = f"architecture {architecture.name}"
    if precision.pj_per_bit_product is None:
        remedy = (
            f"Name a technology with a mac_energy, or give operands the {compute.word_bits} bits of the MACs"
        )
        found = f"operands of {' and '.join(map(str, operands))} bits"
        raise InputError(where, "a law of the energy of MACs", found, remedy, key="precision")
    if len(operands) != 2:
        raise InputError(where, "layers that multiply two tensors", layer.name, key="precision")
    return operands[0] * operands[1] * precision.pj_per_bit_product


def fitting_sets(
    precision: Precision, layer: Layer, level: StorageLevel, sets: Iterable[tuple[str, ...]]
) -> list[tuple[str, ...]]:
    """Of the sets of tensors those of which a level can hold an element each; outputs as partial sums where
    the layer adds up products."""
    bits, sums = _bits(precision, layer)
    if any(layer.sizes[dim] > 1 for dim in layer.summed):
        bits[layer.output.name] = sums
    usable = level.usable_words * level.word_bits
    return [chosen for chosen in sets if sum(bits[name] for name in chosen) <= usable]


def tile_bits(precision: Precision, layer: Layer, tile: ReadOnlyDict[str, int], tensor: Tensor) -> Fraction:
    """Bits of the tensor's tile, at least: outputs as finished ones."""
    return width_of(precision, layer, tensor).per_element * tensor.words(tile)


def cheapest_in_words(architecture: Architecture, layer: Layer) -> tuple[Architecture, Layer]:
    """A machine and a layer whose elements are words, and of which no mapping costs more than here.

    Every element of a level is taken to be as narrow as its narrowest tensor, and finished. Then a word of
    that level is an element, and costs, fills and passes ports as its bits do, without rounding to blocks. So
    bounds for this machine are bounds for the architecture. Both are returned as they are where an element is
    a word already.
    """
    precision = architecture.precision
    if precision is None:
        return architecture, layer
    levels = architecture.levels
    if units_of(architecture, layer) is not None:
        bits, _ = _bits(precision, layer)
        narrowest = [
            min((bits[t.name] for t in layer.tensors if level.can_keep(t)), default=Fraction(level.word_bits))
            for level in levels
        ]
        levels = tuple(
            _per_element(level, float(width / level.word_bits))
            for level, width in zip(levels, narrowest, strict=True)
        )
    compute = replace(architecture.compute, energy_pj=mac_pj(architecture, layer))
    words = replace(architecture, levels=levels, compute=compute, precision=None)
    return words, replace(layer, bits=(), caches=())


def _per_element(level: StorageLevel, part: float) -> StorageLevel:
    """The level with elements that are each ``part`` of a word, rounded to its advantage."""
    cheaper = part / level.block_size * ROUNDING
    faster = 1 / (part * ROUNDING)
    return replace(
        _of_size(level, level.usable_words * faster),
        block_size=1,
        read_energy_pj=level.read_energy_pj * cheaper,
        write_energy_pj=level.write_energy_pj * cheaper,
        update_energy_pj=level.update_energy_pj * cheaper,
        read_bandwidth=None if level.read_bandwidth is None else level.read_bandwidth * faster,
        write_bandwidth=None if level.write_bandwidth is None else level.write_bandwidth * faster,
        shared_bandwidth=None if level.shared_bandwidth is None else level.shared_bandwidth * faster,
    )
