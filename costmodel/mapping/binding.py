"""What binds a mapping: the MAC units, a level's bandwidth, or a level's capacity.

Time is bound by one thing: the level whose bandwidth asks for most cycles, or the MAC units where every level
keeps up with them. On a machine with timing it is the cause without which the fewest cycles are left.
Capacity binds beside it. A level is full where its tiles could not take in one more factor of any temporal
loop outside it: a larger memory would allow larger tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, isinf

from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.mapping.counts.latency import Accesses, Port, bandwidth_cycles, level_cycles, slowest_port
from costmodel.mapping.element_bits import stack_in_units, units_of
from costmodel.mapping.evaluate import Evaluation, moved_in_units
from costmodel.mapping.uneven import AnyMapping, as_parts
from costmodel.workload.network import Layer

MAC_UNITS = "MAC units"


@dataclass(frozen=True)
class TimeBinding:
    """What a layer's cycles are due to.

    ``cause``: MAC_UNITS, a bandwidth such as ``DRAM read bandwidth``, or of a machine with timing one of the
    causes of :attr:`costmodel.mapping.timing.cycles.TimedCycles.without`. ``without``: by cause, the cycles
    that would be left if this cause took no time. Without timing the MAC units are always among the causes,
    and so is every port (read, write or shared bandwidth of one level) that does not keep up with them.
    """

    cause: str
    without: dict[str, int]


def time_binding(
    architecture: Architecture, layer: Layer, mapping: AnyMapping, evaluation: Evaluation
) -> TimeBinding:
    """What binds the time of a mapping of ``layer`` with this ``evaluation``."""
    if evaluation.timed is not None:
        without = evaluation.timed.without
        # Parts of such a machine overlap, so several may look equally busy. What binds is what helps most if
        # it goes.
        return TimeBinding(min(without, key=without.__getitem__), without)
    # in words, or in units of bits where elements are no words: so are the bandwidths of the stack
    moved = [list(level.values()) for level in moved_in_units(architecture, layer, mapping)]
    return bandwidth_binding(stack_in_units(architecture, layer).levels, moved, evaluation)


def bandwidth_binding(
    stack: Sequence[StorageLevel], moved: Sequence[Sequence[Accesses]], evaluation: Evaluation
) -> TimeBinding:
    """What binds where the MAC units and bandwidths decide: of a ``stack`` of levels, innermost first, that
    each move so much."""
    cycles = [level.cycles for level in evaluation.levels]
    # Without the MAC units the slowest bandwidth would decide.
    least = max(map(bandwidth_cycles, stack, moved), default=0.0)
    without = {MAC_UNITS: max(1, ceil(least))}
    cause, most = MAC_UNITS, evaluation.compute_cycles
    for index, level in enumerate(stack):
        port = slowest_port(level, evaluation.compute_cycles, moved[index])
        if port is None:
            continue
        # Without one of its ports a level may still be bound by another one, so only that port is freed.
        free = replace(
            level,
            read_bandwidth=None if port == "read" else level.read_bandwidth,
            write_bandwidth=None if port == "write" else level.write_bandwidth,
            shared_bandwidth=None if port == "shared" else level.shared_bandwidth,
        )
        others = cycles[:index] + cycles[index + 1 :]
        name = f"{level.name} {port} bandwidth"
        without[name] = max(level_cycles(free, evaluation.compute_cycles, moved[index]), *others)
        if cycles[index] > most:
            cause, most = name, cycles[index]
    return TimeBinding(cause, without)


@dataclass(frozen=True)
class LevelBinding:
    """What binds one storage level.

    ``port``: the bandwidth that asks for more cycles than the MAC units; None if none does. ``words``: what
    the tiles of one instance take together, in words of the level, the last one perhaps in part.
    ``usable_words``: what they may take; None without a limit.
    """

    port: Port | None
    words: int
    usable_words: float | None
    full: bool


def level_bindings(
    architecture: Architecture, layer: Layer, mapping: AnyMapping, evaluation: Evaluation
) -> tuple[LevelBinding, ...]:
    """What binds each level, innermost first; ``evaluation`` is that of the mapping."""
    held = _tiles(architecture, layer, mapping)
    units = units_of(architecture, layer)
    moved = moved_in_units(architecture, layer, mapping)
    found = []
    for index, (hardware, stack) in enumerate(
        zip(architecture.levels, stack_in_units(architecture, layer).levels, strict=True)
    ):
        port = slowest_port(stack, evaluation.compute_cycles, moved[index].values())
        usable = None if isinf(hardware.usable_words) else hardware.usable_words
        taken = sum(counts.tile_words for counts in moved[index].values())
        words = -(-taken // units[index].word) if units else taken
        # what the tile of each tensor takes is its words times what one of them takes
        each = {
            name: counts.tile_words // evaluation.levels[index].tensors[name].tile_words
            for name, counts in moved[index].items()
        }
        full = usable is not None and bool(held[index])
        full = full and _full(layer, mapping, index, held[index], each, stack.usable_words)
        found.append(LevelBinding(port, words, usable, full))
    return tuple(found)


def _tiles(
    architecture: Architecture, layer: Layer, mapping: AnyMapping
) -> list[dict[str, tuple[dict[str, int], bool]]]:
    """Per level, of each tensor kept there: what its tile covers, and whether the outermost part keeps it."""
    parts = as_parts(mapping)
    held: list[dict[str, tuple[dict[str, int], bool]]] = [{} for _ in architecture.levels]
    for number, level in enumerate(parts.part_levels):
        outermost = number + 1 == len(parts.part_levels) or parts.part_levels[number + 1] != level
        for name in parts.nest.levels[number].keep:
            held[level][name] = parts.tiles[number], outermost
    return held


def _full(
    layer: Layer,
    mapping: AnyMapping,
    index: int,
    held: dict[str, tuple[dict[str, int], bool]],
    each: dict[str, int],
    usable: float,
) -> bool:
    """Whether no factor of a temporal loop outside the level would still fit into its tiles.

    ``each``: units of an element, by tensor; ``usable`` is in units, too. Tiles of parts
    inside the outermost one stay as they are: a loop joins the level on the outside.
    """
    # The smallest factor by which a tile can grow is a prime of a loop outside it: if none of these fits,
    # nothing does.
    parts = as_parts(mapping)
    outside = {
        (dim, _least_factor(bound))
        for level, part in zip(parts.part_levels, parts.nest.levels, strict=True)
        if level > index
        for dim, bound in part.temporal
    }
    tensors = {tensor.name: tensor for tensor in layer.tensors}
    for dim, factor in outside:
        words = 0
        for name, (tile, outermost) in held.items():
            grown = {**tile, dim: tile.get(dim, 1) * factor} if outermost else tile
            words += tensors[name].words(grown) * each[name]
        if words <= usable:
            return False
    return bool(outside)


def _least_factor(bound: int) -> int:
    """The smallest prime factor."""
    divisor = 2
    while divisor * divisor <= bound:
        if bound % divisor == 0:
            return divisor
        divisor += 1
    return bound
