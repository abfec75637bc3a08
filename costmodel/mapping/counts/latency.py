"""Cycles that a level's bandwidth asks for (item 11 of the list in
``costmodel/mapping/counts/traffic.py``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil
from typing import Literal, Protocol

from costmodel.hardware.architecture import StorageLevel

Port = Literal["read", "write", "shared"]
"""Which of a level's bandwidths: that of reads, that of fills and updates, or that of both together."""


class Accesses(Protocol):
    """Words that a tensor moves, an instance of the level, over the whole layer."""

    @property
    def reads(self) -> int: ...
    @property
    def fills(self) -> int: ...
    @property
    def updates(self) -> int: ...


def level_cycles(level: StorageLevel, compute_cycles: int, counts: Iterable[Accesses]) -> int:
    """Cycles of the layer if MACs and this level's bandwidth were all that takes time: ``compute_cycles`` or
    more. ``counts`` are of the tensors kept."""
    slowdown = min((factor for _, factor in _slowdowns(level, compute_cycles, counts)), default=1.0)
    # in floating point as Timeloop does it: a demand that divides exactly can round up one cycle
    return ceil(compute_cycles / slowdown)


def bandwidth_cycles(level: StorageLevel, counts: Iterable[Accesses]) -> float:
    """Cycles that the level's slowest bandwidth needs for the words, whatever the MACs take; not rounded."""
    moved = list(counts)
    read = sum(tensor.reads for tensor in moved)
    written = sum(tensor.fills + tensor.updates for tensor in moved)
    ports = (
        (read, level.read_bandwidth),
        (written, level.write_bandwidth),
        (read + written, level.shared_bandwidth),
    )
    return max((words / bandwidth for words, bandwidth in ports if bandwidth is not None), default=0.0)


def slowest_port(level: StorageLevel, compute_cycles: int, counts: Iterable[Accesses]) -> Port | None:
    """The bandwidth that :func:`level_cycles` is due to; None where all of them keep up with the MACs."""
    found = list(_slowdowns(level, compute_cycles, counts))
    return min(found, key=lambda one: one[1])[0] if found else None


def _slowdowns(
    level: StorageLevel, compute_cycles: int, counts: Iterable[Accesses]
) -> Iterator[tuple[Port, float]]:
    """For each bandwidth that is too small, the fraction of the MACs' speed that it allows, below 1."""
    read_demand = write_demand = 0.0
    for tensor in counts:
        read_demand += tensor.reads / compute_cycles
        write_demand += (tensor.fills + tensor.updates) / compute_cycles
    ports: tuple[tuple[Port, float | None, float], ...] = (
        ("read", level.read_bandwidth, read_demand),
        ("write", level.write_bandwidth, write_demand),
        ("shared", level.shared_bandwidth, read_demand + write_demand),
    )
    for port, bandwidth, demand in ports:
        if bandwidth is not None and demand > bandwidth:
            yield port, bandwidth / demand
