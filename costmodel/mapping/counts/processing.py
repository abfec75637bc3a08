"""Cycles of an array of PEs with links of their own, exposed fills and accumulation (``timing:
processing:``)."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from costmodel.hardware.architecture import Architecture
from costmodel.hardware.processing_timing import ProcessingTiming, TensorLink
from costmodel.mapping.counts.traffic import Counts
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer, Role


@dataclass(frozen=True)
class ProcessingCycles:
    """Cycles that an array of PEs takes for a layer, by cause.

    MACs and accumulation take turns in a PE, so their cycles add up. Links work at the same time.
    """

    macs: float
    accumulation: float
    link: float
    """Cycles of the busiest link."""
    exposed_fills: float

    @property
    def cycles(self) -> float:
        """Cycles of the layer: the slower of PEs and busiest link, then the fills that nothing hides."""
        return max(self.macs + self.accumulation, self.link) + self.exposed_fills


@dataclass(frozen=True)
class PlacedCounts:
    """A mapping with its counts."""

    nest: Mapping
    """The mapping with a level for each of its parts; in an even mapping every level is one part."""
    hardware_of: Sequence[int]
    """For each part, innermost first, the index of the architecture's level that it belongs to."""
    kept: Sequence[ReadOnlyDict[str, Counts]]
    """For each level of the architecture, the counts of the tensors that it keeps, by their names."""
    compute_cycles: int
    """Cycles that the MACs take."""
    source: int = -1
    """The index of the level that exposed fills come from."""


def processing_cycles(
    architecture: Architecture, processing: ProcessingTiming, layer: Layer, counted: PlacedCounts
) -> ProcessingCycles:
    """The cycles of a mapping of ``layer`` that was counted on ``architecture``."""
    names = {tensor.role: tensor.name for tensor in layer.tensors}
    source = counted.kept[counted.source]
    return ProcessingCycles(
        macs=float(counted.compute_cycles),
        accumulation=processing.accumulate_cycles * sums_that_leave(layer, counted),
        link=max(
            (_link_cycles(architecture, link, names, counted) for link in processing.links), default=0.0
        ),
        exposed_fills=sum(
            source[names[role]].reads / bandwidth
            for role, bandwidth in processing.exposed_fills
            if names.get(role) in source
        ),
    )


def _link_cycles(
    architecture: Architecture, link: TensorLink, names: ReadOnlyDict[Role, str], counted: PlacedCounts
) -> float:
    """Cycles of a link's slower direction; 0 where its level does not keep the tensor."""
    counts = counted.kept[architecture.index(link.level)].get(names.get(link.role, ""))
    if counts is None:
        return 0.0
    # a first partial sum is a zero that comes in over the link, too
    inwards = counts.updates if link.role == "outputs" else counts.reads
    directions = ((inwards, link.read_bandwidth), (counts.updates, link.write_bandwidth))
    return max((words / bandwidth for words, bandwidth in directions if bandwidth is not None), default=0.0)


def sums_that_leave(layer: Layer, counted: PlacedCounts) -> float:
    """How many partial sums leave the innermost level that keeps outputs, for one instance of it.

    The next level outwards that keeps them takes each once, already added up over the PEs that make parts of
    it, and one instance of it serves as many of the inner ones as have other outputs.
    """
    output, levels = layer.output, counted.nest.levels
    keepers = [number for number, level in enumerate(levels) if output.name in level.keep]
    if len(keepers) < 2:
        return 0.0
    inner, outer = keepers[:2]
    served = prod(
        bound for level in levels[inner + 1 : outer + 1] for dim, bound in level.spatial if dim in output.dims
    )
    return counted.kept[counted.hardware_of[outer]][output.name].updates / served
