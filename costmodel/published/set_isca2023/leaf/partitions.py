"""Which partitions of a layer the released evaluator tries, in its order."""

from __future__ import annotations

from costmodel.published.set_isca2023.hardware import Platform
from costmodel.schedule.layer_graph.graph import NetworkLayer
from costmodel.schedule.leaf.partitions import Parts, factorizations, well_used


def admitted(layer: NetworkLayer, batch: int, tiles: int, platform: Platform) -> tuple[Parts, ...]:
    """Partitions among ``tiles`` that use them well enough; if none does, the one that uses them best.

    Large inputs must be cut, not copied: only cuts along B, H and W divide them, so these have a least number
    of parts together. That holds for convolutions and fully connected layers.
    """
    least = _least_input_parts(layer, batch, tiles, platform)
    cut = [parts for parts in factorizations(tiles) if parts[1] * parts[2] * parts[3] >= least]
    return well_used(layer.sizes(batch), cut, platform.least_partition_utilization)


def _least_input_parts(layer: NetworkLayer, batch: int, tiles: int, platform: Platform) -> int:
    """One part, and one more for each time that the inputs fill 80 % of all the tiles' buffers."""
    if layer.kind not in ("conv", "fc"):
        return 0
    counted_bytes = platform.tile.shared.size_bytes * tiles * 0.8
    return int(layer.input_elements(batch) / counted_bytes + 1)
