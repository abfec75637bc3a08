"""Cycles that a level's bandwidth asks for (item 11 of the list in ``tests/data/timeloop/README.md``)."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from costmodel.hardware.architecture import StorageLevel
from costmodel.mapping.traffic import Counts


def level_cycles(level: StorageLevel, compute_cycles: int, counts: Iterable[Counts]) -> int:
    """Cycles of the layer if only this level's bandwidth limited it; ``counts`` are of the tensors kept."""
    read_demand = write_demand = 0.0
    for tensor in counts:
        read_demand += tensor.reads / compute_cycles
        write_demand += (tensor.fills + tensor.updates) / compute_cycles
    slowdown = 1.0
    for bandwidth, demand in (
        (level.read_bandwidth, read_demand),
        (level.write_bandwidth, write_demand),
        (level.shared_bandwidth, read_demand + write_demand),
    ):
        if bandwidth is not None and demand > bandwidth:
            slowdown = min(slowdown, bandwidth / demand)
    # in floating point as Timeloop does it: a demand that divides exactly can round up one cycle
    return ceil(compute_cycles / slowdown)
