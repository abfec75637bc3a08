"""The one door to the cost model: what a mapping of a layer on an architecture costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.hardware.timing import Timing
from costmodel.mapping.counts.energy import access_energy_pj, leakage_energy_pj
from costmodel.mapping.counts.latency import bandwidth_cycles, level_cycles
from costmodel.mapping.counts.processing import PlacedCounts, processing_cycles
from costmodel.mapping.counts.traffic import Counts, nest_of, refuse_begun, tensor_traffic
from costmodel.mapping.counts.units import counts_in_units
from costmodel.mapping.element_bits import mac_pj, open_sums, stack_in_units, units_of
from costmodel.mapping.mapping import Mapping
from costmodel.mapping.timing.cycles import TimedCycles, timed_cycles
from costmodel.mapping.timing.walk import steps_level
from costmodel.mapping.uneven import AnyMapping, UnevenMapping, as_parts, violations
from costmodel.workload.network import Layer


@dataclass(frozen=True)
class TensorTraffic:
    """What one tensor asks of one storage level.

    ``reads``, ``fills`` and ``updates`` are words (elements, of whatever width) PER INSTANCE over the
    whole layer, ``instances`` those in use. ``tile_words`` is the tile that one instance holds,
    ``partition_words`` the part of the whole tensor that it is responsible for. ``energy_pj`` is that of all
    instances.
    """

    reads: int
    fills: int
    updates: int
    instances: int
    tile_words: int
    partition_words: int
    energy_pj: float


@dataclass(frozen=True)
class LevelEvaluation:
    """One storage level: its energy, the tensors kept there, and how far it slows the layer down.

    ``cycles``: those of the layer if the MAC units and this level's bandwidth were all that takes time. So it
    is never below the compute cycles. On a machine with timing the layer's cycles come from elsewhere.
    """

    name: str
    cycles: int
    leakage_pj: float
    energy_pj: float
    """All instances, leakage included."""
    tensors: dict[str, TensorTraffic]


@dataclass(frozen=True)
class Evaluation:
    """What a mapping costs; ``levels`` are innermost first.

    ``utilization``: the layer's MACs over those that all MAC units of the architecture, used or not, could do
    in ``cycles``; 0 to 1.
    """

    cycles: int
    compute_cycles: int
    macs: int
    energy_pj: float
    """MACs, storage accesses and leakage."""
    mac_energy_pj: float
    utilization: float
    levels: tuple[LevelEvaluation, ...]
    timed: TimedCycles | None = None
    """Where the cycles are from, on a machine with timing; None: from bandwidths alone."""

    @property
    def edp_pj_cycles(self) -> float:
        """The energy-delay product."""
        return self.energy_pj * self.cycles

    def to_json(self) -> dict[str, Any]:
        """Plain data: the fields, ``edp_pj_cycles`` and the levels innermost first."""
        data = asdict(self)
        data["levels"] = list(data["levels"])
        del data["timed"]
        if self.timed is not None:
            data["timed"] = self.timed.to_json()
        return data | {"edp_pj_cycles": self.edp_pj_cycles}


def evaluate(architecture: Architecture, layer: Layer, mapping: AnyMapping) -> Evaluation:
    """What ``mapping`` of ``layer`` costs on ``architecture``, counted as Timeloop counts it.

    The one difference: neighbouring instances pass no words to one another (Timeloop's link transfers).

    On an architecture with timing the accesses are the same, and the cycles are the timed ones
    (:mod:`costmodel.mapping.timing`). Tensors lie in memory as the mapping says, else as the machine's file
    does. Where the timing describes transfers, they replace the outermost level's bandwidth. Where the
    timing's steps are the loops of a level further inside, such as the buffer of a chip's tile, the cycles
    are the larger of the timed ones and of what the bandwidths from that level outwards ask for.

    Where the architecture has a precision, energies, bandwidths and capacities count bits
    (:mod:`costmodel.mapping.element_bits`), and the counts of tensors are elements. An uneven mapping is
    counted part by part; the parts of a level use the level's ports together, and the level leaks once.

    Raises InputError listing the violations of a mapping that is not one of this layer and architecture, and
    for a layer that adds to sums of before where these are not counted (:func:`.refuse_begun`).
    """
    if reasons := violations(architecture, layer, mapping):
        where = f"mapping of {layer.name} on {architecture.name}"
        raise InputError(where, "a mapping without violations", "; ".join(reasons))
    refuse_begun(architecture, layer)
    architecture = architecture.in_layouts(mapping.layouts)
    # An even mapping has a part a level; it is not wrapped as an uneven one, which would check the obvious.
    nest, hardware_of = (
        (mapping.nest, mapping.part_levels)
        if isinstance(mapping, UnevenMapping)
        else (mapping, range(len(architecture.levels)))
    )
    compute_cycles, words = nest_counts(layer, nest, hardware_of)
    # what bandwidths and energies count: words, or units of bits where the architecture has a precision
    in_units = _in_units(architecture, layer, nest, hardware_of, words)
    timed = None
    total_cycles = None
    if architecture.timing is not None:
        timing, source = architecture.timing, steps_level(architecture)
        inner = _inner_cycles(architecture, timing, compute_cycles, in_units)
        processing = None
        if timing.processing is not None:
            counted = PlacedCounts(nest, hardware_of, in_units, compute_cycles, source)
            processing = processing_cycles(architecture, timing.processing, layer, counted)
            inner = max(inner, processing.cycles)
        timed = replace(timed_cycles(architecture, timing, layer, mapping, inner), processing=processing)
        total_cycles = max(timed.cycles, _outer_cycles(architecture, in_units))
    instances = [
        nest.utilized_instances[hardware_of.index(index)] for index in range(len(architecture.levels))
    ]
    found = evaluate_counts(architecture, layer, compute_cycles, words, instances, in_units, total_cycles)
    return found if timed is None else replace(found, timed=timed)


def evaluate_counts(
    architecture: Architecture,
    layer: Layer,
    compute_cycles: int,
    words: Sequence[dict[str, Counts]],
    instances: Sequence[int],
    in_units: Sequence[dict[str, Counts]] | None = None,
    total_cycles: int | None = None,
) -> Evaluation:
    """The evaluation that follows from counted accesses; its ``timed`` is None.

    ``words``: per level, innermost first, the counts of every tensor there; ``in_units``: the same in units
    of :func:`.stack_in_units`, None where these are words; ``instances``: per level those in use.
    ``total_cycles``: how long it takes, which only the caller knows on an architecture with timing; None: as
    long as MACs and bandwidths need.
    """
    stack, in_units = stack_in_units(architecture, layer), words if in_units is None else in_units
    cycles = [
        level_cycles(level, compute_cycles, counts.values())
        for level, counts in zip(stack.levels, in_units, strict=True)
    ]
    total = max(cycles) if total_cycles is None else total_cycles
    levels = tuple(
        _level(hardware, words[index], in_units[index], instances[index], cycles[index], total)
        for index, hardware in enumerate(stack.levels)
    )
    mac_energy = layer.macs * mac_pj(architecture, layer)
    return Evaluation(
        cycles=total,
        compute_cycles=compute_cycles,
        macs=layer.macs,
        energy_pj=mac_energy + sum(level.energy_pj for level in levels),
        mac_energy_pj=mac_energy,
        utilization=layer.macs / architecture.mac_units / total,
        levels=levels,
    )


def _inner_cycles(
    architecture: Architecture, timing: Timing, compute_cycles: int, in_units: list[dict[str, Counts]]
) -> float:
    """Cycles by what the timing does not describe: the bandwidths of the levels inside its transfers, and
    the MAC units where it describes no array."""
    described = timing.load is not None and timing.store is not None
    inside = steps_level(architecture) + (0 if described else 1)
    levels = list(zip(architecture.levels, in_units, strict=True))[:inside]
    macs = [float(compute_cycles)] if timing.array is None else [0.0]
    return max(macs + [bandwidth_cycles(level, counts.values()) for level, counts in levels])


def _outer_cycles(architecture: Architecture, in_units: list[dict[str, Counts]]) -> int:
    """Cycles that bandwidths ask for from the level of the steps outwards, if any level lies outside it.

    What passes between the steps' level and the next outside is no part of the steps, which see only its
    inner side. The bandwidth of that level serves both.
    """
    first = steps_level(architecture)
    if first == len(architecture.levels) - 1:
        return 0
    outer = zip(architecture.levels[first:], in_units[first:], strict=True)
    return max(ceil(bandwidth_cycles(level, counts.values())) for level, counts in outer)


def nest_counts(
    layer: Layer, nest: Mapping, hardware_of: Sequence[int]
) -> tuple[int, list[dict[str, Counts]]]:
    """The compute cycles, and per hardware level the counts of every tensor kept there.

    ``hardware_of`` is the hardware level (its index) of every part of ``nest``.
    """
    placed = nest_of(nest)
    kept: list[dict[str, Counts]] = [{} for _ in range(hardware_of[-1] + 1)]
    for tensor in layer.tensors:
        for level, counts in zip(hardware_of, tensor_traffic(tensor, nest, placed), strict=True):
            if counts is not None:
                kept[level][tensor.name] = counts
    return placed.compute_cycles, kept


def moved_in_units(architecture: Architecture, layer: Layer, mapping: AnyMapping) -> list[dict[str, Counts]]:
    """What the tensors move at every level, in the units of :func:`.stack_in_units`; ``mapping`` is right."""
    parts = as_parts(mapping)
    _, words = nest_counts(layer, parts.nest, parts.part_levels)
    return _in_units(architecture, layer, parts.nest, parts.part_levels, words)


def _in_units(
    architecture: Architecture,
    layer: Layer,
    nest: Mapping,
    hardware_of: Sequence[int],
    words: list[dict[str, Counts]],
) -> list[dict[str, Counts]]:
    """The counts in units; ``words`` itself where elements are words."""
    units = units_of(architecture, layer)
    if units is None:
        return words
    sums = open_sums(layer, nest.levels)
    in_units: list[dict[str, Counts]] = [{} for _ in words]
    for part, level in enumerate(hardware_of):
        for name in nest.levels[part].keep:
            counts = words[level][name]
            in_units[level][name] = counts_in_units(layer.tensor(name), counts, units[level], sums[part])
    # in the tensors' order: floating-point sums are those of the other counters
    return [{name: here[name] for name in level} for level, here in zip(words, in_units, strict=True)]


def _level(
    hardware: StorageLevel,
    words: dict[str, Counts],
    in_units: dict[str, Counts],
    instances: int,
    cycles: int,
    total_cycles: int,
) -> LevelEvaluation:
    """One level: its tensors' ``words``, and what they cost, from the same in units (``in_units``)."""
    tensors = {
        name: TensorTraffic(
            counts.reads,
            counts.fills,
            counts.updates,
            instances,
            counts.tile_words,
            counts.partition_words,
            access_energy_pj(hardware, in_units[name], instances),
        )
        for name, counts in words.items()
    }
    leakage = leakage_energy_pj(hardware, total_cycles, instances)
    energy = leakage + sum(traffic.energy_pj for traffic in tensors.values())
    return LevelEvaluation(hardware.name, cycles, leakage, energy, tensors)
