"""Energy of accesses and leakage in pJ (item 10 of the semantics in
``costmodel/mapping/counts/traffic.py``)."""

from __future__ import annotations

from costmodel.hardware.architecture import StorageLevel
from costmodel.mapping.counts.traffic import Counts


def access_energy_pj(level: StorageLevel, counts: Counts, instances: int) -> float:
    """Energy of one tensor's accesses in all ``instances``; blocks are rounded up per kind and instance."""
    block = level.block_size
    return instances * (
        -(-counts.reads // block) * level.read_energy_pj
        + -(-counts.fills // block) * level.write_energy_pj
        + -(-counts.updates // block) * level.update_energy_pj
    )


def leakage_energy_pj(level: StorageLevel, cycles: int, instances: int) -> float:
    """Leakage of the instances in use over the whole run; unused instances are taken as gated off."""
    return level.leakage_pj_per_cycle * cycles * instances
